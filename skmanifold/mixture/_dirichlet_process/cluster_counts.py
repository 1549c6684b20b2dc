"""How many rows and tokens each component of a mixture has."""

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
    """Counts by label. Labels have gaps; `capacity` of them have room."""

    sizes: np.ndarray  # (capacity,) int64: rows
    categories: np.ndarray  # (n_categories, capacity) int64: tokens; the labels of a category side by side

    @property
    def capacity(self) -> int:
        """Labels for which there is room."""
        return len(self.sizes)

    @property
    def occupied(self) -> np.ndarray:
        """Labels with rows, ascending."""
        return np.flatnonzero(self.sizes)

    def by_size(self) -> np.ndarray:
        """Labels with rows, from the largest component down."""
        return self.occupied[np.argsort(-self.sizes[self.occupied], kind="stable")]

    @property
    def n_used(self) -> int:
        """Highest label with rows, plus one."""
        return int(self.occupied[-1]) + 1

    def with_room(self, n_labels: int) -> MixtureCounts:
        """The same with room for labels below `n_labels`; itself where there is."""
        if n_labels <= self.capacity:
            return self
        wider = no_counts(len(self.categories), 2 * n_labels)
        wider.sizes[: self.capacity] = self.sizes
        wider.categories[:, : self.capacity] = self.categories
        return wider

    def with_labels(self, places: np.ndarray) -> MixtureCounts:
        """The same where label j is called ``places[j]``, for those with rows."""
        occupied = self.occupied
        after = no_counts(len(self.categories), max(self.capacity, int(places.max()) + 1))
        after.sizes[places[occupied]] = self.sizes[occupied]
        after.categories[:, places[occupied]] = self.categories[:, occupied]
        return after


def no_counts(n_categories: int, capacity: int) -> MixtureCounts:
    """Room for labels, and nothing in it."""
    return MixtureCounts(np.zeros(capacity, np.int64), np.zeros((n_categories, capacity), np.int64))
