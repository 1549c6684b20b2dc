"""Samplers: objects that hold the settings of an algorithm and update a state."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
