"""Protocols of emissions and their families: of rows, for mixtures, and of tokens, for admixtures."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BlockSums
from ..sparse.counts import Counts
from ..utils._typing import ArrayLike, MatrixLike

Parameters = Any  # of all components, in the form that the methods of the family read
Arrays = tuple[np.ndarray, ...]


class TokenCounts(Protocol):
    """Counts of tokens by component."""

    @property
    def totals(self) -> np.ndarray:
        """Number of tokens assigned to each component, (K,)."""

    def tocsr(self) -> Any:
        """The non-zero counts as a csr_array, (n_tokens, K)."""


@runtime_checkable
class RowEmission(Protocol):
    """An emission for mixtures, which validates rows and makes their family."""

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> Any:
        """Validate X and return it as rows of this emission.

        Parameters
        ----------
        estimator : estimator instance
            Validation stores the number and names of columns in it, as scikit-learn does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        reset : bool
            Whether to store the number and names of columns, or to compare them with those of `fit`.

        Returns
        -------
        rows : object
            Rows, with ``n_rows``, ``n_features`` and ``log_base``.

        Raises
        ------
        ValueError
            If X has values that the emission does not accept.
        """

    def bind(self, rows: Any, n_components: int) -> Any:
        """Make the family of rows, with numbers for the hyperparameters that depend on the data.

        Parameters
        ----------
        rows : object
        n_components : int

        Returns
        -------
        family : RowFamily

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the rows.
        """


@runtime_checkable
class WeightedRowEmission(RowEmission, Protocol):
    """An emission for mixtures of rows with weights, ``fit(X, sample_weight=...)``."""

    def bind_weighted(self, rows: Any, n_components: int, row_weights: np.ndarray) -> Any:
        """Make the family of weighted rows; whole weights have the same result as `bind` of repeated rows.

        Parameters
        ----------
        rows : object
        n_components : int
        row_weights : ndarray of shape (n_rows,)
            Positive weights.

        Returns
        -------
        family : RowFamily

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the rows.
        """


class HasPriorFamily(Protocol):
    """An emission that makes a family without rows."""

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> Any:
        """Make a family whose hyperparameters do not depend on rows; ValueError if `bind` would compute one.

        `n_tokens` is the number of tokens of each row, for emissions whose rows have a given number of them.
        """


@runtime_checkable
class TokenEmission(Protocol):
    """An emission for admixtures, which validates counts of tokens and makes their family."""

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """Validate X and return it as counts of tokens.

        Parameters
        ----------
        estimator : estimator instance
            Validation stores the number and names of columns in it, as scikit-learn does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        key : uint64 or None
            Key of the random numbers that make counts whole, as a fit needs them. None leaves counts as they are.
        reset : bool
            Whether to store the number and names of columns, or to compare them with those of `fit`.

        Returns
        -------
        counts : Counts

        Raises
        ------
        ValueError
            If X has values that the emission does not accept.
        """

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> Any:
        """Make the family of tokens, with numbers for the hyperparameters that depend on the data.

        Parameters
        ----------
        tokens : Counts
        n_components : int
        word_vectors : array-like of shape (n_features, n_dims), default=None
            One vector for each column of X, for emissions whose tokens are vectors.

        Returns
        -------
        family : object
            A `TokenFamily` or a `DirichletFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the tokens.
        """


class HasStatistics(Protocol):
    """A family that estimates parameters of K components from statistics."""

    n_components: int
    n_features: int

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics, a tuple of arrays; the first array holds the sizes of the components, (K,).

        Returns
        -------
        shapes : tuple of tuple of int
        """

    def n_cells(self) -> int:
        """Number of entries of the statistics.

        Returns
        -------
        n_cells : int
        """

    def mode(self, statistics: Arrays) -> Parameters:
        """The posterior mode given statistics, with respect to the natural parameters.

        Parameters
        ----------
        statistics : tuple of ndarray

        Returns
        -------
        parameters : object
        """

    def attributes(self, parameters: Parameters) -> dict[str, Any]:
        """The parameters as fitted attributes; ``components_`` must be one of them.

        It is an array with a row for each component, or a list of such arrays, one for each feature.

        Parameters
        ----------
        parameters : object

        Returns
        -------
        attributes : dict of str to ndarray
        """

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family.

        Parameters
        ----------
        parameters : object

        Raises
        ------
        ValueError
            If their types or shapes are not those of this family.
        """


@runtime_checkable
class RowFamily(HasStatistics, Protocol):
    """A family of rows, for mixtures, with log densities and statistics of rows.

    In the methods of families, `rows` are what the emission's ``read`` returned, ``first:stop`` is a range of them and
    `first_block` the number of the block of statistics that begins with it. Statistics are sums over rows, with the
    shapes that ``shapes`` returns, by label or component; parameters are those of all K components.
    """

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``.

        Parameters
        ----------
        rows : object
        first, stop : int
        parameters : object
        out : ndarray of shape (stop - first, K)
        """

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their labels.

        Parameters
        ----------
        rows : object
        first, stop, first_block : int
        labels : ndarray of shape (stop - first,), int32

        Returns
        -------
        sums : BlockSums
        """


@runtime_checkable
class HasParts(Protocol):
    """Rows that can be split and hashed, as shards on a cluster need it."""

    def part(self, start: int, stop: int) -> Any:
        """The rows `start` to `stop`, or to the last.

        Parameters
        ----------
        start, stop : int
            A larger `stop` means all rows.

        Returns
        -------
        rows : object
        """

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64.

        Parameters
        ----------
        key : uint64
        first_row : int
            Number of the first row in the whole data.

        Returns
        -------
        hash : int
            From 0 to 2**64 - 1.
        """


@runtime_checkable
class HasKernels(Protocol):
    """A family of rows with the kernels of `skmanifold.emissions.kernels`, from which `Family` derives `clusters`."""

    def prepare(self, rows: Any) -> Any:
        """Rows and prior, as the kernels read them.

        Parameters
        ----------
        rows : object

        Returns
        -------
        data : NamedTuple
            Of the type for which the kernels are registered.
        """

    def no_statistics(self, capacity: int) -> Any:
        """Statistics of no rows.

        Parameters
        ----------
        capacity : int

        Returns
        -------
        statistics : NamedTuple
            Zeros; the first array holds the sizes of the labels.
        """

    def new_posterior(self, capacity: int, statistics: Any, key: np.uint64) -> Any:
        """Space for the posteriors of labels; `statistics` and `key` draw parameters that all clusters share.

        Parameters
        ----------
        capacity : int
        statistics : NamedTuple
        key : uint64

        Returns
        -------
        posterior : NamedTuple
            Of the type that the kernels of this family read.
        """


@runtime_checkable
class TokenFamily(HasStatistics, Protocol):
    """A family of tokens, for admixtures, with a table of log densities of all tokens."""

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of tokens by component.

        Parameters
        ----------
        counts : TokenCounts

        Returns
        -------
        statistics : tuple of ndarray
        """

    def token_table(self, parameters: Parameters) -> np.ndarray:
        """Log density of each token given each component.

        Parameters
        ----------
        parameters : object

        Returns
        -------
        log_densities : ndarray of shape (n_tokens, K)
            In nats.
        """

    def start_of_tokens(self, key: np.uint64) -> np.ndarray | None:
        """Initial components of tokens.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        components : ndarray of shape (n_tokens,) or None
            Equal tokens have the same component. None: each token has a random one.
        """


@runtime_checkable
class HasSeeds(Protocol):
    """A family that computes initial labels from seeds among the rows, for ``init="k-means++"``."""

    def seed_labels(self, rows: Any, key: np.uint64) -> np.ndarray:
        """Initial labels of the rows.

        Parameters
        ----------
        rows : object
        key : uint64

        Returns
        -------
        labels : ndarray of shape (n_rows,), int32
        """


@runtime_checkable
class HasWeightedSeeds(Protocol):
    """A family that computes initial labels of rows with weights, for ``init="k-means++"``."""

    def seed_weighted_labels(self, rows: Any, key: np.uint64, row_weights: np.ndarray) -> np.ndarray:
        """Initial labels of weighted rows.

        Parameters
        ----------
        rows : object
        key : uint64
        row_weights : ndarray of shape (n_rows,)
            Positive weights.

        Returns
        -------
        labels : ndarray of shape (n_rows,), int32
        """


@runtime_checkable
class DirichletFamily(Protocol):
    """A family of tokens whose probabilities have a Dirichlet prior, so that sparse counts replace the table.

    The Dirichlet parameters give the marginal likelihood of tokens and the predictive probabilities in closed form.
    """

    n_components: int
    n_features: int

    @property
    def token_prior(self) -> np.ndarray:
        """Dirichlet parameters of the tokens' probabilities, (n_tokens,)."""
