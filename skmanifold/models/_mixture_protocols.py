"""Protocols of mixtures: stick-breaking mixtures, and mixtures of affine subspaces."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class StickBreakingModel(Protocol):
    """A stick-breaking mixture: rows with labels, and components that can be drawn given their rows.

    *Latents* are one label per row, and *statistics* are their counts with ``sizes`` by label.
    """

    concentration: float | None  # None: learned, with a gamma prior
    concentration_prior: tuple[float, float]

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def init_concentration(self) -> float:
        """The initial concentration.

        Returns
        -------
        float
            The concentration, positive.
        """

    def init_labels(self, key: np.uint64) -> np.ndarray:
        """The initial labels.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """

    def count(self, labels: np.ndarray) -> Any:
        """The statistics of the labels.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)

        Returns
        -------
        counts : object
            The statistics, with the attribute ``sizes``: the number of rows of each label.
        """

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Divide all rows at random into minibatches.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        batches : list of ndarray of int
            Indices of the rows of each minibatch.
        """

    def least_slice(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, key: np.uint64) -> float:
        """The smallest slice of the given rows; each slice is uniform between 0 and the weight of the label.

        Parameters
        ----------
        rows : ndarray of int
        labels : ndarray of shape (n_rows,)
        weights : ndarray of shape (n_labels,)
            Weight of each label.
        key : uint64

        Returns
        -------
        float
            The smallest slice.
        """

    def draw_components(self, counts: Any, components: np.ndarray, key: np.uint64) -> Any:
        """Draw components from their posterior given the statistics.

        Parameters
        ----------
        counts : object
            Statistics of the labels.
        components : ndarray of int
            Labels of the components.
        key : uint64

        Returns
        -------
        components : object
            The components, in the form that the kernels use.
        """

    def sample_labels(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        counts: Any,
        drawn: Any,
        weights: np.ndarray,
        components: np.ndarray,
        weight_of: np.ndarray,
        key: np.uint64,
    ) -> Any:
        """Redraw the labels of the given rows, in place, among the components whose weights exceed their slices.

        Parameters
        ----------
        rows : ndarray of int
        labels : ndarray of shape (n_rows,)
            Label of each row; modified in place.
        counts : object
            Statistics of the labels.
        drawn : object
            Components from `draw_components`.
        weights : ndarray of shape (n_components,)
            Weights of these components, in descending order.
        components : ndarray of shape (n_components,)
            Labels of these components.
        weight_of : ndarray of shape (n_labels,)
            Weight of each label.
        key : uint64

        Returns
        -------
        counts : object
            Statistics of the new labels.
        """

    def redraw_hyperparameters(self, labels: np.ndarray, counts: Any, key: np.uint64) -> Any:
        """Draw what is not fixed besides labels and components, given the partition, such as hyperparameters.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
        counts : object
            Statistics of the labels, with the current hyperparameters.
        key : uint64

        Returns
        -------
        counts : object
            The statistics with the drawn hyperparameters.
        """

    def split_merge(
        self, labels: np.ndarray, counts: Any, concentration: float, n_moves: int, n_scans: int, key: np.uint64
    ) -> Any:
        """Metropolis-Hastings moves that split or merge clusters, in place.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
            Label of each row; modified in place.
        counts : object
            Statistics of the labels.
        concentration : float
            Concentration of the Dirichlet process.
        n_moves : int
            Number of moves.
        n_scans : int
            Number of restricted Gibbs scans that prepare a proposed split.
        key : uint64

        Returns
        -------
        counts : object
            Statistics of the new labels.
        """

    def relabel(self, labels: np.ndarray, counts: Any, new_labels: np.ndarray) -> tuple[np.ndarray, Any]:
        """Give the clusters new labels.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
        counts : object
            Statistics of the labels.
        new_labels : ndarray of int32
            The new label of each label that has rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            New label of each row.
        counts : object
            Statistics of the new labels.
        """

    def log_joint(self, counts: Any, concentration: float) -> float:
        """Log p(data, partition | concentration).

        Parameters
        ----------
        counts : object
            Statistics of the labels.
        concentration : float
            Concentration of the Dirichlet process.

        Returns
        -------
        float
            Log joint probability, in nats.
        """

    def draw(self, counts: Any, concentration: float, key: np.uint64) -> Any:
        """Draw weights and components from their posterior given the partition.

        Parameters
        ----------
        counts : object
            Statistics of the labels.
        concentration : float
            Concentration of the Dirichlet process.
        key : uint64

        Returns
        -------
        parameters : object
            Weights and components.
        """


class _LabelledSubspaces(Protocol):
    """Labels given subspaces, and pairs of labels and subspaces to begin with."""

    @property
    def beginnings(self) -> Any:
        """Pairs, one or several: labels to begin with, and the parameters fitted to their rows."""

    def draw_labels(self, subspaces: Any, offsets: np.ndarray, key: np.uint64) -> tuple[Any, float]:
        """Draw labels, and missing cells if there are some, given the subspaces.

        Parameters
        ----------
        subspaces : object
            Parameters of the subspaces.
        offsets : ndarray of shape (n_components,)
            Logarithms of weights plus those of the normalisers of the densities.
        key : uint64

        Returns
        -------
        labels : ndarray of shape (n_rows,), or object
            An object if it has missing cells too.
        log_likelihood : float
            Log likelihood of the data given the subspaces, in nats.
        """


@runtime_checkable
class SubspaceMixtureModel(_LabelledSubspaces, Protocol):
    """A mixture of affine subspaces of unknown dimensions: labels given subspaces, and subspaces given labels.

    Parameters have ``weights``, and the subspaces as ``parameters``.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def start_model(self) -> Any:
        """The model on which starts are tried: the same, or one of lower dimensions, or of fewer rows."""

    def blend(self, before: Any, position: Any, labels: Any, rate: float, scale: float) -> Any:
        """Add the moments of the rows, as one minibatch of a stream, to those before.

        Parameters
        ----------
        before : object
            Moments of the stream so far; None if there are none.
        position : object
            The parameters that the labels were drawn with.
        labels : ndarray of shape (n_rows,), or object
            As `draw_labels` returns them.
        rate : float
            Weight of the new moments, from 0 to 1.
        scale : float
            Number of rows of the stream that each row represents.

        Returns
        -------
        moments : object
            ``(1 - rate)`` times those before plus ``rate`` times the new ones.
        """

    def draw_given_moments(self, position: Any, moments: Any, n_sweeps: int, key: np.uint64) -> Any:
        """Gibbs transitions of all parameters given the moments of a stream.

        Parameters
        ----------
        position : object
            The parameters.
        moments : object
            As `blend` returns them.
        n_sweeps : int
            Number of sweeps.
        key : uint64

        Returns
        -------
        position : object
            The new parameters.
        """

    def draw_subspaces(self, position: Any, labels: Any, n_sweeps: int, key: np.uint64) -> Any:
        """Gibbs transitions of all parameters given the labels.

        Parameters
        ----------
        position : object
            The parameters.
        labels : ndarray of shape (n_rows,), or object
            As `draw_labels` returns them.
        n_sweeps : int
            Number of sweeps.
        key : uint64

        Returns
        -------
        position : object
            The new parameters.
        """


@runtime_checkable
class SubspaceWalkModel(_LabelledSubspaces, Protocol):
    """A mixture of affine subspaces with sufficient statistics and conditional distributions.

    Rows are relative to the location of the prior of the centres. Parameters have ``weights``, and the subspaces as
    ``parameters``.
    """

    family: Any  # priors: ``log_dimension``, ``centre_variance`` and ``ratio_shape``
    weights: Any  # the prior of the weights, with the method ``draw(counts, key)``
    n_adapting: int  # steps in which a sampler may be tuned

    @property
    def n_features(self) -> int:
        """Number of features."""

    def moments(self, labels: np.ndarray, origins: np.ndarray) -> Any:
        """Counts, means and scatter matrices of the rows of each component.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
        origins : ndarray of shape (n_components, n_features)
            Points close to the rows of each component, which are subtracted for accuracy.

        Returns
        -------
        moments : object
            Named tuple with ``counts``, ``means`` and ``scatters``.
        """

    def draw_noise(self, counts: np.ndarray, squares: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw the precisions of the noise.

        Parameters
        ----------
        counts : ndarray of shape (n_components,)
            Number of rows of each component.
        squares : ndarray of shape (n_components,)
            Sums over rows of squares; squares along the subspace are multiplied by their ratios.
        key : uint64

        Returns
        -------
        noise : ndarray of shape (n_components,)
            Precisions.
        """


@runtime_checkable
class ViewPartitionModel(Protocol):
    """A partition of columns into views, with a partition of the rows in each, and numbers that belong to columns."""

    def init_concentration(self) -> float:
        """The initial concentration of the process of columns.

        Returns
        -------
        concentration : float
        """

    def init_views(self, key: np.uint64) -> tuple[Any, list[Any]]:
        """The initial state.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        numbers : object
            Numbers that belong to columns.
        views : list
        """

    def draw_rows(self, numbers: Any, views: list[Any], sampler: Any, key: np.uint64) -> tuple[Any, list[Any]]:
        """Make a pass over the rows of each view.

        Parameters
        ----------
        numbers : object
        views : list
        sampler : BaseSampler
            A sampler of a `StickBreakingModel`.
        key : uint64

        Returns
        -------
        numbers : object
        views : list
        """

    def move_columns(
        self, views: list[Any], numbers: Any, concentration: float, n_candidates: int, key: np.uint64
    ) -> list[Any]:
        """Draw the view of each column.

        Parameters
        ----------
        views : list
        numbers : object
        concentration : float
            Of the process of columns.
        n_candidates : int
            Number of new views that are proposed for a column.
        key : uint64

        Returns
        -------
        views : list
        """

    def split_or_merge(self, views: list[Any], numbers: Any, concentration: float, key: np.uint64) -> list[Any]:
        """Propose to split a view or to merge two.

        Parameters
        ----------
        views : list
        numbers : object
        concentration : float
        key : uint64

        Returns
        -------
        views : list
        """

    def draw_concentration(self, n_views: int, concentration: float, key: np.uint64) -> float:
        """Draw the concentration of the process of columns.

        Parameters
        ----------
        n_views : int
        concentration : float
            The current one.
        key : uint64

        Returns
        -------
        concentration : float
        """

    def log_joint(self, views: list[Any], concentration: float) -> float:
        """Log joint density of rows and partitions given the concentrations.

        Parameters
        ----------
        views : list
        concentration : float

        Returns
        -------
        log_joint : float
        """
