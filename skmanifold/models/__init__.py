"""Models and targets: the protocols between models and samplers, compatibility checks, and custom densities."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
