"""Mixtures as transformers that return membership probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..utils._typing import ClassNamePrefixFeaturesOutMixin, MatrixLike, TransformerMixin


class MembershipTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """`transform` for an estimator with `predict_proba` and, when fitted, ``weights_``; not public."""

    predict_proba: Callable[[MatrixLike], np.ndarray]

    if TYPE_CHECKING:  # an attribute or a property of the estimator

        @property
        def weights_(self) -> np.ndarray: ...

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_)

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Return the membership probabilities of `predict_proba`, for the next step of a pipeline.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to 1. There is one column for each entry of ``weights_``.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not allowed.
        """
        return self.predict_proba(X)
