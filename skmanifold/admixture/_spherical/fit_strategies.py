"""How the spherical admixture is fitted: with samplers of the topics, or with variational factors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StreamStrategy, best_chain
from ...distributions import bessel_ratio
from ...inference._chains import Chain
from ...inference._convergence import warn_temperature
from ...inference._draw_store import DrawStore
from ...models import HasLogDensity, IncompatibleError
from ...samplers import BaseSampler, StochasticMeanField
from ...samplers._latent.mean_field import MeanFieldState
from ...sparse.dense_directions import read_directions
from ...utils._conditions import Either, ListOf, Real, Whole
from ...utils._declared import Held, holds
from ...utils._threads import Workers
from .._tokens.sampler_types import is_variational
from .adaptation import WAIT, adapter, learn_concentrations
from .model import Concentrations, SphericalModel
from .passes import BlockwisePasses, SphericalMinibatchPasses, SphericalPasses, TopicStatistics, add_topics, record_draw
from .setup import Setup, has_topic_concentrations, set_up, without_metric
from .streams import STREAM_WAIT, SphericalStream, StreamSettings
from .targets import ConditionalSAM, MinibatchSAM
from .variational import Alignment, MeanFieldSAM, SphereFactors


def fit_strategy(admixture: Any, X: Any, run: Run) -> SphericalFit:
    """The strategy of `fit` for this sampler."""
    _check_concentrations(admixture, run.sampler)
    rows = read_directions(admixture, X, reset=True)
    if is_variational(run.sampler):
        return VariationalFit(admixture, run, without_metric(admixture, rows, run.key)[0])
    if HasLogDensity in run.sampler.requires:
        return BlockwiseFit(admixture, run, set_up(admixture, rows, run.key, None))
    return MinibatchFit(admixture, run, set_up(admixture, rows, run.key, admixture.batch_size))


def _check_concentrations(admixture: Any, sampler: BaseSampler) -> None:
    """Raise an error if each topic has its own concentration, and the sampler does not draw proportions."""
    if is_variational(sampler) and has_topic_concentrations(admixture.document_concentration):
        raise IncompatibleError(
            f"{type(sampler).__name__} has one concentration for all documents: use a sampler that draws the "
            "proportions, such as 'gsgnht', or document_concentration='auto'."
        )


def stream_strategy(admixture: Any, X: Any, batch: Minibatch) -> SphericalBatch | None:
    """The strategy of `partial_fit` for this sampler; None if all rows are zeros."""
    variational = is_variational(batch.sampler)
    _check_concentrations(admixture, batch.sampler)
    if not variational and batch.sampler.control_variate is not None:
        what = batch.sampler.control_variate
        raise ValueError(f"control_variate={what!r} needs all documents: use fit, not partial_fit.")
    rows = read_directions(admixture, X, reset=batch.resets)
    if len(rows.directed) == 0:
        return None
    if not batch.is_first:
        setup = admixture._setup._replace(rows=rows)
    elif variational:
        setup = without_metric(admixture, rows, batch.key)[0]
    else:
        setup = set_up(admixture, rows, batch.key, len(rows.directed), batch.total_samples)
    return (VariationalBatch if variational else DrawBatch)(admixture, batch, setup)


class SphericalFit(FitStrategy):
    """What all fits have in common."""

    def __init__(self, admixture: Any, run: Run, setup: Setup, passes: BaseSampler | None = None):
        super().__init__(run.sampler, passes)
        self.admixture = admixture
        self.run = run
        self.setup = setup
        self.n_rows = setup.rows.n_rows
        self.stride = draw_store(admixture, setup).stride(run.schedule.n_draws)

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean topics."""
        best = best_chain(chains)
        common = {"best_chain_": best, "n_batch_iter_": 0, "_key": self.run.key, "_setup": self.setup.without_rows()}
        return {**common, **self._estimate(chains, chains[best])}

    def _estimate(self, chains: list[Chain], best: Chain) -> dict[str, Any]:
        raise NotImplementedError

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn about a kinetic temperature that is not 1."""
        warn_temperature(fitted["_posterior"].get("temperature"), self.setup.n_coordinates, stacklevel=6)


class _DrawFit(SphericalFit):
    """What all fits with samplers that draw the topics have in common."""

    def __init__(self, admixture: Any, run: Run, setup: Setup, passes: SphericalPasses, batch_size: int | None):
        super().__init__(admixture, run, setup, passes)
        self._adapt = adapter(passes, setup.learned, setup.scaled, run.schedule.burn_in, batch_size)

    def model(self, workers: Workers) -> SphericalModel:
        """The posterior of the topics."""
        return self.setup.model(workers)

    def add(self, left: TopicStatistics, right: TopicStatistics) -> TopicStatistics:
        """Sum of the topics of two passes."""
        return add_topics(left, right)

    def adapt(self, model: SphericalModel, state: Any) -> SphericalModel:
        """The model with new estimates of the concentrations and radii that are "auto"."""
        return self._adapt(model, state)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The mean proportions, the temperature and, in some draws, the topics."""
        return record_draw(chain, self.stride, self.admixture.n_stored_rows)

    def _estimate(self, chains: list[Chain], best: Chain) -> dict[str, Any]:
        total, n_passes = best.estimate()
        model = best.model
        fitted = {"_stream": self._stream(chains), "topic_scale_": model.radii}
        return {**fitted, **mean_topics(total.topics, n_passes), **fitted_priors(model, model.concentrations)}

    def _stream(self, chains: list[Chain]) -> SphericalStream | None:
        return None


class MinibatchFit(_DrawFit):
    """The fit with samplers whose steps read minibatches of documents."""

    def __init__(self, admixture: Any, run: Run, setup: Setup):
        batch_size, burn_in = admixture.batch_size, run.schedule.burn_in
        passes = SphericalMinibatchPasses(run.sampler, batch_size, admixture.n_doc_samples, burn_in)
        super().__init__(admixture, run, setup, passes, batch_size)

    def target(self, model: SphericalModel) -> MinibatchSAM:
        """The posterior of the topics, estimated from minibatches."""
        return MinibatchSAM(model, model.init_chains(0), np.uint64(0), None, 1, True)

    def _stream(self, chains: list[Chain]) -> SphericalStream:
        return SphericalStream.resume(self.sampler, [(chain.model, chain.state) for chain in chains])


class BlockwiseFit(_DrawFit):
    """The fit with samplers that need the log density of the topics given the proportions of all documents."""

    def __init__(self, admixture: Any, run: Run, setup: Setup):
        passes = BlockwisePasses(run.sampler, None, admixture.n_doc_samples, run.schedule.burn_in)
        super().__init__(admixture, run, setup, passes, None)

    def target(self, model: SphericalModel) -> ConditionalSAM:
        """The posterior of the topics given the proportions."""
        return ConditionalSAM(model, np.empty((0, 1, model.n_components)))


class VariationalFit(SphericalFit):
    """The fit with samplers that update the factors of a mean-field approximation."""

    def model(self, workers: Workers) -> MeanFieldSAM:
        """The mean-field model of the posterior."""
        return mean_field_model(self.setup, workers, self.admixture.batch_size)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The mean proportions and, in some draws, the topics."""
        shapes = chain.state.latents.shapes
        draw = {"topic_weights": np.mean(shapes / shapes.sum(axis=1, keepdims=True), axis=0)}
        if chain.is_whole_draw(self.stride):
            draw["components"] = chain.state.statistics
        return draw

    def adapt(self, model: MeanFieldSAM, state: MeanFieldState) -> MeanFieldSAM:
        """The model with new estimates of the concentrations that are "auto", after the first quarter of burn-in."""
        if not any(self.setup.learned) or state.n_steps < WAIT * self.run.schedule.burn_in:
            return model
        alignment = model.alignment(state.position, state.latents)
        return model.tuned(learn_concentrations(model, alignment, self.setup.learned))

    def _estimate(self, chains: list[Chain], best: Chain) -> dict[str, Any]:
        model, state = best.model, best.state
        alignment = model.alignment(state.position, state.latents)
        stream = FactorStream(state.position, model.concentrations, alignment, 0)
        return {"_stream": stream, **fitted_factors(model, state)}


class SphericalBatch(StreamStrategy):
    """What all updates by one minibatch have in common."""

    def __init__(self, admixture: Any, batch: Minibatch, setup: Setup):
        super().__init__(batch)
        self.admixture = admixture
        self.setup = setup
        self.stream = None if batch.is_first else admixture._stream


class DrawBatch(SphericalBatch):
    """The update by one minibatch with samplers that draw the topics: one step."""

    target = MinibatchFit.target

    def model(self, workers: Workers) -> SphericalModel:
        """The posterior of the topics, in which the minibatch represents the whole stream."""
        return self.setup.model(workers, self.batch.total_samples)

    def advance(self, model: SphericalModel, workers: Workers) -> dict[str, Any]:
        """Update the chains by one step; the topics are the mean of draws in the second half of the stream."""
        batch, setup = self.batch, self.setup
        stream = self.stream or SphericalStream.begin(self.sampler, model, batch.key, batch.n_chains)
        if stream.n_batches == 0:
            stream = stream.storing(draw_store(self.admixture, setup))
        settings = StreamSettings(self.admixture.n_doc_samples, setup.learned, setup.scaled, batch.rate)
        stream = stream.after_batch(self.sampler, model, settings, workers)
        best = stream.states[stream.best_chain]
        fitted = {"_stream": stream, "best_chain_": stream.best_chain, "topic_scale_": best.radii}
        fitted["_setup"] = setup.without_rows()
        return {**fitted, **mean_topics(*stream.topics()), **fitted_priors(model, best.concentrations)}


class VariationalBatch(SphericalBatch):
    """The update by one minibatch with samplers of factors, which are averaged with those of the minibatch."""

    def model(self, workers: Workers) -> MeanFieldSAM:
        """The mean-field model of the posterior, in which the minibatch represents the whole stream."""
        return mean_field_model(self.setup, workers, None, self.batch.total_samples)

    def advance(self, model: MeanFieldSAM, workers: Workers) -> dict[str, Any]:
        """Update the factors by one step."""
        batch, setup = self.batch, self.setup
        stream = self.stream or FactorStream.begin(self.sampler, model, batch.key)
        stream, state = stream.after_batch(self.sampler, model, batch.key, setup.learned, batch.rate)
        fitted = {"_stream": stream, "best_chain_": 0, "_setup": setup.without_rows()}
        return {**fitted, **fitted_factors(model.tuned(stream.concentrations), state)}


@holds(
    factors=Held(SphereFactors),
    concentrations=Held(Concentrations),
    alignment=Either(lambda value: isinstance(value, list), ListOf(Real(), 3), Held(Alignment)),
    n_batches=Whole(),
)
class FactorStream(NamedTuple):
    """What a variational sampler keeps from one minibatch to the next."""

    factors: Any
    concentrations: Concentrations
    alignment: Any  # running means
    n_batches: int

    @classmethod
    def begin(cls, sampler: StochasticMeanField, model: MeanFieldSAM, key: np.uint64) -> FactorStream:
        """Initial factors, computed from the first minibatch."""
        state = sampler.init(model, key)
        return cls(state.position, model.concentrations, model.alignment(state.position, state.latents), 0)

    def after_batch(
        self, sampler: StochasticMeanField, model: MeanFieldSAM, key: np.uint64, learned: tuple[bool, ...], rate: float
    ) -> tuple[FactorStream, MeanFieldState]:
        """The stream and the sampler's state after one more minibatch, all rows of `model`."""
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


def draw_store(admixture: Any, setup: Setup) -> DrawStore:
    """A store for as many draws of topics as fit into `max_draws_bytes`."""
    draw_bytes = setup.draw_bytes + 8 * len(setup.alpha) * admixture.n_stored_rows
    return DrawStore.within(admixture.max_draws_bytes, draw_bytes * admixture.n_chains, admixture.thin)


def mean_field_model(
    setup: Setup, workers: Workers, batch_size: int | None, total_samples: int | None = None
) -> MeanFieldSAM:
    """The mean-field model of the posterior."""
    return MeanFieldSAM(
        setup.rows,
        setup.alpha,
        setup.mean_direction,
        *setup.concentrations,
        workers,
        batch_size=batch_size,
        total_samples=total_samples,
    )


def mean_topics(total: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Mean directions of n draws, and the lengths of the mean vectors."""
    lengths = np.sqrt(np.einsum("kv,kv->k", total, total))
    return {"components_": total / lengths[:, np.newaxis], "resultant_lengths_": lengths / n}


def fitted_factors(model: MeanFieldSAM, state: MeanFieldState) -> dict[str, Any]:
    """The factors as fitted attributes."""
    lengths = bessel_ratio(model.directions.n_features, state.position.concentrations)
    priors = fitted_priors(model, model.concentrations)
    return {"components_": state.statistics, "resultant_lengths_": lengths, **priors}


def fitted_priors(model: Any, concentrations: Concentrations) -> dict[str, Any]:
    """The priors and concentrations of the model as fitted attributes."""
    document, topic, mean = concentrations
    return {
        "doc_topic_prior_": model.alpha,
        "document_concentration_": document,
        "topic_concentration_": topic,
        "mean_concentration_": mean,
        "mean_direction_": model.mean_direction,
    }
