"""Malformed text files of counts and words: refused, or read as a slow reader reads them, in bounded memory."""

import gzip
import re
import shutil
import tracemalloc
import zlib
from collections import Counter

import numpy as np

from skmanifold.datasets import dump_ldac, dump_uci_docword, load_ldac, load_uci_docword, load_vocabulary, save_corpus

from ._cases import one_sentence

_MOST = 2**31 - 1
_BLANK = rb"[ \t\r]"
_ENTRY = re.compile(rb"%s*(\d{1,18})%s+(\d{1,18})%s+(\d{1,18})%s*" % ((_BLANK,) * 4))
_DOCUMENT = re.compile(rb"%s*\d{1,18}(%s+\d{1,18}:\d{1,18})*%s*" % ((_BLANK,) * 3))
_NUMBERS = [
    b"-1",
    b"0",
    b"1",
    b"7",
    b"1e3",
    b"2147483647",
    b"2147483648",
    b"9" * 18,
    b"9" * 19,
    b"9" * 200,
    b"",
    b"\xff",
]
KINDS = ("docword", "ldac", "vocabulary")


def prepare(folder):
    """A folder."""
    return folder


def check(folder, seed):
    """Write a file, read it by the library and by a slow reader, and compare."""
    rng = np.random.default_rng(seed)
    kind = KINDS[rng.integers(3)]
    content = _altered(rng, _content(rng, kind, folder))
    packed = rng.random() < 0.3
    stored = content
    if packed:
        stored = gzip.compress(content, 6)
        if rng.random() < 0.5:
            stored = _altered_bytes(rng, stored)
            content = _unpacked(stored)
    path = folder / ("bag.gz" if packed else "bag")
    path.write_bytes(stored)
    wanted = None if content is None else READ[kind](content)
    as_corpus = kind == "docword" and rng.random() < 0.5
    tracemalloc.start()
    try:
        found, error = _found(kind, path, folder / "corpus" if as_corpus else None), None
    except (ValueError, TypeError) as refusal:
        found, error = None, refusal
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    most = 60e6 + 100 * len(content or b"")  # a million empty documents are allowed
    if peak > (4e8 if packed and content is None else most):  # or sixteen million bytes that are unpacked
        return f"{peak / 1e6:.0f} MB for {len(stored)} bytes"
    return judged(wanted, found, error, may_refuse=as_corpus or len(stored) * 200 < len(content or b""))


def judged(wanted, found, error, *, may_refuse):
    """Compare what was read with what the slow reader reads; None of it is a file that must be refused."""
    if error is not None:
        if not one_sentence(error):
            return f"not one sentence: {error!r}"
        return None if wanted is None or may_refuse else f"a good file was refused: {error}"
    if wanted is None:
        return "a malformed file was accepted"
    return None if found == wanted else "something else was read than is in the file"


def _found(kind, path, corpus_path):
    """Shape and cells, or the words."""
    if kind == "vocabulary":
        return load_vocabulary(path)
    if corpus_path is None:
        data = (load_uci_docword if kind == "docword" else load_ldac)(path).data
    else:
        shutil.rmtree(corpus_path, ignore_errors=True)
        corpus = save_corpus(path, corpus_path)
        data = corpus.rows(0, len(corpus))
    coo = data.tocoo()
    return data.shape, dict(zip(zip(*map(np.ndarray.tolist, coo.coords), strict=True), coo.data.tolist(), strict=True))


def _read_docword(content):
    lines = content.split(b"\n")
    if len(lines) < 4 or lines[-1] or any(len(line) > 99 or not line.strip().isdigit() for line in lines[:3]):
        return None
    n_documents, n_words, n_entries = map(int, lines[:3])
    if max(n_documents, n_words) > _MOST or n_documents > max(2**20, 16 * n_entries):
        return None
    cells = {}
    for line in lines[3:-1]:
        entry = _ENTRY.fullmatch(line)
        if not entry or len(line) > 2**20:
            return None
        document, word, count = map(int, entry.groups())
        if not (1 <= document <= n_documents and 1 <= word <= n_words and 1 <= count <= _MOST):
            return None
        cells[document - 1, word - 1] = count
    return ((n_documents, n_words), cells) if len(cells) == n_entries == len(lines) - 4 else None


def _read_ldac(content):
    lines = content.split(b"\n")
    if lines.pop():
        return None
    cells = {}
    for row, line in enumerate(lines):
        if not _DOCUMENT.fullmatch(line) or len(line) > 2**24:
            return None
        size, *pairs = line.split()
        own = Counter({int(word): int(count) for word, count in (pair.split(b":") for pair in pairs)})
        if not int(size) == len(pairs) == len(own):
            return None
        if any(word >= _MOST or not 1 <= count <= _MOST for word, count in own.items()):
            return None
        cells |= {(row, word): count for word, count in own.items()}
    return (len(lines), 1 + max((word for _, word in cells), default=-1)), cells


def _read_vocabulary(content):
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        words = [line.decode() for line in lines]
    except UnicodeDecodeError:
        return None
    return [word.removesuffix("\r") for word in words] if max(map(len, lines), default=0) <= 2**20 else None


READ = dict(zip(KINDS, (_read_docword, _read_ldac, _read_vocabulary), strict=True))


def _content(rng, kind, folder):
    n_rows, n_columns = rng.integers(0, 12), rng.integers(1, 12)
    if kind == "vocabulary":
        return b"".join(f"w\u00f6rd{v}\n".encode() for v in range(n_rows))
    counts = rng.poisson(0.5, size=(n_rows, n_columns)) * rng.choice([1, 1, 300, 100_000])
    (dump_uci_docword if kind == "docword" else dump_ldac)(counts, folder / "made")
    return (folder / "made").read_bytes()


def _altered(rng, content):
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        content = _CHANGES[rng.integers(len(_CHANGES))](rng, content)
    return content


def _altered_bytes(rng, content):
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        if changed and rng.random() < 0.7:
            changed[rng.integers(len(changed))] = rng.integers(256)
        else:
            del changed[rng.integers(len(changed) + 1) :]
    return bytes(changed)


def _changed_number(rng, content):
    numbers = list(re.finditer(rb"\d+", content[:5000]))
    if not numbers:
        return content
    chosen = numbers[rng.integers(min(len(numbers), rng.choice([3, 1000])))]
    return content[: chosen.start()] + _NUMBERS[rng.integers(len(_NUMBERS))] + content[chosen.end() :]


def _changed_lines(rng, content):
    lines = content.split(b"\n")
    place = rng.integers(len(lines))
    kind = rng.integers(6)
    if kind == 0:
        lines.pop(place)
    elif kind == 1:
        lines.insert(place, lines[place])
    elif kind == 2:
        lines.insert(place, b"")
    elif kind == 3:
        other = rng.integers(len(lines))
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 4:
        lines[place] += b" " * int(rng.choice([1, 1000, 2**20, 2**21]))
    else:
        lines[place : place + 1] = [lines[place][:1000]] * int(rng.choice([2, 100, 20_000]))
    return b"\n".join(lines)


def _with_bytes(rng, content):
    place = rng.integers(len(content) + 1)
    return (
        content[:place] + rng.choice([b":", b" ", b"\t", b"\r", b"\n", b"\0", b".5", b"\xe9", b"-"]) + content[place:]
    )


def _announced(rng, content):
    """Other numbers in the header of a docword file."""
    lines = content.split(b"\n")
    sizes = [b"0", b"3", b"1000", b"1048576", b"1048577", b"20000000", b"2147483647"]
    lines[:2] = [sizes[rng.integers(len(sizes))] for _ in lines[:2]]
    return b"\n".join(lines)


def _long(rng, content):
    if rng.random() < 0.2:
        return content + b" " * 30_000_000
    filler = [b"0\n", b"\n", b" ", b"7", b"1 1 1\n", b"\0"]
    return content + filler[rng.integers(len(filler))] * int(rng.choice([100, 10_000, 100_000]))


_CHANGES = [
    _altered_bytes,
    _changed_number,
    _changed_number,
    _changed_lines,
    _changed_lines,
    _with_bytes,
    _with_bytes,
    _announced,
    _long,
]


def _unpacked(stored):
    try:
        return gzip.decompress(stored)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return None
