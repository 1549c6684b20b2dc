"""A matrix of Cox-Ingersoll-Ross processes whose rows are only updated when they are read.

Cell (v, k) follows the exact transition of `SCIR`, whose gamma distribution has the shape prior_vk plus counts. A
minibatch has counts in few rows. Two successive transitions of the same shape equal one transition over the total time.
So a row is stored with the values of its last read, and the step with the counts of that read is made when the row is
read again. A read costs one transition per cell, and a second one for cells with counts. A row that was never read has
the stationary distribution of its prior. Given the counts, the rows that are read have the same joint distribution as
if all rows were updated at each step.

The exact sum of a column would need every row. It is replaced by its expectation given all rows read so far. A read
adds the difference between the row and the row's expectation; between reads the total changes like the expectations.

With *lasting* counts (the full counts of a row, kept up to date) the shape of a row is constant until its counts
change, so that its pending step is infinitely long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...random._log_gamma_ziggurat import GammaTables, gamma_tables
from ...utils._conditions import MOST_COUNTED, Array, Sizes
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from ...utils._typing import ArrayLike
from .cir_kernels import fill_expected, merge_blocks, read_blocks

_BLOCK_ROWS = 64  # rows per block, which has its own sums
_TASK_CELLS = 100_000  # cells per task, about a millisecond
_MIN_PRIOR, _MAX_PRIOR = 1e-30, 1e9  # so that logarithms of draws fit into float32
_MIN_POOL = 4096
MOST_LOG = 64.0  # bound of log gamma draws for any prior and count


class RowPrior(NamedTuple):
    """The shapes of cells without counts: ``values[v * word_step + k * topic_step]``."""

    values: Annotated[np.ndarray, Array("float64", "_", low=_MIN_PRIOR, high=_MAX_PRIOR)]  # flat, float64
    word_step: int
    topic_step: int
    totals: Annotated[np.ndarray, Array("float64", "n_components", above=0)]  # sums over rows
    gammas: GammaTables  # of the most common value

    def _disagreement(self, sizes: Sizes) -> str | None:
        last = (sizes["n_features"] - 1) * self.word_step + (sizes["n_components"] - 1) * self.topic_step
        return None if last < len(self.values) else "has strides outside of its values"


class LazyRows(NamedTuple):
    """The state of the rows. Functions return a new one, and may reuse the arrays of their argument."""

    # At `read_time`; memory of rows that were not read is not allocated
    log_theta: Annotated[np.ndarray, Array("float32", "n_features n_components", high=MOST_LOG)]
    read_time: Annotated[np.ndarray, Array("float64", "n_features", low=0, nan=True)]  # nan: never
    # Duration of the row's counts from `read_time` on; inf: lasting
    step: Annotated[np.ndarray, Array("float64", "n_features", low=0, infinite=True)]
    # Start of the row's counts in the pool
    start: Annotated[np.ndarray, Array("int64", "n_features", low=0, high=MOST_COUNTED)]
    length: Annotated[np.ndarray, Array("int32", "n_features", low=0)]
    # Uint16; lists are appended; if the pool is full, current lists are copied to a new one
    pool_topics: Annotated[np.ndarray, Array("uint16", "n_pool", below="n_components")]
    # Float64, because lasting counts may exceed 2^24
    pool_counts: Annotated[np.ndarray, Array("float64", "n_pool", low=0, high=MOST_COUNTED)]
    pool_end: Annotated[np.ndarray, Array("int64", "1", low=0)]
    # E[sum of the column at `clock` | all previous reads]
    totals: Annotated[np.ndarray, Array("float64", "n_components", high=MOST_COUNTED)]
    # Column sums of lasting counts
    count_totals: Annotated[np.ndarray, Array("float64", "n_components", high=MOST_COUNTED)]
    clock: Annotated[np.ndarray, Array("float64", "1", low=0)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if not self.pool_end[0] <= len(self.pool_topics) or (self.start + self.length > self.pool_end[0]).any():
            return "has lists outside of the pool"
        return "has rows with read times after the clock" if (self.read_time > self.clock[0]).any() else None


def make_row_prior(values: ArrayLike, word_step: int, topic_step: int, n_rows: int, n_columns: int) -> RowPrior:
    """A prior from a flat array and its steps, as `TopicPrior.strides` gives them."""
    values = np.ascontiguousarray(values, np.float64)
    if not (values.min() >= _MIN_PRIOR and values.max() <= _MAX_PRIOR):
        raise ValueError(f"priors must lie between {_MIN_PRIOR:g} and {_MAX_PRIOR:g}.")
    size = values.itemsize
    full = np.lib.stride_tricks.as_strided(
        values, (n_rows, n_columns), (word_step * size, topic_step * size), writeable=False
    )
    if word_step and topic_step:
        totals = full.sum(axis=0)
    else:  # columns have equal sums if the prior depends on words only, and rows are equal if it does not
        totals = np.full(n_columns, full[:, 0].sum()) if word_step else n_rows * full[0]
    found, how_often = np.unique(values[:: max(1, len(values) // 10_000)], return_counts=True)
    return RowPrior(values, word_step, topic_step, totals, gamma_tables(float(found[np.argmax(how_often)])))


def new_rows(n_rows: int, n_columns: int, prior: RowPrior) -> LazyRows:
    """Rows with the stationary distribution of their prior, before any read."""
    pool_size = max(_MIN_POOL, n_rows)
    return LazyRows(
        np.zeros((n_rows, n_columns), np.float32),
        np.full(n_rows, np.nan),
        np.zeros(n_rows),
        np.zeros(n_rows, np.int64),
        np.zeros(n_rows, np.int32),
        np.zeros(pool_size, np.uint16),
        np.zeros(pool_size),
        np.zeros(1, np.int64),
        np.array(prior.totals),
        np.zeros(n_columns),
        np.zeros(1),
    )


def read_rows(
    rows: LazyRows, words: np.ndarray, prior: RowPrior, key: np.uint64, *, lasting: bool, workers: Workers
) -> LazyRows:
    """Draw the current rows `words` (ascending, distinct); `key` must be different for every read.

    Their pending counts are used up; lasting ones are kept.
    """
    n_rows, n_columns = rows.log_theta.shape
    n_blocks = -(-len(words) // _BLOCK_ROWS)
    sums = np.empty((2, n_blocks, n_columns))
    tasks = split_range(n_blocks, max(1, _TASK_CELLS // (_BLOCK_ROWS * n_columns)))
    workers.run(read_blocks, [(*blocks, _BLOCK_ROWS, words, key, rows, prior, *sums) for blocks in tasks])
    if len(words) == n_rows:
        rows.totals[:] = 0.0  # all rows are known, so rounding errors are removed
        sums[0] = sums[1]
    merge_blocks(*sums, rows.totals)
    if not lasting:
        rows.length[words] = 0
    return rows


def add_counts(
    rows: LazyRows, words: np.ndarray, counts: Any, h: float, prior: RowPrior, *, scale: float, lasting: bool
) -> LazyRows:
    """Advance the time by `h` > 0, which may differ from step to step, with `counts` for rows that were just read.

    `words` are these rows, ascending and distinct; list i of `counts` belongs to ``words[i]``, and a topic occurs once
    in a list. Counts are multiplied by `scale`. If they are `lasting`, they are changes, of either sign, of the counts
    that apply until they are changed again; else they are those of this step, which is pending.
    """
    clock = rows.clock[0]
    if len(counts.indptr) != len(words) + 1:
        raise ValueError("counts must have one list for each word.")
    rows = _make_room(rows, len(counts.topics) + int(rows.length[words].sum()))
    start, length = np.empty(len(words), np.int64), np.empty(len(words), np.int32)
    sums = np.empty(len(rows.totals))
    lists = (counts.indptr, counts.topics, counts.counts, float(scale), rows.pool_end[0])
    pool = (rows.start, rows.length, rows.pool_topics, rows.pool_counts)
    end = _append_lists(words, *lists, *pool, start, length, sums)
    if end < 0:
        raise ValueError("counts must not be negative.")
    rows.pool_end[0] = end
    rows.start[words], rows.length[words], rows.step[words] = start, length, np.inf if lasting else h
    if lasting:
        rows.count_totals[:] += sums
        sums = rows.count_totals
    rest_point = prior.totals + sums
    rows.totals[:] = rest_point + (rows.totals - rest_point) * np.exp(-h)
    rows.clock[0] = clock + h
    return rows


def expected_rows(rows: LazyRows, prior: RowPrior, start: int, stop: int) -> np.ndarray:
    """Current expectations of the rows from `start` to `stop`, given all previous reads; nothing is modified."""
    out = np.empty((stop - start, rows.log_theta.shape[1]))
    fill_expected(start, rows, prior, out)
    return out


def sum_columns(rows: LazyRows, groups: Sequence[np.ndarray]) -> LazyRows:
    """New rows whose columns are the sums of groups of columns; columns in no group are dropped.

    A sum of Cox-Ingersoll-Ross processes is one whose shape is the sum of the shapes, so that the next read is exact,
    given a prior whose columns are summed, too.
    """
    place = np.full(len(rows.totals), -1, np.int64)
    for column, group in enumerate(groups):
        place[group] = column
    start, length, topics, values, end = _copy_pool(rows, max(_MIN_POOL, len(rows.start)), place, len(groups))
    log_theta = np.stack([np.logaddexp.reduce(rows.log_theta[:, group], axis=1) for group in groups], axis=1)
    return LazyRows(
        log_theta,
        rows.read_time.copy(),
        rows.step.copy(),
        start,
        length,
        topics,
        values,
        end,
        np.array([rows.totals[group].sum() for group in groups]),
        np.array([rows.count_totals[group].sum() for group in groups]),
        rows.clock.copy(),
    )


def _make_room(rows: LazyRows, needed: int) -> LazyRows:
    """Ensure space for `needed` more entries; if necessary, copy current lists to a new pool, at most half full."""
    size = len(rows.pool_topics)
    if rows.pool_end[0] + needed <= size:
        return rows
    size = max(size, 2 * (int(rows.length.sum(dtype=np.int64)) + needed))
    start, _, topics, values, end = _copy_pool(rows, size, np.arange(len(rows.totals)), len(rows.totals))
    return rows._replace(start=start, pool_topics=topics, pool_counts=values, pool_end=end)


def _copy_pool(rows: LazyRows, size: int, place: np.ndarray, n_places: int) -> tuple[np.ndarray, ...]:
    """Current lists in a new pool of at least `size`, with sums for topics of one place: its arrays, and its end."""
    size = max(size, int(rows.length.sum(dtype=np.int64)))
    arrays = np.empty_like(rows.start), np.empty_like(rows.length), np.zeros(size, np.uint16), np.zeros(size)
    end = _sum_lists(rows.start, rows.length, rows.pool_topics, rows.pool_counts, place, n_places, *arrays)
    return *arrays, np.array([end])


# Lists of counts in the pool


@njit(cache=True, nogil=True)
def _append_lists(
    words, indptr, topics, changes, scale, end, start, length, pool_topics, pool_counts, out_start, out_length, sums
):
    """Append each word's list plus its changes, without zeros, at the pool's `end`, and sum the changes of columns.

    Returns the new end, or -1 for negative counts.
    """
    place = np.full(len(sums), -1, np.int64)
    sums[:] = 0.0
    for i in range(len(words)):
        v, begin = words[i], end
        for j in range(start[v], start[v] + length[v]):
            place[np.int64(pool_topics[j])] = end
            pool_topics[end], pool_counts[end] = pool_topics[j], pool_counts[j]
            end += 1
        for j in range(indptr[i], indptr[i + 1]):
            k, change = np.int64(topics[j]), scale * changes[j]
            sums[k] += change
            if place[k] < 0:
                place[k] = end
                pool_topics[end], pool_counts[end] = topics[j], change
                end += 1
            else:
                pool_counts[place[k]] += change
        stop, end = end, begin
        for j in range(begin, stop):
            place[np.int64(pool_topics[j])] = -1
            if not pool_counts[j] >= 0.0:
                return -1
            if pool_counts[j] > 0.0:
                pool_topics[end], pool_counts[end] = pool_topics[j], pool_counts[j]
                end += 1
        out_start[i], out_length[i] = begin, end - begin
    return end


@njit(cache=True, nogil=True)
def _sum_lists(
    start, length, pool_topics, pool_counts, place_of, n_places, out_start, out_length, out_topics, out_counts
):
    """Copy the current lists to the start of another pool, with sums for topics of one place; returns its end."""
    sums = np.zeros(n_places)
    end = 0
    for v in range(len(start)):
        out_start[v] = end
        for j in range(start[v], start[v] + length[v]):
            place = place_of[np.int64(pool_topics[j])]
            if place >= 0:
                if sums[place] == 0.0:
                    out_topics[end] = place
                    end += 1
                sums[place] += pool_counts[j]
        for j in range(out_start[v], end):
            place = np.int64(out_topics[j])
            out_counts[j] = sums[place]
            sums[place] = 0.0
        out_length[v] = end - out_start[v]
    return end
