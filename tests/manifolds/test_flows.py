"""The laws of geodesic flow, tried on every manifold that has one."""

import numpy as np
import pytest

from skmanifold.manifolds import Flat, GeodesicFlow
from skmanifold.utils._parameters import offers

from ._cases import DEGENERATE, FLOWS, MANIFOLDS, moved, points, projector, vectors

every_flow = pytest.mark.parametrize("manifold", FLOWS, ids=repr)


def squared_speed(v):
    return np.sum(v**2, axis=tuple(range(1, v.ndim)))


def test_who_has_a_flow_and_who_is_flat():
    assert [m for m in MANIFOLDS if offers(m, GeodesicFlow)] == FLOWS + DEGENERATE
    assert [repr(m) for m in MANIFOLDS if offers(m, Flat)] == ["Euclidean(shape=(3,))", "Euclidean(shape=(2, 3))"]


@pytest.mark.parametrize("manifold", [*FLOWS, *DEGENERATE], ids=repr)
def test_tangent_projection_is_an_orthogonal_projection_of_the_manifolds_dimension(manifold):
    P = projector(manifold, points(manifold, 1)[0])
    np.testing.assert_allclose(P, P.T, atol=1e-14)
    np.testing.assert_allclose(P @ P, P, atol=1e-14)
    assert np.linalg.matrix_rank(P, tol=1e-8) == manifold.dim


@pytest.mark.every(3)
@every_flow
def test_the_flow_keeps_points_tangents_and_speed_for_many_steps(manifold):
    x = points(manifold, 3)
    v = vectors(manifold, x)
    start, speed_at_start = x.copy(), squared_speed(v)
    for _ in range(10_000):
        manifold.flow(x, v, 0.1)
    # Frames are multiplied by a matrix that is orthogonal to rounding, often the same one, whose errors add up
    atol = 1e-11 if "Stiefel" in repr(manifold) else 1e-12
    manifold.check_point(x, atol=atol)
    tangent = v.copy()
    manifold.project(x, tangent)
    np.testing.assert_allclose(v, tangent, rtol=0, atol=atol * np.sqrt(speed_at_start.max()))
    np.testing.assert_allclose(squared_speed(v), speed_at_start, rtol=5e-11)
    assert np.abs(x - start).max() > 0.1


@every_flow
def test_times_add_up_turning_round_leads_back_and_speed_is_time(manifold):
    x = points(manifold, 3)
    v = vectors(manifold, x)
    there, arriving = moved(manifold, x, v, 1.3)
    np.testing.assert_allclose(moved(manifold, *moved(manifold, x, v, 0.4), 0.9), (there, arriving), atol=1e-12)
    np.testing.assert_allclose(moved(manifold, there, -arriving, 1.3), (x, -v), atol=1e-12)
    np.testing.assert_allclose(moved(manifold, there, arriving, -1.3), (x, v), atol=1e-12)
    fast, velocity = moved(manifold, x, 1e3 * v, 1.3e-3)
    np.testing.assert_allclose(fast, there, atol=1e-12)
    np.testing.assert_allclose(velocity, 1e3 * arriving, atol=1e-9)


@every_flow
def test_without_velocity_nothing_moves(manifold):
    x = points(manifold, 3)
    v = vectors(manifold, x)
    v[1] = 0.0
    there, velocity = moved(manifold, x, v, 1.0)
    np.testing.assert_allclose(there[1], x[1], rtol=0, atol=1e-15)
    assert np.all(velocity[1] == 0)
    assert np.abs(there[0] - x[0]).max() > 1e-3
    hardly, velocity = moved(manifold, x, 1e-170 * v, 1.0)  # its square underflows
    np.testing.assert_allclose(hardly, x, rtol=0, atol=1e-15)
    assert np.abs(velocity).max() < 1e-168


@every_flow
def test_the_curve_leaves_with_its_velocity_and_bends_only_to_stay_on_the_manifold(manifold):
    x = points(manifold, 3)
    v = vectors(manifold, x)
    # Small enough to meet no wall of the orthant, large enough for second differences
    h = 1e-4
    (ahead, velocity_ahead), (behind, velocity_behind) = moved(manifold, x, v, h), moved(manifold, x, v, -h)
    np.testing.assert_allclose((ahead - behind) / (2 * h), v, atol=1e-6)
    acceleration = (velocity_ahead - velocity_behind) / (2 * h)
    np.testing.assert_allclose((ahead - 2 * x + behind) / h**2, acceleration, atol=1e-5)
    tangent_part = acceleration.copy()
    manifold.project(x, tangent_part)
    np.testing.assert_allclose(tangent_part, 0, atol=1e-5)


@every_flow
def test_retraction_leads_back_to_the_manifold_and_leaves_its_points_alone(manifold):
    x = points(manifold, 3)
    v = vectors(manifold, x)
    x_kept, v_kept = x.copy(), v.copy()
    manifold.retract(x_kept, v_kept)
    np.testing.assert_allclose(x_kept, x, rtol=0, atol=1e-14)
    np.testing.assert_allclose(v_kept, v, rtol=0, atol=1e-14)
    noise = 1e-6 * np.abs(np.random.default_rng(5).standard_normal(x.shape))
    x_off, v_off = x + noise, v + noise
    manifold.retract(x_off, v_off)
    manifold.check_point(x_off, atol=1e-14)
    tangent = v_off.copy()
    manifold.project(x_off, tangent)
    np.testing.assert_allclose(v_off, tangent, rtol=0, atol=1e-14)
    np.testing.assert_allclose(x_off, x, atol=1e-5)
    np.testing.assert_allclose(v_off, v, atol=1e-4)


@every_flow
def test_chains_do_not_see_each_other(manifold):
    x = points(manifold, 5)
    v = np.random.default_rng(2).standard_normal(x.shape)
    for i in range(5):
        together, alone = (x.copy(), v.copy()), (x[i : i + 1].copy(), v[i : i + 1].copy())
        for arrays in (together, alone):
            manifold.project(*arrays)
            manifold.flow(*arrays, 0.8)
            manifold.retract(*arrays)
        np.testing.assert_array_equal(together[0][i], alone[0][0])
        np.testing.assert_array_equal(together[1][i], alone[1][0])


@pytest.mark.parametrize("manifold", DEGENERATE, ids=repr)
def test_on_two_points_nothing_moves(manifold):
    x = points(manifold, 4)
    start, v = x.copy(), np.random.default_rng(0).standard_normal(x.shape)
    manifold.project(x, v)
    np.testing.assert_allclose(v, 0, atol=1e-15)
    manifold.flow(x, v, 1.0)
    np.testing.assert_allclose(x, start, atol=1e-15)
