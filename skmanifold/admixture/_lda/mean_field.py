"""Mean-field variational inference for latent Dirichlet allocation: the factors, the objective and its updates.

A document's factor is Dir(gamma), with `shapes` gamma, and a topic's is Dir(lambda) with lambda = counts + prior. The
weights of topics in documents and words (see `expectation`) are exp(E log theta_mk) and exp(E log phi_kv), each divided
by its largest over k so that not all of them underflow. The logarithms of these are *offsets*.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...models._minibatch import random_batches
from ...numerics.special import N_WORK, fill_exp, fill_log_gamma
from ...sparse.counts import Counts
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._tokens.document_gibbs import take_documents
from .._tokens.log_topic_word import check_dense
from .._tokens.topic_counts import TopicPrior
from .collapsed_kernels import sum_words
from .expectation import DocumentMixtures, weigh_row

_TASK_CELLS = 1 << 16  # weights that one task computes, a millisecond or more


class TopicFactors:
    """Dirichlet factors of the topics.

    `word_topic`, (n_features, n_components), are their parameters without those of the prior; `objective` is the
    topics' part of it, once computed.
    """

    def __init__(self, word_topic: np.ndarray, totals: np.ndarray, prior: TopicPrior):
        self.word_topic = word_topic
        self.totals = totals
        self.prior = prior
        self.objective: float | None = None

    def directions(self) -> TopicFactors:
        """These factors, from which `toarray` makes the estimate."""
        return self

    def toarray(self) -> np.ndarray:
        """Expectations of the topics, (K, V)."""
        shapes = self.word_topic.T + np.broadcast_to(self.prior.values, self.word_topic.shape[::-1])
        return np.divide(shapes, (self.totals + self.prior.totals)[:, np.newaxis], dtype=np.float32, casting="unsafe")


class DocumentFactors(NamedTuple):
    """Dirichlet factors of documents; all but the first array also depend on the topics."""

    shapes: np.ndarray  # (M, K): parameters of the factors
    weights: np.ndarray  # (M, K): exp E log theta, up to a factor for each document
    ratios: np.ndarray  # (nnz,): see `expectation`
    sums: np.ndarray  # (M, K): expected counts D
    values: np.ndarray  # (M,): terms of the documents in the objective
    word_weights: np.ndarray  # (n_words, K): exp E log phi, up to a factor for each word
    shared: float  # terms of all documents together in the objective

    def take(self, chosen: np.ndarray) -> DocumentFactors:
        """The factors of some documents, to be refreshed."""
        return self._replace(shapes=self.shapes[chosen])

    def put(self, chosen: np.ndarray, some: DocumentFactors) -> DocumentFactors:
        """Replace the factors of some documents, in place."""
        self.shapes[chosen] = some.shapes
        return self


class ExpectedTokens(NamedTuple):
    """What the documents contribute to an update of the topics."""

    word_topic: np.ndarray  # (n_words, K): expected counts W
    totals: np.ndarray  # (K,)
    objective: float  # terms of the documents in the objective, before their last step


class MeanFieldLDA(DocumentMixtures):
    r"""Mean-field approximation of the posterior of latent Dirichlet allocation; implements `MeanFieldModel`.

    The factors ([1]_, [2]_) are :math:`q(\theta_m) = \mathrm{Dir}(\gamma_m)`, :math:`q(\phi_k) =
    \mathrm{Dir}(\lambda_k)` and for each pair of a document and a word

    .. math:: r_{mvk} \propto e^{\mathrm{E} \log \theta_{mk} + \mathrm{E} \log \phi_{kv}}, \qquad
        \mathrm{E} \log \theta_{mk} = \psi(\gamma_{mk}) - \psi(\textstyle\sum_l \gamma_{ml}), \qquad
        \mathrm{E} \log \phi_{kv} = \psi(\lambda_{kv}) - \psi(\textstyle\sum_u \lambda_{ku}),

    with the digamma function :math:`\psi`. The updates are

    .. math:: \gamma_{mk} = \alpha_k + \sum_v c_{mv} r_{mvk}, \qquad
        \lambda_{kv} \leftarrow (1 - \rho) \lambda_{kv} + \rho \Big(\beta_{kv} + s \sum_m c_{mv} r_{mvk}\Big),

    where each document represents :math:`s` documents, and :math:`\rho = 1` maximises over :math:`\lambda` ([3]_). The
    objective is a lower bound of the evidence :math:`\log p(w)`, at the best :math:`r`:

    .. math:: L = s \sum_m \Big[\sum_v c_{mv} \log \sum_k e^{\mathrm{E} \log \theta_{mk} + \mathrm{E} \log \phi_{kv}}
        - \mathrm{KL}(\mathrm{Dir}(\gamma_m) | \mathrm{Dir}(\alpha)) \Big]
        - \sum_k \mathrm{KL}(\mathrm{Dir}(\lambda_k) | \mathrm{Dir}(\beta_k)).

    The update of the topics and the last step of the documents use the same r. The objective has `total_samples`
    documents; `rows` are those of `counts` that the model has (None: all).

    .. [1] D. M. Blei, A. Y. Ng and M. I. Jordan, "Latent Dirichlet allocation", JMLR 3, 2003.
    .. [2] M. D. Hoffman, D. M. Blei and F. Bach, "Online learning for latent Dirichlet allocation", NIPS 2010.
    .. [3] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic variational inference", JMLR 14, 2013.
    """

    def __init__(
        self,
        counts: Counts,
        doc_topic_prior: np.ndarray,
        topic_prior: TopicPrior,
        workers: Workers,
        *,
        batch_size: int | None = None,
        total_samples: int | None = None,
        rows: np.ndarray | None = None,
    ):
        check_dense(len(doc_topic_prior), counts.n_features)
        super().__init__(counts, doc_topic_prior, topic_prior, workers)
        self._read(take_documents(counts, np.arange(counts.n_rows) if rows is None else rows))
        self.batch_size = batch_size
        self.total_samples = self.n_rows if total_samples is None else total_samples

    @property
    def scale(self) -> float:
        """Number of documents that each of these represents."""
        return self.total_samples / self.n_rows

    def init_factors(self, key: np.uint64) -> tuple[TopicFactors, DocumentFactors]:
        """Initial factors: topics that are nearly equal, and documents with the same number of tokens in each topic."""
        some, doc_topic = self._draw_counts(key)
        word_topic = np.zeros((self.counts.n_features, self.n_components))
        word_topic[self._documents.words] = self.scale * some
        factors = TopicFactors(word_topic, sum_words(word_topic, self.workers), self.topic_prior)
        return factors, self._evaluate(factors, self.doc_topic_prior + doc_topic)

    def init_rows(self, factors: TopicFactors) -> DocumentFactors:
        """Initial factors of new documents, with the same number of tokens in each topic."""
        return self._evaluate(factors, self.doc_topic_prior + self._equal_shares())

    def refresh_rows(self, factors: TopicFactors, rows: DocumentFactors) -> DocumentFactors:
        """The same factors of documents, with the arrays that depend on the topics."""
        return self._evaluate(factors, rows.shapes)

    def fit_rows(self, rows: DocumentFactors, n_steps: int, tol: float) -> tuple[DocumentFactors, ExpectedTokens]:
        """Optimise each document's factor by at most `n_steps` steps, and sum the expected counts before the last."""
        copies: dict[str, Any] = {name: getattr(rows, name).copy() for name in DocumentFactors._fields[:5]}
        rows = rows._replace(**copies)
        shared = self._documents, self.doc_topic_prior, n_steps, tol, rows
        self.workers.run(fit_rows, [(*some, *shared) for some in self._row_tasks])
        word_topic, totals = self._count_words(rows.ratios, rows.weights, rows.word_weights)
        return rows, ExpectedTokens(word_topic, totals, float(rows.values.sum()) + rows.shared)

    def move_topics(self, factors: TopicFactors, pull: ExpectedTokens, rate: float, scale: float) -> TopicFactors:
        """Natural-gradient step of length `rate`; the documents' counts have weight `scale`."""
        word_topic = (1.0 - rate) * factors.word_topic
        word_topic[self._documents.words] += (rate * scale) * pull.word_topic
        totals = (1.0 - rate) * factors.totals + (rate * scale) * pull.totals
        return TopicFactors(word_topic, totals, factors.prior)

    def objective(self, factors: TopicFactors, rows: DocumentFactors, scale: float) -> float:
        """The lower bound L; `rows` must be refreshed for these topics, and have weight `scale`."""
        return scale * (float(rows.values.sum()) + rows.shared) + self.topic_objective(factors)

    def topic_objective(self, factors: TopicFactors) -> float:
        """Minus the divergences of the topics' factors from the prior."""
        if factors.objective is None:
            shared = factors.word_topic, self._prior_strides
            words = sum(self.workers.run(score_words, [(*part, *shared) for part in self._parts(len(shared[0]))]))
            before, _ = log_gamma_of(factors.prior.totals)
            after, slopes = log_gamma_of(factors.prior.totals + factors.totals)
            factors.objective = words + float(np.sum(before - after + factors.totals * slopes))
        return factors.objective

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Split all documents at random into minibatches."""
        return random_batches(self.n_rows, self.batch_size, key)

    def batch(self, chosen: np.ndarray) -> MeanFieldLDA:
        """The model of some of the documents, which represent the same number of documents as all of them."""
        if len(chosen) == self.n_rows:
            return self
        shared = self.counts, self.doc_topic_prior, self.topic_prior, self.workers
        return MeanFieldLDA(*shared, total_samples=self.total_samples, rows=chosen)

    def _parts(self, n_words: int) -> list[tuple[int, int]]:
        return split_range(n_words, max(1, _TASK_CELLS // self.n_components))

    def _evaluate(self, factors: TopicFactors, shapes: np.ndarray) -> DocumentFactors:
        """The factors of documents with these parameters, and the arrays that depend on the topics."""
        words = self._documents.words
        word_weights, offsets = np.empty((len(words), self.n_components)), np.empty(len(words))
        _, slopes = log_gamma_of(factors.totals + factors.prior.totals)
        shared = words, factors.word_topic, self._prior_strides, slopes, word_weights, offsets
        self.workers.run(weigh_words, [(*part, *shared) for part in self._parts(len(words))])
        of_all = float(np.sum(self._word_totals * offsets)) + self._constant
        ratios, values = np.empty(len(self._documents.pair_word)), np.empty(self.n_rows)
        weights, sums = np.empty_like(shapes), np.empty_like(shapes)
        rows = DocumentFactors(shapes, weights, ratios, sums, values, word_weights, of_all)
        given = self._documents, self.doc_topic_prior, rows
        self.workers.run(evaluate_rows, [(*some, *given) for some in self._row_tasks])
        return rows

    @cached_property
    def _constant(self) -> float:
        """Terms of the documents in the objective that depend on their lengths only."""
        alpha = self.doc_topic_prior
        of_prior = log_gamma_of(np.array([alpha.sum()]))[0][0] - log_gamma_of(alpha)[0].sum()
        return float(self.n_rows * of_prior - log_gamma_of(self._lengths + alpha.sum())[0].sum())


@njit(cache=True, nogil=True)
def log_gamma_of(shapes):
    """Log gamma and digamma of an array."""
    n = len(shapes)
    work, values, slopes = np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    fill_log_gamma(n, shapes, work, values, slopes)
    return values, slopes


@njit(cache=True, nogil=True)
def _fill_weights(logs, powers, out_weights):
    """``out_weights = exp(logs - offset)``, where the offset, which is returned, is the largest; changes `logs`."""
    offset = logs[0]
    for k in range(1, len(logs)):
        offset = max(offset, logs[k])
    for k in range(len(logs)):
        logs[k] -= offset
    fill_exp(len(logs), logs, powers, out_weights)
    return offset


# Words


@njit(cache=True, nogil=True)
def weigh_words(start, stop, words, counts, prior, total_slopes, out_weights, out_offsets):
    """Weights and offsets of the words from `start` to `stop` of a list; `total_slopes` is digamma(sum_v lambda_kv)."""
    n = counts.shape[1]
    shapes, work, values, slopes = np.empty(n), np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    for i in range(start, stop):
        word = np.int64(words[i])
        for k in range(n):
            shapes[k] = counts[word, k] + prior.values[word * prior.row_step + k * prior.column_step]
        fill_log_gamma(n, shapes, work, values, slopes)
        for k in range(n):
            slopes[k] -= total_slopes[k]
        out_offsets[i] = _fill_weights(slopes, values, out_weights[i])


@njit(cache=True, nogil=True)
def score_words(start, stop, counts, prior):
    """The part of -sum_k KL(Dir(lambda_k) | Dir(beta_k)) that is a sum over words, from `start` to `stop`."""
    n = counts.shape[1]
    shapes, work, values, slopes = np.empty(n), np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    prior_values = np.empty(n)
    total = 0.0
    for word in range(start, stop):
        if word == start or prior.row_step != 0:
            for k in range(n):
                shapes[k] = prior.values[word * prior.row_step + k * prior.column_step]
            fill_log_gamma(n, shapes, work, prior_values, slopes)
        for k in range(n):
            shapes[k] = counts[word, k] + prior.values[word * prior.row_step + k * prior.column_step]
        fill_log_gamma(n, shapes, work, values, slopes)
        of_word = 0.0
        for k in range(n):
            of_word += values[k] - prior_values[k] - counts[word, k] * slopes[k]
        total += of_word
    return total


# Documents


@njit(cache=True, nogil=True)
def _evaluate_row(row, start, stop, pair_word, pair_count, alpha, out_rows, values, slopes, work):
    """Weights, ratios and expected counts of a document, and its term in the objective without constants.

    That is sum_v c_v log sum_k a_k b_vk - KL, up to what does not depend on the factor while its shapes sum to N_m +
    sum_k alpha_k. `values` and `slopes` are log gamma and digamma of the shapes; overwritten.
    """
    shapes, weights, sums = out_rows.shapes[row], out_rows.weights[row], out_rows.sums[row]
    value = 0.0
    for k in range(len(shapes)):
        value += values[k] - (shapes[k] - alpha[k]) * slopes[k]
    offset = _fill_weights(slopes, work[0], weights)
    value += weigh_row(start, stop, pair_word, pair_count, weights, out_rows.word_weights, out_rows.ratios, sums)
    n_tokens = 0.0
    for j in range(start, stop):
        n_tokens += pair_count[j]
    out_rows.values[row] = value + n_tokens * offset


@njit(cache=True, nogil=True)
def evaluate_rows(start, stop, documents, alpha, out_rows):
    """The same for the documents from `start` to `stop`."""
    n = len(alpha)
    indptr, pair_word, pair_count = documents[:3]
    work, values, slopes = np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    for row in range(start, stop):
        fill_log_gamma(n, out_rows.shapes[row], work, values, slopes)
        _evaluate_row(row, indptr[row], indptr[row + 1], pair_word, pair_count, alpha, out_rows, values, slopes, work)


@njit(cache=True, nogil=True)
def fit_rows(start, stop, documents, alpha, n_steps, tol, out_rows):
    """Up to `n_steps` steps gamma_mk = alpha_k + D_mk for each document from `start` to `stop`.

    Outputs must be those of the shapes, and afterwards are those before the last step: with their responsibilities the
    last step and a step of the topics are optimal together. A step gains at least KL(old factor | new factor), about
    half of the sum of both divergences, sum_k (new - old gamma_k) (digamma(new) - digamma(old)). Steps end when this is
    at most `tol`.
    """
    n = len(alpha)
    indptr, pair_word, pair_count = documents[:3]
    work, values = np.empty((N_WORK, n)), np.empty(n)
    slopes, new, new_slopes = np.empty(n), np.empty(n), np.empty(n)
    for row in range(start, stop):
        shapes = out_rows.shapes[row]
        # Digammas of the old shapes are needed only to compare steps.
        if n_steps > 1:
            fill_log_gamma(n, shapes, work, values, slopes)
        for step in range(n_steps):
            for k in range(n):
                new[k] = alpha[k] + out_rows.sums[row, k]
            is_last, increase = step == n_steps - 1, 0.0
            # The last step needs no comparison, and so no digammas.
            if not is_last:
                fill_log_gamma(n, new, work, values, new_slopes)
                for k in range(n):
                    increase += 0.5 * (new[k] - shapes[k]) * (new_slopes[k] - slopes[k])
                    slopes[k] = new_slopes[k]
            for k in range(n):
                shapes[k] = new[k]
            # Stop before the evaluation: the outputs stay those before the last step.
            if is_last or not increase > tol:
                break
            _evaluate_row(
                row, indptr[row], indptr[row + 1], pair_word, pair_count, alpha, out_rows, values, new_slopes, work
            )
