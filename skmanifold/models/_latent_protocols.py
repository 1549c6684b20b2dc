"""What samplers ask of latent-variable models: a sampler names the protocols it requires, a model has their methods."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class LatentModel(Protocol):
    """A latent-variable model that draws its latents given fixed parameters, and fits parameters to the latents.

    This protocol covers all exponential families. *Latents* are the state of the imputation, *statistics* are the
    sums that determine the parameters, and *position* is the parameters in the form that the kernels of the model
    use.
    """

    def init_latents(self, key: np.uint64) -> tuple[Any, Any]:
        """Draw initial latents, without parameters.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        latents : object
            The latent variables.
        statistics : object
            Their sufficient statistics.
        """
        ...

    def sample_latents(self, position: Any, latents: Any, key: np.uint64) -> tuple[Any, Any, float]:
        """Draw all latents given the parameters.

        The arrays of `latents` may be overwritten.

        Parameters
        ----------
        position : object
            Parameters, in the form that the kernels of the model use.
        latents : object
            Latent variables of the previous pass. Their arrays may be overwritten.
        key : uint64
            Key of the random stream.

        Returns
        -------
        latents : object
            The new latent variables.
        statistics : object
            Sufficient statistics.
        log_likelihood : float
            Log likelihood of the data at `position`.
        """
        ...

    def mode(self, statistics: Any) -> Any:
        """The posterior mode of the parameters given the statistics, under the prior.

        Parameters
        ----------
        statistics : object
            Sufficient statistics.

        Returns
        -------
        position : object
            The parameters.
        """
        ...


@runtime_checkable
class StreamModel(LatentModel, Protocol):
    """A latent-variable model of a minibatch of a stream; statistics of different weight can be combined."""

    def impute_rows(self, position: Any, n_sweeps: int, key: np.uint64) -> Any:
        """Draw the latents of new rows, in `n_sweeps` sweeps with the same parameters.

        Parameters
        ----------
        position : object
            Parameters, in the form that the kernels of the model use.
        n_sweeps : int
            Number of sweeps.
        key : uint64
            Key of the random stream.

        Returns
        -------
        statistics : object
            Sufficient statistics of the last sweep.
        """
        ...

    def blend(self, old: Any, new: Any, rate: float, scale: float) -> Any:
        """Return ``(1 - rate) * old + rate * scale * new``.

        Parameters
        ----------
        old : object
            Statistics so far.
        new : object
            Statistics of a minibatch.
        rate : float
            Weight of the new statistics, from 0 to 1.
        scale : float
            Number of rows that each row of the minibatch represents.

        Returns
        -------
        statistics : object
            Sufficient statistics.
        """
        ...


@runtime_checkable
class ExpectationModel(Protocol):
    """A latent-variable model whose expected statistics given the parameters are known in closed form."""

    n_rows: int

    def init_latents(self, key: np.uint64) -> tuple[Any, Any]:
        """Draw initial latents, without parameters.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        latents : object
            The latent variables.
        statistics : object
            Their sufficient statistics.
        """
        ...

    def expect_latents(self, position: Any) -> tuple[Any, float]:
        """The expected statistics given the data and the parameters (E step).

        Parameters
        ----------
        position : object
            Parameters, in the form that the kernels of the model use.

        Returns
        -------
        statistics : object
            Expected sufficient statistics.
        log_likelihood : float
            Log likelihood of the data at `position`.
        """
        ...

    def mode(self, statistics: Any) -> Any:
        """The posterior mode of the parameters given the statistics, under the prior (M step).

        Parameters
        ----------
        statistics : object
            Sufficient statistics.

        Returns
        -------
        position : object
            The parameters.
        """
        ...

    def log_joint(self, statistics: Any, position: Any) -> float:
        """The objective that `mode` maximises: the expected log joint density, up to a constant.

        Parameters
        ----------
        statistics : object
            Sufficient statistics.
        position : object
            Parameters, in the form that the kernels of the model use.

        Returns
        -------
        float
            Expected log joint density of data, latents and parameters, in nats.
        """
        ...


@runtime_checkable
class RoundingModel(LatentModel, Protocol):
    """A latent-variable model whose statistics are counts that approximate counters can represent."""

    def approximate(self, statistics: Any, key: np.uint64) -> Any:
        """The statistics with counts rounded at random to the values of approximate counters; their totals stay exact.

        Parameters
        ----------
        statistics : object
            Sufficient statistics.
        key : uint64
            Key of the random stream.

        Returns
        -------
        statistics : object
            The rounded statistics.
        """
        ...


@runtime_checkable
class CollapsedModel(Protocol):
    """A model whose parameters can be integrated out, with one discrete assignment per token."""

    def init_assignments(self, key: np.uint64) -> Any:
        """Draw initial assignments uniformly.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        assignments : object
            The assignments with their counts.
        """
        ...

    def sweep_assignments(self, assignments: Any, key: np.uint64) -> float:
        """Redraw each assignment in turn given all others, in place.

        Parameters
        ----------
        assignments : object
            The assignments with their counts; modified in place.
        key : uint64
            Key of the random stream.

        Returns
        -------
        float
            log p(data, assignments) after the sweep, in nats.
        """
        ...

    def collapsed_statistics(self, assignments: Any) -> Any:
        """The sufficient statistics of the assignments.

        Parameters
        ----------
        assignments : object
            The assignments with their counts.

        Returns
        -------
        statistics : object
            Sufficient statistics.
        """
        ...

    def draw(self, statistics: Any, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given the statistics.

        Parameters
        ----------
        statistics : object
            Sufficient statistics.
        key : uint64
            Key of the random stream.

        Returns
        -------
        position : object
            The parameters.
        """
        ...


@runtime_checkable
class PartiallyCollapsedModel(Protocol):
    """A model whose rows are independent given the parameters; the parameters of rows are integrated out.

    *Latents* are one discrete assignment per token, *statistics* are their counts, and *position* is the drawn
    parameters.
    """

    def init_rows(self, key: np.uint64) -> tuple[Any, Any]:
        """Draw initial assignments uniformly.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        latents : object
            The assignments.
        statistics : object
            Their sufficient statistics.
        """
        ...

    def sample_rows(self, position: Any, latents: Any, key: np.uint64) -> tuple[Any, Any, float]:
        """Redraw the assignments of each row in turn given the parameters.

        The arrays of `latents` may be overwritten.

        Parameters
        ----------
        position : object
            Parameters, in the form that the kernels of the model use.
        latents : object
            Assignments of the previous pass.
        key : uint64
            Key of the random stream.

        Returns
        -------
        latents : object
            The new assignments.
        statistics : object
            Sufficient statistics.
        log_likelihood : float
            Log likelihood of the data at `position`, in nats.
        """
        ...

    def draw(self, statistics: Any, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given the statistics.

        Parameters
        ----------
        statistics : object
            Sufficient statistics.
        key : uint64
            Key of the random stream.

        Returns
        -------
        position : object
            The parameters.
        """
        ...


@runtime_checkable
class CollapsedVariationalModel(Protocol):
    """A model with a zero-order collapsed variational update of one distribution per token."""

    def init_responsibilities(self, key: np.uint64) -> Any:
        """Initial responsibilities, close to uniform, with their expected counts.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        responsibilities : object
            The responsibilities.
        """
        ...

    def update_responsibilities(self, responsibilities: Any) -> tuple[Any, float]:
        """Update the responsibilities in one pass over all tokens.

        Parameters
        ----------
        responsibilities : object
            Responsibilities of the previous pass.

        Returns
        -------
        responsibilities : object
            The new responsibilities.
        log_likelihood : float
            Log likelihood of the data at the previous responsibilities, in nats.
        """
        ...

    def expected_statistics(self, responsibilities: Any) -> Any:
        """The expected sufficient statistics.

        Parameters
        ----------
        responsibilities : object
            The responsibilities.

        Returns
        -------
        statistics : object
            Sufficient statistics.
        """
        ...


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
        ...

    def init_concentration(self) -> float:
        """The initial concentration.

        Returns
        -------
        float
            The concentration, positive.
        """
        ...

    def init_labels(self, key: np.uint64) -> np.ndarray:
        """The initial labels.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Label of each row.
        """
        ...

    def count(self, labels: np.ndarray) -> Any:
        """The statistics of the labels.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
            Label of each row.

        Returns
        -------
        counts : object
            The statistics, with the attribute ``sizes``: the number of rows of each label.
        """
        ...

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Divide all rows at random into minibatches.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        batches : list of ndarray of int
            Indices of the rows of each minibatch.
        """
        ...

    def least_slice(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, key: np.uint64) -> float:
        """The smallest slice of the given rows; each slice is uniform between 0 and the weight of the label.

        Parameters
        ----------
        rows : ndarray of int
            Indices of rows.
        labels : ndarray of shape (n_rows,)
            Label of each row.
        weights : ndarray of shape (n_labels,)
            Weight of each label.
        key : uint64
            Key of the random stream.

        Returns
        -------
        float
            The smallest slice.
        """
        ...

    def draw_components(self, counts: Any, components: np.ndarray, key: np.uint64) -> Any:
        """Draw components from their posterior given the statistics.

        Parameters
        ----------
        counts : object
            Statistics of the labels.
        components : ndarray of int
            Labels of the components.
        key : uint64
            Key of the random stream.

        Returns
        -------
        components : object
            The components, in the form that the kernels use.
        """
        ...

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
            Indices of rows.
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
            Key of the random stream.

        Returns
        -------
        counts : object
            Statistics of the new labels.
        """
        ...

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
            Key of the random stream.

        Returns
        -------
        counts : object
            Statistics of the new labels.
        """
        ...

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
        ...

    def draw(self, counts: Any, concentration: float, key: np.uint64) -> Any:
        """Draw weights and components from their posterior given the partition.

        Parameters
        ----------
        counts : object
            Statistics of the labels.
        concentration : float
            Concentration of the Dirichlet process.
        key : uint64
            Key of the random stream.

        Returns
        -------
        parameters : object
            Weights and components.
        """
        ...


@runtime_checkable
class MeanFieldModel(Protocol):
    """A model whose posterior is approximated by independent factors: global factors and factors of rows.

    Global *factors* are exponential families whose natural parameters are updated along the natural gradient.
    *Rows* are the factors of rows, with quantities computed from given global factors.
    """

    batch_size: int | None

    @property
    def scale(self) -> float:
        """Rows that each one at hand stands for."""
        ...

    def init_factors(self, key: np.uint64) -> tuple[Any, Any]:
        """Initial global factors and factors of the rows.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        factors : object
            Global factors.
        rows : object
            Factors of the rows.
        """
        ...

    def init_rows(self, factors: Any) -> Any:
        """Initial factors of new rows, given the global factors.

        Parameters
        ----------
        factors : object
            Global factors.

        Returns
        -------
        rows : object
            Factors of the rows.
        """
        ...

    def refresh_rows(self, factors: Any, rows: Any) -> Any:
        """The same factors of rows, with the quantities that depend on the global factors computed again.

        Parameters
        ----------
        factors : object
            Global factors.
        rows : object
            Factors of the rows.

        Returns
        -------
        rows : object
            Factors of the rows.
        """
        ...

    def fit_rows(self, rows: Any, n_steps: int, tol: float) -> tuple[Any, Any]:
        """Maximise the objective over the factors of the rows.

        Parameters
        ----------
        rows : object
            Factors of the rows.
        n_steps : int
            Maximum number of steps for each row.
        tol : float
            Minimum expected increase of the objective for another step, in nats.

        Returns
        -------
        rows : object
            The new factors of the rows.
        pull : object
            Statistics of the rows for the update of the global factors, with the attribute ``objective``.
        """
        ...

    def move_topics(self, factors: Any, pull: Any, rate: float, scale: float) -> Any:
        """Step of the global factors along the natural gradient.

        Parameters
        ----------
        factors : object
            Global factors.
        pull : object
            Statistics of the rows, from `fit_rows`.
        rate : float
            Length of the step: 1 replaces the global factors, 0 leaves them unchanged.
        scale : float
            Number of rows that each row represents.

        Returns
        -------
        factors : object
            The new global factors.
        """
        ...

    def objective(self, factors: Any, rows: Any, scale: float) -> float:
        """The objective that is maximised.

        Parameters
        ----------
        factors : object
            Global factors.
        rows : object
            Factors of the rows.
        scale : float
            Factor of the part of the objective that depends on the rows.

        Returns
        -------
        float
            The objective, in nats.
        """
        ...

    def topic_objective(self, factors: Any) -> float:
        """The part of the objective that depends on the global factors only.

        Parameters
        ----------
        factors : object
            Global factors.

        Returns
        -------
        float
            This part of the objective, in nats.
        """
        ...

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Divide all rows at random into minibatches.

        Parameters
        ----------
        key : uint64
            Key of the random stream.

        Returns
        -------
        batches : list of ndarray of int
            Indices of the rows of each minibatch.
        """
        ...

    def batch(self, chosen: np.ndarray) -> MeanFieldModel:
        """The model of some rows.

        Parameters
        ----------
        chosen : ndarray of int
            Indices of the rows.

        Returns
        -------
        model : MeanFieldModel
            The model of these rows.
        """
        ...


@runtime_checkable
class SubspaceMixtureModel(Protocol):
    """A mixture of affine subspaces of unknown dimensions: labels given subspaces, and subspaces given labels."""

    @property
    def start_model(self) -> Any:
        """The model on which starts are tried: the same, or one of lower dimensions."""
        ...

    @property
    def beginnings(self) -> Any:
        """Pairs, one or several: labels to begin with, and the subspaces nearest to their rows."""
        ...

    def draw_labels(self, subspaces: Any, offsets: np.ndarray, key: np.uint64) -> tuple[np.ndarray, float]:
        """Draw labels given the subspaces.

        Parameters
        ----------
        subspaces : object
            Parameters of the subspaces.
        offsets : ndarray of shape (n_components,)
            Logarithms of weights plus those of the normalisers of the densities.
        key : uint64
            Key of the random stream.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Label of each row.
        log_likelihood : float
            Log likelihood of the data given the subspaces, in nats.
        """
        ...

    def draw_subspaces(self, subspaces: Any, labels: np.ndarray, n_sweeps: int, key: np.uint64) -> Any:
        """Gibbs transitions of all parameters given the labels.

        Parameters
        ----------
        subspaces : object
            Parameters of the subspaces.
        labels : ndarray of shape (n_rows,)
            Label of each row.
        n_sweeps : int
            Number of sweeps.
        key : uint64
            Key of the random stream.

        Returns
        -------
        subspaces : object
            The new parameters.
        """
        ...


@runtime_checkable
class SubspaceWalkModel(Protocol):
    """A mixture of affine subspaces with sufficient statistics and conditional distributions.

    Rows are relative to the location of the prior of the centres.
    """

    priors: Any  # with ``log_dimension``, ``centre_variance`` and ``ratio_shape``
    n_adapting: int  # steps in which a sampler may be tuned

    @property
    def n_features(self) -> int:
        """Number of features."""
        ...

    @property
    def beginnings(self) -> Any:
        """Pairs, one or several: labels to begin with, and the subspaces nearest to their rows."""
        ...

    def moments(self, labels: np.ndarray, origins: np.ndarray) -> Any:
        """Counts, means and scatter matrices of the rows of each component.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
            Label of each row.
        origins : ndarray of shape (n_components, n_features)
            Points close to the rows of each component, which are subtracted for accuracy.

        Returns
        -------
        moments : object
            Named tuple with ``counts``, ``means`` and ``scatters``.
        """
        ...

    def draw_labels(self, subspaces: Any, offsets: np.ndarray, key: np.uint64) -> tuple[np.ndarray, float]:
        """Draw labels given the subspaces.

        Parameters
        ----------
        subspaces : object
            Parameters of the subspaces.
        offsets : ndarray of shape (n_components,)
            Logarithms of weights plus those of the normalisers of the densities.
        key : uint64
            Key of the random stream.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Label of each row.
        log_likelihood : float
            Log likelihood of the data given the subspaces, in nats.
        """
        ...

    def draw_noise(self, counts: np.ndarray, squares: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw the precisions of the noise.

        Parameters
        ----------
        counts : ndarray of shape (n_components,)
            Number of rows of each component.
        squares : ndarray of shape (n_components,)
            Sums over rows of squares; squares along the subspace are multiplied by their ratios.
        key : uint64
            Key of the random stream.

        Returns
        -------
        noise : ndarray of shape (n_components,)
            Precisions.
        """
        ...

    def draw_weights(self, counts: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw the weights given the counts.

        Parameters
        ----------
        counts : ndarray of shape (n_components,)
            Number of rows of each component.
        key : uint64
            Key of the random stream.

        Returns
        -------
        weights : ndarray of shape (n_components,)
            Weights, which sum to 1.
        """
        ...
