"""Runs of samplers on models: passes, chains, draws and distributed fits."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
