"""Gaussian family whose covariance matrices are multiples of one matrix, for mixtures with a given number."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._protocols import Arrays
from .base import GaussianParameters, refuse_singular
from .full import FullFamily
from .hyperparameters import NormalPrior
from .matrix_kernels import fill_posteriors

_PRIOR_ROWS = 0.1  # in each component
_TOLERANCE = 1e-4  # of the logarithms of volumes; the error of the density is of the order of its square
_MOST_STEPS = 100


class ProportionalFamily(FullFamily):
    """Gaussian family with the covariance matrix ``volume * matrix`` of each component.

    There is no conjugate prior: the mode maximises the density of `FullFamily` among such covariances.
    """

    draw = clusters = False  # type: ignore[assignment]

    def n_parameters(self) -> int:
        """Number of free parameters: means, volumes, and the matrix, whose determinant is 1."""
        K, d = self.n_components, self.n_features
        return K * d + K + d * (d + 1) // 2 - 1

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, among proportional covariances.

        Volumes given the matrix and the matrix given the volumes are computed in turn (Celeux and Govaert, 1995).
        """
        (data, sums), (K, d) = self._of_sums(statistics), statistics[1].shape
        if self.prior.mean_precision == 0.0:
            self._precisions(statistics[0])
        means, scatters, degrees = np.empty((K, d)), np.empty((K, d, d)), np.empty(K)
        fill_posteriors(data, sums, np.arange(K), 0, K, np.empty(K), means, scatters, degrees)
        sizes = degrees - self._least_degrees - 1.0
        traces = np.einsum("kaa->k", scatters)
        if not (sizes.min() > 0.0 and traces.min() > 0.0):
            refuse_singular(f"The covariance of component {np.minimum(sizes, traces).argmin()}")
        volumes = traces / (d * sizes)
        for _ in range(_MOST_STEPS):
            matrix, before = np.einsum("kab,k->ab", scatters, 1.0 / volumes), volumes
            sign, log_det = np.linalg.slogdet(matrix)
            if not sign > 0.0:
                refuse_singular("The covariance of all components")
            matrix /= np.exp(log_det / d)
            volumes = np.einsum("kab,ab->k", scatters, np.linalg.inv(matrix)) / (d * sizes)
            if np.abs(np.log(volumes / before)).max() < _TOLERANCE:
                break
        return self._parameters(means, volumes[:, np.newaxis, np.newaxis] * matrix)

    def _learned_prior(self, sums: Any, free: Any, reference: np.ndarray, is_rough: bool) -> NormalPrior:
        """The prior whose covariances are those within components, with the weight of a tenth of a row each."""
        if is_rough:
            return super()._learned_prior(sums, free, reference, is_rough)
        if "covariance" not in free:
            return self.prior
        degrees = self._least_degrees + 1.0 + _PRIOR_ROWS if "degrees" in free else self.prior.degrees
        return self.prior._replace(covariance=_PRIOR_ROWS * reference, degrees=degrees)
