"""Chains of a mixture on a stream of minibatches, with their recorded draws."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from ...base import stack_draws
from ...emissions._categories import CategoryCounts
from ...emissions._family import Family
from ...emissions._statistics import selected
from ...inference._draw_store import DrawStore
from ...inference._draw_stream import ChainStream, chains_agree
from ...utils._conditions import Condition, Length, Sizes, Whole
from ...utils._threads import Workers
from .._memberships.process import ParameterDraw, PartitionDraw, arrays_of
from .model import DPModel
from .stochastic_slice import StochasticSlice, StreamState

_LEAST_ROWS = 0.5  # expected number of rows from which on a component is reported


MOST_COMPONENTS = 1 << 24  # in one draw


def counted_by(n_clusters: Callable[[CategoryCounts], int]) -> Condition:
    """Condition that sets the number of components in a state: a function of its counts returns it."""

    def count(value: Any, where: str, sizes: Sizes) -> None:
        counts = getattr(value, "statistics", None)
        if isinstance(counts, CategoryCounts) and np.any(counts.sizes):
            sizes["n_clusters"] = n_clusters(counts)

    return count


class MixtureStream(ChainStream):
    """Chains that learn from a sequence of minibatches; the rows are not kept."""

    states: Annotated[list[Annotated[StreamState, counted_by(lambda counts: len(counts.sizes))]], Length("n_chains")]
    stores: Annotated[
        list[DrawStore[tuple[ParameterDraw, Annotated[int, Whole(low=1, below=MOST_COMPONENTS)]]]], Length("n_chains")
    ]
    _last: Annotated[list[ParameterDraw], Length("n_chains")]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if any(not state.statistics.sizes.sum() > 0.0 for state in self.states):
            return "has a chain without rows"
        return chains_agree(self, sizes)

    def after_batch(
        self, passes: StochasticSlice, model: DPModel, rate: float, scale: float, workers: Workers
    ) -> MixtureStream:
        """The stream after one more minibatch, the rows of `model`."""

        def advance(state: StreamState, wanted: bool) -> tuple[StreamState, float, None]:
            return passes.step_stream(model, copy.deepcopy(state), rate, scale), np.nan, None

        return self.advanced(advance, workers)

    def recorded(self, passes: StochasticSlice, model: DPModel) -> MixtureStream:
        """The same stream with the draws of this minibatch, of which some are stored."""
        self._last = [passes.parameters(model, state) for state in self.states]
        for state, draw, store in zip(self.states, self._last, self.stores, strict=True):
            if store.wants(self.n_batches):
                store.add(self.n_batches, (draw, _n_components(state)))
        return self

    def predictive_draws(self) -> list[ParameterDraw]:
        """Draws of all chains in the second half of the stream; the current states if there are no draws yet."""
        kept = [draw for chain in range(len(self.states)) for draw, _ in self.draws(chain)]
        return kept or self._last

    def summary(self) -> PartitionDraw:
        """Expected counts of the first chain."""
        state = self.states[0]
        order = np.argsort(-state.statistics.sizes, kind="stable")[: _n_components(state)]
        return PartitionDraw(selected(state.statistics, order), self._last[0].concentration)

    def posterior(self, clusters: Family) -> dict[str, np.ndarray]:
        """Arrays of the draws of the second half, of shape ``(n_chains, n_draws, ...)``."""

        def arrays(draw: ParameterDraw, n_components: int) -> dict[str, np.ndarray]:
            numbers = {"n_components": np.array(n_components), "concentration": np.array(draw.concentration)}
            return {**numbers, **arrays_of(draw, clusters)}

        chains = [self.draws(chain) for chain in range(len(self.states))]
        example = arrays(self._last[0], _n_components(self.states[0]))
        drawn = [[arrays(*draw) for draw in chain] for chain in chains]
        return {name: stack_draws([[draw[name] for draw in of] for of in drawn], example[name]) for name in example}


def _n_components(state: StreamState) -> int:
    return max(1, int(np.count_nonzero(state.statistics.sizes >= _LEAST_ROWS)))
