"""From what a user gave as a sampler, a name or an instance, to a validated sampler of one's own."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from ._base import BaseSampler


def named_sampler(name: str, known: dict[str, Any], whose: str = "") -> BaseSampler:
    """The sampler of this short name, with its defaults; a ValueError that lists the names if there is none."""
    if name not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"Unknown sampler {name!r}{whose}: known names are {names}.")
    return known[name]()


def resolve_sampler(
    sampler: Any, known: dict[str, Any], whose: str = "", wanted: str = "a name or an instance of a sampler"
) -> BaseSampler:
    """A fresh, validated sampler: a clone, or the defaults of a name."""
    if isinstance(sampler, str):
        return named_sampler(sampler, known, whose)
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler must be an instance or a name, not the class {sampler.__name__}: write {sampler.__name__}()."
        )
    if not isinstance(sampler, BaseSampler):
        raise TypeError(f"sampler must be {wanted}; got {sampler!r}.")
    sampler = clone(sampler)
    sampler._validate_params()
    return sampler
