"""Five rows of binary values, counts or categories, with the exact marginal likelihoods of their clusters.

Parameters are integrated out in closed form, and missing cells are left out. Nothing here is shared with the package's
code.
"""

import numpy as np
from scipy.special import betaln, gammaln

from skmanifold.emissions import Bernoulli, Categorical, Multinomial, NegativeBinomial, Poisson

from . import _tiny_partitions as tiny


class Rows:
    """Five rows with the exact posterior of their partition: base class.

    `hyper` has the hyperparameters; `X` is (5, n_features), with NaN for missing cells.
    """

    has_missing_draws = False  # whether missing cells are part of a sampler's state

    def __init__(self, X, **hyper):
        self.X = np.asarray(X, float)
        self.hyper = hyper
        self._known: dict[frozenset[int], float] = {}

    def changed(self, *, X=None, **hyper):
        """The same with other rows or hyperparameters."""
        return type(self)(self.X if X is None else X, **{**self.hyper, **hyper})

    def read_as_zero(self):
        """The same with zeros for missing cells, as a wrong program has them."""
        return self.changed(X=np.nan_to_num(self.X))

    @property
    def as_read(self):
        """The rows as the package reads them."""
        return self.X

    @property
    def missing(self):
        return np.isnan(self.X)

    @property
    def n_features(self):
        return self.X.shape[1]

    def log_marginal(self, rows) -> float:
        """Log p(rows), if they share a component."""
        raise NotImplementedError

    def log_likelihood(self, clusters) -> float:
        """Log p(X | partition)."""
        for rows in clusters:
            if rows not in self._known:
                self._known[rows] = self.log_marginal(sorted(rows))
        return sum(self._known[rows] for rows in clusters)

    def law(self, concentration=1.0) -> np.ndarray:
        """Posterior probabilities of the 52 partitions; `concentration` as in `tiny.law_of`."""
        return tiny.law_of(self.log_likelihood, len(self.X), concentration)

    def draw_components(self, n, rng):
        """Parameters of n components from the prior."""
        raise NotImplementedError

    def draw_rows(self, components, labels, rng):
        """Complete rows of these components."""
        raise NotImplementedError

    def draw_missing(self, labels, rng) -> np.ndarray:
        """The rows, with the missing cells drawn given the partition."""
        raise NotImplementedError


class _Cells(Rows):
    """Features that are independent given the component."""

    def log_marginal_of_feature(self, j, cells) -> float:
        raise NotImplementedError

    def log_marginal(self, rows):
        columns = self.X[rows].T
        return float(
            sum(self.log_marginal_of_feature(j, column[~np.isnan(column)]) for j, column in enumerate(columns))
        )


class BernoulliRows(_Cells):
    """Hyperparameters `ones` and `zeros`, one for each feature."""

    @property
    def emission(self):
        return Bernoulli(self.hyper["ones"], self.hyper["zeros"])

    def log_marginal_of_feature(self, j, cells):
        a, b = self.hyper["ones"][j], self.hyper["zeros"][j]
        return betaln(a + cells.sum(), b + (1 - cells).sum()) - betaln(a, b)

    def draw_components(self, n, rng):
        return rng.beta(self.hyper["ones"], self.hyper["zeros"], (n, self.n_features))

    def draw_rows(self, components, labels, rng):
        return (rng.random((len(labels), self.n_features)) < components[labels]).astype(float)


class PoissonRows(_Cells):
    """Hyperparameters `shape` and `rate`, one for each feature."""

    @property
    def emission(self):
        return Poisson(self.hyper["shape"], self.hyper["rate"])

    def log_marginal_of_feature(self, j, cells):
        a, b = self.hyper["shape"][j], self.hyper["rate"][j]
        shape, rate = a + cells.sum(), b + len(cells)
        return a * np.log(b) - shape * np.log(rate) + gammaln(shape) - gammaln(a) - gammaln(cells + 1).sum()

    def draw_components(self, n, rng):
        return rng.gamma(self.hyper["shape"], 1 / np.asarray(self.hyper["rate"]), (n, self.n_features))

    def draw_rows(self, components, labels, rng):
        return rng.poisson(components[labels]).astype(float)


class NegativeBinomialRows(_Cells):
    """Hyperparameters `dispersion`, `shape` and `rate`, one for each feature; components are means."""

    @property
    def emission(self):
        return NegativeBinomial(self.hyper["dispersion"], self.hyper["shape"], self.hyper["rate"])

    def log_marginal_of_feature(self, j, cells):
        a, b, r = self.hyper["shape"][j], self.hyper["rate"][j], 1 / self.hyper["dispersion"][j]
        of_cells = gammaln(cells + r) - gammaln(r) - gammaln(cells + 1)
        return of_cells.sum() + betaln(a + cells.sum(), 1 + (b + len(cells)) * r) - betaln(a, 1 + b * r)

    def draw_components(self, n, rng):
        r = 1 / np.asarray(self.hyper["dispersion"])
        p = rng.beta(self.hyper["shape"], 1 + np.asarray(self.hyper["rate"]) * r, (n, self.n_features))
        return r * p / (1 - p)

    def draw_rows(self, components, labels, rng):
        r, means = 1 / np.asarray(self.hyper["dispersion"]), components[labels]
        return rng.negative_binomial(r, r / (r + means)).astype(float)


class CategoricalRows(_Cells):
    """Hyperparameters `prior`, and `widths`: the number of categories of each column."""

    @property
    def emission(self):
        return Categorical(self.hyper["prior"], min_categories=self.hyper["widths"])

    def log_marginal_of_feature(self, j, cells):
        return _log_polya(np.bincount(cells.astype(int), minlength=self.hyper["widths"][j]), self.hyper["prior"])

    def draw_components(self, n, rng):
        return [rng.dirichlet(np.full(width, self.hyper["prior"]), n) for width in self.hyper["widths"]]

    def draw_rows(self, components, labels, rng):
        uniforms = rng.random((len(labels), self.n_features, 1))
        levels = [np.cumsum(column[labels], axis=1)[:, :-1] for column in components]
        return np.stack([(uniforms[:, j] > level).sum(axis=1) for j, level in enumerate(levels)], axis=1).astype(float)


class MultinomialRows(Rows):
    """Hyperparameter `prior`, one pseudo-count for each feature; rows keep their numbers of tokens."""

    @property
    def emission(self):
        return Multinomial(self.hyper["prior"])

    def log_marginal(self, rows):
        return _log_polya(self.X[rows].sum(axis=0), self.hyper["prior"])

    def draw_components(self, n, rng):
        return rng.dirichlet(self.hyper["prior"], n)

    def draw_rows(self, components, labels, rng):
        totals = self.X.sum(axis=1).astype(int)
        return rng.multinomial(totals, components[labels]).astype(float)


def _log_polya(counts, prior) -> float:
    """Log probability of tokens in order, whose distribution has a Dirichlet prior."""
    prior = np.broadcast_to(prior, counts.shape)
    terms = gammaln(prior + counts) - gammaln(prior)
    return float(terms.sum() + gammaln(prior.sum()) - gammaln(prior.sum() + counts.sum()))
