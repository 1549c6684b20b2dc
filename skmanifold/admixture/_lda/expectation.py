"""Model of latent Dirichlet allocation for EM, which has proportions and topics as parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...sparse.counts import Counts
from ...utils._threads import Workers, split_range
from .._tokens.document_gibbs import all_documents
from .._tokens.topic_counts import TopicPrior
from .mixtures import Mixtures, sum_logs, weigh_rows

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


class ExpectationLDA:
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
        self.counts = counts
        self.doc_topic_prior = doc_topic_prior
        self.topic_prior = topic_prior
        self.workers = workers
        self.n_rows = counts.n_rows
        self.n_tokens = counts.n_tokens
        self._mixtures = Mixtures(all_documents(counts), self.n_components, workers)
        self._prior_strides = topic_prior.strides(self.n_components, counts.n_features)

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.doc_topic_prior)

    def init_latents(self, key: np.uint64) -> tuple[None, ExpectedCounts]:
        """Counts of topics that are nearly equal."""
        word_topic, doc_topic = self._mixtures.draw_counts(key)
        return None, ExpectedCounts(doc_topic, word_topic, self._mixtures.sum_words(word_topic))

    def expect_latents(self, position: Probabilities) -> tuple[ExpectedCounts, float]:
        """The expected counts, and log p(words | proportions, topics)."""
        mixtures, (proportions, topics) = self._mixtures, position
        ratios, values = np.empty(len(self.counts.indices)), np.empty(self.n_rows)
        doc_topic = np.empty_like(proportions)
        given = *mixtures.pairs, proportions, topics
        self.workers.run(weigh_rows, [(*rows, *given, ratios, doc_topic, values) for rows in mixtures.row_blocks])
        counts = ExpectedCounts(doc_topic, *mixtures.count_words(ratios, proportions, topics))
        return counts, float(values.sum())

    def mode(self, statistics: ExpectedCounts) -> Probabilities:
        """Counts smoothed by the priors: the mode in the natural parameters."""
        doc_topic, word_topic, totals = statistics
        alpha = self.doc_topic_prior
        proportions = (doc_topic + alpha) / (self._mixtures.lengths + alpha.sum())[:, np.newaxis]
        topics = word_topic + self._beta
        topics /= totals + self.topic_prior.totals
        return Probabilities(proportions, topics)

    def log_joint(self, statistics: ExpectedCounts, position: Probabilities) -> float:
        """Sum over cells of (count + prior) times log probability."""
        of_documents = statistics.doc_topic, self.doc_topic_prior, 0, 1, position.doc_topic
        of_words = statistics.word_topic, *self._prior_strides, position.word_topic
        tasks = [(*rows, *of_documents) for rows in split_range(self.n_rows, _LOG_ROWS)]
        tasks += [(*words, *of_words) for words in split_range(self.counts.n_features, _LOG_ROWS)]
        return float(np.sum(self.workers.run(sum_logs, tasks)))

    @property
    def _beta(self) -> np.ndarray:
        """The prior of the topics in a shape that broadcasts to (V, K)."""
        values = self.topic_prior.values
        return values[:, np.newaxis] if values.ndim == 1 else values.T
