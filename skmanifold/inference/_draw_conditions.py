"""Conditions on the draws and traces of fitted estimators."""

from __future__ import annotations

from typing import Any

from ..utils._conditions import Array
from ..utils._declared import Keyed

_TRACE = Array("float64", "n_chains n_draws", nan=True, infinite=True)
_SMALL = {"topic_weights", "concentration"}


def draws_of(*names: str, needed: tuple[str, ...] = (), **others: Any) -> Keyed:
    """Condition of the draws of all chains: some of `names` are log densities, `others` are quantities.

    Quantities of only a few numbers, and those `needed`, must be present.
    """
    return Keyed({*needed, *(_SMALL & others.keys())}, **dict.fromkeys(names, _TRACE), **others)
