"""Tables and arrays of other libraries, in a form that scikit-learn validates without loss.

scikit-learn itself converts most of them. Data that it would reject or misread are converted here: missing values in
columns of objects and in dictionaries of Arrow, masked cells, dates, sparse columns with a fill value, arrays of other
libraries under ``array_api_dispatch``, and tables that only have Arrow's PyCapsule interface.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator

_NAMES_BY_NARWHALS = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
_NOT_NUMBERS = re.compile(
    r"(could not|cannot) convert|Complex data|setting an array element|must be a string or a real number|promoted"
)
_NOT_STORED = re.compile("[\0\ud800-\udfff]")
_LONGEST = 1000  # characters of a category or a class
_DATES = re.compile("date|time|duration|period|interval", re.IGNORECASE)


class Named(NamedTuple):
    """A matrix made from a table, and an object with the names of the columns."""

    names: Any  # in the form in which scikit-learn reads names and numbers of columns
    values: Any


def readable(X: Any, name: str = "X") -> Any:
    """An array, a table or a column that scikit-learn's validation reads correctly.

    Parameters
    ----------
    X : object
        The user's object. Plain arrays, sparse matrices and lists are returned unchanged.
    name : str, default="X"
        Its name in errors.

    Returns
    -------
    X : object
        X itself, or a converted object if scikit-learn would reject or misread X.

    Raises
    ------
    TypeError
        If X is not in memory, an estimator, or a list of documents.
    ValueError
        If X is None, or a table with dates.
    """
    if X is None:
        raise ValueError(f"{name} is None: pass data with a row for each sample, such as an array or a data frame.")
    if isinstance(X, np.ndarray):
        return _plain_array(X)
    if sp.issparse(X):
        return X
    if _has_pairs(X):
        raise TypeError(
            f"{name} has documents as pairs of word and count, as a corpus of gensim: convert it to a matrix by "
            "gensim.matutils.corpus2csc(corpus, num_terms=len(dictionary)).T."
        )
    if isinstance(X, list | tuple):
        return X
    if isinstance(X, BaseEstimator):
        advice = ", such as its components_" if hasattr(X, "components_") else ""
        raise TypeError(f"{name} is an estimator, {type(X).__name__}: pass an array{advice}.")
    if hasattr(X, "collect") and not hasattr(X, "__array__"):
        raise TypeError(f"{name} is a {type(X).__name__}, which is not in memory: pass X.collect().")
    if hasattr(X, "__dask_graph__"):
        return readable(_computed(X, name), name)
    if is_of(X, "skmanifold.datasets", "Corpus", "RowFiles"):
        raise TypeError(f"{name} is a {type(X).__name__}, which is not in memory: pass its rows part by part.")
    if is_of(X, "pandas", "DataFrame"):
        return _without_objects(_without_dates(X, name))
    if is_of(X, "pandas", "Series"):
        return X
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__"):
        X = _by_capsule(X, name)
    if is_of(X, "pyarrow", "RecordBatch"):
        X = sys.modules["pyarrow"].Table.from_batches([X])
    if is_arrow(X):
        return _without_dictionaries(_without_dates(X, name))
    if is_of(X, "polars", "DataFrame"):
        return _without_dates(X, name)
    return _in_numpy(X, name) if hasattr(X, "__dlpack__") else X


def refuse_dates(X: Any, name: str = "X") -> None:
    """Raise a ValueError for an array of dates or durations, which numpy would convert to large numbers."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise _refused_dates(name, X.dtype)


def refuse_text(cells: Iterable[Any], what: str) -> None:
    """Raise a ValueError for a string that is too long for a name, or has NUL, which numpy removes at the end.

    `what` has such a string, for errors: "y has a label". Cells that are no strings are ignored.
    """
    for cell in cells:
        text = cell.decode("latin-1") if isinstance(cell, bytes) else cell
        if not isinstance(text, str):
            continue
        if len(text) > _LONGEST:
            raise ValueError(f"{what} of {len(text)} characters, more than {_LONGEST}: shorten or remove such texts.")
        if wrong := _NOT_STORED.search(text):
            raise ValueError(f"{what} with the character {wrong[0]!r}: remove such characters.")


def labels(y: Any) -> Any:
    """Class labels that scikit-learn's validation reads correctly; missing ones raise a ValueError."""
    if y is None:  # which scikit-learn explains
        return y
    y = readable(y, "y")
    n_missing = _count_missing(y)
    if n_missing:
        plural = "s" if n_missing > 1 else ""
        raise ValueError(f"y has {n_missing} missing label{plural}: remove these rows from X and y.")
    if not isinstance(y, np.ndarray) or y.dtype.kind in "OS":
        refuse_text(np.asarray(y, dtype=object).ravel(), "y has a label")
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # of pandas' nullable columns
    return y.to_numpy(dtype=plain) if plain is not None and plain.kind in "iub" else y


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix, or a data frame of sparse columns only."""
    return sp.issparse(X) or (is_of(X, "pandas", "DataFrame") and all(_sparse_columns(X)))


def as_named(X: Any, *, accept_sparse: Any, name: str = "X") -> Named | None:
    """The matrix and the names of a table that scikit-learn's validation cannot read; None for all others.

    Raises
    ------
    TypeError
        If X is a data frame of sparse columns but dense data are needed.
    """
    if is_of(X, "pandas", "DataFrame"):
        sparse = _sparse_columns(X)
        if any(sparse) and accept_sparse:
            return Named(X, _stacked(X))
        if sparse and all(sparse):
            raise TypeError(
                f"{name} is a data frame of sparse columns, but dense data are needed: pass X.sparse.to_dense()."
            )
    elif not _NAMES_BY_NARWHALS and is_of(X, "polars", "DataFrame") and not hasattr(X, "__dataframe__"):
        return Named(_Names(X), np.asarray(X))
    return None


def is_arrow(X: Any) -> bool:
    """Whether X is a table or a column of pyarrow."""
    return is_of(X, "pyarrow", "Table", "Array", "ChunkedArray")


def is_table(X: Any) -> bool:
    """Whether X has named columns in memory."""
    return is_of(X, "pandas", "DataFrame") or is_of(X, "polars", "DataFrame") or is_of(X, "pyarrow", "Table")


def is_column(X: Any) -> bool:
    """Whether X is a single column of a table in memory."""
    return is_of(X, "pandas", "Series") or is_of(X, "polars", "Series") or is_of(X, "pyarrow", "Array", "ChunkedArray")


@contextmanager
def named_columns(X: Any, estimator: Any = None, name: str = "X") -> Iterator[None]:
    """Shorten the error for missing values, and name the column in the error for values that are not numbers."""
    try:
        yield
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        if estimator is not None and "does not accept missing values" in str(error):
            who, remedy = type(estimator).__name__, "use an imputer before it in a pipeline"
            raise ValueError(f"Input X contains NaN, but {who} does not accept missing values: {remedy}.") from None
        if isinstance(error, TypeError | ValueError) and not _NOT_NUMBERS.search(str(error)):
            raise
        for column, cells in _columns(X):
            cell = not_a_number(cells)
            if cell is not None:
                who = "numbers are needed" if estimator is None else f"{type(estimator).__name__} needs numbers"
                cure = "remove the column, or encode it first, for example by OneHotEncoder in a ColumnTransformer"
                if "auto" in getattr(estimator, "_emissions", ()):
                    who += " with this emission"
                    cure = 'set emission="auto", which describes texts and categories, or remove the column'
                is_array = isinstance(X, np.ndarray)  # scikit-learn's checks expect its errors
                reason = f" ({str(error).splitlines()[0].rstrip('.:')})" if is_array and X.dtype.kind in "cO" else ""
                kind = TypeError if isinstance(error, TypeError) and is_array else ValueError
                raise kind(f"Column {column!r} of {name} has {cell}, but {who}: {cure}{reason}.") from error
        raise


def names_or_indices(X: Any, n_columns: int) -> list:
    """Names of the columns of a table, or indices if X is no table."""
    return list(X.column_names if is_arrow(X) else X.columns) if is_table(X) else list(range(n_columns))


def reads_categories(estimator: Any) -> str:
    """What reads columns of texts and categories, for errors: an emission of the estimator, or another estimator."""
    return 'emission="auto"' if "auto" in getattr(estimator, "_emissions", ()) else 'DPMixture(emission="auto")'


class _Names:
    """Names of columns for releases of scikit-learn that ask for them by this protocol."""

    def __init__(self, table: Any):
        self.columns = list(table.columns)
        self.shape = table.shape

    def __dataframe__(self) -> _Names:
        return self

    def column_names(self) -> list[str]:
        return self.columns


def is_of(X: Any, module: str, *classes: str) -> bool:
    """Whether X is of a class of a module. If the module is not imported, X cannot be of its classes."""
    loaded = sys.modules.get(module)
    return any(isinstance(X, getattr(loaded, name, ())) for name in classes)


def _has_pairs(X: Any) -> bool:
    """Whether X is a corpus of gensim: documents that are lists of pairs of a word and its count."""
    if not isinstance(X, list | tuple):
        return type(X).__module__.startswith("gensim.") and not hasattr(X, "__array__")
    first = next((row for row in X if not isinstance(row, list | tuple) or len(row)), None)
    pair = first[0] if isinstance(first, list | tuple) else None
    return isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Integral)


def _plain_array(X: np.ndarray) -> np.ndarray:
    if isinstance(X, np.ma.MaskedArray):
        masked, cells = np.ma.getmaskarray(X), X.data
        missing: Any = np.nan if cells.dtype.kind in "biuf" else None
        return np.where(masked, missing, cells) if masked.any() else cells
    if X.dtype.kind == "O" and "pandas" in sys.modules:  # the module of NA
        missing = _missing(X)
        if missing.any():
            return np.where(missing, np.nan, X)
    return X


def _computed(X: Any, name: str) -> Any:
    """The numpy array or sparse matrix of a Dask array; data frames and bags raise a TypeError."""
    if hasattr(X, "shape") and not hasattr(X, "columns"):
        return X.compute()
    what, remedy = ("data frame", ": pass X.compute()") if hasattr(X, "columns") else ("bag", "")
    raise TypeError(
        f"{name} is a {what} of Dask, which only a fit within `with skmanifold.distributed(client):` reads{remedy}."
    )


def _in_numpy(X: Any, name: str) -> np.ndarray:
    """Convert an array of another library, which may be in the memory of another device."""
    try:
        return np.asarray(X)
    except Exception as error:
        kind = f"{type(X).__module__.split('.')[0]}.{type(X).__name__}"
        raise TypeError(f"{name} is a {kind} that numpy cannot read: copy it to a numpy array ({error})") from error


def _by_capsule(X: Any, name: str) -> Any:
    """A table that only has Arrow's PyCapsule interface."""
    try:
        import pyarrow
    except ImportError as error:
        raise TypeError(
            f"{name} is a {type(X).__name__}, which requires pyarrow: install it, or pass a numpy array."
        ) from error
    return pyarrow.table(X)


def _columns(X: Any) -> Iterator[tuple[Any, Any]]:
    """Names and cells of the columns of a table; indices and cells of those of an array or a list of rows."""
    if is_table(X):
        X = _without_dictionaries(X) if is_arrow(X) else X
        names, columns = names_or_indices(X, X.shape[1]), X.columns
        if not is_arrow(X):
            columns = X.get_columns() if hasattr(X, "get_columns") else [column for _, column in X.items()]
        yield from zip(names, columns, strict=True)
        return
    is_list = isinstance(X, list | tuple) and all(isinstance(row, list | tuple) for row in X)
    array = np.array(X, dtype=object) if is_list or isinstance(X, np.ndarray) else np.empty(0)
    if array.ndim == 2:
        yield from enumerate(array.T)


def _types(X: Any) -> Iterator[tuple[Any, Any]]:
    """Names and types of a table's columns, or one type without a name."""
    if hasattr(X, "dtypes"):
        yield from zip(X.columns, X.dtypes, strict=True)
    elif hasattr(X, "schema"):
        yield from zip(X.schema.names, X.schema.types, strict=True)
    else:
        yield None, X.type


def _without_dates(X: Any, name: str) -> Any:
    """The same table; dates and durations, which numpy would convert to large numbers, raise a ValueError."""
    for column, dtype in _types(X):
        of_cells = getattr(getattr(dtype, "categories", None), "dtype", dtype)
        if _DATES.match(str(of_cells)):
            raise _refused_dates(name if column is None else f"Column {column!r} of {name}", of_cells)
    return X


def _refused_dates(what: str, dtype: Any) -> ValueError:
    return ValueError(
        f"{what} has the type {dtype}, but numbers are needed: convert it to numbers first, for example to days."
    )


def _without_objects(X: Any) -> Any:
    """A pandas frame whose numbers in columns of objects and categories are float64, with NaN for missing ones."""
    plain = {}
    for place, dtype in enumerate(X.dtypes):
        if isinstance(dtype, sys.modules["pandas"].CategoricalDtype):
            plain[place] = X.iloc[:, place].astype(np.float64 if dtype.categories.dtype.kind in "biuf" else object)
        elif dtype.name == "object" and (missing := _missing(X.iloc[:, place].to_numpy())).any():
            plain[place] = X.iloc[:, place].mask(missing, np.nan)
    if plain:
        X = X.copy(deep=False)
        for place, column in plain.items():
            X.isetitem(place, column)
    return X


def _without_dictionaries(X: Any) -> Any:
    """Arrow's data with each dictionary replaced by its values; numpy would read a missing entry as another value."""
    is_dictionary = sys.modules["pyarrow"].types.is_dictionary
    if hasattr(X, "type"):
        return X.cast(X.type.value_type) if is_dictionary(X.type) else X
    for place, field in enumerate(X.schema):
        if is_dictionary(field.type):
            X = X.set_column(place, field.name, X.column(place).cast(field.type.value_type))
    return X


def _sparse_columns(X: Any) -> list[bool]:
    sparse = sys.modules["pandas"].SparseDtype
    return [isinstance(dtype, sparse) for dtype in X.dtypes]


def _stacked(X: Any) -> sp.csc_array:
    """The columns of a pandas frame as a sparse matrix; columns with a fill value of 0 are never dense."""
    rows, values = [], []
    for _, column in X.items():
        cells = column.array
        if getattr(cells, "fill_value", None) == 0:
            rows.append(cells.sp_index.indices)
            values.append(cells.sp_values)
        else:
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            rows.append(np.flatnonzero(numbers))
            values.append(numbers[rows[-1]])
    indptr = np.cumsum([0, *map(len, rows)])
    return sp.csc_array((np.concatenate(values), np.concatenate(rows), indptr), shape=X.shape)


def _count_missing(y: Any) -> int:
    """Number of missing labels; scikit-learn checks labels that are plain numbers."""
    if isinstance(y, np.ndarray) and y.dtype.kind != "O":
        return 0
    array = np.asarray(y, dtype=object)
    pandas = sys.modules.get("pandas")
    missing = _missing(array) if pandas else [cell is None or cell != cell for cell in array.ravel()]
    return int(np.count_nonzero(missing))


def _missing(cells: np.ndarray) -> np.ndarray:
    """Which objects are missing by pandas; none if one cannot be compared, which no conversion to numbers accepts."""
    try:
        return sys.modules["pandas"].isna(cells)
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        return np.zeros(cells.shape, dtype=bool)


def not_a_number(cells: Any) -> str | None:
    """The first cell of a column that is not a number, formatted for errors; None if there is none."""
    for cell in np.asarray(cells, dtype=object):
        try:
            float(np.nan if cell is None or type(cell).__name__ == "NAType" else cell)
        except (ArithmeticError, RuntimeError, TypeError, ValueError):
            if isinstance(cell, Integral):
                return "a whole number that is too large for float64"
            return repr(cell) if len(repr(cell)) <= 40 else f"a {type(cell).__name__}"
    return None
