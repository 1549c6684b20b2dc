"""Display of the components that are merged into clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import dendrogram, fcluster
from sklearn.base import BaseEstimator

from ._axes import AGAINST, QUIET, Axes, check_method, group_colors, one_panel

_MOST_UPRIGHT = 8  # names of components that are not turned
_MOST_TICKS = 12


@dataclass(kw_only=True, eq=False, repr=False)
class MergesDisplay:
    """Dendrogram of the components of a mixture, whose number of clusters falls from below to the top.

    Use :meth:`from_estimator` to create it. A dashed line is at the number of clusters of `merge_components`; clusters
    below it have colours. All parameters are stored as attributes.

    Parameters
    ----------
    linkage : ndarray of shape (n_components - 1, 4)
        Merges as in :func:`scipy.cluster.hierarchy.linkage`; a height is the number of merges.
    sizes : ndarray of shape (n_components,)
        Numbers of rows of the components.
    n_clusters : int
        Number of clusters at the dashed line.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmanifold import DPMixture
    >>> from skmanifold.inspection import MergesDisplay
    >>> mixture = DPMixture(random_state=0).fit(load_iris().data)
    >>> display = MergesDisplay.from_estimator(mixture)
    >>> len(display.linkage) == len(mixture.component_clusters_) - 1
    True
    """

    linkage: np.ndarray
    sizes: np.ndarray
    n_clusters: int

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, n_clusters: int | None = None, ax: Axes | None = None, **line_kwargs: Any
    ) -> Self:
        """Plot the merges of the components of a fitted Dirichlet process mixture.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with a method `merge_components`.
        n_clusters : int, default=None
            Number of clusters at the dashed line; None is that of ``clusters="merged"``.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kwargs
            Keyword arguments of the dashed line, a ``Line2D`` of matplotlib.

        Returns
        -------
        display : MergesDisplay

        Raises
        ------
        ValueError
            If the estimator has no method `merge_components`, kept no draws of the labels or has one component, or
            `n_clusters` is not between 1 and the number of components.
        """
        check_method(cls, estimator, "merge_components", "DPMixture")
        mixture: Any = estimator
        merged = mixture.merge_components("merged" if n_clusters is None else n_clusters)
        K = len(merged.component_clusters_)
        if K == 1:
            raise ValueError("MergesDisplay needs at least two components; the fit has one.")
        sizes, linkage = mixture._estimate.statistics.sizes, _linkage(mixture._merges.pairs)
        return cls(linkage=linkage, sizes=sizes, n_clusters=merged.n_components_).plot(ax=ax, **line_kwargs)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Plot the dendrogram.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kwargs
            Keyword arguments of the dashed line, a ``Line2D`` of matplotlib.

        Returns
        -------
        self : MergesDisplay
        """
        self.ax_, self.figure_ = one_panel(self, ax, (5.2, 3.4))
        K = len(self.sizes)
        height = K - self.n_clusters + 0.5
        clusters, leaves = fcluster(self.linkage, height, "distance") - 1, list(range(K))
        for first, _ in self.linkage[:, :2].astype(int):
            leaves.append(leaves[first])
        colors = np.array(group_colors(self.n_clusters), dtype=object)[clusters].tolist()
        dendrogram(
            self.linkage,
            ax=self.ax_,
            labels=[f"{k} ({n:,})" for k, n in enumerate(self.sizes.tolist())],
            link_color_func=lambda node: QUIET if self.linkage[node - K, 2] > height else colors[leaves[node]],
            leaf_rotation=90 if K > _MOST_UPRIGHT else 0,
            leaf_font_size=8,
        )
        self.ax_.axhline(height, **{"color": AGAINST, "linestyle": "--", "linewidth": 0.9} | line_kwargs)
        every = max(1, -(-K // _MOST_TICKS))
        numbers = np.arange(1, K + 1)[::every]
        self.ax_.set_yticks(K - numbers, numbers)
        self.ax_.set_ylim(0, K - 0.5)
        self.ax_.set_ylabel("number of clusters")
        self.ax_.set_xlabel("component (rows)")
        return self


def _linkage(pairs: np.ndarray) -> np.ndarray:
    """Merges with their heights and numbers of components."""
    counts = np.ones(2 * len(pairs) + 1)
    for step, pair in enumerate(pairs):
        counts[len(pairs) + 1 + step] = counts[pair].sum()
    return np.column_stack([pairs, np.arange(len(pairs)) + 1.0, counts[len(pairs) + 1 :]])
