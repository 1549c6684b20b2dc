"""Log densities and proportions of documents of a spherical admixture by importance sampling."""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import Purpose, fold_in, row_key
from ..topics.spherical_kernels import gather_products
from ..utils._njit import njit
from ._spherical_annealing import N_RUNGS, anneal, start_steps
from ._spherical_importance import BATCH, draw_from_prior, effective_fraction
from ._spherical_proposal import draw_from_proposal, fit_proposal

LEAST_ESS = 0.3
_N_PILOT = 50
_MAX_PRIOR_KAPPA = 5.0  # concentration up to which the prior is as good a proposal as the fitted one
_DRAWS_PER_PARTICLE = 8
_N_ADAPTATION = 4  # particles that only adapt step sizes
_DRAW = Purpose.DRAW
_PILOT = Purpose.PILOT
_TUNING = Purpose.TUNING
_ANNEALING = Purpose.ANNEALING


@njit(cache=True, nogil=True)
def _record(tally, n_draws, row, out_log, out_ess, out_proportions):
    """Write the logarithm of the mean weight, the effective sample size and the weighted mean of theta."""
    out_log[row] = tally[0] + math.log(tally[1] / n_draws)
    out_ess[row] = effective_fraction(tally, n_draws)
    for k in range(out_proportions.shape[1]):
        out_proportions[row, k] = tally[3 + k] / tally[1]


@njit(cache=True, nogil=True)
def _record_prior(alpha, row, out_log, out_ess, out_proportions):
    """Write the results of a row without entries, which has no direction."""
    out_log[row] = np.nan
    out_ess[row] = np.nan
    for k in range(len(alpha)):
        out_proportions[row, k] = alpha[k] / alpha.sum()


@njit(cache=True, nogil=True)
def average_over_prior(
    first, last, indptr, indices, data, bits, word_topic, gram, alpha, kappa, key, n_draws, out_log, out_ess,
    out_proportions,
):  # fmt: skip
    """Integrate rows ``first:last`` with draws from the prior."""
    n = len(alpha)
    rows = np.arange(first, last)
    products = np.empty((last - first, n))
    gather_products(indptr, indices, data, rows, 0, len(rows), word_topic, products)
    tally = np.empty(3 + n)
    scratch = np.empty((n + 3, BATCH))
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            _record_prior(alpha, row, out_log, out_ess, out_proportions)
            continue
        draw_key = fold_in(row_key(key, indices, bits, start, stop), _DRAW)
        draw_from_prior(alpha, kappa, products[row - first], gram, draw_key, n_draws, tally, scratch)
        _record(tally, n_draws, row, out_log, out_ess, out_proportions)


@njit(cache=True, nogil=True)
def _draw(
    from_prior, alpha, kappa, k, b, gram, tables, means, precisions, shifts, lower, key, n_draws, tally, work, scratch
):  # fmt: skip
    """Add draws of the prior or of the fitted proposal to the tally; return their effective fraction."""
    if from_prior:
        draw_from_prior(alpha, kappa, b, gram, key, n_draws, tally, scratch)
    else:
        draw_from_proposal(
            alpha, kappa, k, b, gram, tables, means, precisions, shifts, lower, key, n_draws, tally, work
        )
    return effective_fraction(tally, n_draws)


@njit(cache=True, nogil=True)
def integrate_proportions(
    first, last, indptr, indices, data, bits, word_topic, gram, alpha, tables, kappa, key, n_draws, least_ess, out_log,
    out_ess, out_proportions, out_n_draws, out_annealed,
):  # fmt: skip
    """Integrate rows ``first:last`` with the fitted proposal or the prior, or by annealing if both pilots fail."""
    n = len(alpha)
    rows = np.arange(first, last)
    products = np.empty((last - first, n))
    gather_products(indptr, indices, data, rows, 0, len(rows), word_topic, products)
    tally = np.empty(3 + n)
    scratch = np.empty((n + 3, BATCH))
    work = np.empty((7, n))
    means, precisions, shifts = np.empty(n), np.empty(n), np.empty(n)
    lower = np.zeros((n, n))
    matrices = np.empty((3, n, n))
    fits = kappa > _MAX_PRIOR_KAPPA and n > 1
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            _record_prior(alpha, row, out_log, out_ess, out_proportions)
            continue
        b = products[row - first]
        document_key = row_key(key, indices, bits, start, stop)
        k = 0.0
        if fits:
            k = fit_proposal(alpha, kappa, b, gram, tables, means, precisions, shifts, lower, work, matrices)
        from_prior = k == 0.0
        n_used = n_draws
        while True:
            fitted = (alpha, kappa, k, b, gram, tables, means, precisions, shifts, lower)
            pilot_key = fold_in(fold_in(document_key, _PILOT), from_prior)
            if _draw(from_prior, *fitted, pilot_key, _N_PILOT, tally, work, scratch) >= least_ess:
                _draw(from_prior, *fitted, fold_in(document_key, _DRAW), n_draws, tally, work, scratch)
                break
            if from_prior:
                out_annealed[row] = True
                n_used = max(2, (n_draws + _DRAWS_PER_PARTICLE - 1) // _DRAWS_PER_PARTICLE)
                out_n_draws[row] = n_used
                _anneal(alpha, kappa, b, gram, fold_in(document_key, _ANNEALING), n_used, tally, work)
                break
            from_prior = True
        _record(tally, n_used, row, out_log, out_ess, out_proportions)


@njit(cache=True, nogil=True)
def _anneal(alpha, kappa, b, B, key, n_particles, tally, work):
    """Annealing, with step sizes adapted by separate particles."""
    log_steps = np.empty(N_RUNGS)
    start_steps(log_steps)
    for adapts in (True, False):
        of_stage = fold_in(key, _TUNING if adapts else _DRAW)
        anneal(alpha, kappa, b, B, of_stage, _N_ADAPTATION if adapts else n_particles, log_steps, adapts, tally, work)
