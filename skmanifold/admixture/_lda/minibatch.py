"""Posterior of the topics estimated from minibatches, passes of many steps over the documents, and streams."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from ...inference._draw_store import DrawStore, DrawStream, chains_agree
from ...inference._schedule import MinibatchPasses
from ...manifolds import PositiveOrthant
from ...models import seen_by
from ...models._minibatch import MinibatchTarget
from ...random._keys import Purpose, fold_in_each, subkey
from ...samplers import ESCA, ManifoldSampler
from ...samplers._cir.lazy_cir_rows import RowPrior, expected_rows, make_row_prior
from ...samplers._cir.scir import SCIRRowsState, begin_at, draw_all_rows, log_totals
from ...samplers._density.gradient_base import MovingState
from ...samplers._states import PassState, detached, is_of
from ...sparse.counts import Counts, entries_of_rows
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._conditions import MOST_COUNTED, Array, Length, Point, Real, Sizes
from ...utils._declared import Keyed, Lacking
from ...utils._njit import njit
from ...utils._threads import Workers
from .._tokens.document_gibbs import Documents, count_topics, make_word_table, sample_documents, take_documents
from .._tokens.log_topic_word import LogTopics
from .._tokens.topic_counts import NO_SEEDS, Seeds, TopicCounts, TopicPrior, add_counts
from .expectation import TopicPosterior
from .model import LDAModel

# Passes over the first minibatch. With none, topics separate slowly. With many, the initial topics fit this minibatch
# only, and the chain moves away from them slowly.
_FIRST_SWEEPS = 2
_LEAST = 1e-290  # minimum weight: a prior divided by it must be finite


class DocumentBatch(NamedTuple):
    """A minibatch of documents in the format of the document step."""

    rows: np.ndarray  # (n,) int64
    documents: Documents
    scale: float  # tokens of all documents per token of one kept sweep

    @property
    def words(self) -> np.ndarray:
        """Words of the minibatch, in ascending order."""
        return self.documents.words


class MinibatchLDA(TopicPosterior, MinibatchTarget):
    r"""Posterior of the topics in the expanded-mean parametrisation.

    Here p(v | k) = theta_vk / sum_u theta_uk with theta_vk ~ Ga(beta_vk, 1). Proportions and tokens' topics are
    integrated out by Gibbs sampling within each document of the minibatch (`n_sweeps` after `n_burn_in`). With
    :math:`\hat n` the expected counts times (all documents) / (documents in the minibatch),

    .. math:: \partial_{\theta_{vk}} \log p \approx (\beta_{vk} - 1) / \theta_{vk} - 1
        + \hat n_{vk} / \theta_{vk} - \hat n_{\cdot k} / \theta_{\cdot k}

    (eq. S.18 of Ma, Chen and Fox, NIPS 2015). Results depend only on position and key. The posterior has
    `total_samples` documents. `log_likelihood`, of tokens given the others of their document, `n_scored` documents and
    `topic_tokens` are sums since the last call of `forget`.
    """

    def __init__(
        self,
        counts: Counts,
        doc_topic_prior: np.ndarray,
        topic_prior: TopicPrior,
        workers: Workers,
        *,
        batch_size: int | None,
        total_samples: int,
        n_sweeps: int,
        n_burn_in: int,
        seeds: Seeds = NO_SEEDS,
    ):
        super().__init__(counts, doc_topic_prior, topic_prior, workers)
        self.n_rows, self.n_tokens = counts.n_rows, counts.n_tokens
        self._nonempty_rows = np.flatnonzero(np.diff(counts.indptr))  # empty documents have no effect
        self.n_samples = len(self._nonempty_rows)
        self.batch_size = None if batch_size is None else min(batch_size, self.n_samples)
        self.total_samples = total_samples
        self.n_sweeps = n_sweeps
        self.n_burn_in = n_burn_in
        self.seeds = seeds
        self.manifold = PositiveOrthant((counts.n_features, len(doc_topic_prior)))
        self.row_prior = make_row_prior(*self._prior_strides, *self.manifold.shape)
        self.forget()

    def forget(self) -> None:
        """Reset the sums of scores."""
        self.log_likelihood = 0.0
        self.n_scored = 0
        self.topic_tokens = np.zeros(len(self.doc_topic_prior))

    @cached_property
    def _token_start(self) -> np.ndarray:
        return self.counts.token_start()

    @property
    def n_batches(self) -> int:
        """Number of minibatches in one pass over the documents."""
        return 1 if self.batch_size is None else -(-self.n_samples // self.batch_size)

    # HasRowCounts

    def choose_batch(self, key: np.uint64) -> DocumentBatch:
        """Draw documents without replacement; all of them if `batch_size` is None."""
        chosen = self._chosen_rows(np.array([key], np.uint64))
        rows = self._nonempty_rows if chosen is None else self._nonempty_rows[np.sort(chosen[0])]
        documents = self.total_samples / self.counts.n_rows * (self.n_samples / len(rows))
        scale = documents / (self.n_sweeps - self.n_burn_in)
        return DocumentBatch(rows, take_documents(self.counts, rows), scale)

    def guess_counts(self, key: np.uint64) -> tuple[DocumentBatch, TopicCounts]:
        """Draw a minibatch and compute initial topic counts of its words by a few passes of ESCA over it."""
        batch = self.choose_batch(key)
        indptr, pairs, pair_counts = batch.documents[:3]
        counts = Counts(indptr, batch.words[pairs], pair_counts, self.counts.n_features)
        model = self._token_model(counts)
        initial = ESCA(n_first_sweeps=_FIRST_SWEEPS).init_stream(model, key, 1.0).statistics
        return batch, initial._replace(indptr=np.append(initial.indptr[batch.words], initial.indptr[-1]))

    def count_batch(self, batch: DocumentBatch, log_weights, log_totals, key) -> TopicCounts:
        """Topic-word counts of documents without initial topics, summed over the kept sweeps."""
        return self._sample(batch, log_weights, log_totals, key, self.n_burn_in, None)[1]

    def init_rows(self, key: np.uint64) -> tuple[np.ndarray, TopicCounts]:
        """Draw every token's topic uniformly except for seed words, in CSR order, and count them."""
        return self._token_model(self.counts).init_rows(key)

    def recount_batch(self, batch: DocumentBatch, latents: np.ndarray, log_weights, log_totals, key) -> TopicCounts:
        """Continue from the documents' stored topics; return the change of the counts from them to the last sweep."""
        tokens = entries_of_rows(self._token_start, batch.rows)[1]
        before = latents[tokens]
        after, counts = self._sample(batch, log_weights, log_totals, key, self.n_sweeps - 1, before.copy())
        latents[tokens] = after
        return add_counts(counts, count_topics(batch.documents, before, 1, self.n_components, self.workers), 1, -1)

    def _token_model(self, counts: Counts) -> LDAModel:
        return LDAModel(counts, self.doc_topic_prior, self.topic_prior, self.workers, seeds=self.seeds)

    def _sample(self, batch: DocumentBatch, log_weights, log_totals, key, n_burn_in, token_topics):
        table = make_word_table(log_weights, log_totals, self.doc_topic_prior, self.workers)
        row_keys, n_kept = fold_in_each(subkey(key, Purpose.SWEEP), batch.rows), self.n_sweeps - n_burn_in
        given = batch.documents, table, self.doc_topic_prior, row_keys
        sample = sample_documents(
            *given, n_burn_in=n_burn_in, n_kept=n_kept, workers=self.workers, token_topics=token_topics
        )
        self.log_likelihood += sample.log_likelihood
        self.n_scored += len(batch.rows)
        self.topic_tokens += sample.counts.totals / n_kept
        return sample.token_topics, sample.counts

    # HasGradient and HasCounts, for all words at once

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Estimate the gradient at each chain's theta; without keys from all documents (still by random sweeps)."""
        for chain, theta in enumerate(position):
            batch, counts, totals = self._count_words(theta, keys, chain)
            share = batch.scale * counts.totals / totals
            _fill_gradient(theta, self._prior_strides, share, out[chain])
            _add_gradient(theta, batch.words, *counts[:3], batch.scale, out[chain])

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Estimate the prior plus expected counts at each chain's theta."""
        for chain, theta in enumerate(position):
            batch, counts, _ = self._count_words(theta, keys, chain)
            out[chain] = self._word_prior
            out[chain, batch.words] += batch.scale * counts.tocsr().toarray()

    def _count_words(self, theta, keys, chain):
        target = self if keys is not None else self.minibatched(None)
        key = np.uint64(0) if keys is None else keys[chain]
        batch = target.choose_batch(key)
        totals = np.add.reduce(theta, axis=0)
        log_weights = np.log(np.maximum(theta[batch.words], _LEAST))
        return batch, self.count_batch(batch, log_weights, np.log(totals), key), totals


@njit(cache=True, nogil=True)
def _fill_gradient(theta, prior, share, out):
    """Write the terms of all words: (beta - 1) / theta - 1 - share of the topic."""
    for word in range(theta.shape[0]):
        for k in range(theta.shape[1]):
            shape = prior.values[word * prior.row_step + k * prior.column_step]
            out[word, k] = (shape - 1.0) / max(theta[word, k], _LEAST) - 1.0 - share[k]


@njit(cache=True, nogil=True)
def _add_gradient(theta, words, indptr, topics, counts, scale, out):
    """Add the further terms of the minibatch's words: scale * count / theta."""
    for i in range(len(words)):
        for j in range(indptr[i], indptr[i + 1]):
            k = np.int64(topics[j])
            out[words[i], k] += scale * counts[j] / max(theta[words[i], k], _LEAST)


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
        state = draw_all_rows(model, state)
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
