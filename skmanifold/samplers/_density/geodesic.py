"""Stochastic-gradient samplers on embedded manifolds that move along exact geodesics."""

from __future__ import annotations

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
from .hamiltonian import friction_recipe, thermostat_recipe
from .matrix_friction import GeodesicMatrixFriction, check_friction
from .moves import SCHEMES, GeodesicFriction, GeodesicThermostat
from .noise_covariance import NoiseCovariance
from .recipe import Recipe


class _GeodesicSampler(GradientSampler):
    """Base class of samplers that move along geodesics."""

    requires_manifold = (GeodesicFlow,)
    state_types: ClassVar[tuple[type, ...]] = (MomentumState,)
    _parameter_constraints: ClassVar[dict] = {
        **GradientSampler._parameter_constraints,
        "scheme": [StrOptions({"aboba", "ou", "baoab"})],
    }


class SGGMC(_GeodesicSampler):
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
    _parameter_constraints: ClassVar[dict] = {
        **_GeodesicSampler._parameter_constraints,
        "friction": [Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    def __init__(
        self,
        step_size: StepSize = 0.01,
        friction: ArrayLike = 1.0,
        n_steps: int = 10,
        scheme: Literal["ou", "aboba", "baoab"] = "ou",
        noise_covariance: NoiseCovariance = "model",
        control_variate: SVRG | None = None,
    ) -> None:
        self.step_size = step_size
        self.friction = friction
        self.n_steps = n_steps
        self.scheme = scheme
        self.noise_covariance = noise_covariance
        self.control_variate = control_variate

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> MomentumState:
        check_friction(self.friction, model.manifold.size)
        return super()._begin(model, keys, position)

    def _move_for(self, model: Any) -> Any:
        if not isinstance(self.friction, Real):
            return GeodesicMatrixFriction(SCHEMES[self.scheme], self.friction)
        return GeodesicFriction(SCHEMES[self.scheme], float(self.friction))

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the dynamics on a Euclidean space, for `check_recipe`."""
        _check_flat(self, model.manifold)
        return friction_recipe(model.manifold.size, self.friction)


class GSGNHT(_GeodesicSampler):
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
    state_types = (ThermostatState,)
    _parameter_constraints: ClassVar[dict] = {
        **_GeodesicSampler._parameter_constraints,
        "thermostat_mass": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        step_size: StepSize = 0.01,
        friction: float = 1.0,
        n_steps: int = 10,
        scheme: Literal["ou", "aboba", "baoab"] = "ou",
        noise_covariance: NoiseCovariance = None,
        control_variate: SVRG | None = None,
        thermostat_mass: float = 1.0,
    ) -> None:
        self.step_size = step_size
        self.friction = friction
        self.n_steps = n_steps
        self.scheme = scheme
        self.noise_covariance = noise_covariance
        self.control_variate = control_variate
        self.thermostat_mass = thermostat_mass

    def _move_for(self, model: Any) -> GeodesicThermostat:
        values = float(self.friction), float(self.thermostat_mass), model.manifold.dim
        return GeodesicThermostat(SCHEMES[self.scheme], *values)

    def recipe(self, model: HasGradient) -> Recipe:
        """D, Q and H of the dynamics on a Euclidean space, for `check_recipe`."""
        _check_flat(self, model.manifold)
        return thermostat_recipe(model.manifold.size, self.friction, self.thermostat_mass)


def _check_flat(sampler: _GeodesicSampler, manifold) -> None:
    if not offers(manifold, Flat):
        raise IncompatibleError(f"{type(sampler).__name__} has a recipe on Euclidean spaces only, not on {manifold!r}.")
