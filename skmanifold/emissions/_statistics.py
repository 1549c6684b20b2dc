"""Statistics of rows by label: named tuples of arrays, of which the first are the sizes.

A class may have `label_axes`: for each array the axis of the labels, None for an array without this axis, or `OF_ROWS`
for the current values of missing cells, which predictions do not need. Without it the labels are the first axis of all
arrays. Not every label has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np

from ..utils._conditions import MOST_COUNTED, Array, Sizes, refuse
from ..utils._declared import check
from ..utils._njit import njit, njit_part
from .kernels import count_row

Statistics = TypeVar("Statistics", bound=Any)
OF_ROWS = -1


def held_statistics(value: Any, where: str, sizes: Sizes) -> None:
    """Condition of statistics of any family, which satisfy the declaration of their class."""
    if "sizes" not in getattr(value, "_fields", ())[:1]:
        refuse(where, f"is a {type(value).__name__} and not statistics of clusters")
    check(type(value), value, where, sizes)


class JoinedStatistics(NamedTuple):
    """Statistics of several blocks of columns: those of the first, and of the others."""

    # Those of the first block, in the same memory
    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]
    first: Annotated[Any, held_statistics]
    rest: Annotated[Any, held_statistics]


def occupied(statistics: Any) -> np.ndarray:
    """Labels with rows, ascending."""
    return np.flatnonzero(statistics.sizes)


def by_size(statistics: Any) -> np.ndarray:
    """Labels with rows, the largest cluster first."""
    labels = occupied(statistics)
    return labels[np.argsort(-statistics.sizes[labels], kind="stable")]


def n_used(statistics: Any) -> int:
    """The highest label with rows, plus one."""
    return int(occupied(statistics)[-1]) + 1


def with_capacity(statistics: Statistics, n_labels: int) -> Statistics:
    """Statistics with space for at least `n_labels` labels; the same object if there is enough."""
    capacity = len(statistics.sizes)
    return statistics if n_labels <= capacity else _spread(statistics, 2 * n_labels, slice(capacity), slice(capacity))


def with_labels(statistics: Statistics, new_labels: np.ndarray) -> Statistics:
    """Statistics after relabelling: label j, if it has rows, becomes ``new_labels[j]``."""
    old = occupied(statistics)
    capacity = max(len(statistics.sizes), int(new_labels.max()) + 1)
    return _spread(statistics, capacity, old, new_labels[old])


def without_rows(statistics: Statistics, capacity: int) -> Statistics:
    """Statistics of labels without rows; arrays without an axis of labels stay."""
    return _spread(statistics, capacity, slice(0), slice(0))


def selected(statistics: Any, labels: np.ndarray) -> Any:
    """Statistics of some labels, in this order, without values of rows; labels beyond the capacity have no rows."""
    inside = np.flatnonzero(labels < len(statistics.sizes))
    return _spread(statistics, len(labels), labels[inside], inside, has_rows=False)


def label_axes(statistics: Any) -> tuple:
    """The axis of the labels in each array of statistics."""
    return getattr(statistics, "label_axes", (0,) * len(statistics))


def _spread(statistics: Any, capacity: int, old: Any, new: Any, has_rows: bool = True) -> Any:
    """Statistics with another capacity, zero but for the labels `new`, which are copied from `old`."""
    if isinstance(statistics, JoinedStatistics):
        return _joined(*(_spread(part, capacity, old, new, has_rows) for part in statistics[1:]))
    arrays = []
    for array, axis in zip(statistics, label_axes(statistics), strict=True):
        if axis is None or axis == OF_ROWS:
            arrays.append(array if has_rows or axis is None else array[:0].copy())
            continue
        after = np.zeros((*array.shape[:axis], capacity, *array.shape[axis + 1 :]), array.dtype)
        before: tuple = (slice(None),) * axis
        after[(*before, new)] = array[(*before, old)]
        arrays.append(after)
    return type(statistics)(*arrays)


def with_values(change: Callable[..., np.ndarray], statistics: Any, *others: Any) -> Any:
    """Statistics with other numbers within cells, if there are some: ``change`` of those in all given statistics."""
    if isinstance(statistics, JoinedStatistics):
        parts = zip(*(each[1:] for each in (statistics, *others)), strict=True)
        return _joined(*(with_values(change, *part) for part in parts))
    values = [getattr(each, "values", ()) for each in (statistics, *others)]
    return statistics._replace(values=change(*values)) if len(values[0]) else statistics


def shapes_of(statistics: Any) -> list:
    """The type of the statistics, and the shapes of all arrays but the values of rows."""
    if isinstance(statistics, JoinedStatistics):
        return [shapes_of(part) for part in statistics[1:]]
    return [type(statistics), *(array.shape for array in statistics)]


def join_statistics(blocks: Iterable[Any]) -> Any:
    """Statistics of several blocks, of which there is at least one, as nested pairs."""
    return in_pairs(_joined, blocks)


def in_pairs(pair: Callable[[Any, Any], Any], items: Iterable[Any]) -> Any:
    """Nested pairs of items, of which there is at least one: the first, and the pair of the others or the last."""
    return reduce(lambda rest, first: pair(first, rest), reversed(list(items)))


def _joined(first: Any, rest: Any) -> JoinedStatistics:
    return JoinedStatistics(first.sizes, first, rest)


@njit_part
def move_entry(array, kept, gone):
    """Add the entry `gone` of the first axis to the entry `kept`, and set it to zero."""
    entries = array.reshape(len(array), array.size // len(array))
    for a in range(entries.shape[1]):
        entries[kept, a] += entries[gone, a]
        entries[gone, a] = 0


@njit(cache=True, nogil=True)
def move_rows(data, rows, new_labels, first, stop, labels, statistics):
    """Move rows to their new labels in the statistics of the labels `first` to `stop`; `labels` do not change."""
    for i in range(len(rows)):
        row = rows[i]
        old, new = np.int64(labels[row]), np.int64(new_labels[i])  # `count_row` is compiled for one type
        if old == new:
            continue
        if first <= old < stop:
            count_row(data, statistics, row, old, -1)
        if first <= new < stop:
            count_row(data, statistics, row, new, 1)


@njit(cache=True, nogil=True)
def count_rows(data, rows, sign, labels, first, stop, statistics):
    """Add rows to the statistics of their labels, of those from `first` to `stop`, or subtract them."""
    for row in rows:
        label = np.int64(labels[row])
        if first <= label < stop:
            count_row(data, statistics, row, label, sign)
