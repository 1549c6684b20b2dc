"""Family of rows of tables: blocks of columns that are independent given the component."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...numerics.block_sums import BlockSums, side_by_side
from ...random._keys import subkey
from ...utils._conditions import Array, Counted, ListOf, Names, Sizes
from ...utils._declared import Held, holds
from ...utils._protocol_check import offers
from ...utils._typing import available_if
from .._abilities import CompletesRows
from .._base import Family
from .._bernoulli import BernoulliFamily
from .._categorical import CategoricalFamily
from .._gaussian.base import GaussianParameters, TiedParameters
from .._gaussian.diagonal import DiagonalFamily
from .._gaussian.full import FullFamily
from .._gaussian.tied import TiedFamily
from .._linear import LinearParameters
from .._multinomial import MultinomialFamily
from .._negative_binomial.family import NegativeBinomialFamily, NegativeBinomialParameters
from .._poisson import PoissonFamily
from .._protocols import Arrays
from .rows import ColumnRows
from .seeds import cluster_tables
from .selection import named_errors

if TYPE_CHECKING:
    from .._clusters.base import Clusters


@holds(
    blocks=ListOf(Held(GaussianParameters, LinearParameters, NegativeBinomialParameters, TiedParameters), kind=tuple)
)
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
    blocks=ListOf(
        Held(
            BernoulliFamily,
            CategoricalFamily,
            DiagonalFamily,
            FullFamily,
            MultinomialFamily,
            NegativeBinomialFamily,
            PoissonFamily,
            TiedFamily,
        ),
        kind=tuple,
    ),
    places=ListOf(Array("int64", (None,), low=0), kind=tuple),
    n_components=Counted("n_components"),
    n_features=Counted("n_dimensions"),
)
class ColumnsFamily(Family):
    """Family of rows of tables.

    The statistics are the sizes of the components, and then those of each block without its sizes.

    Parameters
    ----------
    names : ndarray of str
        Names of the blocks.
    blocks : tuple of Family
        Family of each block.
    places : tuple of ndarray of int64
        Columns of X that belong to each block.
    """

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

    def seed_labels(self, rows: ColumnRows, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means, in which each column has the same weight."""
        return cluster_tables(rows, self.n_components, key)

    def seed_weighted_labels(self, rows: ColumnRows, key: np.uint64, row_weights: np.ndarray) -> np.ndarray:
        """Initial labels of weighted rows by k-means, in which each column has the same weight."""
        return cluster_tables(rows, self.n_components, key, row_weights)

    @available_if(_all_offer("sample"))
    def sample(self, parameters: ColumnParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components."""
        out = np.empty((len(labels), self.n_features))
        for i, (block, own) in enumerate(zip(self.blocks, parameters.blocks, strict=True)):
            out[:, self.places[i]] = block.sample(own, labels, subkey(key, i))
        return out

    @available_if(_all_offer("n_parameters"))
    def n_parameters(self) -> int:
        """Number of free parameters of all components."""
        return sum(block.n_parameters() for block in self.blocks)

    @available_if(_all_offer("clusters"))
    def clusters(self, rows: ColumnRows | None = None) -> Clusters:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        from .._clusters.columns.clusters import JoinedClusters  # its kernels are slow to import

        of_blocks = [None] * len(self.blocks) if rows is None else rows.blocks
        names, blocks = self.names.tolist(), []
        for name, block, own in zip(names, self.blocks, of_blocks, strict=True):
            with named_errors(name):
                blocks.append(block.clusters(own))
        places = dict(zip(names, self.places, strict=True))
        return JoinedClusters(dict(zip(names, blocks, strict=True)), places, rows)

    def attributes(self, parameters: ColumnParameters) -> dict[str, Any]:
        """The fitted attribute ``components_``, a list with an array for each column of X."""
        columns: list[Any] = [None] * self.n_features
        for place, of_block in zip(self.places, self.attributes_of_blocks(parameters).values(), strict=True):
            values = of_block["components_"]
            parts = values if isinstance(values, list) else np.split(values, np.arange(1, len(place)), axis=1)
            for column, part in zip(place, parts, strict=True):
                columns[column] = np.ascontiguousarray(part)
        return {"components_": columns}

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

    def check_parameters(self, parameters: ColumnParameters) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        for block, own in zip(self.blocks, parameters.blocks, strict=True):
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


def _completes(block: Any, rows: Any) -> bool:
    """Whether the statistics of a block are those of completed rows."""
    return getattr(rows, "has_missing", False) and offers(block, CompletesRows)


def _beside(sums: list[BlockSums]) -> BlockSums:
    """Statistics of all blocks, with the sizes of the first."""
    return side_by_side([sums[0], *(each._replace(nodes=_without_sizes(each)) for each in sums[1:])])


def _without_sizes(sums: BlockSums) -> tuple:
    return tuple((level, index, arrays[1:]) for level, index, arrays in sums.nodes)
