"""Conversion of the parameter `sampler`, a name or an instance, to a new validated sampler."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from ._base import BaseSampler


def named_sampler(name: str, known: dict[str, Any], context: str = "") -> BaseSampler:
    """The sampler of this short name, with default settings; an unknown name raises a ValueError."""
    if name not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"Unknown sampler {name!r}{context}: known names are {names}.")
    return known[name]()


def resolve_sampler(
    sampler: Any, known: dict[str, Any], context: str = "", wanted: str = "a name or an instance of a sampler"
) -> BaseSampler:
    """A new, validated sampler: a clone of an instance, or the sampler of a name with default settings."""
    if isinstance(sampler, str):
        return named_sampler(sampler, known, context)
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler must be an instance or a name, not the class {sampler.__name__}: write {sampler.__name__}()."
        )
    if not isinstance(sampler, BaseSampler):
        raise TypeError(f"sampler must be {wanted}; got {sampler!r}.")
    sampler = clone(sampler)
    sampler._validate_params()
    return sampler
