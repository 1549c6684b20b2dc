"""SCIR with lazy rows: a minibatch reads a few rows, and the others are updated when they are next read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...random._keys import Purpose, fold_in, fold_in_each, subkey
from ...random._variates import log_gamma_variate
from .._density.base import step_keys
from .._schedule import step_size_at
from .._states import Keys, LogDensity
from .lazy_cir_rows import LazyRows, add_counts, new_rows, read_rows

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
    words = _all_rows(model)
    state = state._replace(latents=latents)
    rows = _read(model, state, words, keys[0])
    rows = add_counts(rows, words, counts, _FOR_EVER, model.row_prior, scale=1.0, lasting=True)
    return state._replace(rows=rows)


def begin_at(
    model: Any, state: SCIRRowsState, words: np.ndarray, counts: Any, scale: float, key: np.uint64
) -> SCIRRowsState:
    """The chain with `words` (ascending) drawn from the stationary distribution given `scale` times these counts."""
    rows = _read(model, state, words, key)
    rows = add_counts(rows, words, counts, _FOR_EVER, model.row_prior, scale=scale, lasting=False)
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


def settle(model: Any, state: SCIRRowsState) -> SCIRRowsState:
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
