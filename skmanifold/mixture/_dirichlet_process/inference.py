"""Inference with a fitted mixture: predictive densities, components, co-clustering and new rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import repeat
from numbers import Integral
from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...base import posterior_of_number
from ...emissions._abilities import LearnsPrior
from ...emissions._categories import CategoryFamily
from ...emissions._family import Family
from ...emissions._statistics import n_used, shapes_of
from ...inference._draw_store import draws_of
from ...inference._draws import falling, to_tree
from ...metrics._partitions import co_clustering
from ...random._discrete_variates import draw_partition
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED, check_concentration_prior, concentration_or_draw
from ...samplers._states import is_of
from ...utils._conditions import Array, Real, Sizes, index
from ...utils._declared import Lacking, Saved
from ...utils._threads import Workers, split_range
from ...utils._typing import ArrayLike, MatrixLike
from .._cluster_summary import SummarizesClusters
from .._imputation import ImputesCells
from .._memberships import ParameterDraw, PartitionDraw, log_partition_prior, with_new
from .._merging import Merges, joined
from .._prior import DrawsFromEmission, PriorLabels
from .._scores import to_shares
from .fit_strategy import MOST_COMPONENTS, MixtureStream, counted_by
from .model import log_density_of
from .stochastic_slice import Blocks, StochasticSliceState

# Of different draws these do not correspond to each other.
_OF_COMPONENTS = "components", "covariances", "concentrations", "labels", "component_clusters"
_MAX_DENSE_BYTES = 4 << 30  # of an (n_samples, n_samples) matrix
_CELLS_AT_ONCE = 1_000_000  # of sampled rows that become sparse


_TOLERANCE = 1e-6
_DRAWN = draws_of(
    "log_joint",
    needed=("n_components",),
    n_components=Array("int64", "n_chains n_draws", low=0, below=MOST_COMPONENTS),
    concentration=Array("float64", "n_chains n_draws", above=0),
    weights=Array("float64", "n_chains n_component_draws n_padded", low=0, high=1 + _TOLERANCE, nan=True),
    components=Array("float64", "n_chains n_component_draws n_padded _", nan=True),
    covariances=Array("float64", None, nan=True),
    mean_precision_prior=Array("float64", "n_chains n_component_draws", low=0),
    degrees_of_freedom_prior=Array("float64", "n_chains n_component_draws"),
    covariance_prior=Array("float64", None),
    transform=Array("float64", "n_chains n_component_draws _", low=0, high=2),
    cosine_prior=Array("float64", "n_chains n_component_draws", low=0, high=1),
    dispersions=Array("float64", "n_chains n_component_draws _", above=0),
    concentrations=Array("float64", "n_chains n_component_draws n_padded", nan=True),
    labels=Array("int32", "n_chains n_component_draws n_rows", low=0, below=MOST_COMPONENTS),
    component_clusters=Array("int32", "n_chains n_component_draws n_padded", low=-1, below="n_padded"),
)


class PartitionInference(SummarizesClusters, ImputesCells, DrawsFromEmission):
    """Methods of an estimator with a fitted mixture; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    clusters: str | int
    concentration: float | None
    hyperparameters: str
    concentration_prior: ArrayLike
    _fitted_on_sparse: Saved[bool]
    _estimate: Saved[PartitionDraw]  # of the point partition
    _merges: Lacking[Merges]  # of its components, after a fit that kept draws of the labels
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    _stream: Saved[MixtureStream | None]  # after `partial_fit`, in place of the draws of a fit
    _draws: Lacking[list[PartitionDraw | ParameterDraw]]
    component_labels_: Lacking[Annotated[np.ndarray, index("n_rows", below=MOST_COMPONENTS)]]
    # Labels of all rows, and as many blocks as these reach
    _states: Lacking[list[Annotated[StochasticSliceState, counted_by(n_used)]] | None]
    concentration_: Annotated[float, Real(above=0, high=MOST_CONCENTRATED)]
    # Not known before the end of a fit
    _typical_rows: Lacking[Annotated[np.ndarray, index("n_typical", below="n_rows")]]  # of components

    def _disagreement(self, sizes: Sizes) -> str | None:
        learned, stream = vars(self), self._stream
        if stream is None and not ({"_posterior", "component_labels_"} <= learned.keys() and learned.get("_draws")):
            return "has no draws"
        draws = self._draws if stream is None else [*stream.predictive_draws(), *stream._last]
        states = (learned.get("_states") or []) if stream is None else stream.states
        for draw in (self._estimate, *draws):
            is_wrong = _partition_disagrees if isinstance(draw, PartitionDraw) else _parameters_disagree
            if problem := is_wrong(self._family, draw):
                return problem
        if not all(self._matches_samplers(state.position) for state in states):
            return "has states that are not of its sampler"
        K = len(self._estimate.statistics.sizes)
        if "component_labels_" in learned and self.component_labels_.max(initial=-1) >= K:
            return "has labels of other components"
        if sizes.get("n_typical", K) != K or ("_merges" in learned and len(self._merges.pairs) + 1 != K):
            return "has another number of components"
        return super()._disagreement(sizes)

    def _matches_samplers(self, blocks: Blocks) -> bool:
        """Whether the states of the blocks belong to the samplers of the mixture, as far as it stores them."""
        kind, weights = type(self.sampler_), self.weights_sampler
        of_sticks = type(weights)
        if weights is None or isinstance(weights, str):
            of_sticks = kind if weights is None else self._samplers.get(weights, BaseSampler)
        return is_of(kind, blocks.components) and is_of(of_sticks, blocks.sticks)

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior if self._stream is None else self._stream.posterior(self._family.clusters())

    @property
    def _predictive(self) -> Sequence[PartitionDraw | ParameterDraw]:
        return self._draws if self._stream is None else self._stream.predictive_draws()

    # Clusters

    @property
    def component_clusters_(self) -> np.ndarray:
        """The cluster of each component, of shape (K,)."""
        check_is_fitted(self)
        return self._component_clusters

    @property
    def _component_clusters(self) -> np.ndarray:
        sizes = self._estimate.statistics.sizes
        if not self._is_merged:
            return np.arange(len(sizes))
        return self._merges.clusters(None if self.clusters == "merged" else int(self.clusters), sizes)

    @property
    def _is_merged(self) -> bool:
        return self.clusters != "components" and "_merges" in vars(self)

    @property
    def labels_(self) -> np.ndarray:
        """Clusters of the fitted rows, of shape (n_samples,)."""
        return self.component_clusters_[self.component_labels_]

    @property
    def n_components_(self) -> int:
        """Number of clusters."""
        return int(self.component_clusters_.max()) + 1

    @property
    def typical_rows_(self) -> np.ndarray:
        """The typical row of the largest component of each cluster, of shape (n_components_,)."""
        return self._typical_rows[np.unique(self.component_clusters_, return_index=True)[1]]

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, ... clusters with rows, of shape (largest drawn number + 1,)."""
        check_is_fitted(self)
        drawn = self._drawn_clusters.max(axis=-1) + 1 if self._is_merged else self.posterior_["n_components"]
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
        followed = np.full_like(clusters, -1)
        for own, labels in zip(followed, drawn.reshape(-1, drawn.shape[-1]), strict=True):
            common = np.zeros((labels.max() + 1, self.n_components_))
            np.add.at(common, (labels, self.labels_), 1)
            own[: len(common)] = np.where(common.any(axis=1), common.argmax(axis=1), -1)
        return followed

    @property
    def _drawn_partitions(self) -> np.ndarray:
        """Drawn clusters of the fitted rows, (n_draws, n_rows); empty without draws of the labels."""
        labels = self.posterior_.get("labels", np.empty((0, len(self.component_labels_)), np.int32))
        labels = labels.reshape(-1, labels.shape[-1])
        return np.take_along_axis(self._drawn_clusters, labels, axis=1) if self._is_merged else labels

    def _at_estimate(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        shares, log_density = super()._at_estimate(rows)
        return joined(shares, self._component_clusters), log_density

    def co_clustering(self, X: MatrixLike | None = None) -> np.ndarray:
        """Posterior probabilities that two rows belong to the same cluster.

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
            drawn = self._drawn_partitions if self._stream is None else ()
            if not len(drawn):
                raise ValueError("No draws of the labels were kept: pass X.")
            return co_clustering(drawn)
        clusters = self._family_rows(self._read(X))
        n_bytes = 8 * clusters.n_rows**2
        if n_bytes > _MAX_DENSE_BYTES:
            raise ValueError(
                f"co_clustering of {clusters.n_rows} rows would take {n_bytes / 2**30:.1f} GiB; at most 4."
            )
        together = np.zeros((clusters.n_rows, clusters.n_rows))
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
        if "_merges" not in vars(self):
            raise ValueError("No draws of the labels were kept, from which components are merged.")
        if clusters not in ("merged", "components"):
            check_scalar(clusters, "clusters", Integral, min_val=1, max_val=len(self._merges.pairs) + 1)
        return copy.copy(self).set_params(clusters=clusters)

    def _sizes_of_clusters(self) -> tuple[str, np.ndarray, np.ndarray]:
        of_components = self._estimate.statistics.sizes
        sizes = np.bincount(self._component_clusters, of_components).astype(of_components.dtype)
        has_rows = "component_labels_" in vars(self)
        draws = _drawn_sizes(self.labels_, self._drawn_partitions) if has_rows else np.empty((0, len(sizes)))
        return "size", sizes, draws

    def _weights_in_clusters(self) -> np.ndarray:
        return np.eye(self.n_components_)[self._component_clusters].T * self._estimate.statistics.sizes

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
            same draw, plus the components without rows that samplers by minibatches have. ``sample_stats`` contains the
            log joint density as ``lp``. If `max_draws_bytes` limits the number of complete draws, ``weights`` and
            ``n_active`` are in a group ``posterior_thinned``, whose coordinate ``draw`` has their indices. Axes are
            ``chain``, ``draw`` and ``rank``.

        Raises
        ------
        ValueError
            If there are no draws.
        """
        exported = {name: draws for name, draws in self.posterior_.items() if name not in _OF_COMPONENTS}
        if "weights" in exported:
            exported["weights"] = falling(exported["weights"])
            exported["n_active"] = np.count_nonzero(~np.isnan(exported["weights"]), axis=-1)
        complete = self._component_draws if self._stream is None else None  # all draws of a stream are complete
        return to_tree(exported, {"weights": ["rank"]}, component_draws=complete)

    def _family_rows(self, rows: Any) -> Family:
        return self._family.clusters(rows)

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
        if free and getattr(emission, "covariance_scale", None) is not None and self.hyperparameters == "draw":
            family = super()._prior_family(emission, n_features, n_tokens)
            return family.with_hyperprior(free, family)
        if free:
            raise ValueError(
                f"{type(self).__name__} learns hyperparameters of {type(emission).__name__} that are None "
                f"({', '.join(free)}): set them, or fit the estimator and omit n_features."
            )
        return super()._prior_family(emission, n_features, n_tokens)

    def _with_drawn_hyperparameters(self, family: Any, key: np.uint64) -> Any:
        return family.with_drawn_hyperparameters(key)

    def _log_density_of_prior(
        self, family: Any, rows: Any, drawn: PriorLabels, parameters: Any, workers: Workers
    ) -> dict[str, Any]:
        clusters, concentration = family.clusters(rows), float(drawn.parameters["concentration"])
        statistics = clusters.no_statistics(drawn.n_components)
        clusters.given(statistics).count(drawn.labels, statistics, workers)
        of_partition = log_partition_prior(statistics.sizes, concentration)
        log_joint = of_partition + log_density_of(clusters, statistics)
        return {"log_joint": log_joint, **clusters.hyperparameters_of(statistics)}

    @property
    def _clusters_of_estimate(self) -> Any:
        return self._family.clusters().given(self._estimate.statistics)

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._clusters_of_estimate.expected_of_blocks(self._estimate.statistics)

    def _new_rows(self, labels: np.ndarray, key: np.uint64) -> Any:
        """New rows, a block at a time if they become sparse."""
        if not self._fitted_on_sparse:
            return super()._new_rows(labels, key)
        ranges = split_range(len(labels), max(1, _CELLS_AT_ONCE // self._family.n_features))
        new_rows = super()._new_rows
        return sp.vstack([new_rows(labels[a:b], subkey(key, a)) for a, b in ranges], format="csr")

    def _as_table(self, values: np.ndarray) -> Any:
        return sp.csr_array(values) if self._fitted_on_sparse else super()._as_table(values)

    def _expected(self, name: str) -> Any:
        check_is_fitted(self)
        weights = self._weights_in_clusters()
        merged = [weights / weights.sum(axis=1, keepdims=True)] if len(weights) < weights.shape[1] else []
        attributes = self._clusters_of_estimate.expected(self._estimate.statistics, *merged)
        if name not in attributes:
            raise AttributeError(f"The emission {type(self.emission_).__name__} has no {name}.")
        return attributes[name]


def _drawn_sizes(labels: np.ndarray, partitions: np.ndarray) -> np.ndarray:
    """Sizes of the drawn clusters that are matched to those of `labels`, (n_draws, n_clusters)."""
    sizes = np.zeros((len(partitions), labels.max() + 1), np.int64)
    for i, drawn in enumerate(partitions):
        names, drawn_labels = np.unique(drawn, return_inverse=True)
        common = np.zeros((sizes.shape[1], len(names)), np.int64)
        np.add.at(common, (labels, drawn_labels), 1)
        own, matched = linear_sum_assignment(common, maximize=True)
        sizes[i, own] = common.sum(axis=0)[matched]
    return sizes


def _partition_disagrees(family: Any, draw: PartitionDraw) -> str | None:
    clusters = family.clusters()
    if shapes_of(draw.statistics) != shapes_of(clusters.no_statistics(len(draw.statistics.sizes))):
        return "has statistics that are not those of its family"
    try:
        with np.errstate(all="ignore"):
            clusters = clusters.given(draw.statistics)
            means = clusters.cell_attributes(with_new(draw.statistics))
            log_marginal = clusters.log_marginal(draw.statistics)  # NaN for singular covariances
    except ValueError as error:
        return f"has statistics without a posterior: {error}"
    has_posterior = math.isfinite(log_marginal) and clusters.are_means(means)
    return None if has_posterior else "has statistics without a posterior"


def _parameters_disagree(family: Any, draw: ParameterDraw) -> str | None:
    if not isinstance(family, CategoryFamily):
        return "has draws that are not those of its family"
    start = family.clusters().data.column_start
    sums = np.add.reduceat(np.exp(draw.components), start[:-1], axis=0)
    is_right = draw.components.shape[0] == start[-1] and np.allclose(sums, 1.0, rtol=0.0, atol=_TOLERANCE)
    return None if is_right else "has draws of components that do not sum to one"
