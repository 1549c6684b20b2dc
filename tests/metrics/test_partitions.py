import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.metrics import mutual_info_score

from skmanifold.metrics import _partitions
from skmanifold.metrics._partitions import (
    co_clustering,
    compact_labels,
    expected_variation_of_information,
    point_partition,
    variation_of_information,
)


def _all_partitions(n_rows):
    """Every partition once, labels in the order of first rows."""
    partitions = [[0]]
    for _ in range(n_rows - 1):
        partitions = [[*labels, k] for labels in partitions for k in range(max(labels) + 2)]
    return np.array(partitions)


def _slow_variation(a, b):
    table = np.zeros((max(a) + 1, max(b) + 1))
    np.add.at(table, (a, b), 1)
    joint, left, right = (entropy(part.ravel()) for part in (table, table.sum(axis=1), table.sum(axis=0)))
    return 2 * joint - left - right


def _slow_expectation(labels, draws):
    return np.mean([_slow_variation(labels, draw) for draw in draws])


def _rename(draws, seed):
    """Other names for the clusters of each draw, with gaps."""
    generator = np.random.default_rng(seed)
    return np.stack([generator.permutation(3 * draws.max() + 3)[draw] for draw in draws])


def _noisy_draws(n_rows, n_draws, n_clusters, noise, seed):
    """A partition, and draws in which each row is elsewhere with probability `noise`."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(n_clusters, size=n_rows)
    away = generator.random((n_draws, n_rows)) < noise
    return truth, np.where(away, generator.integers(n_clusters, size=(n_draws, n_rows)), truth)


# Variation of information


@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (40, 3), (300, 300)])
def test_variation_of_information_is_that_of_entropies(sizes):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(size, size=200) for size in sizes)
    found = variation_of_information(a, b)
    assert found == pytest.approx(_slow_variation(a, b), abs=1e-12)
    entropies = [entropy(np.bincount(labels)) for labels in (a, b)]
    assert found == pytest.approx(sum(entropies) - 2 * mutual_info_score(a, b), abs=1e-12)


def test_names_of_clusters_mean_nothing():
    a, b = np.random.default_rng(0).integers(4, size=(2, 50))
    names = np.array([2**62, 0, 7, 10**6])
    assert variation_of_information(names[a], a) == 0
    assert variation_of_information(names[a].astype(np.uint64), b) == variation_of_information(a, b)
    assert variation_of_information(a.astype(np.uint8), b) == variation_of_information(a, b)


@pytest.mark.parametrize("n_clusters", [3, 30, 400])  # of few clusters and of many, other ways of clearing the counts
def test_expectation_is_the_mean_over_draws(n_clusters):
    generator = np.random.default_rng(1)
    draws = generator.integers(n_clusters, size=(7, 120))
    candidates = np.stack([*generator.integers([[2], [50]], size=(2, 120)), np.zeros(120, int), np.arange(120)])
    expected = [_slow_expectation(labels, draws) for labels in candidates]
    found = expected_variation_of_information(candidates, draws)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    each = [expected_variation_of_information(labels, draws) for labels in candidates]
    assert all(type(value) is float for value in each)
    np.testing.assert_array_equal(found, each)


# The point partition


@pytest.mark.extended
@pytest.mark.short_cases("6-5-3")
@pytest.mark.parametrize(("n_rows", "n_draws", "n_failures"), [(5, 3, 2), (6, 5, 3), (6, 20, 3)])
def test_the_least_of_all_partitions_is_nearly_always_found(n_rows, n_draws, n_failures):
    partitions = _all_partitions(n_rows)
    table = np.array([expected_variation_of_information(partitions, labels[np.newaxis]) for labels in partitions])
    place = {tuple(compact_labels(labels)): number for number, labels in enumerate(partitions)}
    generator = np.random.default_rng(0)
    misses = 0
    for _ in range(100):
        chosen = generator.integers(len(partitions), size=n_draws)
        objective = table[:, chosen].mean(axis=1)
        found = objective[place[tuple(point_partition(partitions[chosen]))]]
        assert found <= objective[chosen].min() + 1e-12
        misses += found > objective.min() + 1e-9
    assert misses <= n_failures


@pytest.mark.parametrize("seed", range(4))
def test_no_move_of_an_item_of_many_rows_lowers_the_expected_variation(seed):
    _, few = _noisy_draws(14, 5, 3, 0.5, seed)
    item_of_row = np.repeat(np.arange(14), np.random.default_rng(seed).integers(1, 40, size=14))
    draws = few[:, item_of_row]
    labels = point_partition(draws)
    least = expected_variation_of_information(labels, draws)
    for item in range(14):
        moved = np.stack(
            [
                np.where((few == few[:, [item]]).all(axis=0)[item_of_row], label, labels)
                for label in range(labels.max() + 2)
            ]
        )
        assert expected_variation_of_information(moved, draws).min() >= least - 1e-10


def test_a_search_goes_on_until_no_item_moves(monkeypatch):
    n_moves = []
    sweep = _partitions.sweep

    def sweep_and_look(*args):
        end, moved = sweep(*args)
        n_moves.append(moved)
        return end, moved

    monkeypatch.setattr(_partitions, "sweep", sweep_and_look)
    items, _ = _partitions._group(_partitions._encode(_noisy_draws(300, 20, 5, 0.4, 0)[1]))
    nothing = np.full(len(items.weights), -1)
    ends = {}
    for max_sweeps in (1, 2, 100):
        n_moves.clear()
        ends[max_sweeps] = _partitions._search(items, nothing, np.arange(len(nothing)), 4, len(nothing), max_sweeps)
        assert ends[max_sweeps].converged == (max_sweeps == 100)
    assert n_moves[0] == len(nothing)
    assert n_moves[-1] == 0
    assert ends[1].variation > ends[2].variation >= ends[100].variation
    again = _partitions._search(items, ends[100].labels, np.arange(len(nothing)), 9, len(nothing), 100)
    np.testing.assert_array_equal(again.labels, ends[100].labels)


def test_the_search_that_is_best_after_few_sweeps_goes_on(monkeypatch):
    _, draws = _noisy_draws(400, 12, 6, 0.3, 8)
    whole = expected_variation_of_information(point_partition(draws), draws)
    monkeypatch.setattr(_partitions, "_N_TRIAL_SWEEPS", 1)
    short = expected_variation_of_information(point_partition(draws, max_sweeps=1), draws)
    assert whole < short - 1e-4
    assert expected_variation_of_information(point_partition(draws), draws) == pytest.approx(whole, abs=1e-10)


def test_a_partition_seen_through_noise_is_found_again():
    truth, draws = _noisy_draws(2000, 30, 8, 0.2, 0)
    labels = point_partition(draws)
    assert variation_of_information(labels, truth) < 0.01
    assert min(variation_of_information(draw, truth) for draw in draws) > 1
    assert expected_variation_of_information(labels, draws) <= expected_variation_of_information(truth, draws)


def test_labels_are_in_the_order_of_size_then_of_first_rows():
    np.testing.assert_array_equal(compact_labels([9, 4, 4, 0, 9, 7, 7, 7]), [1, 2, 2, 3, 1, 0, 0, 0])
    labels = point_partition(_noisy_draws(500, 20, 6, 0.3, 1)[1])
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, compact_labels(labels))
    assert np.all(np.diff(np.bincount(labels)) <= 0)


def test_names_of_the_draws_clusters_do_not_change_the_result():
    _, draws = _noisy_draws(200, 9, 5, 0.6, 2)
    renamed = _rename(draws, 0)
    np.testing.assert_array_equal(point_partition(renamed), point_partition(draws))
    np.testing.assert_array_equal(co_clustering(renamed), co_clustering(draws))
    assert expected_variation_of_information(draws[0], renamed) == expected_variation_of_information(draws[0], draws)


def test_rows_that_are_always_together_are_moved_as_one_and_lose_nothing(monkeypatch):
    _, few = _noisy_draws(60, 8, 4, 0.5, 3)
    draws = few[:, np.random.default_rng(0).integers(60, size=400)]
    together = point_partition(draws)
    items, item_of_row = _partitions._group(_partitions._encode(draws))
    assert len(items.weights) <= 60
    assert items.weights.sum() == 400
    np.testing.assert_array_equal(items.codes[item_of_row], _partitions._encode(draws).codes)
    labels = np.random.default_rng(1).integers(7, size=len(items.weights))
    by_item, by_row = (
        _partitions._variations(labels, items),
        _partitions._variations(labels[item_of_row], _partitions._encode(draws)),
    )
    np.testing.assert_allclose(by_item, by_row, rtol=0, atol=1e-12)
    monkeypatch.setattr(_partitions, "_group", lambda draws: (draws, np.arange(len(draws.codes))))
    apart = point_partition(draws)
    found = expected_variation_of_information(np.stack([together, apart]), draws)
    assert found[0] <= found[1] + 1e-10


@pytest.mark.parametrize("max_components", [1, 2, 4])
def test_there_are_no_more_clusters_than_allowed(max_components):
    partitions = _all_partitions(6)
    allowed = partitions[partitions.max(axis=1) < max_components]
    generator = np.random.default_rng(5)
    n_optimal = 0
    for _ in range(20):
        draws = partitions[generator.integers(len(partitions), size=5)]
        labels = point_partition(draws, max_components=max_components)
        assert labels.max() < max_components
        least = expected_variation_of_information(allowed, draws).min()
        n_optimal += expected_variation_of_information(labels, draws) < least + 1e-10
    assert n_optimal >= 18


def test_more_clusters_are_opened_than_any_draw_has():
    draws = np.array(
        [[0, 0, 1, 1, 0, 2], [0, 1, 1, 2, 2, 0], [0, 1, 2, 1, 0, 3], [0, 1, 2, 2, 2, 3], [0, 1, 1, 1, 2, 1]]
    )
    draws = np.concatenate([7 * k + draws for k in range(4)], axis=1)  # four copies, told apart by all draws
    labels = point_partition(draws)
    assert labels.max() + 1 == 20
    assert draws.max(axis=1).max() - 3 * 7 + 1 == 4
    assert expected_variation_of_information(labels, draws) < expected_variation_of_information(draws, draws).min()


def test_clusters_merge_where_no_single_row_would_move(monkeypatch):
    _, draws = _noisy_draws(500, 30, 6, 0.45, 0)
    labels = point_partition(draws)
    merged = expected_variation_of_information(labels, draws)
    for one in range(labels.max() + 1):
        for other in range(one):
            joined = np.where(labels == one, other, labels)
            assert expected_variation_of_information(joined, draws) >= merged - 1e-10
    one_cluster = expected_variation_of_information(np.zeros(500, int), draws)
    assert merged <= one_cluster + 1e-12
    monkeypatch.setattr(_partitions, "_N_ALLOCATIONS", 0)
    monkeypatch.setattr(_partitions, "merge_clusters", lambda *args: 0)
    items, _ = _partitions._group(_partitions._encode(draws))
    start = _partitions._best_draw(items, 500, _partitions.Workers())
    end = _partitions._search(items, start, np.arange(len(start)), 6, 500, 100)
    assert end.converged
    assert end.variation > merged + 0.1


def test_tables_kept_through_moves_and_merges_are_those_counted_anew(monkeypatch):
    _, few = _noisy_draws(80, 8, 6, 0.4, 0)
    draws = few[:, np.random.default_rng(0).integers(80, size=200)]
    items, _ = _partitions._group(_partitions._encode(draws))
    kept, n_merges = [], []
    merge_clusters = _partitions.merge_clusters

    def merge_and_look(labels, xlogx, n_draws, *tables):
        n_merges.append(merge_clusters(labels, xlogx, n_draws, *tables))
        anew = _partitions._fill_tables(items, labels, xlogx, len(tables[0]))
        kept.append([np.abs(mine - other).max() for mine, other in zip(tables, anew, strict=True)])
        return n_merges[-1]

    monkeypatch.setattr(_partitions, "merge_clusters", merge_and_look)
    point_partition(draws)
    assert sum(n_merges) > 0
    np.testing.assert_allclose(kept, 0, rtol=0, atol=1e-12)


def test_the_start_is_the_best_of_the_draws_or_of_evenly_spaced_ones(monkeypatch):
    _, draws = _noisy_draws(100, 12, 4, 0.5, 7)
    items, item_of_row = _partitions._group(_partitions._encode(draws))
    each = expected_variation_of_information(draws, draws)
    with _partitions.Workers() as workers:
        start = _partitions._best_draw(items, 100, workers)[item_of_row]
        assert variation_of_information(start, draws[each.argmin()]) == 0
        monkeypatch.setattr(_partitions, "_MAX_START_LABELS", 4 * items.codes.size)
        start = _partitions._best_draw(items, 100, workers)[item_of_row]
        assert variation_of_information(start, draws[3 * each[::3].argmin()]) == 0


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_threads():
    _, draws = _noisy_draws(60, 4, 6, 0.5, 8)  # many minima
    labels = point_partition(draws)
    for n_jobs in (1, 2, 5):
        np.testing.assert_array_equal(point_partition(draws, n_jobs=n_jobs), labels)
    others = [point_partition(draws, random_state=seed) for seed in range(1, 6)]
    assert any(variation_of_information(other, labels) > 0 for other in others)  # the seed has its say


# Pairs of rows


def test_co_clustering_counts_draws():
    draws = np.random.default_rng(0).integers(3, size=(9, 20))
    expected = np.mean(draws[:, :, np.newaxis] == draws[:, np.newaxis], axis=0)
    found = co_clustering(draws)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    rows = [4, 0, 4, -1]
    np.testing.assert_array_equal(co_clustering(draws, rows), found[np.ix_(rows, rows)])


def test_tables_that_fill_the_memory_are_refused():
    draws = np.zeros((1, 40_000), np.uint8)
    with pytest.raises(ValueError, match=r"of 40000 rows would take 11\.9 GiB, more than 4\.0: select fewer rows"):
        co_clustering(draws)
    with pytest.raises(
        ValueError, match=r"Tables of 30000 clusters .* GiB, more than 4\.0: pass fewer draws or a smaller max"
    ):
        point_partition(np.arange(30_000)[np.newaxis])


# Edges


@pytest.mark.parametrize(
    "draws",
    [[[5]], [[0], [3]], [[2, 0, 2]], np.zeros((4, 6), int), np.tile(np.arange(6), (3, 1)), [[0, 0, 1], [1, 1, 0]]],
)
def test_draws_that_agree_are_their_own_summary(draws):
    labels = point_partition(draws)
    assert expected_variation_of_information(labels, draws) == 0
    np.testing.assert_array_equal(labels, compact_labels(draws[0]))
    np.testing.assert_array_equal(co_clustering(draws), np.equal.outer(labels, labels))


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.zeros((0, 3), int), r"draws must be of shape \(n_draws, n_rows\) and not empty; got shape \(0, 3\)"),
        (np.zeros((3, 0), int), r"draws must be of shape \(n_draws, n_rows\) and not empty; got shape \(3, 0\)"),
        ([0, 1], r"draws must be of shape \(n_draws, n_rows\) and not empty; got shape \(2,\)"),
        ([[0, -1]], "draws must not be negative; got -1"),
        ([[0.0, 1.0]], "draws must be integers; got dtype float64"),
    ],
)
@pytest.mark.parametrize(
    "function", [point_partition, co_clustering, lambda draws: expected_variation_of_information([0, 1], draws)]
)
def test_bad_draws_are_refused(function, draws, message):
    with pytest.raises(ValueError, match=message):
        function(draws)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="The partitions have different numbers of rows, 2 and 3"):
        variation_of_information([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match=r"labels_a must be of shape \(n_rows,\) and not empty; got shape \(1, 2\)"):
        variation_of_information([[0, 1]], [0, 1])
    with pytest.raises(ValueError, match="labels must not be negative"):
        expected_variation_of_information([[0, -2]], [[0, 1]])
    with pytest.raises(ValueError, match="max_components == 0, must be >= 1"):
        point_partition([[0, 1]], max_components=0)
    with pytest.raises(ValueError, match="max_sweeps == 0, must be >= 1"):
        point_partition([[0, 1]], max_sweeps=0)
    with pytest.raises(ValueError, match=r"draws\[:, rows\] must be of shape \(n_draws, n_selected\)"):
        co_clustering([[0, 1]], [])
