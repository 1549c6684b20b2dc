"""Mixtures of exponential families whose rows this process does not read, except a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...emissions._base import BaseEmission, NoModeError
from ...emissions._dense_rows import DenseRows, IncompleteRows
from ...emissions._linear_rows import LinearRows
from ...emissions._protocols import RowFamily
from ...inference._distributed_fits.open_shards import open_shards
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import reader, source_of, stacked
from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...random._keys import Purpose, fold_in_each, subkey
from ...utils._inputs.sparse_structure import join_rows
from ...utils._threads import Workers, split_range
from .._densities import FamilyRows, label_rows, typical_rows
from .._memberships.finite import Position
from .model import FamilyModel
from .shards import FamilyShards, no_start

SAMPLE_ROWS = 16_384  # read by this process, for initial labels and priors
_CELLS = 1 << 20  # examined at once
_ROWS = 1 << 16  # labelled at once


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


class StoredFamilyShards(FamilyShards):
    """A `ShardBuilder` for rows that the workers read.

    Parameters
    ----------
    family, weight_prior : RowFamily, float
    sample : RowSample
        Without rows.
    emission : BaseEmission
        What reads rows.
    stored : dict of str to object
        What it has stored in the estimator.
    whom : str
        The estimator's name, for messages.
    """

    def __init__(
        self,
        family: RowFamily,
        weight_prior: float,
        sample: RowSample,
        emission: BaseEmission,
        stored: dict[str, Any],
        whom: str,
    ):
        super().__init__(family, weight_prior)
        self.sample = sample
        self.emission = emission
        self.stored = stored
        self.whom = whom

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


class UnsettledFamilyShards:
    """An `UnsettledShardBuilder` that sends some of the rows to the client.

    Parameters
    ----------
    settle_by : callable
        Function of a `RowSample` that returns the builder of the models; called by the client.
    key : uint64
        For the choice of the rows.
    """

    def __init__(self, settle_by: Callable[[RowSample], StoredFamilyShards] | None, key: np.uint64):
        self._settle_by = settle_by
        self.key = key

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

    def settle(self, summaries: list[RowSample]) -> StoredFamilyShards:
        """The builder of models of these rows."""
        rows, n_all_rows, missing, fractions = zip(*summaries, strict=True)
        assert self._settle_by is not None, "only the client settles"
        return self._settle_by(RowSample(join_rows(rows), n_all_rows[0], any(missing), any(fractions)))


def sampled_rows(n_rows: int, key: np.uint64) -> np.ndarray:
    """Sorted indices of all rows if there are few, or of one row from each of `SAMPLE_ROWS` ranges of equal length."""
    n = min(SAMPLE_ROWS, n_rows)
    ends = np.arange(n + 1) * n_rows // n
    places = fold_in_each(key, np.arange(n)) % np.diff(ends).astype(np.uint64)
    return ends[:-1] + places.astype(np.int64)


class StoredMixture(ShardedModel):
    """A mixture whose rows are in shards; the client has some of them, and computes their initial labels."""

    @property
    def total_weight(self) -> float:
        """Number of rows."""
        return float(self.n_rows)

    def init_latents(self, key: np.uint64) -> tuple[int, BlockSums]:
        """Statistics of the initial labels of all rows: those of some, or drawn given the parameters that fit these."""
        chain, statistics = next(self._chains), self._head.init_latents(key)[1]
        if self._head.n_rows == self.n_rows:
            return chain, statistics
        try:
            position = self._head.mode(statistics)
        except NoModeError:
            if not self._head.family_offers("draw"):
                raise
            position = self._head.draw(statistics, subkey(key, Purpose.DRAW))
        return chain, self.shards.call("sample_latents", chain, position, subkey(key, Purpose.LABELS))[0]

    init_rows = init_latents


def shard_stored_rows(builder: UnsettledFamilyShards, X: Any, workers: Workers) -> Any:
    """Shards of rows that this process does not read."""
    return open_shards(builder, source_of(X, BLOCK_ROWS), workers)
