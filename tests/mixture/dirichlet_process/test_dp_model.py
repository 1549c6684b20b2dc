"""The model of a Dirichlet-process mixture: what it draws and counts, against slow references."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import digamma, gammaln, polygamma

from skmanifold.emissions import _categories as categories
from skmanifold.emissions._statistics import n_used, with_labels
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import fold_in_each, root_key, subkey
from skmanifold.random._variates import open_uniform
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


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["cells", "tokens"])
def test_labels_are_drawn_in_proportion_to_densities_above_each_rows_slice(kind):
    dense, table = random_cells(6, N_CATEGORIES) if kind == "cells" else random_tokens(6, 9)
    model = new_model(table)
    log_table = random_log_table(len(COMPONENTS), table.column_start)
    old = COMPONENTS[[0, 1, 2, 3, 4, 5]].astype(np.int32)
    log_densities = dense @ log_table
    n, observed, expected = 3000, np.zeros((6, 7)), np.zeros((6, 7))
    for i in range(n):
        key = subkey(KEY, i)
        uniforms = np.array([open_uniform(child, 0) for child in fold_in_each(key, np.arange(6))])
        slices = uniforms * WEIGHT_OF[old]
        np.testing.assert_allclose(model.least_slice(np.arange(6), old, WEIGHT_OF, key), slices.min())
        p = np.where(slices[:, None] < WEIGHTS, np.exp(log_densities), 0)
        expected += p / p.sum(axis=1, keepdims=True)
        new, _ = draw_once(model, old, log_table, key)
        places = (new[:, None] == COMPONENTS).argmax(axis=1)
        assert np.all(p[np.arange(6), places] > 0), "a component below the slice"
        observed[np.arange(6), places] += 1
    variance = expected * (1 - expected / n)
    z = (observed - expected) / np.sqrt(np.maximum(variance, 1))
    assert np.abs(z).max() < 4.5
    flat = np.exp(log_densities) / np.exp(log_densities).sum(axis=1, keepdims=True)  # without slices
    assert np.abs((observed - n * flat) / np.sqrt(n * flat * (1 - flat) + 1)).max() > 4.5


def test_slices_are_uniform_below_the_weight_of_the_rows_own_component():
    table = random_cells(1, N_CATEGORIES)[1]
    model, label = new_model(table), np.array([2], np.int32)
    slices = [model.least_slice(np.arange(1), label, WEIGHT_OF, subkey(KEY, i)) for i in range(4000)]
    assert stats.kstest(np.array(slices) / WEIGHT_OF[2], "uniform").pvalue > UNLIKELY


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


def test_rows_without_cells_take_components_above_their_slice_alike():
    table = tiny.table_of(np.zeros((1, 9), int), START)
    log_table, old = random_log_table(7, START), np.array([COMPONENTS[2]], np.int32)
    drawn = np.array([draw_once(new_model(table), old, log_table, subkey(KEY, i))[0][0] for i in range(4000)])
    above = np.minimum(WEIGHTS, WEIGHTS[2]) / WEIGHTS[2]  # P(the slice is below the j-th weight)
    levels = -np.diff(above, append=0.0)  # P(j components and no more are above the slice)
    p = np.array([(levels[j:] / np.arange(j + 1, 8)).sum() for j in range(7)])
    assert_agrees(summarize(drawn[:, None] == COMPONENTS), p)


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
            for mine, exact in zip(counts, recount(dense, state.latents, len(counts.sizes)), strict=True):
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


def test_log_joint_does_not_care_how_components_are_called():
    model = model_of(tiny.CATEGORICAL, 0.7)
    a, b = (np.array(labels, np.int32) for labels in ([0, 0, 1, 2, 1], [50, 50, 3, 7, 3]))
    np.testing.assert_allclose(model.log_joint(model.count(a), 0.7), model.log_joint(model.count(b), 0.7))


def test_counts_are_kept_when_components_get_other_labels():
    dense, table = random_cells(30, N_CATEGORIES)
    model = new_model(table)
    labels = np.random.default_rng(0).choice([1, 4, 5], 30).astype(np.int32)
    places = np.full(len(model.count(labels).sizes), -1, np.int32)
    places[[1, 4, 5]] = 70, 0, 4
    after = with_labels(model.count(labels), places)
    for mine, exact in zip(after, recount(dense, places[labels], len(after.sizes)), strict=True):
        np.testing.assert_array_equal(mine, exact)


# --- components ------------------------------------------------------------------------------------------


def drawn_components(model, counts, components, n=1500):
    return np.array([model.draw_components(counts, components, subkey(KEY, i)) for i in range(n)])


@pytest.mark.parametrize("prior", [1e-4, 0.05, 1.0, 40.0])
def test_components_are_dirichlet_given_counts_in_log_space(prior):
    """Also for labels without rows, and for those beyond the counts, as sticks from the prior have them."""
    dense, table = random_cells(40, N_CATEGORIES)
    dense[:, 0] *= 3_000_000  # big counts
    table = tiny.table_of(dense, table.column_start)
    model = new_model(table, prior)
    labels = np.random.default_rng(0).choice([0, 2], 40).astype(np.int32)
    counts, components = model.count(labels), np.array([2, 0, 1, 500])
    draws = drawn_components(model, counts, components)
    assert np.isfinite(draws).all()
    tokens = [dense[labels == component].sum(axis=0) for component in components]
    shapes = prior + np.transpose(tokens)
    totals = np.repeat(np.add.reduceat(shapes, START[:-1], axis=0), N_CATEGORIES, axis=0)
    p = np.exp(draws)
    np.testing.assert_allclose(np.add.reduceat(p, START[:-1], axis=1), 1)
    mean = shapes / totals
    assert_agrees(summarize(p), mean, 1e-4)  # rarer than that has no standard error to go by
    variance = mean * (1 - mean) / (totals + 1)
    scaled = (p - mean) ** 2 / np.maximum(variance, 1e-30)
    if prior >= 0.05:
        assert_agrees(summarize(scaled), 1.0)
    if prior < 1:
        assert_agrees(summarize(draws), digamma(shapes) - digamma(totals))
        half = np.array(N_CATEGORIES).repeat(N_CATEGORIES)[:, None] * prior / 2
        assert_disagrees(summarize(draws), digamma(shapes - prior / 2) - digamma(totals - half))
    assert np.all(draws <= 0)


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


def test_a_minibatch_of_all_rows_is_the_sampler_without_minibatches():
    _, table = random_cells(23, N_CATEGORIES)
    states = []
    for batch_size in (None, 23):
        model, sampler = new_model(table, batch_size=batch_size), Slice(2)
        state = sampler.init(model, KEY)
        for _ in range(5):
            state = sampler.step(model, state)
        states.append(state)
    np.testing.assert_array_equal(states[0].latents, states[1].latents)


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
