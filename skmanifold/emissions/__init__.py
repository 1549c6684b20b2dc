"""Emissions: how rows of a mixture, or tokens of an admixture, are distributed given their component."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
