"""Mixtures of exponential families whose rows are in shards, which this process sends or which workers read."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...emissions._base import BaseEmission, NoModeError
from ...emissions._dense_rows import DenseRows, IncompleteRows
from ...emissions._estimator import in_words
from ...emissions._linear_rows import LinearRows
from ...emissions._protocols import HasParts, RowFamily
from ...inference._distributed_fits.dask_shards import open_shards
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import reader, stacked
from ...numerics.block_sums import BLOCK_ROWS, BlockSums, cut, join, merge
from ...random._keys import Purpose, fold_in_each, subkey
from ...utils._inputs.sparse_structure import join_rows
from ...utils._parameters import missing_names
from ...utils._threads import Workers, split_range
from .._memberships import Position
from .._scores import FamilyRows, label_rows, typical_rows
from .model import FamilyModel, RowWeights

SAMPLE_ROWS = 16_384  # read by this process, for initial labels and priors
_CELLS = 1 << 20  # examined at once
_ROWS = 1 << 16  # labelled at once


@dataclass
class FamilyShards:
    """A `ShardBuilder` that builds models of ranges of rows."""

    family: RowFamily
    weight_prior: float

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The rows of a shard, which has a single block, and their weights."""
        ((rows, weights),) = blocks  # received arrays are read-only, and numba would compile the kernels again for them
        rows = deepcopy(rows)
        return (rows, weights), rows.n_rows, rows.n_features

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> FamilyModel:
        """A model of these weighted rows; the client provides the initial labels."""
        rows, weights = rows
        return FamilyModel(rows, first_row, self.weight_prior, self.family, no_start, workers, row_weights=weights)

    merge, cut, join = staticmethod(merge), staticmethod(cut), staticmethod(join)


class BlockSource(NamedTuple):
    """Rows in memory and their weights, divided at the ends of blocks."""

    rows: Any
    weights: RowWeights | None
    is_ragged: bool = False

    def split(self, n_parts: int) -> list[list]:
        """Divide the rows into `n_parts` ranges, each with its weights or None."""
        n_blocks = -(-self.rows.n_rows // BLOCK_ROWS)
        cuts, weights = np.unique(np.linspace(0, n_blocks, n_parts + 1).astype(np.int64)) * BLOCK_ROWS, self.weights
        return [
            [(self.rows.part(a, b), weights and weights._replace(values=weights.values[a:b]))]
            for a, b in pairwise(cuts)
        ]


class ShardedMixture(ShardedModel):
    """A mixture whose rows are in shards; the client has all or some of them, and computes their initial labels."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all rows; those that the client does not have weigh 1."""
        return self.head.total_weight if self.head.n_rows == self.n_rows else float(self.n_rows)

    def init_latents(self, key: np.uint64) -> tuple[int, BlockSums]:
        """Statistics of the initial labels of all rows: those of some, or drawn given the parameters that fit these."""
        chain, statistics = next(self._chains), self.head.init_latents(key)[1]
        if self.head.n_rows == self.n_rows:  # the labels stay on the client: no draw depends on them
            return chain, statistics
        try:
            position = self.head.mode(statistics)
        except NoModeError:
            if not self.head.family_offers("draw"):
                raise
            position = self.head.draw(statistics, subkey(key, Purpose.DRAW))
        return chain, self.shards.call("sample_latents", chain, position, subkey(key, Purpose.LABELS))[0]

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


class LabelledRows(NamedTuple):
    """The most probable components of rows, and the typical rows of components."""

    labels: np.ndarray  # (n_rows,) int32
    typical_rows: np.ndarray  # (K,) int64; -1 if no row has the label
    log_density: np.ndarray  # (K,), of the typical rows in their components

    def better(self, other: LabelledRows) -> LabelledRows:
        """These labels, and the typical rows of both; of equal ones those of `self`, which are earlier."""
        is_other = other.log_density > self.log_density
        rows = np.where(is_other, other.typical_rows, self.typical_rows)
        return LabelledRows(self.labels, rows, np.maximum(self.log_density, other.log_density))


class RowSample(NamedTuple):
    """Some of the rows that are not in this process, and what they have in common with all others."""

    rows: Any  # (n, n_features), not validated
    n_all_rows: int
    has_missing: bool
    has_fractions: bool

    def typed(self, rows: Any) -> Any:
        """Validated rows of the type that they have if all rows are read together."""
        if self.has_missing and isinstance(rows, DenseRows):
            return IncompleteRows.of_values(rows.values)
        if self.has_fractions and isinstance(rows, LinearRows):
            return rows._replace(counts=rows.counts.astype(np.float64))
        return rows


@dataclass
class StoredFamilyShards(FamilyShards):
    """A `ShardBuilder` for rows that workers read: `emission` has `stored` attributes in the estimator `whom`."""

    sample: RowSample
    emission: BaseEmission
    stored: dict[str, Any]
    whom: str

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> FamilyModel:
        """A model of these rows, which are validated."""
        read = self.sample.typed(self.emission.read(reader(self.whom, self.stored), rows, reset=False))
        return FamilyModel(read, first_row, self.weight_prior, self.family, no_start, workers)

    def label_rows(self, model: FamilyModel, position: Position) -> LabelledRows:
        """The most probable component of each row, and the typical rows."""
        K = model.n_components
        found = LabelledRows(np.empty(model.n_rows, np.int32), np.full(K, -1), np.full(K, -np.inf))
        for start, stop in split_range(model.n_rows, _ROWS):
            part = FamilyRows(model.family, model.rows.part(start, stop))
            labels, of_own = label_rows(position, part, K, model.workers)
            rows = typical_rows(of_own, labels, K)
            of_rows = np.where(rows < 0, -np.inf, of_own[rows])
            found.labels[start:stop] = labels
            found = found.better(LabelledRows(labels, rows + model.first_row + start, of_rows))
        return found


@dataclass
class SampledFamilyShards:
    """A `SummarizingShardBuilder` that sends rows chosen by `key` to the client; `build_by` returns the builder."""

    build_by: Callable[[RowSample], StoredFamilyShards] | None
    key: np.uint64

    def __reduce__(self) -> tuple:
        return type(self), (None, self.key)

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """Rows of files, corpora or blocks as one array or matrix, not validated."""
        rows = stacked(blocks)
        return rows, *rows.shape

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Any, RowSample]:
        """The rows, and those of them that the client needs."""
        chosen = sampled_rows(n_all_rows, self.key) - first_row
        chosen = chosen[(chosen >= 0) & (chosen < rows.shape[0])]
        cells = np.ravel(rows.data if sp.issparse(rows) else rows)
        is_real = cells.dtype.kind == "f"
        pieces = [cells[start:stop] for start, stop in split_range(len(cells), _CELLS)] if is_real else []
        has_missing = any(np.isnan(piece).any() for piece in pieces)
        has_fractions = any((np.nan_to_num(piece) % 1.0).any() for piece in pieces)
        return rows, RowSample(rows[chosen], n_all_rows, has_missing, has_fractions)

    def builder_of(self, summaries: list[RowSample]) -> StoredFamilyShards:
        """The builder of models of these rows."""
        rows, n_all_rows, missing, fractions = zip(*summaries, strict=True)
        assert self.build_by is not None, "only the client knows this function"
        return self.build_by(RowSample(join_rows(rows), n_all_rows[0], any(missing), any(fractions)))


def sampled_rows(n_rows: int, key: np.uint64) -> np.ndarray:
    """Sorted indices of all rows if there are few, or of one row from each of `SAMPLE_ROWS` ranges of equal length."""
    n = min(SAMPLE_ROWS, n_rows)
    ends = np.arange(n + 1) * n_rows // n
    places = fold_in_each(key, np.arange(n)) % np.diff(ends).astype(np.uint64)
    return ends[:-1] + places.astype(np.int64)


def no_start(key: np.uint64, number: int) -> Any:
    raise RuntimeError("Shards have no initial labels.")
