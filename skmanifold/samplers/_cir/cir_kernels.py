"""Kernels of `_lazy_rows`: Cox-Ingersoll-Ross transitions of whole rows.

Gammas whose shape is the most common prior, or 1/2 more, are drawn in log space by a ziggurat; all others by
`log_gamma_variate`. Exponentials and logarithms are series in loops that the compiler vectorises, with IEEE arithmetic
in a fixed order. Cells that need another method are listed, and drawn in separate loops.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.special import fill_exp, fill_log
from ...random._keys import fold_in, random_bits
from ...random._log_gamma_ziggurat import draw_by_rejection, fill_log_gammas, is_under_density, layer_and_place
from ...random._variates import fill_bits, gamma_variate, log_gamma_variate, normal, open_uniform
from ...utils._njit import njit, njit_part

_CHUNK_CELLS = 1024  # cells per chunk: arrays of 8 kB, of which about fifteen fit in the L2 cache


# Transitions
#
# Over a time t, theta' = (1 - e^-t) Ga(shape + N, 1), N Poisson of mean m = theta e^-t / (1 - e^-t). N is the number of
# arrivals of a Poisson process up to m. The first comes at an exponential time s; if s > m, N is 0. Else N is 1 +
# Poisson(m - s), and twice the gamma a noncentral chi-square of more than two degrees of freedom: (Z + sqrt(2 (m -
# s)))^2 + 2 Ga(shape + 1/2, 1), Z normal. So no Poisson variate is drawn, and m may be arbitrarily large.


@njit(cache=True, nogil=True)
def _to_open_uniform(bits):
    """Like `open_uniform`, but 1 minus the result is exact."""
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
    """Store a row with narrower floats, and return the rounded values."""
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
    """Time since a row was read (inf: never), and its division into the pending step and the remaining time.

    If the step has just ended, the remaining time is exactly zero, because the clock was computed by the same addition.
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
        n_found += above[k] + means[k] >= 1.0  # else u > mean, which implies s > mean
    return n_found


@njit_part
def _draw_noncentral(n, found, rows, priors, tables, out):
    """Draw the first `n` listed cells without the scale of their rows; those of count 0 keep their values."""
    n_columns, shape = priors.shape[1], tables.levels[0, 0]
    raised, log_raised, left_share = tables.levels[1, 0], tables.levels[1, 1], tables.levels[1, 2]
    edges, heights = tables.edges[1], tables.heights[1]
    cells, in_row, above, means, keys = found.cells, found.in_row, found.above, found.means, found.keys
    log_above, log_gammas, squares, gammas = found.scratch[0], found.scratch[1], found.scratch[2], found.scratch[3]
    fill_log(n, above, squares, gammas, log_above)
    n_left = 0
    for i in range(n):  # in place, from the end
        cells[n_left], in_row[n_left] = cells[i], in_row[i]
        means[n_left], log_above[n_left] = means[i], log_above[i]
        n_left += means[i] + log_above[i] >= 0.0
    n_rejected = 0
    for i in range(n_left):
        keys[i] = fold_in(rows[in_row[i]]["key"], cells[i])
    for i in range(n_left):
        squares[i] = normal(keys[i], 0)
    for i in range(n_left):
        root = squares[i] + math.sqrt(2.0 * (means[i] + log_above[i]))
        squares[i] = 0.5 * root * root
    for i in range(n_left):
        layer, z = layer_and_place(random_bits(keys[i], np.uint64(1)), edges)
        log_gammas[i] = log_raised + z
        found.rejected[n_rejected] = i
        n_rejected += not (is_under_density(layer, z, edges) and priors[in_row[i], cells[i]] == shape)
    for j in range(n_rejected):
        i = found.rejected[j]
        prior, child = priors[in_row[i], cells[i]], fold_in(keys[i], 1)
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
        out[in_row[i] * n_columns + cells[i]] = log_gammas[i]


# Reads of rows
#
# A block of rows has its own sums, so that any thread may read it. Within a block, rows are read in chunks that fill
# the vector loops and stay in the cache. Row r of a chunk has a record, its shapes without counts in priors[r], and K
# cells in each of the flat arrays of `_Cells`:
#
#     | row 0: column 0, 1, ..., K - 1 | row 1: column 0, 1, ... | ... | last row of the chunk |
#
# Cells of the chunk whose Poisson count may be positive are few: `_Found` lists them one after the other, whatever
# their rows, with the number of the row in the chunk. A part is called once for a chunk: a call with tuples of arrays
# copies about a hundred numbers.

_ROW = np.dtype(
    [
        ("v", np.int64),  # index of the row in the matrix
        ("key", np.uint64),
        ("elapsed", np.float64),  # time since it was read (inf: never), ...
        ("first", np.float64),  # ... of which this is the pending step ...
        ("rest", np.float64),  # ... and this is the remaining time without counts
        ("log_lost", np.float64),  # log(1 - e^-elapsed), the scale of all its cells
        ("begin", np.int64),  # start of its counts in the pool, ...
        ("end", np.int64),  # ... and their end
    ],
    align=True,
)


class _Cells(NamedTuple):
    """Arrays over the cells of a chunk, (chunk * K,) float64."""

    y: np.ndarray  # log theta, as read and then as drawn, without the scale until it is stored
    old: np.ndarray  # theta as read
    new: np.ndarray  # theta as drawn
    means: np.ndarray  # of the Poisson counts
    counted: np.ndarray  # for cells with counts: the new y if no time is left after the step, else the increase of y


class _Found(NamedTuple):
    """Cells whose Poisson count may be positive, and work arrays to draw them."""

    cells: np.ndarray  # int64: columns
    in_row: np.ndarray  # int64: rows of the chunk
    above: np.ndarray  # 1 - u; minus its logarithm is the time of the first arrival
    means: np.ndarray
    keys: np.ndarray  # uint64
    rejected: np.ndarray  # int64
    scratch: np.ndarray  # (4, chunk * K)


class _Line(NamedTuple):
    """Scratch for one row."""

    bits: np.ndarray  # (K,) uint64
    listed: np.ndarray  # (K + 1,) int64
    above: np.ndarray  # (K,)


@njit(cache=True, nogil=True)
def read_blocks(first_block, stop_block, block_rows, words, key, rows, prior, moved, seen):
    """Draw the current values of blocks of `block_rows` of the `words` (rows, ascending and distinct), in place.

    In `moved` and `seen`, (n_blocks, K), it writes the sums of new values less their expectations, and of new values.
    `prior` has the shapes without counts, and `key` is of this read.
    """
    n_columns = rows.log_theta.shape[1]
    chunk = min(block_rows, max(1, _CHUNK_CELLS // n_columns))
    n_cells = chunk * n_columns
    old, new, y = np.empty(n_cells), np.empty(n_cells), np.empty(n_cells)
    cells = _Cells(y, old, new, np.empty(n_cells), np.empty(n_cells))
    found = _Found(
        np.empty(n_cells, np.int64),
        np.empty(n_cells, np.int64),
        np.empty(n_cells),
        np.empty(n_cells),
        np.empty(n_cells, np.uint64),
        np.empty(n_cells + 1, np.int64),
        np.empty((4, n_cells)),
    )
    line = _Line(np.empty(n_columns, np.uint64), np.empty(n_columns + 1, np.int64), np.empty(n_columns))
    records, priors = np.empty(chunk, _ROW), np.empty((chunk, n_columns))
    for r in range(chunk):
        _fill_prior(prior.values, 0, prior.topic_step, priors[r])
    moved[first_block:stop_block] = 0.0
    seen[first_block:stop_block] = 0.0
    begin, stop = first_block * block_rows, min(stop_block * block_rows, len(words))
    while begin < stop:
        block = begin // block_rows
        n_rows = min(chunk, min((block + 1) * block_rows, stop) - begin)
        _load_rows(words[begin : begin + n_rows], rows, records, y)
        fill_exp(n_rows * n_columns, y, new, old)
        n_found = _draw_central(n_rows, key, rows, prior, records, priors, cells, line, found)
        _draw_noncentral(n_found, found, records, priors, prior.gammas, y)
        _store_rows(n_rows, rows, records, cells)
        fill_exp(n_rows * n_columns, y, cells.means, new)
        _sum_rows(n_rows, rows, records, priors, cells, moved[block], seen[block])
        begin += n_rows


@njit_part
def _load_rows(words, rows, records, out):
    """Fill in the records of rows and their log theta, in one loop, so that memory accesses of several rows overlap."""
    clock, n_columns = rows.clock[0], rows.log_theta.shape[1]
    for r in range(len(words)):
        v, record = words[r], records[r]
        elapsed, first, rest = _phases(clock, rows.read_time[v], rows.step[v])
        record["v"], record["log_lost"] = v, 0.0
        record["elapsed"], record["first"], record["rest"] = elapsed, first, rest
        record["begin"], record["end"] = rows.start[v], rows.start[v] + rows.length[v]
        _fill_scaled(rows.log_theta[v], 1.0, out[r * n_columns : (r + 1) * n_columns])


@njit_part
def _draw_central(n_rows, key, rows, prior, records, priors, cells, line, found):
    """Draw all cells as if all Poisson counts were 0, list those whose count may be positive, and return their number.

    For cells with counts, the pending step is drawn completely.
    """
    n_columns, tables = priors.shape[1], prior.gammas
    n_found = 0
    for r in range(n_rows):
        record, row_prior = records[r], priors[r]
        if record["elapsed"] == 0.0:  # `y` is not changed
            continue
        here, there = r * n_columns, (r + 1) * n_columns
        means, v = cells.means[here:there], record["v"]
        if prior.word_step != 0:
            _fill_prior(prior.values, v * prior.word_step, prior.topic_step, row_prior)
        rate, log_lost = _rate_and_log_lost(record["elapsed"])
        row_key = fold_in(key, v)
        record["key"], record["log_lost"] = row_key, log_lost
        _fill_scaled(cells.old[here:there], rate, means)
        if record["end"] > record["begin"]:
            counts = rows.pool_topics, rows.pool_counts
            _draw_counted(record, *counts, row_prior, cells.old[here:there], means, cells.counted[here:there])
        y = cells.y[here:there]
        fill_log_gammas(
            row_key, row_prior, tables.levels, tables.edges[0], tables.heights[0], line.bits, line.listed, y
        )
        more = _find_noncentral(row_key, means, line.bits, line.above, line.listed)
        for i in range(more):
            k = line.listed[i]
            found.in_row[n_found + i], found.cells[n_found + i] = r, k
            found.above[n_found + i], found.means[n_found + i] = line.above[k], means[k]
        n_found += more
    return n_found


@njit_part
def _draw_counted(record, pool_topics, pool_counts, row_prior, old, means, counted):
    """Draw the pending step of a row's cells with counts; the remaining time is drawn later with the other cells."""
    rate, log_lost_first = _rate_and_log_lost(record["first"])
    rest, log_lost = record["rest"], record["log_lost"]
    rest_rate, log_lost_rest = _rate_and_log_lost(rest) if rest > 0.0 else (0.0, 0.0)
    for j in range(record["begin"], record["end"]):
        k = np.int64(pool_topics[j])
        child = fold_in(fold_in(record["key"], k), 2)
        first_y = log_lost_first + _log_gamma_after_poisson(child, old[k] * rate, row_prior[k] + pool_counts[j])
        if rest > 0.0:
            means[k] = math.exp(first_y) * rest_rate
            counted[k] = log_lost_rest - log_lost
        else:
            counted[k] = first_y - log_lost


@njit_part
def _store_rows(n_rows, rows, records, cells):
    """Write the new log theta, and round `y` to the stored values."""
    n_columns = rows.log_theta.shape[1]
    for r in range(n_rows):
        record, here = records[r], r * n_columns
        if record["elapsed"] == 0.0:
            continue
        for j in range(record["begin"], record["end"]):
            k = here + np.int64(rows.pool_topics[j])
            if record["rest"] > 0.0:
                cells.y[k] += cells.counted[k]
            else:
                cells.y[k] = cells.counted[k]
        _store(record["log_lost"], cells.y[here : here + n_columns], rows.log_theta[record["v"]])


@njit_part
def _sum_rows(n_rows, rows, records, priors, cells, moved, seen):
    """Add rows to the sums of their block, and record the time of the read."""
    n_columns = priors.shape[1]
    for r in range(n_rows):
        record, here, there = records[r], r * n_columns, (r + 1) * n_columns
        kept = math.exp(-record["elapsed"])
        _add_moved(kept, priors[r], cells.old[here:there], cells.new[here:there], moved, seen)
        gain = -math.expm1(-record["first"]) * math.exp(-record["rest"])
        for j in range(record["begin"], record["end"]):
            moved[np.int64(rows.pool_topics[j])] -= rows.pool_counts[j] * gain
        rows.read_time[record["v"]] = rows.clock[0]


@njit(cache=True, nogil=True)
def merge_blocks(moved, seen, totals):
    """Add the sums of blocks to the column totals, in order; a total is at least the sum of the rows that were read."""
    for k in range(len(totals)):
        change = in_sight = 0.0
        for block in range(len(moved)):
            change += moved[block, k]
            in_sight += seen[block, k]
        totals[k] = max(totals[k] + change, in_sight)


@njit(cache=True, nogil=True)
def fill_expected(first_row, rows, prior, out):
    """Current expectations of consecutive rows, given all previous reads."""
    clock, n_columns = rows.clock[0], rows.log_theta.shape[1]
    shapes, old, y, powers = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    for i in range(len(out)):
        v = first_row + i
        _fill_prior(prior.values, v * prior.word_step, prior.topic_step, shapes)
        if np.isnan(rows.read_time[v]):
            for k in range(n_columns):
                out[i, k] = shapes[k]
            continue
        elapsed, first, rest = _phases(clock, rows.read_time[v], rows.step[v])
        _fill_scaled(rows.log_theta[v], 1.0, y)
        fill_exp(n_columns, y, powers, old)
        kept = math.exp(-elapsed)
        for k in range(n_columns):
            out[i, k] = shapes[k] + (old[k] - shapes[k]) * kept
        gain = -math.expm1(-first) * math.exp(-rest)
        for j in range(rows.start[v], rows.start[v] + rows.length[v]):
            out[i, np.int64(rows.pool_topics[j])] += rows.pool_counts[j] * gain
