"""From the chains of a mixture to its fitted attributes: draws, the partition nearest to all, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inference._chains import Chain, best_chain
from ...metrics._partitions import compact_labels, point_partition
from ...samplers import State
from ...utils._threads import Workers
from .cluster_counts import MixtureCounts
from .model import DPModel
from .posterior_draws import CountedDraw, counted
from .stochastic_slice import StochasticSlice

_MAX_PARTITIONS = 200  # drawn partitions that the point partition is compared with


def record_mixture(chain: Chain, stride: int) -> dict[str, Any]:
    """A draw: its size and concentration and, every `stride`-th time counted from the last, all of it."""
    state = chain.state
    counts: MixtureCounts = state.statistics
    record: dict[str, Any] = {
        "n_components": np.array(len(counts.occupied)),
        "concentration": np.array(_concentration_of(state)),
    }
    if chain.is_whole_draw(stride):
        draw = chain.sampler.parameters(chain.model, state)
        record.update(draw.arrays(), labels=state.latents.copy())
        # Where labels are drawn exactly, what they leave to be integrated out says more than a draw of it.
        record["_draw"] = draw if isinstance(chain.sampler, StochasticSlice) else counted(counts, draw.concentration)
    return record


def _concentration_of(state: State) -> float:
    return getattr(state.position, "concentration", state.position)


def estimate_mixture(chains: list[Chain]) -> dict[str, Any]:
    """What inference needs, from wherever the chains stand: all draws, and the best chain's partition."""
    records: list[dict[str, Any]] = [draw for chain in chains for draw in chain.draws if "_draw" in draw]
    best = chains[best_chain(chains)]
    draws = [record["_draw"] for record in records or [record_mixture(chain, 1) for chain in chains]]
    states = [chain.state for chain in chains] if isinstance(best.sampler, StochasticSlice) else None
    fitted = {"_draws": draws, "_states": states, "_stream": None, "n_batch_iter_": 0}
    return {**fitted, **_partition(best.model, compact_labels(best.state.latents), _concentration_of(best.state))}


def point_estimate(fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
    """Attributes of the point partition, which minimises the expected distance to the draws; empty without draws.

    Its number of components is at most the median of the draws. Without this limit, each row that shares its component
    with no other row in half of the draws would be a separate component, and there could be more components than in any
    draw.
    """
    posterior = fitted["_posterior"]
    draws = posterior.get("labels")
    if draws is None or draws.shape[1] == 0:
        return {}
    labels = draws.reshape(-1, model.n_rows)
    evenly = np.linspace(0, len(labels) - 1, min(len(labels), _MAX_PARTITIONS)).astype(int)
    most = int(np.median(posterior["n_components"]))
    nearest = point_partition(labels[np.unique(evenly)], max_components=most, n_jobs=workers.n_workers)
    given = model.concentration
    return _partition(model, nearest, float(posterior["concentration"].mean()) if given is None else given)


def _partition(model: DPModel, labels: np.ndarray, concentration: float) -> dict[str, Any]:
    return {"labels_": labels, **summarise(counted(model.count(labels.astype(np.int32)), concentration))}


def summarise(summary: CountedDraw) -> dict[str, Any]:
    concentration = float(summary.concentration)
    return {"_summary": summary, "n_components_": len(summary.sizes), "concentration_": concentration}
