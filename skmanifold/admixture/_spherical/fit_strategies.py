"""How the spherical admixture is fitted: with samplers of the topics, or with variational factors."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StreamStrategy, best_chain
from ...distributions import bessel_ratio
from ...inference._chains import Chain
from ...inference._convergence import warn_temperature
from ...inference._draw_store import DrawStore
from ...models import HasLogDensity
from ...samplers import BaseSampler, StochasticMeanField
from ...samplers._latent.mean_field import MeanFieldState
from ...sparse.directions import read_directions
from ...utils._conditions import Length
from ...utils._threads import Workers
from .._tokens.fits import is_variational
from .concentrations import Concentrations, learn_all_concentrations
from .model import SphericalModel
from .passes import WAIT, BlockwisePasses, SphericalMinibatchPasses, first_proportions, proportions_of
from .setup import Setup, set_up, without_metric
from .streams import STREAM_WAIT, SphericalStream
from .variational import Alignment, MeanFieldSAM, SphereFactors


def fit_strategy(admixture: Any, X: Any, run: Run) -> SphericalFit:
    """The strategy of `fit` for this sampler."""
    rows = read_directions(admixture, X, reset=True)
    if is_variational(run.sampler):
        return VariationalFit(admixture, run, without_metric(admixture, rows, run.key)[0])
    batch_size, kind = admixture.batch_size, SphericalMinibatchPasses
    if HasLogDensity in run.sampler.requires:
        batch_size, kind = None, BlockwisePasses
    passes = kind(run.sampler, batch_size, admixture.n_doc_samples, run.schedule.burn_in)
    return DrawFit(admixture, run, set_up(admixture, rows, run.key, batch_size), passes)


def stream_strategy(admixture: Any, X: Any, batch: Minibatch) -> SphericalBatch | None:
    """The strategy of `partial_fit` for this sampler; None if all rows are zeros."""
    variational = is_variational(batch.sampler)
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
    """A fit whose results are those of the best chain."""

    def __init__(
        self, admixture: Any, run: Run, setup: Setup, passes: BaseSampler | None = None, most: int | None = None
    ):
        super().__init__(run.sampler, passes)
        self.admixture = admixture
        self.run = run
        self.setup = setup
        self.n_rows = setup.rows.n_rows
        store = draw_store(admixture, len(setup.alpha) if most is None else most, setup.rows.n_features)
        self.stride = store.stride(run.schedule.n_draws)

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean topics."""
        best = best_chain(chains)
        common = {"best_chain_": best, "n_batch_iter_": 0, "_key": self.run.key, "_setup": self.setup.without_rows()}
        return {**common, **self._estimate(chains, chains[best])}

    def _estimate(self, chains: list[Chain], best: Chain) -> dict[str, Any]:
        raise NotImplementedError


class DrawFit(SphericalFit):
    """The fit with samplers that draw the topics.

    `most` is the largest number of topics, if it differs from that of the setup.
    """

    model_type: ClassVar[type[SphericalModel]] = SphericalModel
    passes: Any

    def model(self, workers: Workers) -> SphericalModel:
        """The posterior of the topics."""
        model = self.model_type(self.setup, workers)
        self._n_coordinates = model.manifold.dim
        return model

    def target(self, model: SphericalModel) -> Any:
        """The posterior of the topics as the sampler reads it."""
        return self.passes.target(model)

    def add(self, left: Any, right: Any) -> Any:
        """The statistics of the later pass, with the sum of the topics of both."""
        return right._replace(topics=left.topics + right.topics)

    def adapt(self, model: SphericalModel, state: Any) -> SphericalModel:
        """The model with new estimates of the concentrations and radii that are "auto"."""
        return self.passes.adapt(model, state, self.setup.learned, self.setup.scaled)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The mean proportions, the temperature and, in some draws, the topics and proportions of the first rows."""
        model, statistics, latents = chain.model, chain.state.statistics, chain.state.latents
        draw = {"topic_weights": proportions_of(model, latents), "temperature": np.array(statistics.temperature)}
        if chain.is_whole_draw(self.stride):
            draw["components"] = statistics.topics
            if self.admixture.n_stored_rows:
                draw["doc_topic"] = first_proportions(model, latents, self.admixture.n_stored_rows)
        return draw

    def _estimate(self, chains: list[Chain], best: Chain) -> dict[str, Any]:
        total, n_passes = best.estimate()
        model = best.model
        fitted = {"_stream": None, "topic_scale_": model.radii}
        if isinstance(self.passes, SphericalMinibatchPasses):
            fitted["_stream"] = SphericalStream.resume(self.sampler, [(chain.model, chain.state) for chain in chains])
        return {**fitted, **mean_topics(total.topics, n_passes), **fitted_priors(model, model.concentrations)}

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn about a kinetic temperature that is not 1."""
        warn_temperature(fitted["_posterior"]["temperature"], self._n_coordinates, stacklevel=6)


class VariationalFit(SphericalFit):
    """The fit with samplers that update the factors of a mean-field approximation."""

    def model(self, workers: Workers) -> MeanFieldSAM:
        """The mean-field model of the posterior."""
        return MeanFieldSAM(self.setup, workers, batch_size=self.admixture.batch_size)

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
        alignment, observe = model.alignment(state.position, state.latents), partial(model.observe, state.latents)
        return model.tuned(learn_all_concentrations(model, alignment, self.setup.learned, observe))

    def _estimate(self, chains: list[Chain], best: Chain) -> dict[str, Any]:
        model, state = best.model, best.state
        alignment = model.alignment(state.position, state.latents)
        stream = FactorStream(state.position, model.concentrations, alignment, 0)
        return {"_stream": stream, **fitted_factors(model, state)}


class SphericalBatch(StreamStrategy):
    """The update by one minibatch of documents."""

    def __init__(self, admixture: Any, batch: Minibatch, setup: Setup):
        super().__init__(batch)
        self.admixture = admixture
        self.setup = setup
        self.stream = None if batch.is_first else admixture._stream


class DrawBatch(SphericalBatch):
    """The update by one minibatch with samplers that draw the topics: one step."""

    def target(self, model: SphericalModel) -> Any:
        """The posterior of the topics, estimated from minibatches."""
        return SphericalMinibatchPasses.target(model)

    def model(self, workers: Workers) -> SphericalModel:
        """The posterior of the topics, in which the minibatch represents the whole stream."""
        return SphericalModel(self.setup, workers, self.batch.total_samples)

    def advance(self, model: SphericalModel, workers: Workers) -> dict[str, Any]:
        """Update the chains by one step; the topics are the mean of draws in the second half of the stream."""
        batch, setup = self.batch, self.setup
        stream = self.stream or SphericalStream.begin(self.sampler, model, batch.key, batch.n_chains)
        if stream.n_batches == 0:
            stream = stream.storing(draw_store(self.admixture, len(setup.alpha), setup.rows.n_features))
        settings = setup, self.admixture.n_doc_samples, batch.rate
        stream = stream.after_batch(self.sampler, model, *settings, workers)
        best = stream.states[stream.best_chain]
        fitted = {"_stream": stream, "best_chain_": stream.best_chain, "topic_scale_": best.radii}
        fitted["_setup"] = setup.without_rows()
        return {**fitted, **mean_topics(*stream.topics()), **fitted_priors(model, best.concentrations)}


class VariationalBatch(SphericalBatch):
    """The update by one minibatch with samplers of factors, which are averaged with those of the minibatch."""

    def model(self, workers: Workers) -> MeanFieldSAM:
        """The mean-field model of the posterior, in which the minibatch represents the whole stream."""
        return MeanFieldSAM(self.setup, workers, total_samples=self.batch.total_samples)

    def advance(self, model: MeanFieldSAM, workers: Workers) -> dict[str, Any]:
        """Update the factors by one step."""
        batch, setup = self.batch, self.setup
        stream = self.stream or FactorStream.begin(self.sampler, model, batch.key)
        stream, state = stream.after_batch(self.sampler, model, batch.key, setup.learned, batch.rate)
        fitted = {"_stream": stream, "best_chain_": 0, "_setup": setup.without_rows()}
        return {**fitted, **fitted_factors(model.tuned(stream.concentrations), state)}


class FactorStream(NamedTuple):
    """What a variational sampler keeps from one minibatch to the next."""

    factors: SphereFactors
    concentrations: Concentrations
    alignment: Annotated[list[float], Length(3)] | Alignment  # running means
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
            observe = partial(model.observe, state.latents)
            concentrations = learn_all_concentrations(model, alignment, learned, observe, rate)
        return FactorStream(state.position, concentrations, alignment, t), state


def draw_store(admixture: Any, n_components: int, n_features: int) -> DrawStore:
    """A store for as many draws of topics as fit into `max_draws_bytes`."""
    draw_bytes = 8 * n_components * (n_features + admixture.n_stored_rows)
    return DrawStore.within(admixture.max_draws_bytes, draw_bytes * admixture.n_chains, admixture.thin)


def mean_topics(total: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Mean directions of n draws, and the lengths of the mean vectors."""
    lengths = np.sqrt(np.einsum("kv,kv->k", total, total))
    return {"components_": total / lengths[:, np.newaxis], "resultant_lengths_": lengths / n}


def fitted_factors(model: MeanFieldSAM, state: MeanFieldState) -> dict[str, Any]:
    """The factors as fitted attributes."""
    lengths = bessel_ratio(model.rows.n_features, state.position.concentrations)
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
