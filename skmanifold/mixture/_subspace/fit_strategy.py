"""How `SubspaceMixture` is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import FitStrategy, Run
from ...inference._chains import Chain
from ...inference._draw_store import DrawStore
from ...random._keys import Purpose, subkey
from ...utils._threads import Workers
from ...utils._validation import validate_data
from .inference import average_log_terms, evenly_spaced, for_kernels
from .initial_partitions import start_partitions
from .model import SingleSubspaceModel, SubspaceModel
from .posterior_draws import estimate_subspaces, record_subspaces
from .priors import set_priors


class SubspacesFit(FitStrategy):
    """The fit to all rows, from the best of several initial partitions."""

    def __init__(self, mixture: Any, X: Any, run: Run):
        super().__init__(run.sampler)
        self.mixture = mixture
        self.run = run
        self.rows = for_kernels(validate_data(mixture, X, dtype=np.float64))
        self.n_rows = len(self.rows)
        if self.n_rows < mixture.n_components:
            raise ValueError(
                f"n_components={mixture.n_components} subspaces need as many rows, but X has n_samples={self.n_rows}."
            )
        self.priors = set_priors(mixture, self.rows)

    def model(self, workers: Workers) -> SubspaceModel:
        """The model of the centred rows, without initial partitions."""
        self.workers = workers
        self.centred = self.rows - self.priors.location
        return self._model([])

    def prepare(self, model: SubspaceModel, workers: Workers) -> SubspaceModel:
        """The model with its initial partitions."""
        mixture, schedule = self.mixture, self.run.schedule
        key = subkey(self.run.key, Purpose.START)
        model = self._model(start_partitions(self.centred, self.priors, mixture.init, mixture.n_init, key))
        _, subspaces = model.beginnings[0]
        self.n_stored = min(mixture.n_stored_rows, self.n_rows)
        draw_bytes = mixture.n_chains * (subspaces.compact().nbytes + 4 * self.n_stored)  # draws have about this size
        # The last draw is kept even if it is too large, because the estimates are computed from draws.
        store = DrawStore.within(mixture.max_draws_bytes, draw_bytes)
        self.stride = store.stride(schedule.n_draws) or schedule.n_draws
        return model

    def record(self, chain: Chain) -> dict[str, Any]:
        """A draw of the parameters."""
        return record_subspaces(chain, self.stride, self.n_stored)

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's draws, in one order of components, and the most probable component of each row."""
        found = {**estimate_subspaces(chains), "_priors": self.priors, "centre_prior_mean_": self.priors.location}
        if self.mixture.n_components == 1:
            return {**found, "labels_": np.zeros(self.n_rows, np.int64)}
        draws = evenly_spaced(found["_draws"], self.mixture.n_predictive_draws)
        return {**found, "labels_": average_log_terms(self.rows, draws, self.workers).argmax(axis=1)}

    def _model(self, starts: list) -> SubspaceModel:
        of_rows = SingleSubspaceModel if self.mixture.n_components == 1 else SubspaceModel
        return of_rows(self.centred, self.priors, starts, self.workers, self.run.schedule.burn_in)
