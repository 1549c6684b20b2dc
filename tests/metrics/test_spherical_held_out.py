from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

from skmanifold.distributions import log_vmf_normalizer
from skmanifold.metrics._spherical_held_out import integrate_documents, spherical_document_likelihood
from skmanifold.metrics._spherical_importance import FIRST_LOG_STEP, anneal, effective_fraction, scratch_shape
from skmanifold.metrics._spherical_proposal import (
    draw_from_proposal,
    fit_proposal,
    moments,
    quantile,
    starts_of,
    tabulate,
)
from skmanifold.random._keys import root_key, subkey
from skmanifold.random._variates import normal
from skmanifold.sparse.directions import as_directions
from skmanifold.topics.document_densities import density_of
from skmanifold.utils._threads import Workers

TOPICS = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]) / np.sqrt(2)
DOCUMENT = np.array([3.0, 2, 1, 1]) / np.sqrt(15)
KAPPA = 20.0
# By quadrature of 30 digits: log density, E theta.
ANCHORS = {
    2.0: (-0.8199034566553, (0.57263608, 0.18980446, 0.23755946)),
    0.5: (-0.5695489833377, (0.71130713, 0.10350248, 0.18519039)),
}


def _integrate_by_logs(topics, document, alpha, kappa, n_points=800):
    """Log density and E theta of three topics (or two), by the trapezoidal rule in y = log theta_k / theta_K."""
    alpha = np.asarray(alpha, float)
    reach = 40 / alpha.min() + 30
    # Points are dense where theta moves: y = sinh(t).
    t = np.linspace(-np.arcsinh(reach), np.arcsinh(reach), n_points)
    axes = np.meshgrid(*[t] * (len(alpha) - 1), indexing="ij")
    y = np.stack([*(np.sinh(axis) for axis in axes), np.zeros_like(axes[0])], axis=-1)
    log_theta = y - logsumexp(y, axis=-1, keepdims=True)
    theta = np.exp(log_theta)
    means = theta @ topics
    cosines = means @ document / np.linalg.norm(means, axis=-1)
    of_theta = kappa if np.ndim(kappa) == 0 else theta @ kappa
    log_terms = log_theta @ alpha + of_theta * cosines + sum(np.log(np.cosh(axis)) for axis in axes)
    log_terms += (len(alpha) - 1) * np.log(t[1] - t[0]) + gammaln(alpha.sum()) - gammaln(alpha).sum()
    if np.ndim(kappa) > 0:
        log_terms += log_vmf_normalizer(len(document), of_theta)
    total = logsumexp(log_terms)
    weights = np.exp(log_terms - total)[..., None]
    constant = log_vmf_normalizer(len(document), kappa) if np.ndim(kappa) == 0 else 0.0
    return total + constant, (weights * theta).sum(axis=tuple(range(len(alpha) - 1)))


def _estimates(alpha, n_keys, kappa=KAPPA, topics=TOPICS, document=DOCUMENT, n_draws=100, **options):
    """Results for one document under as many keys; topics are a matrix, or a list of draws of it."""
    directions, topics = as_directions(document[np.newaxis]), list(topics) if np.ndim(topics) == 3 else [topics]
    alpha = np.broadcast_to(np.asarray(alpha, float), len(topics[0])).copy()
    results = []
    with Workers(1) as workers:
        for i in range(n_keys):
            key = subkey(root_key(0), i)
            results.append(integrate_documents(directions, topics, alpha, kappa, key, n_draws, workers, **options))
    return [np.array([getattr(result, field.name)[0] for result in results]) for field in fields(results[0])]


def _assert_unbiased(log_estimates, exact):
    """The mean of the densities, not of their logarithms, is the exact one."""
    assert_agrees(summarize(np.exp(log_estimates - exact)), 1.0)


@pytest.mark.extended
@pytest.mark.covering("options", "kappa")
@pytest.mark.parametrize("alpha", [2.0, 0.5, 0.1])
@pytest.mark.parametrize("options", [{}, {"least_ess": 2.0}, {"from_prior": True}], ids=["fitted", "annealed", "prior"])
@pytest.mark.parametrize("kappa", [KAPPA, np.array([4.0, 25.0, 60.0])], ids=["one", "for each topic"])
def test_expected_density_is_the_exact_one(alpha, options, kappa):
    exact, mean = _integrate_by_logs(TOPICS, DOCUMENT, [alpha] * 3, kappa)
    if kappa is KAPPA and alpha in ANCHORS:
        np.testing.assert_allclose(exact, ANCHORS[alpha][0], atol=1e-9)
        np.testing.assert_allclose(mean, ANCHORS[alpha][1], atol=1e-8)
    log_density, _, _, proportions, annealed = _estimates(alpha, 200, kappa, **options)
    _assert_unbiased(log_density, exact)
    assert annealed.all() == ("least_ess" in options)
    # Ratios of means over documents' draws: what their weights are for.
    weights = np.exp(log_density - exact)[:, None]
    assert_agrees(summarize(weights * (proportions - mean)), 0.0)
    # What the checks can tell: a density off by a fifth of a nat.
    assert_disagrees(summarize(np.exp(log_density - exact - 0.2)), 1.0)


def _unit(topics):
    return topics / np.linalg.norm(topics, axis=1, keepdims=True)


def _turned(topics, size):
    """Topics at random angles of about this size to the given ones."""
    return _unit(topics + size * np.random.default_rng(1).standard_normal(topics.shape))


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("kappa", [KAPPA, np.array([4.0, 25.0, 60.0])], ids=["one", "for each topic"])
@pytest.mark.parametrize("options", [{}, {"least_ess": 2.0}, {"from_prior": True}], ids=["fitted", "annealed", "prior"])
def test_expected_density_of_several_topics_is_the_mean_of_the_exact_ones(options, kappa):
    topics = [TOPICS, _turned(TOPICS, 0.6), _turned(TOPICS, 0.1), _turned(TOPICS[[1, 2, 0]], 0.4)]
    logs, means = zip(*(_integrate_by_logs(each, DOCUMENT, [0.5] * 3, kappa) for each in topics), strict=True)
    exact = logsumexp(logs) - np.log(4)
    log_density, _, _, proportions, _ = _estimates(0.5, 200, kappa, topics, **options)
    _assert_unbiased(log_density, exact)
    weights = np.exp(log_density - exact)[:, None]
    mean = np.exp(np.array(logs) - exact) @ np.array(means) / 4
    assert_agrees(summarize(weights * (proportions - mean)), 0.0)
    # Means that ignore which topics are probable, and those of fewer topics, are others.
    assert_disagrees(summarize(weights * (proportions - np.mean(means, axis=0))), 0.0)
    assert_disagrees(summarize(np.exp(log_density - logsumexp(logs[:3]) + np.log(3))), 1.0)
    if not options:  # no less precise than 100 draws for all topics, each by itself
        each = np.array([_estimates(0.5, 100, kappa, one)[0] for one in topics])
        equal = np.exp(logsumexp(each, axis=0) - np.log(4) - exact)
        assert weights.std() < equal.std()


@pytest.mark.extended
@pytest.mark.parametrize("kappa", [KAPPA, np.array([4.0, 25.0, 60.0])], ids=["one", "for each topic"])
def test_topics_that_are_unlikely_together_count_in_expectation(kappa):
    rng = np.random.default_rng(5)
    topics = [_unit(TOPICS + size * rng.standard_normal(TOPICS.shape)) for size in np.linspace(0.1, 0.5, 40)]
    logs, means = zip(*(_integrate_by_logs(each, DOCUMENT, [0.5] * 3, kappa, 200) for each in topics), strict=True)
    exact = logsumexp(logs) - np.log(40)
    log_density, _, _, proportions, _ = _estimates(0.5, 400, kappa, topics)
    _assert_unbiased(log_density, exact)
    weights = np.exp(log_density - exact)[:, None]
    assert_agrees(summarize(weights * (proportions - np.exp(np.array(logs) - exact) @ np.array(means) / 40)), 0.0)
    likely = np.sort(logs)[::-1][:24]  # the others have a small share
    assert 0.02 < 1 - np.exp(logsumexp(likely) - np.log(40) - exact) < 0.2
    assert_disagrees(summarize(np.exp(log_density - logsumexp(likely) + np.log(40))), 1.0)


ALPHAS = [(2.0, 2.0, 2.0), (0.5, 0.5, 0.5), (0.1, 0.1, 0.1), (0.2, 1.5, 0.7), (0.5, 30.0, 1.0)]


@pytest.mark.every(2)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_annealing_by_few_rungs_is_exact(alpha):
    def count(key, tally):
        log_steps = np.full(5, FIRST_LOG_STEP)  # most of the work is left to the weights
        given = np.array(alpha), density_of(KAPPA, 4), TOPICS @ DOCUMENT, TOPICS @ TOPICS.T
        anneal(*given, key, 8, log_steps, False, tally, np.empty((8, 3)))
        return 8

    _assert_exact(alpha, count)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("blur", "turn"), [(1.0, 0.0), (0.8, 0.0), (1.0, 0.2)])
def test_draws_of_the_proposal_are_weighted_by_its_density(alpha, blur, turn):
    """Also of one that fits less well: with less precise factors for the topics, or fitted to other topics."""
    shapes = np.array(alpha)
    fitted = _turned(TOPICS, turn)
    k, tables, sites, upper = _fit(shapes, KAPPA, fitted @ DOCUMENT, fitted @ fitted.T)
    sites[1:] *= blur

    def count(key, tally, topics=TOPICS):
        given = shapes, density_of(KAPPA, 4), k, topics @ DOCUMENT, topics @ topics.T, tables, sites, upper
        draw_from_proposal(*given, key, 8, 1.0, 0.0, tally, np.empty(scratch_shape(3)))
        return 1

    _assert_exact(alpha, count)
    if turn > 0.0:  # the weights are for the topics of the draws, not for those of the fit
        estimates, _ = _means_of_weights(alpha, lambda key, tally: count(key, tally, fitted))
        assert_disagrees(summarize(estimates), 1.0)


def _assert_exact(alpha, count):
    """Means of 8 weights, and of weighted proportions, by ``count(key, tally)``, which returns the divisor of sums."""
    estimates, proportions = _means_of_weights(alpha, count)
    assert_agrees(summarize(estimates), 1.0)
    assert_agrees(summarize(proportions), 0.0)


def _means_of_weights(alpha, count):
    """Over the exact mean; and weighted proportions, less their exact means."""
    exact, mean = _integrate_by_logs(TOPICS, DOCUMENT, alpha, KAPPA)
    exact -= log_vmf_normalizer(4, KAPPA) + KAPPA
    estimates, proportions = [], []
    for i in range(400):
        tally = np.array([-np.inf, 0.0, 0.0, 0.0, 0.0, 0.0])
        scale = 1.0 / count(subkey(np.uint64(5), i), tally)
        estimates.append(np.exp(tally[0] - exact) * tally[1] * scale)
        proportions.append(np.exp(tally[0] - exact) * (tally[3:] - mean * tally[1]) * scale)
    return estimates, proportions


def _fit(alpha, kappa, b, B):
    """k and the arrays of the proposal."""
    n = len(alpha)
    tables, sites, upper, start = (
        tabulate(alpha),
        np.empty((3, n)),
        np.zeros((n, n)),
        starts_of(alpha, kappa, b[None], B),
    )
    given = alpha, density_of(kappa, 4), b, B, tables, start[0]
    k = fit_proposal(*given, sites, upper, np.empty((n + 6, n)))
    return k, tables, sites, upper


@njit(cache=True)
def _draw_many(a, mu, table, key, n_draws):
    """Draws, and the logarithms of their densities divided by x^(a - 1)."""
    out = np.empty((2, n_draws))
    for i in range(n_draws):
        z = normal(key, i)
        y, slope = quantile(a, mu, z, table)
        out[0, i] = np.exp(y)
        out[1, i] = -0.5 * (z * z + np.log(2 * np.pi)) - np.log(slope) - a * y
    return out


def _law_of_one_variable(a, mu):
    """Normaliser, mean and variance of x^(a - 1) exp(mu x - x^2 / 2), by quadrature in log x."""
    x = max(mu, 0.0) + 0.1
    shift = a * np.log(x) + mu * x - 0.5 * x * x

    def moment(power):
        def density(y):
            x = np.exp(y)
            return np.exp((a + power) * y + mu * x - 0.5 * x * x - shift)

        places = np.log([1e-3, 0.03, 0.3, max(mu, 1.0), max(mu, 1.0) + 4])
        return quad(density, -200 / min(a, 1), 6, points=places, limit=3000, epsabs=0, epsrel=1e-11)[0]

    zeroth, first, second = moment(0), moment(1), moment(2)
    return np.log(zeroth) + shift, first / zeroth, second / zeroth - (first / zeroth) ** 2


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 3.0, 19.0, 60.0])
@pytest.mark.parametrize("mu", [-30.0, -11.99, -2.71, 0.0, 1.03, 5.9, 6.1, 13.0])
def test_draws_of_one_variable_follow_its_law(a, mu):
    tables = tabulate(np.array([a]))
    log_z, mean, variance = _law_of_one_variable(a, mu)
    on_grid = abs(mu) < 12 and a < 20
    np.testing.assert_allclose(moments(a, mu, tables.means[0]), (mean, variance), rtol=1e-5 if on_grid else 0.03)
    x, log_density = _draw_many(a, mu, tables.quantiles[0], np.uint64(1), 40_000)
    weights = np.exp(mu * x - 0.5 * x * x - log_density - log_z)
    assert_agrees(summarize(weights), 1.0, bias=1e-6)
    assert_agrees(summarize(weights * (x - mean)), 0.0)
    assert_agrees(summarize(weights * ((x - mean) ** 2 - variance)), 0.0)
    assert_disagrees(summarize(weights * (x - 1.5 * mean)), 0.0)
    assert effective_fraction(np.array([0, weights.sum(), (weights**2).sum()]), 40_000) > (0.99 if on_grid else 0.95)


def _random_document(n_topics, n_features, alpha, kappa, generator):
    topics = generator.standard_normal((n_topics, n_features)) + 0.7
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    document = generator.dirichlet(np.full(n_topics, alpha)) @ topics
    document /= np.linalg.norm(document)
    document += generator.standard_normal(n_features) / np.sqrt(kappa)
    return topics, document / np.linalg.norm(document)


@pytest.mark.covering
@pytest.mark.parametrize("kappa", [1e-3, 10.0, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0, 100.0])
def test_two_topics_agree_with_quadrature(alpha, kappa):
    topics, document = _random_document(2, 5, max(alpha, 0.1), kappa, np.random.default_rng(3))
    exact, _ = _integrate_by_logs(topics, document, [alpha] * 2, kappa, 100_001)
    log_density, _, ess, proportions, _ = _estimates(alpha, 60, kappa, topics, document)
    assert np.isfinite(proportions).all()
    assert np.all((ess > 0) & (ess <= 1 + 1e-12))
    _assert_unbiased(log_density, exact)


def _documents(alpha, kappa, cosine, generator):
    """Twelve documents of 20 topics, which are about orthogonal, at about this cosine to their span."""
    topics = generator.standard_normal((20, 2000))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    X = generator.dirichlet(np.full(20, alpha), size=12) @ topics
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    noise = generator.standard_normal(X.shape)
    return topics, cosine * X + np.sqrt(1 - cosine**2) * noise / np.linalg.norm(noise, axis=1, keepdims=True)


@pytest.mark.covering
@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("kappa", [300.0, 1500.0, 3e4, np.linspace(200.0, 1500.0, 20), np.geomspace(3.0, 3000.0, 20)])
def test_the_proposal_is_close_to_the_posterior(alpha, kappa):
    """Also with a concentration for each topic, of which some are nearly 0."""
    topics, X = _documents(alpha, kappa, 0.3, np.random.default_rng(0))
    X, given = as_directions(X), (np.full(20, alpha), kappa)
    with Workers(1) as workers:
        keys = [subkey(root_key(0), i) for i in range(2)]
        result, again = (integrate_documents(X, [topics], *given, key, 100, workers) for key in keys)
    assert not result.annealed.any()
    assert np.median(result.effective_sample_size) > 0.88
    assert result.document_errors.max() < 0.1
    differences = (result.log_density - again.log_density) / np.hypot(result.document_errors, again.document_errors)
    assert 0.4 < np.sqrt(np.mean(differences**2)) < 1.7


@pytest.mark.parametrize("alpha", [2.0, 0.5, 0.1])
def test_tails_of_the_proposal_are_not_too_light_for_an_uncertain_concentration(alpha):
    """With few features the posterior of the concentration is very skewed, and many draws find large weights."""
    *_, ess, _, annealed = _estimates(alpha, 3, np.array([4.0, 25.0, 60.0]), n_draws=30_000)
    assert not annealed.any()
    assert ess.min() > 0.6  # 0.1 for alpha = 0.1 without the cross terms


def test_annealing_and_the_proposal_agree():
    """Two ways to the same densities, for topics with an uneven prior, some of them close to each other."""
    generator = np.random.default_rng(6)
    topics, X = _documents(0.3, 200.0, 0.6, generator)
    topics = topics[:8] + 0.5 * topics[[1, 0, 3, 2, 4, 5, 6, 7]]
    options = {"doc_topic_prior": np.geomspace(0.1, 3, 8), "concentration": 200.0}
    fitted = spherical_document_likelihood(topics, X[:4], n_draws=2000, **options)
    assert not fitted.annealed.any()
    directions, alpha = as_directions(X[:4]), options["doc_topic_prior"]
    beta = topics / np.linalg.norm(topics, axis=1, keepdims=True)
    with Workers(1) as workers:
        annealed = integrate_documents(
            directions, [beta], alpha, 200.0, subkey(root_key(0), 9), 4000, workers, least_ess=2.0
        )
    assert annealed.annealed.all()
    errors = np.hypot(fitted.document_errors, annealed.document_errors)
    assert np.max(np.abs(fitted.log_density - annealed.log_density) / errors) < 4.5
    assert errors.max() < 0.2


def test_documents_away_from_all_topics_are_annealed():
    exact, _ = _integrate_by_logs(TOPICS, -DOCUMENT, [0.5] * 3, 30.0)
    log_density, _, _, _, annealed = _estimates(0.5, 100, 30.0, document=-DOCUMENT)
    assert annealed.all()
    _assert_unbiased(log_density, exact)


def test_low_concentrations_need_the_prior_alone():
    for kappa, is_prior in ((4.0, True), (40.0, False)):
        usual, prior = (_estimates(0.5, 3, kappa, from_prior=from_prior)[0] for from_prior in (False, True))
        assert np.all(usual == prior) == is_prior


def test_errors_are_those_of_the_estimates():
    exact, _ = _integrate_by_logs(TOPICS, DOCUMENT, [2.0] * 3, KAPPA)
    for options in ({}, {"least_ess": 2.0}, {"from_prior": True}):
        log_density, errors, *_ = _estimates(2.0, 200, **options)
        z = (log_density - exact) / errors
        assert 0.8 < np.sqrt(np.mean(z**2)) < 1.3


def _corpus():
    generator = np.random.default_rng(4)
    X = sp.random_array((40, 30), density=0.3, format="csr", random_state=generator).toarray()
    X[3] = 0
    X = sp.csr_array(X)
    topics = generator.standard_normal((4, 30)) + 1
    return X, topics / np.linalg.norm(topics, axis=1, keepdims=True)


@pytest.mark.parametrize("concentration", [20.0, 300.0])
def test_a_document_does_not_see_its_batch_or_the_threads(concentration):
    X, topics = _corpus()
    options = {"doc_topic_prior": [0.3] * 4, "concentration": concentration, "n_draws": 40}
    whole = spherical_document_likelihood(topics, X, **options)
    assert np.isnan(whole.log_density[3])
    assert np.isnan(whole.effective_sample_size[3])
    np.testing.assert_array_equal(whole.proportions[3], 0.25)
    assert np.isfinite(np.delete(whole.log_density, 3)).all()
    rows = [39, 5, 3, 5]
    part = spherical_document_likelihood(topics, 8 * X[rows].toarray(), **options)
    threads = spherical_document_likelihood(topics, X, n_jobs=2, **options)
    other = spherical_document_likelihood(topics, X, random_state=1, **options)
    for field in ("log_density", "document_errors", "effective_sample_size", "proportions", "annealed"):
        np.testing.assert_array_equal(getattr(part, field), getattr(whole, field)[rows])
        np.testing.assert_array_equal(getattr(threads, field), getattr(whole, field))
    assert np.all(other.log_density[[0, 1, 2]] != whole.log_density[[0, 1, 2]])


def test_one_topic_and_no_concentration_are_exact():
    X, topics = _corpus()
    X = as_directions(X)
    dense = sp.csr_array((X.data, X.indices, X.indptr), shape=(40, 30)).toarray()
    one = spherical_document_likelihood(topics[:1], dense, [0.7], 50.0)
    directed = np.delete(np.arange(40), 3)
    exact = log_vmf_normalizer(30, 50.0) + 50 * dense @ topics[0]
    np.testing.assert_allclose(one.log_density[directed], exact[directed], rtol=1e-12)
    np.testing.assert_array_equal(one.proportions, 1)
    flat = spherical_document_likelihood(topics, dense, [2.0] * 4, 0.0, method="prior")
    np.testing.assert_allclose(flat.log_density[directed], log_vmf_normalizer(30, 0.0), rtol=1e-12)
    np.testing.assert_allclose(flat.effective_sample_size[directed], 1)


@pytest.mark.covering
@pytest.mark.parametrize("kappa", [1e-3, 1.0, 1e4, 1e7])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_extremes_are_finite(alpha, kappa):
    generator = np.random.default_rng(2)
    # Topics that are the same, opposite, or point away from the documents, in two dimensions and in many.
    for topics in (
        np.array([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8]]),
        np.array([[1.0, 0.0], [1.0, 0.0]]),
        np.array([[1.0, 0.0], [-1.0, 0.0]]),
        -abs(generator.standard_normal((5, 2000))),
    ):
        X = np.abs(generator.standard_normal((3, topics.shape[1]))) ** 3
        result = spherical_document_likelihood(topics, X, np.full(len(topics), alpha), kappa, n_draws=10)
        assert np.isfinite(result.log_density).all()
        assert np.all((result.effective_sample_size > 0) & (result.effective_sample_size <= 1 + 1e-12))
        np.testing.assert_allclose(result.proportions.sum(axis=1), 1)


def test_bad_input_is_refused():
    X, topics = _corpus()
    good = {"topics": topics, "X": X, "doc_topic_prior": [1.0] * 4, "concentration": 3.0}
    for change, message in (
        ({"topics": topics * [[1], [0], [1], [1]]}, "rows of zeros"),
        ({"X": X[:, :20]}, "20 columns"),
        ({"doc_topic_prior": [1.0] * 3}, "shape"),
        ({"concentration": -1.0}, "concentration"),
        ({"n_draws": 1}, "n_draws"),
        ({"method": "posteriors"}, "method"),
    ):
        with pytest.raises(ValueError, match=message):
            spherical_document_likelihood(**{**good, **change})
