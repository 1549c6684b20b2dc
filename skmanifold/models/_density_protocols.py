"""What samplers ask of densities on manifolds: gradients, log densities, counts and means, for all chains at once."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class HasGradient(Protocol):
    """A density on a manifold whose gradient can be asked for, exactly or as an unbiased estimate.

    Gradients are Euclidean ones in the coordinates of the array that represents a point; a sampler projects them.
    A declared `noise_covariance` of the estimate (number, diagonal or matrix) may stand beside it, else it is None.
    """

    manifold: Any
    noise_covariance: Any

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Write the gradient of the log density at each chain's position to `out`, shaped like `position`.

        `position` is ``(n_chains, *manifold.shape)``. With `keys`, one for each chain, it may be an unbiased estimate:
        a function of chain, position and key alone, so that the same key means the same minibatch. None means all data.
        """
        ...


@runtime_checkable
class HasGradientDeviations(HasGradient, Protocol):
    """A density whose gradient is a sum over samples, so that a minibatch tells how noisy its own gradient is."""

    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Estimate the gradient as `grad_log_density` does, and return deviations, ``(n_chains, n, *manifold.shape)``.

        The sum over i of ``deviation_i deviation_i'`` is an unbiased estimate of the covariance of the estimate.
        """
        ...


@runtime_checkable
class HasGradientDifference(HasGradient, Protocol):
    """A density whose gradients at two positions can be compared on one minibatch, better than by asking for each."""

    def grad_difference(self, anchor: np.ndarray, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> None:
        """Write an unbiased estimate of the gradient at `position` less that at `anchor` to `out`.

        The latter is what `grad_log_density` wrote when it was last asked without keys: it may itself be an estimate.
        """
        ...


@runtime_checkable
class HasLogDensity(Protocol):
    """A density on a manifold whose logarithm can be evaluated up to a constant."""

    manifold: Any

    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density of each chain's position, ``(n_chains,)``, with respect to the manifold's base measure."""
        ...


@runtime_checkable
class HasLinearLogDensity(Protocol):
    """A density on a Stiefel manifold whose logarithm is linear, tr(F'X): a matrix von Mises-Fisher law."""

    manifold: Any

    def linear_parameter(self) -> np.ndarray:
        """The matrix F, of the manifold's shape."""
        ...


@runtime_checkable
class HasCounts(Protocol):
    """Coordinates that are gamma distributed, or Dirichlet rows, given counts: shape = prior + sum of counts.

    On a positive orthant the coordinates are independent gammas of these shapes and rate one, on a simplex each row is
    Dirichlet with these concentrations.
    """

    manifold: Any

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Write prior + (N / n) * counts of a minibatch to `out`, shaped like `position`; never negative."""
        ...


@runtime_checkable
class HasRowCounts(Protocol):
    """Positive coordinates in rows, gammas given counts, of which a minibatch reads and counts few rows.

    The manifold is a positive orthant of shape ``(n_rows, n_columns)``; columns are normalised by their sums.
    """

    manifold: Any
    row_prior: Any  # `RowPrior`: shapes of the gammas before any count
    workers: Any

    def choose_batch(self, key: np.uint64) -> Any:
        """A minibatch; its ``words`` are the rows that it reads, ascending."""
        ...

    def count_batch(self, batch: Any, log_weights: np.ndarray, log_totals: np.ndarray, key: np.uint64) -> Any:
        """Statistics of the minibatch given its rows' logarithms, ``(len(batch.words), n_columns)``, and columns' sums.

        Sparse counts over ``batch.words``, of which ``batch.scale`` times as many stand for the whole data.
        """
        ...

    def init_rows(self, key: np.uint64) -> tuple[Any, Any]:
        """Assignments of all data drawn uniformly; returns them and their statistics."""
        ...

    def recount_batch(
        self, batch: Any, latents: Any, log_weights: np.ndarray, log_totals: np.ndarray, key: np.uint64
    ) -> Any:
        """Redraw a minibatch's part of `latents`, in place; returns by how much its statistics change."""
        ...


@runtime_checkable
class HasLogNormalMean(Protocol):
    """Positive coordinates that are log-normal: the logarithm has a known variance, and a mean known as an estimate."""

    manifold: Any
    log_variance: Any  # number, or array of the manifold's shape

    def expected_log(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Write an unbiased estimate of the mean of the logarithms to `out`, shaped like `position`."""
        ...
