"""Clusters of tables: what a Dirichlet process mixture needs of blocks of columns with different emissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ....random._keys import subkey
from ....utils._threads import Workers
from ..base import Clusters
from ..statistics import JoinedStatistics, join_statistics
from .kernels import Joined, JoinedData


class JoinedClusters(Clusters):
    """Rows of several blocks, which are independent given the cluster.

    Parameters
    ----------
    blocks : dict of str to Clusters
        Rows and prior of each block, at least two, by name.
    places : dict of str to ndarray of int64
        Columns of X that belong to each block.
    rows : ColumnRows or None
        The same rows, for initial labels.
    """

    def __init__(self, blocks: dict[str, Any], places: dict[str, np.ndarray], rows: Any) -> None:
        # Kernels are compiled for each sequence of types: blocks of the same types in another order need no others.
        self.names = sorted(blocks, key=lambda name: type(blocks[name].data).__name__)
        self.blocks = [blocks[name].among_others() for name in self.names]
        self.places = [places[name] for name in self.names]
        self.rows = rows
        data = [block.data for block in self.blocks]
        super().__init__(_nested(JoinedData, data), self.blocks[0].n_rows)

    @property
    def prior(self) -> tuple:
        """Priors of the blocks."""
        return tuple(_prior_of(block) for block in self.blocks)

    def of_block(self, name: str) -> Any:
        """The clusters of one block."""
        return self.blocks[self.names.index(name)]

    def with_prior(self, prior: tuple) -> JoinedClusters:
        """These rows with other priors of those blocks whose prior is learned."""
        pairs = zip(self.blocks, prior, strict=True)
        same = (block if own is _prior_of(block) else block.with_prior(own) for block, own in pairs)
        return self._of(same, self.rows)

    def with_learned_prior(self, statistics: Any, free: Any) -> JoinedClusters:
        """These rows with the most probable priors given a partition; names in `free` begin with ``block__``."""
        learned = []
        for name, block, own in zip(self.names, self.blocks, _unnested(statistics, len(self.blocks)), strict=True):
            of_block = tuple(each.removeprefix(f"{name}__") for each in free if each.startswith(f"{name}__"))
            learned.append(block.with_learned_prior(own, of_block) if of_block else block)
        return self._of(learned, self.rows)

    def no_statistics(self, capacity: int) -> JoinedStatistics:
        """Statistics of no rows."""
        return join_statistics([block.no_statistics(capacity) for block in self.blocks])

    def split_merge_space(self, statistics: Any, key: np.uint64) -> tuple[Any, tuple[Any, Any]]:
        """Space for the posteriors of labels, and statistics and posteriors of the sides of a split."""
        spaces = [block.split_merge_space(own, subkey(key, i)) for i, block, own in self._with(statistics)]
        posteriors, sides = zip(*spaces, strict=True)
        of_sides, posteriors_of_sides = zip(*sides, strict=True)
        joined = join_statistics(list(of_sides)), _nested(Joined, list(posteriors_of_sides))
        return _nested(Joined, list(posteriors)), joined

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
            if type(block).sorted_rows is not Clusters.sorted_rows:
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
        return join_statistics(
            [block.relabelled(labels, own, new_labels, workers) for _, block, own in self._with(statistics)]
        )

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components in each block."""
        drawn = [
            block.draw_components(own, labels, subkey(key, i), workers) for i, block, own in self._with(statistics)
        ]
        return _nested(Joined, drawn)

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
        drawn = [attributes["components_"] for attributes in self.drawn_attributes(components).values()]
        return {"components": np.concatenate(self._by_column(drawn), axis=1)}

    def cell_attributes(self, statistics: Any) -> dict[str, Any]:
        """Posterior means of each block, by its name."""
        return {self.names[i]: block.cell_attributes(own) for i, block, own in self._with(statistics)}

    def drawn_attributes(self, components: Any) -> dict[str, Any]:
        """Drawn parameters of each block, by its name."""
        return {self.names[i]: block.drawn_attributes(own) for i, block, own in self._with(components)}

    def expected(self, statistics: Any) -> dict[str, Any]:
        """Posterior means of each column of X, (K, 1) for numbers and (K, n_categories) for categories."""
        means = [attributes["components_"] for attributes in self.expected_of_blocks(statistics).values()]
        return {"components_": self._by_column(means)}

    def expected_of_blocks(self, statistics: Any) -> dict[str, dict[str, Any]]:
        """Posterior means of each block, by its name."""
        return {self.names[i]: block.expected(own) for i, block, own in self._with(statistics)}

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Numbers and codes drawn from the predictive distributions of clusters, (n_rows, n_columns)."""
        return self._scattered(
            [block.new_rows(own, labels, subkey(key, i)) for i, block, own in self._with(statistics)]
        )

    def typical_cells(self, statistics: Any) -> np.ndarray:
        """A typical value of each column in each cluster, (K, n_columns)."""
        return self._scattered([block.typical_cells(own) for _, block, own in self._with(statistics)])

    def column_information(self, statistics: Any) -> np.ndarray:
        """Mutual information of each column and the cluster, (n_columns,)."""
        of_blocks = [block.column_information(own)[np.newaxis] for _, block, own in self._with(statistics)]
        return self._scattered(of_blocks)[0]

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds that are spread over the rows."""
        from ..._columns.seeds import cluster_tables

        return cluster_tables(self.rows, n_clusters, key)

    def part(self, start: int, stop: int) -> JoinedClusters:
        """The clusters of some of the rows."""
        return self._of((block.part(start, stop) for block in self.blocks), self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> JoinedClusters:
        """The clusters of the rows with these indices."""
        return self._of((block.subset(rows) for block in self.blocks), self.rows.take(rows))

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return sum(block.draw_bytes(n_components) for block in self.blocks)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return max(block.rows_of_batch() for block in self.blocks)

    def _of(self, blocks: Iterable[Clusters], rows: Any) -> JoinedClusters:
        named = dict(zip(self.names, blocks, strict=True))
        return JoinedClusters(named, dict(zip(self.names, self.places, strict=True)), rows)

    def _with(self, nested: Any) -> Iterable[tuple[int, Any, Any]]:
        """Index, clusters, and what belongs to it of nested statistics or components, for each block."""
        return zip(range(len(self.blocks)), self.blocks, _unnested(nested, len(self.blocks)), strict=True)

    def _by_column(self, of_blocks: list[Any]) -> list[np.ndarray]:
        """Arrays (K, n) or lists of arrays by column, of each block, as a list of arrays by column of X."""
        columns: list[Any] = [None] * sum(map(len, self.places))
        for place, values in zip(self.places, of_blocks, strict=True):
            parts = values if isinstance(values, list) else np.split(values, np.arange(1, values.shape[1]), axis=1)
            for column, part in zip(place, parts, strict=True):
                columns[column] = part
        return columns

    def _scattered(self, of_blocks: list[np.ndarray]) -> np.ndarray:
        """Columns of all blocks in the order of X, (n, n_columns)."""
        out = np.empty((len(of_blocks[0]), sum(map(len, self.places))))
        for place, values in zip(self.places, of_blocks, strict=True):
            out[:, place] = values
        return out


def _prior_of(block: Any) -> Any:
    return getattr(block, "prior", None)


def _nested(kind: Any, items: list) -> Any:
    """Nested pairs of items, of which there is at least one."""
    *before, nested = items
    for item in reversed(before):
        nested = kind(item, nested)
    return nested


def _unnested(nested: Any, n_items: int) -> list:
    items = []
    for _ in range(n_items - 1):
        items.append(nested.first)
        nested = nested.rest
    return [*items, nested]
