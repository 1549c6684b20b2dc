"""The correction of Langevin diffusions with a metric in earlier literature, quoted by Ma et al. (2015), section 3.1.

For the drift D grad log p + c |G|^(-1/2) sum_j d_j(D_ij |G|^(1/2)) with D the inverse of the metric G, c = 1 gives the
density p with respect to the volume of the metric, which is p |G|^(1/2) with respect to the Lebesgue measure. With the
factor c = 2 of the paper, neither of the two is stationary, except in one dimension, where this correction is equal to
that of the recipe, sum_j d_j D_ij.
"""

import numpy as np
import pytest

STEP = 2e-3
STENCIL = (1.0, -8.0, 8.0, -1.0), (-2, -1, 1, 2)  # of a derivative, with an error of order STEP^4
POINTS = np.random.default_rng(0).normal(size=(6, 2))


def derivative(function, x, j):
    """Of a function of one point with respect to coordinate j."""
    shift = STEP * np.eye(len(x))[j]
    return sum(weight * function(x + k * shift) for weight, k in zip(*STENCIL, strict=True)) / (12 * STEP)


def divergence(rows, x):
    """sum_j d_j of the columns of an array whose last axis is j."""
    return sum(derivative(lambda y, j=j: rows(y)[..., j], x, j) for j in range(len(x)))


def metric(x):
    """A metric that is not a product."""
    if len(x) == 1:
        return np.array([[1.0 + x[0] ** 2]])
    return np.array([[1.5 + x[0] ** 2, 0.4 * x[0] * x[1]], [0.4 * x[0] * x[1], 2.0 + x[1] ** 2 + x[0]]]) + x @ x * 0.5


def diffusion(x):
    return np.linalg.inv(metric(x))


def root_volume(x):
    return np.sqrt(np.linalg.det(metric(x)))


def density(x):
    return np.exp(-0.5 * x @ x - 0.1 * np.sum(x) ** 4)


def of_volume(x):
    """The density with respect to the Lebesgue measure if p is with respect to the volume of the metric."""
    return density(x) * root_volume(x)


def recipe(x):
    return divergence(diffusion, x)


def older(factor):
    return lambda x: factor * divergence(lambda y: diffusion(y) * root_volume(y), x) / root_volume(x)


def remaining(correction, stationary, points):
    """Largest time derivative of a density under the diffusion, relative to it."""

    def flux(x):
        slope = np.array([derivative(lambda y: np.log(density(y)), x, j) for j in range(len(x))])
        drift = diffusion(x) @ slope + correction(x)
        return drift * stationary(x) - divergence(lambda y: diffusion(y) * stationary(y), x)

    return max(abs(divergence(flux, x)) / stationary(x) for x in points)


@pytest.mark.parametrize("points", [POINTS[:, :1], POINTS], ids=["one dimension", "two dimensions"])
def test_which_density_each_correction_has(points):
    assert remaining(recipe, density, points) < 1e-5
    assert remaining(older(1), of_volume, points) < 1e-5
    assert remaining(recipe, of_volume, points) > 0.05
    assert remaining(older(1), density, points) > 0.05


def test_factor_two_of_the_paper_is_right_in_one_dimension_only():
    assert remaining(older(2), density, POINTS[:, :1]) < 1e-5
    assert remaining(older(2), density, POINTS) > 0.05
    assert remaining(older(2), of_volume, POINTS) > 0.05
