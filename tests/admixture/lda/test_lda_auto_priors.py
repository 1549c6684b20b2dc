"""Priors that StochasticLDA learns during burn-in."""

import pickle
import re
from functools import cache

import numpy as np
import pytest

from skmanifold import StochasticLDA
from skmanifold.admixture._lda import dirichlet_mle
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import match_topics

from .._corpora import learned, small_corpus

BY_PASSES = ("esca", "gibbs", "collapsed_gibbs", "cvb0")
BY_MINIBATCHES = ("scir", "sgrld", "sgrhmc", "sgld", "sghmc")
TRUE_ALPHA = np.array([1.2, 0.5, 0.25, 0.1])
TRUE_BETA = 0.15
BOTH = {"doc_topic_prior": "auto", "topic_word_prior": "auto"}


@cache
def uneven_corpus():
    """Topics from four that half of all documents speak of to one in twenty."""
    return make_lda_corpus(
        700,
        80,
        4,
        mean_length=120,
        doc_topic_prior=TRUE_ALPHA,
        topic_word_prior=TRUE_BETA,
        zipf_exponent=0.0,
        random_state=4,
    )


@cache
def learned_fit(sampler):
    """Both priors of the first 500 documents, of the best of four chains; never change it."""
    lda = StochasticLDA(4, sampler=sampler, **BOTH, max_iter=80, burn_in=65, thin=5, n_chains=4, random_state=0)
    return lda.fit(uneven_corpus().data[:500])


@pytest.mark.extended
@pytest.mark.short_cases("esca", "cvb0")
@pytest.mark.parametrize("sampler", BY_PASSES)
def test_the_priors_of_the_corpus_are_found(sampler):
    lda = learned_fit(sampler)
    assert lda.doc_topic_prior_.shape == (4,)
    assert isinstance(lda.topic_word_prior_, float)
    match = match_topics(uneven_corpus().components, lda.components_)
    assert match.similarity.min() > 0.9
    ratio = lda.doc_topic_prior_[match.other] / TRUE_ALPHA
    # With 500 documents the relative standard error of an entry is some 5 to 8 percent, and passes differ by as much.
    # From 1/4 each, entries have to move by up to a factor of five. ESCA and CVB0 do not draw from the posterior: they
    # spread tokens over more topics, which makes a small entry up to twice as large, and the words' prior larger.
    exact = sampler in ("gibbs", "collapsed_gibbs")
    assert ratio.min() > 0.7
    assert ratio.max() < (1.4 if exact else 2.2)
    assert np.all(np.diff(lda.doc_topic_prior_[match.other]) < 0)  # as the true ones
    assert 0.75 < lda.topic_word_prior_ / TRUE_BETA < (1.35 if exact else 1.7)


@pytest.mark.short_cases("esca")
@pytest.mark.parametrize("sampler", BY_PASSES)
def test_learned_priors_predict_better_than_bad_ones(sampler):
    train, test = uneven_corpus().data[:500], uneven_corpus().data[500:]
    bad = StochasticLDA(
        4, sampler=sampler, doc_topic_prior=20.0, topic_word_prior=20.0, max_iter=80, burn_in=65, random_state=0
    ).fit(train)
    good = learned_fit(sampler)
    assert good.score(test) > bad.score(test) + 0.05


def test_responsibilities_that_begin_uniform_do_not_lead_to_a_large_prior():
    """An update without a limit ends at 5,000 for each topic, and all topics are the same."""
    corpus = make_lda_corpus(500, 500, 10, mean_length=60, topic_word_prior=0.5, random_state=0).data
    settings = {"n_components": 10, "sampler": "cvb0", "max_iter": 80, "random_state": 0}
    given = StochasticLDA(**settings).fit(corpus[:400])
    learned = StochasticLDA(doc_topic_prior="auto", topic_word_prior="auto", **settings).fit(corpus[:400])
    assert learned.doc_topic_prior_.sum() < 5.0
    assert learned.perplexity(corpus[400:]) < given.perplexity(corpus[400:])


@pytest.mark.parametrize("sampler", BY_PASSES)
def test_one_prior_may_be_learned_and_the_other_given(sampler):
    params = {"max_iter": 24, "burn_in": 20, "random_state": 0}
    alpha = StochasticLDA(4, sampler=sampler, doc_topic_prior="auto", topic_word_prior=0.3, **params)
    alpha.fit(small_corpus())
    assert alpha.topic_word_prior_ == 0.3
    assert len(np.unique(alpha.doc_topic_prior_)) == 4
    beta = StochasticLDA(4, sampler=sampler, doc_topic_prior=[0.1, 0.2, 0.3, 0.4], topic_word_prior="auto", **params)
    beta.fit(small_corpus())
    np.testing.assert_array_equal(beta.doc_topic_prior_, [0.1, 0.2, 0.3, 0.4])
    assert beta.topic_word_prior_ != 0.1
    neither = StochasticLDA(4, sampler=sampler, **params).fit(small_corpus())
    np.testing.assert_array_equal(neither.doc_topic_prior_, np.full(4, 0.25))
    assert neither.topic_word_prior_ == 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of few passes
@pytest.mark.parametrize("sampler", BY_PASSES)
def test_priors_are_learned_in_burn_in_and_then_stay(sampler, monkeypatch):
    """What each pass learns from, and that the attributes are those of the model of all passes after burn-in."""
    learned = []
    original = dirichlet_mle.with_priors

    def spy(model, alpha, topic_prior):
        learned.append((alpha, float(topic_prior.values)))
        return original(model, alpha, topic_prior)

    monkeypatch.setattr(dirichlet_mle, "with_priors", spy)
    lda = StochasticLDA(4, sampler=sampler, **BOTH, max_iter=40, burn_in=22, random_state=0).fit(small_corpus())
    assert len(learned) == 4  # after passes 10, 15, 20 and 22
    np.testing.assert_array_equal(lda.doc_topic_prior_, learned[-1][0])
    assert lda.topic_word_prior_ == learned[-1][1]
    # More passes after burn-in change nothing of them, nor of those before.
    longer = StochasticLDA(4, sampler=sampler, **BOTH, max_iter=60, burn_in=22, random_state=0).fit(small_corpus())
    np.testing.assert_array_equal(longer.doc_topic_prior_, lda.doc_topic_prior_)
    assert longer.topic_word_prior_ == lda.topic_word_prior_
    np.testing.assert_array_equal(longer.log_density_trace_[:, :40], lda.log_density_trace_)


def test_log_joints_after_burn_in_are_those_of_the_learned_priors():
    """Of one topic the assignments are certain, so the log joint tells the priors."""
    lda = StochasticLDA(
        1, sampler="collapsed_gibbs", topic_word_prior="auto", max_iter=30, burn_in=20, random_state=0
    ).fit(small_corpus())
    fixed = StochasticLDA(
        1, sampler="collapsed_gibbs", topic_word_prior=lda.topic_word_prior_, max_iter=30, burn_in=20, random_state=0
    ).fit(small_corpus())
    assert lda.topic_word_prior_ > 0.2
    assert np.all(lda.log_density_trace_[0, :10] < fixed.log_density_trace_[0, :10])
    np.testing.assert_array_equal(lda.log_density_trace_[0, 20:], fixed.log_density_trace_[0, 20:])
    np.testing.assert_array_equal(lda.components_, fixed.components_)


def test_chains_learn_each_for_itself_and_the_best_ones_priors_are_told():
    params = {**BOTH, "max_iter": 30, "burn_in": 25, "random_state": 1}
    two = StochasticLDA(4, sampler="gibbs", n_chains=3, **params).fit(small_corpus())
    one = StochasticLDA(4, sampler="gibbs", n_chains=1, **params).fit(small_corpus())
    np.testing.assert_array_equal(one.log_density_trace_[0], two.log_density_trace_[0])
    same = np.array_equal(one.doc_topic_prior_, two.doc_topic_prior_)
    assert same == (two.best_chain_ == 0)


# Refusals


def refuse(lda, method, message):
    before = dict(vars(lda))
    with pytest.raises(ValueError, match=message) as refusal:
        getattr(lda, method)(small_corpus())
    assert re.findall(r"\.(?=\s|$)", str(refusal.value)) == ["."]
    assert vars(lda).keys() == before.keys()
    assert all(vars(lda)[name] is before[name] for name in before)


@pytest.mark.parametrize("prior", ["doc_topic_prior", "topic_word_prior"])
class TestRefusals:
    @pytest.mark.parametrize("sampler", BY_MINIBATCHES)
    def test_samplers_by_minibatches_do_not_learn_priors(self, prior, sampler):
        lda = StochasticLDA(2, sampler=sampler, max_iter=4, **{prior: "auto"})
        refuse(lda, "fit", rf"^'auto' priors need a sampler of the tokens' topics, such as 'esca', not '{sampler}'\.$")
        refuse(lda, "partial_fit", "^'auto' priors")

    @pytest.mark.parametrize("sampler", BY_PASSES)
    def test_without_burn_in_there_is_nothing_to_learn_from(self, prior, sampler):
        lda = StochasticLDA(2, sampler=sampler, burn_in=0, **{prior: "auto"})
        refuse(lda, "fit", r"^'auto' priors are learned during burn-in, but burn_in is 0\.$")
        refuse(StochasticLDA(2, sampler=sampler, max_iter=1, **{prior: "auto"}), "fit", "burn_in is 0")

    def test_a_stream_does_not_begin_with_priors_to_be_learned(self, prior):
        lda = StochasticLDA(2, **{prior: "auto"})
        refuse(lda, "partial_fit", r"^'auto' priors are learned by fit: call it before partial_fit, or give numbers\.$")

    def test_a_bad_refit_leaves_what_was_learned(self, prior):
        lda = StochasticLDA(3, **{prior: "auto"}, max_iter=24, burn_in=12, random_state=0).fit(small_corpus())
        before = learned(lda)
        refuse(lda.set_params(burn_in=0), "fit", "burn_in is 0")
        refuse(lda.set_params(burn_in=None, sampler="scir"), "fit", "need a sampler of the tokens' topics")
        assert learned(lda) == before


# Streams


def test_a_stream_after_fit_goes_on_with_the_learned_priors():
    lda = StochasticLDA(4, **BOTH, max_iter=30, burn_in=20, random_state=0, total_samples=60).fit(small_corpus())
    alpha, beta = lda.doc_topic_prior_, lda.topic_word_prior_
    given = StochasticLDA(4, doc_topic_prior=alpha, topic_word_prior=beta, random_state=0, total_samples=60)
    given.__dict__.update({name: value for name, value in vars(lda).items() if name not in vars(given)})
    for batch in (small_corpus()[:20], small_corpus()[20:]):
        lda.partial_fit(batch)
        given.partial_fit(batch)
        np.testing.assert_array_equal(lda.doc_topic_prior_, alpha)
        assert lda.topic_word_prior_ == beta
        np.testing.assert_array_equal(lda.components_, given.components_)
        lda = pickle.loads(pickle.dumps(lda))
    smoothed = lda.topic_word_counts_.toarray() + beta
    np.testing.assert_allclose(lda.components_, smoothed / smoothed.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("burn_in", [1, 5, 9])
def test_a_short_burn_in_still_learns(burn_in):
    lda = StochasticLDA(3, sampler="gibbs", **BOTH, max_iter=12, burn_in=burn_in, random_state=0).fit(small_corpus())
    assert len(np.unique(lda.doc_topic_prior_)) == 3
    assert lda.topic_word_prior_ != 0.1
