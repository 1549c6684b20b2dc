"""The von Mises-Fisher law: draws, densities and fits from 2 to a million dimensions."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import kstest, vonmises_fisher

from skmanifold.distributions import VonMisesFisher, bessel_ratio, bessel_ratio_derivative, log_vmf_normalizer
from skmanifold.distributions._von_mises_fisher import sample_cosine_complement


def unit_vector(dim, seed=0):
    vector = np.random.default_rng(seed).standard_normal(dim)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    ("dim", "concentration", "n_draws"),
    [
        *[(2, 0.0, 4000), (2, 3.0, 4000), (2, 1e8, 4000), (3, 0.0, 4000), (3, 10.0, 4000), (10, 5.0, 4000)],
        *[(300, 1e8, 2000), (1000, 800.0, 2000), (5000, 0.0, 200), (5000, 1e4, 200)],
    ],
)
def test_draws_have_the_right_moments(dim, concentration, n_draws):
    mean_direction = unit_vector(dim)
    X = VonMisesFisher(mean_direction, concentration).sample(n_draws, random_state=1)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, atol=1e-14)
    cosine = X @ mean_direction
    ratio = bessel_ratio(dim, concentration)
    variance = bessel_ratio_derivative(dim, concentration)  # A' is the variance of the cosine
    assert abs(cosine.mean() - ratio) < 4 * np.sqrt(variance / n_draws) + 2e-16
    square = (cosine**2 - ratio**2 - variance) / max(ratio, np.sqrt(variance))
    assert abs(square.mean()) < 4 * square.std() / np.sqrt(n_draws) + 1e-15
    # What is orthogonal to the mean is symmetric: V - 1 directions share 1 - E cosine^2.
    across = X - np.outer(cosine, mean_direction)
    expected = (1 - ratio) * (1 + ratio) - variance
    assert np.sum(across.mean(axis=0) ** 2) < expected / n_draws * (1 + 4 * np.sqrt(2 / (dim - 1))) * 1.5
    other = unit_vector(dim, 2)
    other -= mean_direction * (other @ mean_direction)
    other /= np.linalg.norm(other)
    share = (X @ other) ** 2 * (dim - 1) / expected
    assert abs(share.mean() - 1) < 4 * share.std() / np.sqrt(n_draws)


@pytest.mark.covering
@pytest.mark.parametrize("dim", [2, 3, 10, 1000])
@pytest.mark.parametrize("concentration", [0.0, 0.7, 30.0, 2000.0])
def test_cosine_has_its_exact_law(dim, concentration):
    complement = sample_cosine_complement(dim, concentration, 3000, np.random.default_rng(3))
    # In terms of the angle the density, exp(k cos) sin^(V - 2), has no singularity; a fine trapezoid rule is exact.
    angle = np.linspace(0.0, np.pi, 200_001)
    with np.errstate(divide="ignore"):
        log_density = concentration * (np.cos(angle) - 1) + ((dim - 2) * np.log(np.sin(angle)) if dim > 2 else 0.0)
    density = np.exp(log_density - log_density.max())
    cdf = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    uniforms = np.interp(2 * np.arcsin(np.sqrt(complement / 2)), angle, cdf / cdf[-1])
    assert kstest(uniforms, "uniform").pvalue > 1e-4


def test_cosine_of_the_wrong_dimension_would_be_noticed():
    complement = sample_cosine_complement(4, 5.0, 3000, np.random.default_rng(3))
    error = abs((1 - complement).mean() - bessel_ratio(3, 5.0))
    assert error > 8 * np.sqrt(bessel_ratio_derivative(3, 5.0) / 3000)


def test_one_draw_in_a_million_dimensions():
    mean_direction = unit_vector(10**6)
    x = VonMisesFisher(mean_direction, 1e6).sample(random_state=0)
    assert x.shape == (10**6,)
    spread = np.sqrt(bessel_ratio_derivative(10**6, 1e6))
    assert abs(x @ mean_direction - bessel_ratio(10**6, 1e6)) < 4 * spread


def test_mean_at_the_poles_of_the_reflection():
    for first in (1.0, -1.0):
        X = VonMisesFisher([first, 0.0, 0.0], 50.0).sample(2000, random_state=0)
        assert abs(first * X[:, 0].mean() - bessel_ratio(3, 50.0)) < 4 * np.sqrt(
            bessel_ratio_derivative(3, 50.0) / 2000
        )


@pytest.mark.parametrize(("dim", "concentration"), [(2, 1.5), (3, 20.0), (10, 4.0), (40, 60.0)])
def test_agrees_with_scipy_where_scipy_works(dim, concentration):
    ours, theirs = VonMisesFisher(unit_vector(dim), concentration), vonmises_fisher(unit_vector(dim), concentration)
    X = ours.sample(50, random_state=0)
    np.testing.assert_allclose(ours.log_density(X), theirs.logpdf(X), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(ours.entropy(), theirs.entropy(), rtol=1e-11)
    fitted = VonMisesFisher.fit(X)
    mean_direction, kappa = vonmises_fisher.fit(X)
    np.testing.assert_allclose(fitted.mean_direction, mean_direction, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(fitted.concentration, kappa, rtol=1e-6)


def test_entropy_and_density_at_extremes():
    for dim, concentration in [(2, 0.0), (5000, 100.0), (5000, 1e8), (10**6, 10.0)]:
        law = VonMisesFisher(unit_vector(dim), concentration)
        X = law.sample(50 if dim < 10**6 else 2, random_state=0)
        log_density = law.log_density(X)
        assert np.all(np.isfinite(log_density))
        spread = concentration * np.sqrt(bessel_ratio_derivative(dim, concentration) / len(X))
        assert abs(law.entropy() + log_density.mean()) < 4.5 * spread + 1e-8
    uniform = VonMisesFisher(unit_vector(7), 0.0)
    assert uniform.entropy() == -log_vmf_normalizer(7, 0.0)


def test_fit_makes_the_gradient_zero():
    X = VonMisesFisher(unit_vector(20), 15.0).sample(100, random_state=0)
    fitted = VonMisesFisher.fit(X)
    np.testing.assert_allclose(fitted.mean(), X.mean(axis=0), atol=1e-15)


def test_weights_are_repetitions():
    X = VonMisesFisher(unit_vector(5), 4.0).sample(30, random_state=0)
    weights = np.random.default_rng(0).integers(0, 4, 30)
    weighted, repeated = VonMisesFisher.fit(X, weights), VonMisesFisher.fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.mean_direction, repeated.mean_direction, rtol=1e-13)
    np.testing.assert_allclose(weighted.concentration, repeated.concentration, rtol=1e-13)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_rows_and_single_precision(container):
    X = np.abs(VonMisesFisher(unit_vector(6), 3.0).sample(40, random_state=0))
    X[X < 0.3] = 0.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    law = VonMisesFisher.fit(X)
    np.testing.assert_allclose(VonMisesFisher.fit(container(X)).concentration, law.concentration, rtol=1e-13)
    np.testing.assert_allclose(VonMisesFisher.fit(X.astype(np.float32)).concentration, law.concentration, rtol=1e-5)
    np.testing.assert_allclose(law.log_density(container(X)), law.log_density(X), rtol=1e-13)


def test_rows_that_cancel_give_the_uniform_law():
    assert VonMisesFisher.fit([[0.6, 0.8], [-0.6, -0.8]]).concentration == 0.0


def test_shapes_and_seeds():
    law = VonMisesFisher([1.0, 0.0, 0.0], 2.0)
    assert law.sample().shape == (3,)
    assert law.sample(0).shape == (0, 3)
    assert law.sample((2, 4)).shape == (2, 4, 3)
    assert law.log_density(law.sample((2, 4))).shape == (2, 4)
    np.testing.assert_array_equal(law.sample(3, random_state=7), law.sample(3, random_state=7))
    np.testing.assert_array_equal(law.sample(3, np.random.default_rng(7)), law.sample(3, random_state=7))
    state = np.random.RandomState(7)
    first = law.sample(3, random_state=state)
    assert np.all(law.sample(3, random_state=state) != first)
    np.testing.assert_array_equal(law.sample(3, np.random.RandomState(7)), first)


def test_value_is_frozen_and_picklable():
    direction = np.array([0.6, 0.8])
    law = VonMisesFisher(direction, 2.0)
    direction[0] = 5.0
    assert law.mean_direction[0] == pytest.approx(0.6)
    with pytest.raises(ValueError, match="read-only"):
        law.mean_direction[0] = 1.0
    with pytest.raises(AttributeError):
        law.concentration = 1.0
    for twin in (pickle.loads(pickle.dumps(law)), copy.copy(law)):
        np.testing.assert_array_equal(twin.sample(4, random_state=0), law.sample(4, random_state=0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda law: VonMisesFisher([1.0], 1.0), "at least 2 entries"),
        (lambda law: VonMisesFisher([1.0, 1.0], 1.0), "mean_direction must have unit length"),
        (lambda law: VonMisesFisher([1.0, np.nan], 1.0), "mean_direction must have unit length"),
        (lambda law: VonMisesFisher([1.0, 0.0], -1.0), "concentration must be finite and at least 0"),
        (lambda law: VonMisesFisher([1.0, 0.0], np.inf), "concentration must be finite"),
        (lambda law: law.sample(-1), "size must be"),
        (lambda law: law.sample(1, random_state="x"), "random_state must be"),
        (lambda law: law.log_density([1.0, 0.0, 0.0]), "X must have 2 entries"),
        (lambda law: law.log_density([[1.0, 0.0], [2.0, 0.0]]), "unit length; one has length 2"),
        (lambda law: VonMisesFisher.fit([[1.0, 0.0], [3.0, 0.0]]), "unit length; one has length 3"),
        (lambda law: VonMisesFisher.fit(sp.csr_array([[1.0, 0.0], [0.0, 0.0]])), "unit length; one has length 0"),
        (lambda law: VonMisesFisher.fit([[0.6, 0.8], [0.6, 0.8]]), "are equal"),
        (lambda law: VonMisesFisher.fit([[0.6, 0.8], [0.8, 0.6]], [1.0]), "sample_weight.shape"),
        (
            lambda law: VonMisesFisher.fit([[0.6, 0.8], [0.8, 0.6]], [1.0, -1.0]),
            "Negative values in data passed to `sample_weight`",
        ),
        (
            lambda law: VonMisesFisher.fit([[0.6, 0.8], [0.8, 0.6]], [0.0, 0.0]),
            "at least one non-zero number|not be zero for all rows",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call(VonMisesFisher([0.6, 0.8], 2.0))


@pytest.mark.parametrize("concentration", [1e300, 1.7e308])
def test_the_largest_concentrations_give_the_mean_direction(concentration):
    mean = np.array([0.6, 0.0, 0.8])
    draws = VonMisesFisher(mean, concentration).sample(5, random_state=0)  # was an endless loop where 2 kappa overflows
    np.testing.assert_allclose(draws, np.tile(mean, (5, 1)), atol=1e-12)
