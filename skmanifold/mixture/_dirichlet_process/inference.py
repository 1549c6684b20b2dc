"""Inference with a fitted mixture: predictive densities, components, co-clustering and new rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import LearnsPrior
from ...emissions._categories import CategoryFamily
from ...emissions._family import Family
from ...emissions._statistics import shapes_of
from ...inference._draws import falling, to_tree
from ...random._keys import subkey
from ...samplers import BaseSampler
from ...samplers._states import is_of
from ...utils._conditions import Sizes
from ...utils._threads import Workers, split_range
from ...utils._typing import ArrayLike, MatrixLike
from .._imputation import ImputesCells
from .._memberships import ParameterDraw, PartitionDraw, log_partition_prior, with_new
from .._prior import DrawsFromEmission, PriorLabels, partition_from_prior
from .clusters import ClustersOfComponents
from .model import log_density_of
from .outliers import OUTLIER, score_rows, weight_given
from .stochastic_slice import Blocks

# Of different draws these do not correspond to each other.
_OF_COMPONENTS = "components", "covariances", "concentrations", "labels", "component_clusters"
_CELLS_AT_ONCE = 1_000_000  # of sampled rows that become sparse
_TOLERANCE = 1e-6  # of sums to one


class PartitionInference(ClustersOfComponents, ImputesCells, DrawsFromEmission):
    """Methods of an estimator with a fitted mixture; not public.

    The estimator has the constructor parameters declared here.
    """

    concentration: float | None
    hyperparameters: str
    concentration_prior: ArrayLike

    def _disagreement(self, sizes: Sizes) -> str | None:
        learned, stream = vars(self), self._stream
        if stream is None and not ({"_posterior", "component_labels_"} <= learned.keys() and learned.get("_draws")):
            return "has no draws"
        draws = self._draws if stream is None else [*stream.predictive_draws(), *stream._last]
        states = (learned.get("_states") or []) if stream is None else stream.states
        for draw in (self._estimate, *draws):
            is_wrong = partition_disagrees if isinstance(draw, PartitionDraw) else _parameters_disagree
            if problem := is_wrong(self._family, draw):
                return problem
        if not all(self._matches_samplers(state.position) for state in states):
            return "has states that are not of its sampler"
        K, merges = len(self._estimate.statistics.sizes), learned.get("_merges")
        if "component_labels_" in learned and self.component_labels_.max(initial=-1) >= K:
            return "has labels of other components"
        if not self._has_outliers and self.__dict__.get("component_labels_", np.zeros(1)).min() == OUTLIER:
            return "has outliers, but no weight of these"
        if sizes.get("n_typical", K) != K or (merges is not None and len(merges.pairs) + 1 != K):
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
    def outlier_weight_(self) -> float:
        """Posterior mean of the weight of the outliers, if the mixture was fitted with them."""
        check_is_fitted(self)
        if not self._has_outliers:
            raise AttributeError("outlier_weight_ needs a fit with outliers=True.")
        drawn = self._posterior["outlier_weight"]
        labels = self.component_labels_
        return float(drawn.mean()) if drawn.size else weight_given(np.sum(labels == OUTLIER), len(labels))

    @property
    def _has_outliers(self) -> bool:
        """Whether the last fit was one with outliers."""
        return self._stream is None and "outlier_weight" in self._posterior

    def outlier_proba(self, X: MatrixLike | None = None) -> np.ndarray:
        r"""Posterior probability of each row that it is an outlier; 0 after a fit with ``outliers=False``.

        With the density g of outliers and the density f of the mixture of the other rows, that of a new row is

        .. math:: \frac{1}{T} \sum_t \frac{\pi^{(t)} g(x)}{\pi^{(t)} g(x) + (1 - \pi^{(t)}) f^{(t)}(x)}.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            New rows. None uses the rows of `fit`: the share of the draws in which each is an outlier.

        Returns
        -------
        probabilities : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If X is None after `partial_fit`, whose rows are not kept.
        """
        check_is_fitted(self)
        if X is not None:
            rows = self._read(X)
            return self._with_outliers(rows)[1] if self._has_outliers else np.zeros(rows.n_rows)
        if "component_labels_" not in vars(self):
            raise ValueError("The rows of partial_fit were not kept: pass X.")
        labels = self.component_labels_
        drawn = self._posterior.get("labels", labels).reshape(-1, len(labels))
        return np.mean((drawn if len(drawn) else labels[np.newaxis]) == OUTLIER, axis=0)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable cluster of each row, or -1 if it is an outlier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices into ``weights_``; after a fit with ``outliers=True`` -1 for rows whose `outlier_proba` is above
            1/2.
        """
        rows = self._read(X)
        labels = self._at_estimate(rows)[0].argmax(axis=1)
        return np.where(self._with_outliers(rows)[1] > 0.5, OUTLIER, labels) if self._has_outliers else labels

    def _log_densities_of(self, rows: Any) -> np.ndarray:
        return self._with_outliers(rows)[0] if self._has_outliers else super()._log_densities_of(rows)

    def _with_outliers(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log densities of rows, and probabilities that they are outliers."""
        with Workers(self.n_jobs) as workers:
            return score_rows(self._family_rows(rows), self._predictive, len(self.component_labels_), workers)

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
        of_features = {"covariance_prior", "transform", "dispersions", "category_prior"} & exported.keys()
        axes = {name: ["feature", "other_feature"][: exported[name].ndim - 2] for name in of_features}
        return to_tree(exported, {**axes, "weights": ["rank"]}, component_draws=complete)

    def _family_rows(self, rows: Any) -> Family:
        return self._family.clusters(rows)

    def _draw_prior_labels(self, n_rows: int, n_features: int | None, key: np.uint64) -> PriorLabels:
        return partition_from_prior(self, n_rows, key)

    def _prior_family(self, emission: Any, n_features: int | None, n_tokens: int | None) -> Any:
        free = emission.free_hyperparameters() if n_features and isinstance(emission, LearnsPrior) else ()
        is_known = getattr(emission, "covariance_scale", None) is not None or "category_prior" in free
        if free and not (is_known and self.hyperparameters == "draw"):
            raise ValueError(
                f"{type(self).__name__} learns hyperparameters of {type(emission).__name__} that are None "
                f"({', '.join(free)}): set them, or fit the estimator and omit n_features."
            )
        family = super()._prior_family(emission, n_features, n_tokens)
        return family.with_hyperprior(free, family) if free else family

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

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._estimate.clusters(self._family).expected_of_blocks(self._estimate.statistics)

    def _new_rows(self, labels: np.ndarray, key: np.uint64) -> Any:
        """New rows, a block at a time if they become sparse."""
        if not self._fitted_on_sparse:
            return super()._new_rows(labels, key)
        ranges = split_range(len(labels), max(1, _CELLS_AT_ONCE // self._family.n_features))
        new_rows = super()._new_rows
        return sp.vstack([new_rows(labels[a:b], subkey(key, a)) for a, b in ranges], format="csr")

    def _as_table(self, values: np.ndarray) -> Any:
        return sp.csr_array(values) if self._fitted_on_sparse else super()._as_table(values)


def partition_disagrees(family: Any, draw: PartitionDraw) -> str | None:
    """Why a draw that was read from a file is no partition of rows of a family; None if it is one."""
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
