"""The walk on the Conway sphere written out in numpy, many chains beside each other, with known errors to choose from.

Its laws without rows and with, by other means: uniform points of the sphere, offsets integrated out or drawn.
"""

import numpy as np

from skmanifold.manifolds import log_rank_probabilities


def symmetric_normals(rng, n, m):
    """Gaussian symmetric matrices, of expected squared norm m (m + 1) / 2."""
    A = rng.standard_normal((n, m, m))
    return (A + A.mT) / 2


def unit(A):
    return A / np.linalg.norm(A, axis=(1, 2), keepdims=True)


def flat_priors(m, max_dimension):
    """Log prior of the dimension, with and without what the surface area adds."""
    log_prior = np.full(max_dimension + 1, -np.log(max_dimension + 1.0))
    return log_prior, log_prior - log_rank_probabilities(m)[: max_dimension + 1]


def coordinate_planes(dims, m):
    """Directions of the projections onto the first d coordinates."""
    return unit(np.array([np.diag(np.where(np.arange(m) < d, 0.5, -0.5)) for d in dims]))


def across(directions, threshold=0.0):
    """Projections across the subspaces, and dimensions: I - P keeps the eigenvalues below the threshold."""
    values, vectors = np.linalg.eigh(directions)
    kept = vectors * (values <= threshold)[:, None]
    return kept @ kept.mT, (values > threshold).sum(axis=1)


class Cluster:
    """Rows' moments, with the settings of their loss; the offset's prior is about 0."""

    def __init__(self, X, noise=1.0, temperature=0.5, variance=2.0):
        self.n, self.mean = len(X), X.mean(axis=0)
        self.scatter = (X - self.mean).T @ (X - self.mean)
        self.pull = 2 * temperature * noise * self.n
        self.noise, self.temperature, self.variance = noise, temperature, variance

    def log_density(self, Q, d, theta):
        """Of the loss; Q projects across the subspace through `theta`."""
        gap = np.einsum("kab,kb->ka", Q, self.mean - theta)
        squares = np.einsum("kab,ab->k", Q, self.scatter) + self.n * (gap**2).sum(axis=1)
        return -self.temperature * (self.noise * squares + self.n * d)


def reference_walk(
    rng,
    directions,
    n_moves,
    scale,
    log_ranks,
    cluster,
    offsets,
    *,
    centre=0.5,
    renormalise=True,
    recompute=True,
    offset_prior=True,
):
    """Directions and offsets after `n_moves` moves of each; the options are known errors.

    `recompute=False` holds on to the offset's part across the subspace of before, `centre` is that of the sphere.
    """
    Z, beta = directions.copy(), offsets.copy()
    n, m = beta.shape
    threshold = (0.5 - centre) / (np.sqrt(m) / 2)
    Q, d = across(unit(Z), threshold)
    theta = np.einsum("kab,kb->ka", Q, beta)
    log_ranks = np.append(log_ranks, np.full(m + 1 - len(log_ranks), -np.inf))
    with np.errstate(invalid="ignore"):
        for _ in range(n_moves):
            proposed = Z + scale / np.sqrt(m * (m + 1) / 2) * symmetric_normals(rng, n, m)
            if renormalise:
                proposed = unit(proposed)
            new_Q, new_d = across(unit(proposed), threshold)
            new_theta = np.einsum("kab,kb->ka", new_Q, beta if recompute else theta)
            ratio = cluster.log_density(new_Q, new_d, new_theta) - cluster.log_density(Q, d, theta)
            taken = -rng.exponential(size=n) < ratio + log_ranks[new_d] - log_ranks[d]
            old_Q = Q.copy()
            Z[taken], Q[taken], d[taken] = proposed[taken], new_Q[taken], new_d[taken]
            if recompute:
                theta[taken] = new_theta[taken]
            proposed = beta + rng.standard_normal((n, m))
            new_theta = np.einsum("kab,kb->ka", Q if recompute else old_Q, proposed)
            ratio = cluster.log_density(Q, d, new_theta) - cluster.log_density(Q, d, theta)
            if offset_prior:
                ratio -= ((proposed**2).sum(axis=1) - (beta**2).sum(axis=1)) / (2 * cluster.variance)
            taken = -rng.exponential(size=n) < ratio
            beta[taken], theta[taken] = proposed[taken], new_theta[taken]
    return Z, beta


def exact_posterior(rng, cluster, log_ranks, m, n_points=200_000):
    """Uniform points of the sphere as projections, dimensions and offsets, with weights: self-normalised importance."""
    Q, d = across(unit(symmetric_normals(rng, n_points, m)))
    precision = 1 / cluster.variance + cluster.pull
    gap = np.einsum("kab,b->ka", Q, cluster.mean)
    # The offset is normal given the subspace: its evidence, and a draw.
    log_weights = cluster.log_density(Q, d, gap)
    log_weights -= 0.5 * (m - d) * np.log(cluster.variance * precision)
    log_weights -= 0.5 * (gap**2).sum(axis=1) * cluster.pull / (cluster.variance * precision)
    log_ranks = np.append(log_ranks, np.full(m + 1 - len(log_ranks), -np.inf))
    log_weights += log_ranks[d]
    e = rng.standard_normal((n_points, m))
    e_across = np.einsum("kab,kb->ka", Q, e)
    beta = cluster.pull / precision * gap + e_across / np.sqrt(precision) + (e - e_across) * np.sqrt(cluster.variance)
    weights = np.exp(log_weights - log_weights.max())
    return Q, d, beta, weights / weights.sum()
