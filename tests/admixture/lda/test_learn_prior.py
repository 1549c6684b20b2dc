"""The learned Dirichlet priors: histograms against numpy, the climb against the likelihood and against the truth."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

from skmanifold.admixture._lda import dirichlet_mle
from skmanifold.admixture._lda.dirichlet_mle import (
    DocTopicHistogram,
    count_documents,
    count_words,
    histogram_of_words,
    learn_doc_topic_prior,
    learn_topic_word_prior,
)
from skmanifold.admixture._lda.dirichlet_mle_kernels import _evaluate, _log_gamma
from skmanifold.admixture._lda.model import Responsibilities
from skmanifold.admixture._tokens.topic_counts import TopicCounts, counts_from_dense
from skmanifold.sparse.counts import Counts
from skmanifold.utils._threads import Workers

from ._lda_arrays import MOST, make_latents, make_model, random_table

ALPHA = np.array([0.5, 0.02, 1.5, 0.1, 0.3])
TO_THE_TOP = 100
ONE = Workers(1)


def histogram_in_numpy(doc_topic):
    """The histogram of a dense table of counts."""
    columns = [np.unique(column[column > 0], return_counts=True) for column in np.asarray(doc_topic, float).T]
    lengths = np.sum(doc_topic, axis=1)
    return DocTopicHistogram(
        np.concatenate(([0], np.cumsum([len(values) for values, _ in columns]))),
        np.concatenate([values for values, _ in columns]),
        np.concatenate([weights for _, weights in columns]).astype(float),
        *(part.astype(float) for part in np.unique(lengths[lengths > 0], return_counts=True)),
    )


def log_likelihood(prior, histogram, copies=1):
    return _evaluate(prior, float(copies), histogram, np.empty_like(prior), np.empty_like(prior))[0]


def log_likelihood_in_numpy(alpha, doc_topic):
    total, lengths = alpha.sum(), doc_topic.sum(axis=1)
    rows = (gammaln(doc_topic + alpha) - gammaln(alpha)).sum(axis=1) - gammaln(lengths + total) + gammaln(total)
    return rows.sum()


def fixed_point_in_numpy(doc_topic, *, omit_total=False, n_iter=400):
    """Minka's fixed point, slowly; or one that takes 1 for the parameters' total."""
    lengths = doc_topic.sum(axis=1)
    alpha = np.ones(doc_topic.shape[1])
    for _ in range(n_iter):
        total = 1.0 if omit_total else alpha.sum()
        above = (digamma(doc_topic + alpha) - digamma(alpha)).sum(axis=0)
        alpha = np.maximum(alpha * above / (digamma(lengths + total) - digamma(total)).sum(), 1e-9)
    return alpha


def simulate(alpha, lengths, seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(n, rng.dirichlet(alpha)) for n in lengths])


def gradient(alpha, histogram, copies=1, step=1e-4):
    """Of the log likelihood in log alpha, by central differences."""
    result = np.empty(len(alpha))
    for k in range(len(alpha)):
        up, down = alpha.copy(), alpha.copy()
        up[k], down[k] = alpha[k] * np.exp(step), alpha[k] * np.exp(-step)
        result[k] = (log_likelihood(up, histogram, copies) - log_likelihood(down, histogram, copies)) / (2 * step)
    return result


def assert_same_histogram(actual, expected):
    for name, left, right in zip(actual._fields, actual, expected, strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == (np.int64 if name == "indptr" else np.float64)


# Log gamma


def test_log_gamma_and_its_derivatives():
    x = 10.0 ** np.random.default_rng(0).uniform(-6, 6, 500)
    value, first, second = np.array([_log_gamma(y) for y in x]).T
    np.testing.assert_allclose(value + 0.5 * np.log(2 * np.pi), gammaln(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(first, digamma(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(second, polygamma(1, x), rtol=1e-13)


# Histograms


def histogram_of_tokens(doc_topic, workers=ONE):
    """Of topics of tokens in any order within a row."""
    rng = np.random.default_rng(0)
    topics = [rng.permutation(np.repeat(np.arange(doc_topic.shape[1]), row)) for row in doc_topic]
    token_start = np.concatenate(([0], np.cumsum(doc_topic.sum(axis=1))))
    model = SimpleNamespace(counts=None, token_start=token_start, n_components=doc_topic.shape[1], workers=workers)
    return count_documents(model, np.concatenate(topics).astype(np.uint16))


def awkward_doc_topic():
    doc_topic = np.random.default_rng(3).poisson(1.5, (60, 7))
    doc_topic[[0, 20, 21, 59]] = 0  # empty documents
    doc_topic[:, [2, 6]] = 0  # topics without tokens, the last among them
    doc_topic[5, 1] = 200_000
    doc_topic[6, [0, 1, 3]] = 65_535, 65_536, 131_070
    return doc_topic


def test_entries_are_counted_those_of_several_for_one_topic_too():
    table = random_table()
    table[5, 2], table[6, 3] = 200_000, 2 * MOST
    model = make_model(table, np.full(7, 0.1))
    rng = np.random.default_rng(4)
    doc_topic = np.array([rng.multinomial(n, rng.dirichlet(np.full(7, 0.4))) for n in table.sum(axis=1)])
    for row, topic in ((5, 4), (6, 1)):
        doc_topic[row] = np.where(np.arange(7) == topic, doc_topic[row].sum(), 0)
    assert (doc_topic > MOST).sum() == 2
    topics = [{k: row[k] for k in rng.permutation(7) if row[k]} for row in doc_topic]
    latents = make_latents(model, topics)
    latents.entries[latents.entries == 0] = 3  # padding: a topic with count zero
    assert_same_histogram(count_documents(model, latents), histogram_in_numpy(doc_topic))


@pytest.mark.parametrize("min_rows", [1, 7, 1 << 14])
def test_tokens_are_counted_whatever_the_cuts_and_workers(monkeypatch, min_rows):
    monkeypatch.setattr(dirichlet_mle, "_MIN_TASK_ROWS", min_rows)
    monkeypatch.setattr(dirichlet_mle, "_MAX_TASKS", 100)
    doc_topic = awkward_doc_topic()
    with Workers(3) as workers:
        assert_same_histogram(histogram_of_tokens(doc_topic, workers), histogram_in_numpy(doc_topic))


def responsibilities(seed, n_rows=70, n_words=40, n_components=6, concentration=0.2):
    rng = np.random.default_rng(seed)
    table = rng.poisson(0.4, (n_rows, n_words))
    table[[0, 9]] = 0
    table[:, 5] = 0
    table[11, 3] = 100_000
    rows, words = np.nonzero(table)
    gamma = rng.dirichlet(np.full(n_components, concentration), len(rows)).astype(np.float32)
    gamma[:, 4] = 0
    return gamma, rows, words, table[rows, words].astype(np.int32)


def indptr_of(rows, n_rows=70):
    return np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_rows)))).astype(np.int64)


def of_documents(gamma, rows, counts, n_rows=70, workers=ONE):
    table = Counts(indptr_of(rows, n_rows), np.zeros(len(rows), np.int32), counts, 1)
    return count_documents(SimpleNamespace(counts=table, workers=workers), Responsibilities(gamma, None, None))


def positive_part_in_numpy(gamma, groups, counts, n_groups):
    """Mean and probability of not being zero, of each topic's count in each group of pairs."""
    mean, log_absent = np.zeros((n_groups, gamma.shape[1])), np.zeros((n_groups, gamma.shape[1]))
    np.add.at(mean, groups, counts[:, None] * gamma.astype(float))
    with np.errstate(divide="ignore"):
        np.add.at(log_absent, groups, counts[:, None] * np.log1p(-gamma.astype(float)))
    return mean, -np.expm1(log_absent)


def rising_sums(alpha, indptr, values, weights):
    column = np.repeat(np.arange(len(alpha)), np.diff(indptr))
    return np.bincount(
        column, weights * (gammaln(values + alpha[column]) - gammaln(alpha[column])), minlength=len(alpha)
    )


def test_expected_counts_stand_for_their_distribution():
    gamma, rows, words, counts = responsibilities(1)
    histogram = of_documents(gamma, rows, counts)
    lengths, length_weights = np.unique(np.bincount(rows, counts), return_counts=True)
    np.testing.assert_array_equal(histogram.lengths, lengths[1:])  # no zero
    np.testing.assert_array_equal(histogram.length_weights, length_weights[1:])
    order = np.argsort(words, kind="stable")
    totals = (counts[:, None] * gamma.astype(float)).sum(axis=0)
    of_words = {"word_index": (indptr_of(words, 40), order), "n_tokens": counts.sum(), "workers": ONE}
    state = SimpleNamespace(latents=Responsibilities(gamma, None, totals))
    by_word = count_words(SimpleNamespace(counts=SimpleNamespace(counts=counts), **of_words), state)
    np.testing.assert_array_equal(by_word.lengths, totals[totals > 0])
    for groups, n_groups, found in ((rows, 70, histogram), (words, 40, by_word)):
        mean, positive = positive_part_in_numpy(gamma, groups, counts, n_groups)
        for alpha in (0.01, 3.0):
            value = np.divide(mean, positive, out=np.ones_like(mean), where=positive > 0)
            terms = positive * (gammaln(value + alpha) - gammaln(alpha))
            sums = rising_sums(np.full(len(found.indptr) - 1, alpha), *found[:3])
            off = sums - terms.sum(axis=0 if len(sums) > 1 else None)
            assert np.all(np.abs(off) <= 2e-5 * np.abs(terms).sum(axis=0 if len(sums) > 1 else None))
    with Workers(3) as workers:
        assert_same_histogram(of_documents(gamma, rows, counts, workers=workers), histogram)


def test_responsibilities_of_whole_tokens_are_their_counts():
    gamma, rows, _, counts = responsibilities(2)
    gamma[:] = np.eye(6, dtype=np.float32)[gamma.argmax(axis=1)]
    counts[counts > 100] = 1  # whole numbers beyond 128 are not all on the grid
    doc_topic = np.zeros((70, 6), int)
    np.add.at(doc_topic, rows, counts[:, None] * gamma.astype(int))
    assert_same_histogram(of_documents(gamma, rows, counts), histogram_in_numpy(doc_topic))


def test_a_prior_from_responsibilities_is_that_of_tokens_drawn_from_them():
    rng = np.random.default_rng(3)
    rows = np.repeat(np.arange(300), 40)
    gamma = rng.dirichlet(np.full(6, 0.2), 300)[rows] * rng.gamma(0.4, size=(len(rows), 6)) + 1e-12
    gamma = (gamma / gamma.sum(axis=1, keepdims=True)).astype(np.float32)
    counts = 1 + rng.poisson(0.5, len(rows)).astype(np.int32)
    histogram = of_documents(gamma, rows, counts, 300)
    found = learn_doc_topic_prior(np.ones(6), histogram, TO_THE_TOP)

    doc_topic = np.zeros((10, 300, 6), int)  # the mean of the likelihood is that of all draws together
    token_row, cumulative = np.repeat(rows, counts), np.repeat(np.cumsum(gamma, axis=1, dtype=float), counts, axis=0)
    for table in doc_topic:
        topics = (rng.random((len(token_row), 1)) * cumulative[:, -1:] > cumulative).sum(axis=1)
        np.add.at(table, (token_row, topics), 1)
    drawn = learn_doc_topic_prior(np.ones(6), histogram_in_numpy(doc_topic.reshape(-1, 6)), TO_THE_TOP)
    mean = np.zeros((300, 6))
    np.add.at(mean, rows, counts[:, None] * gamma.astype(float))
    by_means = learn_doc_topic_prior(np.ones(6), histogram_in_numpy(mean), TO_THE_TOP)
    # What is left is the spread of counts above zero, which their mean stands for.
    assert np.abs(found / drawn - 1).max() < 0.05
    assert (by_means / drawn - 1).min() > 0.15


# The documents' prior


def test_log_likelihood_is_that_of_the_tables():
    doc_topic = awkward_doc_topic()
    alpha = np.linspace(0.01, 3.0, 7)
    np.testing.assert_allclose(
        log_likelihood(alpha, histogram_in_numpy(doc_topic)), log_likelihood_in_numpy(alpha, doc_topic), rtol=1e-12
    )


def deviation(estimate, doc_topic, alpha):
    """How far log alpha is from the truth, as chi squared with one degree of freedom a topic.

    The covariance is the inverse of the observed information at the truth.
    """
    total, lengths = alpha.sum(), doc_topic.sum(axis=1)
    diagonal = (polygamma(1, alpha) - polygamma(1, doc_topic + alpha)).sum(axis=0)
    common = (polygamma(1, total) - polygamma(1, lengths + total)).sum()
    information = (np.diag(diagonal) - common) * np.outer(alpha, alpha)
    off = np.log(estimate) - np.log(alpha)
    return off @ information @ off


RECOVERY = {"lengths": np.random.default_rng(1).geometric(1 / 60, 3000), "seed": 7}
CHI2_5 = 20.5  # of five degrees of freedom, exceeded once in a thousand times


def test_a_known_prior_is_recovered_and_wrong_updates_are_not():
    doc_topic = simulate(ALPHA, **RECOVERY)
    histogram = histogram_of_tokens(doc_topic)
    estimate = learn_doc_topic_prior(np.ones(5), histogram, TO_THE_TOP)
    assert deviation(estimate, doc_topic, ALPHA) < CHI2_5
    np.testing.assert_allclose(estimate, fixed_point_in_numpy(doc_topic), rtol=1e-6)
    by_tokens = histogram._replace(weights=histogram.weights * histogram.values / histogram.values.mean())
    for wrong in (
        learn_doc_topic_prior(np.ones(5), by_tokens, TO_THE_TOP),
        fixed_point_in_numpy(doc_topic, omit_total=True),
    ):
        assert deviation(wrong, doc_topic, ALPHA) > 10 * CHI2_5


@pytest.mark.parametrize("begin", [0.02, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_every_step_climbs_and_the_end_is_the_top(seed, begin):
    rng = np.random.default_rng(seed)
    n_components = rng.integers(2, 12)
    truth = rng.gamma(0.5, size=n_components) * 10 ** rng.uniform(-1, 1) + 0.01
    doc_topic = simulate(truth, rng.poisson(rng.choice([4, 40, 200]), 120), seed)
    histogram = histogram_in_numpy(doc_topic)
    alpha = np.full(n_components, begin)
    values = [log_likelihood(alpha, histogram)]
    for _ in range(40):
        alpha = learn_doc_topic_prior(alpha, histogram, 1)
        values.append(log_likelihood(alpha, histogram))
    assert np.diff(values).min() >= 0
    plain = np.full(n_components, begin)
    for _ in range(5):
        lengths, total = doc_topic.sum(axis=1), plain.sum()
        above = (digamma(doc_topic + plain) - digamma(plain)).sum(axis=0)
        plain = np.maximum(plain * above / (digamma(lengths + total) - digamma(total)).sum(), 1e-3 / n_components)
    ten_steps = learn_doc_topic_prior(np.full(n_components, begin), histogram, 10)
    assert log_likelihood(ten_steps, histogram) > log_likelihood(plain, histogram)
    inside = alpha > 1.001e-3 / n_components
    slope = gradient(alpha, histogram)
    # The difference of two log likelihoods, each rounded, over twice the step.
    rounding = 1e-15 * abs(values[-1]) * 1e4
    assert np.abs(slope[inside]).max() < 1e-4 + 10 * rounding
    assert np.all(slope[~inside] < 0)


def test_topics_without_tokens_fall_to_the_floor_and_no_further():
    doc_topic = simulate(ALPHA, np.full(300, 40), 2)
    doc_topic = np.insert(doc_topic, [1, 5], 0, axis=1)
    alpha = learn_doc_topic_prior(np.full(7, 0.5), histogram_in_numpy(doc_topic), TO_THE_TOP, floor=0.07)
    np.testing.assert_array_equal(alpha[[1, 6]], 0.01)
    others = np.setdiff1d(np.arange(7), [1, 6])
    assert np.abs(gradient(alpha, histogram_in_numpy(doc_topic))[others]).max() < 1e-4
    alpha = learn_doc_topic_prior(np.full(7, 0.5), histogram_in_numpy(doc_topic), 1)
    assert alpha.min() > 0


def test_documents_of_one_topic_each_do_not_bring_the_prior_to_zero():
    doc_topic = np.repeat(np.eye(3, dtype=int) * 20, 10, axis=0)
    alpha = learn_doc_topic_prior(np.ones(3), histogram_in_numpy(doc_topic), TO_THE_TOP)
    np.testing.assert_array_equal(alpha, 1e-3 / 3)


def test_documents_all_alike_do_not_bring_the_prior_to_infinity():
    doc_topic = np.tile([10, 20, 30], (50, 1))
    alpha = np.ones(3)
    for _ in range(100):
        alpha = learn_doc_topic_prior(alpha, histogram_in_numpy(doc_topic))
    assert 1e3 < alpha.max() <= 1e4
    assert np.all(np.diff(alpha) > 0)


@pytest.mark.parametrize("doc_topic", [[[3], [0], [7]], [[0, 0], [0, 0]]], ids=["one topic", "no token"])
def test_what_says_nothing_changes_nothing(doc_topic):
    doc_topic = np.array(doc_topic)
    histogram = histogram_of_tokens(doc_topic)
    prior = np.full(doc_topic.shape[1], 0.3)
    new = learn_doc_topic_prior(prior, histogram)
    np.testing.assert_array_equal(new, prior)
    assert new is not prior


# The topics' prior


def word_counts(beta, n_features, totals, seed):
    topic_word = simulate(np.full(n_features, beta), totals, seed)
    counts = counts_from_dense(topic_word.T.astype(np.int32), topic_word.sum(axis=1))
    return topic_word, histogram_of_words(counts), counts


def test_a_known_word_prior_is_recovered_and_wrong_updates_are_not():
    n_features, beta = 3000, 0.07
    topic_word, histogram, _ = word_counts(beta, n_features, [3000, 100_000, 500, 20_000, 0, 8000], 5)
    estimate = learn_topic_word_prior(1.0, histogram, n_features, TO_THE_TOP)

    total, lengths = n_features * beta, topic_word.sum(axis=1)
    information = (polygamma(1, beta) - polygamma(1, topic_word + beta)).sum()
    information -= n_features**2 * (polygamma(1, total) - polygamma(1, lengths + total)).sum()
    assert abs(estimate - beta) * np.sqrt(information) < 3.3
    for wrong in (
        learn_topic_word_prior(1.0, histogram, 2 * n_features, TO_THE_TOP),
        learn_topic_word_prior(1.0, histogram._replace(lengths=histogram.lengths * 2), n_features, TO_THE_TOP),
    ):
        assert abs(wrong - beta) * np.sqrt(information) > 10


def test_the_word_prior_climbs_to_where_the_slope_is_zero():
    topic_word, histogram, _ = word_counts(0.3, 50, [400, 30, 2000], 6)
    beta = 5.0
    values = [log_likelihood(np.array([beta]), histogram, 50)]
    for _ in range(20):
        beta = learn_topic_word_prior(beta, histogram, 50, 1)
        values.append(log_likelihood(np.array([beta]), histogram, 50))
    assert np.diff(values).min() >= 0
    assert abs(gradient(np.array([beta]), histogram, 50)[0]) < 1e-5
    np.testing.assert_allclose(values[-1], log_likelihood_in_numpy(np.full(50, beta), topic_word), rtol=1e-12)


def test_word_counts_have_any_width():
    _, histogram, counts = word_counts(0.1, 60, [3000, 900_000, 500], 7)
    assert counts.counts.max() > 1 << 16
    values, weights = np.unique(counts.counts, return_counts=True)
    np.testing.assert_array_equal(histogram.values, values)
    np.testing.assert_array_equal(histogram.weights, weights)
    np.testing.assert_array_equal(histogram.lengths, counts.totals)
    assert_same_histogram(histogram_of_words(counts._replace(counts=counts.counts.astype(np.int64))), histogram)


def test_a_word_prior_without_evidence_stays():
    empty = TopicCounts(np.zeros(5, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.int32), np.zeros(3, np.int64))
    assert learn_topic_word_prior(0.2, histogram_of_words(empty), 4) == 0.2
    one_word = TopicCounts(np.array([0, 2]), np.array([0, 1], np.uint16), np.array([5, 9], np.int32), np.array([5, 9]))
    assert learn_topic_word_prior(0.2, histogram_of_words(one_word), 1) == 0.2
    own_word = counts_from_dense(np.eye(3, dtype=np.int32) * 9, np.full(3, 9))
    assert learn_topic_word_prior(0.2, histogram_of_words(own_word), 3, TO_THE_TOP) == 1e-3 / 3
