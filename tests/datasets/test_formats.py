import gzip
import os
import re

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.datasets import _files as text_files
from skmanifold.datasets import _formats as formats
from skmanifold.datasets import (
    dump_ldac,
    dump_uci_docword,
    dump_vocabulary,
    load_ldac,
    load_uci_docword,
    load_vocabulary,
    make_lda_corpus,
)

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 12, 300, 0]])
UCI = b"3\n4\n4\n1 1 2\n1 3 1\n3 2 12\n3 3 300\n"
LDAC = b"2 0:2 2:1\n0\n2 1:12 2:300\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bag.txt"


def write(path, content):
    path.write_bytes(content)
    return path


def assert_same(csr, counts):
    assert isinstance(csr, sp.csr_array)
    assert csr.dtype == np.int32
    assert csr.indices.dtype == csr.indptr.dtype == np.int32
    assert csr.has_canonical_format
    assert csr.shape == counts.shape
    np.testing.assert_array_equal(csr.toarray(), counts)


def test_uci_file_is_read_as_the_format_says(path):
    bag = load_uci_docword(write(path, UCI))
    assert_same(bag.data, COUNTS)
    assert bag.vocabulary is None


def test_uci_entries_may_come_in_any_order_with_any_white_space(path):
    assert_same(
        load_uci_docword(write(path, b"3\r\n4\r\n4\r\n3  3\t300\r\n1 3 1\r\n 3 2 012 \r\n1 1 2\r\n")).data, COUNTS
    )


def test_ldac_file_is_read_as_the_format_says(path):
    bag = load_ldac(write(path, LDAC), n_features=4)
    assert_same(bag.data, COUNTS)
    assert bag.vocabulary is None
    assert_same(load_ldac(path).data, COUNTS[:, :3])


def test_ldac_ids_may_come_in_any_order_with_any_white_space(path):
    assert_same(load_ldac(write(path, b"2 2:1 0:2 \r\n0\r\n 2  2:300\t1:12\r\n"), n_features=4).data, COUNTS)


@pytest.mark.parametrize(("dump", "content"), [(dump_uci_docword, UCI), (dump_ldac, LDAC)])
@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda X: X.tolist(),
        lambda X: X.astype(np.float32),
        sp.csr_matrix,
        sp.csc_array,
        lambda X: sp.coo_array((np.full(315, 1, dtype=np.int8), expanded(X)), shape=X.shape),
    ],
    ids=["array", "list", "float", "csr_matrix", "csc_array", "duplicates"],
)
def test_writers_write_the_format_from_every_kind_of_counts(path, dump, content, convert):
    dump(convert(COUNTS), path)
    assert path.read_bytes() == content


def expanded(counts):
    rows, columns = np.nonzero(counts)
    return np.repeat(rows, counts[rows, columns]), np.repeat(columns, counts[rows, columns])


def test_writers_leave_their_argument_alone(path):
    data, indices, indptr = np.array([1, 0, 2]), np.array([1, 0, 1]), np.array([0, 3])
    X = sp.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(1, 2))
    dump_ldac(X, path)
    assert path.read_bytes() == b"1 1:3\n"
    for kept, given in zip((X.data, X.indices, X.indptr), (data, indices, indptr), strict=True):
        np.testing.assert_array_equal(kept, given)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["bag.txt", "bag.txt.gz"])
@pytest.mark.parametrize(
    "counts",
    [
        COUNTS,
        np.zeros((3, 2), dtype=int),
        np.zeros((0, 5), dtype=int),
        np.array([[2**31 - 1]]),
        make_lda_corpus(40, 300, 3, mean_length=30, random_state=0).data.toarray(),
    ],
    ids=["small", "empty documents", "no documents", "largest", "corpus"],
)
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 19])
def test_round_trips_are_exact_wherever_blocks_end(tmp_path, name, counts, block, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", block)
    monkeypatch.setattr(formats, "_WRITTEN", max(3, block))
    dump_uci_docword(counts, tmp_path / name)
    assert_same(load_uci_docword(tmp_path / name).data, counts)
    dump_ldac(counts, tmp_path / name)
    assert_same(load_ldac(tmp_path / name, n_features=counts.shape[1]).data, counts)
    assert (tmp_path / name).read_bytes()[:2] == b"\x1f\x8b" or not name.endswith(".gz")


def test_gzip_files_have_the_same_bytes_every_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        dump_ldac(COUNTS, tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


BAD_UCI = [
    (b"", "line 1: expected the number of documents (D), got ''."),
    (b"3\n4 4\n4\n", "line 2: expected the number of words (W), got '4 4'."),
    (b"3\n4\n-1\n", "line 3: expected the number of entries (NNZ), got '-1'."),
    (b"3\n4\n4", "line 3: expected the number of entries (NNZ), got '4'."),
    (b"3000000000\n4\n4\n", "line 1: the number of documents (D) is 3000000000, above 2147483647."),
    (b"3\n4\n2\n1 1 2\n", " has 1 entries, but 2 according to its header: it seems to be truncated."),
    (b"3\n4\n2\n", " has 0 entries, but 2 according to its header: it seems to be truncated."),
    (b"3\n4\n1\n1 1 2\n1 2 2\n", " has more than 1 entries, the number in its header."),
    (b"3\n4\n2\n1 1 2\n1 2 3", "line 5: the line does not end, so the file seems to be truncated."),
    (b"3\n4\n2\n1 1 2\n1 2\n", "line 5: expected 'docID wordID count' (numbers), got '1 2'."),
    (b"3\n4\n2\n1 1 2 3\n1 2\n", "line 4: expected 'docID wordID count' (numbers), got '1 1 2 3'."),
    (b"3\n4\n1\n1 1 9999999999999999999\n", "line 4: expected 'docID wordID count' (numbers), got"),
    (b"3\n4\n2\n1 1 2\n1 2 0\n", "line 5: count 0 is outside 1..2147483647."),
    (b"3\n4\n1\n1 1 2147483648\n", "line 4: count 2147483648 is outside 1..2147483647."),
    (b"3\n4\n1\n0 1 1\n", "line 4: docID 0 is outside 1..3."),
    (b"3\n4\n1\n4 1 1\n", "line 4: docID 4 is outside 1..3."),
    (b"3\n4\n1\n1 0 1\n", "line 4: wordID 0 is outside 1..4."),
    (b"3\n4\n2\n1 4 1\n1 5 1\n", "line 5: wordID 5 is outside 1..4."),
    (b"3\n4\n3\n1 4 1\n2 4 1\n1 4 1\n", " has word 4 of document 1 more than once."),
    (b"0\n4\n1\n1 1 1\n", "line 4: docID 1 is outside 1..0."),
]
BAD_LDAC = [
    (b"1 0:2\n1 0:2", "line 2: the line does not end, so the file seems to be truncated."),
    (b"1 0:2\n2 0:2\n", "line 2: expected 2 words, got 1."),
    (b"1 0:2 1:1\n", "line 1: expected 1 words, got 2."),
    (b"0\n\n0\n", "line 2: expected 'N id:count id:count ...' (numbers), got ''."),
    (b"0\n1 0:\n", "line 2: expected 'N id:count id:count ...' (numbers), got '1 0:'."),
    (b"1 0 :2\n", "line 1: expected 'N id:count id:count ...' (numbers), got '1 0 :2'."),
    (b"1:0:2\n", "line 1: expected 'N id:count id:count ...' (numbers), got '1:0:2'."),
    (b"1 0:2\n1 0:2.5\n", "line 2: expected 'N id:count id:count ...' (numbers), got '1 0:2.5'."),
    (b"1 0:2\n1 1:0\n", "line 2: count 0 is outside 1..2147483647."),
    (b"1 0:2\n2 1:1 4:1\n", "line 2: id 4 is outside 0..3."),
    (b"1 0:2\n0\n2 3:1 3:1\n", " has word 3 of document 2 more than once."),
]


@pytest.mark.covering
@pytest.mark.parametrize("block", [1, 5, 1 << 19])
@pytest.mark.parametrize(
    ("load", "content", "sentence"),
    [(load_uci_docword, *case) for case in BAD_UCI]
    + [(lambda path: load_ldac(path, n_features=4), *case) for case in BAD_LDAC],
)
def test_bad_files_are_refused_in_one_sentence_that_says_where(path, load, content, sentence, block, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", block)
    where = f"{path}, {sentence}" if sentence.startswith("line") else f"{path}{sentence}"
    with pytest.raises(ValueError, match=f"^{re.escape(where)}"):
        load(write(path, content))


@pytest.mark.parametrize(("load", "content"), [(load_uci_docword, UCI), (load_ldac, LDAC)])
def test_a_file_cut_anywhere_within_a_line_is_refused(path, load, content):
    whole_lines = {0} | {i + 1 for i, byte in enumerate(content) if byte == ord("\n")}
    for size in set(range(len(content))) - whole_lines:
        with pytest.raises(ValueError, match=re.escape(str(path))):
            load(write(path, content[:size]))


def test_a_uci_file_cut_between_lines_is_refused(path):
    lines = UCI.splitlines(keepends=True)
    for n_lines in range(len(lines)):
        with pytest.raises(ValueError, match=r"expected the number of|it seems to be truncated"):
            load_uci_docword(write(path, b"".join(lines[:n_lines])))


@pytest.mark.parametrize(
    ("load", "content"), [(load_uci_docword, UCI), (load_ldac, LDAC), (load_vocabulary, b"a\nb\n")]
)
def test_a_gzip_file_that_was_cut_or_is_none_is_refused_with_the_cause(tmp_path, load, content):
    packed = gzip.compress(content)
    path = tmp_path / "bag.txt.gz"
    for size in range(1, len(packed)):
        with pytest.raises(ValueError, match="is truncated or not a gzip file") as caught:
            load(write(path, packed[:size]))
        assert isinstance(caught.value.__cause__, (EOFError, gzip.BadGzipFile))
    with pytest.raises(ValueError, match="is truncated or not a gzip file"):
        load(write(path, content))
    damaged = bytearray(packed)
    damaged[-6] ^= 1  # in the checksum
    with pytest.raises(ValueError, match="is truncated or not a gzip file"):
        load(write(path, bytes(damaged)))


def test_a_missing_file_is_missing(path):
    for load in (load_uci_docword, load_ldac, load_vocabulary):
        with pytest.raises(FileNotFoundError):
            load(path)


@pytest.mark.parametrize("dump", [dump_uci_docword, dump_ldac])
@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([[1, -1]], r"Negative values in data passed to dump_(uci_docword|ldac)\."),
        ([[1, 0.5]], r"Data passed to dump_(uci_docword|ldac) must be whole numbers of at most 2147483647\."),
        ([[2**31]], r"Data passed to dump_(uci_docword|ldac) must be whole numbers of at most 2147483647\."),
        ([[np.nan, 1]], r"Input X contains NaN"),
        ([1, 2], r"Expected 2D array"),
    ],
)
def test_writers_refuse_what_is_no_count_and_keep_the_old_file(path, dump, counts, sentence):
    write(path, b"old")
    for X in (counts, sp.csr_array(counts)) if np.ndim(counts) == 2 else (counts,):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            dump(X, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("dump", [dump_uci_docword, dump_ldac])
@pytest.mark.parametrize("name", ["bag.txt", "bag.txt.gz"])
def test_nothing_half_written_is_left_behind(tmp_path, dump, name, monkeypatch):
    def fail(*args):
        raise OSError("no space left")

    write(tmp_path / name, b"old")
    monkeypatch.setattr(text_files.os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        dump(COUNTS, tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"old"


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.txt.gz"])
@pytest.mark.parametrize("words", [[], ["a"], ["", "naïve", "two words", "\u2028", "x\ry", ""]])
def test_vocabularies_come_back_as_they_were(tmp_path, name, words):
    dump_vocabulary(words, tmp_path / name)
    assert load_vocabulary(tmp_path / name) == words


def test_vocabulary_may_lack_the_last_line_break_or_have_windows_ones(path):
    assert load_vocabulary(write(path, b"a\r\nb")) == ["a", "b"]


@pytest.mark.parametrize("word", ["a\nb", "a\r", b"a", 3])
def test_words_that_would_not_come_back_are_refused(path, word):
    with pytest.raises(ValueError, match=r"^Word 1, .* is not a str without line breaks\.$"):
        dump_vocabulary(["fine", word], path)
    assert not path.exists()


def test_vocabulary_that_is_not_utf8_is_refused_with_its_line(path):
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}, line 2: not UTF-8\.$"):
        load_vocabulary(write(path, b"a\nb\xff\n"))


@pytest.mark.parametrize(("dump", "load"), [(dump_uci_docword, load_uci_docword), (dump_ldac, load_ldac)])
def test_vocabulary_comes_with_the_counts_and_must_fit_them(tmp_path, dump, load):
    dump(COUNTS, tmp_path / "bag")
    dump_vocabulary("abcd", tmp_path / "words")
    bag = load(tmp_path / "bag", vocabulary=tmp_path / "words")
    assert bag.vocabulary == load(tmp_path / "bag", vocabulary=["a", "b", "c", "d"]).vocabulary == [*"abcd"]
    assert_same(bag.data, COUNTS)
    dump_vocabulary("ab", tmp_path / "words")
    with pytest.raises(
        ValueError, match=r"words has 2 words but .*bag needs 4\.$|bag, line 1: id 2 is outside 0\.\.1\.$"
    ):
        load(tmp_path / "bag", vocabulary=tmp_path / "words")


def test_ldac_vocabulary_must_agree_with_n_features(tmp_path):
    dump_ldac(COUNTS, tmp_path / "bag")
    dump_vocabulary("abcd", tmp_path / "words")
    with pytest.raises(ValueError, match=r"words has 4 words but .*bag needs 5\.$"):
        load_ldac(tmp_path / "bag", n_features=5, vocabulary=tmp_path / "words")
    for n_features in (-1, 2.5, "many"):
        with pytest.raises(ValueError, match=r"^n_features must be None or an int of at least 0; got"):
            load_ldac(tmp_path / "bag", n_features=n_features)
