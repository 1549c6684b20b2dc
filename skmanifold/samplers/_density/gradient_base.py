"""The base class of samplers that use gradient estimates: initial state, control variates and noise estimates."""

from __future__ import annotations

import copy
from inspect import get_annotations
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from ...manifolds import GeodesicFlow
from ...manifolds._geometry import MethodsGeometry
from ...models import HasCompiledFunctions, HasGradient, HasGradientDeviations, HasGradientDifference, IncompatibleError
from ...models._compiled_functions import CompiledFunctions
from ...models._density import check_covariance
from ...models._minibatch import CovarianceAt
from ...random._keys import Purpose
from ...random._variates import fill_normal, fold_keys
from ...utils._conditions import Array, Sizes
from ...utils._parameters import LinksToItsPage, PlainNumbers, offers
from ...utils._sklearn import Interval, StrOptions
from .._schedule import PolynomialDecay, step_size_at
from .._states import LARGEST, SHARED_FIELDS, Keys, LogDensity, Points, counted
from .base import ManifoldSampler, NonFiniteError, step_keys
from .compiled_runs import StepsRun
from .integrator_kernels import N_COEFFICIENTS, first_not_finite, mean_squares
from .moves import NO_THERMOSTAT, chain_lost, chains_of, make_steps
from .noise_covariance import FULL_SIZE, Covariance, NoCovariance, covariance_at, decompose, replace_by

_LEAST_RATE = 0.01  # minimum weight of a new minibatch in the running covariance, a window of about 100 steps


class SVRG(PlainNumbers, LinksToItsPage, BaseEstimator):
    r"""Stochastic variance-reduced gradients: a control variate for minibatch gradients.

    Every `period` steps the current position becomes the anchor :math:`\tilde x`, and the gradient at the anchor is
    computed from all data. In the other steps

    .. math:: \hat g(x) = \tilde g(x) - \tilde g(\tilde x) + g(\tilde x),

    where both estimates use the same minibatch. The estimate is unbiased, and its noise is smaller close to the anchor
    ([1]_).

    Parameters
    ----------
    period : int, default=100
        Number of steps between anchors.

    References
    ----------
    .. [1] K. A. Dubey et al., "Variance reduction in stochastic gradient Langevin dynamics", NIPS 2016.
    """

    _parameter_constraints: ClassVar[dict] = {"period": [Interval(Integral, 1, None, closed="left")]}

    def __init__(self, period: int = 100) -> None:
        self.period = period


class GradientMemory(NamedTuple):
    """Buffers of a step, and what the gradient estimator keeps from one step to the next.

    Attributes
    ----------
    gradient : ndarray of shape (n_chains, ...)
        Gradient estimate of the last step, in the shape of the points.
    noise : ndarray of shape (n_chains, ...)
        Normal variates of the last step, in the shape of the points.
    keys : ndarray of shape (n_chains,), uint64
        Keys of the last step.
    coefficients : ndarray of shape (N_COEFFICIENTS, n_chains)
        Coefficients of the last velocity update, for integrators whose coefficients change.
    covariance : Covariance or None
        Covariance of the gradient's noise.
    running : ndarray or None
        Running estimate of this covariance: diagonals or matrices.
    anchor : ndarray of shape (n_chains, ...) or None
        Position at which a control variate has the gradient of all data.
    anchor_gradient : ndarray of shape (n_chains, ...) or None
        This gradient.
    declared : bool
        Whether `covariance` is the one that the target declares.
    """

    gradient: Points
    noise: Points
    keys: Keys
    coefficients: Annotated[np.ndarray, Array("float64", f"{N_COEFFICIENTS} 1")]
    covariance: Covariance | None
    running: Annotated[np.ndarray, Array("float64", "1 _")] | Annotated[np.ndarray, Array("float64", "1 _ _")] | None
    anchor: Points | None
    anchor_gradient: Points | None
    declared: bool = False

    def _disagreement(self, sizes: Sizes) -> str | None:
        size = self.gradient.size
        covariance, running = self.covariance, self.running
        vectors = None if covariance is None else covariance.vectors
        fits = not self.declared if covariance is None else covariance.values.shape == (1, size)
        if not fits or (vectors is not None and vectors.shape != (1, size, size)):
            return "has a covariance that does not fit its points"
        if running is not None and (covariance is None or running.shape[1:] not in ((size,), (size, size))):
            return "has a running covariance that does not fit its points"
        if running is not None and (running.ndim == 3) != (vectors is not None):
            return "has a running covariance that is not of the kind of its covariance"
        return None if (self.anchor is None) == (self.anchor_gradient is None) else "has an anchor without its gradient"

    def detached(self) -> GradientMemory:
        """The same memory with copies of the arrays that minibatch steps read again later.

        The other arrays are shared, since each step overwrites them before it reads them.

        Returns
        -------
        memory : GradientMemory
            Independent of later steps.
        """
        names = ("covariance", "running", "anchor", "anchor_gradient")
        return self._replace(**{name: copy.deepcopy(getattr(self, name)) for name in names})


class GradientState(NamedTuple):
    """Chains whose state is their position and what the gradient estimator keeps.

    Attributes
    ----------
    position : ndarray of shape (n_chains, ...)
        Points of the manifold.
    key : ndarray of shape (n_chains,), uint64
        Keys of the chains' random streams.
    n_steps : int
        Number of steps.
    log_density : object
        Log densities, where the sampler computes them.
    memory : GradientMemory
        Buffers, control variate and noise estimate.
    """

    position: Points
    key: Keys
    n_steps: int
    log_density: LogDensity
    memory: GradientMemory


class MomentumState(NamedTuple):
    """Chains with a velocity, or with other auxiliary variables."""

    position: Points
    key: Keys
    n_steps: int
    log_density: LogDensity
    memory: GradientMemory
    momentum: Points


class ThermostatState(NamedTuple):
    """Chains with a velocity and a friction that adapts."""

    position: Points
    key: Keys
    n_steps: int
    log_density: LogDensity
    memory: GradientMemory
    momentum: Points
    thermostat: Annotated[np.ndarray, Array("float64", "1", low=-LARGEST, high=LARGEST)]  # the friction


MovingState: TypeAlias = GradientState | MomentumState | ThermostatState


class GradientSampler(ManifoldSampler):
    """Base class of samplers that update all chains at once with estimates of the gradient.

    A subclass defines ``_move(model, state, h, t)``, which makes step t of its integrator, of size h, in place, and
    returns the state; or ``_move_for(model)``, the NamedTuple of a move that can be compiled (`moves`).
    One that carries more from step to step than its gradients lists a NamedTuple of its own in ``state_types``, with
    the fields of `GradientState` first, and defines ``_first_fields``.
    """

    state_types: ClassVar[tuple[type, ...]] = (GradientState,)
    requires: ClassVar[tuple[type, ...]] = (HasGradient,)
    is_compiled: ClassVar[bool] = False  # whether this class, without changes by a subclass, has compiled runs
    _parameter_constraints: ClassVar[dict] = {
        "step_size": [Interval(Real, 0, None, closed="neither"), PolynomialDecay, callable],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "friction": [Interval(Real, 0, None, closed="neither")],
        "thermostat_mass": [Interval(Real, 0, None, closed="neither")],
        "resample_every": [None, Interval(Integral, 1, None, closed="left")],
        "inverse_metric": [None, callable, "array-like"],
        "divergence": [None, callable],
        "metric_batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "noise_covariance": [
            None,
            StrOptions({"model", "fisher"}),
            Interval(Real, 0, None, closed="left"),
            "array-like",
        ],
        "control_variate": [None, SVRG],
    }  # of the parameters that samplers share; a class keeps those of its constructor
    step_size: Any
    friction: Any
    scheme: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        expected = (*SHARED_FIELDS, "memory")
        for state_type in cls.state_types:
            if state_type._fields[: len(expected)] != expected:  # type: ignore[attr-defined]
                raise TypeError(f"{state_type.__name__} must have the fields {', '.join(expected)} first.")
        own, rules = {*cls._get_param_names(), *get_annotations(cls)}, cls._parameter_constraints  # also of a dataclass
        cls._parameter_constraints = {name: rule for name, rule in rules.items() if name in own} or rules

    @property
    def is_anchored(self) -> bool:
        """Whether gradient estimates refer to a gradient of all data, computed now and then."""
        return isinstance(self.control_variate, SVRG)

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> Any:
        if getattr(self, "resample_every", None) == 1 and self.scheme == "euler":
            raise ValueError(
                "resample_every must be at least 2 with scheme='euler', where a gradient moves the position one step "
                "later."
            )
        first = self._first_fields(model, keys, position)
        memory = self._start_memory(model, position)
        return self.state_types[0](position, step_keys(keys), 0, np.nan, memory=memory, **first)

    def _first_fields(self, model, keys: np.ndarray, position: np.ndarray) -> dict[str, Any]:
        """What the state holds beyond the fields of `GradientState`, before the first step, by the names of fields."""
        fields, first = self.state_types[0]._fields, {}  # type: ignore[attr-defined]
        if "momentum" in fields:
            first["momentum"] = self._start_momentum(model, position, keys)
        if "thermostat" in fields:
            first["thermostat"] = np.full(len(keys), float(self.friction))
        return first

    def step(self, model: HasGradient, state: Any) -> Any:
        """`n_steps` steps of the integrator, one by one if a subclass defines `_move`."""
        h, n = step_size_at(self.step_size, state.n_steps), self.n_steps
        first = state.n_steps * n
        try:
            if type(self)._move is GradientSampler._move:
                self._interpret_moves(model, state, h, first, n)
            else:
                for t in range(first, first + n):
                    fold_keys(state.key, t, state.memory.keys)
                    state = self._move(model, state, h, t)
        except NonFiniteError as error:
            error.state = state if error.state is None else error.state
            raise
        if chain_lost(state.position, getattr(state, "thermostat", NO_THERMOSTAT)) >= 0:
            self._stop_at(state, first + n - 1)
        return counted(state)

    def stats(self, model: HasGradient, state: Any) -> dict[str, np.ndarray]:
        """The kinetic ``temperature``, v'v / dim, whose mean is 1 for small step sizes, and the ``thermostat``."""
        fields, stats = self.state_types[0]._fields, {}  # type: ignore[attr-defined]
        if "momentum" in fields:
            stats["temperature"] = mean_squares(state.momentum, model.manifold.dim)
        if "thermostat" in fields:
            stats["thermostat"] = state.thermostat
        return stats

    def rescale(self, state: Any, ratio: np.ndarray, noise_covariance: np.ndarray) -> None:
        """Multiply the coordinates of all chains, in place, and change the memory of gradients accordingly."""
        super().rescale(state, ratio, noise_covariance)
        memory = state.memory
        if memory.anchor is not None:
            memory.anchor[...] *= ratio
            memory.anchor_gradient[...] /= ratio
        if memory.running is not None:
            scale = np.broadcast_to(ratio, state.position.shape[1:]).ravel()
            memory.running[...] /= scale**2 if memory.running.ndim == 2 else np.multiply.outer(scale, scale)
        if memory.declared:
            memory.covariance.values[...] = noise_covariance

    def compiled_run(self, model: Any, state: Any) -> Any:
        """What makes many steps in one call of a kernel, if the functions of the target are compiled."""
        memory = state.memory
        if not type(self).__dict__.get("is_compiled") or model.manifold.geometry is None:
            return None
        if memory.covariance is not None or memory.running is not None or memory.anchor is not None:
            return None
        functions = model.compiled_functions() if offers(model, HasCompiledFunctions) else None
        return None if functions is None else self._compiled_run(model, functions)

    def _compiled_run(self, model: Any, functions: CompiledFunctions) -> Any:
        move = self._move_for(model)
        return None if move is None else StepsRun(self, model, functions, move)

    def _move_for(self, model: Any) -> Any:
        """The NamedTuple of `moves` for this sampler, or None if the sampler defines `_move`."""
        return None

    def _move(self, model: Any, state: Any, h: float, t: int) -> Any:
        """Make step t of the integrator, of size h, in place; returns the state."""
        self._interpret_moves(model, state, h, t, 1)
        return state

    def _interpret_moves(self, model: Any, state: Any, h: float, first: int, n_steps: int) -> None:
        """Interpret the kernel of this sampler's move, with the gradients of `_estimate_gradient`."""

        def gradient(x: np.ndarray, keys: np.ndarray, t: int, out: np.ndarray) -> None:
            _, estimate = self._estimate_gradient(model, state, t)
            if estimate is not out:
                out[...] = estimate

        move, noise = self._move_for(model), self._noise(model, state.memory)
        make_steps(move, MethodsGeometry(model.manifold), gradient, noise, chains_of(state), h, first, n_steps)

    @staticmethod
    def _noise(model: Any, memory: GradientMemory) -> Covariance | NoCovariance:
        """The covariance of gradient noise that a step compensates."""
        return NoCovariance(model.manifold.size) if memory.covariance is None else memory.covariance

    def _start_momentum(self, model, position: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """A momentum from its stationary distribution: standard normal in the tangent space."""
        momentum = np.empty_like(position)
        fill_normal(keys, Purpose.MOMENTUM, momentum.reshape(len(keys), -1))
        if offers(model.manifold, GeodesicFlow):
            model.manifold.project(position, momentum)
        return momentum

    def _start_memory(self, model, position: np.ndarray) -> GradientMemory:
        size = model.manifold.size
        given, running = getattr(self, "noise_covariance", None), None
        covariance: Covariance | None
        learns, declares = (isinstance(given, str) and given == name for name in ("fisher", "model"))
        if learns:
            if not offers(model, HasGradientDeviations):
                raise IncompatibleError(
                    f"{type(self).__name__} with noise_covariance='fisher' needs gradients of single samples "
                    f"(n_samples), which {type(model).__name__} does not offer."
                )
            if self.control_variate is not None:
                raise ValueError(
                    "noise_covariance='fisher' estimates the noise of plain minibatches: set control_variate to None."
                )
            side = (size, size) if size <= FULL_SIZE else (size,)
            running = np.zeros((len(position), *side))
            covariance = decompose(running, size)
        elif declares:
            covariance = covariance_at(model.noise_covariance, position)
            if covariance is not None and self.control_variate is not None:
                raise ValueError(
                    "A control_variate changes the gradient noise, so the noise_covariance of the target is not "
                    "valid: set noise_covariance to None, or to the covariance of the remaining noise."
                )
        else:
            covariance = covariance_at(check_covariance(given, size, "noise_covariance"), position)
        if self.control_variate is not None:
            self.control_variate._validate_params()
        anchor, anchor_gradient = (np.zeros_like(position) if self.is_anchored else None for _ in range(2))
        return GradientMemory(  # zeros, not what lay in memory: some schemes leave some of it as it is
            gradient=np.zeros_like(position),
            noise=np.zeros_like(position),
            keys=np.zeros(len(position), np.uint64),
            coefficients=np.zeros((N_COEFFICIENTS, len(position))),
            covariance=covariance,
            running=running,
            anchor=anchor,
            anchor_gradient=anchor_gradient,
            declared=declares and covariance is not None,
        )

    def _estimate_gradient(self, model, state: Any, t: int) -> tuple[GradientMemory, np.ndarray]:
        """Estimate the gradient where the state is; returns the memory and the gradient, ``(n_chains, *shape)``."""
        memory, x = state.memory, state.position
        gradient = memory.gradient
        if memory.declared and isinstance(model.noise_covariance, CovarianceAt):
            replace_by(memory.covariance, covariance_at(model.noise_covariance, x))
        if memory.running is not None:
            deviations = model.grad_with_deviations(x, memory.keys, gradient)
            update_running(memory.running, _tangent_parts(model.manifold, x, deviations), t)
            replace_by(memory.covariance, decompose(memory.running, model.manifold.size))
        elif memory.anchor is not None and self.control_variate is not None:
            if t % self.control_variate.period == 0:
                memory.anchor[...] = x
                model.grad_log_density(x, None, memory.anchor_gradient)
            if offers(model, HasGradientDifference):
                model.grad_difference(memory.anchor, x, memory.keys, gradient)
                gradient += memory.anchor_gradient
            else:
                model.grad_log_density(memory.anchor, memory.keys, gradient)
                at_anchor = gradient.copy()
                model.grad_log_density(x, memory.keys, gradient)
                gradient += memory.anchor_gradient - at_anchor
        else:
            model.grad_log_density(x, memory.keys, gradient)
        if first_not_finite(gradient) >= 0:
            self._stop_at(state, t)
        return memory, gradient

    def _stop_at(self, state: Any, t: int) -> None:
        """Raise a `NonFiniteError` with the state, for the gradient in its memory or for its position."""
        chain, what = first_not_finite(state.memory.gradient), "met a gradient"
        if chain < 0:
            lost = chain_lost(state.position, getattr(state, "thermostat", NO_THERMOSTAT))
            chain, what = lost, "moved to a position or thermostat"
        raise NonFiniteError(
            f"{type(self).__name__} {what} that is not finite at step {t} of chain {chain}; "
            "a smaller step size may help. The attribute `state` of this error has the position.",
            state,
        )


def _tangent_parts(manifold, x: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Tangent parts of deviations ``(n_chains, n, *shape)``, as an array ``(n_chains, n, size)``."""
    n_chains, n = deviations.shape[:2]
    if hasattr(manifold, "project"):
        flat = np.ascontiguousarray(deviations).reshape(-1, *manifold.shape)
        manifold.project(np.repeat(x, n, axis=0), flat)
        deviations = flat
    return deviations.reshape(n_chains, n, -1)


def update_running(running: Any, deviations: np.ndarray, t: int) -> None:
    """Update a running covariance with that of one minibatch, in place; a `NonFiniteError` if it is not finite."""
    if running.ndim == 3:
        new = np.matmul(deviations.mT, deviations)
    else:
        new = np.einsum("cni,cni->ci", deviations, deviations)
    running += max(1 / (t + 1), _LEAST_RATE) * (new - running)
    if (chain := first_not_finite(running)) >= 0:
        raise NonFiniteError(f"The covariance of the gradients of rows is not finite in chain {chain}.")
