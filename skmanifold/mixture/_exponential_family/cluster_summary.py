"""Components of a fitted mixture as a data frame: weights with intervals, typical rows, columns that separate them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...utils._typing import ArrayLike
from .._cluster_summary import ClusterSummary, column_summary, names_for_summary, of_draws, summary_of
from .._densities import attributes_of
from .._inference import MixtureInference


class SummarizesComponents(MixtureInference):
    """The method `cluster_summary` of an estimator with a fixed number of components; not public."""

    labels_: np.ndarray
    typical_rows_: np.ndarray

    def _matched_weights(self) -> np.ndarray:
        """Drawn weights, (n_draws, K), whose components are in the order of the estimate."""
        raise NotImplementedError

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
        names = names_for_summary(self, feature_names)
        found = column_summary(self._family, attributes_of(self._family, self._estimate.parameters), self.weights_)
        of_components: dict[str, Any] = {"weight": self.weights_, **of_draws("weight", self._matched_weights())}
        if hasattr(self, "labels_"):
            of_components["size"] = np.bincount(self.labels_, minlength=len(self.weights_))
        if hasattr(self, "typical_rows_"):
            of_components["typical_row"] = _with_missing(self.typical_rows_)
        summary = summary_of(names, of_components, found, self._typical_of)
        return summary._replace(clusters=summary.clusters.iloc[np.argsort(-self.weights_, kind="stable")])


def _with_missing(rows: np.ndarray) -> Any:
    """Row numbers, with missing values in place of -1."""
    import pandas as pd

    return rows if (rows >= 0).all() else pd.arrays.IntegerArray(rows, rows < 0)
