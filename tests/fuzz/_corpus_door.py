"""Altered folders of a corpus: whatever is given out is what was written, or at least what a corpus may be."""

import io
import json
import os
import pickle
import shutil
import tokenize
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from datasets._on_disk import ARRAYS, seal

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus

from ._cases import altered_bytes, one_sentence

NUMBERS = [-(2**63), -1, 0, 1, 7, 50, 255, 2**31 - 1, 2**31, 2**62, 2**63 - 1]
with_fits = True


class Prepared(NamedTuple):
    """Where corpora are, and what is in the first of them."""

    folder: Path
    found: list


def prepare(folder):
    """A corpus, another with other documents, and kernels."""
    shutil.rmtree(folder / "corpora", ignore_errors=True)
    (folder / "corpora").mkdir()
    X = make_lda_corpus(40, 50, 3, mean_length=20, random_state=0).data.toarray()
    words = [f"word{v}" for v in range(50)]
    corpus = save_corpus(X, folder / "corpora" / "first", vocabulary=words)
    save_corpus(X[::-1], folder / "corpora" / "other", vocabulary=words[::-1])
    StochasticLDA(2, max_iter=2, random_state=0).fit(corpus)
    return Prepared(folder, [_arrays_of([sp.csr_array(X)]), words])


def check(prepared, seed):
    """Alter the files, maybe seal them again, and read all that can be read."""
    rng = np.random.default_rng(seed)
    path = prepared.folder / "corpus"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(prepared.folder / "corpora" / "first", path)
    forged = False
    in_use = rng.random() < 0.15
    corpus = None
    try:
        if in_use:
            corpus = open_corpus(path)
            corpus.counts(0, int(rng.integers(0, 41)))
        for _ in range(rng.integers(1, 3)):
            _CHANGES[rng.integers(len(_CHANGES))](rng, path, prepared)
        if not in_use and rng.random() < 0.7:
            forged = resealed(path)
        if corpus is None:
            corpus = open_corpus(path, verify=bool(rng.integers(2)))
        found = _read(rng, corpus)
        if with_fits and rng.random() < 0.2:
            topics = StochasticLDA(2, max_iter=2, random_state=0).fit(corpus).components_
            if not np.allclose(topics.sum(axis=1), 1.0):
                return "topics that do not sum to one"
    except (ValueError, TypeError, OSError) as error:
        return None if one_sentence(error) else f"not one sentence: {error!r}"
    if not forged:
        return None if found == prepared.found else "changed documents were accepted"
    return broken(corpus, found[0])


def _read(rng, corpus):
    """Sizes, columns and counts of all documents, and the words."""
    pieces = corpus.pieces(int(rng.integers(1, 400)))
    rows = [corpus.rows(start, stop) for start, stop in pieces]
    for start, stop in pieces[: rng.integers(1, 5)]:
        corpus.counts(start, stop)
    if rng.random() < 0.3:
        pickle.loads(pickle.dumps(corpus))
    if rng.random() < 0.3:
        corpus.digest  # noqa: B018
    return [_arrays_of(rows), corpus.vocabulary]


def _arrays_of(rows):
    parts = [(np.diff(some.indptr).tolist(), some.indices.tolist(), some.data.tolist()) for some in rows]
    return [list(chain.from_iterable(lists)) for lists in zip(*parts, strict=True)]


def broken(corpus, found):
    """What a corpus may not be and this one is, looked up in its files; None if nothing is."""
    starts, tokens, columns, counts = (np.load(corpus.path / name).tolist() for name in ARRAYS)
    if not (len(starts) == len(tokens) == len(corpus) + 1 and len(columns) == len(counts) == corpus.nnz):
        return "arrays of other sizes were accepted"
    if (starts[0], tokens[0], starts[-1], tokens[-1]) != (0, 0, corpus.nnz, corpus.n_tokens):
        return "ends that do not agree were accepted"
    for row in range(len(corpus)):
        own = columns[starts[row] : starts[row + 1]]
        if own != sorted(set(own)) or not all(0 <= column < corpus.shape[1] for column in own):
            return "columns that no document has were accepted"
        values = counts[starts[row] : starts[row + 1]]
        if min(values, default=1) < 1 or sum(values) != tokens[row + 1] - tokens[row]:
            return "counts that no document has were accepted"
    same = found in ([[], [], []], [], [np.diff(starts).tolist(), columns, counts])
    return None if same else "other documents than those on disk were read"


def resealed(path):
    """Whether the checksums could be made anew; what is no file would be waited for."""
    if not all((path / name).is_file() for name in os.listdir(path)):
        return False
    try:
        seal(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _header_of(path):
    try:
        header = json.loads(_bytes(path / "header.json"))
    except RecursionError as error:
        raise ValueError from error
    if not isinstance(header, dict):
        raise ValueError
    return header


def _bytes(file):
    """Nothing of what is no file, which would be waited for."""
    return file.read_bytes() if file.is_file() else b""


def _array(file):
    try:
        return np.load(io.BytesIO(_bytes(file)))
    except (EOFError, tokenize.TokenError) as error:
        raise ValueError from error


def _some_file(rng, path):
    return path / rng.choice(sorted(os.listdir(path)))


def _flip(rng, path, prepared):
    file = _some_file(rng, path)
    _write(file, altered_bytes(rng, _bytes(file)))


def _swap(rng, path, prepared):
    if rng.random() < 0.5:
        file = _some_file(rng, path)
        other = prepared.folder / "corpora" / "other" / file.name
        if other.exists() and file.is_file():
            _write(file, other.read_bytes())
    else:
        files = rng.permutation(sorted(os.listdir(path)))[:2]
        os.rename(path / files[0], path / "kept")
        os.rename(path / files[1], path / files[0])
        os.rename(path / "kept", path / files[1])


def _items(rng, path, prepared):
    """Other items in an array, of which the sizes stay."""
    file = path / rng.choice(ARRAYS)
    try:
        array = _array(file)
    except ValueError:
        return
    if not array.size:
        return
    kind = rng.integers(5)
    some = rng.integers(array.size, size=rng.integers(1, 4))
    if kind == 0:
        array[some] = np.array([rng.choice(NUMBERS)]).astype(array.dtype)
    elif kind == 1:
        array[some] += np.array([rng.integers(-3, 4)]).astype(array.dtype)
    elif kind == 2:
        array[:] = array[::-1].copy()
    elif kind == 3:
        array[:] = np.sort(array)
    else:
        array[some] = array[some[::-1]]
    with open(file, "wb") as stored:
        np.save(stored, array)


def _resize(rng, path, prepared):
    """Fewer or more items in an array, and a header that agrees."""
    try:
        header = _header_of(path)
        chosen = ("indptr.npy", "tokens.npy") if rng.random() < 0.5 else ("indices.npy", "counts.npy")
        change = int(rng.integers(-3, 4))
        for name in chosen:
            array = _array(path / name)
            array = np.concatenate((array, array[-1:].repeat(change))) if change > 0 else array[: len(array) + change]
            with open(path / name, "wb") as stored:
                np.save(stored, array)
            header["files"][name]["bytes"] = os.stat(path / name).st_size
        header["n_rows" if "tokens.npy" in chosen else "n_pairs"] += change
    except (ValueError, KeyError, TypeError):
        return
    _write(path / "header.json", json.dumps(header).encode())


def _header(rng, path, prepared):
    try:
        header = _header_of(path)
    except ValueError:
        return
    name = rng.choice(["n_rows", "n_features", "n_pairs", "n_tokens", "version", "files", "format", "crc32"])
    odd = [int(rng.choice(NUMBERS)), 10**30, True, 1.0, None, "6", [], {}, float("nan")]
    if rng.random() < 0.3 and isinstance(header.get("files"), dict):
        file = rng.choice(sorted(header["files"]))
        header["files"][file] = header["files"][file] | {rng.choice(["dtype", "bytes", "crc32"]): odd[rng.integers(9)]}
    else:
        header[name] = odd[rng.integers(9)]
    _write(path / "header.json", json.dumps(header).encode())


def _no_header(rng, path, prepared):
    deep = int(rng.integers(1, 30_000))
    contents = [b"[" * deep + b"]" * deep, b'{"format": ' * deep, b"9" * deep, rng.bytes(deep), b"null"]
    _write(path / "header.json", contents[rng.integers(len(contents))])


def _no_file(rng, path, prepared):
    file = _some_file(rng, path)
    if not file.is_file():
        return
    file.unlink()
    kind = rng.integers(4)
    if kind == 0:
        os.mkfifo(file)
    elif kind == 1:
        file.mkdir()
    elif kind == 2:
        os.symlink(file, file)


def _write(file, content):
    if file.is_file():
        file.write_bytes(content)


_CHANGES = [_flip, _flip, _flip, _swap, _items, _items, _items, _resize, _header, _no_header, _no_file]
