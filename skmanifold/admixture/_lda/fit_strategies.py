"""Fit strategies of `StochasticLDA`, for samplers of topic assignments and for samplers of topics by minibatches."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StatisticsStream, StreamStrategy, best_chain, samples_density
from ...inference._chains import Chain
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import corpora_of, is_elsewhere, remember_columns
from ...inference._draw_store import DrawStore
from ...models import IncompatibleError, LatentModel, seen_by
from ...random._keys import Purpose, subkey
from ...samplers._base import mean_rise
from ...sparse.counts import Counts, no_rows
from ...topics.topic_word import as_topic_word
from ...utils._threads import Workers
from .._tokens.burn_in_prior import BurnInPrior
from .._tokens.sampler_types import expects_counts, is_variational
from .._tokens.seeds import Seeds
from .._tokens.shards import TokenShards, shard_tokens
from .._tokens.stored_documents import n_stored_documents, record_documents
from .._tokens.topic_counts import TopicCounts, TopicPrior, add_counts, counts_from_dense, mean_counts, scale_counts
from .empirical_bayes import adapter
from .expectation import ExpectationLDA
from .mean_field import MeanFieldLDA, TopicFactors
from .minibatch_passes import TopicPasses, TopicSums, add_topics, record_topics
from .minibatch_target import MinibatchLDA
from .model import LDAModel
from .priors import check_learned, doc_topic_prior_of, is_learned, prior_attributes, priors_of
from .seed_words import check_seeded, seeds_of, warn_of_absent
from .settling import check_tol, warn_if_rising
from .stream import TopicStream


def fit_strategy(lda: Any, X: Any, run: Run) -> TopicFit:
    """The strategy of `fit` for these documents and this sampler."""
    check_learned(lda, run)
    check_tol(lda, run)
    counts = None if is_elsewhere(X) else lda._whole_counts(X, subkey(run.key, Purpose.ROUNDING), reset=True)
    seeds = seeds_of(lda, X)
    check_seeded(seeds, run.sampler)
    if counts is not None and len(seeds.columns):
        warn_of_absent(lda, X, np.bincount(counts.indices, minlength=counts.n_features) > 0)
    if counts is None or active_session():
        return ShardedCountsFit(lda, run, seeds, X, counts)
    if expects_counts(run.sampler):
        return ExpectedCountsFit(lda, run, seeds, counts)
    return (GradientFit if samples_density(run.sampler) else CountsFit)(lda, run, seeds, counts)


def stream_strategy(lda: Any, X: Any, batch: Minibatch) -> StreamStrategy | None:
    """The strategy of `partial_fit` for these documents and this sampler; None if there are no tokens."""
    if batch.is_first and any(is_learned(lda)):
        raise ValueError("'auto' priors are learned by fit: call it before partial_fit, or give numbers.")
    key = subkey(batch.key, Purpose.ROUNDING, batch.n_batches + 1)
    counts = lda._whole_counts(X, key, reset=batch.resets, may_be_empty=True)
    seeds = seeds_of(lda, X) if batch.is_first else lda._seeds
    check_seeded(seeds, batch.sampler)
    if counts.n_tokens == 0:
        return None
    if is_variational(batch.sampler):
        return FactorsStream(lda, batch, seeds, counts)
    return (GradientStream if samples_density(batch.sampler) else CountsStream)(lda, batch, seeds, counts)


class TopicFit(FitStrategy):
    """What all fits have in common."""

    def __init__(self, lda: Any, run: Run, seeds: Seeds):
        super().__init__(run.sampler)
        self.lda = lda
        self.run = run
        self.seeds = seeds
        self.stride = 0  # topics are kept in every `stride`-th draw; 0: in none
        self.burn_in_prior = BurnInPrior(lda, run)
        self.n_unsettled = self.burn_in_prior.n_passes

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The same model; sets `n_rows`, `n_tokens` and `stride`."""
        self.n_rows, self.n_tokens = model.n_rows, model.n_tokens
        self.stride = draw_store(self.lda, self.lda.n_features_in_).stride(self.run.schedule.n_draws)
        return model

    def n_units(self, model: Any) -> int:
        """The number of tokens."""
        return model.n_tokens

    def has_settled(self, log_density: Sequence[float]) -> bool:
        """Whether the log density rises by less than `tol` per token, or by the sampler's own rule."""
        tol = self.lda.tol
        return super().has_settled(log_density) or (tol is not None and mean_rise(log_density) < tol * self.n_tokens)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Each topic's share of the tokens and, in some draws, the topics."""
        return record_topics(chain, self.stride)

    def _common(self, model: Any, best: int) -> dict[str, Any]:
        common = {"best_chain_": best, "n_batch_iter_": 0, "_n_counted_rows": model.n_rows, "_key": self.run.key}
        return {**common, "_seeds": self.seeds, **prior_attributes(model.doc_topic_prior, model.topic_prior)}


class CountsFit(TopicFit):
    """The fit with samplers of topic assignments, all documents in memory."""

    def __init__(self, lda: Any, run: Run, seeds: Seeds, counts: Counts):
        super().__init__(lda, run, seeds)
        self.counts = counts
        self.n_stored = n_stored_documents(lda, run.sampler, in_memory=True)
        self._adapt = adapter(*is_learned(lda), run.schedule.burn_in)

    def model(self, workers: Workers) -> LDAModel:
        """The model of all documents."""
        priors = priors_of(self.lda, self.counts.n_features, self.seeds)
        return self.burn_in_prior.model_after(0, LDAModel(self.counts, *priors, workers, seeds=self.seeds))

    def add(self, left: Any, right: Any) -> Any:
        """Sum of the counts of two passes."""
        return add_counts(left, right)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The shares of the tokens and, in some draws, the topics and the counts of topics in the first documents."""
        draw = super().record(chain)
        if self.n_stored and "components" in draw:
            model = chain.model
            of_documents = model.token_start, self.n_stored, model.n_components
            draw.update(record_documents(chain.state.latents, *of_documents))
        return draw

    def adapt(self, model: LDAModel, state: Any) -> LDAModel:
        """The model with new estimates of the priors that are "auto", and the prior of the next pass of burn-in."""
        return self.burn_in_prior.model_after(state.n_steps, self._adapt(model, state))

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn if the log density still rises after the last pass."""
        max_iter = self.run.schedule.max_iter
        if fitted["n_iter_"] == max_iter:
            kept = fitted["log_density_trace_"][fitted["best_chain_"], fitted["_n_burn_in"] :]
            warn_if_rising(self.sampler.log_density_name.replace("_", " "), kept, self.n_tokens, max_iter)

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean counts, and the mode of the topics given these."""
        best = best_chain(chains)
        model, counts = chains[best].model, self._counts(chains[best])
        fitted = {
            **self._common(model, best),
            "_topic_counts": counts,
            "_estimate": model.topic_prior.smooth(counts),
            "_stream": None,
        }
        if self.burn_in_prior.n_passes:  # a callback may see or stop the fit during burn-in
            fitted["doc_topic_prior_"] = doc_topic_prior_of(self.lda)
        return fitted

    def _counts(self, chain: Chain) -> TopicCounts:
        return mean_counts(*chain.estimate())


class ExpectedCountsFit(CountsFit):
    """The fit with EM or mean-field inference, whose counts are expectations in dense arrays."""

    def model(self, workers: Workers) -> Any:
        """The model of all documents."""
        shared = self.counts, *priors_of(self.lda, self.counts.n_features, self.seeds), workers
        if is_variational(self.sampler):
            return MeanFieldLDA(*shared, batch_size=self.lda.batch_size)
        return ExpectationLDA(*shared)

    def _counts(self, chain: Chain) -> TopicCounts:
        statistics, _ = chain.estimate()
        return mean_counts(counts_from_dense(statistics.word_topic, statistics.totals), 1)


class ShardedCountsFit(CountsFit):
    """The same fit with documents on disk, in Dask collections, or on the workers of a cluster."""

    def __init__(self, lda: Any, run: Run, seeds: Seeds, X: Any, counts: Counts | None):
        TopicFit.__init__(self, lda, run, seeds)
        if any(is_learned(lda)):
            raise ValueError("'auto' priors need all documents in this process's memory: give numbers.")
        self.n_stored = n_stored_documents(lda, run.sampler, in_memory=False)
        self.X = X
        self.in_memory = counts

    def model(self, workers: Workers) -> LDAModel:
        """The model without documents."""
        alpha = doc_topic_prior_of(self.lda)
        return LDAModel(no_rows(0), alpha, TopicPrior(1.0, self.lda.n_components, 0), workers)

    def target(self, model: LDAModel) -> ShardedModel:
        """A model with only those methods that work on shards."""
        return ShardedModel(model, None)

    def check(self, model: LDAModel, known: Any) -> None:
        """The checks of all fits; a corpus on disk also needs a sampler that draws all latents given the parameters."""
        super().check(model, known)
        if corpora_of(self.X) and LatentModel not in self.sampler.requires:
            raise IncompatibleError(
                f"{type(self.sampler).__name__} needs documents in memory or in Dask: only 'esca' can read a "
                "Corpus from disk."
            )

    def prepare(self, model: LDAModel, workers: Workers) -> ShardedModel:
        """The documents sent to their shards."""
        lda = self.lda
        rounding_key = subkey(self.run.key, Purpose.ROUNDING)
        builder = TokenShards(model.doc_topic_prior, rounding_key, type(lda).__name__, self.seeds)

        def head(n_features: int) -> LDAModel:
            if self.in_memory is None:
                remember_columns(lda, self.X, n_features)
            return LDAModel(no_rows(n_features), *priors_of(lda, n_features, self.seeds), workers)

        sharded = shard_tokens(self.X, self.in_memory, builder, head, workers)
        return super().prepare(self.burn_in_prior.model_after(0, sharded), workers)

    def warn(self, fitted: dict[str, Any]) -> None:
        """The warnings of all fits, and about seed words that do not occur, if the documents are not in memory."""
        super().warn(fitted)
        if self.in_memory is None and len(self.seeds.columns):
            warn_of_absent(self.lda, self.X, np.diff(fitted["_topic_counts"].indptr) > 0)

    def adapt(self, model: Any, state: Any) -> Any:
        """The model with the prior of the next pass of burn-in."""
        return self.burn_in_prior.model_after(state.n_steps, model)


class GradientFit(TopicFit):
    """The fit with samplers of topics, whose steps read minibatches of documents."""

    def __init__(self, lda: Any, run: Run, seeds: Seeds, counts: Counts):
        super().__init__(lda, run, seeds)
        self.counts = counts
        self.passes = TopicPasses(run.sampler)

    def model(self, workers: Workers) -> MinibatchLDA:
        """The posterior of the topics, which is read by minibatches of documents."""
        total, batch_size = self.counts.n_rows, self.lda.batch_size
        model = minibatch_model(self.lda, self.counts, workers, total, batch_size, self.seeds, fitted=False)
        warn_of_boundary(self.sampler, model.topic_prior)
        return model

    def target(self, model: MinibatchLDA) -> Any:
        """The model in the sampler's coordinates."""
        return seen_by(self.sampler, model)

    def add(self, left: TopicSums, right: TopicSums) -> TopicSums:
        """Sum of the topics of two passes."""
        return add_topics(left, right)

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean topics."""
        best = best_chain(chains)
        total, _ = chains[best].estimate()
        stream = TopicStream(type(self.sampler), [chain.state.moving for chain in chains])
        topics = as_topic_word(total.components)
        common = self._common(chains[best].model, best)
        return {**common, "_topic_counts": None, "_estimate": topics, "_stream": stream}


class _TopicsStream(StatisticsStream):
    """What the updates by one minibatch have in common if the counts of topics are all that is kept."""

    n_chains = 1

    def __init__(self, lda: Any, batch: Minibatch, seeds: Seeds, counts: Counts):
        super().__init__(batch)
        self.counts = counts
        self.seeds = seeds
        self.priors = priors_of(lda, counts.n_features, seeds, fitted=not batch.is_first)
        if not batch.is_first:
            self.before = scale_counts(lda._topic_counts, batch.total_samples / lda._n_counted_rows)

    def _fitted(self, counts: TopicCounts) -> dict[str, Any]:
        """The counts, and the mode of the topics given these."""
        return {
            "_topic_counts": counts,
            "_n_counted_rows": self.batch.total_samples,
            "_seeds": self.seeds,
            "_estimate": self.priors[1].smooth(counts),
            "_stream": None,
            **prior_attributes(*self.priors),
        }


class CountsStream(_TopicsStream):
    """The update by one minibatch with samplers of topic assignments: a mean of its counts and the previous ones."""

    def model(self, workers: Workers) -> LDAModel:
        """The model of the minibatch."""
        return LDAModel(self.counts, *self.priors, workers, seeds=self.seeds)

    def advance(self, model: LDAModel, workers: Workers) -> dict[str, Any]:
        """The counts, and the mode of the topics given these."""
        return self._fitted(self.step(model).statistics)


class FactorsStream(_TopicsStream):
    """The update by one minibatch with mean-field inference: one step along the natural gradient."""

    def model(self, workers: Workers) -> MeanFieldLDA:
        """The mean-field model of the minibatch, which represents the whole stream."""
        return MeanFieldLDA(self.counts, *self.priors, workers, total_samples=self.batch.total_samples)

    def advance(self, model: MeanFieldLDA, workers: Workers) -> dict[str, Any]:
        """The expected counts, and the topics given these."""
        batch, before = self.batch, self.before
        if before is None:
            state = self.sampler.init(model, subkey(batch.key, Purpose.CHAIN))
        else:
            factors = TopicFactors(before.tocsr().toarray(), before.totals, model.topic_prior)
            state = self.sampler.resume_stream(model, factors, batch.key, batch.n_batches)
        factors = self.sampler.step_stream(model, state, batch.rate, model.scale).position
        return self._fitted(counts_from_dense(factors.word_topic, factors.totals))


class GradientStream(StreamStrategy):
    """The update by one minibatch with samplers of topics: one step."""

    def __init__(self, lda: Any, batch: Minibatch, seeds: Seeds, counts: Counts):
        super().__init__(batch)
        if batch.sampler.control_variate is not None:
            what = batch.sampler.control_variate
            raise ValueError(f"control_variate={what!r} needs all documents: use fit, not partial_fit.")
        self.lda = lda
        self.seeds = seeds
        self.counts = counts
        self.stream = None if batch.is_first else lda._stream
        if self.stream and lda.sampler_.keeps_rows:
            raise ValueError("partial_fit cannot continue a fit that stored the topics of all documents: call fit.")

    def model(self, workers: Workers) -> MinibatchLDA:
        """The posterior of the topics, in which the minibatch represents the whole stream."""
        fitted, total = not self.batch.is_first, self.batch.total_samples
        model = minibatch_model(self.lda, self.counts, workers, total, None, self.seeds, fitted=fitted)
        if self.stream is None:
            warn_of_boundary(self.sampler, model.topic_prior)
        return model

    def target(self, model: MinibatchLDA) -> Any:
        """The model in the sampler's coordinates."""
        return seen_by(self.sampler, model)

    def advance(self, model: MinibatchLDA, workers: Workers) -> dict[str, Any]:
        """Update the chains by one step; the topics are the mean of draws in the second half of the stream."""
        stream = self.stream or TopicStream.begin(self.sampler, model, self.batch.key, self.n_chains)
        if stream.n_batches == 0:
            stream = stream.storing(draw_store(self.lda, self.counts.n_features))
        stream = stream.after_batch(self.sampler, model, workers)
        left = {"_stream": stream, "_estimate": None, "_topic_counts": None, "best_chain_": stream.best_chain}
        return {**left, "_seeds": self.seeds, **prior_attributes(model.doc_topic_prior, model.topic_prior)}


def draw_store(lda: Any, n_features: int) -> DrawStore:
    """A store for as many draws of topics as fit into `max_draws_bytes`."""
    draw_bytes = lda.n_components * (4 * n_features + 8 * lda.n_stored_rows)
    return DrawStore.within(lda.max_draws_bytes, draw_bytes * lda.n_chains, lda.thin)


def minibatch_model(
    lda: Any,
    counts: Counts,
    workers: Workers,
    total_samples: int,
    batch_size: int | None,
    seeds: Seeds,
    *,
    fitted: bool,
) -> MinibatchLDA:
    """The posterior of topics given `total_samples` documents, estimated from minibatches of `counts`."""
    if lda.n_local_burn_in >= lda.n_local_sweeps:
        raise ValueError(
            f"n_local_burn_in={lda.n_local_burn_in} leaves none of n_local_sweeps={lda.n_local_sweeps} sweeps."
        )
    return MinibatchLDA(
        counts,
        *priors_of(lda, counts.n_features, seeds, fitted=fitted),
        workers,
        batch_size=batch_size,
        total_samples=total_samples,
        n_sweeps=lda.n_local_sweeps,
        n_burn_in=lda.n_local_burn_in,
        seeds=seeds,
    )


def warn_of_boundary(sampler: Any, topic_prior: TopicPrior) -> None:
    """Warn about a sampler that is biased near zero, where a sparse prior has most of its mass."""
    if sampler.is_biased_near_zero and topic_prior.values.min() < 0.5:
        warnings.warn(
            f"{type(sampler).__name__} does not draw from the posterior if topic_word_prior is below 1/2: words "
            "that are rare in a topic become too probable; 'scir' and 'gibbs' have no such limit.",
            stacklevel=6,
        )
