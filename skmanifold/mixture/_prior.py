"""What the mixtures need to draw parameters and rows from their priors."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ..emissions._abilities import HasDraw, HasNewRows
from ..emissions._prior import HasPriorFamily, with_components
from ..random._keys import fold_in_each
from ..utils._typing import BaseEstimator
from ..utils._validation import FIT_OR_GIVE_N_FEATURES

_TO_UNIT = 2.0**-64


def prior_emission(estimator: Any, n_features: int | None) -> Any:
    """The emission of the constructor, or without `n_features` that of the fit."""
    if n_features is None:
        check_is_fitted(estimator, msg=FIT_OR_GIVE_N_FEATURES)
        return estimator.emission_
    emission = estimator._resolve_emission()
    caller = f"{type(estimator).__name__}.sample_prior with n_features"
    estimator._check_offers(emission, emission, [HasPriorFamily], caller, estimator._emissions, "; or fit first")
    return emission


def prior_family(estimator: Any, emission: Any, n_features: int | None, n_components: int, n_tokens: int | None) -> Any:
    """The family with the hyperparameters of the constructor, or without `n_features` those of the fit."""
    if n_features is None:
        family = with_components(estimator._family, n_components)
    else:
        n_features = check_scalar(n_features, "n_features", Integral, min_val=1)
        n_tokens = check_scalar(100 if n_tokens is None else n_tokens, "n_tokens", Integral, min_val=1)
        family = emission.prior_family(n_features, n_components, n_tokens)
    estimator._check_family(emission, family, [HasDraw, HasNewRows], f"{type(estimator).__name__}.sample_prior")
    return family


def read_rows(estimator: Any, emission: Any, n_features: int | None, X: np.ndarray) -> Any:
    """Rows of drawn numbers and codes, without an effect on the estimator."""
    if n_features is None:
        return emission.rows_of_values(estimator, X)
    return emission.read(BaseEstimator(), X, reset=True)


def draw_labels(weights: np.ndarray, n_rows: int, key: np.uint64) -> np.ndarray:
    """Components of rows, drawn with these weights, (n_rows,)."""
    levels = np.cumsum(weights)
    places = fold_in_each(key, np.arange(n_rows)) * _TO_UNIT * levels[-1]
    return np.searchsorted(levels[:-1], places, side="right")


def named_as_draws(attributes: dict[str, Any]) -> dict[str, Any]:
    """Fitted attributes by the names that they have in ``posterior_``: without the last underscore."""
    return {name.removesuffix("_"): value for name, value in attributes.items() if name != "n_categories_"}
