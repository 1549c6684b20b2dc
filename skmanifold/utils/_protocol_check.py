"""Whether a thing has what a protocol names."""

from __future__ import annotations

from typing import Any


def offers(thing: Any, protocol: Any) -> bool:
    """Whether a model or a manifold has all that a protocol names.

    ``isinstance`` would do but for methods that depend on what was given (``available_if``): from Python 3.12 on it
    takes them to be there always. An attribute that is False is not offered.
    """
    return not missing_names(thing, protocol)


def missing_names(thing: Any, protocol: Any) -> list[str]:
    """The public names of a protocol that a thing does not have, in the order of their definition."""
    bases = [base for base in protocol.__mro__ if base.__module__ not in ("builtins", "typing")]
    names = dict.fromkeys(name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ())))
    return [name for name in names if not name.startswith("_") and getattr(thing, name, False) is False]
