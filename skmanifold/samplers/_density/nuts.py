"""The no-U-turn sampler, with a step size and a metric that are found during burn-in."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...manifolds import Flat, GeodesicFlow
from ...manifolds._geometry import MethodsGeometry
from ...models import HasCompiledFunctions, HasGradient, HasLogDensity
from ...models._compiled_functions import GRADIENT, LOG_DENSITY
from ...utils._njit import call_compiled
from ...utils._parameters import offers
from ...utils._sklearn import Interval, StrOptions
from . import nuts_kernels
from .base import ManifoldSampler, NonFiniteError, step_keys
from .integrator_kernels import first_not_finite
from .moves import functions_of

_FIRST_WINDOW, _SHORTEST_SLOW, _LAST_WINDOW = 75, 25, 50  # of Stan
_LEAST_BURN_IN = 20  # steps; with fewer only the step size is adapted


class NUTSState(NamedTuple):
    """Chains with their step sizes and scales."""

    position: np.ndarray  # (n_chains, *shape)
    key: np.ndarray  # (n_chains,) uint64
    n_steps: int
    log_density: np.ndarray  # (n_chains,)
    gradient: np.ndarray  # (n_chains, *shape): in the coordinates of the scale
    step_size: np.ndarray  # (n_chains,)
    scale: Any
    report: np.ndarray  # (n_chains, N_REPORTED): on the last transition


@dataclass(eq=False, repr=False)
class NUTS(ManifoldSampler):
    r"""The no-U-turn sampler: Hamiltonian Monte Carlo with trajectories that end where they turn back.

    A transition draws a velocity and doubles its trajectory, forwards or backwards at random, until the distance
    between the ends of the trajectory, or of a part of it, begins to decrease ([1]_). The next state is drawn from the
    states of the trajectory with probabilities proportional to :math:`e^{-H}` ([2]_). On manifolds the steps are those
    of `GMC`, along geodesics, and the distance is that in the surrounding space.

    During burn-in the step size is adapted to an average acceptance probability by dual averaging, and on Euclidean
    spaces the metric to the covariance of the draws. Nothing has to be set. Chains adapt independently of each other.

    Parameters
    ----------
    step_size : float, optional
        Step size of the integrator; by default it is adapted.
    target_acceptance : float, default=0.8
        Average acceptance probability to which the step size is adapted. Larger values lead to smaller steps, which
        narrow parts of the distribution need.
    metric : {"diagonal", "dense", "unit"}, default="diagonal"
        The inverse mass matrix: the variances of the draws, their covariance matrix, or the identity, as on other
        manifolds.
    max_depth : int, default=10
        Largest number of doublings of a trajectory.

    References
    ----------
    .. [1] M. D. Hoffman and A. Gelman, "The No-U-Turn sampler", JMLR 15, 2014.
    .. [2] M. Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo", arXiv:1701.02434, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import sample
    >>> from skmanifold.manifolds import Euclidean
    >>> from skmanifold.models import Density
    >>> from skmanifold.samplers import NUTS
    >>> variances = np.array([1.0, 1e4])
    >>> target = Density(Euclidean(2), lambda x: -x / variances, log_density=lambda x: -0.5 * np.sum(x**2 / variances))
    >>> draws = sample(target, NUTS(), n_draws=500, random_state=0)
    >>> (draws.flat().std(axis=0) / [1, 100]).round(1).tolist()
    [1.0, 1.0]
    """

    short_name = "nuts"
    requires: ClassVar[tuple[type, ...]] = (HasGradient, HasLogDensity)
    requires_manifold: ClassVar[tuple[type, ...]] = (GeodesicFlow,)
    batching = "full"
    state_types: ClassVar[tuple[type, ...]] = (NUTSState,)
    _parameter_constraints: ClassVar[dict] = {
        "step_size": [None, Interval(Real, 0, None, closed="neither")],
        "target_acceptance": [Interval(Real, 0, 1, closed="neither")],
        "metric": [StrOptions({"diagonal", "dense", "unit"})],
        "max_depth": [Interval(Integral, 1, 20, closed="both")],
    }

    step_size: float | None = None
    target_acceptance: float = 0.8
    metric: Literal["diagonal", "dense", "unit"] = "diagonal"
    max_depth: int = 10

    def _begin(self, model: Any, keys: np.ndarray, position: np.ndarray) -> NUTSState:
        n_chains, size = len(keys), model.manifold.size
        log_density, gradient = model.log_density(position), np.zeros_like(position)
        if not np.isfinite(log_density).all():
            raise ValueError("The log density must be finite at the initial positions.")
        model.grad_log_density(position, None, gradient)
        scale: Any = nuts_kernels.UnitScale(size)
        if offers(model.manifold, Flat) and self.metric == "diagonal":
            scale = nuts_kernels.DiagonalScale(np.ones((n_chains, size)))
        elif offers(model.manifold, Flat) and self.metric == "dense":
            scale = nuts_kernels.DenseScale(np.tile(np.eye(size), (n_chains, 1, 1)))
        step_size = np.full(n_chains, 1.0 if self.step_size is None else float(self.step_size))
        report = np.zeros((n_chains, nuts_kernels.N_REPORTED))
        state = NUTSState(position, step_keys(keys), 0, log_density, gradient, step_size, scale, report)
        if first_not_finite(gradient) >= 0:
            raise NonFiniteError(
                f"NUTS met a gradient that is not finite in chain {first_not_finite(gradient)}.", state
            )
        if self.step_size is None:
            _Kernels(self, model).fill_step_sizes(state)
        return state

    def step(self, model: Any, state: NUTSState) -> NUTSState:
        """One transition."""
        return _Kernels(self, model).run(state, 1)

    def burn_in(self, model: Any, state: NUTSState, n_steps: int) -> NUTSState:
        """Transitions that adapt the step size and the metric."""
        kernels, adapts_metric = _Kernels(self, model), not isinstance(state.scale, nuts_kernels.UnitScale)
        if self.step_size is not None and not adapts_metric:
            return kernels.run(state, n_steps)
        averaging = np.zeros((len(state.key), nuts_kernels.N_AVERAGING))
        nuts_kernels.start_averaging(state.step_size, averaging)
        for length, is_slow in _windows(n_steps):
            moments = _moments_for(state) if is_slow and adapts_metric else None
            state = kernels.run(state, length, averaging=averaging, moments=moments)
            if moments is not None:
                state = self._rescaled(kernels, state, moments)
                nuts_kernels.start_averaging(state.step_size, averaging)
        if self.step_size is None and n_steps > 0:
            state.step_size[:] = np.exp(averaging[:, 2])
        return state

    def _rescaled(self, kernels: _Kernels, state: NUTSState, moments: Any) -> NUTSState:
        """The state with the scale of these moments, shrunk as in Stan."""
        squares, gradient = moments.squares, state.gradient
        n = moments.counts.reshape(-1, *(1,) * (squares.ndim - 1))
        covariances, diagonal = squares / (n - 1), isinstance(state.scale, nuts_kernels.DiagonalScale)
        if diagonal:
            scale: Any = nuts_kernels.DiagonalScale(np.sqrt((n * covariances + 5e-3) / (n + 5)))
        else:
            covariances = np.tril(covariances) + np.tril(covariances, -1).mT
            shrunk = (n * covariances + 5e-3 * np.eye(squares.shape[-1])) / (n + 5)
            scale = nuts_kernels.DenseScale(np.linalg.cholesky(shrunk))
        kernels.model.grad_log_density(state.position, None, gradient)
        flat = gradient.reshape(len(n), -1)
        flat[...] = flat * scale.roots if diagonal else np.einsum("cij,ci->cj", scale.roots, flat)
        state = state._replace(scale=scale)
        if self.step_size is None:
            kernels.fill_step_sizes(state)
        return state

    def stats(self, model: Any, state: NUTSState) -> dict[str, np.ndarray]:
        """Diagnostics of the last transition."""
        return {"log_density": state.log_density, **reported(state.report), "step_size": state.step_size}

    def compiled_run(self, model: Any, state: NUTSState) -> Any:
        """What makes many transitions in one call of a kernel."""
        kernels = _Kernels(self, model)
        return kernels if kernels.functions is not None else None


def reported(reports: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics by name from reports ``(..., N_REPORTED)``."""
    return {
        "energy": reports[..., nuts_kernels.ENERGY].copy(),
        "diverging": reports[..., nuts_kernels.DIVERGING] > 0,
        "acceptance": reports[..., nuts_kernels.ACCEPTANCE].copy(),
        "depth": reports[..., nuts_kernels.DEPTH].astype(np.int64),
        "n_gradients": reports[..., nuts_kernels.N_GRADIENTS].astype(np.int64),
    }


def _moments_for(state: NUTSState) -> Any:
    """Moments for the scale of a state, before the first draw."""
    kind = nuts_kernels.Variances if isinstance(state.scale, nuts_kernels.DiagonalScale) else nuts_kernels.Covariances
    roots = state.scale.roots
    return kind(np.zeros(len(roots)), np.zeros(roots.shape[:2]), np.zeros_like(roots))


def _windows(n_steps: int) -> list[tuple[int, bool]]:
    """Lengths of the windows of burn-in, and whether the metric is computed from them, as in Stan."""
    if n_steps < _LEAST_BURN_IN:
        return [(n_steps, False)]
    first, slow, last = _FIRST_WINDOW, _SHORTEST_SLOW, _LAST_WINDOW
    if first + slow + last > n_steps:
        first, last = int(0.15 * n_steps), int(0.1 * n_steps)
        slow = n_steps - first - last
    windows, left = [(first, False)], n_steps - first - last
    while left > 0:
        length = left if left < 3 * slow else slow  # the rest is too short for the next window
        windows.append((length, True))
        left, slow = left - length, 2 * slow
    return [*windows, (last, False)]


class _Kernels:
    """Calls of the kernels for a target, interpreted or compiled; in compiled form many transitions in one call."""

    def __init__(self, sampler: NUTS, model: Any) -> None:
        self.sampler, self.model = sampler, model
        functions = model.compiled_functions() if offers(model, HasCompiledFunctions) else None
        compiled = functions is not None and functions.log_density is not None and model.manifold.geometry is not None
        self.functions = functions if compiled and type(sampler) is NUTS else None
        shape = (model.manifold.size,) if self.functions is not None else model.manifold.shape
        depth = sampler.max_depth
        ends, inner, blocks, candidates, point = (
            np.zeros((*axes, 1, *shape)) for axes in ((3, 2), (2, 2), (3, depth, 2), (2, 2), ())
        )
        self._work = nuts_kernels.Workspace(ends, inner, blocks, candidates, point, np.zeros(1))

    def _call(self, kernel: Any, state: NUTSState, *arguments: Any) -> None:
        manifold, points = self.model.manifold, [state.position, state.gradient]
        if self.functions is not None:
            points = [array.reshape(len(array), -1) for array in points]
        arguments = (state.key, state.n_steps, *points, state.log_density, state.step_size, *arguments)
        if self.functions is not None:
            functions = {GRADIENT: self.functions.gradient, LOG_DENSITY: self.functions.log_density}
            call_compiled(kernel, functions, manifold.geometry, state.scale, self._work, *arguments)
        else:
            with np.errstate(all="ignore"):
                kernel(*functions_of(self.model), MethodsGeometry(manifold), state.scale, self._work, *arguments)

    def run(
        self,
        state: NUTSState,
        n_steps: int,
        averaging: np.ndarray | None = None,
        moments: Any = None,
        thin: int = 1,
        draws: np.ndarray | None = None,
        log_densities: np.ndarray | None = None,
        reports: np.ndarray | None = None,
    ) -> NUTSState:
        """Make transitions of all chains."""
        n_chains, sampler = len(state.key), self.sampler
        adapts = averaging is not None and sampler.step_size is None
        self._call(
            nuts_kernels.run_nuts,
            state,
            n_steps,
            sampler.max_depth,
            float(sampler.target_acceptance),
            np.zeros((n_chains, nuts_kernels.N_AVERAGING)) if averaging is None else averaging,
            adapts,
            nuts_kernels.NoMoments(0) if moments is None else moments,
            thin,
            np.empty((n_chains, 0, state.position[0].size)) if draws is None else draws,
            np.empty((n_chains, 0)) if log_densities is None else log_densities,
            state.report[:, np.newaxis] if reports is None else reports,
        )
        return state._replace(n_steps=state.n_steps + n_steps)

    def fill_step_sizes(self, state: NUTSState) -> None:
        """Set the first step sizes of all chains."""
        self._call(nuts_kernels.fill_step_sizes, state)

    def skip(self, state: NUTSState, n_steps: int) -> NUTSState:
        """Burn-in, with adaptation."""
        return self.sampler.burn_in(self.model, state, n_steps)

    def draw(self, state: NUTSState, thin: int, positions: np.ndarray, stats: dict[str, np.ndarray]) -> NUTSState:
        """Make `thin` steps for each draw."""
        n_chains, n_draws = positions.shape[:2]
        reports = np.zeros((n_chains, n_draws, nuts_kernels.N_REPORTED))
        state = self.run(
            state,
            n_draws * thin,
            thin=thin,
            draws=positions.reshape(n_chains, n_draws, -1),
            log_densities=stats["log_density"],
            reports=reports,
        )
        for name, values in reported(reports).items():
            stats[name][...] = values
        stats["step_size"][...] = state.step_size[:, np.newaxis]
        return state
