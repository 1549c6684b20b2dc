"""Mixtures of exponential families whose rows are on the workers of a cluster."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ...emissions._abilities import HasParts, in_words, missing_members
from ...emissions._protocols import RowFamily
from ...inference._distributed_fits.open_shards import open_shards
from ...inference._distributed_fits.shards import ShardedModel
from ...numerics.block_sums import BLOCK_ROWS, BlockSums, merge
from ...utils._threads import Workers
from .model import FamilyModel


class FamilyShards:
    """How shards are made of rows: a `ShardBuilder`."""

    def __init__(self, family: RowFamily, weight_prior: float):
        self.family = family
        self.weight_prior = weight_prior

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The one block of rows that a shard is made of."""
        (rows,) = blocks  # by wire came arrays that cannot be written to, for which kernels would be compiled once more
        rows = rows._make(value.copy() if isinstance(value, np.ndarray) else value for value in rows)
        return rows, rows.n_rows, rows.n_features

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> FamilyModel:
        """A model of these rows; labels to begin with are the client's to give."""
        return FamilyModel(rows, first_row, self.weight_prior, self.family, _no_start, workers)

    def merge(self, left: BlockSums, right: BlockSums) -> BlockSums:
        """Sums over adjacent ranges of blocks."""
        return merge(left, right)


class BlockSource:
    """Rows in memory, cut where blocks end."""

    is_ragged = False

    def __init__(self, rows: Any):
        self.rows = rows

    def split(self, n_parts: int) -> list[list]:
        """One range of rows a part."""
        n_blocks = -(-self.rows.n_rows // BLOCK_ROWS)
        cuts = np.unique(np.linspace(0, n_blocks, n_parts + 1).astype(np.int64)) * BLOCK_ROWS
        return [[self.rows.part(start, stop)] for start, stop in pairwise(cuts)]


class ShardedMixture(ShardedModel):
    """A mixture whose rows are in shards, but for the start, which is of all rows and made here."""

    def init_latents(self, key: np.uint64) -> tuple[int, BlockSums]:
        """Statistics of the labels to begin with; latents stay with the rows."""
        return next(self._chains), self._head.init_latents(key)[1]

    init_rows = init_latents


def shard_mixture(model: FamilyModel) -> ShardedMixture:
    """The same model, its rows on the workers of the session."""
    lacks = missing_members(model.rows, [HasParts])
    if lacks:
        raise ValueError(
            f"Distributed fits need {in_words(lacks)}, which {type(model.rows).__name__}, the rows of the emission, do "
            "not offer: read X as DenseRows or LinearRows."
        )
    builder = FamilyShards(model.family, model.weight_prior)
    return ShardedMixture(model, open_shards(builder, BlockSource(model.rows), model.workers))


def _no_start(key: np.uint64) -> Any:
    raise RuntimeError("Shards have no labels to begin with.")
