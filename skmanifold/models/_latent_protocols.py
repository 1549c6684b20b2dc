"""What samplers ask of latent-variable models: a sampler names the protocols it requires, a model has their methods."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


class _HasMode(Protocol):
    """A latent-variable model with initial latents, and parameters that fit given statistics."""

    def init_latents(self, key: np.uint64) -> tuple[Any, Any]:
        """Draw initial latents, without parameters.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        latents : object
            The latent variables.
        statistics : object
        """

    def mode(self, statistics: Any) -> Any:
        """The posterior mode of the parameters given the statistics, under the prior.

        Parameters
        ----------
        statistics : object

        Returns
        -------
        position : object
            The parameters.
        """


@runtime_checkable
class LatentModel(_HasMode, Protocol):
    """A latent-variable model that draws its latents given fixed parameters, and fits parameters to the latents.

    This protocol covers all exponential families. *Latents* are the state of the imputation, *statistics* are the
    sums that determine the parameters, and *position* is the parameters in the form that the kernels of the model
    use.
    """

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

        Returns
        -------
        latents : object
            The new latent variables.
        statistics : object
        log_likelihood : float
            Log likelihood of the data at `position`.
        """


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

        Returns
        -------
        statistics : object
            Sufficient statistics of the last sweep.
        """

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
        """


@runtime_checkable
class ExpectationModel(_HasMode, Protocol):
    """A latent-variable model whose expected statistics given the parameters are known in closed form."""

    n_rows: int

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

    def log_joint(self, statistics: Any, position: Any) -> float:
        """The objective that `mode` maximises: the expected log joint density, up to a constant.

        Parameters
        ----------
        statistics : object
        position : object
            Parameters, in the form that the kernels of the model use.

        Returns
        -------
        float
            Expected log joint density of data, latents and parameters, in nats.
        """


@runtime_checkable
class HasTotalWeight(Protocol):
    """A model whose rows may have weights: a log likelihood per row is divided by their sum, not by ``n_rows``."""

    total_weight: float  # the number of rows if they have no weights


@runtime_checkable
class RoundingModel(LatentModel, Protocol):
    """A latent-variable model whose statistics are counts that approximate counters can represent."""

    def approximate(self, statistics: Any, key: np.uint64) -> Any:
        """The statistics with counts rounded at random to the values of approximate counters; their totals stay exact.

        Parameters
        ----------
        statistics : object
        key : uint64

        Returns
        -------
        statistics : object
            The rounded statistics.
        """


@runtime_checkable
class LeaveOneOutModel(LatentModel, Protocol):
    """A latent-variable model that can exclude each latent from the parameters that it is drawn with."""

    def sample_given_others(self, position: Any, latents: Any, key: np.uint64) -> tuple[Any, Any, float]:
        """Draw each latent given the parameters that fit all other latents.

        Parameters
        ----------
        position : object
            The mode of the parameters given the statistics of all `latents`.
        latents : object
            Latent variables of the previous pass. Their arrays may be overwritten.
        key : uint64

        Returns
        -------
        latents : object
            The new latent variables.
        statistics : object
        log_likelihood : float
            Log likelihood of the data at `position`.
        """


@runtime_checkable
class CollapsedModel(Protocol):
    """A model whose parameters can be integrated out, with one discrete assignment per token."""

    def init_assignments(self, key: np.uint64) -> Any:
        """Draw initial assignments uniformly.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        assignments : object
            The assignments with their counts.
        """

    def sweep_assignments(self, assignments: Any, key: np.uint64) -> float:
        """Redraw each assignment in turn given all others, in place.

        Parameters
        ----------
        assignments : object
            The assignments with their counts; modified in place.
        key : uint64

        Returns
        -------
        float
            log p(data, assignments) after the sweep, in nats.
        """

    def collapsed_statistics(self, assignments: Any) -> Any:
        """The sufficient statistics of the assignments.

        Parameters
        ----------
        assignments : object
            The assignments with their counts.

        Returns
        -------
        statistics : object
        """

    def draw(self, statistics: Any, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given the statistics.

        Parameters
        ----------
        statistics : object
        key : uint64

        Returns
        -------
        position : object
            The parameters.
        """


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

        Returns
        -------
        latents : object
            The assignments.
        statistics : object
        """

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

        Returns
        -------
        latents : object
            The new assignments.
        statistics : object
        log_likelihood : float
            Log likelihood of the data at `position`, in nats.
        """

    def draw(self, statistics: Any, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given the statistics.

        Parameters
        ----------
        statistics : object
        key : uint64

        Returns
        -------
        position : object
            The parameters.
        """


@runtime_checkable
class CollapsedVariationalModel(Protocol):
    """A model with a zero-order collapsed variational update of one distribution per token."""

    def init_responsibilities(self, key: np.uint64) -> Any:
        """Initial responsibilities, close to uniform, with their expected counts.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        responsibilities : object
            The responsibilities.
        """

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

    def expected_statistics(self, responsibilities: Any) -> Any:
        """The expected sufficient statistics.

        Parameters
        ----------
        responsibilities : object
            The responsibilities.

        Returns
        -------
        statistics : object
        """
