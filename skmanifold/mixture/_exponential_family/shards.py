"""Mixtures of exponential families whose rows are in shards."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np

from ...emissions._abilities import HasParts
from ...emissions._estimator import in_words
from ...emissions._protocols import RowFamily
from ...inference._distributed_fits.open_shards import open_shards
from ...inference._distributed_fits.shards import ShardedModel
from ...numerics.block_sums import BLOCK_ROWS, BlockSums, cut, join, merge
from ...utils._protocol_check import missing_names
from ...utils._threads import Workers
from .model import FamilyModel
from .row_weights import RowWeights


class FamilyShards:
    """A `ShardBuilder` that builds models of ranges of rows."""

    def __init__(self, family: RowFamily, weight_prior: float):
        self.family = family
        self.weight_prior = weight_prior

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The rows of a shard, which has a single block, and their weights."""
        ((rows, weights),) = blocks  # received arrays are read-only, and numba would compile the kernels again for them
        rows = deepcopy(rows)
        return (rows, weights), rows.n_rows, rows.n_features

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> FamilyModel:
        """A model of these weighted rows; the client provides the initial labels."""
        rows, weights = rows
        return FamilyModel(rows, first_row, self.weight_prior, self.family, no_start, workers, row_weights=weights)

    def merge(self, left: BlockSums, right: BlockSums) -> BlockSums:
        """Sums over adjacent ranges of blocks."""
        return merge(left, right)

    def cut(self, statistics: BlockSums, n: int) -> list[BlockSums]:
        """Divide the sums by component."""
        return cut(statistics, n)

    def join(self, parts: list[BlockSums]) -> BlockSums:
        """The inverse of `cut`."""
        return join(parts)


class BlockSource:
    """Rows in memory and their weights, divided at the ends of blocks."""

    is_ragged = False

    def __init__(self, rows: Any, weights: RowWeights | None):
        self.rows = rows
        self.weights = weights

    def split(self, n_parts: int) -> list[list]:
        """Divide the rows into `n_parts` ranges, each with its weights or None."""
        n_blocks = -(-self.rows.n_rows // BLOCK_ROWS)
        cuts = np.unique(np.linspace(0, n_blocks, n_parts + 1).astype(np.int64)) * BLOCK_ROWS
        return [[(self.rows.part(*ends), self.weights and self.weights.part(*ends))] for ends in pairwise(cuts)]


class ShardedMixture(ShardedModel):
    """A mixture whose rows are in shards; the client computes the initial labels of all rows."""

    def init_latents(self, key: np.uint64) -> tuple[int, BlockSums]:
        """Statistics of the initial labels; the labels stay on the workers."""
        return next(self._chains), self._head.init_latents(key)[1]

    init_rows = init_latents


def shard_mixture(model: FamilyModel) -> ShardedMixture:
    """The same model, its rows on the workers of the session."""
    check_parts(model.rows)
    builder = FamilyShards(model.family, model.weights.prior)
    return ShardedMixture(model, open_shards(builder, BlockSource(model.rows, model.row_weights), model.workers))


def check_parts(rows: Any) -> None:
    """Raise a ValueError unless these rows can be in shards."""
    lacks = missing_names(rows, HasParts)
    if lacks:
        raise ValueError(
            f"Distributed fits need {in_words(lacks)}, which {type(rows).__name__}, the rows of the emission, do not "
            "offer: read X as DenseRows or LinearRows."
        )


def no_start(key: np.uint64) -> Any:
    raise RuntimeError("Shards have no initial labels.")
