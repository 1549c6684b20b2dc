"""Columns of tables of any library, the columns of a fitted table, and how their cells become numbers and back."""

from __future__ import annotations

import sys
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ...utils._conditions import Array, Integer, OneOf, Sizes, refuse
from ...utils._declared import Lacking
from ...utils._inputs.tables import is_arrow, is_table, readable, refuse_dates, refuse_text

MOST_EXACT = 2.0**53  # float64 does not distinguish larger whole numbers
_SCALARS = {bool: "bool", np.bool_: "bool", str: "string", np.str_: "string"}
_NUMBERS = ["bool"], ["float"], ["int"], ["float", "int"]
_READABLE: tuple[list[str], ...] = ([], ["string"], *_NUMBERS)  # types of the cells of a column


class Column(NamedTuple):
    """A column of a table: `values`, (n_rows,) float64, are numbers or codes of `categories`, NaN if missing.

    `kind` is "float", "int", "bool" or "category". Categories are ascending or in the order of the table's type.
    """

    kind: str
    values: np.ndarray
    categories: np.ndarray | None = None


class OpenTable(NamedTuple):
    """A table in memory, or an array with two dimensions, of which `library` it is; columns are read one by one."""

    table: Any
    library: str
    names: list | None
    n_rows: int
    n_columns: int

    def label(self, column: int) -> str:
        """The name of a column for messages, or its index if X has no names."""
        return repr(int(column) if self.names is None else self.names[column])

    def read(self, column: int) -> Column:
        """Read a column; ValueError for dates, nested cells, several types, and what cannot be read without loss."""
        name = self.label(column)
        try:
            return self._read(column, name)
        except Exception as error:  # also what methods of the user's objects raise
            if isinstance(error, MemoryError) or f"Column {name} of X" in str(error):
                raise
            raise ValueError(
                f"Column {name} of X has a cell that cannot be read ({type(error).__name__}): convert the column to "
                "numbers, booleans or strings, or remove it from X."
            ) from error

    def _read(self, column: int, name: str) -> Column:
        if self.library == "pandas":
            return _of_pandas(self.table.iloc[:, column], name)
        if self.library == "polars":
            return _of_polars(self.table.to_series(column), name)
        if self.library == "pyarrow":
            return _of_arrow(self.table.column(int(column)), name)
        return _of_cells(self.table[:, column], name)


def open_table(X: Any) -> OpenTable:
    """Check that X is a table or an array with two dimensions.

    TypeError if X is sparse or not in memory, ValueError if it has other dimensions or no rows.
    """
    if sp.issparse(X):
        raise TypeError("The emission Columns does not take sparse X: pass X.toarray(), or a data frame.")
    X = X if is_table(X) else readable(X)
    if is_table(X):
        names = list(X.column_names if is_arrow(X) else X.columns)
        library = type(X).__module__.split(".")[0]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"X has two columns with the name {twice!r}: give each column its own name.")
    else:
        names, library, X = None, "numpy", _as_array(X)
    if len(X.shape) != 2:
        raise ValueError(f"Reshape your data: expected 2D array, got {len(X.shape)}D array instead.")
    if 0 in X.shape:
        what = "sample" if X.shape[0] == 0 else "feature"
        raise ValueError(f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required.")
    return OpenTable(X, library, names, *X.shape)


def _as_array(X: Any) -> np.ndarray:
    """An array; cells of lists keep their types, which numpy would convert to a common one."""
    if not isinstance(X, list | tuple):
        return np.asarray(X)
    array = np.array(X, dtype=object)
    if array.ndim == 1 and any(isinstance(row, list | tuple | np.ndarray) for row in X):
        raise ValueError(
            "X has rows of different lengths: give each row a cell for each column, None if it is missing."
        )
    plain = np.asarray(X) if _kinds(array.ravel()) in _NUMBERS else array
    return array if plain.dtype.kind == "f" and (np.abs(plain) >= MOST_EXACT).any() else plain


def _of_pandas(series: Any, name: str) -> Column:
    types, dtype = sys.modules["pandas"].api.types, series.dtype
    if isinstance(dtype, sys.modules["pandas"].CategoricalDtype):
        return _of_codes(series.cat.codes.to_numpy(), series.cat.categories.to_numpy(dtype=object), name)
    if types.is_complex_dtype(dtype):
        raise _refused(name, f"the type {dtype}")
    if types.is_bool_dtype(dtype) or types.is_numeric_dtype(dtype):
        kind = "bool" if types.is_bool_dtype(dtype) else "int" if types.is_integer_dtype(dtype) else "float"
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return of_numbers(kind, values, name, types.is_float_dtype(dtype))
    refuse_dates(series.to_numpy(), f"Column {name} of X")
    return _of_objects(series.to_numpy(dtype=object), name, series.isna().to_numpy())


def _of_polars(series: Any, name: str) -> Column:
    polars, dtype = sys.modules["polars"], series.dtype
    if dtype.is_numeric() or dtype in (polars.Boolean, polars.Null):
        kind = "bool" if dtype == polars.Boolean else "int" if dtype.is_integer() else "float"
        return of_numbers(kind, series.cast(polars.Float64).to_numpy().copy(), name, dtype.is_float())
    if dtype == polars.Enum:
        codes = series.to_physical().cast(polars.Float64).to_numpy()
        return _of_codes(np.nan_to_num(codes, nan=-1.0), _objects(dtype.categories.to_list()), name)
    if dtype in (polars.String, polars.Categorical, polars.Object):
        return _of_objects(_objects(series.to_list()), name)
    raise _refused(name, f"the type {dtype}")


def _of_arrow(column: Any, name: str) -> Column:
    pyarrow = sys.modules["pyarrow"]
    types = pyarrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_boolean(kind):
        column, found = column.cast(pyarrow.int8()), "bool"
    elif any(is_numeric(kind) for is_numeric in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)):
        found = "int" if types.is_integer(kind) else "float"
    elif types.is_string(kind) or types.is_large_string(kind) or "string_view" in str(kind):
        return _of_objects(_objects(column.to_pylist()), name)
    else:
        raise _refused(name, f"the type {kind}")
    values = np.array(column.cast(pyarrow.float64(), safe=False).to_numpy())
    return of_numbers(found, values, name, types.is_floating(kind))


def _of_cells(cells: np.ndarray, name: str) -> Column:
    """A column of a numpy array."""
    refuse_dates(cells, f"Column {name} of X")
    if cells.dtype.kind == "c":
        raise ValueError(f"Complex data not supported, but Column {name} of X has complex numbers.")
    if cells.dtype.kind in "biuf":
        kind = {"b": "bool", "f": "float"}.get(cells.dtype.kind, "int")
        return of_numbers(kind, cells.astype(np.float64), name, kind == "float")
    return _of_objects(cells.astype(object), name)


def _objects(cells: list) -> np.ndarray:
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


def of_numbers(kind: str, values: np.ndarray, name: str, is_float: bool | np.ndarray) -> Column:
    """A column of numbers; a ValueError if one is infinite, or was no float and is not exact as float64."""
    if (np.logical_not(is_float) & (np.abs(values) >= MOST_EXACT)).any():
        raise ValueError(
            f"Column {name} of X has whole numbers or decimals of 2**53 or more (in absolute value), which float64 "
            "cannot distinguish: convert identifiers to strings, and quantities to floats."
        )
    if np.isinf(values).any():
        raise ValueError(f"Column {name} of X contains infinity: correct these cells, or set them to NaN.")
    return Column(kind, np.ascontiguousarray(values))


def _of_codes(codes: np.ndarray, categories: np.ndarray, name: str) -> Column:
    """A column of a categorical type; negative codes are missing cells."""
    kinds = _kinds(categories)
    if kinds not in _READABLE:
        raise _refused(name, f"categories of the type{'s' if len(kinds) > 1 else ''} {' and '.join(kinds)}")
    return Column("category", np.where(codes < 0, np.nan, codes), _plain_array(categories.tolist(), name))


def _of_objects(cells: np.ndarray, name: str, missing: np.ndarray | None = None) -> Column:
    """A column of Python objects: numbers, booleans or strings, but not several of these."""
    missing = np.array([_is_missing(cell) for cell in cells]) if missing is None else missing
    present = cells[~missing]
    kinds = _kinds(present)
    if kinds == ["string"]:
        return encoded(cells, missing, name)
    if kinds not in _READABLE:
        raise _refused(name, f"cells of the type{'s' if len(kinds) > 1 else ''} {' and '.join(kinds)}")
    values = np.full(len(cells), np.nan)
    values[~missing] = present.astype(np.float64)
    is_float = np.array([isinstance(cell, float | np.floating) for cell in cells])
    return of_numbers(kinds[0] if kinds else "float", values, name, is_float)


def encoded(cells: np.ndarray, missing: np.ndarray, name: str) -> Column:
    """A `Column` of codes of the values that occur, of one type, in ascending order, except where `missing`."""
    present = cells[~missing]
    categories = sorted(set(present.tolist()))
    code_of = {value: code for code, value in enumerate(categories)}
    values = np.full(len(cells), np.nan)
    values[~missing] = [code_of[value] for value in present.tolist()]
    return Column("category", values, _plain_array(categories, name))


def _plain_array(categories: list, name: str) -> np.ndarray:
    """Categories as an array of numbers or booleans, or of objects if they are strings, whose lengths may differ."""
    if categories and isinstance(categories[0], str):
        refuse_text(categories, f"Column {name} of X has a category")
        return _objects(list(map(str, categories)))
    if not categories:
        return np.zeros(0)
    for dtype in None, np.uint64:  # numpy makes floats of small and large whole numbers together
        with suppress(OverflowError):
            plain = np.array(categories, dtype=dtype)
            if plain.dtype.kind in "biuf" and plain.tolist() == categories:
                return plain
    raise ValueError(
        f"Column {name} of X has categories that are numbers which an array of 64-bit numbers cannot hold exactly: "
        "convert them to strings."
    )


def _kinds(cells: np.ndarray) -> list[str]:
    """What the types of cells are, sorted: "bool", "float", "int" or "string"; other types have their own names."""
    return sorted({_kind_of(each) for each in set(map(type, cells))})


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return (type(cell) is float or isinstance(cell, Real | Decimal)) and cell != cell


def _kind_of(cls: type) -> str:
    if cls in _SCALARS:
        return _SCALARS[cls]
    if issubclass(cls, Integral):
        return "int"
    return "float" if issubclass(cls, Real | Decimal) else cls.__name__


def _refused(name: str, what: str) -> ValueError:
    return ValueError(
        f"Column {name} of X has {what}, which the emission Columns cannot read: convert it to numbers, booleans "
        "or strings, or remove it from X."
    )


class BlockReader(BaseEstimator):
    """What the emission of a block stores when it reads rows, as an estimator does."""

    n_features_in_: Annotated[int, Integer(1, size="n_block_features")]
    n_categories_: Lacking[Annotated[np.ndarray, Array("int64", "n_block_features", low=1)]]

    column_labels: list[str]  # while rows are read: the columns for errors of `column_name`


def _categories(value: Any, where: str, sizes: Sizes) -> None:
    is_array = type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in "OUbiuf"
    if not is_array or (value.dtype.kind == "O" and not all(type(category) is str for category in value)):
        refuse(where, "is not an array of categories")
    if len(np.unique(value)) != len(value) or (value.dtype.kind == "f" and not np.isfinite(value).all()):
        refuse(where, "has a category twice, or one that is not finite")


class ColumnLayout(NamedTuple):
    """The columns of the table that an estimator was fitted to: its `library`, and `kinds` of cells (`Column`).

    `categories` are empty for numbers; `places` and `readers` are columns, and what the emission stores, of each block.
    """

    library: Annotated[str, OneOf(("numpy", "pandas", "polars", "pyarrow"))]
    kinds: tuple[Annotated[str, OneOf(("float", "int", "bool", "category"))], ...]
    categories: tuple[Annotated[np.ndarray, _categories], ...]
    places: tuple[Annotated[np.ndarray, Array("int64", "_", low=0)], ...]
    readers: tuple[BlockReader, ...]

    def _disagreement(self, sizes: Sizes) -> str | None:
        n_columns = len(self.kinds)
        columns = np.sort(np.concatenate(self.places))
        if len(self.categories) != n_columns or not np.array_equal(columns, np.arange(n_columns)):
            return "has columns in no block, or in two"
        same = [reader.n_features_in_ for reader in self.readers] == [len(place) for place in self.places]
        return None if same else "has blocks with other numbers of columns"

    def codes(self, column: int, read: Column, label: str, ignore_unknown: bool) -> np.ndarray:
        """Codes of a column's cells in the fitted categories, (n_rows,) float64, NaN if missing.

        Unknown categories raise a ValueError with the `label`, or are missing if `ignore_unknown`.
        """
        read = as_categories(read, label)
        assert read.categories is not None
        known = {value: code for code, value in enumerate(self.categories[column].tolist())}
        codes = np.array([*(known.get(value, -1) for value in read.categories.tolist()), np.nan])[_whole(read.values)]
        unknown = codes < 0
        if unknown.any() and not ignore_unknown:
            value = read.categories.tolist()[int(read.values[unknown][0])]
            raise ValueError(
                f"Column {label} of X has the category {value!r}, which did not occur in fit: set "
                "handle_unknown='ignore' in Categorical to treat unknown categories as missing."
            )
        codes[unknown] = np.nan
        return codes

    def table(self, values: np.ndarray, names: Any) -> Any:
        """A table like the fitted one from numbers and codes, (n_rows, n_columns), with categories for codes."""
        cells = [self._whole_numbers(column, self.cells(column, own)) for column, own in enumerate(values.T)]
        names = range(len(cells)) if names is None and self.library == "pandas" else names
        if self.library == "numpy" or names is None or self.library not in sys.modules:
            plain = np.empty(values.shape, dtype=object if "category" in self.kinds else np.float64)
            for column, of_column in enumerate(cells):
                plain[:, column] = of_column
            return plain
        module = sys.modules[self.library]
        if self.library == "pandas":
            for column, kind in enumerate(self.kinds):
                if kind == "category":
                    codes, categories = _whole(values[:, column]), self.categories[column]
                    cells[column] = module.Categorical.from_codes(codes, categories)
            return module.DataFrame(dict(zip(names, cells, strict=True)))
        data = {name: of_column.tolist() for name, of_column in zip(names, cells, strict=True)}
        return module.DataFrame(data) if self.library == "polars" else module.table(data)

    def cells(self, column: int, values: np.ndarray) -> np.ndarray:
        """Cells of a column as the user had them, from numbers or codes, (n_rows,), with NaN for missing cells.

        Categories are objects, None if missing; booleans are so if no cell is missing, else numbers.
        """
        if self.kinds[column] == "category":
            names = np.array([*self.categories[column].tolist(), None], dtype=object)
            return names[_whole(values)]
        return values.astype(bool) if self.kinds[column] == "bool" and not np.isnan(values).any() else values

    def _whole_numbers(self, column: int, cells: np.ndarray) -> np.ndarray:
        """Cells as int64 if the column had whole numbers, and these are such: counts, not means."""
        is_whole = self.kinds[column] == "int" and bool(((cells % 1.0 == 0.0) & (np.abs(cells) <= MOST_EXACT)).all())
        return cells.astype(np.int64) if is_whole else cells


def as_categories(column: Column, label: str) -> Column:
    """A column as codes of categories; numbers that occur become categories in ascending order.

    ValueError if float64 cannot distinguish numbers of the column.
    """
    if column.categories is not None:
        return column
    kind: Any = {"int": np.int64, "bool": np.bool_, "float": np.float64}[column.kind]
    missing = np.isnan(column.values)
    if (np.abs(column.values[~missing]) >= MOST_EXACT).any():
        raise ValueError(
            f"Column {label} of X has categories that are numbers of 2**53 or more, which float64 cannot distinguish: "
            "convert them to strings."
        )
    whole = kind is not np.float64 or bool((column.values[~missing] % 1.0 == 0.0).all())
    cells: np.ndarray = np.where(missing, 0.0, column.values).astype(np.int64 if whole and kind is np.float64 else kind)
    return encoded(cells, missing, label)


def numbers_of(column: Column, label: str, block: str) -> np.ndarray:
    """Numbers of a column, (n_rows,) float64, NaN if missing; ValueError with `label` and `block` for strings."""
    if column.categories is None:
        return column.values
    if column.categories.dtype.kind not in "biuf":
        raise ValueError(
            f"Column {label} of X has strings such as {column.categories[0]!r}, but the block {block!r} of "
            "Columns needs numbers: give the column to a block with the emission Categorical."
        )
    values = np.append(column.categories.astype(np.float64), np.nan)[_whole(column.values)]
    return of_numbers("int", values, label, column.categories.dtype.kind in "bf").values


def ordered(columns: OpenTable, names: Any) -> np.ndarray:
    """Indices of the fitted columns in a table, by name if both have names; ValueError if one is not there."""
    if names is None or columns.names is None:
        return np.arange(columns.n_columns)
    lacking = [name for name in names if name not in columns.names]
    if lacking:
        labels = ", ".join(map(repr, lacking[:5]))
        more = f" and {len(lacking) - 5} others" if len(lacking) > 5 else ""
        raise ValueError(
            f"X lacks the column{'s' if len(lacking) > 1 else ''} {labels}{more} of fit: add what is lacking, with NaN "
            "in missing cells."
        )
    place = {name: i for i, name in enumerate(columns.names)}
    return np.array([place[name] for name in names])


def _whole(codes: np.ndarray) -> np.ndarray:
    """Codes as whole numbers, -1 for NaN."""
    return np.where(np.isnan(codes), -1, codes).astype(np.int64)
