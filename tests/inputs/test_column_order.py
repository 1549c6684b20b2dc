"""Names, weights, priors and labels in another order than the matrix: by position, or by name in tables."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.datasets import open_corpus, save_corpus
from skmanifold.emissions import Categorical, Columns, Gaussian, Multinomial
from skmanifold.inspection import TopicDisplay, class_words
from skmanifold.metrics import document_completion, left_to_right, match_topics, topic_coherence
from skmanifold.utils._inputs.column_order import names_by_position

from ._containers import package
from ._estimators import LABELS, SHORT, data

NAMES = list("abcd")
LAST = np.zeros((20, 4), int)
LAST[:, 3] = 9  # the largest column is d
CONTAINERS = {
    "Series": lambda values: pd.Series(values, index=[3, 2, 1, 0]),
    "filtered Series": lambda values: pd.Series(values, index=[7, 8, 12, 3]),
    "Index": pd.Index,
    "category": lambda values: pd.Series(values, index=[3, 2, 1, 0], dtype="category"),
    "array": np.array,
    "tuple": tuple,
    "polars": lambda values: package("polars").Series(values),
    "arrow": lambda values: package("pyarrow").array(values),
}
IN_ANY = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)


@pytest.fixture(scope="module")
def lda():
    return StochasticLDA(1, max_iter=10, random_state=0).fit(LAST)


@IN_ANY
def test_names_are_taken_by_position(lda, container):
    names = container(NAMES)
    assert lda.topic_words(1, feature_names=names)[0][0][0] == "d"
    assert lda.topics_as_frame(n_words=1, feature_names=names)["words"].tolist() == ["d"]
    assert TopicDisplay.from_estimator(lda, feature_names=names, n_words=1).words == [["d"]]
    assert class_words([0] * 10 + [1] * 10, LAST + np.eye(20, 4, dtype=int), names, n_words=1).words[1] == ["d"]


@pytest.mark.filterwarnings("ignore:Intervals from")
def test_names_of_directions_and_clusters_are_taken_by_position():
    names = CONTAINERS["Series"](NAMES)
    rows = np.eye(4)[[3, 3, 3, 2, 3, 3]] + 0.01
    spherical = SphericalAdmixture(1, **SHORT).fit(rows)
    assert spherical.topic_words(1, names)[0].positive[0][0] == "d"
    mixture = ExponentialFamilyMixture(1, emission="poisson", **SHORT).fit(LAST)
    assert mixture.cluster_summary(names).columns.index.tolist()[-1:] == ["d"]


@IN_ANY
def test_a_stored_vocabulary_is_taken_by_position(container, tmp_path):
    save_corpus(LAST, tmp_path / "stored", vocabulary=container(NAMES))
    assert open_corpus(tmp_path / "stored").vocabulary == NAMES


NO_SEQUENCE = {
    "dict": {"a": 0, "b": 1, "c": 2, "d": 3},
    "keys": {"a": 0, "b": 1, "c": 2, "d": 3}.keys(),
    "set": set(NAMES),
}


@pytest.mark.parametrize("names", NO_SEQUENCE.values(), ids=NO_SEQUENCE)
def test_names_without_the_order_of_columns_are_refused(lda, names):
    for ask in (lda.topic_words, lda.topics_as_frame, lambda **given: TopicDisplay.from_estimator(lda, **given)):
        with pytest.raises(TypeError, match=r"whose order is not that of the columns: .*get_feature_names_out\(\)\.$"):
            ask(feature_names=names)


def test_a_vocabulary_without_the_order_of_columns_is_refused(tmp_path):
    for names in NO_SEQUENCE.values():
        with pytest.raises(TypeError, match=r"^vocabulary is a .*, whose order is not that of the columns"):
            save_corpus(LAST, tmp_path / "stored", vocabulary=names)


def test_names_that_are_no_list_of_names_are_refused(lda):
    for names in ("abcd", 4, pd.DataFrame([NAMES]), iter(NAMES)):
        with pytest.raises(TypeError, match=r"^feature_names must be a sequence of names, one per column; got a "):
            lda.topic_words(feature_names=names)
    with pytest.raises(ValueError, match=r"^feature_names must have one dimension, .*; got shape \(1, 4\)\.$"):
        lda.topic_words(feature_names=np.array([NAMES]))


def test_names_of_x_in_another_order_are_refused():
    lda = StochasticLDA(1, max_iter=4, random_state=0).fit(pd.DataFrame(LAST, columns=NAMES))
    with pytest.raises(ValueError, match=r"^feature_names has the names of the columns of X in another order"):
        lda.topic_words(feature_names=NAMES[::-1])
    assert lda.topic_words(1, ["w", "x", "y", "z"])[0][0][0] == "z"
    with pytest.raises(ValueError, match="feature names should match"):
        lda.topics_as_frame(pd.DataFrame(LAST, columns=NAMES[::-1]))


# Values of columns in an order of their own: what is fitted, and with which parameter

X = data("lda")
FRAME = pd.DataFrame(X, columns=NAMES)
ROW = np.array([0.1, 0.2, 0.3, 4.0])
TWO_ROWS = np.array([ROW, ROW + 1])
SQUARE = np.diag(ROW) + 0.01
CASES = {
    "topic_word_prior": (StochasticLDA(2, **SHORT), TWO_ROWS),
    "topic_word_prior of HDP": (HDPAdmixture(init=2, **SHORT), ROW),
    "mean_direction": (SphericalAdmixture(2, **SHORT), ROW),
    "init": (VonMisesFisherMixture(2, tol=1e6), TWO_ROWS),
    "centre_prior_mean": (SubspaceMixture(2, init=LABELS, **SHORT), ROW),
    "min_categories": (DPCategoricalMixture("categorical", init=2, **SHORT), np.array([5, 6, 7, 8])),
    "emission__category_prior": (ExponentialFamilyAdmixture(2, emission=Multinomial(), **SHORT), ROW),
    "emission__mean_prior": (ExponentialFamilyMixture(2, emission=Gaussian(), **SHORT), ROW),
    "emission__covariance_prior": (ExponentialFamilyMixture(2, emission=Gaussian("full"), **SHORT), SQUARE),
    "emission__min_categories": (DPMixture(Categorical(), init=2, **SHORT), np.array([5, 6, 7, 8])),
    "emission__all__mean_prior": (
        ExponentialFamilyMixture(2, emission=Columns([("all", Gaussian(), NAMES)]), **SHORT),
        ROW,
    ),
    "word_vectors": (ExponentialFamilyAdmixture(2, emission="gaussian", **SHORT), np.arange(12.0).reshape(4, 3) ** 2),
}


def other_order(values, kind, by_row):
    """The same values with their columns, or rows, in another order, in a container with names."""
    order = [2, 0, 3, 1]
    names = [NAMES[i] for i in order]
    if kind == "series":
        return pd.Series(values[order], index=names)
    if by_row:
        return pd.DataFrame(values[order], index=names)
    if len(values) == 4 and values.ndim == 2:  # of columns and rows
        return pd.DataFrame(values[order][:, order], columns=names, index=names)
    columns = np.atleast_2d(values)[:, order]
    return (
        package("polars").DataFrame(columns, schema=names) if kind == "polars" else pd.DataFrame(columns, None, names)
    )


def predictions(model, **parameter):
    """What the fitted model says about X."""
    (name, value), model = *parameter.items(), clone(model)
    fitted = model.set_params(**{name: value}).fit(FRAME)
    return np.asarray(fitted.transform(FRAME) if hasattr(fitted, "transform") else fitted.predict_proba(FRAME))


@pytest.mark.parametrize("case", CASES)
def test_tables_of_values_are_sorted_by_the_names_of_columns(case):
    model, values = CASES[case]
    name, by_row = case.removesuffix(" of HDP"), case == "word_vectors"
    kind = "series" if values.ndim == 1 else "polars" if case == "init" else "pandas"
    wanted = predictions(model, **{name: values})
    np.testing.assert_array_equal(predictions(model, **{name: other_order(values, kind, by_row)}), wanted)
    if kind != "series":  # a table with other names
        renamed = other_order(values, kind, by_row).rename(**renaming(kind, by_row))
        with pytest.raises(ValueError, match=r"must have the names of the columns of X, but have 'other': rename"):
            predictions(model, **{name: renamed})


def renaming(kind, by_row):
    return {"mapping": {"c": "other"}} if kind == "polars" else {"index" if by_row else "columns": {"c": "other"}}


def test_a_series_with_other_labels_is_taken_by_position():
    model, values = CASES["topic_word_prior of HDP"]
    for index in ([3, 2, 1, 0], ["sun", "rain", "b", "a"]):
        found = predictions(model, topic_word_prior=pd.Series(values, index=index))
        np.testing.assert_array_equal(found, predictions(model, topic_word_prior=values))
    frame = pd.DataFrame(TWO_ROWS, columns=["sun", "rain", "b", "a"])  # X has no names
    lda = StochasticLDA(2, topic_word_prior=frame, **SHORT).fit(X)
    np.testing.assert_array_equal(lda.topic_word_prior_, TWO_ROWS)
    np.testing.assert_array_equal(lda.merge_topics([[0, 1]]).topic_word_prior_, [TWO_ROWS.sum(axis=0)])


def test_values_of_rows_and_components_are_taken_by_position():
    def backwards(values):
        return pd.Series(values, index=range(len(values))[::-1])

    weights = np.arange(1.0, 13.0)
    mixture = ExponentialFamilyMixture(2, emission="poisson", sampler="em", max_iter=3, random_state=0)
    for frame in (X, FRAME):
        found = clone(mixture).fit(frame, sample_weight=backwards(weights)).components_
        np.testing.assert_array_equal(found, clone(mixture).fit(frame, sample_weight=weights).components_)
    labelled = clone(mixture).set_params(sampler="esca", init=LABELS, max_iter=1).fit(X)
    shuffled = clone(labelled).set_params(init=backwards(LABELS)).fit(FRAME)
    np.testing.assert_array_equal(shuffled.labels_, labelled.labels_)
    classifier = SubspaceClassifier(SubspaceMixture(1, n_init=1, **SHORT), class_prior=[0.2, 0.8], random_state=0)
    by_position = clone(classifier).set_params(class_prior=backwards([0.2, 0.8])).fit(FRAME, backwards(LABELS))
    np.testing.assert_array_equal(by_position.predict_proba(FRAME), classifier.fit(FRAME, LABELS).predict_proba(FRAME))
    lda = StochasticLDA(2, doc_topic_prior=backwards([0.3, 0.9]), **SHORT).fit(X)
    np.testing.assert_array_equal(lda.doc_topic_prior_, [0.3, 0.9])


def test_metrics_match_columns_by_name():
    topics, order = TWO_ROWS / TWO_ROWS.sum(axis=1, keepdims=True), [2, 0, 3, 1]
    named = pd.DataFrame(topics, columns=NAMES)
    counts = FRAME.iloc[:, order]
    found = topic_coherence(named, counts, n_top_words=2)
    np.testing.assert_array_equal(found, topic_coherence(topics, X, n_top_words=2))
    np.testing.assert_array_equal(match_topics(named, named.iloc[:, order]).similarity.round(12), 1.0)
    for metric in (document_completion, left_to_right):
        found = metric(named, counts.astype(int), [1.0, 1.0])
        assert found.log_likelihood == metric(topics, X.astype(int), [1.0, 1.0]).log_likelihood
    with pytest.raises(ValueError, match="The columns of X must have the names of the columns of topic_word"):
        topic_coherence(named, counts.rename(columns={"a": "other"}), n_top_words=2)


def test_a_long_name_does_not_take_memory_for_every_name():
    names = ["x" * 1_000_000, *map(str, range(2_000))]
    tracemalloc.start()
    found = names_by_position(names, len(names))
    assert tracemalloc.get_traced_memory()[1] < 1_000_000  # an array of strings of this length has 8 GB
    tracemalloc.stop()
    assert found.tolist() == names
