"""Where the columns of a fitted table are, and how its cells become numbers and back."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ...utils._conditions import Array, Counted, OneOf, Sizes, refuse
from ...utils._declared import Lacking
from .reading import MOST_EXACT, Column, Columns, encoded, of_numbers


class BlockReader(BaseEstimator):
    """What the emission of a block stores when it reads rows, as an estimator does."""

    n_features_in_: Annotated[int, Counted("n_block_features")]
    n_categories_: Lacking[Annotated[np.ndarray, Array("int64", "n_block_features", low=1)]]

    column_labels: list[str]  # while rows are read: the columns for errors of `column_name`


def _categories(value: Any, where: str, sizes: Sizes) -> None:
    if type(value) is not np.ndarray or value.ndim != 1 or value.dtype.kind not in "OUbiuf":
        refuse(where, "is not an array of categories")
    if value.dtype.kind == "O" and not all(type(category) is str for category in value):
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
        if [reader.n_features_in_ for reader in self.readers] != [len(place) for place in self.places]:
            return "has blocks with other numbers of columns"
        return None

    def codes(self, column: int, read: Column, label: str, ignore_unknown: bool) -> np.ndarray:
        """Codes of a column's cells in the fitted categories, (n_rows,) float64, NaN if missing.

        Unknown categories raise a ValueError with the `label`, or are missing if `ignore_unknown`.
        """
        read = as_categories(read, label)
        assert read.categories is not None
        known = {value: code for code, value in enumerate(self.categories[column].tolist())}
        code_of = np.array([known.get(value, -1) for value in read.categories.tolist()] or [-1], dtype=np.float64)
        missing = np.isnan(read.values)
        codes = code_of[np.where(missing, 0, read.values).astype(np.int64)]
        unknown = ~missing & (codes < 0)
        if unknown.any() and not ignore_unknown:
            value = read.categories.tolist()[int(read.values[unknown][0])]
            raise ValueError(
                f"Column {label} of X has the category {value!r}, which did not occur in fit: set "
                "handle_unknown='ignore' in Categorical to treat unknown categories as missing."
            )
        codes[missing | unknown] = np.nan
        return codes

    def table(self, values: np.ndarray, names: Any) -> Any:
        """A table like the fitted one from numbers and codes, (n_rows, n_columns), with categories for codes."""
        cells = [
            self._whole_numbers(column, self.cells(column, values[:, column])) for column in range(values.shape[1])
        ]
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
    missing = np.isnan(column.values)
    values = np.full(len(missing), np.nan)
    values[~missing] = column.categories.astype(np.float64)[column.values[~missing].astype(np.int64)]
    return of_numbers("int", values, label, column.categories.dtype.kind in "bf").values


def ordered(columns: Columns, names: Any) -> np.ndarray:
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
