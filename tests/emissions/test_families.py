"""Families of emissions against slow references: densities, statistics, modes, draws, new rows."""

import numpy as np
import pytest
import scipy.stats as st
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.emissions import Bernoulli, Gaussian, Multinomial, Poisson

from ._cases import FAMILIES, GAUSSIANS, KEY, bound, log_densities, make_X, read

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
SHARES = np.random.default_rng(1).dirichlet(np.ones(3), 3000)


def fitted(name, **options):
    X, rows, family = bound(name, **options)
    parameters = family.mode(family.sum_shares(rows, 0, rows.n_rows, 0, SHARES[: rows.n_rows]).total())
    return X, rows, family, parameters


# --- densities and statistics ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "holed"), [*((name, 0.0) for name in FAMILIES), *((name, 0.3) for name in GAUSSIANS)])
@pytest.mark.parametrize("m", [1, 2, 3, 6, 9])
def test_log_densities_are_those_of_scipy_and_miss_missing_cells(name, holed, m):
    X, rows, family, parameters = fitted(name, m=m, holed=holed)
    out = np.full((rows.n_rows, 3), 7.0)
    family.add_log_densities(rows, 0, rows.n_rows, parameters, out)
    if name in GAUSSIANS:  # without observed cells the density is exactly 1
        assert (out[np.isnan(X).all(axis=1)] == 7.0).all()
    out -= 7.0
    if rows.log_base is not None:
        out += rows.log_base[:, None]
    np.testing.assert_allclose(out, log_densities(name, X, family.attributes(parameters)), rtol=1e-10, atol=1e-10)


def test_gaussian_statistics_keep_their_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2)) + 1e7
    rows = read(Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=4), X)
    family = Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=4).bind(rows, 1)
    found = family.mode(family.sum_shares(rows, 0, 500, 0, np.ones((500, 1))).total())
    np.testing.assert_allclose(found.covariances[0], np.cov(X.T, bias=True), rtol=1e-6)


# --- modes -----------------------------------------------------------------------------------------------


def log_normal_inverse_wishart(mean, covariance, prior):
    of_covariance = st.invwishart.logpdf(covariance, prior.degrees, prior.covariance)
    return of_covariance + st.multivariate_normal.logpdf(mean, prior.mean, covariance / prior.mean_precision)


def log_normal_inverse_gamma(mean, variances, prior, spherical):
    spread = np.full(len(mean), 1.0) * variances
    of_mean = st.norm.logpdf(mean, prior.mean, np.sqrt(spread / prior.mean_precision)).sum()
    scales = 0.5 * prior.covariance
    which = spread[:1] if spherical else spread
    return of_mean + st.invgamma.logpdf(which, 0.5 * prior.degrees, scale=scales).sum()


def log_prior_in_natural_parameters(kind, mean, covariance, prior):
    """Times the Jacobian of means by their products with the precision, and that of covariances by precisions."""
    if kind in ("gaussian", "tied"):
        power = 1.0 + (len(mean) + 1.0)
        return log_normal_inverse_wishart(mean, covariance, prior) + power * np.linalg.slogdet(covariance)[1]
    # A product is mean over variance, so the mean has the variance for a Jacobian; the variance has its square.
    jacobian = np.log(covariance).sum() + 2.0 * np.log(covariance[:1] if kind == "spherical" else covariance).sum()
    return log_normal_inverse_gamma(mean, covariance, prior, kind == "spherical") + jacobian


def test_log_prior_is_the_logarithm_of_the_prior_density_up_to_a_constant():
    for kind in GAUSSIANS:
        *_, family, one = fitted(kind)
        other = family.draw(tuple(np.zeros(shape) for shape in family.shapes()), KEY)

        def density(parameters, family=family, kind=kind):
            means, covariances, prior = parameters.means, parameters.covariances, family.prior
            pairs = zip(means, np.broadcast_to(covariances, (3, *covariances.shape[1:])), strict=True)
            total = sum(log_prior_in_natural_parameters(kind, *pair, prior) for pair in pairs)
            if kind == "tied":  # the covariance and its Jacobian count once
                of_one = st.invwishart.logpdf(covariances[0], prior.degrees, prior.covariance)
                total -= 2.0 * (of_one + (means.shape[1] + 1.0) * np.linalg.slogdet(covariances[0])[1])
            return total

        assert family.log_prior(one) - family.log_prior(other) == pytest.approx(density(one) - density(other))


# --- draws -----------------------------------------------------------------------------------------------


def test_improper_priors_are_refused_where_parameters_are_drawn_or_integrated_out():
    X = make_X("gaussian")
    for kind, options in [
        ("full", {"mean_precision_prior": 0}),
        ("full", {"covariance_prior": 0}),
        ("full", {"degrees_of_freedom_prior": 2}),
        ("diag", {"degrees_of_freedom_prior": 0}),
        ("spherical", {"covariance_prior": 0}),
        ("tied", {"mean_precision_prior": 0}),
        ("tied", {"covariance_prior": 0}),
        ("tied", {"degrees_of_freedom_prior": 2}),
    ]:
        emission = Gaussian(kind, **options)
        family = emission.bind(read(emission, X), 2)
        with pytest.raises(ValueError, match="proper prior: mean_precision_prior above 0, degrees_of_freedom_prior"):
            family.draw(tuple(np.ones(shape) for shape in family.shapes()), KEY)
        with pytest.raises(ValueError, match="need a proper prior"):
            family.clusters()


def test_singular_and_empty_components_are_named():
    emission = Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=5)
    X = make_X("gaussian")
    rows = read(emission, X)
    family = emission.bind(rows, 3)
    for kind in (np.array([0] * 30 + [2] * 27 + [1] * 3, np.int32), np.array([0] * 29 + [2] * 30 + [1], np.int32)):
        with pytest.raises(ValueError, match="covariance of component 1 is singular"):
            family.mode(family.sum_labels(rows, 0, 60, 0, kind).total())
    with pytest.raises(ValueError, match="Component 2 has no rows, and mean_precision_prior=0"):
        family.mode(family.sum_labels(rows, 0, 60, 0, np.arange(60, dtype=np.int32) % 2).total())
    tied = Gaussian("tied", mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=6)
    family = tied.bind(rows, 2)
    with pytest.raises(ValueError, match="covariance of all components is singular"):
        family.mode(family.sum_labels(rows, 0, 2, 0, np.array([0, 1], np.int32)).total())
    diagonal = Gaussian("diag", mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=3)
    family = diagonal.bind(rows, 3)
    with pytest.raises(ValueError, match="covariance of component 1 is singular"):
        family.mode(family.sum_labels(rows, 0, 60, 0, np.array([0] * 29 + [2] * 30 + [1], np.int32)).total())


# --- new rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1024, 1025, 2**31 - 1])
def test_new_rows_of_many_tokens_are_multinomial(length):
    """Token by token, a row of 2**31 - 1 took a minute; the shortest here is drawn so."""
    _, rows, _, parameters = fitted("multinomial")
    family = Multinomial().bind(rows, 3)
    family.lengths = np.array([length])
    family._levels = np.ones(1)
    drawn = family.sample(parameters, np.zeros(3000, np.int32), KEY)
    assert np.all(drawn.sum(axis=1) == length)
    chances = np.exp(parameters[:, 0])
    z = (drawn - length * chances) / np.sqrt(length * chances)
    products = np.einsum("na,nb->nab", z, z).reshape(len(z), -1)
    covariance = (np.eye(len(chances)) - np.sqrt(np.outer(chances, chances))).ravel()
    assert_agrees(summarize(z[:, :-1]), np.zeros(len(chances) - 1))
    assert_agrees(summarize(products), covariance)
    assert_disagrees(summarize(products), np.eye(len(chances)).ravel())  # independent counts


# --- hyperparameters -------------------------------------------------------------------------------------


def test_the_default_prior_of_counts_has_the_means_of_the_data():
    X, _rows, family = bound("poisson")
    np.testing.assert_allclose(family.shape / family.rate, (np.nansum(X, axis=0) + 0.5) / (~np.isnan(X)).sum(axis=0))


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("holed", [0.0, 0.3])
@pytest.mark.parametrize("name", GAUSSIANS)
def test_default_priors_of_numbers_have_the_moments_of_the_observed_cells(name, holed, is_constant):
    X, K = make_X(name, 200, holed=holed), 4
    X[:, 2] = np.where(is_constant, 0.1, X[:, 2])
    prior = FAMILIES[name].bind(read(FAMILIES[name], X), K).prior
    variances = np.nanvar(X, axis=0, ddof=1)
    variances[2] *= not is_constant
    added = np.array([0.0, 0.0, variances[:2].mean() * is_constant])  # the mean variance of the others
    np.testing.assert_allclose(prior.mean, np.nanmean(X, axis=0))
    assert prior.degrees == {"diag": 4, "tied": 9}.get(name, 6)
    found = prior.covariance * K ** (2 / 3)
    if name in ("gaussian", "tied"):
        if not holed:
            off_diagonal = np.cov(X.T) * (1.0 - np.eye(3))
            np.testing.assert_allclose(found - np.diag(np.diag(found)), off_diagonal, atol=1e-12)
        assert np.linalg.eigvalsh(found).min() > 0.0
        found, variances = np.diag(found), 1.01 * variances
    np.testing.assert_allclose(found, variances.mean() if name == "spherical" else variances + added)


def test_numbers_of_parameters():
    n_categories = np.nanmax(make_X("categorical"), axis=0).astype(int) + 1
    counts = {
        "bernoulli": 9,
        "categorical": 3 * (n_categories.sum() - 3),
        "gaussian": 27,
        "diag": 18,
        "spherical": 12,
        "multinomial": 6,
        "negative_binomial": 9 + 3,
        "poisson": 9,
        "tied": 15,
    }
    assert {name: bound(name)[2].n_parameters() for name in FAMILIES} == counts


@pytest.mark.parametrize(
    ("emission", "message"),
    [
        (Bernoulli([1.0, 2.0]), r"ones_prior must be a number or have shape \(3,\); got \(2,\)"),
        (Bernoulli(1.0, [1.0, 2.0, 0.0]), "zeros_prior must be positive"),
        (Multinomial([1.0, np.inf, 1.0]), "prior must be positive and finite"),
        (Poisson(np.ones((3, 3))), r"shape_prior must be a number or have shape \(3,\)"),
        (Poisson(1.0, [-1.0, 1.0, 1.0]), "rate_prior must be positive"),
        (Gaussian(mean_prior=[0.0]), r"mean_prior must have shape \(3,\); got \(1,\)"),
        (Gaussian(covariance_prior=np.eye(2)), r"covariance_prior must be finite and have shape"),
        (Gaussian("diag", covariance_prior=np.eye(3)), r"shape \(\) or \(3,\) for diag covariances"),
        (Gaussian(covariance_prior=-np.eye(3)), "positive semi-definite"),
        (Gaussian(covariance_prior=np.triu(np.ones((3, 3)))), "must be symmetric"),
    ],
)
def test_hyperparameters_that_do_not_fit_are_refused(emission, message):
    X = np.minimum(np.random.default_rng(0).poisson(1.0, (20, 3)), 1)
    with pytest.raises(ValueError, match=message):
        emission.bind(read(emission, X), 2)


@pytest.mark.parametrize("name", ["categorical", "multinomial"])
def test_stored_probabilities_must_be_those_of_the_family(name):
    _, _, family, parameters = fitted(name)
    family.check_parameters(parameters)
    with pytest.raises(ValueError, match="probabilities that do not sum to one"):
        family.check_parameters(parameters - 0.1)
    with pytest.raises(ValueError, match="must have the length"):
        family.check_parameters(parameters[:-1])
    with pytest.raises(ValueError, match="is a tuple, not an array"):
        family.check_parameters((parameters,))
