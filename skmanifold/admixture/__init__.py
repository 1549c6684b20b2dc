"""Admixture models: each row is a mixture of the same components in its own proportions."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
