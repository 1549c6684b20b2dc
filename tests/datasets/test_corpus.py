import errno
import gzip
import json
import os
import pickle
import re
import resource
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.datasets import (
    Corpus,
    dump_uci_docword,
    dump_vocabulary,
    make_lda_corpus,
    open_corpus,
    save_corpus,
)
from skmanifold.datasets import _formats as formats
from skmanifold.datasets import _save_corpus as writer

COUNTS = np.array([[0, 0, 0, 0], [2, 0, 1, 0], [0, 0, 0, 0], [0, 12, 300, 1], [1, 0, 0, 0], [0, 0, 0, 0]])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "corpus"


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


def tokens(row):
    return np.repeat(np.arange(len(row)), row)[::-1]


def reused_arrays(counts):
    """Full rows, each in the arrays of the one before; zeros are explicit."""
    n = counts.shape[1]
    row = sp.csr_array((np.zeros(n, dtype=np.int32), np.arange(n), [0, n]), shape=(1, n))
    for row.data[:] in counts:
        yield row


def duplicates(counts):
    """The same in COO, of ones of a type in which they cannot add up."""
    rows, columns = np.nonzero(counts)
    sizes = counts[rows, columns]
    where = (np.repeat(rows, sizes), np.repeat(columns, sizes))
    return sp.coo_array((np.ones(sizes.sum(), dtype=np.int8), where), shape=counts.shape)


def unsorted(counts):
    """The same in CSR with columns backwards, a zero at the end of each row, and all counts in two halves."""
    n = counts.shape[1]
    halves = np.concatenate((counts[:, ::-1] // 2, counts - counts // 2, np.zeros((len(counts), 1), int)), axis=1)
    columns = np.concatenate((np.arange(n)[::-1], np.arange(n), [0]))
    indptr = np.arange(len(counts) + 1) * len(columns)
    return sp.csr_array((halves.ravel(), np.tile(columns, len(counts)), indptr), shape=counts.shape)


KINDS = {
    "mappings": lambda X: (dict(reversed([(v, int(n)) for v, n in enumerate(row) if n])) for row in X),
    "mappings with zeros": lambda X: [dict(enumerate(row)) for row in X],
    "counters of tokens": lambda X: (Counter(tokens(row).tolist()) for row in X),
    "token arrays": lambda X: (tokens(row) for row in X),
    "uint8 tokens": lambda X: (tokens(row).astype(np.uint8) for row in X),
    "token lists": lambda X: [tokens(row).tolist() for row in X],
    "sparse rows": lambda X: (sp.csr_matrix(X)[i] for i in range(len(X))),
    "flat sparse rows": lambda X: (sp.csr_array(X)[i] for i in range(len(X))),
    "one matrix again and again": reused_arrays,
    "sparse blocks": lambda X: (sp.csc_array(X[start : start + 4]) for start in range(0, len(X), 4)),
    "dense blocks": lambda X: (X[start : start + 4].astype(np.float32) for start in range(0, len(X), 4)),
    "of all kinds": lambda X: (
        row[None] if i % 3 == 0 else tokens(row) if i % 3 == 1 else dict(enumerate(row / 1.0))
        for i, row in enumerate(X)
    ),
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "duplicates": duplicates,
    "unsorted": unsorted,
    "unsorted block": lambda X: [unsorted(X)],
    "dense": np.asarray,
    "float": lambda X: X.astype(np.float64),
}
LARGE = make_lda_corpus(60, 120, 3, mean_length=40, random_state=0).data.toarray()


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
@pytest.mark.parametrize("counts", [COUNTS, LARGE], ids=["small", "corpus"])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_of_every_kind_come_back_wherever_chunks_end(path, kind, counts, chunk, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", chunk)
    documents = KINDS[kind](counts)
    assert_holds(save_corpus(documents, path, n_features=counts.shape[1]), counts)
    assert_holds(open_corpus(str(path)), counts)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 19])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
@pytest.mark.parametrize("name", ["docword.txt", "docword.txt.gz"])
@pytest.mark.parametrize("counts", [COUNTS, LARGE], ids=["small", "corpus"])
def test_docword_files_come_back_wherever_blocks_end(tmp_path, path, name, counts, chunk, block, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", chunk)
    monkeypatch.setattr(formats, "_BLOCK", block)
    dump_uci_docword(counts, tmp_path / name)
    assert_holds(save_corpus(tmp_path / name, path), counts)


@pytest.mark.parametrize(
    ("documents", "shape"),
    [
        ([], (0, 0)),
        ([[], {}], (2, 0)),
        (np.zeros((0, 5), dtype=int), (0, 5)),
        (sp.csr_array((0, 5)), (0, 5)),
        (sp.csr_array((3, 5)), (3, 5)),
        (np.zeros((4, 0)), (4, 0)),
        ([np.zeros((1, 3)), sp.csr_array((2, 7)), {4: 1}], (4, 7)),
        ([np.zeros((1, 3)), {4: 1, 8: 0}], (2, 5)),
        (b"0\n3\n0\n", (0, 3)),
        (b"4\n3\n0\n", (4, 3)),
    ],
)
def test_empty_documents_and_columns_keep_their_places(tmp_path, path, documents, shape):
    if isinstance(documents, bytes):
        (tmp_path / "bag").write_bytes(documents)
        documents = tmp_path / "bag"
    corpus = save_corpus(documents, path)
    assert corpus.shape == shape
    assert corpus.rows(0, shape[0]).shape == shape
    assert corpus.n_tokens in (0, 1)


@pytest.mark.parametrize("largest", [1, 255, 256, 65535, 65536, 2**31 - 1])
@pytest.mark.parametrize("place", [0, 10, 29])
def test_counts_take_the_smallest_type_wherever_the_largest_comes(path, largest, place, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", 4)
    counts = np.ones((30, 2), dtype=np.int64)
    counts[place, 1] = largest
    counts[min(place + 3, 29), 0] = min(largest, 300)
    corpus = save_corpus((row[None] for row in counts), path)
    assert_holds(corpus, counts)
    needed = np.dtype(np.uint8 if counts.max() < 256 else np.uint16 if counts.max() < 65536 else np.int32)
    assert np.load(path / "counts.npy").dtype == needed
    assert set(os.listdir(path)) == {"header.json", "indptr.npy", "tokens.npy", "indices.npy", "counts.npy"}


def test_files_are_plain_npy_arrays_in_csr_order(path):
    save_corpus(COUNTS, path)
    csr = sp.csr_array(COUNTS)
    for name, values in (("indptr", csr.indptr), ("indices", csr.indices), ("counts", csr.data)):
        np.testing.assert_array_equal(np.load(path / f"{name}.npy"), values)


@pytest.mark.parametrize("chunk", [64, 1 << 14, 1 << 18])
def test_writing_leaves_its_argument_alone(path, chunk, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", chunk)
    X = unsorted(LARGE)
    X.indices = X.indices.astype(np.int32)
    given = [part.copy() for part in (X.data, X.indices, X.indptr)]
    for documents in (X, [X], X.tocsc(), X.toarray()):
        save_corpus(documents, path, overwrite=True)
    for kept, part in zip((X.data, X.indices, X.indptr), given, strict=True):
        np.testing.assert_array_equal(kept, part)


@pytest.mark.parametrize("size", [0, 10**15])
def test_header_of_an_array_is_as_long_for_every_size(tmp_path, size):
    with writer._GrowingArray(tmp_path / "a.npy", "<i4") as array:
        before = array._header()
        array.size = size
        assert len(array._header()) == len(before) == 128


def test_memory_does_not_grow_with_the_corpus(path, tmp_path):
    block = sp.csr_array(make_lda_corpus(1000, 2000, 5, mean_length=60, random_state=0).data)
    dump_uci_docword(sp.vstack([block] * 12), tmp_path / "docword.txt")
    documents = {
        "blocks": lambda n: (block.copy() for _ in range(n)),
        "tokens": lambda n: (tokens(row) for _ in range(n // 4) for row in block.toarray()),
        "docword": lambda n: tmp_path / "docword.txt",
    }
    save_corpus(documents["blocks"](1), path)
    for name, make in documents.items():
        n = 60 if name == "blocks" else 12
        tracemalloc.start()
        corpus = save_corpus(make(n), path, overwrite=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 24e6, name
        if name == "blocks":
            assert 8 * corpus.nnz > 18e6
    tracemalloc.start()
    for start, stop in corpus.pieces(10_000):
        corpus.counts(start, stop)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6


BAD_DOCUMENTS = {
    "negative": (ValueError, lambda: {1: -1}, "the count -1 of column 1 is not a whole number from 0 to 2147483647."),
    "fraction": (ValueError, lambda: {1: 0.5}, "the count 0.5 of column 1 is not a whole number from 0 to 2147483647."),
    "nan": (ValueError, lambda: np.array([[0, np.nan]]), "the count nan of column 1 is not a whole number"),
    "infinite": (ValueError, lambda: sp.csr_array([[0, np.inf]]), "the count inf of column 1 is not a whole number"),
    "half": (ValueError, lambda: np.array([[np.inf]], dtype=np.float16), "the count inf of column 0 is not"),
    "large": (ValueError, lambda: {0: 2**31}, "the count 2147483648 of column 0 is not a whole number"),
    "large float": (ValueError, lambda: np.array([[2.0**31]], dtype=np.float32), "the count 2147483648 of column 0"),
    "unsigned": (ValueError, lambda: np.array([[2**64 - 1]], dtype=np.uint64), "the count 1.844674407e+19 of column 0"),
    "cancelling": (ValueError, lambda: unsorted(np.array([[3, 0, 2]])) * -1, "the count -1 of column 2 is not"),
    "sum": (ValueError, lambda: unsorted(np.array([[2**31 + 2]])), "the counts of column 0 add up to more than 2147"),
    "column": (ValueError, lambda: [3, 4], "column 4 is outside 0..3."),
    "negative column": (ValueError, lambda: {-1: 1}, "column -1 is outside 0..3."),
    "wide": (ValueError, lambda: np.zeros((1, 5)), "is in a matrix of 5 columns, more than 4."),
    "text": (TypeError, lambda: "words", "is neither a mapping from columns to counts, nor columns (ints)"),
    "words": (TypeError, lambda: ["a", "b"], "is neither a mapping"),
    "word counts": (TypeError, lambda: {"a": 1}, "is neither a mapping"),
    "word as count": (TypeError, lambda: {1: "a"}, "counts must be numbers; got the type <U1."),
    "complex": (TypeError, lambda: np.array([[1j]]), "counts must be numbers; got the type complex128."),
    "pairs": (TypeError, lambda: [(0, 2), (1, 1)], "is neither a mapping"),
    "ragged": (TypeError, lambda: [[0, 2], [1]], "is neither a mapping"),
    "float tokens": (TypeError, lambda: np.array([0.0, 1.0]), "is neither a mapping"),
    "float columns": (TypeError, lambda: {1.0: 2}, "is neither a mapping"),
    "mask": (TypeError, lambda: np.array([True, False]), "is neither a mapping"),
    "number": (TypeError, lambda: 3, "is neither a mapping"),
    "numpy number": (TypeError, lambda: np.int64(3), "is neither a mapping"),
    "none": (TypeError, lambda: None, "is neither a mapping"),
    "cube": (TypeError, lambda: np.zeros((1, 1, 1), dtype=int), "is neither a mapping"),
}


@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_what_is_no_document_is_refused_by_its_number_and_nothing_is_left(path, case, chunk, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", chunk)
    kind, make, sentence = BAD_DOCUMENTS[case]
    documents = [{0: 1}, [], COUNTS[:2], [1, 1], make(), {0: 1}]
    with pytest.raises(kind, match=rf"^Document 5:? {re.escape(sentence)}"):
        save_corpus(iter(documents), path, n_features=4)
    assert os.listdir(path.parent) == []


def test_a_bad_count_is_named_by_its_place_within_a_block(path, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", 5)
    for convert in (np.asarray, sp.csr_array, sp.csc_array):
        X = np.ones((9, 3))
        X[6, 1] = 1.5
        with pytest.raises(ValueError, match=r"^Document 7: the count 1\.5 of column 1 "):
            save_corpus([{0: 1}, convert(X)], path)
    with pytest.raises(TypeError, match=r"^documents must be an iterable, a matrix or the path .* got 3\.$"):
        save_corpus(3, path)
    assert os.listdir(path.parent) == []


BAD_DOCWORD = [
    (b"3\n4\n3\n1 1 2\n3 1 1\n2 1 1\n", ", line 6: docID 2 comes after 3, but the file must be sorted by docID."),
    (b"3\n4\n2\n2 1 2\n1 1 1\n", ", line 5: docID 1 comes after 2, but the file must be sorted by docID."),
    (b"3\n4\n3\n2 3 2\n2 1 1\n2 3 1\n", " has word 3 of document 2 more than once."),
    (b"3\n4\n2\n1 1 2\n1 5 1\n", ", line 5: wordID 5 is outside 1..4."),
    (b"3\n4\n2\n1 1 2\n1 2 0\n", ", line 5: count 0 is outside 1..2147483647."),
    (b"3\n4\n2\n1 1 2\n", " announces 2 entries but holds 1: it seems to have been cut."),
    (b"3\n4\n2\n1 1 2\n1 2 3", ", line 5: the line does not end, so the file seems to have been cut."),
    (b"3\n4 4\n", ", line 2: expected the number of words (W), got '4 4'."),
]


@pytest.mark.parametrize("block", [1, 7, 1 << 19])
@pytest.mark.parametrize(("content", "sentence"), BAD_DOCWORD)
def test_bad_docword_files_are_refused_by_their_line_and_nothing_is_left(
    tmp_path, content, sentence, block, monkeypatch
):
    monkeypatch.setattr(formats, "_BLOCK", block)
    for name, stored in (("bag.txt", content), ("bag.txt.gz", gzip.compress(content))):
        bag = tmp_path / name
        bag.write_bytes(stored)
        with pytest.raises(ValueError, match=f"^{re.escape(f'{bag}{sentence}')}$"):
            save_corpus(bag, tmp_path / "corpus")
        bag.unlink()
    assert os.listdir(tmp_path) == []


def test_words_of_a_docword_document_may_come_in_any_order(tmp_path, path):
    (tmp_path / "bag").write_bytes(b"2\n4\n4\n1 3 1\n1 1 2\n2 4 5\n2 2 7\n")
    np.testing.assert_array_equal(
        save_corpus(tmp_path / "bag", path).rows(0, 2).toarray(), [[2, 0, 1, 0], [0, 7, 0, 5]]
    )


class Interrupted:
    """Documents that end in an error after some have reached the disk."""

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        for _ in range(50):
            yield COUNTS
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyboardInterrupt(), OSError(errno.EIO, "mine")])
@pytest.mark.parametrize("old", [False, True])
def test_interrupted_writing_leaves_nothing_and_an_old_corpus_as_it_was(path, error, old, monkeypatch):
    monkeypatch.setattr(writer, "_CHUNK", 8)
    if old:
        save_corpus(LARGE, path)
    with pytest.raises(type(error)) as caught:
        save_corpus(Interrupted(error), path, overwrite=True)
    assert caught.value is error
    assert os.listdir(path.parent) == [path.name] * old
    if old:
        assert_holds(open_corpus(path), LARGE)


@pytest.mark.parametrize("step", [0, 1])
def test_interrupted_renaming_brings_an_old_corpus_back(path, step, monkeypatch):
    save_corpus(LARGE, path)
    rename, calls = os.rename, []

    def interrupted(source, target):
        if len(calls) == step:
            calls.append(None)
            raise KeyboardInterrupt
        calls.append(None)
        rename(source, target)

    monkeypatch.setattr(writer.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_corpus(COUNTS, path, overwrite=True)
    assert os.listdir(path.parent) == [path.name]
    assert_holds(open_corpus(path), LARGE)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("call", ["append", "widen", "finish", "sync"])
def test_full_disk_is_told_in_one_sentence_and_nothing_is_left(path, call, old, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    if old:
        save_corpus(LARGE, path)
    monkeypatch.setattr(*((writer.os, "fsync") if call == "sync" else (writer._GrowingArray, call)), full)
    with pytest.raises(OSError, match="There is no room for all of the corpus, and nothing of it was kept") as caught:
        save_corpus(COUNTS, path, overwrite=True)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert os.listdir(path.parent) == [path.name] * old
    if old:
        assert_holds(open_corpus(path), LARGE)


def test_files_that_truly_cannot_grow_leave_nothing(path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="There is no room for all of the corpus, and nothing of it was kept"):
            save_corpus((LARGE for _ in range(1000)), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(path.parent) == []


def test_only_a_corpus_is_replaced_and_only_when_asked(path):
    save_corpus(COUNTS, path)
    never = (1 / 0 for _ in range(1))  # refused before anything is read
    with pytest.raises(FileExistsError, match=r"corpus exists; pass overwrite=True to replace the corpus\.$"):
        save_corpus(never, path)
    assert_holds(save_corpus(LARGE, path, overwrite=True), LARGE)
    assert os.listdir(path.parent) == [path.name]
    (path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"corpus exists and is not a corpus alone, so it is not replaced\.$"):
        save_corpus(never, path, overwrite=True)
    for foreign in (path.parent / "folder", path.parent / "file"):
        foreign.mkdir() if foreign.name == "folder" else foreign.write_text("mine")
        with pytest.raises(FileExistsError, match=r"exists and is not a corpus alone, so it is not replaced\.$"):
            save_corpus(never, foreign, overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"nowhere, in which the corpus would be written, is no folder\.$"):
        save_corpus(COUNTS, path.parent / "nowhere" / "corpus")


def test_a_corpus_may_be_made_of_itself(path):
    corpus = save_corpus(LARGE, path)
    halves = (corpus.rows(start, stop)[::2] for start, stop in [(0, 30), (30, 60)])
    assert_holds(save_corpus(halves, path, overwrite=True), LARGE[::2])
    with pytest.raises(ValueError, match=r"corpus was replaced after this corpus was opened; open it again\.$"):
        corpus.counts(0, 3)


@pytest.mark.parametrize("n_tokens", [1, 2, 3, 5, 16, 40, 400, 10**7, 2**40])
@pytest.mark.parametrize("counts", [COUNTS, LARGE, COUNTS[[0, 2]], COUNTS[:0]])
def test_pieces_are_all_documents_and_as_long_as_they_can_be(path, counts, n_tokens):
    corpus = save_corpus(counts, path)
    pieces = corpus.pieces(n_tokens)
    assert [row for piece in pieces for row in range(*piece)] == list(range(len(counts)))
    lengths = [counts[start:stop].sum() for start, stop in pieces]
    for (start, stop), length in zip(pieces, lengths, strict=True):
        assert length <= n_tokens or stop == start + 1
        assert stop == len(counts) or length + counts[stop].sum() > n_tokens


def test_what_is_outside_is_refused(path):
    corpus = save_corpus(COUNTS, path)
    for start, stop in ((-1, 2), (3, 2), (0, 7), (7, 7)):
        for read in (corpus.counts, corpus.rows):
            with pytest.raises(IndexError, match=f"^Documents {start} to {stop} are not within the 6 of "):
                read(start, stop)
    for n_tokens in (0, -1, 2.5):
        with pytest.raises(ValueError, match=f"^n_tokens must be an int of at least 1; got {n_tokens}"):
            corpus.pieces(n_tokens)
    for n_features in (-1, 2.5, 2**31):
        with pytest.raises(ValueError, match=f"^n_features must be None or an int of at least 0; got {n_features}"):
            save_corpus(COUNTS, path, n_features=n_features, overwrite=True)


def test_arrays_that_were_read_belong_to_the_reader(path):
    corpus = save_corpus(COUNTS, path)
    for part in corpus.counts(1, 4)[:3]:
        part[:] = 0
    assert_holds(corpus, COUNTS)
    with pytest.raises(ValueError, match="read-only"):
        corpus.token_start[0] = 1


def test_a_pickle_is_the_path_alone_wherever_it_is_opened(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    save_corpus(LARGE, path.name)
    corpus = open_corpus(path.name)
    stored = pickle.dumps(corpus)
    assert len(stored) < 100 + len(str(path))
    monkeypatch.chdir("/")
    again = pickle.loads(stored)
    assert again.path == path.resolve()
    assert_holds(again, LARGE)


def test_repr_tells_what_there_is(path):
    assert repr(save_corpus(COUNTS, path)) == f"Corpus({str(path)!r}: 6 documents, 4 words, 317 tokens)"


def test_vocabulary_is_saved_and_gives_the_number_of_columns(path):
    words = ["a", "", "naïve", "\u2028", "e"]
    corpus = save_corpus([[1, 2]], path, vocabulary=np.array(words, dtype=object))
    assert corpus.shape == (1, 5)
    assert corpus.vocabulary == words
    assert pickle.loads(pickle.dumps(corpus)).vocabulary == words
    assert save_corpus([[1, 2]], path, n_features=5, overwrite=True).vocabulary is None
    dump_vocabulary(words, path.parent / "words.gz")
    assert save_corpus([[1, 2]], path, vocabulary=path.parent / "words.gz", overwrite=True).vocabulary == words


def test_vocabulary_must_fit_the_documents(tmp_path, path):
    dump_uci_docword(COUNTS, tmp_path / "bag")
    with pytest.raises(ValueError, match=r"^The vocabulary has 3 words but n_features is 4\.$"):
        save_corpus(COUNTS, path, n_features=4, vocabulary=list("abc"))
    for words in ("abc", "abcde"):
        with pytest.raises(ValueError, match=rf"^The vocabulary has {len(words)} words but .*bag needs 4\.$"):
            save_corpus(tmp_path / "bag", path, vocabulary=list(words))
    with pytest.raises(ValueError, match=r"^Document 0 is in a matrix of 4 columns, more than 3\.$"):
        save_corpus(COUNTS, path, vocabulary=list("abc"))
    with pytest.raises(ValueError, match=r"^Word 1, 3, is not a str without line breaks\.$"):
        save_corpus(COUNTS, path, vocabulary=["a", 3, "b", "c"])
    assert os.listdir(tmp_path) == ["bag"]
    assert save_corpus(tmp_path / "bag", path, vocabulary=list("abcd")).vocabulary == list("abcd")


def test_a_corpus_that_was_cut_or_lacks_a_file_is_refused(path):
    save_corpus(COUNTS, path, vocabulary=list("abcd"))
    for name in set(os.listdir(path)) - {"header.json"}:
        content = (path / name).read_bytes()
        for damaged in (content[:-1], content + b"0", b""):
            (path / name).write_bytes(damaged)
            sentence = f"{path} is damaged: {name} has {len(damaged)} bytes, not the {len(content)} written."
            with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
                open_corpus(path)
        (path / name).unlink()
        with pytest.raises(ValueError, match=f"^{re.escape(f'{path} is damaged: {name} is missing.')}$"):
            open_corpus(path)
        (path / name).write_bytes(content)
    assert_holds(open_corpus(path), COUNTS)


def test_a_corpus_whose_files_do_not_belong_together_is_refused(path):
    save_corpus(COUNTS, path)
    for name in ("indices.npy", "tokens.npy"):
        content = (path / name).read_bytes()
        for damaged in (bytes(len(content)), content[:128] + bytes(len(content) - 129) + b"\1"):
            (path / name).write_bytes(damaged)
            if name == "tokens.npy" or damaged[:128] != content[:128]:
                with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is damaged: .*{name}"):
                    open_corpus(path)
        (path / name).write_bytes(content)


def test_a_file_cut_after_opening_is_noticed(path):
    corpus = save_corpus(COUNTS, path)
    os.truncate(path / "counts.npy", 130)
    with pytest.raises(ValueError, match=r"is damaged: counts.npy has been cut since it was opened\.$"):
        corpus.counts(0, 6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "has version 2 of the format, and this release reads up to 1: update."),
        ({"format": "other"}, "is not a corpus: its header.json does not name the format 'skmanifold corpus'."),
        ({"version": None}, "is damaged: its header.json is incomplete."),
        ({"n_tokens": -1}, "is damaged: its header.json is incomplete."),
        ({"n_rows": "6"}, "is damaged: its header.json is incomplete."),
        ({"files": {}}, "is damaged: its header.json is incomplete."),
        (
            {"files": dict.fromkeys(("indptr.npy", "tokens.npy", "indices.npy", "counts.npy"))},
            "is damaged: its header.",
        ),
        ({"n_rows": 5}, "is damaged: indptr.npy is not the array that header.json describes."),
        ({"n_tokens": 5}, "is damaged: indptr.npy and tokens.npy do not add up to what header.json says."),
    ],
)
def test_a_newer_or_foreign_header_is_refused_in_one_sentence(path, change, sentence):
    save_corpus(COUNTS, path)
    header = path / "header.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | change))
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path} {sentence}')}"):
        open_corpus(path)


def test_what_is_no_corpus_is_refused(path):
    with pytest.raises(FileNotFoundError, match=r"^There is no corpus at .*corpus\.$"):
        open_corpus(path)
    path.mkdir()
    with pytest.raises(ValueError, match=r"corpus is not a corpus: it has no header\.json\.$"):
        open_corpus(path)
    for content in (b"{", b"\xff", b"[]"):
        (path / "header.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"corpus is not a corpus: its header\.json "):
            open_corpus(path)
    with pytest.raises(ValueError, match=r"is not a corpus: it has no header\.json\.$"):
        open_corpus(path / "header.json")
