"""Births and deaths of topics in a part of the documents, against the exact posterior of the tiny corpus."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._hdp.births import Hyperparameters, TopicWeights, draw_weights, sample_with_births
from skmanifold.admixture._hdp.token_rows import gather_documents, put_documents
from skmanifold.admixture._tokens.document_gibbs import make_word_table
from skmanifold.random._keys import root_key, subkey
from skmanifold.utils._threads import Workers

from ..tokens._documents import make_counts
from . import _tiny_hdp as tiny

KEY = root_key(11)
MANY = 1000
SHARDS = tiny.OneShard(tiny.TABLE)


def step(topics, tables, rows, rng, key, gamma=tiny.GAMMA, change=lambda weights: weights):
    """A step that begins with weights and topics drawn given the tokens."""
    n_topics = len(tables)
    weights = change(draw_weights(tables, tiny.GAMMA, subkey(key, 0)))
    counts = np.full((n_topics, 3), tiny.BETA)
    np.add.at(counts, (topics.astype(int), tiny.WORDS), 1)
    phi = np.array([rng.dirichlet(shape) for shape in counts])
    table = make_word_table(np.log(phi.T), np.zeros(n_topics), tiny.ALPHA * weights.used, Workers(1))
    n_tokens = np.bincount(topics, minlength=n_topics)
    given = Hyperparameters(tiny.ALPHA, gamma, np.array([tiny.BETA]), 3 * tiny.BETA)
    documents, taken = gather_documents(SHARDS, topics, rows)
    born = sample_with_births(documents, rows, taken, n_tokens, table, weights, given, MANY, subkey(key, 1))
    put_documents(SHARDS, topics, rows, documents, taken, len(born.used))
    return born


def after_steps(n_runs, choose_rows, **options):
    rng = np.random.default_rng(0)
    found = np.empty((n_runs, tiny.N), np.uint16)
    for run in range(n_runs):
        found[run], tables = tiny.draw_start(rng)
        step(found[run], tables, choose_rows(rng), rng, subkey(KEY, run), **options)
    return summarize(tiny.functions(found))


@pytest.mark.extended
@pytest.mark.short_cases("all", "two at random")
@pytest.mark.parametrize(
    "choose_rows",
    [lambda rng: np.arange(3), lambda rng: rng.permutation(3)[:2], lambda rng: np.array([1])],
    ids=["all", "two at random", "one"],
)
def test_steps_leave_the_posterior_unchanged(choose_rows):
    assert_agrees(after_steps(6_000, choose_rows), tiny.exact_functions())


@pytest.mark.extended
@pytest.mark.short_cases("too few births")
@pytest.mark.parametrize(
    "wrong",
    [
        {"change": lambda weights: TopicWeights(weights.used, weights.log_unused - 0.5)},
        {"gamma": 2 * tiny.GAMMA},
    ],
    ids=["too few births", "weights of new topics too small"],
)
def test_wrong_steps_are_found(wrong):
    assert_disagrees(after_steps(6_000, lambda rng: np.arange(3), **wrong), tiny.exact_functions())


def test_weights_belong_to_topics_in_use_and_sum_to_one():
    rng = np.random.default_rng(1)
    for run in range(200):
        topics, tables = tiny.draw_start(rng)
        born = step(topics, tables, np.arange(3), rng, subkey(KEY, run, 7))
        in_use = np.flatnonzero(np.bincount(topics, minlength=len(born.used)))
        np.testing.assert_array_equal(np.flatnonzero(born.used), in_use)
        assert born.used.sum() + np.exp(born.log_unused) == pytest.approx(1)


def test_many_topics_can_begin_in_one_document():
    documents = make_counts(np.eye(40, dtype=int).sum(axis=0)[np.newaxis])
    topics = np.zeros(40, np.uint16)
    table = make_word_table(np.zeros((40, 1)), np.full(1, np.log(40)), np.ones(1), Workers(1))
    weights = TopicWeights(np.array([1e-9]), np.log1p(-1e-9))
    given = Hyperparameters(1e6, 1e4, np.array([1e-3]), 0.04)
    born = sample_with_births(documents, np.array([0]), topics, np.array([40]), table, weights, given, MANY, KEY)
    assert len(set(topics)) == np.count_nonzero(born.used) > 30
    assert born.used.sum() + np.exp(born.log_unused) == pytest.approx(1)
