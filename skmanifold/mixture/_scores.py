"""Methods that every mixture derives from the log densities of rows: mean score, information criteria, labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..callbacks._hooks import labels_of_all
from ..utils._typing import ArrayLike, Ignored, MatrixLike, available_if
from ..utils._validation import validate_sample_weight

_LEAST = -1e200  # log density of a row: squares of deviations of other columns, given such a row, are finite


def refuse_far_rows(log_densities: np.ndarray) -> None:
    """Raise a ValueError if a row is so far from all components that squares of its deviations can overflow."""
    if not np.all(log_densities >= _LEAST):
        raise ValueError(
            "X has a row so far from all components that squares of its deviations are too large for float64: correct "
            "or remove it."
        )


class DensityScores:
    """Mixin for estimators with `fit` and `score_samples`; not public."""

    if TYPE_CHECKING:

        def fit(self, X: Any, y: Ignored = None) -> Any: ...

        def score_samples(self, X: Any) -> np.ndarray: ...

    def fit_predict(self, X: MatrixLike, y: Ignored = None) -> np.ndarray:
        """Fit, and return the component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return labels_of_all(self.fit(X), X)

    def score(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean of `score_samples`, weighted by `sample_weight` if it is given: higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`. Rows without a density, such as rows of zeros in a mixture of directions, are left out.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows. A whole number has the same effect as this number of copies of the row.
            None weights all rows equally, also after a fit with weights.

        Returns
        -------
        score : float
            In nats per row.
        """
        log_densities, weights = _with_weights(self._log_densities(X), X, sample_weight)
        return float(np.average(log_densities, weights=weights))

    def _log_densities(self, X: MatrixLike) -> np.ndarray:
        """Log densities of the rows, NaN for a row without a density."""
        return self.score_samples(X)


def _with_weights(log_densities: np.ndarray, X: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and weights, which are 1 by default, of the rows that have a density and a positive weight."""
    weights = np.ones(len(log_densities)) if sample_weight is None else validate_sample_weight(sample_weight, X)
    used = ~np.isnan(log_densities) & (weights > 0.0)
    if not used.any():
        raise ValueError("sample_weight must not be zero for all rows of X that have a density.")
    return log_densities[used], weights[used]


class InformationCriteria:
    """Mixin for estimators whose estimate can be a mode of the posterior or the likelihood; not public."""

    if TYPE_CHECKING:
        _family: Any

        @property
        def weights_(self) -> np.ndarray: ...

        def _log_densities_of_estimate(self, X: MatrixLike) -> np.ndarray: ...

    def _n_parameters(self) -> int:
        return self._family.n_parameters() + len(self.weights_) - 1

    def _has_criteria(self) -> bool:
        """Whether the estimate is a mode, for ``available_if``; it may raise an AttributeError with the reason."""
        return True

    def _at_mode(self, X: MatrixLike, sample_weight: ArrayLike | None) -> tuple[int, float, float]:
        """Number of free parameters, weighted log likelihood of the rows, and sum of their weights."""
        check_is_fitted(self)
        n_parameters = self._n_parameters()
        log_densities, weights = _with_weights(self._log_densities_of_estimate(X), X, sample_weight)
        return n_parameters, float((weights * log_densities).sum()), weights.sum()

    @available_if(lambda estimator: estimator._has_criteria())
    def aic(self, X: MatrixLike, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion: lower is better. Available only if the estimate is a mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: those of `fit`, if it had weights. None weights each row by 1, also after a fit with
            weights.

        Returns
        -------
        aic : float
            From the log likelihood at the estimate, with densities as in `score_samples`.
        """
        n_parameters, log_likelihood, _ = self._at_mode(X, sample_weight)
        return 2.0 * n_parameters - 2.0 * log_likelihood

    @available_if(lambda estimator: estimator._has_criteria())
    def bic(self, X: MatrixLike, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion: lower is better. Available only if the estimate is a mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: those of `fit`, if it had weights. None weights each row by 1, also after a fit with
            weights.

        Returns
        -------
        bic : float
            From the log likelihood at the estimate, with densities as in `score_samples`. The number of rows in the
            penalty is the sum of their weights, so that whole weights are copies of rows.
        """
        n_parameters, log_likelihood, n_rows = self._at_mode(X, sample_weight)
        return math.log(n_rows) * n_parameters - 2.0 * log_likelihood
