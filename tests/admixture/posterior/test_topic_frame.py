"""The topics of an estimator as a pandas DataFrame."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skmanifold import (
    HDPAdmixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
)
from skmanifold._install import install_command
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import match_topics, topic_coherence

NAMES = np.array([f"w{i}" for i in range(30)])


@pytest.fixture(scope="module")
def counts():
    return make_lda_corpus(n_samples=80, n_features=30, n_components=3, random_state=0).data


@pytest.fixture(scope="module")
def lda(counts):
    return StochasticLDA(4, sampler="gibbs", n_chains=2, max_iter=60, thin=1, random_state=0).fit(counts)


def test_columns_are_those_of_the_estimator_in_the_order_of_shares(lda, counts):
    frame = lda.topics_as_frame(counts, n_words=3, feature_names=NAMES)
    assert list(frame.columns) == ["topic", "share", "words", "coherence", "stability"]
    assert list(frame.index) == [0, 1, 2, 3]
    shares = lda.posterior_["topic_weights"][lda.best_chain_].mean(axis=0)
    order = np.argsort(-shares)
    np.testing.assert_array_equal(frame["topic"], order)
    np.testing.assert_array_equal(frame["share"], shares[order])
    words = [", ".join(name for name, _ in topic) for topic in lda.topic_words(3, NAMES)]
    assert frame["words"].tolist() == [words[k] for k in order]
    coherence = topic_coherence(lda.components_, counts, n_top_words=3)
    np.testing.assert_array_equal(frame["coherence"], coherence[order])
    np.testing.assert_array_equal(frame["stability"], lda.topic_diagnostics().similarity[order])


def test_what_is_unknown_is_nan(counts):
    frame = StochasticLDA(3, max_iter=10, random_state=0).fit(counts).topics_as_frame()
    assert frame[["coherence", "stability"]].isna().all(axis=None)
    stream = StochasticLDA(3, total_samples=80, random_state=0).partial_fit(counts)
    frame = stream.topics_as_frame()
    shares = stream.topic_word_counts_.sum(axis=1) / stream.topic_word_counts_.sum()
    np.testing.assert_allclose(frame["share"], np.sort(shares)[::-1])
    np.testing.assert_array_equal(frame["topic"], np.argsort(-shares))
    assert frame["stability"].isna().all()


def test_estimates_of_several_chains_have_a_stability(counts):
    lda = StochasticLDA(3, n_chains=2, max_iter=20, random_state=0).fit(counts)
    frame = lda.topics_as_frame()
    topics = lda.posterior_["components"].mean(axis=1, dtype=np.float64)
    best, other = topics[lda.best_chain_], topics[1 - lda.best_chain_]
    cosines = best @ other.T / np.outer(np.linalg.norm(best, axis=1), np.linalg.norm(other, axis=1))
    np.testing.assert_allclose(
        frame["stability"], cosines[:, match_topics(best, other).other].diagonal()[frame["topic"]]
    )


@pytest.mark.parametrize(
    "model",
    [
        HDPAdmixture(init=6, max_iter=20, random_state=0),
        OrthogonalSphericalAdmixture(None, max_iter=20, random_state=0),
        StochasticLDA(3, max_iter=20, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_topic_has_the_same_number_in_the_columns_of_transform(model, counts):
    """If the number of topics is inferred, this is also the rank of its share."""
    model.set_output(transform="pandas").fit(counts)
    frame, names = model.topics_as_frame(n_words=3), model.get_feature_names_out()
    assert [int(name.removeprefix(type(model).__name__.lower())) for name in names] == list(range(len(frame)))
    means = model.transform(counts).mean()
    if not isinstance(model, StochasticLDA):
        assert frame["topic"].tolist() == list(range(len(frame)))
        assert means.iloc[0] == means.max()
    np.testing.assert_allclose(means[names[frame["topic"]]], frame["share"], atol=0.05)


def test_the_coherence_is_that_of_the_words_in_the_frame(counts):
    """Reference values of topic_coherence; topics with signs may have fewer positive words than `n_words`."""
    model = OrthogonalSphericalAdmixture(3, max_iter=10, random_state=0).fit(counts)
    frame = model.topics_as_frame(counts, n_words=25)
    for _, row in frame.iterrows():
        n_words = len(row["words"].split(", "))
        topic = model.components_[[row["topic"]]]
        assert n_words == min(25, (topic > 0).sum())
        np.testing.assert_allclose(row["coherence"], topic_coherence(topic, counts, n_top_words=n_words)[0])
    two = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    lda = StochasticLDA(1, max_iter=5, random_state=0).fit(np.tile(two, (5, 1)))
    assert lda.topics_as_frame(two, n_words=2)["coherence"][0] == pytest.approx(1.0)  # they only occur together
    assert lda.topics_as_frame(two, n_words=1)["coherence"].isna().all()


def test_topics_with_signs_have_negative_words_too(counts):
    X = counts.toarray() - counts.toarray().mean(axis=0)
    model = SphericalAdmixture(2, max_iter=20, random_state=0).fit(X)
    frame = model.topics_as_frame(n_words=2, feature_names=NAMES)
    assert list(frame.columns) == ["topic", "share", "words", "negative_words", "coherence", "stability"]
    first = model.topic_words(2, NAMES)[frame["topic"][0]]
    assert frame["words"][0] == ", ".join(name for name, _ in first.positive)
    assert frame["negative_words"][0] == ", ".join(name for name, _ in first.negative)


def test_unsuitable_arguments_are_refused(lda, counts, monkeypatch):
    with pytest.raises(NotFittedError):
        StochasticLDA().topics_as_frame()
    with pytest.raises(ValueError, match="n_words must be at least 1"):
        lda.topics_as_frame(n_words=0)
    with pytest.raises(ValueError, match="X has 29 features"):
        lda.topics_as_frame(counts[:, :29])
    with pytest.raises(ValueError, match="needs X without negative entries"):
        lda.topics_as_frame(-counts)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError) as caught:
        lda.topics_as_frame()
    assert str(caught.value) == f"topics_as_frame needs pandas: {install_command('demo')}"
