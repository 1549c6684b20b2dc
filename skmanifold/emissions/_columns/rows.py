"""Which columns belong to which block of a table, its rows and cells as those of the blocks, and initial clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np

from ...random._keys import Purpose, subkey
from ...random._variates import some_rows
from ...utils._inputs.column_order import in_column_order
from ...utils._threads import split_range
from .._cells import CellDistribution, ExpectedCells
from .._seeds import SUBSET, k_means, nearest
from .layout import OpenTable


def divided(blocks: list[tuple[str, Any, Any]], columns: OpenTable) -> tuple[np.ndarray, ...]:
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
                name, other = columns.label(column), owner[column]
                where = f"twice in the block {block!r}" if other == block else f"in the blocks {other!r} and {block!r}"
                raise ValueError(f"Column {name} of X is {where} of Columns: remove it from one place.")
            owner[column] = block
        places.append(np.sort(chosen))
    rest = [column for column in range(columns.n_columns) if column not in owner]
    if rest:
        labels = ", ".join(columns.label(column) for column in rest[:5])
        more = f" and {len(rest) - 5} others" if len(rest) > 5 else ""
        raise ValueError(
            f"No block of Columns has the column{'s' if len(rest) > 1 else ''} {labels}{more} of X: add a block, or "
            "remove columns from X."
        )
    return tuple(places)


def chosen_columns(whose: str, selector: Any, columns: OpenTable) -> np.ndarray:
    """Indices of columns in the order of a selector, see `divided`; ValueError about `whose` if it does not suit."""
    if callable(selector):
        selector = selector(columns.table)
    n = columns.n_columns
    if isinstance(selector, slice):
        ends = selector.start, selector.stop
        first, last = (_index(end, columns, whose) if isinstance(end, str) else end for end in ends)
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


def _index(wanted: Any, columns: OpenTable, whose: str) -> int:
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


_MOST_ROWS = 20_000  # of the sample in which centres are found
_CELLS_AT_ONCE = 1 << 22


def scattered(places: Sequence[np.ndarray], of_blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Columns of all blocks, each (n, n_block_columns), at their `places` in a new array, (n, n_columns)."""
    out = np.empty((len(of_blocks[0]), sum(map(len, places))))
    for place, values in zip(places, of_blocks, strict=True):
        out[:, place] = values
    return out


def chosen_places(
    places: tuple[np.ndarray, ...], columns: np.ndarray
) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
    """Indices in each block of some columns of X, and the places of these among them."""
    new_place = np.full(sum(map(len, places)), -1)
    new_place[columns] = np.arange(len(columns))
    found = [new_place[place] for place in places]
    return [np.flatnonzero(own >= 0) for own in found], tuple(own[own >= 0] for own in found)


class ColumnRows(NamedTuple):
    """Rows of all blocks, as their emissions read them, and the columns of X, `places`, of each."""

    blocks: tuple[Any, ...]
    places: tuple[np.ndarray, ...]
    spikes: tuple[Any, ...] = ()  # of `SpikedRows`: values of each column

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return sum(map(len, self.places))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.blocks[0].n_rows

    @property
    def log_base(self) -> np.ndarray | None:
        """The part of each row's log density that does not depend on the parameters; None if it is zero."""
        parts = [rows.log_base for rows in self.blocks if rows.log_base is not None]
        return np.sum(parts, axis=0) if parts else None

    @property
    def has_missing(self) -> bool:
        """Whether a block may have missing cells that its family draws."""
        return any(getattr(rows, "has_missing", False) for rows in self.blocks)

    def cells(self) -> np.ndarray:
        """Cells as numbers and codes, (n_rows, n_features); NaN where a cell is missing. A new array."""
        return scattered(self.places, [rows.cells() for rows in self.blocks])

    def part(self, start: int, stop: int) -> Self:
        """The rows `start` to `stop`, or to the last."""
        return self._replace(blocks=tuple(rows.part(start, stop) for rows in self.blocks))

    def take(self, rows: np.ndarray) -> Self:
        """The rows with these indices."""
        return self._replace(blocks=tuple(block.take(rows) for block in self.blocks))

    def of_columns(self, columns: np.ndarray) -> Self:
        """The rows of some columns of X; blocks without columns stay."""
        of_blocks, places = chosen_places(self.places, columns)
        blocks = tuple(block.of_columns(own) for block, own in zip(self.blocks, of_blocks, strict=True))
        return self._replace(blocks=blocks, places=places)

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        hashes = (int(rows.hash_rows(subkey(key, i), first_row)) for i, rows in enumerate(self.blocks))
        return sum(hashes) % 2**64


class JoinedCells(CellDistribution):
    """Cells of several blocks, at `places` among the columns, which are independent given the component."""

    def __init__(self, parts: Iterable[Any], places: tuple[np.ndarray, ...], n_columns: int | None = None) -> None:
        self.parts, self.places = list(parts), places
        self.n_categories = [0] * (sum(map(len, places)) if n_columns is None else n_columns)
        for part, place in zip(self.parts, places, strict=True):
            for column, n in zip(place, part.n_categories, strict=True):
                self.n_categories[column] = n

    def _of_part(self, memberships: Any, part: int) -> np.ndarray:
        """Memberships or labels of rows for one of the parts."""
        return memberships

    def typical(self, shares: np.ndarray) -> np.ndarray:
        """Typical values of each block."""
        return scattered(self.places, [part.typical(shares) for part in self.parts])

    def point_masses(self) -> list[tuple[int, float, np.ndarray]]:
        """Probabilities of values of each block."""
        pairs = zip(self.parts, self.places, strict=True)
        return [(int(place[column]), *mass) for part, place in pairs for column, *mass in part.point_masses()]

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log densities of values of one column given each component."""
        part, _, own = self._block_of(column)
        return part.log_densities_of_column(own, values)

    def information(self, weights: np.ndarray) -> np.ndarray:
        """Mutual information of each column and the cluster."""
        return scattered(self.places, [part.information(weights)[np.newaxis] for part in self.parts])[0]

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations of each block."""
        for i, (part, place) in enumerate(zip(self.parts, self.places, strict=True)):
            of_block = part.nothing(len(values))
            part.add_expected(np.ascontiguousarray(values[:, place]), self._of_part(shares, i), of_block)
            out.firsts[:, place] += of_block.firsts
            out.seconds[:, place] += of_block.seconds
            for column, probabilities in zip(place, of_block.probabilities, strict=True):
                if probabilities is not None and out.probabilities[column] is not None:
                    out.probabilities[column] += probabilities

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Distribution functions of the block that has the column."""
        part, place, own = self._block_of(column)
        return part.distribution_function(own, np.ascontiguousarray(values[:, place]))

    def has_counts(self, column: int) -> bool:
        """Whether the block has counts there."""
        part, _, own = self._block_of(column)
        return part.has_counts(own)

    def _block_of(self, column: int) -> tuple[Any, np.ndarray, int]:
        """The part that has a column, its columns, and the index there."""
        pairs = zip(self.parts, self.places, strict=True)
        part, place = next(pair for pair in pairs if column in pair[1])
        return part, place, int(np.flatnonzero(place == column)[0])

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows with drawn cells of each block."""
        drawn = [
            part.drawn(np.ascontiguousarray(values[:, place]), self._of_part(labels, i), subkey(key, i), first_row)
            for i, (part, place) in enumerate(zip(self.parts, self.places, strict=True))
        ]
        return scattered(self.places, drawn)


def cluster_tables(
    rows: ColumnRows, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """Labels, (n_rows,) int32, of the nearest of up to `n_clusters` centres that k-means finds in some of the rows.

    Numbers have variance 1, square roots of counts too, and the indicators of a column's categories have variances that
    sum to 1. `row_weights` are positive.
    """
    n = rows.n_rows
    chosen: Any = slice(None) if n <= _MOST_ROWS else some_rows(key, SUBSET, n, _MOST_ROWS)
    sample, columns = vectors_of(rows if n <= _MOST_ROWS else rows.take(chosen))
    weights = np.ones(len(sample)) if row_weights is None else row_weights[chosen]
    is_seen = ~np.isnan(sample)
    n_seen = np.maximum(weights @ is_seen, weights.min())
    means = weights @ np.where(is_seen, sample, 0.0) / n_seen
    variances = weights @ np.where(is_seen, sample - means, 0.0) ** 2 / n_seen
    of_columns = np.bincount(columns, weights=variances)[columns]
    scales = np.divide(1.0, np.sqrt(of_columns), out=np.zeros_like(means), where=of_columns > 0.0)
    of_sample = None if row_weights is None else weights
    vectors = (sample - means) * scales
    _, centres = k_means(vectors, n_clusters, subkey(key, Purpose.LABELS), of_sample)
    if n <= _MOST_ROWS:
        return nearest(vectors, centres)
    out = np.empty(n, np.int32)
    for start, stop in split_range(n, max(1, _CELLS_AT_ONCE // len(columns))):
        out[start:stop] = nearest((vectors_of(rows.part(start, stop))[0] - means) * scales, centres)
    return out


def vectors_of(rows: ColumnRows) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and indicators of categories, (n_rows, n), NaN where missing, and the column of X of each.

    Rows whose cells are not compared as they are have the method `vectors`.
    """
    cells, columns = [], []
    for place, block in zip(rows.places, rows.blocks, strict=True):
        as_they_are = not hasattr(block, "vectors")
        of_block, local = (block.cells(), np.arange(block.n_features)) if as_they_are else block.vectors()
        cells.append(of_block)
        columns.append(place[local])
    return np.concatenate(cells, axis=1), np.concatenate(columns)
