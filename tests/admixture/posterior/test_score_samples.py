"""Held-out log likelihoods of single rows agree with the score of all."""

import numpy as np
import pytest

from skmanifold import ExponentialFamilyAdmixture, StochasticLDA

from .._corpora import small_corpus


def n_scored(X):
    n = np.asarray(X.sum(axis=1)).ravel()
    return np.where(n >= 2, n - n // 2, 0)


@pytest.mark.parametrize("sampler", ["esca", "gibbs", "scir"])
def test_scores_of_documents_sum_to_the_score(sampler):
    X = small_corpus()
    lda = StochasticLDA(3, sampler=sampler, max_iter=6, thin=1, random_state=0).fit(X)
    scores = lda.score_samples(X)
    assert scores.shape == (60,)
    assert scores[2] == 0  # has no tokens
    assert np.all(np.delete(scores, 2) < 0)
    assert scores.sum() / n_scored(X).sum() == pytest.approx(lda.score(X), rel=1e-12)
    rows = [40, 3, 2, 3]
    np.testing.assert_array_equal(lda.score_samples(X[rows]), scores[rows])
    np.testing.assert_array_equal(lda.score_samples(X[2:3]), [0])  # nothing to score is no error


@pytest.mark.covering
@pytest.mark.parametrize("emission", ["multinomial", "poisson", "bernoulli", "gaussian"])
@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
def test_scores_of_rows_of_an_exponential_family_sum_to_the_score(emission, sampler):
    X = small_corpus().toarray()
    options = {"word_vectors": np.random.default_rng(0).normal(size=(40, 3))} if emission == "gaussian" else {}
    if emission == "bernoulli":
        X = (X > 0).astype(float)
        X[5, :7] = np.nan
    model = ExponentialFamilyAdmixture(3, emission=emission, sampler=sampler, max_iter=6, random_state=0, **options)
    scores = model.fit(X).score_samples(X)
    if emission == "bernoulli":
        n = np.isfinite(X).sum(axis=1)
        scored = (n - n // 2).sum()
    else:
        scored = n_scored(X).sum()
    assert scores.sum() / scored == pytest.approx(model.score(X), rel=1e-12)
    np.testing.assert_array_equal(model.score_samples(X[[7, 5]]), scores[[7, 5]])
