"""What samplers ask of densities on manifolds, for all chains at once, and what such samplers declare."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class HasGradient(Protocol):
    """A density on a manifold with a gradient, exact or as an unbiased estimate.

    Gradients are Euclidean, in the coordinates of the array that represents a point; a sampler projects them.
    `noise_covariance` is the covariance of the estimate (a number, a diagonal, a matrix, or a `CovarianceAt`, which
    depends on the position), or None if it is unknown.
    """

    manifold: Any
    noise_covariance: Any

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Write the gradient of the log density at the position of each chain to `out`.

        With `keys` it may be an unbiased estimate. The estimate is a function of chain, position and key only, so
        that the same key selects the same minibatch.

        Parameters
        ----------
        position : ndarray of shape (n_chains, ...)
            Position of each chain.
        keys : ndarray of shape (n_chains,), uint64, or None
            One key for each chain, which determines its minibatch; None uses all data.
        out : ndarray of shape (n_chains, ...)
            Output: the gradient.
        """


@runtime_checkable
class HasGradientDeviations(HasGradient, Protocol):
    """A density whose gradient is a sum over samples, so that minibatches can estimate their gradient noise."""

    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write an estimate of the gradient to `out`, and return the deviations of its samples.

        Parameters
        ----------
        position : ndarray of shape (n_chains, ...)
            Position of each chain.
        keys : ndarray of shape (n_chains,), uint64
            One key for each chain, which determines its minibatch.
        out : ndarray of shape (n_chains, ...)
            Output: the gradient.

        Returns
        -------
        deviations : ndarray of shape (n_chains, n, ...)
            Deviations of the n samples of each minibatch. The sum over i of ``deviation_i deviation_i'`` is an
            unbiased estimate of the covariance of the gradient estimate.
        """


@runtime_checkable
class HasGradientDifference(HasGradient, Protocol):
    """A density with an accurate estimate of the difference of gradients at two positions from one minibatch."""

    def grad_difference(self, anchor: np.ndarray, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> None:
        """Write an unbiased estimate of the gradient at `position` minus the gradient at `anchor` to `out`.

        The gradient at `anchor` is that of the last call of `grad_log_density` without keys, which may be an
        estimate.

        Parameters
        ----------
        anchor : ndarray of shape (n_chains, ...)
            Anchor of each chain.
        position : ndarray of shape (n_chains, ...)
            Position of each chain.
        keys : ndarray of shape (n_chains,), uint64
            One key for each chain, which determines its minibatch.
        out : ndarray of shape (n_chains, ...)
            Output: the difference of the gradients.
        """


@runtime_checkable
class HasLogDensity(Protocol):
    """A density on a manifold whose logarithm can be evaluated up to a constant."""

    manifold: Any

    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density at the position of each chain, with respect to the base measure of the manifold.

        Parameters
        ----------
        position : ndarray of shape (n_chains, ...)
            Position of each chain.

        Returns
        -------
        log_density : ndarray of shape (n_chains,)
            Log densities, up to a constant, in nats.
        """


@runtime_checkable
class HasLinearLogDensity(Protocol):
    """A density on a Stiefel manifold with a linear logarithm, tr(F'X): a matrix von Mises-Fisher distribution."""

    manifold: Any

    def linear_parameter(self) -> np.ndarray:
        """The matrix F of the log density tr(F'X).

        Returns
        -------
        ndarray
            The matrix F, of the shape of the manifold.
        """


@runtime_checkable
class HasCounts(Protocol):
    """Coordinates with gamma distributions, or Dirichlet rows, given counts: shape = prior + sum of counts.

    On a positive orthant the coordinates are independent gammas of these shapes and rate one. On a simplex each
    row is Dirichlet with these concentrations.
    """

    manifold: Any

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Write prior + (N / n) * counts of a minibatch to `out`; no entry is negative.

        Parameters
        ----------
        position : ndarray of shape (n_chains, ...)
            Position of each chain.
        keys : ndarray of shape (n_chains,), uint64, or None
            One key for each chain, which determines its minibatch; None uses all data.
        out : ndarray of shape (n_chains, ...)
            Output: the expected counts.
        """


@runtime_checkable
class HasRowCounts(Protocol):
    """Rows of positive coordinates that are gammas given counts; a minibatch reads and counts few rows.

    The manifold is a positive orthant of shape ``(n_rows, n_columns)``. Columns are normalised by their sums.
    """

    manifold: Any
    row_prior: Any  # `RowPrior`: shapes of the gammas before any count
    workers: Any

    def choose_batch(self, key: np.uint64) -> Any:
        """Choose a minibatch.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        batch : object
            The minibatch. Its ``words`` are the rows that it reads, ascending.
        """

    def count_batch(self, batch: Any, log_weights: np.ndarray, log_totals: np.ndarray, key: np.uint64) -> Any:
        """Draw the counts of a minibatch given the rows that it reads.

        Parameters
        ----------
        batch : object
            The minibatch, from `choose_batch`.
        log_weights : ndarray of shape (len(batch.words), n_columns)
            Logarithms of the rows of the minibatch.
        log_totals : ndarray of shape (n_columns,)
            Logarithms of the sums of the columns.
        key : uint64

        Returns
        -------
        counts : object
            Sparse counts over ``batch.words``; they represent the whole data after multiplication by
            ``batch.scale``.
        """

    def init_rows(self, key: np.uint64) -> tuple[Any, Any]:
        """Draw assignments of all data uniformly.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        latents : object
            The assignments.
        statistics : object
        """

    def recount_batch(
        self, batch: Any, latents: Any, log_weights: np.ndarray, log_totals: np.ndarray, key: np.uint64
    ) -> Any:
        """Redraw the assignments of a minibatch, in place.

        Parameters
        ----------
        batch : object
            The minibatch, from `choose_batch`.
        latents : object
            Assignments of all data; those of the minibatch are overwritten.
        log_weights : ndarray of shape (len(batch.words), n_columns)
            Logarithms of the rows of the minibatch.
        log_totals : ndarray of shape (n_columns,)
            Logarithms of the sums of the columns.
        key : uint64

        Returns
        -------
        changes : object
            Changes of the counts of the minibatch.
        """


@runtime_checkable
class HasLogNormalMean(Protocol):
    """Log-normal coordinates: the variance of the logarithm is known, and its mean can be estimated."""

    manifold: Any
    log_variance: Any  # number, or array of the manifold's shape

    def expected_log(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Write an unbiased estimate of the mean of the logarithms to `out`.

        Parameters
        ----------
        position : ndarray of shape (n_chains, ...)
            Position of each chain.
        keys : ndarray of shape (n_chains,), uint64, or None
            One key for each chain, which determines its minibatch; None uses all data.
        out : ndarray of shape (n_chains, ...)
            Output: the mean of the logarithms.
        """


@runtime_checkable
class HasCompiledFunctions(HasGradient, Protocol):
    """A density whose functions may be compiled by numba, so that samplers make many steps in one call of a kernel."""

    def compiled_functions(self) -> Any:
        """The compiled functions.

        Returns
        -------
        functions : CompiledFunctions or None
            The gradient and, if there is one, the log density; None if they are not compiled.
        """


@runtime_checkable
class DensitySampler(Protocol):
    """A sampler of a density on a manifold: all chains in one state, along the first axis of its arrays."""

    requires_manifold: tuple[type, ...]  # protocols of the manifold

    def stats(self, model: Any, state: Any) -> dict[str, np.ndarray]:
        """Diagnostics of the last step.

        Parameters
        ----------
        model : object
            The model or target.
        state : object
            The state after the step.

        Returns
        -------
        stats : dict of str to ndarray
            Arrays whose first axis is that of the chains.
        """
