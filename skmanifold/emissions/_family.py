"""Base classes of families: what follows from the statistics, the mode, the draws and the attributes of one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np

from ..numerics.block_sums import BLOCK_ROWS, BlockSums, merge
from ..random._keys import subkey
from ..utils._conditions import Integer
from ..utils._declared import check
from ..utils._njit import njit
from ..utils._threads import ONE, Workers, split_range
from ..utils._typing import available_if
from ._bound_rows import BoundRows
from ._protocols import Parameters
from ._seeds import cluster_rows
from ._statistics import selected
from .kernels import count_row, fill_scores

_CELLS_AT_ONCE = 1 << 17  # float64 entries of sums by blocks: one megabyte
_CELLS_DRAWN = 1 << 22  # parameters of new rows, of which each has its own: some tens of megabytes
_PARAMETERS, _ROWS, _LATER = 0, 1, 2  # uses of the key of new rows


class Family(BoundRows):
    """Base class of exponential families with conjugate priors.

    *Statistics* are a tuple of arrays; the first holds the sizes of the components, (K,). *Rows* are what the
    emission's ``read`` returned, with ``n_rows``, ``n_features`` and ``log_base``. The latter is the part of each row's
    log density that does not depend on the parameters, (n_rows,), or None if it is zero.

    A family of rows has the methods of `RowFamily`, a family of tokens those of `TokenFamily` or `DirichletFamily`.
    Other methods are optional: if a fit needs one that the family lacks, it raises an error before it begins.

    A family of rows with kernels (`HasKernels`) can be bound to rows by ``clusters``, for Dirichlet process mixtures.
    The methods of a bound family follow from ``prepare``, ``no_statistics``, ``new_posterior``, ``mode``, ``draw``,
    ``log_marginals``, ``attributes``, ``add_log_densities``, ``seed_labels`` and ``sample``. Its ``log_marginals``
    returns the log marginal densities of the rows of each label, (K,), without their ``log_base``, given statistics.
    """

    n_components: Annotated[int, Integer(1, size="n_components")]
    n_features: Annotated[int, Integer(1, size="n_dimensions")]
    word_vectors: np.ndarray | None = None  # (n_tokens, d), if tokens are vectors
    parameters_type: ClassVar[type | None] = None  # a named tuple with declared fields
    bounds_of_means: ClassVar[tuple[float, float]] = (-np.inf, np.inf)  # of what `cell_attributes` returns

    # Families that need them have these methods of protocols.
    mode: Callable[..., Parameters]
    draw: Callable[..., Parameters]
    seed_weighted_labels: Callable[..., np.ndarray]
    attributes: Callable[..., dict[str, Any]]
    sample: Callable[..., np.ndarray]

    # Statistics

    @available_if(lambda family: hasattr(family, "no_statistics"))
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics of all components."""
        return tuple(array.shape for array in self.no_statistics(self.n_components))

    def n_cells(self) -> int:
        """Number of entries of the statistics."""
        return sum(map(math.prod, self.shapes()))

    def sum_blocks(
        self, n_rows: int, first_block: int, add: Callable[..., None], shapes: tuple[tuple[int, ...], ...] | None = None
    ) -> BlockSums:
        """Sums by blocks of rows, a few blocks at a time.

        Parameters
        ----------
        n_rows, first_block : int
        add : callable
            ``add(start, stop, *arrays)`` adds the rows `start` to `stop` of the `n_rows` rows. The first axis of each
            array is that of the blocks, the others are those of the statistics.
        shapes : tuple of tuple of int, default=None
            Shapes of the arrays without the first axis; None is those of the statistics.

        Returns
        -------
        sums : BlockSums
            The same bytes however the rows are split, if they are split where blocks end.
        """
        sums = BlockSums(())
        for start, stop in split_range(n_rows, BLOCK_ROWS * max(1, _CELLS_AT_ONCE // self.n_cells())):
            n_blocks = -(-(stop - start) // BLOCK_ROWS)
            arrays = tuple(np.zeros((n_blocks, *shape)) for shape in shapes or self.shapes())
            add(start, stop, *arrays)
            sums = merge(sums, BlockSums.of_blocks(first_block + start // BLOCK_ROWS, arrays))
        return sums

    def _sum_each_block(
        self,
        first: int,
        stop: int,
        first_block: int,
        memberships: np.ndarray,
        add: Callable[..., None],
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> BlockSums:
        """Sums of rows by ``add(first, stop, memberships, *arrays)`` for each block; `memberships` begin at `first`."""

        def add_blocks(start: int, end: int, *arrays: np.ndarray) -> None:
            for block, (a, b) in enumerate(split_range(end - start, BLOCK_ROWS)):
                of_block = memberships[start + a : start + b]
                add(first + start + a, first + start + b, of_block, *(array[block] for array in arrays))

        return self.sum_blocks(stop - first, first_block, add_blocks, shapes)

    @available_if(lambda family: hasattr(family, "seed_weighted_labels"))
    def seed_labels(self, rows: Any, key: np.uint64) -> np.ndarray:
        """Initial labels of the rows."""
        return self.seed_weighted_labels(rows, key, None)

    # Components

    def transformed(self, rows: Any) -> Any:
        """Rows as the family reads them, with their ``log_base``; the same object if nothing is transformed.

        Parameters
        ----------
        rows : object
            What the emission's ``read`` returned, or rows that are transformed already.

        Returns
        -------
        rows : object
        """
        return rows

    def parameters_of_cells(self, parameters: Parameters) -> dict[str, Any]:
        """Parameters as attributes for `cell_distribution`.

        Parameters
        ----------
        parameters : object

        Returns
        -------
        attributes : dict of str to ndarray
        """
        return self.attributes(parameters)

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components `labels` given the rows of each; labels may be beyond the capacity.

        Parameters
        ----------
        statistics : NamedTuple
        labels : ndarray of shape (K,), int64
        key : uint64
        workers : Workers

        Returns
        -------
        components : object
        """
        return self.draw(selected(statistics, labels), key)

    def mean(self, statistics: Any) -> Parameters:
        """Parameters whose attributes are posterior means: the mode, if it is that of the natural parameters.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        parameters : object
        """
        return self.mode(statistics)

    def expected(self, statistics: Any, shares: np.ndarray | None = None) -> dict[str, Any]:
        """Posterior means as fitted attributes: ``components_``, (K, n_features), and others.

        Parameters
        ----------
        statistics : NamedTuple
        shares : ndarray of shape (n_clusters, K), default=None
            Shares of the components in clusters, of which the attributes are; None is a cluster for each component.

        Returns
        -------
        attributes : dict of str to ndarray
        """
        return averaged(self.attributes(self.mean(statistics)), shares)

    def cell_attributes(self, statistics: Any) -> dict[str, Any]:
        """Posterior means as attributes for `cell_distribution`; covariances are always finite.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        attributes : dict of str to ndarray
        """
        return self.expected(statistics)

    def are_means(self, attributes: dict[str, Any]) -> bool:
        """Whether posterior means of components are possible.

        Parameters
        ----------
        attributes : dict of str to ndarray

        Returns
        -------
        are_means : bool
            False if a number is not finite or out of range.
        """
        low, high = self.bounds_of_means
        for values in attributes.values():
            for part in values if isinstance(values, list) else [values]:
                with np.errstate(over="ignore"):
                    squares = np.square(part, dtype=np.float64)  # of which second moments are sums
                if not (np.isfinite(squares).all() and np.all((low <= part) & (part <= high))):
                    return False
        return True

    def drawn_attributes(self, components: Any) -> dict[str, Any]:
        """Drawn parameters as attributes for `cell_distribution`.

        Parameters
        ----------
        components : object

        Returns
        -------
        attributes : dict of str to ndarray
        """
        return self.attributes(components)

    def in_units(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes for `cell_distribution` as fitted attributes, in the units of the columns.

        Parameters
        ----------
        attributes : dict of str to ndarray

        Returns
        -------
        attributes : dict of str to ndarray
        """
        return attributes

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn parameters as arrays, for ``posterior_``: ``components``, with a row for each component, and others.

        Parameters
        ----------
        components : object

        Returns
        -------
        arrays : dict of str to ndarray
        """
        attributes = self.in_units(self.drawn_attributes(components))
        return {name.removesuffix("_"): array for name, array in attributes.items()}

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Rows drawn from the predictive distributions of clusters; row i depends only on the key and i.

        Parameters
        ----------
        statistics : NamedTuple
        labels : ndarray of shape (n,), int32
        key : uint64

        Returns
        -------
        X : ndarray of shape (n, n_features)
        """
        rows = []
        for start, stop in split_range(len(labels), max(1, _CELLS_DRAWN // (1 + self._n_cells_of_label()))):
            own, of_parameters = labels[start:stop].astype(np.int64), subkey(key, _PARAMETERS)
            drawn = self.draw_components(statistics, own, of_parameters, ONE)
            rows.append(self.sample(drawn, np.arange(len(own), dtype=np.int32), subkey(key, _ROWS)))
            key = subkey(key, _LATER)
        return np.concatenate(rows)

    def start_of_tokens(self, key: np.uint64) -> np.ndarray | None:
        """Initial components of tokens."""
        return None

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        if self.parameters_type is not None:
            sizes = {"n_components": self.n_components, "n_dimensions": self.n_features}
            sizes["n_statistics"] = getattr(self, "n_statistics", self.n_features)
            check(self.parameters_type, parameters, "parameters", sizes)


def averaged(attributes: dict[str, Any], shares: np.ndarray | None) -> dict[str, Any]:
    """Attributes of clusters: ``components_`` are means over components, with `shares`, (n_clusters, K), of these."""
    if shares is None:
        return attributes
    of_each = attributes["components_"]
    means = [shares @ column for column in of_each] if isinstance(of_each, list) else shares @ of_each
    return {**attributes, "components_": means}


def rows_for(family: Any, rows: Any) -> Any:
    """Rows as a family reads them, which need not be a `Family`."""
    return family.transformed(rows) if hasattr(family, "transformed") else rows


def cell_parameters(family: Any, parameters: Parameters) -> dict[str, Any]:
    """Parameters of a family, which need not be a `Family`, as attributes for `cell_distribution`."""
    return getattr(family, "parameters_of_cells", family.attributes)(parameters)


class CompiledFamily(Family):
    """Base class of conjugate families of real numbers that are written as six kernels, for all mixtures.

    A subclass has the methods ``prepare``, ``no_statistics``, ``new_posterior``, ``mode``, ``draw``,
    ``log_marginals``, ``attributes`` and ``sample``, and registers the kernels of `skmanifold.emissions.kernels` for
    the type that ``prepare`` returns. Log densities, sums, predictive densities, seeds and new rows follow from these.

    Attributes
    ----------
    n_components : int
        Number of components K.
    n_features : int
        Number of features.
    """

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add the log densities of rows given each component."""
        scores, n = np.empty(out.shape), stop - first
        all_above, nothing = np.full(n, out.shape[1]), np.zeros(n, np.int64)
        _fill_scores(self.prepare(rows), first, stop, all_above, nothing, parameters, scores)
        out += scores

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of rows given their labels."""
        return self._sum(_count_labelled, rows, first, stop, first_block, labels)

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of rows given their membership probabilities."""
        return self._sum(_count_shared, rows, first, stop, first_block, shares)

    def _sum(self, kernel, rows, first, stop, first_block, memberships) -> BlockSums:
        data, kind = self.prepare(rows), type(self.no_statistics(0))
        of_rows = first, stop, first_block, memberships
        return self._sum_each_block(*of_rows, lambda a, b, own, *arrays: kernel(data, a, b, own, kind(*arrays)))

    def seed_weighted_labels(self, rows: Any, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means, with features scaled to equal ranges."""
        return cluster_rows(rows.values, self.n_components, key, row_weights)


@njit(cache=True, nogil=True)
def _fill_scores(data, first, stop, n_above, current, parameters, scores):
    fill_scores(data, None, np.arange(first, stop), n_above, current, parameters, scores)


@njit(cache=True, nogil=True)
def _count_labelled(data, first, stop, labels, statistics):
    for row in range(first, stop):
        count_row(data, statistics, row, np.int64(labels[row - first]), 1)


@njit(cache=True, nogil=True)
def _count_shared(data, first, stop, shares, statistics):
    for row in range(first, stop):
        for k in range(shares.shape[1]):
            if shares[row - first, k] > 0.0:
                count_row(data, statistics, row, k, shares[row - first, k])
