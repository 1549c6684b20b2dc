"""Vocabularies: files of one word per line."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..utils._inputs.column_order import names_in_order
from ._text_files import PathLike, line_blocks, opened, replacing


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
    return words_for(path, None)


def words_for(path: PathLike, n_words: int | None, whose: object = "") -> list[str]:
    """The words of a file; their number must be `n_words` unless that is None. `whose` is named in the error."""
    words: list[str] = []
    with opened(path) as file:
        for first_line, block in line_blocks(file, path, 1, may_lack_end=True):
            words += words_of(block, path, first_line)
            if n_words is not None and len(words) > n_words:
                raise ValueError(f"{path} has more words than the {n_words} that {whose} needs.")
    if n_words is not None and len(words) < n_words:
        raise ValueError(f"{path} has {len(words)} words but {whose} needs {n_words}.")
    return words


def given_words(vocabulary: Sequence[str] | PathLike, n_words: int | None = None, whose: object = "") -> list[str]:
    """The words of a sequence or a file; their number must be `n_words` unless that is None."""
    if isinstance(vocabulary, str | os.PathLike):
        return words_for(vocabulary, n_words, whose)
    words = names_in_order(vocabulary, "vocabulary")
    if n_words is not None and len(words) != n_words:
        raise ValueError(f"The vocabulary has {len(words)} words but {whose} needs {n_words}.")
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
