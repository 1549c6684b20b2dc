"""How the kinds of samplers of a spherical admixture are run: what they see, keep, learn and leave."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...distributions import bessel_ratio
from ...inference._chains import Chain, best_chain
from ...samplers import GMC, BaseSampler, MeanField, StochasticMeanField
from ...samplers._latent.mean_field import MeanFieldState
from ...utils._conditions import Either, ListOf, Real, Whole
from ...utils._declared import Held, holds
from ...utils._threads import Workers
from .adaptation import WAIT, adapter, learn_concentrations
from .model import Concentrations, SphericalModel
from .passes import BlockwisePasses, SphericalMinibatchPasses, record_draw
from .setup import Setup
from .streams import STREAM_WAIT, SphericalStream
from .targets import ConditionalSAM, MinibatchSAM
from .variational import Alignment, MeanFieldSAM, SphereFactors


class DrawPlan:
    """Samplers that draw the topics: by minibatches, or all documents with a Metropolis test."""

    def __init__(self, sampler: Any, setup: Setup, batch_size: int | None, n_draws: int, burn_in: int, stride: int):
        by_blocks = isinstance(sampler, GMC)
        self.setup = setup
        self.stride = stride
        passes = BlockwisePasses if by_blocks else SphericalMinibatchPasses
        self.sampler: Any = passes(sampler, batch_size, n_draws, burn_in)
        self.adapt = adapter(setup.learned, setup.scaled, burn_in, None if by_blocks else batch_size)

    def model(self, workers: Workers) -> SphericalModel:
        """What the passes ask."""
        return self.setup.model(workers)

    @staticmethod
    def target(sampler: BaseSampler, model: SphericalModel) -> Any:
        """What the sampler itself asks."""
        if isinstance(sampler, GMC):
            return ConditionalSAM(model, np.empty((0, 1, model.n_components)))
        return MinibatchSAM(model, model.init_chains(0), np.uint64(0), None, 1, True)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """A draw."""
        return record_draw(chain, self.stride)

    @staticmethod
    def estimate(chains: list[Chain]) -> dict[str, Any]:
        """What inference needs, from wherever the chains stand: the best one's mean directions."""
        best = best_chain(chains)
        total, n_passes = chains[best].estimate()
        passes = chains[best].sampler
        stream = None
        if isinstance(passes, SphericalMinibatchPasses):
            stream = SphericalStream.resume(passes.sampler, [(chain.model, chain.state) for chain in chains])
        model = chains[best].model
        left = {"best_chain_": best, "_stream": stream, "topic_scale_": model.radii}
        return {**left, **mean_topics(total.topics, n_passes), **fitted_priors(model, model.concentrations)}


class EstimatePlan:
    """Variational samplers, which estimate the topics."""

    def __init__(self, sampler: Any, setup: Setup, batch_size: int | None, burn_in: int, stride: int):
        self.sampler = sampler
        self.setup = setup
        self.batch_size = batch_size
        self.burn_in = burn_in
        self.stride = stride

    def model(self, workers: Workers) -> MeanFieldSAM:
        """What the sampler asks."""
        return mean_field_model(self.setup, workers, self.batch_size)

    @staticmethod
    def target(sampler: BaseSampler, model: MeanFieldSAM) -> MeanFieldSAM:
        """What the sampler itself asks."""
        return model

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """An estimate on the way."""
        shapes = chain.state.latents.shapes
        draw = {"topic_weights": np.mean(shapes / shapes.sum(axis=1, keepdims=True), axis=0)}
        if chain.is_whole_draw(self.stride):
            draw["components"] = chain.state.statistics
        return draw

    def adapt(self, model: MeanFieldSAM, state: MeanFieldState) -> MeanFieldSAM:
        """A step of expectation-maximisation in the concentrations, after the first quarter of burn-in."""
        if not any(self.setup.learned) or state.n_steps < WAIT * self.burn_in:
            return model
        alignment = model.alignment(state.position, state.latents)
        return model.tuned(learn_concentrations(model, alignment, self.setup.learned))

    @staticmethod
    def estimate(chains: list[Chain]) -> dict[str, Any]:
        """What inference needs, from wherever the chains stand: the best one's mean directions."""
        best = best_chain(chains)
        model, state = chains[best].model, chains[best].state
        alignment = model.alignment(state.position, state.latents)
        stream = FactorStream(state.position, model.concentrations, alignment, 0)
        return {"best_chain_": best, "_stream": stream, **fitted_factors(model, state)}


@holds(
    factors=Held(SphereFactors),
    concentrations=Held(Concentrations),
    alignment=Either(lambda value: isinstance(value, list), ListOf(Real(), 3), Held(Alignment)),
    n_batches=Whole(),
)
class FactorStream(NamedTuple):
    """Where a variational sampler stands between two minibatches."""

    factors: Any
    concentrations: Concentrations
    alignment: Any  # running means
    n_batches: int

    @classmethod
    def begin(cls, sampler: StochasticMeanField, model: MeanFieldSAM, key: np.uint64) -> FactorStream:
        """Factors that the first minibatch suggests."""
        state = sampler.init(model, key)
        return cls(state.position, model.concentrations, model.alignment(state.position, state.latents), 0)

    def after_batch(
        self, sampler: StochasticMeanField, model: MeanFieldSAM, key: np.uint64, learned: tuple[bool, ...], rate: float
    ) -> tuple[FactorStream, MeanFieldState]:
        """The stream after all rows of `model` as one minibatch."""
        model, t = model.tuned(self.concentrations), self.n_batches + 1
        state = sampler.resume_stream(model, self.factors, key, self.n_batches)
        state = sampler.step_stream(model, state, rate, model.scale)
        new = model.alignment(state.position, state.latents)
        weight = rate if self.n_batches else 1.0
        alignment = [old + weight * (now - old) for old, now in zip(self.alignment, new, strict=True)]
        concentrations = self.concentrations
        if t >= STREAM_WAIT:
            concentrations = learn_concentrations(model, alignment, learned)
        return FactorStream(state.position, concentrations, alignment, t), state


def mean_field_model(
    setup: Setup, workers: Workers, batch_size: int | None, total_samples: int | None = None
) -> MeanFieldSAM:
    """The posterior as its factors see it."""
    return MeanFieldSAM(
        setup.rows,
        setup.alpha,
        setup.mean_direction,
        *setup.concentrations,
        workers,
        batch_size=batch_size,
        total_samples=total_samples,
    )


def is_variational(sampler: BaseSampler) -> bool:
    """Whether a sampler estimates the topics and does not draw them."""
    return isinstance(sampler, (MeanField, StochasticMeanField))


def mean_topics(total: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Mean directions of n draws, and how long their mean is."""
    lengths = np.sqrt(np.einsum("kv,kv->k", total, total))
    return {"components_": total / lengths[:, np.newaxis], "resultant_lengths_": lengths / n}


def fitted_factors(model: MeanFieldSAM, state: MeanFieldState) -> dict[str, Any]:
    """Attributes of factors."""
    lengths = bessel_ratio(model.directions.n_features, state.position.concentrations)
    priors = fitted_priors(model, model.concentrations)
    return {"components_": state.statistics, "resultant_lengths_": lengths, **priors}


def fitted_priors(model: Any, concentrations: Concentrations) -> dict[str, Any]:
    """Attributes that say of what the topics are the posterior."""
    document, topic, mean = concentrations
    return {
        "doc_topic_prior_": model.alpha,
        "document_concentration_": document,
        "topic_concentration_": topic,
        "mean_concentration_": mean,
        "mean_direction_": model.mean_direction,
    }
