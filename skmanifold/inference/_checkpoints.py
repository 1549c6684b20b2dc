"""Where a run stands, written to a folder every so many passes, so that it can be taken up by another process."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..utils._disk import clear_if_unwritable

_FORMAT = 2  # of what is written
_HEADER = "checkpoint.json"
_CHAINS = "chains.pickle"
_ANYWHERE = ("n_jobs", "random_state", "verbose")  # parameters that decide nothing, or through the seed alone


class Checkpoints:
    """The last good checkpoint of one run, in a folder that all who hold rows can reach.

    A checkpoint is a folder of its own, which appears under its name only when it is complete. The one before is
    removed after that: whatever happens, one good checkpoint is there.

    Parameters
    ----------
    folder : str or path-like
        Made if it does not exist.
    every : int
        Passes from one checkpoint to the next.
    run : dict of str to JSON values
        What makes a run this one: a checkpoint of another run is refused, by the name of what differs.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int, run: dict[str, Any]):
        self.folder = Path(folder)
        self.every = every
        self.run = {"format": _FORMAT, "version": __version__, **run}

    def is_due(self, iteration: int) -> bool:
        """Whether the state after this pass is to be written."""
        return iteration % self.every == 0

    def save(self, iteration: int, chains: list, model: Any) -> None:
        """Write the state after a pass.

        Raises
        ------
        OSError
            If it cannot be written; the checkpoint before is untouched.
        """
        name = f"pass-{iteration:08d}"
        target = self.folder / name
        if (target / _HEADER).exists():  # of the same run, after a worker was lost
            return
        what = f"The checkpoint after pass {iteration}"
        with clear_if_unwritable(what, self.folder, "; the one before, if any, is untouched"):
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)  # what is left of one that was removed
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.folder))
            scratch.chmod(0o777)  # workers may be other users
            try:
                model.shards.save(_with_latents(chains), str(scratch))
                pickled = pickle.dumps(chains)
                _write(scratch / _CHAINS, pickled)
                header = {**self.run, "pass": iteration, "crc": zlib.crc32(pickled)}
                _write(scratch / _HEADER, json.dumps(header, indent=1).encode())
                scratch.rename(target)
            except BaseException:
                shutil.rmtree(scratch, ignore_errors=True)
                raise
        for other in (*self.folder.glob("pass-*"), *self.folder.glob(".pass-*")):  # before, or cut short
            if other != target:
                shutil.rmtree(other, ignore_errors=True)

    def load(self, model: Any) -> tuple[int, list] | None:
        """Pass and chains of the last checkpoint, the shards' latents with them; None if there is none.

        Raises
        ------
        ValueError
            If it is of another run, another version, or damaged.
        """
        complete = sorted(path.parent for path in self.folder.glob(f"pass-*/{_HEADER}"))
        if not complete:
            return None
        folder = complete[-1]
        try:
            header = json.loads((folder / _HEADER).read_text())
            iteration, crc, _ = header["pass"], header["crc"], header["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"The checkpoint {folder} is damaged: {_HEADER} cannot be read.") from error
        for name, wanted in self.run.items():
            found = header.get(name)
            if found != wanted:
                raise ValueError(
                    f"The checkpoint {folder} is of another run: its {name} is {found!r}, not {wanted!r}; give "
                    "the same settings (with an int as random_state) or another folder."
                )
        try:
            pickled = (folder / _CHAINS).read_bytes()
            if zlib.crc32(pickled) != crc:
                raise ValueError(f"{_CHAINS} is not what was written.")
            chains = pickle.loads(pickled)
            model.resume(_with_latents(chains), str(folder))
        except (OSError, EOFError, ValueError) as error:
            raise ValueError(f"The checkpoint {folder} is damaged: {error}") from error
        for chain in chains:
            chain.model = model
        return int(iteration), chains


def _with_latents(chains: list) -> list[int]:
    return [chain.state.latents for chain in chains if chain.state.latents is not None]


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def describe_run(estimator: Any, key: Any, shape: tuple[int, int]) -> dict[str, str]:
    """What decides the result of a fit: estimator, seed, size of the data and all parameters but where it runs."""
    run = {"estimator": type(estimator).__name__, "seed": f"{int(key):016x}", "shape of X": f"{shape[0]} x {shape[1]}"}
    for name, value in sorted(estimator.get_params().items()):
        if name not in _ANYWHERE:
            text = repr(value)
            if hasattr(value, "__array__"):  # which may be long
                text = f"array {zlib.crc32(np.ascontiguousarray(value).tobytes()):08x}"
            run[name] = text
    return run
