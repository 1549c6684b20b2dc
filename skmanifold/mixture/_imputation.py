"""Missing cells of tables, filled by a fitted mixture, and columns given the other columns of rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ..emissions._abilities import HasCells
from ..emissions._cells import ExpectedCells
from ..emissions._columns.layout import MOST_EXACT, OpenTable, open_table, ordered
from ..emissions._columns.rows import chosen_columns
from ..models import IncompatibleError
from ..random._keys import Purpose, fold_in_each, root_key, subkey
from ..utils._parameters import offers
from ..utils._threads import Workers, limit_threads, split_range
from ..utils._typing import MatrixLike, RandomStateLike
from ._conditional import Conditional
from ._inference import EstimateInference


def filled(mixture: Any, X: Any, values: np.ndarray, fillings: Iterable[np.ndarray]) -> Iterator[Any]:
    """Yield a copy of X, of the same type, for each of `fillings`, whose cells replace those that are NaN in `values`.

    `values` and `fillings` are numbers and codes, (n_samples, n_features). Complete columns of data frames are
    unchanged.
    """
    table, names = open_table(X), getattr(mixture, "feature_names_in_", None)
    places, columns = ordered(table, names), np.flatnonzero(np.isnan(values).any(axis=0))
    with_holes = [(column, int(places[column]), table.read(places[column])) for column in columns]
    for filling in fillings:
        out = table.table
        if table.library == "numpy":
            out = out.astype(np.result_type(out, np.float64) if out.dtype.kind in "biuf" else object)
        elif table.library == "pandas":
            out = out.copy()
        for column, place, read in with_holes:
            holes = np.isnan(read.values)  # unknown categories, which are NaN in `values`, are no missing cells
            if not holes.any():
                continue
            cells = mixture._cells_of(column, filling[holes, column])
            has_texts = isinstance(cells[0], str)
            large = isinstance(cells[0], int) and max(map(abs, cells)) >= MOST_EXACT
            others = read.kind == "bool" and not isinstance(cells[0], bool | np.bool_)
            others |= has_texts != (read.categories is not None and read.categories.dtype.kind == "O")
            if (large and read.categories is None) or (others and not holes.all()):
                raise ValueError(
                    f"Column {table.label(place)} of X has cells of another type than in fit, so that "
                    "its missing cells cannot be filled: convert the column to the type of fit."
                )
            out = _FILL[table.library](out, place, holes, cells, has_texts)
        yield out


def _fill_array(X: np.ndarray, place: int, holes: np.ndarray, cells: np.ndarray, has_texts: bool) -> np.ndarray:
    X = X.astype(object) if has_texts else X
    X[holes, place] = cells
    return X


def _fill_pandas(X: Any, place: int, holes: np.ndarray, cells: np.ndarray, has_texts: bool) -> Any:
    pandas = sys.modules["pandas"]
    types, column = pandas.api.types, X.iloc[:, place].copy()
    dtype = column.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        column = column.cat.add_categories([cell for cell in dict.fromkeys(cells) if cell not in dtype.categories])
    elif holes.all() and types.is_numeric_dtype(dtype) == has_texts:
        column = pandas.Series(cells.tolist(), index=X.index)  # the column has no type
    elif types.is_integer_dtype(dtype):  # means of whole numbers are not whole
        column = column.astype(np.float64)
    elif isinstance(dtype, pandas.SparseDtype):
        column = column.sparse.to_dense()
    column[holes] = pandas.Series(cells.tolist()).astype(column.dtype).array
    X.isetitem(place, column.astype(dtype) if isinstance(dtype, pandas.SparseDtype) else column)
    return X


def _fill_polars(X: Any, place: int, holes: np.ndarray, cells: np.ndarray, has_texts: bool) -> Any:
    polars, column = sys.modules["polars"], X.to_series(place)
    dtype, filled = column.dtype, np.full(len(X), None, dtype=object)
    filled[holes] = cells
    series = polars.Series(column.name, filled.tolist())
    if holes.all() and (dtype == polars.Null or dtype.is_numeric() == has_texts):
        return X.with_columns(series)  # the column has no type
    if dtype.is_integer():
        dtype = polars.Float64  # means of whole numbers are not whole
    elif dtype.is_decimal():
        dtype = polars.Decimal(38, dtype.scale)
    elif dtype == polars.Enum:
        dtype = polars.Enum(list(dict.fromkeys([*dtype.categories, *cells])))
    elif dtype == polars.Object:
        series = polars.Series(column.name, filled.tolist(), dtype=dtype)
    column = column if dtype == polars.Object else column.cast(dtype)
    return X.with_columns(column.zip_with(polars.Series(~holes), series.cast(dtype)))


def _fill_arrow(X: Any, place: int, holes: np.ndarray, cells: np.ndarray, has_texts: bool) -> Any:
    import pyarrow
    from pyarrow import compute

    types, column = pyarrow.types, X.column(place)
    filled = np.full(len(holes), None, dtype=object)
    filled[holes] = cells
    array = pyarrow.array(filled.tolist())
    column = column.cast(column.type.value_type) if types.is_dictionary(column.type) else column
    if not holes.all():
        column = column.cast(pyarrow.float64()) if types.is_integer(column.type) else column
        array = compute.if_else(pyarrow.array(holes), array.cast(column.type, safe=False), column)
    return X.set_column(place, X.column_names[place], array)


_FILL = {"numpy": _fill_array, "pandas": _fill_pandas, "polars": _fill_polars, "pyarrow": _fill_arrow}


def check_cells(emission: Any, family: Any) -> None:
    """Raise an IncompatibleError unless a family of the emission, or their class, has distributions of cells."""
    if not offers(family, HasCells):
        cls = family if isinstance(family, type) else type(family)
        raise IncompatibleError(
            f"The emission {type(emission).__name__} has no distributions of single cells (the method "
            f"cell_distribution of {cls.__name__}), which imputation needs."
        )


def _completed(X: Any, names: list | None, n_features: int, chosen: np.ndarray) -> Any:
    """X with missing cells in `chosen` columns if it is a data frame, or an array that lacks exactly these."""
    if sp.issparse(X):
        return X
    table = open_table(X)
    X, missing = table.table, np.full(table.n_rows, np.nan)
    if names is not None and table.names is not None:
        asked = [names[column] for column in chosen]
        order = [name for name in names if name in asked or name in table.names]
        order += [name for name in table.names if name not in names]
        if table.library == "pandas":
            return X.assign(**dict.fromkeys(asked, missing))[order]
        if table.library == "polars":
            return X.with_columns([sys.modules["polars"].Series(name, missing) for name in asked]).select(order)
        for name in asked:
            X = X.drop_columns(name) if name in table.names else X
            X = X.append_column(name, sys.modules["pyarrow"].array(missing))
        return X.select(order)
    kept = np.setdiff1d(np.arange(n_features), chosen)
    if table.n_columns != len(kept) or table.library not in ("numpy", "pandas"):
        return X
    if table.library == "pandas":
        return X.set_axis(kept, axis=1).reindex(columns=range(n_features))
    dtype = np.result_type(X, np.float64) if X.dtype.kind in "biuf" else object
    out = np.full((table.n_rows, n_features), np.nan, dtype=dtype)
    out[:, kept] = X
    return out


_ROWS_AT_ONCE = 1 << 14  # memberships, and probabilities of categories, of so many rows are stored
_TO_UNIT = 2.0**-64


class ImputesCells(EstimateInference):
    """The methods `impute` and `conditional` of a mixture; not public."""

    def _drawn_parameters(self) -> Sequence[Any]:
        """Posterior draws; an error if the sampler draws no parameters."""
        return self._predictive

    def impute(self, X: MatrixLike, n_draws: int | None = None, random_state: RandomStateLike = None) -> Any:
        r"""Fill the missing cells of rows.

        With ``n_draws=None`` a number is replaced by its mean given the observed cells of its row, and a category, or a
        binary cell, by the most probable one. The distribution of a missing cell is

        .. math:: p(x_{ij} \mid x_{i, \mathrm{obs}}) = \frac{1}{T} \sum_t \sum_k p(z_i = k \mid x_{i, \mathrm{obs}},
            \theta^{(t)}) \, p(x_{ij} \mid x_{i, \mathrm{obs}}, z_i = k, \theta^{(t)}),

        averaged over posterior draws t; samplers that maximise have one estimate. The components of a
        `DPMixture` include a new one without fitted rows, whose parameters have their prior distribution.

        With a number, each completed table has another of the T posterior draws that the fit kept, at equal distances;
        each row then draws its component and its missing cells given the parameters of this draw. If `n_draws` exceeds
        T, each draw is used for ``n_draws / T`` tables, rounded up or down, with other components and cells, and for
        `DPMixture` also with other parameters given the drawn partition. This is multiple imputation [1]_: analyse each
        table, and combine the results by :func:`~skmanifold.metrics.pool_estimates`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`, with missing cells.
        n_draws : int, default=None
            Number of completed tables; more than the fit kept draws are possible.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        X : array-like of shape (n_samples, n_features), or list of these
            A copy of X without missing cells, of the same kind as X; with `n_draws` a list of so many. Observed cells
            do not change, not even unknown categories. A column of whole numbers with filled cells has floats.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not allowed or, in a column with missing cells, of
            another type than in `fit`; or if `n_draws` is given and the fit kept no draws of the parameters.
        IncompatibleError
            If the emission has no distributions of single cells, or the sampler draws no parameters and `n_draws` is
            given.

        References
        ----------
        .. [1] D. B. Rubin, "Multiple Imputation for Nonresponse in Surveys", Wiley, 1987.
        """
        self._check_cells()
        rows = self._read(X)
        values = rows.cells()
        if n_draws is None:
            expected = self._expected_cells(rows, values)
            return next(filled(self, X, values, [_most_typical(expected)]))
        n_draws = check_scalar(n_draws, "n_draws", Integral, min_val=1)
        draws = self._drawn_parameters()
        n_kept = len(draws)
        if n_kept == 0:
            raise ValueError(
                "The fit kept no draws of the parameters: raise max_draws_bytes, or lower burn_in or thin."
            )
        root = root_key(random_state)
        chosen = np.linspace(0, n_kept - 1, n_draws).round().astype(int)
        if n_draws > n_kept:
            chosen = np.arange(n_draws) * n_kept // n_draws  # numbers of uses differ by at most one
        drawn = (self._drawn_cells(rows, values, draws[draw], subkey(root, i)) for i, draw in enumerate(chosen))
        return list(filled(self, X, values, drawn))

    def conditional(self, X: MatrixLike, columns: Any) -> Conditional:
        """The distribution of some columns given the others, for each row.

        A mixture is so a regressor and a classifier for any of its columns that tolerates missing cells.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`. The cells of `columns` are ignored, and may be missing. A data frame may lack these
            columns, and an array may lack exactly these.
        columns : str, int, list of these, slice, mask or callable
            Names or indices of the columns, a mask with an entry for each column of `fit`, or a function of X, as for
            the blocks of :class:`~skmanifold.emissions.Columns`. With one name or index that is not in a list, results
            are those of one column.

        Returns
        -------
        conditional : Conditional

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not allowed, or a column is unknown, or the mask
            has another length.
        IncompatibleError
            If the emission has no distributions of single cells.
        """
        self._check_cells()
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        chosen = self._chosen_columns("conditional", columns, X)
        if not len(chosen):
            raise ValueError("conditional needs at least one column.")
        values = self._read(_completed(X, names, self.n_features_in_, chosen)).cells()
        values[:, chosen] = np.nan
        masked = self._rows_of_cells(values)
        expected = self._expected_cells(masked, values)
        is_single = isinstance(columns, str | Integral) and not isinstance(columns, bool)
        return Conditional(self, chosen, expected, masked, is_single)

    def _chosen_columns(self, whose: str, columns: Any, X: Any = None) -> np.ndarray:
        """Indices of columns of `fit`; functions select them in X."""
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        return chosen_columns(whose, columns, OpenTable(X, "", names, 0, self.n_features_in_))

    def _check_cells(self) -> None:
        check_is_fitted(self)
        for family in getattr(self._family, "blocks", (self._family,)):
            check_cells(self.emission_, family)

    def _views_of(self, rows: Any, draws: Sequence[Any]) -> Iterator[list[tuple[Any, np.ndarray, Any]]]:
        """For each draw its views: columns, memberships of rows, and distributions of the cells of these columns.

        A mixture has one view, of all columns. Estimators whose draws have several override this.
        """
        with Workers(self.n_jobs) as workers, limit_threads("blas"):
            bound = self._family_rows(rows)
            for draw in draws:
                yield [(slice(None), *draw.expected(bound, workers))]

    def _needed(self, draw: Any, values: np.ndarray) -> Any:
        """What the distributions of missing cells need of a draw: all of it."""
        return draw

    def _expected_cells(self, rows: Any, values: np.ndarray) -> ExpectedCells:
        """Moments and probabilities of all cells that are missing, averaged over draws."""
        total: Any = None
        draws = [self._needed(draw, values) for draw in self._predictive]
        with Workers(self.n_jobs) as workers, limit_threads("blas"):  # other numbers of threads round otherwise
            for start, stop in split_range(len(values), _ROWS_AT_ONCE):
                bound, chosen = self._family_rows(rows.part(start, stop)), slice(start, stop)
                for draw in draws:
                    shares, cells = draw.expected(bound, workers)
                    total = cells.nothing(len(values)) if total is None else total
                    cells.add_expected(values[chosen], shares, total.map(itemgetter(chosen)))
        return total.map(lambda sums: sums / len(draws))

    def _drawn_cells(self, rows: Any, values: np.ndarray, draw: Any, key: np.uint64) -> np.ndarray:
        """Rows whose missing cells are drawn given one draw of the parameters."""
        out = np.empty(values.shape)
        of_labels, of_cells = subkey(key, Purpose.LABELS), subkey(key, Purpose.MISSING_CELLS)
        with Workers(self.n_jobs) as workers, limit_threads("blas"):
            for start, stop in split_range(len(values), _ROWS_AT_ONCE):
                bound = self._family_rows(rows.part(start, stop))
                shares, cells = self._needed(draw, values).drawn(bound, subkey(key, Purpose.COMPONENTS), workers)
                labels = _drawn_labels(shares, of_labels, start)
                out[start:stop] = cells.drawn(np.ascontiguousarray(values[start:stop]), labels, of_cells, start)
        return out


def _drawn_labels(shares: Any, key: np.uint64, first_row: int) -> Any:
    """Labels drawn by the memberships of rows, (n_rows,) int32, or a dict of these by that of each view."""
    if isinstance(shares, dict):
        return {v: _drawn_labels(own, subkey(key, v), first_row) for v, own in shares.items()}
    levels = np.cumsum(shares, axis=1)
    places = fold_in_each(key, np.arange(first_row, first_row + len(shares))) * _TO_UNIT * levels[:, -1]
    return (levels[:, :-1] <= places[:, np.newaxis]).sum(axis=1).astype(np.int32)


def _most_typical(expected: ExpectedCells) -> np.ndarray:
    """Means of numbers, and the most probable codes."""
    out = expected.firsts.copy()
    for column, probabilities in enumerate(expected.probabilities):
        if probabilities is not None:
            out[:, column] = probabilities.argmax(axis=1)
    return out
