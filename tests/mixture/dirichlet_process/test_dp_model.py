"""The model of a Dirichlet-process mixture: what it draws and counts, against slow references."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, summarize
from scipy import stats
from scipy.special import digamma, gammaln, polygamma

from skmanifold.emissions import _categories as categories
from skmanifold.emissions._statistics import n_used, with_labels
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._slice_evidence import model_of

KEY = root_key(20)
UNLIKELY = 1e-4
N_CATEGORIES = (2, 3, 4)
START = np.concatenate([[0], np.cumsum(N_CATEGORIES)])


def random_cells(n_rows, n_categories, p_missing=0.2, seed=0):
    """A categorical table, as dense counts and as a `Table`."""
    rng = np.random.default_rng(seed)
    blocks = []
    for n in n_categories:
        here = np.eye(n, dtype=int)[rng.integers(0, n, n_rows)]
        here[rng.random(n_rows) < p_missing] = 0
        blocks.append(here)
    dense = np.hstack(blocks)
    return dense, tiny.table_of(dense, np.concatenate([[0], np.cumsum(n_categories)]))


def random_tokens(n_rows, n_categories, largest=5, seed=0):
    """Counts of a multinomial, likewise."""
    dense = np.random.default_rng(seed).integers(0, largest + 1, (n_rows, n_categories))
    return dense, tiny.table_of(dense)


def new_model(table, prior=0.5, workers=None, batch_size=None, init=3):
    settings = {"init": init, "batch_size": batch_size, "workers": workers or Workers(1)}
    return DPModel(tiny.category_clusters(table, prior), None, (1.0, 1.0), **settings)


def random_log_table(n_components, start, seed=1):
    rng = np.random.default_rng(seed)
    blocks = [rng.dirichlet(np.full(n, 0.7), n_components).T for n in np.diff(start)]
    return np.log(np.vstack(blocks))


# --- labels given slices ---------------------------------------------------------------------------------

WEIGHTS = np.array([0.3, 0.25, 0.2, 0.1, 0.08, 0.02, 0.01])
COMPONENTS = np.array([4, 0, 9, 2, 7, 1, 12])  # labels, in the order of weights
WEIGHT_OF = np.zeros(13)
WEIGHT_OF[COMPONENTS] = WEIGHTS


def draw_once(model, labels, log_table, key, rows=None):
    labels = labels.copy()
    rows = np.arange(model.n_rows) if rows is None else rows
    counts = model.sample_labels(rows, labels, model.count(labels), log_table, WEIGHTS, COMPONENTS, WEIGHT_OF, key)
    return labels, counts


def test_densities_that_underflow_are_compared_all_the_same():
    """A row of many tokens: every density is below 1e-300, and one component is e times as likely as another."""
    table = tiny.table_of([[3000, 3000]])
    log_table = np.full((2, 7), -10.0)
    log_table[0] += np.array([0, 1, -1e6, -5, -5, -5, -5]) / 3000
    model, old = new_model(table), np.array([COMPONENTS[-1]], np.int32)
    drawn = np.array([draw_once(model, old, log_table, subkey(KEY, i))[0][0] for i in range(4000)])
    p = np.exp([0, 1, -np.inf, -5, -5, -5, -5])
    estimate = summarize(drawn[:, None] == COMPONENTS[[0, 1, 3]])
    assert_agrees(estimate, (p / p.sum())[[0, 1, 3]])
    assert not np.any(drawn == COMPONENTS[2])


def test_only_the_rows_of_the_minibatch_move():
    _, table = random_cells(50, N_CATEGORIES)
    old = COMPONENTS[np.random.default_rng(0).integers(0, 7, 50)].astype(np.int32)
    rows = np.array([7, 3, 30, 44])
    new, counts = draw_once(new_model(table), old, random_log_table(7, START), KEY, rows)
    same = np.setdiff1d(np.arange(50), rows)
    np.testing.assert_array_equal(new[same], old[same])
    whole, _ = draw_once(new_model(table), old, random_log_table(7, START), KEY)
    np.testing.assert_array_equal(new[rows], whole[rows])  # what a row draws belongs to the row
    assert np.any(new[rows] != old[rows])
    assert counts.sizes.sum() == 50


# --- threads ---------------------------------------------------------------------------------------------


def test_components_do_not_depend_on_how_columns_are_dealt_to_tasks(monkeypatch):
    _, table = random_cells(40, (3, 50, 2, 2, 90, 4, 2))
    model = new_model(table)
    arguments = model.count(model.init_labels(KEY)), np.array([2, 0, 40, 1]), KEY
    whole = model.draw_components(*arguments)
    for size in (1, 7, 100, 10**9):
        monkeypatch.setattr(categories, "_CELLS_DRAWN", size)
        np.testing.assert_array_equal(model.draw_components(*arguments), whole)


# --- counts ----------------------------------------------------------------------------------------------


def recount(dense, labels, capacity):
    sizes = np.bincount(labels, minlength=capacity)
    categories = np.zeros((dense.shape[1], capacity), int)
    np.add.at(categories.T, labels, dense)
    return sizes, categories


@pytest.mark.parametrize("kind", ["cells", "tokens"])
def test_counts_stay_those_of_the_labels_over_many_steps(kind):
    dense, table = random_cells(60, N_CATEGORIES) if kind == "cells" else random_tokens(60, 4)
    settings = {"init": 4, "batch_size": 25, "workers": Workers(1)}
    model = DPModel(tiny.category_clusters(table, 0.5), 12.0, (1.0, 1.0), **settings)
    capacities, gaps = set(), False
    for sampler in (Slice(0, 0, False), Slice(3, 1)):
        state = sampler.init(model, KEY)
        for _ in range(60):
            state = sampler.step(model, state)
            counts = state.statistics
            for mine, exact in zip(counts[:2], recount(dense, state.latents, len(counts.sizes)), strict=True):
                np.testing.assert_array_equal(mine, exact)
            np.testing.assert_allclose(state.log_density, slow_log_joint(dense, table, state, 12.0))
            assert state.latents.dtype == np.int32
            capacities.add(len(counts.sizes))
            gaps |= bool(np.any(counts.sizes[: n_used(counts)] == 0))
    assert len(capacities) > 1
    assert gaps


def slow_log_joint(dense, table, state, concentration):
    labels = state.latents
    clusters = [frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
    of_partition = len(clusters) * np.log(concentration) + sum(gammaln(len(rows)) for rows in clusters)
    of_partition += gammaln(concentration) - gammaln(concentration + len(labels))
    return of_partition + sum(tiny.log_marginal(rows, table) for rows in clusters)


def test_log_joint_is_that_of_data_and_partition():
    for table in (tiny.TABLE, tiny.CATEGORICAL):
        model = model_of(table, 0.7)
        law = [model.log_joint(model.count(np.array(p, np.int32)), 0.7) for p in tiny.partitions(table.n_rows)]
        weights = np.exp(law - np.max(law))
        np.testing.assert_allclose(weights / weights.sum(), tiny.exact_law(concentration=0.7, table=table))


def test_counts_are_kept_when_components_get_other_labels():
    dense, table = random_cells(30, N_CATEGORIES)
    model = new_model(table)
    labels = np.random.default_rng(0).choice([1, 4, 5], 30).astype(np.int32)
    places = np.full(len(model.count(labels).sizes), -1, np.int32)
    places[[1, 4, 5]] = 70, 0, 4
    after = with_labels(model.count(labels), places)
    for mine, exact in zip(after[:2], recount(dense, places[labels], len(after.sizes)), strict=True):
        np.testing.assert_array_equal(mine, exact)


# --- components ------------------------------------------------------------------------------------------


def drawn_components(model, counts, components, n=1500):
    return np.array([model.draw_components(counts, components, subkey(KEY, i)) for i in range(n)])


def test_tiny_priors_leave_logarithms_where_probabilities_underflow():
    """One cell of two: log p has the law of log(X / (X + Y)), X, Y ~ Ga(1e-4), far below -745."""
    model = new_model(tiny.table_of([[1, 0]]), 1e-4)
    counts = model.count(np.array([0], np.int32))
    draws = drawn_components(model, counts, np.array([1]), 4000)[:, :, 0]
    assert draws.min() < -2000
    assert np.all(draws.max(axis=1) > -np.log(2) - 1e-12)
    assert_agrees(summarize(draws), digamma(1e-4) - digamma(2e-4))
    second = polygamma(1, 1e-4) - polygamma(1, 2e-4) + (digamma(1e-4) - digamma(2e-4)) ** 2
    assert_agrees(summarize(draws**2), second)
    seen = drawn_components(model, counts, np.array([0]), 4000)[:, 1, 0]  # no token here, one in the other category
    assert_agrees(summarize(seen), digamma(1e-4) - digamma(1 + 2e-4))


# --- minibatches and starts ------------------------------------------------------------------------------


def test_minibatches_have_each_row_once_in_an_order_of_their_own():
    model = new_model(random_cells(23, N_CATEGORIES)[1], batch_size=5)
    batches = [model.choose_batches(subkey(KEY, i)) for i in range(600)]
    for batch in batches:
        assert [len(rows) for rows in batch] == [5, 5, 5, 5, 3]
        np.testing.assert_array_equal(np.sort(np.concatenate(batch)), np.arange(23))
    first = np.bincount(np.concatenate([batch[0] for batch in batches]), minlength=23)
    assert stats.chisquare(first).pvalue > UNLIKELY
    together = np.mean([(0 in batch[0]) and (1 in batch[0]) for batch in batches])
    assert abs(together - 5 * 4 / (23 * 22)) < 4.5 * np.sqrt(0.04 / 600)
    for whole in (None, 23, 100):
        model.batch_size = whole
        (rows,) = model.choose_batches(KEY)
        np.testing.assert_array_equal(rows, np.arange(23))


def test_large_minibatches_have_random_groups_of_consecutive_rows():
    n, together = 4 * 2560 + 6, 4
    model = new_model(random_cells(n, (2,))[1], batch_size=600)
    batches = [model.choose_batches(subkey(KEY, i)) for i in range(40)]
    for batch in batches:
        np.testing.assert_array_equal(np.sort(np.concatenate(batch)), np.arange(n))
        assert {len(rows) for rows in batch[:-1]} <= {600, 598}  # the last group has two rows
        for rows in batch:
            np.testing.assert_array_equal(rows, np.sort(rows))
            assert len(np.unique(rows // together)) == -(-len(rows) // together)
    first = np.bincount(np.concatenate([np.unique(batch[0] // together) for batch in batches]), minlength=2562)
    assert stats.chisquare(first).pvalue > UNLIKELY
    (*_, rows) = model.choose_batches(KEY, 1)
    assert (np.diff(rows) > 1).mean() > 0.5


def test_first_labels_are_given_or_dealt_out_at_random():
    table = random_cells(3000, (2,))[1]
    labels = new_model(table, init=4).init_labels(KEY)
    assert labels.dtype == np.int32
    assert stats.chisquare(np.bincount(labels, minlength=4)).pvalue > UNLIKELY
    given = np.arange(3000) % 7
    drawn = new_model(table, init=given).init_labels(KEY)
    np.testing.assert_array_equal(drawn, given)
    assert drawn.dtype == np.int32
    drawn[:] = 0  # the caller's stay
    assert given[1] == 1


def test_given_labels_are_not_written_over():
    _, table = random_cells(40, N_CATEGORIES)
    given = (np.arange(40) % 3).astype(np.int32)
    model, sampler = new_model(table, init=given), Slice(0, 0, False)
    state = sampler.init(model, KEY)
    for _ in range(3):
        state = sampler.step(model, state)
    np.testing.assert_array_equal(given, np.arange(40) % 3)
    assert np.any(state.latents != given)


def test_the_first_concentration_is_given_or_the_mean_of_its_prior():
    assert model_of(tiny.TABLE, 0.7).init_concentration() == 0.7
    assert model_of(tiny.TABLE, (3.0, 4.0)).init_concentration() == 0.75
