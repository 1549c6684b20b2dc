"""Checkpoints of a run, from which another process can resume it: its chains and the latents of its rows."""

from __future__ import annotations

import json
import operator
import os
import shutil
import tempfile
from collections.abc import Callable
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

import numpy as np

from ..._version import __version__
from ...persistence._format import opened, told_in_one_sentence, write
from ...persistence._tree import Decoder, Encoder
from ...samplers._base import BaseSampler
from ...utils._conditions import Array
from ...utils._declared import Keyed
from ...utils._disk import ForeignFileError, check_own, clear_if_unwritable, read_own, remove_folder, sync, write_own
from ...utils._parameters import inherited_parameters
from .._schedule import Schedule, WindowAverage
from .exchange import LatentFile, listed_files
from .session import active_session
from .shards import ShardedModel

_FORMAT = 1  # increased when the contents change
_HEADER = "checkpoint.json"
_CHAINS = "chains.npz"
_MAX_HEADER = 1 << 24  # maximum number of bytes of the header
_ANYWHERE = ("n_jobs", "random_state", "verbose")  # parameters that do not affect the result, or only through the seed
_KIND = "checkpoint"
_CHAIN = Keyed(
    {"state", "sums", "log_density", "draws"},
    state=dict,
    sums=list[tuple[Any, int]],
    log_density=Array("float64", "n_passes", nan=True, infinite=True),
    draws=list[dict],
)


class Checkpoints:
    """The last valid checkpoint of one run, in a folder, created if needed, that all workers can access.

    A checkpoint is a folder that no other user may open. It gets its name only when complete, and the previous one is
    removed after that, so that there is always a valid one. ``checkpoint.json``, the header, has the identity of the
    run, the pass, sizes and digests of all files and of itself; ``chains.npz`` the chains, in the format of saved
    estimators; other files latents of rows (`exchange`). A checkpoint of another `run` raises an error that names
    the difference.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int, run: dict[str, str], key: np.uint64):
        self.folder = Path(folder)
        self.every = every
        self.run = run
        self._key = key

    def save(self, iteration: int, chains: list, model: Any) -> None:
        """Write the state after a pass; after an OSError the previous checkpoint is kept."""
        name = f"pass-{iteration:08d}"
        target = self.folder / name
        if (target / _HEADER).exists():  # of this run before a worker was lost
            return
        what = f"The checkpoint after pass {iteration}"
        with clear_if_unwritable(what, self.folder, "; the previous one, if any, is kept"):
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)  # the rest of a removed checkpoint
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.folder))  # not accessible to other users
            try:
                header = {"format": _FORMAT, "version": __version__, "run": self._run_of(model), "pass": iteration}
                header["latents"] = _write_latents(chains, model, scratch)
                header["chains"] = write_chains(scratch / _CHAINS, [chain.stored() for chain in chains])
                text = json.dumps({**header, "digest": _digest(header)}, indent=1)
                write_own(scratch / _HEADER, text.encode())
                sync(scratch)
                scratch.rename(target)
            except BaseException:
                remove_folder(scratch)
                raise
            sync(self.folder)
        self.remove(but=target)  # the previous checkpoint and incomplete ones

    def remove(self, but: Path | None = None) -> None:
        """Remove all checkpoints except `but`; a finished fit needs none."""
        for path in (*self.folder.glob("pass-*"), *self.folder.glob(".pass-*")):
            if path != but:
                remove_folder(path)

    def load(self, model: Any, resume: Callable[[int, Any], list]) -> tuple[int, list] | None:
        """Pass and chains, ``resume(pass, stored chains)``, of the last checkpoint, or None; shards load latents.

        ValueError if it is of another run, version or user, or damaged; OSError if the folder cannot be read.
        """
        folder = self._last()
        if folder is None:
            return None
        try:
            header, is_whole = _read_header(folder)
            self._check_run(folder, header, is_whole, model)
            iteration = header["pass"]
            chains = resume(iteration, read_chains(folder / _CHAINS, header.get("chains")))
            model.resume(_latent_files(header, chains, model), str(folder))
        except ForeignFileError as error:
            raise ValueError(
                f"The checkpoint {folder} is not used: {error}; pass a folder of the current user as checkpoint_dir."
            ) from error
        except _OtherRunError as error:
            raise ValueError(str(error)) from None
        except (OSError, ValueError) as error:
            reason = str(error).rstrip(".")
            raise ValueError(f"The checkpoint {folder} is damaged: {reason}; remove it to start again.") from error
        return iteration, chains

    def _last(self) -> Path | None:
        """The folder of the last complete checkpoint."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OSError(error.errno, f"Checkpoints in {self.folder} cannot be read ({error.strerror}).") from error
        passes = {int(name[5:]): name for name in names if name.startswith("pass-") and name[5:].isdecimal()}
        for _, name in sorted(passes.items(), reverse=True):
            if os.path.lexists(self.folder / name / _HEADER):
                return self.folder / name
        return None

    def _run_of(self, model: Any) -> dict[str, str]:
        """The identity of the run with that of the data; the hash of all rows is computed once."""
        if "data" not in self.run:
            self.run = {**self.run, "data": f"{model.shards.hash_rows(self._key):016x}"}
        return self.run

    def _check_run(self, folder: Path, header: dict[str, Any], is_whole: bool, model: Any) -> None:
        """Raise an error unless the checkpoint is of this run, and of this user."""
        if (header.get("format"), header.get("version")) != (_FORMAT, __version__):
            raise _OtherRunError(
                f"The checkpoint {folder} was written by skmanifold {_short(header.get('version'))} in format "
                f"{_short(header.get('format'))}, but this is skmanifold {__version__}, which only resumes its own "
                f"checkpoints of format {_FORMAT}: finish the run with that version, or pass another folder."
            )
        check_own(folder, is_folder=True)
        if not is_whole or not isinstance(header.get("run"), dict):
            raise ValueError(f"{_HEADER} does not match its checksum")
        for name, wanted in self._run_of(model).items():
            found = header["run"].get(name)
            if found != wanted:
                what = "the data differ" if name == "data" else f"its {name} is {_short(found)}, not {_short(wanted)}"
                raise _OtherRunError(
                    f"The checkpoint {folder} is of another run: {what}; pass the same data and settings (with an "
                    "int as random_state) or another folder."
                )


class _OtherRunError(ValueError):
    """Raised if a checkpoint is valid but of another run."""


def _read_header(folder: Path) -> tuple[dict[str, Any], bool]:
    """The header, and whether its digest is correct."""
    path = folder / _HEADER
    size = check_own(path)
    if size > _MAX_HEADER:
        raise ValueError(f"{_HEADER} has {size} bytes, more than the maximum {_MAX_HEADER}")
    try:
        header = json.loads(read_own(path, size))
        if not isinstance(header, dict):
            raise ValueError(f"the header must be a dict, not a {type(header).__name__}")
        return header, header.pop("digest", None) == _digest(header)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_HEADER} cannot be read") from error


def _short(value: Any) -> str:
    return repr(value)[:200]


def _write_latents(chains: list, model: Any, folder: Path) -> dict[str, list[LatentFile]]:
    """Write the latents of all shards; returns the entries of the header for their files, by chain."""
    numbers = _numbers_of_latents(chains)
    try:
        files = model.shards.save(numbers, str(folder))
    except PermissionError as error:
        message = f"{error.strerror}: all workers must run as the user of this process"
        raise PermissionError(error.errno, message) from error
    return {str(number): of_chain for number, of_chain in files.items()}


def _latent_files(header: dict[str, Any], chains: list, model: Any) -> dict[int, list[LatentFile]]:
    """The files with the latents of each chain; the header must list every row of each chain exactly once."""
    numbers = _numbers_of_latents(chains)
    listed = header.get("latents")
    if not isinstance(listed, dict) or sorted(listed) != sorted(map(str, numbers)):
        raise ValueError(f"{_HEADER} does not list the latents of each chain")
    dtype = model.latent_type(chains[0].sampler.draws_parameters)
    return {number: listed_files(listed[str(number)], model.n_rows, dtype) for number in numbers}


def _numbers_of_latents(chains: list) -> list[int]:
    """The numbers that identify, for the shards, the latents of chains with latents."""
    numbers = [getattr(chain.state, "latents", None) for chain in chains]
    return [number for number in numbers if number is not None]


def _digest(header: dict[str, Any]) -> str:
    return blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16).hexdigest()


def describe_run(estimator: Any, key: Any, shape: tuple[int, int]) -> dict[str, str]:
    """The settings that determine the result of a fit: estimator, seed, shape of the data and parameters."""
    run = {"estimator": type(estimator).__name__, "seed": f"{int(key):016x}", "shape of X": f"{shape[0]} x {shape[1]}"}
    parameters = sorted({**inherited_parameters(estimator), **estimator.get_params()}.items())
    return run | {name: _described(value) for name, value in parameters if name not in _ANYWHERE}


def _described(value: Any) -> str:
    """A parameter as text; for an array, which may be long, a digest."""
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        try:
            array = np.ascontiguousarray(value)
        except ValueError:  # lists of different lengths
            return repr(value)
        if not array.dtype.hasobject:
            digest = blake2b(f"{array.dtype.str} {array.shape}".encode(), digest_size=8)
            digest.update(array.data)
            return f"array {digest.hexdigest()}"
    return repr(value)


def write_chains(path: Path, chains: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the result of `Chain.stored` for each chain; returns the entry of the header for the file.

    TypeError for contents of classes outside of the package; the state itself may be of any class.
    """
    encoder = Encoder("A checkpoint of this sampler")
    tree = encoder.encode([{**chain, "state": chain["state"]._asdict()} for chain in chains])
    write(path, tree, encoder.arrays, compress=False, kind=_KIND)
    os.chmod(path, 0o600)
    return _size_and_digest(path)


def read_chains(path: Path, entry: Any) -> Any:
    """The contents of such a file, not validated; ValueError if it is damaged."""
    if entry != _size_and_digest(path):
        raise ValueError(f"{path.name} does not match its checksum")
    with opened(path, kind=_KIND) as (document, arrays), told_in_one_sentence(f"{path.name} cannot be read"):
        return Decoder(arrays).decode(document[_KIND])


def _size_and_digest(path: Path) -> dict[str, Any]:
    """The entry of the header for a file of this user."""
    size = check_own(path)
    with open(path, "rb") as file:
        return {"bytes": size, "digest": file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()}


def check_trace(stored: Any, iteration: int) -> list[float]:
    """The log densities of the passes of such a chain; a ValueError if their number or another part is wrong."""
    _CHAIN(stored, "a chain", {"n_passes": iteration})
    return stored["log_density"].tolist()


def check_chain(stored: Any, sampler: BaseSampler, model: Any, schedule: Schedule, iteration: int) -> None:
    """Raise a ValueError unless this can be a chain of this run after this number of passes.

    Its state is converted to the class of the sampler.
    """
    drawn = sampler.draws_parameters
    state = stored["state"] = _state_of(sampler, stored["state"], model.latent_type(drawn) is not None)
    model.check_position(state.position, drawn)
    model.check_statistics(getattr(state, "statistics", None))
    counted = WindowAverage(*window_of(sampler, schedule), operator.add)
    for i in range(1, iteration + 1):
        counted.update(i, 1)
    if [n for _, n in stored["sums"]] != [n for _, n in counted.sums]:
        raise ValueError("sums over passes do not match the number of passes")
    for total, _ in stored["sums"]:
        model.check_statistics(total)
    n_draws = sum(map(schedule.is_draw, range(1, iteration + 1)))
    if len(stored["draws"]) != n_draws:
        raise ValueError(f"after {iteration} passes there are {n_draws} draws")
    for value in (value for draw in stored["draws"] for value in draw.values()):
        if not isinstance(value, np.ndarray):
            model.check_position(value, drawn)


def check_draws(chains: list[dict[str, Any]], shapes_vary: bool) -> None:
    """Raise a ValueError unless draws of all chains have the same names, types and shapes, or numbers of dimensions."""
    if any([*map(set, chain["draws"])] != [*map(set, chains[0]["draws"])] for chain in chains):
        raise ValueError("chains have draws of different quantities")
    kinds: dict[Any, Any] = {}
    for name, value in (item for chain in chains for draw in chain["draws"] for item in draw.items()):
        kind: Any = type(value)
        if isinstance(value, np.ndarray):
            kind = value.dtype, value.ndim if shapes_vary else value.shape
        if not isinstance(name, str) or kinds.setdefault(name, kind) != kind:
            raise ValueError(f"draws of {name!r} differ in shape or type")


def window_of(sampler: BaseSampler, schedule: Schedule) -> tuple[int, int, int]:
    """The passes that are averaged, in the format of `WindowAverage`: length of a window, last pass and first."""
    return sampler.average_window(schedule.n_kept_passes), schedule.max_iter, schedule.burn_in + 1


def _state_of(sampler: BaseSampler, stored: Any, has_latents: bool) -> Any:
    """The state of a sampler from its fields by name."""
    types: list[Any] = [kind for kind in sampler.state_types if {*kind._fields} == {*stored}]  # type: ignore[attr-defined]
    if not types:
        raise ValueError("a dict is not the state of a chain")
    state = types[0](**stored)
    if not isinstance(state.key, np.uint64) or type(state.n_steps) is not int or state.n_steps < 0:
        raise ValueError("the random stream of a chain is not valid")
    if not isinstance(state.log_density, float):  # includes floats of numpy
        raise ValueError("a log density is not a number")
    latents = getattr(state, "latents", None)
    if latents is not None and (type(latents) is not int or latents < 0):
        raise ValueError("the number of a chain is not valid")
    if has_latents and latents is None:
        raise ValueError("a chain has no latents")
    return state


def checkpoints_of(estimator: Any, key: np.uint64, model: ShardedModel) -> Checkpoints | None:
    """The checkpoints of the fit, or None."""
    session = active_session()
    if session is None or session.checkpoint_dir is None:
        return None
    run = describe_run(estimator, key, (model.shards.n_rows, model.shards.n_features))
    return Checkpoints(session.checkpoint_dir, session.checkpoint_every, run, key)
