"""Importance sampling of the proportions of a document under spherical topics: draws of the prior, and annealing.

A weight is the density of the document given its proportions, divided by c_V(kappa) exp(kappa), times the ratio of the
prior density to the proposal density. Draws of the prior are computed in batches, with one draw per column, so that the
inner loops run over draws.

In annealed importance sampling the concentration increases along the sequence of distributions. A transition must not
depend on the history of its particle, so step sizes are adapted with particles that are then discarded.
"""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import Purpose, fold_in, uniform
from ..random._variates import log_gamma_variate
from ..topics.document_densities import (
    OneConcentration,
    TopicConcentrations,
    at_share,
    cosine_terms,
    log_document,
    log_gain,
)
from ..topics.spherical_kernels import fill_softmax, move_point
from ..utils._njit import by_type, njit, njit_part

BATCH = 64
LEAST_SQUARE = 1e-16  # minimum of theta'B theta, which is 0, or negative by rounding, if topics cancel each other
N_RUNGS = 64
_N_STEPS = 5  # leapfrog steps of a transition
_GAIN = 0.3  # change of the logarithm of a step size per unit of acceptance probability
_TARGET = 0.8  # target acceptance probability
FIRST_LOG_STEP = -1.2  # of all temperatures, before adaptation
_LEAST_ROOT = 1e-150
# Without checks for zero divisors, which take long to compile and prevent vectorisation
unchecked_part = njit(cache=True, _nrt=False, error_model="numpy")
_STEP, _START, _LOG_SUM, _JUMP = Purpose.STEP, Purpose.START, Purpose.LOG_SUM, Purpose.JUMP
_STEP_SIZE, _ACCEPTANCE = Purpose.STEP_SIZE, Purpose.ACCEPTANCE


@unchecked_part
def sum_of(alpha):
    """Sum of the parameters of a Dirichlet prior."""
    total = 0.0
    for i in range(len(alpha)):
        total += alpha[i]
    return total


@unchecked_part
def reset(tally):
    """Initialise the tally: the largest log weight, and relative to it the sums of w, of w^2 and of w theta."""
    tally[:] = 0.0
    tally[0] = -np.inf


@unchecked_part
def add_draw(log_weight, theta, tally):
    """Add a draw to the tally; a weight of NaN counts as 0."""
    if log_weight > tally[0]:
        shrink = math.exp(tally[0] - log_weight)
        tally[0] = log_weight
        for i in range(1, len(tally)):
            tally[i] *= shrink
        tally[2] *= shrink
    if not log_weight > -np.inf:
        return
    weight = math.exp(log_weight - tally[0])
    tally[1] += weight
    tally[2] += weight * weight
    for i in range(len(tally) - 3):
        tally[3 + i] += weight * theta[i]


@unchecked_part
def effective_fraction(tally, n_draws):
    """Effective sample size as a fraction of the number of draws; 0 if all weights are 0."""
    return tally[1] * tally[1] / tally[2] / n_draws if tally[2] > 0.0 else 0.0


@njit_part
def _normalise_batch(alpha, n_draws, y, log_prior, row):
    """Replace columns y by theta = softmax(y); fill `log_prior` with sum_k alpha_k log theta_k; `row` is scratch."""
    for s in range(n_draws):
        row[s] = y[0, s]
        log_prior[s] = 0.0
    for i in range(1, len(alpha)):
        for s in range(n_draws):
            row[s] = max(row[s], y[i, s])
    mass = sum_of(alpha)
    for i in range(len(alpha)):
        for s in range(n_draws):
            y[i, s] -= row[s]
            log_prior[s] += alpha[i] * y[i, s]
    row[:n_draws] = 0.0
    for i in range(len(alpha)):
        for s in range(n_draws):
            y[i, s] = math.exp(y[i, s])
            row[s] += y[i, s]
    for s in range(n_draws):
        log_prior[s] -= mass * math.log(row[s])
        row[s] = 1.0 / row[s]
    for i in range(len(alpha)):
        for s in range(n_draws):
            y[i, s] *= row[s]


@unchecked_part
def fill_cosines(b, B, n_draws, theta, out, row, squared):
    """Fill `out` with the cosines between the document and beta theta, for columns theta; two rows are scratch."""
    out[:n_draws] = 0.0
    squared[:n_draws] = 0.0
    for i in range(len(b)):
        for s in range(n_draws):
            row[s] = 0.5 * B[i, i] * theta[i, s]
        for j in range(i):
            weight = B[i, j]
            for s in range(n_draws):
                row[s] += weight * theta[j, s]
        for s in range(n_draws):
            squared[s] += 2.0 * row[s] * theta[i, s]
            out[s] += b[i] * theta[i, s]
    for s in range(n_draws):
        out[s] = min(1.0, max(-1.0, out[s] / math.sqrt(max(squared[s], LEAST_SQUARE))))


def scratch_shape(n_components: int) -> tuple[int, int]:
    """Shape of scratch memory of draws: columns of weights, four rows of a batch, and one theta."""
    return n_components + 5, max(n_components, BATCH)


@njit_part
def draw_from_prior(alpha, density, b, B, key, n_draws, tally, scratch):
    """Add draws of the Dirichlet prior to the tally; `scratch` has the shape `scratch_shape`."""
    n = len(alpha)
    cosines, squared, row, theta = scratch[n], scratch[n + 1], scratch[n + 2], scratch[n + 3]
    for first in range(0, n_draws, BATCH):
        width = min(BATCH, n_draws - first)
        for s in range(width):
            draw_key = fold_in(key, first + s)
            for i in range(n):
                scratch[i, s] = log_gamma_variate(fold_in(draw_key, i), alpha[i])
        _normalise_batch(alpha, width, scratch, squared, row)
        fill_cosines(b, B, width, scratch, cosines, row, squared)
        for s in range(width):
            for i in range(n):
                theta[i] = scratch[i, s]
            add_draw(log_document(density, theta, cosines[s]), theta, tally)


@njit_part
def _combine(y, b, B, u, spread):
    """Fill `u` with exp(y - max y) and `spread` with B u; return max y, b'u and u'B u."""
    n = len(y)
    top = y[0]
    for i in range(1, n):
        top = max(top, y[i])
    for i in range(n):
        u[i] = math.exp(y[i] - top)
    along = 0.0
    squared = 0.0
    spread[:] = 0.0
    for j in range(n):
        weight, row = u[j], B[j]
        along += weight * b[j]
        for i in range(n):
            spread[i] += weight * row[i]
    for i in range(n):
        squared += u[i] * spread[i]
    return top, along, squared


@by_type
def _jump(density, alpha, b, B, key, y, work):
    """Metropolis moves between modes: a weight is redrawn from its prior, or two topics exchange their weights.

    The state y has exp(y_k) ~ Ga(alpha_k, 1) a priori; `work` is (2, K). None with a concentration for each topic.
    """


@_jump.of(TopicConcentrations)
@njit_part
def _no_jump(density, alpha, b, B, key, y, work):
    """Do nothing."""


@_jump.of(OneConcentration)
@njit_part
def _jump_with_one(density, alpha, b, B, key, y, work):
    n, kappa = len(y), density.reference
    u, spread = work[0], work[1]
    top, along, squared = _combine(y, b, B, u, spread)
    # One move of each kind for each topic. The density depends on u'b and u'Bu alone, which change at little cost.
    for move in range(2 * n):
        i = move % n
        j = i
        move_key = fold_in(key, move)
        if move < n:
            # The weight comes from its prior, so that only the likelihood is in the ratio.
            new_y = log_gamma_variate(move_key, alpha[i])
            shrink = math.exp(min(0.0, top - new_y))  # weights are relative to the larger of the two
            change, other_change = math.exp(min(0.0, new_y - top)) - shrink * u[i], 0.0
            log_ratio = 0.0
        else:
            j = (i + 1 + int(uniform(move_key, 0) * (n - 1))) % n
            # An exchange changes the prior if the two have different parameters.
            new_y = y[j]
            shrink = 1.0
            change, other_change = u[j] - u[i], u[i] - u[j]
            log_ratio = (alpha[i] - alpha[j]) * (y[j] - y[i])
        new_along = shrink * along + change * b[i] + other_change * b[j]
        new_squared = shrink * (shrink * squared + 2.0 * (change * spread[i] + other_change * spread[j]))
        new_squared += change * change * B[i, i] + other_change * (2.0 * change * B[i, j] + other_change * B[j, j])
        log_ratio += kappa * (
            new_along / math.sqrt(max(new_squared, LEAST_SQUARE)) - along / math.sqrt(max(squared, LEAST_SQUARE))
        )
        if math.log1p(-uniform(move_key, _ACCEPTANCE)) < log_ratio:
            old_y = y[i]
            y[i] = new_y
            if j != i:
                y[j] = old_y
            if max(u[i], u[j]) == 1.0 or shrink < 1.0:  # the largest weight has changed
                top, along, squared = _combine(y, b, B, u, spread)
                continue
            u[i] += change
            u[j] += other_change
            along, squared = new_along, new_squared
            for k in range(n):
                spread[k] += change * B[i, k] + other_change * B[j, k]


@njit_part
def anneal(alpha, density, b, B, key, n_particles, log_steps, adapts, tally, work):
    """Add particles, started from the prior, to the tally; the concentration increases to that of the density.

    `work` is scratch memory of shape (8, K).
    """
    n = len(alpha)
    theta, x, y, exponents = work[0], work[5], work[6], work[7]
    mass = sum_of(alpha)
    on_sphere = True
    for i in range(n):
        exponents[i] = 2.0 * alpha[i] - 1.0
        on_sphere = on_sphere and alpha[i] >= 0.5
    n_rungs = len(log_steps)
    for particle in range(n_particles):
        particle_key = fold_in(key, particle)
        start_key = fold_in(particle_key, _START)
        for i in range(n):
            y[i] = log_gamma_variate(fold_in(start_key, i), alpha[i])
        fill_softmax(y, theta)
        log_weight = 0.0
        previous = at_share(density, 0.0)
        move_key = fold_in(particle_key, _STEP)
        for rung in range(n_rungs):
            current = at_share(density, (rung + 1) / n_rungs)
            cosine, _ = cosine_terms(theta, b, B, work[1])
            log_weight += log_gain(current, previous, theta, cosine)
            previous = current
            # The last transition changes theta but not its weight, because it leaves the final distribution invariant.
            rung_key = fold_in(move_key, rung)
            _jump(current, alpha, b, B, fold_in(rung_key, _JUMP), y, work)
            # A random step size, because a fixed one may resonate with the trajectory.
            step = math.exp(log_steps[rung]) * (0.8 + 0.4 * uniform(rung_key, _STEP_SIZE))
            if on_sphere:
                fill_softmax(y, theta)
                for i in range(n):
                    x[i] = math.sqrt(theta[i])
                rate = move_point(x, exponents, True, current, b, B, step, _N_STEPS, rung_key, work)
                # The distribution of the sum of exp(y) is arbitrary; this one makes them independent gammas a priori.
                log_sum = log_gamma_variate(fold_in(rung_key, _LOG_SUM), mass)
                for i in range(n):
                    y[i] = 2.0 * math.log(max(abs(x[i]), _LEAST_ROOT)) + log_sum
            else:
                rate = move_point(y, alpha, False, current, b, B, step, _N_STEPS, rung_key, work)
            if adapts:
                log_steps[rung] += _GAIN * (rate - _TARGET)
                if particle == 0 and rung + 1 < n_rungs:
                    log_steps[rung + 1] = log_steps[rung]
        add_draw(log_weight, theta, tally)
