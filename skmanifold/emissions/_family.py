"""What families share: numbers of cells, sums by blocks of rows, and checks of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..numerics.block_sums import BLOCK_ROWS, BlockSums, merge
from ..utils._conditions import Array
from ..utils._threads import split_range
from ._protocols import TokenCounts

_CELLS_AT_ONCE = 1 << 17  # of sums by blocks: a megabyte


class NoModeError(ValueError):
    """Rows and prior leave parameters of a component without a mode."""


class Family:
    """An exponential family with its conjugate prior: parameters of K components from statistics, and back to rows.

    *Statistics* are a tuple of arrays, the first of them the sizes of the components, (K,). *Rows* are what the
    emission's ``read`` returned, with ``n_rows``, ``n_features`` and ``log_base``: the part of each row's log density
    that no parameter touches, (n_rows,), or None where there is none.

    A family of rows has the methods of `RowFamily`, one of tokens those of `TokenFamily` or `DirichletFamily`. Further
    methods are optional: without one, what needs it is refused in one sentence before a fit begins.
    """

    n_components: int
    n_features: int
    word_vectors: np.ndarray | None = None  # of tokens that are vectors

    if TYPE_CHECKING:  # every family has its own

        def shapes(self) -> tuple[tuple[int, ...], ...]: ...

    def n_cells(self) -> int:
        """Numbers in the statistics.

        Returns
        -------
        n_cells : int
            The sum over the arrays of their sizes.
        """
        return sum(int(np.prod(shape)) for shape in self.shapes())

    def sum_blocks(self, n_rows: int, first_block: int, add: Callable[..., None]) -> BlockSums:
        """Sums by blocks of rows, some blocks at a time.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        first_block : int
            Number of the block that the first of them begins.
        add : callable
            ``add(start, stop, *arrays)`` adds rows start to stop of the `n_rows` rows, each block of them to its entry
            of the arrays, which have the shapes of the statistics after the axis of blocks.

        Returns
        -------
        sums : BlockSums
            The same bytes in whichever way the rows are cut, as long as cuts are where blocks end.
        """
        sums = BlockSums(())
        for start, stop in split_range(n_rows, BLOCK_ROWS * max(1, _CELLS_AT_ONCE // self.n_cells())):
            n_blocks = -(-(stop - start) // BLOCK_ROWS)
            arrays = tuple(np.zeros((n_blocks, *shape)) for shape in self.shapes())
            add(start, stop, *arrays)
            sums = merge(sums, BlockSums.of_blocks(first_block + start // BLOCK_ROWS, arrays))
        return sums

    def start_of_tokens(self, key: np.uint64) -> np.ndarray | None:
        """Initial components of tokens.

        Parameters
        ----------
        key : uint64
            Of the random choices.

        Returns
        -------
        components : ndarray of shape (n_tokens,) or None
            Equal tokens have the same one. None: each token has a random one.
        """
        return None

    def check_parameters(self, parameters: Any) -> None:
        """Refuse parameters, read from a file, that cannot be of this family.

        Parameters
        ----------
        parameters : object
            Here any: a family that knows the shapes of its parameters compares them.

        Raises
        ------
        ValueError
            If they are not of this family.
        """


def check_shapes(parameters: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Refuse parameters that are not a tuple of arrays of these shapes.

    Parameters
    ----------
    parameters : object
        From a file.
    shapes : tuple of tuple of int
        One for each array.

    Raises
    ------
    ValueError
        If a shape is another, or there are other than arrays of numbers.
    """
    if not isinstance(parameters, tuple) or len(parameters) != len(shapes):
        raise ValueError(f"a {type(parameters).__name__} is not the parameters of such components")
    for array, shape in zip(parameters, shapes, strict=True):
        Array("float64", shape)(array, "a parameter of the components", {})


def dense_topics(counts: TokenCounts) -> np.ndarray:
    """Counts of tokens by components as an array.

    Parameters
    ----------
    counts : TokenCounts
        How often each component took each token.

    Returns
    -------
    table : ndarray of shape (n_tokens, K), float64
        The counts.
    """
    return np.asarray(sp.csr_array(counts.tocsr()).toarray(), dtype=np.float64)
