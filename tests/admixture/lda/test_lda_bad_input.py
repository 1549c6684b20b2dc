"""Bad input: each works as documented, or raises one clear sentence before any work is done."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skmanifold import StochasticLDA
from skmanifold.samplers import CVB0, ESCA, BaseSampler

from .._corpora import learned, small_corpus, small_fit

SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb")  # by passes
EACH_SAMPLER = tuple(StochasticLDA._samplers)

X = np.array([[3.0, 1, 0, 2], [0, 2, 2, 0], [1, 0, 0, 4]])


def make_lda(**params):
    if params.get("sampler") in ("sgrld", "sgrhmc"):  # below 1/2 they warn
        params.setdefault("topic_word_prior", 0.5)
    return StochasticLDA(**{"n_components": 2, "max_iter": 4, "random_state": 0, **params})


@pytest.fixture
def _no_sampler_begins(monkeypatch):
    for sampler in StochasticLDA._samplers.values():
        monkeypatch.setattr(sampler, "init", lambda *args: pytest.fail("the sampler began"))


before_any_work = pytest.mark.usefixtures("_no_sampler_begins")


def refuse(message, lda, X=X, error=ValueError, methods=("fit", "fit_transform", "partial_fit")):
    """Each method raises one sentence, and leaves no trace of a fit."""
    for method in methods:
        fresh = clone(lda)
        if not hasattr(fresh, method):
            continue
        with pytest.raises(error, match=message) as refusal:
            getattr(fresh, method)(X)
        if "scikit-learn" not in str(refusal.value):  # its advice on missing values is long
            sentence = re.sub(r" Got .* instead\.$", "", str(refusal.value))
            assert re.findall(r"\.(?=\s|$)", sentence) in ([], ["."])
        assert vars(fresh).keys() == fresh.get_params(deep=False).keys()


# Counts


@pytest.mark.covering
@before_any_work
@pytest.mark.parametrize("sampler", EACH_SAMPLER)
@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.csc_matrix, pd.DataFrame])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, "Negative values in data passed to StochasticLDA"),
        (np.nan, "Input X contains NaN"),
        (np.inf, "Input X contains infinity"),
        (1e12, r"X has a count of 1e\+12; at most 2147483647 are supported"),
    ],
)
def test_a_count_that_is_none_is_refused(sampler, make, value, message):
    bad = X.copy()
    bad[1, 2] = value
    refuse(message, make_lda(sampler=sampler), make(bad))


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, 1e12])
def test_a_count_that_is_none_is_refused_after_fit_too(make, value):
    lda = small_fit()
    bad = small_corpus().toarray().astype(np.float64)
    bad[1, 2] = value
    before = learned(lda)
    for method in ("transform", "predict", "score", "perplexity", "partial_fit"):
        with pytest.raises(ValueError, match=r"Negative values|NaN|infinity|a count of 1e\+12"):
            getattr(lda, method)(make(bad))
    assert learned(lda) == before


@before_any_work
@pytest.mark.parametrize("sampler", EACH_SAMPLER)
@pytest.mark.parametrize("X", [np.zeros((3, 4)), sp.csr_array((3, 4)), sp.csr_array(([0.0], ([0], [1])), shape=(3, 4))])
def test_a_corpus_without_tokens_is_refused(sampler, X):
    refuse("X has no tokens: all counts are zero", make_lda(sampler=sampler), X, methods=("fit", "fit_transform"))


@before_any_work
def test_more_columns_than_int32_are_refused():
    wide = sp.csr_array((np.ones(2), np.array([3, 2**31 + 4]), np.array([0, 1, 2])), shape=(2, 2**31 + 5))
    assert wide.indices.dtype == np.int64
    refuse(r"X has 2147483653 columns; at most 2147483647 \(int32\) are supported\.", make_lda(), wide)


@pytest.mark.parametrize("sampler", EACH_SAMPLER)
def test_empty_documents_and_columns_work(sampler):
    with_gaps = np.zeros((6, 9))
    with_gaps[1:5:2, 2:8:2] = [[3, 1, 0], [0, 2, 5]]
    lda = make_lda(sampler=sampler, max_iter=10).fit(with_gaps)
    proportions = lda.transform(with_gaps)
    np.testing.assert_array_equal(proportions[[0, 2, 4, 5]], np.full((4, 2), 0.5))
    assert np.all(lda.components_ > 0)
    assert np.isfinite(lda.score(with_gaps))
    if sampler in SAMPLERS:
        assert lda.topic_word_counts_.sum() == pytest.approx(11)
    with pytest.raises(ValueError, match=r"no document in X has two or more tokens"):
        lda.score(np.eye(9))


@pytest.mark.parametrize("sampler", EACH_SAMPLER)
@pytest.mark.parametrize("n_components", [1, 7, 300])
def test_one_topic_and_more_topics_than_words_work(sampler, n_components):
    lda = make_lda(sampler=sampler, n_components=n_components).fit(X)
    assert lda.components_.shape == (n_components, 4)
    np.testing.assert_allclose(lda.transform(X).sum(axis=1), 1)
    np.testing.assert_allclose(lda.components_.sum(axis=1), 1, rtol=1e-5)
    if n_components == 1:
        if sampler in SAMPLERS:
            counts = X.sum(axis=0) + 0.1
            np.testing.assert_allclose(lda.components_[0], counts / counts.sum(), rtol=1e-6)
        np.testing.assert_allclose(lda.transform(X), [[1.0]] * 3, rtol=4 * 2**-53)  # a sum and a quotient


@pytest.mark.parametrize("sampler", EACH_SAMPLER)
def test_one_document_of_one_word_works(sampler):
    lda = make_lda(sampler=sampler).fit([[5]])
    # Mean counts, weights and probabilities are each rounded to float32.
    np.testing.assert_allclose(lda.components_, [[1], [1]], rtol=3 * 2**-24)


@pytest.mark.short_cases(*SAMPLERS)
@pytest.mark.parametrize("sampler", EACH_SAMPLER)
def test_counts_beyond_16_bits_work(sampler):
    large = np.array([[70_000.0, 300, 0], [0, 300, 70_000]])
    lda = make_lda(sampler=sampler, max_iter=100 if sampler == "svb" else 30, doc_topic_prior=0.1).fit(large)
    if sampler in SAMPLERS:
        assert lda.topic_word_counts_.sum() == pytest.approx(large.sum())
    assert sorted(lda.predict(large).tolist()) == [0, 1]


# Parameters


@pytest.mark.covering
@before_any_work
@pytest.mark.parametrize("sampler", EACH_SAMPLER)
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("doc_topic_prior", [1.0, 1, 1], r"doc_topic_prior must have shape \(2,\), one entry per topic; got \(3,\)"),
        ("doc_topic_prior", [[1.0, 1]], r"doc_topic_prior must have shape \(2,\), one entry per topic; got \(1, 2\)"),
        ("doc_topic_prior", [1.0, 0], "doc_topic_prior must be positive and finite"),
        ("doc_topic_prior", [1.0, np.nan], "doc_topic_prior must be positive and finite"),
        ("doc_topic_prior", ["a", "b"], "could not convert string to float"),
        ("doc_topic_prior", np.nan, "The 'doc_topic_prior' parameter of StochasticLDA must be"),
        ("topic_word_prior", np.ones(3), r"topic_word_prior must .* shape \(4,\), \(2, 1\) or \(2, 4\); got \(3,\)"),
        ("topic_word_prior", np.zeros(4), "topic_word_prior must be positive and finite"),
        ("topic_word_prior", [1.0, 1, np.nan, 1], "topic_word_prior must be positive and finite"),
        ("topic_word_prior", 0.0, "The 'topic_word_prior' parameter of StochasticLDA must be"),
        ("topic_word_prior", "flat", "The 'topic_word_prior' parameter of StochasticLDA must be"),
        ("n_components", 65_536, "The 'n_components' parameter of StochasticLDA must be"),
        ("n_jobs", 0, "n_jobs == 0 .* has no meaning"),
    ],
)
def test_a_bad_parameter_is_refused(sampler, name, value, message):
    refuse(message, make_lda(sampler=sampler, **{name: value}))


class NoSampler:
    def init(self, model, key): ...
    def step(self, model, state): ...


class OwnSampler(BaseSampler):
    def __init__(self, size=1):
        self.size = size

    _parameter_constraints = {"size": [int]}  # noqa: RUF012


@before_any_work
@pytest.mark.parametrize(
    ("sampler", "error", "message"),
    [
        (
            "gibs",
            ValueError,
            r"The 'sampler' parameter .*(?=.*'esca')(?=.*'collapsed_gibbs')(?=.*'cvb0').* Got 'gibs' inst",
        ),
        ("ESCA", ValueError, r"The 'sampler' parameter .*'esca'.* Got 'ESCA' instead"),
        (None, ValueError, r"The 'sampler' parameter .*'esca'.* Got None instead"),
        (object(), ValueError, r"The 'sampler' parameter .*'init' and 'step'. Got <object"),
        (ESCA, TypeError, r"must be an instance or a name, not the class ESCA: write ESCA\(\)\."),
        (CVB0, TypeError, r"must be an instance or a name, not the class CVB0: write CVB0\(\)\."),
        (
            NoSampler(),
            TypeError,
            r"sampler must be a name \('esca', .*\) or an instance of a subclass of .*BaseSampler",
        ),
        (ESCA(n_average=0), ValueError, r"The 'n_average' parameter of ESCA must be an int in the range \[1, inf\)"),
        (ESCA(n_local_sweeps="many"), ValueError, r"The 'n_local_sweeps' parameter of ESCA must be an int"),
        (OwnSampler(size="large"), ValueError, r"The 'size' parameter of OwnSampler must be an instance of 'int'"),
        (OwnSampler(), TypeError, r"OwnSampler must define init\(model, key\)\."),
    ],
    ids=lambda value: None if isinstance(value, str) else getattr(value, "__name__", type(value).__name__),
)
def test_what_is_no_sampler_is_refused(sampler, error, message):
    refuse(message, make_lda(sampler=sampler), error=error)


def test_a_stream_refuses_a_sampler_renamed_on_the_way():
    lda = make_lda().partial_fit(X)
    with pytest.raises(ValueError, match="Unknown sampler 'gibs' for StochasticLDA: known names are 'esca'"):
        lda.set_params(sampler="gibs").partial_fit(X)


# Widths


def test_another_number_of_topics_raises_in_a_stream():
    lda = StochasticLDA(2, random_state=0)
    lda.__dict__.update(vars(small_fit()))
    lda.set_params(n_components=9)
    with pytest.raises(ValueError, match=r"n_components=9, but the fitted model has 4 topics: call fit\."):
        lda.partial_fit(small_corpus())
    assert lda.transform(small_corpus()).shape == (60, 4)


def test_inverse_transform_of_another_number_of_topics_raises():
    with pytest.raises(ValueError, match="X has 3 columns, one per component, but there are 4 components"):
        small_fit().inverse_transform(np.ones((2, 3)) / 3)
