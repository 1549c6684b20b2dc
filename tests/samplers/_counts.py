"""Counts behind a Dirichlet posterior as independent gammas, and draws of gammas too small for floats."""

import numpy as np
from scipy.special import gammainc, gammaln

from skmanifold.manifolds import PositiveOrthant


class GammaPosterior:
    """Gammas whose normalised values have the law of a `DirichletPosterior`, with the estimates of its minibatches."""

    noise_covariance = None
    vectorized = True

    def __init__(self, posterior):
        self.posterior = posterior
        self.manifold = PositiveOrthant(posterior.manifold.shape)

    def expected_counts(self, position, keys, out):
        self.posterior.expected_counts(position, keys, out)

    def grad_log_density(self, position, keys, out):
        self.posterior.expected_counts(position, keys, out)
        out -= 1
        out /= position
        out -= 1


def log_gamma_cdf(y, shape):
    """Distribution function of the logarithm of a Ga(shape, 1) draw, however negative."""
    y = np.asarray(y, float)
    tail = np.exp(np.minimum(shape * y - gammaln(shape + 1), 0))
    return np.where(y < -600, tail, gammainc(shape, np.exp(np.maximum(y, -600))))
