"""The point partition, which is the partition nearest to all draws: its attributes, typical rows and drawn sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...emissions._family import Family
from ...metrics._partitions import point_partition
from ...utils._threads import Workers, split_range
from .._densities import typical_rows
from .._memberships.process import PartitionDraw, partition_draw
from .model import DPModel

_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities
_MAX_PARTITIONS = 200  # number of drawn partitions that the point estimate is compared with


def point_estimate(fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
    """Attributes of the partition that minimises the mean distance to the draws; empty without draws.

    Its number of components is at most the median over the draws. Without this limit, a row that is alone in its
    component in half of the draws would be a component by itself, and there could be more components than in any draw.
    """
    posterior = fitted["_posterior"]
    draws = posterior.get("labels")
    if draws is None or draws.shape[1] == 0:
        return {}
    labels = draws.reshape(-1, model.n_rows)
    evenly = np.linspace(0, len(labels) - 1, min(len(labels), _MAX_PARTITIONS)).astype(int)
    most = int(np.median(posterior["n_components"]))
    nearest = point_partition(labels[np.unique(evenly)], max_components=most, n_jobs=workers.n_workers)
    given = model.concentration
    return partition_attributes(model, nearest, float(posterior["concentration"].mean()) if given is None else given)


def partition_attributes(model: DPModel, labels: np.ndarray, concentration: float) -> dict[str, Any]:
    """A partition of the rows as fitted attributes."""
    return {
        "labels_": labels,
        **summary_attributes(partition_draw(model.count(labels.astype(np.int32)), concentration)),
    }


def summary_attributes(summary: PartitionDraw) -> dict[str, Any]:
    """The sizes of the components as fitted attributes."""
    concentration = float(summary.concentration)
    sizes = summary.statistics.sizes
    return {"_estimate": summary, "n_components_": len(sizes), "concentration_": concentration}


def find_typical_rows(summary: PartitionDraw, clusters: Family, labels: np.ndarray, workers: Workers) -> np.ndarray:
    """The row of each cluster with the highest predictive density in it, (n_clusters,)."""
    of_own = np.empty(len(labels))
    for start, stop in split_range(len(labels), _ROWS_AT_ONCE):
        terms = summary.log_terms(clusters.part(start, stop), workers)
        of_own[start:stop] = terms[np.arange(stop - start), labels[start:stop]]
    return typical_rows(of_own, labels, len(summary.statistics.sizes))


def drawn_sizes(labels: np.ndarray, draws: np.ndarray | None) -> np.ndarray:
    """Sizes of the drawn clusters that are matched to those of `labels`, (n_draws, n_clusters)."""
    partitions = np.empty((0, len(labels))) if draws is None else draws.reshape(-1, len(labels))
    sizes = np.zeros((len(partitions), labels.max() + 1), np.int64)
    for i, drawn in enumerate(partitions):
        names, drawn_labels = np.unique(drawn, return_inverse=True)
        common = np.zeros((sizes.shape[1], len(names)), np.int64)
        np.add.at(common, (labels, drawn_labels), 1)
        own, matched = linear_sum_assignment(common, maximize=True)
        sizes[i, own] = common.sum(axis=0)[matched]
    return sizes
