"""What a posterior can be asked: a sampler names the protocols it requires, a model has the methods of its own."""

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
