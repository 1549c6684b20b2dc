"""Latent Dirichlet allocation of one corpus: what ESCA, collapsed Gibbs and CVB0 ask of it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..models._topic_word import TopicWord
from ..utils._csr import Counts
from ..utils._random import fold_in_each, subkey
from ..utils._threads import Workers, split_by_task, split_range
from ._lda_collapsed_kernels import _init_assignments, _log_joint, _sweep_collapsed
from ._lda_cvb0_kernels import (
    _accumulate_words,
    _index_words,
    _init_gamma,
    _merge_partials,
    _score_rows,
    _sum_words,
    _update_rows,
)
from ._lda_documents import Documents, all_documents, make_word_table, sample_documents
from ._lda_esca_kernels import _count_rows, _count_words, _draw_uniform_topics, _sample_block
from ._lda_layout import TokenLayout, make_layout
from ._log_topics import LogTopics, check_dense, draw_topics
from ._topic_counts import TopicCounts, TopicPrior, add_counts, counts_from_dense, scale_counts
from ._vectors import zeros_by_cache_line

_WORD_RANGE_TOKENS = 1 << 17  # tokens counted by one task
_ROW_BLOCK_PAIRS = 1 << 12  # document-word pairs updated by one task of CVB0
_WORD_BLOCK = 1 << 10  # words whose sums are merged at a time
_MAX_RESPONSIBILITY_BYTES = 8 << 30


class TokenLatents(NamedTuple):
    """What ESCA keeps between passes: the topics of the tokens, and each document's counts of them."""

    token_topics: np.ndarray  # (n_tokens,) uint16, in the layout's order
    row_vectors: np.ndarray  # (n_rows,) int64: sixteens of entries in use
    entries: np.ndarray  # (row_start[-1],) uint32: count << 16 | topic


class Assignments(NamedTuple):
    """The state of collapsed Gibbs: one topic for each token in CSR order, and their counts."""

    topics: np.ndarray  # (n_tokens,) uint16
    word_topic: np.ndarray  # (V, K) int32
    totals: np.ndarray  # (K,) int64


class Responsibilities(NamedTuple):
    """The state of CVB0: one distribution over topics for each document-word pair, and its expected counts."""

    gamma: np.ndarray  # (nnz, K) float32
    word_topic: np.ndarray  # (V, K) float64
    totals: np.ndarray  # (K,) float64


class LDAModel:
    """Posterior of latent Dirichlet allocation.

    Offers the updates of `LatentModel`, `StreamModel`, `CollapsedModel`, `PartiallyCollapsedModel` and
    `CollapsedVariationalModel`.

    Parameters
    ----------
    counts : Counts
        The corpus.
    doc_topic_prior : ndarray of shape (n_components,)
        Dirichlet parameters of the documents' proportions.
    topic_prior : TopicPrior
        Dirichlet parameters of the topics.
    workers : Workers
        Who runs the kernels.
    block_tokens : int, optional
        About how many tokens one task samples; no result depends on it.
    """

    def __init__(
        self,
        counts: Counts,
        doc_topic_prior: np.ndarray,
        topic_prior: TopicPrior,
        workers: Workers,
        block_tokens: int | None = None,
    ):
        self.counts = counts
        self.doc_topic_prior = doc_topic_prior
        self.topic_prior = topic_prior
        self.workers = workers
        self.block_tokens = block_tokens

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.doc_topic_prior)

    # LatentModel and StreamModel: all tokens at once, given frozen topics

    @cached_property
    def layout(self) -> TokenLayout:
        """The corpus in ESCA's order."""
        return make_layout(self.counts, self.n_components, self.workers, self.block_tokens)

    @cached_property
    def _word_ranges(self) -> list[tuple[int, int]]:
        layout = self.layout
        tokens = np.zeros(self.counts.n_features, np.int64)
        np.add.at(tokens, layout.segment_word, np.diff(layout.segment_tokens))
        return split_by_task(np.cumsum(tokens) // _WORD_RANGE_TOKENS)

    @cached_property
    def _log_length(self) -> float:
        """Sum over tokens of the log of their document's length with prior: the normaliser of its proportions."""
        lengths = self.layout.row_tokens
        return float(np.sum(lengths * np.log(lengths + self.doc_topic_prior.sum())))

    def _blocks(self):
        """For each block: its segments, its first row and its rows."""
        layout = self.layout
        for block in range(layout.n_blocks):
            segments = layout.block_segments[block : block + 2]
            if segments[0] < segments[1]:
                yield segments, layout.block_rows[block], slice(*layout.block_rows[block : block + 2])

    def init_latents(self, key: np.uint64) -> tuple[TokenLatents, TopicCounts]:
        """Every token's topic uniformly at random."""
        latents = self._empty_latents()

        def draw(segments, first_row, rows):
            layout = self.layout
            _draw_uniform_topics(
                segments,
                layout.segment_word,
                layout.segment_pairs,
                layout.segment_tokens,
                layout.pair_row,
                layout.pair_count,
                first_row,
                self.n_components,
                key,
                latents.token_topics,
            )
            self._count_block(segments, rows, latents)

        self.workers.run(draw, self._blocks())
        return latents, self._count_topics(latents)

    def sample_latents(self, position: TopicWord, latents: TokenLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the pass before (ESCA's S step)."""
        layout = self.layout
        prior_sums = np.cumsum(self.doc_topic_prior * position.inverse)
        log_likelihood = np.zeros(len(layout.row_tokens))

        def sweep(segments, first_row, rows):
            _sample_block(
                segments,
                layout.segment_word,
                layout.segment_pairs,
                layout.segment_tokens,
                layout.pair_row,
                layout.pair_count,
                first_row,
                layout.row_start[rows],
                latents.row_vectors[rows],
                latents.entries,
                position.indptr,
                position.topics,
                position.weights,
                position.base,
                position.inverse,
                self.doc_topic_prior,
                prior_sums,
                key,
                latents.token_topics,
                log_likelihood[rows],
            )
            self._count_block(segments, rows, latents)

        self.workers.run(sweep, self._blocks())
        return latents, self._count_topics(latents), float(log_likelihood.sum()) - self._log_length

    def mode(self, statistics: TopicCounts) -> TopicWord:
        """Counts smoothed by the prior: the mode in the natural parameters (ESCA's M step)."""
        return self.topic_prior.smooth(statistics)

    def impute_rows(self, position: TopicWord, n_sweeps: int, key: np.uint64) -> TopicCounts:
        """Topics of documents never seen: the first sweep knows nothing of a document, the next its last counts."""
        latents = self._empty_latents()
        for sweep in range(n_sweeps):
            latents, statistics, _ = self.sample_latents(position, latents, subkey(key, sweep))
        return statistics

    def blend(self, old: TopicCounts, new: TopicCounts, rate: float, scale: float) -> TopicCounts:
        """``(1 - rate) * old + rate * scale * new``."""
        return add_counts(old, new, 1.0 - rate, rate * scale) if rate < 1.0 else scale_counts(new, scale)

    def _empty_latents(self) -> TokenLatents:
        layout = self.layout
        return TokenLatents(
            np.empty(layout.n_tokens, np.uint16),
            np.zeros(len(layout.row_tokens), np.int64),
            zeros_by_cache_line(layout.row_start[-1], np.uint32),
        )

    def _count_block(self, segments, rows, latents):
        layout = self.layout
        _count_rows(
            segments,
            layout.segment_tokens,
            layout.segment_pairs,
            layout.pair_row,
            layout.pair_count,
            latents.token_topics,
            self.n_components,
            layout.row_tokens[rows],
            layout.row_start[rows],
            latents.row_vectors[rows],
            latents.entries,
        )

    def _count_topics(self, latents) -> TopicCounts:
        layout = self.layout
        n_topics, topics, counts, totals = zip(
            *self.workers.run(
                _count_words,
                [
                    (
                        *words,
                        layout.word_start,
                        layout.word_segments,
                        layout.segment_tokens,
                        latents.token_topics,
                        self.n_components,
                    )
                    for words in self._word_ranges
                ],
            ),
            strict=True,
        )
        indptr = np.concatenate(([0], np.cumsum(np.concatenate(n_topics))))
        return TopicCounts(indptr, np.concatenate(topics), np.concatenate(counts), np.sum(totals, axis=0))

    # CollapsedModel: one token after the other

    @cached_property
    def token_start(self) -> np.ndarray:
        """Where each row's tokens begin, in CSR order."""
        return self.counts.token_start()

    @cached_property
    def _prior_strides(self):
        return self.topic_prior.strides(self.n_components, self.counts.n_features)

    def init_assignments(self, key: np.uint64) -> Assignments:
        """Every token's topic uniformly at random."""
        corpus = self.counts
        check_dense(self.n_components, corpus.n_features)
        state = Assignments(
            np.empty(corpus.n_tokens, np.uint16),
            np.empty((corpus.n_features, self.n_components), np.int32),
            np.empty(self.n_components, np.int64),
        )
        _init_assignments(
            corpus.indptr, corpus.indices, corpus.counts, self.token_start, self.n_components, key, *state
        )
        return state

    def sweep_assignments(self, assignments: Assignments, key: np.uint64) -> float:
        """Redraw every token's topic in turn, in place; returns log p(words, topics of the tokens)."""
        corpus, prior = self.counts, self._prior_strides
        totals = self.topic_prior.totals
        _sweep_collapsed(
            corpus.indptr,
            corpus.indices,
            corpus.counts,
            self.token_start,
            self.doc_topic_prior,
            *prior,
            totals,
            key,
            *assignments,
        )
        return _log_joint(self.token_start, *assignments, self.doc_topic_prior, *prior, totals)

    def collapsed_statistics(self, assignments: Assignments) -> TopicCounts:
        """Counts of the assignments."""
        return counts_from_dense(assignments.word_topic, assignments.totals)

    # PartiallyCollapsedModel: one document by itself after the other, given topics that are drawn

    @cached_property
    def _documents(self) -> Documents:
        return all_documents(self.counts)

    def init_rows(self, key: np.uint64) -> tuple[np.ndarray, TopicCounts]:
        """Every token's topic uniformly at random, in CSR order."""
        assignments = self.init_assignments(key)
        return assignments.topics, self.collapsed_statistics(assignments)

    def sample_rows(self, position: LogTopics, latents: np.ndarray, key: np.uint64):
        """Redraw the topics of each document's tokens in turn."""
        table = make_word_table(*position, self.doc_topic_prior, self.workers)
        sample = sample_documents(
            self._documents,
            table,
            self.doc_topic_prior,
            fold_in_each(key, np.arange(self.counts.n_rows)),
            n_burn_in=0,
            n_kept=1,
            workers=self.workers,
            token_topics=latents,
        )
        return sample.token_topics, sample.counts, sample.log_likelihood

    def draw(self, statistics: TopicCounts, key: np.uint64) -> LogTopics:
        """Topics from their Dirichlet posterior given the counts."""
        return draw_topics(self._prior_strides, statistics, key, self.workers)

    # CollapsedVariationalModel: a distribution over topics for each document-word pair

    @cached_property
    def word_index(self) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of each word, and where each word's begin."""
        indptr = np.empty(self.counts.n_features + 1, np.int64)
        pairs = np.empty(len(self.counts.indices), np.int64)
        _index_words(self.counts.indices, indptr, pairs)
        return indptr, pairs

    @cached_property
    def _row_blocks(self) -> list[tuple[int, int]]:
        return split_by_task(self.counts.indptr[:-1] // _ROW_BLOCK_PAIRS)

    def init_responsibilities(self, key: np.uint64) -> Responsibilities:
        """Normalised uniforms for each pair."""
        corpus = self.counts
        n_bytes = 4 * len(corpus.indices) * self.n_components
        if n_bytes > _MAX_RESPONSIBILITY_BYTES:
            raise ValueError(
                f"CVB0 would need {n_bytes / 2**30:.1f} GiB, four bytes for each of {self.n_components} topics of "
                f"{len(corpus.indices)} document-word pairs; use fewer topics or another sampler."
            )
        gamma = np.empty((len(corpus.indices), self.n_components), np.float32)
        self.workers.run(_init_gamma, [(*rows, corpus.indptr, corpus.indices, key, gamma) for rows in self._row_blocks])
        return self._expect(gamma)

    def update_responsibilities(self, responsibilities: Responsibilities) -> tuple[Responsibilities, float]:
        """One pass over all pairs; also the log likelihood at the expected counts before it."""
        corpus = self.counts
        shared = (corpus.indptr, corpus.indices, corpus.counts, self.doc_topic_prior, *self._prior_strides)
        gamma, word_topic, totals = responsibilities
        change, log_likelihood = np.empty(corpus.n_rows), np.empty(corpus.n_rows)

        def update(first_row, stop_row):
            tables = (self.topic_prior.totals, word_topic, totals, gamma)
            _score_rows(first_row, stop_row, *shared, *tables, log_likelihood)
            _update_rows(first_row, stop_row, *shared, *tables, change)

        self.workers.run(update, self._row_blocks)
        return self._expect(gamma), float(log_likelihood.sum())

    def expected_statistics(self, responsibilities: Responsibilities) -> TopicCounts:
        """Expected counts of the topics."""
        return counts_from_dense(responsibilities.word_topic, responsibilities.totals)

    def _expect(self, gamma) -> Responsibilities:
        word_topic = np.empty((self.counts.n_features, self.n_components))
        word_blocks = split_range(self.counts.n_features, _WORD_BLOCK)
        partials = np.empty((len(word_blocks), self.n_components))
        totals = np.empty(self.n_components)

        def accumulate(block, start, stop):
            _accumulate_words(start, stop, *self.word_index, self.counts.counts, gamma, word_topic)
            _sum_words(start, stop, word_topic, partials[block])

        self.workers.run(accumulate, [(block, *words) for block, words in enumerate(word_blocks)])
        _merge_partials(partials, totals)
        return Responsibilities(gamma, word_topic, totals)
