"""Manifolds: parameter spaces with their shapes, tangent projections, geodesics and metrics."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
