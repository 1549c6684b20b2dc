"""Charts on Euclidean spaces: positive coordinates as absolute values, and linear coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..manifolds import Euclidean, PositiveOrthant
from ..numerics.linalg import times
from ..utils._typing import ArrayLike
from ._charts import _LEAST, Chart, ExpandedMean, Log, Softmax, SquareRoot
from ._compatibility import is_compatible
from ._minibatch import CovarianceAt, check_symmetric, covariance_matrices


class Mirror(Chart):
    r"""A target on a positive orthant, extended symmetrically to the whole space: :math:`x = |y|`, elementwise.

    The density :math:`\pi(|y|)` is the same in each of the orthants, and there is no Jacobian. A sampler on the
    Euclidean space that crosses a coordinate hyperplane is equivalent to one with reflection at the boundary, where the
    position is reflected and that coordinate of the momentum, if there is one, changes its sign.

    If the shape of a gamma density is below 2 and not 1, the gradient (shape - 1) / x is too large at the boundary for
    steps of any size, and `sample` raises an error for samplers without a Metropolis test. Use `Log` instead.

    Parameters
    ----------
    target : object
        A density on a `PositiveOrthant`, which gives the `Euclidean` space of the same shape.

    References
    ----------
    Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC, section 4.2.
    """

    source = PositiveOrthant

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: the points themselves."""
        return np.array(x, np.float64)

    def _change(self, y):
        x = np.abs(y)
        return np.maximum(x, _LEAST, out=x), y

    def _pull_back(self, x, y, vectors):
        return np.copysign(1.0, y) * vectors

    def _log_jacobian(self, y):
        return np.zeros_like(y)


CHARTS: tuple[type[Chart], ...] = (ExpandedMean, Softmax, SquareRoot, Log, Mirror)


def seen_by(sampler: Any, target: Any) -> Any:
    """A target in the coordinates in which a sampler can use it.

    A sampler that needs a Euclidean space can use a target on a positive orthant through `Mirror`; other targets are
    returned unchanged.

    Parameters
    ----------
    sampler : BaseSampler
        A sampler.
    target : object
        A target.

    Returns
    -------
    target : object
        The target, or `Mirror` of it.
    """
    if not is_compatible(sampler, target) and is_compatible(sampler, Mirror(target)):
        return Mirror(target)
    return target


class Linear(Chart):
    r"""A target on a Euclidean space, in linear coordinates: :math:`x = L y` with :math:`L L^\top = \Sigma`.

    If :math:`\Sigma` is about the covariance of the target, the coordinates y have variances of about one and little
    correlation, and one step size suits all of them.

    A sampler with velocity v and unit mass in these coordinates is the same sampler with the mass matrix
    :math:`M = \Sigma^{-1}` in the original ones: the momentum is :math:`r = L^{-\top} v`, with the distribution
    N(0, M), and :math:`dx = M^{-1} r \, dt`. Friction C in these coordinates is the friction matrix :math:`C M` of
    [1]_, eq. 12. This holds for `HMC`, `SGHMC` and `SGNHT`. `SGLD` in these coordinates has the constant matrix
    :math:`D = \Sigma`.

    Parameters
    ----------
    target : object
        A density on a `Euclidean` space.
    covariance : array-like of shape (size,) or (size, size)
        :math:`\Sigma`, the inverse of the mass matrix, or its diagonal. Points are flattened to vectors of this size.

    Attributes
    ----------
    manifold : Euclidean
        Manifold of the coordinates.
    noise_covariance : ndarray, callable or None
        Covariance of gradient noise in these coordinates: :math:`L^\top V L`, if V is that of the target.

    Raises
    ------
    TypeError
        If the target is on another manifold.
    ValueError
        If `covariance` is not positive definite, or has a wrong shape.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import sample
    >>> from skmanifold.manifolds import Euclidean
    >>> from skmanifold.models import Density, Linear
    >>> from skmanifold.samplers import HMC
    >>> variances = np.array([1.0, 1e4])
    >>> target = Density(Euclidean(2), lambda x: -x / variances, log_density=lambda x: -0.5 * np.sum(x**2 / variances))
    >>> chart = Linear(target, variances)
    >>> draws = sample(chart, HMC(0.7, n_steps=3), n_draws=500, n_chains=20, random_state=0).map(chart.point)
    >>> (draws.flat().std(axis=0) / [1, 100]).round(1).tolist()
    [1.0, 1.0]
    """

    source = Euclidean

    def __init__(self, target: Any, covariance: ArrayLike) -> None:
        super().__init__(target)
        self.covariance = covariance
        size = target.manifold.size
        self._root = _root(np.array(covariance, np.float64), size)
        noise = getattr(target, "noise_covariance", None)
        if isinstance(noise, CovarianceAt):
            self.noise_covariance: Any = CovarianceAt(self._noise_at, size, noise.name, vectorized=True)
        elif noise is not None:
            self.noise_covariance = self._noise_at(np.zeros((1, *self.manifold.shape)))[0]

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: :math:`L^{-1} x`."""
        x = np.asarray(x, np.float64)
        if self._root.ndim == 1:
            return (self._flat(x) / self._root).reshape(x.shape)
        flat = self._flat(x)
        solved = solve_triangular(self._root, flat.reshape(-1, flat.shape[-1]).T, lower=True).T
        return solved.reshape(x.shape)

    def _noise_at(self, y: np.ndarray) -> np.ndarray:
        root = np.diag(self._root) if self._root.ndim == 1 else self._root
        return root.T @ covariance_matrices(self.target.noise_covariance, self.point(y)) @ root

    def _flat(self, points):
        shape = self.manifold.shape
        return points.reshape(*points.shape[: points.ndim - len(shape)], -1)

    def _times(self, points, root):
        flat = self._flat(points)
        if root.ndim == 1:
            return (flat * root).reshape(points.shape)
        return times(root[np.newaxis], flat.reshape(-1, flat.shape[-1])).reshape(points.shape)

    def _change(self, y):
        return self._times(y, self._root), y

    def _pull_back(self, x, y, vectors):
        return self._times(vectors, self._root.T)

    def _log_jacobian(self, y):
        diagonal = self._root if self._root.ndim == 1 else np.diag(self._root)
        return np.full((len(y), 1), np.log(diagonal).sum())

    def __repr__(self) -> str:
        return f"Linear({self.target!r}, {self.covariance!r})"


def _root(covariance, size):
    """The Cholesky factor of a covariance, or the root of a diagonal."""
    if covariance.shape == (size,):
        if not (np.isfinite(covariance).all() and (covariance > 0).all()):
            raise ValueError("covariance must be positive definite; its diagonal has entries that are not positive.")
        return np.sqrt(covariance)
    if covariance.shape != (size, size):
        raise ValueError(f"covariance must be of shape ({size},) or ({size}, {size}); got {covariance.shape}.")
    check_symmetric(covariance, "covariance", "definite")
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ValueError("covariance must be positive definite; it is singular up to rounding.") from None
