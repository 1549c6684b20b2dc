"""Steps of Dirichlet process mixtures that most families omit: transforms, drawn hyperparameters, missing cells."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..utils._threads import Workers


class BoundDefaults:
    """Default methods of families that are bound to rows."""

    def with_learned_transform(self, labels: np.ndarray, statistics: Any, free: Any, workers: Workers) -> Any:
        """These rows with columns transformed as a partition suggests; most families have no transform.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple
        free : tuple of str
            Hyperparameters that are learned.
        workers : Workers

        Returns
        -------
        family : Family
        statistics : NamedTuple
            Of the transformed rows.
        """
        return self, statistics

    def among_others(self) -> Self:
        """These rows as one of several blocks of columns, whose scores are added.

        Returns
        -------
        family : Family
        """
        return self

    # Hyperparameters that chains draw, which statistics contain; most families have none

    def with_hyperprior(self, free: Any, before: Any) -> Self:
        """The family for chains that draw the hyperparameters `free`; `before` is the one before they were learned.

        Parameters
        ----------
        free : tuple of str
        before : Family

        Returns
        -------
        family : Family
        """
        return self

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Any, key: np.uint64, workers: Workers) -> Any:
        """Statistics with other hyperparameters and numbers within cells, drawn given the partition.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple
        key : uint64
        workers : Workers

        Returns
        -------
        statistics : NamedTuple
        """
        return statistics

    def hyperparameters_of(self, statistics: Any) -> dict[str, np.ndarray]:
        """Drawn hyperparameters, by the names of the parameters of the emission; empty if they are fixed.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        hyperparameters : dict of str to ndarray
        """
        return {}

    def log_hyperprior(self, statistics: Any) -> float:
        """Log prior density of the hyperparameters, up to a constant.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        log_density : float
        """
        return 0.0

    def with_drawn_hyperparameters(self, key: np.uint64) -> Self:
        """The family with hyperparameters drawn from their prior.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        family : Family
        """
        return self

    # Orders of rows, and missing cells

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch in the order in which their scores are computed fastest.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        labels : ndarray of shape (n_rows,), int32

        Returns
        -------
        rows : ndarray of shape (n,), int64
        """
        return rows

    def redraw_missing(
        self,
        rows: np.ndarray,
        new_labels: np.ndarray,
        labels: np.ndarray,
        statistics: Any,
        components: Any,
        place_of: np.ndarray,
        key: np.uint64,
        workers: Workers,
    ) -> None:
        """Draw the missing cells of rows given their new labels, before these rows move; most families have none.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        new_labels : ndarray of shape (n,), int32
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple
        components : object
        place_of : ndarray of int64
            Index of each label among the components.
        key : uint64
        workers : Workers
        """

    def entropy_of_missing(self, labels: np.ndarray, statistics: Any) -> float:
        """Entropy of the drawn values of missing cells given labels and observed cells; 0 where none are drawn.

        With it a log marginal density of completed rows estimates that of the observed cells.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple

        Returns
        -------
        entropy : float
            In nats.
        """
        return 0.0

    # Outliers, which are in no cluster

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
