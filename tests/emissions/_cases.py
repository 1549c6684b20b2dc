"""Rows of every emission, and their families with slow, obvious references."""

import numpy as np
import scipy.special as sc
import scipy.stats as st
from sklearn.base import BaseEstimator

from skmanifold.emissions import Bernoulli, Categorical, Gaussian, Multinomial, NegativeBinomial, Poisson

KEY = np.uint64(5)
EMISSIONS = {
    "bernoulli": Bernoulli(0.7, 1.3),
    "categorical": Categorical(0.6),
    "gaussian": Gaussian(),
    "diag": Gaussian("diag"),
    "spherical": Gaussian("spherical"),
    "multinomial": Multinomial(0.4),
    "negative_binomial": NegativeBinomial(),
    "poisson": Poisson(),
}
FAMILIES = {**EMISSIONS, "tied": Gaussian("tied")}
GAUSSIANS = "gaussian", "tied", "diag", "spherical"


class Anyone(BaseEstimator):
    """An estimator that reads X."""


def make_X(name, n=60, m=3, seed=0, holed=0.0):
    """Rows; a share of the cells of numbers is `holed`, other rows always have missing cells if they can."""
    rng = np.random.default_rng(seed)
    if name in GAUSSIANS:
        X = rng.standard_normal((n, m)) @ rng.standard_normal((m, m)) + 5.0
        return np.where(rng.random((n, m)) < holed, np.nan, X)
    X = rng.poisson(1.5, (n, m)).astype(float)
    if name == "bernoulli":
        X = np.minimum(X, 1.0)
    if name != "multinomial":
        X[rng.random((n, m)) < 0.15] = np.nan
    return X


def read(emission, X):
    return emission.read(Anyone(), X, reset=True)


def bound(name, n_components=3, **options):
    """X, rows and family."""
    X = make_X(name, **options)
    rows = read(FAMILIES[name], X)
    return X, rows, FAMILIES[name].bind(rows, n_components)


def log_densities(name, X, attributes):
    """By scipy, one component after the other."""
    if name == "categorical":
        return log_densities_of_codes(X, attributes["components_"])
    columns = []
    seen = ~np.isnan(X)
    filled = np.where(seen, X, 0.0)
    for k, mean in enumerate(attributes["components_"]):
        if name == "bernoulli":
            column = (st.bernoulli.logpmf(filled, mean) * seen).sum(axis=1)
        elif name == "negative_binomial":
            r = 1.0 / attributes["dispersions_"]
            column = (st.nbinom.logpmf(filled, r, r / (r + mean)) * seen).sum(axis=1)
        elif name == "poisson":
            column = (st.poisson.logpmf(filled, mean) * seen).sum(axis=1)
        elif name == "multinomial":
            column = sc.xlogy(X, mean).sum(axis=1)  # of tokens in their order: no multinomial coefficient
        else:
            covariance = attributes["covariances_"] if name == "tied" else attributes["covariances_"][k]
            covariance = covariance if covariance.ndim == 2 else np.diag(covariance)
            column = np.zeros(len(X))
            for i in np.flatnonzero(seen.any(axis=1)):
                own = seen[i]
                column[i] = st.multivariate_normal.logpdf(X[i, own], mean[own], covariance[np.ix_(own, own)])
        columns.append(column)
    return np.stack(columns, axis=1)


def log_densities_of_codes(X, components):
    """Cell by cell, from the probabilities of the categories of each column."""
    out = np.zeros((len(X), len(components[0])))
    for i, j in np.argwhere(~np.isnan(X)):
        out[i] += np.log(components[j][:, int(X[i, j])])
    return out
