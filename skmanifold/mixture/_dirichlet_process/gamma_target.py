"""Distributions as normalised gammas, in rows that are born and die: the target of their sampler, and its state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...manifolds import PositiveOrthant
from ...models import IncompatibleError, check_compatible, seen_by
from ...random._keys import Purpose, fold_in, subkey
from ...random._variates import fill_log_gamma_variates, log_gamma_variate
from ...samplers import ManifoldSampler
from ...utils._njit import njit

_LEAST = 1e-290  # of a coordinate: its inverse, times a count, must be finite


class GammaBlocks:
    r"""K rows of gammas given counts; within a row each column's proportions are a distribution.

    With a the prior's shapes, n the counts and :math:`N_c` the sum of those in the column c of coordinate f,

    .. math:: \partial_{\theta_f} \log p = (a_f + n_f - 1) / \theta_f - 1 - N_c / \sum_{g \in c} \theta_g:

    the prior :math:`\theta_f \sim \mathrm{Ga}(a_f, 1)` times the likelihood of the proportions. The columns' sums then
    have the prior's law. As counts are expected, coordinates are Ga(a + n, 1); the proportions have the same law.

    Parameters
    ----------
    prior : ndarray that broadcasts to (K, d)
    counts : ndarray of shape (K, d)
        Of all data, or what stands for them; they need not be whole.
    column_start : ndarray of shape (n_columns + 1,), int64
        Column c has the coordinates ``column_start[c]:column_start[c + 1]``.
    """

    noise_covariance: Any = None
    vectorized = True

    def __init__(self, prior: np.ndarray, counts: np.ndarray, column_start: np.ndarray):
        self.shapes = prior + counts
        self.column_start = column_start
        self.manifold = PositiveOrthant(counts.shape)
        self._column_counts = _sum_columns(np.asarray(counts, np.float64), column_start)

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Prior and counts."""
        out[...] = self.shapes

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """The gradient at each chain's rows."""
        _fill_gradient(position, self.shapes, self._column_counts, self.column_start, out)

    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density of each chain's rows."""
        out = np.empty(len(position))
        for chain, theta in enumerate(position):
            theta = np.maximum(theta, _LEAST)
            sums = _sum_columns(theta, self.column_start)
            out[chain] = ((self.shapes - 1) * np.log(theta) - theta).sum() - (self._column_counts * np.log(sums)).sum()
        return out


def check_mover(sampler: ManifoldSampler, target: GammaBlocks) -> None:
    """Raise `IncompatibleError` for a sampler that cannot move rows while their counts change."""
    sampler._validate_params()
    check_compatible(sampler, seen_by(sampler, target))
    name = type(sampler).__name__
    if sampler.batching == "full":
        raise IncompatibleError(f"{name} needs a density that stays, and the counts of a mixture change at every step.")
    if sampler.is_anchored:
        raise IncompatibleError(f"{name} with SVRG needs gradients of all rows, which a mixture does not offer.")


def begin_blocks(sampler: ManifoldSampler, target: GammaBlocks, key: np.uint64) -> Any:
    """One chain whose proportions are an exact draw given the counts."""
    check_mover(sampler, target)
    log_theta = np.empty(target.manifold.shape)
    fill_log_gamma_variates(subkey(key, Purpose.DRAW), target.shapes, log_theta)
    return _begin(sampler, target, log_theta, np.uint64(key))


def step_blocks(sampler: ManifoldSampler, target: GammaBlocks, state: Any) -> Any:
    """One step of the sampler towards rows that have these counts."""
    return sampler.step(seen_by(sampler, target), state)


def log_rows(state: Any) -> np.ndarray:
    """Logarithms of the coordinates, (K, d)."""
    if hasattr(state, "log_theta"):
        return state.log_theta[0]
    return np.log(np.maximum(np.abs(state.position[0]), _LEAST))


def log_proportions(state: Any, column_start: np.ndarray) -> np.ndarray:
    """Logarithms of the proportions, (d, K): rows side by side."""
    log_theta = log_rows(state)
    out = np.empty(log_theta.shape[::-1])
    _normalize_columns(log_theta, column_start, out)
    return out


def with_rows(sampler: ManifoldSampler, empty: GammaBlocks, state: Any, proportions: np.ndarray, key) -> Any:
    """The state with as many rows as the target `empty` has: its own first ones, and then new ones that are born.

    A row is born with the proportions under which data took it for theirs; only its columns' sums, of which the data
    know nothing, are drawn for it. Gammas drawn afresh would forget what the row was born for, and bias its law.

    Parameters
    ----------
    empty : GammaBlocks
        Without counts: what rows are before any data.
    proportions : (d, n)
        Logarithms of the proportions of all rows, as `log_proportions` gives them.
    """
    n_rows = len(empty.shapes)
    n_kept = min(n_rows, state.position.shape[1])
    log_theta = np.ascontiguousarray(np.concatenate((log_rows(state)[:n_kept], proportions[:, n_kept:n_rows].T)))
    _redraw_sums(subkey(key, Purpose.COLUMN_SUMS), n_kept, empty.shapes, empty.column_start, log_theta)
    begun = _begin(sampler, empty, log_theta, np.uint64(key))
    arrays = {name: value for name, value in state._asdict().items() if isinstance(value, np.ndarray)}
    for name, old in arrays.items():
        if old.ndim == state.position.ndim:  # by rows
            arrays[name] = np.concatenate((old[:, :n_kept], getattr(begun, name)[:, n_kept:]), axis=1)
    return begun._replace(n_steps=state.n_steps, **arrays)


def with_sums_of(target: GammaBlocks, state: Any, key: np.uint64) -> Any:
    """The state with the columns' sums drawn from their law given the target's counts, of a sampler with `log_theta`.

    Labels are drawn given the proportions alone, so the sums still belong to the counts before. Given all counts a
    column's sum is a gamma, independent of its proportions.
    """
    log_theta = log_rows(state)
    _redraw_sums(subkey(key, Purpose.COLUMN_SUMS), 0, target.shapes, target.column_start, log_theta)
    np.exp(state.log_theta, out=state.position)
    return state


def _begin(sampler: ManifoldSampler, target: GammaBlocks, log_theta: np.ndarray, key: np.uint64) -> Any:
    state = sampler._begin(seen_by(sampler, target), np.array([key]), np.exp(log_theta)[np.newaxis])
    return state._replace(log_theta=log_theta[np.newaxis]) if hasattr(state, "log_theta") else state


@njit(cache=True, nogil=True)
def _log_sum(values):
    largest = values.max()
    total = 0.0
    for value in values:
        total += math.exp(value - largest)
    return largest + math.log(total)


@njit(cache=True, nogil=True)
def _sum_columns(values, column_start):
    n_columns = len(column_start) - 1
    out = np.zeros((values.shape[0], n_columns))
    for k in range(values.shape[0]):
        for c in range(n_columns):
            for f in range(column_start[c], column_start[c + 1]):
                out[k, c] += values[k, f]
    return out


@njit(cache=True, nogil=True)
def _normalize_columns(log_theta, column_start, out):
    for k in range(log_theta.shape[0]):
        for c in range(len(column_start) - 1):
            begin, end = column_start[c], column_start[c + 1]
            log_sum = _log_sum(log_theta[k, begin:end])
            for f in range(begin, end):
                out[f, k] = log_theta[k, f] - log_sum


@njit(cache=True, nogil=True)
def _redraw_sums(key, first, shapes, column_start, log_theta):
    """Give each column of the rows from `first` on a sum drawn from the gamma law of these shapes."""
    for k in range(first, log_theta.shape[0]):
        child = fold_in(key, k)
        for c in range(len(column_start) - 1):
            begin, end = column_start[c], column_start[c + 1]
            log_scale = log_gamma_variate(fold_in(child, c), shapes[k, begin:end].sum())
            log_scale -= _log_sum(log_theta[k, begin:end])
            for f in range(begin, end):
                log_theta[k, f] += log_scale


@njit(cache=True, nogil=True)
def _fill_gradient(theta, shapes, column_counts, column_start, out):
    for chain in range(theta.shape[0]):
        for k in range(theta.shape[1]):
            for c in range(len(column_start) - 1):
                begin, end = column_start[c], column_start[c + 1]
                share = column_counts[k, c] / max(theta[chain, k, begin:end].sum(), _LEAST)
                for f in range(begin, end):
                    out[chain, k, f] = (shapes[k, f] - 1.0) / max(theta[chain, k, f], _LEAST) - 1.0 - share
