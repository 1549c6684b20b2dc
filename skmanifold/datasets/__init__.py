"""Data sets: generators with known true parameters, a corpus of docstrings, corpora on disk and file formats."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
