"""Check whether an object implements a protocol."""

from __future__ import annotations

from typing import Any


def members(protocol: Any) -> list[str]:
    """Names of the methods and attributes of a protocol, in the order of their definition."""
    bases = [base for base in protocol.__mro__ if base.__module__ not in ("builtins", "typing")]
    names = [name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ()))]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def missing_names(thing: Any, *protocols: Any) -> list[str]:
    """The names of protocols that an object does not have, in the order of their definition."""
    names = dict.fromkeys(name for protocol in protocols for name in members(protocol))
    return [name for name in names if getattr(thing, name, False) is False]


def offers(thing: Any, *protocols: Any) -> bool:
    """Whether an object has all methods and attributes of protocols.

    ``isinstance`` does not recognise methods that depend on the instance (``available_if``): from Python 3.12 on it
    considers them always present. An attribute that is False is not offered.
    """
    return not missing_names(thing, *protocols)
