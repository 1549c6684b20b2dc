"""Targets for tests of samplers: moments known in closed form or to many digits, or artificial gradient noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from ..manifolds import Euclidean, PositiveOrthant, Simplex, Sphere
from ..random._keys import Purpose
from ..random._variates import fill_normal
from ..utils._typing import ArrayLike, available_if
from ._charts import TargetWrapper, target_has
from ._density import Density, check_noise
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


def standard_normal(d: int = 1) -> Density:
    """Standard normal distribution of d coordinates: mean 0, covariance I, fourth moments 3, E|t| = 0.7978845608.

    Parameters
    ----------
    d : int, default=1
        Number of coordinates.

    Returns
    -------
    Density
        The target.
    """
    return Density(Euclidean(d), lambda x: -x, lambda x: -0.5 * (x * x).sum(axis=1), vectorized=True)


def double_well() -> Density:
    r"""Density exp(2 t^2 - t^4) on the line, with modes at -1 and 1.

    Normaliser 5.365160237834568; E t^2 = 0.8327454871283803, E t^4 = E t^2 + 1/4, E|t| = 0.8273924393;
    P(\|t\| < 0.5, 1, 1.5) = 0.2194372661, 0.6318401048, 0.9781775268.

    Returns
    -------
    Density
        The target.

    References
    ----------
    Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC, section 4.1.
    """
    return Density(
        Euclidean(1),
        grad_log_density=lambda x: 4 * x * (1 - x * x),
        log_density=lambda x: (x * x * (2 - x * x))[:, 0],
        vectorized=True,
    )


def banana() -> Density:
    r"""Density exp(-t1^4 / 10 - (4 (t2 + 1.2) - t1^2)^2 / 2) in the plane.

    t2 given t1 is N(t1^2 / 4 - 1.2, 1/16). Normaliser 2.02013792638641; E t1 = 0, E t1^2 = 1.068815443662356,
    E t1^4 = 2.5, E t2 = -0.932796139084411, Var t2 = 0.14735209671180255, E t1^2 t2 = -0.6575785324,
    P(\|t1\| < 1) = 0.6083388457.

    Returns
    -------
    Density
        The target.

    References
    ----------
    Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC, section 4.1.
    """

    def gradient(x: np.ndarray) -> np.ndarray:
        t = x[:, 0]
        gap = 4 * (x[:, 1] + 1.2) - t * t
        return np.stack([-0.4 * t**3 + 2 * t * gap, -4 * gap], axis=1)

    def value(x: np.ndarray) -> np.ndarray:
        t = x[:, 0]
        return -0.1 * t**4 - 0.5 * (4 * (x[:, 1] + 1.2) - t * t) ** 2

    return Density(Euclidean(2), grad_log_density=gradient, log_density=value, vectorized=True)


def gamma(shape: Any) -> Density:
    r"""Independent gammas of rate 1, :math:`\prod_i x_i^{a_i - 1} e^{-x_i}`: means and variances a, E log x = psi(a).

    The expected counts are the shapes, so SCIR with exact counts leaves this distribution invariant.

    Parameters
    ----------
    shape : float or array-like
        Shapes a, positive. A point has the shape of this array, or (1,) for a number.

    Returns
    -------
    Density
        The target.
    """
    a = _positive("shape", np.atleast_1d(np.array(shape, np.float64)))
    return Density(
        PositiveOrthant(a.shape),
        grad_log_density=lambda x: (a - 1) / x - 1,
        log_density=lambda x: (xlogy(a - 1, x) - x).reshape(len(x), -1).sum(axis=1),
        expected_counts=lambda x: np.broadcast_to(a, x.shape),
        vectorized=True,
    )


def dirichlet(concentrations: Any) -> Density:
    r"""Independent Dirichlet rows with densities :math:`\prod_i x_i^{a_i - 1}`; expected counts are the concentrations.

    With A the sum of a row of a, the mean is a / A and the covariance is
    :math:`(\mathrm{diag}(a) / A - a a^\top / A^2) / (A + 1)`.

    Parameters
    ----------
    concentrations : array-like of shape (d,) or (n_points, d)
        Concentrations a, positive.

    Returns
    -------
    Density
        The target.
    """
    a = _positive("concentrations", np.array(concentrations, np.float64))
    if a.ndim not in (1, 2):
        raise ValueError(f"concentrations must be of shape (d,) or (n_points, d); got {a.shape}.")
    return Density(
        Simplex(a.shape[-1], n_points=None if a.ndim == 1 else len(a)),
        grad_log_density=lambda x: (a - 1) / x,
        log_density=lambda x: xlogy(a - 1, x).reshape(len(x), -1).sum(axis=1),
        expected_counts=lambda x: np.broadcast_to(a, x.shape),
        vectorized=True,
    )


def circle() -> Density:
    r"""Two opposite modes on the circle, :math:`e^{5 \mu^\top x} + 2 e^{-5 \mu^\top x}`, with mu at the angle pi / 3.

    Normaliser 6 pi I_0(5) = 513.4594872345801; E x = (-0.1488971895, -0.2578974975), E (mu'x)^2 = 0.8213233726,
    E x x' = [[0.3393383137, 0.2782742035], [0.2782742035, 0.6606616863]], P(mu'x > 0) = 0.3341529327; 12 equal bins of
    the angle from -pi to pi: 0.076862, 0.246306, 0.246306, 0.076862, 0.009755, 0.005426, 0.038485, 0.123166, 0.123166,
    0.038485, 0.005426, 0.009755.

    Returns
    -------
    Density
        The target.

    References
    ----------
    Liu, C., Zhu, J. and Song, Y. (2016). Stochastic gradient geodesic MCMC methods, section 5.1.
    """
    mu = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])

    def gradient(x: np.ndarray) -> np.ndarray:
        t = x[:, :1] * mu[0] + x[:, 1:] * mu[1]
        return 5 * np.tanh(5 * t - 0.5 * np.log(2)) * mu

    def value(x: np.ndarray) -> np.ndarray:
        t = x[:, 0] * mu[0] + x[:, 1] * mu[1]
        return np.logaddexp(5 * t, np.log(2) - 5 * t)

    return Density(Sphere(2), grad_log_density=gradient, log_density=value, vectorized=True)


def vmf_mixture_posterior(data: str | int = "quantiles") -> Density:
    r"""Posterior of two directions in the plane given 100 angles, with two modes symmetric about e_1.

    :math:`x_i \sim \frac12 \mathrm{vMF}(v_1, 20) + \frac12 \mathrm{vMF}(\mu, 20)` with
    :math:`\mu = (v_1 + v_2) / \|v_1 + v_2\|`, and both directions have the prior vMF(e_1, 20). This follows appendix D
    of the paper, which differs from its text. The target has minibatches, their deviations and the log density.

    For the quantile data, by angles: P(v1 < v2) = 0.5, E sin = 0, E cos v1 = 0.99480530, E cos v2 = 0.95884136,
    E v1^2 = 0.01040562, E v2^2 = 0.08325349, E v1 v2 = -0.02788619, E[v1 | v1 < v2] = -0.08944,
    E[v2 | v1 < v2] = 0.25985; modes (0.1008, -0.2934) and its mirror image. For ``data=0``: P(v1 < v2) = 0.433,
    E cos = (0.99183, 0.94423), E sin = (0.04860, -0.01548).

    Parameters
    ----------
    data : "quantiles" or int, default="quantiles"
        The (i - 1/2) / 100 quantiles of the mixture, with equal weights, of von Mises distributions of concentration 20
        about -pi / 24 and pi / 24; or the seed of a random sample of this mixture.

    Returns
    -------
    Density
        The target.

    References
    ----------
    Liu, C., Zhu, J. and Song, Y. (2016). Stochastic gradient geodesic MCMC methods, section 5.2.
    """
    kappa = 20.0
    angles = _vmf_mixture_angles(data, kappa)
    points = kappa * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def directions(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean direction mu, and length of v1 + v2."""
        both = x[:, 0] + x[:, 1]
        length = np.sqrt((both * both).sum(axis=1, keepdims=True))
        return both / length, length

    def exponents(z: np.ndarray, direction: np.ndarray) -> np.ndarray:
        return z[..., 0] * direction[:, :1] + z[..., 1] * direction[:, 1:]

    def gradient(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        z = points[rows]
        mu, length = directions(x)
        along = exponents(z, mu)
        first = expit(exponents(z, x[:, 0]) - along)[..., np.newaxis]
        out = np.empty((*rows.shape, 2, 2))
        out[:, :, 1] = (1 - first) / length[:, np.newaxis] * (z - along[..., np.newaxis] * mu[:, np.newaxis])
        out[:, :, 0] = first * z + out[:, :, 1]
        return out

    def value(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        z = points[rows]
        return np.logaddexp(exponents(z, x[:, 0]), exponents(z, directions(x)[0]))

    return Density(
        Sphere(2, n_points=2),
        grad_log_density=gradient,
        log_density=value,
        n_samples=len(points),
        grad_log_prior=lambda x: np.broadcast_to([kappa, 0.0], x.shape),
        log_prior=lambda x: kappa * x[:, :, 0].sum(axis=1),
        vectorized=True,
    )


def _vmf_mixture_angles(data: str | int, kappa: float, n: int = 100) -> np.ndarray:
    centre = np.pi / 24
    if not isinstance(data, str):
        rng = np.random.default_rng(data)
        first = rng.random(n) < 0.5
        return np.where(first, rng.vonmises(-centre, kappa, n), rng.vonmises(centre, kappa, n))

    if data != "quantiles":
        raise ValueError(f"data must be 'quantiles' or the seed of a random sample; got {data!r}.")

    from scipy.stats import vonmises  # imported here because the import is slow

    def mixture(of: Any, x: np.ndarray) -> np.ndarray:
        return 0.5 * (of(x, kappa, -centre) + of(x, kappa, centre))

    p = (np.arange(n // 2) + 0.5) / n
    grid = np.linspace(-np.pi / 2, 0, 500)
    x = np.interp(p, mixture(vonmises.cdf, grid), grid)
    for _ in range(5):  # Newton's method, quadratic from here
        x -= (mixture(vonmises.cdf, x) - p) / mixture(vonmises.pdf, x)
    return np.concatenate([x, -x[::-1]])


def _positive(name: str, values: np.ndarray) -> np.ndarray:
    if not values.size or not (np.isfinite(values).all() and values.min() > 0):
        raise ValueError(f"{name} must be positive and finite.")
    return values
