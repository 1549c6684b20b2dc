from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees
from scipy.special import gammaln, logsumexp

from skmanifold.emissions._categories import log_marginal_of_counts
from skmanifold.emissions.kernels import clear_sides, log_bayes_factor
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.split_merge import _shuffle, split_merge
from skmanifold.mixture._dirichlet_process.split_merge import propose_sides as propose_sides_kernel
from skmanifold.random._keys import fold_in
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny

TABLES = {"multinomial": tiny.TABLE, "categorical": tiny.CATEGORICAL}
CONCENTRATION = {"multinomial": 1.0, "categorical": 0.7}
FAULTS = ("anchors", "proposal", "sizes", "partner")
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


# The move as a matrix of transition probabilities, by enumeration of all that a move draws


class Reference:
    """What a move does, slowly, out of the marginals of `_tiny_partitions`."""

    def __init__(self, name, n_scans):
        self.table, self.concentration, self.n_scans = TABLES[name], CONCENTRATION[name], n_scans
        self.log_marginal = cache(lambda rows: tiny.log_marginal(rows, self.table))
        self.p_of_side_1 = cache(self._p_of_side_1)
        self.proposals = cache(self._proposals)
        self.transitions = cache(self._transitions)

    def _p_of_side_1(self, row, *sides):
        """Probability that the row joins side 1, given the rows on both."""
        log_weights = [np.log(len(rows)) + self.log_marginal(rows | {row}) - self.log_marginal(rows) for rows in sides]
        return np.exp(log_weights[1] - logsumexp(log_weights))

    def scan(self, launch, order, outcome):
        """Probability that a scan over `order` leads from the sides `launch` (row: side) to those of `outcome`."""
        sides, probability = dict(launch), 1.0
        for row in order:
            sides.pop(row, None)
            p = self.p_of_side_1(row, *(frozenset(r for r, s in sides.items() if s == side) for side in (0, 1)))
            sides[row] = outcome[row]
            probability *= p if outcome[row] == 1 else 1 - p
        return probability

    def _proposals(self, rows, i, j):
        """All splits (row: side), and their probabilities for each order and launch state, with that of these."""
        others = sorted(rows - {i, j})
        anchors = {i: 0, j: 1}
        splits = [anchors | dict(zip(others, sides, strict=True)) for sides in product((0, 1), repeat=len(others))]
        orders = list(permutations(others))
        weights, q = [], []
        for order in orders:
            launch = np.array([self.scan(anchors, order, split) for split in splits])
            if self.n_scans == 0:
                weights.append([1.0])
                q.append([launch])
                continue
            kernel = np.array([[self.scan(start, order, split) for split in splits] for start in splits])
            weights.append(launch @ np.linalg.matrix_power(kernel, self.n_scans - 1))
            q.append(kernel)
        return splits, np.concatenate(weights) / len(orders), np.concatenate(q)

    def partner(self, row, of_row, others, chosen):
        """Probability that a merge of the row's cluster chooses one of the others."""
        weights = {
            rows: len(rows) * np.exp(self.log_marginal(rows | {row}) - self.log_marginal(rows)) for rows in others
        }
        return weights[chosen] / sum(weights.values())

    def ratio(self, i, part_0, part_1, others, fault):
        """Acceptance ratio of a split of i's cluster, but for the probability of its proposal."""
        union, n_rows = part_0 | part_1, self.table.n_rows
        result = np.log(self.concentration)
        result += self.log_marginal(part_0) + self.log_marginal(part_1) - self.log_marginal(union)
        if fault != "sizes":
            result += gammaln(len(part_0)) + gammaln(len(part_1)) - gammaln(len(union))
        if fault != "anchors":
            merge = 1 / (len(others) + 2) / len(part_0) / len(part_1)
            if fault != "partner":
                merge *= self.partner(i, part_0, [*others, part_1], part_1)
            result += np.log(merge * n_rows * (len(union) - 1))
        return np.exp(result)

    def moves(self, labels, fault):
        """Where a move may lead from a partition, and with which probabilities."""
        labels, n_rows = np.array(labels), self.table.n_rows
        clusters = [frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
        for i, j in permutations(range(n_rows), 2):
            of_i, of_j = (next(rows for rows in clusters if row in rows) for row in (i, j))
            is_split = j in of_i
            others = [rows for rows in clusters if rows not in (of_i, of_j)]
            if is_split:
                choice = 0.5 / n_rows / (len(of_i) - 1)
            else:
                choice = 0.5 / len(clusters) / len(of_i) / len(of_j)
                choice *= self.partner(i, of_i, [*others, of_j], of_j)
            splits, weights, all_q = self.proposals(of_i | of_j, i, j)
            for split, q in zip(splits, all_q.T, strict=True):
                part_1 = frozenset(row for row, side in split.items() if side == 1)
                ratio = self.ratio(i, (of_i | of_j) - part_1, part_1, others, fault)
                q_in_ratio = 1.0 if fault == "proposal" else q
                after = labels.copy()
                if is_split:
                    after[list(part_1)] = n_rows
                    yield after, choice * np.sum(weights * q * np.minimum(1.0, ratio / q_in_ratio))
                elif part_1 == of_j:
                    after[list(part_1)] = labels[i]
                    yield after, choice * np.sum(weights * np.minimum(1.0, q_in_ratio / ratio))

    def _transitions(self, fault):
        matrix = np.zeros((len(tiny.PARTITIONS),) * 2)
        for place, labels in enumerate(tiny.PARTITIONS):
            for after, probability in self.moves(labels, fault):
                matrix[place, tiny.index_of(after)] += probability
        matrix[np.diag_indices(len(matrix))] += 1 - matrix.sum(axis=1)
        return matrix


reference = cache(Reference)


def transitions(name, n_scans, fault=None):
    """Transition probabilities of the reference; `fault` names a part of the ratio that is forgotten, or wrong.

    "anchors": how probable they are in the move and in the one that undoes it; "proposal": the probability of the
    sides; "sizes": the gammas of the sizes in the partition's prior; "partner": which cluster a merge prefers.
    """
    return reference(name, n_scans).transitions(fault)


def stationary(matrix):
    return np.linalg.matrix_power(matrix, 2**14)[0]


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


def test_enumeration_gives_the_published_figures():
    law = tiny.exact_law()
    np.testing.assert_allclose(tiny.n_components_law(law), tiny.P_COMPONENTS, atol=6e-6)
    assert abs(tiny.together(law) - tiny.P_TOGETHER) < 6e-6
    law = tiny.exact_law(concentration=(1.0, 1.0))
    np.testing.assert_allclose(tiny.n_components_law(law), tiny.GAMMA_P_COMPONENTS, atol=6e-6)
    assert abs(tiny.together(law) - tiny.GAMMA_P_TOGETHER) < 6e-6
    assert abs(tiny.mean_concentration(concentration=(1.0, 1.0)) - tiny.GAMMA_MEAN_CONCENTRATION) < 6e-6


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("n_scans", SCANS)
@pytest.mark.parametrize("name", TABLES)
def test_reference_move_is_reversible_and_its_faults_are_not(name, n_scans):
    law = law_of(name)

    def imbalance(fault):
        flow = law[:, None] * transitions(name, n_scans, fault)
        return np.abs(flow - flow.T).max()

    assert imbalance(None) < 1e-14
    for fault in FAULTS:
        assert imbalance(fault) > 1e-5


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("n_scans", SCANS)
@pytest.mark.parametrize("name", TABLES)
def test_one_move_has_the_reference_move_s_transition_probabilities(name, n_scans):
    n_states = len(tiny.PARTITIONS)
    starts = np.tile(np.arange(n_states), 30_000 // n_states)
    ends = walk(name, starts, 1, n_scans)

    def compare(fault):
        return frequencies(starts * n_states + ends, transitions(name, n_scans, fault).ravel() / n_states)

    assert_agrees(*compare(None))
    for fault in ("anchors", "proposal"):
        assert_disagrees(*compare(fault))


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("n_scans", SCANS)
@pytest.mark.parametrize("name", TABLES)
def test_exact_draws_stay_exact(name, n_scans):
    law = law_of(name)
    starts = np.random.default_rng(0).choice(len(law), 15_000, p=law)
    assert_agrees(*frequencies(walk(name, starts, 4, n_scans, seed=1), law))


@pytest.mark.long
@pytest.mark.parametrize("n_scans", SCANS)
def test_long_runs_reach_the_posterior_which_faulty_moves_miss(n_scans):
    exact = np.append(tiny.P_COMPONENTS, tiny.P_TOGETHER)
    places = walk("multinomial", np.zeros(15_000, int), 50, n_scans, seed=2)
    found = np.bincount(places, minlength=len(tiny.PARTITIONS)) / len(places)

    def figures(law):
        return np.append(tiny.n_components_law(law), tiny.together(law))

    estimate = Estimate(figures(found), np.sqrt(exact * (1 - exact) / len(places)))
    assert_agrees(estimate, exact)
    for fault in FAULTS:
        assert_disagrees(estimate, figures(stationary(transitions("multinomial", n_scans, fault))))


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


def test_joint_probability_is_that_of_gamma_functions():
    rng = np.random.default_rng(2)
    table, labels = random_table(rng, 30, (4, 7, 2), 20), rng.integers(0, 6, 30).astype(np.int32) * 3
    clusters = tiny.clusters_of(labels)
    expected = gammaln(1.7) - gammaln(1.7 + 30) + len(clusters) * np.log(1.7)
    expected += sum(gammaln(len(rows)) + tiny.log_marginal(rows, table, 0.3) for rows in clusters)
    np.testing.assert_allclose(log_joint(table, labels, 1.7, 0.3), expected, rtol=1e-12)
    counts = np.zeros(table.column_start[-1], np.int64)
    np.add.at(counts, table.indices, table.counts)
    np.testing.assert_allclose(
        log_marginal_of_counts(counts, table.column_start, 0.3), tiny.log_marginal(range(30), table, 0.3), rtol=1e-12
    )


@pytest.mark.extended
def test_each_scan_draws_anew_from_where_the_last_one_ended():
    members, order, scan = np.arange(5), (2, 3, 4), reference("multinomial", 1).scan
    splits = [dict(enumerate((0, 1, *sides))) for sides in product((0, 1), repeat=3)]
    launch = np.array([scan({0: 0, 1: 1}, order, split) for split in splits])
    joint = launch[:, None] * [[scan(start, order, split) for split in splits] for start in splits]
    found = []
    for key in range(6000):
        ends = [propose_sides(tiny.TABLE, tiny.PRIOR, members, n, key=fold_in(np.uint64(8), key))[0] for n in (0, 1)]
        found.append(np.ravel([end[2:] for end in ends]) @ [32, 16, 8, 4, 2, 1])
    assert_agrees(*frequencies(found, joint.ravel()))


# State


def test_members_but_the_anchors_are_put_in_a_random_order():
    places = {order: place for place, order in enumerate(permutations(range(2, 6)))}
    found = []
    for key in range(12_000):
        members = np.arange(7)
        _shuffle(6, np.uint64(fold_in(np.uint64(7), key)), members)
        assert members[[0, 1, 6]].tolist() == [0, 1, 6]
        found.append(places[tuple(members[2:6].tolist())])
    assert_agrees(*frequencies(found, np.full(24, 1 / 24)))


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
