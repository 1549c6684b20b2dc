"""Emissions as a user writes them, from public names alone: exponential rows, and tokens on a scale."""

import numpy as np
import scipy.stats as st

from skmanifold.emissions import BaseEmission, Family, read_dense


class Exponential(BaseEmission):
    """Positive features, exponential and independent given the component.

    As a density of the natural parameters, the negative rates, the prior is as if there had been `n_rows` rows of
    `mean` before.
    """

    allows_sparse = False

    def __init__(self, n_rows=0.5, mean=1.0):
        self.n_rows = n_rows
        self.mean = mean

    def read(self, estimator, X, *, reset):
        rows = read_dense(estimator, X, reset=reset, emission=self)
        if rows.values.min() < 0.0:
            raise ValueError(f"Negative values in data passed to {type(estimator).__name__}.")
        return rows

    def bind(self, rows, n_components):
        return ExponentialFamily(self.n_rows, self.n_rows * self.mean, n_components, rows.n_features)


class ExponentialFamily(Family):
    """Parameters are rates, (K, n_features)."""

    def __init__(self, size_prior, sum_prior, n_components, n_features):
        self.size_prior = size_prior
        self.sum_prior = sum_prior
        self.n_components = n_components
        self.n_features = n_features

    def shapes(self):
        return (self.n_components,), (self.n_components, self.n_features)

    def add_log_densities(self, rows, first, stop, parameters, out):
        out += np.log(parameters).sum(axis=1)
        out -= (rows.values[first:stop, None, :] * parameters).sum(axis=2)

    def sum_labels(self, rows, first, stop, first_block, labels):
        return self._sum(rows, first, stop, first_block, np.eye(self.n_components)[labels])

    def sum_shares(self, rows, first, stop, first_block, shares):
        return self._sum(rows, first, stop, first_block, shares)

    def _sum(self, rows, first, stop, first_block, shares):
        def add(start, end, sizes, sums):
            for block, row in enumerate(range(start, end, 1024)):
                mine = shares[row : min(row + 1024, end)]
                sizes[block] += mine.sum(axis=0)
                sums[block] += mine.T @ rows.values[first + row : first + min(row + 1024, end)]

        return self.sum_blocks(stop - first, first_block, add)

    def mode(self, statistics):
        sizes, sums = statistics
        return (self.size_prior + sizes)[:, None] / (self.sum_prior + sums)

    def draw(self, statistics, key):
        sizes, sums = statistics
        rng = np.random.Generator(np.random.Philox(key=int(key)))
        shape = np.broadcast_to((self.size_prior + sizes + 1.0)[:, None], sums.shape)
        return rng.standard_gamma(shape) / (self.sum_prior + sums)

    def log_prior(self, parameters):
        return float((self.size_prior * np.log(parameters) - self.sum_prior * parameters).sum())

    def log_likelihood(self, statistics, parameters):
        sizes, sums = statistics
        return float((sizes[:, None] * np.log(parameters) - sums * parameters).sum())

    def attributes(self, parameters):
        return {"components_": 1.0 / parameters}

    def seed_labels(self, rows, key):
        """Quantiles of the sums of rows."""
        ranks = rows.values.sum(axis=1).argsort().argsort()
        return (ranks * self.n_components // rows.n_rows).astype(np.int32)

    def sample(self, parameters, labels, key):
        rng = np.random.Generator(np.random.Philox(key=int(key)))
        return rng.standard_exponential((len(labels), self.n_features)) / parameters[labels]

    def n_parameters(self):
        return self.n_components * self.n_features


class Scale(BaseEmission):
    """Column v of X counts how often v was answered on a scale: binomial given the component, with a uniform prior."""

    def bind_tokens(self, tokens, n_components, word_vectors=None):
        return ScaleFamily(n_components, tokens.n_features)


class ScaleFamily(Family):
    """Parameters are the binomial probabilities, (K,)."""

    def __init__(self, n_components, n_features):
        self.n_components = n_components
        self.n_features = n_features
        self.values = np.arange(n_features)

    def shapes(self):
        return (self.n_components,), (self.n_components,)

    def statistics_of_tokens(self, counts):
        return np.asarray(counts.totals, dtype=float), counts.tocsr().T @ self.values

    def mode(self, statistics):
        sizes, sums = statistics
        return (sums + 1.0) / (sizes * (self.n_features - 1) + 2.0)

    def draw(self, statistics, key):
        sizes, sums = statistics
        rng = np.random.Generator(np.random.Philox(key=int(key)))
        return rng.beta(sums + 1.0, sizes * (self.n_features - 1) - sums + 1.0)

    def token_table(self, parameters):
        return st.binom.logpmf(self.values[:, None], self.n_features - 1, parameters)

    def attributes(self, parameters):
        return {"components_": np.exp(self.token_table(parameters)).T}

    def parameters_of(self, attributes):
        return attributes["components_"] @ self.values / (self.n_features - 1)


class Falling(BaseEmission):
    """Words with a Dirichlet prior whose parameters fall from column to column: a token prior is all that it takes."""

    def __init__(self, highest=1.0):
        self.highest = highest

    def bind_tokens(self, tokens, n_components, word_vectors=None):
        return FallingFamily(self.highest, n_components, tokens.n_features)


class FallingFamily:
    def __init__(self, highest, n_components, n_features):
        self.n_components = n_components
        self.n_features = n_features
        self.token_prior = highest / np.arange(1.0, n_features + 1.0)


def without(family, *names):
    """A class as this one, but for some methods; the same emission bound to it."""
    methods = {name: value for name, value in vars(family).items() if name not in names and name != "__dict__"}
    return type(family.__name__, family.__bases__, methods)
