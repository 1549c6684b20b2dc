"""Dirichlet-process mixture of counts or of categorical tables, with pluggable samplers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import DensityMixin
from sklearn.utils.metaestimators import available_if

from ..base import BaseSampledEstimator, takes_minibatches
from ..inference._draw_store import DrawStore
from ..inference._driver import Chain, best_chain
from ..inference._schedule import Schedule
from ..metrics._partitions import compact_labels, point_partition
from ..models import check_compatible
from ..samplers import SCIR, SGRHMC, SGRLD, BaseSampler, ManifoldSampler, Slice, State
from ..samplers._resolve import resolve_sampler
from ..utils._random import Purpose, root_key, subkey
from ..utils._sklearn import HasMethods, Interval, StrOptions, fit_context
from ..utils._threads import Workers
from ._dp_inference import MixtureInference
from ._dp_model import DPModel
from ._dp_stream import MixtureStream
from ._encoding import category_table, count_table, fit_categories, validate_codes
from ._mixture_counts import MixtureCounts
from ._mixture_draws import CountedDraw, counted
from ._stochastic_slice import StochasticSlice
from ._table import Table

_AUTO_CLUSTERS = 100
_EXPECTED_COMPONENTS = 50  # for how much memory a draw may take
_MAX_PARTITIONS = 200  # draws of the labels that the point partition is near to


class DPCategoricalMixture(MixtureInference, DensityMixin, BaseSampledEstimator):
    def __init__(
        self,
        emission="multinomial",
        *,
        sampler="slice",
        weights_sampler=None,
        concentration=None,
        concentration_prior=(1.0, 1.0),
        category_prior=0.5,
        init="auto",
        min_categories=None,
        handle_unknown="error",
        max_iter=200,
        batch_size=1000,
        burn_in=None,
        thin=2,
        n_chains=1,
        total_samples=1_000_000,
        learning_decay=0.7,
        learning_offset=10.0,
        max_draws_bytes=2**28,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.emission = emission
        self.sampler = sampler
        self.weights_sampler = weights_sampler
        self.concentration = concentration
        self.concentration_prior = concentration_prior
        self.category_prior = category_prior
        self.init = init
        self.min_categories = min_categories
        self.handle_unknown = handle_unknown
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.total_samples = total_samples
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.max_draws_bytes = max_draws_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _samplers = {sampler.short_name: sampler for sampler in (Slice, SCIR, SGRLD, SGRHMC)}  # noqa: RUF012
    _parameter_constraints: dict = {  # noqa: RUF012
        "emission": [StrOptions({"multinomial", "categorical"})],
        "sampler": [StrOptions(set(_samplers)), HasMethods(["init", "step"])],
        "weights_sampler": [None, StrOptions(set(_samplers) - {"slice"}), HasMethods(["init", "step"])],
        "concentration": [None, Interval(Real, 0, None, closed="neither")],
        "concentration_prior": ["array-like"],
        "category_prior": [Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), "array-like"],
        "min_categories": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "total_samples": [Interval(Integral, 1, None, closed="left")],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 0, None, closed="left")],
        "max_draws_bytes": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        with self._all_or_nothing():
            return self._fit(X)

    def _fit(self, X):
        sampler, mover = self._resolve_movers()
        schedule = Schedule.from_params(self.max_iter, self.burn_in, self.thin)
        key = root_key(self.random_state)
        table = self._fitted_table(X, subkey(key, Purpose.ROUNDING), begins=True)
        init = self._initial_labels(table.n_rows)
        stride = max(1, -(-schedule.n_draws // max(1, self._draw_store(table).max_draws)))
        with self._open_workers() as (chain_workers, kernel_workers):
            model = self._model(table, init, kernel_workers)
            check_compatible(sampler, model, self._samplers.values())
            fitted = self._run_chains(
                mover,
                model,
                key,
                schedule,
                X,
                table.n_rows,
                add=lambda left, right: right,
                record=lambda chain: _record(chain, stride),
                adapt=lambda model, state: model,
                estimate=lambda chains: {**_estimate(chains), **self._inference(key, table, X), "sampler_": sampler},
                workers=chain_workers,
            )
            fitted.update(_point_estimate(fitted, model, kernel_workers))
        self.__dict__.update(fitted)
        return self

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        with self._all_or_nothing():
            return self._partial_fit(X)

    def _partial_fit(self, X):
        begins = not self.__sklearn_is_fitted__()
        sampler, mover = self._resolve_movers()
        if not begins and type(sampler) is not type(self.sampler_):
            was = type(self.sampler_).__name__
            raise ValueError(f"{type(sampler).__name__} cannot go on where {was} stopped: call fit.")
        key = root_key(self.random_state) if begins else self._key
        t = 0 if begins else self.n_batch_iter_
        table = self._fitted_table(X, subkey(key, Purpose.ROUNDING, t + 1), begins=begins)
        scale = self.total_samples / table.n_rows
        rate = min(1.0, float(self.learning_offset + t + 1) ** -self.learning_decay)
        with self._open_workers() as (chain_workers, kernel_workers):
            model = self._model(table, self._initial_labels(table.n_rows) if begins else 1, kernel_workers)
            if begins:
                store = self._draw_store(table)
                stream = MixtureStream.begin(mover, model, key, scale, store, chain_workers, self.n_chains)
            else:
                stream = self._stream or self._leave_rows(mover, model)
                stream = stream.advanced(mover, model, rate, scale, chain_workers)
        for name in ("labels_", "log_density_trace_", "n_iter_", "_posterior", "_draws", "_states"):
            self.__dict__.pop(name, None)
        if begins:
            self.__dict__.update(self._inference(key, table, X))
        summary = stream.summary()
        self.__dict__.update(_stream=stream, sampler_=sampler, n_batch_iter_=t + 1, **_summarise(summary))
        return self

    def _leave_rows(self, mover: StochasticSlice, model: DPModel) -> MixtureStream:
        """The chains of a fit as those of a stream, of which the fitted rows were the first part."""
        states = [mover.leave_rows(model, state, self.total_samples / len(self.labels_)) for state in self._states]
        return MixtureStream(states, self._draw_store(model.table))

    def fit_predict(self, X, y=None):
        return self.fit(X).labels_

    def _resolve_movers(self) -> tuple[BaseSampler, BaseSampler]:
        """The sampler, and what drives it through passes."""
        sampler = self._resolve_sampler()
        if not isinstance(sampler, ManifoldSampler):
            if self.weights_sampler is not None:
                name = type(sampler).__name__
                raise ValueError(f"{name} draws the weights itself: weights_sampler must be None, not {self.weights_sampler!r}.")
            return sampler, sampler
        weights = self.weights_sampler
        if weights is None:
            weights = self.sampler if isinstance(self.sampler, str) else sampler
        weights_sampler = resolve_sampler(weights, self._by_name(), self._whose)
        return sampler, StochasticSlice(sampler, weights_sampler)

    def _fitted_table(self, X, rounding_key: np.uint64, *, begins: bool) -> Table:
        """The rows to learn from; the first ones say which categories there are."""
        if self.emission == "multinomial":
            return count_table(self, X, rounding_key, reset=begins, by_content=False)
        codes = validate_codes(self, X, reset=begins)
        start = fit_categories(self, codes, self.min_categories) if begins else self._column_start
        return category_table(self, codes, start, handle_unknown=self.handle_unknown)

    def _initial_labels(self, n_rows: int) -> int | np.ndarray:
        """Number of labels to deal out at random, or the user's own labels, compact."""
        if isinstance(self.init, str):
            return min(_AUTO_CLUSTERS, n_rows)
        if isinstance(self.init, Integral):
            return min(int(self.init), n_rows)
        labels = np.asarray(self.init)
        if labels.shape != (n_rows,) or labels.dtype.kind not in "iu" or labels.min() < 0:
            raise ValueError(
                f"init must be 'auto', a number of clusters or {n_rows} labels that are whole numbers from 0, one for "
                f"each row; got an array of shape {labels.shape} and type {labels.dtype}."
            )
        return compact_labels(labels)

    def _draw_store(self, table: Table) -> DrawStore:
        """A store for as many whole draws of a chain as fit into `max_draws_bytes`, about."""
        draw_bytes = 4 * table.n_rows + 24 * table.n_categories * _EXPECTED_COMPONENTS
        return DrawStore.within(self.max_draws_bytes, draw_bytes * self.n_chains, self.thin)

    def _model(self, table: Table, init: int | np.ndarray, workers: Workers) -> DPModel:
        prior = np.asarray(self.concentration_prior)
        if prior.shape != (2,) or prior.dtype.kind not in "fiu" or not (np.isfinite(prior).all() and prior.min() > 0):
            raise ValueError(
                "concentration_prior must be two positive numbers, shape and rate of a gamma distribution; got "
                f"{self.concentration_prior!r}."
            )
        return DPModel(
            table,
            float(self.category_prior),
            self.concentration,
            (float(prior[0]), float(prior[1])),
            init=init,
            batch_size=self.batch_size,
            workers=workers,
        )

    def _inference(self, key: np.uint64, table: Table, X) -> dict[str, Any]:
        """What inference needs of the data."""
        fitted = {"_key": key, "_column_start": table.column_start, "_category_prior": float(self.category_prior)}
        if self.emission == "multinomial":
            tokens = np.concatenate(([0], np.cumsum(table.counts, dtype=np.int64)))
            return {**fitted, "_row_totals": np.diff(tokens[table.indptr]), "_fitted_on_sparse": sp.issparse(X)}
        return {**fitted, "n_categories_": np.diff(table.column_start)}

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_summary")


def _record(chain: Chain, stride: int) -> dict[str, Any]:
    """A draw: its size and concentration and, every `stride`-th time counted from the last, all of it."""
    state = chain.state
    counts: MixtureCounts = state.statistics
    draw = chain.sampler.parameters(chain.model, state)
    record: dict[str, Any] = {
        "n_components": np.array(len(counts.occupied)),
        "concentration": np.array(draw.concentration),
    }
    if (chain.schedule.n_draws - 1 - len(chain.draws)) % stride == 0:
        record["weights"] = np.exp(draw.log_weights[:-1])
        record["components"] = np.exp(draw.log_components.T)
        record["labels"] = state.latents.copy()
        # Where labels are drawn exactly, what they leave to be integrated out says more than a draw of it.
        record["_draw"] = draw if isinstance(chain.sampler, StochasticSlice) else counted(counts, draw.concentration)
    return record


def _estimate(chains: list[Chain]) -> dict[str, Any]:
    """What inference needs, from wherever the chains stand: all draws, and the best chain's partition."""
    records = [draw for chain in chains for draw in chain.draws if "_draw" in draw]
    best = chains[best_chain(chains)]
    draws = [record["_draw"] for record in records] or [_record(chain, 1)["_draw"] for chain in chains]
    states = [chain.state for chain in chains] if isinstance(best.sampler, StochasticSlice) else None
    fitted = {"_draws": draws, "_states": states, "_stream": None, "n_batch_iter_": 0}
    return {**fitted, **_partition(best.model, best.state.latents, draws[-1].concentration)}


def _point_estimate(fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
    """The partition nearest to all draws, where there are any, and what belongs to it."""
    posterior = fitted["_posterior"]
    if posterior["labels"].shape[1] == 0:
        return {}
    labels = posterior["labels"].reshape(-1, model.n_rows)
    evenly = np.linspace(0, len(labels) - 1, min(len(labels), _MAX_PARTITIONS)).astype(int)
    nearest = point_partition(labels[np.unique(evenly)], n_jobs=workers.n_workers)
    return _partition(model, nearest, float(posterior["concentration"].mean()))


def _partition(model: DPModel, labels: np.ndarray, concentration: float) -> dict[str, Any]:
    labels = compact_labels(labels)
    return {"labels_": labels, **_summarise(counted(model.count(labels.astype(np.int32)), concentration))}


def _summarise(summary: CountedDraw) -> dict[str, Any]:
    concentration = float(summary.concentration)
    return {"_summary": summary, "n_components_": len(summary.sizes), "concentration_": concentration}
