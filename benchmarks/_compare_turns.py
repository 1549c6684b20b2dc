"""Comparisons: all methods do the same task, run by run in the same order, under the same conditions."""

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
    """A number that every run of a method gives."""

    name: str
    better: str | None = "higher"  # or "lower"; None: shown, but not compared
    by: str = "ratio"  # how two methods are compared: "ratio" or "difference"
    digits: str = ".3g"


class Contestant(NamedTuple):
    """A method. `begin` prepares, untimed, and returns a function of the number of a run that gives the measures."""

    name: str
    begin: Callable[[], Callable[[int], tuple[float, ...]]]
    package: str = OURS  # the name that is imported


@dataclass
class Contest:
    """The same task for all methods; a method of skmanifold is the first."""

    title: str
    data: str
    measures: tuple[Measure, ...]
    contestants: list[Contestant]
    note: str = ""


class Outcome(NamedTuple):
    """What a method gave: the measures of each run, or None and the reason."""

    contestant: Contestant
    turns: list[tuple[float, ...]] | None
    reason: str = ""


def is_installed(package):
    return importlib.util.find_spec(package) is not None


def has_data():
    """Whether SKMANIFOLD_DATA names an existing folder."""
    return os.path.isdir(os.environ.get("SKMANIFOLD_DATA", ""))


def timed(function):
    """The result of a call and its processor time, which depends less on other processes than wall time."""
    begun = time.process_time()
    found = function()
    return found, time.process_time() - begun


def hold(contest, n_turns):
    """Outcomes of all methods. A failure of another library is reported; a failure of skmanifold is an error."""
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
        warnings.simplefilter("ignore")  # other libraries warn when they reach the largest number of iterations
        try:
            return function()
        except Exception as error:
            reason = f"failed: {type(error).__name__}: {error}".replace("|", "/").partition("\n")[0]
            outcomes[contestant] = Outcome(contestant, None, reason[:120])
            return None
