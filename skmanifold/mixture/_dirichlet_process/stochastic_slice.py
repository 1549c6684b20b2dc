"""The stochastic-gradient slice sampler: a sampler of gamma variables updates sticks and components by minibatches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ...emissions._categories import CategoryCounts, add_predictive
from ...emissions._linear_kernels import add_entries
from ...emissions._statistics import n_used
from ...models import IncompatibleError
from ...random._keys import Purpose, fold_in, subkey
from ...random._variates import open_uniform
from ...samplers import BaseSampler, ManifoldSampler
from ...samplers._base import FullPasses
from ...samplers._cir.scir import LogPositionState
from ...samplers._density.gradient_base import MovingState
from ...samplers._latent.slice import Slice
from ...samplers._latent.stick_breaking import (
    MOST_CONCENTRATED,
    Sticks,
    draw_concentration,
    draw_sticks,
    lengthen_sticks,
    order_above,
)
from ...utils._conditions import Array, Point, Real, index
from ...utils._njit import njit
from .._memberships import ParameterDraw
from .gamma_target import GammaBlocks, init_block, log_proportions, redraw_column_sums, resize_block, step_block
from .model import DPModel, draw_from_logs

_PAIR = np.array([0, 2])  # a stick is one column of two gamma variables X and Y
_LOCAL_SWEEPS, _FIRST_SWEEPS = 2, 100  # over a minibatch of a stream, and over the first
_MAX_NEW = 32  # new components that the rows of one minibatch of a stream may open in sequence
_LEAST_ROWS = 1e-3  # trailing components of a stream with fewer expected rows and tokens are dropped
_State: TypeAlias = MovingState | LogPositionState


class Blocks(NamedTuple):
    """Position of a chain: gamma variables of the instantiated components, (1, K, ...), and the concentration."""

    sticks: Annotated[_State, Point("n_clusters 2")]
    components: Annotated[_State, Point("n_clusters n_categories")]
    concentration: Annotated[float, Real(above=0, high=MOST_CONCENTRATED)]


class Instantiated(NamedTuple):
    """Normalised sticks and components, from which labels are drawn."""

    sticks: Sticks
    log_table: Annotated[np.ndarray, Array("float64", "n_categories n_clusters", high=1e-06)]

    @property
    def n_components(self) -> int:
        """Number of components that are instantiated."""
        return self.log_table.shape[1]

    def append(self, sticks: Sticks, log_table: np.ndarray) -> Instantiated:
        """With additional sticks and components."""
        sticks = Sticks(*(np.concatenate(logs) for logs in zip(self.sticks, sticks, strict=True)))
        return Instantiated(sticks, np.concatenate((self.log_table, log_table), axis=1))

    def first(self, n: int) -> Instantiated:
        """The first n components."""
        return Instantiated(Sticks(*(logs[:n] for logs in self.sticks)), self.log_table[:, :n].copy())


class StochasticSliceState(NamedTuple):
    """One chain of passes over rows whose labels are kept."""

    position: Blocks
    key: np.uint64
    n_steps: int
    log_density: Annotated[float, Real(nan=True, infinite=True)]
    statistics: CategoryCounts
    latents: Annotated[np.ndarray, index("n_rows", below="n_clusters", dtype="int32")]  # the labels


class StreamState(NamedTuple):
    """One chain on a stream, whose rows are not kept."""

    position: Blocks
    key: np.uint64
    n_steps: int
    log_density: Annotated[float, Real(nan=True, infinite=True)]
    statistics: CategoryCounts  # estimates for all rows, float64
    mixture: Instantiated  # from which the labels of the last minibatch were drawn


class StochasticSlice(BaseSampler):
    r"""Slice sampler of a Dirichlet-process mixture whose parameters are updated by stochastic gradients.

    Each stick is a ratio of two gamma variables, :math:`v_j = X_j / (X_j + Y_j)`, and the distributions of each
    component are normalised gamma variables. For every minibatch S of n of the L rows, with
    :math:`\hat m_j = (L / n) \sum_S 1(z_i = j)` (Baker et al., NeurIPS 2018, appendix D.3), the sampler

    1. makes a step of `weights_sampler` (by default `sampler`), with the target :math:`X_j \sim Ga(1 + \hat m_j)`,
       :math:`Y_j \sim Ga(\alpha + \sum_{l>j} \hat m_l)`, and a step of `sampler` with the tokens of S times L / n, for
       j up to the highest label of all rows,
    2. draws the concentration given the sticks, if it is learned,
    3. draws slices for S, then sticks and components from the prior until the remaining weight is below the minimum
       slice, and then the labels of S. A new component that receives rows keeps its parameters.

    With SCIR the noise of :math:`\hat m` inflates the variance, and the sums of the gamma variables depend on earlier
    labels, a bias that vanishes with h. With ``SCIR(control_variate="stored")`` the counts are those of the stored
    labels of all rows, and the sums are redrawn after the labels: the posterior is stationary for any step size.

    On a stream no labels are stored. Labels of a minibatch are drawn row after row, with a Polya urn for all components
    not yet instantiated, then twice by slices (100 passes of `Slice` for the first minibatch). The statistics of all
    rows become :math:`T \leftarrow (1 - \rho) (T + \lambda (s - s')) + \rho \lambda s`, where one row represents
    :math:`\lambda` rows, s are the counts of the minibatch given the current parameters, and s' those given the
    parameters under which the last minibatch was labelled, with the same random numbers: T follows the parameters
    although no row is used twice. This is approximate: labels do not depend on later rows, rows of new components are
    not in s and s' of the first term, T is clipped at zero and rescaled, and trailing components with less than 0.001
    expected rows and tokens are dropped.
    """

    batching = "either"
    capabilities = (FullPasses,)  # its streams keep states and not statistics alone
    state_types = (StochasticSliceState, StreamState)
    log_density_name = "log_joint"
    draws_parameters = True
    averages_passes = False
    _parameter_constraints: ClassVar[dict] = {
        "sampler": [ManifoldSampler],
        "weights_sampler": [ManifoldSampler, None],
    }

    def __init__(self, sampler, weights_sampler=None):
        self.sampler = sampler
        self.weights_sampler = weights_sampler

    def init(self, model: DPModel, key: np.uint64) -> StochasticSliceState:
        """Initial labels, and an exact draw of sticks and components given them."""
        labels = model.init_labels(subkey(key, Purpose.INITIAL_LATENTS))
        counts = model.count(labels)
        blocks = self._begin(model, counts_used(counts), model.init_concentration(), key)
        return StochasticSliceState(blocks, key, 0, -np.inf, counts, labels)

    def step(self, model: DPModel, state: StochasticSliceState) -> StochasticSliceState:
        """One pass over the rows; ``log_density`` is log p(data, partition | concentration) after it."""
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        blocks, labels, counts = state.position, state.latents, state.statistics
        for i, rows in enumerate(model.choose_batches(subkey(key, Purpose.MINIBATCH), 1)):
            blocks, counts = self._scan(model, rows, labels, counts, blocks, subkey(key, Purpose.STEP, i))
        log_joint = model.log_joint(counts, blocks.concentration)
        return StochasticSliceState(blocks, state.key, state.n_steps + 1, log_joint, counts, labels)

    def parameters(self, model: DPModel, state: StochasticSliceState | StreamState) -> ParameterDraw:
        """Drawn weights and components up to the highest label, in order of decreasing weight."""
        mixture, order = self._mixture_of(model, state.position), self.sticks_by_weight(state)
        log_weights, log_leftover = mixture.sticks.log_weights()
        log_components = np.take(mixture.log_table, order, axis=1)
        return ParameterDraw(np.append(log_weights[order], log_leftover), log_components, state.position.concentration)

    def sticks_by_weight(self, state: StochasticSliceState | StreamState) -> np.ndarray:
        """The sticks of the components of `parameters`, which are in order of decreasing weight."""
        return np.argsort(-self._sticks_of(state.position.sticks).log_weights()[0], kind="stable")

    def init_stream(self, model: DPModel, key: np.uint64, scale: float) -> StreamState:
        """Start a stream by passes of `Slice` over the first minibatch; scale its counts."""
        self._check_no_stored_labels()
        exact: BaseSampler = Slice()
        first = exact.init(model, key)
        for _ in range(_FIRST_SWEEPS):
            first = exact.step(model, first)
        sums = _scaled(counts_used(first.statistics), scale)
        blocks = self._begin(model, sums, first.position, key)
        return StreamState(blocks, key, 1, first.log_density, sums, self._mixture_of(model, blocks))

    def leave_rows(self, model: DPModel, state: StochasticSliceState, scale: float) -> StreamState:
        """Convert the state of a fit to one of a stream, where each fitted row represents `scale` rows."""
        self._check_no_stored_labels()
        sums = _scaled(counts_used(state.statistics), scale)
        mixture = self._mixture_of(model, state.position)
        return StreamState(state.position, state.key, state.n_steps, state.log_density, sums, mixture)

    def step_stream(self, model: DPModel, state: StreamState, rate: float, scale: float) -> StreamState:
        """Draw the labels of a minibatch, update the statistics, and make one step with them."""
        key = subkey(state.key, Purpose.MINIBATCH, state.n_steps)
        blocks, old = state.position, state.statistics
        mixture, labels = self._label_rows(model, self._mixture_of(model, blocks), blocks.concentration, key)
        rows, n = np.arange(model.n_rows), max(len(old.sizes), int(labels.max()) + 1)
        sums = seen = _sums_of_rows(model, rows, labels, n, scale)
        if rate < 1:
            _, labels_before = self._label_rows(model, state.mixture, None, key)
            rows = rows[labels < state.mixture.n_components]  # new components have no previous counterpart
            now, before = (_sums_of_rows(model, rows, its, n, scale) for its in (labels, labels_before))
            parts = zip(*(each[:2] for each in (_first(old, n), seen, now, before)), strict=True)
            sums = CategoryCounts(*(_clipped((1 - rate) * (t + s - was) + rate * new) for t, new, s, was in parts))
        has_any = np.maximum(sums.sizes, sums.categories.sum(axis=0)) > _LEAST_ROWS  # sizes alone may be clipped to 0
        n = int(np.flatnonzero(has_any)[-1]) + 1
        sums, mixture = _first(sums, n), mixture.first(n)
        blocks = self._moved(model, self._resized(model, blocks, mixture, key), sums, sums, key)
        return StreamState(blocks, state.key, state.n_steps + 1, np.nan, sums, mixture)

    @property
    def _movers(self) -> tuple[ManifoldSampler, ManifoldSampler]:
        """The samplers of sticks and of components."""
        return (self.sampler if self.weights_sampler is None else self.weights_sampler), self.sampler

    def _sticks_of(self, state: Any) -> Sticks:
        return Sticks(*log_proportions(self._movers[0], state, _PAIR))

    def _mixture_of(self, model: DPModel, blocks: Blocks) -> Instantiated:
        log_table = log_proportions(self._movers[1], blocks.components, model.clusters.data.column_start)
        return Instantiated(self._sticks_of(blocks.sticks), log_table)

    def _check_no_stored_labels(self) -> None:
        self._validate_params()
        if any(sampler.keeps_rows for sampler in self._movers):
            raise IncompatibleError(
                "control_variate='stored' keeps the labels of all rows, which a stream does not store."
            )

    def _begin(self, model: DPModel, sums: CategoryCounts, concentration: float, key: np.uint64) -> Blocks:
        self._validate_params()
        known = self._with_targets(model, sums, sums, concentration, _keys_of_both(key, Purpose.START))
        sticks, components = (init_block(*each) for each in known)
        return Blocks(sticks, components, concentration)

    def _with_targets(self, model, of_sticks, of_components, concentration, *others: Iterable) -> Any:
        """The samplers and, given counts, the targets of sticks and of components, with what `others` have of both."""
        data, sizes = model.clusters.data, of_sticks.sizes
        beyond = np.append(np.cumsum(sizes[:0:-1])[::-1], 0.0)  # rows of later sticks
        sticks = GammaBlocks(np.array([1.0, concentration]), np.column_stack((sizes, beyond)), _PAIR)
        counts = np.ascontiguousarray(of_components.categories.T, np.float64)
        targets = sticks, GammaBlocks(model.clusters.prior, counts, data.column_start)
        return zip(self._movers, targets, *others, strict=True)

    def _scan(self, model, rows, labels, counts, blocks, key) -> tuple[Blocks, CategoryCounts]:
        """Update sticks, components, concentration and the labels of one minibatch; labels in place."""
        everything = batch = counts_used(counts)
        stored = [sampler.keeps_rows for sampler in self._movers]
        if not all(stored) and len(rows) < model.n_rows:
            batch = _sums_of_rows(model, rows, labels, n_used(counts), model.n_rows / len(rows))
        of_sticks, of_components = (everything if stores else batch for stores in stored)
        blocks = self._moved(model, blocks, of_sticks, of_components, key)
        mixture = self._mixture_of(model, blocks)
        mixture, counts = _redraw_labels(model, rows, labels, counts, mixture, blocks.concentration, key)
        blocks = self._resized(model, blocks, mixture.first(n_used(counts)), key)
        if not any(stored):
            return blocks, counts
        everything = counts_used(counts)
        of_both = blocks[:2], _keys_of_both(key, Purpose.COLUMN_SUMS), stored
        known = self._with_targets(model, everything, everything, blocks.concentration, *of_both)
        sticks, components = (redraw_column_sums(*each) if stores else each[1] for _, *each, stores in known)
        return Blocks(sticks, components, blocks.concentration), counts

    def _label_rows(self, model, mixture, concentration, key) -> tuple[Instantiated, np.ndarray]:
        """Draw labels of new rows; if the concentration is None, only components of the mixture are used."""
        rows, labels, n = np.arange(model.n_rows), np.empty(model.n_rows, np.int32), mixture.n_components
        log_weights, log_leftover = mixture.sticks.log_weights()
        others = (-np.inf, 1.0) if concentration is None else (log_leftover, concentration)
        arguments = mixture.log_table, log_weights, *others, subkey(key, Purpose.LABELS), labels
        n_new = _draw_labels_in_sequence(model.clusters.data, *arguments)
        counts = model.count(labels)
        if n_new:
            sticks = draw_sticks(counts.sizes[n : n + n_new], concentration, key)
            new = model.draw_components(counts, np.arange(n, n + n_new), subkey(key, Purpose.COMPONENTS))
            mixture = mixture.append(sticks, new)
        for sweep in range(_LOCAL_SWEEPS):
            drawn = subkey(key, Purpose.SWEEP, sweep)
            mixture, counts = _redraw_labels(model, rows, labels, counts, mixture, concentration, drawn)
        return mixture, labels

    def _moved(self, model, blocks: Blocks, of_sticks: CategoryCounts, of_components: CategoryCounts, key) -> Blocks:
        """One step of the sticks and of the components, then a draw of the concentration if it is learned."""
        concentration = blocks.concentration
        known = self._with_targets(model, of_sticks, of_components, concentration, blocks[:2])
        sticks, components = (step_block(*each) for each in known)
        if model.concentration is None:
            drawn = subkey(key, Purpose.CONCENTRATION)
            concentration = draw_concentration(self._sticks_of(sticks), model.concentration_prior, drawn)
        return Blocks(sticks, components, concentration)

    def _resized(self, model, blocks: Blocks, mixture: Instantiated, key) -> Blocks:
        """Blocks with the components of the mixture; new components are copied from it."""
        if mixture.n_components == blocks.sticks.position.shape[1]:
            return blocks
        nothing = _no_sums(model, mixture.n_components)
        of_both = blocks[:2], (np.array(mixture.sticks), mixture.log_table), _keys_of_both(key, Purpose.BIRTHS)
        known = self._with_targets(model, nothing, nothing, blocks.concentration, *of_both)
        sticks, components = (resize_block(*each) for each in known)
        return Blocks(sticks, components, blocks.concentration)


def _keys_of_both(key: np.uint64, purpose: int) -> list[np.uint64]:
    """Keys of the sticks and of the components."""
    return [subkey(key, purpose, block) for block in range(2)]


def counts_used(counts: CategoryCounts) -> CategoryCounts:
    """Counts up to the highest label with rows."""
    return _first(counts, n_used(counts))


def _first(counts: CategoryCounts, n: int) -> CategoryCounts:
    """Counts of the first n labels, a view, or padded with zeros."""
    missing = max(0, n - len(counts.sizes))
    if missing:
        return CategoryCounts(np.pad(counts.sizes, (0, missing)), np.pad(counts.categories, ((0, 0), (0, missing))))
    return CategoryCounts(counts.sizes[:n], counts.categories[:, :n])


def _scaled(counts: CategoryCounts, scale: float) -> CategoryCounts:
    return CategoryCounts(*(scale * array for array in counts[:2]))


def _clipped(values: np.ndarray) -> np.ndarray:
    """Clip negative values to zero and rescale to the same sum, which is computed component by component."""
    clipped = np.maximum(values, 0.0)
    return clipped * (values.ravel("F").sum() / clipped.ravel("F").sum())


def _no_sums(model: DPModel, n: int) -> CategoryCounts:
    """Counts of no rows, in the order in memory that the samplers of gamma variables use."""
    return CategoryCounts(np.zeros(n), np.zeros((n, model.clusters.data.column_start[-1])).T)


def _sums_of_rows(model: DPModel, rows, labels, n: int, scale: float) -> CategoryCounts:
    """Counts of some rows, multiplied by `scale`."""
    sums = _no_sums(model, n)
    _add_rows(rows, *model.clusters.data[:3], labels, scale, sums.sizes, sums.categories.T)
    return sums


def _redraw_labels(model, rows, labels, counts, mixture, concentration, key) -> tuple[Instantiated, CategoryCounts]:
    """Draw new labels for `rows` given their slices, in place; returns the mixture with new components, and the counts.

    If the concentration is None, there are no new components.
    """
    slices, components = subkey(key, Purpose.SLICE), subkey(key, Purpose.COMPONENTS)
    weights = mixture.sticks.weights()[0]
    least = model.least_slice(rows, labels, weights, slices)
    if concentration is not None:
        sticks = lengthen_sticks(mixture.sticks, concentration, least, key)
        weights = sticks.weights()[0]
        new = model.draw_components(counts, np.arange(mixture.n_components, len(weights)), components)
        mixture = mixture.append(Sticks(*(logs[mixture.n_components :] for logs in sticks)), new)
    above = order_above(weights, least)
    table = np.take(mixture.log_table, above, axis=1)
    return mixture, model.sample_labels(rows, labels, counts, table, weights[above], above, weights, slices)


@njit(cache=True, nogil=True)
def _add_rows(rows, indptr, indices, counts, labels, scale, sizes, categories):
    for row in rows:
        label = labels[row]
        sizes[label] += scale
        for e in range(indptr[row], indptr[row + 1]):
            categories[label, indices[e]] += scale * counts[e]


@njit(cache=True, nogil=True)
def _draw_labels_in_sequence(data, log_table, log_weights, log_others, concentration, key, labels):
    """Draw the component of each row given the rows before it; returns the number of new components.

    Instantiated components have probability proportional to weight times density. A Polya urn divides exp(log_others),
    the weight of all others, among the clusters that earlier rows opened and a new one, with parameters integrated out.
    """
    indptr, indices, counts, column_start, column_of, _ = data
    n = len(log_weights)
    scores, scratch = np.empty(n + _MAX_NEW), np.empty((2, n + _MAX_NEW))
    of_categories, of_columns = np.zeros((column_start[-1], _MAX_NEW)), np.zeros((len(column_start) - 1, _MAX_NEW))
    new_clusters, sizes = np.arange(_MAX_NEW), np.zeros(_MAX_NEW)
    n_new = 0
    for row in range(len(labels)):
        scores[:n] = 0.0
        add_entries(indptr, indices, counts, row, n, log_table, scores)
        for k in range(n):
            scores[k] += log_weights[k]
        # The urn: earlier rows' new clusters by their sizes, and one more by the concentration.
        n_open = min(n_new + 1, _MAX_NEW)
        log_total = math.log(concentration + sizes.sum())
        for c in range(n_open):
            size = sizes[c] if c < n_new else concentration
            scores[n + c] = log_others + math.log(size) - log_total
        add_predictive(data, row, new_clusters, n_open, of_categories, of_columns, scores[n:])
        label = draw_from_logs(n + n_open, scores, scratch, open_uniform(fold_in(key, row), 0))
        labels[row] = label
        # Later rows are drawn given the tokens of this one.
        if label >= n:
            c = label - n
            n_new = max(n_new, c + 1)
            sizes[c] += 1.0
            for e in range(indptr[row], indptr[row + 1]):
                of_categories[indices[e], c] += counts[e]
                of_columns[column_of[indices[e]], c] += counts[e]
    return n_new
