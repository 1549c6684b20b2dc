"""Fitted estimators whose attributes cannot be written, nor those of all objects that they hold."""

import inspect
from collections.abc import Iterator

import numpy as np


class Written(BaseException):
    """Something writes to a frozen object; no method catches this."""


class _Attributes(dict):
    """Attributes that `vars` and `cached_property` cannot write."""

    def _refuse(self, *arguments, **options):
        raise Written(f"attributes of a frozen object are written: {arguments or options}")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce_ex__(self, protocol):
        return dict, (dict(self),)


def freeze(whole, monkeypatch) -> None:
    """Let each write to an attribute of the object, or of one that it holds, raise an error."""
    frozen = {id(held): held for held in objects_in(whole)}

    def guarded(write):
        def guard(held, name, *value):
            if id(held) in frozen:
                raise Written(f"{type(held).__name__}.{name} is written")
            write(held, name, *value)

        return guard

    for kind in {type(held) for held in frozen.values()}:
        for name in ("__setattr__", "__delattr__"):
            monkeypatch.setattr(kind, name, guarded(getattr(kind, name)))
    for held in frozen.values():
        object.__setattr__(held, "__dict__", _Attributes(vars(held)))


def objects_in(whole) -> Iterator[object]:
    """An object and all that it holds, directly or not, if they have attributes."""
    seen: dict[int, object] = {}
    left = [whole]
    while left:
        held = left.pop()
        if id(held) in seen or inspect.isclass(held) or inspect.isroutine(held):
            continue
        seen[id(held)] = held
        if isinstance(held, dict):
            left += held.values()
        elif isinstance(held, list | tuple):
            left += held
        elif isinstance(held, np.ndarray):
            left += held.tolist() if held.dtype == object else []
        elif hasattr(held, "__dict__"):
            left += vars(held).values()
            yield held
