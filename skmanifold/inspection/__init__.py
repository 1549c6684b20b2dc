"""Displays of fitted estimators and draws, and words of clusters; matplotlib is only imported for plots."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
