"""Methods that every mixture derives from the log densities of rows: mean score, information criteria, labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..callbacks._hooks import labels_of_all
from ..utils._typing import Ignored, MatrixLike, available_if


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
            Rows as in `fit`.
        y : None
            Ignored.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            ``labels_``.
        """
        return labels_of_all(self.fit(X), X)

    def score(self, X: MatrixLike, y: Ignored = None) -> float:
        """Mean of `score_samples`: higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`. Rows without a density, such as rows of zeros in a mixture of directions, are left out.
        y : None
            Ignored.

        Returns
        -------
        score : float
            In nats per row.
        """
        return float(np.mean(self._log_densities(X)))

    def _log_densities(self, X: MatrixLike) -> np.ndarray:
        """Log densities of those rows of X that have a density."""
        return self.score_samples(X)


def _ends_at_a_mode(estimator: Any) -> bool:
    return estimator._has_criteria()


class InformationCriteria:
    """Mixin for estimators whose estimate can be a mode of the posterior or the likelihood; not public."""

    if TYPE_CHECKING:

        def _n_parameters(self) -> int: ...

        def _log_densities_of_estimate(self, X: MatrixLike) -> np.ndarray: ...

    def _has_criteria(self) -> bool:
        """Whether the estimate is a mode, for ``available_if``; it may raise an AttributeError with the reason."""
        return True

    @available_if(_ends_at_a_mode)
    def aic(self, X: MatrixLike) -> float:
        """Akaike's information criterion: lower is better. Available only if the estimate is a mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.

        Returns
        -------
        aic : float
            From the log likelihood at the estimate, with densities as in `score_samples`.
        """
        check_is_fitted(self)
        n_parameters = self._n_parameters()
        return 2.0 * n_parameters - 2.0 * float(self._log_densities_of_estimate(X).sum())

    @available_if(_ends_at_a_mode)
    def bic(self, X: MatrixLike) -> float:
        """Bayesian information criterion: lower is better. Available only if the estimate is a mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.

        Returns
        -------
        bic : float
            From the log likelihood at the estimate, with densities as in `score_samples`.
        """
        check_is_fitted(self)
        n_parameters, log_densities = self._n_parameters(), self._log_densities_of_estimate(X)
        return math.log(len(log_densities)) * n_parameters - 2.0 * float(log_densities.sum())
