"""How `SubspaceMixture` is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import FitStrategy, Run
from ...emissions._dense_rows import read_dense
from ...inference._chains import Chain
from ...inference._draw_store import DrawStore, evenly_spaced
from ...random._keys import Purpose, subkey
from ...utils._threads import Workers
from .._densities import FamilyRows, label_rows
from .._memberships.finite import DirichletWeights, PositionDraws
from .initial_partitions import start_partitions
from .model import SingleSubspaceModel, SubspaceModel
from .posterior_draws import draw_of_chain, estimate_subspaces
from .priors import bound_family


class SubspacesFit(FitStrategy):
    """The fit to all rows, from the best of several initial partitions."""

    def __init__(self, mixture: Any, X: Any, run: Run):
        super().__init__(run.sampler)
        self.mixture = mixture
        self.run = run
        self.rows = read_dense(mixture, X, reset=True)
        self.n_rows = self.rows.n_rows
        if self.n_rows < mixture.n_components:
            raise ValueError(
                f"n_components={mixture.n_components} subspaces need as many rows, but X has n_samples={self.n_rows}."
            )
        self.family = bound_family(mixture, self.rows.values)

    def model(self, workers: Workers) -> SubspaceModel:
        """The model of the centred rows, without initial partitions."""
        self.workers = workers
        self.centred = self.rows.values - self.family.location
        return self._model([])

    def prepare(self, model: SubspaceModel, workers: Workers) -> SubspaceModel:
        """The model with its initial partitions."""
        mixture, schedule = self.mixture, self.run.schedule
        key = subkey(self.run.key, Purpose.START)
        model = self._model(start_partitions(self.centred, self.family, mixture.init, mixture.n_init, key))
        _, (weights, subspaces) = model.beginnings[0]
        self.n_stored = min(mixture.n_stored_rows, self.n_rows)
        draw = weights, *subspaces.moved(self.family.location)  # draws have about this size
        draw_bytes = sum(array.nbytes for array in draw) + 4 * self.n_stored
        # The last draw is kept even if it is too large, because the estimates are computed from draws.
        store = DrawStore.within(mixture.max_draws_bytes, mixture.n_chains * draw_bytes)
        self.stride = store.stride(schedule.n_draws) or schedule.n_draws
        return model

    def record(self, chain: Chain) -> dict[str, Any]:
        """Every `stride`-th draw, counted from the last, with the labels of the first rows."""
        if not chain.is_whole_draw(self.stride):
            return {}
        return {"_draw": draw_of_chain(chain), "_labels": chain.state.latents[: self.n_stored]}

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's draws, in one order of components, and the most probable component of each row."""
        found = {**estimate_subspaces(chains), "_family": self.family, "centre_prior_mean_": self.family.location}
        if self.mixture.n_components == 1:
            return {**found, "labels_": np.zeros(self.n_rows, np.int64)}
        draws = PositionDraws(evenly_spaced(found["_draws"], self.mixture.n_predictive_draws))
        rows = FamilyRows(self.family, self.rows)
        return {**found, "labels_": label_rows(draws, rows, self.family.n_components, self.workers)[0]}

    def _model(self, starts: list) -> SubspaceModel:
        of_rows = SingleSubspaceModel if self.mixture.n_components == 1 else SubspaceModel
        weights = DirichletWeights.of_parameter(self.mixture.weight_prior, self.family.n_components)
        return of_rows(self.centred, self.family, weights, starts, self.workers, self.run.schedule.burn_in)
