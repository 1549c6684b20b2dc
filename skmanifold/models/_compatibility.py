"""Does this sampler fit this model? Asked before the first iteration, answered in one sentence."""

from __future__ import annotations

from collections.abc import Iterable


class IncompatibleError(TypeError, ValueError):
    """A sampler asks what a model (or its manifold) cannot answer."""


def missing_protocols(sampler, model) -> list[type]:
    """The protocols that `sampler` requires and `model` lacks."""
    return [protocol for protocol in sampler.requires if not isinstance(model, protocol)]


def check_compatible(sampler, model, known_samplers: Iterable[type] = ()) -> None:
    """Raise `IncompatibleError` unless `model` offers all that `sampler` requires.

    Parameters
    ----------
    sampler : BaseSampler
        Its class attribute ``requires`` lists protocols.
    model : object
        A posterior.
    known_samplers : iterable of sampler classes
        Those to choose from when naming samplers that would work.

    Raises
    ------
    IncompatibleError
        In one sentence: what is missing, and which samplers would work.
    """
    missing = missing_protocols(sampler, model)
    if missing:
        fitting = [s.__name__ for s in known_samplers if not missing_protocols(s, model)]
        advice = f"; samplers that would work: {', '.join(fitting)}" if fitting else ""
        raise IncompatibleError(
            f"{type(sampler).__name__} needs a {' and a '.join(p.__name__ for p in missing)}, "
            f"which {type(model).__name__} is not{advice}."
        )
