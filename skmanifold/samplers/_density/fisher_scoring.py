"""Stochastic-gradient Fisher scoring: steps in units of the posterior, exact for a normal target."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from ...manifolds import Flat
from ...models import HasGradientDeviations
from ...models._density import check_covariance
from ...models._minibatch import covariance_matrices
from ...numerics.linalg import times
from ...random._keys import Purpose
from ...random._variates import derived_keys, fill_normal, fold_keys
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike
from .._schedule import StepSize
from .gradient_base import GradientMemory, GradientSampler, GradientState, update_running
from .integrator_kernels import first_not_finite
from .noise_covariance import fill_matrix_noise

_ROWS_PER_COORDINATE = 10  # of the first estimate of the Fisher information
_LEAST_EIGENVALUE = 1e-12  # of the Fisher information, relative to the largest


@dataclass(eq=False, repr=False)
class SGFS(GradientSampler):
    r"""Stochastic-gradient Fisher scoring.

    .. math:: x' = x + C (\tilde g(x) + \eta), \qquad C = 2 \left( F + V + 4 B / h \right)^{-1}, \qquad
        \eta \sim N(0, 4 B / h),

    where F is the Fisher information of all rows and V the covariance of the minibatch gradient ([1]_). Both are
    estimated by a running mean over minibatches: for n of N rows, drawn without replacement, F = V n / (N - n). The
    covariance of a step is :math:`2 C - C F C`. If the target is normal with precision F, as a posterior with many rows
    nearly is, the distribution of the draws is exact for every h. For small h the step is that of the Langevin
    diffusion with the constant matrix :math:`D = B^{-1} / 2`, with the gradient noise subtracted: the case of the
    complete recipe that [2]_ names in section 3.1.

    The curvature of the prior is not part of F. With few rows or a strong prior use `SGLD`.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=1.0
        h. With ``noise="fisher"`` it has no unit: :math:`C = 2 h / (h + 4) \, (F + V)^{-1}`.
    noise : "fisher", float or array-like of shape (size,) or (size, size), default="fisher"
        B, which determines the relative step sizes of the coordinates. "fisher" is F + V.

    Raises
    ------
    ValueError
        By `init`, if each step uses all rows, or if the Fisher information is singular and `noise` is "fisher".

    References
    ----------
    .. [1] S. Ahn, A. Korattikara and M. Welling, "Bayesian posterior sampling via stochastic gradient Fisher scoring",
       ICML 2012.
    .. [2] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    """

    short_name = "sgfs"
    requires = (HasGradientDeviations,)
    requires_manifold = (Flat,)
    noise_covariance = "fisher"  # V is always learned from minibatches
    control_variate = None
    _parameter_constraints: ClassVar[dict] = {
        **GradientSampler._parameter_constraints,
        "noise": [StrOptions({"fisher"}), Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    step_size: StepSize = 1.0
    noise: Literal["fisher"] | ArrayLike = "fisher"

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> GradientState:
        if model.batch_size is None or model.batch_size >= model.n_samples:
            raise ValueError(
                "SGFS estimates the Fisher information from minibatches: set batch_size to less than n_samples."
            )
        if not isinstance(self.noise, str):
            check_covariance(self.noise, model.manifold.size, "noise")
        state = super()._begin(model, keys, position)
        memory, first = state.memory, derived_keys(keys, Purpose.METRIC)
        for t in range(_n_first(model)):
            fold_keys(first, t, memory.keys)
            self._learn(model, memory, position, t)
        running: Any = memory.running
        values = np.linalg.eigvalsh(running) if running.ndim == 3 else running
        if isinstance(self.noise, str) and not (values > _LEAST_EIGENVALUE * values.max(axis=1, keepdims=True)).all():
            raise ValueError("The Fisher information is singular: set noise to a positive number or a matrix.")
        return state

    def _learn(self, model, memory: GradientMemory, x: np.ndarray, t: int) -> None:
        deviations = model.grad_with_deviations(x, memory.keys, memory.gradient)
        update_running(memory.running, deviations.reshape(*deviations.shape[:2], -1), t)

    def _move(self, model, state: GradientState, h: float, t: int) -> GradientState:
        memory, x = state.memory, state.position.reshape(len(state.position), -1)
        self._learn(model, memory, state.position, _n_first(model) + t)
        if first_not_finite(memory.gradient) >= 0:
            self._stop_at(state, t)
        running: Any = memory.running
        is_full = running.ndim == 3
        gradient, noise = memory.gradient.reshape(x.shape), memory.noise.reshape(x.shape)
        information = running * (model.n_samples / (model.n_samples - model.batch_size))  # F + V
        if isinstance(self.noise, str):
            added = 4 / h * information
        else:
            added = 4 / h * (covariance_matrices(self.noise, state.position) if is_full else np.asarray(self.noise))
        if is_full:
            step = 2 * np.linalg.inv(information + added)
            fill_matrix_noise(memory.keys, step @ added @ step, noise)
            x += times(step, gradient) + noise
        else:
            step = 2 / (information + added)
            fill_normal(memory.keys, Purpose.NOISE, noise)
            x += step * (gradient + np.sqrt(added) * noise)
        return state


def _n_first(model: Any) -> int:
    """Number of minibatches for the first estimate of the Fisher information."""
    return max(20, -(-_ROWS_PER_COORDINATE * model.manifold.size // max(model.batch_size - 1, 1)))
