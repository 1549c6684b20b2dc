"""Malformed text files of counts and words: refused, or read as a slow reader reads them, in bounded memory."""

import gzip
import itertools
import os
import re
import shutil
import tracemalloc
import zlib
from collections import Counter

import numpy as np
import scipy.sparse as sp

from skmanifold.datasets import _documents as entries
from skmanifold.datasets import _files as text_files
from skmanifold.datasets import (
    dump_ldac,
    dump_uci_docword,
    load_ldac,
    load_uci_docword,
    load_vocabulary,
    read_matrix_market,
    save_corpus,
)

from ._cases import altered_bytes, one_sentence

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
    b"+1",
    b"-0",
    b"1_0",
    b"3\0",
    b"\0003",
    b"0x1",
    b"1.0",
    b"2.",
    b".5",
    b"3E0",
    b"1e400",
    b"nan",
    b"inf",
    "\N{ARABIC-INDIC DIGIT THREE}".encode(),
    "\N{FULLWIDTH DIGIT THREE}".encode(),
    b"0" * 30 + b"2",
    b"9007199254740993",
]
_BYTES = (b":", b" ", b"\t", b"\r", b"\n", b"\0", b".5", b"\xe9", b"-", b"_", b"+", b"e1", b"\v")
_FORMS = (
    b"+%s",
    b"0%s",
    b"0_%s",
    b"%s_",
    b"%s\0",
    b"\0%s",
    b"%s.0",
    b"%s.",
    b"%sE0",
    b"0x%s",
    b"%se-0",
    b"%s\v",
    b"%sL",
)
KINDS = ("docword", "ldac", "vocabulary", "market")
_REAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_FIELDS = ("integer", "real", "double", "pattern", "complex", "Integer", "unsigned-integer")
_SYMMETRIES = ("general", "General", "symmetric", "skew-symmetric", "hermitian")


def check(folder, seed):
    """Write a file, read it by the library and by a slow reader, and compare."""
    rng = np.random.default_rng(seed)
    kind = KINDS[rng.integers(len(KINDS))]
    content = _content(rng, kind, folder)
    if kind != "market" or rng.random() < 0.5:
        content = _altered(rng, content)
    if kind != "vocabulary" and rng.random() < 0.2:
        content = _in_another_form(rng, content)
    packed = rng.random() < 0.3
    stored = content
    if packed:
        stored = gzip.compress(content, 6)
        if rng.random() < 0.5:
            stored = altered_bytes(rng, stored)
            content = _unpacked(stored)
    path = folder / ("bag.gz" if packed else "bag")
    path.write_bytes(stored)
    options = {}
    if kind == "market":
        options = {"documents": rng.choice(["rows", "columns"]).item(), "sort": bool(rng.random() < 0.7)}
    wanted = None if content is None else READ[kind](content, **options)
    replaced = kind == "market" and rng.random() < 0.25
    if replaced:
        options, wanted = {**options, "rng": rng}, None
    as_corpus = kind in ("docword", "market") and rng.random() < 0.5
    tracemalloc.start()
    try:
        found, error = _found(kind, path, folder / "corpus" if as_corpus else None, **options), None
    except (ValueError, TypeError) as refusal:
        found, error = None, refusal
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    most = 60e6 + 100 * len(content or b"")  # a million empty documents are allowed
    if peak > (4e8 if packed and content is None else most):  # or sixteen million bytes that are unpacked
        return f"{peak / 1e6:.0f} MB for {len(stored)} bytes"
    many = wanted is not None and kind == "market" and wanted[0][0] > 2**20
    # docword files must be sorted, and a corpus has a limit on empty documents before each entry
    may_refuse = (kind == "docword" and as_corpus) or many or len(stored) * 200 < len(content or b"")
    return judged(wanted, found, error, may_refuse=may_refuse)


def judged(wanted, found, error, *, may_refuse):
    """Compare what was read with what the slow reader reads; None of it is a file that must be refused."""
    if error is not None:
        if not one_sentence(error):
            return f"not one sentence: {error!r}"
        return None if wanted is None or may_refuse else f"a good file was refused: {error}"
    if wanted is None:
        return "a malformed file was accepted"
    return None if found == wanted else "something else was read than is in the file"


def _found(kind, path, corpus_path, **options):
    """Shape and cells, or the words."""
    if kind == "vocabulary":
        return load_vocabulary(path)
    source = path
    if kind == "market":
        source = _market_reader(path, **options)
    if corpus_path is not None:
        shutil.rmtree(corpus_path, ignore_errors=True)
        corpus = save_corpus(source, corpus_path)
        data = corpus.rows(0, len(corpus))
    elif kind == "market":
        data = sp.vstack(list(source), format="csr")
        data.eliminate_zeros()
    else:
        data = (load_uci_docword if kind == "docword" else load_ldac)(path).data
    coo = data.tocoo()
    return data.shape, dict(zip(zip(*map(np.ndarray.tolist, coo.coords), strict=True), coo.data.tolist(), strict=True))


def _market_reader(path, rng=None, **options):
    """A reader; with rng, of a file that is replaced before or while it is read, in small blocks."""
    os.utime(path, (1, 1))  # times of files can be coarse
    reader = read_matrix_market(path, **options)
    return reader if rng is None else _while_replaced(rng, path, reader)


def _while_replaced(rng, path, reader):
    small, sizes = rng.random() < 0.5, (text_files._BLOCK, entries._CHUNK)
    if small:
        text_files._BLOCK, entries._CHUNK = 16, 4
    try:
        blocks, n_before = iter(reader), int(rng.integers(3)) if small else 0
        before = list(itertools.islice(blocks, n_before))
        yield from before
        if len(before) < n_before:
            raise ValueError("All blocks were read before the file was replaced.")
        other = path.with_name("other")
        content = path.read_bytes()
        other.write_bytes(altered_bytes(rng, content) if rng.random() < 0.5 else content)
        if rng.random() < 0.5:
            path.write_bytes(other.read_bytes())
        else:
            os.replace(other, path)
        yield from blocks
    finally:
        text_files._BLOCK, entries._CHUNK = sizes


def _read_market(content, documents, sort):
    lines = content.split(b"\n")
    banner = lines[0].lower().split()
    if len(lines) < 3 or len(lines[0]) > 999 or len(banner) != 5:
        return None
    if banner[:3] != [b"%%matrixmarket", b"matrix", b"coordinate"] or banner[4] != b"general":
        return None
    if banner[3] not in (b"integer", b"real", b"double", b"pattern"):
        return None
    place = 1
    while place < len(lines) - 1 and (lines[place].startswith(b"%") or not lines[place].strip()):
        place += 1
    sizes = lines[place].split()
    if place == len(lines) - 1 or max(map(len, lines[1:])) > 2**20 or len(sizes) != 3:
        return None
    if not all(re.fullmatch(rb"[0-9]{1,18}", size) for size in sizes):
        return None
    shape, n_entries = (int(sizes[0]), int(sizes[1])), int(sizes[2])
    n_documents = shape[0] if documents == "rows" else shape[1]
    if max(shape) > _MOST or n_documents > max(2**20, 16 * n_entries):
        return None
    rest = lines[place + 1 :]
    while rest and not rest[-1].strip(b" \t\r"):
        rest.pop()
    cells, last = {}, 0
    for line in rest:
        fields = re.split(rb"[ \t\r]+", line.strip(b" \t\r"))
        if len(fields) != (2 if banner[3] == b"pattern" else 3) or not all(map(_REAL.fullmatch, fields)):
            return None
        row, column, count = [*map(float, fields), 1.0][:3]
        if not (1 <= row <= shape[0] and 1 <= column <= shape[1] and 0 <= count <= _MOST):
            return None
        if row % 1 or column % 1 or count % 1 or (row, column) in cells:
            return None
        document = row if documents == "rows" else column
        if document < last and not sort:
            return None
        cells[row, column], last = count, document
    if len(cells) != n_entries:
        return None
    if documents == "columns":
        shape, cells = shape[::-1], {(column, row): count for (row, column), count in cells.items()}
    return shape, {(int(i) - 1, int(j) - 1): int(count) for (i, j), count in cells.items() if count}


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


READ = dict(zip(KINDS, (_read_docword, _read_ldac, _read_vocabulary, _read_market), strict=True))


def _content(rng, kind, folder):
    n_rows, n_columns = rng.integers(0, 12), rng.integers(1, 12)
    if kind == "vocabulary":
        return b"".join(f"w\u00f6rd{v}\n".encode() for v in range(n_rows))
    counts = rng.poisson(0.5, size=(n_rows, n_columns)) * rng.choice([1, 1, 300, 100_000])
    if kind == "market":
        return _market(rng, counts)
    (dump_uci_docword if kind == "docword" else dump_ldac)(counts, folder / "made")
    return (folder / "made").read_bytes()


def _market(rng, counts):
    """A file of counts, most often one that is accepted, with rows or columns in order."""
    field = _FIELDS[rng.integers(len(_FIELDS) if rng.random() < 0.2 else 4)]
    symmetry = _SYMMETRIES[rng.integers(len(_SYMMETRIES) if rng.random() < 0.2 else 2)]
    form = {"pattern": "{} {}", "integer": "{} {} {}"}.get(field, "{} {} " + rng.choice(["{}", "{}.0", "{}e0", "+{}."]))
    coo = (sp.csr_array if rng.random() < 0.7 else sp.csc_array)(counts).tocoo()
    lines = [form.format(i + 1, j + 1, count) for i, j, count in zip(*coo.coords, coo.data, strict=True)]
    head = [f"%%MatrixMarket matrix coordinate {field} {symmetry}", *["% a comment", ""][: rng.integers(3)]]
    return "\n".join([*head, f"{counts.shape[0]} {counts.shape[1]} {coo.nnz}", *lines, ""]).encode()


def _altered(rng, content):
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        content = _CHANGES[rng.integers(len(_CHANGES))](rng, content)
    return content


def _changed_number(rng, content):
    numbers = list(re.finditer(rb"\d+", content[:5000]))
    if not numbers:
        return content
    chosen = numbers[rng.integers(min(len(numbers), rng.choice([3, 1000])))]
    return content[: chosen.start()] + _NUMBERS[rng.integers(len(_NUMBERS))] + content[chosen.end() :]


def _in_another_form(rng, content):
    """A number of the last lines as it could be written elsewhere, with the same value."""
    numbers = list(re.finditer(rb"\d+", content[-30:]))
    if not numbers:
        return content
    start, end = (max(0, len(content) - 30) + place for place in numbers[rng.integers(len(numbers))].span())
    return content[:start] + _FORMS[rng.integers(len(_FORMS))] % content[start:end] + content[end:]


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
    return content[:place] + _BYTES[rng.integers(len(_BYTES))] + content[place:]


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
    altered_bytes,
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
