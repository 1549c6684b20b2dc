"""Compatibility of samplers and models: checked before the first iteration, with an error of one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..utils._parameters import missing_names, offers

_WORDS = {
    "HasGradient": "a gradient of the log density (grad_log_density)",
    "HasGradientDeviations": "gradients of single samples (grad_with_deviations)",
    "HasLogDensity": "a log density (log_density)",
    "HasLinearLogDensity": "a log density that is linear in a frame (linear_parameter)",
    "HasCounts": "expected counts (expected_counts)",
    "LeaveOneOutModel": "draws of tokens without their own counts (exclude_self=True)",
    "HasLogNormalMean": "the mean of log-normal coordinates (expected_log)",
    "Flat": "a flat space without boundary",
    "GeodesicFlow": "geodesics in closed form",
    "DiffusionMetric": "a metric for diffusions",
    "FullPasses": "passes over all rows",
    "MinibatchStreams": "minibatches (batching='either')",
}


class IncompatibleError(TypeError, ValueError):
    """Raised if a model or its manifold lacks a method that a sampler requires."""


def is_compatible(sampler: Any, model: Any) -> bool:
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
    return not any(_missing(sampler, model))


def check_compatible(sampler: Any, model: Any, known_samplers: Iterable[type] = (), charts: Iterable[Any] = ()) -> None:
    """Raise `IncompatibleError` unless `model` offers all that `sampler` requires, and `sampler` what it declares.

    Parameters
    ----------
    sampler : BaseSampler
        ``requires`` lists protocols of the model, ``requires_manifold`` those of its manifold, ``capabilities`` those
        that the sampler declares to satisfy itself.
    model : object
        A posterior.
    known_samplers : iterable of sampler classes
        Those to choose from when naming samplers that would work.
    charts : iterable of chart classes
        Wrappers of a target to choose from when naming those that would help.

    Raises
    ------
    IncompatibleError
        If methods are missing. The message names them, samplers that would work, and charts with which this one would.
    """
    declared: Any = () if isinstance(sampler, type) else getattr(sampler, "capabilities", ())
    if lacks := [protocol for protocol in declared if not offers(sampler, protocol)]:
        names = [name for protocol in lacks for name in missing_names(sampler, protocol)]
        raise IncompatibleError(
            f"{type(sampler).__name__} declares {_words(lacks)} but does not define "
            f"{' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}."
        )
    lacks_model, lacks_geometry = _missing(sampler, model)
    if not lacks_model and not lacks_geometry:
        return
    parts = []
    if lacks_model:
        # The rows or tokens of a model may have the family of an emission, on which some of its methods depend
        of_family = model.missing_in_family(lacks_model) if hasattr(model, "missing_in_family") else ""
        lacking = model.family if of_family else model
        parts.append(f"{of_family or _words(lacks_model)}, which {type(lacking).__name__} does not offer")
    if lacks_geometry:
        manifold = getattr(model, "manifold", model)
        parts.append(f"{_words(lacks_geometry)}, which {type(manifold).__name__} does not offer")
    fitting = [s.__name__ for s in known_samplers if is_compatible(s, model)]
    advice = f"; samplers that would work: {', '.join(fitting)}" if fitting else ""
    helpful = [c.__name__ for c in charts if c.accepts(model) and is_compatible(sampler, c(model))]
    if helpful:
        advice += f"; or wrap the target: {' or '.join(f'{name}(target)' for name in helpful)}"
    raise IncompatibleError(f"{type(sampler).__name__} needs {', and '.join(parts)}{advice}.")


def _missing(sampler: Any, model: Any) -> tuple[list[type], list[type]]:
    """The protocols that `sampler` requires and that the model, and its manifold, lack."""
    required: Any = sampler.requires
    geometry, manifold = getattr(sampler, "requires_manifold", ()), getattr(model, "manifold", None)
    return (
        [protocol for protocol in required if not offers(model, protocol)],
        [protocol for protocol in geometry if not offers(manifold, protocol)],
    )


def _words(protocols: list[type]) -> str:
    names = [protocol.__name__ for protocol in protocols]
    return " and ".join(_WORDS.get(name, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}") for name in names)
