"""Dirichlet process mixtures: `DPMixture` with every emission, and `DPCategoricalMixture`."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from skmanifold import DPCategoricalMixture, DPMixture
from skmanifold.emissions import Gaussian, NegativeBinomial
from skmanifold.samplers import SCIR, SGRHMC, SGRLD

from . import _quantities as q
from ._settings import Setting
from .mixtures import EMISSIONS, quantities_of

TITLE = "DPMixture and DPCategoricalMixture"
OF_PARTITIONS = {
    "log joint density": q.number("log_joint"),
    "number of components": q.number("n_components"),
    "concentration": q.number("concentration"),
    "co-clustering": q.co_clustering,
    "squared weights": q.squared_weights,
    "mean of the first column": q.mean_of_first_column,
}
OF_PRIORS = {
    "mean_precision_prior": q.number("mean_precision_prior"),
    "degrees_of_freedom_prior": q.number("degrees_of_freedom_prior"),
    "covariance_prior": q.log_diagonal("covariance_prior"),
}
OF_STREAMS = {name: OF_PARTITIONS[name] for name in ("concentration", "co-clustering")}


def _setting(name, **others):
    emission, n_features = EMISSIONS[name]
    if name == "negative_binomial":
        emission = NegativeBinomial(1.0, shape_prior=2.0)  # a process needs a given dispersion
    shape = {"n_samples": 20, "n_features": n_features} | ({"n_tokens": 4} if name == "multinomial" else {})
    of_emission = {} if name == "negative_binomial" else quantities_of(name)
    quantities = {**OF_PARTITIONS, **of_emission}
    if "mises" in name:
        others = {"thin": 8, **others}  # its draws are nearly independent, and its passes take longer
    return Setting(f"process_{name}", f"slice, {name}", DPMixture(emission), shape, quantities, **others)


def _with_rounding(base, width):
    """The fit knows the width of the cells; the parameters of `sample_prior` do not depend on it."""
    emission = clone(base.estimator.emission).set_params(resolution=width)

    def rounded(estimator, X, rng):
        return width * np.round(X / width)

    return base.of_other_rows("rounded", "rounded numbers", rounded)._replace(estimator=DPMixture(emission))


def _categorical(name, title, sampler, quantities=OF_PARTITIONS, **others):
    estimator = DPCategoricalMixture("categorical", sampler=sampler, min_categories=3)
    shape = {"n_samples": 20, "n_features": 3}
    return Setting(f"process_codes_{name}", title, estimator, shape, quantities, **others)


def _with_free_prior(covariance_type, **others):
    """Gaussian components whose prior is drawn; only the mean of the rows and the scale of their prior are given."""
    emission = Gaussian(covariance_type, np.zeros(2), covariance_scale=1.0)
    quantities = {**OF_PARTITIONS, **quantities_of("gaussian"), **OF_PRIORS}
    shape = {"n_samples": 20, "n_features": 2}
    title = f"slice, {covariance_type} Gaussians, drawn hyperparameters"
    return Setting(f"process_free_{covariance_type}", title, DPMixture(emission), shape, quantities, **others)


SETTINGS = [_setting(name) for name in EMISSIONS]
SETTINGS += [_setting(name).with_missing() for name in ("gaussian", "bernoulli")]
SETTINGS += [_with_free_prior(name) for name in ("full", "diag", "spherical")]
SETTINGS += [_with_free_prior("full").with_missing(), _with_rounding(_setting("gaussian"), 0.5)]
SETTINGS.append(_categorical("slice", "slice, DPCategoricalMixture of codes", "slice"))
SETTINGS += [
    _categorical(
        f"{name}_{step}",
        f"{name}, step size {step}, DPCategoricalMixture of codes",
        kind(step_size=step),
        OF_STREAMS,
        kind="approximate",
        thin=50,
    )
    for name, kind, steps in (("scir", SCIR, (0.1, 0.5)), ("sgrld", SGRLD, (0.001, 0.01)), ("sgrhmc", SGRHMC, (0.02,)))
    for step in steps
]
SETTINGS.append(
    _setting("bernoulli", kind="wrong", fit={"concentration_prior": (4.0, 1.0)})._replace(
        name="process_wrong_prior", title="slice, bernoulli, another concentration_prior"
    )
)
SETTINGS.append(
    _with_free_prior("full", kind="wrong", fit={"hyperparameters": "learn"})._replace(
        name="process_learned",
        title="slice, full Gaussians, hyperparameters learned before sampling",
        quantities={**OF_PARTITIONS, **quantities_of("gaussian")},
    )
)
SETTINGS.append(
    _categorical(
        "wrong_prior",
        "slice, another concentration_prior, DPCategoricalMixture of codes",
        "slice",
        kind="wrong",
        fit={"concentration_prior": (4.0, 1.0)},
    )
)
