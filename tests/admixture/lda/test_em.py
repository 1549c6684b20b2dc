"""EM: the update against the formulas, the objective that never decreases, and the fit of `StochasticLDA`."""

import numpy as np
import pytest

from skmanifold import StochasticLDA
from skmanifold.admixture._lda.expectation import ExpectationLDA, ExpectedCounts
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.samplers import EM
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from .._corpora import easy_corpus, small_corpus

KEY = np.uint64(7)
TABLE = np.array([[2, 1, 0], [0, 1, 2], [0, 0, 0]])  # the last document is empty
ALPHA = np.array([0.3, 1.4])
BETAS = {
    "number": 0.5,
    "by word": np.array([0.2, 0.7, 1.5]),
    "by topic": np.array([[0.4], [2.0]]),
    "matrix": np.array([[0.2, 0.7, 1.5], [1.1, 0.3, 0.05]]),
}


def model_of(table=TABLE, alpha=ALPHA, beta=0.5, n_jobs=1, kind=ExpectationLDA):
    counts = whole_counts(canonical_csr(np.asarray(table, float)), KEY)
    workers = Workers(n_jobs)
    return kind(counts, np.asarray(alpha, float), TopicPrior(beta, len(alpha), counts.n_features), workers)


class WithMinusOne(ExpectationLDA):
    """The mode of the proportions and topics themselves, as the paper has it."""

    def mode(self, statistics):
        less = [np.maximum(part - 1.0, 1e-9) for part in statistics[:2]]
        return super().mode(ExpectedCounts(*less, less[1].sum(axis=0)))


def objective(model, position, beta):
    """Log likelihood plus log prior in the natural parameters."""
    proportions, topics = position
    tables = model.counts
    X = np.zeros((tables.n_rows, tables.n_features))
    X[np.repeat(np.arange(tables.n_rows), np.diff(tables.indptr)), tables.indices] = tables.counts
    prior = (model.doc_topic_prior * np.log(proportions)).sum() + (
        np.broadcast_to(beta, topics.T.shape) * np.log(topics.T)
    ).sum()
    return (X * np.log(proportions @ topics.T)).sum() + prior


def by_the_formulas(X, alpha, beta, D, W, n_passes):
    """The expected counts after some passes."""
    for _ in range(n_passes):
        theta = (D + alpha) / (X.sum(axis=1, keepdims=True) + alpha.sum())
        phi = (W + beta) / (W + beta).sum(axis=1, keepdims=True)
        r = theta[:, :, None] * phi
        r /= r.sum(axis=1, keepdims=True)
        D, W = (X[:, None] * r).sum(axis=2), (X[:, None] * r).sum(axis=0)
    return D, W


@pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)
def test_passes_are_those_of_the_formulas(beta):
    model = model_of(beta=beta)
    state = EM().init(model, KEY)
    begin = state.statistics
    for _ in range(3):
        state = EM().step(model, state)
    D, W = by_the_formulas(TABLE, ALPHA, np.broadcast_to(beta, (2, 3)), begin.doc_topic, begin.word_topic.T, 3)
    np.testing.assert_allclose(state.statistics.doc_topic, D, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(state.statistics.word_topic.T, W, rtol=1e-12)
    np.testing.assert_allclose(state.statistics.totals, W.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(state.position.toarray().sum(axis=1), 1.0, rtol=1e-6)


def decreases(kind, beta, table, alpha, n_passes=60):
    """Whether the objective decreases in some pass; also checks the log likelihood and the gain."""
    model = model_of(table, alpha, beta, kind=kind)
    state = EM().init(model, KEY)
    before, found = objective(model, state.position, beta), False
    for _ in range(n_passes):
        old = state.position
        state = EM().step(model, state)
        after = objective(model, state.position, beta)
        found |= after < before - 1e-9 * abs(before)
        if kind is ExpectationLDA:
            assert after - before >= state.gain * model.n_rows - 1e-9 * abs(before)
            with np.errstate(divide="ignore"):
                words = objective(model, old, beta) - objective(model_of(0 * table, alpha, beta), old, beta)
            assert state.log_density == pytest.approx(words, rel=1e-12)
        before = after
    return found


@pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)
def test_no_pass_decreases_the_objective(beta):
    assert not decreases(ExpectationLDA, beta, TABLE, ALPHA)


def test_the_mode_of_the_probabilities_does_not_increase_this_objective():
    table = small_corpus().toarray()
    assert not decreases(ExpectationLDA, 0.5, table, np.full(4, 0.5))
    assert decreases(WithMinusOne, 0.5, table, np.full(4, 0.5))


def test_priors_less_one_give_equation_17_of_the_paper():
    """The mode of the proportions and topics themselves under Dir(a), Dir(b) is the M step with a - 1 and b - 1."""
    a, b = np.array([1.3, 2.4]), 1.5
    model = model_of(alpha=a - 1, beta=b - 1)
    rng = np.random.default_rng(0)
    D, W = TABLE.sum(axis=1, keepdims=True) * rng.dirichlet([1, 1], 3), rng.uniform(0.5, 3, (3, 2))
    theta, phi = model.mode(ExpectedCounts(D, W, W.sum(axis=0)))
    np.testing.assert_allclose(theta, (D + a - 1) / (D.sum(axis=1, keepdims=True) + a.sum() - 2))
    np.testing.assert_allclose(phi, (W + b - 1) / (W.sum(axis=0) + 3 * b - 3))
    for kept, counts, prior in ((theta, D, a), (phi.T, W.T, b)):  # no move on the simplex increases the log posterior
        other = kept * np.exp(rng.normal(scale=0.01, size=(50, *kept.shape)))
        other /= other.sum(axis=-1, keepdims=True)
        log_posterior = [np.sum((counts + prior - 1) * np.log(each)) for each in (kept, *other)]
        assert np.argmax(log_posterior) == 0


def test_one_topic_and_one_word():
    one = model_of(alpha=[0.4])
    state = EM().step(one, EM().init(one, KEY))
    np.testing.assert_allclose(state.position.toarray()[0], (TABLE.sum(axis=0) + 0.5) / 7.5, rtol=1e-6)
    np.testing.assert_array_equal(state.position.doc_topic, 1.0)
    word = model_of([[3], [1]])
    state = EM().step(word, EM().init(word, KEY))
    assert state.log_density == pytest.approx(0.0, abs=1e-12)


def test_probabilities_that_underflow():
    model = model_of(alpha=[1e-290, 1e-290], beta=1e-290)
    state = EM().init(model, KEY)
    for _ in range(200):
        state = EM().step(model, state)
    assert np.isfinite(state.log_density)
    assert np.isfinite(state.position.doc_topic).all()


def test_the_tolerance_ends_the_fit():
    corpus = easy_corpus()
    lda = StochasticLDA(5, sampler="em", max_iter=400, random_state=0).fit(corpus.data)
    assert lda.n_iter_ < 400
    assert StochasticLDA(5, sampler=EM(tol=0.1), random_state=0, max_iter=400).fit(corpus.data).n_iter_ < lda.n_iter_
    np.testing.assert_allclose(lda.topic_word_counts_.sum(), corpus.data.sum(), rtol=1e-6)
    np.testing.assert_allclose(lda.components_.sum(axis=1), 1.0, rtol=1e-5)


def test_learned_priors_are_refused():
    with pytest.raises(
        ValueError, match=r"^'auto' priors need a sampler of the tokens' topics, such as 'esca', not 'em'\.$"
    ):
        StochasticLDA(sampler="em", doc_topic_prior="auto").fit(small_corpus())
