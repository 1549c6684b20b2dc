"""Corpora: generators that know the truth, a real one that is on every machine, and readers of the field's files."""

from ._docstrings import load_docstrings
from ._formats import dump_ldac, dump_uci_docword, dump_vocabulary, load_ldac, load_uci_docword, load_vocabulary
from ._synthetic import make_lda_corpus

__all__ = [
    "dump_ldac",
    "dump_uci_docword",
    "dump_vocabulary",
    "load_docstrings",
    "load_ldac",
    "load_uci_docword",
    "load_vocabulary",
    "make_lda_corpus",
]
