"""Corpora and tables: generators that know the truth, a real corpus on every machine, readers of the field's files."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
