"""Inference with a fitted mixture of subspaces: components, densities, distances and coordinates of rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from ...inference._arviz import to_tree
from ...utils._threads import Workers, limit_threads, split_range
from ...utils._typing import ArrayLike, ClassNamePrefixFeaturesOutMixin, RandomStateLike, TransformerMixin
from ...utils._validation import check_array, validate_data
from .._labels import read_labels
from .._scores import DensityScores
from .model import log_terms
from .parameters import Subspaces
from .posterior_draws import DRAW_AXES, draws_as_arrays, export_draws
from .priors import check_sizes

_ROWS_AT_ONCE = 1 << 16


class Projection(NamedTuple):
    """Coordinates of rows in the subspaces that they belong to."""

    coordinates: np.ndarray  # (n_samples, largest dimension), NaN beyond the dimension of the subspace of the row
    labels: np.ndarray  # (n_samples,)


class SubspaceInference(DensityScores, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of an estimator with draws of subspaces; not public.

    The estimator has the parameters and, when fitted, the attributes declared here.
    """

    n_jobs: int | None
    n_predictive_draws: int
    random_state: RandomStateLike
    bases_: list[np.ndarray]
    means_: np.ndarray
    labels_: np.ndarray
    _draws: list[Subspaces]  # of the best chain; the last state if the fit was stopped before the first draw
    _chains: list[list[Subspaces]]
    _whole_draws: np.ndarray  # indices of these draws among all draws after burn-in
    _stored_labels: np.ndarray  # of the first rows in these draws
    _posterior: dict[str, np.ndarray]  # quantities recorded for all draws

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        labels = {"labels": self._stored_labels} if "_stored_labels" in vars(self) else {}
        return {**self._posterior, **draws_as_arrays(self._chains, self._draws[-1]), **labels}

    @property
    def _n_features_out(self) -> int:
        return len(self.means_)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Posterior probabilities of the components, averaged over draws of the subspaces.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to 1.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return softmax(self._log_joint(X), axis=1)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices into ``weights_``.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return self._log_joint(X).argmax(axis=1)

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Log density of each row under the posterior predictive distribution, the mean density over draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return logsumexp(self._log_joint(X), axis=1)

    def transform(self, X: ArrayLike) -> np.ndarray:
        r"""Distances to the subspaces, :math:`\|(I - U_k'U_k)(x - c_k)\|`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_components)
            In the units of X.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        X = self._validated(X)
        dims = np.array([len(basis) for basis in self.bases_])
        K, m = self.means_.shape
        bases = np.zeros((K, max(1, dims.max()), m))
        for k, basis in enumerate(self.bases_):
            bases[k, : dims[k]] = basis
        # Improper densities, constant along the subspaces, with variance 1/2 orthogonal to them
        centres = for_kernels(self.means_)
        improper = Subspaces(bases, dims, np.zeros(bases.shape[:2]), centres, np.full(K, 2.0), np.ones(K))
        with Workers(self.n_jobs) as workers:
            return np.sqrt(np.maximum(-log_terms(X, improper, workers, np.zeros(K)), 0.0))

    def project(self, X: ArrayLike, labels: ArrayLike | None = None) -> Projection:
        """Coordinates of rows in the subspaces that they belong to.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        labels : array-like of shape (n_samples,), default=None
            Component whose subspace each row is projected on. None uses `predict`.

        Returns
        -------
        projection : Projection
            ``coordinates`` of shape (n_samples, max(dimensions_)) are relative to ``means_`` and along the rows of
            ``bases_``, with NaN beyond the dimension of the subspace of a row. ``labels`` are the components.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite, or the labels are invalid.
        """
        X = self._validated(X)
        labels = self.predict(X) if labels is None else self._read_labels(labels, len(X))
        coordinates = np.full((len(X), max(len(basis) for basis in self.bases_)), np.nan)
        for k, basis in enumerate(self.bases_):
            rows = labels == k
            coordinates[rows, : len(basis)] = np.einsum("im,dm->id", X[rows] - self.means_[k], basis)
        return Projection(coordinates, labels)

    def inverse_transform(self, X: ArrayLike, labels: ArrayLike) -> np.ndarray:
        """Map coordinates in the subspaces to points of the feature space.

        Parameters
        ----------
        X : array-like of shape (n_samples, max(dimensions_))
            Coordinates as returned by `project`.
        labels : array-like of shape (n_samples,)
            Components of the rows.

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

    def sample(self, n_samples: int = 1, random_state: RandomStateLike = None) -> tuple[np.ndarray, np.ndarray]:
        """Sample rows from the posterior predictive distribution, each from a random draw of the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Seed.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        y : ndarray of shape (n_samples,)
            Components of the rows.

        Raises
        ------
        ValueError
            If `n_samples` is less than 1.
        """
        check_is_fitted(self)
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        rng = check_random_state(random_state)
        draws = self._predictive_draws()
        of_draw = rng.randint(len(draws), size=n_samples)
        X, y = np.empty((n_samples, self.means_.shape[1])), np.empty(n_samples, np.int64)
        with limit_threads("blas"):  # rounding depends on the number of threads
            for i, draw in enumerate(draws):
                rows = np.flatnonzero(of_draw == i)
                y[rows] = rng.choice(draw.n_components, size=len(rows), p=draw.weights)
                for k in range(draw.n_components):
                    of_component = rows[y[rows] == k]
                    basis, squeeze = draw.basis(k), 1.0 / np.sqrt(draw.ratios[k, : draw.dims[k]]) - 1.0
                    noise = rng.standard_normal((len(of_component), X.shape[1])) / np.sqrt(draw.noise[k])
                    X[of_component] = draw.centres[k] + noise + ((noise @ basis.T) * squeeze) @ basis
        return X, y

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
        ImportError
            If arviz-base is not installed.
        ValueError
            If the fit was stopped before the first draw.
        """
        posterior = self.posterior_
        coords = {"draw": self._whole_draws}
        if hasattr(self, "feature_names_in_"):
            coords["feature"] = self.feature_names_in_
        return to_tree(export_draws(posterior, self._whole_draws), DRAW_AXES, coords)

    def _validated(self, X) -> np.ndarray:
        check_is_fitted(self)
        rows = for_kernels(validate_data(self, X, dtype=np.float64, reset=False))
        check_sizes(rows)
        return rows

    def _read_labels(self, labels, n: int) -> np.ndarray:
        return read_labels(labels, n, len(self.means_), "labels must be")

    def _predictive_draws(self) -> list[Subspaces]:
        draws = evenly_spaced(self._draws, self.n_predictive_draws)
        return [Subspaces._make(map(for_kernels, draw)) for draw in draws]

    def _log_joint(self, X) -> np.ndarray:
        """Log of weight times density of each component, averaged over draws, (n, K)."""
        X = self._validated(X)
        with Workers(self.n_jobs) as workers:
            return average_log_terms(X, self._predictive_draws(), workers)


def for_kernels(array: np.ndarray) -> np.ndarray:
    """A contiguous, writable array: numba would compile the kernels again for a read-only one, such as a memory map."""
    return np.require(array, requirements=["C", "W"])


def evenly_spaced(draws: list[Subspaces], n: int) -> list[Subspaces]:
    """At most `n` evenly spaced draws, including the last unless `n` is 1."""
    chosen = np.linspace(0, len(draws) - 1, min(n, len(draws)))
    return [draws[i] for i in np.unique(chosen.astype(int))]


def average_log_terms(X: np.ndarray, draws: list[Subspaces], workers: Workers) -> np.ndarray:
    """Log of the mean over draws of weight times density, (n, K)."""
    out = np.empty((len(X), draws[0].n_components))
    for start, stop in split_range(len(X), _ROWS_AT_ONCE):
        total = log_terms(X[start:stop], draws[0], workers)
        for draw in draws[1:]:
            np.logaddexp(total, log_terms(X[start:stop], draw, workers), out=total)
        out[start:stop] = total - np.log(len(draws))
    return out
