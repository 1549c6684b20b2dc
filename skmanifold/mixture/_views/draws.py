"""Draws of views: of a partition of the columns, and of the rows in each view."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from ...emissions._cells import JoinedCells
from ...random._keys import subkey
from ...utils._conditions import Array, Sizes, index
from ...utils._threads import Workers
from .._memberships import PartitionDraw
from .._scores import Memberships, to_shares


class ViewDraw(NamedTuple):
    """Columns, ascending, and the partition of the rows in them; `labels` are those of the fitted rows."""

    columns: Annotated[np.ndarray, index("_", below="n_features")]
    labels: Annotated[np.ndarray, Array("int32", "n_rows", low=0)]
    rows: PartitionDraw

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
        columns = np.sort(np.concatenate([view.columns for view in self.views]))
        return None if np.array_equal(columns, np.arange(sizes["n_features"])) else "has columns in no view, or in two"

    @property
    def column_labels(self) -> np.ndarray:
        """The view of each column, (n_columns,)."""
        out = np.empty(sum(len(view.columns) for view in self.views), np.int32)
        for v, view in enumerate(self.views):
            out[view.columns] = v
        return out

    def log_terms(self, family: Any, workers: Workers) -> np.ndarray:
        """Log density of the rows, (n_rows, 1): the sum over views."""
        return np.sum([view.log_density(family, workers) for view in self.views], axis=0)[:, np.newaxis]

    def expected(self, family: Any, workers: Workers) -> tuple[tuple[np.ndarray, ...], ViewCells]:
        """Memberships of the rows in each view, and the distributions of cells by expected parameters."""
        return self._joined([view.rows.expected(view.family(family), workers) for view in self.views])

    def drawn(self, family: Any, key: np.uint64, workers: Workers) -> tuple[tuple[np.ndarray, ...], ViewCells]:
        """Memberships of the rows in each view, and the distributions of cells by drawn parameters."""
        pairs = enumerate(self.views)
        return self._joined([view.rows.drawn(view.family(family), subkey(key, v), workers) for v, view in pairs])

    def _joined(self, of_views: list[Memberships]) -> tuple[tuple[np.ndarray, ...], ViewCells]:
        shares, parts = zip(*of_views, strict=True)
        return shares, ViewCells(parts, tuple(view.columns for view in self.views))


class ViewCells(JoinedCells):
    """Distributions of the cells of all views; memberships are a tuple, and labels have a column, for each."""

    def _of_part(self, memberships: Any, part: int) -> np.ndarray:
        if isinstance(memberships, tuple):
            return memberships[part]
        return np.ascontiguousarray(memberships[:, part])
