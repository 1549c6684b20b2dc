"""Passes over the documents; each pass makes many steps of a minibatch sampler of the topics."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from ...inference._minibatch_passes import MinibatchPasses
from ...models import seen_by
from ...random._keys import Purpose, subkey
from ...samplers import ManifoldSampler
from ...samplers._cir.scir_by_rows import begin_at, log_totals, settle
from ...samplers._states import PassState
from ...utils._conditions import MOST_COUNTED, Array
from ...utils._declared import holds
from .._tokens.log_topic_word import LogTopics
from .minibatch_target import MinibatchLDA


@holds(
    components=Array("float32 float64", ("n_components", "n_features"), low=0),
    totals=Array("float64 int64", ("n_components",), low=0, high=MOST_COUNTED),
)
class TopicSums(NamedTuple):
    """Sums over passes."""

    components: np.ndarray  # (K, V): word probabilities
    totals: np.ndarray  # (K,): numbers of tokens


def add_topics(left: TopicSums, right: TopicSums) -> TopicSums:
    """Sum of two, in float64."""
    return TopicSums(np.add(left.components, right.components, dtype=np.float64), left.totals + right.totals)


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
        return PassState(moving, log_likelihood, TopicSums(components, target.topic_tokens))

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
