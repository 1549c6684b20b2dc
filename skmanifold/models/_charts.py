r"""Charts: targets in other coordinates, with the Jacobian of the change of coordinates.

A chart wraps a target and is itself a target, on another manifold. Let x(y) be the point with the coordinates y. The
log density of the chart is :math:`\log\pi(x(y)) + \log|J(y)|`, and its gradient is
:math:`(\partial x / \partial y)^\top \nabla\log\pi + \nabla\log|J|`. `Chart.point` converts draws of y to draws of x.

On a simplex the gradient of the target may be that of any function of all d coordinates that agrees with the log
density where the coordinates sum to one. A constant added to all entries of the gradient has no effect in any chart.

Densities on a simplex may have much of their mass below the smallest float64, about 1e-308. Every chart keeps the
coordinates of x at 1e-290 or more, so that a gradient such as (alpha - 1) / x is finite and its product with x is
exact. The target is constant closer to the boundary than that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from ..manifolds import Euclidean, Manifold, PositiveOrthant, Simplex, Sphere
from ..utils._typing import ArrayLike, available_if

_LEAST = 1e-290
_LEAST_ROOT, _LOG_LEAST = np.sqrt(_LEAST), np.log(_LEAST)


def target_has(name: str) -> Callable[[Any], bool]:
    """Condition for `available_if`: the wrapped target has this method."""
    return lambda self: getattr(self.target, name, None) is not None


class TargetWrapper:
    """Base class of targets that wrap a `target`; they have its rows and minibatches."""

    target: Any

    @property
    def n_samples(self) -> int | None:
        """Number of data points of the target; None if it has no data."""
        return getattr(self.target, "n_samples", None)

    @property
    def batch_size(self) -> int | None:
        """Number of rows of a minibatch of the target; None means all rows."""
        return getattr(self.target, "batch_size", None)

    @property
    def vectorized(self) -> bool:
        """Whether user functions of the target accept all chains at once."""
        return getattr(self.target, "vectorized", False)

    @available_if(target_has("minibatched"))
    def minibatched(self, batch_size: int | None) -> Self:
        """Return a copy that wraps ``target.minibatched(batch_size)``.

        Parameters
        ----------
        batch_size : int or None
            Number of rows, from 1 to `n_samples`; None means all rows.

        Returns
        -------
        target : TargetWrapper
            The copy.
        """
        other = copy.copy(self)
        other.target = self.target.minibatched(batch_size)
        return other


class Chart(TargetWrapper):
    """Base class of charts: a target in other coordinates, with the same methods as the target.

    A subclass sets the class attribute `source` and defines `coordinates` and the steps of the change of coordinates:
    `_domain` (by default the Euclidean space of the same shape), `_change`, `_pull_back`, `_log_jacobian` and, if it is
    not zero, `_add_jacobian_gradient`.

    Parameters
    ----------
    target : object
        A density on a manifold of the class `source`, of dimension at least one.

    Attributes
    ----------
    manifold : Manifold
        Manifold of the coordinates.
    noise_covariance : None
        Not available: in these coordinates the covariance of gradient noise depends on the point.

    Raises
    ------
    TypeError
        If the target is on another manifold.
    """

    source: ClassVar[type[Manifold]]

    def __init__(self, target: Any) -> None:
        if not self.accepts(target):
            where = getattr(target, "manifold", None)
            raise TypeError(
                f"{type(self).__name__} needs a target on a {self.source.__name__} of dimension 1 or more; "
                + (f"got {target!r}." if where is None else f"this {type(target).__name__} is on {where!r}.")
            )
        self.target = target
        self.manifold = self._domain(target.manifold)
        self.noise_covariance = None

    @classmethod
    def accepts(cls, model: Any) -> bool:
        """Whether this chart applies to `model`.

        Parameters
        ----------
        model : object
            A model or target.

        Returns
        -------
        bool
            Whether the model has a manifold of the class `source`, of dimension at least one.
        """
        manifold = getattr(model, "manifold", None)
        return isinstance(manifold, cls.source) and manifold.dim > 0

    def point(self, y: np.ndarray) -> np.ndarray:
        """Convert coordinates to points of the target's manifold.

        Parameters
        ----------
        y : ndarray of shape (..., k)
            Coordinates.

        Returns
        -------
        x : ndarray of shape (..., d)
            Points.
        """
        return self._change(np.asarray(y, np.float64))[0]

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: a right inverse of `point`, so that ``point(coordinates(x))`` is `x`.

        Parameters
        ----------
        x : ndarray of shape (..., d)
            Points of the target's manifold.

        Returns
        -------
        y : ndarray of shape (..., k)
            Their coordinates.
        """
        raise NotImplementedError

    @available_if(target_has("grad_log_density"))
    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient of the log density in these coordinates, written to `out`."""
        x, aid = self._change(position)
        gradient = np.empty_like(x)
        self.target.grad_log_density(x, keys, gradient)
        out[...] = self._pull_back(x, aid, gradient)
        self._add_jacobian_gradient(x, aid, out)

    @available_if(target_has("grad_with_deviations"))
    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Gradient estimate of a minibatch in these coordinates, and the deviations of its samples."""
        x, aid = self._change(position)
        gradient = np.empty_like(x)
        deviations = self.target.grad_with_deviations(x, keys, gradient)
        out[...] = self._pull_back(x, aid, gradient)
        self._add_jacobian_gradient(x, aid, out)
        return self._pull_back(x[:, np.newaxis], aid[:, np.newaxis], deviations)

    @available_if(target_has("log_density"))
    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density with respect to the base measure of these coordinates."""
        x, aid = self._change(position)
        return self.target.log_density(x) + self._log_jacobian(aid).reshape(len(x), -1).sum(axis=1)

    def _domain(self, manifold: Any) -> Manifold:
        """The manifold of the coordinates of points on `manifold`."""
        return Euclidean(manifold.shape)

    def _change(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points, and the array `aid`, with the same leading axes, from which the other steps compute the Jacobian."""
        raise NotImplementedError

    def _pull_back(self, x: np.ndarray, aid: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The transposed Jacobian times gradients at the points `x`."""
        raise NotImplementedError

    def _log_jacobian(self, aid: np.ndarray) -> np.ndarray:
        """Terms of the log Jacobian; the first axis is that of chains, and the others are summed over."""
        raise NotImplementedError

    def _add_jacobian_gradient(self, x: np.ndarray, aid: np.ndarray, out: np.ndarray) -> None:
        """Add the gradient of the log Jacobian to `out`, unless it is zero."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target!r})"


class ExpandedMean(Chart):
    r"""A target on a simplex, in unnormalised coordinates: :math:`x = \theta / s` with s the sum of the row theta.

    The sum has an independent gamma distribution, so that

    .. math:: p(\theta) = \pi(\theta / s) \, s^{-(d-1)} \, \mathrm{Ga}(s; \text{total}, 1)
              \propto \pi(\theta / s) \, s^{\text{total} - d} \, e^{-s}

    for each row. A Dirichlet with concentrations alpha, and `total` their sum, becomes independent Ga(alpha_i, 1)
    variables: the prior of Patterson and Teh. The distribution of x does not depend on `total`.

    If alpha is below 2 and not 1, the gradient (alpha - 1) / theta is too large at the boundary for steps of any size,
    and `sample` raises an error for `SGGMC` and `GSGNHT`. `SGRLD` and `SGRHMC` have a metric that vanishes at the
    boundary, and are accurate for alpha of at least 1/2.

    The chart has no expected counts, because its coordinates are independent gammas given the counts only if `total` is
    the sum of prior and counts. Use SCIR with the target on the simplex instead.

    Parameters
    ----------
    target : object
        A density on `Simplex(d)` or `Simplex(d, n_points=K)`.
    total : float or array of shape (K,), default=None
        Shape of the gamma distribution of the sum of each row; None means d. With a Dirichlet prior, use the sum of its
        concentrations, so that prior samples are as sparse in theta as in x.

    References
    ----------
    Patterson, S. and Teh, Y. W. (2013). Stochastic gradient Riemannian Langevin dynamics on the probability simplex.
    Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC, appendix F.2.
    """

    source = Simplex

    def __init__(self, target: Any, total: ArrayLike | None = None) -> None:
        super().__init__(target)
        d = target.manifold.shape[-1]
        self.total = total
        self._total = np.array(d if total is None else total, np.float64)
        if self._total.shape not in ((), target.manifold.shape[:-1]):
            raise ValueError(
                f"total must be a number, or one for each point of {target.manifold!r}; "
                f"got an array of shape {self._total.shape}."
            )
        if not (np.isfinite(self._total).all() and self._total.min() > 0):
            raise ValueError(f"total must be positive and finite; got {total!r}.")
        self._power = self._total - d

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: each row multiplied by `total`, the mean of its sum."""
        return self._total[..., np.newaxis] * np.asarray(x)

    def _domain(self, manifold: Any) -> Manifold:
        return PositiveOrthant(manifold.shape)

    def _change(self, y):
        x = np.maximum(y, _LEAST)
        sums = np.add.reduce(x, axis=-1, keepdims=True)
        x /= sums
        return x, sums

    def _pull_back(self, x, sums, vectors):
        vectors = _centred(x, vectors)
        vectors /= sums
        return vectors

    def _log_jacobian(self, sums):
        sums = sums[..., 0]
        return self._power * np.log(sums) - sums

    def _add_jacobian_gradient(self, x, sums, out):
        out += self._power[..., np.newaxis] / sums - 1


class Softmax(Chart):
    r"""A target on a simplex, in log ratios to the last coordinate: :math:`x = \mathrm{softmax}([y, 0])`.

    The Jacobian with respect to the first d - 1 coordinates is the product of all :math:`x_i`, so the exponents
    alpha - 1 of a Dirichlet density become alpha.

    Parameters
    ----------
    target : object
        A density on `Simplex(d)`, which gives `Euclidean(d - 1)`, or on `Simplex(d, n_points=K)`, which gives
        `Euclidean((K, d - 1))`.
    """

    source = Simplex

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: log ratios to the last entry."""
        logs = np.log(np.maximum(x, _LEAST))
        return logs[..., :-1] - logs[..., -1:]

    def _domain(self, manifold: Any) -> Manifold:
        return Euclidean((*manifold.shape[:-1], manifold.shape[-1] - 1))

    def _change(self, y):
        logs = np.zeros((*y.shape[:-1], y.shape[-1] + 1))
        logs[..., :-1] = y
        logs -= np.maximum.reduce(logs, axis=-1, keepdims=True)
        logs -= np.log(np.add.reduce(np.exp(logs), axis=-1, keepdims=True))
        return np.maximum(np.exp(logs), _LEAST), logs

    def _pull_back(self, x, logs, vectors):
        vectors = _centred(x, vectors)
        vectors *= x
        return vectors[..., :-1]

    def _log_jacobian(self, logs):
        return logs

    def _add_jacobian_gradient(self, x, logs, out):
        out += 1 - x.shape[-1] * x[..., :-1]


class SquareRoot(Chart):
    r"""A target on a simplex, in coordinates on the unit sphere: :math:`x = u^2`, elementwise.

    The density on the whole sphere, :math:`\pi(u^2) \prod_i |u_i|`, is the same in each of its orthants. The exponents
    alpha - 1 of a Dirichlet density become 2 alpha - 1, so Dirichlet(1/2, ..., 1/2) is uniform. For alpha below 1/2 the
    density is singular where a coordinate vanishes. For alpha below 1, except 1/2, the gradient (2 alpha - 1) / u is
    too large there for steps of any size, and `sample` raises an error for samplers without a Metropolis test. Use
    `Softmax` or SCIR instead. For alpha of 1 or slightly more, the bias of `SGGMC` and `GSGNHT` decreases slowly with
    the step size.

    The gradient of the chart is tangent to the sphere.

    Parameters
    ----------
    target : object
        A density on `Simplex(d)` or `Simplex(d, n_points=K)`, which gives the `Sphere` of the same parameters.

    References
    ----------
    Liu, C., Zhu, J. and Song, Y. (2016). Stochastic gradient geodesic MCMC methods, section 4.
    """

    source = Simplex

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: non-negative square roots."""
        x = np.asarray(x, np.float64)
        return np.sqrt(x / x.sum(axis=-1, keepdims=True))

    def _domain(self, manifold: Any) -> Manifold:
        return Sphere(manifold.d, n_points=manifold.n_points)

    def _change(self, y):
        u = np.copysign(np.maximum(np.abs(y), _LEAST_ROOT), y)
        return u * u, u

    def _pull_back(self, x, u, vectors):
        vectors = _centred(x, vectors)
        vectors *= 2 * u
        return vectors

    def _log_jacobian(self, u):
        return np.log(np.abs(u))

    def _add_jacobian_gradient(self, x, u, out):
        out += 1 / u - x.shape[-1] * u


class Log(Chart):
    r"""A target on a positive orthant, in logarithms: :math:`x = e^y`, with the Jacobian :math:`e^{\sum y}`.

    Coordinates of x are also kept below 1e290.

    Parameters
    ----------
    target : object
        A density on a `PositiveOrthant`, which gives the `Euclidean` space of the same shape.
    """

    source = PositiveOrthant

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: the logarithm of each entry."""
        return np.log(np.maximum(x, _LEAST))

    def _change(self, y):
        return np.exp(np.minimum(np.maximum(y, _LOG_LEAST), -_LOG_LEAST)), y

    def _pull_back(self, x, y, vectors):
        return x * vectors

    def _log_jacobian(self, y):
        return y

    def _add_jacobian_gradient(self, x, y, out):
        out += 1


def _centred(x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors minus their mean under the probabilities `x`, by rows, so that constants added to them have no effect."""
    # einsum has a fixed order of additions, which does not depend on the BLAS library
    return vectors - np.einsum("...i,...i->...", x, vectors)[..., np.newaxis]
