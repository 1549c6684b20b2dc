"""Fits whose rows of tokens are on disk, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_non_negative

from ...datasets._save_corpus import counts_of_documents
from ...inference._corpus_blocks import join_counts
from ...inference._distributed_fits.shards import ShardedModel, open_shards
from ...inference._distributed_fits.sources import (
    CorpusRange,
    CountsSource,
    FileRange,
    check_same_width,
    corpora_of,
    source_of,
)
from ...sparse.counts import (
    COUNT_TYPES,
    USE_COUNTS_OF_WORDS,
    Counts,
    canonical_csr,
    check_token_start,
    check_tokens,
    moved_by_rounding,
    warn_of_fractions,
    whole_counts,
)
from ...utils._threads import Workers
from ...utils._validation import check_array
from .count_packing import pack_travelling, unpack_travelling
from .latent_storage import StorableTokens
from .out_of_core import StreamedTokens
from .seeds import NO_SEEDS, Seeds
from .topic_counts import TopicCounts, add_counts
from .word_parts import cut_words, join_words

NO_TOKENS = "X has no tokens: all counts are zero, or fractions that were rounded to zero."


class TokenShards:
    """Makes shards of rows of counts: a `ShardBuilder`.

    Parameters
    ----------
    doc_topic_prior : ndarray of shape (n_components,)
        Dirichlet parameters of the rows' proportions.
    rounding_key : uint64
        For fractional counts.
    whom : str
        The estimator's name, for messages.
    seeds : Seeds, optional
        As in `TokenModel`.
    """

    def __init__(self, doc_topic_prior: np.ndarray, rounding_key: np.uint64, whom: str, seeds: Seeds = NO_SEEDS):
        self.doc_topic_prior = doc_topic_prior
        self.rounding_key = rounding_key
        self.whom = whom
        self.seeds = seeds

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """Counts in memory, matrices, files, documents or ranges of corpora; counts and matrices are copied."""
        if isinstance(blocks[0], CorpusRange):
            return blocks, sum(stop - start for _, start, stop in blocks), blocks[0].corpus.shape[1]
        if isinstance(blocks[0], Counts):
            (counts,) = blocks
            indptr, indices, values = (array.copy() for array in counts[:3])  # received arrays are read-only
            return Counts(indptr, indices, values, counts.n_features), counts.n_rows, counts.n_features
        if isinstance(blocks[0], list | tuple):
            counts = counts_of_documents(document for block in blocks for document in block)
            return counts, counts.n_rows, counts.n_features
        parts = [_checked(block.read() if isinstance(block, FileRange) else block) for block in blocks]
        check_same_width(part.shape[1] for part in parts)
        csr = sp.csr_array(sp.vstack(parts, format="csr"))
        check_non_negative(csr, self.whom)
        csr = canonical_csr(csr)
        return csr, *csr.shape

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> StorableTokens | StreamedTokens:
        """A model of rows on disk, which are streamed, or of rows in memory."""
        if isinstance(rows, list):
            before = first_row
            for corpus, start, stop in rows:  # only pieces are in memory, so only single rows can be too long
                check_token_start(corpus.token_start[start : stop + 1], most=corpus.n_tokens, first_row=before)
                before += stop - start
            return StreamedTokens(rows, self.doc_topic_prior, workers, first_row, seeds=self.seeds)
        rows, moved = self.whole(rows, first_row, n_features)
        model = StorableTokens(rows, self.doc_topic_prior, workers, first_row=first_row, seeds=self.seeds)
        model.moved_by_rounding = moved
        return model

    def whole(self, rows: Any, first_row: int, n_features: int) -> tuple[Counts, float]:
        """Rows as whole counts in memory, and how much rounding has moved."""
        moved = 0.0
        if isinstance(rows, list):
            rows = join_counts([corpus.counts(start, stop) for corpus, start, stop in rows])
        if not isinstance(rows, Counts):
            moved = moved_by_rounding(rows)
            rows = whole_counts(rows, self.rounding_key, first_row=first_row)
        rows = rows._replace(n_features=n_features)
        check_tokens(rows, first_row=first_row)
        return rows, moved

    def merge(self, left: TopicCounts, right: TopicCounts) -> TopicCounts:
        """Sum of counts; lists are in order of first occurrence in the rows."""
        return add_counts(left, right)

    def cut(self, statistics: TopicCounts, n: int) -> list[TopicCounts]:
        """Part i has the counts of the words i, i + n, i + 2 n and so on."""
        return cut_words(statistics, n)

    def join(self, parts: list[TopicCounts]) -> TopicCounts:
        """The inverse of `cut`."""
        return join_words(parts)

    def pack(self, value: Any) -> Any:
        """Counts, and topics made of counts, in three bytes per count."""
        return pack_travelling(value)

    def unpack(self, value: Any) -> Any:
        """The exact inverse of `pack`."""
        return unpack_travelling(value)


def _checked(block: Any) -> Any:
    """The rows of a block; sparse ones stay sparse."""
    return sp.csr_array(
        check_array(block, accept_sparse="csr", dtype=COUNT_TYPES, ensure_min_samples=0, input_name="X")
    )


def shard_tokens(
    X: Any, counts: Counts | None, builder: TokenShards, make_head: Callable[[int], Any], workers: Workers
) -> ShardedModel:
    """The model of a fit whose rows are in shards; `make_head` makes the model without rows for a number of columns."""
    shards = open_token_shards(X, counts, builder, workers)
    return ShardedModel(make_head(shards.n_features), shards)


def open_token_shards(X: Any, counts: Counts | None, builder: TokenShards, workers: Workers) -> Any:
    """The rows of a fit in shards; raises an error if there are no tokens.

    Parameters
    ----------
    X : object
        The X passed to `fit`.
    counts : Counts or None
        X, if it is in memory.
    builder : TokenShards
    workers : Workers
        Threads for the kernels of rows in this process.
    """
    shards = open_shards(builder, CountsSource(counts) if counts is not None else source_of(X), workers)
    if not shards.total("n_tokens"):
        raise ValueError(NO_TOKENS)
    if counts is None and not corpora_of(X):
        warn_of_fractions(
            shards.total("moved_by_rounding"), shards.total("n_tokens"), USE_COUNTS_OF_WORDS, stacklevel=7
        )
    return shards
