"""Base classes of emissions, which hold the prior of a component's parameters, and of their families."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BLOCK_ROWS, BlockSums, merge
from ..sparse.counts import USE_COUNTS_OF_WORDS, Counts, as_counts, counts_to_fit, validate_counts
from ..utils._conditions import Array
from ..utils._plain_numbers import PlainNumbers
from ..utils._threads import split_range
from ..utils._typing import MatrixLike
from ._protocols import TokenCounts

_CELLS_AT_ONCE = 1 << 17  # of sums by blocks: a megabyte
# The library's emissions that take such X, for errors: this file cannot import them.
ABLE = {
    "allows_missing": ("bernoulli", "poisson"),
    "allows_sparse": ("bernoulli", "multinomial", "poisson"),
    "has_missing_tokens": ("bernoulli",),
}


class BaseEmission(PlainNumbers, BaseEstimator):
    """Base class of emissions: how rows, or tokens, are distributed given their component.

    The constructor holds hyperparameters of the conjugate prior, nothing of the data. An emission for mixtures has the
    methods of `RowEmission`, ``read`` and ``bind``; one for admixtures has those of `TokenEmission`, ``read_tokens``,
    which counts of words inherit from here, and ``bind_tokens``. What X may be is declared by the class attributes
    below.
    """

    short_name: ClassVar[str] = ""
    allows_missing: ClassVar[bool] = False  # NaN in rows
    allows_sparse: ClassVar[bool] = True  # sparse rows
    positive_only: ClassVar[bool] = True
    has_missing_tokens: ClassVar[bool] = False  # NaN in an admixture
    has_vector_tokens: ClassVar[bool] = False  # tokens are vectors, which have densities
    has_random_totals: ClassVar[bool] = False  # how many tokens a row has is random: rows have intensities
    has_codes: ClassVar[bool] = False  # cells are codes of categories
    tokens_of_column: ClassVar[int] = 1  # different tokens for each column of X
    _parameter_constraints: ClassVar[dict] = {}

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """A user's X as counts of tokens, for an admixture.

        Parameters
        ----------
        estimator : estimator instance
            It keeps the number and the names of columns, as scikit-learn's validation does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts.
        key : uint64 or None
            To be fitted, counts are whole, fractions rounded at random with this key. None leaves them as they are.
        reset : bool
            Whether the columns are learned, or compared with those of `fit`.

        Returns
        -------
        counts : Counts
            Token by token.

        Raises
        ------
        ValueError
            If X is not made of counts.
        """
        with explained_refusals(self, X, tokens=True):
            csr = validate_counts(estimator, X, reset=reset)
        if key is None:
            return as_counts(csr)
        return counts_to_fit(csr, key, USE_COUNTS_OF_WORDS, stacklevel=8)


@contextmanager
def explained_refusals(emission: BaseEmission | None, X: Any, tokens: bool = False) -> Iterator[None]:
    """Where X is refused for being sparse or having NaN, which the emission does not take, say so in one sentence.

    Parameters
    ----------
    emission : BaseEmission or None
        Its class declares what it takes; None explains nothing.
    X : object
        As the user gave it.
    tokens : bool, default=False
        Whether X is read for an admixture.

    Raises
    ------
    ValueError
        In place of the error of validation.

    Returns
    -------
    context : iterator of None
        For ``with``, around the validation of X.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if emission is None:
            raise
        flag = "has_missing_tokens" if tokens else "allows_missing"
        if sp.issparse(X) and not tokens and not emission.allows_sparse:
            raise TypeError(_sentence(emission, "sparse X", "allows_sparse", "pass X.toarray()")) from error
        if not getattr(emission, flag) and "contains NaN" in str(error):
            cure = "put an imputer before it in a pipeline"
            raise ValueError(_sentence(emission, "NaN, missing cells,", flag, cure)) from error
        raise


def _sentence(emission: BaseEmission, what: str, flag: str, cure: str) -> str:
    able = ABLE[flag]
    others = f"{' and '.join(map(repr, able))} {'do' if len(able) > 1 else 'does'}"
    return f"The emission {type(emission).__name__} does not take {what} as {others}: {cure}."


def positive_prior(value: Any, n_features: int, name: str) -> np.ndarray:
    """A hyperparameter as one positive number for each feature.

    Parameters
    ----------
    value : float or array-like of shape (n_features,)
        As the user gave it.
    n_features : int
        Number of features.
    name : str
        Of the hyperparameter, for errors.

    Returns
    -------
    values : ndarray of shape (n_features,)
        Positive numbers.

    Raises
    ------
    ValueError
        If the shape is another, or a number is not positive and finite.
    """
    values = np.array(value, dtype=np.float64)
    if values.shape not in ((), (n_features,)):
        raise ValueError(f"{name} must be a number or have shape ({n_features},); got {values.shape}.")
    if not np.all(np.isfinite(values)) or values.min() <= 0.0:
        raise ValueError(f"{name} must be positive and finite.")
    return np.full(n_features, values)


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
