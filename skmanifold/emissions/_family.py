"""What families share: the size of statistics, sums by blocks of rows, and checks of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..numerics.block_sums import BLOCK_ROWS, BlockSums, merge
from ..utils._conditions import Array
from ..utils._threads import split_range
from ._protocols import TokenCounts

_CELLS_AT_ONCE = 1 << 17  # float64 entries of sums by blocks: one megabyte


class NoModeError(ValueError):
    """The parameters of a component have no posterior mode."""


class Family:
    """Base class of exponential families with conjugate priors.

    *Statistics* are a tuple of arrays; the first holds the sizes of the components, (K,). *Rows* are what the
    emission's ``read`` returned, with ``n_rows``, ``n_features`` and ``log_base``. The latter is the part of each row's
    log density that does not depend on the parameters, (n_rows,), or None if it is zero.

    A family of rows has the methods of `RowFamily`, a family of tokens those of `TokenFamily` or `DirichletFamily`.
    Other methods are optional: if a fit needs one that the family lacks, it raises an error before it begins.
    """

    n_components: int
    n_features: int
    word_vectors: np.ndarray | None = None  # (n_tokens, d), if tokens are vectors

    if TYPE_CHECKING:  # every family has its own

        def shapes(self) -> tuple[tuple[int, ...], ...]: ...

    def n_cells(self) -> int:
        """Number of entries of the statistics.

        Returns
        -------
        n_cells : int
            The sum of the sizes of all arrays.
        """
        return sum(int(np.prod(shape)) for shape in self.shapes())

    def sum_blocks(self, n_rows: int, first_block: int, add: Callable[..., None]) -> BlockSums:
        """Sums by blocks of rows, a few blocks at a time.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        first_block : int
            Number of the block that begins with the first row.
        add : callable
            ``add(start, stop, *arrays)`` adds the rows `start` to `stop` of the `n_rows` rows. The first axis of each
            array is that of the blocks, the others are those of the statistics.

        Returns
        -------
        sums : BlockSums
            The same bytes however the rows are split, if they are split where blocks end.
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
            Key of the random choices.

        Returns
        -------
        components : ndarray of shape (n_tokens,) or None
            Equal tokens have the same component. None: each token has a random one.
        """
        return None

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family.

        Parameters
        ----------
        parameters : object
            Parameters from a file. This method accepts all; families with known shapes override it.

        Raises
        ------
        ValueError
            If their types or shapes are not those of this family.
        """


def check_shapes(parameters: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Raise a ValueError if parameters are not a tuple of float64 arrays of these shapes.

    Parameters
    ----------
    parameters : object
        Parameters from a file.
    shapes : tuple of tuple of int
        A shape for each array.

    Raises
    ------
    ValueError
        If the number of arrays, a shape or a dtype is wrong.
    """
    if not isinstance(parameters, tuple) or len(parameters) != len(shapes):
        raise ValueError(f"a {type(parameters).__name__} is not the parameters of such components")
    for array, shape in zip(parameters, shapes, strict=True):
        Array("float64", shape)(array, "a parameter of the components", {})


def dense_topics(counts: TokenCounts) -> np.ndarray:
    """Counts of tokens by component as a dense array.

    Parameters
    ----------
    counts : TokenCounts
        Counts of tokens by component.

    Returns
    -------
    table : ndarray of shape (n_tokens, K), float64
        The counts.
    """
    return np.asarray(sp.csr_array(counts.tocsr()).toarray(), dtype=np.float64)
