"""The posterior of a Dirichlet process mixture of affine subspaces, with the updates that `Slice` uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...emissions._statistics import by_size, occupied
from ...random._keys import Purpose, fold_in, subkey
from ...random._variates import open_uniform
from ...utils._njit import njit
from .._dirichlet_process.model import DPModel
from .._memberships import DirichletWeights, Position, log_partition_prior
from .family import Subspaces
from .frame_kernels import sum_of_squares
from .model import IncompleteSubspaceModel, SubspaceModel
from .split_merge import SplitMerge, joined, separated


class Clusters(NamedTuple):
    """Clusters of rows near subspaces, in the order of their labels."""

    sizes: np.ndarray  # of all labels
    subspaces: Subspaces  # of the labels with rows
    labels: np.ndarray
    rows: np.ndarray  # with drawn values of missing cells

    def log_likelihood(self) -> float:
        """Log density of the rows given labels and subspaces."""
        offsets, found, total = self.subspaces.log_offsets(), occupied(self), 0.0
        for k, (basis, ratios, centre, noise) in enumerate(separated(self.subspaces)):
            gaps = np.asarray(self.rows[np.flatnonzero(self.labels == found[k])]) - centre
            total += len(gaps) * offsets[k] - 0.5 * noise * sum_of_squares(gaps, basis, ratios)
        return float(total)


def _clusters(labels: np.ndarray, names: np.ndarray, subspaces: Subspaces, rows: np.ndarray) -> Clusters:
    """The clusters with rows, of subspaces with these labels, (K,)."""
    sizes = np.bincount(labels)
    place = np.full(max(len(sizes), names.max() + 1), -1)
    place[names] = np.arange(len(names))
    return Clusters(sizes, subspaces.in_order(place[np.flatnonzero(sizes)]), labels.copy(), rows)


@njit(cache=True, nogil=True)
def exclude_below(terms, first, labels, weights, weight_of, key):
    """Set the terms of components whose weights are below the slice of a row to -inf."""
    for i in range(len(terms)):
        level = open_uniform(fold_in(key, first + i), 0) * weight_of[labels[first + i]]
        for k in range(len(weights)):
            if weights[k] <= level:
                terms[i, k] = -np.inf


@dataclass(eq=False)
class SubspaceProcess(DPModel):
    """Rows from a Dirichlet process mixture of affine subspaces; `clusters` is the model of the rows.

    Bases are not integrated out, so that statistics have subspaces, which move with the partition.
    """

    clusters: SubspaceModel | IncompleteSubspaceModel

    def count(self, labels: np.ndarray) -> Clusters:
        """Clusters with subspaces fitted to initial labels."""
        names, complete = np.arange(labels.max() + 1), self.clusters.complete
        start = complete.with_components(len(names)).with_starts([labels]).start_model  # with few dimensions
        return _clusters(labels, names, start.fit_subspaces(labels).parameters, complete.X)

    def draw_components(self, statistics: Clusters, components: np.ndarray, key: np.uint64) -> Subspaces:
        """Subspaces of the clusters, and subspaces from the prior for labels without rows."""
        family = self.clusters.complete.family
        known = dict(zip(occupied(statistics), separated(statistics.subspaces), strict=True))
        new = [label for label in components if label not in known]
        drawn = family.with_components(len(new)).draw((), key).moved(-family.location)
        if family.shared_noise:
            drawn = drawn._replace(noise=np.full(len(new), statistics.subspaces.noise[0]))
        known |= zip(new, separated(drawn), strict=True)
        return joined([known[label] for label in components])

    def sample_labels(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        statistics: Clusters,
        parameters: Subspaces,
        weights: np.ndarray,
        components: np.ndarray,
        weight_of: np.ndarray,
        key: np.uint64,
    ) -> Clusters:
        """Draw labels of all rows given their slices, in place, and missing cells."""

        def exclude(terms: np.ndarray, first: int) -> None:
            exclude_below(terms, first, labels, weights, weight_of, key)

        offsets, of_labels = parameters.log_offsets(), subkey(key, Purpose.LABELS)
        drawn, _ = self.clusters.draw_labels(parameters, offsets, of_labels, exclude)
        labels[:] = components[self.clusters.labels_of(drawn)]
        return _clusters(labels, components, parameters, self.clusters.rows_of(drawn))

    def split_merge(
        self, labels: np.ndarray, statistics: Clusters, concentration: float, n_moves: int, n_scans: int, key: np.uint64
    ) -> Clusters:
        """Make split-merge moves of the partition, in place."""
        components = dict(zip(occupied(statistics), separated(statistics.subspaces), strict=True))
        rows = statistics.rows
        moves = SplitMerge(rows, self.clusters.complete.family, labels, components, concentration)
        if len(rows) > 1:
            for i in range(n_moves):
                moves.move(n_scans, subkey(key, i))
        return _clusters(labels, np.array(list(components)), joined(components.values()), rows)

    def relabel(self, labels: np.ndarray, statistics: Clusters, new_labels: np.ndarray) -> tuple[np.ndarray, Clusters]:
        """The same clusters with other labels."""
        new = new_labels[occupied(statistics)]
        labels = new_labels[labels]
        return labels, _clusters(labels, new, statistics.subspaces, statistics.rows)

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Clusters, key: np.uint64) -> Clusters:
        """Update the subspaces and the noise given the partition."""
        found = occupied(statistics)
        model = replace(self.clusters.complete.with_components(len(found)), X=statistics.rows)
        position = Position(np.ones(len(found)), statistics.subspaces)
        moved = model.draw_subspaces(position, np.searchsorted(found, labels), 1, key)
        return statistics._replace(subspaces=moved.parameters)

    def log_joint(self, statistics: Clusters, concentration: float) -> float:
        """Log p(data, partition | subspaces, concentration)."""
        log_prior = log_partition_prior(statistics.sizes[occupied(statistics)], concentration)
        return log_prior + statistics.log_likelihood()

    def draw(self, statistics: Clusters, concentration: float, key: np.uint64) -> Any:
        """Weights of the clusters, without those of new ones, and their subspaces, the largest first."""
        order = by_size(statistics)
        weights = DirichletWeights(0.0).draw(statistics.sizes[order], key)
        return Position(weights, statistics.subspaces.in_order(np.searchsorted(occupied(statistics), order)))

    def ranks(self, labels: np.ndarray, statistics: Clusters) -> np.ndarray:
        """Labels in the order of `draw`."""
        rank_of, order = np.zeros(len(statistics.sizes), np.int32), by_size(statistics)
        rank_of[order] = np.arange(len(order))
        return rank_of[labels]
