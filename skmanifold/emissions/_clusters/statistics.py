"""Statistics of clusters by label: named tuples of arrays, of which the first are the sizes.

A class may have `label_axes`: for each array the axis of the labels, None for an array without this axis, or `OF_ROWS`
for the current values of missing cells, which predictions do not need. Without it the labels are the first axis of all
arrays. Not every label has rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

Statistics = TypeVar("Statistics", bound=Any)
OF_ROWS = -1


class JoinedStatistics(NamedTuple):
    """Statistics of several blocks of columns: those of the first, and of the others."""

    sizes: np.ndarray  # those of the first block, in the same memory
    first: Any
    rest: Any


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


def selected(statistics: Any, labels: np.ndarray) -> Any:
    """Statistics of some labels, in this order, without values of rows; labels beyond the capacity have no rows."""
    if isinstance(statistics, JoinedStatistics):
        return _joined(selected(statistics.first, labels), selected(statistics.rest, labels))
    inside = np.flatnonzero(labels < len(statistics.sizes))
    chosen = _spread(statistics, len(labels), labels[inside], inside)
    axes = _label_axes(statistics)
    return type(chosen)(*(a[:0].copy() if axis == OF_ROWS else a for a, axis in zip(chosen, axes, strict=True)))


def _label_axes(statistics: Any) -> tuple:
    return getattr(statistics, "label_axes", (0,) * len(statistics))


def _spread(statistics: Any, capacity: int, old: Any, new: Any) -> Any:
    """Statistics with another capacity, zero but for the labels `new`, which are copied from `old`."""
    if isinstance(statistics, JoinedStatistics):
        return _joined(_spread(statistics.first, capacity, old, new), _spread(statistics.rest, capacity, old, new))
    arrays = []
    for array, axis in zip(statistics, _label_axes(statistics), strict=True):
        if axis is None or axis == OF_ROWS:
            arrays.append(array)
            continue
        after = np.zeros((*array.shape[:axis], capacity, *array.shape[axis + 1 :]), array.dtype)
        before: tuple = (slice(None),) * axis
        after[(*before, new)] = array[(*before, old)]
        arrays.append(after)
    return type(statistics)(*arrays)


def shapes_of(statistics: Any) -> list:
    """The type of the statistics, and the shapes of all arrays but the values of rows."""
    if isinstance(statistics, JoinedStatistics):
        return [shapes_of(statistics.first), shapes_of(statistics.rest)]
    return [type(statistics), *(array.shape for array in statistics)]


def join_statistics(blocks: list) -> Any:
    """Statistics of several blocks, of which there is at least one, as nested pairs."""
    *before, joined = blocks
    for block in reversed(before):
        joined = _joined(block, joined)
    return joined


def _joined(first: Any, rest: Any) -> JoinedStatistics:
    return JoinedStatistics(first.sizes, first, rest)
