"""Summaries of mixtures as data frames: sizes and typical rows of clusters, and the columns that separate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._install import optional_module
from ..topics.top_words import column_names
from ..utils._threads import limit_threads
from ..utils._typing import ArrayLike
from ._inference import MixtureInference

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

QUANTILES = {"": 0.5, "_low": 0.05, "_high": 0.95}


class ClusterSummary(NamedTuple):
    """Data frames of a fitted mixture: `clusters` with a row per cluster, `columns` with a row per column of X.

    `columns` has no rows for emissions without distributions of single columns.
    """

    clusters: pd.DataFrame
    columns: pd.DataFrame


class SummarizesClusters(MixtureInference):
    """The method `cluster_summary` of a mixture; not public."""

    labels_: np.ndarray
    typical_rows_: np.ndarray

    def _sizes_of_clusters(self) -> tuple[str, np.ndarray, np.ndarray]:
        """What the sizes of clusters are called, the sizes, (K,), and drawn ones in the same order, (n_draws, K)."""
        raise NotImplementedError

    def _weights_in_clusters(self) -> np.ndarray:
        """Weights of the components in each cluster, (n_clusters, K): of one component in its own."""
        return np.diag(self.weights_)

    def cluster_summary(self, feature_names: ArrayLike | None = None) -> ClusterSummary:
        r"""Sizes and typical rows of the clusters, and the columns that separate them, as data frames.

        The clusters are the components of the estimate; with a Dirichlet process those of ``labels_``, which may have
        several components. The mutual information of a column and the cluster,

        .. math:: I_j = \sum_k w_k \int f_{kj}(x) \log \frac{f_{kj}(x)}{\sum_l w_l f_{lj}(x)} \, dx,

        where :math:`f_{kj}` is the density of column j in cluster k, is 0 if the column has the same distribution in
        all clusters, and the entropy of the cluster if the column determines it. With a fixed number of components the
        parameters of a density are those of the estimate. With a Dirichlet process they are posterior means, and a
        Gaussian density has the predictive mean and covariance. For columns of numbers the information is estimated
        from 2,000 drawn rows. For multinomial rows it is the contribution of the column to the mutual information of
        one token and its cluster.

        Parameters
        ----------
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns. None uses ``feature_names_in_`` if it exists, else the column indices.

        Returns
        -------
        summary : ClusterSummary
            ``clusters`` has a row for each cluster, the largest first; the index has the numbers of the clusters as in
            ``labels_``. Its columns are

            - with a fixed number of components, ``weight``, as in ``weights_``, and with samplers that draw the
              parameters ("gibbs") ``drawn_weight``, ``drawn_weight_low`` and ``drawn_weight_high``, the median and the
              5% and 95% quantiles of the drawn weights, where the components of each draw are matched to those of the
              estimate as in `to_arviz`;
            - ``size``, the number of fitted rows with this label; with a Dirichlet process also ``drawn_size``,
              ``drawn_size_low`` and ``drawn_size_high``, the median and the 5% and 95% quantiles of the size over the
              draws (see Notes);
            - ``typical_row``, as in ``typical_rows_`` (missing if the cluster has no fitted rows);
            - for each column, in descending order of its mutual information, the mean in the cluster (of binary
              columns the probability of a one) or the most probable category, followed by the probability of each
              of its :class:`~skmanifold.emissions.Spikes` (``"income = 0"``).

            After `partial_fit`, rows are not kept: there are no typical rows and no drawn sizes, and sizes are expected
            numbers with a Dirichlet process, and missing otherwise. ``columns`` has a row for each column, in the same
            order: ``mutual_information`` in nats. Emissions without distributions of single columns
            ("von_mises_fisher", some user-defined ones) have a summary without columns.

        Raises
        ------
        ValueError
            If the number of names differs from the number of columns.

        Notes
        -----
        With a Dirichlet process, each cluster of ``labels_`` is matched to at most one drawn cluster of each draw, with
        as many rows in common as possible; its drawn size is that of the matched cluster, or 0. ``size`` can lie
        outside of the interval: ``labels_`` is a compromise between the draws, usually with fewer small and larger
        large clusters.
        """
        check_is_fitted(self)
        name, sizes, draws = self._sizes_of_clusters()
        clusters: dict[str, Any] = {name: sizes}
        if len(draws):  # quantiles are drawn values, and so are whole numbers if draws are
            quantiles = np.quantile(draws, list(QUANTILES.values()), axis=0, method="inverted_cdf")
            clusters |= {f"drawn_{name}{end}": of for end, of in zip(QUANTILES, quantiles, strict=True)}
        if hasattr(self, "labels_"):
            clusters.setdefault("size", np.bincount(self.labels_[self.labels_ >= 0], minlength=len(sizes)))
        rows = getattr(self, "typical_rows_", None)  # not before the end of a fit
        names = column_names(self, self.n_features_in_, feature_names)
        of_columns = self._family, names, np.arange(self.n_features_in_)
        return summarized(self, clusters, sizes, rows, self._weights_in_clusters(), self._estimate.columns, *of_columns)


def summarized(
    mixture: Any,
    clusters: dict[str, Any],
    sizes: np.ndarray,
    typical_rows: np.ndarray | None,
    weights: np.ndarray,
    cells_of: Callable[[Any], Any],
    family: Any,
    names: Any,
    columns: np.ndarray,
) -> ClusterSummary:
    """The summary of clusters with these numbers, of some columns of a mixture, with their names and family."""
    pd = optional_module("pandas", "cluster_summary", "demo")
    shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    if typical_rows is not None:
        has_all = (typical_rows >= 0).all()
        clusters["typical_row"] = typical_rows if has_all else pd.arrays.IntegerArray(typical_rows, typical_rows < 0)
    with limit_threads("blas"):  # other numbers of threads round otherwise
        cells: Any = cells_of(family)
        information = np.empty(0) if cells is None else cells.information(weights)
        typical: Any = None if cells is None else cells.typical(shares)
        masses = [] if cells is None else cells.point_masses()
    order = np.argsort(-information, kind="stable")
    shown: dict[Any, Any] = {}
    for j in order:
        shown[names[j]] = mixture._typical_of(columns[j], typical[:, j])
        shown |= {f"{names[j]} = {value:g}": shares @ mass for column, value, mass in masses if column == j}
    frame = pd.DataFrame({"mutual_information": information[order]}, index=[names[j] for j in order])
    of_clusters = pd.concat((pd.DataFrame(clusters), pd.DataFrame(shown, index=range(len(sizes)))), axis=1)
    return ClusterSummary(of_clusters.iloc[np.argsort(-sizes, kind="stable")], frame)
