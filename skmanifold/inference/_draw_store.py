"""Draws of a chain of unknown length, with a bound on their number, and chains on a stream of minibatches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any, Generic, Self, TypeVar

import numpy as np

from ..utils._conditions import Array, Integer, Sizes
from ..utils._declared import Keyed, Saved
from ..utils._threads import Workers

TRACE = Array("float64", "n_chains n_draws", nan=True, infinite=True)  # condition of log densities of draws
_SMALL = {"topic_weights", "concentration"}


def draws_of(*names: str, needed: tuple[str, ...] = (), **others: Any) -> Keyed:
    """Condition of the draws of all chains: some of `names` are log densities, `others` are quantities.

    Quantities of only a few numbers, and those `needed`, must be present.
    """
    return Keyed({*needed, *(_SMALL & others.keys())}, **dict.fromkeys(names, TRACE), **others)


Draw = TypeVar("Draw")


class DrawStore(Generic[Draw]):
    """Stores evenly spaced draws of a stream, at most `max_draws` of them.

    Draws are stored at multiples of `interval` until there are `max_draws`. Then it is doubled, and draws at other
    times are dropped, so that more than half of `max_draws` cover the stream from its start (with 1, one draw). Stored
    times depend only on the number of draws: an interrupted, pickled and resumed stream has the same store. `add`
    modifies no list in place, so a shallow copy is an independent store.
    """

    max_draws: Saved[int]
    interval: Annotated[int, Integer(low=1)]
    _held: Saved[list[tuple[Annotated[int, Integer(low=1)], Draw]]]

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


_FORGETTING = 0.05  # weight of a new minibatch in the running log likelihood, the criterion for the best chain
Advance = Callable[[Any, bool], tuple[Any, float, dict[str, np.ndarray] | None]]


class ChainStream:
    """The states of the chains, and their draws at regular intervals of minibatches; the first half is burn-in.

    If there are too many, every second draw is dropped and the interval is doubled (`DrawStore`).
    """

    n_batches: Saved[int]

    def __init__(self, states: list):
        self.states = states
        self.stores: list[DrawStore[Any]] = [DrawStore(0) for _ in states]
        self.n_batches = 0

    def storing(self, store: DrawStore) -> Self:
        """The stream with a copy of this empty store for each chain."""
        after = copy.copy(self)
        after.stores = [copy.copy(store) for _ in self.states]
        return after

    def advanced(self, advance: Advance, workers: Workers) -> Self:
        """The stream after one more minibatch; one task per chain.

        ``advance(state, draw needed)`` returns the next state, its log likelihood, and a draw or None; it modifies no
        state.
        """
        after = copy.copy(self)
        after.n_batches += 1

        def advance_chain(chain: int) -> tuple[Any, DrawStore, float]:
            store = copy.copy(self.stores[chain])
            state, log_likelihood, draw = advance(self.states[chain], store.wants(after.n_batches))
            if draw is not None:
                store.add(after.n_batches, draw)
            return state, store, log_likelihood

        results = workers.run(advance_chain, [(chain,) for chain in range(len(self.states))])
        after.states, after.stores = [result[0] for result in results], [result[1] for result in results]
        after._rank([result[2] for result in results])
        return after

    def _rank(self, log_likelihood: list[float]) -> None:
        """Update the criterion for the best chain, if there is one."""

    def draws(self, chain: int) -> list[Any]:
        """Draws of one chain in the second half of the stream."""
        return self.stores[chain].after(self.n_batches // 2)[1]


class DrawStream(ChainStream):
    """A stream whose best chain, that with the highest running mean of log likelihoods, gives the estimate."""

    kind: Saved[type]
    log_likelihood: Annotated[np.ndarray, Array("float64", "n_chains")]

    def __init__(self, kind: type, states: list):
        super().__init__(states)
        self.kind = kind
        self.log_likelihood = np.zeros(len(states))  # a running mean

    def _rank(self, log_likelihood: list[float]) -> None:
        rate = max(_FORGETTING, 1 / self.n_batches)
        self.log_likelihood = self.log_likelihood + rate * (np.array(log_likelihood) - self.log_likelihood)

    @property
    def best_chain(self) -> int:
        """The chain with the highest running log likelihood of minibatches."""
        return int(np.argmax(self.log_likelihood))

    def posterior(self) -> dict[str, np.ndarray]:
        """Draws of all chains, ``(n_chains, n_draws, ...)``; empty if there are none yet."""
        chains = [self.draws(chain) for chain in range(len(self.stores))]
        names = chains[0][0] if chains[0] else ()
        return {name: np.array([[draw[name] for draw in draws] for draws in chains]) for name in names}


def chains_agree(stream: Any, sizes: Sizes) -> str | None:
    """Check that all chains of a stream have draws at the same times, none later than the current one."""
    times = [tuple(store.times) for store in stream.stores]
    if not times or any(other != times[0] for other in times) or (times[0] and times[0][-1] > stream.n_batches):
        return "has chains with draws of different times"
    return None
