"""Family of rows of tables: blocks of columns that are independent given the component."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from inspect import signature
from itertools import islice, repeat
from typing import Annotated, Any, NamedTuple, Self, cast

import numpy as np

from ...numerics.block_sums import BlockSums, side_by_side
from ...random._keys import subkey
from ...utils._conditions import Array, Integer, Names, Sizes, placed, refuse
from ...utils._declared import Saved
from ...utils._parameters import offers
from ...utils._typing import available_if
from .. import _abilities as abilities
from .._cells import distribution_of_columns
from .._family import Family, averaged, cell_parameters, rows_for
from .._protocols import HasKernels, RowFamily
from .._statistics import in_pairs, join_statistics
from .kernels import Joined, JoinedData
from .rows import ColumnRows, JoinedCells, chosen_places, cluster_tables, named_errors, scattered


class ColumnParameters(NamedTuple):
    """Parameters of K components in each block."""

    blocks: tuple[Any, ...]


def _of_blocks(family: ColumnsFamily, value: Any) -> Iterable[Any]:
    """Rows or parameters of each block; any other value is the same for all blocks."""
    return value.blocks if isinstance(value, (ColumnRows, ColumnParameters)) else repeat(value, len(family.blocks))


def _subkeys(family: ColumnsFamily, key: np.uint64) -> Iterable[Any]:
    return [subkey(key, i) for i in range(len(family.blocks))]


def _apart(family: ColumnsFamily, nested: Any) -> list[Any]:
    items = []
    for _ in family.blocks[1:]:
        items.append(nested.first)
        nested = nested.rest
    return [*items, nested]


def _statistics_of_blocks(family: ColumnsFamily, statistics: Any) -> Iterable[Any]:
    if hasattr(statistics, "sizes"):
        return _apart(family, statistics)
    sizes, others = statistics[0], iter(statistics[1:])
    return [(sizes, *islice(others, len(block.shapes()) - 1)) for block in family.blocks]


# What each block receives of an argument with this name; of the others `_of_blocks`
_PARTS = {"key": _subkeys, "components": _apart, "statistics": _statistics_of_blocks}


class _each:
    """A method that calls that of each block with its part of the arguments, and joins what they return.

    It exists if all blocks have it; or, with a function `call` of block and arguments instead, what it `needs`. `join`
    is a function of the results, or the name of a method of the family.
    """

    def __init__(
        self,
        method: Any,
        join: Callable[[list], Any] | str = lambda found: None,
        call: Callable[..., Any] | None = None,
        needs: str | None = None,
    ) -> None:
        self._name, self._join, self._call = needs or method.__name__, join, call
        self._parts = [_PARTS.get(name, _of_blocks) for name in [*signature(method).parameters][1:]]
        update_wrapper(self, method)

    def __get__(self, family: Any, owner: type) -> Any:
        if family is None:
            return self
        methods = [getattr(block, self._name) for block in family.blocks]
        return partial(self, family, methods if self._call is None else [partial(self._call, b) for b in family.blocks])

    def __call__(self, family: ColumnsFamily, methods: list, *given: Any) -> Any:
        parts = [of_each(family, value) for of_each, value in zip(self._parts, given, strict=False)]
        join = getattr(family, self._join) if isinstance(self._join, str) else self._join
        return join([method(*own) for method, *own in zip(methods, *parts, strict=True)])


def _parameters(found: list) -> ColumnParameters:
    return ColumnParameters(tuple(found))


def _beside(found: list[BlockSums]) -> BlockSums:
    """Statistics of all blocks, with the sizes of the first."""
    others = (tuple((level, index, arrays[1:]) for level, index, arrays in each.nodes) for each in found[1:])
    return side_by_side([found[0], *map(BlockSums, others)])


_nested = partial(in_pairs, Joined)


def _spaces(found: list) -> tuple[Any, tuple[Any, Any]]:
    posteriors, sides = zip(*found, strict=True)
    of_sides, posteriors_of_sides = zip(*sides, strict=True)
    return _nested(posteriors), (join_statistics(of_sides), _nested(posteriors_of_sides))


def _of_inner(name: str) -> Callable[..., Any]:
    """A call of a method of a block, or of that which returns attributes of each of its own blocks."""
    return lambda block, given: getattr(block, f"{name}_of_blocks", getattr(block, name))(given)


def _draw_missing(block: Any, rows: Any, first: int, stop: int, *given: Any) -> Any:
    return block.draw_missing(rows, first, stop, *given) if _completes(block, rows) else rows.part(first, stop)


def _sum_expected(block: Any, *given: Any) -> BlockSums:
    return block.sum_expected(*given) if _completes(block, given[0]) else block.sum_shares(*given[:-1])


def _completes(block: Any, rows: Any) -> bool:
    """Whether the statistics of a block are those of completed rows."""
    return getattr(rows, "has_missing", False) and offers(block, abilities.CompletesRows)


def _add_log_bounds(block: Any, *given: Any) -> None:
    (block.add_log_bounds if offers(block, abilities.DrawsInCells) else block.add_log_densities)(*given)


def _propose_in_cells(block: Any, *given: Any) -> Any:
    return block.propose_in_cells(*given) if offers(block, abilities.DrawsInCells) else 0.0


def _of_rounded(block: Any, parameters: Any) -> Any:
    return block.of_rounded(parameters) if offers(block, abilities.DrawsInCells) else parameters


class ColumnsFamily(Family):
    """Family of rows of tables: the product of the families of its blocks, with `names` and columns `places`.

    Statistics are the sizes of the components, then those of each block without sizes. Those of clusters are nested
    pairs, for kernels that numba compiles for each sequence of types; a bound family sorts its blocks by type, so that
    another order needs no other kernels. Methods assigned by `_each` are those of the blocks, with results joined.
    """

    names: Annotated[np.ndarray, Names("_")]
    blocks: Saved[tuple[Family, ...]]
    places: Saved[tuple[Annotated[np.ndarray, Array("int64", "_", low=0)], ...]]
    n_features: Annotated[int, Integer(1, size="n_columns")]

    parameters_type = ColumnParameters
    rows: Any

    def _disagreement(self, sizes: Sizes) -> str | None:
        if len(self.names) != len(self.blocks) or len(self.places) != len(self.blocks):
            return "has other numbers of blocks and names"
        if [block.n_features for block in self.blocks] != [len(place) for place in self.places]:
            return "has blocks with other numbers of columns"
        if any(block.n_components != self.n_components for block in self.blocks):
            return "has blocks with other numbers of components"
        columns = np.sort(np.concatenate(self.places))
        return None if np.array_equal(columns, np.arange(self.n_features)) else "has columns in no block, or in two"

    def __init__(self, names: np.ndarray, blocks: tuple[Any, ...], places: tuple[np.ndarray, ...]) -> None:
        self.names = names
        self.blocks = blocks
        self.places = places
        self.n_components = blocks[0].n_components
        self.n_features = sum(map(len, places))

    # Finite mixtures

    add_log_densities = _each(RowFamily.add_log_densities)
    sum_labels = _each(RowFamily.sum_labels, _beside)
    sum_shares = _each(abilities.HasShares.sum_shares, _beside)
    mode = _each(RowFamily.mode, _parameters)
    draw = _each(abilities.HasDraw.draw, _parameters)
    sample = _each(abilities.HasNewRows.sample, "in_columns")
    log_prior = _each(abilities.HasLogJoint.log_prior, sum)
    log_likelihood = _each(abilities.HasLogJoint.log_likelihood, sum)
    draw_missing = _each(abilities.CompletesRows.draw_missing, "rows_of", _draw_missing, needs="shapes")
    sum_expected = _each(abilities.CompletesRows.sum_expected, _beside, _sum_expected, needs="sum_shares")
    add_log_bounds = _each(abilities.DrawsInCells.add_log_bounds, call=_add_log_bounds, needs="shapes")
    propose_in_cells = _each(abilities.DrawsInCells.propose_in_cells, sum, _propose_in_cells, needs="shapes")
    of_rounded = _each(abilities.DrawsInCells.of_rounded, _parameters, _of_rounded, needs="shapes")
    n_parameters = _each(abilities.HasParameterCount.n_parameters, sum)
    attributes_of_blocks = _each(RowFamily.attributes, "_by_name", _of_inner("attributes"))
    parameters_of_cells = _each(Family.parameters_of_cells, "_by_name", cell_parameters, needs="attributes")
    transformed = _each(Family.transformed, "rows_of", rows_for, needs="shapes")

    @property
    def unrounded(self) -> Any:
        """The same family for exact numbers; False if the numbers of all blocks are exact."""
        other = self._bound_again([getattr(block, "unrounded", False) or block for block in self.blocks])
        return other is not self and other

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, and of the other statistics of each block."""
        return (self.n_components,), *(shape for block in self.blocks for shape in block.shapes()[1:])

    def seed_weighted_labels(self, rows: ColumnRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means, in which each column has the same weight."""
        return cluster_tables(rows, self.n_components, key, row_weights)

    def attributes(self, parameters: ColumnParameters) -> dict[str, Any]:
        """The fitted attribute ``components_``, a list with an array for each column of X."""
        return {"components_": self._components(self.attributes_of_blocks(parameters))}

    def rows_of(self, found: list[Any]) -> ColumnRows:
        """Rows of these rows of each block."""
        return ColumnRows(tuple(found), self.places)

    def in_columns(self, found: list[np.ndarray]) -> np.ndarray:
        """Cells of new rows of each block."""
        return scattered(self.places, found)

    def _bound_again(self, found: list[Any]) -> Self:
        """The family with other blocks; the same if no block is another."""
        if all(new is old for new, old in zip(found, self.blocks, strict=True)):
            return self
        return self._with_data(found) if hasattr(self, "data") else self._replaced(blocks=tuple(found))

    def _by_column(self, found: list[np.ndarray]) -> np.ndarray:
        """Sums over blocks of the values of each column of X."""
        out = np.zeros(self.n_features)
        for place, values in zip(self.places, found, strict=True):
            out[place] += values
        return out

    def _by_name(self, found: list[Any]) -> dict[str, Any]:
        return dict(zip(self.names.tolist(), found, strict=True))

    def columns_of(self, of_blocks: dict[str, dict[str, Any]]) -> list[np.ndarray]:
        """The ``components_`` of the blocks as a list of arrays by column of X."""
        columns: list[Any] = [None] * self.n_features
        blocks: tuple[Any, ...] = self.blocks
        for place, block, of_block in zip(self.places, blocks, of_blocks.values(), strict=True):
            values = of_block["components_"] if "components_" in of_block else block.columns_of(of_block)
            parts = values if isinstance(values, list) else [values[:, [j]] for j in range(len(place))]
            for column, part in zip(place, parts, strict=True):
                columns[column] = np.ascontiguousarray(part)
        return columns

    def _components(self, of_blocks: dict[str, dict[str, Any]]) -> Any:
        """The fitted attribute ``components_``, given those of each block."""
        return self.columns_of(of_blocks)

    def cell_distribution(self, attributes: dict[str, dict[str, Any]]) -> Any:
        """The distributions of single cells, given attributes of each block; None if a block has none."""
        triples = zip(self.names.tolist(), self.blocks, self.places, strict=True)
        found = [(distribution_of_columns(block, attributes[name]), own) for name, block, own in triples if len(own)]
        parts, places = [part for part, _ in found], tuple(own for _, own in found)
        return None if None in parts else JoinedCells(parts, places)

    def check_parameters(self, parameters: ColumnParameters) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        if len(parameters.blocks) != len(self.blocks):
            refuse("parameters", "has another number of blocks")
        for i, (block, own) in enumerate(zip(self.blocks, parameters.blocks, strict=True)):
            with placed(f"blocks[{i}]"):
                block.check_parameters(own)

    def with_components(self, n_components: int) -> ColumnsFamily:
        """The same family with another number of components."""
        blocks = tuple(block.with_components(n_components) for block in self.blocks)
        return super().with_components(n_components)._replaced(blocks=blocks)

    # Bound to rows

    given = _each(Family.given, "_bound_again")
    redraw_hyperparameters = _each(Family.redraw_hyperparameters, join_statistics)
    log_hyperprior = _each(Family.log_hyperprior, sum)
    with_drawn_hyperparameters = _each(Family.with_drawn_hyperparameters, "_bound_again")
    no_statistics = _each(HasKernels.no_statistics, join_statistics)
    count = _each(Family.count)
    move = _each(Family.move)
    redraw_missing = _each(Family.redraw_missing)
    relabelled = _each(Family.relabelled, join_statistics)
    draw_components = _each(Family.draw_components, _nested)
    split_merge_space = _each(Family.split_merge_space, _spaces)
    entropy_of_missing = _each(Family.entropy_of_missing, sum)
    log_marginal = _each(Family.log_marginal, sum)
    add_log_predictive = _each(Family.add_log_predictive)
    add_densities_of_rows = _each(Family.add_densities_of_rows)
    add_log_density_of_new = _each(Family.add_log_density_of_new)
    with_ranges = _each(Family.with_ranges, "_bound_again")
    add_log_broad = _each(Family.add_log_broad)
    spread_in_cells = _each(Family.spread_in_cells, join_statistics)
    exact = _each(Family.exact, "_bound_again")
    new_rows = _each(Family.new_rows, "in_columns")
    rows_of_batch = _each(Family.rows_of_batch, max)
    draw_bytes = _each(Family.draw_bytes, sum)
    cell_attributes = _each(Family.cell_attributes, "_by_name")
    drawn_attributes = _each(Family.drawn_attributes, "_by_name")
    expected_of_blocks = _each(Family.expected, "_by_name", _of_inner("expected"))

    # Some of the columns

    separated = _each(abilities.SeparatesColumns.separated, "_bound_again")
    log_marginals_of_columns = _each(abilities.SeparatesColumns.log_marginals_of_columns, "_by_column")

    @available_if(lambda family: all(offers(block, abilities.SeparatesColumns) for block in family.blocks))
    def of_columns(self, columns: np.ndarray) -> Self:
        """The family, and the rows to which it is bound, of some columns; blocks without columns stay."""
        chosen = self._without_others(columns)
        if not hasattr(self, "data"):
            return chosen
        return chosen._with_blocks(list(chosen.blocks), None if self.rows is None else self.rows.of_columns(columns))

    def _without_others(self, columns: np.ndarray) -> Self:
        """A copy with the blocks of some columns."""
        of_blocks, places = chosen_places(self.places, columns)
        pairs = zip(cast(tuple[Any, ...], self.blocks), of_blocks, strict=True)
        blocks = tuple(block.of_columns(own) for block, own in pairs)
        return self._replaced(blocks=blocks, places=places, n_features=len(columns))

    @available_if(lambda family: all(hasattr(block, "clusters") for block in family.blocks))
    def clusters(self, rows: ColumnRows | None = None) -> ColumnsFamily:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        blocks = []
        of_blocks = [None] * len(self.blocks) if rows is None else rows.blocks
        for name, block, own in zip(self.names.tolist(), self.blocks, of_blocks, strict=True):
            with named_errors(name):
                blocks.append(block.clusters(own).among_others())
        return self._with_blocks(blocks, rows)

    def _with_blocks(self, blocks: list[Any], rows: ColumnRows | None) -> Self:
        """The same family with bound blocks; `rows` have the blocks in their first order."""
        order = sorted(range(len(blocks)), key=lambda i: type(blocks[i].data).__name__)
        found, places = [blocks[i] for i in order], tuple(self.places[i] for i in order)
        own = self._replaced(names=self.names[order], places=places, rows=rows, n_rows=found[0].n_rows)
        return own._with_data(found)

    def _with_data(self, blocks: list[Any]) -> Self:
        """The same family with bound blocks in their order."""
        data = in_pairs(JoinedData, [block.data for block in blocks])
        return self._replaced(blocks=tuple(blocks), data=data)

    def part(self, start: int, stop: int) -> ColumnsFamily:
        """The clusters of some of the rows."""
        return self._with_blocks([block.part(start, stop) for block in self.blocks], self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> ColumnsFamily:
        """The clusters of the rows with these indices."""
        return self._with_blocks([block.subset(rows) for block in self.blocks], self.rows.take(rows))

    @property
    def prior(self) -> tuple:
        """Priors of the blocks."""
        return tuple(block.prior for block in self.blocks)

    def of_block(self, name: str) -> Any:
        """The family of one block, bound as this family is."""
        return self.blocks[self.names.tolist().index(name)]

    def with_prior_of(self, other: ColumnsFamily) -> ColumnsFamily:
        """These rows with what was learned of the blocks of clusters of other rows."""
        pairs = zip(self.blocks, other.blocks, strict=True)
        same = [block if own.prior is block.prior else block.with_prior_of(own) for block, own in pairs]
        return self._with_blocks(same, self.rows)

    @available_if(lambda family: all(offers(block, abilities.SeparatesColumns) for block in family.blocks))
    def with_priors_of(self, columns: list[Any]) -> ColumnsFamily:
        """These rows with what was learned of each column by itself."""
        pairs = enumerate(zip(self.blocks, self.places, strict=True))
        blocks = [cast(Any, block).with_priors_of([columns[j].blocks[b] for j in own]) for b, (block, own) in pairs]
        return self._with_blocks(blocks, self.rows)

    def with_learned_transform(self, labels: np.ndarray, statistics: Any, free: Any, workers: Any) -> Any:
        """These rows with the most probable transforms given a partition, and statistics."""
        parts = zip(self.blocks, _apart(self, statistics), self._free_of_blocks(free), strict=True)
        pairs = [block.with_learned_transform(labels, own, of_block, workers) for block, own, of_block in parts]
        if all(block is before for (block, _), before in zip(pairs, self.blocks, strict=True)):
            return self, statistics
        blocks, changed = zip(*pairs, strict=True)
        return self._with_blocks(list(blocks), self.rows), join_statistics(changed)

    def with_learned_prior(self, statistics: Any, free: Any) -> ColumnsFamily:
        """These rows with the most probable priors given a partition; names in `free` begin with ``block__``."""
        parts = zip(self.blocks, _apart(self, statistics), self._free_of_blocks(free), strict=True)
        learned = [block.with_learned_prior(own, names) if names else block for block, own, names in parts]
        return self._with_blocks(learned, self.rows)

    def with_hyperprior(self, free: Any, before: ColumnsFamily) -> ColumnsFamily:
        """The family for chains that draw hyperparameters of blocks; names in `free` begin with ``block__``."""
        parts = zip(self.blocks, before.blocks, self._free_of_blocks(free), strict=True)
        return self._bound_again([block.with_hyperprior(n, old) if n else block for block, old, n in parts])

    def _free_of_blocks(self, free: Any) -> list[tuple[str, ...]]:
        """The names of free hyperparameters in each block."""
        starts = [f"{name}__" for name in self.names]
        return [tuple(each.removeprefix(start) for each in free if each.startswith(start)) for start in starts]

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch in the order that suits the first block that needs one."""
        for block in self.blocks:
            if type(block).sorted_rows is not Family.sorted_rows:
                return block.sorted_rows(rows, labels)
        return rows

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn expected values of the columns of X, side by side, (K, n); a column of categories has one for each."""
        return {"components": np.concatenate(self.columns_of(self.in_units(self.drawn_attributes(components))), axis=1)}

    def in_units(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes of each block in the units of its columns."""
        return {name: self.of_block(name).in_units(own) for name, own in attributes.items()}

    def are_means(self, attributes: dict[str, Any]) -> bool:
        """Whether posterior means of each block are possible."""
        return all(self.of_block(name).are_means(own) for name, own in attributes.items())

    def expected(self, statistics: Any, shares: np.ndarray | None = None) -> dict[str, Any]:
        """Posterior means of each column of X, (K, 1) for numbers and (K, n_categories) for categories."""
        return averaged({"components_": self._components(self.expected_of_blocks(statistics))}, shares)
