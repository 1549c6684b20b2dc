"""The distribution of columns given the other columns of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._cells import ExpectedCells
from ...utils._typing import MatrixLike


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
        self._mixture, self._indices, self._expected, self._rows = mixture, columns, expected, rows

    def mean(self) -> np.ndarray:
        """Means of the columns.

        Returns
        -------
        means : ndarray of shape (n_samples, n_chosen)
            NaN for categories; for binary columns the probability of a one.
        """
        return np.stack([self._moments(column)[0] for column in self._indices], axis=1)

    def variance(self) -> np.ndarray:
        """Variances of the columns, over components, draws and rows within components.

        Returns
        -------
        variances : ndarray of shape (n_samples, n_chosen)
            NaN for categories.
        """
        moments = (self._moments(column) for column in self._indices)
        return np.stack([np.maximum(second - first**2, 0.0) for first, second in moments], axis=1)

    def predict_proba(self) -> list[np.ndarray | None]:
        """Probabilities of the categories of each column.

        Returns
        -------
        probabilities : list of ndarray of shape (n_samples, n_categories) or None
            Rows sum to 1; None for numbers. ``categories`` has the names.
        """
        return [self._expected.probabilities[column] for column in self._indices]

    @property
    def categories(self) -> list[np.ndarray | None]:
        """Categories of each column; None for numbers."""
        return [self._categories(column) for column in self._indices]

    def predict(self) -> list[np.ndarray]:
        """The mean of a number, and the most probable category, of each column.

        Returns
        -------
        values : list of ndarray of shape (n_samples,)
            For each column.
        """
        found = []
        for column in self._indices:
            probabilities, categories = self._expected.probabilities[column], self._categories(column)
            if probabilities is None or categories is None:
                found.append(self._expected.firsts[:, column])
            else:
                found.append(categories[probabilities.argmax(axis=1)])
        return found

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

    def _moments(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        probabilities = self._expected.probabilities[column]
        if probabilities is None:
            return self._expected.firsts[:, column], self._expected.seconds[:, column]
        values = self._categories(column)
        if values is None or values.dtype.kind not in "biuf":
            unknown = np.full(len(probabilities), np.nan)
            return unknown, unknown
        return probabilities @ values.astype(float), probabilities @ values.astype(float) ** 2

    def _categories(self, column: int) -> np.ndarray | None:
        probabilities = self._expected.probabilities[column]
        if probabilities is None:
            return None
        layout = vars(self._mixture).get("_layout")
        if layout is not None and layout.kinds[column] == "category":
            return layout.categories[column]
        is_bool = layout is not None and layout.kinds[column] == "bool"
        return np.array([False, True]) if is_bool else np.arange(probabilities.shape[1])
