"""Merged and removed topics of fitted estimators."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skmanifold import StochasticLDA, load
from skmanifold.admixture._tokens.topic_counts import TopicPrior, counts_from_dense
from skmanifold.samplers._cir.lazy_cir_rows import add_counts, make_row_prior, new_rows, read_rows, sum_columns
from skmanifold.sparse.counts import as_counts
from skmanifold.topics.proportions import infer_proportions
from skmanifold.utils._threads import Workers

from .._corpora import small_corpus

SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0", "scir")
COUNTED = SAMPLERS[:-1]
GROUPS = [[4, 0], [2, 3]]  # of six topics; the result has 0 + 4, 1, 2 + 3 and 5


@cache
def fitted(sampler="esca", **settings):
    """Six topics of the small corpus; never change it."""
    settings = {"max_iter": 12, "thin": 2, "random_state": 0, **settings}
    return StochasticLDA(6, sampler=sampler, **settings).fit(small_corpus())


def summed(rows):
    """Rows of the six topics, summed as in GROUPS."""
    return np.array([rows[0] + rows[4], rows[1], rows[2] + rows[3], rows[5]])


@pytest.mark.parametrize("sampler", COUNTED)
def test_counts_and_priors_of_merged_topics_are_sums(sampler):
    lda = fitted(sampler)
    before = lda.components_.copy()
    counts = lda.topic_word_counts_.toarray()
    merged = lda.merge_topics(GROUPS)
    assert merged.n_components == 4
    np.testing.assert_array_equal(merged.topic_word_counts_.toarray(), summed(counts))
    assert merged.topic_word_counts_.sum() == pytest.approx(counts.sum(), rel=1e-14)
    np.testing.assert_allclose(merged.doc_topic_prior_, np.array([2, 1, 2, 1]) / 6, rtol=1e-15)
    np.testing.assert_allclose(merged.topic_word_prior_, [[0.2], [0.1], [0.2], [0.1]], rtol=1e-15)
    weights = counts.sum(axis=1) + 0.1 * 40
    expected = summed(weights[:, np.newaxis] * before) / summed(weights)[:, np.newaxis]
    np.testing.assert_allclose(merged.components_, expected, rtol=1e-5)
    np.testing.assert_array_equal(lda.components_, before)
    assert lda.n_components == 6


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_are_merged_with_their_shares(sampler):
    lda = fitted(sampler)
    merged = lda.merge_topics(GROUPS)
    shares, topics = lda.posterior_["topic_weights"], lda.posterior_["components"]
    np.testing.assert_allclose(merged.posterior_["topic_weights"][0], [summed(row) for row in shares[0]], rtol=1e-12)
    for draw, share, found in zip(topics[0], shares[0], merged.posterior_["components"][0], strict=True):
        expected = summed(share[:, np.newaxis] * draw) / summed(share)[:, np.newaxis]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)
    (name,) = merged.posterior_.keys() - {"topic_weights", "components"}
    np.testing.assert_array_equal(merged.posterior_[name], lda.posterior_[name])


@pytest.mark.parametrize("sampler", COUNTED)
@pytest.mark.parametrize(
    "prior", [0.1, np.linspace(0.05, 0.3, 40), np.linspace(0.05, 0.3, 6)[[0, 1, 0, 2, 2, 0], None]]
)
def test_proportions_of_equal_topics_are_added(sampler, prior):
    """Topics 1 and 3, and 0 and 5, have the same words; proportions after merging are the sums before."""
    X = small_corpus()
    lda = StochasticLDA(6, sampler=sampler, topic_word_prior=prior, max_iter=6, random_state=0)
    lda.set_params(doc_topic_prior=[0.1, 0.2, 0.3, 0.1, 0.2, 0.4]).fit(X)
    counts, full = lda.topic_word_counts_.toarray(), TopicPrior(prior, 6, 40)
    full_rows = np.broadcast_to(full.values, (6, 40))
    counts[3] = (counts[1] + full_rows[1]) * 1.5 - full_rows[3]
    counts[5] = (counts[0] + full_rows[0]) * 2.5 - full_rows[5]
    lda._topic_counts = counts_from_dense(np.ascontiguousarray(counts.T), counts.sum(axis=1))
    lda._estimate = full.smooth(lda._topic_counts)
    np.testing.assert_allclose(lda.components_[[3, 5]], lda.components_[[1, 0]], rtol=1e-5)
    merged = lda.merge_topics([[1, 3], [0, 5]])
    before, after = (
        infer_proportions(of._parameters, as_counts(X), of.doc_topic_prior_, max_iter=10**5, tol=1e-12)
        for of in (lda, merged)
    )
    expected = np.stack([before[:, 0] + before[:, 5], before[:, 1] + before[:, 3], before[:, 2], before[:, 4]], axis=1)
    np.testing.assert_allclose(after, expected, atol=1e-6)  # topics are stored as float32
    np.testing.assert_allclose(merged.transform(X), expected, atol=1e-5)
    assert np.abs(lda.merge_topics([[1, 4]]).transform(X)[:, 1] - before[:, [1, 4]].sum(axis=1)).max() > 1e-3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_removed_topics_leave_the_others_as_they_are(sampler):
    lda = fitted(sampler)
    kept = [0, 2, 3, 5]
    smaller = lda.remove_topics([4, 1])
    np.testing.assert_array_equal(smaller.components_, lda.components_[kept])
    np.testing.assert_array_equal(smaller.posterior_["components"], lda.posterior_["components"][:, :, kept])
    shares = lda.posterior_["topic_weights"][:, :, kept]
    np.testing.assert_allclose(smaller.posterior_["topic_weights"], shares / shares.sum(axis=2, keepdims=True))
    np.testing.assert_allclose(smaller.doc_topic_prior_, 1 / 6, rtol=1e-15)
    assert smaller.topic_word_prior is None
    assert smaller.topic_word_prior_ == 0.1
    if sampler in COUNTED:
        counts = lda.topic_word_counts_.toarray()[kept]
        np.testing.assert_array_equal(smaller.topic_word_counts_.toarray(), counts)


def edits(lda):
    return {"merge": lda.merge_topics(GROUPS), "remove": lda.remove_topics([4, 1])}


@pytest.mark.covering
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("settings", [{}, {"n_chains": 3}, {"max_draws_bytes": 0}], ids=["one", "three", "no draws"])
def test_all_methods_work_after_an_edit(sampler, settings, tmp_path):
    X = small_corpus()
    for name, lda in edits(fitted(sampler, **settings)).items():
        proportions = lda.transform(X)
        assert proportions.shape == (60, 4)
        np.testing.assert_allclose(proportions.sum(axis=1), 1.0)
        assert lda.predict(X).max() < 4
        assert np.isfinite(lda.score(X))
        assert len(lda.topics_as_frame(X, n_words=3)) == 4
        assert lda.get_feature_names_out().shape == (4,)
        lda.save(tmp_path / name)
        again = load(tmp_path / name)
        np.testing.assert_array_equal(again.transform(X), proportions)
        assert again.best_chain_ == 0
        assert clone(lda).fit(X).components_.shape == (4, 40)
        if sampler in ("esca", "scir"):
            lda.partial_fit(X[:30])
            again.partial_fit(X[:30])
            assert lda.components_.shape == (4, 40)
            np.testing.assert_array_equal(again.components_, lda.components_)


@pytest.mark.parametrize("sampler", ["esca", "scir"])
def test_streams_continue_after_an_edit(sampler, tmp_path):
    X = small_corpus()
    lda = StochasticLDA(6, sampler=sampler, n_chains=2, thin=1, total_samples=500, random_state=0)
    for _ in range(4):
        lda.partial_fit(X)
    before = lda.components_.copy()
    for name, edited in edits(lda).items():
        edited.save(tmp_path / name)
        np.testing.assert_allclose(edited.components_.sum(axis=1), 1.0, rtol=1e-5)
        for _ in range(3):
            edited.partial_fit(X)
        assert edited.components_.shape == (4, 40)
        assert edited.n_batch_iter_ == 7
        edited.save(tmp_path / name)
        np.testing.assert_array_equal(load(tmp_path / name).components_, edited.components_)
    np.testing.assert_array_equal(lda.components_, before)
    lda.partial_fit(X)  # the original continues, too


def test_the_total_of_a_stream_continues_from_the_merged_counts():
    X = small_corpus()
    lda = fitted().merge_topics([[0, 4]]).set_params(total_samples=60, learning_decay=1.0, learning_offset=1e9)
    counts = lda.topic_word_counts_.toarray()
    lda.partial_fit(X)
    np.testing.assert_allclose(lda.topic_word_counts_.toarray(), counts, atol=1e-4)


@pytest.mark.extended
def test_a_sum_of_columns_has_the_distribution_of_a_process_with_the_summed_prior():
    """Reads after the sum of two columns of lazy rows are gamma variables of the summed shape."""
    n, workers = 4000, Workers(1)
    prior = make_row_prior(np.array([0.3, 0.8, 0.5]), 0, 1, n, 3)
    rows = new_rows(n, 3, prior)
    words = np.arange(n, dtype=np.int32)
    rows = read_rows(rows, words, prior, np.uint64(1), lasting=False, workers=workers)
    counts = counts_from_dense(np.tile([2, 0, 1], (n, 1)), np.array([2 * n, 0, n]))
    rows = add_counts(rows, words, counts, 50.0, prior, scale=1.0, lasting=False)
    groups = [np.array([0, 2]), np.array([1])]
    assert rows.totals.sum() == pytest.approx(sum_columns(rows, groups).totals.sum())
    rows, prior = sum_columns(rows, groups), make_row_prior(np.array([0.8, 0.8]), 0, 1, n, 2)
    assert rows.length.max() == rows.length.min() == 1
    rows = read_rows(rows, words, prior, np.uint64(2), lasting=False, workers=workers)
    assert kstest(np.exp(rows.log_theta[:, 0]), "gamma", args=(0.3 + 0.5 + 3.0,)).pvalue > 1e-3
    assert kstest(np.exp(rows.log_theta[:, 1].astype(float)), "gamma", args=(0.8,)).pvalue > 1e-3


def test_seed_words_follow_their_topics():
    X = small_corpus()
    seeds = {"a": [1, 2], "b": [3], "c": [4]}
    lda = StochasticLDA(6, seed_words=seeds, max_iter=6, random_state=0).fit(X)
    merged = lda.merge_topics([[0, 2], [1, 4]])
    assert merged.seed_words == {"a + c": [1, 2, 4], "b": [3]}
    assert merged._seeds.topics.tolist() == [0, 0, 1, 0]
    np.testing.assert_array_equal(merged.topic_word_prior_[:, 3], [1e-20, 0.2, 1e-20, 1e-20])
    refitted = clone(merged).fit(X)
    np.testing.assert_array_equal(refitted.topic_word_prior_, merged.topic_word_prior_)
    removed = lda.remove_topics([0])
    assert removed.seed_words == {"b": [3], "c": [4]}
    np.testing.assert_array_equal(removed.topic_word_prior_[:, 1], 0.1)  # a former seed word
    np.testing.assert_array_equal(removed.topic_word_prior_[:, 3], [0.1] + [1e-20] * 4)
    assert lda.remove_topics([0, 1, 2]).seed_words is None
    listed = clone(lda).set_params(seed_words=list(seeds.values())).fit(X)
    assert listed.merge_topics([[0, 2]]).seed_words == [[1, 2, 4], [3]]


def test_learned_priors_remain_and_are_summed():
    lda = fitted(doc_topic_prior="auto", topic_word_prior="auto")
    alpha, beta = lda.doc_topic_prior_, lda.topic_word_prior_
    assert lda.remove_topics([0]).topic_word_prior_ == beta
    merged = lda.merge_topics(GROUPS)
    np.testing.assert_array_equal(merged.doc_topic_prior_, summed(alpha))
    np.testing.assert_allclose(merged.topic_word_prior_, beta * np.array([[2], [1], [2], [1]]))
    np.testing.assert_array_equal(merged.partial_fit(small_corpus()).doc_topic_prior_, summed(alpha))


def test_priors_are_those_of_the_fit_and_not_of_parameters_set_later():
    lda = clone(fitted()).fit(small_corpus()).set_params(topic_word_prior=5.0, doc_topic_prior=3.0)
    merged = lda.merge_topics(GROUPS)
    np.testing.assert_array_equal(merged.topic_word_prior_, [[0.2], [0.1], [0.2], [0.1]])
    np.testing.assert_allclose(merged.doc_topic_prior_, np.array([2, 1, 2, 1]) / 6, rtol=1e-15)
    np.testing.assert_array_equal(merged.components_, fitted().merge_topics(GROUPS).components_)
    smaller = lda.remove_topics([4, 1])
    assert smaller.topic_word_prior_ == 0.1
    np.testing.assert_array_equal(smaller.components_, lda.components_[[0, 2, 3, 5]])


def test_a_topic_without_tokens_is_merged_and_left_alone():
    lda = fitted("gibbs")
    lda = lda.merge_topics([])
    lda._posterior = {**lda._posterior, "topic_weights": lda._posterior["topic_weights"].copy()}
    lda._posterior["topic_weights"][0, 0] = [1, 0, 0, 0, 0, 0]
    merged = lda.merge_topics([[1, 2]])
    expected = lda.posterior_["components"][0, 0, [1, 2]].mean(axis=0)
    np.testing.assert_allclose(merged.posterior_["components"][0, 0, 1], expected, rtol=1e-6)
    np.testing.assert_array_equal(lda.remove_topics([0]).posterior_["topic_weights"][0, 0], 0.2)


@pytest.mark.parametrize("sampler", ["esca", "scir"])
def test_all_topics_merge_into_one_and_no_edit_is_a_copy(sampler):
    lda, X = fitted(sampler), small_corpus()
    one = lda.merge_topics([range(6)])
    np.testing.assert_allclose(one.transform(X), 1.0, rtol=1e-14)
    assert one.components_.shape == (1, 40)
    same = lda.remove_topics([])
    np.testing.assert_array_equal(same.components_, lda.components_)
    assert same is not lda


@pytest.mark.parametrize(
    ("method", "argument", "message"),
    [
        ("merge_topics", [[0, 6]], r"^groups must be a list of lists of topics, from 0 to 5; got 6\.$"),
        ("merge_topics", [[-1, 0]], r"^groups must be a list of lists of topics, from 0 to 5; got -1\.$"),
        ("merge_topics", [[0, 1], [1, 2]], r"^groups has topic 1 twice\.$"),
        ("merge_topics", [[3, 3]], r"^groups has topic 3 twice\.$"),
        ("merge_topics", [[]], r"^groups has an empty group\.$"),
        ("merge_topics", [0, 3], r"^groups must be a list of lists of topics; got 0\.$"),
        ("merge_topics", [["a", "b"]], r"^groups must be a list of lists of topics; got \['a', 'b'\]\.$"),
        ("merge_topics", 3, r"^groups must be a list of lists of topics; got 3\.$"),
        ("remove_topics", range(6), r"^topics has all 6 topics, but at least one must remain\.$"),
        ("remove_topics", [6], r"^topics must be a list of indices of topics, from 0 to 5; got 6\.$"),
        ("remove_topics", [2, 2], r"^topics has topic 2 twice\.$"),
        ("remove_topics", 2, r"^topics must be a list of indices of topics; got 2\.$"),
        ("remove_topics", [1.0], r"^topics must be a list of indices of topics; got \[1\.0\]\.$"),
    ],
)
def test_bad_topics_are_refused(method, argument, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted(), method)(argument)


@pytest.mark.filterwarnings("ignore:SGRLD does not draw")
def test_estimators_that_cannot_be_edited():
    for method in ("merge_topics", "remove_topics"):
        with pytest.raises(NotFittedError):
            getattr(StochasticLDA(), method)([])
    with pytest.raises(
        ValueError, match=r"^SGRLD keeps no counts of topics, so its topics cannot be merged or removed\.$"
    ):
        fitted("sgrld").remove_topics([0])
