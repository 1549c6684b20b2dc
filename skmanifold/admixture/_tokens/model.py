"""Rows of tokens with one topic per token: the interface of ESCA and Gibbs sampling, for any distribution of tokens."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ...numerics.block_sums import exact_sum
from ...numerics.simd import zeros_by_cache_line
from ...random._keys import fold_in_each, subkey
from ...sparse.counts import Counts
from ...topics.topic_word import TopicWord
from ...utils._conditions import refuse
from ...utils._declared import check
from ...utils._threads import Workers, split_by_task
from .._lda.collapsed_kernels import _init_assignments
from .compact_counts import TopicsOfPass, read_rounded, round_counts
from .document_gibbs import Documents, all_documents, make_word_table, sample_documents
from .esca_cell_kernels import _draw_uniform_cells, _sample_cells
from .esca_kernels import _count_rows, _draw_uniform_topics, _sample_block, count_words
from .layout import TokenLayout, make_layout
from .log_topic_word import LogTopics, check_dense
from .topic_counts import NO_SEEDS, Seeds, TopicCounts, add_counts, counts_from_dense, counts_of_ranges, scale_counts

_WORD_RANGE_TOKENS = 1 << 17  # tokens counted by one task


class TokenLatents(NamedTuple):
    """The state of ESCA between passes: the topics of the tokens, and their counts in each document."""

    token_topics: np.ndarray  # (n_tokens,) uint16, in the layout's order
    cell_topics: np.ndarray  # (n_cells, K) int32: tokens of each large cell by topic, in the same order
    row_vectors: np.ndarray  # (n_rows,) int64: number of vectors of 16 entries in use
    entries: np.ndarray  # (row_start[-1],) uint32: see `layout`


class Assignments(NamedTuple):
    """The state of collapsed Gibbs: one topic for each token in CSR order, and their counts."""

    topics: np.ndarray  # (n_tokens,) uint16
    word_topic: np.ndarray  # (V, K) int32
    totals: np.ndarray  # (K,) int64


class TokenModel:
    """Rows of tokens with one topic each: p(topic) is Dirichlet by row, p(token | topic) is defined by a subclass.

    Offers the updates of `LatentModel`, `StreamModel`, `RoundingModel` and `PartiallyCollapsedModel`; ``mode`` and
    ``draw``, which map counts to the distribution of the tokens, and ``check_position`` are defined by a subclass.

    Parameters
    ----------
    counts : Counts
        The rows.
    doc_topic_prior : ndarray of shape (n_components,)
        Dirichlet parameters of the rows' proportions.
    workers : Workers
        Who runs the kernels.
    first_row : int, default=0
        Index in the whole corpus of the first row, because `counts` may be a part of it; random streams depend on it.
    seeds : Seeds, optional
        Words whose tokens begin in a chosen topic.
    """

    block_tokens: int | None = None  # about how many one task samples, if not by default; no result depends on it

    def __init__(
        self, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers, first_row: int = 0, seeds: Seeds = NO_SEEDS
    ):
        self.counts = counts
        self.doc_topic_prior = doc_topic_prior
        self.workers = workers
        self.first_row = first_row
        self.seeds = seeds

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.doc_topic_prior)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counts.n_rows

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return self.counts.n_tokens

    def with_doc_topic_prior(self, doc_topic_prior: np.ndarray) -> Self:
        """A copy of the model with another prior of the proportions; the rows and their layout are shared."""
        other = copy.copy(self)
        other.doc_topic_prior = doc_topic_prior
        return other

    def for_rows(self, position: Any) -> TopicsOfPass:
        """What a pass over rows in shards needs: the topics, and the current prior of the proportions."""
        return TopicsOfPass(position, self.doc_topic_prior)

    # LatentModel and StreamModel: all tokens at once, given frozen topics

    @cached_property
    def layout(self) -> TokenLayout:
        """The corpus in ESCA's order."""
        return make_layout(self.counts, self.n_components, self.workers, self.block_tokens)

    @cached_property
    def _word_ranges(self) -> list[tuple[int, int]]:
        layout = self.layout
        reads = np.zeros(self.counts.n_features, np.int64)
        np.add.at(reads, layout.segment_word, np.diff(layout.segment_tokens))
        return split_by_task(np.cumsum(reads + layout.word_cells * self.n_components) // _WORD_RANGE_TOKENS)

    def _run_on_blocks(self, function: Callable, *arguments: Any) -> None:
        """Call a function for each block with tokens; the number of the block is its first argument."""
        filled = np.flatnonzero(np.diff(self.layout.block_segments))
        self.workers.run(function, [(block, *arguments) for block in filled])

    def _seed_topics(self, key: np.uint64) -> np.ndarray:
        """The topic in which all tokens of a word begin, -1 for random ones."""
        return self.seeds.topic_of_column(self.counts.n_features)

    def init_latents(self, key: np.uint64) -> tuple[TokenLatents, TopicCounts]:
        """Every token's topic uniformly at random, except for seed words."""
        latents, layout = self._empty_latents(), self.layout
        given = layout, latents, self.first_row, self._seed_topics(key), key

        def draw(block):
            _draw_uniform_topics(block, *given)
            _draw_uniform_cells(block, *given)
            _count_rows(block, layout, latents)

        self._run_on_blocks(draw)
        return latents, self._count_topics(latents)

    def sample_latents(self, position: TopicWord, latents: TokenLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass (ESCA's S step)."""
        return self._sample_tokens(position, latents, key, excludes_self=False)

    def _sample_tokens(self, position: TopicWord, latents: TokenLatents, key: np.uint64, *, excludes_self: bool):
        """One pass; with `excludes_self` each token is excluded from the counts of the topics and of its document."""
        layout, prior = self.layout, self.doc_topic_prior
        prior_sums = np.cumsum(prior * position.inverse)
        log_likelihood = np.zeros(len(layout.row_tokens))
        rest = self.first_row, key, excludes_self, log_likelihood

        def sweep(block):
            _sample_block(block, layout, latents, position, prior, prior_sums, *rest)
            _sample_cells(block, layout, latents, position, prior, *rest)
            _count_rows(block, layout, latents)

        self._run_on_blocks(sweep)
        lengths = layout.row_tokens  # its logarithm, with the prior, normalises a row's proportions
        log_likelihood -= lengths * np.log(lengths + self.doc_topic_prior.sum())
        return latents, self._count_topics(latents), exact_sum(log_likelihood)

    def impute_rows(self, position: TopicWord, n_sweeps: int, key: np.uint64) -> TopicCounts:
        """Topics of new documents: the first sweep uses the prior, later ones the counts of the previous sweep."""
        latents = self._empty_latents()
        for sweep in range(n_sweeps):
            latents, statistics, _ = self.sample_latents(position, latents, subkey(key, sweep))
        return statistics

    def approximate(self, statistics: TopicCounts, key: np.uint64) -> TopicCounts:
        """Counts rounded to eight bits; the totals are exact."""
        return read_rounded(round_counts(statistics, key))

    def blend(self, old: TopicCounts, new: TopicCounts, rate: float, scale: float) -> TopicCounts:
        """``(1 - rate) * old + rate * scale * new``."""
        return add_counts(old, new, 1.0 - rate, rate * scale) if rate < 1.0 else scale_counts(new, scale)

    # Checkpoints

    def latent_type(self, drawn: bool) -> np.dtype:
        """Type of stored latents: topics of tokens."""
        return np.dtype(np.uint16)

    def check_statistics(self, statistics: Any) -> None:
        """Raise a ValueError unless these can be counts of the topics."""
        check(TopicCounts, statistics, "a table of counts", self._sizes)
        if statistics.counts.dtype.kind != "i" or statistics.totals.dtype.kind != "i":
            refuse("a table of counts", "contains fractions")

    @property
    def _sizes(self) -> dict[str, int]:
        return {"n_components": self.n_components, "n_features": self.counts.n_features}

    def _empty_latents(self) -> TokenLatents:
        layout = self.layout
        return TokenLatents(
            np.empty(layout.n_tokens, np.uint16),
            np.empty((layout.n_cells, self.n_components), np.int32),
            np.zeros(len(layout.row_tokens), np.int64),
            zeros_by_cache_line(layout.row_start[-1], np.uint32),
        )

    def _count_topics(self, latents) -> TopicCounts:
        layout, token_topics, cell_topics = self.layout, latents.token_topics, latents.cell_topics
        ranges = layout.word_start, layout.word_segments, layout.segment_tokens

        def count(first_word, stop_word):
            scratch = np.zeros(self.n_components, np.int32)
            return count_words(first_word, stop_word, *ranges, token_topics, 1, (layout, cell_topics), scratch)

        return counts_of_ranges(self.workers.run(count, self._word_ranges))

    # PartiallyCollapsedModel: each document separately, given drawn topics

    @cached_property
    def _documents(self) -> Documents:
        return all_documents(self.counts)

    def init_rows(self, key: np.uint64) -> tuple[np.ndarray, TopicCounts]:
        """Every token's topic uniformly at random, in CSR order."""
        assignments = self.init_assignments(key)
        return assignments.topics, counts_from_dense(assignments.word_topic, assignments.totals)

    def sample_rows(self, position: LogTopics, latents: np.ndarray, key: np.uint64):
        """Redraw the topics of each document's tokens in turn."""
        table = make_word_table(*position, self.doc_topic_prior, self.workers)
        row_keys = fold_in_each(key, self.first_row + np.arange(self.counts.n_rows))
        given = self._documents, table, self.doc_topic_prior, row_keys
        sample = sample_documents(*given, n_burn_in=0, n_kept=1, workers=self.workers, token_topics=latents)
        return sample.token_topics, sample.counts, sample.log_likelihood

    @cached_property
    def token_start(self) -> np.ndarray:
        """Index of the first token of each row, in CSR order."""
        return self.counts.token_start()

    def init_assignments(self, key: np.uint64) -> Assignments:
        """Every token's topic uniformly at random, except for seed words."""
        corpus = self.counts
        check_dense(self.n_components, corpus.n_features)
        state = Assignments(
            np.empty(corpus.n_tokens, np.uint16),
            np.empty((corpus.n_features, self.n_components), np.int32),
            np.empty(self.n_components, np.int64),
        )
        streams = self.token_start, self.first_row, self._seed_topics(key), key
        _init_assignments(corpus, *streams, state)
        return state
