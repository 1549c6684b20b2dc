"""What people pass by mistake where topics are read: one sentence says what to pass instead."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from skmanifold import (
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    StochasticLDA,
    VonMisesFisherMixture,
)
from skmanifold.inspection import TopicDisplay, class_words
from skmanifold.metrics import document_completion, left_to_right, match_topics, topic_coherence

TEXTS = ["ball bat ball run", "run bat pitch", "orbit moon launch", "launch orbit fuel", "bat pitch ball"]
VECTORIZER = CountVectorizer()
X = VECTORIZER.fit_transform(TEXTS)
NAMES = VECTORIZER.get_feature_names_out()
BAGS = [[(0, 2), (1, 1)], [], [(2, 1)]]  # a corpus of gensim


@pytest.fixture(scope="module")
def lda():
    return StochasticLDA(3, sampler="gibbs", n_chains=2, max_iter=6, random_state=0).fit(X)


def display(lda, **options):
    return TopicDisplay.from_estimator(lda, **options)


MISTAKES = {
    "names for n_words": (lambda lda: lda.topic_words(NAMES), r"^n_words must be .*: pass names of columns as feature"),
    "list for n_words": (
        lambda lda: lda.topic_words(list(NAMES)),
        "got a list: pass names of columns as",
    ),
    "fraction of words": (lambda lda: lda.topic_words(2.5), r"^n_words must be a whole number; got a float\.$"),
    "n_words of a display": (lambda lda: display(lda, n_words=NAMES), "pass names of columns as feature_names"),
    "names for documents": (lambda lda: lda.topics_as_frame(NAMES), "pass names of columns as feature_names"),
    "list for documents": (lambda lda: lda.topics_as_frame(list(NAMES)), "pass names of columns as feature_names"),
    "vocabulary": (lambda lda: lda.to_pyldavis(X, feature_names=VECTORIZER.vocabulary_), r"a dict, .*names_out\(\)\.$"),
    "mask": (lambda lda: lda.topic_words(2, NAMES == "a"), "^feature_names has booleans: pass a name for each column"),
    "vectorizer": (lambda lda: lda.topic_words(2, VECTORIZER), r"^feature_names is a CountVectorizer: pass its get_fe"),
    "names for a threshold": (lambda lda: lda.topic_diagnostics(NAMES), "threshold must be an instance of float"),
    "names for a level": (
        lambda lda: lda.credible_intervals(NAMES),
        r"^level must be a number between 0 and 1; got",
    ),
    "names of classes": (
        lambda lda: class_words(["a", "a", "b", "b", "a"], X, NAMES),
        r"^memberships has strings, but labels must be whole numbers: pass .*LabelEncoder\(\)\.fit_transform\(labels\)",
    ),
    "words of classes": (
        lambda lda: class_words([0, 0, 1, 1, 0], X, n_words=NAMES),
        "^n_words must be .* a ndarray",
    ),
    "words of texts": (
        lambda lda: topic_coherence(lda.components_, reference=[text.split() for text in TEXTS]),
        r"; got words: look up the column of each word\.$",
    ),
    **{
        f"estimator in {metric.__name__}": (
            lambda lda, metric=metric: metric(lda, X, lda.doc_topic_prior_),
            r"^topic_word is an estimator, StochasticLDA: pass an array, such as its components_\.$",
        )
        for metric in (document_completion, left_to_right)
    },
    "estimator in topic_coherence": (
        lambda lda: topic_coherence(lda, X),
        "is an estimator, .* as its components_",
    ),
    "estimator in match_topics": (lambda lda: match_topics(lda, lda), "is an estimator, .* as its components_"),
    "unfitted estimator": (
        lambda lda: topic_coherence(StochasticLDA(), X),
        "an estimator, StochasticLDA: pass an a",
    ),
    "topics in one list": (lambda lda: lda.merge_topics([0, 1]), "^groups must be a list of lists of topics; got 0"),
    "names of topics": (lambda lda: lda.remove_topics(["a"]), "^topics must be a list of indices of topics; got"),
    "names to show": (lambda lda: display(lda, topics=["a"]), "^topics must be whole numbers from 0 to 2; got"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_sentence_says_what_to_pass(lda, mistake):
    call, sentence = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        call(lda)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        StochasticLDA(),
        HDPAdmixture(),
        ExponentialFamilyAdmixture(),
        ExponentialFamilyMixture(emission="poisson"),
        VonMisesFisherMixture(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_corpus_of_gensim_is_refused(model):
    with pytest.raises(TypeError, match=r"^X has documents as pairs of word and count, .* by gensim\.matutils\.corp"):
        model.fit(BAGS)
    with pytest.raises(TypeError, match=r"^X has documents as pairs of word and count"):
        model.fit(BAGS[:1])  # of three dimensions


def test_what_the_sentence_about_a_corpus_of_gensim_advises():
    gensim = pytest.importorskip("gensim")
    dictionary = gensim.corpora.Dictionary([text.split() for text in TEXTS])
    corpus = [dictionary.doc2bow(text.split()) for text in TEXTS]
    counts = gensim.matutils.corpus2csc(corpus, num_terms=len(dictionary)).T
    order = [dictionary.token2id[name] for name in NAMES]
    np.testing.assert_array_equal(counts.toarray()[:, order], X.toarray())
    StochasticLDA(2, max_iter=2, random_state=0).fit(counts)
    with pytest.raises(TypeError, match="as a corpus of gensim"):
        StochasticLDA(2).fit(gensim.models.TfidfModel(corpus)[corpus])
