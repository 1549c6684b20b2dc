"""Inference with a fitted mixture: predictive densities, components, co-clustering and new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ...base import posterior_of_number
from ...emissions._abilities import LearnsPrior
from ...emissions._family import Family
from ...inference._arviz import falling, to_tree
from ...metrics._partitions import co_clustering
from ...random._keys import Purpose, subkey
from ...random._partitions import draw_partition
from ...samplers._latent.stick_breaking import check_concentration_prior, concentration_or_draw
from ...utils._threads import Workers, split_range
from ...utils._typing import ArrayLike, MatrixLike
from .._cluster_summary import ClusterSummary, of_draws, summarize_clusters
from .._densities import to_shares
from .._imputation.imputation import ImputesCells
from .._memberships.process import ParameterDraw, PartitionDraw, log_partition_prior
from .._prior import DrawsFromEmission, PriorLabels
from .point_estimate import drawn_sizes
from .stream import MixtureStream

_OF_COMPONENTS = (
    "components",
    "covariances",
    "concentrations",
    "labels",
)  # draws of which do not correspond to each other
_MAX_DENSE_BYTES = 4 << 30  # of an (n_samples, n_samples) matrix
_CELLS_AT_ONCE = 1_000_000  # of sampled rows that become sparse


class PartitionInference(ImputesCells, DrawsFromEmission):
    """Methods of an estimator with a fitted mixture; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    concentration: float | None
    concentration_prior: ArrayLike
    n_components_: int
    labels_: np.ndarray
    typical_rows_: np.ndarray
    _fitted_on_sparse: bool
    _key: np.uint64  # root of all random streams, set at the start of a fit
    _draws: list[PartitionDraw | ParameterDraw]
    _summary: PartitionDraw  # of the point partition
    _posterior: dict[str, np.ndarray]
    _component_draws: np.ndarray  # indices of the complete draws
    _stream: MixtureStream | None  # after `partial_fit`, in place of the draws of a fit

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior if self._stream is None else self._stream.posterior(self._family.clusters())

    @property
    def _estimate(self) -> PartitionDraw:
        return self._summary

    @property
    def _predictive(self) -> Sequence[PartitionDraw | ParameterDraw]:
        return self._draws if self._stream is None else self._stream.predictive_draws()

    @property
    def _complete_draws(self) -> np.ndarray | None:
        """Indices of the complete draws in the draws of numbers; None if all draws are complete, as in a stream."""
        return self._component_draws if self._stream is None else None

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, ... components with rows, of shape (largest drawn number + 1,)."""
        check_is_fitted(self)
        return posterior_of_number(self.posterior_["n_components"], self.n_components_)

    @property
    def weights_(self) -> np.ndarray:
        """Weights of the components, of shape (n_components_,)."""
        check_is_fitted(self)
        return self._summary.statistics.sizes / (self._summary.statistics.sizes.sum() + self._summary.concentration)

    def co_clustering(self, X: MatrixLike | None = None) -> np.ndarray:
        """Posterior probabilities that two rows belong to the same component.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            New rows, assigned independently of each other given each draw. A row in a new component shares it with no
            other row. None uses the rows of `fit` and the draws of their labels.

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
            labels = self.posterior_.get("labels")
            if labels is None or labels.shape[1] == 0:
                raise ValueError("No draws of the labels were kept: pass X.")
            return co_clustering(labels.reshape(-1, labels.shape[-1]))
        clusters = self._family_rows(self._read(X))
        n_bytes = 8 * clusters.n_rows**2
        if n_bytes > _MAX_DENSE_BYTES:
            raise ValueError(
                f"co_clustering of {clusters.n_rows} rows would take {n_bytes / 2**30:.1f} GiB; at most 4."
            )
        together = np.zeros((clusters.n_rows, clusters.n_rows))
        with Workers(self.n_jobs) as workers:
            for draw in self._predictive:
                shares = draw.log_terms(clusters, workers)
                to_shares(shares, workers)
                shares = shares[:, :-1]
                together += shares @ shares.T
        together /= len(self._predictive)
        np.fill_diagonal(together, 1.0)
        return together

    def cluster_summary(self, feature_names: ArrayLike | None = None) -> ClusterSummary:
        r"""Sizes and typical rows of the clusters, and the columns that separate them, as data frames.

        The clusters are those of the point partition ``labels_``. The mutual information of a column and the cluster,

        .. math:: I_j = \sum_k w_k \int f_{kj}(x) \log \frac{f_{kj}(x)}{\sum_l w_l f_{lj}(x)} \, dx,

        where :math:`f_{kj}` is the density of column j in cluster k, is 0 if the column has the same distribution in
        all clusters, and the entropy of the cluster if the column determines it. The parameters of a density are
        posterior means; a Gaussian density has the predictive mean and covariance. For columns of numbers the
        information is estimated from 2,000 drawn rows. For multinomial rows it is the contribution of the column to the
        mutual information of one token and its cluster.

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
        statistics = self._summary.statistics
        attributes = self._family.clusters().cell_attributes(statistics)
        clusters: dict[str, Any] = {"size": statistics.sizes}
        if hasattr(self, "labels_"):
            clusters |= of_draws("size", drawn_sizes(self.labels_, self.posterior_.get("labels")))
        return summarize_clusters(self, feature_names, statistics.sizes, attributes, clusters)

    def to_arviz(self) -> Any:
        """Convert the draws to an ArviZ data tree; without components and labels.

        Components of different draws do not correspond to each other, because the partitions differ. Therefore the
        weights of each draw are sorted in decreasing order, and components and labels are left out. They are in
        ``posterior_``; `co_clustering` summarises the labels.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` contains ``n_components``, ``concentration``, ``weights`` with an axis ``rank`` (NaN
            beyond the components of a draw), and the number of weights ``n_active``. It is ``n_components`` of the
            same draw, plus the components without rows that samplers by minibatches have; ``n_components_`` is that of
            the point partition. ``sample_stats`` contains the log joint density as ``lp``. If
            `max_draws_bytes` limits the number of complete draws, ``weights`` and ``n_active`` are in a group
            ``posterior_thinned``, whose coordinate ``draw`` has their indices. Axes are ``chain``, ``draw`` and
            ``rank``.

        Raises
        ------
        ImportError
            If arviz-base is not installed.
        ValueError
            If there are no draws.
        """
        exported = {name: draws for name, draws in self.posterior_.items() if name not in _OF_COMPONENTS}
        if "weights" in exported:
            exported["weights"] = falling(exported["weights"])
            exported["n_active"] = np.count_nonzero(~np.isnan(exported["weights"]), axis=-1)
        return to_tree(exported, {"weights": ["rank"]}, component_draws=self._complete_draws)

    def _family_rows(self, rows: Any) -> Family:
        return self._family.clusters(rows)

    def _drawn_parameters(self) -> Sequence[PartitionDraw | ParameterDraw]:
        return self._predictive

    def _draw_prior_labels(self, n_rows: int, n_features: int | None, key: np.uint64) -> PriorLabels:
        shape, rate = check_concentration_prior(self.concentration_prior, "concentration_prior")
        rng = np.random.default_rng(int(subkey(key, Purpose.PRIOR)))
        concentration = concentration_or_draw(rng, self.concentration, shape, rate)
        labels = draw_partition(rng, n_rows, concentration)
        sizes = np.bincount(labels)
        numbers = {"n_components": np.array(len(sizes)), "concentration": np.array(concentration)}
        weights = rng.dirichlet(np.append(sizes, concentration))[:-1]
        return PriorLabels(labels, len(sizes), {**numbers, "weights": weights})

    def _prior_family(self, emission: Any, n_features: int | None, n_tokens: int | None) -> Any:
        free = emission.free_hyperparameters() if n_features and isinstance(emission, LearnsPrior) else ()
        if free:
            raise ValueError(
                f"{type(self).__name__} learns hyperparameters of {type(emission).__name__} that are None "
                f"({', '.join(free)}): set them, or fit the estimator and omit n_features."
            )
        return super()._prior_family(emission, n_features, n_tokens)

    def _log_density_of_prior(
        self, family: Any, rows: Any, drawn: PriorLabels, parameters: Any, workers: Workers
    ) -> dict[str, float]:
        clusters, concentration = family.clusters(rows), float(drawn.parameters["concentration"])
        statistics = clusters.no_statistics(drawn.n_components)
        clusters.count(drawn.labels, statistics, workers)
        of_partition = log_partition_prior(statistics.sizes, concentration)
        return {"log_joint": of_partition + clusters.log_marginal(statistics)}

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._family.clusters().expected_of_blocks(self._summary.statistics)

    def _new_rows(self, labels: np.ndarray, key: np.uint64) -> Any:
        """New rows, a block at a time if they become sparse."""
        if not self._fitted_on_sparse:
            return super()._new_rows(labels, key)
        ranges, new_rows = (
            split_range(len(labels), max(1, _CELLS_AT_ONCE // self._family.n_features)),
            super()._new_rows,
        )
        return sp.vstack([new_rows(labels[a:b], subkey(key, a)) for a, b in ranges], format="csr")

    def _as_table(self, values: np.ndarray) -> Any:
        return sp.csr_array(values) if self._fitted_on_sparse else super()._as_table(values)

    def _expected(self, name: str) -> Any:
        check_is_fitted(self)
        attributes = self._family.clusters().expected(self._summary.statistics)
        if name not in attributes:
            raise AttributeError(f"The emission {type(self.emission_).__name__} has no {name}.")
        return attributes[name]
