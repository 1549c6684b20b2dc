"""Log densities and proportions of documents of a spherical admixture by importance sampling.

There is one kernel for each method, so that the methods that are rarely needed are compiled only where they are. Each
fills an array whose rows are, for the documents with products ``b = beta'v``, the logarithm of the mean weight, the
effective sample size, a number without meaning, and the weighted mean of theta. The effective sample size is NaN where
that of a pilot was too low. Scratch memory is made by the caller, because kernels that make arrays take longer to
compile.
"""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import Purpose, fold_in
from ..utils._njit import njit
from ._spherical_annealing import FIRST_LOG_STEP, anneal
from ._spherical_importance import draw_from_prior, effective_fraction
from ._spherical_proposal import draw_from_proposal, fit_proposal_of

LEAST_ESS = 0.3
_N_PILOT = 50
_DRAWS_PER_PARTICLE = 8
_N_ADAPTATION = 4  # particles that only adapt step sizes
_DRAW = Purpose.DRAW
_PILOT = Purpose.PILOT
_TUNING = Purpose.TUNING
_ANNEALING = Purpose.ANNEALING


@njit(cache=True, nogil=True, _nrt=False)
def _finish(tally, n_draws):
    """Turn a tally into a row of the result."""
    total = tally[1]
    tally[0] += math.log(total / n_draws)
    tally[1] = effective_fraction(tally, n_draws)
    for k in range(3, len(tally)):
        tally[k] /= total


@njit(cache=True, nogil=True, _nrt=False)
def average_over_proposal(
    products, keys, gram, alpha, density, n_draws, least_ess, tables, vectors, matrices, out
):  # fmt: skip
    """Integrate documents with draws of the proposal that is fitted to each.

    It is refused if the fit fails or a pilot's effective sample size is below `least_ess`. `tables` are
    `tabulate(alpha)`; `vectors`, (5, K), and `matrices`, (4, K, K), are scratch.
    """
    for i in range(len(keys)):
        b, tally = products[i], out[i]
        tally[1] = np.nan
        k = fit_proposal_of(alpha, density, b, gram, tables, vectors, matrices)
        if k == 0.0:
            continue
        fitted = (alpha, density, k, b, gram, tables, vectors, matrices)
        draw_from_proposal(*fitted, fold_in(fold_in(keys[i], _PILOT), 0), _N_PILOT, tally)
        if effective_fraction(tally, _N_PILOT) >= least_ess:
            draw_from_proposal(*fitted, fold_in(keys[i], _DRAW), n_draws, tally)
            _finish(tally, n_draws)
        else:
            tally[1] = np.nan


@njit(cache=True, nogil=True, _nrt=False)
def average_over_prior(products, keys, gram, alpha, density, n_draws, least_ess, scratch, out):
    """Integrate documents with draws of the prior; as `average_over_proposal`, without a pilot if `least_ess` is 0.

    `scratch` is as that of `draw_from_prior`.
    """
    for i in range(len(keys)):
        b, tally = products[i], out[i]
        if least_ess > 0.0:
            pilot_key = fold_in(fold_in(keys[i], _PILOT), 1)
            draw_from_prior(alpha, density, b, gram, pilot_key, _N_PILOT, tally, scratch)
            if not effective_fraction(tally, _N_PILOT) >= least_ess:
                tally[1] = np.nan
                continue
        draw_from_prior(alpha, density, b, gram, fold_in(keys[i], _DRAW), n_draws, tally, scratch)
        _finish(tally, n_draws)


def count_particles(n_draws: int) -> int:
    """Particles of annealing that take the place of `n_draws` draws."""
    return max(2, (n_draws + _DRAWS_PER_PARTICLE - 1) // _DRAWS_PER_PARTICLE)


@njit(cache=True, nogil=True, _nrt=False)
def average_over_particles(products, keys, gram, alpha, density, n_particles, log_steps, work, out):
    """Integrate all documents by annealing, with step sizes adapted by separate particles.

    `log_steps` (one for each temperature) and `work`, of shape (8, K), are scratch memory.
    """
    for i in range(len(keys)):
        b, tally = products[i], out[i]
        document_key = fold_in(keys[i], _ANNEALING)
        for rung in range(len(log_steps)):
            log_steps[rung] = FIRST_LOG_STEP
        for stage in range(2):
            adapts = stage == 0
            of_stage = fold_in(document_key, _TUNING if adapts else _DRAW)
            n_used = _N_ADAPTATION if adapts else n_particles
            anneal(alpha, density, b, gram, of_stage, n_used, log_steps, adapts, tally, work)
        _finish(tally, n_particles)
