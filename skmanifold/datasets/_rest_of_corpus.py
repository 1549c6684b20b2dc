"""A corpus on disk without some of its documents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b

import numpy as np
import scipy.sparse as sp

from ..sparse.counts import Counts
from ._corpus import Corpus

_TOKENS_AT_ONCE = 1 << 22


class RestOfCorpus(Corpus):
    """The other documents of a corpus; it has the attributes and methods of a corpus, and reads the same files.

    Parameters
    ----------
    whole : Corpus
        The corpus.
    left_out : ndarray of int64
        Indices of the documents to leave out, sorted.
    nnz : int
        Number of pairs of the other documents and their words.
    """

    def __init__(self, whole: Corpus, left_out: np.ndarray, nnz: int) -> None:
        self._whole, self._left_out = whole, left_out
        self._kept = np.setdiff1d(np.arange(len(whole)), left_out, assume_unique=True)
        lengths = np.diff(whole.token_start)[self._kept]
        self.token_start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self.token_start.flags.writeable = False
        self.path = whole.path
        self.shape = (len(self._kept), whole.shape[1])
        self.nnz, self.n_tokens = nnz, int(self.token_start[-1])

    def __reduce__(self) -> tuple:
        return RestOfCorpus, (self._whole, self._left_out, self.nnz)

    @cached_property
    def vocabulary(self) -> list[str] | None:
        """The words of the whole corpus."""
        return self._whole.vocabulary

    @cached_property
    def digest(self) -> str:
        """A digest of the whole corpus and of what is left out."""
        return blake2b(self._whole.digest.encode() + self._left_out.tobytes(), digest_size=16).hexdigest()

    def _counts_of(self, start: int, stop: int) -> Counts:
        """The counts of a range of the documents that are kept."""
        if start == stop:
            return self._whole.counts(0, 0)
        chosen = self._kept[start:stop]
        return self._whole.counts(int(chosen[0]), int(chosen[-1]) + 1).take(chosen - chosen[0])


def hold_out_documents(corpora: Sequence[Corpus], documents: np.ndarray) -> tuple[list[Corpus], sp.csr_array]:
    """Corpora without some documents, and these documents in memory; they are read piece by piece.

    Parameters
    ----------
    corpora : sequence of Corpus
        One after the other.
    documents : ndarray of int64
        Indices of the documents in all corpora, sorted.

    Returns
    -------
    kept : list of Corpus
        The other documents.
    held : csr_array of shape (len(documents), n_features)
        The counts of the documents.
    """
    kept: list[Corpus] = []
    held, first = [], 0
    for corpus in corpora:
        chosen = documents[(documents >= first) & (documents < first + len(corpus))] - first
        first += len(corpus)
        found = [sp.csr_array((0, corpus.shape[1]), dtype=np.int32)]
        for start, stop in corpus.pieces(_TOKENS_AT_ONCE):
            here = chosen[(chosen >= start) & (chosen < stop)]
            if len(here):
                low = int(here[0])
                found.append(corpus.rows(low, int(here[-1]) + 1)[here - low])
        held.append(sp.vstack(found, format="csr"))
        if len(chosen) < len(corpus):
            kept.append(RestOfCorpus(corpus, chosen, corpus.nnz - held[-1].nnz) if len(chosen) else corpus)
    return kept, sp.csr_array(sp.vstack(held, format="csr"))
