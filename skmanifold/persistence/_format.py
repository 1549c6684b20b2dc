"""The file format: a zip archive of one JSON document and of arrays in the format of ``numpy.savez``, without code.

``numpy.load(path)`` opens it too. The same estimator gives the same bytes. Arrays are read at their first use, with a
limit on their size: see `utils/_zip_members.py`.
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
from ..utils._disk import opened_regular, replaced
from ..utils._zip_members import DEFAULT_BYTES, MORE_BYTES, Arrays, check_members, read_document

FORMAT = 1  # increased when earlier releases cannot read new files
_MAGIC = "skmanifold {kind}"
_DOCUMENT = "{kind}.json"  # also the key of the tree
_SIGNATURE = b"PK\x03\x04"  # first bytes of a zip archive that is not empty
_MAX_REASON = 400  # maximum number of characters from messages of other libraries
_LIBRARIES = {  # for inspection of files only
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}


class UnknownFormatError(ValueError):
    """Raised if a file is not of this package, or newer than this version of it."""


def write(path: Path, tree: Any, arrays: dict[str, np.ndarray], compress: bool, kind: str = "estimator") -> None:
    """Write a tree and its arrays to a file, which gets its name only when it is complete."""
    head = {"magic": _MAGIC.format(kind=kind), "format": FORMAT, "skmanifold": __version__, "libraries": _LIBRARIES}
    text = json.dumps({**head, kind: tree}, allow_nan=False).encode("ascii")
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with replaced(path) as temporary, zipfile.ZipFile(temporary, "x", method) as archive:
        with archive.open(_DOCUMENT.format(kind=kind), "w", force_zip64=True) as member:
            member.write(text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextmanager
def opened(
    path: Path, kind: str = "estimator", max_bytes: int | None = None
) -> Iterator[tuple[dict[str, Any], Mapping[str, np.ndarray]]]:
    """The document of an open file, and its arrays, which are read at their first use.

    Parameters
    ----------
    path : Path
    kind : str, default="estimator"
    max_bytes : int, optional
        Maximum size of the arrays; None is 4 GiB, or the size of the file if it is larger.

    Raises
    ------
    UnknownFormatError
        If the file is not of this package, or of a newer format.
    ValueError
        If the file is not a regular file, is damaged, or is larger than the limits.
    """
    with opened_regular(path) as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise _other_file(path, kind)
        n_bytes = os.fstat(file.fileno()).st_size
        most = max(DEFAULT_BYTES, n_bytes) if max_bytes is None else int(max_bytes)
        with told_in_one_sentence(f"{path} is truncated or altered, and cannot be loaded"):
            archive = zipfile.ZipFile(file)
            check_members(archive, n_bytes)
            document = _read_document(path, archive, kind, most)
        yield document, Arrays(archive, most, MORE_BYTES)


@contextmanager
def told_in_one_sentence(what: str) -> Iterator[None]:
    """Convert all errors from the contents of a file to a ValueError with a one-sentence message."""
    try:
        yield
    except UnknownFormatError:
        raise
    except MemoryError as error:
        raise ValueError(f"{what} (there is not enough memory for the sizes that it specifies).") from error
    except RecursionError as error:
        raise ValueError(f"{what} (it is nested too deeply).") from error
    except Exception as error:  # damaged files can raise errors of many types
        text = " ".join(str(error).split())
        if not isinstance(error, ValueError):
            text = f"its contents are not valid; {type(error).__name__}: {text}"
        raise ValueError(f"{what} ({text[:_MAX_REASON].rstrip('.')}).") from error


def _read_document(path: Path, archive: zipfile.ZipFile, kind: str, max_bytes: int) -> dict[str, Any]:
    name = _DOCUMENT.format(kind=kind)
    if name not in archive.namelist():
        raise _other_file(path, kind)
    document = json.loads(read_document(archive, name, max_bytes))
    if not isinstance(document, dict) or document.get("magic") != _MAGIC.format(kind=kind):
        raise _other_file(path, kind)
    if document["format"] > FORMAT:
        raise UnknownFormatError(
            f"{path} was written by skmanifold {document['skmanifold']} in format {document['format']}; this is "
            f"skmanifold {__version__}, which reads up to format {FORMAT}: upgrade skmanifold."
        )
    return document


def _other_file(path: Path, kind: str) -> UnknownFormatError:
    wrote = "the method `save` of an estimator of skmanifold wrote"
    what = wrote if kind == "estimator" else f"holds a {kind} of skmanifold"
    return UnknownFormatError(f"{path} is not a file that {what}.")
