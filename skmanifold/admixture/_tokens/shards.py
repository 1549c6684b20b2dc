"""Fits whose rows of tokens are on disk, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_non_negative

from ...datasets._save_corpus import counts_of_documents
from ...emissions import BaseEmission
from ...inference._corpus_blocks import join_counts
from ...inference._distributed_fits.shards import open_shards
from ...inference._distributed_fits.sources import (
    CorpusRange,
    CountsSource,
    FileRange,
    check_same_width,
    corpora_of,
    reader,
    source_of,
    stacked,
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
from .._exponential_family.model import FamilyTokenModel, FamilyTokens
from .compact_counts import cut_words, join_words, pack_travelling, unpack_travelling
from .out_of_core import StorableTokens, StreamedTokens
from .seeds import NO_SEEDS, Seeds
from .topic_counts import TopicPrior, add_counts

NO_TOKENS = "X has no tokens: all counts are zero, or fractions that were rounded to zero."


class TokenShards:
    """A `ShardBuilder` of rows of counts; `rounding_key` is for fractional counts, `whom` for messages."""

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

    # Statistics are merged in the order of the rows, and divided by words; counts are sent in three bytes each.
    merge = staticmethod(add_counts)
    cut, join = staticmethod(cut_words), staticmethod(join_words)
    pack, unpack = staticmethod(pack_travelling), staticmethod(unpack_travelling)


def _checked(block: Any) -> Any:
    """The rows of a block; sparse ones stay sparse."""
    return sp.csr_array(
        check_array(block, accept_sparse="csr", dtype=COUNT_TYPES, ensure_min_samples=0, input_name="X")
    )


class RowSummary(NamedTuple):
    """What the distribution of the tokens depends on."""

    column_sums: np.ndarray  # (n_tokens,) int64
    row_sums: np.ndarray  # (n_rows,) int64

    def as_one_row(self) -> Counts:
        """The sums of the columns as counts of one row."""
        columns = np.flatnonzero(self.column_sums)
        indptr = np.array([0, len(columns)])
        return Counts(indptr, columns.astype(np.int32), self.column_sums[columns], len(self.column_sums))


class SummedTokenShards(TokenShards):
    """An `UnsettledShardBuilder`: the distribution of the tokens depends on the sums of rows and columns.

    Parameters
    ----------
    tokens_of : callable
        Function of a `RowSummary` of all rows that returns the distribution of the tokens; called by the client.
    doc_topic_prior : ndarray of shape (n_components,)
    rounding_key : uint64
    whom : str
    emission : BaseEmission or None
        What reads rows of files, corpora or blocks as tokens; None reads counts.
    """

    def __init__(
        self,
        tokens_of: Callable[[RowSummary], TopicPrior | FamilyTokens] | None,
        doc_topic_prior: np.ndarray,
        rounding_key: np.uint64,
        whom: str,
        emission: BaseEmission | None,
    ):
        super().__init__(doc_topic_prior, rounding_key, whom)
        self._tokens_of = tokens_of
        self.emission = emission

    def __reduce__(self) -> tuple:
        return type(self), (None, self.doc_topic_prior, self.rounding_key, self.whom, self.emission)

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """Counts, as in `TokenShards`, or rows for the emission, not validated."""
        if self.emission is None:
            return super().read(blocks)
        rows = stacked(blocks)
        return rows, *rows.shape

    def whole(self, rows: Any, first_row: int, n_features: int) -> tuple[Counts, float]:
        """Tokens in memory, and how much rounding has moved; a ValueError if the emission leaves fractions."""
        if self.emission is None:
            return super().whole(rows, first_row, n_features)
        counts = self.emission.read_tokens(reader(self.whom, {"n_features_in_": n_features}), rows, None, reset=False)
        if counts.counts.dtype.kind == "f":
            raise ValueError(f"Cells that are probabilities need X in memory in a fit of {self.whom}.")
        check_tokens(counts, first_row=first_row)
        return counts, 0.0

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Any, RowSummary]:
        """The tokens of the rows with what rounding has moved, and their sums."""
        counts, moved = self.whole(rows, first_row, n_features)
        column_sums = np.zeros(counts.n_features, np.int64)
        np.add.at(column_sums, counts.indices, counts.counts)
        return (counts, moved), RowSummary(column_sums, counts.row_sums())

    def settle(self, summaries: list[RowSummary]) -> SettledTokenShards:
        """The builder of models of these rows; a ValueError if there are no tokens."""
        column_sums, row_sums = zip(*summaries, strict=True)
        summary = RowSummary(np.sum(column_sums, axis=0), np.concatenate(row_sums))
        if not summary.row_sums.any():
            raise ValueError(NO_TOKENS)
        assert self._tokens_of is not None, "only the client settles"
        return SettledTokenShards(self._tokens_of(summary), self.doc_topic_prior, self.whom)


class SettledTokenShards(TokenShards):
    """`ShardBuilder` for tokens of a known distribution."""

    def __init__(self, tokens: TopicPrior | FamilyTokens, doc_topic_prior: np.ndarray, whom: str):
        super().__init__(doc_topic_prior, np.uint64(0), whom)
        self.family = None if isinstance(tokens, TopicPrior) else tokens.family

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> StorableTokens:
        """Make the model of the rows of one shard, from what `SummedTokenShards` has kept."""
        counts, moved = rows
        if self.family is None:
            model = StorableTokens(counts, self.doc_topic_prior, workers, first_row=first_row)
        else:
            model = _StorableFamilyTokens(counts, self.doc_topic_prior, self.family, workers, first_row=first_row)
        model.moved_by_rounding = moved
        return model


class _StorableFamilyTokens(StorableTokens, FamilyTokenModel):
    """Model of the rows of a shard."""


def open_token_shards(X: Any, counts: Counts | None, builder: TokenShards, workers: Workers) -> Any:
    """The rows of a fit in shards, with `counts` if X is in memory; raises an error if there are no tokens."""
    shards = open_shards(builder, CountsSource(counts) if counts is not None else source_of(X), workers)
    if not shards.total("n_tokens"):
        raise ValueError(NO_TOKENS)
    if counts is None and not corpora_of(X):
        warn_of_fractions(
            shards.total("moved_by_rounding"), shards.total("n_tokens"), USE_COUNTS_OF_WORDS, stacklevel=7
        )
    return shards
