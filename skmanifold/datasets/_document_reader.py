"""Documents that are read from a file block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

from ._entries import Rows, gathered

LONGEST_NAME = 1 << 20  # characters of a document or word


class DocumentReader:
    """Documents in a file, for :func:`save_corpus` or a stream of minibatches.

    An iterable of blocks: sparse matrices of counts of shape (n, n_features), in the order of the documents, of about
    260,000 entries each. Every iteration reads the file from its beginning, so that only one block is in memory.
    :func:`read_matrix_market`, :func:`read_parquet` and :func:`read_anndata` return such objects.

    Parameters
    ----------
    shape : (int, int)
        Number of documents and of words.
    vocabulary : list of str or None
        The words, if the file has them or if they were given.
    documents : ndarray or None
        Names of the documents, if the file has them: Python strings or integers.
    rows : callable
        Returns an iterator of the documents, from the first one; internal.
    source : str
        The file, for the representation.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        vocabulary: list[str] | None,
        documents: np.ndarray | None,
        rows: Callable[[], Iterator[Rows]],
        source: str,
    ) -> None:
        self.shape, self.vocabulary, self.documents = shape, vocabulary, documents
        self._rows, self._source = rows, source

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[sp.csr_array]:
        for sizes, columns, counts, _ in gathered(self._rows()):
            indptr = [0, *sizes.cumsum()]
            yield sp.csr_array((counts, columns, indptr), shape=(len(sizes), self.shape[1]))

    def __repr__(self) -> str:
        return f"<{self.shape[0]} documents over {self.shape[1]} words in {self._source}>"
