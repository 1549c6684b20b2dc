"""Tables with planted clusters: numbers, categories, events and counts, which are independent given the cluster.

Means of numbers are normal with a standard deviation of `separation`, and standard deviations within clusters are
between 0.5 and 1.5. Probabilities of categories are from a Dirichlet distribution with parameter 1 / `separation`,
those of events from a beta distribution with the same parameters, and rates of counts from a gamma distribution with
mean 4 and shape 2. Cells are removed at random.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import logsumexp, xlogy
from scipy.stats import norm, poisson

_ROWS_AT_ONCE = 1 << 16


class PlantedTables:
    """A mixture with these numbers of clusters and of columns of each sort; its parameters depend on `seed` alone."""

    def __init__(self, n_clusters, n_numbers, n_categorical, n_binary, n_counts, n_categories, separation=1.0, seed=0):
        rng = np.random.default_rng(seed)
        K = n_clusters
        self.weights = rng.dirichlet(np.full(K, 10.0))
        self.means = separation * rng.normal(size=(K, n_numbers))
        self.scales = rng.uniform(0.5, 1.5, (K, n_numbers))
        self.categories = rng.dirichlet(np.full(n_categories, 1.0 / separation), (K, n_categorical))
        self.ones = rng.beta(1.0 / separation, 1.0 / separation, (K, n_binary))
        self.rates = rng.gamma(2.0, 2.0, (K, n_counts))
        numbers = [f"number {j}" for j in range(n_numbers)]
        categories = [f"category {j}" for j in range(n_categorical)]
        self.count_columns = [f"count {j}" for j in range(n_counts)]
        self.names = [*numbers, *categories, *(f"event {j}" for j in range(n_binary)), *self.count_columns]
        self.stops = np.cumsum([n_numbers, n_categorical, n_binary])

    def sample(self, n_samples, missing=0.0, seed=0):
        """Codes and numbers (n_samples, n_columns), NaN where missing, and labels."""
        rng = np.random.default_rng((seed, n_samples))
        labels = rng.choice(len(self.weights), n_samples, p=self.weights)
        X = np.empty((n_samples, len(self.names)))
        for start in range(0, n_samples, _ROWS_AT_ONCE):
            part, z = X[start : start + _ROWS_AT_ONCE], labels[start : start + _ROWS_AT_ONCE]
            numbers, codes, events, counts = np.split(part, self.stops, axis=1)
            numbers[...] = self.means[z] + self.scales[z] * rng.normal(size=numbers.shape)
            levels = self.categories.cumsum(axis=2)[..., :-1]
            codes[...] = (levels[z] < rng.random((*codes.shape, 1))).sum(axis=2)
            events[...] = rng.random(events.shape) < self.ones[z]
            counts[...] = rng.poisson(self.rates[z])
            part[rng.random(part.shape) < missing] = np.nan
        return X, labels

    def frame(self, X):
        """The table as a data frame with float64, categories, nullable truth values and counts (float64)."""
        columns, n = {}, self.categories.shape[2]
        dtype = pd.CategoricalDtype([chr(ord("a") + code) for code in range(n)])
        for j, name in enumerate(self.names):
            cells, missing = X[:, j], np.isnan(X[:, j])
            if name.startswith("category"):
                codes = np.where(missing, -1, cells).astype(np.int8)
                columns[name] = pd.Categorical.from_codes(codes, dtype=dtype)
            elif name.startswith("event"):
                columns[name] = pd.arrays.BooleanArray(np.where(missing, 0, cells).astype(bool), missing)
            else:
                columns[name] = cells
        return pd.DataFrame(columns)

    def score_samples(self, X):
        """Log density of the observed cells of each row."""
        return logsumexp(self._log_joint(X), axis=1)

    def predict(self, X):
        """The most probable cluster of each row."""
        return self._log_joint(X).argmax(axis=1)

    def _log_joint(self, X):
        numbers, codes, events, counts = np.split(X, self.stops, axis=1)
        found = np.empty((len(X), len(self.weights)))
        for k, weight in enumerate(self.weights):
            parts = [norm.logpdf(numbers, self.means[k], self.scales[k]), poisson.logpmf(counts, self.rates[k])]
            parts.append(xlogy(events, self.ones[k]) + xlogy(1.0 - events, 1.0 - self.ones[k]))
            tables = np.log(self.categories[k])[np.arange(codes.shape[1]), np.nan_to_num(codes).astype(int)]
            parts.append(np.where(np.isnan(codes), 0.0, tables))
            found[:, k] = np.log(weight) + sum(np.nansum(part, axis=1) for part in parts)
        return found
