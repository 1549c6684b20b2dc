"""What an estimator needs to know about its sampler."""

from __future__ import annotations

from typing import Any

from ..models import DensitySampler
from ..samplers import BaseSampler
from ..utils._protocol_check import offers


def draws_parameters(sampler: BaseSampler) -> bool:
    """Whether a sampler draws the parameters that `score` averages over.

    Parameters
    ----------
    sampler : BaseSampler
        Any sampler.

    Returns
    -------
    draws : bool
        False for samplers that estimate the parameters instead.
    """
    return sampler.draws_parameters


def samples_density(sampler: BaseSampler) -> bool:
    """Whether a sampler moves points of a manifold, given their log density or its gradient.

    Parameters
    ----------
    sampler : BaseSampler
        Any sampler.

    Returns
    -------
    samples : bool
        False for samplers of latent variables.
    """
    return offers(sampler, DensitySampler)


def takes_minibatches(estimator: Any) -> bool:
    """Whether the estimator's sampler can learn from minibatches, for scikit-learn's ``available_if``.

    Parameters
    ----------
    estimator : BaseSampledEstimator
        An estimator. If its `sampler` is not a valid sampler, the check passes, and `partial_fit` raises an error.

    Returns
    -------
    takes : bool
        Always True.

    Raises
    ------
    AttributeError
        If the sampler needs all rows at once.
    """
    sampler = estimator.sampler
    resolved = estimator._samplers.get(sampler) if isinstance(sampler, str) else sampler
    if getattr(resolved, "batching", "either") == "full":
        able = ", ".join(repr(name) for name, known in estimator._samplers.items() if known.batching != "full")
        raise AttributeError(f"partial_fit needs a sampler that takes minibatches ({able}), not {sampler!r}.")
    return True
