"""Draws of views: of a partition of the columns, and of the rows in each view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...emissions._columns.rows import JoinedCells
from ...random._keys import subkey
from ...utils._conditions import Array, Sizes, index
from ...utils._threads import Workers
from .._dirichlet_process.inference import partition_disagrees
from .._memberships import PartitionDraw
from .._scores import Memberships, to_shares


def labels_of_columns(views: Any) -> np.ndarray:
    """The number of the view of each column, (n_columns,) int32."""
    out = np.empty(sum(len(view.columns) for view in views), np.int32)
    for v, view in enumerate(views):
        out[view.columns] = v
    return out


class ViewDraw(NamedTuple):
    """Columns, ascending, and the partition of the rows in them; `labels` are those of the fitted rows."""

    columns: Annotated[np.ndarray, index("_", below="n_features")]
    labels: Annotated[np.ndarray, Array("int32", "n_rows", low=0)]
    rows: PartitionDraw

    def _disagreement(self, sizes: Sizes) -> str | None:
        return None if len(self.columns) and (np.diff(self.columns) > 0).all() else "has columns that do not ascend"

    def disagrees(self, family: Any, n_rows: int) -> str | None:
        """Why this is no view of so many rows of a family of all columns; None if it is one."""
        sizes = self.rows.statistics.sizes
        if len(self.labels) != n_rows or not np.array_equal(np.bincount(self.labels, minlength=len(sizes)), sizes):
            return "has labels that are not those of its components"
        return partition_disagrees(self.family(family), self.rows)

    def family(self, family: Any) -> Any:
        """The family of the columns."""
        return family.of_columns(self.columns)

    def log_density(self, family: Any, workers: Workers) -> np.ndarray:
        """Log density of the rows of a family of all columns in these columns, (n_rows,)."""
        return to_shares(self.rows.log_terms(self.family(family), workers), workers)


class ViewsDraw(NamedTuple):
    """A drawn partition of the columns, with a partition of the rows for each view."""

    views: tuple[ViewDraw, ...]

    def _disagreement(self, sizes: Sizes) -> str | None:
        columns = np.sort(np.concatenate([np.zeros(0, np.int64), *(view.columns for view in self.views)]))
        return None if np.array_equal(columns, np.arange(sizes["n_features"])) else "has columns in no view, or in two"

    @property
    def column_labels(self) -> np.ndarray:
        """The view of each column, (n_columns,)."""
        return labels_of_columns(self.views)

    def log_terms(self, family: Any, workers: Workers) -> np.ndarray:
        """Log density of the rows, (n_rows, 1): the sum over views."""
        return np.sum([view.log_density(family, workers) for view in self.views], axis=0)[:, np.newaxis]


class SomeViews(NamedTuple):
    """The views of a draw that have some of the columns: predictions of these columns need no others."""

    draw: ViewsDraw
    columns: np.ndarray

    def expected(self, family: Any, workers: Workers) -> ViewMemberships:
        """Memberships of the rows in each view, and the distributions of cells by expected parameters."""
        own = [(v, view, view.rows.expected(view.family(family), workers)) for v, view in self._numbered()]
        return joined_views(own, family.n_features)

    def drawn(self, family: Any, key: np.uint64, workers: Workers) -> ViewMemberships:
        """Memberships of the rows in each view, and the distributions of cells by drawn parameters."""
        own = [(v, view, view.rows.drawn(view.family(family), subkey(key, v), workers)) for v, view in self._numbered()]
        return joined_views(own, family.n_features)

    def _numbered(self) -> Iterator[tuple[int, ViewDraw]]:
        return ((v, view) for v, view in enumerate(self.draw.views) if np.isin(view.columns, self.columns).any())


ViewMemberships = tuple[dict[int, np.ndarray], "ViewCells"]


def joined_views(of_views: list[tuple[int, ViewDraw, Memberships]], n_columns: int) -> ViewMemberships:
    """Memberships by the number of the view, and the distributions of the cells of all these views."""
    shares = {v: memberships for v, _, (memberships, _) in of_views}
    parts, places = [cells for _, _, (_, cells) in of_views], [view.columns for _, view, _ in of_views]
    return shares, ViewCells(parts, places, [*shares], n_columns)


class ViewCells(JoinedCells):
    """Distributions of the cells of some views; memberships and labels are dicts by the number of the view."""

    def __init__(self, parts: list[Any], places: list[np.ndarray], numbers: list[int], n_columns: int) -> None:
        super().__init__(parts, tuple(places), n_columns)
        self.numbers = numbers

    def _of_part(self, memberships: Any, part: int) -> np.ndarray:
        return memberships[self.numbers[part]]

    def drawn(self, values: np.ndarray, labels: Any, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows with drawn cells of these views."""
        out = values.copy()
        for v, part, place in zip(self.numbers, self.parts, self.places, strict=True):
            out[:, place] = part.drawn(np.ascontiguousarray(values[:, place]), labels[v], subkey(key, v), first_row)
        return out
