"""Names and values of columns that users pass, in the order of the columns of X.

Arrays, lists, and entries of a pandas Series or Index have the order of the columns. Only tables, and a Series whose
labels are the names of the columns, have an order of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from .tables import is_table, names_or_indices, readable

_SHOWN = 3  # names in an error


def names_by_position(names: Any, n_columns: int) -> np.ndarray:
    """Names of columns that a user passed, as an array of objects, (n_columns,).

    Parameters
    ----------
    names : sequence
        As for `names_in_order`.
    n_columns : int
        Number of columns.

    Returns
    -------
    names : ndarray of object, (n_columns,)
        The names.

    Raises
    ------
    TypeError
        If `names` is not a sequence.
    ValueError
        If there are not as many names as columns.
    """
    found = names_in_order(names, "feature_names")
    if len(found) != n_columns:
        raise ValueError(f"feature_names has {len(found)} names for {n_columns} features.")
    return np.fromiter(found, dtype=object, count=n_columns)


def names_in_order(names: Any, what: str) -> list[Any]:
    """Names that a user passed, in their order.

    Parameters
    ----------
    names : sequence
        An array, a list, or a Series or Index of any library, whose labels are ignored.
    what : str
        What they are called in errors.

    Returns
    -------
    names : list
        The names.

    Raises
    ------
    TypeError
        If `names` is not a sequence, or has no order, or is a mask.
    ValueError
        If it has several dimensions.
    """
    if isinstance(names, range):
        return list(names)
    kind = type(names).__name__
    if isinstance(names, Mapping | Set):
        raise TypeError(
            f"{what} is a {kind}, whose order is not that of the columns: pass a sequence of names, such as "
            "vectorizer.get_feature_names_out()."
        )
    if hasattr(names, "get_feature_names_out"):
        raise TypeError(f"{what} is a {kind}: pass its get_feature_names_out().")
    found = readable(names, what)
    n_dimensions = getattr(found, "ndim", 1)  # `np.ndim` would copy a list to an array with the longest name's width
    if isinstance(found, str | bytes) or is_table(found) or not hasattr(found, "__len__") or n_dimensions == 0:
        raise TypeError(f"{what} must be a sequence of names, one per column; got a {kind}.")
    if n_dimensions != 1:
        raise ValueError(f"{what} must have one dimension, a name per column; got shape {found.shape}.")
    listed = list(found) if isinstance(found, list | tuple) else np.asarray(found).tolist()
    if any(isinstance(name, bool | np.bool_) for name in listed):
        raise TypeError(f"{what} has booleans: pass a name for each column, not a mask.")
    return listed


def in_column_order(values: Any, names: Any, what: str, axes: tuple[int, ...] = (1,), of: str = "X") -> Any:
    """Values that belong to columns, in the order of the columns of X.

    Parameters
    ----------
    values : object
        What the user passed. A table with as many columns as X is sorted by the names of its columns, and a pandas
        Series by its labels if these are the names. Everything else is returned unchanged.
    names : sequence of str or None
        Names of the columns of X; None if they have no names, so that all values are in their order.
    what : str
        Name of the values in errors.
    axes : tuple of int
        The axes of a table that correspond to the columns of X: 0 the rows of a pandas DataFrame, 1 the columns.
    of : str
        Name of X in errors.

    Returns
    -------
    values : object
        Of the same type.

    Raises
    ------
    ValueError
        If a table has as many columns as X, but other names.
    """
    pandas = sys.modules.get("pandas")
    is_series = pandas is not None and isinstance(values, pandas.Series)
    if names is None or not (is_series or is_table(values)):
        return values
    known = list(names)
    for axis in (0,) if is_series else axes:
        found = table_names(values, axis)
        if found is None or found == known or len(found) != len(known):
            continue
        if len(set(known)) == len(known) and set(found) == set(known):
            place = {name: position for position, name in enumerate(found)}
            values = _taken(values, [place[name] for name in known], axis)
        elif not is_series:
            others = [name for name in found if name not in set(known)] or found
            raise ValueError(
                f"The {'columns' if axis else 'rows'} of {what} must have the names of the columns of {of}, but have "
                f"{', '.join(map(repr, others[:_SHOWN]))}{', ...' if len(others) > _SHOWN else ''}: rename them, or "
                f"pass an array in the order of the columns of {of}."
            )
    return values


def table_names(values: Any, axis: int = 1) -> list[str] | None:
    """Names of the columns (`axis` 1) or rows (0) of a table, or labels of a Series; None unless all are strings."""
    if axis == 0:
        found = getattr(values, "index", None)
        names = [] if found is None or callable(found) else list(found)
    elif is_table(values):
        names = names_or_indices(values, 0)
    else:
        return None
    return names if names and all(isinstance(name, str) for name in names) else None


def _taken(values: Any, order: list[int], axis: int) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[:, order] if axis else values.iloc[order]
    return values.select([table_names(values)[place] for place in order])  # type: ignore[index]
