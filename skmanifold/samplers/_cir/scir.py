"""Samplers of gamma, Dirichlet and log-normal distributions with exact transitions for any step size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...manifolds import PositiveOrthant, Simplex
from ...models import HasCounts, HasLogNormalMean, HasRowCounts, IncompatibleError
from ...random._discrete_variates import poisson
from ...random._keys import Purpose, fold_in, fold_in_each, subkey
from ...random._variates import derived_keys, fill_normal, log_gamma_variate
from ...utils._conditions import Array
from ...utils._njit import njit
from ...utils._parameters import offers
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike
from .._density.base import ManifoldSampler, NonFiniteError, step_keys
from .._density.recipe import Recipe
from .._schedule import PolynomialDecay, StepSize, step_size_at
from .._states import Keys, LogDensity, Points, counted
from .lazy_cir_rows import MOST_LOG, LazyRows, add_counts, new_rows, read_rows

_FOR_EVER = 100.0  # the effect of the initial state is e^-100
_TINY = 1e-200


class SCIRRowsState(NamedTuple):
    """One chain of `SCIR` with lazy rows; it has no position until all rows are drawn."""

    position: None
    key: Keys
    n_steps: int
    log_density: LogDensity
    rows: LazyRows
    latents: Any  # the assignments of all data, with ``control_variate="stored"``; else None


def begin_rows(sampler: Any, model: Any, keys: np.ndarray) -> SCIRRowsState:
    """A chain before its first step, from the stationary distribution of the prior, or given random stored counts."""
    n_rows, n_columns = model.manifold.shape
    state = SCIRRowsState(None, step_keys(keys), 0, np.nan, new_rows(n_rows, n_columns, model.row_prior), None)
    if sampler.control_variate is None:
        return state
    latents, counts = model.init_rows(subkey(keys[0], Purpose.INITIAL_LATENTS))
    return begin_at(model, state._replace(latents=latents), _all_rows(model), counts, 1.0, keys[0])


def begin_at(
    model: Any, state: SCIRRowsState, words: np.ndarray, counts: Any, scale: float, key: np.uint64
) -> SCIRRowsState:
    """The chain with `words` (ascending) drawn from the stationary distribution given `scale` times these counts."""
    rows, lasting = _read(model, state, words, key), state.latents is not None
    rows = add_counts(rows, words, counts, _FOR_EVER, model.row_prior, scale=scale, lasting=lasting)
    return state._replace(rows=rows)


def step_rows(sampler: Any, model: Any, state: SCIRRowsState) -> SCIRRowsState:
    """Read the rows of the minibatch, compute its statistics given them, and start a step."""
    key = fold_in(state.key[0], state.n_steps)
    batch = model.choose_batch(key)
    stored = state.latents is not None
    rows = _read(model, state, batch.words if sampler.lazy else _all_rows(model), key)
    arrays = rows.log_theta[batch.words], log_totals(rows), key
    if stored:
        counts, scale = model.recount_batch(batch, state.latents, *arrays), 1.0
        if not sampler.lazy:
            rows = _redraw_totals(rows, model, counts, key)
    else:
        counts, scale = model.count_batch(batch, *arrays), batch.scale
    h = step_size_at(sampler.step_size, state.n_steps)
    rows = add_counts(rows, batch.words, counts, h, model.row_prior, scale=scale, lasting=stored)
    return state._replace(rows=rows, n_steps=state.n_steps + 1)


def log_totals(rows: LazyRows) -> np.ndarray:
    """Logarithms of the columns' sums; computed from logarithms if a sum may have underflowed."""
    if rows.totals.min() > _TINY:
        return np.log(rows.totals)
    return logsumexp(rows.log_theta.astype(np.float64), axis=0)


def _redraw_totals(rows: LazyRows, model: Any, changes: Any, key: np.uint64) -> LazyRows:
    """Draw the sum of each column, a gamma variable given all counts, and scale the column to it.

    The assignments were drawn given the proportions alone, so that the sums still follow the previous counts.
    """
    shapes = model.row_prior.totals + rows.count_totals + changes.totals
    keys = fold_in_each(subkey(key, Purpose.COLUMN_SUMS), np.arange(len(shapes)))
    drawn = np.array([log_gamma_variate(*cell) for cell in zip(keys, shapes, strict=True)])
    rows.log_theta[...] += drawn - log_totals(rows)
    rows.totals[...] = np.exp(drawn)
    return rows


def draw_all_rows(model: Any, state: SCIRRowsState) -> SCIRRowsState:
    """Draw the current values of all rows; the columns' totals are then their sums."""
    key = subkey(state.key[0], Purpose.DRAW, state.n_steps)
    return state._replace(rows=_read(model, state, _all_rows(model), key))


def _all_rows(model: Any) -> np.ndarray:
    return np.arange(model.manifold.shape[0], dtype=np.int32)


def _read(model: Any, state: SCIRRowsState, words: np.ndarray, key: np.uint64):
    return read_rows(
        state.rows,
        words,
        model.row_prior,
        subkey(key, Purpose.READ),
        lasting=state.latents is not None,
        workers=model.workers,
    )


_ROW_SUMS = Purpose.ROW_SUMS


class LogPositionState(NamedTuple):
    """Chains of positive coordinates, which move in their logarithms."""

    position: Points
    key: Keys
    n_steps: int
    log_density: LogDensity
    # Of the coordinates before any row is normalised
    log_theta: Annotated[np.ndarray, Array("float64", "1 ...", high=MOST_LOG)]


@dataclass(eq=False, repr=False)
class _ExactSampler(ManifoldSampler):
    state_types: ClassVar[tuple[type, ...]] = (LogPositionState,)
    _parameter_constraints: ClassVar[dict] = {
        "step_size": [Interval(Real, 0, None, closed="neither"), PolynomialDecay, callable]
    }

    step_size: StepSize = 0.5

    def _log_position(self, state: LogPositionState) -> np.ndarray:
        return state.log_theta

    def _begin_at_log(self, model: Any, keys: np.ndarray, log_position: np.ndarray) -> LogPositionState:
        return super()._begin_at_log(model, keys, log_position)._replace(log_theta=log_position)

    def stats(self, model: Any, state: Any) -> dict[str, np.ndarray]:
        """The logarithm of the position, ``log_position``, which does not underflow."""
        if not isinstance(model.manifold, Simplex):
            return {"log_position": state.log_theta}
        log_position = np.empty_like(state.log_theta)
        _normalize_log_rows(_rows(state.log_theta), _rows(log_position))
        return {"log_position": log_position}


@dataclass(eq=False, repr=False)
class SCIR(_ExactSampler):
    r"""Stochastic Cox-Ingersoll-Ross process: gammas and Dirichlet rows without discretisation error.

    With :math:`\hat a` the shapes (prior plus an unbiased estimate of counts), each coordinate moves by the exact
    transition of :math:`d\theta = (\hat a - \theta) dt + \sqrt{2 \theta} dW` over time h ([1]_, eqs. 3.1 and 3.2),

    .. math:: \theta' = \frac{1 - e^{-h}}{2} W, \qquad
        W \sim \chi'^2\left(2 \hat a, \frac{2 \theta e^{-h}}{1 - e^{-h}}\right),

    drawn as a gamma variable with the shape :math:`\hat a` plus a Poisson count, in log space, so that shapes of 1e-4
    are accurate. On a simplex, :math:`\omega = \theta / \sum \theta` by rows. With exact counts the sampler is exact
    for any step size. With minibatches :math:`E \theta` is exact, and the variance is
    :math:`a + \tanh(h/2) Var[\hat a]`. In the complete recipe D = diag(theta), Q = 0 and H = -log Ga(theta; a, 1).

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.5
        Time h of the process, as in [1]_.
    lazy : bool, default=True
        For targets with counts by rows (`HasRowCounts`, such as topic models). With True a row is only drawn when a
        minibatch reads it, by one transition over the time since it was last read. The marginal distribution of each
        coordinate is exact, but the sums of columns that normalise them are replaced by their conditional expectations.
        With False all rows are drawn at every step. This has no approximation, and its cost is proportional to the
        number of rows.
    control_variate : {"stored"} or None, default=None
        For targets with counts by rows. "stored" keeps the assignments of all data, so that each step uses the counts
        of all data instead of scaled counts of the minibatch, which would increase the variance. With ``lazy=False``
        the stationary distribution is the posterior for any step size, otherwise up to a term of the order of one over
        the count of a column. It is not available for streams.

    Notes
    -----
    The states have ``log_theta``, the logarithm of theta, from which the position is computed.

    References
    ----------
    .. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth, "Large-scale stochastic sampling from the probability
       simplex", NeurIPS 2018.
    """

    short_name = "scir"
    requires = (HasCounts,)
    state_types = (LogPositionState, SCIRRowsState)  # the second one for targets with counts by rows
    _parameter_constraints: ClassVar[dict] = {
        **_ExactSampler._parameter_constraints,
        "lazy": ["boolean"],
        "control_variate": [None, StrOptions({"stored"})],
    }

    lazy: bool = True
    control_variate: Literal["stored"] | None = None

    @property
    def keeps_rows(self) -> bool:
        """Whether the state holds the assignments of all data."""
        return self.control_variate == "stored"

    def init(self, model: Any, key: Any, position: ArrayLike | None = None) -> Any:
        """The state before the first step; see `ManifoldSampler`."""
        if offers(model, HasRowCounts) and position is None:
            self._validate_params()
            return begin_rows(self, model, np.atleast_1d(np.asarray(key, dtype=np.uint64)))
        if self.control_variate is not None:
            raise IncompatibleError(
                f"SCIR with control_variate={self.control_variate!r} needs counts by rows, which "
                f"{type(model).__name__} does not offer."
            )
        return super().init(model, key, position)

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> LogPositionState:
        if not isinstance(model.manifold, (PositiveOrthant, Simplex)):
            raise IncompatibleError(f"SCIR moves on a positive orthant or a simplex, not on {model.manifold!r}.")
        with np.errstate(divide="ignore"):
            log_theta = np.log(position)
        if isinstance(model.manifold, Simplex):  # the sum of a row is its gamma variable
            shapes = _shapes(self, model, LogPositionState(position, keys, 0, np.nan, log_theta), keys)
            _scale_rows(keys, shapes.sum(axis=-1).reshape(len(keys), -1), _rows(log_theta))
        return LogPositionState(position, step_keys(keys), 0, np.nan, log_theta)

    def step(self, model: Any, state: Any) -> Any:
        """One exact transition of every coordinate, or of every row that the minibatch reads."""
        if isinstance(state, SCIRRowsState):
            return step_rows(self, model, state)
        h = step_size_at(self.step_size, state.n_steps)
        keys = derived_keys(state.key, state.n_steps)
        shapes = _shapes(self, model, state, keys)
        n_chains, log_theta = len(keys), state.log_theta
        _step_cir(keys, h, shapes.reshape(n_chains, -1), log_theta.reshape(n_chains, -1))
        if isinstance(model.manifold, Simplex):
            _normalize_rows(_rows(log_theta), _rows(state.position))
        else:
            np.exp(log_theta, out=state.position)
        return counted(state)

    def recipe(self, model: HasCounts) -> Recipe:
        """D, Q and H of the process on a positive orthant, for `check_recipe`."""
        if not isinstance(model.manifold, PositiveOrthant):
            raise IncompatibleError(f"The recipe of SCIR needs a positive orthant; got {model.manifold!r}.")
        size = model.manifold.size
        return Recipe(np.diag, np.zeros((size, size)))


class GeometricBrownian(_ExactSampler):
    r"""Log-normal coordinates by the exact transition of the mean-reverting geometric Brownian motion.

    The logarithm :math:`y = \log \theta` follows :math:`dy = (\hat\mu - y) dt + \sqrt{2} \sigma dW`, over time h

    .. math:: y' = \hat\mu + e^{-h} (y - \hat\mu) + N(0, \sigma^2 (1 - e^{-2h})),

    where :math:`\sigma^2` is known and :math:`\hat\mu` is an unbiased estimate of the mean ([1]_, sec. 3.3). It is
    exact for any step size if :math:`\hat\mu` is exact. With minibatches the mean of y is exact, and its variance is
    :math:`\sigma^2 + \tanh(h/2) Var[\hat\mu]`. In the complete recipe D = diag(sigma^2 theta^2), Q = 0 and H = -log p.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.5
        Time h of the process.

    References
    ----------
    .. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth, "Large-scale stochastic sampling from the probability
       simplex", NeurIPS 2018.
    """

    short_name = "geometric_brownian"
    requires = (HasLogNormalMean,)

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> LogPositionState:
        if position.min() <= 0:
            raise ValueError("The initial coordinates of GeometricBrownian must be positive.")
        return LogPositionState(position, step_keys(keys), 0, np.nan, np.log(position))

    def step(self, model: HasLogNormalMean, state: LogPositionState) -> LogPositionState:
        """One exact transition of every coordinate."""
        h = step_size_at(self.step_size, state.n_steps)
        keys = derived_keys(state.key, state.n_steps)
        mean, noise = np.empty_like(state.position), np.empty_like(state.position)
        model.expected_log(state.position, keys, mean)
        _check(self, state, np.isfinite(mean).reshape(len(keys), -1).all(axis=1), "mean that is not finite")
        fill_normal(keys, Purpose.NOISE, noise.reshape(len(keys), -1))
        y = state.log_theta
        y += -math.expm1(-h) * (mean - y) + np.sqrt(-math.expm1(-2 * h) * model.log_variance) * noise
        np.exp(y, out=state.position)
        return counted(state)

    def recipe(self, model: HasLogNormalMean) -> Recipe:
        """D, Q and H of the process, for `check_recipe`."""
        size = model.manifold.size
        variance = np.broadcast_to(model.log_variance, model.manifold.shape).ravel()
        return Recipe(lambda z: np.diag(variance * z**2), np.zeros((size, size)))


def _shapes(sampler: SCIR, model, state: LogPositionState, keys: np.ndarray) -> np.ndarray:
    shapes = np.empty_like(state.position)
    model.expected_counts(state.position, keys, shapes)
    fine = (np.isfinite(shapes) & (shapes > 0)).reshape(len(keys), -1).all(axis=1)
    _check(sampler, state, fine, "shape that is not positive and finite")
    return shapes


def _check(sampler: ManifoldSampler, state: Any, fine: np.ndarray, what: str) -> None:
    if not fine.all():
        raise NonFiniteError(
            f"{type(sampler).__name__} met a {what} at step {state.n_steps} of chain {int(np.argmin(fine))}; "
            "the error's `state` holds where it stood.",
            state,
        )


def _rows(array: np.ndarray) -> np.ndarray:
    """Chains of one row, or of several, as ``(n_chains, n_rows, d)``."""
    return array.reshape(len(array), -1, array.shape[-1])


@njit(cache=True, nogil=True)
def _step_cir(keys, h, shapes, log_theta):
    """Exact transition of the process for every coordinate, in place."""
    kept = np.exp(-h)
    lost = -np.expm1(-h)
    rate = kept / lost
    log_lost = np.log(lost)
    for c in range(keys.shape[0]):
        for i in range(shapes.shape[1]):
            key = fold_in(keys[c], i)
            n = poisson(fold_in(key, 0), np.exp(log_theta[c, i]) * rate)
            log_theta[c, i] = log_lost + log_gamma_variate(fold_in(key, 1), shapes[c, i] + n)


@njit(cache=True, nogil=True)
def _scale_rows(keys, totals, log_theta):
    """Multiply each row by a gamma draw of its total shape."""
    for c in range(keys.shape[0]):
        key = fold_in(keys[c], _ROW_SUMS)
        for r in range(log_theta.shape[1]):
            log_scale = log_gamma_variate(fold_in(key, r), totals[c, r])
            for j in range(log_theta.shape[2]):
                log_theta[c, r, j] += log_scale


@njit(cache=True, nogil=True)
def _normalize_log_rows(log_theta, out):
    """Write the logarithms of each row's proportions, summed relative to its largest coordinate."""
    for c in range(log_theta.shape[0]):
        for r in range(log_theta.shape[1]):
            largest = log_theta[c, r].max()
            total = 0.0
            for j in range(log_theta.shape[2]):
                total += np.exp(log_theta[c, r, j] - largest)
            log_total = largest + np.log(total)
            for j in range(log_theta.shape[2]):
                out[c, r, j] = log_theta[c, r, j] - log_total


@njit(cache=True, nogil=True)
def _normalize_rows(log_theta, out):
    """Write each row's proportions, without underflow for rows of tiny gammas."""
    _normalize_log_rows(log_theta, out)
    for c in range(out.shape[0]):
        for r in range(out.shape[1]):
            for j in range(out.shape[2]):
                out[c, r, j] = np.exp(out[c, r, j])
