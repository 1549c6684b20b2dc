"""Manifolds: values that know shapes, tangents, geodesics and metrics, and no data."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
