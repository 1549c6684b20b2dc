"""Counts for corpora on disk, and what must hold of a corpus that has them."""

import json
import os
import zlib

import numpy as np
import scipy.sparse as sp

from skmanifold.datasets import Corpus, make_lda_corpus
from skmanifold.datasets import _corpus_files as corpus_files

ARRAYS = ("indptr.npy", "tokens.npy", "indices.npy", "counts.npy")
COUNTS = np.array([[0, 0, 0, 0], [2, 0, 1, 0], [0, 0, 0, 0], [0, 12, 300, 1], [1, 0, 0, 0], [0, 0, 0, 0]])
LARGE = make_lda_corpus(60, 120, 3, mean_length=40, random_state=0).data.toarray()


def assert_holds(corpus, counts):
    """All ways of reading agree with a dense array, and the array types are the kernels'."""
    assert isinstance(corpus, Corpus)
    assert corpus.shape == counts.shape
    assert len(corpus) == len(counts)
    assert corpus.nnz == np.count_nonzero(counts)
    assert corpus.n_tokens == counts.sum()
    np.testing.assert_array_equal(corpus.token_start, np.concatenate(([0], np.cumsum(counts.sum(axis=1)))))
    for start in range(0, len(counts) + 1, max(1, len(counts) // 6)):
        for stop in {start, min(start + 2, len(counts)), len(counts)}:
            rows = corpus.rows(start, stop)
            assert isinstance(rows, sp.csr_array)
            assert rows.dtype == rows.indices.dtype == rows.indptr.dtype == np.int32
            np.testing.assert_array_equal(rows.toarray(), counts[start:stop])
            found = corpus.counts(start, stop)
            assert [part.dtype for part in found[:3]] == [np.int64, np.int32, np.int32]
            assert all(part.flags.writeable and part.flags.owndata for part in found[:3])
            assert found.indptr[0] == 0
            assert found.n_features == counts.shape[1]
            checked = sp.csr_array((found.counts, found.indices, found.indptr), shape=rows.shape)
            assert checked.has_canonical_format  # which scipy looks up in a new array
            np.testing.assert_array_equal(checked.toarray(), counts[start:stop])


def unsorted(counts):
    """The same in CSR with columns backwards, a zero at the end of each row, and all counts in two halves."""
    n = counts.shape[1]
    halves = np.concatenate((counts[:, ::-1] // 2, counts - counts // 2, np.zeros((len(counts), 1), int)), axis=1)
    columns = np.concatenate((np.arange(n)[::-1], np.arange(n), [0]))
    indptr = np.arange(len(counts) + 1) * len(columns)
    return sp.csr_array((halves.ravel(), np.tile(columns, len(counts)), indptr), shape=counts.shape)


def alter_header(path, change, *, reseal=True):
    """Another header, which states its own checksum if it is sealed again."""
    header = json.loads((path / "header.json").read_text()) | change
    if reseal:
        header.pop("crc32", None)
        header["crc32"] = corpus_files._checksum(header)
    (path / "header.json").write_text(json.dumps(header))


def seal(path):
    """Make all checksums and sizes anew, as somebody would who changes a corpus on purpose."""
    header = json.loads((path / "header.json").read_text())
    sums = []
    for name in ARRAYS:
        file = corpus_files.Checksums()
        file.update(np.frombuffer((path / name).read_bytes()[128:], np.uint8))
        sums.append(file.values())
    sums = np.concatenate(sums).astype("<u4")
    (path / "checksums.npy").write_bytes(corpus_files.array_header("<u4", len(sums)) + sums.tobytes())
    header["files"]["checksums.npy"] |= {"crc32": zlib.crc32(sums.tobytes())}
    if "vocabulary.txt" in header["files"]:
        header["files"]["vocabulary.txt"]["crc32"] = zlib.crc32((path / "vocabulary.txt").read_bytes())
    for name, described in header["files"].items():
        described["bytes"] = os.stat(path / name).st_size
    (path / "header.json").write_text(json.dumps(header))
    alter_header(path, {})
