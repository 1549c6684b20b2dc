from itertools import pairwise

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees
from scipy.special import logsumexp

from skmanifold.emissions.kernels import clear_sides, log_bayes_factor
from skmanifold.mixture._dirichlet_process import split_merge as module
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.split_merge import propose_sides as propose_sides_kernel
from skmanifold.mixture._dirichlet_process.split_merge import split_merge
from skmanifold.random._keys import fold_in
from skmanifold.utils._threads import Workers

from ..subspace._subspace_references import altered
from . import _tiny_partitions as tiny

TABLES = {"multinomial": tiny.TABLE, "categorical": tiny.CATEGORICAL}
CONCENTRATION = {"multinomial": 1.0, "categorical": 0.7}
SCANS = (0, 1, 3)
ALONE = Workers(1)


def split_merge_rows(table, labels, concentration, prior, n_moves, n_scans, key):
    """Moves of labels alone."""
    return move_labels(tiny.category_clusters(table, prior), labels, concentration, n_moves, n_scans, key)


def move_labels(clusters, labels, concentration, n_moves, n_scans, key, recounts=True):
    counts = clusters.no_statistics(max(int(labels.max()) + 1, len(set(labels.tolist())) + n_moves))
    clusters.count(labels, counts, ALONE)
    accepted = split_merge(clusters, labels, counts, concentration, n_moves, n_scans, key)
    if not recounts:
        return accepted
    recounted = clusters.no_statistics(len(counts.sizes))
    clusters.count(labels, recounted, ALONE)
    for kept, found in zip(counts, recounted, strict=True):
        np.testing.assert_array_equal(kept, found)
    return accepted


def log_joint(table, labels, concentration, prior):
    clusters = tiny.category_clusters(table, prior)
    model = DPModel(clusters, concentration, (1.0, 1.0), init=1, batch_size=None, workers=ALONE)
    return model.log_joint(model.count(np.asarray(labels, np.int32)), concentration)


def frequencies(places, law):
    """How often each place of `law` is found, with the errors that this law gives, rare places taken as one."""
    n = len(places)
    common = n * law >= 20
    found = np.bincount(places, minlength=len(law)) / n
    found, law = (np.append(x[common], x[~common].sum()) for x in (found, law))
    return Estimate(found, np.sqrt(law * (1 - law) / n) + 1e-12), law


def walk(name, starts, n_moves, n_scans, seed=0):
    """Places of the partitions that chains reach."""
    clusters, alpha = tiny.category_clusters(TABLES[name], tiny.PRIOR), CONCENTRATION[name]
    places = np.empty(len(starts), int)
    for chain, start in enumerate(starts):
        labels = np.array(tiny.PARTITIONS[start], np.int32)
        key, recounts = fold_in(np.uint64(seed), chain), chain % 10 == 0
        move_labels(clusters, labels, alpha, n_moves, n_scans, key, recounts)
        places[chain] = tiny.index_of(labels)
    return places


def law_of(name):
    return tiny.exact_law(concentration=CONCENTRATION[name], table=TABLES[name])


# Laws


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("n_scans", SCANS)
@pytest.mark.parametrize("name", TABLES)
def test_exact_draws_stay_exact(name, n_scans):
    law = law_of(name)
    starts = np.random.default_rng(0).choice(len(law), 15_000, p=law)
    assert_agrees(*frequencies(walk(name, starts, 4, n_scans, seed=1), law))


FAULTS = {  # changes of the source
    "anchors": (module._log_ratio_of_split, " + log_merge - log_split", ""),
    "partner": (module._log_ratio_of_split, "log_partner - math", "-math"),
    "sizes": (module._log_ratio_of_split, " + math.lgamma(size_0) + math.lgamma(size_1) - math.lgamma(size)", ""),
    "proposal": (module._make_moves, "log_ratio - log_q", "log_ratio"),
}


@pytest.mark.extended
@pytest.mark.parametrize("fault", FAULTS)
def test_exact_draws_do_not_stay_exact_with_faulty_moves(fault, monkeypatch):
    kernel, right, wrong = FAULTS[fault]
    names = {} if kernel is module._make_moves else {"_log_ratio_of_split": altered(kernel, right, wrong)}
    change = () if names else (right, wrong)
    monkeypatch.setattr(module, "_make_moves", altered(module._make_moves, *change, **names))
    law = law_of("multinomial")
    starts = np.random.default_rng(0).choice(len(law), 4000, p=law)
    assert_disagrees(*frequencies(walk("multinomial", starts, 4, 0, seed=1), law))


@pytest.mark.long
@pytest.mark.parametrize("n_scans", SCANS)
def test_long_runs_reach_the_posterior(n_scans):
    exact = np.append(tiny.P_COMPONENTS, tiny.P_TOGETHER)
    places = walk("multinomial", np.zeros(15_000, int), 50, n_scans, seed=2)
    found = np.bincount(places, minlength=len(tiny.PARTITIONS)) / len(places)

    def figures(law):
        return np.append(tiny.n_components_law(law), tiny.together(law))

    assert_agrees(Estimate(figures(found), np.sqrt(exact * (1 - exact) / len(places))), exact)


# Arithmetic


def random_table(rng, n_rows, sizes, largest, missing=0.2):
    """Rows of columns with these numbers of categories, counts up to `largest`."""
    n_categories = sum(sizes)
    rows = np.floor(np.exp(rng.uniform(0, np.log(largest + 1), (n_rows, n_categories)))).astype(int)
    rows[rng.random(rows.shape) < 0.4] = 0
    column_start = np.concatenate(([0], np.cumsum(sizes)))
    for start, stop in pairwise(column_start):
        rows[rng.random(n_rows) < missing, start:stop] = 0
    return tiny.table_of(rows, column_start)


def propose_sides(table, prior, members, n_scans, given_sides=None, floor=-np.inf, key=0):
    """Sides, log of the probability, and log Bayes factor."""
    clusters = tiny.category_clusters(table, prior)
    data, (_, sides) = clusters.data, clusters.split_merge_space(clusters.no_statistics(1), np.uint64(0))
    side = np.zeros(len(members), np.int8)
    sides_given = given_sides is not None
    log_q = propose_sides_kernel(
        data,
        sides,
        members,
        len(members),
        n_scans,
        floor,
        sides_given,
        np.asarray(given_sides if sides_given else side, np.int8),
        np.uint64(key),
        side,
    )
    factor = log_bayes_factor(data, *sides, 0, 1)
    clear_sides(data, *sides)
    assert not sides[0].categories[:, :2].any()
    assert not sides[1].totals[:, :2].any()
    assert sides[1].n_present[0] == 0
    return side, log_q, factor


def log_probability_of_sides(table, prior, members, side, launch=None):
    """What `propose_sides` returns, from marginals; `launch` has the sides before the last scan, if there was one."""
    before = dict(zip(members, side[:2] if launch is None else launch, strict=launch is not None))
    result = 0.0
    for row, s in zip(members[2:], side[2:], strict=True):
        before.pop(row, None)
        sides = [[r for r, of in before.items() if of == which] for which in (0, 1)]
        log_weights = [
            np.log(len(rows)) + tiny.log_marginal([*rows, row], table, prior) - tiny.log_marginal(rows, table, prior)
            for rows in sides
        ]
        result += log_weights[s] - logsumexp(log_weights)
        before[row] = s
    parts = [np.asarray(members)[side == which] for which in (0, 1)]
    log_bayes_factor = sum(tiny.log_marginal(rows, table, prior) for rows in parts) - tiny.log_marginal(
        members, table, prior
    )
    return result, log_bayes_factor


@pytest.mark.extended
@pytest.mark.parametrize(
    ("sizes", "largest", "prior"),
    [
        ((6,), 3, 0.5),
        ((4, 3, 5), 12, 0.1),
        ((40,) * 60, 100_000, 0.5),
        ((2,) * 60, 1, 1e-12),
        ((300,), 100_000, 1e-9),
        ((3,) * 60, 2, 1e5),
    ],
)
def test_probabilities_and_marginals_are_those_of_gamma_functions_at_any_scale(sizes, largest, prior):
    rng = np.random.default_rng(0)
    table = random_table(rng, 12, sizes, largest)
    members = rng.permutation(12)
    launch = propose_sides(table, prior, members, 0)
    contrary = 1 - launch[0]
    contrary[:2] = 0, 1
    cases = [
        (launch, None),
        (propose_sides(table, prior, members, 0, given_sides=contrary), None),
        (propose_sides(table, prior, members, 1), launch[0]),
        (propose_sides(table, prior, members, 1, given_sides=contrary), launch[0]),
        (propose_sides(table, prior, members, 2, given_sides=contrary), propose_sides(table, prior, members, 1)[0]),
    ]
    for (side, log_q, log_factor), before in cases:
        expected, expected_gain = log_probability_of_sides(table, prior, members, side, before)
        tolerance = 1e-10 * np.abs(tiny.log_marginal(members, table, prior))
        assert np.isfinite(log_q)
        np.testing.assert_allclose(log_q, expected, rtol=1e-9, atol=1e-9 + tolerance)
        np.testing.assert_allclose(log_factor, expected_gain, rtol=1e-9, atol=1e-9 + tolerance)
    np.testing.assert_array_equal(cases[-1][0][0], contrary)


def test_dealing_stops_only_where_the_probability_is_below_the_floor():
    rng = np.random.default_rng(1)
    for largest in (2, 300):
        table = random_table(rng, 600, (5, 4), largest)
        members = rng.permutation(600)
        given_sides = np.concatenate(([0, 1], rng.integers(0, 2, 598)))
        log_q = propose_sides(table, 0.5, members, 0, given_sides)[1]
        assert propose_sides(table, 0.5, members, 0, given_sides, floor=log_q + 1e-6)[1] == -np.inf
        assert propose_sides(table, 0.5, members, 0, given_sides, floor=log_q - 1e-6)[1] == log_q


# State


def test_big_counts_and_many_columns_move_without_overflow():
    rng = np.random.default_rng(3)
    table = random_table(rng, 60, (8,) * 60, 100_000)
    halves = random_table(rng, 60, (2,) * 60, 1)
    for case in (table, halves):
        labels = np.zeros(60, np.int32)
        n_splits, n_merges = split_merge_rows(case, labels, 1.0, 0.5, 300, 1, np.uint64(0))
        assert len(np.unique(labels)) == 1 + n_splits - n_merges
        assert np.isfinite(log_joint(case, labels, 1.0, 0.5))


def test_clearly_different_groups_are_split_from_one_cluster_and_merged_from_singletons():
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(3), 30)
    rows = np.array([rng.multinomial(15, np.where(np.arange(9) // 3 == g, 0.3, 1 / 60)) for g in group])
    for start in (np.zeros(90, np.int32), np.arange(90, dtype=np.int32)):
        labels = start.copy()
        split_merge_rows(tiny.table_of(rows), labels, 1.0, 0.5, 6000, 0, np.uint64(0))
        largest = sorted(tiny.clusters_of(labels), key=len)[-3:]
        assert all(len(rows) >= 27 and len(set(group[list(rows)])) == 1 for rows in largest)


def test_labels_stay_but_for_the_smallest_free_one():
    labels = np.array([7, 7, 7, 2, 0], np.int32)
    seen = set()
    for move in range(60):
        before = labels.copy()
        n_splits, n_merges = split_merge_rows(tiny.CATEGORICAL, labels, 5.0, 0.5, 1, 0, np.uint64(move))
        moved = labels != before
        assert bool(moved.any()) == bool(n_splits + n_merges)
        if n_splits:
            free = min(set(range(8)) - set(before.tolist()))
            assert set(labels[moved].tolist()) == {free}
            assert len(set(before[moved].tolist())) == 1
        if n_merges:
            assert len(set(labels.tolist())) == len(set(before.tolist())) - 1
            assert set(labels[moved].tolist()) < set(before.tolist())
        seen.add((n_splits, n_merges))
    assert seen == {(0, 0), (1, 0), (0, 1)}


def test_calls_in_a_row_forget_nothing_that_one_call_remembers():
    """A move on a table that others have moved before gives back scratch and cycles in order."""
    rng = np.random.default_rng(5)
    table = random_table(rng, 40, (4, 3), 3)
    for n_scans in SCANS:
        labels = rng.integers(0, 5, 40).astype(np.int32)
        n_before = len(np.unique(labels))
        n_splits, n_merges = split_merge_rows(table, labels, 3.0, 0.5, 2000, n_scans, np.uint64(1))
        assert min(n_splits, n_merges) > 5
        assert len(np.unique(labels)) == n_before + n_splits - n_merges


@pytest.mark.parametrize("rows", [[[2, 1]], [[0, 0], [0, 0], [0, 0]], [[3, 0], [0, 0]]])
@pytest.mark.parametrize("n_scans", SCANS)
def test_single_rows_and_empty_rows_are_moved_like_others(rows, n_scans):
    labels = np.zeros(len(rows), np.int32)
    n_splits, n_merges = split_merge_rows(tiny.table_of(rows), labels, 1.0, 0.5, 50, n_scans, np.uint64(0))
    assert len(np.unique(labels)) == 1 + n_splits - n_merges
    assert (n_splits > 0) == (len(rows) > 1)
