"""Frames of any length: the unit frames' geodesics stretched, samplers that see only a slower manifold, bad radii."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, expectations

from skmanifold.manifolds import Sphere, Stiefel
from skmanifold.models import Density
from skmanifold.samplers import GMC, GSGNHT, SGGMC

from ._cases import moved, points, vectors

PARAMETER = np.array([[2.0, 0.5], [-0.5, 1.0], [0.3, 0.0]])


@pytest.mark.parametrize("radius", [1e-3, 0.3, 40.0, 1e5])
def test_geodesics_are_those_of_unit_frames_stretched(radius):
    frames, unit = Stiefel(6, 3, radius=radius), Stiefel(6, 3)
    assert frames.dim == unit.dim
    x = points(unit, 2)
    noise = np.random.default_rng(1).standard_normal(x.shape)
    v, tangent = noise.copy(), noise.copy()
    unit.project(x, v)
    frames.project(radius * x, tangent)
    np.testing.assert_allclose(tangent, v, atol=1e-14)
    there, velocity = moved(frames, radius * x, radius * v, 1.3)
    expected, arriving = moved(unit, x, v, 1.3)
    np.testing.assert_allclose(there / radius, expected, atol=1e-13)
    np.testing.assert_allclose(velocity / radius, arriving, atol=1e-13)
    off = there * (1 + 1e-5)
    frames.retract(off, velocity)
    np.testing.assert_allclose(off / radius, expected, atol=1e-13)


def test_frames_of_one_vector_are_the_sphere_of_their_radius():
    sphere, frames = Sphere(6, radius=2.5), Stiefel(6, 1, radius=2.5)
    x = points(sphere, 4)
    v = vectors(sphere, x)
    columns = moved(frames, x[..., None], v[..., None], 3.1)
    for flat, column in zip(moved(sphere, x, v, 3.1), columns, strict=True):
        np.testing.assert_allclose(column[..., 0], flat, atol=1e-13)


def test_random_frames_have_the_radius():
    np.testing.assert_array_equal(points(Stiefel(5, 2, 3.0), 4), 3.0 * points(Stiefel(5, 2), 4))


def matrix_von_mises_fisher(radius):
    """The law of X / radius, in X."""
    slope = PARAMETER / radius
    return Density(
        Stiefel(3, 2, radius),
        lambda x: np.broadcast_to(slope, x.shape),
        lambda x: np.einsum("cnp,np->c", x, slope),
        vectorized=True,
    )


SAMPLERS = {
    "gmc": lambda r: GMC(0.3 * r, 4),
    "sggmc": lambda r: SGGMC(0.1 * r, 2.0 / r, n_steps=1),
    "gsgnht": lambda r: GSGNHT(0.1 * r, 2.0 / r, n_steps=1, thermostat_mass=r**2),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_larger_radius_is_a_slower_manifold(name):
    ends = []
    for radius in (0.3, 1.0, 40.0):
        target, sampler = matrix_von_mises_fisher(radius), SAMPLERS[name](radius)
        start = np.tile(radius * np.eye(3, 2), (20, 1, 1))
        state = sampler.init(target, np.arange(20, dtype=np.uint64), start)
        for _ in range(30):
            state = sampler.step(target, state)
        target.manifold.check_point(state.position, atol=1e-12)
        ends.append(state.position / radius)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)
    assert np.abs(ends[0] - np.eye(3, 2)).max() > 0.5


def entries(state, radius):
    flat = state.position.reshape(len(state.position), -1) / radius
    return np.hstack([flat, flat**2])


@pytest.mark.long
def test_the_law_of_unit_frames_does_not_feel_the_radius():
    rng = np.random.default_rng(0)
    frames = np.stack([Stiefel(3, 2).random_point(rng) for _ in range(40_000)])
    weight = np.exp(np.einsum("cnp,np->c", frames, PARAMETER))
    flat = frames.reshape(len(frames), -1)
    values = np.hstack([flat, flat**2])
    exact = weight @ values / weight.sum()
    error = np.sqrt(weight**2 @ (values - exact) ** 2) / weight.sum()
    options = {"burn_in": 20, "n_chains": 300}
    drawn = expectations(GMC(0.6, 4), matrix_von_mises_fisher(2.0), lambda s: entries(s, 2.0), 60, **options)
    assert_agrees(drawn, exact, 4.5 * error)
    wrong = matrix_von_mises_fisher(1.0)
    wrong.manifold = Stiefel(3, 2, 2.0)  # slopes that were not divided
    drawn = expectations(GMC(0.6, 4), wrong, lambda s: entries(s, 2.0), 60, **options)
    assert_disagrees(drawn, exact, 4.5 * error)


@pytest.mark.parametrize("radius", [0.0, -1, np.nan, np.inf, None, "big", [1.0, 2.0]])
def test_bad_radii_are_refused_in_one_sentence(radius):
    with pytest.raises(ValueError, match=r"^The parameter radius of Stiefel must be a positive number, got .*\.$"):
        Stiefel(3, 2, radius)


def test_frames_of_another_radius_are_refused():
    with pytest.raises(
        ValueError, match=r"columns of a frame, divided by the radius, must be orthonormal; the largest .* 0\.75"
    ):
        Stiefel(3, 2, radius=2.0).check_point(np.eye(3, 2))
