"""Distributions represented by gamma variables that are normalised: the target of their sampler, and its state."""

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

_LEAST = 1e-290  # least value of a coordinate: a count divided by it must be finite


class GammaBlocks:
    r"""K rows of d gamma variables given counts; in each row, the proportions within a column are a distribution.

    With shapes a of the prior, counts n, (K, d), which may be estimates, and their sum :math:`N_c` in the column c of
    f,

    .. math:: \partial_{\theta_f} \log p = (a_f + n_f - 1) / \theta_f - 1 - N_c / \sum_{g \in c} \theta_g:

    the prior :math:`\theta_f \sim \mathrm{Ga}(a_f, 1)` times the likelihood of the proportions. The sums of the columns
    keep their prior distribution. Samplers that use expected counts have Ga(a + n, 1) as their target instead, with the
    same proportions. Column c has the coordinates ``column_start[c]:column_start[c + 1]``.
    """

    noise_covariance: Any = None
    vectorized = True

    def __init__(self, prior: np.ndarray, counts: np.ndarray, column_start: np.ndarray):
        self.shapes = prior + counts
        self.column_start = column_start
        self.manifold = PositiveOrthant(counts.shape)
        self._column_counts = _sum_columns(np.asarray(counts, np.float64), column_start)

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Prior plus counts."""
        out[...] = self.shapes

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient of the log density, for each chain."""
        _fill_gradient(position, self.shapes, self._column_counts, self.column_start, out)


def init_block(sampler: ManifoldSampler, target: GammaBlocks, key: np.uint64) -> Any:
    """State of one chain, whose proportions are an exact draw given the counts.

    Raises `IncompatibleError` if the sampler does not support a target whose counts change between steps.
    """
    sampler._validate_params()
    name = type(sampler).__name__
    if sampler.batching == "full":
        raise IncompatibleError(f"{name} needs a fixed density, but the counts of a mixture change at every step.")
    if sampler.is_anchored:
        raise IncompatibleError(f"{name} with SVRG needs gradients of all rows, which a mixture does not provide.")
    check_compatible(sampler, seen_by(sampler, target))
    log_theta = np.empty(target.manifold.shape)
    fill_log_gamma_variates(subkey(key, Purpose.DRAW), target.shapes, log_theta)
    return _begin(sampler, target, log_theta, np.uint64(key))


def step_block(sampler: ManifoldSampler, target: GammaBlocks, state: Any) -> Any:
    """One step of the sampler for the target with these counts."""
    return sampler.step(seen_by(sampler, target), state)


def log_rows(sampler: ManifoldSampler, state: Any) -> np.ndarray:
    """Logarithms of the coordinates, (K, d)."""
    return sampler._log_position(state)[0]


def log_proportions(sampler: ManifoldSampler, state: Any, column_start: np.ndarray) -> np.ndarray:
    """Logarithms of the proportions, (d, K)."""
    log_theta = log_rows(sampler, state)
    out = np.empty(log_theta.shape[::-1])
    _normalize_columns(log_theta, column_start, out)
    return out


def resize_block(sampler: ManifoldSampler, empty: GammaBlocks, state: Any, proportions: np.ndarray, key) -> Any:
    """Change the number of rows of a state to that of `empty`: keep its first rows, and append new ones if needed.

    A new row keeps the proportions, logs (d, n), with which data were first assigned to it: others would ignore these
    data and bias it. Only the sums of its columns, which do not depend on the data, are drawn.
    """
    n_rows = len(empty.shapes)
    n_kept = min(n_rows, state.position.shape[1])
    kept, new = log_rows(sampler, state)[:n_kept], proportions[:, n_kept:n_rows].T
    log_theta = np.ascontiguousarray(np.concatenate((kept, new)))
    _redraw_sums(subkey(key, Purpose.COLUMN_SUMS), n_kept, empty.shapes, empty.column_start, log_theta)
    begun = _begin(sampler, empty, log_theta, np.uint64(key))
    arrays = {name: value for name, value in state._asdict().items() if isinstance(value, np.ndarray)}
    for name, old in arrays.items():
        if old.ndim == state.position.ndim:  # by rows
            arrays[name] = np.concatenate((old[:, :n_kept], getattr(begun, name)[:, n_kept:]), axis=1)
    return begun._replace(n_steps=state.n_steps, **arrays)


def redraw_column_sums(target: GammaBlocks, state: Any, key: np.uint64) -> Any:
    """Draw the sums of the columns given the counts: gamma variables, independent of the proportions.

    Labels depend only on the proportions, so that after a change the sums still follow the previous counts.
    """
    log_theta = state.log_theta[0]
    _redraw_sums(subkey(key, Purpose.COLUMN_SUMS), 0, target.shapes, target.column_start, log_theta)
    np.exp(state.log_theta, out=state.position)
    return state


def _begin(sampler: ManifoldSampler, target: GammaBlocks, log_theta: np.ndarray, key: np.uint64) -> Any:
    return sampler._begin_at_log(seen_by(sampler, target), np.array([key]), log_theta[np.newaxis])


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
    """Scale each column of the rows from `first` on to a sum drawn from the gamma distribution with these shapes."""
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
