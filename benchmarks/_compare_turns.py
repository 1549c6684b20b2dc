"""Contests: ours and the peers' do the same task in turn, so that all see the same machine."""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

OURS = "skmanifold"


class Measure(NamedTuple):
    """A number that every turn of a contestant gives."""

    name: str
    better: str | None = "higher"  # or "lower"; None: told beside the others, no contest
    by: str = "ratio"  # how ours is set beside a peer's: "ratio" or "difference"
    digits: str = ".3g"


class Contestant(NamedTuple):
    """`begin` prepares, untimed, and returns what is called with the number of a turn and gives the measures."""

    name: str
    begin: Callable[[], Callable[[int], tuple[float, ...]]]
    package: str = OURS  # by the name that is imported


@dataclass
class Contest:
    """The same task for all; ours stands first."""

    title: str
    data: str
    measures: tuple[Measure, ...]
    contestants: list[Contestant]
    note: str = ""


class Outcome(NamedTuple):
    """What a contestant gave: measures by turn; or None and the reason."""

    contestant: Contestant
    turns: list[tuple[float, ...]] | None
    reason: str = ""


def is_installed(package):
    return importlib.util.find_spec(package) is not None


def has_data():
    """Whether SKMANIFOLD_DATA names a folder that is there."""
    return os.path.isdir(os.environ.get("SKMANIFOLD_DATA", ""))


def timed(function):
    """What a call gives and its seconds of the processor, which a busy machine changes less than those of the clock."""
    begun = time.process_time()
    found = function()
    return found, time.process_time() - begun


def hold(contest, n_turns):
    """All contestants' outcomes. A peer that fails is told to have failed; a failure of ours is an error."""
    ready, outcomes = {}, {}
    for contestant in contest.contestants:
        if not is_installed(contestant.package):
            outcomes[contestant] = Outcome(contestant, None, "not installed")
            continue
        outcomes[contestant] = Outcome(contestant, [])
        ready[contestant] = _attempt(contestant, contestant.begin, outcomes)
    for turn in range(n_turns):
        for contestant, take_turn in ready.items():
            if outcomes[contestant].turns is None:
                continue
            found = _attempt(contestant, lambda take_turn=take_turn, turn=turn: take_turn(turn), outcomes)
            if found is not None:
                outcomes[contestant].turns.append(found)
    return [outcomes[contestant] for contestant in contest.contestants]


def _attempt(contestant, function, outcomes):
    if contestant.package == OURS:
        return function()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers that stop at their most iterations say so
        try:
            return function()
        except Exception as error:
            reason = f"failed: {type(error).__name__}: {error}".replace("|", "/").partition("\n")[0]
            outcomes[contestant] = Outcome(contestant, None, reason[:120])
            return None
