"""What clusters with covariance matrices share, full and tied: the prior, initial labels, and new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from ...random._keys import fold_in_each, subkey
from ...random._variates import fill_normal, gamma_variate
from ...utils._threads import Workers, split_range
from .._gaussian_base import NormalPrior
from .._gaussian_kernels import add_diagonal_densities
from .._seeds import cluster_rows
from .base import Clusters

_ROWS_OF_SEEDS = 50  # per cluster, on average
_MOST_ROWS_OF_SEEDS = 20_000
_CELLS_OF_TASK = 20_000  # differences of rows and means: some milliseconds with ten features


class GaussianClusters(Clusters):
    """Base class of Gaussian rows whose components have covariance matrices.

    Parameters
    ----------
    values : ndarray of shape (n_rows, d)
        Rows.
    prior : NormalPrior
        Prior of the means and of the covariance matrices.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    def __init__(self, values: np.ndarray, prior: NormalPrior, origin: np.ndarray) -> None:
        d = values.shape[1]
        if not (prior.mean_precision > 0.0 and prior.degrees > d - 1 and _is_definite(prior.covariance)):
            raise ValueError(
                "A Dirichlet process mixture of Gaussian components needs a proper prior: mean_precision_prior above "
                f"0, degrees_of_freedom_prior above {d - 1} and a positive definite covariance_prior."
            )
        self.values, self.prior, self.origin = values, prior, origin
        self.n_features = d
        super().__init__(self._data(), len(values))

    def _data(self):
        """Rows and prior, as the kernels read them."""
        raise NotImplementedError

    def part(self, start: int, stop: int) -> GaussianClusters:
        """The clusters of some of the rows."""
        return type(self)(self.values[start:stop], self.prior, self.origin)

    def subset(self, rows: np.ndarray) -> GaussianClusters:
        """The clusters of the rows with these indices."""
        return type(self)(self.values[rows], self.prior, self.origin)

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch, sorted by their labels."""
        return rows[np.argsort(labels[rows], kind="stable")]

    def seed_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means of a random sample of the rows; the other rows have the nearest centre."""
        n_sampled = min(max(_ROWS_OF_SEEDS * n_clusters, 1000), _MOST_ROWS_OF_SEEDS, self.n_rows)
        if n_sampled == self.n_rows:
            return cluster_rows(self.values, min(n_clusters, self.n_rows), key)
        order = np.argsort(fold_in_each(key, np.arange(self.n_rows)), kind="stable")[:n_sampled]
        sample = self.values[order]
        labels = cluster_rows(sample, n_clusters, key)
        used, labels = np.unique(labels, return_inverse=True)
        centres = np.array([sample[labels == k].mean(axis=0) for k in range(len(used))])
        scales = np.ptp(self.values, axis=0)
        precisions = np.repeat(np.where(scales > 0.0, scales, 1.0)[np.newaxis] ** -2, len(centres), axis=0)
        nearest = np.empty(self.n_rows, np.int32)
        for start, stop in split_range(self.n_rows, max(1, (1 << 22) // len(centres))):
            nearness = np.zeros((stop - start, len(centres)))
            add_diagonal_densities(self.values, start, stop, centres, precisions, np.zeros(len(centres)), nearness)
            nearest[start:stop] = nearness.argmax(axis=1)
        return nearest

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 24.0 * self.n_features**2 * n_components

    def _tasks(self, n_labels: int, workers: Workers) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        return split_range(self.n_rows, max(64, _CELLS_OF_TASK // max(1, n_labels)))


def student_rows(
    key: np.uint64,
    labels: np.ndarray,
    means: np.ndarray,
    roots: np.ndarray,
    scales: np.ndarray,
    degrees: np.ndarray,
) -> np.ndarray:
    """Rows m + sqrt(s / g) L z, with z standard normal and g chi-squared, given the label of each.

    Means (K, d), roots L (K, d, d) or (1, d, d), scales s and degrees of freedom (K,) are those of the labels. Row i
    depends only on the key, i and its label.
    """
    out, keys = np.empty((len(labels), means.shape[1])), fold_in_each(key, np.arange(len(labels)))
    fill_normal(keys, 0, out)
    halves = np.array(
        [gamma_variate(subkey(of_row, 1), 0.5 * degrees[k]) for of_row, k in zip(keys, labels, strict=True)]
    )
    out *= np.sqrt(scales[labels] / (2.0 * halves))[:, np.newaxis]
    for k in np.unique(labels):
        mine = labels == k
        out[mine] = means[k] + out[mine] @ roots[min(int(k), len(roots) - 1)].T
    return out


def _is_definite(covariance: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return False
    return True


def log_student(values: np.ndarray, locations: np.ndarray, squares: np.ndarray, degrees: Any) -> np.ndarray:
    """Log densities, (n, K), of Student t distributions whose squared scales are `squares` over the degrees."""
    gaps = (values[:, np.newaxis] - locations) ** 2 / squares
    of_degrees = gammaln(0.5 * (degrees + 1.0)) - gammaln(0.5 * degrees) - 0.5 * np.log(np.pi * squares)
    return of_degrees - 0.5 * (degrees + 1.0) * np.log1p(gaps)
