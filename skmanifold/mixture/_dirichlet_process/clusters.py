"""Clusters of a fitted Dirichlet process mixture: components, each alone or merged with those that overlap."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import repeat
from numbers import Integral
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...base import posterior_of_number
from ...emissions._statistics import n_used
from ...inference._draw_store import draws_of
from ...metrics._partitions import co_clustering
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...utils._conditions import Array, Real, index
from ...utils._declared import Lacking, Saved
from ...utils._threads import Workers
from ...utils._typing import MatrixLike
from .._cluster_summary import SummarizesClusters
from .._memberships import ParameterDraw, PartitionDraw
from .._merging import Merges, clusters_of, followed, joined
from .._scores import to_shares
from .fit_strategy import MOST_COMPONENTS, MixtureStream, counted_by
from .outliers import OUTLIER, apart
from .stochastic_slice import StochasticSliceState

_MAX_DENSE_BYTES = 4 << 30  # of an (n_samples, n_samples) matrix


_DRAWN = draws_of(
    "log_joint",
    needed=("n_components",),
    n_components=Array("int64", "n_chains n_draws", low=0, below=MOST_COMPONENTS),
    concentration=Array("float64", "n_chains n_draws", above=0),
    weights=Array("float64", "n_chains n_component_draws n_padded", low=0, high=1 + 1e-6, nan=True),
    components=Array("float64", "n_chains n_component_draws n_padded _", nan=True),
    covariances=Array("float64", None, nan=True),
    mean_precision_prior=Array("float64", "n_chains n_component_draws", low=0),
    degrees_of_freedom_prior=Array("float64", "n_chains n_component_draws"),
    covariance_prior=Array("float64", None),
    transform=Array("float64", "n_chains n_component_draws _", low=0, high=2),
    cosine_prior=Array("float64", "n_chains n_component_draws", low=0, high=1),
    **dict.fromkeys(("dispersions", "category_prior"), Array("float64", "n_chains n_component_draws _", above=0)),
    concentrations=Array("float64", "n_chains n_component_draws n_padded", nan=True),
    labels=Array("int32", "n_chains n_component_draws n_rows", low=OUTLIER, below=MOST_COMPONENTS),
    component_clusters=Array("int32", "n_chains n_component_draws n_padded", low=-1, below="n_padded"),
    outlier_weight=Array("float64", "n_chains n_draws", low=0, high=1),
)


class ClustersOfComponents(SummarizesClusters):
    """Methods of a mixture that describe its clusters; not public.

    The estimator has the parameter and, when fitted, the attributes declared here.
    """

    clusters: str | int
    _fitted_on_sparse: Saved[bool]
    _estimate: Saved[PartitionDraw]  # of the point partition
    _merges: Lacking[Merges | None]  # of its components, after a fit that kept draws of the labels
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    _stream: Saved[MixtureStream | None]  # after `partial_fit`, in place of the draws of a fit
    _draws: Lacking[list[PartitionDraw | ParameterDraw]]
    component_labels_: Lacking[Annotated[np.ndarray, Array("int64", "n_rows", low=OUTLIER, below=MOST_COMPONENTS)]]
    # Labels of all rows, and as many blocks as these reach
    _states: Lacking[list[Annotated[StochasticSliceState, counted_by(n_used)]] | None]
    concentration_: Annotated[float, Real(above=0, high=MOST_CONCENTRATED)]
    # Not known before the end of a fit
    _typical_rows: Lacking[Annotated[np.ndarray, index("n_typical", below="n_rows")] | None]  # of components

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior if self._stream is None else self._stream.posterior(self._family.clusters())

    @property
    def _predictive(self) -> Sequence[PartitionDraw | ParameterDraw]:
        return self._draws if self._stream is None else self._stream.predictive_draws()

    @property
    def component_clusters_(self) -> np.ndarray:
        """The cluster of each component, of shape (K,)."""
        check_is_fitted(self)
        return self._component_clusters

    @property
    def _component_clusters(self) -> np.ndarray:
        sizes, merges = self._estimate.statistics.sizes, getattr(self, "_merges", None)
        if merges is None or self.clusters == "components":
            return np.arange(len(sizes))
        return merges.clusters(None if self.clusters == "merged" else int(self.clusters), sizes)

    @property
    def _is_merged(self) -> bool:
        return self.clusters != "components" and getattr(self, "_merges", None) is not None

    @property
    def labels_(self) -> np.ndarray:  # type: ignore[override]
        """Clusters of the fitted rows, of shape (n_samples,)."""
        return clusters_of(self.component_clusters_, self.component_labels_)

    @property
    def n_components_(self) -> int:
        """Number of clusters."""
        return int(self.component_clusters_.max()) + 1

    @property
    def typical_rows_(self) -> np.ndarray:  # type: ignore[override]
        """The typical row of the largest component of each cluster, of shape (n_components_,)."""
        if self._typical_rows is None:
            raise AttributeError("Typical rows are not known before the end of a fit.")
        return self._typical_rows[np.unique(self.component_clusters_, return_index=True)[1]]

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, ... clusters with rows, of shape (largest drawn number + 1,)."""
        check_is_fitted(self)
        drawn = self.posterior_["n_components"]
        if self._is_merged:
            drawn = np.array([len(np.unique(own[own >= 0])) for own in self._drawn_clusters])
        return posterior_of_number(drawn, self.n_components_)

    @property
    def weights_(self) -> np.ndarray:
        """Weights of the clusters, of shape (n_components_,)."""
        check_is_fitted(self)
        sizes = self._estimate.statistics.sizes
        return np.bincount(self.component_clusters_, sizes) / (sizes.sum() + self._estimate.concentration)

    @property
    def _drawn_clusters(self) -> np.ndarray:
        """The cluster of each component of each complete draw, (n_draws, n_padded); -1 for a component without rows.

        For a number of clusters that was given, it is the cluster in the estimate of most rows of the component.
        """
        clusters, drawn = (self.posterior_[name] for name in ("component_clusters", "labels"))
        clusters = clusters.reshape(-1, clusters.shape[-1])
        if self.clusters == "merged":
            return clusters
        labels, estimated = drawn.reshape(-1, drawn.shape[-1]), self.labels_
        return np.stack([followed(own, estimated, clusters.shape[1]) for own in labels])

    @property
    def _drawn_partitions(self) -> np.ndarray:
        """Drawn clusters of the fitted rows, (n_draws, n_rows); empty without draws of the labels."""
        labels = self.posterior_.get("labels", np.empty((0, len(self.component_labels_)), np.int32))
        labels = labels.reshape(-1, labels.shape[-1])
        return clusters_of(self._drawn_clusters, labels) if self._is_merged else labels

    def _at_estimate(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        shares, log_density = super()._at_estimate(rows)
        return joined(shares, self._component_clusters) if self._is_merged else shares, log_density

    def co_clustering(self, X: MatrixLike | None = None) -> np.ndarray:
        """Posterior probabilities that two rows belong to the same cluster.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            New rows, assigned independently of each other given each draw, as if none were an outlier. A row in a new
            component shares it with no other row. None uses the rows of `fit` and the draws of their labels, where an
            outlier shares no component.

        Returns
        -------
        similarity : ndarray of shape (n_samples, n_samples)
            Symmetric, with ones on the diagonal.

        Raises
        ------
        ValueError
            If the result would take more than 4 GiB, or X is None and no draws of the labels were kept.
        """
        check_is_fitted(self)
        if X is None:
            drawn = self._drawn_partitions if self._stream is None else np.empty((0, 0))
            if not len(drawn):
                raise ValueError("No draws of the labels were kept: pass X.")
            return co_clustering(apart(drawn))
        clusters = self._family_rows(self._read(X))
        n, n_bytes = clusters.n_rows, 8 * clusters.n_rows**2
        if n_bytes > _MAX_DENSE_BYTES:
            raise ValueError(f"co_clustering of {n} rows would take {n_bytes / 2**30:.1f} GiB; at most 4.")
        together = np.zeros((n, n))
        merges = self._drawn_clusters if self._is_merged else repeat(None)
        with Workers(self.n_jobs) as workers:
            for draw, merged in zip(self._predictive, merges, strict=False):
                shares = draw.log_terms(clusters, workers)
                to_shares(shares, workers)
                shares = shares[:, :-1]
                if merged is not None:
                    own = merged[: shares.shape[1]]
                    shares = joined(shares[:, own >= 0], own[own >= 0])
                together += shares @ shares.T
        together /= len(self._predictive)
        np.fill_diagonal(together, 1.0)
        return together

    def merge_components(self, clusters: Literal["merged", "components"] | int = "merged") -> Self:
        r"""The same fit with other clusters.

        A component describes a part of the density, and a group that is not Gaussian, say, has several. The draws
        divide its rows between these in different ways. With :math:`q_{ik}` the membership of row i in component k,
        averaged over the draws, two components overlap by

        .. math:: \frac{\sum_i q_{ik} q_{il}}{\min(\sum_i q_{ik}, \sum_i q_{il})}.

        In each draw, the pair with the largest overlap is merged, if it is at least 0.03 and there is no valley: rows
        are counted in ranges of the log odds of the two clusters, and a valley has 2.35 standard deviations fewer rows
        than both sides. This is repeated with the merged clusters. Then clusters with less than 15 rows, or 2% of the
        rows if that is less, are merged with others. The components of the estimate are merged so that their clusters
        are nearest to those of the draws with the most frequent number of clusters. Groups of counts and codes in few
        columns may overlap without a valley, and are joined too.

        Parameters
        ----------
        clusters : {"merged", "components"} or int, default="merged"
            As the parameter of the estimator. With a number, merges stop earlier, or continue with the pair for which
            the product of the mean log odds of its rows and of the number of rows of the smaller cluster is smallest.

        Returns
        -------
        mixture : estimator instance
            A copy with this parameter, which shares the arrays of this one. Setting the parameter of this estimator
            has the same effect on it.

        Raises
        ------
        ValueError
            If `clusters` is a number that is not between 1 and the number of components, or no draws of the labels
            were kept.
        """
        check_is_fitted(self)
        merges = getattr(self, "_merges", None)
        if merges is None:
            raise ValueError("No draws of the labels were kept, from which components are merged.")
        if clusters not in ("merged", "components"):
            check_scalar(clusters, "clusters", Integral, min_val=1, max_val=len(merges.pairs) + 1)
        return copy.copy(self).set_params(clusters=clusters)

    def _sizes_of_clusters(self) -> tuple[str, np.ndarray, np.ndarray]:
        of_components = self._estimate.statistics.sizes
        sizes = np.bincount(self._component_clusters, of_components).astype(of_components.dtype)
        has_rows = "component_labels_" in vars(self)
        draws = _drawn_sizes(self.labels_, self._drawn_partitions) if has_rows else np.empty((0, len(sizes)))
        return "size", sizes, draws

    def _weights_in_clusters(self) -> np.ndarray:
        return np.eye(self.n_components_)[self._component_clusters].T * self._estimate.statistics.sizes

    def _expected(self, name: str) -> Any:
        check_is_fitted(self)
        weights = self._weights_in_clusters()
        merged = [weights / weights.sum(axis=1, keepdims=True)] if len(weights) < weights.shape[1] else []
        attributes = self._estimate.clusters(self._family).expected(self._estimate.statistics, *merged)
        if name not in attributes:
            raise AttributeError(f"The emission {type(self.emission_).__name__} has no {name}.")
        return attributes[name]


def _drawn_sizes(labels: np.ndarray, partitions: np.ndarray) -> np.ndarray:
    """Sizes of the drawn clusters that are matched to those of `labels`, (n_draws, n_clusters)."""
    sizes = np.zeros((len(partitions), labels.max() + 1), np.int64)
    for i, drawn in enumerate(partitions):
        both = (labels != OUTLIER) & (drawn != OUTLIER)
        names, drawn_labels = np.unique(drawn[both], return_inverse=True)
        common = np.zeros((sizes.shape[1], len(names)), np.int64)
        np.add.at(common, (labels[both], drawn_labels), 1)
        own, matched = linear_sum_assignment(common, maximize=True)
        sizes[i, own] = common.sum(axis=0)[matched]
    return sizes
