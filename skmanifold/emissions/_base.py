"""What an emission is: a value that holds the prior of a component's parameters, and what becomes of it given data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from ..numerics.block_sums import BLOCK_ROWS, BlockSums, merge
from ..sparse.counts import USE_COUNTS_OF_WORDS, Counts, as_counts, counts_to_fit, validate_counts
from ..utils._conditions import Array
from ..utils._plain_numbers import PlainNumbers
from ..utils._threads import split_range
from ..utils._typing import ArrayLike, MatrixLike

Parameters = Any  # of all components, as the kernels read them
Arrays = tuple[np.ndarray, ...]


class TokenCounts(Protocol):
    """How often each component took each token."""

    @property
    def totals(self) -> np.ndarray:
        """Of all tokens, (K,)."""
        ...

    def tocsr(self) -> sp.csr_array:
        """As a sparse array, (n_tokens, K)."""
        ...


_CELLS_AT_ONCE = 1 << 17  # of sums by blocks: a megabyte


class NoModeError(ValueError):
    """Rows and prior leave parameters of a component without a mode."""


class BaseEmission(PlainNumbers, BaseEstimator):
    """Base class of emissions: how rows, or tokens, are distributed given their component.

    The constructor holds hyperparameters of the conjugate prior, nothing of the data.
    """

    short_name: ClassVar[str]
    allows_missing: ClassVar[bool] = False  # NaN
    allows_sparse: ClassVar[bool] = True
    positive_only: ClassVar[bool] = True
    has_missing_tokens: ClassVar[bool] = False  # NaN in an admixture
    has_vector_tokens: ClassVar[bool] = False  # tokens are vectors, which have densities
    has_random_totals: ClassVar[bool] = False  # how many tokens a row has is random: rows have intensities
    _parameter_constraints: ClassVar[dict] = {}

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> Any:
        """A user's X as the rows of this emission, validated as scikit-learn does."""
        raise NotImplementedError

    def bind(self, rows: Any, n_components: int) -> Family:
        """The family of rows, with hyperparameters that depend on the data resolved."""
        raise NotImplementedError

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """A user's X as counts of tokens, for an admixture.

        They are whole to be fitted, fractions rounded at random with this key; for inference it is None, and they are
        as X has them.
        """
        csr = validate_counts(estimator, X, reset=reset)
        if key is None:
            return as_counts(csr)
        return counts_to_fit(csr, key, USE_COUNTS_OF_WORDS, stacklevel=8)

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> Family:
        """The family of tokens, with hyperparameters that depend on the data resolved."""
        raise NotImplementedError


class Family:
    """An exponential family with its conjugate prior: parameters of K components from statistics, and back to rows.

    *Statistics* are a tuple of arrays, the first of them the sizes of the components, (K,). *Rows* are what the
    emission's `read` returned, with ``n_rows``, ``n_features`` and ``log_base``: the part of each row's log density
    that no parameter touches, (n_rows,), or None where there is none. The methods of rows serve mixtures, those of
    tokens admixtures; `mode` and `draw` both.
    """

    n_components: int
    n_features: int

    # Parameters

    def mode(self, statistics: Arrays) -> Parameters:
        """The parameters that are most probable in the natural parametrisation."""
        raise NotImplementedError

    def draw(self, statistics: Arrays, key: np.uint64) -> Parameters:
        """The parameters from their posterior."""
        raise NotImplementedError

    def log_prior(self, parameters: Parameters) -> float:
        """What `mode` maximises without any rows, up to a constant."""
        raise NotImplementedError

    def log_likelihood(self, statistics: Arrays, parameters: Parameters) -> float:
        """Log density of rows with these statistics, but for their ``log_base``, given whose they are."""
        raise NotImplementedError

    def n_parameters(self) -> int:
        """Number of free parameters of all components."""
        raise NotImplementedError

    def attributes(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Fitted attributes by their names: ``components_``, (K, n_features), a row expected of each, and others."""
        raise NotImplementedError

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> Parameters:
        """The parameters that have these attributes."""
        raise NotImplementedError

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays that parameters are a tuple of."""
        raise NotImplementedError

    def check_parameters(self, parameters: Parameters) -> None:
        """Raise a ValueError unless these, from a file, can be parameters of this family."""
        shapes = self.parameter_shapes()
        if not isinstance(parameters, tuple) or len(parameters) != len(shapes):
            raise ValueError(f"a {type(parameters).__name__} is not the parameters of such components")
        for array, shape in zip(parameters, shapes, strict=True):
            Array("float64", shape)(array, "a parameter of the components", {})

    # Rows

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics."""
        raise NotImplementedError

    def n_cells(self) -> int:
        """Numbers in the statistics."""
        return sum(int(np.prod(shape)) for shape in self.shapes())

    def sum_blocks(self, n_rows: int, first_block: int, add: Callable[..., None]) -> BlockSums:
        """Sums by blocks of rows, some blocks at a time.

        ``add(start, stop, *arrays)`` adds these of the `n_rows` rows, each block to its entry of the arrays.
        """
        sums = BlockSums(())
        for start, stop in split_range(n_rows, BLOCK_ROWS * max(1, _CELLS_AT_ONCE // self.n_cells())):
            n_blocks = -(-(stop - start) // BLOCK_ROWS)
            arrays = tuple(np.zeros((n_blocks, *shape)) for shape in self.shapes())
            add(start, stop, *arrays)
            sums = merge(sums, BlockSums.of_blocks(first_block + start // BLOCK_ROWS, arrays))
        return sums

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add log densities of rows first to stop to `out`, (stop - first, K), but for their ``log_base``."""
        raise NotImplementedError

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of rows first to stop, that begin with block `first_block`, given their labels."""
        raise NotImplementedError

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """The same given their shares in the components, (stop - first, K)."""
        raise NotImplementedError

    def sample(self, parameters: Parameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        raise NotImplementedError

    # Tokens

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics of how often each topic took each token."""
        raise NotImplementedError

    def token_table(self, parameters: Parameters) -> np.ndarray:
        """Log densities of each token given each component, (n_tokens, K)."""
        raise NotImplementedError

    def start_of_tokens(self, key: np.uint64) -> np.ndarray | None:
        """Components that tokens begin with, (n_tokens,), all that are equal in one; None: each at random."""
        return None

    @property
    def token_prior(self) -> np.ndarray | None:
        """Dirichlet parameters of the tokens' probabilities, (n_tokens,); None where tokens have another law."""
        return None


def named_emission(name: str, known: dict[str, type[BaseEmission]]) -> BaseEmission:
    """The emission of this short name; a ValueError that lists the names if there is none."""
    if name not in known:
        raise ValueError(f"Unknown emission {name!r}: known names are {', '.join(map(repr, known))}.")
    return known[name]()


def resolve_emission(emission: Any, known: dict[str, type[BaseEmission]]) -> BaseEmission:
    """A fresh, validated emission: a clone, or the defaults of a name."""
    if isinstance(emission, str):
        return named_emission(emission, known)
    if isinstance(emission, type):
        raise TypeError(
            f"emission must be an instance or a name, not the class {emission.__name__}: write {emission.__name__}()."
        )
    if not isinstance(emission, BaseEmission):
        names = ", ".join(map(repr, known))
        raise TypeError(f"emission must be a name ({names}) or an instance of an emission; got {emission!r}.")
    emission = clone(emission)
    emission._validate_params()
    return emission


def positive_prior(value: Any, n_features: int, name: str) -> np.ndarray:
    """A hyperparameter as one positive number for each feature."""
    values = np.array(value, dtype=np.float64)
    if values.shape not in ((), (n_features,)):
        raise ValueError(f"{name} must be a number or have shape ({n_features},); got {values.shape}.")
    if not np.all(np.isfinite(values)) or values.min() <= 0.0:
        raise ValueError(f"{name} must be positive and finite.")
    return np.full(n_features, values)


def dense_topics(counts: TokenCounts) -> np.ndarray:
    """Counts of tokens by topics, (n_tokens, K) float64."""
    return np.asarray(sp.csr_array(counts.tocsr()).toarray(), dtype=np.float64)
