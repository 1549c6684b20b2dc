"""How `SubspaceMixture` learns from minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import Minibatch, Run, StatisticsStream
from ...utils._threads import Workers
from .._memberships import Position
from .family import check_sizes
from .fit_strategy import SubspacesFit, summarise_subspaces
from .model import MOST_FEATURES_OF_SCATTERS
from .moments import StreamMoments


def _moments_of_draw(draw: Position, n_rows: int) -> StreamMoments:
    """The moments that rows of these components have on average."""
    scatters = []
    for k, (weight, noise) in enumerate(zip(draw.weights, draw.parameters.noise, strict=True)):
        basis = draw.parameters.basis(k)
        excess = 1.0 / draw.parameters.ratios[k, : len(basis)] - 1.0
        scatters.append(weight / noise * (np.eye(basis.shape[1]) + (basis.T * excess) @ basis))
    return StreamMoments(draw.weights, draw.parameters.centres, np.array(scatters), float(n_rows))


class SubspaceStream(StatisticsStream):
    """The update by one minibatch: its labels, moments of all rows so far, and subspaces given these."""

    def __init__(self, mixture: Any, X: Any, batch: Minibatch):
        super().__init__(batch)
        run = Run(batch.sampler, batch.key, mixture._schedule(batch.sampler))
        self.fit = SubspacesFit(mixture, X, run, None if batch.is_first else mixture._family)
        self.mixture, self.family = mixture, self.fit.family
        if self.family.n_features > MOST_FEATURES_OF_SCATTERS:
            raise ValueError(
                "partial_fit stores a matrix of n_features x n_features for each component, and so supports at most "
                f"{MOST_FEATURES_OF_SCATTERS} features, not {self.family.n_features}: use fit."
            )
        if not batch.is_first:
            check_sizes(self.fit.rows.values)
            weights, subspaces = mixture._draws[-1]
            position = Position(weights, subspaces.moved(-self.family.location))
            stored = vars(mixture).get("_moments")
            self.before = stored or _moments_of_draw(position, len(mixture.labels_)), position

    def model(self, workers: Workers) -> Any:
        """The model of the minibatch."""
        return self.fit.model(workers)

    def advance(self, model: Any, workers: Workers) -> dict[str, Any]:
        """The moments, and summaries of the draws in the second half of the stream."""
        batch, mixture = self.batch, self.mixture
        model = self.fit.prepare(model, workers) if batch.is_first else model
        moments, (weights, subspaces) = self.step(model).statistics
        earlier = mixture._draws if batch.n_batches else []
        n_kept = min(mixture.n_predictive_draws, 1 + batch.n_batches // 2)
        draws = [*earlier, Position(weights, subspaces.moved(self.family.location))][-n_kept:]
        return {
            "best_chain_": 0,
            "centre_prior_mean_": self.family.location,
            "_draws": draws,
            "_chains": [[] for _ in range(mixture.n_chains)],
            "_whole_draws": np.empty(0, np.int64),
            "_family": self.family,
            "_moments": moments,
            **summarise_subspaces(draws, self.family.max_dimension),
        }
