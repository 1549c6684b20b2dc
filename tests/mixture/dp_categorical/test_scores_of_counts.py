"""Rows of counts are scored by one convention, as their tokens in one given order, whatever the estimator."""

import numpy as np
import pytest
from scipy.special import gammaln

from skmanifold import DPCategoricalMixture, ExponentialFamilyMixture, StochasticLDA
from skmanifold.emissions import Multinomial

PRIOR = 0.5
X = np.random.default_rng(0).multinomial(40, [0.5, 0.3, 0.15, 0.05], 500).astype(float)
NEW = np.array([[3.0, 2, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 5, 5]])


def one_cluster():
    """Both estimators with a single component, of which the Dirichlet process leaves next to nothing for others."""
    family = ExponentialFamilyMixture(1, emission=Multinomial(PRIOR), sampler="em", random_state=0).fit(X)
    process = DPCategoricalMixture(category_prior=PRIOR, concentration=1e-12, init=1, max_iter=4, random_state=0).fit(X)
    assert process.n_components_posterior_.tolist() == [0.0, 1.0]
    return family, process


def test_scores_are_those_by_hand_without_multinomial_coefficients():
    family, process = one_cluster()
    counts = X.sum(axis=0) + PRIOR
    by_estimate = NEW @ np.log(counts / counts.sum())
    np.testing.assert_allclose(family.score_samples(NEW), by_estimate, rtol=1e-12)
    rising = gammaln(counts + NEW) - gammaln(counts)  # token after token, each added to the counts
    by_turns = rising.sum(axis=1) - gammaln(counts.sum() + NEW.sum(axis=1)) + gammaln(counts.sum())
    np.testing.assert_allclose(process.score_samples(NEW), by_turns, atol=1e-8)
    # What an estimate and the integral over it differ by is of the order of tokens squared per fitted token
    assert np.abs(by_turns - by_estimate).max() < 0.02
    assert family.score(NEW) == pytest.approx(process.score(NEW), abs=0.01)


def test_criteria_have_the_same_densities():
    family, _ = one_cluster()
    log_likelihood = family.score_samples(X).sum()
    assert family.bic(X) == pytest.approx(3 * np.log(len(X)) - 2 * log_likelihood)
    assert family.aic(X) == pytest.approx(2 * 3 - 2 * log_likelihood)
    assert family.log_density_trace_[0, -1] == pytest.approx(log_likelihood, rel=1e-6)


def test_a_row_is_as_probable_as_its_tokens_one_by_one():
    family, _ = one_cluster()
    tokens = np.repeat(np.eye(4), NEW[0].astype(int), axis=0)
    assert family.score_samples(NEW[:1])[0] == pytest.approx(family.score_samples(tokens).sum())
    lda = StochasticLDA(1, topic_word_prior=PRIOR, sampler="cvb0", max_iter=20, random_state=0).fit(X)
    of_token = family.score_samples(X).sum() / X.sum()  # the coefficients would make it higher by .98
    assert lda.score(X) == pytest.approx(of_token, abs=0.03)  # four standard errors of half the tokens, which it scores
