"""Model of an admixture of an exponential family whose rows are in shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...emissions import BaseEmission
from ...inference._distributed_fits.shards import ShardedModel, open_shards
from ...inference._distributed_fits.sources import CountsSource, reader, source_of, stacked
from ...sparse.counts import Counts, check_tokens, no_rows
from ...utils._threads import Workers
from .._tokens.latent_storage import StorableTokens
from .._tokens.shards import NO_TOKENS, TokenShards
from .token_laws import DirichletTokens, FamilyTokens


class FamilyTokenShards(TokenShards):
    """`ShardBuilder` for rows of tokens of an exponential family."""

    def __init__(self, tokens: FamilyTokens | DirichletTokens, doc_topic_prior: np.ndarray, whom: str):
        super().__init__(doc_topic_prior, np.uint64(0), whom)
        self.tokens = tokens

    def build(self, rows: Counts, first_row: int, n_features: int, workers: Workers) -> StorableTokens:
        """Make the model of the rows of one shard."""
        return self.tokens.shard(rows, self.doc_topic_prior, workers, first_row)


class RowSummary(NamedTuple):
    """What the distribution of the tokens depends on."""

    column_sums: np.ndarray  # (n_features,) int64
    row_sums: np.ndarray  # (n_rows,) int64
    moved_by_rounding: float

    def as_one_row(self) -> Counts:
        """The sums of the columns as counts of one row."""
        columns = np.flatnonzero(self.column_sums)
        indptr = np.array([0, len(columns)])
        return Counts(indptr, columns.astype(np.int32), self.column_sums[columns], len(self.column_sums))


class UnsettledTokenShards(TokenShards):
    """An `UnsettledShardBuilder` for rows that the client does not have, by the sums of their rows and columns.

    Parameters
    ----------
    tokens_of : callable
        Function of a `RowSummary` of all rows that returns the distribution of the tokens; called by the client.
    doc_topic_prior : ndarray of shape (n_components,)
    rounding_key : uint64
    whom : str
    """

    tokens_of_column = 1

    def __init__(
        self,
        tokens_of: Callable[[RowSummary], FamilyTokens | DirichletTokens] | None,
        doc_topic_prior: np.ndarray,
        rounding_key: np.uint64,
        whom: str,
    ):
        super().__init__(doc_topic_prior, rounding_key, whom)
        self._tokens_of = tokens_of

    def __reduce__(self) -> tuple:
        return type(self), (None, self.doc_topic_prior, self.rounding_key, self.whom)

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Counts, RowSummary]:
        """The rows as whole counts, and their sums."""
        return self.summed(*self.whole(rows, first_row, n_features))

    def summed(self, counts: Counts, moved: float) -> tuple[Counts, RowSummary]:
        """Whole counts and their sums."""
        column_sums = np.zeros(counts.n_features, np.int64)
        np.add.at(column_sums, counts.indices, counts.counts)
        return counts, RowSummary(column_sums, counts.row_sums(), moved)

    def settle(self, summaries: list[RowSummary]) -> FamilyTokenShards:
        """The builder of models of these rows; a ValueError if there are no tokens."""
        column_sums, row_sums, moved = zip(*summaries, strict=True)
        summary = RowSummary(np.sum(column_sums, axis=0), np.concatenate(row_sums), sum(moved))
        if not summary.row_sums.any():
            raise ValueError(NO_TOKENS)
        assert self._tokens_of is not None, "only the client settles"
        return FamilyTokenShards(self._tokens_of(summary), self.doc_topic_prior, self.whom)


class ReadTokenShards(UnsettledTokenShards):
    """The same for an emission that reads tokens in its own way, as "bernoulli" does.

    Parameters
    ----------
    tokens_of, doc_topic_prior, rounding_key, whom : object
        As in `UnsettledTokenShards`.
    emission : BaseEmission
        What reads the rows.
    """

    def __init__(
        self, tokens_of: Any, doc_topic_prior: Any, rounding_key: np.uint64, whom: str, emission: BaseEmission
    ):
        super().__init__(tokens_of, doc_topic_prior, rounding_key, whom)
        self.emission = emission
        self.tokens_of_column = emission.tokens_of_column

    def __reduce__(self) -> tuple:
        return type(self), (None, self.doc_topic_prior, self.rounding_key, self.whom, self.emission)

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """Rows of files, corpora or blocks as one array or matrix, not validated."""
        rows = stacked(blocks)
        return rows, *rows.shape

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Counts, RowSummary]:
        """The tokens of the rows, and their sums; a ValueError if they are not whole."""
        counts = self.emission.read_tokens(reader(self.whom, {"n_features_in_": n_features}), rows, None, reset=False)
        if counts.counts.dtype.kind == "f":
            raise ValueError(f"Cells that are probabilities need X in memory in a fit of {self.whom}.")
        check_tokens(counts, first_row=first_row)
        return self.summed(counts, 0.0)


def shard_admixture(
    tokens: FamilyTokens | DirichletTokens, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers, whom: str
) -> ShardedModel:
    """Make the model of a fit whose rows are sent to the workers of the session."""
    builder = FamilyTokenShards(tokens, doc_topic_prior, whom)
    shards = open_shards(builder, CountsSource(counts), workers)
    return ShardedModel(tokens.model(no_rows(counts.n_features), doc_topic_prior, workers), shards)


def shard_elsewhere(builder: UnsettledTokenShards, X: Any, workers: Workers) -> ShardedModel:
    """Make the model of a fit whose rows this process does not read."""
    shards: Any = open_shards(builder, source_of(X), workers)
    n_tokens = shards.n_features * builder.tokens_of_column
    head = shards.builder.tokens.model(no_rows(n_tokens), builder.doc_topic_prior, workers)
    return ShardedModel(head, shards)
