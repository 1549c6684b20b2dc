"""Supplement E of Ma et al. (2015): moves between two modes with D and Q that are constant or depend on the position.

Targets are the potentials 4 (x^2 - 1)^2 ("quartic", the double well of figure 2 with a barrier of 4) and that of two
normal distributions with means -3 and 3 and variance 1 ("two normals", barrier 3.8), with exact gradients. U is zero at
the modes, and a(x) = 1.5 sqrt(U + 0.5), the metric of the paper, is large where the density is low. Samplers have
D = a(x) without momenta, or, with a momentum, D = s or s a(x) and Q = 1 or sqrt(a(x)), in Euler steps like the others
so that they differ only in D and Q; SGHMC and gSGRHMC are run with the more accurate integrator too. Of the step sizes
and scales s whose means of |x| and x^2 are biased by at most 3% of a standard deviation, the best one needs the least
gradients for a move, from beyond half of the way to one mode to the same place at the other mode.

The claims: D can help to leave a mode, if it is larger where the density is low; Q can help to cross a region of low
density, if it grows there.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.integrate import trapezoid

from benchmarks._results import title
from skmanifold.manifolds import Euclidean
from skmanifold.models import Density
from skmanifold.samplers import SGHMC, SGLD, SGRHMC, SGRLD, Recipe

from ._efficiency import measure, show_best

STEP_SIZES = {"quartic": (0.002, 0.005, 0.01, 0.02, 0.05, 0.1), "two normals": (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)}
SCALES, FURTHER_SCALES = (0.3, 1.0, 3.0), (0.03, 0.1, 10.0)
N_CHAINS, TIME = 2000, 60.0
PLACE = 3.0  # of a mode of the two normals


def quartic(x):
    """The potential and its derivative."""
    return 4 * (x**2 - 1) ** 2, 16 * x * (x**2 - 1)


def two_normals(x):
    """The potential, zero at the modes, and its derivative."""
    at_mode = PLACE**2 - np.logaddexp(PLACE**2, -(PLACE**2))
    U = (x**2 + PLACE**2) / 2 - np.logaddexp(PLACE * x, -PLACE * x)
    return U - at_mode, x - PLACE * np.tanh(PLACE * x)


TARGETS = {"quartic": (quartic, 1.0), "two normals": (two_normals, PLACE)}  # the potential, and the place of a mode


def density(potential):
    """The target distribution."""
    return Density(
        Euclidean(1),
        grad_log_density=lambda x: -potential(x)[1],
        log_density=lambda x: -potential(x)[0][:, 0],
        vectorized=True,
    )


def speed(potential, x):
    """a(x) and its derivative."""
    U, derivative = potential(x)
    root = np.sqrt(U + 0.5)
    return 1.5 * root, 0.75 * derivative / root


def with_momentum(potential, h, scale, *, adaptive_d, adaptive_q):
    """Recipe with D = diag(0, s) or diag(0, s a(x)), and Q = [[0, -g], [g, 0]] with g = 1 or sqrt(a(x))."""

    def diffusion(z):
        out = np.zeros((len(z), 2, 2))
        out[:, 1, 1] = scale * (speed(potential, z[:, 0])[0] if adaptive_d else 1.0)
        return out

    def curl(z):
        out = np.zeros((len(z), 2, 2))
        g = np.sqrt(speed(potential, z[:, 0])[0]) if adaptive_q else 1.0
        out[:, 0, 1], out[:, 1, 0] = -g, g
        return out

    def correction(z):
        out = np.zeros_like(z)
        if adaptive_q:
            a, derivative = speed(potential, z[:, 0])
            out[:, 1] = derivative / (2 * np.sqrt(a))
        return out

    return Recipe(diffusion, curl, correction=correction, n_auxiliary=1, step_size=h, vectorized=True)


def metric(potential, scale):
    """The inverse metric of the Riemannian samplers, as a diagonal."""
    return lambda x: scale * speed(potential, x)[0]


SAMPLERS = {
    "SGLD": lambda U, h, s: SGLD(h),
    "SGRLD": lambda U, h, s: SGRLD(h, metric(U, 1.0)),
    "constant D and Q, Euler": lambda U, h, s: SGHMC(h, friction=s, scheme="euler"),
    "adaptive D, Euler": lambda U, h, s: with_momentum(U, h, s, adaptive_d=True, adaptive_q=False),
    "adaptive Q, Euler": lambda U, h, s: with_momentum(U, h, s, adaptive_d=False, adaptive_q=True),
    "adaptive D and Q, Euler": lambda U, h, s: with_momentum(U, h, s, adaptive_d=True, adaptive_q=True),
    "SGHMC": lambda U, h, s: SGHMC(h, friction=s),
    "gSGRHMC": lambda U, h, s: SGRHMC(h, metric(U, s)),
}
WITHOUT_SCALE, ACCURATE = ("SGLD", "SGRLD"), ("SGHMC", "gSGRHMC")


def cases(quick):
    """Settings of the runs. Samplers without a scale have more step sizes instead."""
    if quick:
        return [{"target": "two normals", "sampler": name, "step_size": 0.2, "scale": 1.0} for name in SAMPLERS]
    return [
        {
            "target": target,
            "sampler": sampler,
            "step_size": h * scale if sampler in WITHOUT_SCALE else h,
            "scale": scale,
        }
        for target, sampler in product(TARGETS, SAMPLERS)
        for h, scale in product(STEP_SIZES[target], SCALES + FURTHER_SCALES * (sampler in ACCURATE))
    ]


def n_moves(x, place):
    """Number of moves of all chains, from one side to the other, beyond `place` on both; infinitesimal if none."""
    moves = sum(np.count_nonzero(np.diff(np.sign(own[np.abs(own) > place]))) for own in x)
    return max(moves, np.finfo(float).tiny)


def run(target, sampler, step_size, scale):
    """Largest bias, gradients per move between the modes, and microseconds of a gradient."""
    potential, place = TARGETS[target]
    x = np.linspace(-place - 8, place + 8, 20_001)
    mass = np.exp(-potential(x)[0])
    return measure(
        density(potential),
        SAMPLERS[sampler](potential, step_size, scale),
        np.where(np.arange(N_CHAINS) % 2, place, -place)[:, None],
        N_CHAINS,
        TIME,
        checked=lambda x: np.concatenate([np.abs(x), x**2], axis=-1),
        means=np.array([trapezoid(mass * values, x) / trapezoid(mass, x) for values in (np.abs(x), x**2)]),
        gradients_of=lambda draws, n_gradients: n_gradients / n_moves(draws.position[..., 0], place / 2),
    )


def show(rows):
    """The best setting of each sampler."""
    for target in TARGETS:
        own = [each for each in rows if each["target"] == target]
        if own:
            title(f"Gradients per move between the modes, {target}, at the best setting of each sampler")
            show_best(own, SAMPLERS, WITHOUT_SCALE)
