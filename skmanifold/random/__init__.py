"""Counter-based random streams, for custom samplers, models and emissions.

A key is a 64-bit integer. `fold_in` derives the key of a purpose, chain, pass, row or feature from a parent key. A draw
is a function of a key and a counter and does not depend on previous draws, so results do not depend on the number of
threads or the order of computations. All functions except `root_key` and `subkey` may be called in kernels compiled by
numba.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
