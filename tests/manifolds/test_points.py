"""Shapes, dimensions, what is a point and what is not, and where random points fall."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold.manifolds import ConwaySphere, Euclidean, Manifold, PositiveOrthant, Product, Simplex, Sphere, Stiefel

from ._cases import MANIFOLDS, points


def name_manifolds(value):
    return repr(value) if isinstance(value, Manifold) else ""


@pytest.mark.parametrize("manifold", MANIFOLDS, ids=repr)
def test_random_points_are_points(manifold):
    x = points(manifold, 20)
    assert x.dtype == np.float64
    assert x.shape == (20, *manifold.shape)
    assert manifold.size == x[0].size
    manifold.check_point(x, atol=1e-14)
    manifold.check_point(x[0])
    manifold.check_point(x.reshape(4, 5, *manifold.shape))
    np.testing.assert_array_equal(x, points(manifold, 20))
    assert manifold.dim == 0 or not np.array_equal(x[0], x[1])


@pytest.mark.parametrize("manifold", MANIFOLDS, ids=repr)
def test_arrays_of_another_shape_or_not_finite_are_no_points(manifold):
    x = points(manifold, 3)
    for wrong in (x[..., :-1], np.concatenate([x, x], axis=-1), np.float64(1.0)):
        with pytest.raises(ValueError, match="A point must have shape"):
            manifold.check_point(wrong)
    for bad in (np.nan, np.inf):
        x.flat[-1] = bad
        with pytest.raises(ValueError, match="1 of its entries are not"):
            manifold.check_point(x)


@pytest.mark.parametrize(
    ("manifold", "constraint"),
    [
        (Sphere(5), "length 1"),
        (Sphere(5, n_points=3), "length 1"),
        (Stiefel(5, 2), "orthonormal"),
        (Stiefel(3, 3), "orthonormal"),
        (ConwaySphere(3), "distance"),
        (Simplex(4), "sum to 1"),
        (Simplex(4, n_points=2), "sum to 1"),
        (Product(Euclidean(2), Sphere(5)), r"In factor 1, Sphere\(d=5\).*length 1"),
    ],
    ids=name_manifolds,
)
def test_points_off_the_manifold_are_rejected_with_the_constraint_and_the_deviation(manifold, constraint):
    x = points(manifold, 3)
    x[-1] *= 1 + 1e-6  # one chain of three
    manifold.check_point(x, atol=1e-5)
    with pytest.raises(ValueError, match=constraint + r".* \d(\.\d+)?e-0[67]\.$"):
        manifold.check_point(x)


@pytest.mark.parametrize(
    "manifold", [PositiveOrthant(3), Simplex(3), Product(Euclidean(1), PositiveOrthant(2))], ids=repr
)
def test_zero_is_a_coordinate_and_less_is_not_whatever_the_tolerance(manifold):
    x = np.array([[0.25, 0.75, 0.0]])
    manifold.check_point(x)
    x[0, 2] = -1e-12
    with pytest.raises(ValueError, match=r"must not be negative; the smallest is -1e-12\.$"):
        manifold.check_point(x, atol=1.0)


def test_a_frame_with_columns_of_unit_length_need_not_be_orthonormal():
    with pytest.raises(ValueError, match=r"the largest deviation is 0\.6"):
        Stiefel(2, 2).check_point([[1.0, 0.6], [0.0, 0.8]])


@pytest.mark.parametrize("manifold", [Simplex(1), Simplex(4), Simplex(3, n_points=2)], ids=repr)
def test_points_of_the_simplex_span_its_dimension(manifold):
    x = points(manifold, 50).reshape(50, -1)
    assert np.linalg.matrix_rank(x - x.mean(axis=0), tol=1e-10) == manifold.dim


@pytest.mark.parametrize(
    ("manifold", "mean", "covariance"),
    [
        (Euclidean((2, 2)), 0, np.eye(4)),
        (PositiveOrthant(3), 1, np.eye(3)),
        (Sphere(1), 0, np.eye(1)),
        (Sphere(3), 0, np.eye(3) / 3),
        (Sphere(2, n_points=2), 0, np.eye(4) / 2),
        (Stiefel(4, 2), 0, np.eye(8) / 4),
        (Stiefel(2, 2), 0, np.eye(4) / 2),
        (Stiefel(3, 3), 0, np.eye(9) / 3),
        (ConwaySphere(2), [0.5, 0, 0.5], np.eye(3) * (2 / 4) / 3),
        (Simplex(3), 1 / 3, (np.eye(3) - 1 / 3) / 12),
        (Simplex(2, n_points=2), 1 / 2, np.kron(np.eye(2), np.array([[1, -1], [-1, 1]]) / 12)),
        (Product(Sphere(2), PositiveOrthant(1)), [0, 0, 1], np.diag([0.5, 0.5, 1])),
    ],
    ids=name_manifolds,
)
def test_random_points_have_the_moments_of_their_law(manifold, mean, covariance):
    n_draws = 4000
    centred = points(manifold, n_draws, seed=7).reshape(n_draws, -1) - mean
    products = centred[:, :, None] * centred[:, None, :]
    for sample, expected in ((centred, 0.0), (products, covariance)):
        errors = np.maximum(sample.std(axis=0) / np.sqrt(n_draws), 1e-12)
        assert np.max(np.abs(sample.mean(axis=0) - expected) / errors) < 4.5


@pytest.mark.parametrize("p", [1, 2, 3])
def test_random_frames_are_uniform_and_not_only_in_second_moments(p):
    # Every column of a uniform frame is uniform on the sphere of R^3, so that every entry is uniform on [-1, 1]
    entries = np.sort(points(Stiefel(3, p), 3000, seed=3).reshape(3000, -1), axis=0)
    distance = np.abs((entries + 1) / 2 - (np.arange(3000)[:, None] + 0.5) / 3000).max(axis=0)
    assert np.all(distance < 1.95 / np.sqrt(3000))  # Kolmogorov's bound at one in a thousand


@pytest.mark.parametrize("manifold", MANIFOLDS, ids=repr)
def test_manifolds_are_values(manifold):
    for twin in (clone(manifold), copy.copy(manifold), copy.deepcopy(manifold), pickle.loads(pickle.dumps(manifold))):
        assert type(twin) is type(manifold)
        assert repr(twin) == repr(manifold)
        assert (twin.shape, twin.dim, twin.size) == (manifold.shape, manifold.dim, manifold.size)
        np.testing.assert_array_equal(points(twin, 2), points(manifold, 2))
    assert repr(eval(repr(manifold))) == repr(manifold)
    assert manifold.set_params() is manifold
    assert type(manifold).__name__ in manifold._repr_html_()


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: Sphere(0), ValueError, "The parameter d of Sphere must be at least 1, got 0."),
        (lambda: Sphere(2.5), TypeError, "The parameter d of Sphere must be an integer, got 2.5."),
        (lambda: Sphere(True), TypeError, "The parameter d of Sphere must be an integer, got True."),
        (lambda: Sphere(3, n_points=0), ValueError, "The parameter n_points of Sphere must be at least 1, got 0."),
        (lambda: Sphere((3,)), TypeError, "The parameter d of Sphere must be an integer, got (3,)."),
        (lambda: Simplex("3"), TypeError, "The parameter d of Simplex must be an integer, got '3'."),
        (lambda: Simplex(3, n_points=-1), ValueError, "The parameter n_points of Simplex must be at least 1, got -1."),
        (lambda: Stiefel(3, 4), ValueError, "The parameter p of Stiefel must be at most n = 3, got 4."),
        (lambda: Stiefel(0, 0), ValueError, "The parameter n of Stiefel must be at least 1, got 0."),
        (lambda: Stiefel(3, 0), ValueError, "The parameter p of Stiefel must be at least 1, got 0."),
        (lambda: ConwaySphere(None), TypeError, "The parameter m of ConwaySphere must be an integer, got None."),
        (lambda: Euclidean(0), ValueError, "Every axis of Euclidean must be at least 1, got 0."),
        (lambda: Euclidean((2, 0.5)), TypeError, "Every axis of Euclidean must be an integer, got 0.5."),
        (lambda: Euclidean(()), TypeError, "The shape of Euclidean must be an integer or a tuple of integers, got ()."),
        (
            lambda: PositiveOrthant(True),
            TypeError,
            "The shape of PositiveOrthant must be an integer or a tuple of integers, got True.",
        ),
        (lambda: Product(), ValueError, "Product needs at least one factor."),
        (lambda: Product(Sphere(3), 2), TypeError, "Product needs factors that are manifolds, got 2."),
        (lambda: Sphere(3).set_params(d=0), ValueError, "The parameter d of Sphere must be at least 1, got 0."),
        (lambda: Stiefel(3, 2).set_params(n=1), ValueError, "The parameter p of Stiefel must be at most n = 1, got 2."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_parameters_are_refused_in_one_sentence(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == sentence


def test_parameters_may_be_numpy_integers_and_shapes_lists():
    assert Sphere(np.int64(3), np.int32(2)).shape == (2, 3)
    assert Euclidean(np.int64(3)).shape == (3,)
    assert PositiveOrthant([2, 3]).shape == (2, 3)


def test_set_params_derives_again_what_follows_from_the_parameters():
    assert Euclidean(2).set_params(shape=3).shape == (3,)
    sphere = ConwaySphere(2).set_params(m=3)
    sphere.check_point(points(ConwaySphere(3), 2))
