"""Distributions on spheres, Stiefel manifolds and simplexes, accurate in high dimensions and far in the tails."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
