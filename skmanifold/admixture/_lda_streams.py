"""What `partial_fit` carries from one minibatch to the next, whatever the sampler: pickled with the estimator."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..inference._draw_store import DrawStore
from ..models._topic_word import TopicWord, as_topic_word
from ..samplers import BaseSampler, ManifoldSampler, State
from ..samplers._lazy_rows import LazyRows, expected_rows
from ..utils._random import Purpose, subkey
from ..utils._threads import Workers
from ._lda_minibatch import MinibatchLDA
from ._lda_model import LDAModel
from ._lda_passes import MinibatchPasses, own, topics_of
from ._topic_counts import TopicCounts

_FORGETTING = 0.05  # of the running log likelihood, by which the best chain is chosen


def advance_counts(
    sampler: BaseSampler,
    model: LDAModel,
    before: TopicCounts | None,
    key: np.uint64,
    n_batches: int,
    rate: float,
    total_samples: int,
) -> State:
    """One more minibatch for a sampler that keeps counts: T <- (1 - rate) T + rate * scale * T_batch.

    `before` are the counts after `n_batches` minibatches; None before the first.
    """
    stream, scale = subkey(key, Purpose.MINIBATCH), total_samples / model.counts.n_rows
    if before is None:
        return sampler.init_stream(model, stream, scale)
    return sampler.step_stream(model, sampler.resume_stream(model, before, stream, n_batches), rate, scale)


class DrawStream:
    """Chains of a sampler that draws the topics, on a stream.

    Draws are kept every so many minibatches, and where they would be too many every second one is dropped and the
    interval doubled. Those of the first half of the stream are burn-in.

    Parameters
    ----------
    sampler : ManifoldSampler
    states : list of State
        One a chain.
    """

    def __init__(self, sampler: ManifoldSampler, states: list[State]):
        self.kind = type(sampler)
        self.states = states
        self.stores = [DrawStore(0) for _ in states]
        self.log_likelihood = np.zeros(len(states))  # of a token, a running mean
        self.n_batches = 0
        self.row_prior: Any = None
        self._topic_word: TopicWord | None = None

    @classmethod
    def begin(cls, sampler: ManifoldSampler, model: MinibatchLDA, key: np.uint64, n_chains: int) -> DrawStream:
        """Chains at their beginning, with the streams that `fit` would give them."""
        passes = MinibatchPasses(sampler)
        states = [passes.init(model, subkey(key, Purpose.CHAIN, chain)) for chain in range(n_chains)]
        return cls(sampler, states)

    def storing(self, store: DrawStore) -> DrawStream:
        """The stream with a store like this, which is empty, for each chain."""
        after = copy.copy(self)
        after.stores = [copy.copy(store) for _ in self.states]
        return after

    def advanced(self, sampler: ManifoldSampler, model: MinibatchLDA, workers: Workers) -> DrawStream:
        """The stream after all rows of `model` as one minibatch."""
        after = copy.copy(self)
        after.n_batches += 1
        after.row_prior, after._topic_word = model.row_prior, None
        rate = max(_FORGETTING, 1 / after.n_batches)

        def advance(chain: int) -> tuple[State, DrawStore, float]:
            its, store = own(model), copy.copy(self.stores[chain])
            state = MinibatchPasses(sampler).step_batch(its, _detached(self.states[chain]))
            if store.wants(after.n_batches):
                state, components = topics_of(sampler, its, state)
                weights = its.topic_tokens / its.topic_tokens.sum()
                log_likelihood = its.log_likelihood / its.topic_tokens.sum()
                draw = {"log_likelihood": log_likelihood, "topic_weights": weights, "components": components}
                store.add(after.n_batches, draw)
            gain = its.log_likelihood / its.topic_tokens.sum() - self.log_likelihood[chain]
            return state, store, self.log_likelihood[chain] + rate * gain

        results = workers.run(advance, [(chain,) for chain in range(len(self.states))])
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

    def topic_word(self) -> TopicWord:
        """Mean of the best chain's draws; before there are any, what its state lets expect."""
        if self._topic_word is None:
            draws = self.draws(self.best_chain)
            if draws:
                total = np.zeros(draws[0]["components"].shape)
                for draw in draws:
                    total += draw["components"]
            else:
                total = self._expected_weights(self.states[self.best_chain])
            self._topic_word = as_topic_word(total)
        return self._topic_word

    def _expected_weights(self, state: State) -> np.ndarray:
        """Unnormalised topics, ``(K, V)``."""
        if isinstance(state.memory, LazyRows):
            return expected_rows(state.memory, self.row_prior, 0, len(state.memory.log_theta)).T
        return np.abs(state.position[0]).T


def _detached(state: State) -> State:
    """The state with arrays of its own, so that a step that fails leaves the old ones alone.

    Rows that are read lazily are shared: they are too many to copy for one minibatch. A step that is interrupted may
    leave some of them drawn later, or count its minibatch once more when it is tried again.
    """
    if isinstance(state.memory, LazyRows):
        return state
    position, momentum, thermostat = (copy.copy(moves) for moves in (state.position, state.momentum, state.thermostat))
    return state._replace(position=position, momentum=momentum, thermostat=thermostat)
