"""`HDPAdmixture` on small corpora: attributes, draws, exports, starts, and the same bytes for any number of threads."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score

import skmanifold
from skmanifold import HDPAdmixture, StochasticLDA
from skmanifold.admixture._hdp.model import HDPStatistics, add_statistics, take_topics
from skmanifold.admixture._tokens.topic_counts import counts_from_dense
from skmanifold.inspection import DimensionPosteriorDisplay, TopicDisplay
from skmanifold.metrics import match_topics

from .._corpora import easy_corpus, easy_split, small_corpus

SHORT = {"max_iter": 8, "burn_in": 4, "thin": 1, "random_state": 0}


def fit_two_chains(n_docs, **settings):
    hdp = HDPAdmixture(init=12, topic_word_prior=0.05, n_chains=2, random_state=0, **settings)
    return hdp.fit(easy_split()[0][:n_docs])


@pytest.fixture(scope="module")
def fitted():
    """On few documents."""
    return fit_two_chains(200, max_iter=80, burn_in=50, thin=1)


@pytest.fixture(scope="module")
def converged():
    return fit_two_chains(600, max_iter=400, burn_in=300)


@pytest.mark.extended
def test_planted_topics_are_found(converged):
    truth = easy_corpus().components
    large = converged.posterior_["topic_weights"] > 0.02
    assert set(np.unique(large.sum(axis=2))) <= {5, 6}
    assert match_topics(truth, converged.components_).similarity.min() > 0.97
    fixed = StochasticLDA(5, sampler="gibbs", doc_topic_prior="auto", random_state=0).fit(easy_split()[0][:600])
    test = easy_split()[1]
    assert converged.perplexity(test) < 1.01 * fixed.perplexity(test)


@pytest.mark.extended
def test_a_start_with_one_topic_finds_them_too():
    hdp = HDPAdmixture(init=1, max_iter=100, random_state=1).fit(easy_split()[0][:600])
    assert match_topics(easy_corpus().components, hdp.components_).similarity.min() > 0.95


def test_attributes_agree(fitted):
    K = fitted.n_components_
    assert fitted.components_.shape == (K, 150)
    np.testing.assert_allclose(fitted.components_.sum(axis=1), 1, rtol=1e-5)
    counts = fitted.topic_word_counts_
    smoothed = counts.toarray() + fitted.topic_word_prior_
    np.testing.assert_allclose(fitted.components_, smoothed / smoothed.sum(axis=1, keepdims=True), rtol=1e-5)
    assert 0.9 < fitted.topic_weights_.sum() <= 1
    np.testing.assert_allclose(fitted.doc_topic_prior_, fitted.concentration_ * fitted.topic_weights_)
    assert fitted.n_components_posterior_.sum() == pytest.approx(1)
    drawn = fitted.posterior_["n_components"]
    assert fitted.n_components_posterior_ @ np.arange(len(fitted.n_components_posterior_)) == pytest.approx(
        drawn.mean()
    )
    assert (~np.isnan(fitted.posterior_["components"]).any(axis=3)).sum(axis=2).tolist() == drawn.tolist()
    posterior = fitted.posterior_["concentration"][fitted.best_chain_]
    assert fitted.concentration_ == pytest.approx(posterior.mean(), rel=0.1)


@pytest.mark.extended
def test_topics_keep_their_ids(converged):
    """Draws of a topic with the same id are draws of the same topic."""
    best = converged.best_chain_
    for topic in np.argsort(-converged.topic_weights_)[:5]:
        is_here = converged.posterior_["topic_ids"][best] == converged.topic_ids_[topic]
        assert is_here.any(axis=1).all()
        drawn = converged.posterior_["components"][best][is_here]
        lengths = np.linalg.norm(drawn, axis=1) * np.linalg.norm(converged.components_[topic])
        assert (drawn @ converged.components_[topic] / lengths).min() > 0.98


@pytest.mark.extended
def test_intervals_contain_the_estimate(converged):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of topics with few draws
        low, high = converged.credible_intervals(0.9)
    large = np.argsort(-converged.topic_weights_)[:5]
    inside = (low <= converged.components_) & (converged.components_ <= high)
    assert inside[large].mean() > 0.9
    truth = match_topics(converged.components_[large], easy_corpus().components)
    planted = easy_corpus().components[truth.other]
    matched = large[truth.reference]
    assert ((low[matched] <= planted) & (planted <= high[matched])).mean() > 0.8


@pytest.mark.extended
def test_diagnostics_compare_chains(converged):
    found = converged.topic_diagnostics()
    large = np.argsort(-converged.topic_weights_)[:5]
    assert found.is_stable[large].all()
    assert found.rhat[large].max() < 1.5
    assert found.similarity.shape == (converged.n_components_,)


def test_exports(fitted):
    frame = fitted.topics_as_frame(n_words=3)
    assert len(frame) == fitted.n_components_
    assert frame["share"].sum() == pytest.approx(1)
    tree = fitted.to_arviz()
    assert tree.posterior["topic_weights"].dims == ("chain", "draw", "rank")
    assert set(tree.posterior.data_vars) == {"n_components", "concentration", "topic_concentration", "topic_weights"}


def test_displays(fitted):
    display = TopicDisplay.from_estimator(fitted)
    np.testing.assert_allclose(display.shares[0], fitted.topics_as_frame()["share"].iloc[0])
    assert display.level == 0.9
    posterior = DimensionPosteriorDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(posterior.probabilities[0], fitted.n_components_posterior_)


def test_to_fixed(fitted, tmp_path):
    X = easy_split()[1]
    lda = fitted.to_fixed()
    assert isinstance(lda, StochasticLDA)
    np.testing.assert_array_equal(lda.transform(X), fitted.transform(X))
    assert lda.score(X) == fitted.score(X)
    lda.save(tmp_path / "lda.skm")
    np.testing.assert_array_equal(skmanifold.load(tmp_path / "lda.skm").components_, fitted.components_)
    before = lda.components_.copy()
    lda.set_params(total_samples=600).partial_fit(easy_split()[0][600:900])
    assert 0 < np.abs(lda.components_ - before).max() < 0.05
    refitted = clone(lda).set_params(max_iter=20, sampler="gibbs").fit(X)
    assert refitted.components_.shape == before.shape


def test_starts_from_a_fitted_estimator(fitted):
    X = easy_split()[0][:600]
    lda = StochasticLDA(5, max_iter=60, random_state=0).fit(X)
    for init in (lda, FrozenEstimator(lda), fitted.to_fixed(), fitted):
        hdp = HDPAdmixture(init=init, **SHORT).fit(X)
        assert match_topics(easy_corpus().components, hdp.components_).similarity.min() > 0.95
    assert len(cross_val_score(HDPAdmixture(init=FrozenEstimator(lda), **SHORT), X[:100], cv=2)) == 2


def test_given_concentrations_are_kept():
    hdp = HDPAdmixture(concentration=0.7, topic_concentration=3.0, init=5, **SHORT).fit(small_corpus())
    assert hdp.concentration_ == pytest.approx(0.7)
    assert hdp.topic_concentration_ == pytest.approx(3.0)
    assert (hdp.posterior_["concentration"] == 0.7).all()
    assert (hdp.posterior_["topic_concentration"] == 3.0).all()


def test_a_prior_for_each_word():
    X = easy_split()[0][:200]
    prior = np.full(150, 0.05)
    prior[:10] = 1e-6
    hdp = HDPAdmixture(topic_word_prior=prior, init=6, **SHORT).fit(X)
    np.testing.assert_array_equal(hdp.topic_word_prior_, prior)
    equal = HDPAdmixture(topic_word_prior=np.full(150, 0.05), init=6, **SHORT).fit(X)
    assert match_topics(equal.components_, hdp.components_).similarity.mean() > 0.5


def test_the_largest_number_of_topics_is_kept_with_one_warning():
    with pytest.warns(ConvergenceWarning, match="reached max_components=4") as caught:
        hdp = HDPAdmixture(init=4, max_components=4, topic_concentration=50.0, **SHORT).fit(small_corpus())
    assert len(caught) == 1
    assert hdp.posterior_["n_components"].max() == 4


def test_sums_follow_ids():
    """The sum over passes of a topic does not depend on its number, and topics that have ended are dropped."""
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 4, (6, n)) for n in (3, 2, 4)]
    ids = [np.array([0, 1, 2]), np.array([0, 2]), np.array([0, 2, 3, 5])]
    parts = [
        HDPStatistics(
            counts_from_dense(t.astype(np.int32), t.sum(axis=0)), t.sum(axis=0), i, np.ones_like(i), 6, 0.5, 2.0
        )
        for t, i in zip(tables, ids, strict=True)
    ]
    total = add_statistics(add_statistics(parts[0], parts[1]), parts[2])
    expected = tables[2].copy()
    expected[:, 0] += tables[0][:, 0] + tables[1][:, 0]
    expected[:, 1] += tables[0][:, 2] + tables[1][:, 1]
    np.testing.assert_array_equal(total.counts.tocsr().toarray(), expected)
    np.testing.assert_array_equal(total.counts.totals, expected.sum(axis=0))
    assert total.n_passes.tolist() == [3, 3, 1, 1]
    assert (total.alpha, total.gamma) == (1.5, 6.0)
    some = take_topics(total.counts, np.array([3, 0]))
    np.testing.assert_array_equal(some.tocsr().toarray(), expected[:, [3, 0]])
