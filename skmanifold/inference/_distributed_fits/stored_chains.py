"""Chains in a file, in the format of saved estimators, and their validation."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

import numpy as np

from ...persistence._decode import Decoder
from ...persistence._encode import Encoder
from ...persistence._format import opened, told_in_one_sentence, write
from ...samplers._base import BaseSampler
from ...utils._conditions import Array
from .._schedule import Schedule
from .._window_average import WindowAverage

_KIND = "checkpoint"
_PARTS = {"state", "sums", "log_density", "draws"}
_LOG_DENSITIES = Array("float64", ("n_passes",), nan=True, infinite=True)


def write_chains(path: Path, chains: list[dict[str, Any]]) -> None:
    """Write the result of `Chain.stored` for each chain; TypeError for contents of classes outside of the package.

    The state itself may be of any class.
    """
    encoder = Encoder("A checkpoint of this sampler")
    tree = encoder.encode([{**chain, "state": chain["state"]._asdict()} for chain in chains])
    write(path, tree, encoder.arrays, compress=False, kind=_KIND)
    os.chmod(path, 0o600)


def read_chains(path: Path) -> Any:
    """The contents of such a file, not validated; ValueError if it is damaged."""
    with opened(path, kind=_KIND) as (document, arrays), told_in_one_sentence(f"{path.name} cannot be read"):
        return Decoder(arrays).decode(document[_KIND])


def check_trace(stored: Any, iteration: int) -> list[float]:
    """The log densities of the passes of such a chain; a ValueError if their number is wrong."""
    if not isinstance(stored, dict) or set(stored) != _PARTS:
        raise ValueError("a chain does not have the required fields")
    _LOG_DENSITIES(stored["log_density"], "log_density", {"n_passes": iteration})
    return stored["log_density"].tolist()


def check_chain(stored: Any, sampler: BaseSampler, model: Any, schedule: Schedule, iteration: int) -> None:
    """Raise a ValueError unless this can be a chain of this run after this number of passes.

    Its state is converted to the class of the sampler.
    """
    check_trace(stored, iteration)
    drawn = sampler.draws_parameters
    stored["state"] = _state_of(sampler, stored["state"])
    _check_state(stored["state"], model.latent_type(drawn) is not None)
    model.check_position(stored["state"].position, drawn)
    model.check_statistics(getattr(stored["state"], "statistics", None))
    counted = WindowAverage(*window_of(sampler, schedule), operator.add)
    for i in range(1, iteration + 1):
        counted.update(i, 1)
    sums = stored["sums"]
    if not isinstance(sums, list) or [pair[1:] for pair in sums if isinstance(pair, tuple)] != [
        pair[1:] for pair in counted.sums
    ]:
        raise ValueError("sums over passes do not match the number of passes")
    for total, _ in sums:
        model.check_statistics(total)
    n_draws = sum(map(schedule.is_draw, range(1, iteration + 1)))
    draws = stored["draws"]
    if not isinstance(draws, list) or len(draws) != n_draws or not all(isinstance(draw, dict) for draw in draws):
        raise ValueError(f"after {iteration} passes there are {n_draws} draws")
    for draw in draws:
        for value in draw.values():
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


def _state_of(sampler: BaseSampler, stored: Any) -> Any:
    """The state of a sampler from its fields by name."""
    for state_type in sampler.state_types:
        if isinstance(stored, dict) and stored.keys() == set(state_type._fields):  # type: ignore[attr-defined]
            return state_type(**stored)
    raise ValueError(f"a {type(stored).__name__} is not the state of a chain")


def _check_state(state: Any, has_latents: bool) -> None:
    if not isinstance(state.key, np.uint64) or type(state.n_steps) is not int or state.n_steps < 0:
        raise ValueError("the random stream of a chain is not valid")
    if not isinstance(state.log_density, float):  # includes floats of numpy
        raise ValueError("a log density is not a number")
    latents = getattr(state, "latents", None)
    if latents is not None and (type(latents) is not int or latents < 0):
        raise ValueError("the number of a chain is not valid")
    if has_latents and latents is None:
        raise ValueError("a chain has no latents")
