"""Inference with a fitted mixture of von Mises-Fisher distributions: components, densities and new rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from ...distributions import VonMisesFisher
from ...emissions._von_mises_fisher.rows import read_rows
from ...utils._threads import Workers, limit_threads, split_range
from ...utils._typing import MatrixLike, RandomStateLike
from .._membership import MembershipTransformer
from .._scores import DensityScores, InformationCriteria
from .em import Mixture

_BLOCK_ROWS = 2048  # of a task of prediction


class DirectionInference(MembershipTransformer, DensityScores, InformationCriteria):
    """Methods of an estimator with a fitted mixture of von Mises-Fisher distributions; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    concentration: float | Literal["per_component", "shared"] | None
    n_jobs: int | None
    weights_: np.ndarray
    mean_directions_: np.ndarray
    concentrations_: np.ndarray
    n_features_in_: int

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices into ``weights_``. For a row of zeros, the component with the largest weight.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return self._predict_rows(X).labels

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Posterior probabilities of the components given each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to 1. For a row of zeros they are ``weights_``. Probabilities below about 1e-17 are 0.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return self._predict_rows(X).shares

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log density of the direction of each row relative to the uniform distribution on the sphere.

        The uniform distribution has the score 0. Add ``log_vmf_normalizer(n_features, 0)`` of
        `skmanifold.distributions` for the density with respect to the surface measure of the sphere.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats, relative to the uniform distribution; NaN for a row of zeros, which `score` and the information
            criteria leave out.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return self._predict_rows(X).log_density

    def sample(self, n_samples: int = 1, random_state: RandomStateLike = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Seed.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Unit vectors.
        labels : ndarray of shape (n_samples,)
            Components of the rows.

        Raises
        ------
        ValueError
            If `n_samples` is less than 1.
        """
        check_is_fitted(self)
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        rng = check_random_state(random_state)
        labels = rng.choice(len(self.weights_), n_samples, p=self.weights_)
        X = np.empty((n_samples, self.n_features_in_))
        for k in np.unique(labels):
            component = VonMisesFisher(self.mean_directions_[k], self.concentrations_[k])
            X[labels == k] = component.sample(int(np.count_nonzero(labels == k)), random_state=rng)
        return X, labels

    def _predict_rows(self, X) -> _Prediction:
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False)
        mixture = Mixture(self.weights_, np.ascontiguousarray(self.mean_directions_.T), self.concentrations_)
        prediction = _Prediction(
            np.empty(rows.n_rows), np.empty(rows.n_rows, np.int64), np.empty((rows.n_rows, len(self.weights_)))
        )
        from .._exponential_family.kernels import fill_shares
        def fill(first, stop):
            terms = prediction.shares[first:stop]
            terms[:] = 0.0
            rows.add_log_densities(first, stop, (mixture.directions, mixture.concentrations, mixture.log_peaks()), terms)
            fill_shares(terms, np.empty(2 * terms.size), prediction.log_density[first:stop])
        with Workers(self.n_jobs) as workers, limit_threads("blas"):
            workers.run(fill, split_range(rows.n_rows, _BLOCK_ROWS))
        prediction.labels[:] = prediction.shares.argmax(axis=1)
        without = ~rows.has_direction
        prediction.log_density[without] = np.nan
        prediction.labels[without] = np.argmax(self.weights_)
        prediction.shares[without] = self.weights_
        return prediction

    def _log_densities(self, X) -> np.ndarray:
        log_density = self.score_samples(X)
        if np.isnan(log_density).all():
            raise ValueError("All rows of X are zeros, which have no direction.")
        return log_density

    _log_densities_of_estimate = _log_densities

    def _n_parameters(self) -> int:
        n_components, n_features = self.mean_directions_.shape
        n_concentrations: dict[Any, int] = {None: n_components, "per_component": n_components, "shared": 1}
        return n_components * (n_features - 1) + n_components - 1 + n_concentrations.get(self.concentration, 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Prediction(NamedTuple):
    """Predictions for rows."""

    log_density: np.ndarray  # (n_rows,)
    labels: np.ndarray  # (n_rows,) int64
    shares: np.ndarray  # (n_rows, K)
