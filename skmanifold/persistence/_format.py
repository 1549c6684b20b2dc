"""The file: a zip archive of one JSON document and of arrays, as ``numpy.savez`` would write them, so no code is in it.

``numpy.load(path)`` opens it too. The same estimator gives the same bytes. Arrays are read when they are first asked
for, within a limit on their size: see `_members.py`.
"""

from __future__ import annotations

import json
import os
import platform
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from .._version import __version__
from ..utils._disk import replaced
from ._members import Arrays, Limits, check_members, read_document

FORMAT = 1  # raised when an older version of the package could not read what is written
_MAGIC = "skmanifold {kind}"
_DOCUMENT = "{kind}.json"  # also the name under which it holds the tree
_SIGNATURE = b"PK\x03\x04"  # of a zip archive that has something in it
_MAX_REASON = 400  # characters of what another library says
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


def read(
    path: Path, kind: str = "estimator", max_bytes: int | None = None
) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """The document of a file of this kind, and its arrays, which are read as they are asked for.

    Parameters
    ----------
    path : Path
    kind : str, default="estimator"
    max_bytes : int, optional
        The most that the arrays may take; None is 4 GiB, or the size of the file if it is larger.

    Raises
    ------
    UnknownFormatError
        If it is no such file, or one of a newer format.
    ValueError
        If it is damaged, or larger than the limits.
    """
    with open(path, "rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise _other_file(path, kind)
        n_bytes = os.fstat(file.fileno()).st_size
    limits = Limits.of(n_bytes, max_bytes)
    with told_in_one_sentence(f"{path} is truncated or altered, and cannot be loaded"):
        archive = zipfile.ZipFile(path)  # closed with the last of those that hold it
        check_members(archive, n_bytes)
        document = _read_document(path, archive, kind, limits)
        # A later format makes a document of format 1 one of its own here; its arrays are read as they are.
        return document, Arrays(archive, limits)


@contextmanager
def told_in_one_sentence(what: str) -> Iterator[None]:
    """Whatever goes wrong with what is in a file is told as a ValueError."""
    try:
        yield
    except UnknownFormatError:
        raise
    except MemoryError as error:
        raise ValueError(f"{what} (there is not enough memory for what it says it holds).") from error
    except RecursionError as error:
        raise ValueError(f"{what} (it is nested too deeply).") from error
    except Exception as error:  # bad bytes have many ways to be bad
        text = " ".join(str(error).split())
        reason = (
            text if isinstance(error, ValueError) else f"it is not as it is written; {type(error).__name__}: {text}"
        )
        raise ValueError(f"{what} ({reason[:_MAX_REASON].rstrip('.')}).") from error


def _read_document(path: Path, archive: zipfile.ZipFile, kind: str, limits: Limits) -> dict[str, Any]:
    name = _DOCUMENT.format(kind=kind)
    if name not in archive.namelist():
        raise _other_file(path, kind)
    document = json.loads(read_document(archive, name, limits))
    if not isinstance(document, dict) or document.get("magic") != _MAGIC.format(kind=kind):
        raise _other_file(path, kind)
    if document["format"] > FORMAT:
        raise UnknownFormatError(
            f"{path} was written by skmanifold {document['skmanifold']} in format {document['format']}; this is "
            f"skmanifold {__version__}, which reads up to format {FORMAT}: upgrade skmanifold."
        )
    return document


def _other_file(path: Path, kind: str) -> UnknownFormatError:
    writer = {"estimator": "the method `save` of an estimator of skmanifold wrote"}.get(
        kind, f"holds a {kind} of skmanifold"
    )
    return UnknownFormatError(f"{path} is not a file that {writer}.")
