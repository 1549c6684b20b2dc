"""Reference targets of the samplers, each with functions whose means and standard deviations are known exactly.

Where there is no formula, both are computed on a fine grid of the log density: the integrands are smooth and vanish (or
are periodic) at the ends, so that the sum over the grid is accurate to many digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from scipy.special import polygamma, psi
from scipy.stats import beta

from skmanifold.manifolds import Euclidean, Sphere
from skmanifold.models import Density, ExpandedMean, Log
from skmanifold.models._conjugate import dense_dirichlet, sparse_dirichlet
from skmanifold.models._reference import NoisyGradient, gamma, vmf_mixture_posterior

_LEAST = 1e-290


# The densities of `skmanifold.models` with functions that numba compiles; they write no arrays but their result


@numba.njit
def _normal_gradient(x):
    return -x


@numba.njit
def _normal_density(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return -0.5 * total


@numba.njit
def _well_gradient(x):
    return 4.0 * x * (1.0 - x * x)


@numba.njit
def _well_density(x):
    square = x[0] * x[0]
    return square * (2.0 - square)


@numba.njit
def _banana_gradient(x):
    out, gap = np.empty(2), 4.0 * (x[1] + 1.2) - x[0] * x[0]
    out[0], out[1] = x[0] * (-0.4 * x[0] * x[0] + 2.0 * gap), -4.0 * gap
    return out


@numba.njit
def _banana_density(x):
    gap, square = 4.0 * (x[1] + 1.2) - x[0] * x[0], x[0] * x[0]
    return -0.1 * square * square - 0.5 * gap * gap


_AXIS = np.array([0.5, math.sqrt(0.75)])


@numba.njit
def _circle_gradient(x):
    along = x[0] * _AXIS[0] + x[1] * _AXIS[1]
    return 5.0 * math.tanh(5.0 * along - 0.5 * math.log(2.0)) * _AXIS


@numba.njit
def _circle_density(x):
    along = x[0] * _AXIS[0] + x[1] * _AXIS[1]
    return np.logaddexp(5.0 * along, math.log(2.0) - 5.0 * along)


@dataclass(frozen=True)
class Target:
    """A density, test functions of its points, and their exact moments."""

    density: Any
    names: tuple[str, ...]
    functions: Callable[[np.ndarray], np.ndarray]  # from points (..., *shape) to values (..., len(names))
    mean: np.ndarray
    sd: np.ndarray
    start: np.ndarray | None = None  # initial point of the chains; None: random points
    chart: Any = None  # the same density in other coordinates, for samplers that need them


def normal_target(d: int) -> Target:
    """Three coordinates and their squares."""

    def functions(x):
        return np.concatenate([x[..., :3], x[..., :3] ** 2], axis=-1)

    names = ("x1", "x2", "x3", "x1^2", "x2^2", "x3^2")
    density = Density(Euclidean(d), _normal_gradient, _normal_density)
    return Target(density, names, functions, np.repeat([0.0, 1.0], 3), np.repeat([1.0, np.sqrt(2.0)], 3))


def double_well_target() -> Target:
    def functions(x):
        return np.concatenate([x, x**2, x**4], axis=-1)

    points = np.linspace(-4, 4, 4001)[:, None]
    return _on_grid(Density(Euclidean(1), _well_gradient, _well_density), ("t", "t^2", "t^4"), functions, points)


def banana_target() -> Target:
    def functions(x):
        t, u = x[..., 0], x[..., 1]
        return np.stack([t, t**2, u, u**2], axis=-1)

    points = np.stack(np.meshgrid(np.linspace(-5, 5, 801), np.linspace(-3, 7, 1001)), axis=-1).reshape(-1, 2)
    return _on_grid(
        Density(Euclidean(2), _banana_gradient, _banana_density), ("t1", "t1^2", "t2", "t2^2"), functions, points
    )


_POLE = np.eye(10)[0]


@numba.njit
def _sphere_gradient(x):
    return 5.0 * _POLE


@numba.njit
def _sphere_density(x):
    return 5.0 * x[0]


def sphere_target() -> Target:
    """The cosine with the mean direction of a von Mises-Fisher distribution on the sphere in 10 dimensions."""
    cosines = np.linspace(-1, 1, 200_001)
    weights = (1 - cosines**2) ** 3.5 * np.exp(5 * (cosines - 1))
    weights /= weights.sum()
    values = np.stack([cosines, cosines**2], axis=-1)
    mean = weights @ values
    sd = np.sqrt(weights @ (values - mean) ** 2)

    def functions(x):
        return np.stack([x[..., 0], x[..., 0] ** 2], axis=-1)

    density = Density(Sphere(10), _sphere_gradient, _sphere_density)
    return Target(density, ("m'x", "(m'x)^2"), functions, mean, sd)


def circle_target(noise: float = 0.0) -> Target:
    """The coordinate along the axis of the modes, which separates them, and its square; with this gradient noise."""
    axis = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])

    def functions(x):
        along = x @ axis
        return np.stack([along, along**2], axis=-1)

    angles = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    density = Density(Sphere(2), _circle_gradient, _circle_density)
    target = _on_grid(density, ("m'x", "(m'x)^2"), functions, points)
    if not noise:
        return target
    return replace(target, density=NoisyGradient(target.density, noise))


def vmf_mixture_target() -> Target:
    """Cosines and products of sines of the two angles: the same in both of the modes, which mirror each other."""

    def functions(x):
        first, second = x[..., 0, :], x[..., 1, :]
        return np.stack(
            [first[..., 0], second[..., 0], first[..., 1] ** 2, first[..., 1] * second[..., 1]],
            axis=-1,
        )

    angles = np.linspace(-1.2, 1.2, 121)  # the density is zero beyond
    pairs = np.stack(np.meshgrid(angles, angles), axis=-1).reshape(-1, 2)
    points = np.stack([np.cos(pairs), np.sin(pairs)], axis=-1)
    names = ("cos v1", "cos v2", "sin^2 v1", "sin v1 sin v2")
    mode = np.array([0.1008, -0.2934])  # chains that start far from both modes need very long to find them
    target = _on_grid(vmf_mixture_posterior(), names, functions, points)
    return replace(target, start=np.stack([np.cos(mode), np.sin(mode)], axis=1))


def gamma_target() -> Target:
    """Shapes below and above one: coordinates and their logarithms; the chart is the logarithm."""
    a = np.array([0.5, 1.0, 5.0, 50.0])

    def functions(x):
        return np.concatenate([x, np.log(np.maximum(x, _LEAST))], axis=-1)

    names = tuple(f"x({s:g})" for s in a) + tuple(f"log x({s:g})" for s in a)
    mean, sd = np.concatenate([a, psi(a)]), np.sqrt(np.concatenate([a, polygamma(1, a)]))
    density = gamma(a)
    return Target(density, names, functions, mean, sd, start=a, chart=Log(density))


def dirichlet_target(kind: str) -> Target:
    """The first coordinate and its variance (which minibatches inflate), the last one and its logarithm.

    In the chart the coordinates are independent gammas.
    """
    density = {"sparse": sparse_dirichlet, "dense": dense_dirichlet}[kind]()
    a, total = density.concentrations, density.concentrations.sum()

    first, last, log_last = beta(a[0], total - a[0]), beta(a[-1], total - a[-1]), psi(a[-1]) - psi(total)
    centre, variance, kurtosis = first.stats("mvk")

    def functions(x):
        return np.stack(
            [x[..., 0], (x[..., 0] - centre) ** 2, x[..., -1], np.log(np.maximum(x[..., -1], _LEAST))], axis=-1
        )

    names = ("x1", "(x1 - E x1)^2", "x10", "log x10")
    mean = np.array([centre, variance, last.mean(), log_last])
    log_sd = np.sqrt(polygamma(1, a[-1]) - polygamma(1, total))
    sd = np.array([first.std(), variance * np.sqrt(kurtosis + 2), last.std(), log_sd])
    chart = ExpandedMean(density, total=total)
    return Target(density, names, functions, mean, sd, start=a / total, chart=chart)


TARGETS: dict[str, Callable[[], Target]] = {
    "normal, d=10": lambda: normal_target(10),
    "normal, d=100": lambda: normal_target(100),
    "normal, d=1000": lambda: normal_target(1000),
    "double well": double_well_target,
    "banana": banana_target,
    "circle": circle_target,
    "circle, noisy": lambda: circle_target(noise=100.0),
    "vMF mixture": vmf_mixture_target,
    "gamma": gamma_target,
    "Dirichlet, sparse": lambda: dirichlet_target("sparse"),
    "Dirichlet, dense": lambda: dirichlet_target("dense"),
}


def _on_grid(density: Any, names: tuple[str, ...], functions: Callable, points: np.ndarray) -> Target:
    log_density = density.log_density(points)
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    values = functions(points)
    mean = weights @ values
    return Target(density, names, functions, mean, np.sqrt(weights @ (values - mean) ** 2))
