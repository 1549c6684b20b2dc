"""Whatever happens to the files of a corpus is noticed, in one sentence, before a kernel sees it."""

import json
import os
import pickle
import re
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skmanifold import StochasticLDA
from skmanifold.datasets import _corpus_files as array_file
from skmanifold.datasets import open_corpus, save_corpus

from ._on_disk import ARRAYS, COUNTS, LARGE, alter_header, assert_holds, seal


def everything(path):
    corpus = open_corpus(path)
    return corpus.counts(0, len(corpus)), corpus.vocabulary


def overwrite(path, name, values):
    """Other items of the same type in an array file, and as old as they were."""
    array = np.load(path / name)
    array[...] = values(array.copy())
    np.save(path / name, array)


def test_any_changed_byte_of_any_file_is_noticed(path):
    save_corpus(COUNTS, path, vocabulary=["a", "b", "c", "d"])
    for name in (*ARRAYS, "checksums.npy", "vocabulary.txt"):
        content = (path / name).read_bytes()
        for place in range(0, len(content), 5):
            damaged = bytearray(content)
            damaged[place] ^= 1 << (place % 7)
            (path / name).write_bytes(damaged)
            with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is damaged: {name} [^\n]*\.$"):
                everything(path)
        (path / name).write_bytes(content)
    header = json.loads((path / "header.json").read_text())
    for name in ("n_rows", "n_features", "n_pairs", "n_tokens", "crc32"):
        alter_header(path, {name: header[name] + 1}, reseal=False)
        with pytest.raises(ValueError, match=r"header\.json does not have the checksum with which it was written\.$"):
            open_corpus(path)
        alter_header(path, header, reseal=False)
    assert_holds(open_corpus(path, verify=True), COUNTS)


def test_a_piece_is_compared_when_it_is_first_read(path, monkeypatch):
    monkeypatch.setattr(array_file, "PIECE", 64)
    save_corpus(LARGE, path)
    for name in ("indices.npy", "counts.npy"):
        content = bytearray((path / name).read_bytes())
        content[-3] ^= 4
        (path / name).write_bytes(content)
        corpus = open_corpus(path)
        for start in range(50):
            np.testing.assert_array_equal(corpus.rows(start, start + 1).toarray()[0], LARGE[start])
        with pytest.raises(ValueError, match=rf"is damaged: {name} does not have the checksum with which bytes \d+ to"):
            corpus.counts(59, 60)
        with pytest.raises(ValueError, match=f"is damaged: {name} does not have the checksum"):
            open_corpus(path, verify=True)
        content[-3] ^= 4
        (path / name).write_bytes(content)
    assert_holds(open_corpus(path), LARGE)


@pytest.mark.parametrize("piece", [8, 24, 64, 1000, 1 << 18])
def test_pieces_of_any_size_are_those_of_the_reader(path, piece, monkeypatch):
    monkeypatch.setattr(array_file, "PIECE", piece)
    counts = LARGE.copy()
    counts[40, 3] = 70_000  # the counts become wider on the way
    save_corpus((row[None] for row in counts), path)
    assert_holds(open_corpus(path, verify=True), counts)
    with ThreadPoolExecutor(4) as pool:
        corpus = open_corpus(path)
        rows = list(pool.map(lambda start: corpus.rows(start, start + 1).toarray()[0], range(60)))
    np.testing.assert_array_equal(rows, counts)


def falling(starts):
    starts[5], starts[6] = starts[6] + 1, starts[5]
    return starts


STRUCTURE = [
    ("indptr.npy", falling, r"a document has a negative number of pairs \(indptr.npy, tokens.npy\)"),
    (
        "indptr.npy",
        lambda starts: np.where(starts == starts[20], -1, starts),
        "a document has a negative number of pairs",
    ),
    (
        "indptr.npy",
        lambda starts: np.where(starts == starts[20], 2**62, starts),
        "a document has a negative number of pairs",
    ),
    ("indptr.npy", lambda starts: np.where(starts < starts[-1], 0, starts), "has more pairs than there are columns"),
    ("tokens.npy", falling, "a document has a negative number of tokens"),
    (
        "tokens.npy",
        lambda starts: np.where(starts < starts[-1], 0, starts),
        "tokens of a document is impossible",
    ),
    ("indices.npy", lambda columns: columns + 120, r"a column is outside 0\.\.119"),
    ("indices.npy", lambda columns: columns - 70, r"a column is outside 0\.\.119"),
    ("indices.npy", lambda columns: columns[::-1], "are not sorted or not distinct"),
    ("indices.npy", lambda columns: columns // 2, "are not sorted or not distinct"),
    ("counts.npy", lambda counts: counts * 0, "a count is below 1"),
    ("counts.npy", lambda counts: counts + 1, "do not add up to its number of tokens"),
]


@pytest.mark.covering
@pytest.mark.parametrize(("name", "change", "sentence"), STRUCTURE)
@pytest.mark.parametrize("pairs", [7, 1 << 16])
def test_a_corpus_of_which_the_structure_is_broken_is_refused(path, name, change, sentence, pairs, monkeypatch):
    """Its checksums are right, as if somebody had altered it on purpose."""
    monkeypatch.setattr("skmanifold.datasets._corpus_files._PAIRS", pairs)
    save_corpus(LARGE, path)
    overwrite(path, name, change)
    seal(path)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is damaged: .*{sentence}"):
        open_corpus(path, verify=True)
    with pytest.raises(ValueError, match=sentence):
        StochasticLDA(2, max_iter=2).fit(open_corpus(path))


def test_columns_are_looked_at_whenever_they_are_read(path):
    corpus = save_corpus(LARGE, path)
    corpus.counts(0, 60)
    stamp = os.stat(path / "indices.npy")
    with open(path / "indices.npy", "r+b") as file:  # what a failing disk would do
        file.seek(128)
        file.write(b"\xff\xff\xff\x7f")
    os.utime(path / "indices.npy", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(ValueError, match=r"among documents 0 to 59, a column is outside 0\.\.119\.$"):
        corpus.counts(0, 60)


@pytest.mark.parametrize("name", [*ARRAYS, "vocabulary.txt", "checksums.npy"])
def test_files_that_change_in_use_are_noticed(path, name):
    def shorten():
        os.truncate(path / name, 130)

    def touch():
        os.utime(path / name, ns=(0, 0))

    def put_another():
        (path / "copy").write_bytes((path / name).read_bytes())
        os.replace(path / "copy", path / name)

    for change in (shorten, touch, put_another, (path / name).unlink):
        corpus = save_corpus(LARGE, path, vocabulary=[f"word{v}" for v in range(120)], overwrite=True)
        corpus.counts(0, 3)
        change()
        for start, stop in ((0, 60), (0, 3)):
            with pytest.raises(ValueError, match=rf"has changed: {name} was modified after this corpus was opened"):
                corpus.counts(start, stop)
        with pytest.raises(ValueError, match=f"has changed: {name} was modified after"):
            _ = corpus.vocabulary
        assert len(corpus.pieces(100)) > 1  # a shortened file under a map would end the process here
        shutil.rmtree(path)
        with pytest.raises(ValueError, match="was replaced after this corpus was opened; open it again"):
            corpus.counts(0, 3)


@pytest.mark.skipif(os.name != "posix", reason="links, pipes and sockets are of POSIX")
@pytest.mark.parametrize("name", [*ARRAYS, "vocabulary.txt", "header.json"])
def test_what_is_no_file_is_refused_and_not_waited_for(path, name):
    def link():
        os.symlink(path / name, path / name)

    def listen():
        where = os.getcwd()
        os.chdir(path)  # the name of a socket may not be long
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
        os.chdir(where)

    save_corpus(COUNTS, path, vocabulary=["a", "b", "c", "d"])
    kept = path.with_name("kept")
    os.rename(path / name, kept)
    for make in (lambda: os.mkfifo(path / name), lambda: (path / name).mkdir(), link, listen):
        make()
        with pytest.raises(ValueError, match=rf"is damaged: {name} is (not a regular file|a link to itself)\.$"):
            open_corpus(path)
        with pytest.raises(FileExistsError, match="exists"):
            save_corpus(COUNTS, path)
        (path / name).rmdir() if (path / name).is_dir() else (path / name).unlink()
    os.symlink(kept, path / name)  # data may be elsewhere
    open_corpus(path, verify=True)


@pytest.mark.parametrize(
    "content",
    [
        b'{"format":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"format": "skmanifold corpus", "version": 1, "files":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"format": "skmanifold corpus", "version": 1e400}',
        b'{"format": "skmanifold corpus", "version": ' + b"9" * 5000 + b"}",
        b" " * 70_000 + b"{}",
        b'{"format": "skmanifold corpus", "version": true}',
    ],
    ids=["deep", "deep field", "infinite", "digits", "long", "bool"],
)
def test_a_header_that_is_none_is_refused_in_one_sentence(path, content):
    save_corpus(COUNTS, path)
    (path / "header.json").write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"^{re.escape(str(path))} is (not a corpus|damaged): its header\.json [^\n]*\.$"
    ):
        open_corpus(path)


@pytest.mark.covering
@pytest.mark.parametrize("number", [True, -1, 1.0, "6", None, 2**31, 2**63, 10**30, [6]])
@pytest.mark.parametrize("name", ["n_rows", "n_features", "n_pairs", "n_tokens", "version"])
def test_numbers_of_a_header_that_cannot_be_are_refused(path, name, number):
    save_corpus(COUNTS, path)
    alter_header(path, {name: number})
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} (is damaged|has format \d+, but).*\.$"):
        open_corpus(path)


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": True},
        {"bytes": -1},
        {"dtype": "<f8"},
        {"dtype": "|O"},
        {"dtype": ["<i8"]},
        {"dtype": None},
        {"more": 1},
    ],
)
def test_descriptions_of_files_that_cannot_be_are_refused(path, change):
    save_corpus(COUNTS, path)
    files = json.loads((path / "header.json").read_text())["files"]
    for name in ARRAYS:
        alter_header(path, {"files": files | {name: files[name] | change}})
        with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is damaged: .*\.$"):
            open_corpus(path)
    alter_header(path, {"files": files | {"../other": {"bytes": 3}}})
    with pytest.raises(ValueError, match=r"is damaged: its header\.json is incomplete\.$"):
        open_corpus(path)


def test_a_digest_is_of_the_documents_alone(path):
    def digest(*documents, **options):
        return save_corpus(*documents, path, overwrite=True, **options).digest

    first = digest(LARGE)
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert digest(row[None] for row in LARGE) == digest(LARGE, vocabulary=[f"word{v}" for v in range(120)]) == first
    more = LARGE.copy()
    more[7, 7] += 1
    others = [LARGE[::-1], LARGE[:, ::-1], more, LARGE[:-1], np.vstack((LARGE, np.zeros_like(LARGE[:1])))]
    assert len({first, digest(LARGE, n_features=121), *map(digest, others)}) == 7


def test_a_pickle_of_another_corpus_is_refused(path):
    corpus = save_corpus(LARGE, path)
    stored = pickle.dumps(corpus)
    assert pickle.loads(stored).shape == corpus.shape
    save_corpus(LARGE[::-1], path, overwrite=True)
    with pytest.raises(
        ValueError, match=r"contains a different corpus from the one that was opened first: open it again\.$"
    ):
        pickle.loads(stored)
