"""Base class of families of independent features, some of whose cells may be missing: binary rows and counts."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..utils._conditions import MOST_COUNTED, Array
from ..utils._declared import holds
from ..utils._threads import Workers, split_by_task, split_range
from ._clusters.base import Clusters
from ._statistics import occupied
from ._linear import LinearFamily
from ._linear_kernels import FeatureGroups, LinearPosterior, add_linear_scores
from ._linear_rows import LinearRows
from ._protocols import Arrays
from ._seeds import seed_clusters

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


class FeatureFamily(LinearFamily, Clusters):
    """Base class of families of binary rows and of counts, whose statistics are followed by those of missing cells.

    Statistics are a `LinearCounts`, or a tuple of the same arrays with float64 numbers. The parameters of a drawn or
    estimated component are a `LinearParameters`, with `means` of each feature. `clusters` returns the family with
    `rows` and with `data`, which the kernels read; these rows have whole cells.
    """

    bounds_of_means = 0.0, np.inf
    draw_features: ClassVar[Any]  # kernel that draws the natural parameters of some features
    log_marginal_of_label: ClassVar[Any]  # kernel
    rows_per_feature: ClassVar[int]  # of a minibatch, times the entries of a row plus 12

    rows: LinearRows
    log_base: np.ndarray | None  # what does not depend on the parameters of components

    if TYPE_CHECKING:

        def mode(self, statistics: Arrays) -> Any: ...

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_components, self.n_statistics)

    def _arranged(self, sizes: np.ndarray, sums: np.ndarray) -> Arrays:
        """Statistics with the other order of the axes of the sums."""
        return sizes, sums.T

    def observed(self, statistics: Arrays) -> np.ndarray:
        """Numbers of observed cells, (K, n_features)."""
        return super().observed(self._arranged(*statistics)).T

    def n_parameters(self) -> int:
        """Number of free parameters: one for each feature of each component."""
        return self.n_components * self.n_features

    # Posterior

    def _prior(self) -> tuple[np.ndarray, ...]:
        """Hyperparameters, (n_features,) each, that `draw_features` reads."""
        raise NotImplementedError

    def _posterior(self, statistics: Arrays, columns: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the posterior distributions of some features, (K, n_columns) each."""
        raise NotImplementedError

    def _by_feature(self, statistics: Arrays) -> tuple[np.ndarray, ...]:
        """Parameters of the posterior distributions, (n_features, K), with the components contiguous in memory."""
        return tuple(np.ascontiguousarray(array.T) for array in self._posterior(statistics))

    def _drawn(self, naturals: np.ndarray) -> Any:
        """The parameters with these natural parameters, which `draw_features` has drawn."""
        raise NotImplementedError

    def draw(self, statistics: Arrays, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given statistics."""
        return self.draw_components(statistics, np.arange(len(statistics[0])), key, Workers(1))

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components."""
        return self._drawn(self._draw_naturals(statistics, labels, self._prior(), key, workers))

    def _draw_naturals(
        self, statistics: Arrays, labels: np.ndarray, prior: tuple, key: np.uint64, workers: Workers
    ) -> np.ndarray:
        """Natural parameters, (n_statistics, K), drawn from their posterior given the statistics of labels."""
        naturals = np.empty((self.n_statistics, len(labels)))
        arguments = *prior, *map(np.ascontiguousarray, statistics), labels, key, naturals
        tasks = split_by_task(np.arange(self.n_features) * len(labels) // _DRAWS_OF_TASK)
        workers.run(type(self).draw_features, [(first, stop, *arguments) for first, stop in tasks])
        return naturals

    def expected(self, statistics: Any) -> dict[str, Any]:
        """Posterior means, which are the means at the mode, as fitted attributes."""
        return self.attributes(self.mode(statistics))

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn means, (K, n_features)."""
        return {"components": components.means.T}

    def drawn_attributes(self, components: Any) -> dict[str, Any]:
        """Drawn parameters as fitted attributes."""
        return self.attributes(components)

    # Rows

    def clusters(self, rows: LinearRows | None = None) -> Any:
        """The family together with rows, as Dirichlet process mixtures use it."""
        return self._bound(LinearRows.none(self.n_features) if rows is None else rows)

    def _bound(self, rows: LinearRows) -> Any:
        bound = copy(self)
        bound.rows, bound.n_rows, bound.data, bound.log_base = rows, rows.n_rows, self._data_of(rows), rows.log_base
        return bound

    def _data_of(self, rows: LinearRows) -> Any:
        """Rows and prior, as the kernels read them."""
        raise NotImplementedError

    def part(self, start: int, stop: int) -> Any:
        """The family with some of the rows."""
        return self._bound(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> Any:
        """The family with the rows with these indices."""
        return self._bound(self.rows.take(rows))

    def no_statistics(self, capacity: int) -> LinearCounts:
        """Sums over no rows."""
        return LinearCounts(np.zeros(capacity, np.int64), np.zeros((capacity, self.n_statistics), np.int64))

    def new_posterior(self, capacity: int, statistics: LinearCounts, key: np.uint64) -> LinearPosterior:
        """Space for the posteriors of labels, and for the columns of two sides."""
        n, sizes = self.n_statistics, self.data.groups.sizes
        present = np.zeros(n, bool), np.empty(n, np.int64), np.zeros(1, np.int64), sizes.copy()
        return LinearPosterior(np.full(capacity, np.nan), np.zeros((2, len(sizes)), np.int64), *present)

    def log_marginal(self, statistics: LinearCounts) -> float:
        """Log density of all rows given their labels."""
        kernel, (sizes, sums) = type(self).log_marginal_of_label, statistics
        log_base = 0.0 if self.log_base is None else float(self.log_base.sum())
        return float(sum(kernel(self.data, sizes[label], sums[label]) for label in occupied(statistics))) + log_base

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        self._add(add_linear_scores, components[:2], out, workers)

    def _add(self, kernel: Any, tables: tuple, out: np.ndarray, workers: Workers) -> None:
        """Add log densities that `kernel` computes from `tables`."""
        tasks = split_range(len(out), max(1, _CELLS_OF_TASK // max(1, out.shape[1])))
        workers.run(kernel, [(a, b, *self.rows[:3], *tables, out[a:b]) for a, b in tasks])
        if self.log_base is not None:
            out += self.log_base[:, None]

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 16.0 * self.n_statistics * n_components

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        entries_of_row = len(self.rows.indices) / self.n_rows
        return int(self.rows_per_feature * self.n_features / (entries_of_row + 12))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds among the rows."""
        return seed_clusters(self, self.rows, n_clusters, key)


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
