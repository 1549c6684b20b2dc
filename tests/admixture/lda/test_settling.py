"""`tol` ends fits that have settled, and one warning tells of a fit whose log density still rises."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skmanifold import StochasticLDA, distributed
from skmanifold.admixture._lda.fit_strategies import warn_if_rising
from skmanifold.datasets import make_lda_corpus

X = make_lda_corpus(n_samples=150, n_features=60, n_components=4, mean_length=50, random_state=0).data
N_TOKENS = X.sum()
MANY_TOPICS = make_lda_corpus(n_samples=200, n_features=200, n_components=20, mean_length=50, random_state=0).data


def fit(**settings):
    settings = {"random_state": 0, "doc_topic_prior": 0.2, **settings}
    return StochasticLDA(4, **settings).fit(X)


def first_settled(traces, tol):
    """The first pass whose last seven have a mean that is at most `tol` per token above that of the seven before."""
    for n in range(14, traces.shape[1] + 1):
        if np.all(traces[:, n - 7 : n].mean(axis=1) - traces[:, n - 14 : n - 7].mean(axis=1) < tol * N_TOKENS):
            return n
    return None


@pytest.mark.parametrize("sampler", ["esca", "cvb0"])
@pytest.mark.parametrize("n_chains", [1, 2])
def test_fit_ends_after_the_passes_that_are_averaged(sampler, n_chains):
    fitted = fit(sampler=sampler, tol=1e-3, n_chains=n_chains, max_iter=400)
    n_averaged = 50 if sampler == "esca" else 1
    settled = first_settled(fit(sampler=sampler, n_chains=n_chains).log_density_trace_, 1e-3)
    assert settled < 100
    assert fitted.n_iter_ == settled + max(n_averaged, 2)  # a draw needs two passes
    same = fit(sampler=sampler, n_chains=n_chains, max_iter=fitted.n_iter_, burn_in=settled)
    assert np.array_equal(fitted.components_, same.components_)
    assert np.array_equal(fitted.posterior_["topic_weights"], same.posterior_["topic_weights"])


def test_passes_with_larger_priors_are_not_compared_and_at_most_80():
    fitted = fit(doc_topic_prior=None, tol=0.1, max_iter=1000)
    assert fitted.n_iter_ == 80 + 14 + 50
    shorter = fit(doc_topic_prior=None, tol=0.1, max_iter=100)
    assert shorter.n_iter_ == 100  # after 40 passes: burn-in ends before 14 more


def test_same_end_in_shards_and_with_threads():
    expected = fit(tol=1e-3)
    with distributed(None):
        in_shards = fit(tol=1e-3)
    for other in (in_shards, fit(tol=1e-3, n_jobs=2)):
        assert np.array_equal(other.log_density_trace_, expected.log_density_trace_)
        assert np.array_equal(other.components_, expected.components_)


@pytest.mark.parametrize("sampler", ["gibbs", "collapsed_gibbs", "scir"])
def test_samplers_that_draw_refuse_a_tolerance(sampler):
    with pytest.raises(
        ValueError, match=r"tol=0.001 ends the fit of an estimate, but .* use tol=None, or one of 'esca'"
    ):
        fit(sampler=sampler, tol=1e-3)


def test_a_tolerance_needs_burn_in():
    with pytest.raises(ValueError, match=r"tol=0.001 ends burn-in early, but burn_in is 0"):
        fit(tol=1e-3, burn_in=0)
    with pytest.raises(ValueError, match="The 'tol' parameter"):
        fit(tol=-1.0)


def test_one_warning_if_the_log_likelihood_still_rises():
    with pytest.warns(
        ConvergenceWarning, match=r"The log likelihood still rises by .* increase max_iter \(now 28\)"
    ) as seen:
        StochasticLDA(20, doc_topic_prior=0.05, max_iter=28, n_chains=3, random_state=0).fit(MANY_TOPICS)
    assert len(seen) == 1
    assert seen[0].filename == __file__


def trace_of(slope, deviation, n=60, correlation=0.9):
    rng = np.random.default_rng(0)
    noise = np.zeros(n)
    for i in range(1, n):
        noise[i] = correlation * noise[i - 1] + rng.normal()
    return slope * np.arange(n) + deviation * noise


@pytest.mark.parametrize(
    ("slope", "deviation", "n", "warns"),
    [
        (1.0, 0.0, 60, True),
        (1.0, 0.5, 60, True),
        (0.7, 0.0, 60, False),  # 0.0049 per token
        (1.0, 3.0, 60, False),  # noise
        (0.0, 3.0, 60, False),
        (-1.0, 0.0, 60, False),
        (1.0, 0.0, 14, True),
        (1.0, 0.0, 13, False),  # too few passes
    ],
)
def test_a_rise_must_be_large_and_above_noise(slope, deviation, n, warns):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_if_rising("log likelihood", trace_of(slope, deviation, n), 1000, 100)
    assert len(seen) == warns
