"""Callbacks of a fit: held-out scores with early stopping, and progress bars that also show the objective."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
