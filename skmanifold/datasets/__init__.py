"""Corpora and tables: generators that know the truth, a real corpus on every machine, readers of the field's files."""

from ._corpus import Corpus, open_corpus
from ._docstrings import load_docstrings
from ._formats import dump_ldac, dump_uci_docword, dump_vocabulary, load_ldac, load_uci_docword, load_vocabulary
from ._mixtures import make_categorical_mixture
from ._save_corpus import save_corpus
from ._spherical import make_spherical_admixture
from ._subspaces import SubspaceData, make_subspaces
from ._synthetic import make_lda_corpus

__all__ = [
    "Corpus",
    "SubspaceData",
    "dump_ldac",
    "dump_uci_docword",
    "dump_vocabulary",
    "load_docstrings",
    "load_ldac",
    "load_uci_docword",
    "load_vocabulary",
    "make_categorical_mixture",
    "make_lda_corpus",
    "make_spherical_admixture",
    "make_subspaces",
    "open_corpus",
    "save_corpus",
]
