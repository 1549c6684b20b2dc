import os
import pickle
import re
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from _memory import memory_below

from skmanifold.datasets import _documents as entries
from skmanifold.datasets import _files as text_files
from skmanifold.datasets import _save_corpus as writer
from skmanifold.datasets import (
    dump_uci_docword,
    dump_vocabulary,
    make_lda_corpus,
    open_corpus,
    save_corpus,
)
from skmanifold.datasets._corpus import hold_out_documents

from ._on_disk import COUNTS, LARGE, alter_header, assert_holds, unsorted


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


KINDS = {
    "mappings": lambda X: (dict(reversed([(v, int(n)) for v, n in enumerate(row) if n])) for row in X),
    "mappings with zeros": lambda X: [dict(enumerate(row)) for row in X],
    "counters of tokens": lambda X: (Counter(tokens(row).tolist()) for row in X),
    "token arrays": lambda X: (tokens(row) for row in X),
    "uint8 tokens": lambda X: (tokens(row).astype(np.uint8) for row in X),
    "token lists": lambda X: [tokens(row).tolist() for row in X],
    "sparse rows": lambda X: (sp.csr_matrix(X)[i] for i in range(len(X))),
    "flat sparse rows": lambda X: (sp.coo_array(row) for row in X),
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


@pytest.mark.covering
@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
@pytest.mark.parametrize("counts", [COUNTS, LARGE], ids=["small", "corpus"])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_of_every_kind_come_back_wherever_chunks_end(path, kind, counts, chunk, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", chunk)
    documents = KINDS[kind](counts)
    assert_holds(save_corpus(documents, path, n_features=counts.shape[1]), counts)
    assert_holds(open_corpus(str(path)), counts)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.covering
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 19])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
@pytest.mark.parametrize("name", ["docword.txt", "docword.txt.gz"])
@pytest.mark.parametrize("counts", [COUNTS, LARGE], ids=["small", "corpus"])
def test_docword_files_come_back_wherever_blocks_end(tmp_path, path, name, counts, chunk, block, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", chunk)
    monkeypatch.setattr(text_files, "_BLOCK", block)
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


@pytest.mark.covering
@pytest.mark.parametrize("largest", [1, 255, 256, 65535, 65536, 2**31 - 1])
@pytest.mark.parametrize("place", [0, 10, 29])
def test_counts_take_the_smallest_type_wherever_the_largest_comes(path, largest, place, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", 4)
    counts = np.ones((30, 2), dtype=np.int64)
    counts[place, 1] = largest
    counts[min(place + 3, 29), 0] = min(largest, 300)
    corpus = save_corpus((row[None] for row in counts), path)
    assert_holds(corpus, counts)
    needed = np.dtype(np.uint8 if counts.max() < 256 else np.uint16 if counts.max() < 65536 else np.int32)
    assert np.load(path / "counts.npy").dtype == needed
    arrays = {"indptr.npy", "tokens.npy", "indices.npy", "counts.npy", "checksums.npy"}
    assert set(os.listdir(path)) == {"header.json"} | arrays


def test_files_are_plain_npy_arrays_in_csr_order(path):
    save_corpus(COUNTS, path)
    csr = sp.csr_array(COUNTS)
    for name, values in (("indptr", csr.indptr), ("indices", csr.indices), ("counts", csr.data)):
        np.testing.assert_array_equal(np.load(path / f"{name}.npy"), values)


@pytest.mark.parametrize("chunk", [64, 1 << 14, 1 << 18])
def test_writing_leaves_its_argument_alone(path, chunk, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", chunk)
    X = unsorted(LARGE)
    X.indices = X.indices.astype(np.int32)
    given = [part.copy() for part in (X.data, X.indices, X.indptr)]
    for documents in (X, [X], X.tocsc(), X.toarray()):
        save_corpus(documents, path, overwrite=True)
    for kept, part in zip((X.data, X.indices, X.indptr), given, strict=True):
        np.testing.assert_array_equal(kept, part)


@pytest.mark.parametrize("size", [0, 10**15])
def test_header_of_an_array_is_as_long_for_every_size(tmp_path, size):
    with writer.GrowingArray(tmp_path / "a.npy", "<i4") as array:
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
        with memory_below(24e6):
            corpus = save_corpus(make(n), path, overwrite=True)
        if name == "blocks":
            assert 8 * corpus.nnz > 18e6
    with memory_below(1e6):
        for start, stop in corpus.pieces(10_000):
            corpus.counts(start, stop)


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


@pytest.mark.parametrize("left_out", [[0], [59], [3, 4, 5, 20, 59], [], list(range(1, 60))])
def test_a_corpus_without_some_documents(path, left_out, monkeypatch):
    monkeypatch.setattr("skmanifold.datasets._corpus._TOKENS_AT_ONCE", 50)
    whole = save_corpus(make_lda_corpus(60, 20, 3, random_state=0).data, path, vocabulary=[f"w{i}" for i in range(20)])
    dense, left_out = whole.rows(0, 60).toarray(), np.array(left_out, np.int64)
    (rest,), held = hold_out_documents([whole], left_out)
    expected = np.delete(dense, left_out, axis=0)
    assert np.array_equal(held.toarray(), dense[left_out])
    for corpus in (rest, pickle.loads(pickle.dumps(rest))):
        assert np.array_equal(corpus.rows(0, len(corpus)).toarray(), expected)
        assert (corpus.shape, corpus.nnz, corpus.n_tokens) == (expected.shape, (expected > 0).sum(), expected.sum())
        assert np.array_equal(np.diff(corpus.token_start), expected.sum(axis=1))
        assert corpus.vocabulary == whole.vocabulary
        for start, stop in [*corpus.pieces(30), (0, 0)]:
            assert np.array_equal(corpus.rows(start, stop).toarray(), expected[start:stop])
    assert (rest.digest == whole.digest) == (len(left_out) == 0)
    with pytest.raises(IndexError, match="not within the"):
        rest.counts(0, len(rest) + 1) if len(left_out) else whole.counts(0, 61)


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


def test_a_pickle_is_the_path_and_a_digest_wherever_it_is_opened(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    save_corpus(LARGE, path.name)
    corpus = open_corpus(path.name)
    stored = pickle.dumps(corpus)
    assert len(stored) < 150 + len(str(path))
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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "has format 2, but this release reads up to format 1: upgrade skmanifold."),
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
    alter_header(path, change)
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
