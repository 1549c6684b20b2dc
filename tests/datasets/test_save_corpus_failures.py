import errno
import gzip
import os
import re

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.datasets import _documents as entries
from skmanifold.datasets import _files as text_files
from skmanifold.datasets import _save_corpus as writer
from skmanifold.datasets import (
    open_corpus,
    save_corpus,
)

from ._on_disk import COUNTS, LARGE, assert_holds, unsorted

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


@pytest.mark.covering
@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_what_is_no_document_is_refused_by_its_number_and_nothing_is_left(path, case, chunk, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", chunk)
    kind, make, sentence = BAD_DOCUMENTS[case]
    documents = [{0: 1}, [], COUNTS[:2], [1, 1], make(), {0: 1}]
    with pytest.raises(kind, match=rf"^Document 5:? {re.escape(sentence)}"):
        save_corpus(iter(documents), path, n_features=4)
    assert os.listdir(path.parent) == []


def test_a_bad_count_is_named_by_its_place_within_a_block(path, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", 5)
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
]


@pytest.mark.parametrize("block", [1, 7, 1 << 19])
@pytest.mark.parametrize(("content", "sentence"), BAD_DOCWORD)
def test_bad_docword_files_are_refused_by_their_line_and_nothing_is_left(
    tmp_path, content, sentence, block, monkeypatch
):
    monkeypatch.setattr(text_files, "_BLOCK", block)
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
    monkeypatch.setattr(entries, "_CHUNK", 8)
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

    monkeypatch.setattr(writer, "exchange", lambda *folders: False)  # as on other systems than Linux
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
    monkeypatch.setattr(*((writer.os, "fsync") if call == "sync" else (writer.GrowingArray, call)), full)
    with pytest.raises(OSError, match="There is not enough space for the corpus, so it was not saved") as caught:
        save_corpus(COUNTS, path, overwrite=True)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert os.listdir(path.parent) == [path.name] * old
    if old:
        assert_holds(open_corpus(path), LARGE)


def test_files_that_truly_cannot_grow_leave_nothing(path):
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="There is not enough space for the corpus, so it was not saved"):
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
    with pytest.raises(
        FileExistsError, match=r"corpus exists and contains something other than a corpus, so it is not replaced\.$"
    ):
        save_corpus(never, path, overwrite=True)
    for foreign in (path.parent / "folder", path.parent / "file"):
        foreign.mkdir() if foreign.name == "folder" else foreign.write_text("mine")
        with pytest.raises(
            FileExistsError, match=r"exists and contains something other than a corpus, so it is not replaced\.$"
        ):
            save_corpus(never, foreign, overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"nowhere of the corpus does not exist\.$"):
        save_corpus(COUNTS, path.parent / "nowhere" / "corpus")


def test_a_corpus_may_be_made_of_itself(path):
    corpus = save_corpus(LARGE, path)
    halves = (corpus.rows(start, stop)[::2] for start, stop in [(0, 30), (30, 60)])
    assert_holds(save_corpus(halves, path, overwrite=True), LARGE[::2])
    with pytest.raises(ValueError, match=r"corpus was replaced after this corpus was opened; open it again\.$"):
        corpus.counts(0, 3)
