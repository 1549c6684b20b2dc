"""The header of a corpus, with a description and checksums of its files."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..utils._regular_files import opened_regular
from ._array_file import HEADER_BYTES, n_pieces
from ._stamps import Stamp, stamp_of

FORMAT = "skmanifold corpus"
VERSION = 1
HEADER = "header.json"
VOCABULARY = "vocabulary.txt"
CHECKSUMS = "checksums.npy"  # checksums of the pieces of all arrays, in their order
INDPTR, TOKENS, INDICES, COUNTS = ARRAYS = ("indptr.npy", "tokens.npy", "indices.npy", "counts.npy")
COUNT_TYPES = ("|u1", "<u2", "<i4")  # possible types of the counts on disk; the smallest sufficient one is used
_DTYPES = {INDPTR: ("<i8",), TOKENS: ("<i8",), INDICES: ("<i4",), COUNTS: COUNT_TYPES, CHECKSUMS: ("<u4",)}
_NUMBERS = ("n_rows", "n_features", "n_pairs", "n_tokens")
_LONGEST = 1 << 16  # maximum number of bytes of the header
_MOST_COLUMNS = int(np.iinfo(np.int32).max)
_MOST = int(np.iinfo(np.int64).max)
_FIELDS = {"dtype": str, "crc32": int}


class Header(NamedTuple):
    """The contents of a validated header."""

    n_rows: int
    n_features: int
    n_pairs: int
    n_tokens: int
    sizes: dict[str, int]  # items of each array
    files: dict[str, dict[str, Any]]  # dtype of an array, number of bytes, CRC-32 of files without pieces


def write_header(folder: Path, numbers: dict[str, int], files: dict[str, dict[str, Any]]) -> None:
    """Describe the files of a folder, with a checksum of the header itself."""
    for name, described in files.items():
        described["bytes"] = stamp_of(folder / name).n_bytes
    header = {"format": FORMAT, "version": VERSION, **numbers, "files": files}
    header["crc32"] = _checksum(header)
    (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n", "utf-8")


def _checksum(header: dict) -> int:
    return zlib.crc32(json.dumps(header, sort_keys=True).encode())


def read_header(path: Path) -> tuple[Header, dict[str, Stamp]]:
    """The header of a corpus, and the stamps of its files, whose sizes are checked."""
    stamps = {HEADER: _header_stamp(path)}
    found = parse_header(path)
    version = found.get("version")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"{path} has format {version}, but this release reads up to format {VERSION}: upgrade skmanifold."
        )
    header = _checked(path, found)
    for name, described in header.files.items():
        try:
            stamps[name] = stamp_of(path / name)
        except FileNotFoundError as error:
            raise ValueError(f"{path} is damaged: {name} is missing.") from error
        if stamps[name].n_bytes != described["bytes"]:
            raise ValueError(
                f"{path} is damaged: {name} has {stamps[name].n_bytes} bytes, not the {described['bytes']} written."
            )
    return header, stamps


def parse_header(path: Path) -> dict:
    """The parsed header of a corpus; only the name of the format is checked."""
    with opened_regular(path / HEADER) as file:
        content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ValueError(f"{path} is not a corpus: its {HEADER} has more than {_LONGEST} bytes.")
    try:
        header = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a corpus: its {HEADER} is not JSON.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a corpus: its {HEADER} does not name the format {FORMAT!r}.")
    return header


def _header_stamp(path: Path) -> Stamp:
    if not path.exists():
        raise FileNotFoundError(f"There is no corpus at {path}.")
    try:
        return stamp_of(path / HEADER)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(f"{path} is not a corpus: it has no {HEADER}.") from error


def _checked(path: Path, found: dict) -> Header:
    """A validated header: the types of its fields, and their consistency."""
    version: Any = found.get("version")
    numbers: list[Any] = [found.get(name) for name in _NUMBERS]
    crc32 = found.pop("crc32", None)
    wanted = {"format", "version", "files", *_NUMBERS}
    if not (_is_count(version) and version == VERSION and {*found} == wanted and all(map(_is_count, numbers))):
        raise _incomplete(path)
    files = _checked_files(path, found["files"])
    if crc32 != _checksum(found):
        raise ValueError(f"{path} is damaged: its {HEADER} does not have the checksum with which it was written.")
    n_rows, n_features, n_pairs, n_tokens = numbers
    sizes = {INDPTR: n_rows + 1, TOKENS: n_rows + 1, INDICES: n_pairs, COUNTS: n_pairs}
    item_bytes = {name: np.dtype(files[name]["dtype"]).itemsize for name in _DTYPES}
    sizes[CHECKSUMS] = sum(n_pieces(item_bytes[name] * sizes[name]) for name in ARRAYS)
    for name, size in sizes.items():
        if files[name]["bytes"] != HEADER_BYTES + item_bytes[name] * size:
            raise ValueError(f"{path} is damaged: {name} is not the array that {HEADER} describes.")
    if n_features > _MOST_COLUMNS:
        raise ValueError(f"{path} is damaged: it has {n_features} columns, more than the maximum {_MOST_COLUMNS}.")
    return Header(n_rows, n_features, n_pairs, n_tokens, sizes, files)


def _checked_files(path: Path, files: Any) -> dict[str, dict[str, Any]]:
    """Validated descriptions of the files, which must have known names and all required fields."""
    if not isinstance(files, dict) or {*files} - {VOCABULARY} != {*ARRAYS, CHECKSUMS}:
        raise _incomplete(path)
    for name, described in files.items():
        wanted = {"bytes"} | ({"dtype"} if name in _DTYPES else set())
        wanted |= set() if name in ARRAYS else {"crc32"}
        if not isinstance(described, dict) or {*described} != wanted or not _is_count(described["bytes"]):
            raise _incomplete(path)
        if not all(type(described[field]) is kind for field, kind in _FIELDS.items() if field in wanted):
            raise _incomplete(path)
        if name in _DTYPES and described["dtype"] not in _DTYPES[name]:
            raise ValueError(f"{path} is damaged: {name} cannot have the type {described['dtype']!r}.")
    return files


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number <= _MOST


def _incomplete(path: Path) -> ValueError:
    return ValueError(f"{path} is damaged: its {HEADER} is incomplete.")
