"""Model of latent Dirichlet allocation for samplers by full passes: ESCA, Gibbs, collapsed Gibbs and CVB0."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...sparse.counts import Counts, index_columns
from ...topics.topic_word import TopicWord
from ...utils._declared import check
from ...utils._threads import Workers, split_by_task, split_range
from .._tokens.log_topic_word import LogTopics, draw_topics
from .._tokens.model import Assignments, TokenLatents, TokenModel
from .._tokens.topic_counts import NO_SEEDS, Seeds, TopicCounts, TopicPrior, counts_from_dense
from .collapsed_kernels import _accumulate_words, _init_gamma, _log_joint, _sweep_collapsed, _update_rows, sum_words

_ROW_BLOCK_PAIRS = 1 << 12  # document-word pairs of one task of CVB0
_TASK_WORDS = 1 << 10  # words of one task of CVB0
_MAX_RESPONSIBILITY_BYTES = 8 << 30


class Responsibilities(NamedTuple):
    """State of CVB0: a distribution over topics for each document-word pair, and the expected counts."""

    gamma: np.ndarray  # (nnz, K) float32
    word_topic: np.ndarray  # (V, K) float64
    totals: np.ndarray  # (K,) float64


class LDAModel(TokenModel):
    """Posterior of latent Dirichlet allocation: a `TokenModel` whose topics have Dirichlet priors.

    Also implements `LeaveOneOutModel`, `CollapsedModel` and `CollapsedVariationalModel`.
    """

    def __init__(
        self,
        counts: Counts,
        doc_topic_prior: np.ndarray,
        topic_prior: TopicPrior,
        workers: Workers,
        seeds: Seeds = NO_SEEDS,
    ):
        super().__init__(counts, doc_topic_prior, workers, seeds=seeds)
        self.topic_prior = topic_prior

    def mode(self, statistics: TopicCounts) -> TopicWord:
        """Counts smoothed by the prior: the posterior mode in the natural parameters (ESCA's M step)."""
        return self.topic_prior.smooth(statistics)

    def draw(self, statistics: TopicCounts, key: np.uint64) -> LogTopics:
        """Draw topics from their Dirichlet posterior given the counts."""
        return draw_topics(self._prior_strides, statistics, key, self.workers)

    def sample_given_others(self, position: TopicWord, latents: TokenLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass, both without it."""
        return self._sample_tokens(position, latents, key, excludes_self=True)

    def check_position(self, position: Any, drawn: bool) -> None:
        """Raise a ValueError unless `position` is a possible result of `draw` (if `drawn`) or `mode`."""
        check(LogTopics if drawn else TopicWord, position, "the topics", self._sizes)

    # CollapsedModel: updates of single tokens

    @cached_property
    def _prior_strides(self):
        return self.topic_prior.strides(self.n_components, self.counts.n_features)

    def sweep_assignments(self, assignments: Assignments, key: np.uint64) -> float:
        """Draw the topic of each token given all others, in place; return log p(words, topics of the tokens)."""
        given = self.doc_topic_prior, self._prior_strides, self.topic_prior.totals
        _sweep_collapsed(self.counts, self.token_start, *given, key, assignments)
        return _log_joint(self.token_start, assignments, *given)

    def collapsed_statistics(self, assignments: Assignments) -> TopicCounts:
        """Topic-word counts of the assignments."""
        return counts_from_dense(assignments.word_topic, assignments.totals)

    # CollapsedVariationalModel: a distribution over topics for each document-word pair

    @cached_property
    def word_index(self) -> tuple[np.ndarray, np.ndarray]:
        """CSC index of the document-word pairs: start of each word's pairs, and the pairs of each word."""
        indptr = np.empty(self.counts.n_features + 1, np.int64)
        pairs = np.empty(len(self.counts.indices), np.int64)
        index_columns(self.counts.indices, indptr, pairs)
        return indptr, pairs

    @cached_property
    def _row_blocks(self) -> list[tuple[int, int]]:
        return split_by_task(self.counts.indptr[:-1] // _ROW_BLOCK_PAIRS)

    def init_responsibilities(self, key: np.uint64) -> Responsibilities:
        """Initial responsibilities: normalised uniform variates for each pair."""
        corpus = self.counts
        n_bytes = 4 * len(corpus.indices) * self.n_components
        if n_bytes > _MAX_RESPONSIBILITY_BYTES:
            raise ValueError(
                f"CVB0 would need {n_bytes / 2**30:.1f} GiB, four bytes per topic and document-word pair "
                f"({self.n_components} topics, {len(corpus.indices)} pairs): use fewer topics or another sampler."
            )
        gamma = np.empty((len(corpus.indices), self.n_components), np.float32)
        seed_topics = self._seed_topics(key)
        self.workers.run(_init_gamma, [(*rows, corpus, seed_topics, key, gamma) for rows in self._row_blocks])
        return self._expect(gamma)

    def update_responsibilities(self, responsibilities: Responsibilities) -> tuple[Responsibilities, float]:
        """Make one pass over all pairs; also return the log likelihood at the expected counts before the pass."""
        given = self.counts, self.doc_topic_prior, self._prior_strides, self.topic_prior.totals
        log_likelihood = np.empty(self.counts.n_rows)
        shared = self.seeds.topic_of_column(self.counts.n_features), *given, responsibilities, log_likelihood
        self.workers.run(_update_rows, [(*rows, *shared) for rows in self._row_blocks])
        return self._expect(responsibilities.gamma), float(log_likelihood.sum())

    def expected_statistics(self, responsibilities: Responsibilities) -> TopicCounts:
        """Expected topic-word counts."""
        return counts_from_dense(responsibilities.word_topic, responsibilities.totals)

    def _expect(self, gamma) -> Responsibilities:
        word_topic = np.empty((self.counts.n_features, self.n_components))
        given = *self.word_index, self.counts.counts, gamma, word_topic
        words = split_range(self.counts.n_features, _TASK_WORDS)
        self.workers.run(_accumulate_words, [(*some, *given) for some in words])
        return Responsibilities(gamma, word_topic, sum_words(word_topic, self.workers))
