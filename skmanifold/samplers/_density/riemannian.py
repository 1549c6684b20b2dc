"""The Riemannian second-order sampler, with a diagonal or full metric that depends on the position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...manifolds import DiffusionMetric
from ...models import HasGradient
from ...numerics.linalg import as_matrices, from_eigen, times
from ...utils._sklearn import StrOptions
from ...utils._typing import ArrayLike
from .._schedule import StepSize
from .gradient_base import SVRG, GradientMemory, GradientSampler, MomentumState
from .integrator_kernels import drift_riemannian, kick_riemannian, refresh_riemannian
from .metric import divergence_at, metric_at
from .moves import chains_of, resample_momentum
from .noise_covariance import NoiseCovariance, fill_compensated, fill_matrix_noise
from .recipe import Recipe

_NO_NOISE = np.empty((1, 0))


@dataclass(eq=False, repr=False)
class SGRHMC(GradientSampler):
    r"""Stochastic-gradient Riemannian Hamiltonian Monte Carlo (gSGRHMC of [1]_).

    Let :math:`g = G^{-1/2}`, symmetric, and :math:`\Gamma_i = \sum_j \partial_j g_{ij}`. ``scheme="euler"`` is
    algorithm 1 of [1]_ (not its eq. 17, whose signs are wrong), where both updates use the old state:

    .. math:: x' = x + h g v, \qquad v' = v + h g \tilde g(x) + h \Gamma - h g^2 v + g N(0, 2 h - h^2 \hat V).

    ``scheme="baoab"`` adds :math:`h (g \tilde g + \Gamma)` to the momentum, makes half a drift by the midpoint rule,
    the exact Ornstein-Uhlenbeck step for friction :math:`g^2`, and the other half of the drift. On a positive orthant
    the position is reflected at the boundary **and the momentum of a reflected coordinate is reversed**. In the
    complete recipe D = diag(0, G^{-1}), Q = [[0, -g], [g, 0]] and :math:`H = -\log p + |v|^2 / 2`.

    On a positive orthant with G = diag(1/x) the force has a term (shape - 1/2) / sqrt(x). For gamma shapes below one
    half it pulls the position to the boundary, and the sampler is not valid; use `SCIR` instead.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time step h of the integrator, the epsilon of [1]_.
    inverse_metric : callable or array-like, optional
        A function ``f(x)`` that returns :math:`G^{-1}` at a point, its diagonal or a symmetric positive definite
        matrix; see `SGRLD`.
    divergence : callable, optional
        A function that returns :math:`\Gamma`, the divergence of **g**, with the shape of `x`; by default central
        differences.
    metric_batch_size : int, optional
        Size of the separate minibatch of the metric, which is independent of that of the gradient; see `SGRLD`.
    n_steps : int, default=1
        Number of steps of the integrator, each with a new minibatch, in one step of the chain.
    scheme : {"baoab", "euler"}, default="baoab"
        The integrator.
    noise_covariance : "model", "fisher", float, array-like or None, default="model"
        Covariance V of the gradient noise, whose effect is subtracted from the covariance of the noise of the step. The
        difference is clipped to be positive semi-definite; see `SGLD`.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.
    resample_every : int, optional
        Number of steps of the integrator after which the momenta are drawn again from their stationary distribution
        N(0, I); never by default. Algorithm 1 of [1]_ has this as an option. At least 2 with ``scheme="euler"``.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    """

    short_name = "sgrhmc"
    requires_manifold = (DiffusionMetric,)
    is_biased_near_zero = True
    state_types = (MomentumState,)
    _parameter_constraints: ClassVar[dict] = {
        **GradientSampler._parameter_constraints,
        "scheme": [StrOptions({"euler", "baoab"})],
    }

    step_size: StepSize = 0.01
    inverse_metric: Callable[..., ArrayLike] | ArrayLike | None = None
    divergence: Callable[..., ArrayLike] | None = None
    metric_batch_size: int | None = None
    n_steps: int = 1
    scheme: Literal["baoab", "euler"] = "baoab"
    noise_covariance: NoiseCovariance = "model"
    control_variate: SVRG | None = None
    resample_every: int | None = None

    def _move(self, model, state: MomentumState, h: float, t: int) -> MomentumState:
        resample_momentum(self.resample_every or 0, chains_of(state), t)
        memory, gradient = self._estimate_gradient(model, state, t)
        x, v = state.position, state.momentum
        root = metric_at(self, model, x, memory.keys, root=True)
        correction = divergence_at(self, model, x, memory.keys, root)
        if self.scheme == "euler":
            variance, weight = np.full(len(x), 2 * h), np.full(len(x), h * h)
            fill_compensated(self._noise(model, memory), memory.keys, variance, weight, memory.noise)
            flat_v, noise = v.reshape(len(x), -1), memory.noise.reshape(len(x), -1)
            change = times(root, noise - h * times(root, flat_v))
            _drift(x, v, h, root, x)
            _kick(v, h, root, gradient, correction)
            flat_v += change
            model.manifold.reflect(x, v)
        else:
            _kick(v, h, root, gradient, correction)
            self._flow(model, state, h / 2, root)
            root = metric_at(self, model, x, memory.keys, root=True)
            _refresh(v, memory, h, root)
            self._flow(model, state, h / 2, root)
        return state

    def _flow(self, model, state: MomentumState, time: float, root: np.ndarray) -> None:
        """Midpoint rule for dx = g(x) v dt with reflection at the boundary; `root` is g at the initial position."""
        x, v = state.position, state.momentum
        middle = np.empty_like(x)
        _drift(x, v, time / 2, root, middle)
        model.manifold.reflect(middle)
        _drift(x, v, time, metric_at(self, model, middle, state.memory.keys, root=True), x)
        model.manifold.reflect(x, v)

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the dynamics, for `check_recipe`."""
        d = model.manifold.size

        def root_at(z: np.ndarray) -> np.ndarray:
            position = z[:, :d].reshape(-1, *model.manifold.shape)
            return as_matrices(metric_at(self, model, position, None, root=True))

        def diffusion(z: np.ndarray) -> np.ndarray:
            matrix, root = np.zeros((len(z), 2 * d, 2 * d)), root_at(z)
            matrix[:, d:, d:] = root @ root
            return matrix

        def curl(z: np.ndarray) -> np.ndarray:
            matrix, root = np.zeros((len(z), 2 * d, 2 * d)), root_at(z)
            matrix[:, :d, d:], matrix[:, d:, :d] = -root, root
            return matrix

        return Recipe(diffusion, curl, n_auxiliary=d, vectorized=True)


def _kick(v: np.ndarray, h: float, root: np.ndarray, gradient: np.ndarray, correction: np.ndarray) -> None:
    """V += h * (g gradient + correction)."""
    if root.ndim == 2:
        kick_riemannian(v, h, root, gradient, correction)
    else:
        flat = v.reshape(len(v), -1)
        flat += h * (times(root, gradient.reshape(len(v), -1)) + correction)


def _drift(x: np.ndarray, v: np.ndarray, time: float, root: np.ndarray, out: np.ndarray) -> None:
    """Write x + time * g v to `out`."""
    if root.ndim == 2:
        drift_riemannian(x, v, time, root, out)
    else:
        out[...] = x + (time * times(root, v.reshape(len(v), -1))).reshape(x.shape)


def _refresh(v: np.ndarray, memory: GradientMemory, h: float, root: np.ndarray) -> None:
    """V = f v + N(0, 1 - f^2 - h^2 f g V g f), f = exp(-g^2 h), after a gradient step with noise of covariance V."""
    covariance = memory.covariance
    if root.ndim == 2 and (covariance is None or covariance.vectors is None):
        refresh_riemannian(v, memory.keys, h, root, _NO_NOISE if covariance is None else covariance.values)
        return
    root = as_matrices(root)
    values, vectors = np.linalg.eigh(root)
    kept = from_eigen(np.exp(-(values**2) * h), vectors)
    matrix = np.eye(root.shape[-1]) - kept @ kept
    if covariance is not None:
        kick = h * kept @ root
        matrix = matrix - kick @ covariance.matrix() @ kick.mT
    noise = memory.noise.reshape(len(v), -1)
    fill_matrix_noise(memory.keys, matrix, noise)
    flat = v.reshape(len(v), -1)
    flat[...] = times(kept, flat) + noise
