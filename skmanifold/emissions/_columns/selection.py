"""Which columns of a table belong to which block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np

from ...utils._inputs.column_order import in_column_order
from .reading import Columns


def divided(blocks: list[tuple[str, Any, Any]], columns: Columns) -> tuple[np.ndarray, ...]:
    """Ascending column indices of each block of ``(name, emission, selector)``; a ValueError unless each is in one.

    A selector is a name, an index, a list or slice of these, a mask, or a function of X that returns one.
    """
    owner: dict[int, str] = {}
    places = []
    for block, _, selector in blocks:
        chosen = chosen_columns(f"the block {block!r} of Columns", selector, columns)
        if not len(chosen):
            raise ValueError(f"The block {block!r} of Columns has no columns: remove it, or correct its selector.")
        for column in chosen:
            if column in owner:
                name, other = column_label(columns.names, column), owner[column]
                where = f"twice in the block {block!r}" if other == block else f"in the blocks {other!r} and {block!r}"
                raise ValueError(f"Column {name} of X is {where} of Columns: remove it from one place.")
            owner[column] = block
        places.append(np.sort(chosen))
    rest = [column for column in range(columns.n_columns) if column not in owner]
    if rest:
        labels = ", ".join(column_label(columns.names, column) for column in rest[:5])
        more = f" and {len(rest) - 5} others" if len(rest) > 5 else ""
        raise ValueError(
            f"No block of Columns has the column{'s' if len(rest) > 1 else ''} {labels}{more} of X: add a block, or "
            "remove columns from X."
        )
    return tuple(places)


def column_label(names: list | None, column: int) -> str:
    """The name of a column for messages, or its index if X has no names."""
    return repr(int(column) if names is None else names[column])


def chosen_columns(whose: str, selector: Any, columns: Columns) -> np.ndarray:
    """Indices of columns in the order of a selector, see `divided`; ValueError about `whose` if it does not suit."""
    if callable(selector):
        selector = selector(columns.table)
    n = columns.n_columns
    if isinstance(selector, slice):
        first, last = (_end(end, columns, whose) for end in (selector.start, selector.stop))
        if isinstance(selector.stop, str):
            last += 1  # slices of names include the last
        try:
            return np.arange(n)[slice(first, last, selector.step)]
        except (TypeError, ValueError):
            raise ValueError(f"The slice of {whose} must have names or indices as ends; got {selector!r}.") from None
    if isinstance(selector, str | Integral) and not isinstance(selector, bool):
        selector = [selector]
    wanted = selector = in_column_order(selector, columns.names, whose)  # a mask may have names
    if not isinstance(selector, list | tuple):
        if np.ndim(selector) != 1:
            raise ValueError(
                f"The selector of {whose} must be names, indices, a slice, a mask or a function that returns one of "
                f"these; got {selector!r}."
            )
        wanted = np.asarray(selector).tolist()
    if len(wanted) and all(isinstance(each, bool | np.bool_) for each in wanted):
        if len(wanted) != n:
            raise ValueError(f"The mask of {whose} has {len(wanted)} entries, but X has {n} columns.")
        return np.flatnonzero(wanted)
    return np.array([_index(each, columns, whose) for each in wanted], dtype=np.int64)


def _end(end: Any, columns: Columns, whose: str) -> Any:
    return _index(end, columns, whose) if isinstance(end, str) else end


def _index(wanted: Any, columns: Columns, whose: str) -> int:
    """Index of a column with this name, or with this index, which may count from the end."""
    if isinstance(wanted, Integral) and not isinstance(wanted, bool):
        if not -columns.n_columns <= int(wanted) < columns.n_columns:
            raise ValueError(f"X has {columns.n_columns} columns, but {whose} has the index {wanted}.")
        return int(wanted) % columns.n_columns
    if columns.names is None and isinstance(wanted, str):
        raise ValueError(f"The columns of X have no names, but {whose} has {wanted!r}: pass indices, or a data frame.")
    names = columns.names or []
    if not isinstance(wanted, str | tuple) or wanted not in names:
        raise ValueError(f"X has no column {wanted!r}, which {whose} selects: use names or indices of columns of X.")
    return names.index(wanted)


@contextmanager
def named_errors(block: str) -> Iterator[None]:
    """Begin errors about rows of a block with its name."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise ValueError(f"Block {block!r} of Columns: {error}") from error
