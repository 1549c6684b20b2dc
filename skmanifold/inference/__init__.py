"""Running a sampler on a model: passes, chains, traces; and inference for new rows given what was learned."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
