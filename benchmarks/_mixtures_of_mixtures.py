"""Mixtures of mixtures of Gaussians (Malsiner-Walli, Fruehwirth-Schnatter and Gruen, 2017), by Gibbs sampling.

Each of K clusters is a mixture of L Gaussians, whose prior draws their means together and lets their covariances
overlap, and most of the K weights are nearly zero. With r columns, covariance S of the rows, and the
Wishart distribution W(c, C) of mean c C^-1, which has 2 c degrees of freedom:

- weights of clusters: Dirichlet(0.001); weights within a cluster: Dirichlet(d / 2 + 2), where a Gaussian has
  d = r + r (r + 1) / 2 parameters;
- means in cluster k: N(b_k, B_k), where B_k is diagonal with elements lambda_kj phi_W (1 - phi_B) S_jj; lambda_kj has
  a gamma distribution of shape and rate 10, and b_k ~ N(median of the rows, 10 S);
- precision matrices in cluster k: W(c0, C_k) with c0 = 2.5 + (r - 1) / 2; C_k ~ W(g0, G0) with g0 = 0.5 + (r - 1) / 2
  and a diagonal G0, so that the prior mean of a covariance is (1 - phi_W) (1 - phi_B) diag(S);
- phi_B = 0.5 is the share of the variance between clusters, phi_W = 0.1 the share of the rest between means.

The number of clusters is the most frequent number of clusters with rows in the draws. Labels are those of the draw with
this number whose mean variation of information to the others is smallest (the paper groups the drawn centres b_k by
k-means).
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.cluster import KMeans

from skmanifold.metrics import expected_variation_of_information

K = 10
SPARSITY = 0.001
BETWEEN, WITHIN = 0.5, 0.1
SHAPE = 10.0
N_BURN_IN, N_DRAWS = 1000, 1000
N_COMPARED = 200


def overlapping_priors(L, columns, n_sizes, seed):
    """Labels and processor seconds, as `benchmarks._mclust.mclust`; there are always K clusters at the start."""
    start = time.process_time()
    chain = Chain(columns, L, seed)
    draws = np.array([chain.step() // L for _ in range(N_BURN_IN + N_DRAWS)])[N_BURN_IN:]
    numbers = np.array([len(np.unique(labels)) for labels in draws])
    draws = draws[numbers == np.bincount(numbers).argmax()]
    draws = draws[np.unique(np.linspace(0, len(draws) - 1, N_COMPARED).astype(int))]
    labels = draws[np.argmin(expected_variation_of_information(draws, draws))]
    return {"overlapping priors": (labels, time.process_time() - start)}


class Chain:
    """State of a chain: `labels` are those of Gaussians, and Gaussian i belongs to cluster i // L.

    `factors` are matrices P whose products P^T P are precision matrices, and `rates` are the matrices C of clusters.
    """

    def __init__(self, X, L, seed):
        self.X, self.L, self.rng = X, L, np.random.default_rng(seed)
        r = X.shape[1]
        covariance = np.atleast_2d(np.cov(X.T))
        self.c0, self.g0 = 2.5 + (r - 1) / 2, 0.5 + (r - 1) / 2
        self.within_concentration = (r + r * (r + 1) / 2) / 2 + 2
        mean_rate = (self.c0 - (r + 1) / 2) * (1 - WITHIN) * (1 - BETWEEN) * np.diag(np.diag(covariance))
        self.G0 = self.g0 * np.linalg.inv(mean_rate)
        self.variances = WITHIN * (1 - BETWEEN) * np.diag(covariance)
        self.centre, self.centre_precision = np.median(X, axis=0), np.linalg.inv(10 * covariance)
        self.scales, self.rates = np.ones((K, r)), np.tile(mean_rate, (K, 1, 1))
        self.start(seed)

    def start(self, seed):
        """Labels, means and centres by k-means."""
        L = self.L
        groups = KMeans(K, n_init=10, random_state=seed).fit(self.X)
        self.centres, self.labels = groups.cluster_centers_, np.empty(len(self.X), int)
        self.means = np.repeat(self.centres, L, axis=0)
        for k in range(K):
            rows = np.flatnonzero(groups.labels_ == k)
            parts = KMeans(min(L, len(rows)), n_init=1, random_state=seed).fit(self.X[rows])
            self.labels[rows] = L * k + parts.labels_
            self.means[L * k : L * k + len(parts.cluster_centers_)] = parts.cluster_centers_

    def step(self):
        self.draw_gaussians()
        self.draw_clusters()
        return self.draw_labels()

    def draw_gaussians(self):
        """Weights, covariances and means."""
        X, L, rng, r = self.X, self.L, self.rng, self.X.shape[1]
        sizes = np.bincount(self.labels, minlength=K * L)
        sums, scatters = np.zeros((K * L, r)), np.zeros((K * L, r, r))
        for i in np.flatnonzero(sizes):
            rows = X[self.labels == i]
            sums[i], gaps = rows.sum(axis=0), rows - self.means[i]
            scatters[i] = gaps.T @ gaps
        sizes_within = sizes.reshape(K, L)
        weights = rng.dirichlet(SPARSITY + sizes_within.sum(axis=1))
        within = np.array([rng.dirichlet(self.within_concentration + of_cluster) for of_cluster in sizes_within])
        self.weights = (weights[:, np.newaxis] * within).ravel()
        rates = np.repeat(self.rates, L, axis=0) + scatters / 2
        self.factors = wishart_factors(self.c0 + sizes / 2, rates, rng)
        precisions = squares(self.factors)
        of_prior = np.repeat(1 / (self.scales * self.variances), L, axis=0)
        linear = of_prior * np.repeat(self.centres, L, axis=0) + (precisions @ sums[:, :, np.newaxis])[:, :, 0]
        precisions *= sizes[:, np.newaxis, np.newaxis]
        precisions[:, range(r), range(r)] += of_prior
        self.means = normals(precisions, linear, rng)

    def draw_clusters(self):
        """What the Gaussians of a cluster have in common: C_k, lambda_k and b_k."""
        L, rng, r = self.L, self.rng, self.X.shape[1]
        rates = self.G0 + squares(self.factors).reshape(K, L, r, r).sum(axis=1)
        self.rates = squares(wishart_factors(np.full(K, self.g0 + L * self.c0), rates, rng))
        means = self.means.reshape(K, L, r)
        distances = ((means - self.centres[:, np.newaxis]) ** 2).sum(axis=1) / self.variances
        self.scales = inverse_gaussians(SHAPE - L / 2, 2 * SHAPE, distances, rng)
        of_means = 1 / (self.scales * self.variances)
        precisions = np.tile(self.centre_precision, (K, 1, 1))
        precisions[:, range(r), range(r)] += L * of_means
        self.centres = normals(precisions, self.centre_precision @ self.centre + of_means * means.sum(axis=1), rng)

    def draw_labels(self):
        n, r = self.X.shape
        i = np.flatnonzero(self.weights)  # the weights of most empty clusters underflow
        factors = self.factors[i]
        gaps = self.X @ factors.reshape(-1, r).T
        gaps -= (factors @ self.means[i, :, np.newaxis]).ravel()
        gaps = gaps.reshape(n, len(i), r)
        terms = np.log(self.weights[i]) + np.linalg.slogdet(factors)[1] - 0.5 * np.einsum("nir,nir->ni", gaps, gaps)
        sums = np.exp(terms - terms.max(axis=1, keepdims=True)).cumsum(axis=1)
        self.labels = i[(sums <= self.rng.random((n, 1)) * sums[:, -1:]).sum(axis=1)]
        return self.labels


def squares(factors):
    return np.swapaxes(factors, 1, 2) @ factors


def cholesky(matrices):
    """Cholesky factors; if rounding errors make a matrix indefinite, diagonals are slightly larger."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return np.linalg.cholesky(matrices * (1 + 1e-8 * np.eye(matrices.shape[1])))


def wishart_factors(c, C, rng):
    """Matrices P such that P^T P ~ W(c, C), by Bartlett's decomposition."""
    r = C.shape[1]
    lower = np.tril(rng.standard_normal(C.shape), -1)
    lower[:, range(r), range(r)] = np.sqrt(rng.chisquare(2 * c[:, np.newaxis] - np.arange(r)))
    return np.swapaxes(np.linalg.solve(np.swapaxes(cholesky(2 * C), 1, 2), lower), 1, 2)


def normals(precisions, linear, rng):
    """Draws from normal distributions with log density -x^T Q x / 2 + linear^T x."""
    roots = cholesky(precisions)
    half = np.linalg.solve(roots, linear[:, :, np.newaxis])
    return np.linalg.solve(np.swapaxes(roots, 1, 2), half + rng.standard_normal(half.shape))[:, :, 0]


def inverse_gaussians(p, a, b, rng):
    """Draws from generalised inverse Gaussian distributions, of density x^(p - 1) exp(-(a x + b / x) / 2), p > 0.

    A gamma distribution with the rate a / 2 and the same mode of log x is an envelope, of acceptance above 0.7.
    """
    modes = (p + np.sqrt(p**2 + a * b)) / a
    draws = np.full_like(b, np.nan)
    while (left := np.isnan(draws)).any():
        x = rng.gamma(a * modes[left] / 2, 2 / a)
        log_ratio = -b[left] / (2 * modes[left]) * (np.log(x / modes[left]) + modes[left] / x - 1)
        draws[left] = np.where(np.log(rng.random(len(x))) < log_ratio, x, np.nan)
    return draws
