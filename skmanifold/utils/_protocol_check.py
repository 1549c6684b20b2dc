"""Check whether an object implements a protocol."""

from __future__ import annotations

from typing import Any


def offers(thing: Any, protocol: Any) -> bool:
    """Whether a model, manifold or sampler has all methods and attributes of a protocol.

    Unlike ``isinstance``, it respects methods that are only available under a condition (``available_if``), which
    ``isinstance`` always counts as present from Python 3.12 on. An attribute that is False counts as missing.
    """
    bases = [base for base in protocol.__mro__ if base.__module__ not in ("builtins", "typing")]
    names = {name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ()))}
    return all(getattr(thing, name, False) is not False for name in names if not name.startswith("_"))
