"""Gaussian families whose covariance matrices share some of volume, shape and orientation, without a conjugate prior.

A covariance is ``volume * D @ diag(shape) @ D.T``, with the product of the shape equal to 1 and an orthogonal matrix D.
The letters of a form say whether volume, shape and orientation are equal (E) or vary (V) between components.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from .._protocols import Arrays
from .base import GaussianParameters, refuse_singular
from .full import FullFamily
from .matrix_kernels import fill_posteriors

_PRIOR_ROWS = 0.1  # in each component
_TOLERANCE = 1e-6  # of the logarithms of volumes
_MOST_STEPS = 30


class FormFamily(FullFamily):
    """Base class of families with a covariance matrix for each component, of which parts are shared.

    The mode maximises the density of `FullFamily` among the covariances of the form (Celeux and Govaert, 1995).
    """

    draw = clusters = False  # type: ignore[assignment]

    @staticmethod
    @abstractmethod
    def _covariances(scatters: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Most probable covariances, (K, d, d), given scatters about the means and numbers of rows, (K,)."""

    @staticmethod
    @abstractmethod
    def _n_of_covariances(n_components: int, d: int) -> int:
        """Number of free parameters of the covariances."""

    def n_parameters(self) -> int:
        """Number of free parameters: means and covariances."""
        K, d = self.n_components, self.n_features
        return K * d + self._n_of_covariances(K, d)

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means among the covariances of the form."""
        (data, sums), (K, d) = self._of_sums(statistics), statistics[1].shape
        if self.prior.mean_precision == 0.0:
            self._precisions(statistics[0])
        means, scatters, degrees = np.empty((K, d)), np.empty((K, d, d)), np.empty(K)
        fill_posteriors(data, sums, np.arange(K), 0, K, np.empty(K), means, scatters, degrees)
        sizes = degrees - self._least_degrees - 1.0
        if not sizes.min() > 0.0:
            refuse_singular(f"The covariance of component {sizes.argmin()}")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            covariances = self._covariances(scatters, sizes)
        singular = ~np.isfinite(covariances).all(axis=(1, 2))
        if singular.any():
            refuse_singular(f"The covariance of component {singular.argmax()}")
        return self._parameters(means, covariances)

    def with_learned_numbers(self, statistics: Arrays, free: Any, is_rough: bool = False) -> FormFamily:
        """The family whose prior covariances are those within components, with the weight of a tenth of a row each."""
        if is_rough or "covariance" not in free:
            return super().with_learned_numbers(statistics, free, is_rough)
        clusters, sums = self.clusters_of_sums(statistics)
        degrees = self._least_degrees + 1.0 + _PRIOR_ROWS if "degrees" in free else self.prior.degrees
        return self._with_numbers(self.prior._replace(covariance=_PRIOR_ROWS * clusters._within(sums), degrees=degrees))


class EqualShapes(FormFamily):
    """VEE: covariances are multiples of one matrix."""

    @staticmethod
    def _covariances(scatters, sizes):
        d = scatters.shape[1]

        def of_volumes(volumes):
            matrix = _unit((scatters / volumes[:, np.newaxis, np.newaxis]).sum(axis=0))
            return matrix, np.einsum("kab,ba->k", scatters, np.linalg.inv(matrix)) / (d * sizes)

        volumes, matrix = _fixed_point(of_volumes, np.einsum("kaa->k", scatters) / (d * sizes))
        return volumes[:, np.newaxis, np.newaxis] * matrix

    @staticmethod
    def _n_of_covariances(n_components, d):
        return n_components - 1 + d * (d + 1) // 2


class EqualOrientations(FormFamily):
    """VVE: covariances have the same eigenvectors."""

    @staticmethod
    def _covariances(scatters, sizes):
        axes = _common_axes(scatters, sizes)
        variances = _squares(axes, scatters) / sizes[:, np.newaxis]
        return np.einsum("ab,kb,cb->kac", axes, variances, axes)

    @staticmethod
    def _n_of_covariances(n_components, d):
        return n_components * d + d * (d - 1) // 2


class EqualEigenvalues(FormFamily):
    """EEV: covariances have the same eigenvalues, and eigenvectors of their own."""

    @staticmethod
    def _covariances(scatters, sizes):
        values, vectors = np.linalg.eigh(scatters)
        return np.einsum("kab,b,kcb->kac", vectors, values.sum(axis=0) / sizes.sum(), vectors)

    @staticmethod
    def _n_of_covariances(n_components, d):
        return d + n_components * (d * (d - 1) // 2)


class EqualRatios(FormFamily):
    """VEV: covariances have the same eigenvalues up to a factor, and eigenvectors of their own."""

    @staticmethod
    def _covariances(scatters, sizes):
        values, vectors = np.linalg.eigh(scatters)

        def of_volumes(volumes):
            shape = (values / volumes[:, np.newaxis]).sum(axis=0)
            shape = shape / np.exp(np.log(shape).mean())
            return shape, (values / shape).mean(axis=1) / sizes

        volumes, shape = _fixed_point(of_volumes, values.mean(axis=1) / sizes)
        return np.einsum("kab,kb,kcb->kac", vectors, volumes[:, np.newaxis] * shape, vectors)

    @staticmethod
    def _n_of_covariances(n_components, d):
        return n_components + d - 1 + n_components * (d * (d - 1) // 2)


def _unit(matrix):
    """The multiple of a matrix with the determinant 1."""
    return matrix / np.exp(np.linalg.slogdet(matrix)[1] / len(matrix))


def _fixed_point(of_volumes, volumes):
    """Volumes that are those computed from what is shared, which is computed from them; and what is shared."""
    for _ in range(_MOST_STEPS):
        before = volumes
        shared, volumes = of_volumes(volumes)
        if not np.abs(np.log(volumes / before)).max() > _TOLERANCE:
            break
    return volumes, shared


def _squares(axes, scatters):
    """Diagonals of the scatters in the system of the axes, (K, d)."""
    return np.einsum("ba,kbc,ca->ka", axes, scatters, axes, optimize=True)


def _common_axes(scatters, sizes):
    """Axes that minimise the sum of n_k log |diag(D' W_k D)|, by majorisation (Browne and McNicholas, 2014)."""
    axes = np.linalg.eigh((scatters / sizes[:, np.newaxis, np.newaxis]).sum(axis=0))[1]
    largest = np.linalg.eigvalsh(scatters)[:, -1, np.newaxis, np.newaxis] * np.eye(scatters.shape[1])
    cost = np.inf
    for _ in range(_MOST_STEPS):
        squares = _squares(axes, scatters)
        before, cost = cost, float(sizes @ np.log(squares).sum(axis=1))
        if not before - cost > 1e-4 * sizes.sum():
            break
        weights = sizes[:, np.newaxis] / squares
        target = np.einsum("kbc,ca,ka->ba", largest - scatters, axes, weights, optimize=True)
        left, _, right = np.linalg.svd(target, full_matrices=False)
        axes = left @ right
    return axes
