"""Topics go to pyLDAvis as they are: in order, normalised, the same on every run."""

import json
import pickle
import re
import sys
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import jensenshannon
from sklearn.base import BaseEstimator

from skmanifold import ExponentialFamilyAdmixture, StochasticLDA
from skmanifold._install import install_command
from skmanifold.admixture._posterior.pyldavis import principal_coordinates, to_pyldavis
from skmanifold.datasets import make_lda_corpus

pyLDAvis = pytest.importorskip("pyLDAvis")
pandas = pytest.importorskip("pandas")

FEW = {"lambda_step": 0.5}  # values of the slider, of which pyLDAvis's time is made
WORDS = [f"word{v}" for v in range(30)]


@cache
def corpus():
    return sp.csr_array(make_lda_corpus(n_samples=60, n_features=30, n_components=4, random_state=0).data)


@cache
def topics_of(n_components=4):
    return StochasticLDA(n_components, max_iter=20, random_state=0).fit(corpus())


def shares_of_tokens(model, X):
    """What topics have of the documents' tokens, in percent."""
    lengths = np.asarray(X.sum(axis=1)).ravel()
    proportions = model.transform(X)
    return lengths @ (proportions / proportions.sum(axis=1, keepdims=True)) / lengths.sum() * 100


def test_topics_keep_their_numbers_sizes_and_words():
    lda = topics_of()
    prepared = lda.to_pyldavis(corpus(), feature_names=WORDS, **FEW)
    assert type(prepared).__name__ == "PreparedData"
    assert prepared.topic_order == [1, 2, 3, 4]
    assert prepared.topic_coordinates.topics.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(prepared.topic_coordinates.Freq, shares_of_tokens(lda, corpus()))
    for k, topic in enumerate(lda.components_):
        rows = prepared.sorted_terms(k + 1, 1.0)
        top = np.argsort(-topic)[:5]
        assert rows.Term.tolist()[:5] == [WORDS[v] for v in top]
        np.testing.assert_allclose(rows.logprob[:5], np.log(topic[top]), atol=1e-4)
    totals = prepared.topic_info.query("Category == 'Topic1'").set_index("Term").Total
    expected = shares_of_tokens(lda, corpus()) / 100 * corpus().sum() @ lda.components_
    np.testing.assert_allclose([totals[word] for word in WORDS], expected, rtol=1e-5)


def test_the_same_twice_to_the_last_bit():
    first, second = (topics_of().to_pyldavis(corpus(), **FEW).to_json() for _ in range(2))
    assert first == second
    assert "Infinity" not in first
    assert "NaN" not in first
    assert json.loads(first)["mdsDat"]["Freq"]


def test_words_cannot_end_the_script_of_the_page():
    words = ["</script><script>alert(1)</script>", "<!--<script>", "a&lt;b", 'x"\\u003c', *WORDS[4:]]
    prepared = topics_of().to_pyldavis(corpus(), feature_names=words, plot_opts={"xlab": "<b>", "ylab": "y"}, **FEW)
    data = prepared.to_json()
    assert "<" not in data
    for template in ("general", "notebook", "simple"):
        assert data in pyLDAvis.prepared_data_to_html(prepared, template_type=template)
    shown = json.loads(data)  # which is what the script reads
    assert set(shown["tinfo"]["Term"]) == set(words)
    assert shown["plot.opts"]["xlab"] == "<b>"
    assert isinstance(prepared, pyLDAvis.PreparedData)  # which notebooks display
    assert pickle.loads(pickle.dumps(prepared)).to_json() == data


def test_words_are_named_by_the_columns_unless_told_otherwise():
    frame = pandas.DataFrame(corpus().toarray(), columns=WORDS)
    lda = StochasticLDA(2, max_iter=4, random_state=0).fit(frame)
    assert set(lda.to_pyldavis(frame, **FEW).topic_info.Term) == set(WORDS)
    other = [word.upper() for word in WORDS]
    assert set(lda.to_pyldavis(frame, feature_names=other, **FEW).topic_info.Term) == set(other)
    assert "x29" in set(topics_of().to_pyldavis(corpus(), **FEW).topic_info.Term)
    with pytest.raises(ValueError, match=r"^feature_names has 29 names for 30 features\.$"):
        lda.to_pyldavis(frame, feature_names=WORDS[1:])


def test_documents_without_tokens_are_left_out():
    padded = sp.vstack([np.zeros((3, 30)), corpus(), np.zeros((2, 30))], format="csr")
    assert topics_of().to_pyldavis(padded, **FEW).to_json() == topics_of().to_pyldavis(corpus(), **FEW).to_json()
    with pytest.raises(ValueError, match="X has no tokens of the words that are shown"):
        topics_of().to_pyldavis(padded[:3])


def test_with_fewer_words_what_is_shown_is_conditional_on_them():
    lda, X = topics_of(), corpus()
    prepared = lda.to_pyldavis(X, feature_names=WORDS, max_features=12, **FEW)
    shown = np.sort(np.argsort(-X.sum(axis=0), kind="stable")[:12])
    assert set(prepared.topic_info.Term) == {WORDS[v] for v in shown}
    lengths, joint = X[:, shown].sum(axis=1), lda.transform(X) * lda.components_[:, shown].sum(axis=1)
    expected = lengths @ (joint / joint.sum(axis=1, keepdims=True)) / lengths.sum() * 100
    np.testing.assert_allclose(prepared.topic_coordinates.Freq, expected)
    assert np.abs(expected - shares_of_tokens(lda, X)).max() > 0.1
    topic = lda.components_[0, shown] / lda.components_[0, shown].sum()
    rows = prepared.sorted_terms(1, 1.0)
    np.testing.assert_allclose(rows.logprob, np.log(np.sort(topic)[::-1]), atol=1e-4)
    every = lda.to_pyldavis(X, max_features=None, **FEW).to_json()
    assert every == lda.to_pyldavis(X, **FEW).to_json() == lda.to_pyldavis(X, max_features=30, **FEW).to_json()
    for wrong, error in ((0, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match="max_features"):
            lda.to_pyldavis(X, max_features=wrong)


@pytest.mark.parametrize("n_components", [1, 2])
def test_one_or_two_topics_have_places_too(n_components):
    prepared = topics_of(n_components).to_pyldavis(corpus(), **FEW)
    places = prepared.topic_coordinates[["x", "y"]].to_numpy()
    assert places.shape == (n_components, 2)
    assert (places == 0).all() == (n_components == 1)


def test_places_are_as_far_apart_as_divergences_where_the_plane_has_room():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.3), 3)  # three points lie in a plane
    places = principal_coordinates(topics)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        distance = np.linalg.norm(places[i] - places[j])
        assert distance == pytest.approx(jensenshannon(topics[i], topics[j]) ** 2)
    np.testing.assert_allclose(places.mean(axis=0), 0, atol=1e-12)
    assert (places[np.abs(places).argmax(axis=0), [0, 1]] > 0).all()
    assert places[:, 0].var() > places[:, 1].var()
    same = principal_coordinates(np.repeat(topics[:1], 4, axis=0))
    np.testing.assert_allclose(same, 0, atol=1e-6)


def test_probabilities_of_zero_leave_a_page_that_can_be_read():
    class Model(BaseEstimator):
        components_ = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
        n_features_in_ = 3

        def transform(self, X):
            return np.full((X.shape[0], 2), 0.5)

    prepared = to_pyldavis(Model(), np.array([[1.0, 2.0, 0.0]]), **FEW)
    json.loads(prepared.to_json(), parse_constant=pytest.fail)
    Model.components_ = Model.components_ * 2
    with pytest.raises(ValueError, match="needs topics that are probabilities"):
        to_pyldavis(Model(), np.array([[1.0, 2.0, 0.0]]))


def test_options_are_those_of_pyldavis():
    prepared = topics_of().to_pyldavis(corpus(), sort_topics=True, R=7, mds="pcoa", **FEW)
    assert (np.diff(prepared.topic_coordinates.Freq) <= 0).all()
    assert prepared.R == 7
    assert prepared.lambda_step == 0.5


@pytest.mark.parametrize("emission", ["multinomial", "poisson"])
def test_families_with_words_are_shown(emission):
    model = ExponentialFamilyAdmixture(3, emission=emission, max_iter=10, random_state=0).fit(corpus())
    prepared = model.to_pyldavis(corpus(), **FEW)
    np.testing.assert_allclose(prepared.topic_coordinates.Freq, shares_of_tokens(model, corpus()))


def test_without_pyldavis_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyLDAvis", None)
    with pytest.raises(ImportError, match=re.escape(f"to_pyldavis needs pyLDAvis: {install_command('pyldavis')}")):
        topics_of().to_pyldavis(corpus())
