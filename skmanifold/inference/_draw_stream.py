"""Chains of a sampler on a stream of minibatches, which are pickled with the estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any, Self

import numpy as np

from ..utils._conditions import Array, Sizes
from ..utils._declared import Saved
from ..utils._threads import Workers
from ._draw_store import DrawStore

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
