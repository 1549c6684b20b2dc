"""Inference with a fitted mixture of an exponential family: components, densities and new rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import HasFeatureVariances, HasNewRows, HasParameterCount
from ...emissions._protocols import RowEmission
from ...emissions._registry import EMISSIONS, ROW_FAMILIES
from ...inference._arviz import to_tree
from ...models import IncompatibleError
from ...utils._protocol_check import offers
from ...utils._typing import ArrayLike
from .._cluster_summary import ClusterSummary, of_draws, summarize_clusters
from .._densities import attributes_of
from .._imputation.imputation import ImputesCells
from .._memberships.finite import Position, evenly_spaced
from .._prior import DrawsFromEmission, side_by_side
from .._scores import InformationCriteria
from .model import FAMILY_NEEDS


class FamilyInference(ImputesCells, DrawsFromEmission, InformationCriteria):
    """Methods of an estimator with a fitted mixture of an exponential family; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    n_predictive_draws: int
    n_polish: int
    _emissions = EMISSIONS
    _families = ROW_FAMILIES
    _emission_protocol = RowEmission
    _family_needs = FAMILY_NEEDS
    _key: np.uint64  # of all streams, frozen when fitting begins
    _position: Position
    _draws: list[Position]  # of the best chain, of samplers that draw the parameters
    labels_: np.ndarray
    components_: np.ndarray | list[np.ndarray]  # a list for categories, by column
    n_categories_: np.ndarray  # of columns of codes
    covariances_: np.ndarray  # of Gaussian components
    _posterior: dict[str, np.ndarray]
    _component_draws: np.ndarray  # those whose components were kept

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        if "_posterior" not in vars(self):
            raise AttributeError("posterior_ is set by fit only; partial_fit keeps no draws.")
        return self._posterior

    def cluster_summary(self, feature_names: ArrayLike | None = None) -> ClusterSummary:
        r"""Weights and typical rows of the components, and the columns that separate them, as data frames.

        The mutual information of a column and the component,

        .. math:: I_j = \sum_k w_k \int f_{kj}(x) \log \frac{f_{kj}(x)}{\sum_l w_l f_{lj}(x)} \, dx,

        where :math:`f_{kj}` is the density of column j in component k at the estimate, is 0 if the column has the same
        distribution in all components, and the entropy of the component if the column determines it. For columns of
        numbers it is estimated from 2,000 drawn rows. For multinomial rows it is the contribution of the column to the
        mutual information of one token and its component.

        Parameters
        ----------
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns. None uses ``feature_names_in_`` if it exists, else the column indices.

        Returns
        -------
        summary : ClusterSummary
            ``clusters`` has a row for each component, the one with the largest weight first; the index has the numbers
            of the components as in ``labels_``. Its columns are ``weight``, as in ``weights_``; with samplers that draw
            the parameters ("gibbs"), ``drawn_weight``, ``drawn_weight_low`` and ``drawn_weight_high``, the median and
            the 5% and 95% quantiles of the drawn weights, where the components of each draw are matched to those of
            the estimate as in `to_arviz`; ``size``, the number of fitted rows with this label, and
            ``typical_row``, the one of them with the highest density in the component (missing if there are none); and
            then for each column, in descending order of its mutual information, the mean in the component (of binary
            columns the probability of a one) or the most probable category. After `partial_fit` there are no sizes and
            no typical rows, because rows are not kept. ``columns`` has a row for each column, in the same order:
            ``mutual_information`` in nats. Emissions without distributions of single columns ("von_mises_fisher", some
            user-defined ones) have a summary without columns.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If the number of names differs from the number of columns.
        ImportError
            If pandas is not installed.
        """
        check_is_fitted(self)
        clusters: dict[str, Any] = {"weight": self.weights_, **of_draws("weight", self._matched_weights())}
        if hasattr(self, "labels_"):
            clusters["size"] = np.bincount(self.labels_, minlength=len(self.weights_))
        attributes = attributes_of(self._family, self._position.parameters)
        summary = summarize_clusters(self, feature_names, self.weights_, attributes, clusters)
        return summary._replace(clusters=summary.clusters.iloc[np.argsort(-self.weights_, kind="stable")])

    def to_arviz(self) -> Any:
        """Convert the draws to an ArviZ data tree; the components are in the order of ``components_``.

        The components of each draw are matched to those of the estimate, one to one, by their expected rows. Components
        with equal expected rows, which differ only in their covariances, may be matched in any order.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` contains ``weights`` and ``components`` (axes ``chain``, ``draw``, ``component`` and
            ``feature``), ``sample_stats`` the log likelihood. The coordinate ``draw`` has the indices of these draws
            among all draws after burn-in. `max_draws_bytes` limits their number. For codes of categories, the axis
            ``category`` replaces ``feature``; it has the categories of all columns, such as ``colour_0``.

        Raises
        ------
        AttributeError
            If the sampler does not draw the parameters.
        ImportError
            If arviz-base is not installed.
        ValueError
            If no draws of the components were kept.
        """
        check_is_fitted(self)
        if not self.sampler_.draws_parameters:
            raise AttributeError(
                f"{type(self.sampler_).__name__} estimates the components and does not draw them: there are no draws "
                "from the posterior. Use the sampler 'gibbs'."
            )
        components = self.posterior_.get("components")
        if components is None or components.shape[1] == 0:
            raise ValueError("No draws of the components were kept: raise max_draws_bytes, or lower burn_in or thin.")
        whole = self._component_draws
        orders = self._match_components(components)
        draws = {
            "log_likelihood": self.posterior_["log_likelihood"][:, whole],
            "weights": self._weights_in(orders),
            "components": np.take_along_axis(components, orders[..., np.newaxis], axis=2),
        }
        coords, axis, names = {"draw": whole}, "feature", getattr(self, "feature_names_in_", None)
        if isinstance(self.components_, list):
            axis, names = "category", self._names_of_categories(names)
        if names is not None:
            coords[axis] = names
        return to_tree(draws, {"weights": ["component"], "components": ["component", axis]}, coords)

    def _names_of_categories(self, names: np.ndarray | None) -> np.ndarray:
        """Names such as "colour_red" for the categories of all columns; a column of numbers has its own name."""
        columns = [f"x{c}" for c in range(self.n_features_in_)] if names is None else list(names)
        if "_layout" in vars(self):
            categories = [None if each is None else each.tolist() for each in self.categories_]
        else:
            categories = [list(range(n)) for n in self.n_categories_]
        pairs = zip(columns, categories, strict=True)
        return np.array([name if of is None else f"{name}_{each}" for name, of in pairs for each in of or [0]])

    def _weights_in(self, orders: np.ndarray) -> np.ndarray:
        """Weights of the draws whose components were kept, in these orders, (n_chains, n_draws, K)."""
        return np.take_along_axis(self.posterior_["weights"][:, self._component_draws], orders, axis=2)

    def _matched_weights(self) -> np.ndarray:
        """Drawn weights, (n_draws, K), whose components are in the order of the estimate."""
        components = vars(self).get("_posterior", {}).get("components")
        if components is None or components.size == 0 or not self.sampler_.draws_parameters:
            return np.empty((0, len(self.weights_)))
        return self._weights_in(self._match_components(components)).reshape(-1, len(self.weights_))

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._family.attributes_of_blocks(self._position.parameters)

    def _match_components(self, draws: np.ndarray) -> np.ndarray:
        """Order of the components of each draw that matches ``components_``, (n_chains, n_draws, K)."""
        scale = self._scale_of_components(draws)
        reference = scale(side_by_side(self.components_))
        return np.array(
            [[linear_sum_assignment(cdist(reference, scale(draw), "sqeuclidean"))[1] for draw in of] for of in draws]
        )

    def _scale_of_components(self, draws: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        # Distances use scales on which the features of a component have similar variances: the standard deviations of
        # Gaussian components, and square roots of counts and probabilities.
        if offers(self._family, HasFeatureVariances):
            of_features = self._family.feature_variances(self._position.parameters)
            return partial(np.multiply, 1.0 / np.sqrt(of_features))
        return np.sqrt if min(draws.min(), side_by_side(self.components_).min()) >= 0.0 else np.asarray

    @property
    def _estimate(self) -> Position:
        return self._position

    @property
    def _predictive(self) -> list[Position]:
        return evenly_spaced(self._draws, self.n_predictive_draws) or [self._position]

    def _drawn_parameters(self) -> list[Position]:
        if not self.sampler_.draws_parameters:
            raise IncompatibleError(
                f"{type(self.sampler_).__name__} estimates the parameters and does not draw them, so that completed "
                "tables would not show their uncertainty: use the sampler 'gibbs', or n_draws=None."
            )
        return self._draws

    def _new_rows(self, labels: np.ndarray, key: np.uint64) -> Any:
        self._check_offers(self.emission_, self._family, [HasNewRows], f"{type(self).__name__}.sample")
        return super()._new_rows(labels, key)

    def _n_parameters(self) -> int:
        self._check_offers(self.emission_, self._family, [HasParameterCount], "An information criterion")
        return super()._n_parameters()

    def _has_criteria(self) -> bool:
        sampler = getattr(self, "sampler_", self.sampler)
        kind = self._samplers.get(sampler) if isinstance(sampler, str) else sampler
        if getattr(kind, "draws_parameters", False) and self.n_polish == 0:
            raise AttributeError(
                f"Information criteria are about a mode, and sampler={self.sampler!r} ends near a mean: use n_polish, "
                "or 'em' or 'esca'."
            )
        return True
