"""What samplers ask of latent-variable models: a sampler names the protocols it requires, a model has their methods."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class LatentModel(Protocol):
    """A latent-variable model that imputes its latents given frozen parameters, and fits parameters to the imputed.

    One protocol for every exponential family: *latents* are what the imputation leaves behind for the next one,
    *statistics* the sums that determine the parameters, *position* the parameters as the model's kernels read them.
    """

    def init_latents(self, key: np.uint64) -> tuple[Any, Any]:
        """Latents drawn before anything is known; returns them and their statistics."""
        ...

    def sample_latents(self, position: Any, latents: Any, key: np.uint64) -> tuple[Any, Any, float]:
        """Draw every latent given `position`; returns latents, statistics and the log likelihood at `position`.

        May write into the arrays of `latents`.
        """
        ...

    def mode(self, statistics: Any) -> Any:
        """The parameters that the statistics and the prior make most probable."""
        ...


@runtime_checkable
class StreamModel(LatentModel, Protocol):
    """A latent model whose rows are one minibatch of a stream: statistics of unequal weight can be mixed."""

    def impute_rows(self, position: Any, n_sweeps: int, key: np.uint64) -> Any:
        """Draw the latents of rows never seen before, `n_sweeps` times given the same position; the last statistics."""
        ...

    def blend(self, old: Any, new: Any, rate: float, scale: float) -> Any:
        """Return ``(1 - rate) * old + rate * scale * new``."""
        ...


@runtime_checkable
class ExpectationModel(Protocol):
    """A latent-variable model whose expected statistics given the parameters are known in closed form."""

    n_rows: int

    def init_latents(self, key: np.uint64) -> tuple[Any, Any]:
        """Latents drawn before anything is known; returns them and their statistics."""
        ...

    def expect_latents(self, position: Any) -> tuple[Any, float]:
        """The expected statistics given data and `position`, and the log likelihood at `position`."""
        ...

    def mode(self, statistics: Any) -> Any:
        """The parameters that the statistics and the prior make most probable."""
        ...

    def log_joint(self, statistics: Any, position: Any) -> float:
        """What `mode` maximises: the expected log joint density of data, latents and parameters, up to a constant."""
        ...


@runtime_checkable
class RoundingModel(LatentModel, Protocol):
    """A latent model whose statistics are counts that approximate counters can hold."""

    def approximate(self, statistics: Any, key: np.uint64) -> Any:
        """The same statistics, counts rounded at random to what such counters tell, their totals exact."""
        ...


@runtime_checkable
class CollapsedModel(Protocol):
    """A model whose parameters can be integrated out, leaving one discrete assignment a token."""

    def init_assignments(self, key: np.uint64) -> Any:
        """Assignments drawn uniformly, with their counts."""
        ...

    def sweep_assignments(self, assignments: Any, key: np.uint64) -> float:
        """Redraw each assignment in turn given all others, in place; returns log p(data, assignments)."""
        ...

    def collapsed_statistics(self, assignments: Any) -> Any:
        """The sufficient statistics of the assignments."""
        ...

    def draw(self, statistics: Any, key: np.uint64) -> Any:
        """The parameters from their posterior given the statistics."""
        ...


@runtime_checkable
class PartiallyCollapsedModel(Protocol):
    """A model whose rows are independent given the parameters, the rows' own parameters integrated out.

    *Latents* are one discrete assignment a token, *statistics* their counts, *position* the parameters as drawn.
    """

    def init_rows(self, key: np.uint64) -> tuple[Any, Any]:
        """Assignments drawn uniformly; returns them and their statistics."""
        ...

    def sample_rows(self, position: Any, latents: Any, key: np.uint64) -> tuple[Any, Any, float]:
        """Redraw each row's assignments in turn given `position`; returns them, statistics and log likelihood.

        May write into the arrays of `latents`.
        """
        ...

    def draw(self, statistics: Any, key: np.uint64) -> Any:
        """The parameters from their posterior given the statistics."""
        ...


@runtime_checkable
class CollapsedVariationalModel(Protocol):
    """A model with a zero-order collapsed variational update of one distribution a token."""

    def init_responsibilities(self, key: np.uint64) -> Any:
        """Responsibilities near uniform, with their expected counts."""
        ...

    def update_responsibilities(self, responsibilities: Any) -> tuple[Any, float]:
        """One pass over all tokens; returns the new responsibilities and the log likelihood of the old."""
        ...

    def expected_statistics(self, responsibilities: Any) -> Any:
        """The expected sufficient statistics."""
        ...


@runtime_checkable
class StickBreakingModel(Protocol):
    """A mixture over sticks: rows with labels, components that can be drawn given their rows.

    *Latents* are one label a row, *statistics* their counts with ``sizes`` by label. The sticks are those of
    `samplers._latent.stick_breaking`.
    """

    concentration: float | None  # None: learned, with a gamma prior
    concentration_prior: tuple[float, float]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def init_concentration(self) -> float:
        """The concentration to begin with."""
        ...

    def init_labels(self, key: np.uint64) -> np.ndarray:
        """Labels to begin with."""
        ...

    def count(self, labels: np.ndarray) -> Any:
        """The statistics of the labels."""
        ...

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Every row once, in minibatches."""
        ...

    def least_slice(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, key: np.uint64) -> float:
        """The least of the slices of `rows`, each uniform below the weight of its label."""
        ...

    def draw_components(self, counts: Any, components: np.ndarray, key: np.uint64) -> Any:
        """The components of these labels from their posterior given the statistics, as the kernels read them."""
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
        """Redraw the labels of `rows`, in place, among the components above their slices; returns the statistics."""
        ...

    def split_merge(
        self, labels: np.ndarray, counts: Any, concentration: float, n_moves: int, n_scans: int, key: np.uint64
    ) -> Any:
        """Metropolis-Hastings moves of the partition, in place; returns the statistics."""
        ...

    def log_joint(self, counts: Any, concentration: float) -> float:
        """Log p(data, partition | concentration)."""
        ...

    def draw(self, counts: Any, concentration: float, key: np.uint64) -> Any:
        """Weights and components from their posterior given the partition."""
        ...


@runtime_checkable
class MeanFieldModel(Protocol):
    """A model whose posterior is approximated by independent factors: global ones, and those of each row.

    Global *factors* are exponential families whose natural parameters move along the natural gradient. *Rows* are the
    rows' factors, with what was computed of the rows at given global factors.
    """

    batch_size: int | None

    @property
    def scale(self) -> float:
        """Rows that each one at hand stands for."""
        ...

    def init_factors(self, key: np.uint64) -> tuple[Any, Any]:
        """Global factors to begin with, and the rows'."""
        ...

    def init_rows(self, factors: Any) -> Any:
        """The factors of rows never seen before, at these global factors."""
        ...

    def refresh_rows(self, factors: Any, rows: Any) -> Any:
        """The rows' same factors at other global factors."""
        ...

    def fit_rows(self, rows: Any, n_steps: int, tol: float) -> tuple[Any, Any]:
        """Climb the rows' factors; returns them, and what they ask of the global factors."""
        ...

    def move_topics(self, factors: Any, pull: Any, rate: float, scale: float) -> Any:
        """Natural-gradient step of length `rate`: 1 replaces the global factors, 0 leaves them."""
        ...

    def objective(self, factors: Any, rows: Any, scale: float) -> float:
        """What is maximised, the rows' part `scale` times."""
        ...

    def topic_objective(self, factors: Any) -> float:
        """The part of the objective that is the global factors' own."""
        ...

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Every row once, in minibatches at random."""
        ...

    def batch(self, chosen: np.ndarray) -> MeanFieldModel:
        """The model of these rows alone."""
        ...


@runtime_checkable
class SubspaceMixtureModel(Protocol):
    """Mixture of affine subspaces of unknown dimensions: labels given subspaces, subspaces given labels."""

    @property
    def start_model(self) -> Any:
        """The model on which starts are tried: the same, or one of lower dimensions."""
        ...

    @property
    def beginnings(self) -> Any:
        """Pairs, one or several: labels to begin with, and the subspaces nearest to their rows."""
        ...

    def draw_labels(self, subspaces: Any, offsets: np.ndarray, key: np.uint64) -> tuple[np.ndarray, float]:
        """Labels given subspaces, and the log likelihood; `offsets` are the logs of weights and normalisers."""
        ...

    def draw_subspaces(self, subspaces: Any, labels: np.ndarray, n_sweeps: int, key: np.uint64) -> Any:
        """Transitions of all parameters given labels."""
        ...


@runtime_checkable
class SubspaceWalkModel(Protocol):
    """Mixture of affine subspaces whose clusters' rows can be summed up, with conditional laws given their subspaces.

    Subspaces are `mixture._subspace.parameters.Subspaces`; rows have the location of the centres' prior taken off.
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
        """Counts, means and scatters of each component's rows; `origins`, (K, m), are points near them."""
        ...

    def draw_labels(self, subspaces: Any, offsets: np.ndarray, key: np.uint64) -> tuple[np.ndarray, float]:
        """Labels given subspaces, and the log likelihood; `offsets` are the logs of weights and normalisers."""
        ...

    def draw_noise(self, counts: np.ndarray, squares: np.ndarray, key: np.uint64) -> np.ndarray:
        """Precisions of the noise, (K,), given sums over rows of squares, those along subspaces times their ratios."""
        ...

    def draw_weights(self, counts: np.ndarray, key: np.uint64) -> np.ndarray:
        """Weights given counts, (K,)."""
        ...
