"""The words of topics: one order and one way to name them, in lists and pictures."""

import numpy as np
import pandas as pd
import pytest

from skmanifold import ExponentialFamilyAdmixture, OrthogonalSphericalAdmixture, SphericalAdmixture, StochasticLDA
from skmanifold.inspection import TopicDisplay

from .._corpora import small_corpus

NAMES = [f"word{v}" for v in range(40)]


@pytest.mark.filterwarnings("ignore:Intervals from")
@pytest.mark.parametrize(
    "model",
    [
        StochasticLDA(3, max_iter=4, random_state=0),
        StochasticLDA(3, sampler="scir", max_iter=4, random_state=0),
        ExponentialFamilyAdmixture(3, max_iter=4, random_state=0),
        ExponentialFamilyAdmixture(3, emission="poisson", max_iter=4, random_state=0),
    ],
    ids=["lda", "scir", "multinomial", "poisson"],
)
def test_words_are_the_largest_entries_in_order(model):
    model.fit(small_corpus())
    topics = model.topic_words(5, feature_names=NAMES)
    for topic, entries in zip(topics, model.components_, strict=True):
        order = np.argsort(-entries, kind="stable")[:5]
        assert topic == [(NAMES[v], float(entries[v])) for v in order]
    assert [[word for word, _ in topic] for topic in model.topic_words()] == [
        np.argsort(-entries, kind="stable")[:10].tolist() for entries in model.components_
    ]
    assert len(model.topic_words(1000)[0]) == 40
    display = TopicDisplay.from_estimator(model, feature_names=NAMES, n_words=5, topics=range(len(model.components_)))
    assert display.words == [[word for word, _ in topic] for topic in topics]


def test_names_of_a_data_frame_are_the_words():
    lda = StochasticLDA(2, max_iter=3, random_state=0).fit(pd.DataFrame(small_corpus().toarray(), columns=NAMES))
    assert {word for topic in lda.topic_words(40) for word, _ in topic} == set(NAMES)


@pytest.mark.filterwarnings("ignore:Intervals from")
def test_words_of_topics_with_signs_are_those_of_the_picture():
    X = np.random.default_rng(0).normal(size=(30, 6))
    model = SphericalAdmixture(2, max_iter=4, random_state=0).fit(X)
    display = TopicDisplay.from_estimator(model, feature_names=NAMES[:6], n_words=2)
    for topic, shown in zip(model.topic_words(2, NAMES[:6]), display.words, strict=True):
        assert shown == [word for word, _ in topic.positive] + [word for word, _ in topic.negative[::-1]]


def test_bad_requests_are_refused():
    lda = StochasticLDA(2, max_iter=3, random_state=0).fit(small_corpus())
    with pytest.raises(ValueError, match=r"^feature_names has 3 names for 40 features\.$"):
        lda.topic_words(feature_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"^n_words must be at least 1; got 0\.$"):
        lda.topic_words(0)


@pytest.mark.parametrize("method", ["topic_words", "topics_as_frame", "to_pyldavis", "to_html"])
def test_only_models_of_words_have_lists_tables_and_pages(method):
    for emission in ("multinomial", "poisson"):
        assert hasattr(ExponentialFamilyAdmixture(2, emission=emission), method)
    for emission in ("bernoulli", "gaussian"):
        with pytest.raises(AttributeError) as refusal:
            getattr(ExponentialFamilyAdmixture(2, emission=emission), method)
        assert f"shows probabilities of words, which emission='{emission}' does not" in str(refusal.value.__cause__)
    if method.startswith("to_"):
        assert not hasattr(SphericalAdmixture, method)
        assert not hasattr(OrthogonalSphericalAdmixture, method)
