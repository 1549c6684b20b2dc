"""Chains draw hyperparameters of Gaussian components, and rounded numbers, from their posterior given the partition."""

from copy import copy

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import betaln, gammaln, logsumexp, softmax
from scipy.stats import norm

import skmanifold
from skmanifold import DPMixture
from skmanifold.emissions import Columns, Gaussian, NegativeBinomial, VonMisesFisher
from skmanifold.emissions._gaussian import learned
from skmanifold.emissions._gaussian.hyperparameters import Hyperprior
from skmanifold.emissions._gaussian.transforms import YeoJohnson
from skmanifold.emissions._von_mises_fisher import family as directional
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._memberships import with_new
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny

LABELS = np.repeat([0, 1, 2, 3], [6, 4, 3, 1]).astype(np.int32)
SHAPE = np.array([[1.0, 0.4], [0.4, 0.8]])
FREE = {
    "full": ("covariance", "degrees", "mean_precision"),
    "diag": ("covariance", "degrees", "mean_precision"),
    "spherical": ("covariance", "mean_precision"),
    "tied": ("mean_precision",),
}
BENT = "bent full", "bent diag"


# --- hyperparameters -------------------------------------------------------------------------------------


def family_of(kind):
    """A family whose hyperparameters are drawn; the mean of their shape does not depend on rows."""
    kind, is_bent = kind.removeprefix("bent "), kind.startswith("bent ")
    scatter = {"full": SHAPE, "tied": SHAPE, "diag": np.diag(SHAPE)}.get(kind, 0.9)
    family = Gaussian(kind, np.zeros(2), 0.1, scatter, 6.0).prior_family(2, 4, 0)
    if is_bent:
        fitted = np.random.default_rng(2).gumbel(size=(200, 2))
        family.transform = YeoJohnson.of_rows(fitted, np.ones(200), np.array([0.3, 1.5]))
    return family.with_hyperprior((*FREE[kind], "transform"), family)


def numbers(family):
    """Functions of the hyperparameters of a family."""
    powers = family.hyperprior.powers_of(family.hyperparameters)
    free, shape = np.log(family.hyperparameters[:3]), family.hyperparameters[3:][: family.hyperprior.inverse.size]
    return np.concatenate([free, free**2, np.log(shape[[0, -1]]), np.arctan(shape), powers, powers**2])


def mean_along_chains(kind, n_chains=120, n_steps=10):
    """Of `numbers`, where rows given hyperparameters and hyperparameters given rows are drawn in turn.

    The chains begin at draws from the prior, so that a correct update leaves the distribution unchanged.
    """
    family, means = family_of(kind), []
    for chain in range(n_chains):
        key = subkey(root_key(0), chain)
        current, of_chain = family.with_drawn_hyperparameters(key), []
        for step in range(n_steps):
            own = subkey(key, step)
            parameters = current.draw(tuple(map(np.zeros, current.shapes())), subkey(own, 1))
            rows = Gaussian().read(Gaussian(), current.sample(parameters, LABELS, subkey(own, 2)), reset=False)
            clusters = current.clusters(rows)
            statistics = clusters.no_statistics(4)
            clusters.count(LABELS, statistics, Workers(1))
            statistics = clusters.redraw_hyperparameters(LABELS, statistics, subkey(own, 3), Workers(1))
            current = family.given(statistics)
            of_chain.append(numbers(current))
        means.append(np.mean(of_chain, axis=0))
    return summarize(means)


def mean_of_prior(kind, n_draws=4000):
    """Of `numbers`."""
    family = family_of(kind)
    draws = [numbers(family.with_drawn_hyperparameters(subkey(root_key(1), i))) for i in range(n_draws)]
    return np.mean(draws, axis=0)


@pytest.mark.extended
@pytest.mark.short_cases("full")
@pytest.mark.parametrize("kind", [*FREE, *BENT])
def test_draws_leave_the_joint_distribution_with_rows_alone(kind, monkeypatch):
    monkeypatch.setattr(learned, "_SHARE_OF_POWERS", 0.6)
    found, of_prior = mean_along_chains(kind), mean_of_prior(kind)
    free = found.error > 1e-6
    assert free.sum() >= 2
    assert_agrees(found._replace(mean=found.mean[free], error=found.error[free]), of_prior[free])


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["full", "diag"])
def test_a_shape_that_ignores_the_degrees_is_found_out(kind, monkeypatch):
    right = Hyperprior._draw_shape

    def wrong(self, n_clusters, *rest):
        return right(self, n_clusters // 2, *rest)

    monkeypatch.setattr(Hyperprior, "_draw_shape", wrong)
    assert_disagrees(mean_along_chains(kind), mean_of_prior(kind))


@pytest.mark.extended
@pytest.mark.parametrize("kind", BENT)
def test_powers_without_derivatives_are_found_out(kind, monkeypatch):
    monkeypatch.setattr(learned, "_SHARE_OF_POWERS", 0.6)
    monkeypatch.setattr(YeoJohnson, "log_derivatives", lambda transform, X: np.zeros(len(X)))
    assert_disagrees(mean_along_chains(kind), mean_of_prior(kind))


@pytest.mark.parametrize("width", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_powers_have_their_distribution_given_the_partition(kind, width):
    rng, labels = np.random.default_rng(0), (np.arange(24) % 3).astype(np.int32)
    X = np.column_stack([np.exp(rng.normal(size=24)), rng.normal(size=24)])
    X = np.where(rng.random(X.shape) < 0.15, np.nan, np.round(2.0 * X) / 2.0 if width else X)
    emission = Gaussian(kind, resolution=width, transform=[0.3, 1.0])
    rows = emission.read(DPMixture(), X, reset=True)
    family = emission.bind(rows, 1)
    clusters = family.with_hyperprior(("transform",), family).clusters(rows)
    statistics = clusters.no_statistics(3)
    clusters.given(statistics).count(labels, statistics, Workers(1))
    numbers = clusters._inverse(clusters._values(statistics))
    if width:
        assert np.nanmax(np.abs(numbers - X)) > 0.1
    mean, precision, scatter, degrees = family.prior
    plain = Gaussian(kind, mean, precision, scatter, degrees, resolution=0.0)

    def log_density(power):
        transform = family.transform.with_powers(np.array([power, 1.0]))
        Y = transform.forward(numbers)
        if kind != "diag":
            holed, completed = np.isnan(X).any(axis=1), np.full(X.shape, np.nan)
            completed[holed] = statistics.completed
            Y = np.where(np.isnan(X), completed, Y)
        bound = plain.bind(own := plain.read(DPMixture(), Y, reset=True), 1).clusters(own)
        sums = bound.no_statistics(3)
        bound.count(labels, sums, Workers(1))
        return bound.log_marginal(sums) + transform.log_derivatives(numbers).sum()

    powers = np.linspace(0.0, 2.0, 101)
    weights = softmax([log_density(power) for power in powers])
    expected = np.array([weights @ powers, weights @ powers**2])
    draws = []
    for _ in range(600):
        given = clusters.given(statistics)
        statistics = given.with_drawn_power(labels, statistics, rng, Workers(1))
        draws.append(clusters.given(statistics).transform.powers[0])
    batches = np.reshape(draws, (30, 20))
    assert_agrees(summarize([[own.mean(), (own**2).mean()] for own in batches]), expected)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_rows_of_a_power_do_not_depend_on_the_powers_before(kind):
    """Chains in several threads use one family, which keeps the rows of the last power."""
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(50, 2)))
    emission = Gaussian(kind, transform=[0.3, 0.7])
    rows = emission.read(DPMixture(), X, reset=True)
    family = emission.bind(rows, 1)
    clusters = family.with_hyperprior(("transform",), family).clusters(rows)
    start = clusters.no_statistics(1)
    vectors = {powers: start.hyperparameters.copy() for powers in ((0.3, 0.7), (1.2, 0.1), (0.9, 0.2))}
    for powers, vector in vectors.items():
        vector[-2:] = powers
    first = {}
    for powers in ((0.3, 0.7), (1.2, 0.1), (0.3, 0.7), (0.9, 0.2), (1.2, 0.1), (1.2, 0.1), (0.3, 0.7)):
        given = clusters.given(start._replace(hyperparameters=vectors[powers].copy()))
        np.testing.assert_array_equal(given.data[0], first.setdefault(powers, given.data[0]))
        np.testing.assert_array_equal(given.transform.powers, powers)


def test_predictions_have_the_powers_of_their_draws():
    X = np.exp(np.random.default_rng(0).normal(size=(60, 1)))
    mixture = DPMixture(Gaussian("diag", transform="auto"), max_iter=60, random_state=0).fit(X)
    powers = mixture.posterior_["transform"][0, :, 0]
    assert len(np.unique(powers)) > 5
    rows = mixture._family_rows(mixture._read(X))
    densities, found = [], []
    for draw in mixture._predictive:
        given = rows.given(draw.statistics)
        found.append(given.transform.powers[0])
        assert draw.expected(rows, Workers(1))[1].transform.powers[0] == found[-1]
        transform, plain = mixture._family.transform.with_powers(given.transform.powers), copy(mixture._family)
        plain.transform = None
        bound = plain.clusters(mixture._read(transform.forward(X))).given(draw.statistics)
        terms = np.zeros((60, len(draw.weights)))
        bound.add_log_predictive(with_new(draw.statistics), terms, Workers(1))
        weights = np.log(draw.weights / draw.weights.sum())
        densities.append(logsumexp(terms + weights, axis=1) + transform.log_derivatives(X))
    assert set(found) <= set(powers)
    assert len(set(found)) > 3
    expected = logsumexp(densities, axis=0) - np.log(len(densities))
    np.testing.assert_allclose(mixture.score_samples(X), expected, rtol=1e-9)


def test_drawn_hyperparameters_are_in_the_posterior():
    X = np.random.default_rng(0).normal(size=(40, 2))
    posterior = DPMixture(max_iter=20, random_state=0).fit(X).posterior_
    n_draws = posterior["weights"].shape[1]
    for name, shape in {"mean_precision": (), "degrees_of_freedom": (), "covariance": (2, 2)}.items():
        draws = posterior[f"{name}_prior"]
        assert draws.shape == (1, n_draws, *shape)
        assert (np.ptp(draws, axis=1) > 0.0).all()


def test_hyperparameters_are_drawn_from_the_prior_too():
    emission = Gaussian("diag", mean_prior=[0.0, 1.0], covariance_scale=[1.0, 2.0])
    mixture = DPMixture(emission)
    _, one = mixture.sample_prior(5, 2, random_state=0, return_parameters=True)
    _, other = mixture.sample_prior(5, 2, random_state=1, return_parameters=True)
    assert one["degrees_of_freedom_prior"] != other["degrees_of_freedom_prior"]
    assert np.isfinite(one["log_joint"])


# --- mean cosines of directions ---------------------------------------------------------------------------


def directions(n=30):
    """Rows of three components."""
    rng = np.random.default_rng(0)
    k = np.arange(n) % 3
    return np.eye(3)[k] + np.array([0.1, 0.3, 0.5])[k, np.newaxis] * rng.normal(size=(n, 3))


def test_mean_cosines_have_their_distribution_given_the_partition(monkeypatch):
    monkeypatch.setattr(directional, "_SHARE_OF_COSINES", 1.0)
    X, labels, one = directions(), (np.arange(30) % 3).astype(np.int32), Workers(1)
    emission = VonMisesFisher("per_component", prior_rows=3.0)
    rows = emission.read(DPMixture(), X, reset=True)
    family = emission.bind(rows, 1)
    clusters = family.clusters(rows).with_hyperprior(("cosine",), family.clusters(rows))
    statistics = clusters.no_statistics(3)
    clusters.count(labels, statistics, one)

    def log_density(cosine):
        other = VonMisesFisher("per_component", cosine, 3.0).bind(rows, 1).clusters(rows)
        sums = other.no_statistics(3)
        other.count(labels, sums, one)
        return other.log_marginal(sums)

    cosines = (np.arange(200) + 0.5) / 200.0
    weights = softmax([log_density(cosine) for cosine in cosines])
    expected = np.array([weights @ cosines, weights @ cosines**2])
    draws = []
    for i in range(900):
        statistics = clusters.redraw_hyperparameters(labels, statistics, subkey(root_key(0), i), one)
        draws.append(clusters.given(statistics).prior.cosine)
    batches = np.reshape(draws, (30, 30))
    assert_agrees(summarize([[own.mean(), (own**2).mean()] for own in batches]), expected)


def test_mean_cosines_are_in_the_posterior(tmp_path):
    X, emission = directions(90), VonMisesFisher("per_component")
    mixture = DPMixture(emission, max_iter=40, random_state=0).fit(X)
    drawn = mixture.posterior_["cosine_prior"]
    assert drawn.shape == mixture.posterior_["weights"].shape[:2]
    assert len(np.unique(drawn)) > 2
    assert {float(draw.statistics.hyperparameters[0]) for draw in mixture._predictive} <= set(drawn.ravel().tolist())
    mixture.save(tmp_path / "mixture")
    np.testing.assert_array_equal(skmanifold.load(tmp_path / "mixture").score_samples(X), mixture.score_samples(X))
    fixed = DPMixture(emission, hyperparameters="learn", max_iter=10, random_state=0).fit(X)
    assert "cosine_prior" not in fixed.posterior_


# --- rounded numbers -------------------------------------------------------------------------------------

PAIRS = np.triu_indices(5, 1)
ROUNDED = np.array([[0.0], [0.0], [1.0], [2.0], [2.0]])
PRIOR = {"mean": 0.5, "precision": 0.3, "scatter": 0.4, "degrees": 3.0}


def log_marginal_of_cells(rows, width):
    """Log probability of rounded numbers in one cluster, by quadrature over its mean and its log variance."""
    log_variances, steps = np.linspace(-8.0, 7.0, 121), np.linspace(-8.0, 8.0, 161)
    terms = []
    for log_variance in log_variances:
        deviation = np.exp(0.5 * log_variance)
        of_prior = deviation / np.sqrt(PRIOR["precision"])
        means = np.union1d(np.linspace(-3.0, 4.0, 351), PRIOR["mean"] + of_prior * steps)
        logs = norm.logpdf(means, PRIOR["mean"], of_prior) + np.log(np.gradient(means))
        for x in rows:
            gaps = np.abs(x - means)  # of the lower tail, where differences keep their digits
            far, near = (norm.logcdf(-(gaps + side * width / 2) / deviation) for side in (1, -1))
            logs += near + np.log1p(-np.exp(far - near))
        shape, rate = PRIOR["degrees"] / 2, PRIOR["scatter"] / 2
        of_variance = shape * np.log(rate) - gammaln(shape) - shape * log_variance - rate / deviation**2
        terms.append(of_variance + logsumexp(logs))
    return logsumexp(terms) + np.log(np.diff(log_variances)[0])


def exact_pairs(width):
    """Posterior probabilities that rows i < j are together, by enumeration, with concentration 1."""
    cache = {}

    def log_likelihood(clusters):
        total = 0.0
        for members in clusters:
            rows = tuple(sorted(ROUNDED[list(members), 0]))
            cache[rows] = cache.get(rows) or log_marginal_of_cells(rows, width)
            total += cache[rows]
        return total

    law = tiny.law_of(log_likelihood, len(ROUNDED))
    return np.array([tiny.together(law, i, j, len(ROUNDED)) for i, j in zip(*PAIRS, strict=True)])


def together(labels):
    """Whether rows i < j have the same label."""
    return labels[PAIRS[0]] == labels[PAIRS[1]]


def drawn_pairs(kind, width):
    """The same probabilities along chains."""
    scatter = [[PRIOR["scatter"]]] if kind == "full" else PRIOR["scatter"]
    emission = Gaussian(kind, [PRIOR["mean"]], PRIOR["precision"], scatter, PRIOR["degrees"], width)
    rows = emission.read(Gaussian(), ROUNDED, reset=False)
    return along_chains(emission.bind(rows, 1).clusters(rows), lambda state: together(state.latents))


def along_chains(clusters, statistic, n_chains=24, n_steps=120):
    """Means of a function of the states of chains with concentration 1."""
    model = DPModel(clusters, 1.0, (1.0, 1.0), 2, None, Workers(1))
    means = []
    for chain in range(n_chains):
        state, found = Slice(3).init(model, subkey(root_key(0), chain)), []
        for _ in range(n_steps):
            state = Slice(3).step(model, state)
            found.append(statistic(state))
        means.append(np.mean(found[20:], axis=0))
    return summarize(means)


@pytest.mark.extended
@pytest.mark.short_cases("diag")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_partitions_of_rounded_rows_have_their_posterior(kind):
    expected = exact_pairs(1.0)
    assert_agrees(drawn_pairs(kind, 1.0), expected)
    assert_disagrees(drawn_pairs(kind, 0.0), expected)


@pytest.mark.extended
@pytest.mark.parametrize("kind", FREE)
def test_narrow_cells_are_exact_numbers(kind):
    X = np.random.default_rng(0).normal(size=(60, 2))
    exact, narrow = (
        DPMixture(Gaussian(kind, resolution=width), max_iter=20, random_state=0).fit(X) for width in (0.0, 1e-9)
    )
    assert narrow.score(X) == pytest.approx(exact.score(X), abs=1e-6)
    assert narrow._family.resolution is not None


def test_density_of_a_rounded_row_is_the_probability_of_its_cell():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 1)) * 2.0)
    mixture = DPMixture(Gaussian("diag"), max_iter=40, random_state=0).fit(X)
    assert mixture.emission_.resolution == pytest.approx(1.0)
    values = np.arange(-30.0, 31.0)
    assert np.exp(mixture.score_samples(values[:, None])).sum() == pytest.approx(1.0, abs=0.01)


def test_equal_numbers_do_not_become_a_cluster_without_variance():
    X = np.repeat([0.0, 1.0, 2.0, 3.0], 50)[:, None]
    mixture = DPMixture(max_iter=60, random_state=0).fit(X)
    assert mixture.covariances_.min() > 1e-4
    assert mixture.score(X) < 0.35


def test_blocks_have_their_own_resolution():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.round(rng.normal(size=80), 1), rng.normal(size=80), np.round(rng.normal(size=80))])
    emission = Columns([("a", Gaussian(), [0, 1]), ("b", Gaussian("diag"), [2])])
    rows = emission.read(DPMixture(), X, reset=True)
    found = [own.resolution for _, own, _ in emission.with_resolution_of(rows).blocks]
    np.testing.assert_allclose(np.concatenate(found), [0.1, 0.0, 1.0], atol=1e-6)


# --- dispersions -----------------------------------------------------------------------------------------

COUNTS = np.array([[0], [1], [4], [5], [30]])
OF_MEANS = {"shape_prior": 1.0, "rate_prior": 0.1}


def exact_dispersions():
    """Probabilities of pairs, and the mean of the log dispersion, by enumeration of partitions and dispersions."""
    dispersions = np.geomspace(1e-4, 100.0, 121)
    r, (a, b) = 1.0 / dispersions, OF_MEANS.values()

    def log_likelihoods(clusters):
        total = np.zeros(len(r))
        for cells in (COUNTS[list(members)] for members in clusters):
            of_cells = (gammaln(cells + r) - gammaln(r) - gammaln(cells + 1)).sum(axis=0)
            total += of_cells + betaln(a + cells.sum(), 1 + (b + len(cells)) * r) - betaln(a, 1 + b * r)
        return total

    law = tiny.law_of(lambda clusters: logsumexp(log_likelihoods(clusters)), len(COUNTS))
    given = [softmax(log_likelihoods(tiny.clusters_of(labels))) @ np.log(dispersions) for labels in tiny.partitions(5)]
    return np.append([tiny.together(law, i, j, 5) for i, j in zip(*PAIRS, strict=True)], law @ given)


def drawn_dispersions(is_drawn):
    """The same along chains that draw the dispersion, or with the most probable one of all rows together."""
    emission = NegativeBinomial(None, **OF_MEANS)
    rows = emission.read(DPMixture(), COUNTS, reset=True)
    family = emission.bind(rows, 1)
    clusters = (family.with_hyperprior(("dispersion",), family) if is_drawn else family).clusters(rows)

    def statistic(state):
        return np.append(together(state.latents), -np.log(clusters.given(state.statistics).prior))

    return along_chains(clusters, statistic, n_chains=40)


def test_dispersions_and_partitions_have_their_posterior():
    expected = exact_dispersions()
    assert_agrees(drawn_dispersions(is_drawn=True), expected)
    assert_disagrees(drawn_dispersions(is_drawn=False), expected)


def test_predictions_use_the_dispersions_of_their_draws():
    X = np.random.default_rng(0).negative_binomial(1.5, 0.2, size=(60, 2))
    emission = Columns([("a", NegativeBinomial(), [0]), ("b", NegativeBinomial(0.5), [1])])
    for each in (NegativeBinomial(), emission):
        mixture = DPMixture(each, max_iter=20, random_state=0).fit(X)
        draw = mixture._draws[-1]
        changed = draw._replace(statistics=with_dispersion(draw.statistics, 1e-3))
        rows, workers = mixture._family_rows(mixture._read(X)), Workers(1)
        gap = logsumexp(draw.log_terms(rows, workers), axis=1) - logsumexp(changed.log_terms(rows, workers), axis=1)
        assert np.abs(gap).max() > 0.1


def with_dispersion(statistics, dispersion):
    """Statistics whose drawn dispersions are replaced."""
    if hasattr(statistics, "rest"):
        parts = (with_dispersion(part, dispersion) for part in statistics[1:])
        return type(statistics)(statistics.sizes, *parts)
    return statistics._replace(hyperparameters=np.full_like(statistics.hyperparameters, 1.0 / dispersion))
