"""Hamiltonian Monte Carlo with a Metropolis-Hastings test, which needs gradients and densities of all data."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...manifolds import Flat, GeodesicFlow
from ...manifolds._geometry import MethodsGeometry
from ...models import HasGradient, HasLogDensity
from ...utils._sklearn import Interval
from .._schedule import StepSize, step_sizes_at
from .compiled_runs import TransitionsRun
from .gradient_base import GradientMemory, GradientSampler
from .integrator_kernels import first_not_finite
from .moves import chains_of, functions_of, make_transition, vary_paths


class MetropolisState(NamedTuple):
    """Chains whose gradients are of where they stand, with the last answers of the test."""

    position: np.ndarray  # (n_chains, *shape)
    key: np.ndarray  # (n_chains,) uint64
    n_steps: int
    log_density: np.ndarray  # (n_chains,): of the position
    memory: GradientMemory
    accepted: np.ndarray  # (n_chains,) bool: whether the last proposal was


@dataclass(eq=False, repr=False)
class GMC(GradientSampler):
    r"""Geodesic Monte Carlo: Hamiltonian Monte Carlo along the geodesics of an embedded manifold.

    A transition draws a velocity :math:`v = \Lambda(x) N(0, I)`, makes L steps of

    .. math:: v \mathrel{+}= \tfrac h2 \Lambda(x) g(x), \quad (x, v) \leftarrow \text{geodesic flow for time } h, \quad
        v \mathrel{+}= \tfrac h2 \Lambda(x) g(x),

    and accepts the end point with probability min(1, exp(H_0 - H_1)), where :math:`H = -\log p + |v|^2 / 2` ([1]_).
    It is exact for every step size; divergent trajectories are rejected. The path lengths are random (`jitter`) but do
    not depend on the state, so every transition leaves the density invariant.

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.1
        Time h of one step.
    n_steps : int, default=10
        Number L of steps of a trajectory, without jitter.
    jitter : float, default=0.5
        Relative spread of the path lengths. The path of each transition has a random length, uniform between
        (1 - jitter) and (1 + jitter) times L h, and is divided into the fewest equal steps that are not longer than h.
        Fixed lengths (0) may resonate: if the length is half a period of the dynamics, the square of a coordinate
        hardly changes. The length depends only on the number of the transition, so it is the same in all chains.

    References
    ----------
    .. [1] S. Byrne and M. Girolami, "Geodesic Monte Carlo on embedded manifolds", Scand. J. Stat. 40, 2013.
    """

    short_name = "gmc"
    is_compiled = True
    requires: ClassVar[tuple[type, ...]] = (HasGradient, HasLogDensity)
    requires_manifold: ClassVar[tuple[type, ...]] = (GeodesicFlow,)
    batching = "full"
    conditions_on_last_draw: ClassVar[bool] = False  # of latents; else the density is the mean over their draws
    state_types: ClassVar[tuple[type, ...]] = (MetropolisState,)
    _parameter_constraints: ClassVar[dict] = {
        **GradientSampler._parameter_constraints,
        "jitter": [Interval(Real, 0, 1, closed="left")],
    }

    step_size: StepSize = 0.1
    n_steps: int = 10
    jitter: float = 0.5

    def _first_fields(self, model, keys: np.ndarray, position: np.ndarray) -> dict[str, Any]:
        return {"accepted": np.zeros(len(keys), bool)}

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> MetropolisState:
        state = super()._begin(model, keys, position)
        log_density = model.log_density(state.position)
        if not np.isfinite(log_density).all():
            raise ValueError("The log density must be finite at the initial positions.")
        model.grad_log_density(state.position, None, state.memory.gradient)
        if first_not_finite(state.memory.gradient) >= 0:
            self._stop_at(state, 0)
        return state._replace(log_density=log_density)

    def step(self, model: Any, state: MetropolisState) -> MetropolisState:
        """One transition; ``log_density`` is that of the position."""
        t = state.n_steps
        (h,), (n_steps,) = self._paths(t, 1)
        log_density, accepted = state.log_density.copy(), np.empty(len(state.key), bool)
        geometry, chains = MethodsGeometry(model.manifold), chains_of(state)
        if not make_transition(*functions_of(model), geometry, chains, log_density, accepted, h, n_steps, t):
            self._stop_at(state, t)
        return state._replace(n_steps=t + 1, log_density=log_density, accepted=accepted)

    def _compiled_run(self, model: Any, functions: Any) -> Any:
        return None if functions.log_density is None else TransitionsRun(self, model, functions)

    def _paths(self, first: int, n_transitions: int) -> tuple[np.ndarray, np.ndarray]:
        """Step sizes and numbers of steps of some transitions, the same for all chains."""
        step_sizes, n_steps = step_sizes_at(self.step_size, first, n_transitions), np.full(n_transitions, self.n_steps)
        if self.jitter > 0:
            vary_paths(float(self.jitter), first, step_sizes, n_steps)
        return step_sizes, n_steps

    def stats(self, model: Any, state: MetropolisState) -> dict[str, np.ndarray]:
        """The ``log_density``, and whether the last proposal was ``accepted``."""
        return {"log_density": state.log_density, "accepted": state.accepted}


class BlockwiseGMC(GMC):
    r"""Geodesic Monte Carlo within Gibbs: latents given the parameters, then the parameters given the latents.

    For `SphericalAdmixture` each step draws the proportions of all documents given the topics, and then makes one
    transition of `GMC` of the topics given the proportions. Both are exact, so the stationary distribution is the joint
    posterior ("GMC-bGibbs" of [1]_).

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.1
        Time h of one step.
    n_steps : int, default=10
        Number L of steps of a trajectory, without jitter.
    jitter : float, default=0.5
        Relative spread of the path lengths. The path of each transition has a random length, uniform between
        (1 - jitter) and (1 + jitter) times L h, and is divided into the fewest equal steps that are not longer than h.
        Fixed lengths (0) may resonate: if the length is half a period of the dynamics, the square of a coordinate
        hardly changes. The length depends only on the number of the transition, so it is the same in all chains.

    References
    ----------
    .. [1] C. Liu, J. Zhu and Y. Song, "Stochastic gradient geodesic MCMC methods", NIPS 2016.
    """

    short_name = "gmc_gibbs"
    conditions_on_last_draw = True


class HMC(GMC):
    r"""Hamiltonian Monte Carlo with the Metropolis-Hastings test.

    This is `GMC` on a Euclidean space: L leapfrog steps of time h from a new standard normal momentum,

    .. math:: v \mathrel{+}= \tfrac h2 g(x), \quad x \mathrel{+}= h v, \quad v \mathrel{+}= \tfrac h2 g(x),

    accepted with probability min(1, exp(H_0 - H_1)), where :math:`H = -\log p + |v|^2 / 2`. It is exact for every step
    size. In the complete recipe D = 0 and Q = [[0, -I], [I, 0]] ([1]_, eq. 10).

    Parameters
    ----------
    step_size : float or PolynomialDecay, default=0.1
        Time h of one leapfrog step.
    n_steps : int, default=10
        Number L of leapfrog steps of a trajectory, without jitter.
    jitter : float, default=0.5
        Relative spread of the path lengths. The path of each transition has a random length, uniform between
        (1 - jitter) and (1 + jitter) times L h, and is divided into the fewest equal steps that are not longer than h.
        Fixed lengths (0) may resonate: if the length is half a period of the dynamics, the square of a coordinate
        hardly changes. The length depends only on the number of the transition, so it is the same in all chains.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    """

    short_name = "hmc"
    is_compiled = True
    requires_manifold = (Flat,)
