import itertools

import numpy as np
import pytest

from skmanifold.manifolds import ConwaySphere, Stiefel, projection_distance
from skmanifold.metrics import match_subspaces, pairwise_subspace_distances, principal_angles, subspace_distance

METRICS = ["projection", "geodesic"]


def random_basis(d, m, rng):
    return Stiefel(m, d).random_point(rng).T if d else np.empty((0, m))


def bases_of_every_dimension(m, seed, n_each=1):
    rng = np.random.default_rng(seed)
    return [random_basis(d, m, rng) for d in range(m + 1) for _ in range(n_each)]


def bases_at(angles, n_common=0, n_more=0, rotation=None):
    """Two bases whose principal angles are 0, `n_common` times, and `angles`; the second has `n_more` dimensions."""
    n = len(angles)
    frame = np.eye(2 * n + n_common + n_more)
    if rotation is not None:
        frame = Stiefel(len(frame), len(frame)).random_point(np.random.default_rng(rotation))
    first, second = frame[:n], frame[n : 2 * n]
    angles = np.asarray(angles)[:, np.newaxis]
    turned = np.cos(angles) * first + np.sin(angles) * second
    common, more = frame[2 * n : 2 * n + n_common], frame[2 * n + n_common :]
    return np.concatenate([first, common]), np.concatenate([more, turned, common])


@pytest.mark.parametrize("rotation", [None, 0])
@pytest.mark.parametrize(
    "angles",
    [
        [1e-10, 1.5],  # scipy 1.17 gives 0 for the first
        [1e-12, 1e-6, 0.3, np.pi / 4, 1.2, np.pi / 2 - 1e-9],
        [0.0, 0.0, np.pi / 2],
        [1e-9, 1e-9],
    ],
)
@pytest.mark.parametrize(("n_common", "n_more"), [(0, 0), (2, 0), (0, 3), (1, 2)])
def test_angles_are_those_made_however_tiny_or_right_they_are(angles, n_common, n_more, rotation):
    A, B = bases_at(angles, n_common, n_more, rotation)
    made = np.concatenate([np.zeros(n_common), angles])
    for found in (principal_angles(A, B), principal_angles(B, A)):
        assert found.shape == (len(A),)
        np.testing.assert_allclose(found, made, rtol=0, atol=5e-16 if rotation is None else 5e-15)


@pytest.mark.parametrize("m", [1, 2, 5, 12])
def test_projection_distance_satisfies_its_three_formulas_and_that_of_the_matrices(m):
    for A, B in itertools.product(bases_of_every_dimension(m, 1), bases_of_every_dimension(m, 2)):
        found = subspace_distance(A, B)
        gap, angles = abs(len(A) - len(B)), principal_angles(A, B)
        P, Q = A.T @ A, B.T @ B
        assert found**2 == pytest.approx((len(A) + len(B)) / 2 - np.sum((A @ B.T) ** 2), abs=1e-12)
        assert found**2 == pytest.approx(gap / 2 + np.sum(np.sin(angles) ** 2), abs=1e-12)
        assert found**2 == pytest.approx(np.sum((P - Q) ** 2) / 2, abs=1e-12)
        assert found == pytest.approx(projection_distance(P, Q), abs=1e-12)
        # it is the chord of the Conway sphere over the root of 2
        sphere = ConwaySphere(m)
        assert found == pytest.approx(np.linalg.norm(sphere.embed(P) - sphere.embed(Q)) / np.sqrt(2), abs=1e-12)
        # and the geodesic one, whose angles are at least their sines, is longer, by pi / sqrt(2) at most
        geodesic = subspace_distance(A, B, metric="geodesic")
        assert geodesic**2 == pytest.approx(np.pi**2 / 4 * gap + np.sum(angles**2), abs=1e-12)
        assert found - 1e-12 <= geodesic <= np.pi / np.sqrt(2) * found + 1e-12


def test_no_digits_are_lost_between_nearly_equal_subspaces():
    A, B = bases_at([3e-11, 4e-11], n_common=3)
    assert subspace_distance(A, B) == pytest.approx(5e-11, rel=1e-10)
    # the formula without angles knows nothing of it
    assert abs((len(A) + len(B)) / 2 - np.sum((A @ B.T) ** 2)) ** 0.5 != pytest.approx(5e-11, rel=0.5)

    A, B = bases_at([3e-9, 4e-9], n_common=3, rotation=3)  # in general position the rows are rounded
    assert subspace_distance(A, B) == pytest.approx(5e-9, abs=5e-15)


@pytest.mark.parametrize("metric", METRICS)
def test_tables_hold_the_distances_of_their_pairs(metric):
    bases, other = bases_of_every_dimension(4, 0), bases_of_every_dimension(4, 1, n_each=2)
    table = pairwise_subspace_distances(bases, other, metric=metric)
    expected = [[subspace_distance(A, B, metric=metric) for B in other] for A in bases]
    np.testing.assert_array_equal(table, expected)
    square = pairwise_subspace_distances(bases, metric=metric)
    np.testing.assert_allclose(square, pairwise_subspace_distances(bases, bases, metric=metric), atol=1e-14)
    np.testing.assert_array_equal(np.diagonal(square), 0.0)
    np.testing.assert_array_equal(square, square.T)
    assert pairwise_subspace_distances(bases, []).shape == (5, 0)
    assert pairwise_subspace_distances([]).shape == (0, 0)


@pytest.mark.parametrize("metric", METRICS)
def test_a_permutation_is_undone_whatever_the_bases(metric):
    rng = np.random.default_rng(3)
    bases = bases_of_every_dimension(6, 2, n_each=2)[2:-2]  # there is one subspace of dimension 0, and one of 6
    order = rng.permutation(len(bases))
    shuffled = [random_basis(len(bases[i]), len(bases[i]), rng) @ bases[i] for i in order]
    match = match_subspaces(bases, shuffled, metric=metric)
    np.testing.assert_array_equal(match.reference, np.arange(len(bases)))
    np.testing.assert_array_equal(order[match.other], np.arange(len(bases)))
    np.testing.assert_allclose(match.distance, 0, atol=1e-14)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n_reference", "n_other"), [(4, 4), (3, 5), (5, 3), (1, 4)])
def test_no_other_matching_is_closer(metric, n_reference, n_other):
    rng = np.random.default_rng(7)
    reference, other = ([random_basis(rng.integers(1, 4), 5, rng) for _ in range(n)] for n in (n_reference, n_other))
    match = match_subspaces(reference, other, metric=metric)
    table = pairwise_subspace_distances(reference, other, metric=metric)
    np.testing.assert_array_equal(match.distance, table[match.reference, match.other])
    wide = table if n_reference <= n_other else table.T
    small = len(wide)
    sums = [wide[range(small), list(columns)].sum() for columns in itertools.permutations(range(wide.shape[1]), small)]
    assert match.distance.sum() == pytest.approx(min(sums), abs=1e-12)
    assert len(match.reference) == len(set(match.reference)) == len(set(match.other)) == small
    assert np.all(np.diff(match.reference) > 0)


def test_single_precision_is_taken_for_the_subspace_that_it_is_near():
    A, B = (basis.astype(np.float32) for basis in bases_at([0.3, 1.1], n_common=2, rotation=1))
    np.testing.assert_allclose(principal_angles(A, B), [0, 0, 0.3, 1.1], atol=1e-6)
    assert subspace_distance(A, A) < 1e-14


@pytest.mark.parametrize(
    ("A", "B", "message"),
    [
        ([[1, 1]], [[1, 0]], "The rows of a basis must be orthonormal; the largest deviation is 1"),
        ([[1, 0]], [[1, 0], [0.6, 0.8]], "The rows of a basis must be orthonormal; the largest deviation is 0.6"),
        ([[1], [0]], [[1]], "the largest deviation is 1"),
        ([[1, 0]], [[1, 0, 0]], "One basis has 2 features, another 3"),
        ([1, 0], [[1, 0]], "Expected 2D array, got 1D array"),
        ([[1, np.nan]], [[1, 0]], "contains NaN"),
    ],
)
def test_bad_bases_are_refused(A, B, message):
    for function in (principal_angles, subspace_distance):
        with pytest.raises(ValueError, match=message):
            function(A, B)
    for function in (pairwise_subspace_distances, match_subspaces):
        with pytest.raises(ValueError, match=message):
            function([A], [B])


def test_unknown_metrics_are_refused():
    for function in (subspace_distance, match_subspaces, pairwise_subspace_distances):
        with pytest.raises(ValueError, match='metric must be "projection" or "geodesic"; got \'chordal\''):
            function([[1, 0]], [[1, 0]], metric="chordal")
