"""Minibatch samplers of the topics: passes of many steps over the documents, and streams of `partial_fit`."""

from __future__ import annotations

import copy
from typing import Annotated, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from ...inference._draw_store import DrawStore
from ...inference._draw_stream import DrawStream, chains_agree
from ...inference._minibatch_passes import MinibatchPasses
from ...models import seen_by
from ...random._keys import Purpose, subkey
from ...samplers import ManifoldSampler
from ...samplers._cir.lazy_cir_rows import RowPrior, expected_rows
from ...samplers._cir.scir_by_rows import SCIRRowsState, begin_at, log_totals, settle
from ...samplers._density.gradient_base import MovingState
from ...samplers._states import PassState, detached, is_of
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._conditions import MOST_COUNTED, Array, Length, Point, Real, Sizes
from ...utils._declared import Keyed, Lacking
from ...utils._threads import Workers
from .._tokens.log_topic_word import LogTopics
from .minibatch_target import MinibatchLDA


class SumsOfPasses(NamedTuple):
    """Sums over passes."""

    components: Annotated[np.ndarray, Array("float32 float64", "n_components n_features", low=0)]  # word probabilities
    totals: Annotated[np.ndarray, Array("float64 int64", "n_components", low=0, high=MOST_COUNTED)]  # numbers of tokens


def add_topics(left: SumsOfPasses, right: SumsOfPasses) -> SumsOfPasses:
    """Sum of two, in float64."""
    return SumsOfPasses(np.add(left.components, right.components, dtype=np.float64), left.totals + right.totals)


class TopicPasses(MinibatchPasses):
    """Passes over the documents by a sampler of the topics."""

    def _init(self, model: MinibatchLDA, keys: np.ndarray) -> PassState:
        """The sampler's initial state; without stored assignments SCIR starts from topics of the first minibatch."""
        model = with_private_scratch(model)
        state = self.sampler.init(seen_by(self.sampler, model), keys)
        if state.position is not None or state.latents is not None:
            return PassState(state)
        key = subkey(keys[0], Purpose.INITIAL_LATENTS)
        batch, counts = model.guess_counts(key)
        scale = batch.scale * (model.n_sweeps - model.n_burn_in)
        return PassState(begin_at(model, state, batch.words, counts, scale, key))

    def _begin_pass(self, model: MinibatchLDA, state: PassState) -> tuple[MinibatchLDA, Any, int]:
        target = with_private_scratch(model)
        return target, seen_by(self.sampler, target), target.n_batches

    def _end_pass(self, model: MinibatchLDA, target: MinibatchLDA, state: PassState) -> PassState:
        """The log density is the log likelihood of the minibatches, scaled to all documents of the fit."""
        moving, components = topics_of(self.sampler, target, state.moving)
        log_likelihood = target.log_likelihood * (target.n_samples / target.n_scored)
        return PassState(moving, log_likelihood, SumsOfPasses(components, target.topic_tokens))

    def parameters(self, model: MinibatchLDA, state: PassState) -> np.ndarray:
        """Word probabilities of the drawn topics."""
        return state.statistics.components


def with_private_scratch(model: MinibatchLDA) -> MinibatchLDA:
    """A copy of the model with its own scores and scratch memory, as each chain needs."""
    model = copy.copy(model)
    model.forget()
    return model


def topics_of(sampler: ManifoldSampler, model: MinibatchLDA, state: Any) -> tuple[Any, np.ndarray]:
    """The sampler's state with all words at the current time, and word probabilities of topics, ``(K, V)`` float32."""
    if state.position is None:  # the rows are drawn when they are read
        state = settle(model, state)
        return state, LogTopics(state.rows.log_theta, log_totals(state.rows)).toarray()
    theta = np.abs(state.position[0])
    return state, np.ascontiguousarray((theta / np.add.reduce(theta, axis=0)).T, np.float32)


# Topics of streams that methods have asked for, because to compute them takes longer than a small minibatch or the
# inference for a row. Streams do not change, so threads that compute the same topics store equal ones.
_TOPIC_WORDS: WeakKeyDictionary[TopicStream, TopicWord] = WeakKeyDictionary()
_DRAW = Keyed(
    ("log_likelihood", "topic_weights", "components"),
    log_likelihood=Real(nan=True, infinite=True),
    topic_weights=Array("float64", "n_components", low=0, sums_to_one=0),
    components=Array("float32", "n_components n_features", low=0, sums_to_one=-1),
)
_State: TypeAlias = Annotated[MovingState | SCIRRowsState, Point("n_features n_components")]


class TopicStream(DrawStream):
    """Chains of a sampler that draws the topics, and the topics estimated from them."""

    states: Annotated[list[_State], Length("n_chains")]
    stores: Annotated[list[DrawStore[Annotated[dict, _DRAW]]], Length("n_chains")]
    row_prior: Lacking[RowPrior | None] = None

    def _disagreement(self, sizes: Sizes) -> str | None:
        if not issubclass(self.kind, ManifoldSampler):
            return "does not belong to a sampler that draws topics"
        for state in self.states:
            if not is_of(self.kind, state):
                return "has states of another sampler"
            if state.position is not None and not np.abs(state.position[0]).sum(axis=0).all():
                return "has a state with a topic without words"
        return chains_agree(self, sizes)

    @classmethod
    def begin(cls, sampler: ManifoldSampler, model: MinibatchLDA, key: np.uint64, n_chains: int) -> TopicStream:
        """Initial chains, with the same keys as in `fit`."""
        passes = TopicPasses(sampler)
        states = [passes.init(model, subkey(key, Purpose.CHAIN, chain)).moving for chain in range(n_chains)]
        return cls(type(sampler), states)

    def after_batch(self, sampler: ManifoldSampler, model: MinibatchLDA, workers: Workers) -> TopicStream:
        """The stream after all rows of `model` as one minibatch."""

        def advance(state: Any, wanted: bool) -> tuple[Any, float, dict[str, np.ndarray] | None]:
            chain_model, draw = with_private_scratch(model), None
            # Lazy rows are shared with the previous state, because copying them for each minibatch would be slow. An
            # interrupted step may leave some rows at a later time, or count its minibatch again when it is repeated.
            state = sampler.step(seen_by(sampler, chain_model), detached(state))
            n_tokens = chain_model.topic_tokens.sum()
            log_likelihood = chain_model.log_likelihood / n_tokens
            if wanted:
                state, components = topics_of(sampler, chain_model, state)
                weights = chain_model.topic_tokens / n_tokens
                draw = {"log_likelihood": log_likelihood, "topic_weights": weights, "components": components}
            return state, log_likelihood, draw

        after = self.advanced(advance, workers)
        after.row_prior = model.row_prior
        return after

    def topic_word(self) -> TopicWord:
        """Mean of the best chain's draws; the expectation given its state if there are no draws yet."""
        if self not in _TOPIC_WORDS:
            draws = self.draws(self.best_chain)
            if draws:
                total = np.zeros(draws[0]["components"].shape)
                for draw in draws:
                    total += draw["components"]
            else:
                total = self._expected_weights(self.states[self.best_chain])
            _TOPIC_WORDS[self] = as_topic_word(total)
        return _TOPIC_WORDS[self]

    def _expected_weights(self, state: Any) -> np.ndarray:
        """Unnormalised topics, ``(K, V)``."""
        if state.position is None:  # the rows are drawn when they are read
            prior: Any = self.row_prior
            return expected_rows(state.rows, prior, 0, len(state.rows.log_theta)).T
        return np.abs(state.position[0]).T
