"""Inference with a fitted mixture of an exponential family: components, densities and new rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import HasFeatureVariances, HasNewRows, HasParameterCount
from ...emissions._columns.family import ColumnsFamily
from ...emissions._estimator import WithEmission
from ...emissions._prior import no_statistics
from ...emissions._protocols import RowEmission, RowFamily
from ...emissions._registry import EMISSIONS, ROW_FAMILIES
from ...inference._arviz import to_tree
from ...models import IncompatibleError
from ...random._keys import Purpose, root_key, subkey
from ...samplers import BaseSampler
from ...utils._protocol_check import offers
from ...utils._threads import Workers, limit_threads, split_range
from ...utils._typing import MatrixLike, RandomStateLike
from .._imputation.imputation import ImputesCells, Memberships
from .._membership import MembershipTransformer
from .._prior import draw_labels, named_as_draws, prior_emission, prior_family, read_rows
from .._scores import DensityScores, InformationCriteria, refuse_far_rows
from .cluster_summary import SummarizesComponents
from .kernels import fill_shares
from .model import FAMILY_NEEDS, Position, draw_position, fill_log_terms

_ROWS_OF_TASK = 2048


class EstimateInference(MembershipTransformer, DensityScores, InformationCriteria):
    """Methods of an estimator with an estimate of the parameters of a finite mixture; not public.

    When fitted, the estimator has the attributes declared here.
    """

    n_jobs: int | None
    n_features_in_: int
    weights_: np.ndarray

    if TYPE_CHECKING:  # attributes or properties of the estimator

        @property
        def _family(self) -> Any: ...

        @property
        def _position(self) -> Position:
            """The estimate."""
            ...

        def _read(self, X: MatrixLike) -> Any: ...

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Posterior probabilities of the components given each row, at the estimate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to 1.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        return self._at_estimate(self._read(X))[0]

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable component of each row, at the estimate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices into ``weights_``.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        return self.predict_proba(X).argmax(axis=1)

    def sample(self, n_samples: int = 1, random_state: RandomStateLike = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows from the mixture at the estimate.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Seed.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows. Multinomial rows have the numbers of tokens of random rows of `fit`. No cell is missing.
        labels : ndarray of shape (n_samples,)
            Their components.

        Raises
        ------
        IncompatibleError
            If the emission has no new rows.
        """
        check_is_fitted(self)
        self._check_offered([HasNewRows], f"{type(self).__name__}.sample")
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        key = root_key(random_state)
        labels = draw_labels(self.weights_, n_samples, subkey(key, Purpose.LABELS))
        of_rows = self._position.parameters, labels.astype(np.int32), subkey(key, Purpose.ROWS)
        with limit_threads("blas"):  # other numbers of threads round otherwise
            return self._as_table(self._family.sample(*of_rows)), labels

    def _at_estimate(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        with Workers(self.n_jobs) as workers:
            return shares_and_log_density(self._family, rows, self._position, workers)

    def _log_densities_of_estimate(self, X) -> np.ndarray:
        return self._at_estimate(self._read(X))[1]

    def _n_parameters(self) -> int:
        self._check_offered([HasParameterCount], "An information criterion")
        return self._family.n_parameters() + len(self.weights_) - 1

    def _check_offered(self, protocols: Iterable[type], whom: str) -> None:
        """Raise an IncompatibleError unless the family satisfies the protocols that `whom` needs."""

    def _as_table(self, X: np.ndarray) -> Any:
        """Drawn rows as the user sees them."""
        return X


class FamilyInference(WithEmission, SummarizesComponents, ImputesCells, EstimateInference):
    """Methods of an estimator with a fitted mixture of an exponential family; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    n_predictive_draws: int
    n_components: int
    weight_prior: float | None
    n_polish: int
    _emissions = EMISSIONS
    _families = ROW_FAMILIES
    _emission_protocol = RowEmission
    _family_needs = FAMILY_NEEDS
    emission_: Any
    sampler_: BaseSampler
    _key: np.uint64  # of all streams, frozen when fitting begins
    _family: Any
    _position: Position
    _draws: list[Position]  # of the best chain, of samplers that draw the parameters
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
        components = vars(self).get("_posterior", {}).get("components")
        if components is None or components.size == 0 or not self.sampler_.draws_parameters:
            return np.empty((0, len(self.weights_)))
        return self._weights_in(self._match_components(components)).reshape(-1, len(self.weights_))

    def _attributes_of_estimate(self) -> dict[str, Any]:
        return self._attributes_at(self._position)

    def _attributes_at(self, position: Position) -> dict[str, Any]:
        of_blocks = isinstance(self._family, ColumnsFamily)
        return (self._family.attributes_of_blocks if of_blocks else self._family.attributes)(position.parameters)

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

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log density of each row.

        With samplers that draw the parameters ("gibbs"), this is the log of the mean density over `n_predictive_draws`
        draws, which does not depend on the order of the components. With other samplers it is the log density at the
        estimate. Multinomial rows are scored as their tokens in a given order, without multinomial coefficients, as in
        `DPCategoricalMixture` and `StochasticLDA`. Densities of Poisson counts include the factorials, and densities of
        directions are relative to the uniform distribution on the sphere. The density of a row with missing cells is
        that of its observed cells.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        return self._log_densities_of(self._read(X))

    def _log_densities_of(self, rows: Any) -> np.ndarray:
        positions = self._predictive_draws() or [self._position]
        with Workers(self.n_jobs) as workers:
            total = np.full(rows.n_rows, -np.inf)
            for position in positions:
                np.logaddexp(total, shares_and_log_density(self._family, rows, position, workers)[1], out=total)
        return total - math.log(len(positions))

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: int | None = None,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw parameters from the prior, and rows given these parameters.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_features : int, default=None
            Number of columns. Hyperparameters are then those of the constructor, and none may depend on data. None
            means a fitted estimator: its columns, its number of components and the hyperparameters of the fit.
        n_tokens : int, default=None
            Multinomial rows only: number of tokens of each row, 100 if it is None. Without `n_features`, the numbers
            are those of random rows of `fit`.
        random_state : int, RandomState instance or None, default=None
            Seed.
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows without missing cells.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"weights"``, ``"components"``, ``"labels"``, the component of each
            row, the log likelihood of X as ``"log_likelihood"``, and the other parameters of the emission, with names
            and shapes as in ``posterior_``.

        Raises
        ------
        ValueError
            If a number is less than 1, or a hyperparameter that depends on data is None.
        IncompatibleError
            If the emission does not draw parameters and rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        emission, key = prior_emission(self, n_features), root_key(random_state)
        K = len(self.weights_) if n_features is None else self.n_components
        family = prior_family(self, emission, n_features, K, n_tokens)
        weight_prior = 1.0 / K if self.weight_prior is None else float(self.weight_prior)
        with limit_threads("blas"):
            position = draw_position(family, no_statistics(family), weight_prior, subkey(key, Purpose.PRIOR))
            labels = draw_labels(position.weights, n_samples, subkey(key, Purpose.LABELS)).astype(np.int32)
            X = family.sample(position.parameters, labels, subkey(key, Purpose.ROWS))
        table = self._as_table(X) if n_features is None else X
        if not return_parameters:
            return table
        with Workers(self.n_jobs) as workers:
            rows = read_rows(self, emission, n_features, X)
            log_density = shares_and_log_density(family, rows, position, workers)[1]
        parameters = named_as_draws(family.attributes(position.parameters))
        parameters |= {"components": side_by_side(parameters["components"]), "weights": position.weights}
        return table, {**parameters, "labels": labels, "log_likelihood": np.array(log_density.sum())}

    def _read(self, X: MatrixLike) -> Any:
        check_is_fitted(self)
        return self.emission_.read(self, X, reset=False)

    def _predictive_draws(self) -> list[Position]:
        chosen = np.linspace(0, len(self._draws) - 1, min(self.n_predictive_draws, len(self._draws)))
        return [self._draws[i] for i in np.unique(chosen.astype(int))]

    def _expected_memberships(self, rows: Any, workers: Workers) -> Iterator[Memberships]:
        for position in self._predictive_draws() or [self._position]:
            yield self._memberships_at(position, rows, workers)

    def _drawn_memberships(self, rows: Any, draw: int, key: np.uint64, workers: Workers) -> Memberships:
        return self._memberships_at(self._draws[draw], rows, workers)

    def _memberships_at(self, position: Position, rows: Any, workers: Workers) -> Memberships:
        shares, _ = shares_and_log_density(self._family, rows, position, workers)
        return shares, self._attributes_at(position)

    def _n_parameter_draws(self) -> int:
        if not self.sampler_.draws_parameters:
            raise IncompatibleError(
                f"{type(self.sampler_).__name__} estimates the parameters and does not draw them, so that completed "
                "tables would not show their uncertainty: use the sampler 'gibbs', or n_draws=None."
            )
        return len(self._draws)

    def _has_criteria(self) -> bool:
        sampler = getattr(self, "sampler_", self.sampler)
        kind = self._samplers.get(sampler) if isinstance(sampler, str) else sampler
        if getattr(kind, "draws_parameters", False) and self.n_polish == 0:
            raise AttributeError(
                f"Information criteria are about a mode, and sampler={self.sampler!r} ends near a mean: use n_polish, "
                "or 'em' or 'esca'."
            )
        return True

    def _check_offered(self, protocols: Iterable[type], whom: str) -> None:
        self._check_family(self.emission_, self._family, protocols, whom)

    def __sklearn_tags__(self) -> Any:
        tags, kind = super().__sklearn_tags__(), self._emission_kind
        tags.input_tags.sparse = kind.allows_sparse
        tags.input_tags.allow_nan = kind.allows_missing
        tags.input_tags.categorical = kind.has_codes
        tags.input_tags.positive_only = kind.positive_only
        return tags


def side_by_side(components: np.ndarray | list[np.ndarray]) -> np.ndarray:
    """``components_`` as one array with a row for each component: the categories of all columns are concatenated."""
    return np.concatenate(components, axis=1) if isinstance(components, list) else components


def shares_and_log_density(
    family: RowFamily, rows: Any, position: Position, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities of the components given each row, (n_rows, K), and log densities, (n_rows,)."""
    shares, log_density = np.empty((rows.n_rows, family.n_components)), np.empty(rows.n_rows)
    shared = family, rows, position, shares, log_density
    workers.run(_fill, [(first, stop, *shared) for first, stop in split_range(rows.n_rows, _ROWS_OF_TASK)])
    refuse_far_rows(log_density)
    if rows.log_base is not None:
        log_density += rows.log_base
    return shares, log_density


def _fill(first: int, stop: int, family: RowFamily, rows: Any, position: Position, shares, log_density) -> None:
    fill_log_terms(family, rows, first, stop, position, shares[first:stop])
    fill_shares(shares[first:stop], np.empty(2 * (stop - first) * family.n_components), log_density[first:stop])
