"""Conversion of parameters that are numpy numbers, which can overflow, to Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


class PlainNumbers:
    """Private mixin of classes with parameters; it comes before the base class of scikit-learn.

    The number is converted when it is stored, so that the constructor, `set_params` and an assignment have the same
    effect, and `clone` works.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a parameter that is a numpy number is converted to a Python number."""
        if isinstance(value, (np.integer, np.floating)) and name[0] != "_" and name[-1] != "_":
            value = value.item()
        super().__setattr__(name, value)
