"""Documents as mixtures over topics: expected counts, and the model for EM."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...numerics.block_sums import dot
from ...numerics.special import fill_log
from ...random._keys import Purpose, fold_in_each
from ...random._variates import fill_normal
from ...sparse.counts import Counts
from ...utils._njit import njit
from ...utils._threads import Workers, split_by_task, split_range
from .._tokens.document_gibbs import Documents, all_documents
from .._tokens.topic_counts import StridedPrior, TopicPrior
from .collapsed_kernels import sum_words

# The topics of the tokens of a pair (document m, word v) have the probabilities r_mvk = a_mk b_vk / sum_l a_ml b_vl
# with weights a of topics in documents and b of topics in words. With the ratios c_mv / sum_l a_ml b_vl, the expected
# counts are D_mk = a_mk sum_v ratio_mv b_vk and W_vk = b_vk sum_m ratio_mv a_mk. So memory is one number per pair, not
# K.
#
# Each output cell is summed by one task in the order of the corpus, so that no result depends on the ranges of the
# tasks.

_TASK_CELLS = 1 << 19  # topics of pairs that one task weighs, a millisecond or more
_NOISE = 0.1  # standard deviation of the logarithms of initial counts
_LEAST = 1e-300  # in place of a sum that underflows


class TopicPosterior:
    """The documents and priors of a posterior of topics."""

    def __init__(self, counts: Counts, doc_topic_prior: np.ndarray, topic_prior: TopicPrior, workers: Workers):
        self.counts = counts
        self.doc_topic_prior = doc_topic_prior
        self.topic_prior = topic_prior
        self.workers = workers
        self.n_components = len(doc_topic_prior)
        self._prior_strides = topic_prior.strides(self.n_components, counts.n_features)

    @property
    def _word_prior(self) -> np.ndarray:
        """The prior of the topics, (V, K)."""
        return np.broadcast_to(self.topic_prior.values, (self.n_components, self.counts.n_features)).T


class DocumentMixtures(TopicPosterior):
    """A posterior in which documents, all or some of those in `counts`, have weights of topics."""

    def _read(self, documents: Documents) -> None:
        self._documents = documents
        self.n_rows, self.n_tokens = len(documents.indptr) - 1, int(documents.token_start[-1])
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(documents.indptr))
        self._word_rows = rows[documents.word_pairs]
        self._row_tasks = self._tasks(documents.indptr)
        self._word_tasks = self._tasks(documents.word_indptr)

    @cached_property
    def _word_totals(self) -> np.ndarray:
        """Number of tokens of each word, (n_words,)."""
        documents = self._documents
        return np.bincount(documents.pair_word, documents.pair_count, len(documents.words))

    @cached_property
    def _lengths(self) -> np.ndarray:
        """Number of tokens of each document, (n_rows,) float64."""
        return np.diff(self._documents.token_start).astype(np.float64)

    def _tasks(self, indptr: np.ndarray) -> list[tuple[int, int]]:
        return split_by_task(indptr[:-1] * self.n_components // _TASK_CELLS)

    def _draw_counts(self, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
        """Initial counts of topics in words, (n_words, K), and in documents, (n_rows, K).

        All topics have the frequencies of the corpus, with noise, and all documents equal shares, so that they differ
        by their words alone. This separates topics better than random topics of tokens, and than noise alone, where one
        topic that learns the frequencies explains all documents.
        """
        word_topic = np.empty((len(self._word_totals), self.n_components))
        fill_normal(fold_in_each(key, self._documents.words), Purpose.NOISE, word_topic)
        np.exp(_NOISE * word_topic, out=word_topic)
        word_topic *= self._word_totals[:, np.newaxis] / self.n_components
        return word_topic, self._equal_shares()

    def _equal_shares(self) -> np.ndarray:
        """Counts of topics in documents, (n_rows, K), the same for all topics."""
        return np.repeat(self._lengths[:, np.newaxis] / self.n_components, self.n_components, axis=1)

    def _count_words(
        self, ratios: np.ndarray, doc_weights: np.ndarray, word_weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected counts of words in topics, (n_words, K), and their sums over words, (K,)."""
        word_topic = np.empty((len(self._documents.words), self.n_components))
        shared = self._documents, self._word_rows, ratios, doc_weights, word_weights, word_topic
        self.workers.run(count_words, [(*words, *shared) for words in self._word_tasks])
        return word_topic, sum_words(word_topic, self.workers)


@njit(cache=True, nogil=True)
def weigh_row(start, stop, pair_word, pair_count, doc_weights, word_weights, out_ratios, out_doc_topic):
    """Ratios and D of the document with the pairs from `start` to `stop`; return sum_v c_v log sum_k a_k b_vk."""
    out_doc_topic[:] = 0.0
    value = 0.0
    for j in range(start, stop):
        weights = word_weights[pair_word[j]]
        mixed = max(dot(doc_weights, weights), _LEAST)
        ratio = pair_count[j] / mixed
        out_ratios[j] = ratio
        value += pair_count[j] * math.log(mixed)
        for k in range(len(out_doc_topic)):
            out_doc_topic[k] += ratio * weights[k]
    for k in range(len(out_doc_topic)):
        out_doc_topic[k] *= doc_weights[k]
    return value


@njit(cache=True, nogil=True)
def weigh_rows(start, stop, documents, doc_weights, word_weights, out_ratios, out_doc_topic, out_values):
    """The same for the documents from `start` to `stop`, with weights (M, K)."""
    indptr, pair_word, pair_count = documents[:3]
    for row in range(start, stop):
        outputs = out_ratios, out_doc_topic[row]
        pairs = indptr[row], indptr[row + 1], pair_word, pair_count
        out_values[row] = weigh_row(*pairs, doc_weights[row], word_weights, *outputs)


@njit(cache=True, nogil=True)
def count_words(start, stop, documents, word_rows, ratios, doc_weights, word_weights, out_word_topic):
    """W for the words from `start` to `stop`; `word_rows` are the documents of the words' pairs."""
    for word in range(start, stop):
        out = out_word_topic[word]
        out[:] = 0.0
        for i in range(documents.word_indptr[word], documents.word_indptr[word + 1]):
            ratio = ratios[documents.word_pairs[i]]
            weights = doc_weights[word_rows[i]]
            for k in range(len(out)):
                out[k] += ratio * weights[k]
        for k in range(len(out)):
            out[k] *= word_weights[word, k]


@njit(cache=True, nogil=True)
def sum_logs(start, stop, counts, prior, probabilities):
    """Sum of (count + prior) log(probability) over the cells of the rows from `start` to `stop`."""
    n = counts.shape[1]
    powers, fractions, logs = np.empty(n), np.empty(n), np.empty(n)
    value = 0.0
    for row in range(start, stop):
        fill_log(n, probabilities[row], powers, fractions, logs)
        of_row = 0.0
        for k in range(n):
            of_row += (counts[row, k] + prior.values[row * prior.row_step + k * prior.column_step]) * logs[k]
        value += of_row
    return value


_LOG_ROWS = 1 << 10  # rows of one partial sum of logarithms


class ExpectedCounts(NamedTuple):
    """Expected counts of tokens, the sufficient statistics."""

    doc_topic: np.ndarray  # (M, K)
    word_topic: np.ndarray  # (V, K)
    totals: np.ndarray  # (K,): sums over words


class Probabilities(NamedTuple):
    """The parameters."""

    doc_topic: np.ndarray  # (M, K): proportions of topics in documents
    word_topic: np.ndarray  # (V, K): probabilities of words in topics; columns sum to 1

    def toarray(self) -> np.ndarray:
        """The topics as an array of shape (K, V)."""
        return np.ascontiguousarray(self.word_topic.T, np.float32)


class ExpectationLDA(DocumentMixtures):
    r"""Joint density of the words, the proportions and the topics; the topics of the tokens are summed out.

    Implements `ExpectationModel`. The E step has expected counts of tokens, which the M step smooths with the priors:

    .. math:: r_{mvk} \propto \theta_{mk} \phi_{kv}, \qquad
        \theta_{mk} = \frac{D_{mk} + \alpha_k}{N_m + \sum_l \alpha_l}, \qquad
        \phi_{kv} = \frac{W_{kv} + \beta_{kv}}{T_k + \sum_u \beta_{ku}}

    with :math:`D_{mk} = \sum_v c_{mv} r_{mvk}` and :math:`W_{kv} = \sum_m c_{mv} r_{mvk}` (appendix B.2 of Zaheer et
    al., AISTATS 2016). No pass decreases the log posterior density in the natural parameters,

    .. math:: \sum_{mv} c_{mv} \log \sum_k \theta_{mk} \phi_{kv} + \sum_{mk} \alpha_k \log \theta_{mk}
        + \sum_{kv} \beta_{kv} \log \phi_{kv}.

    The paper has :math:`\alpha - 1` and :math:`\beta - 1`, for the mode of proportions and topics themselves, which
    need not exist for parameters below 1.
    """

    def __init__(self, counts: Counts, doc_topic_prior: np.ndarray, topic_prior: TopicPrior, workers: Workers):
        super().__init__(counts, doc_topic_prior, topic_prior, workers)
        self._read(all_documents(counts))

    def init_latents(self, key: np.uint64) -> tuple[None, ExpectedCounts]:
        """Counts of topics that are nearly equal."""
        word_topic, doc_topic = self._draw_counts(key)
        return None, ExpectedCounts(doc_topic, word_topic, sum_words(word_topic, self.workers))

    def expect_latents(self, position: Probabilities) -> tuple[ExpectedCounts, float]:
        """The expected counts, and log p(words | proportions, topics)."""
        ratios, values = np.empty(len(self.counts.indices)), np.empty(self.n_rows)
        doc_topic = np.empty_like(position.doc_topic)
        shared = self._documents, *position, ratios, doc_topic, values
        self.workers.run(weigh_rows, [(*rows, *shared) for rows in self._row_tasks])
        return ExpectedCounts(doc_topic, *self._count_words(ratios, *position)), float(values.sum())

    def mode(self, statistics: ExpectedCounts) -> Probabilities:
        """Counts smoothed by the priors: the mode in the natural parameters."""
        doc_topic, word_topic, totals = statistics
        alpha = self.doc_topic_prior
        proportions = (doc_topic + alpha) / (self._lengths + alpha.sum())[:, np.newaxis]
        topics = word_topic + self._word_prior
        topics /= totals + self.topic_prior.totals
        return Probabilities(proportions, topics)

    def log_joint(self, statistics: ExpectedCounts, position: Probabilities) -> float:
        """Sum over cells of (count + prior) times log probability."""
        of_documents = statistics.doc_topic, StridedPrior(self.doc_topic_prior, 0, 1), position.doc_topic
        of_words = statistics.word_topic, self._prior_strides, position.word_topic
        tasks = [(*rows, *of_documents) for rows in split_range(self.n_rows, _LOG_ROWS)]
        tasks += [(*words, *of_words) for words in split_range(self.counts.n_features, _LOG_ROWS)]
        return float(np.sum(self.workers.run(sum_logs, tasks)))
