"""The complete recipe: a sampler defined by a diffusion matrix, a curl matrix and an energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from ...manifolds import DiffusionMetric
from ...models import HasGradient
from ...numerics.linalg import times
from ...random._keys import Purpose
from ...random._variates import fill_normal
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike
from ...utils._vectorize import call_at_all
from .._schedule import StepSize
from .base import NonFiniteError
from .gradient_base import SVRG, GradientSampler, GradientState, MomentumState
from .integrator_kernels import first_not_finite
from .metric import divergence_of, positive_part
from .noise_covariance import NoiseCovariance, fill_matrix_noise

_ROUNDING = 1e-9  # relative size up to which an eigenvalue is zero, and a matrix symmetric


class InvalidRecipeError(ValueError):
    """Raised if a sampler does not leave its target invariant, or does not agree with its recipe."""


@runtime_checkable
class HasRecipe(Protocol):
    """A sampler of a diffusion that leaves its target invariant."""

    def recipe(self, model: Any) -> Recipe:
        """D, Q and H of the diffusion, for `check_recipe`.

        Parameters
        ----------
        model : object
            The target.

        Returns
        -------
        recipe : Recipe
            The recipe.
        """


@dataclass(eq=False, repr=False)
class Recipe(GradientSampler):
    r"""The complete recipe of stochastic-gradient MCMC: any diffusion that leaves the target invariant.

    The state z is the position x, flattened, followed by `n_auxiliary` auxiliary variables a; the energy is
    :math:`H(z) = -\log p(x) + K(z)`. For any positive semi-definite D(z) and skew-symmetric Q(z),

    .. math:: dz = \left[ -(D + Q) \nabla H + \Gamma \right] dt + \sqrt{2 D}\, dW, \qquad
        \Gamma_i = \sum_j \partial_j (D_{ij} + Q_{ij})

    has the stationary density :math:`\exp(-H)`, and every diffusion with this stationary density has this form ([1]_,
    eqs. 2-3, theorems 1 and 2). A step is one Euler step (eq. 6 of [1]_, where the sign of the correction is wrong),

    .. math:: z' = z + h \left[ -(D + Q) \nabla \tilde H + \Gamma \right] + N(0, h (2 D - h \hat B)), \qquad
        \hat B = (D + Q)\, \mathrm{blockdiag}(\hat V, 0)\, (D + Q)^\top,

    whose covariance is clipped to be positive semi-definite. The marginal distribution of x is the target if
    :math:`\int \exp(-K) da` does not depend on x.

    The ``position`` of a state is x. Where there are auxiliary variables, its ``momentum`` is a, ``(n_chains,
    n_auxiliary)``. Without `hamiltonian`, a begins standard normal, which is its stationary distribution; with it, at
    zero: the state that `init` returns can be given another ``momentum``.

    Parameters
    ----------
    diffusion : array-like of shape (nz, nz) or callable
        D, or a function of z, ``(nz,)``, that returns it. nz is the size of a point plus `n_auxiliary`.
    curl : array-like of shape (nz, nz) or callable
        Q, or a function of z that returns it.
    hamiltonian : callable, optional
        K, a function of z that returns a number. By default :math:`|a|^2 / 2`.
    correction : callable, optional
        :math:`\Gamma`, a function of z that returns ``(nz,)``. By default it is computed from D and Q by the method
        `derivative`.
    drift : callable, optional
        A function ``f(z, gradient)`` that returns the drift dz/dt, ``(nz,)``, given the gradient of the log density at
        x or its estimate, ``(size,)``. It replaces :math:`-(D + Q) \nabla H + \Gamma` in the step. Use it to compare
        the update equation of a paper with D, Q and the energy by `check_recipe`.
    n_auxiliary : int, default=0
        Number of auxiliary variables, such as momenta and thermostats.
    step_size : float or PolynomialDecay, default=0.01
        Time h of the diffusion, the epsilon of [1]_.
    derivative : {"central", "complex"}, default="central"
        Method for the correction and the gradient of `hamiltonian`: five-point central differences, which stay inside
        the domain, or the complex step, which is exact to rounding for analytic functions that accept complex numbers.
    flip : bool, default=True
        At a boundary (of a positive orthant) the position is reflected into the space. If there are at least as many
        auxiliary variables as coordinates, the first ones are the momenta of the coordinates, and the momenta of
        reflected coordinates are reversed. Without that such a sampler does not leave the target invariant.
    noise_covariance : "model", "fisher", float, array-like or None, default="model"
        Covariance V of the gradient noise; see `SGLD`.
    control_variate : SVRG, optional
        Variance reduction of minibatch gradients.
    vectorized : bool, default=False
        Whether the functions accept all points at once: z is ``(n, nz)``, and the returned arrays also have this
        leading axis.

    Raises
    ------
    InvalidRecipeError
        By `init`, if at the initial points a function returns a wrong shape or values that are not finite, D is not
        positive semi-definite or Q is not skew-symmetric. By `step`, if D is not positive semi-definite and there is no
        gradient noise to compensate.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.

    Examples
    --------
    SGHMC with friction 1.5 on a standard normal target, z = (x, r):

    >>> import numpy as np
    >>> from skmanifold.manifolds import Euclidean
    >>> from skmanifold.models import Density
    >>> from skmanifold.samplers import Recipe, check_recipe
    >>> target = Density(Euclidean(1), grad_log_density=lambda x: -x, log_density=lambda x: -0.5 * x @ x)
    >>> sghmc = Recipe(diffusion=np.diag([0, 1.5]), curl=[[0, -1], [1, 0]], n_auxiliary=1, step_size=0.05)
    >>> state = sghmc.init(target, np.arange(4, dtype=np.uint64))
    >>> sghmc.step(target, state).momentum.shape
    (4, 1)

    `check_recipe` rejects the same update without friction:

    >>> naive = Recipe(np.diag([0, 1.5]), [[0, -1], [1, 0]], drift=lambda z, g: [z[1], g[0]], n_auxiliary=1)
    >>> check_recipe(naive, target)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    skmanifold.samplers._density.recipe.InvalidRecipeError: Recipe's drift does not leave the target invariant: ...
    """

    short_name = "recipe"
    requires_manifold = (DiffusionMetric,)
    state_types = (GradientState, MomentumState)  # without auxiliary variables, and with them
    _parameter_constraints: ClassVar[dict] = {
        **GradientSampler._parameter_constraints,
        "diffusion": ["array-like", callable],
        "curl": ["array-like", callable],
        "hamiltonian": [None, callable],
        "correction": [None, callable],
        "drift": [None, callable],
        "n_auxiliary": [Interval(Integral, 0, None, closed="left")],
        "derivative": [StrOptions({"central", "complex"})],
        "flip": ["boolean"],
        "vectorized": ["boolean"],
    }

    diffusion: Callable[..., ArrayLike] | ArrayLike
    curl: Callable[..., ArrayLike] | ArrayLike
    hamiltonian: Callable[..., ArrayLike] | None = None
    correction: Callable[..., ArrayLike] | None = None
    drift: Callable[..., ArrayLike] | None = None
    _: KW_ONLY
    n_auxiliary: int = 0
    step_size: StepSize = 0.01
    derivative: Literal["central", "complex"] = "central"
    flip: bool = True
    noise_covariance: NoiseCovariance = "model"
    control_variate: SVRG | None = None
    vectorized: bool = False

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> GradientState | MomentumState:
        state: Any = super()._begin(model, keys, position)
        n_chains, nz = len(keys), model.manifold.size + self.n_auxiliary
        if self.n_auxiliary:
            momentum = np.zeros((n_chains, self.n_auxiliary))
            if self.hamiltonian is None:
                fill_normal(keys, Purpose.MOMENTUM, momentum)
            state = MomentumState._make((*state, momentum))
        if wrong := invalid_matrices(*self._matrices(joint_state(state)), joint_state(state)):
            raise InvalidRecipeError(f"Recipe's {wrong}.")
        return state._replace(memory=state.memory._replace(noise=np.empty((n_chains, nz))))

    def recipe(self, model: HasGradient) -> Recipe:
        """The recipe itself."""
        return self

    def _move(self, model, state: Any, h: float, t: int) -> Any:
        memory, gradient = self._estimate_gradient(model, state, t)
        gradient = gradient.reshape(len(gradient), -1)
        z = joint_state(state)
        diffusion, curl = self._matrices(z)
        positive = positive_part(model.manifold, z.shape[1])
        moved, covariance = z + h * self._drift_at(z, gradient, positive, (diffusion, curl)), 2 * h * diffusion
        if memory.covariance is not None:
            estimated = memory.covariance.matrix()
            response = (diffusion + curl)[:, :, : estimated.shape[-1]]
            covariance = covariance - h * h * (response @ estimated @ response.mT)
        for name, values in (("drift", moved), ("diffusion", covariance)):
            if (chain := first_not_finite(values)) >= 0:
                raise NonFiniteError(
                    f"Recipe met a {name} that is not finite at step {t} of chain {chain}; the error's state holds the "
                    "position.",
                    state,
                )
        values = fill_matrix_noise(memory.keys, covariance, memory.noise)
        # Gradient noise may exceed the diffusion; without it, negative eigenvalues are an error in the diffusion.
        if memory.covariance is None and (least := values.min()) < -_ROUNDING * np.abs(values).max():
            raise InvalidRecipeError(
                f"Recipe's diffusion is not positive semi-definite: its least eigenvalue is {least / (2 * h):.3g}."
            )
        moved += memory.noise
        self._come_back(model.manifold, state, moved)
        return state

    def _come_back(self, manifold, state: Any, moved: np.ndarray) -> None:
        """Write z to the arrays of the state, reflected into the space."""
        position, size = state.position, manifold.size
        position[...] = moved[:, :size].reshape(position.shape)
        if self.n_auxiliary:
            state.momentum[...] = moved[:, size:]
        if self.flip and self.n_auxiliary >= size:
            momentum = np.ascontiguousarray(moved[:, size : 2 * size]).reshape(position.shape)
            manifold.reflect(position, momentum)
            state.momentum[:, :size] = momentum.reshape(len(moved), size)
        else:
            manifold.reflect(position)

    # Also used by check_recipe: all functions accept points z, (n, nz), and return arrays (n or 1, ...)

    def _matrices(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """D and Q."""
        square = (z.shape[1], z.shape[1])
        return self._at("diffusion", square, z), self._at("curl", square, z)

    def _drift_at(self, z, gradient, positive, matrices=None) -> np.ndarray:
        """The drift of z: the parameter `drift`, or by default that of the recipe."""
        if self.drift is not None:
            return self._at("drift", z.shape[1:], z, gradient)
        return self._recipe_drift(z, gradient, positive, matrices)

    def _recipe_drift(self, z, gradient, positive, matrices=None) -> np.ndarray:
        """-(D + Q) grad H + Gamma."""
        diffusion, curl = self._matrices(z) if matrices is None else matrices
        slope = self._energy_gradient(z, gradient, positive)
        return self._correction_at(z, positive) - times(diffusion + curl, slope)

    def _energy_gradient(self, z, gradient, positive, method: str | None = None) -> np.ndarray:
        """The gradient of H, given that of log p."""
        size = gradient.shape[1]
        if self.hamiltonian is None:
            slope = z.copy()
            slope[:, :size] = 0.0
        else:

            def energy(points: np.ndarray) -> np.ndarray:
                return np.repeat(self._at("hamiltonian", (), points)[:, None], points.shape[1], axis=1)

            slope = divergence_of(energy, z, positive, method or self.derivative)
        slope[:, :size] -= gradient
        return slope

    def _correction_at(self, z, positive) -> np.ndarray:
        """Gamma: the parameter `correction`, or by default computed from D and Q."""
        if self.correction is not None:
            return self._at("correction", z.shape[1:], z)
        return self._derived_correction(z, positive, self.derivative)

    def _derived_correction(self, z, positive, method: str) -> np.ndarray:
        if not callable(self.diffusion) and not callable(self.curl):
            return np.zeros_like(z)

        def field(points: np.ndarray) -> np.ndarray:
            diffusion, curl = self._matrices(points)
            return diffusion + curl

        return divergence_of(field, z, positive, method)

    def _at(self, name: str, shape: tuple[int, ...], z: np.ndarray, *more: np.ndarray) -> np.ndarray:
        """Values of a parameter at many points, ``(n, *shape)``, or ``(1, *shape)`` if it is constant."""
        function: Any = getattr(self, name)
        if not callable(function):
            values = np.asarray(function, dtype=np.float64)[None]
        elif not self.vectorized and len(z) > 1 and all((each == each[0]).all() for each in (z, *more)):
            # all points are equal: evaluate the function once
            first = call_at_all(function, name, False, *(each[:1] for each in (z, *more)))
            values = np.repeat(np.asarray(first), len(z), axis=0)
        else:
            values = np.asarray(call_at_all(function, name, self.vectorized, z, *more))
        if values.dtype != np.complex128:
            values = values.astype(np.float64, copy=False)
        if values.shape[1:] != shape or len(values) not in (1, len(z)):
            raise InvalidRecipeError(
                f"Recipe's {name} must be of shape {shape}, because z has {z.shape[1]} entries, of which "
                f"{self.n_auxiliary} are auxiliary; got {values.shape[1:]}."
            )
        return values


def joint_state(state: Any) -> np.ndarray:
    """The z of each chain, ``(n_chains, nz)``: position, momentum and thermostat, if they exist."""
    n_chains = len(state.position)
    parts = [getattr(state, name, None) for name in ("position", "momentum", "thermostat")]
    return np.concatenate([part.reshape(n_chains, -1) for part in parts if part is not None], axis=1)


def invalid_matrices(diffusion: np.ndarray, curl: np.ndarray, z: np.ndarray) -> str | None:
    """A message about the worst violation of the conditions on D and Q at the points z; None if they are valid."""
    for name, matrices in (("diffusion", diffusion), ("curl", curl)):
        if (at := first_not_finite(matrices)) >= 0:
            return f"{name} is not finite at {format_point(z[at])}"
    skewness, symmetry = diffusion - diffusion.mT, curl + curl.mT
    conditions = (
        (np.abs(skewness).max(axis=(1, 2)), diffusion, "diffusion is not symmetric: D - D' has an entry of size"),
        (
            -np.linalg.eigvalsh(diffusion)[:, 0],
            diffusion,
            "diffusion is not positive semi-definite: its least eigenvalue is",
        ),
        (np.abs(symmetry).max(axis=(1, 2)), curl, "curl is not skew-symmetric: Q + Q' has an entry of size"),
    )
    for amount, matrices, sentence in conditions:
        at = int(np.argmax(amount))
        if amount[at] > _ROUNDING * np.abs(matrices[at]).max():
            size = -amount[at] if "eigenvalue" in sentence else amount[at]
            return f"{sentence} {size:.3g} at {format_point(z[at])}"
    return None


def format_point(z: np.ndarray) -> str:
    """Format a point z for messages."""
    return f"z = {np.array2string(z, 1000, 4, threshold=8, separator=', ')}"
