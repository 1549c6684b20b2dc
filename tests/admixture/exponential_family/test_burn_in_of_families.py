"""Larger priors of the proportions in burn-in: `doc_topic_prior=None`, if initial components are random."""

import numpy as np
import pytest

from skmanifold import ExponentialFamilyAdmixture, HeldOutMonitor, StochasticLDA, distributed
from skmanifold.admixture._exponential_family.model import FamilyTokenModel
from skmanifold.admixture._tokens.fits import TokenFit
from skmanifold.emissions import Poisson
from skmanifold.samplers import ESCA, CollapsedGibbs

from .._corpora import small_corpus
from ._family_data import EMISSIONS, learned, make, small_rows

SAMPLERS = ("esca", "gibbs")


def priors_of_passes(monkeypatch, emission, **settings):
    """The prior of the proportions in each pass of a fit, as the samplers see it."""
    seen = []
    for name in ("sample_latents", "sample_rows"):
        method = getattr(FamilyTokenModel, name)

        def spy(self, *arguments, method=method):
            seen.append(self.doc_topic_prior.copy())
            return method(self, *arguments)

        monkeypatch.setattr(FamilyTokenModel, name, spy)
    model = make(emission, **{"max_iter": 20, "burn_in": 10, **settings}).fit(small_rows(emission))
    return np.array(seen), model


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_sum_falls_from_a_quarter_of_the_mean_length_to_1(sampler, monkeypatch):
    seen, model = priors_of_passes(monkeypatch, "bernoulli", sampler=sampler)
    X = small_rows("bernoulli")
    length = np.isfinite(X).sum() / len(X)
    expected = (length / 4) ** np.maximum(0.0, 1.0 - np.arange(20) / 8)
    assert length > 4
    np.testing.assert_allclose(seen, np.repeat(expected[:, None] / 3, 3, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(model.doc_topic_prior_, 1 / 3)


def test_clusters_of_vectors_have_one_prior(monkeypatch):
    seen, _ = priors_of_passes(monkeypatch, "gaussian")
    np.testing.assert_array_equal(seen, np.full((20, 3), 1 / 3))


@pytest.mark.parametrize("settings", [{"doc_topic_prior": 1 / 3}, {"doc_topic_prior": [1 / 3] * 3}, {"burn_in": 1}])
def test_other_fits_have_one_prior(settings, monkeypatch):
    seen, _ = priors_of_passes(monkeypatch, "bernoulli", **settings)
    np.testing.assert_array_equal(seen, np.full((20, 3), 1 / 3))


@pytest.mark.parametrize("sampler", [ESCA(), ESCA(exclude_self=True), "gibbs", CollapsedGibbs()])
@pytest.mark.parametrize("emission", ["multinomial", Poisson(shape_prior=0.1)])
def test_default_fits_of_counts_are_those_of_lda(emission, sampler):
    X, settings = small_corpus(), {"max_iter": 12, "random_state": 3, "sampler": sampler}
    mine = ExponentialFamilyAdmixture(4, emission=emission, **settings).fit(X)
    lda = StochasticLDA(4, **settings).fit(X)
    np.testing.assert_array_equal(mine.components_, lda.components_)
    np.testing.assert_array_equal(mine.log_density_trace_, lda.log_density_trace_)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("emission", EMISSIONS)
def test_rows_in_shards_have_the_same_priors(emission, sampler):
    X = small_rows(emission)
    here = make(emission, sampler=sampler).fit(X)
    with distributed(None):
        there = make(emission, sampler=sampler).fit(X)
    assert learned(here) == learned(there)
    given = make(emission, sampler=sampler, doc_topic_prior=1 / 3).fit(X)
    assert np.array_equal(here.log_density_trace_, given.log_density_trace_) == (emission == "gaussian")


def test_a_tolerance_waits_for_the_last_prior():
    settings = {"sampler": ESCA(n_average=5, tol=1e3), "max_iter": 120, "burn_in": 90}
    given, default = (make("bernoulli", doc_topic_prior=prior, **settings) for prior in (1 / 3, None))
    X = small_rows("bernoulli")
    assert default.fit(X).n_iter_ == given.fit(X).n_iter_ + 72


def test_a_fit_that_is_stopped_in_burn_in_has_the_given_prior(monkeypatch):
    estimates = []
    estimate = TokenFit.estimate
    monkeypatch.setattr(
        TokenFit, "estimate", lambda self, chains: estimates.append(estimate(self, chains)) or estimates[-1]
    )
    X = small_rows("bernoulli")
    make("bernoulli", max_iter=20).set_callbacks(HeldOutMonitor(X, every=1)).fit(X)
    assert len(estimates) >= 20
    for fitted in estimates:
        np.testing.assert_array_equal(fitted["doc_topic_prior_"], 1 / 3)
