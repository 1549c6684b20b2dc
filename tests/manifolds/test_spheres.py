"""Spheres by the textbook's formula, and the frames that are spheres or rotations."""

import math

import numpy as np
import pytest
from numba import config
from numba.core.errors import TypingError
from scipy.linalg import expm

from skmanifold.manifolds import Euclidean, Sphere, Stiefel
from skmanifold.numerics.block_sums import dot

from ._cases import moved, points, vectors


def great_circle(x, v, t):
    """The textbook's formula for one point, in plain Python."""
    a = math.sqrt(math.fsum(v_j * v_j for v_j in v))
    c, s = math.cos(a * t), math.sin(a * t)
    pairs = list(zip(x, v, strict=True))
    return [x_j * c + v_j / a * s for x_j, v_j in pairs], [v_j * c - a * x_j * s for x_j, v_j in pairs]


@pytest.mark.parametrize("sphere", [Sphere(2), Sphere(3), Sphere(40), Sphere(17, n_points=3)], ids=repr)
def test_the_flow_is_the_great_circle(sphere):
    x = points(sphere, 2)
    v = vectors(sphere, x, scale=3.0)
    there, velocity = moved(sphere, x, v, 0.9)
    for i in np.ndindex(x.shape[:-1]):
        np.testing.assert_allclose((there[i], velocity[i]), great_circle(x[i], v[i], 0.9), atol=1e-13)


def test_inner_products_add_up_in_one_order_compiled_or_not():
    rng = np.random.default_rng(0)
    for length in (0, 1, 7, 8, 9, 16, 23, 1000):
        a, b = rng.standard_normal((2, length))
        assert dot(a, b) == getattr(dot, "py_func", dot)(a, b)
        assert dot(a, b) == pytest.approx(math.fsum(a * b), rel=1e-12, abs=1e-14)


@pytest.mark.skipif(config.DISABLE_JIT, reason="the compiler refuses them")
@pytest.mark.parametrize("manifold", [Sphere(3), Euclidean(3)], ids=repr)
def test_arrays_that_are_not_contiguous_are_refused_and_not_copied(manifold):
    with pytest.raises((TypingError, TypeError), match="contiguous"):
        manifold.flow(np.ones((4, 6))[:, ::2], np.ones((4, 3)), 1.0)


@pytest.mark.parametrize("radius", [1.0, 2.5])
def test_frames_of_one_vector_are_the_sphere(radius):
    sphere, frames = Sphere(6, radius=radius), Stiefel(6, 1, radius)
    assert frames.dim == sphere.dim
    x = points(sphere, 4)
    v = np.random.default_rng(1).standard_normal(x.shape)
    columns = x[:, :, None].copy(), v[:, :, None].copy()
    for manifold, (position, velocity) in ((sphere, (x, v)), (frames, columns)):
        manifold.project(position, velocity)
        manifold.flow(position, velocity, 2.3)
    np.testing.assert_allclose(columns[0][:, :, 0], x, atol=1e-14)
    np.testing.assert_allclose(columns[1][:, :, 0], v, atol=1e-13)


def test_square_frames_are_the_orthogonal_group_with_its_one_parameter_subgroups():
    group = Stiefel(4, 4)
    assert group.dim == 6
    x = points(group, 3)
    v = vectors(group, x)
    generators = x.mT @ v
    np.testing.assert_allclose(generators, -generators.mT, atol=1e-14)
    there, velocity = moved(group, x, v, 1.7)
    np.testing.assert_allclose(there, x @ expm(1.7 * generators), atol=1e-13)
    np.testing.assert_allclose(velocity, there @ generators, atol=1e-13)
    np.testing.assert_allclose(np.linalg.det(there), np.linalg.det(x), atol=1e-12)


@pytest.mark.parametrize("speed", [1e-3, 30.0, 1e4])
def test_fast_frames_stay_frames(speed):
    frames = Stiefel(50, 4)
    x = points(frames, 2)
    there, velocity = moved(frames, x, vectors(frames, x, scale=speed), 0.1)
    frames.check_point(there, atol=1e-10)
    np.testing.assert_allclose(there.mT @ velocity + velocity.mT @ there, 0, atol=1e-9 * speed)


@pytest.mark.parametrize("slow", [0.0, 1e-9])
def test_frames_stay_frames_while_a_column_hardly_moves(slow):
    # In the textbook's basis of position and velocity rounding errors grow exponentially here, and overflow
    frames = Stiefel(5, 2)
    x = points(frames, 1)
    v = 30.0 * np.random.default_rng(1).standard_normal(x.shape) * [1.0, slow]
    frames.project(x, v)
    speed = np.linalg.norm(v)
    for _ in range(2000):
        frames.flow(x, v, 0.1)
    frames.check_point(x, atol=1e-12)
    assert np.linalg.norm(v) == pytest.approx(speed, rel=1e-10)


def test_retraction_finds_the_nearest_frame():
    frames = Stiefel(5, 2)
    off = points(frames, 1) + 0.1 * np.random.default_rng(8).standard_normal((1, 5, 2))
    nearest, v = off.copy(), np.zeros_like(off)
    frames.retract(nearest, v)
    U, _, Vh = np.linalg.svd(off[0], full_matrices=False)
    np.testing.assert_allclose(nearest[0], U @ Vh, atol=1e-14)
    around = np.repeat(nearest, 200, axis=0)
    frames.flow(around, vectors(frames, around), 0.05)
    distances = np.linalg.norm(around - off, axis=(1, 2))
    assert np.all(distances > np.linalg.norm(nearest - off))
