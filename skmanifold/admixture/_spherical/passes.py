"""Passes over the documents, of which each is one or many steps of a sampler of the topics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...distributions import log_vmf_normalizer
from ...inference._chains import Chain
from ...inference._minibatch_passes import MinibatchPasses
from ...random._keys import Purpose, subkey
from ...samplers import GMC, BaseSampler, ManifoldSampler, State
from ...samplers._states import PassState
from ...utils._conditions import Array, Real, Whole
from ...utils._declared import Held, holds
from .model import DocumentTerms, ProportionChains, SphericalModel
from .proportion_kernels import mean_proportions
from .targets import ConditionalSAM, MinibatchSAM, PassSums, move_chains

_MEMORY = 0.2  # weight of the last pass in running means
_GAIN = 0.2  # change of the logarithm of the radii per unit of acceptance probability
_TARGET = 0.8  # acceptance probability to which the radii are adapted


_MOST = 1e100  # a bound whose square is finite


@holds(
    cosine=Real(),
    squared_pull=Array("float64", ("n_components",), low=0, high=_MOST),
    drag=Array("float64", ("n_components", "n_components"), low=-_MOST, high=_MOST),
    spread=Array("float64", (2,)),
    stretch=Real(low=-100, high=100),
)
class Scales(NamedTuple):
    """Running means over passes, to which the radii and the concentrations are adapted."""

    cosine: float  # of documents with their mixtures of topics
    squared_pull: np.ndarray  # (K,), squared weights of the topics in a document
    drag: np.ndarray  # (K, K), coupling of the topics in a document
    spread: np.ndarray  # (2,), see `Prior`
    stretch: float  # log of a factor of the radii, adapted to the acceptance rate

    @property
    def cosines(self) -> tuple[float, float, float]:
        """Mean cosines of documents, topics and the topics' mean with the means of their distributions."""
        return float(self.cosine), float(self.spread[0]), float(self.spread[1])


@holds(
    topics=Array("float64", ("n_components", "n_features"), unit=1),
    scales=Held(Scales),
    temperature=Real(nan=True, infinite=True),
    n_passes=Whole(),
)
class TopicStatistics(NamedTuple):
    """Statistics of a pass."""

    topics: np.ndarray  # (K, V), unit rows
    scales: Scales
    temperature: float
    n_passes: int


def add_topics(left: TopicStatistics, right: TopicStatistics) -> TopicStatistics:
    """The statistics of the later pass, with the sum of the topics of both."""
    return right._replace(topics=left.topics + right.topics)


_NO_TEMPERATURE = np.array([np.nan])  # of samplers without momentum


class _SphericalPasses(BaseSampler):
    """Passes over the documents with a sampler of one chain.

    Parameters
    ----------
    sampler : ManifoldSampler
        The first axis of its arrays, that of the chains, has length 1.
    batch_size : int or None
        Number of documents in a minibatch; None for all documents.
    n_draws : int
        Transitions of a document's proportions each time it is in a minibatch.
    n_adapting : int
        Number of first passes, in which the step sizes of these transitions are adapted.
    """

    draws_parameters = True

    def __init__(self, sampler: ManifoldSampler, batch_size: Any, n_draws: int, n_adapting: int):
        self.sampler = sampler
        self.batch_size = batch_size
        self.n_draws = n_draws
        self.n_adapting = n_adapting

    def _initial(self, model: SphericalModel, key: np.uint64) -> tuple[Any, TopicStatistics]:
        anchored = self.sampler.is_anchored
        chains = model.init_chains(model.rows.n_rows if anchored else 0)
        return chains, TopicStatistics(model.initial_topics(key), no_scales(model.n_components), np.nan, 0)

    def rescale(self, state: Any, before: SphericalModel, after: SphericalModel) -> None:
        """Move a chain, in place, from the spheres of one model to those of another."""
        self.sampler.rescale(state.moving, (after.radii / before.radii)[:, None], after.noise_covariance())

    def _finish(self, model: SphericalModel, state: Any, before: TopicStatistics, sums: PassSums, **last) -> Any:
        scales = blend(before.scales, sums, max(_MEMORY, 1.0 / (before.n_passes + 1)), last.get("rate"))
        topics = model.topics(state.position[0])
        statistics = TopicStatistics(topics, scales, last.get("temperature", np.nan), before.n_passes + 1)
        return state._replace(statistics=statistics, log_density=model.total_samples * log_density_of(model, sums))

    def parameters(self, model: SphericalModel, state: Any) -> np.ndarray:
        """The topics as drawn."""
        return state.statistics.topics


class SphericalMinibatchPasses(_SphericalPasses, MinibatchPasses):
    """Passes by steps that read minibatches of documents, a new one for each gradient."""

    def _init(self, model: SphericalModel, keys: np.ndarray) -> PassState:
        """Topics at the centres of clusters, with a random velocity."""
        chains, statistics = self._initial(model, keys[0])
        target = MinibatchSAM(model, chains, keys[0], self.batch_size, self.n_draws, True)
        moving = self.sampler.init(target, keys, model.to_position(statistics.topics)[None])
        return PassState(moving, statistics=statistics, latents=chains)

    def _begin_pass(self, model: SphericalModel, state: PassState) -> tuple[MinibatchSAM, MinibatchSAM, int]:
        n_passes = state.statistics.n_passes
        key = subkey(state.key[0], Purpose.SWEEP, n_passes)
        adapts = n_passes < self.n_adapting
        target = MinibatchSAM(model, state.latents, key, self.batch_size, self.n_draws, adapts)
        batch_size = target.batch_size or target.n_samples
        return target, target, max(1, round(target.n_samples / (batch_size * self.sampler.n_steps)))

    def _after_step(self, view: MinibatchSAM, moving: Any) -> None:
        view.sums.add_temperature(self.sampler.stats(view, moving).get("temperature", _NO_TEMPERATURE)[0])

    def _end_pass(self, model: SphericalModel, target: MinibatchSAM, state: PassState) -> PassState:
        return self._finish(model, state, state.statistics, target.sums, temperature=target.sums.temperature)


class BlockwisePasses(_SphericalPasses):
    """Proportions of all documents given the topics, then a transition of the topics given the proportions."""

    sampler: GMC

    def init(self, model: SphericalModel, key: np.uint64) -> State:
        """Topics at the centres of clusters."""
        chains, statistics = self._initial(model, key)
        state = State(model.to_position(statistics.topics)[None], np.array([key], np.uint64))
        return state._replace(latents=chains, statistics=statistics)

    def step(self, model: SphericalModel, state: State) -> State:
        """One pass; ``log_density`` is log p(documents | topics, proportions), relative to uniform directions."""
        return self._pass(model, state)[0]

    def rescale(self, state: State, before: SphericalModel, after: SphericalModel) -> None:
        """Move a chain, in place, from the spheres of one model to those of another."""
        state.position[...] *= (after.radii / before.radii)[:, None]

    def _pass(self, model: SphericalModel, state: State) -> tuple[State, np.ndarray]:
        """One pass, and the proportions of all documents, (n_directed_rows, n_draws, K)."""
        before, rows = state.statistics, model.directed
        key = subkey(state.key[0], Purpose.SWEEP, before.n_passes)
        draws = np.empty((len(rows), self.n_draws, model.n_components))
        word_topic, gram = model.to_word_major(state.position[0])
        adapts = before.n_passes < self.n_adapting
        terms = move_chains(model, state.latents, rows, key, word_topic, gram, self.n_draws, adapts, draws)
        keys = np.array([subkey(state.key[0], Purpose.TOPICS, before.n_passes)], np.uint64)  # `key` is for documents
        position, sums, rate = self._move_topics(model, state, keys, draws, terms, word_topic)
        state = state._replace(position=position, n_steps=state.n_steps + 1)
        return self._finish(model, state, before, sums, rate=rate), draws

    def _move_topics(
        self,
        model: SphericalModel,
        state: State,
        keys: np.ndarray,
        draws: np.ndarray,
        terms: DocumentTerms,
        word_topic: np.ndarray,
    ) -> tuple[np.ndarray, PassSums, float | None]:
        """The topics after a transition given proportions, sums for the scales, and the acceptance rate, if any.

        `terms` and `word_topic` belong to the topics before the transition.
        """
        target = ConditionalSAM(model, draws[:, -1:] if self.sampler.conditions_on_last_draw else draws)
        moving = self.sampler.init(target, keys, state.position)
        moving = self.sampler.step(target, moving._replace(n_steps=state.n_steps))  # step size schedules continue
        return moving.position, target.sums, float(moving.accepted[0])


SphericalPasses = SphericalMinibatchPasses | BlockwisePasses


def no_scales(n_components: int) -> Scales:
    """Running means before the first pass."""
    return Scales(0.0, np.zeros(n_components), np.zeros((n_components, n_components)), np.zeros(2), 0.0)


def blend(before: Scales, sums: PassSums, weight: float, rate: float | None = None) -> Scales:
    """Update running means with this weight of the new sums, and the stretch with the acceptance rate, if any."""

    def mixed(old: Any, total: Any, n: int) -> Any:
        return old + weight * (total / n - old)

    return Scales(
        mixed(before.cosine, sums.cosine, sums.n_documents),
        mixed(before.squared_pull, sums.squared_weights, sums.n_documents),
        mixed(before.drag, sums.coupling, sums.n_documents),
        mixed(before.spread, sums.spread, sums.n_steps),
        before.stretch if rate is None else before.stretch + _GAIN * (_TARGET - rate),
    )


def log_density_of(model: SphericalModel, sums: PassSums) -> float:
    """Mean log p(document | topics, its proportions), relative to uniform directions."""
    kappa, V, n = model.document_density.reference, model.rows.n_features, sums.n_documents
    beyond = sums.beyond / n  # 0 with one concentration
    return float(log_vmf_normalizer(V, kappa) - log_vmf_normalizer(V, 0.0) + kappa * sums.cosine / n) + beyond


def proportions_of(model: SphericalModel, chains: ProportionChains) -> np.ndarray:
    """Mean over documents of the current proportions, (K,)."""
    return mean_proportions(chains.points, model.directed, model.on_sphere)


def first_proportions(model: SphericalModel, chains: ProportionChains, n_rows: int) -> np.ndarray:
    """Current proportions of the first documents, (n_rows, K); NaN for rows of zeros."""
    points = chains.points[:n_rows]
    theta = np.square(points) if model.on_sphere else np.exp(points - points.max(axis=1, keepdims=True))
    theta /= theta.sum(axis=1, keepdims=True)
    theta[~np.isin(np.arange(len(points)), model.directed)] = np.nan
    return theta


def record_draw(chain: Chain, stride: int, n_stored: int = 0) -> dict[str, np.ndarray]:
    """A draw: mean proportions, temperature and, in every `stride`-th draw counted back from the last, the topics.

    With `n_stored` it also has the proportions of the first documents.
    """
    state = chain.state
    draw = {
        "topic_weights": proportions_of(chain.model, state.latents),
        "temperature": np.array(state.statistics.temperature),
    }
    if chain.is_whole_draw(stride):
        draw["components"] = state.statistics.topics
        if n_stored:
            draw["doc_topic"] = first_proportions(chain.model, state.latents, n_stored)
    return draw
