"""Split-merge moves of topics, against the exact posterior of the tiny corpus."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import gammaln

from skmanifold.admixture._hdp.births import Hyperparameters, TopicWeights, draw_weights
from skmanifold.admixture._hdp.split_merge import split_and_merge
from skmanifold.admixture._hdp.two_sides import Counted, TokensOfTopics, count_sides, log_gain_of_split, table_of_words
from skmanifold.random._keys import root_key, subkey

from . import _tiny_hdp as tiny

KEY = root_key(12)
MANY = 1000
SHARDS = tiny.OneShard(tiny.TABLE)


def after_moves(n_runs, n_moves, concentrations=(tiny.ALPHA, tiny.GAMMA), change=lambda weights: weights):
    """Functions of the partition after some moves that begin with exact draws, and how many of each kind there were."""
    rng = np.random.default_rng(0)
    found = np.empty((n_runs, tiny.N), np.uint16)
    n_made = np.zeros(2, int)
    for run in range(n_runs):
        found[run], tables = tiny.draw_start(rng)
        weights = change(draw_weights(tables, tiny.GAMMA, subkey(KEY, run, 0)))
        given = Hyperparameters(*concentrations, np.array([tiny.BETA]), 3 * tiny.BETA)
        n_tokens = np.bincount(found[run], minlength=len(weights.used))
        arguments = weights, given, MANY, n_moves, subkey(KEY, run, 1)
        of_topics, n_tokens = split_and_merge(SHARDS, found[run], n_tokens, *arguments)
        after = np.bincount(found[run], minlength=len(of_topics))
        np.testing.assert_array_equal(n_tokens, after)
        np.testing.assert_array_equal(of_topics > 0, after > 0)
        assert of_topics.sum() == pytest.approx(weights.used.sum())
        n_splits = len(of_topics) - len(weights.used)
        n_made += n_splits, len(weights.used) + n_splits - np.count_nonzero(of_topics)
    return summarize(tiny.functions(found)), n_made


@pytest.mark.extended
@pytest.mark.parametrize("n_moves", [3, 15])
def test_moves_leave_the_posterior_unchanged(n_moves):
    estimate, n_made = after_moves(6_000, n_moves)
    assert n_made.min() > 300
    assert_agrees(estimate, tiny.exact_functions())


@pytest.mark.extended
@pytest.mark.short_cases("weights")
@pytest.mark.parametrize(
    "wrong",
    [
        {"concentrations": (tiny.ALPHA, 2 * tiny.GAMMA)},
        {"concentrations": (2 * tiny.ALPHA, tiny.GAMMA)},
        {"change": lambda weights: TopicWeights(weights.used / 2, weights.log_unused)},
    ],
    ids=["gamma", "alpha", "weights"],
)
def test_wrong_moves_are_found(wrong):
    assert_disagrees(after_moves(6_000, 15, **wrong)[0], tiny.exact_functions())


@pytest.mark.parametrize("beta", [[0.3], [0.3, 0.3, 0.7]], ids=["all words", "each word"])
def test_the_gain_of_a_split_is_that_of_gamma_functions_in_and_beyond_the_tables(beta):
    rng, each = np.random.default_rng(0), np.resize(beta, 3)
    rows = np.sort(np.concatenate([np.zeros(2500, np.int32), rng.integers(1, 5, 40, dtype=np.int32)]))
    words = rng.choice(3, len(rows), p=[0.9, 0.05, 0.05]).astype(np.int32)
    sides = rng.integers(0, 2, len(rows)).astype(np.int8)
    given, tokens, counted = (
        Hyperparameters(0.8, 1.5, np.array(beta), each.sum()),
        TokensOfTopics(rows, words),
        Counted.none(5, 3),
    )
    count_sides(tokens, sides, *counted)
    gain = log_gain_of_split(tokens, 0.4, 0.35, given, table_of_words(given), *counted)

    def level(chosen, weight):
        in_rows, in_words = np.bincount(rows[chosen], minlength=5), np.bincount(words[chosen], minlength=3)
        total = (gammaln(each + in_words) - gammaln(each)).sum() - gammaln(each.sum() + in_words.sum())
        return (
            total
            + gammaln(each.sum())
            + (gammaln(0.8 * weight + in_rows) - gammaln(0.8 * weight)).sum()
            - np.log(weight)
        )

    exact = level(sides == 0, 0.4 * 0.35) + level(sides == 1, 0.4 * 0.65) - level(sides >= 0, 0.4)
    assert gain == pytest.approx(exact, rel=1e-10)
