"""Clusters of rows whose log densities are linear in sparse statistics: binary rows and counts."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from ....utils._conditions import MOST_COUNTED, Array
from ....utils._declared import holds
from ....utils._threads import Workers, split_by_task, split_range
from ..._linear import add_linear_scores
from ..._linear_rows import LinearRows
from ..base import Clusters
from ..statistics import occupied
from .kernels import FeatureGroups, LinearPosterior
from .seeds import seed_labels

_DRAWS_OF_TASK = 10_000  # some milliseconds
_CELLS_OF_TASK = 20_000  # some milliseconds with a few entries per row


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    sums=Array("int64", ("capacity", None), low=0),
)
class LinearCounts(NamedTuple):
    """Sums of the statistics of rows by label."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    sums: np.ndarray  # (capacity, n_statistics) int64: sums of the features, and numbers of missing cells

    @property
    def label_axes(self) -> tuple[int, int]:
        """Axis of the labels in each array."""
        return 0, 0


@holds(
    offsets=Array("float64", ("n_clusters",)),
    naturals=Array("float64", (None, "n_clusters")),
)
class LinearComponents(NamedTuple):
    """Drawn parameters: a row's log density is the offset plus its statistics times the natural parameters."""

    offsets: np.ndarray  # (K,)
    naturals: np.ndarray  # (n_statistics, K): of the features, and of missing cells


class LinearClusters(Clusters):
    """Base class of binary rows and of counts, some of whose cells may be missing.

    Parameters
    ----------
    family : LinearFamily
        The prior.
    rows : LinearRows
        Rows, with whole counts.
    data : NamedTuple
        Rows and prior, as the kernels read them, with `groups`.
    """

    draw_features: ClassVar[Any]  # kernel that draws the natural parameters of some features
    log_marginal_of_label: ClassVar[Any]  # kernel
    rows_per_feature: ClassVar[int]  # of a minibatch, times the entries of a row plus 12

    def __init__(self, family: Any, rows: LinearRows, data: Any) -> None:
        super().__init__(data, rows.n_rows)
        self.family = family
        self.rows = rows
        self.log_base = rows.log_base  # what does not depend on the parameters of components

    def no_statistics(self, capacity: int) -> LinearCounts:
        """Sums over no rows."""
        return LinearCounts(np.zeros(capacity, np.int64), np.zeros((capacity, self.family.n_statistics), np.int64))

    def new_posterior(self, capacity: int, statistics: LinearCounts, key: np.uint64) -> LinearPosterior:
        """Space for the posteriors of labels, and for the columns of two sides."""
        n, sizes = self.family.n_statistics, self.data.groups.sizes
        present = np.zeros(n, bool), np.empty(n, np.int64), np.zeros(1, np.int64), sizes.copy()
        return LinearPosterior(np.full(capacity, np.nan), np.zeros((2, len(sizes)), np.int64), *present)

    def draw_components(
        self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> LinearComponents:
        """Draw natural parameters of the components."""
        n_features = self.family.n_features
        naturals = np.empty((self.family.n_statistics, len(labels)))
        arguments = self.data, *statistics, labels, key, naturals
        tasks = split_by_task(np.arange(n_features) * len(labels) // _DRAWS_OF_TASK)
        workers.run(type(self).draw_features, [(first, stop, *arguments) for first, stop in tasks])
        return LinearComponents(-naturals[n_features:].sum(axis=0), naturals)

    def log_marginal(self, statistics: LinearCounts) -> float:
        """Log density of all rows given their labels."""
        kernel, (sizes, sums) = type(self).log_marginal_of_label, statistics
        log_base = 0.0 if self.log_base is None else float(self.log_base.sum())
        return float(sum(kernel(self.data, sizes[label], sums[label]) for label in occupied(statistics))) + log_base

    def add_densities_of_rows(self, components: LinearComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        self._add(add_linear_scores, components, out, workers)

    def _add(self, kernel: Any, tables: tuple, out: np.ndarray, workers: Workers) -> None:
        """Add log densities that `kernel` computes from `tables`."""
        tasks = split_range(len(out), max(1, _CELLS_OF_TASK // max(1, out.shape[1])))
        workers.run(kernel, [(a, b, *self.rows[:3], *tables, out[a:b]) for a, b in tasks])
        if self.log_base is not None:
            out += self.log_base[:, None]

    def part(self, start: int, stop: int) -> LinearClusters:
        """The clusters of some of the rows."""
        return self._of(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> LinearClusters:
        """The clusters of the rows with these indices."""
        return self._of(self.rows.take(rows))

    def _of(self, rows: LinearRows) -> LinearClusters:
        """The same prior with other rows."""
        return type(self)(self.family, rows)  # type: ignore[call-arg]

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 16.0 * self.family.n_statistics * n_components

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        entries_of_row = len(self.rows.indices) / self.n_rows
        return int(self.rows_per_feature * self.family.n_features / (entries_of_row + 12))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds among the rows."""
        return seed_labels(self.family, self.rows, n_clusters, key)

    def observed(self, statistics: LinearCounts) -> np.ndarray:
        """Numbers of observed cells, (capacity, n_features)."""
        return statistics.sizes[:, None] - statistics.sums[:, self.family.n_features :]


def group_features(rows: LinearRows, *priors: np.ndarray) -> FeatureGroups:
    """The groups of features with equal priors, and each feature with missing cells by itself.

    Parameters
    ----------
    rows : LinearRows
    *priors : (n_features,)
        Parameters of the prior.
    """
    n = rows.n_features
    is_missing = np.zeros(2 * n, bool)
    is_missing[rows.indices] = True
    own = np.where(is_missing[n:], np.arange(1.0, n + 1.0), 0.0)
    _, first, of_feature, sizes = np.unique(
        np.stack([own, *priors]), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return FeatureGroups(of_feature.reshape(-1).astype(np.int64), first.astype(np.int64), sizes.astype(np.int64))


def refuse_fractions(rows: LinearRows, emission: str, values: str) -> None:
    """Raise a ValueError if a count is a fraction.

    Parameters
    ----------
    rows : LinearRows
    emission : str
        Name of the emission.
    values : str
        What the cells should be.
    """
    if rows.counts.dtype.kind != "f":
        return
    entry = int((rows.counts % 1 != 0).argmax())
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    raise ValueError(
        f"A Dirichlet process mixture with emission={emission!r} takes {values}, but X has {rows.counts[entry]} in row "
        f"{row}, column {rows.indices[entry]}: round them, or use ExponentialFamilyMixture."
    )
