"""Altered checkpoints: a fit that finds one ends as if it had not been altered, or with one sentence.

Alterations of the second sort come with digests that fit: what no digest can tell must still break nothing.
"""

import itertools
import json
import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skmanifold import ExponentialFamilyMixture, StochasticLDA, distributed
from skmanifold.inference._chains import Chain
from skmanifold.inference._distributed_fits.checkpoints import _digest, _size_and_digest
from skmanifold.persistence._format import opened, write
from skmanifold.samplers import EM

from ._cases import one_sentence

_RNG = np.random.default_rng(0)
_COUNTS = _RNG.poisson(1.0, (30, 8))
_REALS = _RNG.normal(size=(30, 3))
_SHARED = {"n_chains": 2, "max_iter": 6, "thin": 1, "random_state": 0}
_VALUES = (10**9, 10**30, -1, 0, 1, 2, 5, 1e300, float("inf"), True, None, "", "x", "<u2", "<u4", "|O", [], {}, [[]])


class Case(NamedTuple):
    """A fit, what it learns, and the checkpoint that it left when it was cut short."""

    make: object  # from nothing to an estimator
    data: np.ndarray
    learned: list
    folder: Path


_FITS = {
    "esca": (lambda: StochasticLDA(3, sampler="esca", **_SHARED), _COUNTS),
    "gibbs": (lambda: StochasticLDA(3, sampler="gibbs", **_SHARED), _COUNTS),
    "mixture": (lambda: ExponentialFamilyMixture(2, emission="gaussian", sampler="gibbs", **_SHARED), _REALS),
    "em": (lambda: ExponentialFamilyMixture(2, emission="poisson", sampler=EM(tol=0), **_SHARED), _COUNTS),
}


def learned(fitted):
    """What a fit ends with."""
    arrays = [fitted.components_, fitted.log_density_trace_, *map(fitted.posterior_.get, fitted.posterior_)]
    return [np.asarray(array).tobytes() for array in arrays]


def prepare(folder):
    """A checkpoint of each fit, after pass 4."""
    return [_interrupted(make, X, folder / name) for name, (make, X) in _FITS.items()]


def check(prepared, seed):
    """One alteration of one checkpoint."""
    rng = np.random.default_rng(seed)
    case = prepared[rng.integers(len(prepared))]
    alter = _ALTERATIONS[rng.integers(len(_ALTERATIONS))]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "passes"
        shutil.copytree(case.folder, copy)
        alter(rng, copy / "pass-00000004", prepared)
        told = try_to_resume(case, copy, is_forged=alter in _FORGERIES)
        return told and f"{case.folder.name}, {alter.__name__.strip('_')}: {told}"


def try_to_resume(case, folder, is_forged=False):
    """None if all is well, else what is not."""
    try:
        with np.errstate(all="ignore"), distributed(None, checkpoint_dir=folder, checkpoint_every=4):
            fitted = case.make().fit(case.data)
    except (ValueError, OSError) as error:
        return None if one_sentence(error) else f"{error!r} is no sentence."
    if is_forged:
        return None if np.isfinite(fitted.components_).all() else "the result is not finite."
    return None if learned(fitted) == case.learned else "the result is another one."


def _interrupted(make, X, folder):
    advance = Chain.advance

    def dying(chain, iteration, *arguments):
        if iteration == 6:
            raise KeyboardInterrupt
        advance(chain, iteration, *arguments)

    Chain.advance = dying
    try:
        with distributed(None, checkpoint_dir=folder, checkpoint_every=4):
            make().fit(X)
    except KeyboardInterrupt:
        pass
    finally:
        Chain.advance = advance
    return Case(make, X, learned(make().fit(X)), folder)


# What digests tell


def _one_of(rng, folder):
    files = sorted(folder.iterdir())
    return files[rng.integers(len(files))]


def _flip_a_bit(rng, folder, prepared):
    path = _one_of(rng, folder)
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    path.write_bytes(content)


def _cut(rng, folder, prepared):
    path = _one_of(rng, folder)
    os.truncate(path, rng.integers(path.stat().st_size))


def _append(rng, folder, prepared):
    with open(_one_of(rng, folder), "ab") as file:
        file.write(rng.bytes(rng.integers(1, 100)))


def _swap(rng, folder, prepared):
    one, other = _one_of(rng, folder), _one_of(rng, folder)
    one.rename(folder / "aside")
    if other != one:
        other.rename(one)
    (folder / "aside").rename(other)


def _of_another_fit(rng, folder, prepared):
    other = prepared[rng.integers(len(prepared))].folder / "pass-00000004"
    path = _one_of(rng, other)
    shutil.copy(path, folder / path.name)


def _remove(rng, folder, prepared):
    path = _one_of(rng, folder)
    if path.name != "checkpoint.json":  # else there is none
        path.unlink()


def _replace(rng, folder, prepared):
    path = _one_of(rng, folder)
    match rng.integers(4):
        case 0:
            path.rename(folder.parent / "elsewhere")
            path.symlink_to(folder.parent / "elsewhere")
        case 1:
            path.unlink()
            path.symlink_to("/dev/zero")
        case 2:
            path.unlink()
            os.mkfifo(path)
        case 3:
            path.unlink()
            path.mkdir()


def _open_to_others(rng, folder, prepared):
    path = folder if rng.random() < 0.5 else _one_of(rng, folder)
    path.chmod(0o777)


def _odd_header(rng, folder, prepared):
    texts = ("[" * 100_000, '{"a":' * 100_000, "[]", "null", "1" * 5000, '{"format": 2}', "{}", '"\\ud800"', "\0", "")
    (folder / "checkpoint.json").write_text(texts[rng.integers(len(texts))])


def _later_pass(rng, folder, prepared):
    later = folder.with_name("pass-00000005")
    shutil.copytree(folder, later)
    _ALTERATIONS[rng.integers(6)](rng, later, prepared)


def _edited_header(rng, folder, prepared):
    header = _header(folder)
    _edit(rng, header)
    (folder / "checkpoint.json").write_text(json.dumps(header))


# What they do not tell


def swap_chains(folder):
    """Give each of the two chains the latents of the other."""
    header = _header(folder)
    header["latents"] = dict(zip("01", [header["latents"][chain] for chain in "10"], strict=True))
    for path, other in (("latents-0-0", "aside"), ("latents-1-0", "latents-0-0"), ("aside", "latents-1-0")):
        (folder / path).rename(folder / other)
    _sign(folder, header)


def _header(folder):
    return json.loads((folder / "checkpoint.json").read_text())


def _sign(folder, header):
    header.pop("digest", None)
    chains = folder / "chains.npz"
    header["chains"] = _size_and_digest(chains)
    (folder / "checkpoint.json").write_text(json.dumps({**header, "digest": _digest(header)}))


def _edit(rng, tree):
    """Give one place in a tree of json another value."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        key = keys[rng.integers(len(keys))]
        if isinstance(tree[key], dict | list) and len(tree[key]) and rng.random() < 0.9:
            tree = tree[key]
            continue
        value = _VALUES[rng.integers(len(_VALUES))]
        if type(tree[key]) is int and rng.random() < 0.5:
            value = tree[key] + int(rng.integers(-2, 3))
        tree[key] = value
        return


def _forged_header(rng, folder, prepared):
    header = _header(folder)
    del header["digest"]
    _edit(rng, header)
    (folder / "checkpoint.json").write_text(json.dumps({**header, "digest": _digest(header)}))


def _forged_latents(rng, folder, prepared):
    header = _header(folder)
    for chain, files in header["latents"].items():
        for file in files:
            path = folder / f"latents-{chain}-{file[0]}"
            content = np.frombuffer(path.read_bytes(), (np.uint8, np.uint16, np.int64)[rng.integers(3)]).copy()
            if rng.random() < 0.3:
                rng.shuffle(content)
            places = rng.integers(len(content), size=rng.integers(1, 4))
            content[places] = rng.integers(0, 20, len(places)) if rng.random() < 0.7 else content[places] - 1
            path.write_bytes(content.tobytes())
            file[4] = blake2b(content.tobytes(), digest_size=16).hexdigest()
    _sign(folder, header)


def _chains(folder):
    with opened(folder / "chains.npz", kind="checkpoint") as (document, arrays):
        return document, dict(arrays)


def _forged_arrays(rng, folder, prepared):
    document, arrays = _chains(folder)
    name = sorted(arrays)[rng.integers(len(arrays))]
    array = arrays[name]
    match rng.integers(6):
        case 0:
            array = array.astype((np.int8, np.uint64, np.float32, np.complex128, "U3")[rng.integers(5)])
        case 1:
            array = array[..., :-1]
        case 2:
            array = array.reshape(-1)
        case 3:
            array = arrays[sorted(arrays)[rng.integers(len(arrays))]]
        case _ if array.size:
            values = (0, 1, 255, 65_535, -1, 2**31 - 1, -(2**62), np.nan, np.inf, 1e300)
            array = array.copy()
            with np.errstate(all="ignore"):
                flat = array.reshape(-1)
                flat[rng.integers(len(flat))] = np.array(values[rng.integers(len(values))]).astype(array.dtype)
    write(folder / "chains.npz", document["checkpoint"], {**arrays, name: array}, False, kind="checkpoint")
    _sign(folder, _header(folder))


def _forged_tree(rng, folder, prepared):
    document, arrays = _chains(folder)
    _edit(rng, document["checkpoint"])
    try:
        write(folder / "chains.npz", document["checkpoint"], arrays, False, kind="checkpoint")
    except ValueError:  # of infinity, which that file cannot hold
        return
    _sign(folder, _header(folder))


_FORGERIES = (_forged_header, _forged_latents, _forged_arrays, _forged_tree)
_ALTERATIONS = (
    *(_flip_a_bit, _cut, _append, _swap, _of_another_fit, _replace),
    *(_remove, _open_to_others, _odd_header, _later_pass, _edited_header),
    *itertools.chain(_FORGERIES, _FORGERIES),
)
