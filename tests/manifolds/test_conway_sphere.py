"""Projections of every rank on one sphere: the identities, exactly."""

import numpy as np
import pytest

from skmanifold.manifolds import ConwaySphere, Sphere, Stiefel, projection_distance

from ._cases import moved, points, vectors


def projections(m, rng):
    """A random projection of every rank from 0 to m, and a basis of its space."""
    for rank in range(m + 1):
        basis = Stiefel(m, rank).random_point(rng) if rank else np.zeros((m, 0))
        yield basis, basis @ basis.T


@pytest.mark.parametrize("m", [1, 2, 3, 10])
def test_projections_of_every_rank_lie_on_the_sphere(m):
    sphere = ConwaySphere(m)
    P = np.stack([P for _, P in projections(m, np.random.default_rng(m))])
    sphere.check_point(sphere.embed(P), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(P - np.eye(m) / 2, axis=(1, 2)), np.sqrt(m) / 2, atol=1e-12)
    ranks = np.arange(m + 1)
    np.testing.assert_allclose(
        np.linalg.norm(P - (ranks / m)[:, None, None] * np.eye(m), axis=(1, 2)),
        np.sqrt(ranks * (m - ranks) / m),
        atol=1e-12,
    )


@pytest.mark.parametrize("m", [1, 2, 5])
def test_the_embedding_is_an_isometry_with_an_inverse(m):
    sphere = ConwaySphere(m)
    A = np.random.default_rng(0).standard_normal((4, 2, m, m))
    A = A + A.mT
    x = sphere.embed(A)
    assert x.shape == (4, 2, *sphere.shape)
    np.testing.assert_allclose(np.linalg.norm(x, axis=-1), np.linalg.norm(A, axis=(-2, -1)), rtol=1e-14)
    np.testing.assert_allclose(sphere.matrix(x), A, rtol=1e-15)
    np.testing.assert_allclose(sphere.embed(sphere.matrix(x)), x, rtol=1e-15)


def test_what_is_not_a_symmetric_matrix_is_refused():
    sphere = ConwaySphere(3)
    skew = np.eye(3)
    skew[0, 1] = 0.5
    with pytest.raises(ValueError, match=r"must be symmetric; two entries differ by 0\.5\."):
        sphere.embed(skew)
    with pytest.raises(ValueError, match="shape"):
        sphere.embed(np.eye(2))
    with pytest.raises(ValueError, match="shape"):
        sphere.matrix(np.zeros(5))


def test_the_distance_takes_leading_axes():
    P = np.stack([P for _, P in projections(3, np.random.default_rng(0))])
    distances = projection_distance(P[:, None], P[None])
    assert distances.shape == (4, 4)
    np.testing.assert_array_equal(distances, distances.T)
    assert distances[1, 3] == projection_distance(P[1], P[3])
    assert np.all(np.diagonal(distances) == 0)
    assert distances[0, 3] == pytest.approx(np.sqrt(3 / 2))


def distances_by_rank(sphere, x):
    """Distance to the nearest projection of each rank, whose space is that of the largest eigenvalues."""
    Q = sphere.matrix(x)
    _, vectors = np.linalg.eigh(Q)
    ranks = range(sphere.m + 1)
    return np.array([np.linalg.norm(Q - vectors[:, sphere.m - d :] @ vectors[:, sphere.m - d :].T) for d in ranks])


@pytest.mark.parametrize(("m", "share"), [(3, 0.24), (5, 0.34), (10, 0.40)])
def test_the_nearest_projection_keeps_eigenvalues_above_one_half_and_does_not_round_the_trace(m, share):
    sphere = ConwaySphere(m)
    x = points(sphere, 1500)
    nearest = sphere.nearest_projection(x)
    np.testing.assert_allclose(nearest @ nearest, nearest, atol=1e-12)
    distances = np.array([distances_by_rank(sphere, x_i) for x_i in x])
    found = np.linalg.norm(nearest - sphere.matrix(x), axis=(1, 2))
    np.testing.assert_allclose(found, distances.min(axis=1), atol=1e-12)
    rounded = np.round(np.trace(sphere.matrix(x), axis1=1, axis2=2)).astype(int)
    wrong = np.mean(np.clip(rounded, 0, m) != distances.argmin(axis=1))
    assert wrong == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 1500))


def test_a_projection_is_its_own_nearest():
    sphere = ConwaySphere(5)
    for _, P in projections(5, np.random.default_rng(0)):
        np.testing.assert_allclose(sphere.nearest_projection(sphere.embed(P)), P, atol=1e-12)


def test_the_flow_is_that_of_the_unit_sphere_shifted_and_scaled():
    sphere, unit = ConwaySphere(3), Sphere(6)
    centre = sphere.embed(np.eye(3) / 2)
    x = points(sphere, 4)
    v = vectors(sphere, x)
    y, w = (x - centre) / sphere.radius, v / sphere.radius
    there, velocity = moved(sphere, x, v, 1.4)
    y_there, w_there = moved(unit, y, w, 1.4)
    np.testing.assert_allclose(there, centre + sphere.radius * y_there, atol=1e-13)
    np.testing.assert_allclose(velocity, sphere.radius * w_there, atol=1e-13)
    assert sphere.radius == pytest.approx(np.sqrt(3) / 2)
