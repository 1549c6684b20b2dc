"""Evaluation of fitted models and of imputed tables.

Held-out likelihood, topic coherence, matching of topics, partitions, distances of subspaces, numbers of components, and
Rubin's rules.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
