"""Chains of a mixture on a stream of minibatches, with their recorded draws."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...base import stack_draws
from ...inference._draw_store import DrawStore, stores
from ...inference._draw_stream import chains_agree
from ...random._keys import Purpose, subkey
from ...utils._conditions import Condition, ListOf, Real, Sizes, Tuple, Whole, key
from ...utils._declared import Held, holds
from ...utils._threads import Workers
from .model import DPModel
from .posterior_draws import CountedDraw, ParameterDraw
from .stochastic_slice import Blocks, StochasticSlice, StreamState, Sums
from .stochastic_slice import Mixture as Instantiated

_LEAST_ROWS = 0.5  # expected number of rows from which on a component is reported


MOST_COMPONENTS = 1 << 24  # in one draw


def state_of_blocks(kind: type, **others: Condition) -> Held:
    """Condition of the state of a chain; `others` are the conditions of further fields of this class of states."""
    log_density = Real(nan=True, infinite=True)
    return Held(kind, position=Held(Blocks), key=key, n_steps=Whole(), log_density=log_density, **others)


def _state(value: Any, where: str, sizes: Sizes) -> None:
    """Check a state, whose blocks, sums and components must have the same number."""
    if isinstance(value, StreamState) and isinstance(value.statistics, Sums):
        sizes["n_clusters"] = len(value.statistics.sizes)
    _STATE(value, where, sizes)


_STATE = state_of_blocks(StreamState, statistics=Held(Sums), mixture=Held(Instantiated))


def _agree(stream: MixtureStream, sizes: Sizes) -> str | None:
    if any(not state.statistics.sizes.sum() > 0.0 for state in stream.states):
        return "has a chain without rows"
    return chains_agree(stream, sizes)


@holds(
    _agree,
    states=ListOf(_state, "n_chains"),
    stores=ListOf(stores(Tuple((Held(ParameterDraw), Whole(low=1, below=MOST_COMPONENTS)))), "n_chains"),
    n_batches=Whole(),
    _last=ListOf(Held(ParameterDraw), "n_chains"),
)
class MixtureStream:
    """Chains that learn from a sequence of minibatches; the rows are not kept.

    Draws are recorded at regular intervals of minibatches. If there would be too many draws, every second one is
    dropped and the interval is doubled. The draws of the first half of the stream are burn-in.

    Parameters
    ----------
    states : list of StreamState
        The state of each chain, as `StochasticSlice.step_stream` reads it.
    store : DrawStore
        An empty store, which is copied for each chain.
    """

    def __init__(self, states: list[StreamState], store: DrawStore):
        self.states = states
        self.stores = [copy.copy(store) for _ in states]
        self.n_batches = 0

    @classmethod
    def begin(
        cls,
        mover: StochasticSlice,
        model: DPModel,
        key: np.uint64,
        n_chains: int,
        scale: float,
        store: DrawStore,
        workers: Workers,
    ) -> MixtureStream:
        """Chains after their first minibatch, where each row represents `scale` rows of the stream."""
        keys = [subkey(key, Purpose.CHAIN, chain) for chain in range(n_chains)]
        stream = cls(workers.run(mover.init_stream, [(model, chain_key, scale) for chain_key in keys]), store)
        return stream._counted(mover, model)

    def advanced(
        self, mover: StochasticSlice, model: DPModel, rate: float, scale: float, workers: Workers
    ) -> MixtureStream:
        """The stream after one more minibatch, the rows of `model`."""
        after = copy.copy(self)
        after.states = workers.run(mover.step_stream, [(model, copy.deepcopy(s), rate, scale) for s in self.states])
        after.stores = [copy.copy(store) for store in self.stores]
        return after._counted(mover, model)

    def _counted(self, mover: StochasticSlice, model: DPModel) -> MixtureStream:
        self.n_batches += 1
        self._last = [mover.parameters(model, state) for state in self.states]
        for state, draw, store in zip(self.states, self._last, self.stores, strict=True):
            if store.wants(self.n_batches):
                store.add(self.n_batches, (draw, _n_components(state)))
        return self

    def draws(self) -> list[ParameterDraw]:
        """Draws of all chains in the second half of the stream; the current states if there are no draws yet."""
        kept = [draw for store in self.stores for draw, _ in store.after(self.n_batches // 2)[1]]
        return kept or self._last

    def summary(self) -> CountedDraw:
        """Expected counts of the first chain."""
        state = self.states[0]
        sizes, categories = state.statistics
        order = np.argsort(-sizes, kind="stable")[: _n_components(state)]
        return CountedDraw(sizes[order], categories[order].T, self._last[0].concentration)

    def posterior(self) -> dict[str, np.ndarray]:
        """Arrays of the draws of the second half, of shape ``(n_chains, n_draws, ...)``."""
        chains = [store.after(self.n_batches // 2)[1] for store in self.stores]
        example = _arrays(self._last[0], _n_components(self.states[0]))
        drawn = [[_arrays(*draw) for draw in chain] for chain in chains]
        return {name: stack_draws([[draw[name] for draw in of] for of in drawn], example[name]) for name in example}


def _arrays(draw: ParameterDraw, n_components: int) -> dict[str, np.ndarray]:
    return {"n_components": np.array(n_components), "concentration": np.array(draw.concentration), **draw.arrays()}


def _n_components(state: StreamState) -> int:
    return max(1, int(np.count_nonzero(state.statistics.sizes >= _LEAST_ROWS)))
