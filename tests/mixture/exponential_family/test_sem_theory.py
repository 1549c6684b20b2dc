"""What theory says of stochastic EM: the size of its noise, where it is stationary, and what EM makes of where it ends.

Nothing here is shared with the package's kernels but what the tests are about.
"""

import itertools
import math

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from scipy.integrate import quad
from scipy.special import betaln, gammaln
from scipy.stats import chi2, norm

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Gaussian
from skmanifold.emissions._bernoulli import BernoulliFamily
from skmanifold.emissions._linear import LinearRows
from skmanifold.mixture._exponential_family.model import FamilyModel
from skmanifold.random._keys import fold_in_each, root_key
from skmanifold.samplers import EM, ESCA
from skmanifold.utils._threads import Workers

# Two known components, of which only the weight is unknown

WEIGHT, GAP = 0.3085, 1.4936  # N(0, 1) has this weight, N(GAP, 1) the rest


class KnownComponents:
    """Data sets beside each other, (n_sets, n_rows), each a mixture of two known densities with a weight of its own.

    Parameters
    ----------
    X : ndarray of shape (n_sets, n_rows)
    start : float
        Weight to begin with.
    """

    def __init__(self, X, start=0.5):
        self.odds = np.exp(norm.logpdf(X) - norm.logpdf(X, GAP))
        self.shape, self.n_rows, self.start = X.shape, X.size, start

    def init_latents(self, key):
        return None, np.full(self.shape[0], self.start * self.shape[1])

    def shares(self, position):
        first = position[:, None] * self.odds
        return first / (first + 1 - position[:, None])

    def sample_latents(self, position, latents, key):
        uniforms = fold_in_each(key, np.arange(self.n_rows)).reshape(self.shape) * 2.0**-64
        return None, np.sum(uniforms < self.shares(position), axis=1), np.nan

    def expect_latents(self, position):
        return self.shares(position).sum(axis=1), np.nan

    def mode(self, statistics):
        return statistics / self.shape[1]

    def log_joint(self, statistics, position):
        return np.sum(statistics * np.log(position) + (self.shape[1] - statistics) * np.log1p(-position))


def walk_weights(sampler, model, n_steps, seed=0):
    state = sampler.init(model, root_key(seed))
    for _ in range(n_steps):
        state = sampler.step(model, state)
        yield state.position


def maximum(model):
    """Weights of the highest likelihood."""
    *_, position = walk_weights(EM(), model, 300)
    return position


def information(weight):
    """Of one row about the weight: of the row itself, and what its missing component would add."""
    complete = 1 / (weight * (1 - weight))

    def missing(x):
        first, second = weight * norm.pdf(x), (1 - weight) * norm.pdf(x, GAP)
        return first * second / (first + second) * complete**2

    of_label = quad(missing, -12, 12 + GAP)[0]
    return complete - of_label, of_label


def variance_about_maximum(weight, printed=False):
    """n times SEM's variance about the maximum: (1 - 1/F) / I.

    F = 1 + J / (I + J), with the information I of rows and J of what is missing; equation (12) of Zaheer et al. (2016)
    multiplies where it should divide.
    """
    observed, missing = information(weight)
    factor = 1 + missing * (observed + missing) if printed else 1 + missing / (observed + missing)
    return (1 - 1 / factor) / observed


def variance_about_truth(weight, printed=False):
    """n times SEM's variance about the truth: (2 - 1/F) / I."""
    return 1 / information(weight)[0] + variance_about_maximum(weight, printed)


def of_chains(deviations, lag=0):
    """Each chain's mean of n times products of deviations, (n_steps, n_chains), from the maximum, `lag` apart."""
    return (deviations[lag:] * deviations[: len(deviations) - lag]).mean(axis=0)


@pytest.fixture(scope="module")
def chains():
    """n^(1/2) (weight - maximum) of 200 chains on the same 1,000 rows, 150 passes of each."""
    n_rows, n_chains = 1000, 200
    places = (np.arange(n_rows) + 0.5) / n_rows
    grid = np.linspace(-8, 8 + GAP, 200_001)
    levels = WEIGHT * norm.cdf(grid) + (1 - WEIGHT) * norm.cdf(grid, GAP)
    X = np.interp(places, levels, grid)[None]
    best = maximum(KnownComponents(X))[0]
    assert best == pytest.approx(WEIGHT, abs=1e-4)
    model = KnownComponents(np.broadcast_to(X, (n_chains, n_rows)), best)
    positions = np.array(list(walk_weights(ESCA(), model, 170)))
    return math.sqrt(n_rows) * (positions[20:] - best)


def test_the_formulas_have_their_known_values():
    observed, missing = information(WEIGHT)
    assert missing / (observed + missing) == pytest.approx(0.6444, abs=5e-5)
    assert variance_about_maximum(WEIGHT) == pytest.approx(0.2351, abs=5e-5)
    assert variance_about_maximum(WEIGHT, printed=True) == pytest.approx(0.5603, abs=2e-4)


@pytest.mark.extended
def test_sem_scatters_about_the_maximum_as_the_missing_information_says(chains):
    variance = summarize(of_chains(chains))
    assert variance.error < 0.03 * variance.mean
    assert_agrees(variance, variance_about_maximum(WEIGHT))
    observed, missing = information(WEIGHT)
    wrong = variance_about_maximum(WEIGHT, printed=True), 1 / observed, missing / (observed + missing) ** 2
    for value in wrong:  # as printed; of the maximum itself; of one pass, as if passes did not remember
        assert_disagrees(variance, value)


def test_sem_remembers_the_fraction_of_missing_information_from_pass_to_pass(chains):
    observed, missing = information(WEIGHT)
    fraction = missing / (observed + missing)
    for lag in (1, 2):
        # The expectation of x_t x_{t+lag} - rho^lag x_t^2 is 0: no ratio of estimates is needed
        def lacks(rho, lag=lag):
            return summarize(of_chains(chains, lag) - rho**lag * (chains[:-lag] ** 2).mean(axis=0))

        assert_agrees(lacks(fraction), 0.0)
        for wrong in (1 - fraction, math.sqrt(fraction), fraction**2):
            assert_disagrees(lacks(wrong), 0.0)
    correlation = of_chains(chains, 1).mean() / of_chains(chains).mean()
    assert correlation == pytest.approx(0.6444, abs=0.02)


@pytest.mark.extended
def test_sem_scatters_about_the_truth_as_the_maximum_does_and_more():
    n_sets, n_rows = 2000, 400
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_sets, n_rows)) + GAP * (rng.random((n_sets, n_rows)) >= WEIGHT)
    *_, last = walk_weights(ESCA(), KnownComponents(X, WEIGHT), 15)
    squares = summarize(n_rows * (last - WEIGHT) ** 2)
    assert_agrees(squares, variance_about_truth(WEIGHT))
    for wrong in (variance_about_truth(WEIGHT, printed=True), 1 / information(WEIGHT)[0]):
        assert_disagrees(squares, wrong)


# A mixture of two Gaussians, all of whose parameters are unknown: values worked out independently of the package

MAXIMUM = [0.593307, -2.132927, 1.971126, 0.880064, 0.695354]  # weight, means, standard deviations
LOG_LIKELIHOOD = -927.893087
SEM_MEAN = [0.593204, -2.133358, 1.970722, 0.879396, 0.695549]
SEM_SPREAD = [0.0033, 0.0129, 0.0145, 0.0156, 0.0170]
NO_PRIOR = Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=3)


def two_gaussians():
    left, right = np.random.default_rng(1).normal(-2, 1, 300), np.random.default_rng(2).normal(2, 0.7, 200)
    return np.sort(np.concatenate([left, right]))[:, None]


def mixture(**settings):
    return ExponentialFamilyMixture(2, emission=NO_PRIOR, weight_prior=1e-12, random_state=0, **settings)


def in_order(weights, means, covariances):
    """The five parameters, components from left to right."""
    first = np.argmin(means)
    order = [first, 1 - first]
    return np.array([weights[first], *means[order], *np.sqrt(covariances[order])])


def found(fitted):
    return in_order(fitted.weights_, fitted.components_[:, 0], fitted.covariances_[:, 0, 0])


@pytest.fixture(scope="module")
def best():
    return found(mixture(sampler=EM(tol=1e-14), max_iter=500).fit(two_gaussians()))


def test_em_finds_the_maximum(best):
    X = two_gaussians()
    fitted = mixture(sampler="em", max_iter=500).fit(X)
    assert fitted.converged_
    assert fitted.score_samples(X).sum() == pytest.approx(LOG_LIKELIHOOD, abs=1e-3)
    assert np.abs(best - MAXIMUM).max() < 1e-6


@pytest.mark.parametrize("n_average", [1, 20], ids=["last state", "average"])
def test_polishing_reaches_the_maximum_of_em(best, n_average):
    settings = {"sampler": ESCA(n_average=n_average), "max_iter": 60}
    X = two_gaussians()
    rough, polished = (found(mixture(**settings, n_polish=n).fit(X)) for n in (0, 40))
    assert np.abs(rough - best).max() > 1e-4
    assert np.abs(polished - best).max() < 1e-6


def test_a_polishing_pass_never_lowers_the_likelihood():
    X = two_gaussians()
    scores = [mixture(max_iter=40, n_polish=n).fit(X).score(X) for n in range(5)]
    assert np.all(np.diff(scores) > 0)


@pytest.mark.extended
def test_sem_of_all_parameters_has_the_mean_and_spread_known_of_it():
    passes = mixture(sampler=ESCA(), max_iter=4050, burn_in=50, thin=1).fit(two_gaussians()).posterior_
    assert passes["components"].shape[:2] == (1, 4000)
    left = passes["components"][0, :, :, 0].argmin(axis=1)
    means = np.sort(passes["components"][0, :, :, 0], axis=1)
    weights = np.take_along_axis(passes["weights"][0], left[:, None], axis=1)
    values = np.hstack([weights, means])
    batches = values.reshape(40, 100, 3)
    assert_agrees(summarize(batches.mean(axis=1)), SEM_MEAN[:3], bias=1e-4)
    squares = summarize(((batches - SEM_MEAN[:3]) ** 2).mean(axis=1))
    spread = Estimate(np.sqrt(squares.mean), squares.error / (2 * np.sqrt(squares.mean)))
    assert_agrees(spread, SEM_SPREAD[:3], bias=5e-5)
    assert_disagrees(spread, np.array(SEM_SPREAD[:3]) * 1.3, bias=5e-5)


@pytest.mark.long
def test_an_average_of_passes_is_nearer_to_the_maximum_than_the_last_pass(best):
    X, distances = two_gaussians(), []
    for seed in range(30):
        ends = [
            found(mixture(sampler=ESCA(n_average=n), max_iter=70, burn_in=20).set_params(random_state=seed).fit(X))
            for n in (1, 50)
        ]
        distances.append([(((end - best) / SEM_SPREAD) ** 2).sum() for end in ends])
    last, average = np.array(distances).T
    gain = summarize(last - average)
    assert gain.mean > 4.5 * gain.error
    assert average.mean() < last.mean() / 2
    assert np.sum(average < last) >= 25


# Five rows of two events, two components: 32 labelings, all of them enumerated

ROWS = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 1]])
ALPHA, BETA = 1.5, 0.5  # pseudo-counts: of weights; of ones and of zeros
STATES = np.array(list(itertools.product(range(2), repeat=len(ROWS))))
POWERS = 2 ** np.arange(len(ROWS) - 1, -1, -1)


def tiny_model(workers, weight_prior=ALPHA, start=(0, 1, 0, 1, 0)):
    row, feature = np.nonzero(ROWS)
    indptr = np.searchsorted(row, np.arange(len(ROWS) + 1)).astype(np.int64)
    rows = LinearRows(indptr, feature.astype(np.int32), np.ones(len(row), np.int32), 2, None)
    family = BernoulliFamily(np.full(2, BETA), np.full(2, BETA), 2)
    return FamilyModel(rows, 0, weight_prior, family, np.array(start, np.int32), workers)


def site_law(labels, row, alpha=ALPHA, excluded=False):
    """Probabilities of the components of a row, given parameters fitted to labels, its own among them or not."""
    terms = np.empty(2)
    for k in range(2):
        mine = labels == k
        if excluded:
            mine[row] = False
        ones = (ROWS[mine].sum(axis=0) + BETA) / (mine.sum() + 2 * BETA)
        terms[k] = (mine.sum() + alpha) * np.prod(np.where(ROWS[row] == 1, ones, 1 - ones))
    return terms / terms.sum()


def transition(**rule):
    """From each labeling to each other, rows drawn at once."""
    result = np.ones((len(STATES), len(STATES)))
    for i, labels in enumerate(STATES):
        for row in range(len(ROWS)):
            result[i] *= site_law(labels, row, **rule)[STATES[:, row]]
    return result


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return law / law.sum()


def posterior(alpha=ALPHA):
    """Of labelings, weights and probabilities integrated out."""
    logs = np.zeros(len(STATES))
    for i, labels in enumerate(STATES):
        for k in range(2):
            mine = labels == k
            ones = ROWS[mine].sum(axis=0)
            logs[i] += gammaln(mine.sum() + alpha) + betaln(ones + BETA, mine.sum() - ones + BETA).sum()
    law = np.exp(logs - logs.max())
    return law / law.sum()


def p_value(observed, law):
    """Of Pearson's statistic; the rarest cells are pooled to expect 8."""
    order = np.argsort(law)
    observed, expected = observed[order], observed.sum() * law[order]
    n_pooled = int(np.searchsorted(np.cumsum(expected), 8.0)) + 1
    observed = np.append(observed[n_pooled:], observed[:n_pooled].sum())
    expected = np.append(expected[n_pooled:], expected[:n_pooled].sum())
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


def visited(sampler, n_steps, seed=0, **settings):
    """The labelings that a chain goes through, as numbers."""
    with Workers(1) as workers:
        model = tiny_model(workers, **settings)
        state = sampler.init(model, root_key(seed))
        path = np.empty(n_steps, np.int64)
        for n in range(n_steps):
            state = sampler.step(model, state)
            path[n] = state.latents @ POWERS
    return path


def thinned(path, every=12):
    """So far apart that labelings hardly know of each other."""
    return np.bincount(path[10 * every :: every], minlength=len(STATES))


@pytest.fixture(scope="module")
def automaton():
    return visited(ESCA(), 12_000)


def test_the_modes_of_the_model_give_the_enumerated_transitions():
    exact = transition()
    with Workers(1) as workers:
        model = tiny_model(workers)
        for labels, row_of_matrix in zip(STATES, exact, strict=True):
            weights, (offsets, naturals, _) = model.mode(model.count(labels.astype(np.int32)))
            logs = np.log(weights) + offsets + ROWS @ naturals[:2]
            shares = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
            of_states = np.prod(shares[np.arange(len(ROWS)), STATES], axis=1)
            assert np.abs(of_states - row_of_matrix).max() < 1e-14


def test_the_stationary_law_of_the_automaton_is_one_law_however_found():
    matrix = transition()
    law = stationary(matrix)
    assert np.abs(np.linalg.matrix_power(matrix, 400) - law).max() < 1e-8
    assert np.abs(law @ matrix - law).max() < 1e-8
    assert np.abs(law - law[::-1]).max() < 1e-8  # components have no names
    alike = STATES[:, [4, 1, 2, 3, 0]] @ POWERS  # the first and the last row are the same
    assert np.abs(law - law[alike]).max() < 1e-8
    assert np.sort(np.abs(np.linalg.eigvals(matrix)))[-2] < 0.8  # what 12 passes leave of a start is 5 percent
    assert np.abs(posterior() @ matrix - posterior()).max() > 1e-2  # the posterior is not invariant


def test_esca_moves_by_the_enumerated_transitions(automaton):
    """Given where it was, each step is a draw by itself: no thinning is needed."""
    pairs = np.bincount(automaton[:-1] * len(STATES) + automaton[1:], minlength=len(STATES) ** 2)
    seen = np.bincount(automaton[:-1], minlength=len(STATES))
    share = seen[:, None] / seen.sum()
    assert p_value(pairs, (share * transition()).ravel()) > 1e-3
    for wrong in ({"excluded": True}, {"alpha": ALPHA - 1}):
        assert p_value(pairs, (share * transition(**wrong)).ravel()) < 1e-30


def test_esca_is_stationary_where_enumeration_says_and_not_at_the_posterior(automaton):
    counts = thinned(automaton)
    assert p_value(counts, stationary(transition())) > 1e-3
    for wrong in (posterior(), stationary(transition(excluded=True)), stationary(transition(alpha=ALPHA - 1))):
        assert p_value(counts, wrong) < 1e-6


# Components that are empty


def test_without_a_prior_of_weights_empty_components_stay_empty():
    matrix = transition(alpha=0.0)
    one_is_empty = [0, len(STATES) - 1]
    assert np.array_equal(matrix[one_is_empty][:, one_is_empty], np.eye(2))
    assert np.linalg.matrix_power(matrix, 2000)[:, one_is_empty].sum(axis=1).min() > 1 - 1e-8
    lasted = []
    for seed in range(10):
        path = visited(ESCA(), 300, seed, weight_prior=0.0)
        assert path[-1] in one_is_empty
        lasted.append(int(np.argmax(np.isin(path, one_is_empty))))
        assert len(np.unique(path[lasted[-1] :])) == 1
    assert max(lasted) > 3  # rows were in both, for a while


def test_a_prior_of_weights_brings_empty_components_back():
    matrix = transition()
    assert matrix.min() > 0
    for start in (0, 1):
        path = visited(ESCA(), 2000, start=[start] * len(ROWS))
        returns = np.isin(path, [0, len(STATES) - 1])
        assert 0 < returns.sum() < 500
        assert np.all(np.bincount(path, minlength=len(STATES)) > 0)
