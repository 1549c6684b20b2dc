"""Display of co-clustering probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from ..metrics import co_clustering
from ..mixture._dirichlet_process.outliers import apart
from ..utils._sklearn import take_rows
from ..utils._typing import ArrayLike, MatrixLike
from ._axes import Axes, check_method, draw_cells, draw_squares, one_panel, plain

_LEAST_NAMED = 0.03  # minimum fraction of rows for which a cluster gets a label


@dataclass(kw_only=True, eq=False, repr=False)
class CoClusteringDisplay:
    """Posterior probabilities that two rows are in the same cluster, with rows sorted by cluster.

    Use :meth:`from_estimator` to create it. Blocks on the diagonal are clusters. Pale cells within a block and shaded
    cells outside of blocks show uncertain assignments. All parameters are stored as attributes.

    Parameters
    ----------
    similarity : ndarray of shape (n_rows, n_rows)
        Probabilities, with rows and columns in the order of the plot.
    labels : ndarray of shape (n_rows,)
        Clusters of the rows in this order; rows of a cluster are adjacent.
    rows : ndarray of shape (n_rows,), default=None
        Indices of the rows in the data.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from skmanifold import DPCategoricalMixture
    >>> from skmanifold.datasets import make_categorical_mixture
    >>> from skmanifold.inspection import CoClusteringDisplay
    >>> X = make_categorical_mixture(500, 10, 3, weights=[0.5, 0.3, 0.2], random_state=0).data
    >>> mixture = DPCategoricalMixture("categorical", random_state=0).fit(X)
    >>> display = CoClusteringDisplay.from_estimator(mixture, X, max_rows=200)
    >>> display.similarity.shape
    (200, 200)
    """

    similarity: np.ndarray
    labels: np.ndarray
    rows: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike | None = None,
        *,
        labels: ArrayLike | None = None,
        max_rows: int = 500,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the co-clustering probabilities of a fitted estimator.

        Rows are sorted by cluster, and within clusters by average linkage of the probabilities, so that similar rows
        are adjacent.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with a method `co_clustering`, such as DPMixture. Other estimators raise an
            error, because products of `predict_proba` are not this probability.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows. None uses the rows of `fit` and the draws of their labels.
        labels : array-like of shape (n_samples,), default=None
            Clusters for the order of rows; None uses `predict` or ``labels_`` of the estimator.
        max_rows : int, default=500
            Maximum number of rows in the plot. If there are more, this number of evenly spaced rows is selected.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : CoClusteringDisplay

        Raises
        ------
        ValueError
            If the estimator has no method `co_clustering`, or if X is None and no labels were kept.
        """
        check_method(cls, estimator, "co_clustering", "DPMixture")
        if max_rows < 2:
            raise ValueError(f"max_rows must be at least 2; got {max_rows}.")
        given: Any = _drawn_labels(estimator).T if X is None else X
        n_rows = np.shape(given)[0]
        rows = np.unique(np.linspace(0, n_rows - 1, min(max_rows, n_rows)).astype(int))
        shown = take_rows(given, rows)
        similarity = co_clustering(apart(shown.T)) if X is None else estimator.co_clustering(shown)
        if labels is not None:
            labels = np.asarray(labels)
            if labels.shape != (n_rows,):
                raise ValueError(f"labels must have shape ({n_rows},), one per row; got {labels.shape}.")
            clusters = labels[rows]
        else:
            clusters = estimator.labels_[rows] if X is None else estimator.predict(shown)
        order = in_order(similarity, clusters)
        return cls(similarity=similarity[np.ix_(order, order)], labels=clusters[order], rows=rows[order]).plot(ax=ax)

    def plot(self, ax: Axes | None = None, **image_kwargs: Any) -> Self:
        """Plot the probabilities.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **image_kwargs
            Keyword arguments of ``imshow`` of matplotlib.

        Returns
        -------
        self : CoClusteringDisplay
        """
        check_consistent_length(self.similarity, self.labels)
        self.ax_, self.figure_ = one_panel(self, ax, (5.2, 4.4))
        n = len(self.labels)
        draw_cells(self.ax_, self.similarity, (0, n, n, 0), "probability of the same cluster", 0.03, **image_kwargs)
        labels = np.asarray(self.labels)
        begins, ends = draw_squares(self.ax_, labels)
        named = ends - begins >= _LEAST_NAMED * n
        names = [plain(label) for label in labels[begins[named]]]
        self.ax_.set_yticks((begins + ends)[named] / 2, names, fontsize=8, parse_math=False)
        self.ax_.set_xticks([])
        self.ax_.set_ylabel("cluster")
        self.ax_.set_xlabel(f"{n} rows, sorted by cluster")
        return self


def _drawn_labels(estimator: Any) -> np.ndarray:
    labels = estimator.posterior_.get("labels")
    if labels is None or labels.shape[1] == 0:
        raise ValueError("No draws of the labels of rows were kept: pass X.")
    return estimator._drawn_partitions


def in_order(similarity: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Order of rows, or columns, by label, and within a label by average linkage of the probabilities."""
    order = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 2:
            apart = 1.0 - similarity[np.ix_(members, members)]
            np.fill_diagonal(apart, 0.0)
            members = members[leaves_list(linkage(squareform(np.clip(apart, 0.0, 1.0), checks=False), "average"))]
        order.append(members)
    return np.concatenate(order)
