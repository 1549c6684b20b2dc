"""What every emission and its family have: protocols of rows, for mixtures, and of tokens, for admixtures."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BlockSums
from ..sparse.counts import Counts
from ..utils._typing import ArrayLike, MatrixLike

Parameters = Any  # of all components, as the family's own methods read them
Arrays = tuple[np.ndarray, ...]


class TokenCounts(Protocol):
    """How often each component took each token."""

    @property
    def totals(self) -> np.ndarray:
        """Tokens of each component, (K,)."""
        ...

    def tocsr(self) -> Any:
        """The counts as a sparse array, (n_tokens, K).

        Returns
        -------
        counts : csr_array of shape (n_tokens, K)
            Non-zero counts.
        """
        ...


@runtime_checkable
class RowEmission(Protocol):
    """An emission for mixtures: it reads rows, and has a family of them."""

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> Any:
        """A user's X as the rows of this emission, validated as scikit-learn does.

        Parameters
        ----------
        estimator : estimator instance
            It keeps the number and the names of columns, as scikit-learn's validation does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As the user gave it.
        reset : bool
            Whether the columns are learned, or compared with those of `fit`.

        Returns
        -------
        rows : object
            Rows, with ``n_rows``, ``n_features`` and ``log_base``.

        Raises
        ------
        ValueError
            If X has values that the emission does not take.
        """
        ...

    def bind(self, rows: Any, n_components: int) -> Any:
        """The family of rows, a `RowFamily`, with hyperparameters that depend on the data resolved.

        Parameters
        ----------
        rows : object
            What the emission's `read` returned.
        n_components : int
            Number of components K.

        Returns
        -------
        family : object
            The family, a `RowFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the rows.
        """
        ...


@runtime_checkable
class TokenEmission(Protocol):
    """An emission for admixtures: it reads counts of tokens, and has a family of them."""

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """A user's X as counts of tokens: whole ones, rounded with `key`, to be fitted; as they are without it.

        Parameters
        ----------
        estimator : estimator instance
            It keeps the number and the names of columns, as scikit-learn's validation does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As the user gave it.
        key : uint64 or None
            To be fitted, counts are whole: what is random in them belongs to this key. None leaves them as they
            are.
        reset : bool
            Whether the columns are learned, or compared with those of `fit`.

        Returns
        -------
        counts : Counts
            Token by token.

        Raises
        ------
        ValueError
            If X has values that the emission does not take.
        """
        ...

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> Any:
        """The family of tokens, a `TokenFamily` or a `DirichletFamily`.

        Parameters
        ----------
        tokens : Counts
            What `read_tokens` returned.
        n_components : int
            Number of components K.
        word_vectors : array-like of shape (n_features, n_dims), default=None
            Of emissions whose tokens are vectors: one for each column of X.

        Returns
        -------
        family : object
            The family, a `TokenFamily` or a `DirichletFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the tokens.
        """
        ...


@runtime_checkable
class HasStatistics(Protocol):
    """Parameters of K components from statistics, and the fitted attributes that show them."""

    n_components: int
    n_features: int

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics, a tuple of arrays of which the first are the components' sizes, (K,).

        Returns
        -------
        shapes : tuple of tuple of int
            One for each array.
        """
        ...

    def n_cells(self) -> int:
        """Numbers in the statistics.

        Returns
        -------
        n_cells : int
            The sum over the arrays of their sizes.
        """
        ...

    def mode(self, statistics: Arrays) -> Parameters:
        """The parameters that statistics and prior make most probable, in the natural parametrisation.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.

        Returns
        -------
        parameters : object
            Parameters of all components.
        """
        ...

    def attributes(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Fitted attributes by their names, ``components_`` among them, with a row for each component.

        Parameters
        ----------
        parameters : object
            Parameters of all components.

        Returns
        -------
        attributes : dict of str to ndarray
            Fitted attributes by their names.
        """
        ...

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these, from a file, cannot be parameters of this family.

        Parameters
        ----------
        parameters : object
            From a file.

        Raises
        ------
        ValueError
            If they are not of this family.
        """
        ...


@runtime_checkable
class RowFamily(HasStatistics, Protocol):
    """Rows of a mixture given their component: log densities and statistics."""

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add log densities of rows first to stop to `out`, (stop - first, K), without their ``log_base``.

        Parameters
        ----------
        rows : object
            What the emission's `read` returned.
        first : int
            The first row.
        stop : int
            The row after the last.
        parameters : object
            Parameters of all components.
        out : ndarray of shape (stop - first, K)
            What log densities are added to.
        """
        ...

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of rows first to stop, which begin with block `first_block`, given their labels.

        Parameters
        ----------
        rows : object
            What the emission's `read` returned.
        first : int
            The first row.
        stop : int
            The row after the last.
        first_block : int
            Number of the block that the first row begins.
        labels : ndarray of shape (n_rows,), int32
            Components of the rows.

        Returns
        -------
        sums : BlockSums
            The statistics, by blocks of rows.
        """
        ...


@runtime_checkable
class TokenFamily(HasStatistics, Protocol):
    """Tokens of an admixture given their component, by a table of all tokens' log densities."""

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics of how often each component took each token.

        Parameters
        ----------
        counts : TokenCounts
            How often each component took each token.

        Returns
        -------
        statistics : tuple of ndarray
            Of the shapes that `shapes` has.
        """
        ...

    def token_table(self, parameters: Parameters) -> np.ndarray:
        """Log densities of each token given each component, (n_tokens, K).

        Parameters
        ----------
        parameters : object
            Parameters of all components.

        Returns
        -------
        log_densities : ndarray of shape (n_tokens, K)
            In nats.
        """
        ...

    def start_of_tokens(self, key: np.uint64) -> np.ndarray | None:
        """Initial components, (n_tokens,), the same for all equal tokens; None: random ones.

        Parameters
        ----------
        key : uint64
            Of the random numbers.

        Returns
        -------
        components : ndarray of shape (n_tokens,) or None
            Equal tokens have the same one.
        """
        ...


@runtime_checkable
class DirichletFamily(Protocol):
    """Tokens with any probabilities under a Dirichlet prior, so that sparse counts take the place of a table.

    The log marginal of tokens and the prediction of further ones are known in closed form from these parameters.
    """

    n_components: int
    n_features: int

    @property
    def token_prior(self) -> np.ndarray:
        """Dirichlet parameters of the tokens' probabilities, (n_tokens,)."""
        ...
