"""The three flat targets of closed form, what is known of them, and metrics that follow their potential."""

from typing import Any, NamedTuple

import numpy as np

from skmanifold.models import Density, NoisyGradient, banana, double_well, standard_normal


class FlatTarget(NamedTuple):
    density: Any
    moments: Any  # function of points (n_chains, d)
    exact: np.ndarray
    start: np.ndarray  # where chains begin that are to find the law themselves
    offset: float  # of the potential, which makes it positive: the metric is its root


def _of_the_line(x):
    t = x[:, 0]
    return np.stack([t**2, t**4, np.abs(t), np.abs(t) < 1], axis=1)


def _of_the_plane(x):
    t, u = x.T
    return np.stack([t**2, t**4, u, t**2 * u, np.abs(t) < 1], axis=1)


FLAT_TARGETS = {
    "standard normal": FlatTarget(
        standard_normal(), _of_the_line, np.array([1, 3, 0.7978845608, 0.6826894921]), np.array([0.5]), 1.5
    ),
    "double well": FlatTarget(
        double_well(),
        _of_the_line,
        np.array([0.8327454871283803, 1.0827454871283803, 0.8273924393, 0.6318401048]),
        np.array([0.5]),
        1.5,  # the least potential is -1: an offset of 1/2 cuts the line where the metric vanishes
    ),
    "banana": FlatTarget(
        banana(),
        _of_the_plane,
        np.array([1.068815443662356, 2.5, -0.932796139084411, -0.6575785324, 0.6083388457]),
        np.array([1.0, -0.95]),
        0.5,
    ),
}


def potential_metric(target, form="diagonal"):
    """G^-1 = 1.5 sqrt(U + offset), a multiple of the identity, as a diagonal or as a matrix."""

    def inverse_metric(x):
        scale = 1.5 * np.sqrt(target.offset - target.density.log_density(x))
        if form == "diagonal":
            return np.repeat(scale[:, None], x.shape[1], axis=1)
        return scale[:, None, None] * np.eye(x.shape[1])

    return inverse_metric


def potential_divergence(target):
    """Divergence of `potential_metric`."""

    def divergence(x):
        gradient = np.empty_like(x)
        target.density.grad_log_density(x, None, gradient)
        return -0.75 * gradient / np.sqrt(target.offset - target.density.log_density(x))[:, None]

    return divergence


def uniform(manifold):
    """The uniform density of any manifold."""
    return Density(manifold, grad_log_density=np.zeros_like, log_density=lambda x: np.zeros(len(x)), vectorized=True)


class Noisy(NoisyGradient):
    """`NoisyGradient` of a target whose functions take all chains at once."""

    vectorized = True


def draw(name, n, seed=0):
    """Independent draws of the law."""
    rng = np.random.default_rng(seed)
    if name == "standard normal":
        return rng.standard_normal((n, 1))
    if name == "double well":
        grid = np.linspace(-3, 3, 20001)
        mass = np.exp(grid**2 * (2 - grid**2))
        return np.interp(rng.random((n, 1)), np.cumsum(mass) / mass.sum(), grid)
    t = (10 * rng.gamma(0.25, size=n)) ** 0.25 * rng.choice([-1, 1], n)
    return np.stack([t, t**2 / 4 - 1.2 + rng.standard_normal(n) / 4], axis=1)
