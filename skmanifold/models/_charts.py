r"""Charts: targets in other coordinates, each of which carries the Jacobian of its change of coordinates itself.

A chart is a target like the one that it wraps, on a manifold of its own. With x the point that belongs to the chart's
coordinates y, its log density is :math:`\log\pi(x(y)) + \log|J(y)|`, and its gradient
:math:`(\partial x / \partial y)^\top \nabla\log\pi + \nabla\log|J|`. Draws of y become draws of x by `Chart.point`.

On a simplex the target's gradient is that of any function of all d coordinates that agrees with the log density where
they sum to one: a constant added to all its entries changes nothing in any chart.

A float64 has no numbers between 0 and 1e-308, and densities on a simplex may have much of their mass there. Every chart
keeps the coordinates of x at 1e-290 or more, so that a gradient like (alpha - 1) / x stays finite and its product with
x is exact. Closer to the boundary than that the target does not change any more.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..manifolds import Euclidean, Manifold, PositiveOrthant, Simplex, Sphere
from ..utils._typing import ArrayLike, available_if
from ._compatibility import is_compatible
from ._wrapper import TargetWrapper, target_has

_LEAST = 1e-290
_LEAST_ROOT, _LOG_LEAST = np.sqrt(_LEAST), np.log(_LEAST)


class Chart(TargetWrapper):
    """Base class of charts: a target seen in other coordinates. It offers what the target offers.

    A subclass names its `source` and defines `coordinates` and the steps of the change of coordinates: `_domain`,
    `_change`, `_pull_back`, `_log_jacobian` and `_add_jacobian_gradient`.

    Parameters
    ----------
    target : object
        A density on a manifold of the class `source`, of dimension one at least.

    Attributes
    ----------
    manifold : Manifold
        Where the coordinates live.
    noise_covariance : None
        The noise of a gradient pulled back depends on the point, so none is declared, whatever the target declares.

    Raises
    ------
    TypeError
        If the target lives elsewhere.
    """

    source: ClassVar[type[Manifold]]

    def __init__(self, target: Any) -> None:
        if not self.accepts(target):
            where = getattr(target, "manifold", None)
            raise TypeError(
                f"{type(self).__name__} needs a target on a {self.source.__name__} of dimension 1 or more; "
                + (f"got {target!r}." if where is None else f"this {type(target).__name__} lives on {where!r}.")
            )
        self.target = target
        self.manifold = self._domain(target.manifold)
        self.noise_covariance = None

    @classmethod
    def accepts(cls, model: Any) -> bool:
        """Whether this chart applies to `model`."""
        manifold = getattr(model, "manifold", None)
        return isinstance(manifold, cls.source) and manifold.dim > 0

    def point(self, y: np.ndarray) -> np.ndarray:
        """Take coordinates ``(..., *self.manifold.shape)`` to points ``(..., *self.target.manifold.shape)``."""
        return self._change(np.asarray(y, np.float64))[0]

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points, of many the plainest: ``point(coordinates(x))`` is `x`."""
        raise NotImplementedError

    @available_if(target_has("grad_log_density"))
    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient in these coordinates at each chain's position, written to `out`; `keys` go to the target."""
        x, aid = self._change(position)
        gradient = np.empty_like(x)
        self.target.grad_log_density(x, keys, gradient)
        out[...] = self._pull_back(x, aid, gradient)
        self._add_jacobian_gradient(x, aid, out)

    @available_if(target_has("grad_with_deviations"))
    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Gradient of the target's minibatch, and its samples' deviations: these know nothing of the Jacobian."""
        x, aid = self._change(position)
        gradient = np.empty_like(x)
        deviations = self.target.grad_with_deviations(x, keys, gradient)
        out[...] = self._pull_back(x, aid, gradient)
        self._add_jacobian_gradient(x, aid, out)
        return self._pull_back(x[:, np.newaxis], aid[:, np.newaxis], deviations)

    @available_if(target_has("log_density"))
    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density at each chain's position, with respect to the base measure of these coordinates."""
        x, aid = self._change(position)
        return self.target.log_density(x) + self._log_jacobian(aid).reshape(len(x), -1).sum(axis=1)

    def _domain(self, manifold: Any) -> Manifold:
        """Where the coordinates of points on `manifold` live."""
        raise NotImplementedError

    def _change(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points, and what the Jacobian is made of (with the same leading axes): the `aid` of the other steps."""
        raise NotImplementedError

    def _pull_back(self, x: np.ndarray, aid: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Transposed Jacobian times gradients at the points `x`."""
        raise NotImplementedError

    def _log_jacobian(self, aid: np.ndarray) -> np.ndarray:
        """Terms of the log Jacobian, a leading axis of chains first, to be summed over the rest."""
        raise NotImplementedError

    def _add_jacobian_gradient(self, x: np.ndarray, aid: np.ndarray, out: np.ndarray) -> None:
        """Add the gradient of the log Jacobian to `out`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target!r})"


class ExpandedMean(Chart):
    r"""A target on a simplex, in unnormalised coordinates: :math:`x = \theta / s` with s the sum of the row theta.

    The sum is given a law of its own, a gamma independent of x, so that

    .. math:: p(\theta) = \pi(\theta / s) \, s^{-(d-1)} \, \mathrm{Ga}(s; \text{total}, 1)
              \propto \pi(\theta / s) \, s^{\text{total} - d} \, e^{-s}

    for each row. A Dirichlet of concentrations alpha, with `total` their sum, becomes independent Ga(alpha_i, 1): the
    prior of Patterson and Teh. The law of x is right whatever `total` is.

    Its gradient (alpha - 1) / theta is too large at the boundary for steps of any size where alpha is below 2 and not
    1: `sample` refuses `SGGMC` and `GSGNHT` there. `SGRLD` and `SGRHMC` have a metric that vanishes at the boundary,
    and hold from alpha = 1/2 on.

    It offers no expected counts, even where the target does: its coordinates are independent gammas given the counts
    only if `total` is the sum of prior and counts. SCIR takes the target on the simplex itself.

    Parameters
    ----------
    target : object
        A density on `Simplex(d)` or `Simplex(d, n_points=K)`.
    total : float or array of shape (K,), default=None
        Shape of the gamma law of each row's sum; None means d. With a Dirichlet prior, the sum of its concentrations
        keeps prior samples as sparse in theta as they are in x.

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
        """Give each row its mean sum, `total`."""
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

    The Jacobian with respect to the first d - 1 coordinates is the product of all :math:`x_i`, so that a Dirichlet's
    exponents alpha - 1 become alpha.

    Parameters
    ----------
    target : object
        A density on `Simplex(d)`, which gives `Euclidean(d - 1)`, or on `Simplex(d, n_points=K)`, which gives
        `Euclidean((K, d - 1))`.
    """

    source = Simplex

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Log ratios to the last coordinate."""
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
    r"""A target on a simplex, on the sphere that covers it: :math:`x = u^2`, elementwise.

    The density on the whole sphere, :math:`\pi(u^2) \prod_i |u_i|`, is the same in each of its orthants; a Dirichlet's
    exponents alpha - 1 become 2 alpha - 1 (and Dirichlet(1/2, ..., 1/2) is uniform). Below alpha = 1/2 it is singular
    where a coordinate vanishes, and below 1, but for 1/2, the gradient (2 alpha - 1) / u is too large there for steps
    of any size: `sample` refuses samplers without a Metropolis test. Choose `Softmax` or SCIR there. For alpha of 1 and
    little more the bias of `SGGMC` and `GSGNHT` falls slowly with the step size.

    Of all Euclidean gradients, which differ by what points off the sphere, it gives the tangent one.

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
        """Non-negative square roots."""
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

    Coordinates of x are kept below 1e290 too.

    Parameters
    ----------
    target : object
        A density on a `PositiveOrthant`, which gives the `Euclidean` space of the same shape.
    """

    source = PositiveOrthant

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Logarithm of each coordinate."""
        return np.log(np.maximum(x, _LEAST))

    def _domain(self, manifold: Any) -> Manifold:
        return Euclidean(manifold.shape)

    def _change(self, y):
        return np.exp(np.minimum(np.maximum(y, _LOG_LEAST), -_LOG_LEAST)), y

    def _pull_back(self, x, y, vectors):
        return x * vectors

    def _log_jacobian(self, y):
        return y

    def _add_jacobian_gradient(self, x, y, out):
        out += 1


class Mirror(Chart):
    r"""A target on a positive orthant, unfolded over the whole space: :math:`x = |y|`, elementwise.

    The density :math:`\pi(|y|)` is the same in each of the orthants, and there is no Jacobian. A sampler on a flat
    space that crosses a wall of an orthant does what one that is mirrored at the wall would do: the position is
    reflected and, where there is a momentum, that coordinate of it turns round.

    Gradients of gammas, (shape - 1) / x, are too large at the boundary for steps of any size where the shape is below 2
    and not 1: `sample` refuses samplers without a Metropolis test there. Choose `Log`.

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
        """The point itself."""
        return np.array(x, np.float64)

    def _domain(self, manifold: Any) -> Manifold:
        return Euclidean(manifold.shape)

    def _change(self, y):
        x = np.abs(y)
        return np.maximum(x, _LEAST, out=x), y

    def _pull_back(self, x, y, vectors):
        return np.copysign(1.0, y) * vectors

    def _log_jacobian(self, y):
        return np.zeros_like(y)

    def _add_jacobian_gradient(self, x, y, out):
        pass


CHARTS: tuple[type[Chart], ...] = (ExpandedMean, Softmax, SquareRoot, Log, Mirror)


def seen_by(sampler: Any, target: Any) -> Any:
    """A target on a positive orthant, or for a sampler on flat spaces its mirrored images."""
    if not is_compatible(sampler, target) and is_compatible(sampler, Mirror(target)):
        return Mirror(target)
    return target


def _centred(x: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors less their mean under the probabilities `x`, row by row: free of any constant added to them."""
    # einsum adds in one order whatever BLAS is there
    return vectors - np.einsum("...i,...i->...", x, vectors)[..., np.newaxis]
