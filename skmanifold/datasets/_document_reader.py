"""Documents that are read from a file block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ._entries import Rows, gathered
from ._stamps import Stamp, first_changed, stamp_of
from ._text_files import PathLike, listed

LONGEST_NAME = 1 << 20  # characters of a document or word


class DocumentReader:
    """Documents in a file, for :func:`save_corpus` or a stream of minibatches.

    An iterable of blocks: sparse matrices of counts of shape (n, n_features), in the order of the documents, of about
    260,000 entries each. Every iteration reads the file from its beginning, so that only one block is in memory.
    A file that is modified or replaced after its reader was made raises a ValueError.
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
    stamps : dict
        The result of `stamps_of` before the shape was read.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        vocabulary: list[str] | None,
        documents: np.ndarray | None,
        rows: Callable[[], Iterator[Rows]],
        source: str,
        stamps: dict[Path, Stamp],
    ) -> None:
        self.shape, self.vocabulary, self.documents = shape, vocabulary, documents
        self._rows, self._source, self._stamps = rows, source, stamps

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[sp.csr_array]:
        parts = gathered(self._rows())
        while (part := self._next(parts)) is not None:
            sizes, columns, counts, _ = part
            indptr = [0, *sizes.cumsum()]
            yield sp.csr_array((counts, columns, indptr), shape=(len(sizes), self.shape[1]))

    def __repr__(self) -> str:
        return f"<{self.shape[0]} documents over {self.shape[1]} words in {self._source}>"

    def _next(self, parts: Iterator[Rows]) -> Rows | None:
        """The next part; a ValueError if the files are no longer those from which the shape was read."""
        try:
            return next(parts, None)
        finally:
            changed = first_changed(self._stamps)
            if changed is not None:
                raise ValueError(f"{changed} was modified or replaced after its reader was made: make a new reader.")


def stamps_of(source: PathLike | Sequence[PathLike]) -> dict[Path, Stamp]:
    """The stamps of a file, of the files in a folder, or of several of these; only files on this machine have any."""
    paths = map(Path, listed(source))
    files = [file for path in paths for file in (path.rglob("[!._]*") if path.is_dir() else [path]) if file.is_file()]
    return {file: stamp_of(file) for file in files}
