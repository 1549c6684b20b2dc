"""What a family needs if rows may be outliers, which are in no cluster."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..utils._threads import Workers


class MayBeOutliers:
    """Methods of families that are bound to rows."""

    no_statistics: Any
    add_log_predictive: Any

    def with_ranges(self, rows: Any) -> Self:
        """The family with the ranges of these rows, if the density of outliers depends on them.

        Parameters
        ----------
        rows : object

        Returns
        -------
        family : Family
        """
        return self

    def add_log_broad(self, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, 1), the log density of these rows if they are outliers; by default that of a new row.

        Parameters
        ----------
        out : ndarray of shape (n_rows, 1)
        workers : Workers
        """
        self.add_log_predictive(self.no_statistics(1), out, workers)

    def spread_in_cells(self, statistics: Any, rows: np.ndarray, key: np.uint64) -> Any:
        """Statistics with numbers of these rows within their cells that are drawn from uniform distributions.

        Parameters
        ----------
        statistics : NamedTuple
        rows : ndarray of shape (n,), int64
        key : uint64

        Returns
        -------
        statistics : NamedTuple
        """
        return statistics

    def exact(self, statistics: Any) -> Self:
        """The rows with their numbers within cells, those of the statistics, as exact numbers.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        family : Family
        """
        return self
