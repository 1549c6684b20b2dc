"""Passes over the documents, each of one or many steps of a sampler of the topics, and what burn-in adapts to them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ...distributions import log_vmf_normalizer
from ...inference._schedule import MinibatchPasses
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler, ManifoldSampler, State
from ...samplers._states import PassState
from ...utils._conditions import Array, Real
from .concentrations import Concentrations, ObservedShares, learn_all_concentrations, learning_rows
from .model import ProportionChains, SphericalModel
from .targets import NO_DRAWS, ConditionalSAM, MinibatchSAM, PassSums, move_chains, proportions_of_rows

_MEMORY = 0.2  # weight of the last pass in running means
_GAIN = 0.2  # change of the logarithm of the radii per unit of acceptance probability
_TARGET = 0.8  # acceptance probability to which the radii are adapted
WAIT = 0.25  # share of burn-in before concentrations are learned: early topics are too similar to estimate them
_N_PILOT_ROWS, _N_PILOT_TRANSITIONS = 500, 30  # documents, and transitions of each, for the first radii
_MOST = 1e100  # a bound whose square is finite


class Scales(NamedTuple):
    """Running means over passes, to which the radii and the concentrations are adapted."""

    cosine: float  # of documents with their mixtures of topics
    # Squared weights of the topics in a document
    squared_pull: Annotated[np.ndarray, Array("float64", "n_components", low=0, high=_MOST)]
    # Coupling of the topics in a document
    drag: Annotated[np.ndarray, Array("float64", "n_components n_components", low=-_MOST, high=_MOST)]
    spread: Annotated[np.ndarray, Array("float64", "2")]  # see `Prior`
    stretch: Annotated[float, Real(low=-100, high=100)]  # log of a factor of the radii, adapted to the acceptance rate

    @property
    def cosines(self) -> tuple[float, float, float]:
        """Mean cosines of documents, topics and the topics' mean with the means of their distributions."""
        return float(self.cosine), float(self.spread[0]), float(self.spread[1])


class TopicStatistics(NamedTuple):
    """Statistics of a pass."""

    topics: Annotated[np.ndarray, Array("float64", "n_components n_features", unit=1)]  # unit rows
    scales: Scales
    temperature: Annotated[float, Real(nan=True, infinite=True)]
    n_passes: int


def temperature_of(sampler: ManifoldSampler, target: Any, state: Any) -> float:
    """The kinetic temperature after a step; NaN for samplers without momentum."""
    return float(sampler.stats(target, state).get("temperature", [np.nan])[0])


class SphericalPasses(BaseSampler):
    """Passes over the documents with a sampler of one chain.

    `batch_size` is that of a minibatch, or None. Each time a document is used, its proportions make `n_draws`
    transitions, whose step sizes are adapted in the first `n_adapting` passes, those of burn-in.
    """

    draws_parameters = True

    def __init__(self, sampler: ManifoldSampler, batch_size: Any, n_draws: int, n_adapting: int):
        self.sampler = sampler
        self.batch_size = batch_size
        self.n_draws = n_draws
        self.n_adapting = n_adapting

    def adapt(self, model: SphericalModel, state: Any, learned: tuple[bool, ...], scaled: bool) -> SphericalModel:
        """The model of the next pass of burn-in, with concentrations and radii that are learned; rescales the state.

        After burn-in nothing changes, so that all draws are from the same posterior.
        """
        statistics, concentrations = state.statistics, model.concentrations
        if any(learned) and statistics.n_passes >= WAIT * self.n_adapting:
            observe = partial(observe_draws, model, state.latents, statistics.topics)
            concentrations = learn_all_concentrations(model, statistics.scales.cosines, learned, observe)
        after = retuned(model, statistics.scales, concentrations, scaled, self.batch_size)
        self.rescale(state, model, after)
        return after

    def rescale(self, state: Any, before: SphericalModel, after: SphericalModel) -> None:
        """Move a chain, in place, from the spheres of one model to those of another."""
        self.sampler.rescale(state.moving, (after.radii / before.radii)[:, None], after.noise_covariance())

    def _finish(
        self, model: SphericalModel, state: Any, sums: PassSums, rate: float | None = None, temperature: float = np.nan
    ) -> Any:
        _, scales, _, n_passes = state.statistics
        scales = blend(scales, sums, max(_MEMORY, 1.0 / (n_passes + 1)), rate)
        statistics = TopicStatistics(model.topics(state.position[0]), scales, temperature, n_passes + 1)
        return state._replace(statistics=statistics, log_density=model.total_samples * log_density_of(model, sums))

    def parameters(self, model: SphericalModel, state: Any) -> np.ndarray:
        """The topics as drawn."""
        return state.statistics.topics


class SphericalMinibatchPasses(SphericalPasses, MinibatchPasses):
    """Passes by steps that read minibatches of documents, a new one for each gradient."""

    @staticmethod
    def target(model: SphericalModel) -> MinibatchSAM:
        """The posterior of the topics, estimated from minibatches."""
        return MinibatchSAM(model, model.init_chains(0), np.uint64(0), None, 1, True)

    def _init(self, model: SphericalModel, keys: np.ndarray) -> PassState:
        """Topics of mean-field inference, with a random velocity."""
        chains = model.init_chains(model.rows.n_rows if self.sampler.is_anchored else 0)
        statistics = first_statistics(model, model.initial_topics(keys[0]))
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
        view.sums.temperatures.append(temperature_of(self.sampler, view, moving))

    def _end_pass(self, model: SphericalModel, target: MinibatchSAM, state: PassState) -> PassState:
        temperatures = target.sums.temperatures
        return self._finish(model, state, target.sums, temperature=sum(temperatures) / len(temperatures))


class BlockwisePasses(SphericalPasses):
    """Proportions of all documents given the topics, then a transition of the topics given the proportions."""

    target_type: ClassVar[type[ConditionalSAM]] = ConditionalSAM
    sampler: Any  # of one chain

    def target(self, model: SphericalModel) -> ConditionalSAM:
        """The posterior of the topics given the proportions."""
        return self.target_type(model, np.empty((0, 1, model.n_components)))

    def init(self, model: Any, key: np.uint64) -> State:
        """Topics of mean-field inference."""
        return self.begin(model, key, model.initial_topics(key))

    def begin(self, model: Any, key: np.uint64, topics: np.ndarray) -> State:
        """The state before the first pass, at these topics."""
        state = State(model.to_position(topics)[None], np.array([key], np.uint64))
        return state._replace(latents=model.init_chains(0), statistics=first_statistics(model, topics))

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
        turned = model.to_word_major(state.position[0])
        adapts = before.n_passes < self.n_adapting
        terms = move_chains(model, state.latents, rows, key, turned, self.n_draws, adapts, draws)
        keys = np.array([subkey(state.key[0], Purpose.TOPICS, before.n_passes)], np.uint64)  # `key` is for documents
        sums = PassSums(model.n_components)
        sums.add(terms, model.prior(turned.topics))
        position, sums, rate = self._move_topics(model, state, keys, draws, sums)
        state = state._replace(position=position, n_steps=state.n_steps + 1)
        return self._finish(model, state, sums, rate), draws

    def _move_topics(
        self, model: SphericalModel, state: State, keys: np.ndarray, draws: np.ndarray, before: PassSums
    ) -> tuple[np.ndarray, PassSums, float | None]:
        """The topics after a transition given proportions, sums for the scales, and the acceptance rate, if any.

        The sums `before` are of the topics before the transition.
        """
        target = ConditionalSAM(model, draws[:, -1:] if self.sampler.conditions_on_last_draw else draws)
        moving = self.sampler.init(target, keys, state.position)
        moving = self.sampler.step(target, moving._replace(n_steps=state.n_steps))  # step size schedules continue
        return moving.position, target.sums, float(moving.accepted[0])


def no_scales(n_components: int) -> Scales:
    """Running means before the first pass."""
    return Scales(0.0, np.zeros(n_components), np.zeros((n_components, n_components)), np.zeros(2), 0.0)


def first_statistics(model: SphericalModel, topics: np.ndarray) -> TopicStatistics:
    """Statistics before the first pass."""
    return TopicStatistics(topics, no_scales(model.n_components), np.nan, 0)


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
    return proportions_of_rows(chains.points, model.directed, model.on_sphere).mean(axis=0)


def first_proportions(model: SphericalModel, chains: ProportionChains, n_rows: int) -> np.ndarray:
    """Current proportions of the first documents, (n_rows, K); NaN for rows of zeros."""
    points = chains.points[:n_rows]
    theta = np.square(points) if model.on_sphere else np.exp(points - points.max(axis=1, keepdims=True))
    theta /= theta.sum(axis=1, keepdims=True)
    theta[~np.isin(np.arange(len(points)), model.directed)] = np.nan
    return theta


def observe_draws(model: SphericalModel, chains: ProportionChains, topics: np.ndarray) -> ObservedShares:
    """Current proportions and cosines of some documents."""
    rows = model.directed[learning_rows(len(model.directed))]
    turned = model.to_word_major(model.to_position(topics))
    products = np.empty((len(rows), model.n_components))
    model.rows.fill_products(rows, 0, len(rows), turned.topics, products)
    theta = proportions_of_rows(chains.points, rows, model.on_sphere)
    lengths = np.sqrt(np.einsum("nk,kj,nj->n", theta, turned.gram, theta))
    return ObservedShares(theta, np.einsum("nk,nk->n", products, theta) / lengths, np.zeros(len(rows)))


def gradient_noise(model: SphericalModel, scales: Scales, batch_size: int | None) -> np.ndarray:
    """Variance of the minibatch gradient with respect to unit topics, averaged over a topic's coordinates, (K,).

    A document contributes its weight times its component orthogonal to its mixture, of squared length 1 - cos^2.
    """
    total = model.total_samples
    size = total if batch_size is None else min(batch_size, total)
    reference, V = model.document_density.reference, model.rows.n_features
    # With a concentration for each topic the cosines are weighted, and their mean may exceed 1.
    cosine = scales.cosine * reference / float(np.max(model.concentrations.document))
    return (reference * total) ** 2 * (1 / size - 1 / total) * (1.0 - cosine**2) * scales.squared_pull / V


def retuned(
    model: SphericalModel, scales: Scales, concentrations: Concentrations, scaled: bool, batch_size: int | None
) -> SphericalModel:
    """The model with new concentrations, and the noise and (if they are learned) the radii recomputed for them.

    With these radii the curvature of the log posterior plus the variance of its gradient is about one.
    """
    model = model.tuned(concentrations, model.radii, model.noise)
    noise, radii = gradient_noise(model, scales, batch_size), model.radii
    if scaled:
        radii = np.exp(scales.stretch) * np.sqrt(model.curvature_plus_noise(scales.drag, noise))
    return model.tuned(concentrations, radii, noise)


def initially_tuned(
    model: SphericalModel, topics: np.ndarray, key: np.uint64, scaled: bool, batch_size: int | None
) -> SphericalModel:
    """The model with noise and radii for `topics`, estimated from some documents after a warm-up of their chains.

    Much too small radii make the first steps too long, and a thermostat takes many steps to recover.
    """
    rows = model.directed[:: -(-len(model.directed) // _N_PILOT_ROWS)]
    turned = model.to_word_major(model.to_position(topics))
    terms = move_chains(model, model.init_chains(0), rows, key, turned, _N_PILOT_TRANSITIONS, True, NO_DRAWS)
    sums = PassSums(model.n_components)
    sums.add(terms, model.prior(turned.topics))
    scales = blend(no_scales(model.n_components), sums, 1.0)
    return retuned(model, scales, model.concentrations, scaled, batch_size)
