"""Rows of 30 overlapping Gaussians with random full covariances, and the densities of the model that made them.

All components share a random covariance B B'. The covariance of component k is B W_k B', where `dof` W_k has a Wishart
distribution with `dof` degrees of freedom, and its mean is `separation` * B z_k, where z_k is standard normal. Weights
are from a Dirichlet distribution with parameter 10. For each number of columns `separation` is the value at which the
labels with the highest posterior probability under the true parameters have a normalised mutual information of 0.90
with the true labels; it was found by bisection.

The degrees of freedom are a compromise. If they are few, covariances alone separate components of 128 columns
completely. If they are many, a component of 3,300 rows does not determine the 8,256 parameters of its covariance well
enough: the marginal likelihood then prefers fewer than 30 components, for any inverse Wishart prior that is not much
narrower than the data. With 1,000 the true partition has a higher marginal likelihood than every partition in which two
components are merged if the prior has at least twice as many degrees of freedom as there are columns.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

N_COMPONENTS = 30
SHAPES = {10: (20, 1.19), 128: (1000, 0.215)}  # columns: degrees of freedom, separation


class PlantedGaussians:
    """The mixture with this number of columns; its parameters depend on `seed` alone."""

    def __init__(self, n_features, seed=0):
        dof, separation = SHAPES[n_features]
        rng = np.random.default_rng(seed)
        wide = rng.normal(size=(2 * n_features, n_features))
        shared = np.linalg.cholesky(wide.T @ wide / len(wide))
        self.weights = rng.dirichlet(np.full(N_COMPONENTS, 10.0))
        self.factors = np.array([shared @ wishart_factor(rng, n_features, dof) for _ in range(N_COMPONENTS)])
        self.means = separation * rng.normal(size=(N_COMPONENTS, n_features)) @ shared.T

    def sample(self, n_samples, seed=0):
        """Rows and labels."""
        rng = np.random.default_rng((seed, n_samples))
        labels = rng.choice(N_COMPONENTS, n_samples, p=self.weights)
        rows = rng.normal(size=(n_samples, self.means.shape[1]))
        for k in range(N_COMPONENTS):
            rows[labels == k] = rows[labels == k] @ self.factors[k].T + self.means[k]
        return rows, labels

    def score_samples(self, X):
        """Log density of each row."""
        return logsumexp(self._log_joint(X), axis=1)

    def predict(self, X):
        """The most probable component of each row."""
        return self._log_joint(X).argmax(axis=1)

    def _log_joint(self, X):
        found = np.empty((len(X), N_COMPONENTS))
        for k in range(N_COMPONENTS):
            scaled = solve_triangular(self.factors[k], (X - self.means[k]).T, lower=True)
            half_log_det = np.log(np.diag(self.factors[k])).sum() + 0.5 * X.shape[1] * np.log(2.0 * np.pi)
            found[:, k] = np.log(self.weights[k]) - 0.5 * (scaled**2).sum(axis=0) - half_log_det
        return found


def wishart_factor(rng, size, dof):
    """Lower triangular L, where `dof` L L' has a Wishart distribution of mean `dof` I (Bartlett)."""
    factor = np.tril(rng.normal(size=(size, size)), -1)
    factor[np.diag_indices(size)] = np.sqrt(rng.chisquare(dof - np.arange(size)))
    return factor / np.sqrt(dof)
