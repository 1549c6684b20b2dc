"""Kernels of the samplers on manifolds: loops over arrays whose first axis is that of chains, in place.

The kernels flatten the other axes themselves, because views are much cheaper in compiled code. The coefficients of a
velocity update are five rows with one column per chain: damping before, length of the gradient step, damping after,
variance of the noise, and the factor of the covariance of gradient noise that is subtracted from it.
"""

import numpy as np

from ...numerics.block_sums import dot
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import normal
from ...utils._njit import njit

_ACCEPTANCE = Purpose.ACCEPTANCE
_NOISE = Purpose.NOISE
N_COEFFICIENTS = 5
ABOBA, OU, BAOAB = 0, 1, 2  # schemes of the velocity update


@njit(cache=True, nogil=True)
def by_chain(x):
    if x.ndim == 2:
        return x  # for few coordinates, a reshape takes longer than what follows
    return x.reshape(x.shape[0], x.size // x.shape[0])


@njit(cache=True, nogil=True)
def first_not_finite(x):
    """The first chain with a value that is not finite, or -1."""
    x = by_chain(x)
    for c in range(x.shape[0]):
        bad = False
        for i in range(x.shape[1]):
            bad |= not (abs(x[c, i]) < np.inf)  # without an early exit the loop is vectorised, and faster
        if bad:
            return c
    return -1


@njit(cache=True, nogil=True)
def fill_scaled_noise(keys, variance, out):
    """Write N(0, variance[chain]) to `out`."""
    out = by_chain(out)
    for c in range(out.shape[0]):
        scale = np.sqrt(max(variance[c], 0.0))
        key = fold_in(keys[c], _NOISE)
        for i in range(out.shape[1]):
            out[c, i] = scale * normal(key, i)


@njit(cache=True, nogil=True)
def fill_scaled_noise_less(keys, variance, weight, covariance, out):
    """Write N(0, variance[chain] - weight[chain] * covariance) to `out`: a diagonal, clipped at zero."""
    out = by_chain(out)
    shared = covariance.shape[0] == 1
    for c in range(out.shape[0]):
        row = 0 if shared else c
        key = fold_in(keys[c], _NOISE)
        for i in range(out.shape[1]):
            out[c, i] = np.sqrt(max(variance[c] - weight[c] * covariance[row, i], 0.0)) * normal(key, i)


@njit(cache=True, nogil=True)
def add_scaled(x, step, direction):
    """Add ``step * direction`` to x."""
    x, direction = by_chain(x), by_chain(direction)
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[c, i] += step * direction[c, i]


@njit(cache=True, nogil=True)
def step_langevin(x, step, force, noise):
    """Euler step of overdamped dynamics: x += step * force + noise."""
    x, force, noise = by_chain(x), by_chain(force), by_chain(noise)
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[c, i] += step * force[c, i] + noise[c, i]


@njit(cache=True, nogil=True)
def step_langevin_diagonal(x, step, inverse_metric, divergence, force, noise):
    """Euler step with a diagonal metric: x += step * (G^-1 force + divergence) + sqrt(2 step G^-1) noise."""
    x, force, noise = by_chain(x), by_chain(force), by_chain(noise)
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            metric = inverse_metric[c, i]
            x[c, i] += step * (metric * force[c, i] + divergence[c, i]) + np.sqrt(2.0 * step * metric) * noise[c, i]


@njit(cache=True, nogil=True)
def step_euler(x, v, step, friction, force, noise):
    """Euler step of underdamped dynamics: both from the old point; friction is a number for each chain."""
    x, v, force, noise = by_chain(x), by_chain(v), by_chain(force), by_chain(noise)
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            old = v[c, i]
            x[c, i] += step * old
            v[c, i] = old + step * (force[c, i] - friction[c] * old) + noise[c, i]


@njit(cache=True, nogil=True)
def step_baoab(x, v, step, kept, force, noise):
    """Kick, half a drift, damping and noise, half a drift."""
    x, v, force, noise = by_chain(x), by_chain(v), by_chain(force), by_chain(noise)
    half = 0.5 * step
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            before = v[c, i] + step * force[c, i]
            after = kept * before + noise[c, i]
            x[c, i] += half * (before + after)
            v[c, i] = after


@njit(cache=True, nogil=True)
def kick_riemannian(v, step, root, force, correction):
    """Kick with a diagonal metric: v += step * (root * force + correction)."""
    v, force = by_chain(v), by_chain(force)
    for c in range(v.shape[0]):
        for i in range(v.shape[1]):
            v[c, i] += step * (root[c, i] * force[c, i] + correction[c, i])


@njit(cache=True, nogil=True)
def drift_riemannian(x, v, time, root, out):
    """Straight drift with a diagonal metric: out = x + time * root * v; `out` may be x."""
    x, v, out = by_chain(x), by_chain(v), by_chain(out)
    for c in range(x.shape[0]):
        for i in range(x.shape[1]):
            out[c, i] = x[c, i] + time * root[c, i] * v[c, i]


@njit(cache=True, nogil=True)
def refresh_riemannian(v, keys, step, root, covariance):
    """Ornstein-Uhlenbeck step with friction root^2, minus the noise of the preceding gradient step, clipped at zero.

    `covariance` of the gradient noise is a diagonal for each chain or for all; without noise it has no columns.
    """
    v = by_chain(v)
    shared, noisy = covariance.shape[0] == 1, covariance.shape[1] > 0
    for c in range(v.shape[0]):
        key = fold_in(keys[c], _NOISE)
        row = 0 if shared else c
        for i in range(v.shape[1]):
            lost = np.expm1(-root[c, i] * root[c, i] * step)  # kept - 1
            kept = 1.0 + lost
            variance = -lost * (2.0 + lost)  # 1 - kept^2, without cancellation
            if noisy:
                variance = max(variance - (step * kept * root[c, i]) ** 2 * covariance[row, i], 0.0)
            v[c, i] = kept * v[c, i] + np.sqrt(variance) * normal(key, i)


@njit(cache=True, nogil=True)
def damp_and_kick(v, coefficients, force, noise):
    """Kick of the splitting schemes: v = after * (before * v + step * force + noise)."""
    v, force, noise = by_chain(v), by_chain(force), by_chain(noise)
    for c in range(v.shape[0]):
        before, step, after = coefficients[0, c], coefficients[1, c], coefficients[2, c]
        for i in range(v.shape[1]):
            v[c, i] = after * (before * v[c, i] + step * force[c, i] + noise[c, i])


@njit(cache=True, nogil=True)
def damp_and_kick_afresh(v, keys, coefficients, force):
    """As `damp_and_kick`, with uncompensated noise that is drawn in the same loop."""
    v, force = by_chain(v), by_chain(force)
    for c in range(v.shape[0]):
        before, step, after = coefficients[0, c], coefficients[1, c], coefficients[2, c]
        scale = np.sqrt(coefficients[3, c])
        key = fold_in(keys[c], _NOISE)
        for i in range(v.shape[1]):
            v[c, i] = after * (before * v[c, i] + step * force[c, i] + scale * normal(key, i))


@njit(cache=True, nogil=True)
def mean_squares(v, dim):
    """|v|^2 / dim of each chain."""
    v = by_chain(v)
    out = np.empty(v.shape[0])
    for c in range(v.shape[0]):
        out[c] = dot(v[c], v[c]) / dim
    return out


@njit(cache=True, nogil=True)
def move_thermostat(thermostat, v, dim, time):
    """Add time * (|v|^2 / dim - 1) to each chain's thermostat."""
    v = by_chain(v)
    for c in range(v.shape[0]):
        thermostat[c] += time * (dot(v[c], v[c]) / dim - 1.0)


@njit(cache=True, nogil=True)
def fill_coefficients(scheme, friction, strength, step, out):
    """Fill in the coefficients of the velocity update of a scheme, given the friction of each chain, of any sign.

    - ABOBA: damping for half a step, kick and noise, damping for half a step.
    - OU: the exact Ornstein-Uhlenbeck step with noise 2 * strength, and half the kick before and after it.
    - BAOAB: the same without a kick; the gradient step comes earlier, and its noise is damped too.
    """
    for c in range(friction.shape[0]):
        if scheme == ABOBA:
            half = np.exp(-0.5 * friction[c] * step)
            out[0, c], out[1, c], out[2, c] = half, step, half
            out[3, c], out[4, c] = 2.0 * strength * step, step * step
        else:
            kept, exponent = np.exp(-friction[c] * step), 2.0 * friction[c] * step
            kick = 0.5 * step * (1.0 + kept) if scheme == OU else 0.0
            out[0, c], out[1, c], out[2, c] = kept, kick, 1.0
            out[3, c] = 2.0 * step * strength * (1.0 if exponent == 0.0 else -np.expm1(-exponent) / exponent)
            out[4, c] = kick * kick if scheme == OU else (kept * step) ** 2


@njit(cache=True, nogil=True)
def accept(keys, kinetic, kinetic_after, log_density, proposed, accepted):
    """Accept each chain's proposal with probability min(1, exp(H - H')), never where it is not a number.

    Arguments are log densities and energies before and after; log densities of accepted proposals replace those before.
    """
    for c in range(keys.shape[0]):
        log_ratio = proposed[c] - log_density[c] + kinetic[c] - kinetic_after[c]
        accepted[c] = log_ratio > np.log1p(-uniform(keys[c], _ACCEPTANCE))
        if accepted[c]:
            log_density[c] = proposed[c]


@njit(cache=True, nogil=True)
def choose(x, proposal, accept):
    """Replace the rows of x whose proposal is accepted."""
    x, proposal = by_chain(x), by_chain(proposal)
    for c in range(x.shape[0]):
        if accept[c]:
            for i in range(x.shape[1]):
                x[c, i] = proposal[c, i]
