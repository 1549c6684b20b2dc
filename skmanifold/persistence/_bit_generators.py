"""States of random number generators, validated because numpy does not check most of them and uses their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils._conditions import Array, Condition, OneOf, Real, Unsatisfied, Whole
from ..utils._declared import Keyed

_WORD = Whole(below=2**32)
_BIG = Whole(below=2**128)
_BUFFERED: dict[str, Condition] = {"has_uint32": Whole(below=2), "uinteger": _WORD}
_GAUSS: dict[str, Condition] = {"has_gauss": Whole(below=2), "gauss": Real()}  # of a RandomState
_STATES: dict[str, tuple[type[np.random.BitGenerator], Keyed, dict[str, Condition]]] = {
    "MT19937": (
        np.random.MT19937,
        Keyed(("key", "pos"), key=Array("uint32", "624"), pos=Whole(below=625)),
        {},
    ),
    "PCG64": (np.random.PCG64, Keyed(("state", "inc"), state=_BIG, inc=_BIG), _BUFFERED),
    "PCG64DXSM": (np.random.PCG64DXSM, Keyed(("state", "inc"), state=_BIG, inc=_BIG), _BUFFERED),
    "Philox": (
        np.random.Philox,
        Keyed(("counter", "key"), counter=Array("uint64", "4"), key=Array("uint64", "2")),
        {"buffer": Array("uint64", "4"), "buffer_pos": Whole(below=5), **_BUFFERED},
    ),
    "SFC64": (np.random.SFC64, Keyed(("state",), state=Array("uint64", "4")), _BUFFERED),
}


def make_bit_generator(state: Any) -> np.random.BitGenerator:
    """A bit generator in this state, which has the format of numpy.

    Raises
    ------
    ValueError
        If the state is not valid.
    """
    if not isinstance(state, dict) or state.get("bit_generator") not in _STATES:
        raise ValueError("the state of a random number generator has an unknown type")
    name = state["bit_generator"]
    kind, inner, outer = _STATES[name]
    where = f"the state of {name}"
    Keyed(("state", *outer), bit_generator=OneOf((name,)), state=inner, **outer, **_GAUSS)(state, where, {})
    if _stands_still(name, state["state"]):
        raise Unsatisfied(where, "always gives the same number")
    made = kind()
    made.state = {key: value for key, value in state.items() if key not in _GAUSS}
    return made


def _stands_still(name: str, state: dict[str, Any]) -> bool:
    if name == "MT19937":
        return not (state["key"][0] >> 31 or state["key"][1:].any())
    return name.startswith("PCG64") and state["inc"] % 2 == 0
