"""Whether a thing has what a protocol names."""

from __future__ import annotations

from typing import Any


def members(protocol: Any) -> list[str]:
    """Names of the methods and attributes that a protocol asks for, in the order of their declaration."""
    bases = [base for base in protocol.__mro__ if base.__module__ not in ("builtins", "typing")]
    names = [name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ()))]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def offers(thing: Any, protocol: Any) -> bool:
    """Whether a model or a manifold has all that a protocol names.

    ``isinstance`` would do but for methods that depend on what was given (``available_if``): from Python 3.12 on it
    takes them to be there always. An attribute that is False is not offered.
    """
    return all(getattr(thing, name, False) is not False for name in members(protocol))
