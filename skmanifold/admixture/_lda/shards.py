"""Latent Dirichlet allocation of documents that are on disk, or on the workers of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import corpora_of
from ...models import IncompatibleError, LatentModel, check_compatible
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...sparse.counts import Counts, no_rows
from ...utils._threads import Workers
from .._tokens.shards import TokenShards, shard_tokens
from .._tokens.topic_counts import TopicPrior
from .model import LDAModel


def shard_corpus(
    lda: Any, X: Any, counts: Counts | None, sampler: BaseSampler, key: np.uint64, workers: Workers
) -> ShardedModel:
    """The model of a fit of `lda` whose documents are in shards; sets its number of features if X is not in memory."""
    if any(lda._auto()):
        raise ValueError("'auto' priors need all documents in this process's memory: give numbers.")
    alpha = lda._alpha()
    without_rows = LDAModel(no_rows(0), alpha, TopicPrior(1.0, lda.n_components, 0), workers)
    check_compatible(sampler, ShardedModel(without_rows, None), lda._samplers.values())  # before rows travel
    if corpora_of(X) and LatentModel not in sampler.requires:
        raise IncompatibleError(
            f"{type(sampler).__name__} needs documents in memory or in Dask: a Corpus on disk streams for 'esca' only."
        )
    builder = TokenShards(alpha, subkey(key, Purpose.ROUNDING), type(lda).__name__)

    def head(n_features: int) -> LDAModel:
        alpha, topic_prior = lda._priors(n_features)
        return LDAModel(no_rows(n_features), alpha, topic_prior, workers)

    model = shard_tokens(X, counts, builder, head, workers)
    if counts is None:
        lda.__dict__.pop("feature_names_in_", None)
        lda.n_features_in_ = model.shards.n_features
    return model
