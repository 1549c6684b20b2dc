"""A step of EM is a positive definite matrix times the gradient, and that of ESCA has an unbiased estimate of it.

This is appendix C of Zaheer et al. (2016). The M step adds the prior counts a and b: alpha - 1 and beta - 1 for the
mode of the probabilities (eq. 17), alpha and beta for rule (20), the mode in the natural parameters. The log posterior
density is the log likelihood plus the sums of a log theta and of b log phi.
"""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from skmanifold.admixture._lda.expectation import ExpectationLDA, ExpectedCounts, Probabilities
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from ._lda_arrays import KEY

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys

TABLE = np.array([[2, 1, 0], [0, 1, 2]])
ROWS, WORDS = (np.repeat(part, TABLE.ravel()) for part in np.indices(TABLE.shape).reshape(2, -1))
STATES = np.array(list(itertools.product(range(2), repeat=len(ROWS))))  # the 64 assignments of topics to tokens
PRIORS = {  # a and b
    "alpha = beta = 1": (np.zeros(2), 1e-12),
    "mode of the probabilities": (np.array([0.3, 1.4]), 0.5),
    "natural parameters": (np.array([0.1, 0.2]), np.array([0.2, 0.7, 1.5])),
}
by_prior = pytest.mark.parametrize(("a", "b"), PRIORS.values(), ids=PRIORS)


def model_of(a, b, table=TABLE):
    counts = whole_counts(canonical_csr(np.asarray(table, float)), KEY)
    return ExpectationLDA(counts, a, TopicPrior(b, len(a), counts.n_features), Workers(1))


def some_position(seed=0):
    """Proportions (M, K) and topics (K, V)."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet([3, 3], 2), rng.dirichlet([3, 3, 3], 2)


def log_posterior(theta, phi, a, b):
    """A function of positive numbers, which need not sum to one."""
    log_likelihood = (TABLE * np.log(theta @ phi)).sum()
    return log_likelihood + (a * np.log(theta)).sum() + (b * np.log(phi)).sum()


def gradients(theta, phi, a, b):
    """Of the log posterior, by central differences."""
    found = []
    for part in (0, 1):
        gradient = np.empty_like((theta, phi)[part])
        for place in np.ndindex(gradient.shape):
            values = []
            for sign in (1, -1):
                both = [theta.copy(), phi.copy()]
                both[part][place] += sign * 1e-5
                values.append(log_posterior(*both, a, b))
            gradient[place] = (values[0] - values[1]) / 2e-5
        found.append(gradient)
    return found


def one_step(a, b, theta, phi):
    """The step of EM, and the expected counts D (M, K) and W (K, V)."""
    model = model_of(a, b)
    statistics, _ = model.expect_latents(Probabilities(theta, phi.T.copy()))
    new = model.mode(statistics)
    return (new.doc_topic, new.word_topic.T), (statistics.doc_topic, statistics.word_topic.T)


def matrices(points, numbers):
    """(diag(p) - p p') / n for each row p: the covariance of a category that is drawn from p, divided by n."""
    return np.array([(np.diag(p) - np.outer(p, p)) / n for p, n in zip(points, numbers, strict=True)])


def times(matrices_, vectors):
    return np.einsum("kij,kj->ki", matrices_, vectors)


def numbers_of(D, W, a, b):
    """The denominators of the M step: for documents and for topics."""
    return (D + a).sum(axis=1), (W + b).sum(axis=1)


@by_prior
@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_em_is_a_matrix_times_the_gradient(a, b, seed):
    theta, phi = some_position(seed)
    new, expected = one_step(a, b, theta, phi)
    slopes = gradients(theta, phi, a, b)
    for old, after, n, slope in zip((theta, phi), new, numbers_of(*expected, a, b), slopes, strict=True):
        M = matrices(old, n)
        np.testing.assert_allclose(after - old, times(M, slope), atol=1e-8)
        assert np.abs(after - old).max() > 1e-3
        diagonal = np.array([np.diag(p) for p in old]) / n[:, None, None]
        np.testing.assert_allclose(after, times(diagonal, slope), atol=1e-8)  # without p p', the new position itself
        assert np.all((slope * times(M, slope)).sum(axis=1) > 0)  # the posterior density increases along the step
    if np.any(a):
        without_prior = gradients(theta, phi, np.zeros(2), 0.0)[0]
        M = matrices(theta, numbers_of(*expected, a, b)[0])
        assert np.abs(new[0] - theta - times(M, without_prior)).max() > 1e-3


def test_the_matrix_is_positive_definite_along_the_simplex():
    _, phi = some_position()
    for M, p in zip(matrices(phi, [4.0, 2.0]), phi, strict=True):
        values, vectors = np.linalg.eigh(M)
        assert abs(values[0]) < 1e-15  # for the direction in which the sum of the probabilities changes
        np.testing.assert_allclose(vectors[:, 0], vectors[0, 0], rtol=1e-9)
        assert np.all(values[1:] > p.min() ** 2)


def assignments(theta, phi):
    """The counts D and W of each assignment of topics, and its probability in the S step."""
    shares = theta[ROWS] * phi[:, WORDS].T
    shares /= shares.sum(axis=1, keepdims=True)
    probabilities = np.prod(shares[np.arange(len(ROWS)), STATES], axis=1)
    D, W = np.zeros((len(STATES), 2, 2)), np.zeros((len(STATES), 2, 3))
    for states, row, word in zip(STATES.T, ROWS, WORDS, strict=True):
        D[np.arange(len(STATES)), row, states] += 1
        W[np.arange(len(STATES)), states, word] += 1
    assert probabilities.sum() == pytest.approx(1.0)
    return D, W, probabilities


def mean(probabilities, values):
    return np.tensordot(probabilities, values, 1)


@by_prior
def test_the_estimate_of_the_gradient_is_unbiased(a, b):
    theta, phi = some_position()
    D, W, probabilities = assignments(theta, phi)
    slopes = gradients(theta, phi, a, b)
    for estimates, slope in zip(((D + a) / theta, (W + b) / phi), slopes, strict=True):
        np.testing.assert_allclose(mean(probabilities, estimates), slope, atol=1e-7)
    printed = np.abs(mean(probabilities, D / theta) - slopes[0]).max()  # section 3.3.1, without the prior
    assert (printed < 1e-7) == (not np.any(a))


@by_prior
def test_a_step_of_esca_is_the_matrix_times_the_estimate(a, b):
    theta, phi = some_position()
    D, W, _ = assignments(theta, phi)
    model = model_of(a, b)
    for counts in zip(D, W, strict=True):
        new = model.mode(ExpectedCounts(counts[0], counts[1].T, counts[1].sum(axis=1)))
        steps = (theta, counts[0] + a, new.doc_topic), (phi, counts[1] + b, new.word_topic.T)
        for old, smoothed, after in steps:
            M = matrices(old, smoothed.sum(axis=1))
            np.testing.assert_allclose(after - old, times(M, smoothed / old), atol=1e-12)


@by_prior
def test_the_proportions_move_on_average_as_in_em_and_the_topics_do_not(a, b):
    theta, phi = some_position()
    D, W, probabilities = assignments(theta, phi)
    of_em, (_, expected) = one_step(a, b, theta, phi)
    new_theta = (D + a) / (D + a).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(mean(probabilities, new_theta), of_em[0], atol=1e-12)
    number = (W + b).sum(axis=-1, keepdims=True)  # differs between assignments
    steps = (W + b) / number - phi
    assert np.abs(mean(probabilities, steps) - (of_em[1] - phi)).max() > 5e-3
    np.testing.assert_allclose(
        mean(probabilities, number * steps), (expected + b).sum(axis=1, keepdims=True) * (of_em[1] - phi), atol=1e-12
    )


def bias_of_topics(n_copies, b):
    """Expected topics after a step of ESCA minus those of EM, if each token occurs `n_copies` times."""
    theta, phi = some_position()
    share = theta[:, 0, None] * phi[0]
    share /= theta @ phi
    words = []  # distributions of the counts of the words in the first topic
    for v in range(3):
        of_word = np.ones(1)
        for m in range(2):
            n = n_copies * TABLE[m, v]
            of_word = np.convolve(of_word, binom.pmf(np.arange(n + 1), n, share[m, v]))
        words.append(of_word)
    result = []
    for v in range(3):
        others = np.convolve(*(words[u] for u in range(3) if u != v))
        count, total = np.ogrid[: len(words[v]), : len(others)]
        result.append(((count + b) / (count + total + 3 * b) * np.outer(words[v], others)).sum())
    expected = n_copies * (TABLE * share).sum(axis=0)
    return np.array(result) - (expected + b) / (expected.sum() + 3 * b)


def test_the_bias_of_the_topics_falls_as_the_inverse_of_the_number_of_tokens():
    theta, phi = some_position()
    _, W, probabilities = assignments(theta, phi)
    new = (W + 0.5) / (W + 0.5).sum(axis=-1, keepdims=True)
    of_em, _ = one_step(np.zeros(2), 0.5, theta, phi)
    np.testing.assert_allclose(bias_of_topics(1, 0.5), (mean(probabilities, new) - of_em[1])[0], atol=1e-12)
    sizes = [np.abs(bias_of_topics(n, 0.5)).max() for n in (20, 40, 80, 160)]
    np.testing.assert_allclose(np.divide(sizes[:-1], sizes[1:]), 2.0, rtol=0.1)
