"""What an estimator asks of its sampler's declarations."""

from __future__ import annotations

from typing import Any

from ..models import DensitySampler
from ..samplers import BaseSampler
from ..utils._protocol_check import offers


def draws_parameters(sampler: BaseSampler) -> bool:
    """Whether a sampler draws what `score` averages over, and does not estimate it.

    Parameters
    ----------
    sampler : BaseSampler

    Returns
    -------
    draws : bool
    """
    return sampler.draws_parameters


def samples_density(sampler: BaseSampler) -> bool:
    """Whether a sampler moves points of a manifold, given their log density or its gradient.

    Parameters
    ----------
    sampler : BaseSampler

    Returns
    -------
    samples : bool
        False for samplers of latent variables.
    """
    return offers(sampler, DensitySampler)


def takes_minibatches(estimator: Any) -> bool:
    """Whether the estimator's sampler learns from a stream, for scikit-learn's ``available_if``.

    Parameters
    ----------
    estimator : BaseSampledEstimator
        An estimator; a `sampler` that is no sampler passes, since `partial_fit` will refuse it.

    Returns
    -------
    takes : bool
        True.

    Raises
    ------
    AttributeError
        If the sampler needs all rows at once.
    """
    sampler = estimator.sampler
    kind = estimator._samplers.get(sampler) if isinstance(sampler, str) else sampler
    if getattr(kind, "batching", "either") == "full":
        able = ", ".join(repr(name) for name, known in estimator._samplers.items() if known.batching != "full")
        raise AttributeError(f"partial_fit needs a sampler that takes minibatches ({able}), not {sampler!r}.")
    return True
