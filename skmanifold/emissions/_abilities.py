"""Optional methods of an emission's family, as protocols.

A family either has all methods of a protocol or lacks them: no method exists only to raise an error. Estimators check
the methods that they need before a fit begins.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..numerics.block_sums import BlockSums
from ._protocols import Arrays, Parameters


@runtime_checkable
class HasDraw(Protocol):
    """A family that draws parameters from their posterior."""

    def draw(self, statistics: Arrays, key: np.uint64) -> Parameters:
        """Draw the parameters from their posterior given statistics.

        Parameters
        ----------
        statistics : tuple of ndarray
        key : uint64

        Returns
        -------
        parameters : object
        """


@runtime_checkable
class HasParametersOf(Protocol):
    """A family that computes parameters from fitted attributes, in which an admixture stores its draws."""

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> Parameters:
        """The parameters with these fitted attributes.

        Parameters
        ----------
        attributes : dict of str to ndarray

        Returns
        -------
        parameters : object
        """


@runtime_checkable
class HasShares(Protocol):
    """A family that sums statistics of rows, weighted by membership probabilities."""

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their membership probabilities.

        Parameters
        ----------
        rows : object
        first, stop, first_block : int
        shares : ndarray of shape (stop - first, K)

        Returns
        -------
        sums : BlockSums
        """


@runtime_checkable
class ExpectsRows(Protocol):
    """A family whose E step computes log densities and statistics in one step, if rows have ``reads_once``.

    It replaces the log densities, and then the sums of `HasShares`.
    """

    def expect_rows(
        self,
        rows: Any,
        first: int,
        stop: int,
        first_block: int,
        parameters: Parameters,
        log_weights: np.ndarray,
        row_weights: np.ndarray,
        log_density: np.ndarray,
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, and their log densities in the mixture.

        Parameters
        ----------
        rows : object
        first, stop, first_block : int
        parameters : object
        log_weights : ndarray of shape (K,)
        row_weights : ndarray of shape (n_rows,)
            Weights of all rows in the statistics.
        log_density : ndarray of shape (n_rows,)
            Filled for these rows, without their ``log_base``.

        Returns
        -------
        sums : BlockSums
        """


@runtime_checkable
class CompletesRows(Protocol):
    """A family whose statistics are those of completed rows, if rows have missing cells (``rows.has_missing``).

    Families that integrate missing cells out need no such methods: their statistics are those of observed cells.
    """

    def draw_missing(
        self,
        rows: Any,
        first: int,
        stop: int,
        labels: np.ndarray,
        parameters: Parameters,
        key: np.uint64,
        first_row: int,
    ) -> Any:
        """Draw the missing cells of the rows `first` to `stop`, given their components and the observed cells.

        Parameters
        ----------
        rows : object
        first, stop : int
        labels : ndarray of shape (stop - first,), int32
        parameters : object
        key : uint64
            Key of the random numbers. The draws of a row depend only on the key and on the number of the row.
        first_row : int
            Number of the row 0 of `rows` in the whole data.

        Returns
        -------
        completed : object
            These rows alone, without missing cells, for `sum_labels`.
        """

    def sum_expected(
        self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray, parameters: Parameters
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, given the observed cells and membership probabilities.

        Parameters
        ----------
        rows : object
        first, stop, first_block : int
        shares : ndarray of shape (stop - first, K)
        parameters : object

        Returns
        -------
        sums : BlockSums
        """


@runtime_checkable
class DrawsInCells(Protocol):
    """A family of numbers that were rounded to cells, which draws them together with the labels of their rows.

    Draws are proposed until one is accepted: a label with a probability in proportion to its weight and to a bound of
    the probability of the row's cells, and numbers within the cells in proportion to the same bound of their density.

    Attributes
    ----------
    unrounded : Family or False
        The same family for exact numbers. False: these numbers are exact, and the family lacks the ability.
    """

    unrounded: Any

    def of_rounded(self, parameters: Parameters) -> Parameters:
        """Parameters with which `unrounded` has the log densities of scores.

        Parameters
        ----------
        parameters : object

        Returns
        -------
        parameters : object
            Of the distributions of rounded numbers.
        """

    def add_log_bounds(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add logs of bounds of probabilities of cells, divided by their volumes, to those of each component.

        Parameters
        ----------
        rows : object
        first, stop : int
        parameters : object
        out : ndarray of shape (stop - first, K)
        """

    def propose_in_cells(
        self, rows: Any, labels: np.ndarray, parameters: Parameters, key: np.uint64, numbers: np.ndarray
    ) -> np.ndarray:
        """Replace rows by numbers within their cells, proposed given their components.

        Parameters
        ----------
        rows : object
            They are changed in place.
        labels : ndarray of shape (n_rows,), int32
        parameters : object
        key : uint64
        numbers : ndarray of shape (n_rows,), int64
            The random numbers of a row depend only on the key and on this number.

        Returns
        -------
        log_acceptance : ndarray of shape (n_rows,)
            Logs of the probabilities with which a row's label and numbers are to be accepted.
        """


@runtime_checkable
class HasFeatureVariances(Protocol):
    """A family that computes variances of the features within components, on whose scale components are compared."""

    def feature_variances(self, parameters: Parameters) -> np.ndarray:
        """Variances of the features within components.

        Parameters
        ----------
        parameters : object

        Returns
        -------
        variances : ndarray of shape (n_features,)
            Up to a common factor.
        """


@runtime_checkable
class HasLogJoint(Protocol):
    """A family that computes the function that `mode` maximises."""

    def log_prior(self, parameters: Parameters) -> float:
        """Log prior density of the natural parameters, up to a constant.

        Parameters
        ----------
        parameters : object

        Returns
        -------
        log_density : float
            Summed over components, up to a constant.
        """

    def log_likelihood(self, statistics: Arrays, parameters: Parameters) -> float:
        """Log density of rows with these statistics given their components, without their ``log_base``.

        Parameters
        ----------
        statistics : tuple of ndarray
        parameters : object

        Returns
        -------
        log_density : float
            Summed over rows, in nats.
        """


@runtime_checkable
class HasHighestLogDensities(Protocol):
    """A family that computes the highest log density that any parameters give a row."""

    def highest_log_densities(self, rows: Any) -> np.ndarray:
        """The highest log density that any parameters give each row, without ``log_base``.

        Parameters
        ----------
        rows : object

        Returns
        -------
        log_densities : ndarray of shape (n_rows,)
            In nats.
        """


@runtime_checkable
class HasSumsOfClusters(Protocol):
    """A family whose components can be merged and whose prior can be learned, given statistics of components alone.

    Attributes
    ----------
    is_proper : bool
        Whether the prior is proper, so that components have marginal densities. False: the family lacks the ability.
    """

    is_proper: bool

    def with_learned_numbers(self, statistics: Arrays, free: tuple[str, ...], is_rough: bool = False) -> Any:
        """The family with the most probable prior given statistics.

        Parameters
        ----------
        statistics : tuple of ndarray
        free : tuple of str
            Hyperparameters that are learned, as `LearnsPrior` names them.
        is_rough : bool, default=False
            Whether to learn only the shape of covariances, and to use the medians of the other numbers.

        Returns
        -------
        family : Family
        """

    def clusters_of_sums(self, statistics: Arrays) -> tuple[Any, Any]:
        """The family as Dirichlet process mixtures use it, without rows, and statistics as those of clusters.

        Parameters
        ----------
        statistics : tuple of ndarray

        Returns
        -------
        clusters : Family
        statistics : object
        """


@runtime_checkable
class HasNewRows(Protocol):
    """A family that draws new rows."""

    def sample(self, parameters: Parameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components.

        Parameters
        ----------
        parameters : object
        labels : ndarray of shape (n_rows,), int32
        key : uint64

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
        """


@runtime_checkable
class HasParameterCount(Protocol):
    """A family whose number of free parameters is known, as information criteria need it."""

    def n_parameters(self) -> int:
        """Number of free parameters of all components.

        Returns
        -------
        n_parameters : int
            Summed over components.
        """


@runtime_checkable
class HasClusters(Protocol):
    """A conjugate family whose parameters can be integrated out, for Dirichlet process mixtures."""

    def clusters(self, rows: Any = None) -> Any:
        """The rows together with the prior, as Dirichlet process mixtures use them.

        Parameters
        ----------
        rows : object, default=None
            What the emission's `read` returned. None: no rows, for the prior alone.

        Returns
        -------
        clusters : Family
        """


@runtime_checkable
class SeparatesColumns(Protocol):
    """A family whose columns are independent given the component, so that each may have a partition of its own.

    Drawn ``hyperparameters`` in statistics have the columns as first axis, and ``values`` have them as second.
    """

    def separated(self) -> Any:
        """The family in which hyperparameters that columns share are those of each column by itself.

        Returns
        -------
        family : Family
        """

    def of_columns(self, columns: np.ndarray) -> Any:
        """The family, and the rows to which it is bound, of some columns.

        Parameters
        ----------
        columns : ndarray of shape (n_chosen,), int64
            Ascending indices, possibly none.

        Returns
        -------
        family : Family
        """

    def with_priors_of(self, columns: list[Any]) -> Any:
        """These rows with the priors, and all else that was learned, of each column by itself.

        Parameters
        ----------
        columns : list of Family
            One for each column, bound to some of the rows.

        Returns
        -------
        family : Family
        """

    def log_marginals_of_columns(self, statistics: Any) -> np.ndarray:
        """Log densities of the observed cells of each column, given the labels of the rows.

        Parameters
        ----------
        statistics : object
            As of clusters, with the hyperparameters and the numbers within cells that this family has.

        Returns
        -------
        log_densities : ndarray of shape (n_features,)
            Their sum is `log_marginal`.
        """


@runtime_checkable
class HasCells(Protocol):
    """A family with distributions of single cells, for `impute`, `conditional` and `cluster_summary`.

    Its rows have a method ``cells``, as `DenseRows` have.
    """

    def cell_distribution(self, attributes: dict[str, Any]) -> Any:
        """The distributions of single cells of components with these attributes.

        Parameters
        ----------
        attributes : dict of str to ndarray
            Fitted attributes, as `attributes` returns them. Those of clusters are posterior means, or predictive
            moments.

        Returns
        -------
        cells : IndependentNumbers
            Or another object with its methods.
        """


@runtime_checkable
class LearnsPrior(Protocol):
    """An emission that can learn hyperparameters from clusters, for Dirichlet process mixtures."""

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters that are learned, since the user has not set them.

        Returns
        -------
        names : tuple of str
            What ``with_learned_prior`` of the family's clusters takes.
        """

    def with_prior_of(self, clusters: Any) -> Any:
        """The emission with the prior of clusters.

        Parameters
        ----------
        clusters : Family

        Returns
        -------
        emission : BaseEmission
        """
