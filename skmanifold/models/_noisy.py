"""A target with artificial gradient noise of a known covariance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..random._keys import Purpose
from ..random._variates import fill_normal
from ..utils._typing import ArrayLike, available_if
from ._charts import TargetWrapper, target_has
from ._density import check_noise
from ._density_protocols import HasGradient
from ._minibatch import CovarianceAt, covariance_matrices


class NoisyGradient(TargetWrapper):
    r"""Another target with normal noise of a known covariance added to its gradient.

    With `keys` the gradient is :math:`\nabla\log\pi(x) + \mathcal{N}(0, V)`, in the coordinates of the array that
    represents a point. The noise is a function of chain and key. Without `keys` the gradient is that of the target.
    Samplers that compensate for the noise use `noise_covariance`, which is V. It does not include the noise of
    minibatches of the target.

    Parameters
    ----------
    target : object
        A target with a gradient, whose `noise_covariance` is None or missing.
    covariance : float, array of shape (size,) or (size, size), or callable
        V: a multiple of the identity, a diagonal or a positive semi-definite matrix, or a function of a point that
        returns one of these (for all chains at once, if the target is vectorized).

    Attributes
    ----------
    manifold : Manifold
        Manifold of the target.
    noise_covariance : float, ndarray or callable
        V; if it depends on the position, a function of the positions of all chains.

    Raises
    ------
    TypeError, ValueError
        If the target has no gradient or already has a noise covariance, or if `covariance` is not a covariance.
    """

    def __init__(self, target: HasGradient, covariance: ArrayLike | Callable[[np.ndarray], ArrayLike]) -> None:
        if getattr(target, "grad_log_density", None) is None:
            raise TypeError(f"NoisyGradient needs a target with grad_log_density; got {target!r}.")
        if getattr(target, "noise_covariance", None) is not None:
            raise ValueError("NoisyGradient needs a target without noise_covariance; pass the sum of the covariances.")
        self.target = target
        self.manifold = target.manifold
        self.noise_covariance = check_noise(covariance, target.manifold.size, "covariance", self.vectorized)
        if self.noise_covariance is None:
            raise ValueError("covariance must be given; for a gradient without noise, use the target itself.")
        varies = isinstance(self.noise_covariance, CovarianceAt)
        self._root: Any = None if varies else _square_root(self.noise_covariance)

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient of the log density, with noise if `keys` are given, written to `out`."""
        self.target.grad_log_density(position, keys, out)
        if keys is None:
            return
        noise = np.empty((len(position), self.manifold.size))
        fill_normal(keys, Purpose.GRADIENT_NOISE, noise)
        if isinstance(self.noise_covariance, CovarianceAt):
            root = _square_root(covariance_matrices(self.noise_covariance, position))
            noise = np.einsum("cj,cij->ci", noise, root)
        elif np.ndim(self._root) < 2:
            noise *= self._root
        else:
            noise = np.einsum("cj,ij->ci", noise, self._root)  # unlike BLAS, with a fixed order of additions
        out += noise.reshape(out.shape)

    @available_if(target_has("log_density"))
    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density of the target, which has no noise."""
        return self.target.log_density(position)

    def __repr__(self) -> str:
        return f"NoisyGradient({self.target!r}, {self.noise_covariance!r})"


def _square_root(covariance: Any) -> Any:
    if np.ndim(covariance) < 2:
        return np.sqrt(covariance)
    values, vectors = np.linalg.eigh(covariance)  # a Cholesky factorisation would need full rank
    return vectors * np.sqrt(np.maximum(values, 0))[..., np.newaxis, :]
