"""Finite mixtures: `ExponentialFamilyMixture` with every emission."""

from __future__ import annotations

import numpy as np

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import (
    Bernoulli,
    Categorical,
    Gaussian,
    Multinomial,
    NegativeBinomial,
    Poisson,
    VonMisesFisher,
)

from . import _quantities as q
from ._settings import Setting

TITLE = "ExponentialFamilyMixture"
EMISSIONS = {  # by name: emission and number of columns
    "bernoulli": (Bernoulli(), 3),
    "categorical": (Categorical(min_categories=3), 3),
    "poisson": (Poisson(shape_prior=2.0), 2),
    "negative_binomial": (NegativeBinomial(shape_prior=2.0), 2),
    "multinomial": (Multinomial(category_prior=0.5), 4),
    "gaussian": (Gaussian("full", np.zeros(2), 0.3, 1.0, 5.0), 2),
    "gaussian_tied": (Gaussian("tied", np.zeros(2), 0.3, 1.0, 5.0), 2),
    "gaussian_diag": (Gaussian("diag", np.zeros(2), 0.3, 1.0, 5.0), 2),
    "gaussian_spherical": (Gaussian("spherical", np.zeros(2), 0.3, 1.0, 5.0), 2),
    "von_mises_fisher": (VonMisesFisher("per_component", 0.5, 2.0), 3),
    "von_mises_fisher_shared": (VonMisesFisher("shared", 0.5, 2.0), 3),
}


def quantities_of(name):
    """Quantities of the parameters that only this emission has."""
    if name == "gaussian_tied":
        return {"log determinant of the covariance": q.tied_covariance}
    if name.startswith("gaussian"):
        return {"weighted variances": q.weighted_variances}
    if name.startswith("negative_binomial"):
        return {"log dispersions": q.log_sum("dispersions")}
    if name.startswith("von_mises_fisher"):
        return {"log concentrations": q.log_sum("concentrations")}
    return {}


def _quantities(name):
    shared = {
        "log likelihood": q.number("log_likelihood"),
        "squared weights": q.squared_weights,
        "mean of the first column": q.mean_of_first_column,
        "squared components": q.squared_components,
        "co-clustering": q.co_clustering,
    }
    return {**shared, **quantities_of(name)}


def _setting(name, sampler="gibbs", **others):
    emission, n_features = EMISSIONS[name]
    estimator = ExponentialFamilyMixture(
        2, emission=emission, sampler=sampler, weight_prior=1.0, n_init=1, n_stored_rows=20
    )
    shape = {"n_samples": 20, "n_features": n_features} | ({"n_tokens": 4} if name == "multinomial" else {})
    return Setting(f"mixture_{name}", f"gibbs, {name}", estimator, shape, _quantities(name), **others)


SETTINGS = [_setting(name) for name in EMISSIONS]
SETTINGS += [_setting(name).with_missing() for name in ("gaussian", "gaussian_tied", "gaussian_diag", "poisson")]
SETTINGS.append(
    _setting("bernoulli", kind="wrong", fit={"weight_prior": 5.0})._replace(
        name="mixture_wrong_prior", title="gibbs, bernoulli, another weight_prior"
    )
)
