"""Larger priors of the proportions in burn-in, which `doc_topic_prior=None` has."""

from types import SimpleNamespace

import numpy as np
import pytest

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.admixture._lda.fit_strategies import TopicFit
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.fits import BurnInPrior
from skmanifold.inference._schedule import Schedule
from skmanifold.samplers import ESCA

from .._corpora import small_corpus, spy_on_priors

DRAW_TOPICS = ("esca", "gibbs", "collapsed_gibbs")
SETTINGS = {"n_components": 4, "max_iter": 20, "burn_in": 10, "random_state": 0}


def priors_of_passes(monkeypatch, **settings):
    """The prior of the proportions in each pass of a fit, as the samplers see it."""
    names = ("sample_given_others", "sample_rows", "sweep_assignments", "update_responsibilities")
    seen = spy_on_priors(monkeypatch, LDAModel, names)
    lda = StochasticLDA(**{**SETTINGS, **settings}).fit(small_corpus())
    return np.array(seen), lda


@pytest.mark.parametrize("sampler", DRAW_TOPICS)
def test_the_sum_falls_from_a_quarter_of_the_mean_length_to_1_in_the_first_passes_of_burn_in(sampler, monkeypatch):
    seen, lda = priors_of_passes(monkeypatch, sampler=sampler)
    X = small_corpus()
    expected = (X.sum() / X.shape[0] / 4) ** np.maximum(0.0, 1.0 - np.arange(20) / 8)
    np.testing.assert_allclose(seen, np.repeat(expected[:, np.newaxis] / 4, 4, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(lda.doc_topic_prior_, 0.25)


@pytest.mark.parametrize(
    "settings",
    [
        {"doc_topic_prior": 0.25},
        {"doc_topic_prior": [0.25] * 4},
        {"burn_in": 0},
        {"burn_in": 1},
        {"sampler": "cvb0"},
    ],
    ids=["number", "array", "no burn-in", "one pass", "cvb0"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of few passes
def test_other_fits_have_one_prior(settings, monkeypatch):
    seen, _ = priors_of_passes(monkeypatch, **settings)
    np.testing.assert_array_equal(seen, np.full((20, 4), 0.25))


def test_a_learned_prior_of_words_is_learned_with_it(monkeypatch):
    seen, lda = priors_of_passes(monkeypatch, topic_word_prior="auto")
    assert seen[0].sum() > 1.0
    assert lda.topic_word_prior_ != 0.1
    np.testing.assert_array_equal(lda.doc_topic_prior_, 0.25)


def test_a_tolerance_waits_for_the_last_prior():
    settings = {"sampler": ESCA(n_average=5, tol=1e3), "max_iter": 120, "burn_in": 90, "random_state": 0}
    given, default = (StochasticLDA(4, doc_topic_prior=prior, **settings) for prior in (0.25, None))
    assert given.fit(small_corpus()).n_iter_ == 14 + 5
    assert default.fit(small_corpus()).n_iter_ == 72 + 14 + 5


def test_a_fit_that_is_stopped_in_burn_in_has_the_given_prior(monkeypatch):
    estimates = []
    estimate = TopicFit.estimate
    monkeypatch.setattr(
        TopicFit, "estimate", lambda self, chains: estimates.append(estimate(self, chains)) or estimates[-1]
    )
    monitor = HeldOutMonitor(small_corpus(), every=1)  # asks for an estimate after each pass
    StochasticLDA(**SETTINGS).set_callbacks(monitor).fit(small_corpus())
    assert len(estimates) >= 20
    for fitted in estimates:
        np.testing.assert_array_equal(fitted["doc_topic_prior_"], 0.25)


@pytest.mark.parametrize(("length", "expected"), [(2, 1.0), (40, 10.0), (400, 50.0)])
def test_the_first_sum_depends_on_the_length_of_documents(length, expected):
    run = SimpleNamespace(sampler=ESCA(), schedule=Schedule(20, 10, 1))
    prior = BurnInPrior(StochasticLDA(5), run)
    first = prior.at(0, SimpleNamespace(n_tokens=30 * length, n_rows=30))
    np.testing.assert_allclose(first, np.full(5, expected / 5))
