"""Numbers of rows and tokens of each component of a mixture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...utils._conditions import MOST_COUNTED, Array
from ...utils._declared import holds


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    categories=Array("int64", ("n_categories", "capacity"), low=0, high=MOST_COUNTED),
)
class MixtureCounts(NamedTuple):
    """Counts by label. Not every label below `capacity` has rows."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    categories: np.ndarray  # (n_categories, capacity) int64: numbers of tokens; the labels of a category are contiguous

    @property
    def capacity(self) -> int:
        """Number of labels that the arrays can hold."""
        return len(self.sizes)

    @property
    def occupied(self) -> np.ndarray:
        """Labels with rows, ascending."""
        return np.flatnonzero(self.sizes)

    def by_size(self) -> np.ndarray:
        """Labels with rows, the largest component first."""
        return self.occupied[np.argsort(-self.sizes[self.occupied], kind="stable")]

    @property
    def n_used(self) -> int:
        """Highest label with rows, plus one."""
        return int(self.occupied[-1]) + 1

    def with_capacity(self, n_labels: int) -> MixtureCounts:
        """Counts with a capacity of at least `n_labels`; this object itself if its capacity suffices."""
        if n_labels <= self.capacity:
            return self
        wider = no_counts(len(self.categories), 2 * n_labels)
        wider.sizes[: self.capacity] = self.sizes
        wider.categories[:, : self.capacity] = self.categories
        return wider

    def with_labels(self, new_labels: np.ndarray) -> MixtureCounts:
        """Counts after relabelling: label j, if it has rows, becomes ``new_labels[j]``."""
        occupied = self.occupied
        after = no_counts(len(self.categories), max(self.capacity, int(new_labels.max()) + 1))
        after.sizes[new_labels[occupied]] = self.sizes[occupied]
        after.categories[:, new_labels[occupied]] = self.categories[:, occupied]
        return after


def no_counts(n_categories: int, capacity: int) -> MixtureCounts:
    """Counts of no rows."""
    return MixtureCounts(np.zeros(capacity, np.int64), np.zeros((n_categories, capacity), np.int64))
