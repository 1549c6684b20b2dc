"""Spheres and frames of any radius: those of radius one, stretched; samplers only see a slower manifold; bad radii."""

import re

import numpy as np
import pytest

from skmanifold.manifolds import Sphere, Stiefel
from skmanifold.models import Density
from skmanifold.samplers import GMC, GSGNHT, SGGMC

from ._cases import moved, points

PARAMETERS = {"sphere": np.array([0.0, 0.0, 5.0]), "frames": np.array([[2.0, 0.5], [-0.5, 1.0], [0.3, 0.0]])}


def of_radius(name, radius):
    return Sphere(3, radius=radius) if name == "sphere" else Stiefel(3, 2, radius)


def linear(name, radius):
    """The distribution of X / radius, in X: that of von Mises and Fisher."""
    return Density.linear(of_radius(name, radius), PARAMETERS[name] / radius)


@pytest.mark.parametrize(
    ("stretched", "unit"),
    [
        (Sphere(5, n_points=3, radius=[0.3, 1.0, 40.0]), Sphere(5, n_points=3)),
        (Sphere(4, n_points=2, radius=2.5), Sphere(4, n_points=2)),
        *((Stiefel(6, 3, radius=radius), Stiefel(6, 3)) for radius in (1e-3, 0.3, 40.0, 1e5)),
    ],
    ids=repr,
)
def test_points_and_geodesics_are_those_of_radius_one_stretched(stretched, unit):
    assert stretched.dim == unit.dim
    radius = np.reshape(stretched.radius, (-1, 1))
    x = points(unit, 2)
    np.testing.assert_allclose(points(stretched, 2), radius * x, rtol=1e-14)
    noise = np.random.default_rng(1).standard_normal(x.shape)
    v, tangent = noise.copy(), noise.copy()
    unit.project(x, v)
    stretched.project(radius * x, tangent)
    np.testing.assert_allclose(tangent, v, atol=1e-14)
    there, velocity = moved(stretched, radius * x, radius * v, 1.3)
    expected, arriving = moved(unit, x, v, 1.3)
    np.testing.assert_allclose(there / radius, expected, atol=1e-13)
    np.testing.assert_allclose(velocity / radius, arriving, atol=1e-13)
    off = there * (1 + 1e-5)
    stretched.retract(off, velocity)
    np.testing.assert_allclose(off / radius, expected, atol=1e-13)


SAMPLERS = {
    "gmc": lambda r: GMC(0.3 * r, 4),
    "sggmc": lambda r: SGGMC(0.1 * r, 2.0 / r, n_steps=1),
    "gsgnht": lambda r: GSGNHT(0.1 * r, 2.0 / r, n_steps=1, thermostat_mass=r**2),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("manifold", PARAMETERS)
def test_a_larger_radius_is_a_slower_manifold(manifold, name):
    start, ends = np.array([0.0, 0.6, 0.8]) if manifold == "sphere" else np.eye(3, 2), []
    for radius in (0.3, 1.0, 40.0):
        target, sampler = linear(manifold, radius), SAMPLERS[name](radius)
        position = np.broadcast_to(start * radius, (20, *start.shape)).copy()
        state = sampler.init(target, np.arange(20, dtype=np.uint64), position)
        for _ in range(30):
            state = sampler.step(target, state)
        ends.append(state.position / radius)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)
    assert np.abs(ends[0] - start).max() > 0.5


@pytest.mark.parametrize("radius", [0.0, -1, np.nan, np.inf, None, "big", [1.0, 0.0], [1.0, 2.0, 3.0], [], [[1.0]] * 2])
def test_bad_radii_are_refused_in_one_sentence(radius):
    message = f"radius must be a positive number, or one for each point (n_points=2); got {radius!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Sphere(3, 2, radius)
    with pytest.raises(ValueError, match=r"^The parameter radius of Stiefel must be a positive number, got .*\.$"):
        Stiefel(3, 2, radius)


def test_one_point_has_one_radius():
    with pytest.raises(ValueError, match=r"^radius must be a positive number, or one for each point"):
        Sphere(3, radius=[1.0, 2.0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sphere", "A point of the sphere must have length equal to the radius; the largest deviation is"),
        ("frames", r"columns of a frame, divided by the radius, must be orthonormal; the largest .* 0\.75"),
    ],
)
def test_points_of_another_radius_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        of_radius(name, 2.0).check_point(np.eye(3)[0] if name == "sphere" else np.eye(3, 2))
