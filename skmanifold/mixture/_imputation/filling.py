"""Tables of any library with other values in their missing cells."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...emissions._columns.layout import MOST_EXACT, open_table, ordered
from ...emissions._columns.rows import column_label


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
                    f"Column {column_label(table.names, place)} of X has cells of another type than in fit, so that "
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
