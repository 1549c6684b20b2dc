"""Clusters of a fitted mixture as data frames: sizes with intervals, typical rows, and columns that separate them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.utils.validation import check_is_fitted

from ...emissions._clusters.base import Clusters
from ...utils._threads import Workers, split_range
from ...utils._typing import ArrayLike
from .._cluster_summary import ClusterSummary, ColumnSummary, names_for_summary, of_draws, summary_of
from .posterior_draws import PartitionDraw

_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities


class SummarizesClusters:
    """The method `cluster_summary` of an estimator with a point partition; not public."""

    if TYPE_CHECKING:
        labels_: np.ndarray
        typical_rows_: np.ndarray
        n_features_in_: int
        _summary: PartitionDraw
        _family: Any

        @property
        def posterior_(self) -> dict[str, np.ndarray]: ...

    def _typical_of(self, column: int, values: np.ndarray) -> np.ndarray:
        """Typical values of a column as the summary shows them."""
        return values

    def cluster_summary(self, feature_names: ArrayLike | None = None) -> ClusterSummary:
        r"""Sizes and typical rows of the clusters, and the columns that separate them, as data frames.

        The clusters are those of the point partition ``labels_``. The mutual information of a column and the cluster,

        .. math:: I_j = \sum_k w_k \int f_{kj}(x) \log \frac{f_{kj}(x)}{\sum_l w_l f_{lj}(x)} \, dx,

        where :math:`f_{kj}` is the predictive density of column j in cluster k, is 0 if the column has the same
        distribution in all clusters, and the entropy of the cluster if the column determines it.

        Parameters
        ----------
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns. None uses ``feature_names_in_`` if it exists, else the column indices.

        Returns
        -------
        summary : ClusterSummary
            ``clusters`` has a row for each cluster, the largest first: ``size``, its number of rows in ``labels_``;
            ``drawn_size``, ``drawn_size_low`` and ``drawn_size_high``, the median and the 5% and 95% quantiles of its
            size over the draws (see Notes); ``typical_row``, the fitted row with the highest density in the cluster;
            and then for each column, in descending order of its mutual information, the mean in the cluster or, for
            categories, the most probable code. After `partial_fit` there are no drawn sizes and no typical rows,
            because rows are not kept, and ``size`` is an expected number. ``columns`` has a row for each column, in the
            same order:
            ``mutual_information`` in nats. "von_mises_fisher" has no distributions of single columns, and a summary
            without columns.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If the number of names differs from the number of columns.
        ImportError
            If pandas is not installed.

        Notes
        -----
        In each draw, each cluster of ``labels_`` is matched to at most one drawn cluster, so that the matched clusters
        have as many rows in common as possible. Its drawn size is the number of rows of the matched cluster, or 0 if
        there is none. ``size`` can lie outside of the interval of the drawn sizes, because ``labels_`` is a compromise
        between the draws: usually it has fewer small clusters than a draw, so that its large clusters also have rows
        that are in small clusters of the draws.
        """
        check_is_fitted(self)
        names = names_for_summary(self, feature_names)
        clusters_of_prior, statistics = self._family.clusters(), self._summary.statistics
        found = None
        if clusters_of_prior.has_columns:
            information = clusters_of_prior.column_information(statistics)
            found = ColumnSummary(clusters_of_prior.typical_cells(statistics), information)
        clusters: dict[str, Any] = {"size": statistics.sizes}
        if hasattr(self, "labels_"):
            clusters |= of_draws("size", _drawn_sizes(self.labels_, self.posterior_.get("labels")))
        if hasattr(self, "typical_rows_"):  # not before the end of a fit
            clusters["typical_row"] = self.typical_rows_
        return summary_of(names, clusters, found, self._typical_of)


def find_typical_rows(summary: PartitionDraw, clusters: Clusters, labels: np.ndarray, workers: Workers) -> np.ndarray:
    """The row of each cluster with the highest predictive density in it, (n_clusters,)."""
    of_own = np.empty(len(labels))
    for start, stop in split_range(len(labels), _ROWS_AT_ONCE):
        terms = summary.log_terms(clusters.part(start, stop), workers)
        of_own[start:stop] = terms[np.arange(stop - start), labels[start:stop]]
    order = np.lexsort((-of_own, labels))
    return order[np.searchsorted(labels[order], np.arange(len(summary.statistics.sizes)))]


def _drawn_sizes(labels: np.ndarray, draws: np.ndarray | None) -> np.ndarray:
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
