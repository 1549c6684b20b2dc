"""Storage of evenly spaced draws of a chain of unknown length, with a bound on their number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Generic, TypeVar

import numpy as np

from ..utils._conditions import Sizes, Whole
from ..utils._declared import Saved

Draw = TypeVar("Draw")


class DrawStore(Generic[Draw]):
    """Stores evenly spaced draws of a stream, at most `max_draws` of them.

    Draws are stored at multiples of `interval` until there are `max_draws`. Then it is doubled, and draws at other
    times are dropped, so that more than half of `max_draws` cover the stream from its start (with 1, one draw). Stored
    times depend only on the number of draws: an interrupted, pickled and resumed stream has the same store. `add`
    modifies no list in place, so a shallow copy is an independent store.
    """

    max_draws: Saved[int]
    interval: Annotated[int, Whole(low=1)]
    _held: Saved[list[tuple[Annotated[int, Whole(low=1)], Draw]]]

    def _disagreement(self, sizes: Sizes) -> str | None:
        times = [time for time, _ in self._held]
        if len(times) > self.max_draws or any(later <= time for time, later in pairwise(times)):
            return "has draws that are too many or not in the order of time"
        return None

    def __init__(self, max_draws: int, interval: int = 1):
        if max_draws < 0 or interval < 1:
            raise ValueError(
                "max_draws must not be negative and interval must be at least 1; "
                f"got max_draws={max_draws} and interval={interval}."
            )
        self.max_draws = int(max_draws)
        self.interval = int(interval)
        self._held: list[tuple[int, Any]] = []

    @classmethod
    def within(cls, max_bytes: int, draw_bytes: int, interval: int = 1) -> DrawStore:
        """A store for as many draws of `draw_bytes` as fit into `max_bytes`, possibly none."""
        return cls(int(max_bytes) // max(1, int(draw_bytes)), interval)

    def stride(self, n_draws: int) -> int:
        """The smallest s for which every s-th of `n_draws` draws fits; 0 if none does."""
        return max(1, -(-n_draws // self.max_draws)) if self.max_draws else 0

    def wants(self, time: int) -> bool:
        """Whether the draw at `time` would be stored; call it before computing the draw."""
        if self.max_draws == 0 or (self._held and time <= self._held[-1][0]):
            return False
        return time > 0 and time % self._make_room()[0] == 0

    def add(self, time: int, draw: Any) -> None:
        """Store a draw for which `wants` is true; ValueError for another time or one not after the last draw."""
        if not self.wants(time):
            raise ValueError(f"The draw at time {time} is not stored: call `wants` before computing it.")
        self.interval, held = self._make_room()
        self._held = [*held, (int(time), draw)]

    def after(self, time: int) -> tuple[np.ndarray, list]:
        """Times of the stored draws after `time`, and these draws."""
        held = [(at, draw) for at, draw in self._held if at > time]
        return np.array([at for at, _ in held], dtype=np.int64), [draw for _, draw in held]

    @property
    def times(self) -> np.ndarray:
        """Times of the stored draws, ascending."""
        return self.after(0)[0]

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"DrawStore({len(self)} of {self.max_draws} draws, {self.interval} apart)"

    def _make_room(self) -> tuple[int, list[tuple[int, Any]]]:
        """The interval with which one more draw fits, and the draws that remain."""
        interval, held = self.interval, self._held
        while len(held) >= self.max_draws:
            interval *= 2
            held = [pair for pair in held if pair[0] % interval == 0]
        return interval, held


def evenly_spaced(draws: Sequence[Any], n: int) -> list[Any]:
    """At most n evenly spaced draws, including the last one."""
    n_draws, n = len(draws), min(n, len(draws))
    return [draws[n_draws - 1 - i * n_draws // n] for i in reversed(range(n))]
