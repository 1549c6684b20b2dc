"""Model of an admixture of an exponential family whose rows are on the workers of a cluster."""

from __future__ import annotations

import numpy as np

from ...inference._distributed_fits.open_shards import open_shards
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import CountsSource
from ...sparse.counts import Counts, no_rows
from ...utils._threads import Workers
from .._tokens.latent_storage import StorableTokens
from .._tokens.shards import TokenShards
from .token_laws import DirichletTokens, FamilyTokens


class FamilyTokenShards(TokenShards):
    """`ShardBuilder` for rows of tokens of an exponential family."""

    def __init__(self, tokens: FamilyTokens | DirichletTokens, doc_topic_prior: np.ndarray, whom: str):
        super().__init__(doc_topic_prior, np.uint64(0), whom)
        self.tokens = tokens

    def build(self, rows: Counts, first_row: int, n_features: int, workers: Workers) -> StorableTokens:
        """Make the model of the rows of one shard."""
        return self.tokens.shard(rows, self.doc_topic_prior, workers, first_row)


def shard_admixture(
    tokens: FamilyTokens | DirichletTokens, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers, whom: str
) -> ShardedModel:
    """Make the model of a fit whose rows are sent to the workers of the session."""
    builder = FamilyTokenShards(tokens, doc_topic_prior, whom)
    shards = open_shards(builder, CountsSource(counts), workers)
    return ShardedModel(tokens.model(no_rows(counts.n_features), doc_topic_prior, workers), shards)
