"""Dirichlet process mixtures: `DPMixture` with every emission, and `DPCategoricalMixture`."""

from __future__ import annotations

from skmanifold import DPCategoricalMixture, DPMixture
from skmanifold.emissions import NegativeBinomial
from skmanifold.samplers import SCIR, SGRHMC, SGRLD

from . import _quantities as q
from ._settings import Setting
from .mixtures import EMISSIONS, hide_cells, quantities_of

TITLE = "DPMixture and DPCategoricalMixture"
OF_PARTITIONS = {
    "log joint density": q.number("log_joint"),
    "number of components": q.number("n_components"),
    "concentration": q.number("concentration"),
    "co-clustering": q.co_clustering,
    "squared weights": q.squared_weights,
    "mean of the first column": q.mean_of_first_column,
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


def _with_missing(name):
    quantities = {key: value for key, value in _setting(name).quantities.items() if key != "log joint density"}
    base = _setting(name, prepare=hide_cells)
    return base._replace(name=f"process_{name}_missing", title=f"{base.title}, missing cells", quantities=quantities)


def _categorical(name, title, sampler, quantities=OF_PARTITIONS, **others):
    estimator = DPCategoricalMixture("categorical", sampler=sampler, min_categories=3)
    shape = {"n_samples": 20, "n_features": 3}
    return Setting(f"process_codes_{name}", title, estimator, shape, quantities, **others)


SETTINGS = [_setting(name) for name in EMISSIONS]
SETTINGS += [_with_missing(name) for name in ("gaussian", "bernoulli")]
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
    _categorical(
        "wrong_prior",
        "slice, another concentration_prior, DPCategoricalMixture of codes",
        "slice",
        kind="wrong",
        fit={"concentration_prior": (4.0, 1.0)},
    )
)
