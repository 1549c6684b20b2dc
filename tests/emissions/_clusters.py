"""Clusters of a few rows, with closed forms of their marginal densities that share nothing with the package."""

import numpy as np
from scipy.special import betaln, gammaln

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Multinomial, NegativeBinomial, Poisson

N_FEATURES = 14  # more than the factors whose product is a logarithm


def bernoulli_marginal(emission, X):
    """Log probability of rows that share a component, with NaN for missing cells."""
    a, b = (np.broadcast_to(prior, X.shape[1]) for prior in (emission.ones_prior, emission.zeros_prior))
    ones, n = np.nansum(X, axis=0), np.isfinite(X).sum(axis=0)
    return float(np.sum(betaln(a + ones, b + n - ones) - betaln(a, b)))


def poisson_marginal(emission, X):
    a, b = (np.broadcast_to(prior, X.shape[1]) for prior in (emission.shape_prior, emission.rate_prior))
    sums, n = np.nansum(X, axis=0), np.isfinite(X).sum(axis=0)
    of_rates = gammaln(a + sums) - gammaln(a) + a * np.log(b) - (a + sums) * np.log(b + n)
    return float(np.sum(of_rates) - np.nansum(gammaln(X + 1)))


def negative_binomial_marginal(emission, X):
    priors = emission.shape_prior, emission.rate_prior, 1.0 / np.asarray(emission.dispersion)
    a, b, r = (np.broadcast_to(prior, X.shape[1]) for prior in priors)
    sums, n = np.nansum(X, axis=0), np.isfinite(X).sum(axis=0)
    of_means = betaln(a + sums, 1 + (b + n) * r) - betaln(a, 1 + b * r)
    return float(np.sum(of_means) + np.nansum(gammaln(X + r) - gammaln(r) - gammaln(X + 1)))


def multinomial_marginal(emission, X):
    a, counts = emission.category_prior, X.sum(axis=0)
    total = a * X.shape[1]
    return float(np.sum(gammaln(a + counts) - gammaln(a)) + gammaln(total) - gammaln(total + counts.sum()))


def rows_of(name, n_rows=40, missing=True, seed=0):
    """Rows of two planted clusters; cells of only two features may be missing, and the last three are all zero."""
    rng = np.random.default_rng(seed)
    means = np.zeros((2, N_FEATURES))
    means[:, :11] = np.resize([[0.9, 0.8, 0.1, 0.5], [0.1, 0.3, 0.7, 0.5]], (2, 11))
    means = means[rng.integers(2, size=n_rows)]
    X = (rng.random(means.shape) < means) if name == "bernoulli" else rng.poisson(12 * means**2)
    X = X.astype(float)
    if missing:
        X[:, :2][rng.random((n_rows, 2)) < 0.3] = np.nan
    return X


def by_feature(*values):
    return np.resize(values, N_FEATURES).tolist()


EMISSIONS = {
    "bernoulli": Bernoulli(0.4, 1.3),
    "bernoulli, priors by feature": Bernoulli(by_feature(0.4, 1.0, 0.4, 2.0, 0.1), by_feature(1.3, 0.5, 1.0)),
    "poisson": Poisson(by_feature(0.5, 1.0, 2.0, 0.3, 0.2), 0.5),
    "poisson, priors by feature": Poisson(0.7, by_feature(0.5, 1.0, 0.5, 2.0, 0.2)),
    "negative_binomial": NegativeBinomial(by_feature(0.05, 0.02), by_feature(0.5, 1.0, 2.0, 0.3, 0.2), 0.5),
    "negative_binomial, large dispersions": NegativeBinomial(
        by_feature(0.3, 20.0, 1.0), 0.7, by_feature(0.5, 1.0, 0.5, 2.0, 0.2)
    ),
    "multinomial": Multinomial(0.3),
}
MARGINALS = {
    "bernoulli": bernoulli_marginal,
    "negative_binomial": negative_binomial_marginal,
    "poisson": poisson_marginal,
    "multinomial": multinomial_marginal,
}


class Case:
    """Clusters of an emission, and the log marginal probability of any of its rows."""

    def __init__(self, name, n_rows=40, missing=True, X=None, emission=None):
        self.emission = EMISSIONS[name] if emission is None else emission
        short = self.emission.short_name
        self.X = rows_of(short, n_rows, missing and short != "multinomial") if X is None else X
        self.rows = self.emission.read(ExponentialFamilyMixture(2), self.X, reset=True)
        self.family = self.emission.bind(self.rows, 1)
        self.clusters = self.family.clusters(self.rows)
        self.log_base = getattr(self.clusters, "log_base", self.rows.log_base)
        self._marginal = MARGINALS[short]

    def log_marginal(self, rows):
        """Of the rows with these indices, with the factorials of counts."""
        return self._marginal(self.emission, self.X[list(rows)])

    def log_predictive(self, row, given):
        return self.log_marginal([*given, row]) - self.log_marginal(given)
