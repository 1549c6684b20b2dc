"""Learning from a stream of minibatches."""

import numpy as np
import pytest

from skmanifold import StochasticLDA
from skmanifold.samplers import CVB0, ESCA, CollapsedGibbs

from .._corpora import easy_split, small_corpus


def minibatches(size=100):
    X = easy_split()[0]
    return [X[start : start + size] for start in range(0, X.shape[0], size)]


def make_lda(**params):
    return StochasticLDA(5, **{"total_samples": 2000, "random_state": 0, **params})


@pytest.mark.extended
def test_a_stream_learns_and_comes_near_to_fit():
    train, test = easy_split()
    learnt, begun, fitted = [], [], []
    for seed in range(3):
        lda = make_lda(random_state=seed)
        scores = [lda.partial_fit(batch).score(test) for batch in minibatches()]
        assert lda.n_batch_iter_ == len(scores) == 20
        begun.append(scores[0])
        learnt.append(scores[-1])
        fitted.append(make_lda(random_state=seed, max_iter=60).fit(train).score(test))
    assert np.all(np.array(begun) < np.array(learnt) - 0.02)
    assert abs(np.median(learnt) - np.median(fitted)) < 0.01


def test_first_sweeps_tell_the_topics_apart():
    def score(n_first_sweeps):
        lda = make_lda(sampler=ESCA(n_first_sweeps=n_first_sweeps))
        for batch in minibatches():
            lda.partial_fit(batch)
        return lda.score(easy_split()[1])

    assert score(100) > score(2) + 0.05


def test_statistics_move_by_the_documented_rate():
    lda = make_lda(learning_offset=3.0, learning_decay=0.8, total_samples=500)
    first, second = minibatches()[:2]
    before = lda.partial_fit(first).topic_word_counts_.sum(axis=0)
    np.testing.assert_allclose(before, first.sum(axis=0) * 5)
    after = lda.partial_fit(second).topic_word_counts_.sum(axis=0)
    rate = (3.0 + 2) ** -0.8
    np.testing.assert_allclose(after, (1 - rate) * before + rate * second.sum(axis=0) * 5)


def test_a_rate_of_one_forgets_the_past():
    lda = make_lda(learning_decay=0.0, total_samples=100)
    for batch in minibatches()[:3]:
        lda.partial_fit(batch)
    np.testing.assert_allclose(lda.topic_word_counts_.sum(axis=0), batch.sum(axis=0))


def test_a_stream_after_fit_keeps_what_was_fitted():
    train, test = easy_split()
    lda = make_lda(max_iter=40, total_samples=1_000_000).fit(train[:1000])
    before, counts = lda.score(test), lda.topic_word_counts_.sum(axis=0)
    lda.partial_fit(train[1000:1005])
    # Five documents count for the share of the first rate, whatever the sizes of the corpus and of the stream.
    rate = 11.0**-0.7
    expected = (1 - rate) * 1000 * counts + rate * 200_000 * train[1000:1005].sum(axis=0)
    np.testing.assert_allclose(lda.topic_word_counts_.sum(axis=0), expected)
    for start in range(1005, 2000, 199):
        lda.partial_fit(train[start : start + 199])
    assert lda.n_batch_iter_ == 6
    assert lda.score(test) > before - 0.02
    for name in ("posterior_", "log_density_trace_", "n_iter_"):
        assert not hasattr(lda, name)


def test_a_longer_stream_can_be_announced_on_the_way():
    lda = make_lda(total_samples=100).partial_fit(minibatches()[0])
    before = lda.topic_word_counts_.sum()
    lda.set_params(total_samples=1000, learning_decay=1.0, learning_offset=1e9).partial_fit(minibatches()[1])
    assert lda.topic_word_counts_.sum() == pytest.approx(10 * before, rel=1e-6)


@pytest.mark.parametrize("sampler", ["gibbs", "collapsed_gibbs", "cvb0", "em", "vb", CollapsedGibbs(), CVB0(), CVB0])
def test_a_sampler_of_whole_corpora_has_no_stream_and_says_why(sampler):
    lda = StochasticLDA(3, sampler=sampler)
    assert not hasattr(lda, "partial_fit")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as refusal:
        lda.partial_fit(small_corpus())
    able = "'esca', 'svb', 'scir', 'sgrld', 'sgrhmc', 'sgld', 'sghmc'"
    assert f"partial_fit needs a sampler that takes minibatches ({able}), not " in str(refusal.value.__cause__)


@pytest.mark.parametrize("first", ["gibbs", "collapsed_gibbs", "cvb0", "em", "vb", "svb"])
def test_a_stream_can_take_over_from_another_sampler(first):
    _, test = easy_split()
    lda = make_lda(sampler=first, max_iter=30).fit(easy_split()[0][:500])
    before = lda.score(test)
    for batch in minibatches(250)[2:]:
        lda.set_params(sampler="esca").partial_fit(batch)
    assert isinstance(lda.sampler_, ESCA)
    assert lda.score(test) > before - 0.02
