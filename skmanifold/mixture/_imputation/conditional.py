"""The distribution of columns given the other columns of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...emissions._cells import ExpectedCells
from ...utils._typing import MatrixLike


class ConditionalColumn(NamedTuple):
    """Moments of a column in each row, and for categories their probabilities and values."""

    first: np.ndarray
    second: np.ndarray
    probabilities: Any = None
    categories: np.ndarray | None = None


class Conditional:
    """The distribution of some columns given the others, for each row; `conditional` of mixtures returns it.

    Parameters
    ----------
    mixture : estimator instance
        The fitted mixture.
    columns : ndarray of int64
        Indices of the columns.
    expected : ExpectedCells
        Conditional moments and probabilities.
    rows : object
        Rows of the emission, in which the cells of these columns are missing.

    Attributes
    ----------
    columns : list of str or int
        The columns, in the order in which methods return them.
    """

    def __init__(self, mixture: Any, columns: np.ndarray, expected: ExpectedCells, rows: Any) -> None:
        names = getattr(mixture, "feature_names_in_", None)
        self.columns = [int(column) if names is None else str(names[column]) for column in columns]
        self._mixture, self._indices, self._rows = mixture, columns, rows
        self._chosen = [_conditional_column(mixture, column, expected) for column in columns]

    def mean(self) -> np.ndarray:
        """Means of the columns.

        Returns
        -------
        means : ndarray of shape (n_samples, n_chosen)
            NaN for categories; for binary columns the probability of a one.
        """
        return np.stack([column.first for column in self._chosen], axis=1)

    def variance(self) -> np.ndarray:
        """Variances of the columns, over components, draws and rows within components.

        Returns
        -------
        variances : ndarray of shape (n_samples, n_chosen)
            NaN for categories.
        """
        return np.stack([np.maximum(column.second - column.first**2, 0.0) for column in self._chosen], axis=1)

    def predict_proba(self) -> list[np.ndarray | None]:
        """Probabilities of the categories of each column.

        Returns
        -------
        probabilities : list of ndarray of shape (n_samples, n_categories) or None
            Rows sum to 1; None for numbers. ``categories`` has the names.
        """
        return [column.probabilities for column in self._chosen]

    @property
    def categories(self) -> list[np.ndarray | None]:
        """Categories of each column; None for numbers."""
        return [column.categories for column in self._chosen]

    def predict(self) -> list[np.ndarray]:
        """The mean of a number, and the most probable category, of each column.

        Returns
        -------
        values : list of ndarray of shape (n_samples,)
        """
        return [
            column.first if column.categories is None else column.categories[column.probabilities.argmax(axis=1)]
            for column in self._chosen
        ]

    def log_density(self, X: MatrixLike) -> np.ndarray:
        """Joint log density of the values of the columns in rows, given the other cells.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows that were passed to `conditional`, with values of the columns; missing ones are left out.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If X has another number of rows, or values that are not allowed.
        """
        rows = self._mixture._read(X)
        if rows.n_rows != self._rows.n_rows:
            raise ValueError(f"X has {rows.n_rows} rows, but conditional was called with {self._rows.n_rows}.")
        before, values = self._rows.cells(), rows.cells()
        before[:, self._indices] = values[:, self._indices]
        complete = self._mixture.emission_.rows_of_values(self._mixture, before)
        return self._mixture._log_densities_of(complete) - self._mixture._log_densities_of(self._rows)


def _conditional_column(mixture: Any, column: int, expected: ExpectedCells) -> ConditionalColumn:
    probabilities = expected.probabilities[column]
    if probabilities is None:
        return ConditionalColumn(expected.firsts[:, column], expected.seconds[:, column])
    layout, categories = vars(mixture).get("_layout"), np.arange(probabilities.shape[1])
    if layout is not None and layout.kinds[column] == "category":
        categories = layout.categories[column]
    elif layout is not None and layout.kinds[column] == "bool":
        categories = np.array([False, True])
    values = categories.astype(float) if categories.dtype.kind in "biuf" else np.full(len(categories), np.nan)
    return ConditionalColumn(probabilities @ values, probabilities @ values**2, probabilities, categories)
