"""Text files take memory and time in proportion to what they hold, whatever they announce."""

import gzip
import os
import re

import numpy as np
import pytest
from _memory import memory_below

from skmanifold.datasets import _files as text_files
from skmanifold.datasets import _formats as formats
from skmanifold.datasets import dump_vocabulary, load_ldac, load_uci_docword, load_vocabulary, save_corpus

LOADERS = [load_uci_docword, load_ldac, load_vocabulary]


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def refused(read, sentence, most=24e6):
    """The error is this sentence, and the way there takes no more memory than so many bytes."""
    with memory_below(most), pytest.raises(ValueError, match=rf"{sentence}[^\n]*\.$"):
        read()


@pytest.mark.parametrize("n_documents", [20_000_000, 2**31 - 1])
def test_documents_that_are_announced_without_entries_are_refused(tmp_path, n_documents):
    path = write(tmp_path / "bag", b"%d\n1\n1\n1 1 1\n" % n_documents)
    sentence = rf"bag has {n_documents} documents for 1 entries, more than the limit of 1048576: if .*"
    refused(lambda: load_uci_docword(path), sentence + f"max_documents={n_documents}")
    refused(lambda: save_corpus(path, tmp_path / "corpus"), sentence)
    assert os.listdir(tmp_path) == ["bag"]


def test_a_header_that_announces_entries_too_is_not_believed(tmp_path):
    path = write(tmp_path / "bag", b"2000000000\n1\n900000000\n1 1 1\n1999999999 1 1\n")
    sentence = "bag has 1999999999 documents for 2 entries, more than the limit of 1048576"
    refused(lambda: save_corpus(path, tmp_path / "corpus"), sentence)
    refused(
        lambda: load_uci_docword(path), "has 2 entries, but 900000000 according to its header: it seems to be truncated"
    )
    assert os.listdir(tmp_path) == ["bag"]


def test_many_empty_documents_may_be_meant(tmp_path):
    path = write(tmp_path / "bag", b"1000000\n3\n2\n7 1 1\n900000 2 5\n")
    bag = load_uci_docword(path).data
    assert bag.shape == (1_000_000, 3)
    assert bag.nnz == 2
    assert save_corpus(path, tmp_path / "corpus").rows(899_999, 900_000).toarray().tolist() == [[0, 5, 0]]
    path = write(tmp_path / "bag", b"1500000\n3\n2\n7 1 1\n900000 2 5\n")
    assert load_uci_docword(path, max_documents=1_500_000).data.shape == (1_500_000, 3)
    with pytest.raises(ValueError, match="more than the limit of 1499999"):
        load_uci_docword(path, max_documents=1_499_999)
    for bad in (-1, 2.5, "many"):
        with pytest.raises(ValueError, match=r"^max_documents must be None or an int of at least 0; got"):
            load_uci_docword(path, max_documents=bad)


@pytest.mark.covering
@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("name", ["bag", "bag.gz"])
def test_a_line_without_end_is_refused_when_it_is_too_long(tmp_path, load, name):
    start = b"1\n1\n1\n" if load is load_uci_docword else b"0\n0\n0\n"
    path = write(tmp_path / name, start + b" " * (40 << 20))
    limit = 1 << 24 if load is load_ldac else 1 << 20
    sentence = rf"{name}, line 4: the line has more than {limit} bytes|expands to more than 200 times its \d+ bytes"
    refused(lambda: load(path), sentence, 60e6)


@pytest.mark.parametrize("block", [1 << 19, 1000, 7])
def test_the_limit_of_a_line_is_exact(tmp_path, block, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", block)
    monkeypatch.setattr(formats, "_LONGEST_DOCUMENT", 4_000 if block < 4_000 else 1 << 19)
    n = formats._LONGEST_DOCUMENT
    path = write(tmp_path / "bag", b"0\n" + b"1 0:1".ljust(n) + b"\n0\n")
    assert load_ldac(path).data.shape == (3, 1)
    path = write(tmp_path / "bag", b"0\n" + b"1 0:1".ljust(n + 1) + b"\n0\n")
    with pytest.raises(ValueError, match=rf"bag, line 2: the line has more than {n} bytes\.$"):
        load_ldac(path)


@pytest.mark.short_cases("load_vocabulary")
@pytest.mark.parametrize("load", LOADERS)
def test_a_gzip_file_that_expands_beyond_what_texts_do_is_refused(tmp_path, load):
    line = b"1 1 1\n" if load is load_uci_docword else b"0\n"
    start = b"1\n1\n99999999\n" if load is load_uci_docword else b""
    path = write(tmp_path / "bag.gz", start + line * ((40 << 20) // len(line)))
    refused(lambda: load(path), r"bag.gz expands to more than 200 times its \d+ bytes, which texts do not", 400e6)


def test_a_word_that_is_repeated_without_end_takes_no_memory_of_its_own(tmp_path):
    n = 2_000_000
    path = write(tmp_path / "bag", b"3\n7\n%d\n" % n + b"2 3 1\n" * n)
    refused(lambda: save_corpus(path, tmp_path / "corpus"), "bag has a word of document 2 more than once", 40e6)


def test_a_long_document_is_joined_once(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", 64)
    columns = np.arange(5_000)
    lines = b"".join(b"2 %d 3\n" % (column + 1) for column in columns)
    path = write(tmp_path / "bag", b"3\n5000\n5001\n" + lines + b"3 7 1\n")
    joined, concatenate = [], np.concatenate

    def counted(arrays, *args, **options):
        arrays = list(arrays)
        joined.append(sum(map(len, arrays)))
        return concatenate(arrays, *args, **options)

    monkeypatch.setattr("skmanifold.datasets._save_corpus.np.concatenate", counted)
    corpus = save_corpus(path, tmp_path / "corpus")
    monkeypatch.undo()
    assert sum(joined) < 20 * len(columns)
    np.testing.assert_array_equal(corpus.counts(1, 2).indices, columns)
    assert corpus.n_tokens == 15_001


def test_a_vocabulary_is_read_no_further_than_there_are_columns(tmp_path):
    path = write(tmp_path / "bag", b"1\n3\n1\n1 1 1\n")
    words = tmp_path / "words"
    dump_vocabulary([f"word{v}" for v in range(1_000_000)], words)
    sentence = re.escape(str(words)) + r" has more words than the 3 that .*bag needs"
    refused(lambda: load_uci_docword(path, vocabulary=words), sentence, 12e6)
