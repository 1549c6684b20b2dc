"""How `DPCategoricalMixture` is fitted: by exact slice sampling, or by stochastic gradients."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StreamStrategy, samples_density
from ...emissions._categories.family import CategoryFamily
from ...emissions._codes import Table, category_table, fit_categories, validate_codes
from ...inference._chains import Chain
from ...models import IncompatibleError
from ...random._keys import Purpose, subkey
from ...samplers import SGRLD, BaseSampler
from ...samplers._resolve import resolve_sampler
from ...sparse.counts import Counts
from ...utils._inputs.tables import is_sparse
from ...utils._threads import Workers
from .._dirichlet_process.fit_strategy import PartitionFit
from .._dirichlet_process.model import DPModel, build_model, initial_labels
from .._dirichlet_process.point_estimate import summary_attributes
from .._dirichlet_process.posterior_draws import draw_store
from .count_table import count_table
from .stochastic_slice import StochasticSlice
from .stream import MixtureStream

_MOST_BATCHES = 100  # of a pass; each is a step of the sampler
_LOW_PRIOR = 0.5  # Dirichlet parameter of a category, below which densities of gammas are too steep near zero


def fit_strategy(mixture: Any, X: Any, run: Run) -> FitStrategy:
    """The strategy of `fit` for this sampler."""
    passes = passes_of(mixture, run.sampler)
    table = read_table(mixture, X, subkey(run.key, Purpose.ROUNDING), is_first=True)
    warn_low_prior(mixture, run.sampler, table)
    settled = {**data_attributes(mixture, table, X), "_stream": None, "n_batch_iter_": 0}
    start = initial_labels(mixture.init, table.n_rows)
    strategy = StochasticFit if samples_density(run.sampler) else ExactFit
    return strategy(mixture, run, clusters_of(mixture, table), start, settled, passes)


def stream_strategy(mixture: Any, X: Any, batch: Minibatch) -> StreamStrategy:
    """The strategy of `partial_fit`."""
    passes = passes_of(mixture, batch.sampler)
    key = subkey(batch.key, Purpose.ROUNDING, batch.n_batches + 1)
    table = read_table(mixture, X, key, is_first=batch.is_first)
    warn_low_prior(mixture, batch.sampler, table)
    settled = data_attributes(mixture, table, X) if batch.is_first else {}
    return TableStream(mixture, batch, clusters_of(mixture, table), settled, passes)


def clusters_of(mixture: Any, table: Table) -> CategoryFamily:
    """Rows with the prior of the mixture's emission."""
    return mixture._family_of(mixture._prior_of_categories(table), table.column_start).clusters(table)


class ExactFit(PartitionFit):
    """The fit with `Slice`, after which no states are kept."""

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, and the partition of the best chain's last pass."""
        return {**super().estimate(chains), "_states": None}


class StochasticFit(PartitionFit):
    """The fit with samplers of gamma variables, of which `StochasticSlice` computes the weights and the components."""

    def model(self, workers: Workers) -> DPModel:
        """The model of all rows."""
        return build_model(self.mixture, self.clusters, self.start, workers, _MOST_BATCHES)

    def check(self, model: DPModel, known: Any) -> None:
        """No check here: `StochasticSlice` compares its samplers with their targets before its first step."""

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, the partition of the best chain's last pass, and the states, which `partial_fit` continues."""
        return {**super().estimate(chains), "_states": [chain.state for chain in chains]}

    def _concentration(self, state: Any) -> float:
        return state.position.concentration

    def _sticks(self, chain: Chain) -> np.ndarray:
        return self.passes.sticks_by_weight(chain.state)

    def _predictive(self, state: Any, draw: Any) -> Any:
        return draw


class TableStream(StreamStrategy):
    """The update by one minibatch, of which only statistics are kept."""

    def __init__(
        self, mixture: Any, batch: Minibatch, clusters: CategoryFamily, settled: dict[str, Any], passes: BaseSampler
    ):
        super().__init__(batch)
        self.mixture = mixture
        self.clusters = clusters
        self.settled = settled
        self.passes: Any = passes

    def model(self, workers: Workers) -> DPModel:
        """The model of the minibatch."""
        start = initial_labels(self.mixture.init, self.clusters.n_rows) if self.batch.is_first else 1
        return build_model(self.mixture, self.clusters, start, workers)

    def check(self, model: DPModel, known: Any) -> None:
        """Raise an `IncompatibleError` for a sampler that needs all rows."""
        if not samples_density(self.sampler):
            super().check(model, known)
            name = type(self.sampler).__name__
            raise IncompatibleError(f"{name} needs all rows at once: partial_fit has minibatches.")

    def advance(self, model: DPModel, workers: Workers) -> dict[str, Any]:
        """Update the chains by one step."""
        mixture, batch, passes = self.mixture, self.batch, self.passes
        scale = batch.total_samples / self.clusters.n_rows
        if batch.is_first:
            stream = MixtureStream.begin(passes, model, batch.key, batch.n_chains, scale, workers)
            stream = stream.storing(draw_store(mixture, self.clusters))
        else:
            stream = mixture._stream or self._without_rows(model)
            stream = stream.after_batch(passes, model, batch.rate, scale, workers)
        stream = stream.recorded(passes, model)
        settled = {**self.settled, "_category_prior": self.clusters.data.prior}
        return {**settled, "_stream": stream, **summary_attributes(stream.summary())}

    def _without_rows(self, model: DPModel) -> MixtureStream:
        """The chains of a fit as chains of a stream that began with the fitted rows."""
        scale = self.batch.total_samples / len(self.mixture.labels_)
        states = [self.passes.leave_rows(model, state, scale) for state in self.mixture._states]
        return MixtureStream(states).storing(draw_store(self.mixture, self.clusters))


def passes_of(mixture: Any, sampler: BaseSampler) -> BaseSampler:
    """What makes passes over the rows: the sampler itself, or a `StochasticSlice` with samplers of gamma variables."""
    given = mixture.weights_sampler
    if not samples_density(sampler):
        if given is not None:
            raise ValueError(
                f"{type(sampler).__name__} draws the weights itself: weights_sampler must be None, not {given!r}."
            )
        return sampler
    if given is None:
        given = mixture.sampler if isinstance(mixture.sampler, str) else sampler
    known = {**mixture._by_name(), "sgrld": partial(SGRLD, step_size=0.005)}  # Baker et al. (2018), table 3
    return StochasticSlice(sampler, resolve_sampler(given, known, f" of weights{mixture._error_context}"))


def warn_low_prior(mixture: Any, sampler: Any, table: Table) -> None:
    """Warn of a sampler that is biased near zero, where many category probabilities are near zero."""
    if samples_density(sampler) and sampler.is_biased_near_zero and mixture._prior_of_categories(table) < _LOW_PRIOR:
        warnings.warn(
            f"{type(sampler).__name__} does not draw from the posterior if category_prior is below 1/2: rare "
            "categories become too probable; 'slice' and 'scir' have no such limit.",
            stacklevel=7,
        )


def read_table(mixture: Any, X: Any, rounding_key: np.uint64, *, is_first: bool) -> Table:
    """Validate the rows; with `is_first`, they define the categories."""
    emission = mixture._resolve_emission()
    if not emission.has_codes:
        return count_table(mixture, emission, X, rounding_key, reset=is_first)
    codes = validate_codes(mixture, X, reset=is_first)
    least = mixture._min_categories_of(emission)
    start = fit_categories(mixture, codes, least) if is_first else mixture._column_start
    return category_table(mixture, codes, start, handle_unknown=mixture._handle_unknown_of(emission))


def data_attributes(mixture: Any, table: Table, X: Any) -> dict[str, Any]:
    """Attributes that predictions need, computed from the data."""
    fitted = {"_emission": mixture._emission_name, "_category_prior": mixture._prior_of_categories(table)}
    fitted["_column_start"] = table.column_start
    if not isinstance(mixture.emission, str):
        fitted["emission_"] = mixture._resolve_emission()
    if mixture._emission_name == "multinomial":
        tokens = Counts(*table[:3], table.n_categories).token_start()
        return {**fitted, "_row_totals": np.diff(tokens), "_fitted_on_sparse": is_sparse(X)}
    return {**fitted, "n_categories_": np.diff(table.column_start)}
