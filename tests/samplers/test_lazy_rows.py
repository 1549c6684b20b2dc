"""Rows that are caught up when they are read have the law of rows that move at every step."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, polygamma

from skmanifold.random._keys import subkey
from skmanifold.samplers._cir import lazy_cir_rows
from skmanifold.samplers._cir.lazy_cir_rows import add_counts, expected_rows, make_row_prior, new_rows, read_rows
from skmanifold.utils._threads import Workers

from ._counts import log_gamma_cdf
from ._evidence import assert_agrees, assert_disagrees, summarize, variance

KEY = np.uint64(0x0123456789ABCDEF)
UNLIKELY = 1e-4
ONE = Workers(1)
NO_WORDS = np.empty(0, np.int32)


class Counts(NamedTuple):
    indptr: np.ndarray
    topics: np.ndarray
    counts: np.ndarray


def counts_of(lists):
    """From a dict {topic: count} for each word."""
    indptr = np.cumsum([0, *map(len, lists)])
    topics = np.array([k for of_word in lists for k in of_word], np.uint16)
    return Counts(indptr, topics, np.array([c for of_word in lists for c in of_word.values()], np.int32))


NO_COUNTS = counts_of([])


def scalar_prior(a, n_rows, n_columns):
    return make_row_prior([a], 0, 0, n_rows, n_columns)


def mostly_other_prior(a, n_rows, n_columns):
    """Shape `a` in all rows but the last ones, which no test reads: so that `a` has no table."""
    values = np.where(np.arange(3 * n_rows) < n_rows, a, 7.0)
    return make_row_prior(values, 1, 0, 3 * n_rows, n_columns)


def rows_at(theta, n_rows, n_columns, prior):
    """Rows of which all stood at `theta` at time 0."""
    rows = new_rows(len(prior.values) if prior.word_step else n_rows, n_columns, prior)
    rows.log_theta[:n_rows] = np.log(theta)
    rows.read_time[:n_rows] = 0.0
    rows.totals[:] += n_rows * (np.exp(rows.log_theta[0].astype(float)) - prior.values[0])
    return rows


def let_pass(rows, time, prior, lasting=False):
    return add_counts(rows, NO_WORDS, NO_COUNTS, time, prior, scale=1.0, lasting=lasting)


def read(rows, words, prior, key, lasting=False, workers=ONE):
    return read_rows(rows, np.asarray(words, np.int32), prior, np.uint64(key), lasting=lasting, workers=workers)


def moments(theta, shape, time):
    """Mean of a transition, and what it adds to e^-2t times the variance before, linear in the mean before."""
    kept = np.exp(-time)
    mean = shape + (theta - shape) * kept
    return mean, 2 * theta * (kept - kept**2) + shape * (1 - kept) ** 2


# --- one transition --------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("make_prior", [scalar_prior, mostly_other_prior], ids=["table", "no table"])
@pytest.mark.parametrize("a", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("theta", [1e-6, 0.3, 40.0])
@pytest.mark.parametrize("time", [0.02, 0.9])
def test_a_read_after_a_gap_is_one_exact_transition(make_prior, a, theta, time):
    n_rows, n_columns = 700, 50
    prior = make_prior(a, n_rows, n_columns)
    rows = rows_at(theta, n_rows, n_columns, prior)
    for part in (0.25, 0.5, 0.25):
        rows = let_pass(rows, part * time, prior)
    rows = read(rows, np.arange(n_rows), prior, 5)
    draws = np.exp(rows.log_theta[:n_rows].astype(float)).ravel()
    start = np.float64(np.exp(np.float64(np.float32(np.log(theta)))))

    def p_value(time):
        lost = -np.expm1(-time)
        law = stats.ncx2(2 * a, 2 * start * np.exp(-time) / lost, scale=lost / 2)
        return stats.kstest(draws, law.cdf).pvalue

    assert p_value(time) > UNLIKELY
    assert p_value(1.5 * time) < UNLIKELY
    mean, var = moments(start, a, time)
    assert_agrees(summarize(draws), mean)
    assert_agrees(variance(draws), var)


@pytest.mark.extended
@pytest.mark.parametrize("make_prior", [scalar_prior, mostly_other_prior], ids=["table", "no table"])
def test_logarithms_of_tiny_gammas_keep_their_law(make_prior):
    a, n_rows, n_columns, time = 1e-3, 400, 100, 0.3
    prior = make_prior(a, n_rows, n_columns)
    rows = read(let_pass(rows_at(1e-30, n_rows, n_columns, prior), time, prior), np.arange(n_rows), prior, 6)
    y = rows.log_theta[:n_rows].astype(float).ravel() - np.log(-np.expm1(-time))
    assert_agrees(summarize(y), digamma(a))
    assert_agrees(variance(y), polygamma(1, a))
    assert_disagrees(variance(y), polygamma(1, 1.1 * a))


@pytest.mark.extended
@pytest.mark.parametrize("a", [1e-4, 0.1, 2.0])
def test_rows_never_read_have_the_law_of_their_prior(a):
    n_rows, n_columns = 300, 100
    prior = scalar_prior(a, 2 * n_rows, n_columns)
    rows = let_pass(new_rows(2 * n_rows, n_columns, prior), 0.1, prior)
    np.testing.assert_array_equal(expected_rows(rows, prior, 3, 7), np.full((4, n_columns), a))
    rows = read(rows, np.arange(n_rows), prior, 7)
    y = rows.log_theta[:n_rows].astype(float).ravel()
    assert np.all(np.isfinite(y))
    assert stats.kstest(y, lambda y: log_gamma_cdf(y, a)).pvalue > UNLIKELY
    assert stats.kstest(y, lambda y: log_gamma_cdf(y, 1.1 * a)).pvalue < UNLIKELY
    assert np.all(rows.log_theta[n_rows:] == 0)
    assert np.all(np.isnan(rows.read_time[n_rows:]))


def test_a_row_read_twice_at_one_time_stays():
    prior = scalar_prior(0.3, 5, 4)
    rows = read(new_rows(5, 4, prior), [1, 3], prior, 1)
    before, totals = rows.log_theta.copy(), rows.totals.copy()
    rows = read(rows, [1, 3], prior, 2)
    np.testing.assert_array_equal(rows.log_theta, before)
    np.testing.assert_array_equal(rows.totals, totals)


@pytest.mark.extended
@pytest.mark.parametrize("shape", [(), (6,), (3, 1), (3, 6)])
def test_every_shape_of_prior_is_read_by_its_steps(shape):
    from skmanifold.admixture._tokens.topic_counts import TopicPrior

    values = np.random.default_rng(0).uniform(0.05, 4.0, shape)
    full = np.broadcast_to(values, (3, 6)).T
    prior = make_row_prior(*TopicPrior(values, 3, 6).strides(3, 6), 6, 3)
    np.testing.assert_allclose(prior.totals, full.sum(axis=0))
    np.testing.assert_array_equal(expected_rows(new_rows(6, 3, prior), prior, 0, 6), full)
    draws = []
    for seed in range(3000):
        draws.append(np.exp(read(new_rows(6, 3, prior), range(6), prior, subkey(KEY, seed)).log_theta, dtype=float))
    assert_agrees(summarize(draws), full)


# --- pending and lasting counts --------------------------------------------------------------------------


def exact_after_counts(theta, a, count, first, rest):
    mean, var = moments(theta, a + count, first)
    more, added = moments(mean, a, rest)
    return more, var * np.exp(-2 * rest) + added


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("make_prior", [scalar_prior, mostly_other_prior], ids=["table", "no table"])
@pytest.mark.parametrize(
    ("theta", "count", "h", "gap"), [(0.2, 30, 0.4, 0.8), (25.0, 3, 0.1, 0.0), (2.0, 500, 0.05, 3.0)]
)
def test_pending_counts_act_for_their_step_only_and_lasting_ones_until_changed(make_prior, theta, count, h, gap):
    a, scale, n_rows = 0.1, 2.5, 20_000
    exact = {
        False: exact_after_counts(theta, a, scale * count, h, gap),
        True: exact_after_counts(theta, a, scale * count, h + gap, 0.0),
        "none": exact_after_counts(theta, a, 0.0, h, gap),
    }
    for lasting in (False, True):
        prior = make_prior(a, n_rows, 2)
        rows = rows_at(theta, n_rows, 2, prior)
        words = np.arange(n_rows, dtype=np.int32)
        counts = counts_of([{1: count}] * n_rows)
        rows = add_counts(rows, words, counts, h, prior, scale=scale, lasting=lasting)
        if gap:
            rows = let_pass(rows, gap, prior, lasting)
        expected = expected_rows(rows, prior, 0, n_rows)
        np.testing.assert_allclose(expected[:, 1], exact[lasting][0], rtol=1e-6)
        np.testing.assert_allclose(expected[:, 0], exact["none"][0], rtol=1e-6)
        n_others = len(rows.read_time) - n_rows
        np.testing.assert_allclose(rows.totals, expected.sum(axis=0) + 7.0 * n_others, rtol=1e-9)
        rows = read(rows, words, prior, 8, lasting)
        theta_now = np.exp(rows.log_theta[:n_rows].astype(float))
        for cells, (mean, var) in ((theta_now[:, 1], exact[lasting]), (theta_now[:, 0], exact["none"])):
            assert_agrees(summarize(cells), mean)
            assert_agrees(variance(cells), var)
        assert_disagrees(summarize(theta_now[:, 1]), exact["none"][0])  # the step forgotten
        if gap:  # counts for the whole gap, or for their step only
            assert_disagrees(summarize(theta_now[:, 1]), exact[not lasting][0])
        np.testing.assert_array_equal(rows.length[:n_rows], int(lasting))


SCHEDULE = [  # words read, counts, length of the step
    ([0, 1, 4], [{0: 5}, {1: 2}, {0: 1, 1: 7}], 0.3),
    ([1], [{0: 3}], 0.7),
    ([0, 2], [{}, {0: 4, 1: 4}], 0.1),
    ([2, 4], [{1: 40}, {0: 2}], 0.5),
    ([0, 1, 3], [{1: 9}, {0: 1}, {1: 1}], 0.2),
    ([5], [{0: 6}], 1.1),
]
A, N_WORDS = 0.4, 6


def run_schedule(n_copies, n_steps, *, eager, lasting, forget=False, key=1):
    """The schedule with its words copied: word v of copy r is row 6 r + v."""
    prior = scalar_prior(A, N_WORDS * n_copies, 2)
    rows = new_rows(N_WORDS * n_copies, 2, prior)
    for step in range(n_steps):
        words, lists, h = SCHEDULE[step % len(SCHEDULE)]
        copies = (N_WORDS * np.arange(n_copies)[:, None] + words).ravel().astype(np.int32)
        rows = read(rows, np.arange(N_WORDS * n_copies) if eager else copies, prior, subkey(KEY, key, step), lasting)
        rows = add_counts(rows, copies, counts_of(lists * n_copies), h, prior, scale=1.5, lasting=lasting)
        if forget:
            rows.length[:] = 0
    return rows, prior


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("lasting", [False, True], ids=["pending", "lasting"])
@pytest.mark.parametrize("n_steps", [6, 15])
def test_lazy_rows_have_the_law_of_rows_that_move_at_every_step(lasting, n_steps):
    n_copies = 6000
    every = np.arange(N_WORDS * n_copies)

    def draws(key, **options):
        rows, prior = run_schedule(n_copies, n_steps, lasting=lasting, key=key, **options)
        return read(rows, every, prior, subkey(KEY, key, 99), lasting).log_theta.reshape(n_copies, N_WORDS * 2)

    def p_values(lazy):
        return [stats.ks_2samp(lazy[:, i], eager[:, i], method="asymp").pvalue for i in range(N_WORDS * 2)]

    eager = draws(1, eager=True)
    lazy = draws(2, eager=False)
    assert min(p_values(lazy)) > UNLIKELY
    assert min(p_values(draws(3, eager=False, forget=True))) < UNLIKELY
    theta, other = np.exp(lazy, dtype=float), np.exp(eager, dtype=float)
    for statistic in (summarize, variance):
        left, right = statistic(theta), statistic(other)
        difference = left._replace(mean=left.mean - right.mean, error=np.hypot(left.error, right.error))
        assert_agrees(difference, 0.0)
    correlation = np.corrcoef(lazy, rowvar=False) - np.eye(N_WORDS * 2)  # given the counts, cells are independent
    assert np.abs(correlation).max() < 4.5 / np.sqrt(n_copies)


# --- totals ----------------------------------------------------------------------------------------------


def conditional_variance(rows, prior):
    """Of the column sums, given all that was read."""
    theta, clock = np.exp(rows.log_theta.astype(float)), rows.clock[0]
    total = np.zeros(2)
    for v in range(N_WORDS):
        if np.isnan(rows.read_time[v]):
            total += A
            continue
        counts = np.zeros(2)
        for j in range(rows.start[v], rows.start[v] + rows.length[v]):
            counts[rows.pool_topics[j]] = rows.pool_counts[j]
        first = min(rows.step[v], clock - rows.read_time[v])
        total += exact_after_counts(theta[v], A, counts, first, clock - rows.read_time[v] - first)[1]
    return total


@pytest.mark.extended
@pytest.mark.short_cases("pending")
@pytest.mark.parametrize("lasting", [False, True], ids=["pending", "lasting"])
def test_totals_are_the_expected_sums_and_lack_the_variance_of_what_was_not_read(lasting):
    n_steps, every = 9, np.arange(N_WORDS)
    totals, sums, unread = [], [], []
    for replicate in range(2500):
        rows, prior = run_schedule(1, n_steps, eager=False, lasting=lasting, key=replicate)
        np.testing.assert_allclose(rows.totals, expected_rows(rows, prior, 0, N_WORDS).sum(axis=0), rtol=1e-12)
        totals.append(rows.totals.copy())
        unread.append(conditional_variance(rows, prior))
        rows = read(rows, every, prior, subkey(KEY, replicate, 99), lasting)
        sums.append(np.exp(rows.log_theta.astype(float)).sum(axis=0))
        np.testing.assert_allclose(rows.totals, sums[-1], rtol=1e-12)
    totals, sums, unread = np.array(totals), np.array(sums), np.array(unread)
    eager, _ = run_schedule(2500, n_steps, eager=True, lasting=lasting)
    eager = read(eager, np.arange(2500 * N_WORDS), prior, 4, lasting)
    eager = np.exp(eager.log_theta.astype(float)).reshape(-1, N_WORDS, 2).sum(axis=1)

    missing = sums - totals
    assert_agrees(summarize(missing), 0.0)
    assert_agrees(summarize(missing * (totals - totals.mean(axis=0))), 0.0)  # an expectation leaves no correlation
    assert_agrees(summarize(missing**2 - unread), 0.0)
    assert_disagrees(summarize(missing**2), 0.0)
    deficit = summarize(variance(sums).mean - (totals - totals.mean(axis=0)) ** 2)
    assert_disagrees(deficit, 0.0)
    left, right = variance(totals), variance(eager)
    error = np.sqrt(left.error**2 + right.error**2 + summarize(unread).error ** 2)
    assert_agrees(left._replace(mean=left.mean + unread.mean(axis=0) - right.mean, error=error), 0.0)
    assert_disagrees(left._replace(mean=left.mean - right.mean, error=error), 0.0)


def test_totals_are_never_below_the_rows_read():
    prior = scalar_prior(1e-4, 4, 2)
    rows = read(new_rows(4, 2, prior), [0, 1], prior, 1)
    rows.log_theta[:2] = 3.0
    rows.totals[:] = 1e-9  # as if rounding had eaten it
    rows = read(rows, [0, 1], prior, 2)
    np.testing.assert_allclose(rows.totals, 2 * np.exp(3.0), rtol=1e-12)


# --- the same bytes --------------------------------------------------------------------------------------


def long_run(workers, lasting, pickled=False):
    n_rows, n_columns = 3000, 130
    rng = np.random.default_rng(3)
    prior = scalar_prior(0.1, n_rows, n_columns)
    rows = new_rows(n_rows, n_columns, prior)
    for step in range(6):
        words = np.sort(rng.choice(n_rows, 1700, replace=False)).astype(np.int32)
        counts = counts_of([{int(k): int(rng.integers(1, 9))} for k in rng.integers(0, n_columns, len(words))])
        rows = read(rows, words, prior, subkey(KEY, step), lasting, workers)
        rows = add_counts(rows, words, counts, 0.2, prior, scale=1.0, lasting=lasting)
        if pickled:
            rows = pickle.loads(pickle.dumps(rows))
    return rows


@pytest.mark.parametrize("lasting", [False, True], ids=["pending", "lasting"])
def test_any_number_of_workers_any_cut_and_a_pickled_run_give_the_same_bytes(lasting, monkeypatch):
    alone = long_run(ONE, lasting)
    others = []
    for n_jobs in (2, 3):
        with Workers(n_jobs) as workers:
            others.append(long_run(workers, lasting))
    others.append(long_run(ONE, lasting, pickled=True))
    monkeypatch.setattr(lazy_cir_rows, "_TASK_CELLS", 1)
    others.append(long_run(ONE, lasting))
    for other in others:
        for left, right in zip(alone, other, strict=True):
            assert left.tobytes() == right.tobytes()
    monkeypatch.setattr(
        lazy_cir_rows, "_BLOCK_ROWS", 1
    )  # another order of sums: the rows stay, the totals' bytes do not
    other = long_run(ONE, lasting)
    assert other.log_theta.tobytes() == alone.log_theta.tobytes()
    assert other.totals.tobytes() != alone.totals.tobytes()
    np.testing.assert_allclose(other.totals, alone.totals, rtol=1e-12)


def test_a_draw_belongs_to_its_key_row_and_column():
    prior = scalar_prior(0.2, 40, 70)
    every = read(new_rows(40, 70, prior), range(40), prior, 1).log_theta
    some = read(new_rows(40, 70, prior), [7, 30], prior, 1).log_theta
    np.testing.assert_array_equal(some[[7, 30]], every[[7, 30]])
    assert len(np.unique(every)) == every.size
    assert not np.any(every == read(new_rows(40, 70, prior), range(40), prior, 2).log_theta)


# --- the pool --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lasting", [False, True], ids=["pending", "lasting"])
def test_lists_survive_growth_and_compaction_of_the_pool(lasting, monkeypatch):
    monkeypatch.setattr(lazy_cir_rows, "_MIN_POOL", 8)
    n_rows, n_columns = 12, 9
    rng = np.random.default_rng(0)
    prior = scalar_prior(1e-4, n_rows, n_columns)
    rows = new_rows(n_rows, n_columns, prior)
    reference = np.zeros((n_rows, n_columns))
    sizes, n_moves, pool = [], 0, rows.pool_topics
    for step in range(300):
        words = np.sort(rng.choice(n_rows, 4, replace=False)).astype(np.int32)
        rows = read(rows, words, prior, subkey(KEY, step), lasting)
        lists = []
        for v in words:
            topics = rng.permutation(n_columns)[: rng.integers(0, 6)]
            low = -reference[v] if lasting else 0 * reference[v]
            lists.append({int(k): int(rng.integers(low[k], 4)) for k in topics})
            if not lasting:
                reference[v] = 0
            for k, count in lists[-1].items():
                reference[v, k] += count
        rows = add_counts(rows, words, counts_of(lists), 0.3, prior, scale=1.0, lasting=lasting)
        n_moves += rows.pool_topics is not pool
        pool = rows.pool_topics
        sizes.append(len(pool))
        dense = np.zeros_like(reference)
        for v in range(n_rows):
            here = slice(rows.start[v], rows.start[v] + rows.length[v])
            assert np.all(rows.pool_counts[here] > 0)
            dense[v, rows.pool_topics[here]] += rows.pool_counts[here]
        np.testing.assert_array_equal(dense, reference)
        if lasting:
            np.testing.assert_array_equal(rows.count_totals, reference.sum(axis=0))
        seen = ~np.isnan(rows.read_time)
        assert np.all(np.isfinite(rows.log_theta))
        assert np.all(np.any(rows.log_theta[seen] != 0, axis=1))
        expected = expected_rows(rows, prior, 0, n_rows).sum(axis=0)
        np.testing.assert_allclose(rows.totals, expected, rtol=1e-9)
    assert sizes[-1] > sizes[0]
    assert sizes[-1] <= 4 * reference.size  # it does not grow for ever
    assert n_moves > len(set(sizes))  # some were compactions without growth


def test_counts_that_cannot_be_are_refused_and_change_nothing():
    prior = scalar_prior(0.1, 5, 3)
    rows = read(new_rows(5, 3, prior), [1, 2], prior, 1)
    words, before = np.array([1, 2], np.int32), pickle.dumps(rows)
    negative = counts_of([{0: 1}, {2: -1}])
    for bad, lasting, message in (
        (counts_of([{0: 1}]), False, "one list"),
        (negative, False, "negative"),
        (negative, True, "negative"),
    ):
        with pytest.raises(ValueError, match=message):
            add_counts(rows, words, bad, 0.5, prior, scale=1.0, lasting=lasting)
        for name in set(rows._fields) - {"pool_topics", "pool_counts"}:  # what is behind the pool's end is nothing
            np.testing.assert_array_equal(getattr(rows, name), getattr(pickle.loads(before), name))
    with pytest.raises(ValueError, match="priors must lie"):
        scalar_prior(0.0, 5, 3)
