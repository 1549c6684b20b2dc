"""Kernels of `_lazy_rows`: Cox-Ingersoll-Ross transitions of whole rows.

Gammas whose shape is the commonest prior, or 1/2 more, are drawn in log space by a ziggurat; all others by
`log_gamma_variate`. Exponentials and logarithms are series in loops that the compiler turns into vector instructions:
IEEE arithmetic in a stated order. Cells for which the common way is not enough are listed, and drawn in loops of their
own.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp, fill_log
from ...random._keys import fold_in, random_bits
from ...random._log_gamma_ziggurat import draw_by_rejection, fill_log_gammas, is_under_density, layer_and_place
from ...random._variates import fill_bits, gamma_variate, log_gamma_variate, normal, open_uniform
from ...utils._njit import njit

_CHUNK_CELLS = 1024


# Transitions
#
# Over a time t, theta' = (1 - e^-t) Ga(shape + N, 1), N Poisson of mean m = theta e^-t / (1 - e^-t). N is the number of
# arrivals of a Poisson process up to m. The first comes at an exponential time s; if s > m, N is 0. Else N is 1 +
# Poisson(m - s), and twice the gamma a noncentral chi-square of more than two degrees of freedom: (Z + sqrt(2 (m -
# s)))^2 + 2 Ga(shape + 1/2, 1), Z normal. So no Poisson variate is drawn, and m may be as large as it likes.


@njit(cache=True, nogil=True)
def _to_open_uniform(bits):
    """As `open_uniform`; 1 minus it is exact."""
    return (np.int64(bits >> np.uint64(12)) + 0.5) * 2.0**-52


@njit(cache=True, nogil=True)
def _rate_and_log_lost(time):
    """e^-t / (1 - e^-t) and log(1 - e^-t)."""
    lost = -math.expm1(-time)
    return math.exp(-time) / lost, math.log(lost)


@njit(cache=True, nogil=True)
def _log_gamma_after_poisson(key, mean, shape):
    """A draw of log Ga(shape + N, 1), N Poisson."""
    u = open_uniform(key, 0)
    child = fold_in(key, 0)
    left = mean + math.log(1.0 - u)
    if left < 0.0:
        return log_gamma_variate(child, shape)
    root = normal(key, 1) + math.sqrt(2.0 * left)
    return math.log(0.5 * root * root + gamma_variate(child, shape + 0.5))


@njit(cache=True, nogil=True)
def _fill_scaled(x, scale, out):
    for k in range(len(out)):
        out[k] = x[k] * scale


@njit(cache=True, nogil=True)
def _store(offset, y, out):
    """Store a row with narrower floats, and hand back what these hold."""
    for k in range(len(out)):
        out[k] = y[k] + offset
    for k in range(len(out)):
        y[k] = out[k]


@njit(cache=True, nogil=True)
def _add_moved(kept, prior, old, new, moved, seen):
    for k in range(len(new)):
        moved[k] += (new[k] - prior[k]) - (old[k] - prior[k]) * kept
        seen[k] += new[k]


@njit(cache=True, nogil=True)
def _fill_prior(values, first, topic_step, out):
    for k in range(len(out)):
        out[k] = values[first + k * topic_step]


@njit(cache=True, nogil=True)
def _phases(clock, read_time, step):
    """Time since a row was read (inf: never), and how it falls into the pending step and the rest.

    A step that ended just now leaves exactly nothing: the clock came to be by the same addition.
    """
    if np.isnan(read_time):
        return np.inf, np.inf, 0.0
    elapsed = clock - read_time
    return elapsed, min(step, elapsed), max(clock - (read_time + step), 0.0)


@njit(cache=True, nogil=True)
def _find_noncentral(key, means, bits, above, left_over):
    """List the cells of a row in which the Poisson count may be positive, and fill in 1 - u; returns how many."""
    fill_bits(key, 0, bits)
    for k in range(len(means)):
        above[k] = 1.0 - _to_open_uniform(bits[k])
    n_found = 0
    for k in range(len(means)):
        left_over[n_found] = k
        n_found += above[k] + means[k] >= 1.0  # else u > mean, and s > mean for sure
    return n_found


@njit(cache=True, nogil=True)
def _draw_noncentral(
    n, cells, rows, above, means, row_keys, priors, levels, edges, heights, scratch, keys, rejected, out
):
    """Draw the listed cells without the scale of their rows; those of count 0 keep what they have."""
    n_columns, shape = priors.shape[1], levels[0, 0]
    raised, log_raised, left_share = levels[1, 0], levels[1, 1], levels[1, 2]
    log_above, log_gammas, squares, gammas = scratch[0], scratch[1], scratch[2], scratch[3]
    fill_log(n, above, squares, gammas, log_above)
    n_left = 0
    for i in range(n):  # in place, from behind
        cells[n_left], rows[n_left] = cells[i], rows[i]
        means[n_left], log_above[n_left] = means[i], log_above[i]
        n_left += means[i] + log_above[i] >= 0.0
    n_rejected = 0
    for i in range(n_left):
        keys[i] = fold_in(row_keys[rows[i]], cells[i])
    for i in range(n_left):
        squares[i] = normal(keys[i], 0)
    for i in range(n_left):
        root = squares[i] + math.sqrt(2.0 * (means[i] + log_above[i]))
        squares[i] = 0.5 * root * root
    for i in range(n_left):
        layer, z = layer_and_place(random_bits(keys[i], np.uint64(1)), edges)
        log_gammas[i] = log_raised + z
        rejected[n_rejected] = i
        n_rejected += not (is_under_density(layer, z, edges) and priors[rows[i], cells[i]] == shape)
    for j in range(n_rejected):
        i = rejected[j]
        prior, child = priors[rows[i], cells[i]], fold_in(keys[i], 1)
        if prior == shape:
            z = draw_by_rejection(random_bits(keys[i], np.uint64(1)), child, raised, left_share, edges, heights)
            log_gammas[i] = log_raised + z
        else:
            log_gammas[i] = log_gamma_variate(child, prior + 0.5)
    fill_exp(n_left, log_gammas, above, gammas)
    for i in range(n_left):
        squares[i] += gammas[i]
    fill_log(n_left, squares, above, gammas, log_gammas)
    for i in range(n_left):
        out[rows[i] * n_columns + cells[i]] = log_gammas[i]


@njit(cache=True, nogil=True)
def read_blocks(
    first_block,
    stop_block,
    block_rows,
    words,
    clock,
    key,
    log_theta,
    read_time,
    step,
    start,
    length,
    pool_topics,
    pool_counts,
    values,
    word_step,
    topic_step,
    levels,
    edges,
    heights,
    moved,
    seen,
):
    """Draw blocks of the rows `words` at `clock`; each block's sums of values less expectations, and of values."""
    n_columns = log_theta.shape[1]
    chunk = min(block_rows, max(1, _CHUNK_CELLS // n_columns))  # rows whose cells fill the vector loops
    n_cells = chunk * n_columns
    old, new, y = np.empty(n_cells), np.empty(n_cells), np.empty(n_cells)
    means, corrections = np.empty(n_cells), np.empty(n_cells)
    scratch, above, found_means = np.empty((4, n_cells)), np.empty(n_cells), np.empty(n_cells)
    cells, rows = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64)
    rejected, keys = np.empty(n_cells + 1, np.int64), np.empty(n_cells, np.uint64)
    bits, left_over = np.empty(n_columns, np.uint64), np.empty(n_columns + 1, np.int64)
    row_keys, row_above = np.empty(chunk, np.uint64), np.empty(n_columns)
    priors, log_lost, phases = np.empty((chunk, n_columns)), np.empty(chunk), np.empty((chunk, 3))
    lists = np.empty((chunk, 2), np.int64)
    for r in range(chunk):
        _fill_prior(values, 0, topic_step, priors[r])
    moved[first_block:stop_block] = 0.0
    seen[first_block:stop_block] = 0.0
    begin, stop = first_block * block_rows, min(stop_block * block_rows, len(words))
    while begin < stop:
        block = begin // block_rows
        n_rows = min(chunk, min((block + 1) * block_rows, stop) - begin)
        for r in range(n_rows):  # rows lie anywhere: here the processor waits for several at once
            v = words[begin + r]
            phases[r, 0], phases[r, 1], phases[r, 2] = _phases(clock, read_time[v], step[v])
            lists[r, 0], lists[r, 1] = start[v], start[v] + length[v]
            _fill_scaled(log_theta[v], 1.0, y[r * n_columns : (r + 1) * n_columns])
        fill_exp(n_rows * n_columns, y, new, old)
        n_found = 0
        for r in range(n_rows):
            v, here = words[begin + r], r * n_columns
            there = here + n_columns
            elapsed, first, rest = phases[r, 0], phases[r, 1], phases[r, 2]
            log_lost[r] = 0.0
            if elapsed == 0.0:  # `y` is to stay
                continue
            if word_step != 0:
                _fill_prior(values, v * word_step, topic_step, priors[r])
            rate, log_lost[r] = _rate_and_log_lost(elapsed)
            row_keys[r] = fold_in(key, v)
            _fill_scaled(old[here:there], rate, means[here:there])
            if lists[r, 1] > lists[r, 0]:  # the counted cells: the first step now, the rest with the others
                rate, log_lost_first = _rate_and_log_lost(first)
                if rest > 0.0:
                    rest_rate, log_lost_rest = _rate_and_log_lost(rest)
                for j in range(lists[r, 0], lists[r, 1]):
                    k = np.int64(pool_topics[j])
                    child = fold_in(fold_in(row_keys[r], k), 2)
                    shape = priors[r, k] + pool_counts[j]
                    first_y = log_lost_first + _log_gamma_after_poisson(child, old[here + k] * rate, shape)
                    if rest > 0.0:
                        means[here + k] = math.exp(first_y) * rest_rate
                        corrections[here + k] = log_lost_rest - log_lost[r]
                    else:
                        corrections[here + k] = first_y - log_lost[r]
            fill_log_gammas(row_keys[r], priors[r], levels, edges[0], heights[0], bits, left_over, y[here:there])
            more = _find_noncentral(row_keys[r], means[here:there], bits, row_above, left_over)
            for i in range(more):
                k = left_over[i]
                rows[n_found + i], cells[n_found + i] = r, k
                above[n_found + i], found_means[n_found + i] = row_above[k], means[here + k]
            n_found += more
        _draw_noncentral(
            n_found,
            cells,
            rows,
            above,
            found_means,
            row_keys,
            priors,
            levels,
            edges[1],
            heights[1],
            scratch,
            keys,
            rejected,
            y,
        )
        for r in range(n_rows):
            here = r * n_columns
            if phases[r, 0] == 0.0:
                continue
            for j in range(lists[r, 0], lists[r, 1]):
                k = np.int64(pool_topics[j])
                if phases[r, 2] > 0.0:
                    y[here + k] += corrections[here + k]
                else:
                    y[here + k] = corrections[here + k]
            _store(log_lost[r], y[here : here + n_columns], log_theta[words[begin + r]])
        fill_exp(n_rows * n_columns, y, means, new)
        for r in range(n_rows):
            here = r * n_columns
            there = here + n_columns
            elapsed, first, rest = phases[r, 0], phases[r, 1], phases[r, 2]
            _add_moved(math.exp(-elapsed), priors[r], old[here:there], new[here:there], moved[block], seen[block])
            gain = -math.expm1(-first) * math.exp(-rest)
            for j in range(lists[r, 0], lists[r, 1]):
                moved[block, np.int64(pool_topics[j])] -= pool_counts[j] * gain
            read_time[words[begin + r]] = clock
        begin += n_rows


@njit(cache=True, nogil=True)
def merge_blocks(moved, seen, totals):
    """Add what blocks of rows found to the column totals, in order; a total is never below the sum of the rows seen."""
    for k in range(len(totals)):
        change = in_sight = 0.0
        for block in range(len(moved)):
            change += moved[block, k]
            in_sight += seen[block, k]
        totals[k] = max(totals[k] + change, in_sight)


@njit(cache=True, nogil=True)
def fill_expected(
    first_row,
    clock,
    log_theta,
    read_time,
    step,
    start,
    length,
    pool_topics,
    pool_counts,
    values,
    word_step,
    topic_step,
    out,
):
    """Expectations at `clock` of consecutive rows, given all that was read."""
    n_columns = log_theta.shape[1]
    prior, old, y, powers = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    for i in range(len(out)):
        v = first_row + i
        _fill_prior(values, v * word_step, topic_step, prior)
        if np.isnan(read_time[v]):
            for k in range(n_columns):
                out[i, k] = prior[k]
            continue
        elapsed, first, rest = _phases(clock, read_time[v], step[v])
        _fill_scaled(log_theta[v], 1.0, y)
        fill_exp(n_columns, y, powers, old)
        kept = math.exp(-elapsed)
        for k in range(n_columns):
            out[i, k] = prior[k] + (old[k] - prior[k]) * kept
        gain = -math.expm1(-first) * math.exp(-rest)
        for j in range(start[v], start[v] + length[v]):
            out[i, np.int64(pool_topics[j])] += pool_counts[j] * gain
