"""Priors of Gaussian clusters learned from a partition by maximum marginal likelihood, which is empirical Bayes.

The prior mean of the covariances is ``scale`` times the pooled covariance within the clusters. Lognormal priors of the
three numbers that are learned keep them finite if there are few clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import gammaln

_CENTRES = np.log([1.0, 2.0, 0.1])  # scale; degrees of freedom above the least; rows to which a mean is equivalent
_DEVIATIONS = np.array([2.0, 2.0, 0.5])  # of the logarithms
_BOUNDS = np.log([(1e-5, 100.0), (0.5, 1e4), (0.01, 1e4)])


class PriorNumbers(NamedTuple):
    """The numbers of a prior."""

    factor: float  # of the reference, in the prior's scatter
    degrees: float
    mean_precision: float  # in rows


def best_numbers(log_marginal: Callable[[PriorNumbers], float], given: PriorNumbers, free: Any, least: float):
    """The most probable `PriorNumbers` given a partition, by its `log_marginal`, a function of them.

    Learned are those of `free`: "covariance", "degrees" (only with it), "mean_precision". Covariances have a finite
    mean above `least` degrees of freedom.
    """
    is_free = np.array([name in free for name in ("covariance", "degrees", "mean_precision")])

    def numbers(logs: np.ndarray) -> PriorNumbers:
        whole = _CENTRES.copy()
        whole[is_free] = logs
        scale, excess, mean_precision = np.exp(whole).tolist()
        excess = excess if is_free[1] else max(given.degrees - least, 0.5)
        return PriorNumbers(
            scale * excess if is_free[0] else given.factor,
            least + excess if is_free[1] else given.degrees,
            mean_precision if is_free[2] else given.mean_precision,
        )

    def cost(logs: np.ndarray) -> float:
        distances = (logs - _CENTRES[is_free]) / _DEVIATIONS[is_free]
        return 0.5 * float(distances @ distances) - log_marginal(numbers(logs))

    return numbers(minimize(cost, _CENTRES[is_free], method="L-BFGS-B", bounds=_BOUNDS[is_free]).x)


def pooled(scatters: np.ndarray, n_rows: np.ndarray | float, n_clusters: int, whole: np.ndarray, weight: float):
    """Covariance within clusters, with `weight` rows that have the covariance of as many clusters in all rows.

    `whole` is the covariance of all rows, divided so that the clusters together have its volume.
    """
    return (scatters + weight * whole) / (np.maximum(n_rows - n_clusters, 0) + weight)


class MatrixMoments:
    """Log marginal densities of clusters with covariance matrices, as a function of the numbers of the prior.

    A basis in which `reference`, (d, d), is the identity and a cluster's scatter is diagonal makes evaluations cheap.
    `gaps`, (K, d), are means minus the prior's mean; `scatters`, (K, d, d), are about the means.
    """

    def __init__(self, sizes: np.ndarray, gaps: np.ndarray, scatters: np.ndarray, reference: np.ndarray) -> None:
        d = gaps.shape[1]
        whiten = solve_triangular(np.linalg.cholesky(reference), np.eye(d), lower=True)
        values, vectors = np.linalg.eigh(whiten @ scatters @ whiten.T)
        self.sizes, self.values = sizes.astype(float), np.maximum(values, 0.0)
        self.squares = ((gaps @ whiten.T)[:, np.newaxis] @ vectors)[:, 0] ** 2
        self.halves = 0.5 * np.arange(d)

    def log_marginal(self, numbers: PriorNumbers) -> float:
        """Log marginal density up to a constant."""
        n, d = self.sizes, len(self.halves)
        scatter, degrees, kappa = numbers
        sums = scatter + self.values
        shrunk = kappa * n / (kappa + n)
        log_dets = np.log(sums).sum(axis=1) + np.log1p(shrunk * (self.squares / sums).sum(axis=1))
        log_gammas = gammaln(0.5 * (degrees + n)[:, np.newaxis] - self.halves) - gammaln(0.5 * degrees - self.halves)
        of_scatters = 0.5 * (degrees * d * np.log(scatter) - (degrees + n) * log_dets)
        return float((log_gammas.sum(axis=1) + of_scatters - 0.5 * d * np.log1p(n / kappa)).sum())
