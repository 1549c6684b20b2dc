"""Does this sampler fit this model? Asked before the first iteration, answered in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..utils._protocol_check import offers

if TYPE_CHECKING:  # samplers know models, not the other way round
    from ..samplers import BaseSampler

_WORDS = {
    "HasGradient": "a gradient of the log density (grad_log_density)",
    "HasGradientDeviations": "gradients of single samples (grad_with_deviations)",
    "HasLogDensity": "a log density (log_density)",
    "HasLinearLogDensity": "a log density that is linear in a frame (linear_parameter)",
    "HasCounts": "expected counts (expected_counts)",
    "HasLogNormalMean": "the mean of log-normal coordinates (expected_log)",
    "Flat": "a flat space without boundary",
    "GeodesicFlow": "geodesics in closed form",
    "DiffusionMetric": "a metric for diffusions",
}


class IncompatibleError(TypeError, ValueError):
    """Raised if a model or its manifold lacks a method that a sampler requires."""


def missing_protocols(sampler: BaseSampler | type[BaseSampler], model: Any) -> list[type]:
    """The protocols that `sampler` requires and `model` lacks."""
    return [protocol for protocol in sampler.requires if not offers(model, protocol)]


def missing_geometry(sampler: BaseSampler | type[BaseSampler], model: Any) -> list[type]:
    """The protocols that `sampler` requires and the model's manifold lacks."""
    geometry = getattr(sampler, "requires_manifold", ())
    return [protocol for protocol in geometry if not offers(getattr(model, "manifold", None), protocol)]


def is_compatible(sampler: BaseSampler | type[BaseSampler], model: Any) -> bool:
    """Whether a model and its manifold have all methods that a sampler requires.

    Parameters
    ----------
    sampler : BaseSampler
        A sampler, or a class of samplers.
    model : object
        A model or target.

    Returns
    -------
    bool
        Whether the sampler can run on the model.
    """
    return not missing_protocols(sampler, model) and not missing_geometry(sampler, model)


def check_compatible(
    sampler: BaseSampler | type[BaseSampler],
    model: Any,
    known_samplers: Iterable[type] = (),
    charts: Iterable[Any] = (),
) -> None:
    """Raise `IncompatibleError` unless `model` offers all that `sampler` requires.

    Parameters
    ----------
    sampler : BaseSampler
        Its class attribute ``requires`` lists protocols of the model, ``requires_manifold`` those of its manifold.
    model : object
        A posterior.
    known_samplers : iterable of sampler classes
        Those to choose from when naming samplers that would work.
    charts : iterable of chart classes
        Wrappers of a target to choose from when naming those that would help.

    Raises
    ------
    IncompatibleError
        In one sentence: what is missing, which samplers would work, and which chart would make this one work.
    """
    lacks_model, lacks_geometry = missing_protocols(sampler, model), missing_geometry(sampler, model)
    if not lacks_model and not lacks_geometry:
        return
    parts = []
    if lacks_model:
        parts.append(f"{_words(lacks_model)}, which {type(model).__name__} does not offer")
    if lacks_geometry:
        manifold = getattr(model, "manifold", model)
        parts.append(f"{_words(lacks_geometry)}, which {type(manifold).__name__} does not offer")
    fitting = [s.__name__ for s in known_samplers if is_compatible(s, model)]
    advice = f"; samplers that would work: {', '.join(fitting)}" if fitting else ""
    helpful = [c.__name__ for c in charts if c.accepts(model) and is_compatible(sampler, c(model))]
    if helpful:
        advice += f"; or wrap the target: {' or '.join(f'{name}(target)' for name in helpful)}"
    raise IncompatibleError(f"{type(sampler).__name__} needs {' and '.join(parts)}{advice}.")


def _words(protocols: list[type]) -> str:
    names = [protocol.__name__ for protocol in protocols]
    return " and ".join(_WORDS.get(name, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}") for name in names)
