"""Inference with a fitted mixture of an exponential family: components, densities and new rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import HasFeatureVariances, HasNewRows, HasParameterCount
from ...inference._draw_store import draws_of, evenly_spaced
from ...inference._draws import to_tree
from ...models import IncompatibleError
from ...numerics.block_sums import BlockSums
from ...utils._conditions import MOST_COUNTED, Array, Integer, Real, Sizes, index, placed
from ...utils._declared import Lacking, Saved
from ...utils._parameters import offers
from .._cluster_summary import SummarizesClusters
from .._imputation import ImputesCells
from .._inference import InformationCriteria
from .._memberships import Position
from .._prior import DrawsFromEmission, side_by_side
from .model import FAMILY_NEEDS

OF_FAMILY = "components_", "covariances_", "mean_directions_", "concentrations_", "dispersions_"
_DRAWN = draws_of(
    "log_likelihood",
    weights=Array("float64", "n_chains n_draws n_components", low=0, sums_to_one=-1),
    components=Array("float64", "n_chains n_component_draws n_components _"),
    covariances=Array("float64", None),
    dispersions=Array("float64", "n_chains n_component_draws n_features", above=0),
    mean_directions=Array("float64", "n_chains n_component_draws n_components n_features", unit=-1),
    concentrations=Array("float64", "n_chains n_component_draws n_components", low=0, high=MOST_COUNTED),
    labels=Array("int32", "n_chains n_component_draws _", low=0),
)


class FamilyInference(SummarizesClusters, ImputesCells, DrawsFromEmission, InformationCriteria):
    """Methods of an estimator with a fitted mixture of an exponential family; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    n_predictive_draws: int
    n_polish: int
    _family_needs = FAMILY_NEEDS
    weights_: Annotated[np.ndarray, Array("float64", "n_components", low=0, sums_to_one=0)]
    components_: Lacking[np.ndarray | list[np.ndarray]]  # a list for categories, by column
    covariances_: Lacking[np.ndarray | list[np.ndarray]]  # of Gaussian components
    mean_directions_: Lacking[np.ndarray]
    concentrations_: Lacking[np.ndarray]
    dispersions_: Lacking[np.ndarray]
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    _estimate: Saved[Position]
    best_chain_: Lacking[Annotated[int, Integer(below="n_chains")]]
    _sums: Saved[BlockSums]  # statistics of the estimate
    converged_: Lacking[bool]
    _draws: Saved[list[Position]]  # of the best chain, of samplers that draw the parameters
    _n_summed_rows: Annotated[float, Real(above=0)]  # number of rows that they represent
    labels_: Lacking[Annotated[np.ndarray, index("n_rows", below="n_components")]]
    typical_rows_: Lacking[Annotated[np.ndarray, Array("int64", "n_components", low=-1)]]

    def _disagreement(self, sizes: Sizes) -> str | None:
        family, estimate, learned = self._family, self._estimate, vars(self)
        if family.n_components != sizes["n_components"]:
            return "has a family of another number of components"
        if self._draws and not self.sampler_.draws_parameters:
            return "has draws, which its sampler does not make"
        draws = {f"_draws[{i}]": position for i, position in enumerate(self._draws)}
        for name, position in {"_estimate": estimate, **draws}.items():
            with placed(name):
                family.check_parameters(position.parameters)
        attributes = {**family.attributes(estimate.parameters), "weights_": estimate.weights}
        for name in {*attributes, *(learned.keys() & OF_FAMILY)}:
            if not _are_equal(attributes.get(name), learned.get(name)):
                return f"has {name} that are not those of its estimate"
        if [array.shape for array in self._sums.total()] != list(family.shapes()):
            return "has sums that are not those of its family"
        if self._sums.total()[0].min() < 0:
            return "has a component of a negative size"
        components = learned.get("_posterior", {}).get("components")
        if components is not None and components.size:
            if components.shape[-1] != side_by_side(self.components_).shape[1]:
                return "has draws of other components"
            with np.errstate(over="ignore"):
                if not np.isfinite(np.square(self._scale_of_components(components)(components)).sum()):
                    return "has draws of components too far from its estimate"
        return super()._disagreement(sizes)

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        if "_posterior" not in vars(self):
            raise AttributeError("posterior_ is set by fit only; partial_fit keeps no draws.")
        return self._posterior

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
        axis, names = "feature", getattr(self, "feature_names_in_", None)
        if isinstance(self.components_, list):
            axis, names = "category", self._names_of_categories(names)
        axes = {"weights": ["component"], "components": ["component", axis]}
        return to_tree(draws, axes, {"draw": whole, axis: names})

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

    def _sizes_of_clusters(self) -> tuple[str, np.ndarray, np.ndarray]:
        components, draws = vars(self).get("_posterior", {}).get("components"), np.empty((0, len(self.weights_)))
        if components is not None and components.size and self.sampler_.draws_parameters:
            draws = self._weights_in(self._match_components(components)).reshape(-1, len(self.weights_))
        return "weight", self.weights_, draws

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._family.attributes_of_blocks(self._estimate.parameters)

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
            of_features = self._family.feature_variances(self._estimate.parameters)
            return partial(np.multiply, 1.0 / np.sqrt(of_features))
        return np.sqrt if min(draws.min(), side_by_side(self.components_).min()) >= 0.0 else np.asarray

    @property
    def _predictive(self) -> list[Position]:
        return evenly_spaced(self._draws, self.n_predictive_draws) or [self._estimate]

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


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two arrays, or two lists of arrays, are equal and of equal types."""
    if type(one) is not type(other) or len(one) != len(other):
        return False
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))
