"""Parameters that are numpy's numbers, which overflow at their width, are kept as Python's, which do not."""

from __future__ import annotations

from typing import Any

import numpy as np


class PlainNumbers:
    """Mixin of what holds parameters; not public. Goes before scikit-learn's base class.

    The number is converted where it is stored, so that a constructor, `set_params` and an assignment do the same, and
    `clone` finds what the constructor was given.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep the value, a parameter that is a number of numpy as the equal one of Python."""
        if isinstance(value, (np.integer, np.floating)) and name[0] != "_" and name[-1] != "_":
            value = value.item()
        super().__setattr__(name, value)
