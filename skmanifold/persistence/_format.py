"""The file: a zip archive of one JSON document and of arrays, as ``numpy.savez`` would write them, so no code is in it.

``numpy.load(path)`` opens it too. The same estimator gives the same bytes.
"""

from __future__ import annotations

import json
import math
import platform
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from .._version import __version__
from ..utils._disk import replaced

FORMAT = 1  # raised when an older version of the package could not read what is written
_MAGIC = "skmanifold {kind}"
_DOCUMENT = "{kind}.json"  # also the name under which it holds the tree
_SIGNATURE = b"PK\x03\x04"  # of a zip archive that has something in it
_HEADERS = {  # of arrays, by the version of numpy's own format
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_PIECE = 1 << 22  # bytes read at a time
_LIBRARIES = {  # to look at where a file puzzles; nothing depends on it
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}


class UnknownFormatError(ValueError):
    """Raised where a file is not ours, or newer than this version of the package."""


def write(path: Path, tree: Any, arrays: dict[str, np.ndarray], compress: bool, kind: str = "estimator") -> None:
    """Write a tree and its arrays to a file of this kind, which appears under its name only when it is complete."""
    document = {
        "magic": _MAGIC.format(kind=kind),
        "format": FORMAT,
        "skmanifold": __version__,
        "libraries": _LIBRARIES,
        kind: tree,
    }
    text = json.dumps(document, allow_nan=False).encode("ascii")
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with replaced(path) as temporary, zipfile.ZipFile(temporary, "x", method) as archive:
        with archive.open(_DOCUMENT.format(kind=kind), "w", force_zip64=True) as member:
            member.write(text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read(path: Path, kind: str = "estimator") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document of a file of this kind, and its arrays.

    Raises
    ------
    UnknownFormatError
        If it is no such file, or one of a newer format.
    ValueError
        If it is damaged.
    """
    with open(path, "rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise _other_file(path, kind)
        with (
            told_in_one_sentence(f"{path} is truncated or altered, and cannot be loaded"),
            zipfile.ZipFile(file) as archive,
        ):
            document = _read_document(path, archive, kind)
            # A later format makes a document of format 1 one of its own here; its arrays are read as they are.
            names = [name for name in archive.namelist() if name != _DOCUMENT.format(kind=kind)]
            return document, {name.removesuffix(".npy"): _read_array(archive, name) for name in names}


@contextmanager
def told_in_one_sentence(what: str) -> Iterator[None]:
    """Whatever goes wrong with what is in a file is told as a ValueError."""
    try:
        yield
    except (UnknownFormatError, MemoryError):
        raise
    except Exception as error:  # bad bytes have many ways to be bad
        reason = f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{what} ({reason.rstrip('.')}).") from error


def _read_document(path: Path, archive: zipfile.ZipFile, kind: str) -> dict[str, Any]:
    name = _DOCUMENT.format(kind=kind)
    if name not in archive.namelist():
        raise _other_file(path, kind)
    document = json.loads(archive.read(name))
    if not isinstance(document, dict) or document.get("magic") != _MAGIC.format(kind=kind):
        raise _other_file(path, kind)
    if document["format"] > FORMAT:
        raise UnknownFormatError(
            f"{path} was written by skmanifold {document['skmanifold']} in format {document['format']}; this is "
            f"skmanifold {__version__}, which reads up to format {FORMAT}: upgrade skmanifold."
        )
    return document


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as member:
        shape, transposed, dtype = _HEADERS[np.lib.format.read_magic(member)](member)
        if dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which are never read")
        if member.tell() + math.prod(shape) * dtype.itemsize != archive.getinfo(name).file_size:  # before room is made
            raise ValueError(f"{name} is not as long as it says")
        array = np.empty(shape[::-1] if transposed else shape, dtype)
        if array.nbytes:
            room = array.reshape(-1).view(np.uint8).data
            while len(room):
                piece = member.read(_PIECE)  # the last one checks the sum of all bytes
                if not piece:
                    raise EOFError(f"{name} ends too early")
                room[: len(piece)] = piece
                room = room[len(piece) :]
        return array.T if transposed else array


def _other_file(path: Path, kind: str) -> UnknownFormatError:
    writer = {"estimator": "the method `save` of an estimator of skmanifold wrote"}.get(
        kind, f"holds a {kind} of skmanifold"
    )
    return UnknownFormatError(f"{path} is not a file that {writer}.")
