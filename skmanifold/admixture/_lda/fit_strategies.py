"""Fit strategies of `StochasticLDA`, for samplers of topic assignments and for samplers of topics by minibatches."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...base import Minibatch, Run, StreamStrategy, best_chain, samples_density
from ...inference._chains import Chain
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.sources import column_names, corpora_of, is_elsewhere
from ...models import IncompatibleError, LatentModel, seen_by
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...samplers._base import N_COMPARED, mean_rise
from ...sparse.counts import Counts, no_rows
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._threads import Workers
from .._tokens.fits import (
    AdmixturePrior,
    ShardedTokenFit,
    TokenFit,
    TokenStream,
    assigns_tokens,
    expects_counts,
    is_variational,
)
from .._tokens.shards import StorableTokens, TokenShards, open_token_shards
from .._tokens.topic_counts import Seeds, TopicCounts, TopicPrior, counts_from_dense, mean_counts
from .dirichlet_mle import (
    check_learned,
    doc_topic_prior_of,
    is_learned,
    prior_of_topics,
    priors_of,
    with_learned_priors,
)
from .expectation import ExpectationLDA
from .mean_field import MeanFieldLDA, TopicFactors
from .minibatch import MinibatchLDA, SumsOfPasses, TopicPasses, TopicStream, add_topics
from .model import LDAModel

_MOST_LISTED = 10  # words in a message


class SeedWords:
    """The parameter `seed_words`: lists of words by topic, and the columns of the words in X, as `seeds`.

    TypeError for another structure. ValueError if a word is not in the vocabulary or in two topics, a topic has no
    words, there are more lists than topics, or the prior does not allow seed words.
    """

    def __init__(self, lda: Any, X: Any) -> None:
        lists = self._lists = _lists_of(lda.seed_words)
        if len(lists) > lda.n_components:
            raise ValueError(f"seed_words has {len(lists)} topics, but n_components={lda.n_components}.")
        if lists and isinstance(lda.topic_word_prior, str):
            raise ValueError("topic_word_prior='auto' cannot be combined with seed_words: give a number.")
        names: Any
        n_columns: int | None
        if corpora := corpora_of(X):
            names, n_columns = corpora[0].vocabulary, corpora[0].shape[1]
        elif is_elsewhere(X):
            names = column_names(X)
            n_columns = None if names is None else len(names)  # unknown until the documents are read
        else:
            names, n_columns = getattr(lda, "feature_names_in_", None), lda.n_features_in_
        index = None if names is None else {word: column for column, word in enumerate(names)}
        if index is not None:
            unknown = [word for _, words in lists for word in words if isinstance(word, str) and word not in index]
            if unknown:
                raise ValueError(f"seed_words has words that are not names of columns of X: {_listed(unknown)}.")
        self._columns: dict[Any, int] = {}  # of the words
        topics: dict[int, int] = {}  # of the columns
        for topic, (name, words) in enumerate(lists):
            for word in words:
                column = self._columns[word] = _column_of(word, name, index, n_columns)
                if topics.setdefault(column, topic) != topic:
                    other = lists[topics[column]][0]
                    raise ValueError(f"seed_words has {word!r} in two topics, {other!r} and {name!r}.")
        self.seeds = Seeds(np.array(list(topics), np.int64), np.array(list(topics.values()), np.int64))

    def warn_of_absent(self, occurs: np.ndarray) -> None:
        """Warn about seed words that do not occur in X; `occurs` states for each column whether it has tokens."""
        absent = [word for word, column in self._columns.items() if not occurs[column]]
        if not absent:
            return
        empty = [name for name, words in self._lists if not any(occurs[self._columns[word]] for word in words)]
        topics = "topics" if len(empty) > 1 else "topic"
        left = f"; no seed words are left for {topics} {_listed(empty)}" if empty else ""
        warnings.warn(
            f"seed_words has words that do not occur in X and have no effect: {_listed(absent)}{left}.", stacklevel=7
        )


def _listed(words: list[Any]) -> str:
    """Words for a sentence, at most `_MOST_LISTED`."""
    more = len(words) - _MOST_LISTED
    return ", ".join(map(repr, words[:_MOST_LISTED])) + (f" and {more} more" if more > 0 else "")


def _lists_of(seed_words: Any) -> list[tuple[Any, list[Any]]]:
    """Names, or indices, of the seeded topics, and their words."""
    if seed_words is None:
        return []
    is_named = isinstance(seed_words, Mapping)
    lists = list(seed_words.items() if is_named else enumerate(seed_words))
    for name, words in lists:
        if is_named and not isinstance(name, str):
            raise TypeError(f"The keys of seed_words must be names of topics, which are strings; got {name!r}.")
        if isinstance(words, str | bytes) or not isinstance(words, Collection):
            raise TypeError(f"seed_words must have a list of words for each topic; topic {name!r} has {words!r}.")
        if len(words) == 0:
            raise ValueError(f"seed_words has no words for topic {name!r}.")
    return [(name, list(words)) for name, words in lists]


def _column_of(word: Any, topic: Any, index: dict[str, int] | None, n_columns: int | None) -> int:
    """The column of a word in X, which is a name in `index` or itself the column."""
    if isinstance(word, str):
        if index is None:
            raise ValueError(
                f"seed_words has the word {word!r}, but the columns of X have no names: give column indices, such "
                "as vectorizer.vocabulary_[word] of a CountVectorizer."
            )
        return index[word]
    if not isinstance(word, Integral) or isinstance(word, bool | np.bool_):
        raise TypeError(f"seed_words must have words or column indices; topic {topic!r} has {word!r}.")
    column = int(word)
    if column < 0 or (n_columns is not None and column >= n_columns):
        raise ValueError(f"seed_words has the column index {column}, but X has {n_columns} columns.")
    return column


def check_seeded(seeds: Seeds, sampler: BaseSampler) -> None:
    """Raise a ValueError if there are seed words and the sampler cannot keep them in their topics."""
    keeps = assigns_tokens(sampler) or (samples_density(sampler) and not sampler.is_biased_near_zero)
    if len(seeds.columns) and not keeps:
        raise ValueError(
            "seed_words need a sampler that keeps them in their topics: 'esca', 'gibbs', 'collapsed_gibbs', 'cvb0' or "
            f"'scir', not {type(sampler).__name__}."
        )


_LARGE_RISE = 0.005  # nats per token in seven passes; default fits of 50 topics end below 0.001
_N_DEVIATIONS = 3.0  # of noise


def fit_strategy(lda: Any, X: Any, run: Run) -> TopicFit:
    """The strategy of `fit` for these documents and this sampler."""
    check_learned(lda, run)
    check_tol(lda, run)
    counts = None if is_elsewhere(X) else lda._whole_counts(X, subkey(run.key, Purpose.ROUNDING), reset=True)
    seed_words = SeedWords(lda, X)
    check_seeded(seed_words.seeds, run.sampler)
    if counts is not None:
        seed_words.warn_of_absent(np.bincount(counts.indices, minlength=counts.n_features) > 0)
    if counts is None or active_session():
        return ShardedTopicFit(lda, run, seed_words, counts, X=X)
    if expects_counts(run.sampler):
        return ExpectedTopicFit(lda, run, seed_words, counts)
    return (GradientFit if samples_density(run.sampler) else TopicFit)(lda, run, seed_words, counts)


def stream_strategy(lda: Any, X: Any, batch: Minibatch) -> StreamStrategy | None:
    """The strategy of `partial_fit` for these documents and this sampler; None if there are no tokens."""
    if batch.is_first and any(is_learned(lda)):
        raise ValueError("'auto' priors are learned by fit: call it before partial_fit, or give numbers.")
    key = subkey(batch.key, Purpose.ROUNDING, batch.n_batches + 1)
    counts = lda._whole_counts(X, key, reset=batch.resets, may_be_empty=True)
    seeds = SeedWords(lda, X).seeds if batch.is_first else lda._seeds
    check_seeded(seeds, batch.sampler)
    if counts.n_tokens == 0:
        return None
    prior = priors_of(lda, counts.n_features, seeds, fitted=not batch.is_first)
    if samples_density(batch.sampler):
        return GradientStream(lda, batch, prior, counts)
    return (FactorsStream if is_variational(batch.sampler) else TokenStream)(lda, batch, prior, counts)


class TopicFit(TokenFit):
    """The fit with samplers of topic assignments, all documents in memory.

    Parameters
    ----------
    lda, run, *rest, **options
        As in `TokenFit`.
    seed_words : SeedWords
        Seed words.
    """

    def __init__(self, lda: Any, run: Run, seed_words: SeedWords, *rest: Any, **options: Any):
        super().__init__(lda, run, self._begin, *rest, **options)
        self.seed_words = seed_words

    def has_settled(self, log_density: Sequence[float]) -> bool:
        """Whether the log density rises by less than `tol` per token, or by the sampler's own rule."""
        tol = self.admixture.tol
        return super().has_settled(log_density) or (tol is not None and mean_rise(log_density) < tol * self.n_tokens)

    def adapt(self, model: Any, state: Any) -> Any:
        """The model with new estimates of the priors that are "auto", and the prior of the next pass of burn-in."""
        learned = is_learned(self.admixture)
        return super().adapt(with_learned_priors(model, state, *learned, self.run.schedule.burn_in), state)

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn if the log density still rises after the last pass."""
        max_iter = self.run.schedule.max_iter
        if fitted["n_iter_"] == max_iter:
            kept = fitted["log_density_trace_"][fitted["best_chain_"], fitted["_n_burn_in"] :]
            warn_if_rising(self.sampler.log_density_name.replace("_", " "), kept, self.n_tokens, max_iter)

    def _begin(self, rows: Counts, row_sums: Any = None) -> AdmixturePrior:
        return priors_of(self.admixture, rows.n_features, self.seed_words.seeds)

    def _prior_of(self, model: Any) -> AdmixturePrior:
        return prior_of_topics(model.doc_topic_prior, model.topic_prior, self.seed_words.seeds)


class ExpectedTopicFit(TopicFit):
    """The fit with EM or mean-field inference, whose counts are expectations in dense arrays."""

    def model(self, workers: Workers) -> Any:
        """The model of all documents."""
        self.prior = self.begin(self.counts)
        shared = self.counts, self.prior.doc_topic_prior, self.prior.tokens, workers
        if is_variational(self.sampler):
            return MeanFieldLDA(*shared, batch_size=self.admixture.batch_size)
        return ExpectationLDA(*shared)

    def _counts(self, chain: Chain) -> TopicCounts:
        statistics, _ = chain.estimate()
        return mean_counts(counts_from_dense(statistics.word_topic, statistics.totals), 1)

    def _mode(self, model: Any, counts: TopicCounts) -> TopicWord:
        return model.topic_prior.smooth(counts)


class ShardedTopicFit(TopicFit, ShardedTokenFit):
    """The fit with documents on disk, in Dask collections, or on the workers of a cluster."""

    def __init__(self, lda: Any, run: Run, *rest: Any, **options: Any):
        super().__init__(lda, run, *rest, **options)
        if any(is_learned(lda)):
            raise ValueError("'auto' priors need all documents in this process's memory: give numbers.")

    def model(self, workers: Workers) -> LDAModel:
        """The model without documents, whose number of words is not known yet."""
        lda = self.admixture
        return LDAModel(no_rows(0), doc_topic_prior_of(lda), TopicPrior(1.0, lda.n_components, 0), workers)

    def check(self, model: LDAModel, known: Any) -> None:
        """The checks of all fits; a corpus on disk also needs a sampler that draws all latents given the parameters."""
        super().check(model, known)
        if corpora_of(self.X) and LatentModel not in self.sampler.requires:
            raise IncompatibleError(
                f"{type(self.sampler).__name__} needs documents in memory or in Dask: only 'esca' can read a "
                "Corpus from disk."
            )

    def _open(self, model: LDAModel, workers: Workers) -> Any:
        """Open the shards; the prior of the topics depends on the number of words only."""
        rounding_key, whom = subkey(self.run.key, Purpose.ROUNDING), type(self.admixture).__name__
        make = partial(StorableTokens, doc_topic_prior=model.doc_topic_prior, seeds=self.seed_words.seeds)
        builder = TokenShards(make, rounding_key, whom)
        shards = open_token_shards(self.X, self.counts, builder, workers)
        self._bind(no_rows(shards.n_features))
        return shards

    def warn(self, fitted: dict[str, Any]) -> None:
        """The warnings of all fits, and about seed words that do not occur, if the documents are not in memory."""
        super().warn(fitted)
        if self.counts is None:
            self.seed_words.warn_of_absent(np.diff(fitted["_topic_counts"].indptr) > 0)


class GradientFit(TopicFit):
    """The fit with samplers of topics, whose steps read minibatches of documents."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.passes = TopicPasses(self.sampler)

    def model(self, workers: Workers) -> MinibatchLDA:
        """The posterior of the topics, which is read by minibatches of documents."""
        self.prior = self.begin(self.counts)
        lda, counts = self.admixture, self.counts
        model = minibatch_model(lda, self.prior, counts, workers, counts.n_rows, lda.batch_size)
        warn_of_boundary(self.sampler, model.topic_prior)
        return model

    def target(self, model: MinibatchLDA) -> Any:
        """The model in the sampler's coordinates."""
        return seen_by(self.sampler, model)

    def add(self, left: SumsOfPasses, right: SumsOfPasses) -> SumsOfPasses:
        """Sum of the topics of two passes."""
        return add_topics(left, right)

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn of nothing: draws are not expected to rise."""

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean topics."""
        best = best_chain(chains)
        total, _ = chains[best].estimate()
        stream = TopicStream(type(self.sampler), [chain.state.moving for chain in chains])
        topics = as_topic_word(total.components)
        return {**self._common(chains[best].model, best), "_topic_counts": None, "_estimate": topics, "_stream": stream}


class FactorsStream(TokenStream):
    """The update by one minibatch with mean-field inference: one step along the natural gradient."""

    def model(self, workers: Workers) -> MeanFieldLDA:
        """The mean-field model of the minibatch, which represents the whole stream."""
        shared = self.counts, self.prior.doc_topic_prior, self.prior.tokens, workers
        return MeanFieldLDA(*shared, total_samples=self.batch.total_samples)

    def advance(self, model: MeanFieldLDA, workers: Workers) -> dict[str, Any]:
        """The expected counts, and the topics given these."""
        batch, before = self.batch, self.before
        if before is None:
            state = self.sampler.init(model, subkey(batch.key, Purpose.CHAIN))
        else:
            factors = TopicFactors(before.tocsr().toarray(), before.totals, model.topic_prior)
            state = self.sampler.resume_stream(model, factors, batch.key, batch.n_batches)
        factors = self.sampler.step_stream(model, state, batch.rate, model.scale).position
        counts = counts_from_dense(factors.word_topic, factors.totals)
        return self._fitted(counts, model.topic_prior.smooth(counts))


class GradientStream(StreamStrategy):
    """The update by one minibatch with samplers of topics: one step."""

    def __init__(self, lda: Any, batch: Minibatch, prior: AdmixturePrior, counts: Counts):
        super().__init__(batch)
        if batch.sampler.control_variate is not None:
            what = batch.sampler.control_variate
            raise ValueError(f"control_variate={what!r} needs all documents: use fit, not partial_fit.")
        self.lda = lda
        self.prior = prior
        self.counts = counts
        self.stream = None if batch.is_first else lda._stream
        if self.stream and lda.sampler_.keeps_rows:
            raise ValueError("partial_fit cannot continue a fit that stored the topics of all documents: call fit.")

    def model(self, workers: Workers) -> MinibatchLDA:
        """The posterior of the topics, in which the minibatch represents the whole stream."""
        model = minibatch_model(self.lda, self.prior, self.counts, workers, self.batch.total_samples, None)
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
            stream = stream.storing(self.prior.draw_store(self.lda, 0))
        stream = stream.after_batch(self.sampler, model, workers)
        topics = {"_stream": stream, "_estimate": None, "_topic_counts": None, "best_chain_": stream.best_chain}
        return {**self.prior.attributes, **topics}


def minibatch_model(
    lda: Any, prior: AdmixturePrior, counts: Counts, workers: Workers, total_samples: int, batch_size: int | None
) -> MinibatchLDA:
    """The posterior of topics given `total_samples` documents, estimated from minibatches of `counts`."""
    n_sweeps, n_burn_in = lda.n_local_sweeps, lda.n_local_burn_in
    if n_burn_in >= n_sweeps:
        raise ValueError(f"n_local_burn_in={n_burn_in} leaves none of n_local_sweeps={n_sweeps} sweeps.")
    shared = counts, prior.doc_topic_prior, prior.tokens, workers
    sizes = {"batch_size": batch_size, "total_samples": total_samples, "n_sweeps": n_sweeps, "n_burn_in": n_burn_in}
    return MinibatchLDA(*shared, **sizes, seeds=prior.seeds)


def warn_of_boundary(sampler: Any, topic_prior: TopicPrior) -> None:
    """Warn about a sampler that is biased near zero, where a sparse prior has most of its mass."""
    if sampler.is_biased_near_zero and topic_prior.values.min() < 0.5:
        warnings.warn(
            f"{type(sampler).__name__} does not draw from the posterior if topic_word_prior is below 1/2: words "
            "that are rare in a topic become too probable; 'scir' and 'gibbs' have no such limit.",
            stacklevel=6,
        )


def check_tol(lda: Any, run: Run) -> None:
    """Raise a ValueError if this fit cannot use `tol`."""
    if lda.tol is None:
        return
    if run.sampler.draws_parameters:
        able = ", ".join(repr(name) for name, kind in lda._samplers.items() if not kind.draws_parameters)
        raise ValueError(
            f"tol={lda.tol!r} ends the fit of an estimate, but {type(run.sampler).__name__} draws from the posterior, "
            f"for which the number of passes must be given: use tol=None, or one of {able}."
        )
    if run.schedule.burn_in == 0:
        raise ValueError(f"tol={lda.tol!r} ends burn-in early, but burn_in is 0.")


def warn_if_rising(name: str, log_density: np.ndarray, n_tokens: int, max_iter: int) -> None:
    """Warn if the log density of the passes after burn-in still rises at their end by much, and by more than noise."""
    rise = mean_rise(log_density.tolist())
    if len(log_density) < 2 * N_COMPARED or rise < _LARGE_RISE * n_tokens:
        return
    if rise > _N_DEVIATIONS * _deviation(log_density):
        warnings.warn(
            f"The {name} still rises by {rise / n_tokens:.1g} nats per token in {N_COMPARED} passes: increase max_iter "
            f"(now {max_iter}).",
            ConvergenceWarning,
            stacklevel=6,
        )


def _deviation(log_density: np.ndarray) -> float:
    """Standard deviation of noise around a line or, if larger, of the rise of a random walk with the same steps."""
    passes = np.arange(len(log_density))
    trend = np.polynomial.Polynomial.fit(passes, log_density, 1)
    of_walk = np.std(np.diff(log_density)) * np.sqrt(2.0 * N_COMPARED / 3.0)
    return max(float(np.std(log_density - trend(passes))), float(of_walk))
