"""How the samplers of orthonormal topics are run: what they see, keep, learn and leave."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..inference._driver import Chain, best_chain
from ..samplers import BaseSampler, ColumnGibbs
from ..utils._threads import Workers
from ._orthogonal_model import OrthogonalModel, nearest_frame
from ._orthogonal_passes import ConditionalFrames, FramePasses
from ._orthogonal_setup import OrthogonalSetup
from ._orthogonal_sums import add_by_number, as_sums
from ._spherical_adapt import adapter
from ._spherical_passes import SphericalMinibatchPasses, add_topics, record_draw
from ._spherical_targets import MinibatchSAM


class OrthogonalPlan:
    """Sweeps over all documents, or steps by minibatches."""

    def __init__(
        self,
        sampler: Any,
        setup: OrthogonalSetup,
        stride: int,
        *,
        batch_size: int | None,
        n_draws: int,
        n_size_moves: int,
        burn_in: int,
    ):
        self.setup = setup
        self.stride = stride
        self.sampler: Any
        if isinstance(sampler, ColumnGibbs):
            self.sampler = FramePasses(sampler, n_draws, burn_in, n_size_moves, setup.log_prior)
            batch_size = None
        else:
            self.sampler = SphericalMinibatchPasses(sampler, batch_size, n_draws, burn_in)
        scaled = not isinstance(sampler, ColumnGibbs)
        self.adapt = adapter((setup.is_learned, False, False), scaled, burn_in, batch_size)
        self.add = add_topics if setup.log_prior is None else add_by_number

    def model(self, workers: Workers) -> OrthogonalModel:
        """What the passes ask."""
        return self.setup.model(workers)

    @staticmethod
    def target(sampler: BaseSampler, model: OrthogonalModel) -> Any:
        """What the sampler itself asks."""
        if isinstance(sampler, ColumnGibbs):
            return ConditionalFrames(model, np.empty((0, 1, model.n_components)))
        return MinibatchSAM(model, model.init_chains(0), np.uint64(0), None, 1, True)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """A draw, with its number of topics where that is inferred."""
        draw = record_draw(chain, self.stride)
        if self.setup.log_prior is not None:
            draw["n_components"] = np.array(len(chain.state.statistics.topics))
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """What inference needs, from wherever the chains stand: the best one's mean topics, for its modal number."""
        best = best_chain(chains)
        sums = as_sums(*chains[best].estimate())
        total, n_passes = sums.by_number[sums.modal]
        lengths = np.sqrt(np.einsum("kv,kv->k", total, total))
        return {
            "best_chain_": best,
            "components_": nearest_frame(total),
            "resultant_lengths_": lengths / n_passes,
            "n_components_": sums.modal,
            "n_components_posterior_": sums.probabilities,
            "doc_topic_prior_": np.full(sums.modal, self.setup.alpha),
            "document_concentration_": chains[best].model.concentrations.document,
        }
