"""Evaluation of fitted models: held-out likelihood, topic coherence, matching of topics, distances of subspaces."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
