"""The posterior of the topics seen through minibatches, against enumeration; and the samplers that step by them."""

import itertools
import re
import warnings

import numpy as np
import pytest
from scipy.special import gammaln

from skmanifold import StochasticLDA
from skmanifold.admixture._lda.minibatch import MinibatchLDA
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.samplers import SCIR
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from .._corpora import learned, small_corpus

BY_MINIBATCHES = ("scir", "sgrld", "sgrhmc", "sgld", "sghmc")
KEY = np.uint64(20131205)

# Two documents, [0, 0, 1] and [1, 2, 2], three words, two topics; a posterior about ten documents.
TABLE = np.array([[2, 1, 0], [0, 1, 2]])
ALPHA = np.array([0.4, 0.9])
BETA = np.array([[0.3, 0.8], [1.4, 0.6], [0.7, 0.5]])  # of word and topic
THETA = np.array([[0.9, 0.3], [0.5, 1.6], [1.3, 0.8]])
N_ALL = 10


def make_target(table=TABLE, *, alpha=ALPHA, beta=None, n_jobs=1, **options):
    counts = whole_counts(canonical_csr(np.asarray(table, float)), KEY)
    prior = TopicPrior(0.1 if beta is None else beta, len(alpha), counts.n_features)
    options = {"batch_size": None, "total_samples": counts.n_rows, "n_sweeps": 20, "n_burn_in": 10, **options}
    return MinibatchLDA(counts, alpha, prior, Workers(n_jobs), **options)


def make_tiny(**options):
    return make_target(beta=BETA.T, **{"total_samples": N_ALL, **options})


def answers(target, question, n_keys, theta=THETA, first=0):
    """What a method gives at `theta` for so many keys."""
    position = np.repeat(theta[np.newaxis], n_keys, axis=0)
    out = np.full_like(position, np.nan)
    getattr(target, question)(position, np.arange(first, first + n_keys, dtype=np.uint64) + KEY, out)
    return out


def enumerate_document(words, theta):
    """Log p(words | theta) and the expected counts of words and topics, over all topics of its tokens."""
    phi = theta / theta.sum(axis=0)
    states = np.array(list(itertools.product(range(2), repeat=len(words))))
    logs = np.empty(len(states))
    for i, state in enumerate(states):
        n = np.bincount(state, minlength=2)
        logs[i] = np.log(phi[words, state]).sum() + (gammaln(ALPHA + n) - gammaln(ALPHA)).sum()
    logs += gammaln(ALPHA.sum()) - gammaln(ALPHA.sum() + len(words))
    evidence = np.logaddexp.reduce(logs)
    counts = np.zeros_like(theta)
    for state, weight in zip(states, np.exp(logs - evidence), strict=True):
        np.add.at(counts, (words, state), weight)
    return evidence, counts


def documents():
    return [np.repeat(np.arange(3), row) for row in TABLE]


def exact_log_density(theta):
    likelihood = sum(enumerate_document(words, theta)[0] for words in documents())
    return N_ALL / 2 * likelihood + ((BETA - 1) * np.log(theta) - theta).sum()


def exact_counts():
    """Of the two documents, times N_ALL / 2."""
    return N_ALL / 2 * sum(enumerate_document(words, THETA)[1] for words in documents())


def exact_gradient():
    out = np.empty_like(THETA)
    for cell in np.ndindex(THETA.shape):
        shift = np.zeros_like(THETA)
        shift[cell] = 1e-5
        out[cell] = (exact_log_density(THETA + shift) - exact_log_density(THETA - shift)) / 2e-5
    return out


def largest_z(draws, expected):
    """The largest distance of the means from what is expected, in standard errors."""
    return np.abs((draws.mean(axis=0) - expected) / (draws.std(axis=0, ddof=1) / np.sqrt(len(draws)))).max()


# Gradient and counts


def test_the_gradient_is_that_of_the_enumerated_log_density():
    draws = answers(make_tiny(n_sweeps=200, n_burn_in=20), "grad_log_density", 300)
    exact = exact_gradient()
    assert largest_z(draws, exact) < 4.5
    # What a wrong gradient would differ by is seen.
    counts, n = exact_counts(), THETA.sum(axis=0)
    for wrong in (
        exact + counts.sum(axis=0) / n,  # without - n_k / theta_k
        exact - (1 - 2 / N_ALL) * (counts / THETA - counts.sum(axis=0) / n),  # without the scale
        exact + 1 / THETA,  # beta for beta - 1
        exact + 1,  # without - 1
    ):
        assert largest_z(draws, wrong) > 20


def test_expected_counts_are_the_prior_and_the_enumerated_ones():
    draws = answers(make_tiny(n_sweeps=200, n_burn_in=20), "expected_counts", 300)
    assert largest_z(draws, BETA + exact_counts()) < 4.5
    assert largest_z(draws, exact_counts()) > 20
    assert largest_z(draws, BETA + exact_counts() * 2 / N_ALL) > 20
    np.testing.assert_allclose((draws - BETA).sum(axis=(1, 2)), N_ALL / 2 * TABLE.sum())


@pytest.mark.parametrize("question", ["grad_log_density", "expected_counts"])
def test_minibatches_are_right_on_average(question):
    options = {"n_sweeps": 40, "n_burn_in": 10}
    parts = answers(make_tiny(batch_size=1, **options), question, 1500)
    exact = exact_gradient() if question == "grad_log_density" else BETA + exact_counts()
    assert largest_z(parts, exact) < 4.5
    assert parts.std(axis=0).max() > 2 * answers(make_tiny(**options), question, 100).std(axis=0).max()


def test_without_keys_all_documents_are_asked():
    target = make_tiny(batch_size=1)
    out = np.empty((1, 3, 2))
    target.expected_counts(THETA[np.newaxis], None, out)
    assert (out - BETA).sum() == pytest.approx(N_ALL / 2 * TABLE.sum())
    target.expected_counts(THETA[np.newaxis], np.array([KEY]), out)
    assert target.choose_batch(KEY).rows.shape == (1,)
    assert (out - BETA).sum() == pytest.approx(N_ALL * 3)  # the two documents are of one length


@pytest.mark.parametrize("question", ["grad_log_density", "expected_counts"])
def test_a_key_means_one_draw_and_chains_do_not_meet(question):
    target = make_target(small_corpus().toarray(), alpha=np.full(4, 0.3), batch_size=7)
    theta = np.random.default_rng(0).gamma(1.0, size=(40, 4)) + 0.01
    first = answers(target, question, 5, theta)
    np.testing.assert_array_equal(answers(target, question, 5, theta), first)
    np.testing.assert_array_equal(answers(target, question, 2, theta, first=3), first[3:])
    assert len({chain.tobytes() for chain in first}) == 5


# Minibatches


def test_documents_are_chosen_without_replacement_and_all_alike():
    target = make_target(np.eye(11), batch_size=4)
    seen = np.zeros(11)
    for key in range(2000):
        batch = target.choose_batch(np.uint64(key))
        assert len(batch.rows) == 4
        assert np.all(np.diff(batch.rows) > 0)
        np.testing.assert_array_equal(batch.words, batch.rows)
        assert batch.scale == pytest.approx(11 / 4 / 10)
        seen[batch.rows] += 1
    # Each count is binomial(2000, 4 / 11); they sum to 8000.
    z = (seen - 8000 / 11) / np.sqrt(2000 * 4 / 11 * 7 / 11)
    assert np.abs(z).max() < 4
    again = target.choose_batch(np.uint64(5)), target.choose_batch(np.uint64(5))
    np.testing.assert_array_equal(again[0].rows, again[1].rows)


@pytest.mark.parametrize("batch_size", [None, 11, 12, 1000])
def test_a_minibatch_of_all_documents_is_all_documents(batch_size):
    target = make_target(np.eye(11), batch_size=batch_size, total_samples=110)
    assert target.n_batches == 1
    batch = target.choose_batch(KEY)
    np.testing.assert_array_equal(batch.rows, np.arange(11))
    assert batch.scale == pytest.approx(10 / 10)


def test_minibatches_of_a_pass_see_each_document_once_on_average():
    assert [make_target(np.eye(11), batch_size=n).n_batches for n in (1, 2, 5, 10, 11)] == [11, 6, 3, 2, 1]


def test_the_counts_of_stored_topics_stay_those_of_the_topics():
    table = small_corpus().toarray().astype(int)
    target = make_target(table, alpha=np.full(4, 0.3), batch_size=9, n_sweeps=3, n_burn_in=1)
    row, word = np.repeat(np.array(np.nonzero(table)), table[np.nonzero(table)], axis=1)
    topics, counts = target.init_rows(KEY)
    running = counts.tocsr().toarray()
    log_weights = np.random.default_rng(0).normal(size=(40, 4))
    log_totals = np.log(np.exp(log_weights).sum(axis=0))
    n_changed = 0
    for step in range(40):
        batch = target.choose_batch(np.uint64(step))
        before = topics.copy()
        changes = target.recount_batch(batch, topics, log_weights[batch.words], log_totals, np.uint64(step))
        running[batch.words] += changes.tocsr().toarray()
        counted = np.zeros_like(running)
        np.add.at(counted, (word, topics), 1)
        np.testing.assert_array_equal(running, counted)
        np.testing.assert_array_equal(changes.totals, changes.tocsr().toarray().sum(axis=0))
        elsewhere = ~np.isin(row, batch.rows)
        np.testing.assert_array_equal(topics[elsewhere], before[elsewhere])
        n_changed += np.count_nonzero(topics != before)
    assert n_changed > 1000


# Samplers


def fit(sampler, X=None, **params):
    if sampler in ("sgrld", "sgrhmc"):  # below 1/2 they warn
        params.setdefault("topic_word_prior", 0.5)
    params = {"max_iter": 4, "thin": 1, "batch_size": 8, "random_state": 0, **params}
    return StochasticLDA(4, sampler=sampler, **params).fit(small_corpus() if X is None else X)


STORED = SCIR(control_variate="stored")
EACH = pytest.mark.parametrize("sampler", [*BY_MINIBATCHES, STORED, SCIR(lazy=False)], ids=str)


@EACH
def test_a_batch_size_beyond_the_corpus_means_all_of_it(sampler):
    whole = fit(sampler, batch_size=None)
    assert learned(fit(sampler, batch_size=10_000)) == learned(whole)
    assert learned(fit(sampler, batch_size=60)) == learned(whole)
    assert learned(fit(sampler, batch_size=50)) != learned(whole)


@pytest.mark.parametrize("batch_size", [10, None])
def test_each_topic_stays_a_distribution_where_the_prior_is_tiny(batch_size):
    X = np.random.default_rng(0).poisson(0.02, (40, 300))
    lda = fit(
        "scir", X, topic_word_prior=1e-4, max_iter=40, thin=4, batch_size=batch_size, n_chains=2, n_predictive_draws=3
    )
    for topics in (lda.components_, *lda.posterior_["components"].reshape(-1, 4, 300)):
        assert np.all(np.isfinite(topics))
        np.testing.assert_allclose(topics.sum(axis=1), 1, rtol=1e-4)
    assert np.all(lda.components_.max(axis=1) > 0)
    assert np.all(np.isfinite(lda.posterior_["topic_weights"]))
    assert np.all(np.isfinite(lda.log_density_trace_))
    assert np.all(lda.components_.sum(axis=0)[X.sum(axis=0) > 0] > 0)  # no word that is seen is impossible
    assert np.all(np.isfinite(lda.transform(X)))


@pytest.mark.parametrize("sampler", ["scir", "sgrld", "sghmc"])
@pytest.mark.parametrize("seed", range(2))
def test_minibatches_of_empty_documents_tell_nothing_and_do_no_harm(sampler, seed):
    X = np.zeros((10, 6))
    X[0] = [1, 2, 3, 0, 1, 2]  # five passes of two: some see no token
    lda = fit(sampler, X, batch_size=5, max_iter=10, burn_in=2, n_chains=2, random_state=seed)
    assert np.all(np.isfinite(lda.components_))
    assert np.all(np.isfinite(lda.posterior_["topic_weights"]))
    assert np.all(np.isfinite(lda.posterior_["components"]))


@pytest.mark.parametrize("sampler", ["scir", "sgld"])
def test_local_sweeps_that_are_all_burn_in_are_refused(sampler):
    lda = StochasticLDA(2, sampler=sampler, n_local_sweeps=5, n_local_burn_in=5)
    for method in (lda.fit, lda.partial_fit):
        with pytest.raises(ValueError, match=r"^n_local_burn_in=5 leaves none of n_local_sweeps=5 sweeps\.$"):
            method(small_corpus())
    assert vars(lda).keys() == lda.get_params(deep=False).keys()


# The warning


def told(act, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(*args)
    return caught


@pytest.mark.parametrize(("sampler", "name"), [("sgrld", "SGRLD"), ("sgrhmc", "SGRHMC")])
def test_small_priors_are_warned_of_once_a_fit_and_once_a_stream(sampler, name):
    def make():
        return StochasticLDA(3, sampler=sampler, max_iter=3, n_chains=2, n_jobs=2, random_state=0)

    X = small_corpus()
    fitted, stream = make(), make()
    (warning,) = told(fitted.fit, X)
    assert warning.category is UserWarning
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith(f"{name} does not draw from the posterior if topic_word_prior is below 1/2: ")
    assert re.findall(r"\.(?=\s|$)", text) == ["."]
    assert [str(w.message) for w in told(stream.partial_fit, X)] == [text]
    assert [told(stream.partial_fit, X), told(stream.partial_fit, X)] == [[], []]
    assert told(fitted.partial_fit, X) == []  # told by `fit`
    # A new fit is told again, whatever there was before.
    assert [str(w.message) for w in told(fitted.fit, X)] == [text]
    assert [str(w.message) for w in told(stream.fit, X)] == [text]
    other = StochasticLDA(3, sampler="scir", max_iter=3).fit(X).set_params(sampler=sampler)
    assert [str(w.message) for w in told(other.fit, X)] == [text]


@pytest.mark.parametrize("sampler", BY_MINIBATCHES)
def test_nothing_is_said_where_there_is_nothing_to_say(sampler):
    prior = 0.5 if sampler in ("sgrld", "sgrhmc") else 0.1
    lda = StochasticLDA(3, sampler=sampler, topic_word_prior=prior, max_iter=3, random_state=0)
    assert told(lda.fit, small_corpus()) == []
    assert told(lda.partial_fit, small_corpus()) == []


def test_one_word_of_a_small_prior_is_enough_for_a_warning():
    prior = np.full(40, 0.7)
    prior[3] = 0.49
    lda = StochasticLDA(3, sampler="sgrld", topic_word_prior=prior, max_iter=3, random_state=0)
    assert len(told(lda.fit, small_corpus())) == 1
