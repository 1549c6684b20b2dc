"""What posteriors can answer: the protocols between models and samplers, the check that they meet, and users' own."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
