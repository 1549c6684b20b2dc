"""Statistics of clusters by label: named tuples of arrays, of which the first are the sizes.

Each class has `label_axes`: for each array the axis of the labels, None for an array without this axis, or `OF_ROWS`
for the current values of missing cells, which predictions do not need. Not every label has rows.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Statistics = TypeVar("Statistics", bound=Any)
OF_ROWS = -1


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
    capacity = len(statistics[0])
    return statistics if n_labels <= capacity else _spread(statistics, 2 * n_labels, slice(capacity), slice(capacity))


def with_labels(statistics: Statistics, new_labels: np.ndarray) -> Statistics:
    """Statistics after relabelling: label j, if it has rows, becomes ``new_labels[j]``."""
    old = occupied(statistics)
    capacity = max(len(statistics[0]), int(new_labels.max()) + 1)
    return _spread(statistics, capacity, old, new_labels[old])


def selected(statistics: Any, labels: np.ndarray) -> Any:
    """Statistics of some labels, in this order, without values of rows; labels beyond the capacity have no rows."""
    inside = np.flatnonzero(labels < len(statistics[0]))
    chosen = _spread(statistics, len(labels), labels[inside], inside)
    axes = statistics.label_axes
    return type(chosen)(*(a[:0].copy() if axis == OF_ROWS else a for a, axis in zip(chosen, axes, strict=True)))


def _spread(statistics: Any, capacity: int, old: Any, new: Any) -> Any:
    """Statistics with another capacity, zero but for the labels `new`, which are copied from `old`."""
    arrays = []
    for array, axis in zip(statistics, statistics.label_axes, strict=True):
        if axis is None or axis == OF_ROWS:
            arrays.append(array)
            continue
        after = np.zeros((*array.shape[:axis], capacity, *array.shape[axis + 1 :]), array.dtype)
        before: tuple = (slice(None),) * axis
        after[(*before, new)] = array[(*before, old)]
        arrays.append(after)
    return type(statistics)(*arrays)
