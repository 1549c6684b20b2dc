"""Inference with a fitted mixture of subspaces: components, densities, distances and coordinates of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import orth
from scipy.sparse import csr_array, issparse
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ...base import posterior_of_number, stack_draws
from ...emissions._dense_rows import DenseRows, IncompleteRows, read_dense
from ...inference._draw_store import TRACE, evenly_spaced
from ...inference._draws import falling, to_tree
from ...utils._conditions import Array, Integer, Length, Sizes, index
from ...utils._declared import Keyed, Lacking, Saved
from ...utils._threads import Workers, split_range
from ...utils._typing import ArrayLike, MatrixLike, RandomStateLike
from ...utils._validation import check_array, validate_data
from .._imputation import ImputesCells
from .._memberships import Position, PositionDraws, log_partition_prior, read_labels
from .._prior import DrawsFromPrior, PriorLabels, named_as_draws, partition_from_prior
from .._scores import FamilyRows
from .family import MOST, SubspaceFamily, Subspaces, add_terms, are_orthonormal, check_sizes, given_family
from .moments import StreamMoments
from .sparse_rows import SparseRows, blocks

DRAW_AXES = {  # axes of exported arrays after chain and draw
    **{name: ["component"] for name in ("dimensions", "weights", "noise_variance")},
    **{name: ["component", "feature"] for name in ("means", "leverages")},
    "variances": ["component", "direction"],
    "labels": ["row"],
}
_ROWS = 2048  # of a task
# The log likelihood with a given number of components, else the others
_DRAWN = Keyed(
    set(),
    log_likelihood=TRACE,
    log_joint=TRACE,
    n_components=Array("int64", "n_chains n_draws", low=1),
    concentration=Array("float64", "n_chains n_draws", above=0),
)


class Projection(NamedTuple):
    """Coordinates of rows in the subspaces that they belong to."""

    coordinates: np.ndarray  # (n_samples, largest dimension), NaN beyond the dimension of the subspace of the row
    labels: np.ndarray  # (n_samples,)


class SubspaceInference(ImputesCells, DrawsFromPrior):
    """Methods of an estimator with draws of subspaces; not public.

    The estimator has the parameters and, when fitted, the attributes declared here.
    """

    n_predictive_draws: int
    random_state: RandomStateLike
    # Before other attributes, because draws may have other numbers of components
    _chains: Annotated[list[list[Position[Subspaces]]], Length("n_chains")]
    means_: Annotated[np.ndarray, Array("float64", "n_components n_features", low=-MOST, high=MOST)]
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    # Of the best chain; the last state if the fit was stopped before the first draw
    _draws: Saved[list[Position[Subspaces]]]
    _whole_draws: Annotated[np.ndarray, index("n_whole", below="n_draws")]  # among all draws after burn-in
    bases_: Annotated[list[Annotated[np.ndarray, Array("float64", "_ n_features")]], Length("n_components")]
    centre_prior_mean_: Annotated[np.ndarray, Array("float64", "n_features", low=-MOST, high=MOST)]
    _family: Saved[SubspaceFamily]
    # Of the first rows in these draws
    _stored_labels: Lacking[Annotated[np.ndarray, Array("int32", "n_chains n_whole _", low=0)]]
    labels_: Lacking[Annotated[np.ndarray, index("n_rows", below="n_components")]]
    _key: Lacking[np.uint64]  # root of the random streams
    _moments: Lacking[StreamMoments]  # after `partial_fit`
    dimensions_: Annotated[np.ndarray, Array("int64", "n_components", low=0)]
    dimension_posterior_: Annotated[np.ndarray, Array("float64", "n_components _", low=0, sums_to_one=1)]
    weights_: Annotated[np.ndarray, Array("float64", "n_components", low=0, sums_to_one=0)]
    noise_variance_: Annotated[np.ndarray, Array("float64", "n_components", above=0)]
    best_chain_: Annotated[int, Integer(below="n_chains")]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if not self._draws:
            return "has no draws"
        drawn = vars(self).get("_posterior")
        if drawn is not None and not {"log_likelihood", "log_joint"} & drawn.keys():
            return "lacks the log density of its draws"
        if any(len(draws) != len(self._whole_draws) for draws in self._chains):
            return "has chains of different lengths"
        shapes = {draw.parameters.centres.shape for draws in self._chains for draw in draws}
        most, is_inferred = max((K for K, _ in shapes), default=0), "n_components" in (drawn or {})
        if any(m != sizes["n_features"] or not (is_inferred or len(self.weights_) == K) for K, m in shapes):
            return "has draws of other sizes"
        if "_stored_labels" in vars(self) and self._stored_labels.max(initial=-1) >= most:
            return "has labels of other components"
        for dimension, basis in zip(self.dimensions_, self.bases_, strict=True):
            if len(basis) != dimension:
                return "has bases of other dimensions than dimensions_"
            if not are_orthonormal(basis):
                return "has a basis that is not orthonormal"
        return None

    @property
    def n_components_(self) -> int:
        """Number of components of the fitted attributes: the most probable one if it is inferred."""
        check_is_fitted(self)
        return len(self.weights_)

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, ... components with rows, of shape (largest drawn number + 1,)."""
        return posterior_of_number(self._posterior.get("n_components", np.empty(0)), self.n_components_)

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        if "_posterior" not in vars(self):
            raise AttributeError("partial_fit makes no posterior_: it is available after fit.")

        def as_arrays(draw: Position) -> dict[str, np.ndarray]:
            return {"weights": draw.weights, **named_as_draws(self._family.attributes(draw.parameters))}

        arrays = [[as_arrays(draw) for draw in of_chain] for of_chain in self._chains]
        labels = {"labels": self._stored_labels} if "_stored_labels" in vars(self) else {}
        example = as_arrays(self._draws[-1])
        stacked = {name: stack_draws([[draw[name] for draw in of] for of in arrays], example[name]) for name in example}
        return {**self._posterior, **stacked, **labels}

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log density of each row under the posterior predictive distribution, the mean density over draws.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return self._at_estimate(self._read(X))[1]

    def transform(self, X: MatrixLike) -> np.ndarray:
        r"""Distances to the subspaces, :math:`\|(I - U_k'U_k)(x - c_k)\|`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        distances : ndarray of shape (n_samples, n_components)
            In the units of X. Of a row with missing cells, those of its observed cells from the nearest point of the
            subspace.
        """
        rows, K = self._read(X), len(self.means_)
        if rows.has_missing:
            return self._distances_of_cells(rows)
        terms, no_offsets = np.zeros((rows.n_rows, K)), np.zeros(K)
        # Improper densities, constant along the subspaces, with variance 1/2 orthogonal to them
        ratios = [np.zeros(len(basis)) for basis in self.bases_]
        improper = Subspaces.of(self.bases_, ratios, self.means_, np.full(K, 2.0))
        tasks = split_range(rows.n_rows, _ROWS)
        with Workers(self.n_jobs) as workers:
            workers.run(add_terms, [(rows.values[a:b], improper, no_offsets, terms[a:b]) for a, b in tasks])
        return np.sqrt(np.maximum(-terms, 0.0))

    def _distances_of_cells(self, rows: DenseRows) -> np.ndarray:
        """Distances of the observed cells from those of the nearest points of the subspaces, (n, K)."""
        out = np.empty((rows.n_rows, len(self.means_)))
        _, patterns = np.unique(np.isnan(rows.values), axis=0, return_inverse=True)
        for pattern in range(patterns.max() + 1):
            own = np.flatnonzero(patterns == pattern)
            seen = ~np.isnan(rows.values[own[0]])
            for k, basis in enumerate(self.bases_):
                gaps = rows.values[np.ix_(own, seen)] - self.means_[k, seen]
                axes = orth(basis[:, seen].T)
                out[own, k] = np.linalg.norm(gaps - (gaps @ axes) @ axes.T, axis=1)
        return out

    def project(self, X: MatrixLike, labels: ArrayLike | None = None) -> Projection:
        """Coordinates of rows in the subspaces that they belong to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        labels : array-like of shape (n_samples,), default=None
            Component whose subspace each row is projected on. None uses `predict`.

        Returns
        -------
        projection : Projection
            ``coordinates`` of shape (n_samples, max(dimensions_)) are relative to ``means_`` and along the rows of
            ``bases_``, with NaN beyond the dimension of the subspace of a row, and means given the observed cells of a
            row with missing cells. ``labels`` are the components.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite, or the labels are invalid.
        """
        rows = self._read(X)
        labels = self.predict(X) if labels is None else self._read_labels(labels, rows.n_rows)
        rows = self._expected_rows(rows) if rows.has_missing else rows.values
        coordinates = np.full((len(rows), max(len(basis) for basis in self.bases_)), np.nan)
        for k, basis in enumerate(self.bases_):
            own = np.flatnonzero(labels == k)
            for block in blocks(own_rows := rows[own] - self.means_[k]):
                within = np.einsum("im,dm->id", np.asarray(own_rows[block]), basis)
                coordinates[own[block], : len(basis)] = within
        return Projection(coordinates, labels)

    def _expected_rows(self, rows: DenseRows) -> np.ndarray:
        """Rows with the means of missing cells given the observed ones."""
        values = rows.cells()
        return np.where(np.isnan(values), self._expected_cells(rows, values).firsts, values)

    def inverse_transform(self, X: ArrayLike, labels: ArrayLike) -> np.ndarray:
        """Map coordinates in the subspaces to points of the feature space.

        Parameters
        ----------
        X : array-like of shape (n_samples, max(dimensions_))
        labels : array-like of shape (n_samples,)

        Returns
        -------
        points : ndarray of shape (n_samples, n_features)
            Points of the subspaces. For the coordinates of `project`, they are the points nearest to the rows.

        Raises
        ------
        ValueError
            If the number of columns is not the largest of ``dimensions_``, a row has fewer finite coordinates than its
            subspace has dimensions, or the labels are invalid.
        """
        check_is_fitted(self)
        largest = max(len(basis) for basis in self.bases_)
        coordinates = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_features=0)
        if coordinates.shape[1] != largest:
            raise ValueError(f"X must have {largest} columns, the largest of dimensions_; got {coordinates.shape[1]}.")
        labels = self._read_labels(labels, len(coordinates))
        points = self.means_[labels]
        for k, basis in enumerate(self.bases_):
            rows = labels == k
            within = coordinates[rows, : len(basis)]
            if not np.isfinite(within).all():
                raise ValueError(f"Rows of component {k} need {len(basis)} finite coordinates.")
            points[rows] += np.einsum("id,dm->im", within, basis)
        return points

    def to_arviz(self) -> Any:
        """Convert the draws to an ArviZ data tree; the components are in the order of ``weights_``.

        The tree contains leverages in place of bases. Bases of the same subspace differ between draws, at least in
        their signs, so that means or R-hat of their entries have no meaning. The leverage of a feature is the squared
        length of the projection of its unit vector on the subspace; the leverages sum to the dimension. ``posterior_``
        contains the bases.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` contains ``dimensions``, ``weights`` and ``noise_variance`` (axes ``chain``, ``draw``
            and ``component``), ``means`` and ``leverages`` (with an axis ``feature``), and ``variances`` along the
            subspaces (with an axis ``direction``, the largest first, NaN beyond ``dimensions``). ``sample_stats``
            contains the log likelihood. The coordinate ``draw`` has the indices of these draws among all draws after
            burn-in. `max_draws_bytes` limits their number.

        Raises
        ------
        ValueError
            If the fit was stopped before the first draw.
        """
        coords = {"draw": self._whole_draws, "feature": getattr(self, "feature_names_in_", None)}
        return to_tree(self._exported_draws(), DRAW_AXES, coords)

    def _exported_draws(self) -> dict[str, np.ndarray]:
        """Draws for export, complete ones only, directions by decreasing variance, with leverages in place of bases.

        Axes have arbitrary signs, and are not unique for equal variances; the diagonal of the projection, the
        leverages, is.
        """
        draws = self.posterior_
        draws |= {name: draws[name][:, self._whole_draws] for name in self._posterior}
        draws["variances"] = falling(draws["variances"])
        draws["leverages"] = np.nansum(draws.pop("bases") ** 2, axis=-2)
        return draws

    def _read(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        rows = self._read_rows(X, reset=False)
        check_sizes(rows.values)
        return rows

    def _read_rows(self, X: ArrayLike, *, reset: bool) -> DenseRows:
        """Rows of X, with missing cells if the sampler draws them and X is dense."""
        if issparse(X):
            valid = validate_data(self, X, reset=reset, dtype=np.float64, accept_sparse="csr")
            return DenseRows(SparseRows(csr_array(valid), np.zeros(valid.shape[1])))  # type: ignore[arg-type]
        return read_dense(self, X, reset=reset, missing=get_tags(self).input_tags.allow_nan)

    def _rows_of_cells(self, values: np.ndarray) -> DenseRows:
        return IncompleteRows.of_values(values)

    def _check_cells(self) -> None:
        check_is_fitted(self)

    @property
    def _predictive(self) -> Sequence[Position[Subspaces]]:
        return self._estimate.draws

    def _drawn_parameters(self) -> Sequence[Position[Subspaces]]:
        return self._draws

    def _read_labels(self, labels: ArrayLike, n: int) -> np.ndarray:
        return read_labels(labels, n, len(self.means_), "labels must be")

    @property
    def _estimate(self) -> PositionDraws:
        return PositionDraws(evenly_spaced(self._draws, self.n_predictive_draws))

    def _prior_parts(self, n_features: int | None, n_tokens: int | None) -> tuple[None, SubspaceFamily]:
        return None, self._family if n_features is None else given_family(self, n_features)

    def _draw_prior_labels(self, n_rows: int, n_features: int | None, key: np.uint64) -> PriorLabels:
        if self.n_components is None:
            drawn = partition_from_prior(self, n_rows, key)
            weights = drawn.parameters["weights"]  # without that of new components, as in draws
            return drawn._replace(parameters={**drawn.parameters, "weights": weights / weights.sum()})
        return super()._draw_prior_labels(n_rows, n_features, key)

    def _log_density_of_prior(
        self, family: Any, rows: DenseRows, drawn: PriorLabels, parameters: Subspaces, workers: Workers
    ) -> dict[str, Any]:
        if self.n_components is not None:
            return super()._log_density_of_prior(family, rows, drawn, parameters, workers)
        terms = np.zeros((rows.n_rows, drawn.n_components))
        FamilyRows(family, rows).add_densities_of_rows(parameters, terms, workers)
        log_likelihood = terms[np.arange(rows.n_rows), drawn.labels].sum()
        concentration = float(drawn.parameters["concentration"])
        return {"log_joint": log_partition_prior(np.bincount(drawn.labels), concentration) + log_likelihood}

    def _rows_of_prior(self, reader: None, X: np.ndarray, fitted: bool) -> DenseRows:
        return DenseRows(X)
