"""Chains of a spherical admixture's topics on a stream of minibatches."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple

import numpy as np

from ...inference._draw_store import DrawStore, DrawStream, chains_agree
from ...random._keys import Purpose, subkey
from ...samplers import ManifoldSampler
from ...samplers._density.gradient_base import MovingState
from ...samplers._states import PassState, detached, is_of
from ...utils._conditions import Array, Length, Point, Real, Sizes
from ...utils._declared import Keyed
from ...utils._threads import Workers
from .concentrations import Concentrations, learn_all_concentrations
from .model import SphericalModel
from .passes import (
    SphericalMinibatchPasses,
    TopicStatistics,
    blend,
    log_density_of,
    observe_draws,
    proportions_of,
    retuned,
    temperature_of,
)
from .setup import NOISE, RADII, Setup
from .targets import NO_DRAWS, MinibatchSAM, move_chains

_WARM_UP = 20  # burn-in transitions of a new document's proportions
STREAM_WAIT = 20  # minibatches before concentrations are learned
_OFTEN = 100  # number of first minibatches after each of which the metric is adapted


class StreamChain(NamedTuple):
    """What one chain keeps from one minibatch to the next."""

    state: Annotated[MovingState, Point("n_components n_features")]  # the sampler's state, without documents
    statistics: TopicStatistics
    concentrations: Concentrations
    radii: Annotated[np.ndarray, RADII]
    noise: Annotated[np.ndarray, NOISE]
    # Mean log step size of the transitions of proportions in the last minibatch
    log_step: Annotated[float, Real(low=-100, high=100)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        lengths = np.sqrt(np.square(self.state.position[0]).sum(axis=1))
        return None if np.allclose(lengths, self.radii, rtol=1e-3) else "has topics that are not on their spheres"


_NUMBER = Array("float64", "", nan=True, infinite=True)
_DRAW = Keyed(
    ("log_likelihood", "topic_weights", "temperature", "components"),
    log_likelihood=_NUMBER,
    topic_weights=Array("float64", "n_components", low=0, sums_to_one=0),
    temperature=_NUMBER,
    components=Array("float64", "n_components n_features", unit=1),
)


class SphericalStream(DrawStream):
    """Chains of a sampler of topics, each with its own concentrations, which it learns."""

    states: Annotated[list[StreamChain], Length("n_chains")]
    stores: Annotated[list[DrawStore[Annotated[dict, _DRAW]]], Length("n_chains")]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if not issubclass(self.kind, ManifoldSampler):
            return "is not of a sampler that draws topics"
        if not all(is_of(self.kind, chain.state) for chain in self.states):
            return "has states that are not of its sampler"
        return chains_agree(self, sizes)

    @classmethod
    def begin(cls, sampler: ManifoldSampler, model: SphericalModel, key: np.uint64, n_chains: int) -> SphericalStream:
        """Initial chains, with the same keys as in `fit`."""
        passes = SphericalMinibatchPasses(sampler, None, 1, 0)
        states = [passes.init(model, subkey(key, Purpose.CHAIN, chain)) for chain in range(n_chains)]
        return cls.resume(sampler, [(model, state) for state in states])

    @classmethod
    def resume(cls, sampler: ManifoldSampler, chains: list[tuple[SphericalModel, PassState]]) -> SphericalStream:
        """Chains that continue a fit."""
        stood = []
        for model, state in chains:
            log_step = float(np.mean(state.latents.log_steps[model.directed]))
            statistics = state.statistics._replace(n_passes=0)
            kept = model.concentrations, model.radii, model.noise, log_step
            stood.append(StreamChain(state.moving, statistics, *kept))
        return cls(type(sampler), stood)

    def after_batch(
        self, sampler: ManifoldSampler, model: SphericalModel, setup: Setup, n_draws: int, rate: float, workers: Workers
    ) -> SphericalStream:
        """The stream after all rows of `model` as one minibatch, of this weight in running means.

        The mean over `n_draws` transitions of each document's proportions is used.
        """

        def advance(chain: StreamChain, wanted: bool) -> tuple[StreamChain, float, dict[str, np.ndarray] | None]:
            its = model.tuned(chain.concentrations, chain.radii, chain.noise)
            after, draw = _advance(sampler, its, setup, n_draws, rate, chain)
            return after, float(draw["log_likelihood"]), draw if wanted else None

        return self.advanced(advance, workers)

    def topics(self) -> tuple[np.ndarray, int]:
        """Sum of the best chain's draws and their number; its current topics and 1 if there are no draws yet."""
        draws = self.draws(self.best_chain)
        if draws:
            return np.add.reduce([draw["components"] for draw in draws]), len(draws)
        return self.states[self.best_chain].statistics.topics, 1


def _advance(
    sampler: ManifoldSampler, model: SphericalModel, setup: Setup, n_draws: int, rate: float, chain: StreamChain
) -> tuple[StreamChain, dict[str, np.ndarray]]:
    """One minibatch: burn-in of its documents' proportions, a step of the topics, then the learned concentrations."""
    state, before = detached(chain.state), chain.statistics
    key = subkey(state.key[0], Purpose.MINIBATCH, before.n_passes)
    proportions = model.init_chains(0)
    proportions.log_steps[:] = chain.log_step
    turned = model.to_word_major(state.position[0])
    warming = subkey(state.key[0], Purpose.WARM_UP, before.n_passes)  # rows have the children of `key`
    move_chains(model, proportions, model.directed, warming, turned, _WARM_UP, True, NO_DRAWS)
    target = MinibatchSAM(model, proportions, key, None, n_draws, True)
    state = sampler.step(target, state)
    t = before.n_passes + 1
    scales = blend(before.scales, target.sums, rate if before.n_passes else 1.0)
    statistics = TopicStatistics(model.topics(state.position[0]), scales, temperature_of(sampler, target, state), t)
    after = model
    if t <= _OFTEN or t & (t - 1) == 0:  # later at powers of two alone, since between changes the metric is constant
        concentrations = model.concentrations
        if t >= STREAM_WAIT:
            observe = partial(observe_draws, model, proportions, statistics.topics)
            concentrations = learn_all_concentrations(model, scales.cosines, setup.learned, observe, rate)
        after = retuned(model, scales, concentrations, setup.scaled, len(model.directed))
        sampler.rescale(state, (after.radii / model.radii)[:, None], after.noise_covariance())
    log_step = float(np.mean(proportions.log_steps[model.directed]))
    draw = {
        "log_likelihood": np.array(log_density_of(model, target.sums)),
        "topic_weights": proportions_of(model, proportions),
        "temperature": np.array(statistics.temperature),
        "components": statistics.topics,
    }
    return StreamChain(state, statistics, after.concentrations, after.radii, after.noise, log_step), draw
