"""How `DPCategoricalMixture` is fitted: by exact slice sampling, or by stochastic gradients."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StreamStrategy, best_chain, samples_density
from ...emissions._codes import Table, category_table, fit_categories, validate_codes
from ...inference._chains import Chain
from ...metrics._partitions import compact_labels, point_partition
from ...models import IncompatibleError
from ...random._keys import Purpose, subkey
from ...samplers import SGRLD, BaseSampler
from ...samplers._resolve import resolve_sampler
from ...sparse.counts import Counts
from ...utils._inputs.tables import is_sparse
from ...utils._threads import Workers
from .category_table import count_table
from .model import DPModel, build_model, initial_labels
from .posterior_draws import CountedDraw, counted, draw_store
from .stochastic_slice import StochasticSlice
from .stream import MixtureStream

_LOW_PRIOR = 0.5  # Dirichlet parameter of a category, below which densities of gammas are too steep near zero
_MAX_PARTITIONS = 200  # number of drawn partitions that the point estimate is compared with


def fit_strategy(mixture: Any, X: Any, run: Run) -> TableFit:
    """The strategy of `fit` for this sampler."""
    passes = passes_of(mixture, run.sampler)
    table = read_table(mixture, X, subkey(run.key, Purpose.ROUNDING), is_first=True)
    warn_low_prior(mixture, run.sampler, table)
    strategy = StochasticFit if samples_density(run.sampler) else ExactFit
    return strategy(mixture, run, table, data_attributes(mixture, table, X), passes)


def stream_strategy(mixture: Any, X: Any, batch: Minibatch) -> TableStream:
    """The strategy of `partial_fit`."""
    passes = passes_of(mixture, batch.sampler)
    key = subkey(batch.key, Purpose.ROUNDING, batch.n_batches + 1)
    table = read_table(mixture, X, key, is_first=batch.is_first)
    warn_low_prior(mixture, batch.sampler, table)
    settled = data_attributes(mixture, table, X) if batch.is_first else {}
    return TableStream(mixture, batch, table, settled, passes)


class TableFit(FitStrategy):
    """What all fits have in common."""

    def __init__(self, mixture: Any, run: Run, table: Table, settled: dict[str, Any], passes: BaseSampler):
        super().__init__(run.sampler, passes)
        self.mixture = mixture
        self.table = table
        self.n_rows = table.n_rows
        self.start = initial_labels(mixture.init, table.n_rows)
        self.settled = {**settled, "_key": run.key, "_stream": None, "n_batch_iter_": 0}
        self.stride = max(1, -(-run.schedule.n_draws // max(1, draw_store(mixture, table).max_draws)))

    def model(self, workers: Workers) -> DPModel:
        """The model of all rows."""
        return build_model(self.mixture, self.table, self.start, workers)

    def record(self, chain: Chain) -> dict[str, Any]:
        """The number of components, the concentration and, in some draws, all parameters and labels."""
        return self._record(chain, chain.is_whole_draw(self.stride))

    def _record(self, chain: Chain, is_whole: bool) -> dict[str, Any]:
        state = chain.state
        occupied, concentration = state.statistics.occupied, self._concentration(state)
        record = {"n_components": np.array(len(occupied)), "concentration": np.array(concentration)}
        if is_whole:
            draw = chain.sampler.parameters(chain.model, state)
            record.update(draw.arrays(), labels=state.latents.copy(), _draw=self._predictive(state, draw))
        return record

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, and the partition of the best chain's last pass."""
        records = [draw for chain in chains for draw in chain.draws if "_draw" in draw]
        records = records or [self._record(chain, True) for chain in chains]
        best = chains[best_chain(chains)]
        labels, concentration = compact_labels(best.state.latents), self._concentration(best.state)
        fitted = {**self.settled, "_draws": [record["_draw"] for record in records], "_states": self._kept(chains)}
        return {**fitted, **partition_attributes(best.model, labels, concentration)}

    def finish(self, fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
        """The partition nearest to all draws."""
        return point_estimate(fitted, model, workers)

    def _concentration(self, state: Any) -> float:
        """The concentration in a state."""
        raise NotImplementedError

    def _predictive(self, state: Any, draw: Any) -> Any:
        """What a draw keeps for predictions."""
        raise NotImplementedError

    def _kept(self, chains: list[Chain]) -> list | None:
        """What to keep of the chains for `partial_fit`."""
        raise NotImplementedError


class ExactFit(TableFit):
    """The fit with samplers of labels and stick-breaking weights given all rows, such as `Slice`."""

    def _concentration(self, state: Any) -> float:
        return state.position

    def _predictive(self, state: Any, draw: Any) -> Any:
        # Given exact labels the parameters can be integrated out, which has a lower variance than a draw of them.
        return counted(state.statistics, draw.concentration)

    def _kept(self, chains: list[Chain]) -> None:
        return None


class StochasticFit(TableFit):
    """The fit with samplers of gamma variables, of which `StochasticSlice` computes the weights and the components."""

    def check(self, model: DPModel, known: Any) -> None:
        """No check here: `StochasticSlice` compares its samplers with their targets before its first step."""

    def _concentration(self, state: Any) -> float:
        return state.position.concentration

    def _predictive(self, state: Any, draw: Any) -> Any:
        return draw

    def _kept(self, chains: list[Chain]) -> list:
        return [chain.state for chain in chains]


class TableStream(StreamStrategy):
    """The update by one minibatch, of which only statistics are kept."""

    def __init__(self, mixture: Any, batch: Minibatch, table: Table, settled: dict[str, Any], passes: BaseSampler):
        super().__init__(batch)
        self.mixture = mixture
        self.table = table
        self.settled = settled
        self.passes: Any = passes

    def model(self, workers: Workers) -> DPModel:
        """The model of the minibatch."""
        start = initial_labels(self.mixture.init, self.table.n_rows) if self.batch.is_first else 1
        return build_model(self.mixture, self.table, start, workers)

    def check(self, model: DPModel, known: Any) -> None:
        """Raise an `IncompatibleError` for a sampler that needs all rows."""
        if not samples_density(self.sampler):
            super().check(model, known)
            name = type(self.sampler).__name__
            raise IncompatibleError(f"{name} needs all rows at once: partial_fit has minibatches.")

    def advance(self, model: DPModel, workers: Workers) -> dict[str, Any]:
        """Update the chains by one step."""
        mixture, batch, passes = self.mixture, self.batch, self.passes
        scale = batch.total_samples / self.table.n_rows
        if batch.is_first:
            stream = MixtureStream.begin(passes, model, batch.key, batch.n_chains, scale, workers)
            stream = stream.storing(draw_store(mixture, self.table))
        else:
            stream = mixture._stream or self._without_rows(model)
            stream = stream.after_batch(passes, model, batch.rate, scale, workers)
        stream = stream.recorded(passes, model)
        settled = {**self.settled, "_category_prior": float(model.category_prior)}
        return {**settled, "_stream": stream, **summary_attributes(stream.summary())}

    def _without_rows(self, model: DPModel) -> MixtureStream:
        """The chains of a fit as chains of a stream that began with the fitted rows."""
        scale = self.batch.total_samples / len(self.mixture.labels_)
        states = [self.passes.leave_rows(model, state, scale) for state in self.mixture._states]
        return MixtureStream(states).storing(draw_store(self.mixture, self.table))


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
    start = fit_categories(mixture, codes, mixture.min_categories) if is_first else mixture._column_start
    return category_table(mixture, codes, start, handle_unknown=mixture.handle_unknown)


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


def point_estimate(fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
    """Attributes of the partition that minimises the mean distance to the draws; empty without draws.

    Its number of components is at most the median over the draws. Without this limit, a row that is alone in its
    component in half of the draws would be a component by itself, and there could be more components than in any draw.
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
    return partition_attributes(model, nearest, float(posterior["concentration"].mean()) if given is None else given)


def partition_attributes(model: DPModel, labels: np.ndarray, concentration: float) -> dict[str, Any]:
    """A partition of the rows as fitted attributes."""
    return {"labels_": labels, **summary_attributes(counted(model.count(labels.astype(np.int32)), concentration))}


def summary_attributes(summary: CountedDraw) -> dict[str, Any]:
    """The sizes of the components as fitted attributes."""
    concentration = float(summary.concentration)
    return {"_summary": summary, "n_components_": len(summary.sizes), "concentration_": concentration}
