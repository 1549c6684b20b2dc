"""StochasticLDA's results: topics, proportions, scores and draws."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import StochasticLDA
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._posterior import inference
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import document_completion, match_topics
from skmanifold.random._keys import Purpose, root_key, subkey
from skmanifold.samplers import CVB0, ESCA, CollapsedGibbs, Gibbs
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from .._corpora import easy_corpus, small_corpus, small_fit

SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb")

# Topics


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_topics_are_the_smoothed_sparse_counts(sampler):
    lda = small_fit(sampler)
    counts = lda.topic_word_counts_
    assert isinstance(counts, sp.csr_array)
    assert counts.sum() == pytest.approx(small_corpus().sum())
    smoothed = counts.toarray() + 0.1
    np.testing.assert_allclose(lda.components_, smoothed / smoothed.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.extended
@pytest.mark.short_cases("esca", "cvb0")
@pytest.mark.parametrize("sampler", [*SAMPLERS, "svb"])
def test_true_topics_are_found(sampler):
    corpus = easy_corpus()
    priors = {"doc_topic_prior": 0.1, "topic_word_prior": 0.05}
    # A single chain may merge two topics for long; the best of four does not.
    lda = StochasticLDA(5, sampler=sampler, **priors, max_iter=40, n_chains=4, random_state=0)
    match = match_topics(corpus.components, lda.fit(corpus.data).components_, metric="total_variation")
    # About 28,800 tokens a topic: a word of probability p has the standard error sqrt(p / 28800), and half the sum of
    # the absolute errors of 150 words is at most 0.5 * 0.8 * sqrt(150 / 28800) = 0.03 if topics were known.
    assert match.similarity.min() > 1 - 2 * 0.03


def test_shapes_of_the_words_prior_agree():
    def fit(prior):
        lda = StochasticLDA(4, topic_word_prior=prior, max_iter=6, random_state=0).fit(small_corpus())
        return lda.components_

    by_word = np.linspace(0.1, 0.5, 40)
    by_topic = np.array([[0.1], [0.2], [0.3], [0.4]])
    np.testing.assert_array_equal(fit(0.3), fit(np.full(40, 0.3)))
    np.testing.assert_allclose(fit(0.3), fit(np.full((4, 1), 0.3)), rtol=1e-6)
    np.testing.assert_allclose(fit(by_word), fit(np.tile(by_word, (4, 1))), rtol=1e-6)
    np.testing.assert_allclose(fit(by_topic), fit(np.tile(by_topic, 40)), rtol=1e-6)
    # A word that is nowhere has its prior alone.
    ratio = fit(by_topic)[:, 5] * (small_fit().topic_word_counts_.sum() / 4)
    assert np.all(np.diff(ratio) > 0)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_uneven_prior_of_the_proportions_makes_its_topics_common(sampler):
    empty = sp.csr_array((1, 40), dtype=np.float64)
    prior = [4.0, 1.0, 0.5, 0.5]
    max_iter = 40 if sampler == "em" else 100  # EM converges before the end of a longer burn-in
    lda = StochasticLDA(4, sampler=sampler, doc_topic_prior=prior, max_iter=max_iter, random_state=0)
    lda.fit(small_corpus())
    np.testing.assert_allclose(lda.transform(empty), [np.divide(prior, 6)])
    assert lda.posterior_["topic_weights"].mean(axis=(0, 1)).argmax() == 0


# Proportions


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proportions_are_distributions_and_solve_their_equation(sampler):
    lda = small_fit(sampler)
    proportions = lda.transform(small_corpus())
    np.testing.assert_allclose(proportions.sum(axis=1), 1, rtol=1e-12)
    counts, topics, alpha = small_corpus().toarray(), lda.components_.astype(np.float64), 0.25
    lengths = counts.sum(axis=1, keepdims=True)
    expected = proportions * ((counts / (proportions @ topics)) @ topics.T)
    np.testing.assert_allclose(proportions, (expected + alpha) / (lengths + 4 * alpha), atol=1e-6)
    np.testing.assert_array_equal(lda.predict(small_corpus()), proportions.argmax(axis=1))


def test_inverse_transform_mixes_the_topics():
    lda = small_fit()
    proportions = lda.transform(small_corpus())
    words = lda.inverse_transform(proportions)
    np.testing.assert_allclose(words, proportions @ lda.components_.astype(np.float64), rtol=1e-6)
    np.testing.assert_array_equal(words[7:8], lda.inverse_transform(proportions[7:8]))


def test_components_refuses_beyond_its_memory_limit_and_nothing_else_needs_it(monkeypatch):
    lda = small_fit()
    expected = lda.transform(small_corpus()), lda.inverse_transform(np.eye(4)), lda.score(small_corpus())
    monkeypatch.setattr(inference, "_MAX_DENSE_BYTES", 4 * 4 * 40)
    assert lda.components_.shape == (4, 40)
    monkeypatch.setattr(inference, "_MAX_DENSE_BYTES", 4 * 4 * 40 - 1)
    with pytest.raises(AttributeError, match=r"components_ would need .* GiB, more than .*: use topic_word_counts_"):
        lda.components_  # noqa: B018
    assert not hasattr(lda, "components_")
    got = lda.transform(small_corpus()), lda.inverse_transform(np.eye(4)), lda.score(small_corpus())
    for left, right in zip(expected, got, strict=True):
        np.testing.assert_array_equal(left, right)


# Scores


def test_score_is_document_completion_per_token_and_perplexity_its_exponential():
    lda = small_fit()
    score = lda.score(small_corpus())
    assert lda.perplexity(small_corpus()) == np.exp(-score)
    # Another split, so equal within the error of the choice of tokens.
    other = document_completion(lda.components_, small_corpus(), np.full(4, 0.25), random_state=99)
    assert score == pytest.approx(other.log_likelihood, abs=4 * other.standard_error)
    assert lda.score(small_corpus(), np.zeros(60)) == score


@pytest.mark.long
def test_samplers_agree_held_out_at_convergence():
    corpus = make_lda_corpus(1000, 500, 10, mean_length=80, topic_word_prior=0.1, zipf_exponent=0.0, random_state=0)
    train, test = corpus.data[:500], corpus.data[500:]
    prior = np.full(10, 0.1)

    def held_out(sampler, max_iter):
        topics = [
            StochasticLDA(10, sampler=sampler, doc_topic_prior=0.1, max_iter=max_iter, random_state=seed).fit(train)
            for seed in range(3)
        ]
        return np.median([document_completion(lda.components_, test, prior).log_likelihood for lda in topics])

    truth = document_completion(corpus.components, test, prior).log_likelihood
    gibbs, esca, cvb0 = held_out(CollapsedGibbs(), 150), held_out(ESCA(), 400), held_out(CVB0(), 80)
    partially_collapsed = held_out(Gibbs(), 300)
    assert truth - 0.05 < gibbs < truth
    assert abs(esca - gibbs) < 0.02
    assert abs(cvb0 - gibbs) < 0.02
    assert abs(partially_collapsed - gibbs) < 0.02


# Draws


@pytest.mark.covering
@pytest.mark.parametrize("sampler", StochasticLDA._samplers)
@pytest.mark.parametrize(
    ("max_iter", "burn_in", "thin", "n_draws"),
    [(10, None, 5, 1), (10, 0, 3, 3), (7, 3, 1, 4), (6, 5, 1, 1), (6, 3, 9, 0)],
)
def test_draws_have_the_promised_shapes(sampler, max_iter, burn_in, thin, n_draws):
    prior = 0.5 if sampler in ("sgrld", "sgrhmc") else None  # below 1/2 they warn
    lda = StochasticLDA(3, sampler=sampler, topic_word_prior=prior, max_iter=max_iter, burn_in=burn_in, thin=thin)
    lda.set_params(n_chains=2, random_state=0).fit(small_corpus())
    log_densities = {"collapsed_gibbs": "log_joint", "vb": "objective", "svb": "objective"}
    log_density = log_densities.get(sampler, "log_likelihood")
    shapes = {name: draws.shape for name, draws in lda.posterior_.items()}
    assert shapes == {
        log_density: (2, n_draws),
        "topic_weights": (2, n_draws, 3),
        "components": (2, n_draws, 3, 40),
    }
    assert lda.log_density_trace_.shape == (2, max_iter)
    assert lda.n_iter_ == max_iter
    first = (max_iter // 2 if burn_in is None else burn_in) + thin - 1
    np.testing.assert_array_equal(lda.posterior_[log_density], lda.log_density_trace_[:, first::thin])
    np.testing.assert_allclose(lda.posterior_["topic_weights"].sum(axis=2), 1)
    np.testing.assert_allclose(lda.posterior_["components"].sum(axis=3), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("sampler", "n_passes"), [("esca", 400), (ESCA(), 400), ("collapsed_gibbs", 200), ("cvb0", 200)]
)
def test_default_number_of_passes(sampler, n_passes):
    assert StochasticLDA(3, sampler=sampler, random_state=0).fit(small_corpus()).n_iter_ == n_passes


def test_draws_of_whole_topics_are_thinned_to_fit_and_dropped_where_not_one_does():
    def draws(max_draws_bytes):
        lda = StochasticLDA(3, max_iter=20, thin=1, n_chains=2, max_draws_bytes=max_draws_bytes, random_state=0)
        return lda.fit(small_corpus()).posterior_

    one = 2 * 3 * 40 * 4  # of each chain: chains, topics, words, bytes
    whole = draws(10 * one)
    assert whole["components"].shape == (2, 10, 3, 40)
    for max_bytes, kept in (
        (10 * one - 1, [1, 3, 5, 7, 9]),
        (5 * one, [1, 3, 5, 7, 9]),
        (5 * one - 1, [0, 3, 6, 9]),
        (4 * one, [0, 3, 6, 9]),
        (2 * one, [4, 9]),
        (one, [9]),
    ):
        thinned = draws(max_bytes)
        assert thinned["components"].nbytes <= max_bytes
        np.testing.assert_array_equal(thinned["components"], whole["components"][:, kept])
        for name in ("log_likelihood", "topic_weights"):
            np.testing.assert_array_equal(thinned[name], whole[name])
    assert set(draws(one - 1)) == set(draws(0)) == {"log_likelihood", "topic_weights"}


@pytest.mark.parametrize(
    ("sampler", "n_last"),
    [(CollapsedGibbs(), 8), (Gibbs(), 8), (ESCA(n_average=3), 3), (ESCA(n_average=50), 8), (CVB0(), 1)],
)
def test_the_estimate_is_the_mean_of_the_last_passes_counts(sampler, n_last):
    lda = StochasticLDA(4, sampler=sampler, max_iter=12, burn_in=4, thin=1, doc_topic_prior=0.5, random_state=0).fit(
        small_corpus()
    )
    counts = whole_counts(canonical_csr(small_corpus()), np.uint64(0))
    model = LDAModel(counts, np.full(4, 0.5), TopicPrior(0.1, 4, 40), Workers(1))
    state = sampler.init(model, subkey(root_key(0), Purpose.CHAIN, 0))
    passes = []
    for _ in range(12):
        state = sampler.step(model, state)
        passes.append(state.statistics.tocsr().toarray().T)
    expected = np.mean(passes[-n_last:], axis=0)
    np.testing.assert_allclose(lda.topic_word_counts_.toarray(), expected, rtol=1e-6)
    assert np.abs(np.mean(passes[-n_last - 1 :], axis=0) - expected).max() > 1e-3  # one pass more would not do
    totals = np.sum(passes[4:], axis=2)
    np.testing.assert_allclose(lda.posterior_["topic_weights"][0], totals / totals.sum(axis=1, keepdims=True))


def test_the_chain_of_highest_log_density_gives_the_estimate():
    together = StochasticLDA(4, sampler=CollapsedGibbs(), max_iter=10, thin=1, n_chains=4, random_state=6)
    together.fit(small_corpus())
    best = together.log_density_trace_[:, 5:].mean(axis=1).argmax()
    assert best != 0  # else the test would not tell
    draws = together.posterior_["topic_weights"][best] * small_corpus().sum()
    np.testing.assert_allclose(together.topic_word_counts_.sum(axis=1), draws.mean(axis=0))
    assert len(np.unique(together.log_density_trace_)) == together.log_density_trace_.size
