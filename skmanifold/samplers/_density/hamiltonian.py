"""Second-order samplers, on Euclidean spaces and along geodesics, with friction or a thermostat."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from ...manifolds import Flat, GeodesicFlow
from ...models import HasGradient, IncompatibleError
from ...utils._parameters import offers
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike
from .._schedule import StepSize
from .gradient_base import SVRG, GradientSampler, MomentumState, ThermostatState
from .integrator_kernels import OU
from .matrix_friction import GeodesicMatrixFriction, MatrixFriction, check_friction
from .moves import SCHEMES, EulerThermostat, Friction, GeodesicFriction, GeodesicThermostat, SplitThermostat
from .noise_covariance import NoiseCovariance
from .recipe import Recipe

_FLAT_SCHEMES: dict[str, list] = {"scheme": [StrOptions({"baoab", "euler", "ou"})]}
_GEODESIC_SCHEMES: dict[str, list] = {"scheme": [StrOptions({"aboba", "ou", "baoab"})]}


class _FrictionSampler(GradientSampler):
    """Base class of samplers with a velocity and a constant friction, a number or a matrix."""

    state_types = (MomentumState,)
    _parameter_constraints: ClassVar[dict] = {
        **GradientSampler._parameter_constraints,
        "friction": [Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> MomentumState:
        check_friction(self.friction, model.manifold.size)
        return super()._begin(model, keys, position)

    def compiled_run(self, model: Any, state: Any) -> Any:
        """What makes many steps in one call of a kernel; there are none with a friction matrix."""
        return super().compiled_run(model, state) if isinstance(self.friction, Real) else None

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the dynamics on a Euclidean space, for `check_recipe`."""
        d = _flat_size(self, model)
        diffusion = np.zeros((2 * d, 2 * d))
        diffusion[d:, d:] = self.friction * np.eye(d) if np.ndim(self.friction) == 0 else self.friction
        return Recipe(diffusion, _hamiltonian_curl(d), n_auxiliary=d)


class _ThermostatSampler(GradientSampler):
    """Base class of samplers with a velocity and a friction that adapts."""

    state_types = (ThermostatState,)
    thermostat_mass: float

    def _values(self, model: Any) -> tuple[float, float, int]:
        """Strength, mass and dimension of a move."""
        return float(self.friction), float(self.thermostat_mass), model.manifold.dim

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the dynamics on a Euclidean space, for `check_recipe`."""
        d, strength, mass = _flat_size(self, model), self.friction, self.thermostat_mass
        diffusion = np.zeros((2 * d + 1, 2 * d + 1))
        diffusion[d : 2 * d, d : 2 * d] = strength * np.eye(d)

        def curl(z: np.ndarray) -> np.ndarray:
            matrix = np.zeros((len(z), 2 * d + 1, 2 * d + 1))
            matrix[:, : 2 * d, : 2 * d] = _hamiltonian_curl(d)
            matrix[:, d : 2 * d, -1] = z[:, d : 2 * d] / (mass * d)
            matrix[:, -1, d : 2 * d] = -z[:, d : 2 * d] / (mass * d)
            return matrix

        def energy(z: np.ndarray) -> np.ndarray:
            return (z[:, d : 2 * d] ** 2).sum(axis=1) / 2 + mass * d / 2 * (z[:, -1] - strength) ** 2

        return Recipe(diffusion, curl, energy, n_auxiliary=d + 1, vectorized=True)


@dataclass(eq=False, repr=False)
class SGHMC(_FrictionSampler):
    r"""Stochastic-gradient Hamiltonian Monte Carlo with friction.

    ``scheme="euler"`` is the Euler step of [2]_, eq. 12, where both updates use the old state:

    .. math:: x' = x + h v, \qquad v' = v + h \tilde g(x) - h C v + N(0, 2 C h - h^2 \hat V).

    ``scheme="baoab"`` is a splitting scheme with the same cost and a much smaller bias ([3]_): a gradient step
    :math:`v + h \tilde g(x)`, a drift for h/2, the exact Ornstein-Uhlenbeck step
    :math:`v' = f v + N(0, 1 - f^2 - f^2 h^2 \hat V)` with :math:`f = e^{-C h}`, and a drift for h/2. Its momentum is
    that before the next half gradient step.

    ``scheme="ou"`` puts the gradient into the exact Ornstein-Uhlenbeck step between the halves of the drift,
    :math:`v' = f v + (1 + f) \tfrac h2 \tilde g + N(0, 1 - f^2 - (1 + f)^2 \tfrac{h^2}{4} \hat V)`. It is the same as
    `SGGMC`. If the gradient noise is declared, the variances are right where those of "baoab" are too large.

    In the complete recipe D = diag(0, C I), Q = [[0, -I], [I, 0]] and
    :math:`H = -\log p + |v|^2 / 2`.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time step h of the integrator, the epsilon of [2]_. In the notation of [1]_ the learning rate is h^2.
    friction : float or array-like of shape (size, size), default=1.0
        Friction C, positive, or a symmetric positive definite matrix that acts on the momentum as a vector. The
        momentum coefficient of [1]_ is 1 - C h.
    n_steps : int, default=1
        Number of steps of the integrator, each with a new minibatch, in one step of the chain.
    scheme : {"baoab", "euler", "ou"}, default="baoab"
        The integrator.
    noise_covariance : "model", "fisher", float, array-like or None, default="model"
        Covariance V of the gradient noise, whose effect is subtracted from the covariance of the noise of the step. The
        difference is clipped to be positive semi-definite; see `SGLD`.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.
    resample_every : int, optional
        Number of steps of the integrator after which the momenta are drawn again from their stationary distribution
        N(0, I); never by default. Algorithm 1 of [2]_ has this as an option. At least 2 with ``scheme="euler"``.

    References
    ----------
    .. [1] T. Chen, E. B. Fox and C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", ICML 2014.
    .. [2] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    .. [3] B. Leimkuhler and C. Matthews, "Rational construction of stochastic numerical methods for molecular
       sampling", AMRX 2013.
    """

    short_name = "sghmc"
    is_compiled = True
    requires_manifold = (Flat,)
    _parameter_constraints: ClassVar[dict] = {**_FrictionSampler._parameter_constraints, **_FLAT_SCHEMES}

    step_size: StepSize = 0.01
    friction: ArrayLike = 1.0
    n_steps: int = 1
    scheme: Literal["baoab", "euler", "ou"] = "baoab"
    noise_covariance: NoiseCovariance = "model"
    control_variate: SVRG | None = None
    resample_every: int | None = None

    def _move_for(self, model: Any) -> Any:
        every, is_exact = self.resample_every or 0, self.scheme == "ou"
        if not isinstance(self.friction, Real):
            matrix = self.friction, every
            return GeodesicMatrixFriction(OU, *matrix) if is_exact else MatrixFriction(self.scheme, *matrix)
        number = float(self.friction), every
        return GeodesicFriction(OU, *number) if is_exact else Friction(self.scheme == "euler", *number)


@dataclass(eq=False, repr=False)
class SGNHT(_ThermostatSampler):
    r"""Stochastic-gradient Nose-Hoover thermostat: friction that adapts to unknown isotropic gradient noise.

    ``scheme="euler"`` is the Euler step of [2]_, eq. 15, where all updates use the old state and d is the dimension:

    .. math:: x' = x + h v, \quad v' = v + h \tilde g(x) - h \xi v + N(0, 2 A h - h^2 \hat V), \quad
        \xi' = \xi + \frac h M (|v|^2 / d - 1).

    ``scheme="baoab"`` is the symmetric splitting of [3]_: a gradient step, half a drift, half a step of the thermostat,
    the exact Ornstein-Uhlenbeck step given the friction :math:`\xi`, half a step of the thermostat, and half a drift.
    ``scheme="ou"`` puts the gradient into the Ornstein-Uhlenbeck step, as in `GSGNHT`. In the complete recipe
    :math:`H = -\log p + |v|^2 / 2 + (M d / 2) (\xi - A)^2`, D = diag(0, A I, 0) and
    Q = [[0, -I, 0], [I, 0, v/(M d)], [0, -v'/(M d), 0]]. The paper has M = 1; the factor 1/(2d) that it prints in H
    does not give an invariant distribution.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time step h of the integrator, the epsilon of [2]_.
    friction : float, default=1.0
        Strength A of the added noise, and initial value of the thermostat. With uncompensated gradient noise of
        variance s^2 the thermostat converges to A + h s^2 / 2.
    n_steps : int, default=1
        Number of steps of the integrator, each with a new minibatch, in one step of the chain.
    scheme : {"baoab", "euler", "ou"}, default="baoab"
        The integrator.
    noise_covariance : "model", "fisher", float, array-like or None, default=None
        As in `SGLD`. By default there is no compensation, because the thermostat adapts to the noise.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.
    thermostat_mass : float, default=1.0
        Mass M of the thermostat. With a larger mass the friction adapts more slowly; its standard deviation is
        :math:`(M d)^{-1/2}`. M = 1, as in the paper, is slow if h is small and the friction is large; with M = 1 / A^2
        the friction adapts within the time 1 / A.

    References
    ----------
    .. [1] N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven, "Bayesian sampling using stochastic gradient
       thermostats", NIPS 2014.
    .. [2] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    .. [3] B. Leimkuhler and X. Shang, "Adaptive thermostats for noisy gradient systems", SIAM J. Sci. Comput. 38, 2016.
    """

    short_name = "sgnht"
    is_compiled = True
    requires_manifold = (Flat,)
    _parameter_constraints: ClassVar[dict] = {**GradientSampler._parameter_constraints, **_FLAT_SCHEMES}

    step_size: StepSize = 0.01
    friction: float = 1.0
    n_steps: int = 1
    scheme: Literal["baoab", "euler", "ou"] = "baoab"
    noise_covariance: NoiseCovariance = None
    control_variate: SVRG | None = None
    thermostat_mass: float = 1.0

    def _move_for(self, model: Any) -> Any:
        values = self._values(model)
        if self.scheme == "ou":
            return GeodesicThermostat(OU, *values)
        return (EulerThermostat if self.scheme == "euler" else SplitThermostat)(*values)


@dataclass(eq=False, repr=False)
class SGGMC(_FrictionSampler):
    r"""Stochastic-gradient geodesic Monte Carlo: Hamiltonian dynamics with friction along the geodesics of a manifold.

    Each step moves along the geodesic for h/2, updates the velocity, and moves along the geodesic for h/2. The flow is
    exact, so the position stays on the manifold. :math:`\Lambda(x)` is the projection onto the tangent space.
    ``scheme="aboba"`` is algorithm 1 of [1]_, with the velocity update

    .. math:: v' = e^{-C h / 2} \left( e^{-C h / 2} v
        + \Lambda(x) [ h \tilde g(x) + N(0, 2 C h - h^2 \hat V) ] \right).

    Without a gradient its velocity has the variance C h / sinh(C h) instead of 1. ``scheme="ou"`` uses the exact
    Ornstein-Uhlenbeck step at the same cost, with :math:`f = e^{-C h}`:

    .. math:: v' = f v + \Lambda(x) \left[ (1 + f) \tfrac h2 \tilde g(x)
        + N\left(0, 1 - f^2 - (1 + f)^2 \tfrac{h^2}{4} \hat V\right) \right].

    ``scheme="baoab"`` adds the whole :math:`h \Lambda(x) \tilde g(x)` to the velocity before the first half of the
    flow, and makes only the Ornstein-Uhlenbeck step between the halves ([2]_). It has the least bias if the gradient
    noise is small, but the velocity is overheated if h^2 V is not small. The paper draws one minibatch for all inner
    steps, which multiplies the effect of its noise by their number. Here every inner step draws a new minibatch.

    The energy is :math:`H = -\log p + |v|^2 / 2`, where p is a density with respect to the base measure of the
    manifold. In coordinates along the flow D = diag(0, C) and Q = [[0, -I], [I, 0]], as for `SGHMC`. On a Euclidean
    space it is the same sampler as `SGHMC`.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time step h of the integrator, the epsilon of [1]_. In the settings of the paper it is
        :math:`\epsilon = \sqrt{\gamma / N}` for N data points.
    friction : float or array-like of shape (size, size), default=1.0
        Friction C, rho / epsilon in the paper. A symmetric positive definite matrix over the entries of a point is
        projected onto the tangent space, :math:`\Lambda C \Lambda`.
    n_steps : int, default=10
        Number L of inner steps in one step of the chain.
    scheme : {"ou", "aboba", "baoab"}, default="ou"
        The integrator.
    noise_covariance : "model", "fisher", float, array-like or None, default="model"
        Covariance V of the gradient noise, whose effect is subtracted from the noise of the velocity update; see
        `SGLD`. The covariance of that noise is clipped to be positive semi-definite in the tangent space (for points
        of more than 64 entries, as a diagonal matrix), so V above 2 C / h is not compensated.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.

    References
    ----------
    .. [1] C. Liu, J. Zhu and Y. Song, "Stochastic gradient geodesic MCMC methods", NIPS 2016.
    .. [2] B. Leimkuhler and C. Matthews, "Efficient molecular dynamics using geodesic integration and solvent-solute
       splitting", Proc. R. Soc. A 472, 2016.
    """

    short_name = "sggmc"
    is_compiled = True
    requires_manifold = (GeodesicFlow,)
    _parameter_constraints: ClassVar[dict] = {**_FrictionSampler._parameter_constraints, **_GEODESIC_SCHEMES}

    step_size: StepSize = 0.01
    friction: ArrayLike = 1.0
    n_steps: int = 10
    scheme: Literal["ou", "aboba", "baoab"] = "ou"
    noise_covariance: NoiseCovariance = "model"
    control_variate: SVRG | None = None

    def _move_for(self, model: Any) -> Any:
        if not isinstance(self.friction, Real):
            return GeodesicMatrixFriction(SCHEMES[self.scheme], self.friction)
        return GeodesicFriction(SCHEMES[self.scheme], float(self.friction))


@dataclass(eq=False, repr=False)
class GSGNHT(_ThermostatSampler):
    r"""Geodesic stochastic-gradient Nose-Hoover thermostat: `SGGMC` with a friction that adapts to the noise.

    The friction :math:`\xi` starts at C and is updated in each half of the flow, along which the speed is constant, by
    :math:`\xi' = \xi + (|v|^2 / m - 1) h / (2 M)`, where m is the *intrinsic* dimension. The velocity update of
    ``scheme="aboba"`` (algorithm 2 of [1]_) is that of `SGGMC` with :math:`\xi` instead of C in the exponents. That of
    ``scheme="ou"`` is exact for its friction, with :math:`f = e^{-\xi h}`:

    .. math:: v' = f v + \Lambda(x) \left[ (1 + f) \tfrac h2 \tilde g(x)
        + N\left(0, C (1 - f^2) / \xi - (1 + f)^2 \tfrac{h^2}{4} \hat V\right) \right].

    The energy is :math:`H = -\log p + |v|^2 / 2 + (M m / 2) (\xi - C)^2`; D and Q are those of `SGNHT`, and on a
    Euclidean space it is the same sampler. It adapts to isotropic noise that does not depend on the position:
    uncompensated noise of variance s^2 raises the friction to C + h s^2 / 2.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.01
        Time step h of the integrator, the epsilon of [1]_.
    friction : float, default=1.0
        Strength C of the added noise, and initial value of the thermostat.
    n_steps : int, default=10
        Number L of inner steps in one step of the chain, each with a new minibatch.
    scheme : {"ou", "aboba", "baoab"}, default="ou"
        The integrator, see Notes.
    noise_covariance : "model", "fisher", float, array-like or None, default=None
        As in `SGGMC`. By default there is no compensation, because the thermostat adapts to the noise.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.
    thermostat_mass : float, default=1.0
        Mass M of the thermostat, as in `SGNHT`; 1 in the paper.

    Notes
    -----
    The schemes have the same cost. Without noise "aboba" has the smallest bias, but only that of "ou" hardly depends on
    the noise. In ten dimensions (a von Mises-Fisher density of concentration 5) with h = 0.1, the worst bias of a
    moment, in standard deviations, for noise of the variances 0, 30 and 100 is 0.010, 0.005 and 0.002 for "ou"; 0.007,
    0.010 and 0.057 for "aboba"; and 0.009, 0.002 and 0.092 for "baoab". The temperature of the first two is 1, whatever
    the bias; that of "baoab" is 1, 0.85 and 0.50.

    References
    ----------
    .. [1] C. Liu, J. Zhu and Y. Song, "Stochastic gradient geodesic MCMC methods", NIPS 2016.
    """

    short_name = "gsgnht"
    is_compiled = True
    requires_manifold = (GeodesicFlow,)
    _parameter_constraints: ClassVar[dict] = {**GradientSampler._parameter_constraints, **_GEODESIC_SCHEMES}

    step_size: StepSize = 0.01
    friction: float = 1.0
    n_steps: int = 10
    scheme: Literal["ou", "aboba", "baoab"] = "ou"
    noise_covariance: NoiseCovariance = None
    control_variate: SVRG | None = None
    thermostat_mass: float = 1.0

    def _move_for(self, model: Any) -> GeodesicThermostat:
        return GeodesicThermostat(SCHEMES[self.scheme], *self._values(model))


def _flat_size(sampler: GradientSampler, model: Any) -> int:
    """Number of coordinates of a Euclidean space; an `IncompatibleError` on other manifolds."""
    if not offers(model.manifold, Flat):
        name = type(sampler).__name__
        raise IncompatibleError(f"{name} has a recipe on Euclidean spaces only, not on {model.manifold!r}.")
    return model.manifold.size


def _hamiltonian_curl(d: int) -> np.ndarray:
    curl = np.zeros((2 * d, 2 * d))
    curl[:d, d:], curl[d:, :d] = -np.eye(d), np.eye(d)
    return curl
