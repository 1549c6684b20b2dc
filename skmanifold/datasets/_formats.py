"""Common formats of bag-of-words files: UCI's docword, Blei's LDA-C, and vocabularies of one word per line.

The readers check everything that the format allows, and raise an error instead of returning a part of a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..sparse.counts import canonical_csr
from ..utils._inputs.column_order import names_in_order
from ..utils._typing import Bunch, MatrixLike
from ..utils._validation import check_array
from ._documents import (
    LARGEST,
    DocumentReader,
    Rows,
    Tables,
    refuse_empty_documents,
    row_ranges,
    rows_of_entries,
    stamps_of,
)
from ._files import File, PathLike, line_blocks, opened, replacing

_WRITTEN = 1 << 18  # numbers formatted at a time
_MOST_DIGITS = 18  # always fit an int64
_LONGEST_DOCUMENT = 1 << 24  # maximum number of bytes of a line of LDA-C
_SPACES = np.isin(np.arange(256), list(b" \t\r\n"))


class _BagOfWords(Bunch):
    data: sp.csr_array
    vocabulary: list[str] | None


def load_uci_docword(
    path: PathLike, *, vocabulary: Sequence[str] | PathLike | None = None, max_documents: int | None = None
) -> _BagOfWords:
    """Read a bag of words in the UCI format (``docword.*.txt``).

    The file has three lines with the number of documents D, of words W and of entries NNZ, then NNZ lines
    ``docID wordID count``, where ids start at 1, in any order. A file whose name ends in ``.gz`` is decompressed.

    Parameters
    ----------
    path : str or path-like
        The file.
    vocabulary : sequence of str, str or path-like, default=None
        The W words, or a file with one word per line, in UTF-8 (``vocab.*.txt``).
    max_documents : int, default=None
        Maximum of D; each document takes memory even if it is empty. None is 2**20, or 16 * NNZ if that is larger.

    Returns
    -------
    bag : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : csr_array of shape (D, W), int32
            Counts; indices are sorted within rows. Empty documents and words that never occur are included.
        vocabulary : list of str, or None
            The words, if `vocabulary` is given.

    Raises
    ------
    ValueError
        If the file does not have the format, is truncated, has an id out of range, a count that is not a positive
        integer, or the same word twice in a document; if the vocabulary does not have W words; or if the file exceeds a
        limit: `max_documents`, a line of 2**20 bytes, and for a gzip file 2**24 bytes or 200 times its size, whichever
        is larger.

    References
    ----------
    .. [1] D. Newman (2008), "Bag of Words", UCI Machine Learning Repository, https://doi.org/10.24432/C5ZG6P.

    Examples
    --------
    >>> import os, tempfile
    >>> from skmanifold.datasets import dump_uci_docword, load_uci_docword
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "docword.tiny.txt.gz")
    ...     dump_uci_docword([[2, 0, 1], [0, 0, 0]], path)
    ...     print(load_uci_docword(path).data.toarray())
    [[2 0 1]
     [0 0 0]]
    """
    check_size("max_documents", max_documents)
    with opened(path) as file:
        header = _docword_header(file, path, max_documents)
        blocks = read_entries(file, path, header, _parse_docword)
        entries = np.concatenate([np.empty((0, 3), np.int32), *(table.astype(np.int32) for _, table in blocks)])
    words = None if vocabulary is None else given_words(vocabulary, header.shape[1], path)
    data = _assemble(path, entries[:, 0] - 1, entries[:, 1] - 1, entries[:, 2], header.shape, base=1)
    return _BagOfWords(data=data, vocabulary=words)


def dump_uci_docword(X: MatrixLike, path: PathLike) -> None:
    """Write counts in the UCI format, which :func:`load_uci_docword` describes.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Whole, non-negative counts.
    path : str or path-like
        The file, which is replaced if it exists. A file whose name ends in ``.gz`` is compressed.

    Raises
    ------
    ValueError
        If X has a negative or fractional count, or one above 2**31 - 1.
    """
    csr = _check_counts(X, "dump_uci_docword")
    rows = np.repeat(np.arange(1, csr.shape[0] + 1), np.diff(csr.indptr))
    with replacing(path) as file:
        file.write(b"%d\n%d\n%d\n" % (*csr.shape, csr.nnz))
        for start in range(0, csr.nnz, _WRITTEN // 3):
            some = slice(start, start + _WRITTEN // 3)
            table = np.column_stack((rows[some], csr.indices[some] + np.int64(1), csr.data[some]))
            file.write(b"%d %d %d\n" * len(table) % tuple(table.ravel().tolist()))


def load_ldac(
    path: PathLike, *, n_features: int | None = None, vocabulary: Sequence[str] | PathLike | None = None
) -> _BagOfWords:
    """Read a bag of words in the LDA-C format of D. M. Blei.

    Each line is a document: ``N id:count id:count ...`` with N different words, whose ids start at 0. The format does
    not contain the numbers of documents and words. So a file truncated between two lines cannot be detected, and the
    number of words can only be specified by `n_features` or `vocabulary`. A file whose name ends in ``.gz`` is
    decompressed, and its truncation is detected.

    Parameters
    ----------
    path : str or path-like
        The file.
    n_features : int, default=None
        Number of words. None is the length of `vocabulary`, or without it the largest id plus one.
    vocabulary : sequence of str, str or path-like, default=None
        The words, or a file with one word per line, in UTF-8.

    Returns
    -------
    bag : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : csr_array of shape (n_samples, n_features), int32
            Counts; indices are sorted within rows.
        vocabulary : list of str, or None
            The words, if `vocabulary` is given.

    Raises
    ------
    ValueError
        If the file does not have the format, is truncated within a line, has a line with a wrong number of words, an id
        out of range, a count that is not a positive integer, or the same word twice in a document; if the vocabulary
        does not have `n_features` words; or if the file exceeds a limit: a line of 2**24 bytes, and for a gzip file
        2**24 bytes or 200 times its size, whichever is larger.

    References
    ----------
    .. [1] D. M. Blei, A. Y. Ng and M. I. Jordan (2003), "Latent Dirichlet allocation", Journal of Machine Learning
       Research 3, 993-1022. The format is that of the program that came with the paper.

    Examples
    --------
    >>> import os, tempfile
    >>> from skmanifold.datasets import dump_ldac, load_ldac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tiny.ldac")
    ...     dump_ldac([[2, 0, 1, 0], [0, 0, 0, 0]], path)
    ...     print(load_ldac(path, n_features=4).data.toarray())
    [[2 0 1 0]
     [0 0 0 0]]
    """
    check_size("n_features", n_features)
    words = None if vocabulary is None else given_words(vocabulary, n_features, path)
    if n_features is None and words is not None:
        n_features = len(words)
    limit = LARGEST - 1 if n_features is None else n_features - 1
    parts = [[np.empty(0, dtype=np.int32)] * 3]
    with opened(path) as file:
        for first_line, block in line_blocks(file, path, first_line=1, longest=_LONGEST_DOCUMENT):
            parts.append([part.astype(np.int32) for part in _parse_ldac(path, first_line, block, limit)])
    size, columns, counts = map(np.concatenate, zip(*parts, strict=True))
    if n_features is None:
        n_features = int(columns.max(initial=-1)) + 1
    rows = np.repeat(np.arange(len(size), dtype=np.int32), size)
    data = _assemble(path, rows, columns, counts, (len(size), n_features), base=0)
    return _BagOfWords(data=data, vocabulary=words)


def dump_ldac(X: MatrixLike, path: PathLike) -> None:
    """Write counts in the LDA-C format, which :func:`load_ldac` describes.

    The file gets its name only when it is complete. The format does not contain the number of columns: pass it to
    :func:`load_ldac` if the last ones may be empty.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Whole, non-negative counts.
    path : str or path-like
        The file, which is replaced if it exists. A file whose name ends in ``.gz`` is compressed.

    Raises
    ------
    ValueError
        If X has a negative or fractional count, or one above 2**31 - 1.
    """
    csr = _check_counts(X, "dump_ldac")
    with replacing(path) as file:
        for first, last in row_ranges(csr.indptr):
            starts = csr.indptr[first:last] - csr.indptr[first]
            pairs, sizes = slice(csr.indptr[first], csr.indptr[last]), np.diff(csr.indptr[first : last + 1])
            numbers = np.column_stack((csr.indices[pairs], csr.data[pairs])).ravel()
            template = b"".join(b"%d" + b" %d:%d" * size + b"\n" for size in sizes.tolist())
            file.write(template % tuple(np.insert(numbers, 2 * starts, sizes).tolist()))


def check_size(name: str, size: int | None) -> None:
    """Raise a ValueError unless an argument is None or a possible number of columns or rows."""
    if size is not None and not (isinstance(size, Integral) and 0 <= size <= LARGEST):
        raise ValueError(f"{name} must be None or an int of at least 0; got {size!r}.")


class Header(NamedTuple):
    """The header of a file with an entry per line."""

    shape: tuple[int, int]  # documents and words
    n_entries: int
    first_line: int  # of the entries
    limits: tuple[tuple[str, int, int], ...]  # of the columns: name, least and greatest number


def docword_reader(path: PathLike) -> DocumentReader:
    """The documents of a docword file."""

    def rows() -> Iterator[Rows]:
        with opened(path) as file:
            tables = read_entries(file, path, _docword_header(file, path), _parse_docword)
            yield from rows_of_entries(path, tables, header.shape, "docID")

    stamps = stamps_of(path)
    with opened(path) as file:
        header = _docword_header(file, path)
    return DocumentReader(header.shape, None, None, rows, str(path), stamps)


def _docword_header(file: File, path: PathLike, max_documents: int | None = None) -> Header:
    numbers = []
    for line, what in enumerate(("documents (D)", "words (W)", "entries (NNZ)"), start=1):
        text = file.readline(100)
        if not (text.strip().isdigit() and text.endswith(b"\n")):
            shown = text.decode("ascii", "replace").strip()[:60]
            raise ValueError(f"{path}, line {line}: expected the number of {what}, got {shown!r}.")
        numbers.append(int(text))
        if numbers[-1] > LARGEST and line < 3:
            raise ValueError(f"{path}, line {line}: the number of {what} is {numbers[-1]}, above {LARGEST}.")
    n_samples, n_features, n_entries = numbers
    refuse_empty_documents(path, n_samples, n_entries, max_documents)
    limits = ("docID", 1, n_samples), ("wordID", 1, n_features), ("count", 1, LARGEST)
    return Header((n_samples, n_features), n_entries, 4, limits)


def _parse_docword(path: PathLike, first_line: int, block: bytes) -> np.ndarray:
    fields = scan(block)
    refuse_lines(path, first_line, block, fields.bad_lines | (fields.per_line != 3), "'docID wordID count' (numbers)")
    return fields.values.reshape(-1, 3)


def read_entries(
    file: File,
    path: PathLike,
    header: Header,
    parse: Callable[[PathLike, int, bytes], np.ndarray],
    may_lack_end: bool = False,
) -> Tables:
    """The entries, block by block; raises a ValueError if one is invalid, or their number is not that of the header."""
    n_found = 0
    for first_line, block in line_blocks(file, path, header.first_line, may_lack_end=may_lack_end):
        table = parse(path, first_line, block)
        for column, (name, least, greatest) in enumerate(header.limits):
            refuse_values(path, first_line, table[:, column], name, least, greatest)
        n_found += len(table)
        if n_found > header.n_entries:
            raise ValueError(f"{path} has more than {header.n_entries} entries, the number in its header.")
        yield first_line, table
        if len(table) < block.count(b"\n") and n_found < header.n_entries:
            line = first_line + len(table)
            raise ValueError(
                f"{path}, line {line}: the line is empty, but {header.n_entries - n_found} entries are missing."
            )
    if n_found < header.n_entries:
        raise ValueError(
            f"{path} has {n_found} entries, but {header.n_entries} according to its header: it seems to be truncated."
        )


class _Fields(NamedTuple):
    """The whole numbers in a block of lines."""

    values: np.ndarray  # (n_fields,) int64
    ends: np.ndarray  # (n_fields,) position in the block of the end of a field's digits
    per_line: np.ndarray  # (n_lines,) fields in each line
    bad_lines: np.ndarray  # (n_lines,) bool: has a byte that is neither digit nor separator, or a number too long


def scan(block: bytes, separators: bytes = b"") -> _Fields:
    """Parse all digits of a block of whole lines at once; `separators` are allowed besides white space."""
    raw = np.frombuffer(block, dtype=np.uint8)
    digits = raw - np.uint8(ord("0"))  # wraps around below "0"
    is_digit = digits < 10
    edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    sizes = ends - starts
    values = np.zeros(len(starts), dtype=np.int64)
    for place in range(min(int(sizes.max(initial=0)), _MOST_DIGITS)):
        values += np.where(sizes > place, digits[ends - 1 - place], 0) * np.int64(10**place)
    line_ends = np.flatnonzero(raw == ord("\n"))
    per_line = np.diff(np.searchsorted(starts, line_ends), prepend=0)
    allowed = is_digit | _SPACES[raw]
    for separator in separators:
        allowed |= raw == separator
    bad = np.concatenate((np.flatnonzero(~allowed), starts[sizes > _MOST_DIGITS]))
    bad_lines = np.zeros(len(line_ends), dtype=bool)
    bad_lines[np.searchsorted(line_ends, bad)] = True
    return _Fields(values, ends, per_line, bad_lines)


def _parse_ldac(path: PathLike, first_line: int, block: bytes, limit: int):
    """Sizes, ids and counts of a block of lines."""
    fields = scan(block, b":")
    raw = np.frombuffer(block, dtype=np.uint8)
    line_of_field = np.repeat(np.arange(len(fields.per_line)), fields.per_line)
    heads = np.cumsum(fields.per_line) - fields.per_line
    position = np.arange(len(fields.values)) - heads[line_of_field]
    is_id = position % 2 == 1
    # a colon is valid only directly after an id and directly before a digit
    bad_lines = fields.bad_lines | (fields.per_line % 2 == 0)
    bad_lines[line_of_field[(raw[fields.ends] == ord(":")) != is_id]] = True
    colons = np.flatnonzero(raw == ord(":"))
    is_digit = raw - np.uint8(ord("0")) < 10
    astray = colons[~(is_digit[colons - 1] & is_digit[colons + 1])]
    bad_lines[np.searchsorted(np.flatnonzero(raw == ord("\n")), astray)] = True
    refuse_lines(path, first_line, block, bad_lines, "'N id:count id:count ...' (numbers)")
    sizes = fields.values[heads]
    pairs = fields.per_line // 2
    (wrong,) = np.nonzero(sizes != pairs)
    if len(wrong):
        line = wrong[0]
        raise ValueError(f"{path}, line {first_line + line}: expected {sizes[line]} words, got {pairs[line]}.")
    is_count = ~is_id & (position > 0)
    ids, counts = fields.values[is_id], fields.values[is_count]
    refuse_values(path, first_line, ids, "id", 0, limit, line_of_field[is_id])
    refuse_values(path, first_line, counts, "count", 1, LARGEST, line_of_field[is_count])
    return sizes, ids, counts


def refuse_lines(path: PathLike, first_line: int, block: bytes, bad_lines: np.ndarray, wanted: str) -> None:
    """Raise a ValueError for the first bad line of a block."""
    if bad_lines.any():
        line = int(bad_lines.argmax())
        text = block.split(b"\n", line + 1)[line].decode("ascii", "replace").strip()
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise ValueError(f"{path}, line {first_line + line}: expected {wanted}, got {shown!r}.")


def refuse_values(
    path: PathLike,
    first_line: int,
    values: np.ndarray,
    name: str,
    least: int,
    greatest: int,
    lines: np.ndarray | None = None,
) -> None:
    """Raise a ValueError for the first value out of range; without `lines` there is one value in each line."""
    outside = (values < least) | (values > greatest)
    if outside.any():
        worst = int(outside.argmax())
        where = f"{path}, line {first_line + (worst if lines is None else lines[worst])}"
        raise ValueError(f"{where}: {name} {values[worst]} is outside {least}..{greatest}.")


def _assemble(path: PathLike, rows, columns, counts, shape: tuple[int, int], base: int) -> sp.csr_array:
    csr = sp.coo_array((counts, (rows, columns)), shape=shape).tocsr()
    if csr.nnz != len(counts):
        keys = rows.astype(np.int64) * shape[1] + columns
        keys.sort()
        row, column = divmod(int(keys[1:][keys[1:] == keys[:-1]][0]), shape[1])
        raise ValueError(f"{path} has word {column + base} of document {row + base} more than once.")
    csr.sort_indices()
    return csr


def _check_counts(X, whom: str) -> sp.csr_array:
    """Counts as int64 CSR, sorted, without duplicates or zeros; X is not modified."""
    options = {"accept_sparse": ["csr", "csc", "coo"], "ensure_min_samples": 0, "ensure_min_features": 0}
    # float64 before CSR, because sums of duplicates could overflow narrow integers
    csr = canonical_csr(check_array(X, dtype=np.float64, input_name="X", **options))
    if np.any(csr.data < 0):
        raise ValueError(f"Negative values in data passed to {whom}.")
    if np.any(csr.data % 1 != 0) or np.any(csr.data > LARGEST):
        raise ValueError(f"Data passed to {whom} must be whole numbers of at most {LARGEST}.")
    return csr.astype(np.int64)


def load_vocabulary(path: PathLike) -> list[str]:
    """Read a file of words, one per line, in UTF-8; a file whose name ends in ``.gz`` is decompressed.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    words : list of str
        The words, in the order of the lines.

    Raises
    ------
    ValueError
        If the file is not UTF-8, or is a truncated gzip file; or if it exceeds a limit: a line of 2**20 bytes, and for
        a gzip file 2**24 bytes or 200 times its size, whichever is larger.
    """
    return given_words(path)


def given_words(vocabulary: Sequence[str] | PathLike, n_words: int | None = None, whose: object = "") -> list[str]:
    """The words of a sequence or a file; their number must be `n_words`, unless that is None, of the file `whose`."""
    if not isinstance(vocabulary, str | os.PathLike):
        source, words = "The vocabulary", names_in_order(vocabulary, "vocabulary")
    else:
        source, words = str(vocabulary), []
        with opened(vocabulary) as file:
            for first_line, block in line_blocks(file, vocabulary, 1, may_lack_end=True):
                words += words_of(block, vocabulary, first_line)
                if n_words is not None and len(words) > n_words:
                    raise ValueError(f"{source} has more words than the {n_words} that {whose} needs.")
    if n_words is not None and len(words) != n_words:
        raise ValueError(f"{source} has {len(words)} words but {whose} needs {n_words}.")
    return words


def words_of(content: bytes, path: PathLike, first_line: int = 1) -> list[str]:
    """The words of complete lines; the last line may lack its line break."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        raise ValueError(f"{path}, line {line}: not UTF-8.") from error
    # not str.splitlines, which also splits at characters that words may contain
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def dump_vocabulary(words: Sequence[str], path: PathLike) -> None:
    """Write words, one per line, in UTF-8, as :func:`load_vocabulary` reads them.

    Parameters
    ----------
    words : sequence of str
        The words.
    path : str or path-like
        The file, which is replaced if it exists. A file whose name ends in ``.gz`` is compressed.

    Raises
    ------
    ValueError
        If a word is not a str or contains a line break.
    """
    for position, word in enumerate(words):
        if not isinstance(word, str) or "\n" in word or word.endswith("\r"):
            raise ValueError(f"Word {position}, {word!r}, is not a str without line breaks.")
    with replacing(path) as file:
        file.write("".join(f"{word}\n" for word in words).encode())
