"""Mixtures of factor analysers by EM, the baseline of St. Thomas et al. (2014) in a form with few settings.

A component is N(mu, L L' + Psi) with L of shape (n_features, n_factors) and a diagonal Psi. The number of factors is
the same for all components, and is chosen by the Bayesian information criterion.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans

_LEAST_SHARE = 1e-3  # of the variance of a column, as the least variance of its noise


class FactorAnalysers(BaseEstimator):
    """A mixture of factor analysers.

    Parameters
    ----------
    n_components : int
        Number of components.
    n_factors : int, optional
        Number of factors; by default chosen from 1 to n_features - 1.
    n_init, max_iter, tol : int, int, float
        Number of initialisations by k-means, of iterations, and the increase of the log likelihood per row that ends
        them.
    random_state : int
        Seed.
    """

    def __init__(self, n_components=1, n_factors=None, n_init=3, max_iter=300, tol=1e-5, random_state=0):
        self.n_components = n_components
        self.n_factors = n_factors
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y=None):
        """Fit by EM; of several numbers of factors keep the one with the best criterion."""
        n, m = X.shape
        best = np.inf
        for n_factors in [self.n_factors] if self.n_factors else range(1, m):
            runs = [self._fit_once(X, n_factors, self.random_state + i) for i in range(self.n_init)]
            score, parameters = max(runs, key=lambda run: run[0])
            of_covariance = min(m + m * n_factors - n_factors * (n_factors - 1) // 2, m * (m + 1) // 2)
            criterion = -2 * score + np.log(n) * (self.n_components * (m + of_covariance + 1) - 1)
            if criterion < best:
                best, self.parameters_, self.n_factors_ = criterion, parameters, n_factors
        return self

    def _fit_once(self, X, n_factors, seed):
        n = len(X)
        floor = _LEAST_SHARE * X.var(axis=0) + 1e-12
        labels = KMeans(self.n_components, n_init=1, random_state=seed).fit_predict(X)
        shares = np.eye(self.n_components)[labels]
        loadings = [None] * self.n_components
        noises = [X.var(axis=0)] * self.n_components
        last = -np.inf
        for _ in range(self.max_iter):
            weights = shares.sum(axis=0) + 1e-9
            means = (shares.T @ X) / weights[:, np.newaxis]
            for k in range(self.n_components):
                centred = X - means[k]
                covariance = (shares[:, k] * centred.T) @ centred / weights[k]
                loadings[k], noises[k] = _update(covariance, loadings[k], noises[k], n_factors, floor)
            parameters = (
                weights / n,
                means,
                [L @ L.T + np.diag(noise) for L, noise in zip(loadings, noises, strict=True)],
            )
            logs = _joint(X, parameters)
            totals = logsumexp(logs, axis=1)
            shares = np.exp(logs - totals[:, np.newaxis])
            score = totals.sum()
            if score - last < self.tol * n:
                break
            last = score
        return score, parameters

    def score_samples(self, X):
        """Log density of each row."""
        return logsumexp(_joint(X, self.parameters_), axis=1)

    def predict(self, X):
        """The most probable component of each row."""
        return _joint(X, self.parameters_).argmax(axis=1)


class FactorClassifier(ClassifierMixin, BaseEstimator):
    """Bayes' rule with a factor analyser for each class."""

    def fit(self, X, y):
        """Fit a factor analyser to the rows of each class."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_shares_ = np.log(counts / len(y))
        self.models_ = [FactorAnalysers(1, n_init=1).fit(X[y == label]) for label in self.classes_]
        return self

    def predict(self, X):
        """The class of the largest posterior probability."""
        logs = np.stack([model.score_samples(X) for model in self.models_], axis=1) + self.log_shares_
        return self.classes_[logs.argmax(axis=1)]


def _update(covariance, loadings, noise, n_factors, floor):
    """One EM step of a factor analyser, for the covariance of its rows; begins at the principal components."""
    if loadings is None:
        values, vectors = np.linalg.eigh(covariance)
        rest = values[:-n_factors].mean()
        loadings = vectors[:, -n_factors:] * np.sqrt(np.maximum(values[-n_factors:] - rest, 1e-6))
        noise = np.maximum(np.diag(covariance - loadings @ loadings.T), floor)
    projection = np.linalg.solve(loadings @ loadings.T + np.diag(noise), loadings).T
    second = np.eye(n_factors) - projection @ loadings + projection @ covariance @ projection.T
    loadings = np.linalg.solve(second, projection @ covariance).T
    noise = np.maximum(np.diag(covariance - loadings @ projection @ covariance), floor)
    return loadings, noise


def _joint(X, parameters):
    """Log weights plus log densities of the components, ``(n_rows, n_components)``."""
    logs = np.empty((len(X), len(parameters[0])))
    for k, (weight, mean, covariance) in enumerate(zip(*parameters, strict=True)):
        root = np.linalg.cholesky(covariance)
        scaled = solve_triangular(root, (X - mean).T, lower=True)
        constant = np.log(weight) - np.log(np.diag(root)).sum() - 0.5 * len(mean) * np.log(2 * np.pi)
        logs[:, k] = constant - 0.5 * (scaled**2).sum(axis=0)
    return logs
