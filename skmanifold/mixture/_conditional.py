"""The distribution of some columns given the other columns of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_scalar

from ..emissions._cells import ExpectedCells
from ..random._keys import Purpose, fold_in, root_key, subkey, uniform
from ..utils._threads import split_range
from ..utils._typing import ArrayLike, MatrixLike, RandomStateLike

_CELLS_AT_ONCE = 1 << 22  # memberships of the rows of a block, in all draws
_N_COMPONENTS = 32  # to choose the size of blocks
_N_HALVINGS = 200  # at most; an interval is halved until it is as narrow as
_PRECISION = 4.0 * np.finfo(np.float64).eps  # relative to its ends
_SMALLEST = 1e-300


class ConditionalColumn(NamedTuple):
    """Moments of a column in each row, and for categories their probabilities and values."""

    first: np.ndarray
    second: np.ndarray
    probabilities: Any = None
    categories: np.ndarray | None = None

    def variance(self) -> np.ndarray:
        """The variance in each row."""
        return np.maximum(self.second - self.first**2, 0.0)

    def named(self, values: np.ndarray) -> np.ndarray:
        """Categories in place of codes; numbers do not change."""
        return values if self.categories is None else self.categories[values.astype(int)]


class Conditional:
    """The distribution of some columns given the others, for each row; `conditional` of mixtures returns it.

    If `conditional` was called with the name or the index of one column, and not with a list, methods return the result
    of this column, without the axis or the list of columns.

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
    is_single : bool, default=False
        Whether results are those of one column.

    Attributes
    ----------
    columns : list of str or int
        The columns, in the order in which methods return them.
    """

    def __init__(
        self, mixture: Any, columns: np.ndarray, expected: ExpectedCells, rows: Any, is_single: bool = False
    ) -> None:
        names = getattr(mixture, "feature_names_in_", None)
        self.columns = [int(column) if names is None else str(names[column]) for column in columns]
        self._mixture, self._indices, self._rows, self._is_single = mixture, columns, rows, is_single
        self._chosen = [_conditional_column(mixture, column, expected) for column in columns]

    def _stacked(self, of_columns: list[np.ndarray]) -> np.ndarray:
        return of_columns[0] if self._is_single else np.stack(of_columns, axis=1)

    def _listed(self, of_columns: list[Any]) -> Any:
        return of_columns[0] if self._is_single else of_columns

    def _named(self, of_columns: Iterable[np.ndarray]) -> Any:
        return self._listed([column.named(own) for column, own in zip(self._chosen, of_columns, strict=True)])

    def mean(self) -> np.ndarray:
        """Means of the columns.

        Returns
        -------
        means : ndarray of shape (n_samples, n_chosen) or (n_samples,)
            NaN for categories; for binary columns the probability of a one.
        """
        return self._stacked([column.first for column in self._chosen])

    def variance(self) -> np.ndarray:
        """Variances of the columns, over components, draws and rows within components.

        Returns
        -------
        variances : ndarray of shape (n_samples, n_chosen) or (n_samples,)
            NaN for categories.
        """
        return self._stacked([column.variance() for column in self._chosen])

    def predict_proba(self) -> Any:
        """Probabilities of the categories of each column.

        Returns
        -------
        probabilities : list of ndarray of shape (n_samples, n_categories) or None, or one of these
            Rows sum to 1; None for numbers. ``categories`` has the names.
        """
        return self._listed([column.probabilities for column in self._chosen])

    @property
    def categories(self) -> Any:
        """Categories of each column, in the order of `predict_proba`; None for numbers."""
        return self._listed([column.categories for column in self._chosen])

    def predict(self) -> Any:
        """The mean of a number, and the most probable category, of each column.

        Returns
        -------
        values : list of ndarray of shape (n_samples,), or one of these
        """
        typical = [c.first if c.probabilities is None else c.probabilities.argmax(axis=1) for c in self._chosen]
        return self._named(typical)

    def quantile(self, q: float | ArrayLike) -> np.ndarray:
        """Quantiles of numbers: the smallest number whose cumulative probability is at least q.

        The distribution is the mixture, over draws and components, of the distributions of the cell whose moments are
        those of `mean` and `variance`. Quantiles of counts are whole numbers; those of a rounded column are of the
        distribution before rounding. A Gaussian component of a drawn partition has a normal distribution with the
        predictive moments.

        Parameters
        ----------
        q : float or array-like of shape (n_levels,)
            Probabilities, above 0 and below 1.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_chosen) or (n_samples,)
            With an axis for several levels at the end.

        Raises
        ------
        ValueError
            If a column has categories, or a level is not between 0 and 1.
        """
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim > 1 or not levels.size or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ValueError(f"q must be one or more probabilities above 0 and below 1; got {q!r}.")
        out = np.empty((self._rows.n_rows, len(self._indices), levels.size))
        for rows, column, functions, has_counts in self._distribution_functions():
            own = self._chosen[column]
            deviations = np.sqrt(own.variance())[rows]
            masses = self._masses(self._indices[column])
            for i, level in enumerate(levels.ravel()):
                found = _inverted(functions, level, own.first[rows], deviations, masses)
                out[rows, column, i] = np.floor(found) if has_counts else found
        out = out.reshape(*out.shape[:2], *levels.shape)
        return out[:, 0] if self._is_single else out

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of numbers with equal probabilities below and above.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval.

        Returns
        -------
        low, high : ndarray of shape (n_samples, n_chosen) or (n_samples,)

        Raises
        ------
        ValueError
            If a column has categories, or the level is not between 0 and 1.
        """
        level = check_scalar(level, "level", Real, min_val=0.0, max_val=1.0, include_boundaries="neither")
        found = self.quantile([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return found[..., 0], found[..., 1]

    def sample(self, n_samples: int = 1, random_state: RandomStateLike = None) -> Any:
        """Draw the columns jointly, given the other cells of each row.

        Each sample has a posterior draw of the parameters, at equal distances among those of the fit from a random
        first one. Samplers that maximise have one estimate.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState instance or None, default=None
            Seed. The draws of a row depend on its number and not on the other rows.

        Returns
        -------
        values : list of ndarray of shape (n_rows, n_samples), or one of these
            Numbers or categories.
        """
        n_samples, root = check_scalar(n_samples, "n_samples", Integral, min_val=1), root_key(random_state)
        draws, values = self._mixture._predictive, self._rows.cells()
        first = uniform(fold_in(root, Purpose.DRAW), 0)
        chosen = ((np.arange(n_samples) + first) / n_samples * len(draws)).astype(int)
        out = np.empty((len(self._indices), len(values), n_samples))
        for i, draw in enumerate(chosen):
            drawn = self._mixture._drawn_cells(self._rows, values, draws[draw], subkey(root, i))
            out[:, :, i] = drawn[:, self._indices].T
        return self._named(out)

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
        complete = self._mixture._rows_of_cells(before)
        return self._mixture._log_densities_of(complete) - self._mixture._log_densities_of(self._rows)

    def _distribution_functions(self) -> Iterator[tuple[slice, int, list[tuple[np.ndarray, Callable]], bool]]:
        """For blocks of rows and each column: memberships and distribution functions of all draws, and whether counts.

        A block has so few rows that the memberships of all draws fit into memory.
        """
        for name, column in zip(self.columns, self._chosen, strict=True):
            if column.categories is not None:
                raise ValueError(f"Column {name!r} has categories, which have no quantiles: use predict_proba.")
        values, mixture = self._rows.cells(), self._mixture
        size = max(1, _CELLS_AT_ONCE // (_N_COMPONENTS * len(mixture._predictive)))
        for start, stop in split_range(len(values), size):
            part, rows = self._rows.part(start, stop), slice(start, stop)
            found: list[list] = [[] for _ in self._indices]
            counts = [False] * len(self._indices)
            for views in mixture._views_of(part, mixture._predictive):
                for columns, shares, cells in views:
                    places = np.arange(values.shape[1])[columns].tolist()
                    own = np.ascontiguousarray(values[rows, columns])
                    for i, index in enumerate(self._indices):
                        if index in places:
                            place = places.index(index)
                            found[i].append((shares, cells.distribution_function(place, own)))
                            counts[i] = cells.has_counts(place)
            for i, functions in enumerate(found):
                yield rows, i, functions, counts[i]

    def _masses(self, column: int) -> np.ndarray:
        """Values of a column that have a probability, ascending."""
        family = self._mixture._family
        pairs = zip(getattr(family, "blocks", (family,)), getattr(family, "places", ()), strict=False)
        if hasattr(family, "spikes"):
            return np.asarray(family.spikes[column])
        for block, place in pairs:
            if column in place and hasattr(block, "spikes"):
                return np.asarray(block.spikes[int(np.flatnonzero(place == column)[0])])
        return np.zeros(0)


def _inverted(
    functions: list[tuple[np.ndarray, Callable]],
    level: float,
    means: np.ndarray,
    deviations: np.ndarray,
    masses: np.ndarray,
) -> np.ndarray:
    """The smallest numbers of rows with a probability of at least `level`, by bisection from bounds of Cantelli.

    Each row has its own interval, so that its result does not depend on the other rows.
    """

    def probabilities(x: np.ndarray) -> np.ndarray:
        total = np.zeros(len(x))
        for shares, function in functions:
            total += (shares * function(x)).sum(axis=1)
        return total / len(functions)

    spread = np.maximum(deviations, np.maximum(np.abs(means) * 1e-8, _SMALLEST))
    steps = 1.01 * spread * np.sqrt((1.0 - level) / level), 1.01 * spread * np.sqrt(level / (1.0 - level))
    ends = []
    for sign, step in zip((-1.0, 1.0), steps, strict=True):
        end, step = means + sign * step, step.copy()
        for _ in range(_N_HALVINGS):  # the bounds hold up to rounding
            outside = probabilities(end) >= level if sign < 0.0 else probabilities(end) < level
            if not outside.any():
                break
            step[outside] *= 2.0
            end[outside] += sign * step[outside]
        ends.append(end)
    low, high = ends
    for value in masses:  # an interval ends at a spike, or the quantile is the spike
        at, before = np.full(len(low), value), np.full(len(low), np.nextafter(value, -np.inf))
        reached, above = probabilities(at) >= level, probabilities(before) < level
        high = np.where(reached, np.minimum(high, at), high)
        low = np.where(above, np.maximum(low, before), low)
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        wide = high - low > _PRECISION * np.maximum(np.abs(low), np.abs(high)) + _SMALLEST
        wide &= (middle > low) & (middle < high) & (high - low > 1e-13 * spread)
        if not wide.any():
            break
        enough = probabilities(middle) >= level
        high, low = np.where(wide & enough, middle, high), np.where(wide & ~enough, middle, low)
    return high


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
    first, second = ((probabilities * each).sum(axis=1) for each in (values, values**2))  # BLAS rounds by batch
    return ConditionalColumn(first, second, probabilities, categories)
