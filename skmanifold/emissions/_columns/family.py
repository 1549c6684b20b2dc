"""Family of rows of tables: blocks of columns that are independent given the component."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ...numerics.block_sums import BlockSums, side_by_side
from ...random._keys import subkey
from ...utils._conditions import Array, Counted, ListOf, Names, Sizes, anything, placed, refuse
from ...utils._declared import holds
from ...utils._protocol_check import offers
from ...utils._threads import Workers
from ...utils._typing import available_if
from .._abilities import CompletesRows
from .._cells import JoinedCells, distribution_of_columns
from .._family import FAMILY, Family
from .._protocols import Arrays
from .._statistics import in_pairs, join_statistics
from .kernels import Joined, JoinedData
from .rows import ColumnRows, cluster_tables, scattered
from .selection import named_errors


@holds(blocks=ListOf(anything, kind=tuple))
class ColumnParameters(NamedTuple):
    """Parameters of K components in each block."""

    blocks: tuple[Any, ...]


def _all_offer(name: str) -> Callable[[ColumnsFamily], bool]:
    return lambda family: all(hasattr(block, name) for block in family.blocks)


def _agree(family: ColumnsFamily, sizes: Sizes) -> str | None:
    if len(family.names) != len(family.blocks) or len(family.places) != len(family.blocks):
        return "has other numbers of blocks and names"
    if [block.n_features for block in family.blocks] != [len(place) for place in family.places]:
        return "has blocks with other numbers of columns"
    if any(block.n_components != family.n_components for block in family.blocks):
        return "has blocks with other numbers of components"
    columns = np.sort(np.concatenate(family.places))
    return None if np.array_equal(columns, np.arange(family.n_features)) else "has columns in no block, or in two"


@holds(
    _agree,
    names=Names(None),
    blocks=ListOf(FAMILY, kind=tuple),
    places=ListOf(Array("int64", (None,), low=0), kind=tuple),
    n_components=Counted("n_components"),
    n_features=Counted("n_dimensions"),
)
class ColumnsFamily(Family):
    """Family of rows of tables: the product of the families of its blocks.

    The statistics are the sizes of the components, and then those of each block without its sizes. Those of clusters
    are nested pairs, for kernels that numba compiles for each sequence of types. A bound family therefore sorts its
    blocks by type: blocks of the same types in another order need no other kernels.

    Parameters
    ----------
    names : ndarray of str
        Names of the blocks.
    blocks : tuple of Family
        Family of each block.
    places : tuple of ndarray of int64
        Columns of X that belong to each block.
    """

    parameters_type = ColumnParameters
    rows: Any

    def __init__(self, names: np.ndarray, blocks: tuple[Any, ...], places: tuple[np.ndarray, ...]) -> None:
        self.names = names
        self.blocks = blocks
        self.places = places
        self.n_components = blocks[0].n_components
        self.n_features = sum(map(len, places))

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, and of the other statistics of each block."""
        return (self.n_components,), *(shape for block in self.blocks for shape in block.shapes()[1:])

    def add_log_densities(
        self, rows: ColumnRows, first: int, stop: int, parameters: ColumnParameters, out: np.ndarray
    ) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``."""
        for block, own, of_block in zip(self.blocks, rows.blocks, parameters.blocks, strict=True):
            block.add_log_densities(own, first, stop, of_block, out)

    def sum_labels(self, rows: ColumnRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their labels."""
        pairs = zip(self.blocks, rows.blocks, strict=True)
        return _beside([block.sum_labels(own, first, stop, first_block, labels) for block, own in pairs])

    @available_if(_all_offer("sum_shares"))
    def sum_shares(self, rows: ColumnRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their membership probabilities."""
        pairs = zip(self.blocks, rows.blocks, strict=True)
        return _beside([block.sum_shares(own, first, stop, first_block, shares) for block, own in pairs])

    def draw_missing(
        self,
        rows: ColumnRows,
        first: int,
        stop: int,
        labels: np.ndarray,
        parameters: ColumnParameters,
        key: np.uint64,
        first_row: int,
    ) -> ColumnRows:
        """Draw the missing cells of the rows `first` to `stop` in blocks whose families draw them."""
        completed = []
        for i, (block, own) in enumerate(zip(self.blocks, rows.blocks, strict=True)):
            if _completes(block, own):
                of_block = parameters.blocks[i], subkey(key, i), first_row
                completed.append(block.draw_missing(own, first, stop, labels, *of_block))
            else:
                completed.append(own.part(first, stop))
        return ColumnRows(tuple(completed), self.places)

    @available_if(_all_offer("sum_shares"))
    def sum_expected(
        self,
        rows: ColumnRows,
        first: int,
        stop: int,
        first_block: int,
        shares: np.ndarray,
        parameters: ColumnParameters,
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, given the observed cells and membership probabilities."""
        sums, of_rows = [], (first, stop, first_block, shares)
        for block, own, of_block in zip(self.blocks, rows.blocks, parameters.blocks, strict=True):
            if _completes(block, own):
                sums.append(block.sum_expected(own, *of_rows, of_block))
            else:
                sums.append(block.sum_shares(own, *of_rows))
        return _beside(sums)

    def mode(self, statistics: Arrays) -> ColumnParameters:
        """The posterior mode of the parameters of each block."""
        pairs = zip(self.blocks, self._divided(statistics), strict=True)
        return ColumnParameters(tuple(block.mode(own) for block, own in pairs))

    @available_if(_all_offer("draw"))
    def draw(self, statistics: Arrays, key: np.uint64) -> ColumnParameters:
        """Draw the parameters of each block from their posterior."""
        pairs = enumerate(zip(self.blocks, self._divided(statistics), strict=True))
        return ColumnParameters(tuple(block.draw(own, subkey(key, i)) for i, (block, own) in pairs))

    @available_if(_all_offer("log_prior"))
    def log_prior(self, parameters: ColumnParameters) -> float:
        """Log prior density of the natural parameters, up to a constant."""
        return sum(block.log_prior(own) for block, own in zip(self.blocks, parameters.blocks, strict=True))

    @available_if(_all_offer("log_likelihood"))
    def log_likelihood(self, statistics: Arrays, parameters: ColumnParameters) -> float:
        """Log density of rows with these statistics given their components, without their ``log_base``."""
        triples = zip(self.blocks, self._divided(statistics), parameters.blocks, strict=True)
        return sum(block.log_likelihood(own, of_block) for block, own, of_block in triples)

    def seed_weighted_labels(self, rows: ColumnRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means, in which each column has the same weight."""
        return cluster_tables(rows, self.n_components, key, row_weights)

    @available_if(_all_offer("n_parameters"))
    def n_parameters(self) -> int:
        """Number of free parameters of all components."""
        return sum(block.n_parameters() for block in self.blocks)

    @available_if(_all_offer("sample"))
    def sample(self, parameters: ColumnParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components."""
        pairs = enumerate(zip(self.blocks, parameters.blocks, strict=True))
        return scattered(self.places, [block.sample(own, labels, subkey(key, i)) for i, (block, own) in pairs])

    def attributes(self, parameters: ColumnParameters) -> dict[str, Any]:
        """The fitted attribute ``components_``, a list with an array for each column of X."""
        return {"components_": self._by_column(self.attributes_of_blocks(parameters))}

    def attributes_of_blocks(self, parameters: ColumnParameters) -> dict[str, dict[str, Any]]:
        """The fitted attributes of each block.

        Parameters
        ----------
        parameters : ColumnParameters
            Parameters of all components.

        Returns
        -------
        attributes : dict of str to dict
            By the name of the block.
        """
        triples = zip(self.names.tolist(), self.blocks, parameters.blocks, strict=True)
        return {name: block.attributes(own) for name, block, own in triples}

    def cell_distribution(self, attributes: dict[str, dict[str, Any]]) -> JoinedCells | None:
        """The distributions of single cells, given attributes of each block; None if a block has none."""
        pairs = zip(self.names.tolist(), self.blocks, strict=True)
        parts = [distribution_of_columns(block, attributes[name]) for name, block in pairs]
        return None if None in parts else JoinedCells(parts, self.places)

    def check_parameters(self, parameters: ColumnParameters) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        if len(parameters.blocks) != len(self.blocks):
            refuse("parameters", "has another number of blocks")
        for i, (block, own) in enumerate(zip(self.blocks, parameters.blocks, strict=True)):
            with placed(f"blocks[{i}]"):
                block.check_parameters(own)

    def _divided(self, statistics: Arrays) -> list[Arrays]:
        """Statistics of each block, with its sizes."""
        sizes, *others = statistics
        divided = []
        for block in self.blocks:
            n = len(block.shapes()) - 1
            divided.append((sizes, *others[:n]))
            others = others[n:]
        return divided

    def _by_column(self, of_blocks: dict[str, dict[str, Any]]) -> list[np.ndarray]:
        """The ``components_`` of the blocks as a list of arrays by column of X."""
        columns: list[Any] = [None] * self.n_features
        for place, of_block in zip(self.places, of_blocks.values(), strict=True):
            values = of_block["components_"]
            parts = values if isinstance(values, list) else np.split(values, np.arange(1, len(place)), axis=1)
            for column, part in zip(place, parts, strict=True):
                columns[column] = np.ascontiguousarray(part)
        return columns

    # Bound to rows

    @available_if(_all_offer("clusters"))
    def clusters(self, rows: ColumnRows | None = None) -> ColumnsFamily:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        blocks = []
        of_blocks = [None] * len(self.blocks) if rows is None else rows.blocks
        for name, block, own in zip(self.names.tolist(), self.blocks, of_blocks, strict=True):
            with named_errors(name):
                blocks.append(block.clusters(own).among_others())
        return self._with_blocks(blocks, rows)

    def _with_blocks(self, blocks: Iterable[Any], rows: ColumnRows | None) -> ColumnsFamily:
        """The same family with bound blocks; `rows` have the blocks in their first order."""
        bound, blocks = copy(self), list(blocks)
        order = sorted(range(len(blocks)), key=lambda i: type(blocks[i].data).__name__)
        bound.names, bound.blocks = self.names[order], tuple(blocks[i] for i in order)
        bound.places = tuple(self.places[i] for i in order)
        bound.rows, bound.n_rows = rows, bound.blocks[0].n_rows
        bound.data = in_pairs(JoinedData, [block.data for block in bound.blocks])
        return bound

    def part(self, start: int, stop: int) -> ColumnsFamily:
        """The clusters of some of the rows."""
        return self._with_blocks((block.part(start, stop) for block in self.blocks), self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> ColumnsFamily:
        """The clusters of the rows with these indices."""
        return self._with_blocks((block.subset(rows) for block in self.blocks), self.rows.take(rows))

    def _with(self, nested: Any) -> Iterable[tuple[int, Any, Any]]:
        """Index, block, and what belongs to it of nested statistics or components."""
        return zip(range(len(self.blocks)), self.blocks, _unnested(nested, len(self.blocks)), strict=True)

    @property
    def prior(self) -> tuple:
        """Priors of the blocks."""
        return tuple(block.prior for block in self.blocks)

    def of_block(self, name: str) -> Any:
        """The family of one block.

        Parameters
        ----------
        name : str
            Name of the block.

        Returns
        -------
        family : Family
            Bound as this family is.
        """
        return self.blocks[self.names.tolist().index(name)]

    def with_prior(self, prior: tuple) -> ColumnsFamily:
        """These rows with other priors of those blocks whose prior is learned."""
        pairs = zip(self.blocks, prior, strict=True)
        same = (block if own is block.prior else block.with_prior(own) for block, own in pairs)
        return self._with_blocks(same, self.rows)

    def with_learned_prior(self, statistics: Any, free: Any) -> ColumnsFamily:
        """These rows with the most probable priors given a partition; names in `free` begin with ``block__``."""
        learned = []
        for i, block, own in self._with(statistics):
            start = f"{self.names[i]}__"
            of_block = tuple(each.removeprefix(start) for each in free if each.startswith(start))
            learned.append(block.with_learned_prior(own, of_block) if of_block else block)
        return self._with_blocks(learned, self.rows)

    def no_statistics(self, capacity: int) -> Any:
        """Statistics of no rows."""
        return join_statistics([block.no_statistics(capacity) for block in self.blocks])

    def split_merge_space(self, statistics: Any, key: np.uint64) -> tuple[Any, tuple[Any, Any]]:
        """Space for the posteriors of labels, and statistics and posteriors of the sides of a split."""
        spaces = [block.split_merge_space(own, subkey(key, i)) for i, block, own in self._with(statistics)]
        posteriors, sides = zip(*spaces, strict=True)
        of_sides, posteriors_of_sides = zip(*sides, strict=True)
        return in_pairs(Joined, posteriors), (join_statistics(of_sides), in_pairs(Joined, posteriors_of_sides))

    def count(self, labels: np.ndarray, statistics: Any, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        for _, block, own in self._with(statistics):
            block.count(labels, own, workers)

    def move(
        self, rows: np.ndarray, new_labels: np.ndarray, labels: np.ndarray, statistics: Any, workers: Workers
    ) -> None:
        """Move rows to their new labels in the statistics."""
        for _, block, own in self._with(statistics):
            block.move(rows, new_labels, labels, own, workers)

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch in the order that suits the first block that needs one."""
        for block in self.blocks:
            if type(block).sorted_rows is not Family.sorted_rows:
                return block.sorted_rows(rows, labels)
        return rows

    def redraw_missing(
        self,
        rows: np.ndarray,
        new_labels: np.ndarray,
        labels: np.ndarray,
        statistics: Any,
        components: Any,
        place_of: np.ndarray,
        key: np.uint64,
        workers: Workers,
    ) -> None:
        """Draw the missing cells of rows given their new labels, in blocks that need them."""
        of_blocks = _unnested(components, len(self.blocks))
        for i, block, own in self._with(statistics):
            of_block = own, of_blocks[i], place_of, subkey(key, i)
            block.redraw_missing(rows, new_labels, labels, *of_block, workers)

    def relabelled(self, labels: np.ndarray, statistics: Any, new_labels: np.ndarray, workers: Workers) -> Any:
        """Statistics after relabelling; `labels` are the new labels of all rows."""
        pairs = self._with(statistics)
        return join_statistics([block.relabelled(labels, own, new_labels, workers) for _, block, own in pairs])

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components in each block."""
        pairs = self._with(statistics)
        drawn = (block.draw_components(own, labels, subkey(key, i), workers) for i, block, own in pairs)
        return in_pairs(Joined, drawn)

    def log_marginal(self, statistics: Any) -> float:
        """Log density of all rows given their labels."""
        return sum(block.log_marginal(own) for _, block, own in self._with(statistics))

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        for _, block, own in self._with(statistics):
            block.add_log_predictive(own, out, workers)

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        for _, block, own in self._with(components):
            block.add_densities_of_rows(own, out, workers)

    def add_log_density_of_new(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given a new component."""
        for _, block, own in self._with(components):
            block.add_log_density_of_new(own, out, workers)

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn expected values of the columns of X, side by side, (K, n); a column of categories has one for each."""
        return {"components": np.concatenate(self._by_column(self.drawn_attributes(components)), axis=1)}

    def _of_blocks(self, method: str, nested: Any) -> dict[str, Any]:
        """What a method of each block returns for nested statistics or components, by the name of the block."""
        names = self.names.tolist()
        return {names[i]: getattr(block, method)(own) for i, block, own in self._with(nested)}

    def cell_attributes(self, statistics: Any) -> dict[str, Any]:
        """Posterior means of each block, by its name."""
        return self._of_blocks("cell_attributes", statistics)

    def are_means(self, attributes: dict[str, Any]) -> bool:
        """Whether posterior means of each block are possible."""
        return all(self.of_block(name).are_means(own) for name, own in attributes.items())

    def drawn_attributes(self, components: Any) -> dict[str, Any]:
        """Drawn parameters of each block, by its name."""
        return self._of_blocks("drawn_attributes", components)

    def expected(self, statistics: Any) -> dict[str, Any]:
        """Posterior means of each column of X, (K, 1) for numbers and (K, n_categories) for categories."""
        return {"components_": self._by_column(self.expected_of_blocks(statistics))}

    def expected_of_blocks(self, statistics: Any) -> dict[str, Any]:
        """Posterior means of each block, by its name.

        Parameters
        ----------
        statistics : JoinedStatistics
            Statistics of clusters.

        Returns
        -------
        attributes : dict of str to dict
            Fitted attributes.
        """
        return self._of_blocks("expected", statistics)

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Numbers and codes drawn from the predictive distributions of clusters, (n_rows, n_columns)."""
        pairs = self._with(statistics)
        return scattered(self.places, [block.new_rows(own, labels, subkey(key, i)) for i, block, own in pairs])

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return sum(block.draw_bytes(n_components) for block in self.blocks)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return max(block.rows_of_batch() for block in self.blocks)


def _completes(block: Any, rows: Any) -> bool:
    """Whether the statistics of a block are those of completed rows."""
    return getattr(rows, "has_missing", False) and offers(block, CompletesRows)


def _beside(sums: list[BlockSums]) -> BlockSums:
    """Statistics of all blocks, with the sizes of the first."""
    return side_by_side([sums[0], *(each._replace(nodes=_without_sizes(each)) for each in sums[1:])])


def _without_sizes(sums: BlockSums) -> tuple:
    return tuple((level, index, arrays[1:]) for level, index, arrays in sums.nodes)


def _unnested(nested: Any, n_items: int) -> list:
    items = []
    for _ in range(n_items - 1):
        items.append(nested.first)
        nested = nested.rest
    return [*items, nested]
