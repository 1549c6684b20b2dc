"""Mean-field inference: the bound and its updates against plain numpy and scikit-learn, and fits of `StochasticLDA`."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from sklearn.decomposition import LatentDirichletAllocation

from skmanifold import StochasticLDA
from skmanifold.admixture._lda.mean_field import MeanFieldLDA, TopicFactors
from skmanifold.datasets import make_lda_corpus
from skmanifold.numerics.special import N_WORK, fill_log_gamma
from skmanifold.samplers import MeanField, StochasticMeanField

from .. import _tiny_corpus as tiny
from .._corpora import easy_split, small_corpus
from .test_em import ALPHA, BETAS, KEY, TABLE, model_of

TINY = np.array([[2, 1, 0], [0, 1, 2]])


def mean_field(table=TABLE, alpha=ALPHA, beta=0.5, **settings):
    return model_of(table, alpha, beta, kind=lambda *arguments: MeanFieldLDA(*arguments, **settings))


def shapes_of(factors):
    """Dirichlet parameters of the topics, (K, V)."""
    return factors.word_topic.T + np.broadcast_to(factors.prior.values, factors.word_topic.T.shape)


def expected_logs(shapes):
    return digamma(shapes) - digamma(shapes.sum(axis=1, keepdims=True))


def divergence(shapes, prior):
    prior = np.broadcast_to(prior, shapes.shape)
    constants = (
        gammaln(shapes.sum(axis=1)) - gammaln(prior.sum(axis=1)) + (gammaln(prior) - gammaln(shapes)).sum(axis=1)
    )
    return (constants + ((shapes - prior) * expected_logs(shapes)).sum(axis=1)).sum()


def bound(X, alpha, beta, gamma, lam, scale=1.0):
    """The lower bound of the evidence."""
    words = (X * np.log(np.exp(expected_logs(gamma)) @ np.exp(expected_logs(lam)))).sum()
    return scale * (words - divergence(gamma, alpha)) - divergence(lam, beta)


def by_the_formulas(X, alpha, gamma, lam):
    """The counts D and W for the best responsibilities."""
    r = np.exp(expected_logs(gamma)[:, :, None] + expected_logs(lam))
    r /= r.sum(axis=1, keepdims=True)
    return (X[:, None] * r).sum(axis=2), (X[:, None] * r).sum(axis=0)


def run(model, n_passes, sampler=None):
    sampler = sampler or MeanField(n_document_steps=3)
    state = sampler.init(model, KEY)
    states = [state]
    for _ in range(n_passes):
        state = sampler.step(model, state)
        states.append(state)
    return states


@pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)
@pytest.mark.parametrize("scale", [1, 4])
def test_the_objective_is_the_bound_and_no_pass_decreases_it(beta, scale):
    states = run(mean_field(beta=beta, total_samples=3 * scale), 40)
    objectives = [state.log_density for state in states]
    direct = [bound(TABLE, ALPHA, beta, s.latents.shapes, shapes_of(s.position), scale) for s in states]
    np.testing.assert_allclose(objectives, direct, rtol=1e-12)
    assert np.diff(objectives).min() > -1e-11
    assert [state.rate for state in states] == [1.0] * 41


@pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_a_step_is_that_of_the_formulas(beta, rate):
    model = mean_field(beta=beta, total_samples=6)
    factors, rows = model.init_factors(KEY)
    gamma, lam = rows.shapes, shapes_of(factors)
    for _ in range(4):
        before = bound(TABLE, ALPHA, beta, gamma, lam, 2.0)
        D, W = by_the_formulas(TABLE, ALPHA, gamma, lam)
        gamma = ALPHA + D
    rows, pull = model.fit_rows(rows, 4, 0.0)
    np.testing.assert_allclose(rows.shapes, gamma, rtol=1e-12)
    assert 2.0 * pull.objective + model.topic_objective(factors) == pytest.approx(before, rel=1e-12)
    moved = model.move_topics(factors, pull, rate, 2.0)
    np.testing.assert_allclose(shapes_of(moved), (1.0 - rate) * lam + rate * (beta + 2.0 * W), rtol=1e-12)
    np.testing.assert_allclose(moved.totals, moved.word_topic.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moved.toarray(), shapes_of(moved) / shapes_of(moved).sum(axis=1)[:, None], rtol=1e-6)


def test_documents_that_start_again_in_the_first_passes_find_a_better_optimum():
    """Documents that continue from the random topics of the start keep few of them."""
    corpus = make_lda_corpus(300, 60, 4, mean_length=40, topic_word_prior=0.05, zipf_exponent=0.0, random_state=0)
    model = mean_field(corpus.data.toarray(), np.full(4, 0.1), 0.05)
    without, some = (
        np.array([state.log_density for state in run(model, 20, MeanField(10, n_restarts=n))]) for n in (0, 10)
    )
    assert np.diff(without).min() > 0
    assert np.diff(some[11:]).min() > 0
    assert some[-1] > without[-1] + 0.02 * corpus.data.sum()


def test_the_bound_is_below_the_evidence_and_a_fixed_point_is_stationary():
    state = run(mean_field(TINY, [0.5, 0.5]), 400)[-1]
    assert -10.0 < state.log_density < tiny.LOG_EVIDENCE
    gamma, lam = state.latents.shapes, shapes_of(state.position)
    D, W = by_the_formulas(TINY, 0.5, gamma, lam)
    np.testing.assert_allclose(gamma, 0.5 + D, rtol=1e-8)
    np.testing.assert_allclose(lam, 0.5 + W, rtol=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = bound(TINY, 0.5, 0.5, *(part * np.exp(1e-2 * rng.standard_normal(part.shape)) for part in (gamma, lam)))
        assert near < state.log_density


def test_the_bound_of_one_topic_is_the_evidence():
    alpha, beta = np.array([0.7]), np.array([0.2, 0.7, 1.5])
    state = run(mean_field(alpha=alpha, beta=beta), 1)[-1]
    words = TABLE.sum(axis=0)
    evidence = gammaln(beta.sum()) - gammaln(beta.sum() + words.sum()) + (gammaln(beta + words) - gammaln(beta)).sum()
    assert state.log_density == pytest.approx(evidence, rel=1e-13)


@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_a_batch_update_and_the_bound_are_those_of_scikit_learn(beta):
    X, K = small_corpus(), 4
    alpha = 0.3
    lam = np.random.default_rng(1).gamma(2.0, 1.0, (K, X.shape[1])) + beta
    peer = LatentDirichletAllocation(
        K, doc_topic_prior=alpha, topic_word_prior=beta, max_doc_update_iter=2000, mean_change_tol=1e-12, random_state=0
    )
    peer._init_latent_vars(X.shape[1])
    peer.components_, peer.exp_dirichlet_component_ = lam, np.exp(expected_logs(lam))
    gamma, sums = peer._e_step(X.astype(float), cal_sstats=True, random_init=False)

    model = mean_field(X.toarray(), np.full(K, alpha), beta)
    factors = TopicFactors((lam - beta).T.copy(), (lam - beta).sum(axis=1), model.topic_prior)
    rows, pull = model.fit_rows(model.init_rows(factors), 2000, 1e-14)
    np.testing.assert_allclose(rows.shapes, gamma, rtol=1e-5)
    np.testing.assert_allclose(shapes_of(model.move_topics(factors, pull, 1.0, 1.0)), beta + sums, rtol=1e-5)

    rows = model.refresh_rows(factors, rows)
    theirs = peer._approx_bound(X.astype(float), rows.shapes, sub_sampling=False)
    assert model.objective(factors, rows, 1.0) == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize("sampler", ["vb", "svb"])
def test_extreme_priors(sampler):
    X = small_corpus()
    for alpha, beta in ((1e-4, 1e-4), (1e-12, 1e-12), (1e4, 1e4)):
        settings = {"doc_topic_prior": alpha, "topic_word_prior": beta, "max_iter": 20, "random_state": 0}
        lda = StochasticLDA(3, sampler=sampler, **settings).fit(X)
        assert np.isfinite(lda.log_density_trace_).all()
        np.testing.assert_allclose(lda.topic_word_counts_.sum(), X.sum(), rtol=0.1 if sampler == "svb" else 1e-6)


def test_log_gamma_and_digamma():
    x = np.concatenate((10.0 ** np.linspace(-290, 29, 1001), np.linspace(0.01, 20.0, 500)))
    values, slopes = np.empty_like(x), np.empty_like(x)
    fill_log_gamma(len(x), x, np.empty((N_WORK, len(x))), values, slopes)
    np.testing.assert_allclose(values, gammaln(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(slopes, digamma(x), rtol=1e-13, atol=1e-13)


# Minibatches


def test_one_minibatch_of_all_documents_with_rate_1_is_a_pass_of_vb():
    model = mean_field(small_corpus().toarray(), np.full(4, 0.3), 0.2)
    batch = run(model, 3, MeanField(4, tol=0.0))[-1]
    online = run(model, 3, StochasticMeanField(4, tol=0.0, learning_decay=0.0))[-1]
    np.testing.assert_array_equal(online.position.word_topic, batch.position.word_topic)
    assert online.log_density == batch.log_density


def test_minibatches_have_each_document_once_and_represent_all():
    X = small_corpus().toarray()
    model = mean_field(X, np.full(4, 0.3), 0.2, batch_size=7)
    batches = model.choose_batches(KEY)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(60))
    factors, rows = model.init_factors(KEY)
    words = np.zeros(40)
    for chosen in batches:
        batch = model.batch(chosen)
        assert batch.scale == 60 / len(chosen)
        _, pull = batch.fit_rows(batch.refresh_rows(factors, rows.take(chosen)), 3, 0.0)
        moved = batch.move_topics(factors, pull, 1.0, 1.0)
        np.testing.assert_allclose(moved.word_topic.sum(axis=1), X[chosen].sum(axis=0), rtol=1e-12, atol=1e-12)
        words += moved.word_topic.sum(axis=1)
    np.testing.assert_allclose(words, X.sum(axis=0))


def test_a_stream_is_that_of_the_formulas():
    X = small_corpus()
    lda = StochasticLDA(4, sampler=StochasticMeanField(300, tol=0.0), total_samples=600, random_state=0)
    lda.partial_fit(X[:30])
    lam = lda.topic_word_counts_.toarray() + 0.1
    lda.partial_fit(X[30:])
    gamma = 0.25 + np.repeat(X[30:].sum(axis=1)[:, None] / 4, 4, axis=1)
    for _ in range(300):
        D, W = by_the_formulas(X[30:].toarray(), 0.25, gamma, lam)
        gamma = 0.25 + D
    rate = 12.0**-0.7
    expected = (1.0 - rate) * lam + rate * (0.1 + 20.0 * W)
    np.testing.assert_allclose(lda.topic_word_counts_.toarray() + 0.1, expected, rtol=1e-6)
    assert lda.n_batch_iter_ == 2


def test_a_stream_continues_fits_by_other_samplers_and_they_continue_it():
    train, test = easy_split()
    lda = StochasticLDA(5, sampler="esca", max_iter=60, total_samples=2000, random_state=0).fit(train)
    before = lda.score(test)
    lda.set_params(sampler="svb").partial_fit(train[:500])
    assert lda.score(test) == pytest.approx(before, abs=0.02)
    lda.set_params(sampler="esca").partial_fit(train[500:1000])
    assert lda.score(test) == pytest.approx(before, abs=0.03)


# Fits


def test_only_minibatches_use_batch_size():
    X = small_corpus()
    sizes = [
        StochasticLDA(3, sampler="svb", batch_size=n, max_iter=4, random_state=0).fit(X).components_ for n in (10, 60)
    ]
    assert not np.array_equal(*sizes)
