"""A user's own density: every shape that its functions may have, and one sentence for every one that they may not."""

import numpy as np
import pytest

from skmanifold.manifolds import Euclidean, PositiveOrthant, Simplex, Sphere, Stiefel
from skmanifold.models import Density, HasCounts, HasGradient, HasGradientDeviations, HasLogDensity
from skmanifold.utils._parameters import offers

from ._numerics import (
    check_chains_do_not_mix,
    check_gradient,
    check_minibatches,
    gradient_of,
    keys_of_all_subsets,
    random_positions,
)

N = 5
KEYS = np.arange(4, dtype=np.uint64)
MANIFOLDS = [Euclidean(1), Euclidean((2, 3)), Sphere(3), Sphere(3, n_points=2), Simplex(4), Stiefel(4, 2)]


def data_for(manifold):
    return np.random.default_rng(1).standard_normal((N, *manifold.shape))


def plain(manifold, vectorized):
    """A density of one function each: exp(sum sin(w x))."""
    w = data_for(manifold)[0]

    def value(x):
        return np.sin(w * x).reshape((len(x), -1) if vectorized else -1).sum(axis=-1)

    return Density(manifold, grad_log_density=lambda x: w * np.cos(w * x), log_density=value, vectorized=vectorized)


def of_rows(manifold, vectorized, summed=False, prior=True):
    """A density of N samples, log likelihood sum sin(w_i x), and a prior."""
    w = data_for(manifold)
    p = data_for(manifold)[-1]
    scale = manifold.size

    def gradient(x, rows):
        each = w[rows] * np.cos(w[rows] * (x[:, np.newaxis] if vectorized else x))
        axis = 1 if vectorized else 0
        return N / rows.shape[-1] * each.sum(axis=axis) if summed else each

    def value(x, rows):
        each = np.sin(w[rows] * (x[:, np.newaxis] if vectorized else x)).reshape(*rows.shape, scale).sum(axis=-1)
        return each.sum(axis=-1) if summed else each

    return Density(
        manifold,
        grad_log_density=gradient,
        log_density=value,
        n_samples=N,
        grad_log_prior=(lambda x: -p * x) if prior else None,
        log_prior=(lambda x: -0.5 * (p * x * x).reshape(*x.shape[: x.ndim - len(p.shape)], -1).sum(axis=-1))
        if prior
        else None,
        vectorized=vectorized,
    )


FORMS = {
    "plain": plain,
    "rows": of_rows,
    "sum-of-rows": lambda manifold, vectorized: of_rows(manifold, vectorized, summed=True),
    "no-prior": lambda manifold, vectorized: of_rows(manifold, vectorized, prior=False),
}


@pytest.mark.parametrize("manifold", MANIFOLDS, ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_vectorized_and_looped_are_the_same(form, manifold):
    together, looped = FORMS[form](manifold, True), FORMS[form](manifold, False)
    position = random_positions(together, 4)
    for batch_size in (None, 2) if together.n_samples else (None,):
        one, other = together.minibatched(batch_size), looped.minibatched(batch_size)
        np.testing.assert_allclose(gradient_of(one, position, KEYS), gradient_of(other, position, KEYS), rtol=1e-13)
        check_chains_do_not_mix(one, position, KEYS)
        check_chains_do_not_mix(other, position, KEYS)
    np.testing.assert_allclose(together.log_density(position), looped.log_density(position), rtol=1e-13)
    assert together.log_density(position).shape == (4,)
    if not isinstance(manifold, Stiefel):
        check_gradient(together, position)


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("manifold", MANIFOLDS, ids=repr)
def test_minibatches_and_their_deviations(manifold, vectorized):
    target = of_rows(manifold, vectorized)
    check_minibatches(target, random_positions(target)[0])


@pytest.mark.parametrize("vectorized", [True, False])
def test_own_estimate_of_the_whole_gradient(vectorized):
    """It is not scaled again; the prior is added to it; and how noisy it is, nobody knows."""
    estimate = of_rows(Sphere(3), vectorized, summed=True).minibatched(2)
    of_each = of_rows(Sphere(3), vectorized).minibatched(2)
    position = random_positions(estimate, 4)
    np.testing.assert_allclose(gradient_of(estimate, position, KEYS), gradient_of(of_each, position, KEYS), rtol=1e-12)
    with pytest.raises(ValueError, match=r"must return one gradient for each row, shape \(len\(rows\), \*shape\)"):
        estimate.grad_with_deviations(position, KEYS, np.empty_like(position))


def test_rows_depend_on_the_key_alone():
    seen = []

    def gradient(x, rows):
        seen.append(rows.copy())
        return np.zeros((len(rows), 2))

    target = Density(Euclidean(2), grad_log_density=gradient, n_samples=50).minibatched(7)
    out = np.empty((4, 2))
    target.grad_log_density(np.zeros((4, 2)), KEYS, out)
    target.grad_log_density(np.ones((4, 2)), KEYS[::-1].copy(), out)
    target.grad_with_deviations(np.ones((4, 2)), KEYS, out)
    first, second, third = seen[:4], seen[4:8], seen[8:]
    for c in range(4):
        np.testing.assert_array_equal(first[c], second[3 - c])
        np.testing.assert_array_equal(first[c], third[c])
        assert first[c].shape == (7,)
        assert first[c].dtype.kind == "i"
        assert len(set(first[c])) == 7
        assert first[c].min() >= 0
        assert first[c].max() < 50
    assert len({tuple(sorted(rows)) for rows in first}) == 4


def test_rows_of_all_data_come_in_order():
    seen = []

    def gradient(x, rows):
        seen.append(rows)
        return np.zeros((*rows.shape, 2))

    def value(x, rows):
        seen.append(rows)
        return np.zeros(rows.shape)

    target = Density(Euclidean(2), gradient, value, n_samples=6, vectorized=True)
    small = target.minibatched(3)
    position, out = np.zeros((4, 2)), np.empty((4, 2))
    target.grad_log_density(position, KEYS, out)
    small.grad_log_density(position, None, out)
    small.log_density(position)
    for rows in seen:
        np.testing.assert_array_equal(rows, np.tile(np.arange(6), (4, 1)))


@pytest.mark.parametrize("vectorized", [True, False])
def test_expected_counts(vectorized):
    w = np.arange(10.0).reshape(5, 2)
    axis = 1 if vectorized else 0
    whole = Density(PositiveOrthant(2), expected_counts=lambda x: 1 + x, vectorized=vectorized)
    rows = Density(
        PositiveOrthant(2),
        expected_counts=lambda x, rows: 0.5 + 5 / rows.shape[-1] * w[rows].sum(axis=axis),
        n_samples=5,
        vectorized=vectorized,
    )
    keys = keys_of_all_subsets(5, 2)
    position = np.ones((len(keys), 2))
    out = np.empty_like(position)
    whole.expected_counts(position, None, out)
    np.testing.assert_array_equal(out, np.full_like(out, 2.0))
    rows.minibatched(2).expected_counts(position, keys, out)
    np.testing.assert_allclose(out.mean(axis=0), 0.5 + w.sum(axis=0), rtol=1e-13)
    assert out.std() > 1
    rows.minibatched(2).expected_counts(position, None, out)
    np.testing.assert_allclose(out, np.tile(0.5 + w.sum(axis=0), (len(keys), 1)))


def test_gradient_of_integers_and_lists():
    target = Density(Euclidean(2), grad_log_density=lambda x: [1, 2], log_density=lambda x: 3)
    position = np.zeros((3, 2))
    np.testing.assert_array_equal(gradient_of(target, position), np.tile([1.0, 2.0], (3, 1)))
    np.testing.assert_array_equal(target.log_density(position), np.full(3, 3.0))


# What is offered


def test_offers_what_it_was_given():
    def f(x, rows=None):
        return x

    gradient = Density(Euclidean(2), grad_log_density=f)
    value = Density(Euclidean(2), log_density=f)
    counts = Density(Euclidean(2), expected_counts=f)
    with_rows = Density(Euclidean(2), f, f, n_samples=3, expected_counts=f)
    assert offers(gradient, HasGradient)
    assert offers(value, HasLogDensity)
    assert offers(counts, HasCounts)
    for protocol in (HasGradient, HasGradientDeviations, HasLogDensity, HasCounts):
        assert isinstance(with_rows, protocol)
    offered = {
        name: [t for t, d in zip("gvc", (gradient, value, counts), strict=True) if hasattr(d, name)]
        for name in ("grad_log_density", "grad_with_deviations", "log_density", "expected_counts")
    }
    assert offered == {
        "grad_log_density": ["g"],
        "grad_with_deviations": [],
        "log_density": ["v"],
        "expected_counts": ["c"],
    }
    with pytest.raises(AttributeError, match="has no attribute 'log_density'"):
        gradient.log_density(np.zeros((1, 2)))


def test_minibatching_leaves_the_original_alone():
    target = of_rows(Euclidean(2), True)
    small = target.minibatched(2)
    assert (target.batch_size, small.batch_size, small.minibatched(None).batch_size) == (None, 2, None)
    assert small.minibatched(N).batch_size == N
    assert small.manifold is target.manifold


@pytest.mark.parametrize(
    ("covariance", "expected"),
    [(None, None), (2, 2.0), ([1, 0, 2], [1.0, 0.0, 2.0]), (np.eye(3), np.eye(3)), (np.ones((3, 3)), np.ones((3, 3)))],
)
def test_noise_covariance(covariance, expected):
    target = Density(Euclidean(3), grad_log_density=lambda x: x, noise_covariance=covariance)
    if expected is None or isinstance(expected, float):
        assert target.noise_covariance == expected
    else:
        np.testing.assert_array_equal(target.noise_covariance, expected)


def test_noise_covariance_is_a_copy_of_a_points_size():
    given = np.eye(6)
    target = Density(Sphere(3, n_points=2), grad_log_density=lambda x: x, noise_covariance=given)
    given[0, 0] = 9
    np.testing.assert_array_equal(target.noise_covariance, np.eye(6))
    line = Density(Euclidean(1), grad_log_density=lambda x: x, noise_covariance=2.0)
    np.testing.assert_array_equal(line.noise_covariance, [2.0])


# What is refused


def identity(x, rows=None):
    return x


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"manifold": Sphere}, TypeError, r"manifold must be an instance of a Manifold such as Sphere\(3\)"),
        ({"manifold": 3}, TypeError, "manifold must be an instance of a Manifold .* got 3"),
        ({"grad_log_density": 1.0}, TypeError, r"grad_log_density must be a function of a point; got 1\.0"),
        ({"log_density": "x"}, TypeError, "log_density must be a function of a point; got 'x'"),
        ({"expected_counts": 2}, TypeError, "expected_counts must be a function"),
        ({"grad_log_prior": 2, "n_samples": 3}, TypeError, "grad_log_prior must be a function"),
        ({"log_prior": 2, "n_samples": 3}, TypeError, "log_prior must be a function"),
        ({"grad_log_prior": identity}, ValueError, "require n_samples; without it, add them to the density"),
        ({"log_prior": identity}, ValueError, "require n_samples; without it, add them to the density"),
        ({"n_samples": 0}, ValueError, "n_samples must be an integer of at least 1; got 0"),
        ({"noise_covariance": -1.0}, ValueError, "noise_covariance must be non-negative; its least entry is -1"),
        ({"noise_covariance": [1.0, -2.0]}, ValueError, "noise_covariance must be non-negative"),
        ({"noise_covariance": [1.0, 2.0, 3.0]}, ValueError, r"a number, or of shape \(2,\) or \(2, 2\); got \(3,\)"),
        ({"noise_covariance": [[1.0, 2.0]]}, ValueError, r"a number, or of shape \(2,\) or \(2, 2\); got \(1, 2\)"),
        ({"noise_covariance": np.nan}, ValueError, "noise_covariance must be finite"),
        ({"noise_covariance": [[1.0, 2.0], [0.0, 1.0]]}, ValueError, "noise_covariance must be symmetric"),
        (
            {"noise_covariance": [[1.0, 2.0], [2.0, 1.0]]},
            ValueError,
            "noise_covariance must be positive semi-definite; its least eigenvalue is -1",
        ),
    ],
)
def test_constructor_refuses_in_one_sentence(arguments, error, message):
    with pytest.raises(error, match=message) as refusal:
        Density(**{"manifold": Euclidean(2), "grad_log_density": identity, **arguments})
    text = str(refusal.value)
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text


def test_batch_size_is_refused():
    with pytest.raises(ValueError, match="batch_size needs a target with n_samples, whose functions take row indices"):
        Density(Euclidean(2), identity).minibatched(3)
    target = Density(Euclidean(2), identity, n_samples=5)
    for wrong in (0, -1, 6, 2.5):
        with pytest.raises(ValueError, match=f"batch_size must be an integer from 1 to n_samples=5; got {wrong}"):
            target.minibatched(wrong)
    with pytest.raises(ValueError, match="only be estimated from a batch_size of at least 2"):
        of_rows(Euclidean(2), True).minibatched(1).grad_with_deviations(np.zeros((4, 2)), KEYS, np.zeros((4, 2)))


@pytest.mark.parametrize("vectorized", [True, False])
def test_wrong_shapes_are_told_as_the_function_knows_them(vectorized):
    """With the chains where the function sees them, and without where it does not."""
    lead = (4,) if vectorized else ()
    position, out = np.zeros((4, 2)), np.empty((4, 2))

    def returning(*shape):
        return lambda x, rows=None: np.zeros(lead + shape)

    def says(*shape):
        return str(lead + shape).replace("(", r"\(").replace(")", r"\)")

    made = {"manifold": Euclidean(2), "vectorized": vectorized}
    with pytest.raises(ValueError, match=f"grad_log_density must return shape {says(2)}; it returned {says(3)}"):
        Density(grad_log_density=returning(3), **made).grad_log_density(position, None, out)
    with pytest.raises(ValueError, match=f"log_density must return shape {says()}; it returned {says(3)}"):
        Density(log_density=returning(3), **made).log_density(position)
    with pytest.raises(ValueError, match=f"expected_counts must return shape {says(2)}; it returned {says()}"):
        Density(expected_counts=returning(), **made).expected_counts(position, None, out)
    with pytest.raises(
        ValueError,
        match=rf"grad_log_density\(x, rows\) must return shape {says(5, 2)}, one gradient for each row, or {says(2)}, "
        f"the estimate of the whole; it returned {says(2, 5)}",
    ):
        Density(grad_log_density=returning(2, 5), n_samples=5, **made).grad_log_density(position, None, out)


def test_repr():
    assert repr(Density(Sphere(3), identity)) == "Density(Sphere(d=3))"
    assert repr(Density(Sphere(3), identity, n_samples=9)) == "Density(Sphere(d=3), n_samples=9)"


def test_deviations_leave_the_users_array_alone():
    per_row = np.arange(12.0).reshape(1, 6, 2)
    target = Density(Euclidean(2), lambda x, rows: per_row, n_samples=6, vectorized=True)
    deviations = target.grad_with_deviations(np.zeros((1, 2)), np.array([1], np.uint64), np.empty((1, 2)))
    np.testing.assert_array_equal(per_row.ravel(), np.arange(12.0))
    assert (deviations == 0).all()  # all rows: no noise


def test_values_of_rows_must_have_one_of_two_shapes():
    wrong = Density(Euclidean(2), log_density=lambda x, rows: np.zeros(7), n_samples=10)
    with pytest.raises(
        ValueError, match=r"log_density\(x, rows\) must return shape \(10,\), a value for each row, or \(\)"
    ):
        wrong.log_density(np.zeros((1, 2)))
    prior = Density(Euclidean(2), identity, n_samples=5, grad_log_prior=lambda x: np.zeros(1))
    with pytest.raises(ValueError, match=r"grad_log_density\(x, rows\)|grad_log_prior must return shape \(2,\)"):
        prior.grad_log_density(np.zeros((1, 2)), None, np.empty((1, 2)))


def test_a_density_without_functions_is_refused():
    with pytest.raises(ValueError, match="needs grad_log_density, log_density or expected_counts"):
        Density(Euclidean(2))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x * 1j, TypeError, "must return real numbers; it returned complex128"),
        (lambda x: None, TypeError, "must return real numbers; it returned object"),
        (lambda x: [[1.0], [1.0, 2.0]], ValueError, "must return an array of the same shape for every point"),
        (lambda x: 1.0, ValueError, r"must return shape \(2,\); it returned \(\)"),
    ],
)
def test_what_is_no_gradient_is_refused(function, error, message):
    target = Density(Euclidean(2), function)
    with pytest.raises(error, match=f"grad_log_density {message}"):
        target.grad_log_density(np.zeros((3, 2)), None, np.empty((3, 2)))


def test_one_number_may_be_wrapped_or_not():
    for value, slope in (
        (lambda x: -(float(x[0]) ** 2), lambda x: -2 * float(x[0])),
        (lambda x: -(x**2), lambda x: -2 * x),
    ):
        target = Density(Euclidean(1), slope, value)
        out = np.empty((2, 1))
        target.grad_log_density(np.array([[1.0], [2.0]]), None, out)
        np.testing.assert_array_equal(out, [[-2.0], [-4.0]])
        np.testing.assert_array_equal(target.log_density(np.array([[1.0], [2.0]])), [-1.0, -4.0])


def test_functions_are_called_as_n_samples_says():
    with pytest.raises(
        TypeError, match=r"is called as grad_log_density\(x, rows\), because of n_samples, but does not accept"
    ):
        Density(Euclidean(2), lambda x: x, n_samples=5)
    with pytest.raises(
        TypeError, match=r"is called as log_density\(x\), but does not accept these arguments: missing a req"
    ):
        Density(Euclidean(2), log_density=lambda x, rows: 0.0)
    Density(Euclidean(2), np.negative)


def test_linear_densities_have_their_gradient_and_parameter():
    parameter = np.arange(6.0).reshape(3, 2)
    target = Density.linear(Stiefel(3, 2), parameter)
    x = np.random.default_rng(0).normal(size=(4, 3, 2))
    out = np.empty_like(x)
    target.grad_log_density(x, None, out)
    np.testing.assert_array_equal(out, np.broadcast_to(parameter, x.shape))
    np.testing.assert_allclose(target.log_density(x), (x * parameter).sum(axis=(1, 2)))
    np.testing.assert_array_equal(target.linear_parameter(), parameter)
    assert not hasattr(Density(Stiefel(3, 2), lambda x: x), "linear_parameter")
    with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
        Density.linear(Stiefel(3, 2), parameter.T)
    with pytest.raises(ValueError, match="finite"):
        Density.linear(Stiefel(3, 2), np.full((3, 2), np.nan))
