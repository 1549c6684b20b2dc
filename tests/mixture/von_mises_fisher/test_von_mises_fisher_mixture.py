"""Mixtures of von Mises-Fisher laws: their density, what is found of planted ones, weights and bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from _sklearn_checks import short_checks
from scipy.special import logsumexp
from scipy.stats import vonmises
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_param_validation

from skmanifold.distributions import VonMisesFisher, inverse_bessel_ratio, log_vmf_normalizer
from skmanifold.metrics import match_topics
from skmanifold.mixture import _von_mises_fisher as module
from skmanifold.mixture._von_mises_fisher import VonMisesFisherMixture

from .._refusals import refuse
from ._directions import documents, each_assignment, parameters, planted

# The law


def test_density_on_the_circle_is_that_of_scipy():
    X, _, _ = planted(2, [3.0, 40.0], [60, 90])
    mixture = VonMisesFisherMixture(2, random_state=0).fit(X)
    angles = np.linspace(-3, 3, 101)
    means = np.arctan2(mixture.mean_directions_[:, 1], mixture.mean_directions_[:, 0])
    log_density = logsumexp(vonmises.logpdf(angles[:, None], mixture.concentrations_, means), 1, mixture.weights_)
    found = mixture.score_samples(np.column_stack([np.cos(angles), np.sin(angles)]))
    np.testing.assert_allclose(found + log_vmf_normalizer(2, 0), log_density, atol=1e-12)


def test_score_is_the_mean_of_densities_and_criteria_count_parameters():
    X = documents()
    n, dim, k = X.shape[0], X.shape[1], 3
    own = k * dim + k - 1
    for concentration, n_parameters in (("per_component", own), (None, own), ("shared", k * dim), (5.0, k * dim - 1)):
        mixture = VonMisesFisherMixture(k, concentration=concentration, random_state=0).fit(X)
        total = mixture.score_samples(X).sum()
        assert mixture.score(X) == pytest.approx(total / n)
        assert mixture.aic(X) == pytest.approx(-2 * total + 2 * n_parameters)
        assert mixture.bic(X) == pytest.approx(-2 * total + np.log(n) * n_parameters)


# What is found


def test_a_planted_mixture_on_the_sphere_is_recovered():
    sizes, concentrations = [1000, 2000, 3000], [20.0, 200.0, 60.0]
    X, labels, directions = planted(3, concentrations, sizes, seed=3)
    mixture = VonMisesFisherMixture(3, n_init=5, random_state=0).fit(X)
    order = match_topics(directions, mixture.mean_directions_).other
    errors = np.arccos(np.sum(mixture.mean_directions_[order] * directions, axis=1))
    assert np.all(errors < 4.5 / np.sqrt(np.multiply(sizes, concentrations)))
    np.testing.assert_allclose(mixture.weights_[order], np.array(sizes) / 6000, atol=0.02)
    relative = mixture.concentrations_[order] / concentrations - 1
    assert np.all(np.abs(relative) < 4.5 / np.sqrt(sizes))  # of n exponential heights: one standard error is n^-1/2
    assert adjusted_rand_score(labels, mixture.labels_) > 0.95


@each_assignment
def test_a_planted_mixture_of_sparse_rows_in_200_dimensions_is_recovered(assignment):
    rng = np.random.default_rng(0)
    labels = rng.integers(6, size=900)
    shares = rng.dirichlet(np.full(200, 0.1), 6)
    X = sp.csr_matrix(np.array([rng.multinomial(30, shares[label]) for label in labels]))
    mixture = VonMisesFisherMixture(6, assignment=assignment, n_init=8, random_state=0).fit(X)
    assert adjusted_rand_score(labels, mixture.labels_) > 0.99
    assert VonMisesFisherMixture(1).fit(X).score(X) < 20 < 100 < mixture.score(X)


def test_a_shared_concentration_is_that_of_all_components():
    X, _, _ = planted(3, [50.0, 50.0], [2000, 1000])
    mixture = VonMisesFisherMixture(2, concentration="shared", random_state=0).fit(X)
    np.testing.assert_allclose(mixture.concentrations_, 50.0, rtol=4.5 / np.sqrt(3000))
    assert len(set(mixture.concentrations_)) == 1
    fixed = VonMisesFisherMixture(2, concentration=31.0, random_state=0).fit(X)
    np.testing.assert_array_equal(fixed.concentrations_, 31.0)


# The prior


@pytest.mark.extended
@pytest.mark.parametrize(("dim", "concentration"), [(2, 0.5), (2, 1e5), (3, 1e4), (500, 900.0), (20_000, 2e4)])
def test_the_prior_does_not_move_a_single_law(dim, concentration):
    X, _, _ = planted(dim, [concentration], [80])
    fitted = VonMisesFisherMixture().fit(X)
    exact = VonMisesFisher.fit(X)
    np.testing.assert_allclose(fitted.mean_directions_[0], exact.mean_direction, atol=1e-12)
    assert fitted.concentrations_[0] == pytest.approx(exact.concentration, rel=1e-8)


def test_the_prior_has_the_scale_of_the_clusters():
    sizes = [200] * 4
    X, labels, directions = planted(3, [1000.0, 500.0, 2000.0, 100.0], sizes, seed=2)
    mixture = VonMisesFisherMixture(4, init=directions).fit(X)
    exact = np.array([VonMisesFisher.fit(X[labels == k]).concentration for k in range(4)])
    np.testing.assert_allclose(mixture.concentrations_, exact, rtol=1 / np.sqrt(200))
    lengths = np.array([np.linalg.norm(X[labels == k].sum(axis=0)) for k in range(4)])
    blind = inverse_bessel_ratio(3, lengths / 201)  # if the prior's row knew nothing of the clusters
    assert np.all(blind < 0.7 * exact)
    assert np.all(blind[:3] < 0.3 * exact[:3])


@pytest.mark.covering
@each_assignment
@pytest.mark.parametrize("concentration", ["per_component", "shared"])
@pytest.mark.parametrize("dim", [2, 3, 100_000])
def test_equal_rows_and_single_rows_have_finite_concentrations(assignment, concentration, dim):
    equal = np.zeros((7, dim))
    equal[:, 1] = 3.0
    rows = sp.csr_array(equal)
    for X, k in ((rows, 1), (rows, 3), (rows[:1], 1), (sp.vstack([rows, -rows]), 2)):
        mixture = VonMisesFisherMixture(k, assignment=assignment, concentration=concentration, random_state=0).fit(X)
        assert all(np.isfinite(array).all() for array in parameters(mixture))
        assert np.isfinite(mixture.score(X))
        np.testing.assert_allclose(np.abs(mixture.mean_directions_[:, 1]), 1.0)
        assert np.isfinite(mixture.log_likelihood_trace_).all()


def test_as_many_components_as_rows_give_each_its_own():
    X = planted(4, [1.0], [6])[0]
    mixture = VonMisesFisherMixture(6, random_state=0).fit(X)
    assert sorted(mixture.labels_) == list(range(6))
    np.testing.assert_allclose(mixture.mean_directions_[mixture.labels_], X, atol=1e-12)
    np.testing.assert_allclose(mixture.concentrations_, 3 / 1e-6, rtol=1e-4)  # half way to 1 - 1e-6


def test_rows_that_cancel_leave_their_component_its_direction():
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    mixture = VonMisesFisherMixture(init=[[0.0, 2.0]]).fit(X)
    np.testing.assert_array_equal(mixture.mean_directions_, [[0.0, 1.0]])
    np.testing.assert_array_equal(mixture.concentrations_, [0.0])
    np.testing.assert_allclose(mixture.score_samples(X), 0.0, atol=1e-15)


# Weights of rows


@each_assignment
@pytest.mark.parametrize("init", ["given", "k-means++", "random"])
def test_whole_weights_are_copies_of_rows(assignment, init):
    X = documents(80)
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, 80)
    copies = rng.permutation(np.repeat(np.arange(80), weights))
    start = X.toarray()[:4] if init == "given" else init
    mixture = VonMisesFisherMixture(4, assignment=assignment, init=start, random_state=1)
    weighted, repeated = clone(mixture).fit(X, sample_weight=weights), mixture.fit(X[copies])
    for left, right in zip(parameters(weighted), parameters(repeated), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
    assert weighted.n_iter_ == repeated.n_iter_
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-12)
    np.testing.assert_array_equal(weighted.labels_[copies], repeated.labels_)
    for method in ("score", "aic", "bic"):
        of_copies = getattr(repeated, method)(X[copies])
        assert getattr(weighted, method)(X, sample_weight=weights) == pytest.approx(of_copies, rel=1e-9)
    assert clone(mixture).fit(X).lower_bound_ != pytest.approx(weighted.lower_bound_, rel=1e-3)


# Rows without a direction, and bad input


@each_assignment
def test_rows_of_zeros_are_left_out(assignment):
    X = planted(6, [2.0, 200.0], [30, 50])[0]
    with_zeros = np.insert(X, [0, 5, 80], 0.0, axis=0)
    zeros = np.flatnonzero(~with_zeros.any(axis=1))
    mixture = VonMisesFisherMixture(2, assignment=assignment, random_state=0)
    without, fitted = clone(mixture).fit(X), mixture.fit(with_zeros)
    for left, right in zip(parameters(without), parameters(fitted), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14)
    largest = fitted.weights_.argmax()
    assert fitted.concentrations_[largest] > fitted.concentrations_[1 - largest]  # no cosine of 0 is likely there
    np.testing.assert_array_equal(fitted.labels_[zeros], largest)
    np.testing.assert_array_equal(fitted.predict(with_zeros), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict_proba(with_zeros)[zeros], np.tile(fitted.weights_, (3, 1)))
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(fitted.score_samples(with_zeros))), zeros)
    assert fitted.score(with_zeros) == pytest.approx(fitted.score(X), rel=1e-14)
    assert fitted.bic(with_zeros) == pytest.approx(fitted.bic(X), rel=1e-14)
    weights = np.insert(np.linspace(0.5, 2.0, len(X)), [0, 5, 80], 3.0)
    of_rows = fitted.bic(X, sample_weight=np.linspace(0.5, 2.0, len(X)))
    assert fitted.bic(with_zeros, sample_weight=weights) == pytest.approx(of_rows, rel=1e-14)
    with pytest.raises(ValueError, match="must not be zero for all rows of X that have a density"):
        fitted.score(with_zeros, sample_weight=(weights == 3.0).astype(float))


@pytest.fixture
def _no_iteration_begins(monkeypatch):
    monkeypatch.setattr(module.DirectionEM, "assign_rows", lambda *args, **options: pytest.fail("iterations began"))


@pytest.mark.usefixtures("_no_iteration_begins")
@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_data_that_have_no_directions_are_refused(container):
    X = np.array([[1.0, 2, 0], [0, -1, 1], [0, 0, 0]])
    refuse("n_components=1 needs as many rows, .* has 0 that are not", VonMisesFisherMixture(), container(0 * X))
    message = r"n_components=3 needs as many rows, but X \(n_samples=3\) has 2 that are not all zeros and have a weight"
    refuse(message, VonMisesFisherMixture(3), container(X))
    refuse("n_components=2 needs", VonMisesFisherMixture(2), container(X), sample_weight=[1, 0, 1])
    for value, complaint in ((np.nan, "contains NaN"), (np.inf, "contains infinity")):
        bad = X.copy()
        bad[1, 1] = value
        refuse(complaint, VonMisesFisherMixture(), container(bad))
    refuse("1 feature", VonMisesFisherMixture(), container(X[:, :1]))


@pytest.mark.usefixtures("_no_iteration_begins")
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1, 2], "Negative values in data passed to `sample_weight`"),
        ([0, 0, 0], "zero"),
        ([0, 0, 5], "n_components=1 needs as many rows, .* has 0 that are not all zeros and have a weight"),
        ([1, 1], r"sample_weight.shape == \(2,\), expected \(3,\)"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([1e308, 1e308, 1], "sample_weight must have a finite sum"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message):
    refuse(message, VonMisesFisherMixture(), [[1.0, 2], [0, -1], [0, 0]], sample_weight=weights)


@pytest.mark.usefixtures("_no_iteration_begins")
@pytest.mark.parametrize(
    ("init", "message"),
    [
        ([[1.0, 0]], r"^init must be .* of shape \(n_components, n_features\) = \(2, 2\), .* array of shape \(1, 2\)"),
        ([[1.0, 0, 0], [0, 1, 0]], r"^init must be .* directions, .* got an array of shape \(2, 3\)"),
        (
            [0, 1, 1],
            r"^init must be 'k-means\+\+', 'random' or .*, not labels of rows; .* of shape \(3,\)\.$",
        ),
        ([["a", "b"]], r"^Column 0 of init has 'a', but numbers are needed"),
        ([[1.0, 0], [0, 0]], "init has a row of zeros, which is no direction"),
        ([[1.0, 0], [np.nan, 0]], "init contains NaN"),
    ],
)
def test_first_directions_that_do_not_fit_are_refused(init, message):
    refuse(message, VonMisesFisherMixture(2, init=init), [[1.0, 2], [0, -1], [2, 0]])


def test_scores_of_zeros_alone_are_refused():
    X = documents(40)
    mixture = VonMisesFisherMixture().fit(X)
    for method in (mixture.score, mixture.aic, mixture.bic):
        with pytest.raises(ValueError, match="All rows of X are zeros"):
            method(0 * X)


# scikit-learn's own checks

WANTS_A_CLASSIFIER = "asks tags.classifier_tags, which is None, how many columns predict_proba has"


@short_checks(
    [VonMisesFisherMixture(3)],
    [
        VonMisesFisherMixture(),
        VonMisesFisherMixture(3, assignment="hard", init="random"),
        VonMisesFisherMixture(2, concentration="shared", n_init=2, n_jobs=2),
        VonMisesFisherMixture(2, assignment="hard", concentration=10.0),
    ],
    expected_failed_checks=lambda estimator: {
        "check_estimator_sparse_array": WANTS_A_CLASSIFIER,
        "check_estimator_sparse_matrix": WANTS_A_CLASSIFIER,
    },
)
@pytest.mark.filterwarnings("ignore:EM stopped after")
def test_sklearn_check_passes(estimator, check):
    check(estimator)


def test_estimator_refuses_each_bad_parameter_by_its_name():
    check_param_validation("VonMisesFisherMixture", VonMisesFisherMixture())


def test_documents_that_are_strings_are_refused_with_what_makes_them_directions():
    with pytest.raises(ValueError, match=r"^X has strings, but VonMisesFisherMixture takes directions: put TfidfVect"):
        VonMisesFisherMixture(2).fit(["one document", "and another"])
