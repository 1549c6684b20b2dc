"""Spheres of any radius: closed geodesics, the uniform law, samplers that see only a slower sphere, and bad radii."""

import re

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, expectations

from skmanifold.manifolds import Sphere
from skmanifold.models import Density
from skmanifold.samplers import GMC, GSGNHT, SGGMC

from ._cases import moved, points, vectors

RADII = np.array([0.3, 1.0, 40.0])


def test_geodesics_close_after_the_length_of_a_great_circle():
    sphere = Sphere(5, n_points=3, radius=RADII)
    x = points(sphere, 1)
    v = vectors(sphere, x, scale=3.0)
    speed = np.linalg.norm(v, axis=-1)[0]
    for i, radius in enumerate(RADII):
        whole, half = 2 * np.pi * radius / speed[i], np.pi * radius / speed[i]
        there, velocity = moved(sphere, x, v, whole)
        np.testing.assert_allclose(there[0, i], x[0, i], rtol=0, atol=1e-13 * radius)
        np.testing.assert_allclose(velocity[0, i], v[0, i], rtol=0, atol=1e-12)
        there, velocity = moved(sphere, x, v, half)
        np.testing.assert_allclose(there[0, i], -x[0, i], rtol=0, atol=1e-13 * radius)
        np.testing.assert_allclose(velocity[0, i], -v[0, i], rtol=0, atol=1e-12)


def test_a_radius_for_all_points_is_one_for_each():
    one, each = Sphere(4, n_points=3, radius=2.5), Sphere(4, n_points=3, radius=[2.5, 2.5, 2.5])
    assert one.dim == each.dim == 9
    x = points(one, 2)
    v = vectors(one, x)
    np.testing.assert_array_equal(moved(one, x, v, 0.7), moved(each, x, v, 0.7))


def uniform(sphere):
    return Density(sphere, np.zeros_like, lambda x: np.zeros(len(x)), vectorized=True)


def about_the_pole(sphere, kappa):
    """The von Mises-Fisher law of directions, in positions."""
    pole = np.zeros(3)
    pole[-1] = kappa / sphere.radius
    return Density(sphere, lambda x: np.broadcast_to(pole, x.shape), lambda x: x @ pole, vectorized=True)


def cosines(state, radius):
    unit = state.position / radius
    return np.stack([unit[:, 2], unit[:, 2] ** 2, unit[:, 0], unit[:, 0] ** 2, unit[:, 0] * unit[:, 1]], axis=1)


@pytest.mark.extended
@pytest.mark.short_cases("0.3")
@pytest.mark.parametrize("radius", [0.3, 40.0])
def test_the_uniform_law_is_drawn(radius):
    sphere = Sphere(3, radius=radius)
    start = np.array([0.0, 0.6, 0.8]) * radius
    estimate = expectations(
        GMC(0.7 * radius, 2), uniform(sphere), lambda s: cosines(s, radius), 60, burn_in=20, position=start
    )
    assert_agrees(estimate, [0, 1 / 3, 0, 1 / 3, 0])
    drawn = expectations(GMC(1e-9, 1), uniform(sphere), lambda s: cosines(s, radius), 1, n_chains=20_000)
    assert_agrees(drawn, [0, 1 / 3, 0, 1 / 3, 0])  # as random points are


SAMPLERS = {
    "gmc": lambda r: GMC(0.3 * r, 4),
    "sggmc": lambda r: SGGMC(0.1 * r, 2.0 / r, n_steps=1),
    "gsgnht": lambda r: GSGNHT(0.1 * r, 2.0 / r, n_steps=1, thermostat_mass=r**2),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_larger_sphere_is_a_slower_one(name):
    ends = []
    for radius in (0.3, 1.0, 40.0):
        target = about_the_pole(Sphere(3, radius=radius), 5.0)
        start = np.array([0.0, 0.6, 0.8]) * radius
        sampler = SAMPLERS[name](radius)
        state = sampler.init(target, np.arange(20, dtype=np.uint64), np.tile(start, (20, 1)))
        for _ in range(30):
            state = sampler.step(target, state)
        ends.append(state.position / radius)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)
    assert np.abs(ends[0] - np.array([0.0, 0.6, 0.8])).max() > 0.5


@pytest.mark.extended
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_law_of_directions_does_not_feel_the_radius(name):
    mean = 1 / np.tanh(5.0) - 1 / 5.0
    exact = [mean, 1 - 2 * mean / 5, 0, mean / 5, 0]
    sphere = Sphere(3, radius=2.0)
    # steps that were not made longer turn by half the angle: the same law, with less bias
    estimate = expectations(
        SAMPLERS[name](1.0), about_the_pole(sphere, 5.0), lambda s: cosines(s, 2.0), 500, burn_in=200, n_chains=300
    )
    assert_agrees(estimate, exact, 0.002)
    wrong = Density(sphere, lambda x: np.tile([0.0, 0.0, 5.0], (len(x), 1)), lambda x: x[:, 2] * 5.0, vectorized=True)
    estimate = expectations(SAMPLERS[name](1.0), wrong, lambda s: cosines(s, 2.0), 100, burn_in=200, n_chains=300)
    assert_disagrees(estimate, exact, 0.002)


@pytest.mark.parametrize(
    "radius", [0.0, -1, np.nan, np.inf, None, "big", [1.0, 0.0], [1.0, 2.0, 3.0], [], [[1.0], [1.0]]]
)
def test_bad_radii_are_refused_in_one_sentence(radius):
    message = f"radius must be a positive number, or one for each point (n_points=2); got {radius!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Sphere(3, 2, radius)


def test_one_point_has_one_radius():
    with pytest.raises(ValueError, match=r"^radius must be a positive number, or one for each point"):
        Sphere(3, radius=[1.0, 2.0])


def test_points_of_another_radius_are_refused():
    with pytest.raises(
        ValueError, match=r"A point of the sphere must have length equal to the radius; the largest deviation is"
    ):
        Sphere(3, radius=2.0).check_point(np.array([1.0, 0.0, 0.0]))
