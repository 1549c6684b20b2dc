"""Affine subspaces of unknown dimensions: `SubspaceMixture`."""

from __future__ import annotations

from skmanifold import SubspaceMixture

from . import _quantities as q
from ._settings import Setting

TITLE = "SubspaceMixture"
OF_ONE = {
    "log likelihood": q.number("log_likelihood"),
    "sum of dimensions": q.dimensions,
    "log noise variances": q.log_sum("noise_variance"),
    "log variances": q.log_sum("variances"),
    "mean centre": q.mean_centre,
    "projection of an axis": q.first_projection,
}
OF_SEVERAL = {**OF_ONE, "squared weights": q.squared_weights, "co-clustering": q.co_clustering}
OF_ANY = {
    "log joint density": q.number("log_joint"),
    "number of components": q.number("n_components"),
    "concentration": q.number("concentration"),
    **{name: of for name, of in OF_SEVERAL.items() if name != "log likelihood"},
}


def _setting(name, title, n_components, sampler="gibbs", noise="shared", **others):
    estimator = SubspaceMixture(
        n_components,
        sampler=sampler,
        noise=noise,
        noise_prior=(3.0, 1.0),
        centre_prior_mean=[0.0, 0.0, 0.0],
        centre_prior_variance=4.0,
        n_init=1,
        n_stored_rows=20,
    )
    quantities = OF_ANY if n_components is None else OF_SEVERAL if n_components > 1 else OF_ONE
    shape = {"n_samples": 20, "n_features": 3}
    return Setting(f"subspaces_{name}", title, estimator, shape, quantities, **{"thin": 50, **others})


SETTINGS = [
    _setting("one", "gibbs, one subspace", 1),
    _setting("two", "gibbs, two subspaces", 2),
    _setting("per_cluster", "gibbs, two subspaces, noise per cluster", 2, noise="per_cluster"),
    _setting("two", "gibbs, two subspaces", 2).with_missing(),
    _setting("number", "slice, number of subspaces inferred", None, thin=10),
    _setting("number", "slice, number of subspaces inferred", None, thin=10).with_missing(),
    _setting("conway", "conway, two subspaces", 2, sampler="conway", kind="approximate"),
    _setting("wrong", "gibbs, two subspaces, another ratio_prior", 2, kind="wrong", fit={"ratio_prior": 2.0}),
]
