"""How a Dirichlet process mixture is fitted to all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import FitStrategy, Run, best_chain
from ...emissions._clusters.base import Clusters
from ...emissions._clusters.statistics import by_size, occupied
from ...inference._chains import Chain
from ...metrics._partitions import compact_labels
from ...samplers import BaseSampler
from ...utils._threads import Workers
from .cluster_summary import find_typical_rows
from .model import DPModel, Start, build_model
from .point_estimate import partition_attributes, point_estimate
from .posterior_draws import arrays_of, draw_store, partition_draw


class PartitionFit(FitStrategy):
    """The fit with samplers of labels and stick-breaking weights given all rows, such as `Slice`."""

    def __init__(
        self,
        mixture: Any,
        run: Run,
        clusters: Clusters,
        start: Start,
        settled: dict[str, Any],
        passes: BaseSampler | None = None,
    ):
        super().__init__(run.sampler, passes)
        self.mixture = mixture
        self.clusters = clusters
        self.n_rows = clusters.n_rows
        self.start = start
        self.settled = {**settled, "_key": run.key}
        self.stride = max(1, -(-run.schedule.n_draws // max(1, draw_store(mixture, clusters).max_draws)))

    def model(self, workers: Workers) -> DPModel:
        """The model of all rows."""
        return build_model(self.mixture, self.clusters, self.start, workers)

    def record(self, chain: Chain) -> dict[str, Any]:
        """The number of components, the concentration and, in some draws, all parameters and labels."""
        return self._record(chain, chain.is_whole_draw(self.stride))

    def _record(self, chain: Chain, is_whole: bool) -> dict[str, Any]:
        state = chain.state
        n_components, concentration = len(occupied(state.statistics)), self._concentration(state)
        record = {"n_components": np.array(n_components), "concentration": np.array(concentration)}
        if is_whole:
            draw = chain.sampler.parameters(chain.model, state)
            arrays, sticks = arrays_of(draw, chain.model.clusters), self._sticks(chain)
            place_of = np.zeros(sticks.max() + 1, np.int32)
            place_of[sticks] = np.arange(len(sticks))
            record.update(arrays, labels=place_of[state.latents], _draw=self._predictive(state, draw))
        return record

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, and the partition of the best chain's last pass."""
        records = [draw for chain in chains for draw in chain.draws if "_draw" in draw]
        records = records or [self._record(chain, True) for chain in chains]
        best = chains[best_chain(chains)]
        labels, concentration = compact_labels(best.state.latents), self._concentration(best.state)
        fitted = {**self.settled, "_draws": [record["_draw"] for record in records]}
        return {**fitted, **partition_attributes(best.model, labels, concentration)}

    def finish(self, fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
        """The partition nearest to all draws, and its typical rows."""
        nearest = point_estimate(fitted, model, workers)
        final = {**fitted, **nearest}
        rows = find_typical_rows(final["_summary"], model.clusters, final["labels_"], workers)
        return {**nearest, "typical_rows_": rows}

    def _concentration(self, state: Any) -> float:
        """The concentration in a state."""
        return state.position

    def _sticks(self, chain: Chain) -> np.ndarray:
        """The stick of each component of a draw."""
        return by_size(chain.state.statistics)

    def _predictive(self, state: Any, draw: Any) -> Any:
        """What a draw keeps for predictions.

        Given exact labels the parameters can be integrated out, which has a lower variance than a draw of them.
        """
        return partition_draw(state.statistics, draw.concentration)
