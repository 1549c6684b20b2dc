"""Chains of a sampler that draws, on a stream of minibatches: pickled with the estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..utils._conditions import Array, Condition, ListOf, Sizes, Whole, refuse
from ..utils._threads import Workers
from ._draw_store import DrawStore, stores

_FORGETTING = 0.05  # of the running log likelihood, by which the best chain is chosen
Advance = Callable[[Any, bool], tuple[Any, float, dict[str, np.ndarray] | None]]


class DrawStream:
    """Where the chains stand, and their draws.

    Draws are kept every so many minibatches, and where they would be too many every second one is dropped and the
    interval doubled. Those of the first half of the stream are burn-in.

    Parameters
    ----------
    kind : type
        Of the sampler.
    states : list
        One a chain, of whatever moves.
    """

    def __init__(self, kind: type, states: list):
        self.kind = kind
        self.states = states
        self.stores = [DrawStore(0) for _ in states]
        self.log_likelihood = np.zeros(len(states))  # a running mean
        self.n_batches = 0

    def storing(self, store: DrawStore) -> Self:
        """The stream with a store like this, which is empty, for each chain."""
        after = copy.copy(self)
        after.stores = [copy.copy(store) for _ in self.states]
        return after

    def advanced(self, advance: Advance, workers: Workers) -> Self:
        """The stream after one more minibatch.

        Parameters
        ----------
        advance : callable
            From a chain's state, and whether a draw is wanted, to the state after the minibatch, its log likelihood
            and the draw or None. It leaves the state that it was given alone.
        workers : Workers
            One task a chain.
        """
        after = copy.copy(self)
        after.n_batches += 1
        rate = max(_FORGETTING, 1 / after.n_batches)

        def advance_chain(chain: int) -> tuple[Any, DrawStore, float]:
            store = copy.copy(self.stores[chain])
            state, log_likelihood, draw = advance(self.states[chain], store.wants(after.n_batches))
            if draw is not None:
                store.add(after.n_batches, draw)
            gain = log_likelihood - self.log_likelihood[chain]
            return state, store, self.log_likelihood[chain] + rate * gain

        results = workers.run(advance_chain, [(chain,) for chain in range(len(self.states))])
        after.states, after.stores = [result[0] for result in results], [result[1] for result in results]
        after.log_likelihood = np.array([result[2] for result in results])
        return after

    @property
    def best_chain(self) -> int:
        """The chain under which the last minibatches were likeliest."""
        return int(np.argmax(self.log_likelihood))

    def draws(self, chain: int) -> list[dict[str, np.ndarray]]:
        """One chain's draws of the second half of the stream."""
        return self.stores[chain].after(self.n_batches // 2)[1]

    def posterior(self) -> dict[str, np.ndarray]:
        """All chains' draws, ``(n_chains, n_draws, ...)``; empty before there are any."""
        chains = [self.draws(chain) for chain in range(len(self.stores))]
        names = chains[0][0] if chains[0] else ()
        return {name: np.array([[draw[name] for draw in draws] for draws in chains]) for name in names}


def streamed(state: Condition, draw: Condition) -> dict[str, Condition]:
    """Conditions of a stream's attributes, of those of a state and of a draw."""
    return {
        "kind": _is_class,
        "states": ListOf(state, "n_chains"),
        "stores": ListOf(stores(draw), "n_chains"),
        "log_likelihood": Array("float64", ("n_chains",)),
        "n_batches": Whole(),
    }


def chains_agree(stream: Any, sizes: Sizes) -> str | None:
    """Whether the chains of a stream have draws of the same times, none of the future."""
    times = [tuple(store.times) for store in stream.stores]
    if not times or any(other != times[0] for other in times) or (times[0] and times[0][-1] > stream.n_batches):
        return "has chains with draws of different times"
    return None


def _is_class(value: Any, where: str, sizes: Sizes) -> None:
    if not isinstance(value, type):
        refuse(where, "is no class")
