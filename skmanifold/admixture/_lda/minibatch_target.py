"""Posterior of the topics of latent Dirichlet allocation, estimated from minibatches of documents."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...manifolds import PositiveOrthant
from ...models._minibatch import MinibatchTarget
from ...random._keys import Purpose, fold_in_each, subkey
from ...samplers import ESCA
from ...samplers._cir.lazy_cir_rows import make_row_prior
from ...sparse.counts import Counts
from ...utils._njit import njit
from ...utils._threads import Workers
from .._tokens.document_gibbs import (
    Documents,
    make_word_table,
    put_tokens,
    sample_documents,
    take_documents,
    take_tokens,
)
from .._tokens.seeds import Seeds
from .._tokens.topic_counts import TopicCounts, TopicPrior
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


class MinibatchLDA(MinibatchTarget):
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
        seeds: Seeds | None = None,
    ):
        self.counts = counts
        self.doc_topic_prior = doc_topic_prior
        self.topic_prior = topic_prior
        self.workers = workers
        self._nonempty_rows = np.flatnonzero(np.diff(counts.indptr))  # empty documents have no effect
        self.n_samples = len(self._nonempty_rows)
        self.batch_size = None if batch_size is None else min(batch_size, self.n_samples)
        self.total_samples = total_samples
        self.n_sweeps = n_sweeps
        self.n_burn_in = n_burn_in
        self.seeds = seeds
        self.manifold = PositiveOrthant((counts.n_features, len(doc_topic_prior)))
        self._strides = topic_prior.strides(len(doc_topic_prior), counts.n_features)
        self.row_prior = make_row_prior(*self._strides, *self.manifold.shape)
        self.forget()

    def forget(self) -> None:
        """Reset the sums of scores and allocate private scratch memory."""
        self.log_likelihood = 0.0
        self.n_scored = 0
        self.topic_tokens = np.zeros(len(self.doc_topic_prior))
        self._slots = np.full(self.counts.n_features, -1, np.int32)

    @cached_property
    def _token_start(self) -> np.ndarray:
        return self.counts.token_start()

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.doc_topic_prior)

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return self.counts.n_rows

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return self.counts.n_tokens

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
        return DocumentBatch(rows, take_documents(self.counts, rows, self._slots), scale)

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
        before = take_tokens(self._token_start, batch.rows, latents)
        after, _ = self._sample(batch, log_weights, log_totals, key, self.n_sweeps - 1, before.copy())
        documents = batch.documents
        put_tokens(batch.rows, self._token_start, latents, np.arange(len(batch.rows)), documents.token_start, after)
        arrays = (documents.word_indptr, documents.word_pairs, documents.pair_start, before, after)
        return TopicCounts(*_count_changes(*arrays, self.n_components))

    def _token_model(self, counts: Counts) -> LDAModel:
        return LDAModel(counts, self.doc_topic_prior, self.topic_prior, self.workers, seeds=self.seeds)

    def _sample(self, batch: DocumentBatch, log_weights, log_totals, key, n_burn_in, token_topics):
        table = make_word_table(log_weights, log_totals, self.doc_topic_prior, self.workers)
        sample = sample_documents(
            batch.documents,
            table,
            self.doc_topic_prior,
            fold_in_each(subkey(key, Purpose.SWEEP), batch.rows),
            n_burn_in=n_burn_in,
            n_kept=self.n_sweeps - n_burn_in,
            workers=self.workers,
            token_topics=token_topics,
        )
        self.log_likelihood += sample.log_likelihood
        self.n_scored += len(batch.rows)
        self.topic_tokens += sample.counts.totals / (self.n_sweeps - n_burn_in)
        return sample.token_topics, sample.counts

    # HasGradient and HasCounts, for all words at once

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Estimate the gradient at each chain's theta; without keys from all documents (still by random sweeps)."""
        for chain, theta in enumerate(position):
            batch, counts, totals = self._count_words(theta, keys, chain)
            share = batch.scale * counts.totals / totals
            _fill_gradient(theta, *self._strides, share, out[chain])
            _add_gradient(theta, batch.words, *counts[:3], batch.scale, out[chain])

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Estimate the prior plus expected counts at each chain's theta."""
        prior = np.broadcast_to(self.topic_prior.values, self.manifold.shape[::-1]).T
        for chain, theta in enumerate(position):
            batch, counts, _ = self._count_words(theta, keys, chain)
            out[chain] = prior
            out[chain, batch.words] += batch.scale * counts.tocsr().toarray()

    def _count_words(self, theta, keys, chain):
        target = self if keys is not None else self.minibatched(None)
        key = np.uint64(0) if keys is None else keys[chain]
        batch = target.choose_batch(key)
        totals = np.add.reduce(theta, axis=0)
        log_weights = np.log(np.maximum(theta[batch.words], _LEAST))
        return batch, self.count_batch(batch, log_weights, np.log(totals), key), totals


@njit(cache=True, nogil=True)
def _count_changes(word_indptr, word_pairs, pair_start, before, after, n_components):
    """Counts of `after` minus counts of `before` for each word; cells that do not change are omitted."""
    n_words = len(word_indptr) - 1
    indptr = np.zeros(n_words + 1, np.int64)
    topics = np.empty(2 * len(before), np.uint16)
    counts = np.empty(2 * len(before), np.int32)
    totals = np.zeros(n_components, np.int64)
    change = np.zeros(n_components, np.int32)
    listed = np.zeros(n_components, np.bool_)
    end = 0
    for word in range(n_words):
        begin = end
        for i in range(word_indptr[word], word_indptr[word + 1]):
            for token in range(pair_start[word_pairs[i]], pair_start[word_pairs[i] + 1]):
                old, new = np.int64(before[token]), np.int64(after[token])
                if old != new:
                    change[old] -= np.int32(1)
                    change[new] += np.int32(1)
                    for topic in (old, new):
                        if not listed[topic]:
                            listed[topic] = True
                            topics[end] = topic
                            end += 1
        kept = begin
        for j in range(begin, end):
            topic = np.int64(topics[j])
            if change[topic] != 0:
                topics[kept], counts[kept] = topic, change[topic]
                totals[topic] += change[topic]
                kept += 1
            change[topic] = 0
            listed[topic] = False
        end = kept
        indptr[word + 1] = end
    return indptr, topics[:end].copy(), counts[:end].copy(), totals


@njit(cache=True, nogil=True)
def _fill_gradient(theta, prior, word_step, topic_step, share, out):
    """Write the terms of all words: (beta - 1) / theta - 1 - share of the topic."""
    for word in range(theta.shape[0]):
        for k in range(theta.shape[1]):
            shape = prior[word * word_step + k * topic_step]
            out[word, k] = (shape - 1.0) / max(theta[word, k], _LEAST) - 1.0 - share[k]


@njit(cache=True, nogil=True)
def _add_gradient(theta, words, indptr, topics, counts, scale, out):
    """Add the further terms of the minibatch's words: scale * count / theta."""
    for i in range(len(words)):
        for j in range(indptr[i], indptr[i + 1]):
            k = np.int64(topics[j])
            out[words[i], k] += scale * counts[j] / max(theta[words[i], k], _LEAST)
