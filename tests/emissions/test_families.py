"""Families of emissions against slow references: densities, statistics, modes, draws, new rows."""

import numpy as np
import pytest
import scipy.stats as st
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.optimize import minimize

from skmanifold.emissions import Bernoulli, Gaussian, Multinomial, Poisson
from skmanifold.random._keys import fold_in_each

from ._cases import EMISSIONS, KEY, bound, indicators, log_densities, make_X, read

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
ALL = pytest.mark.parametrize("name", EMISSIONS)
SHARES = np.random.default_rng(1).dirichlet(np.ones(3), 3000)


def fitted(name, **options):
    X, rows, family = bound(name, **options)
    parameters = family.mode(family.sum_shares(rows, 0, rows.n_rows, 0, SHARES[: rows.n_rows]).total())
    return X, rows, family, parameters


# --- densities and statistics ----------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_log_densities_are_those_of_scipy_and_miss_missing_cells(name, m):
    X, rows, family, parameters = fitted(name, m=m)
    out = np.zeros((rows.n_rows, 3))
    family.add_log_densities(rows, 0, rows.n_rows, parameters, out)
    if rows.log_base is not None:
        out += rows.log_base[:, None]
    np.testing.assert_allclose(out, log_densities(name, X, family.attributes(parameters)), rtol=1e-10, atol=1e-10)


@ALL
def test_log_densities_are_added_and_do_not_depend_on_neighbours(name):
    _, rows, family, parameters = fitted(name)
    whole = np.zeros((rows.n_rows, 3))
    family.add_log_densities(rows, 0, rows.n_rows, parameters, whole)
    part = np.full((4, 3), 7.0)
    family.add_log_densities(rows, 37, 41, parameters, part)
    np.testing.assert_allclose(part - 7.0, whole[37:41], rtol=1e-12, atol=1e-12)
    alone = np.zeros((1, 3))
    family.add_log_densities(rows, 39, 40, parameters, alone)
    assert alone.tobytes() == whole[39:40].tobytes()


@ALL
def test_statistics_of_labels_are_those_of_shares_that_are_whole(name):
    _, rows, family = bound(name, n=2500)
    labels = np.random.default_rng(2).integers(0, 3, 2500).astype(np.int32)
    of_labels = family.sum_labels(rows, 0, 2500, 0, labels).total()
    of_shares = family.sum_shares(rows, 0, 2500, 0, np.eye(3)[labels]).total()
    for array, other, shape in zip(of_labels, of_shares, family.shapes(), strict=True):
        assert array.shape == shape
        np.testing.assert_allclose(array, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(of_labels[0], np.bincount(labels))


@ALL
def test_statistics_of_shares_are_sums_of_rows_times_shares(name):
    X, rows, family = bound(name, n=1500)
    shares = SHARES[:1500]
    sizes, *others = family.sum_shares(rows, 0, 1500, 0, shares).total()
    np.testing.assert_allclose(sizes, shares.sum(axis=0), rtol=1e-12)
    if name in ("gaussian", "diag", "spherical"):
        gaps = X - family.origin
        np.testing.assert_allclose(others[0], shares.T @ gaps, rtol=1e-9, atol=1e-9)
        products = np.einsum("ik,ia,ib->kab", shares, gaps, gaps)
        lower = np.tril(products) if name == "gaussian" else np.diagonal(products, axis1=1, axis2=2)[:, :, None]
        np.testing.assert_allclose(others[1], lower, rtol=1e-9, atol=1e-9)
    else:
        statistics = np.where(np.isnan(X), 0.0, X)
        if name == "categorical":
            statistics = indicators(X, np.nanmax(X, axis=0) + 1)
        elif name != "multinomial":
            statistics = np.hstack([statistics, np.isnan(X)])
        np.testing.assert_allclose(others[0], statistics.T @ shares, rtol=1e-12)


@ALL
def test_log_likelihood_of_statistics_is_that_of_the_rows(name):
    _, rows, family, parameters = fitted(name)
    densities = np.zeros((rows.n_rows, 3))
    family.add_log_densities(rows, 0, rows.n_rows, parameters, densities)
    shares = SHARES[: rows.n_rows]
    total = family.sum_shares(rows, 0, rows.n_rows, 0, shares).total()
    assert family.log_likelihood(total, parameters) == pytest.approx((shares * densities).sum(), rel=1e-9)


def test_gaussian_statistics_keep_their_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 2)) + 1e7
    rows = read(Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=4), X)
    family = Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=4).bind(rows, 1)
    found = family.mode(family.sum_shares(rows, 0, 500, 0, np.ones((500, 1))).total())
    np.testing.assert_allclose(found.covariances[0], np.cov(X.T, bias=True), rtol=1e-6)


# --- modes -----------------------------------------------------------------------------------------------


def climb(objective, start):
    return minimize(lambda x: -objective(x), start, method="BFGS", options={"gtol": 1e-7}).x


def test_bernoulli_mode_is_the_most_probable_logit():
    X, rows, family = bound("bernoulli", 1)
    mode = family.mode(family.sum_labels(rows, 0, rows.n_rows, 0, np.zeros(rows.n_rows, np.int32)).total())

    def objective(logits):
        p = 1.0 / (1.0 + np.exp(-logits))
        # The beta density of a logit: that of p times p (1 - p)
        prior = st.beta.logpdf(p, 0.7, 1.3) + np.log(p) + np.log1p(-p)
        return log_densities("bernoulli", X, {"components_": p[None]}).sum() + prior.sum()

    np.testing.assert_allclose(mode.naturals[:3, 0], climb(objective, np.zeros(3)), atol=1e-4)


def test_poisson_mode_is_the_most_probable_log_rate():
    X, rows, family = bound("poisson", 1)
    mode = family.mode(family.sum_labels(rows, 0, rows.n_rows, 0, np.zeros(rows.n_rows, np.int32)).total())

    def objective(logs):
        prior = st.gamma.logpdf(np.exp(logs), family.shape, scale=1.0 / family.rate) + logs
        return log_densities("poisson", X, {"components_": np.exp(logs)[None]}).sum() + prior.sum()

    np.testing.assert_allclose(mode.naturals[:3, 0], climb(objective, np.zeros(3)), atol=1e-4)


def test_multinomial_mode_is_the_most_probable_softmax():
    X, rows, family = bound("multinomial", 1)
    mode = family.mode(family.sum_labels(rows, 0, rows.n_rows, 0, np.zeros(rows.n_rows, np.int32)).total())

    def shares(free):
        powers = np.exp(np.append(free, 0.0))
        return powers / powers.sum()

    def objective(free):
        phi = shares(free)
        prior = (0.4 * np.log(phi)).sum()  # Dirichlet times the Jacobian, the product of phi
        return log_densities("multinomial", X, {"components_": phi[None]}).sum() + prior

    np.testing.assert_allclose(np.exp(mode[:, 0]), shares(climb(objective, np.zeros(2))), atol=1e-5)


def test_categorical_mode_is_the_most_probable_softmax_of_each_column():
    X, rows, family = bound("categorical", 1, m=2)
    mode = family.mode(family.sum_labels(rows, 0, rows.n_rows, 0, np.zeros(rows.n_rows, np.int32)).total())
    n_free, start = np.diff(family.column_start) - 1, family.column_start[:-1] - np.arange(2)

    def shares(free):
        columns = (np.exp(np.append(free[s : s + n], 0.0)) for s, n in zip(start, n_free, strict=True))
        return [column / column.sum() for column in columns]

    def objective(free):
        columns = shares(free)
        prior = 0.6 * sum(np.log(column).sum() for column in columns)
        return log_densities("categorical", X, {"components_": [column[None] for column in columns]}).sum() + prior

    found = np.concatenate(shares(climb(objective, np.zeros(n_free.sum()))))
    np.testing.assert_allclose(np.exp(mode[:, 0]), found, atol=1e-5)


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
    if kind == "gaussian":
        power = 1.0 + (len(mean) + 1.0)
        return log_normal_inverse_wishart(mean, covariance, prior) + power * np.linalg.slogdet(covariance)[1]
    # A product is mean over variance, so the mean has the variance for a Jacobian; the variance has its square.
    jacobian = np.log(covariance).sum() + 2.0 * np.log(covariance[:1] if kind == "spherical" else covariance).sum()
    return log_normal_inverse_gamma(mean, covariance, prior, kind == "spherical") + jacobian


@pytest.mark.parametrize("kind", ["gaussian", "diag", "spherical"])
def test_gaussian_mode_is_the_most_probable_precision_and_product_with_the_mean(kind):
    X, rows, family = bound(kind, 1, m=2, n=12)
    mode = family.mode(family.sum_labels(rows, 0, 12, 0, np.zeros(12, np.int32)).total())

    def unpack(free):
        if kind == "gaussian":
            root = np.array([[np.exp(free[2]), 0.0], [free[4], np.exp(free[3])]])
            return free[:2], root @ root.T
        return free[:2], np.exp(free[2:]) if kind == "diag" else np.exp(free[[2, 2]])

    def objective(free):
        mean, covariance = unpack(free)
        density = log_densities(kind, X, {"components_": mean[None], "covariances_": covariance[None]}).sum()
        return density + log_prior_in_natural_parameters(kind, mean, covariance, family.prior)

    start = np.array([*X.mean(axis=0), 0.0, 0.0, 0.0])[: {"gaussian": 5, "diag": 4, "spherical": 3}[kind]]
    mean, covariance = unpack(climb(objective, start))
    np.testing.assert_allclose(mode.means[0], mean, atol=1e-4)
    np.testing.assert_allclose(mode.covariances[0], covariance, rtol=1e-3)


@ALL
def test_mode_is_where_log_likelihood_and_log_prior_are_largest_together(name):
    _, rows, family, mode = fitted(name)
    total = family.sum_shares(rows, 0, rows.n_rows, 0, SHARES[: rows.n_rows]).total()
    best = family.log_likelihood(total, mode) + family.log_prior(mode)
    for seed in range(30):
        # The modes of other statistics are parameters nearby
        scale = np.random.default_rng(seed).uniform(0.95, 1.05)
        other = family.mode(tuple(array * (scale if i == len(total) - 1 else 1.0) for i, array in enumerate(total)))
        value = family.log_likelihood(total, other) + family.log_prior(other)
        assert value < best or np.allclose(other.means, mode.means, rtol=1e-3)


def test_log_prior_is_the_logarithm_of_the_prior_density_up_to_a_constant():
    for kind in ("gaussian", "diag", "spherical"):
        *_, family, one = fitted(kind)
        other = family.draw(tuple(np.zeros(shape) for shape in family.shapes()), KEY)

        def density(parameters, family=family, kind=kind):
            pairs = zip(parameters.means, parameters.covariances, strict=True)
            return sum(log_prior_in_natural_parameters(kind, *pair, family.prior) for pair in pairs)

        assert family.log_prior(one) - family.log_prior(other) == pytest.approx(density(one) - density(other))


def test_empty_components_have_the_mode_of_the_prior():
    for name in EMISSIONS:
        *_, family = bound(name)
        empty = family.mode(tuple(np.zeros(shape) for shape in family.shapes()))
        means = family.attributes(empty)["components_"]
        if name == "categorical":
            for column in means:
                np.testing.assert_allclose(column, 1 / column.shape[1])
            continue
        if name in ("gaussian", "diag", "spherical"):  # and the prior's covariance
            np.testing.assert_allclose(
                empty.covariances, np.broadcast_to(family.prior.covariance, empty.covariances.shape)
            )
        expected = {
            "bernoulli": np.full(3, 0.35),
            "multinomial": np.full(3, 1 / 3),
            "negative_binomial": getattr(family, "shape", 0) / getattr(family, "rate", 1),
            "poisson": getattr(family, "shape", 0) / getattr(family, "rate", 1),
        }
        np.testing.assert_allclose(means, np.tile(expected.get(name, getattr(family, "origin", 0)), (3, 1)), rtol=1e-9)


# --- draws -----------------------------------------------------------------------------------------------


def draws(family, total, n=3000):
    return [family.draw(total, key) for key in fold_in_each(KEY, np.arange(n))]


def counted(name):
    _, rows, family = bound(name, n=9)
    return family, family.sum_labels(rows, 0, 9, 0, np.array([0, 0, 0, 0, 0, 0, 1, 1, 1], np.int32)).total()


def test_bernoulli_draws_have_the_moments_of_their_beta_laws():
    family, total = counted("bernoulli")
    means = np.array([draw.means for draw in draws(family, total)])
    ones = total[1][:3] + 0.7
    zeros = total[0] - total[1][3:] - total[1][:3] + 1.3
    law = st.beta(ones, zeros)
    assert_agrees(summarize(means.reshape(len(means), -1)), law.mean().ravel())
    assert_agrees(summarize((means**2).reshape(len(means), -1)), law.moment(2).ravel())


def test_multinomial_draws_have_the_moments_of_their_dirichlet_laws():
    family, total = counted("multinomial")
    means = np.exp(draws(family, total))
    shapes = total[1] + 0.4
    law = st.beta(shapes, shapes.sum(axis=0) - shapes)
    np.testing.assert_allclose(means.sum(axis=1), 1.0)
    assert_agrees(summarize(means.reshape(len(means), -1)), law.mean().ravel())
    assert_agrees(summarize((means**2).reshape(len(means), -1)), law.moment(2).ravel())


def test_poisson_draws_have_the_moments_of_their_gamma_laws():
    family, total = counted("poisson")
    means = np.array([draw.means for draw in draws(family, total)])
    law = st.gamma(total[1][:3] + family.shape[:, None], scale=1.0 / (total[0] - total[1][3:] + family.rate[:, None]))
    assert_agrees(summarize(means.reshape(len(means), -1)), law.mean().ravel())
    assert_agrees(summarize((means**2).reshape(len(means), -1)), law.moment(2).ravel())


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["gaussian", "diag", "spherical"])
def test_gaussian_draws_have_the_moments_of_their_posterior(kind):
    family, total = counted(kind)
    prior, (sizes, sums, products, *_) = family.prior, total
    drawn = draws(family, total)
    means, covariances = np.array([draw.means for draw in drawn]), np.array([draw.covariances for draw in drawn])
    precision, degrees, start = 0.01 + sizes, prior.degrees + sizes * (3 if kind == "spherical" else 1), family.origin
    centre = sums / precision[:, None]  # the prior's mean is the origin
    assert_agrees(summarize((means - start).reshape(len(means), -1)), centre.ravel())
    for k in (0, 1):  # of the third, which is empty, moments hardly exist
        if kind == "gaussian":
            lower = np.tril(products[k]) + np.tril(products[k], -1).T
            scatter = prior.covariance + lower - precision[k] * np.outer(centre[k], centre[k])
            inverses = np.linalg.inv(covariances[:, k]).reshape(len(drawn), -1)
            assert_agrees(summarize(inverses), (degrees[k] * np.linalg.inv(scatter)).ravel())
            spread = scatter / (degrees[k] - 4.0)
            assert_agrees(summarize(covariances[:, k].reshape(len(drawn), -1)), spread.ravel())
            gaps = means[:, k] - start - centre[k]
            assert_agrees(
                summarize(np.einsum("na,nb->nab", gaps, gaps).reshape(len(drawn), -1)), (spread / precision[k]).ravel()
            )
        else:
            squares = products[k, :, 0] - precision[k] * centre[k] ** 2
            squares = prior.covariance + (squares.sum() if kind == "spherical" else squares)
            expected = np.broadcast_to(degrees[k] / squares, 3)
            assert_agrees(summarize(1.0 / covariances[:, k]), expected)
            gaps = (means[:, k] - start - centre[k]) ** 2 / covariances[:, k] * precision[k]
            assert_agrees(summarize(gaps), np.ones(3))


def test_improper_priors_are_refused_where_parameters_are_drawn():
    X = make_X("gaussian")
    for kind, options in [
        ("full", {"mean_precision_prior": 0}),
        ("full", {"covariance_prior": 0}),
        ("full", {"degrees_of_freedom_prior": 2}),
        ("diag", {"degrees_of_freedom_prior": 0}),
        ("spherical", {"covariance_prior": 0}),
    ]:
        emission = Gaussian(kind, **options)
        family = emission.bind(read(emission, X), 2)
        with pytest.raises(ValueError, match="proper prior: mean_precision_prior above 0, degrees_of_freedom_prior"):
            family.draw(tuple(np.ones(shape) for shape in family.shapes()), KEY)


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
    diagonal = Gaussian("diag", mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=3)
    family = diagonal.bind(rows, 3)
    with pytest.raises(ValueError, match="covariance of component 1 is singular"):
        family.mode(family.sum_labels(rows, 0, 60, 0, np.array([0] * 29 + [2] * 30 + [1], np.int32)).total())


# --- new rows --------------------------------------------------------------------------------------------


@ALL
def test_new_rows_have_the_expectations_of_their_components(name):
    _, rows, family, parameters = fitted(name)
    labels = np.arange(6000, dtype=np.int32) % 3
    drawn = family.sample(parameters, labels, KEY).astype(float)
    attributes = family.attributes(parameters)
    if name == "multinomial":
        lengths = np.diff(np.append(0, np.cumsum(rows.counts))[rows.indptr])
        assert set(drawn.sum(axis=1)) <= set(lengths)
        assert_agrees(summarize(drawn.sum(axis=1)), lengths.mean())
        drawn = drawn[drawn.sum(axis=1) > 0]
        labels = labels[family.sample(parameters, labels, KEY).sum(axis=1) > 0]
        drawn /= drawn.sum(axis=1, keepdims=True)
    if name == "categorical":
        drawn = indicators(drawn, attributes["n_categories_"])
        attributes = {"components_": np.hstack(attributes["components_"])}
    for k in range(3):
        assert_agrees(summarize(drawn[labels == k]), attributes["components_"][k])
        if "covariances_" in attributes:
            gaps = drawn[labels == k] - attributes["components_"][k]
            covariance = attributes["covariances_"][k]
            full = covariance if covariance.ndim == 2 else np.diag(covariance)
            assert_agrees(summarize(np.einsum("na,nb->nab", gaps, gaps).reshape(len(gaps), -1)), full.ravel())


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


def test_defaults_that_depend_on_the_data():
    X, _rows, family = bound("poisson")
    np.testing.assert_allclose(family.shape / family.rate, (np.nansum(X, axis=0) + 0.5) / (~np.isnan(X)).sum(axis=0))
    X, _rows, family = bound("gaussian", 4)
    np.testing.assert_allclose(family.prior.mean, X.mean(axis=0))
    covariance = np.cov(X.T)
    expected = (covariance + 0.01 * np.diag(np.diag(covariance))) / 4 ** (2 / 3)
    np.testing.assert_allclose(family.prior.covariance, expected)
    assert family.prior.degrees == 6
    *_, family = bound("diag", 4)
    np.testing.assert_allclose(family.prior.covariance, X.var(axis=0, ddof=1) / 4 ** (2 / 3))
    *_, family = bound("spherical", 4)
    np.testing.assert_allclose(family.prior.covariance, X.var(axis=0, ddof=1).mean() / 4 ** (2 / 3))
    assert family.prior.degrees == 6
    assert bound("diag")[2].prior.degrees == 4


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
    }
    assert {name: bound(name)[2].n_parameters() for name in EMISSIONS} == counts


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
