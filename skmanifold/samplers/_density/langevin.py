"""First-order samplers: Langevin diffusions, Euclidean and Riemannian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...manifolds import DiffusionMetric, Flat
from ...models import HasGradient
from ...numerics.linalg import as_matrices, times
from ...random._keys import Purpose
from ...random._variates import fill_normal
from ...utils._typing import ArrayLike
from .._schedule import StepSize
from .gradient_base import SVRG, GradientSampler, GradientState
from .integrator_kernels import step_langevin_diagonal
from .metric import divergence_at, metric_at, symmetric_root
from .moves import Langevin
from .noise_covariance import NoiseCovariance
from .recipe import Recipe


@dataclass(eq=False, repr=False)
class SGLD(GradientSampler):
    r"""Stochastic-gradient Langevin dynamics.

    .. math:: x' = x + h \tilde g(x) + N(0, 2h - h^2 \hat V),

    where :math:`\tilde g` is an unbiased estimate of the gradient of the log density ([2]_, eq. 13). In the complete
    recipe D = I, Q = 0 and H = -log p. The covariance of the noise is clipped to be positive semi-definite.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time h of the diffusion. It is the epsilon of [2]_, eq. 13, and half that of [1]_.
    noise_covariance : "model", "fisher", float, array-like or None, default="model"
        Covariance V of the gradient noise, whose effect is subtracted from the covariance of the noise of the step.
        "model" uses ``target.noise_covariance``. "fisher" uses the empirical Fisher information of the minibatches, a
        running mean (a full matrix for points of up to 64 entries, a diagonal otherwise). It can also be a number, a
        diagonal or a matrix. None is zero.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.

    References
    ----------
    .. [1] M. Welling and Y. W. Teh, "Bayesian learning via stochastic gradient Langevin dynamics", ICML 2011.
    .. [2] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    """

    short_name = "sgld"
    is_compiled = True
    requires_manifold = (Flat,)

    step_size: StepSize = 0.01
    noise_covariance: NoiseCovariance = "model"
    control_variate: SVRG | None = None

    def _move_for(self, model: Any) -> Langevin:
        return Langevin(model.manifold.dim)

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the diffusion, for `check_recipe`."""
        size = model.manifold.size
        return Recipe(np.eye(size), np.zeros((size, size)))


@dataclass(eq=False, repr=False)
class SGRLD(GradientSampler):
    r"""Stochastic-gradient Riemannian Langevin dynamics.

    .. math:: x' = x + h \left[ G^{-1}(x) \tilde g(x) + \Gamma(x) \right] + N(0, 2 h G^{-1}(x)), \qquad
        \Gamma_i = \sum_j \partial_j (G^{-1})_{ij},

    with reflection at the boundary of the space (eq. 14 of [2]_ with the sign of the correction term corrected). In the
    complete recipe D = G^{-1}, Q = 0 and H = -log p.

    On a positive orthant with G = diag(1/x) the reflection causes a bias near zero, which decreases with h for gamma
    shapes of at least 1/2. For smaller shapes the bias is large at practical step sizes: for example, the mean is 0.33
    instead of 0.2 at h = 0.02. Use `SCIR` instead.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time h of the diffusion. It is the epsilon of [2]_, and half that of [1]_.
    inverse_metric : callable or array-like, optional
        A function ``f(x)`` that returns :math:`G^{-1}` at a point `x` (for all chains at once if the target is
        vectorized): its diagonal, with the shape of `x`, or a symmetric positive definite matrix, ``(size, size)``. For
        a constant metric, the diagonal or matrix itself. By default the metric of the manifold: 1 on a Euclidean space,
        x on a positive orthant.
    divergence : callable, optional
        A function that returns :math:`\Gamma` at a point, with the shape of `x`; by default central differences of
        `inverse_metric`.
    metric_batch_size : int, optional
        If it is given, `inverse_metric` is called as ``f(x, rows)`` with a separate minibatch of this size. It is
        independent of the minibatch of the gradient, because correlated estimates would bias the sampler.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.

    References
    ----------
    .. [1] S. Patterson and Y. W. Teh, "Stochastic gradient Riemannian Langevin dynamics on the probability simplex",
       NIPS 2013.
    .. [2] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    """

    short_name = "sgrld"
    requires_manifold = (DiffusionMetric,)
    is_biased_near_zero = True

    step_size: StepSize = 0.01
    inverse_metric: Callable[..., ArrayLike] | ArrayLike | None = None
    divergence: Callable[..., ArrayLike] | None = None
    metric_batch_size: int | None = None
    control_variate: SVRG | None = None

    def _move(self, model, state: GradientState, h: float, t: int) -> GradientState:
        memory, gradient = self._estimate_gradient(model, state, t)
        n_chains = len(gradient)
        noise = memory.noise.reshape(n_chains, -1)
        fill_normal(memory.keys, Purpose.NOISE, noise)
        metric = metric_at(self, model, state.position, memory.keys)
        divergence = divergence_at(self, model, state.position, memory.keys)
        if metric.ndim == 2:
            step_langevin_diagonal(state.position, h, metric, divergence, gradient, noise)
        else:
            x = state.position.reshape(n_chains, -1)
            constant = not callable(self.inverse_metric)
            root = metric_at(self, model, state.position, None, root=True) if constant else symmetric_root(metric)
            force = times(metric, gradient.reshape(n_chains, -1))
            x += h * (force + divergence) + np.sqrt(2 * h) * times(root, noise)
        model.manifold.reflect(state.position)
        return state

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the diffusion, for `check_recipe`."""
        size = model.manifold.size

        def diffusion(z: np.ndarray) -> np.ndarray:
            matrices = as_matrices(metric_at(self, model, z.reshape(-1, *model.manifold.shape), None))
            return np.broadcast_to(matrices, (len(z), size, size))

        return Recipe(diffusion, np.zeros((size, size)), vectorized=True)
