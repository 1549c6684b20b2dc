"""The base class of samplers of a density on a manifold: initial positions and errors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...manifolds import GeodesicFlow
from ...random._keys import Purpose, fold_in
from ...random._variates import derived_keys
from ...utils._parameters import offers
from ...utils._typing import ArrayLike
from .._base import BaseSampler, FullPasses

_LEAST = 1e-290  # coordinate whose logarithm is taken


class NonFiniteError(FloatingPointError):
    """Raised if a sampler meets a gradient or a metric that is not finite, or moves to a position that is not.

    Attributes
    ----------
    state : NamedTuple
        State of the sampler at which it evaluated the gradient or the metric.
    draws : Draws or None
        The previous draws, if `skmanifold.sample` raised the error.
    """

    draws: Any = None

    def __init__(self, message: str, state: Any = None) -> None:
        super().__init__(message)
        self.state = state


class ManifoldSampler(BaseSampler):
    """Base class of samplers of points on a manifold, which update all chains at once.

    ``requires_manifold`` lists the protocols that they require of ``model.manifold``.
    """

    requires_manifold: ClassVar[tuple[type, ...]] = ()
    draws_parameters = True
    control_variate: Any = None  # what makes gradient estimates less noisy; a constructor parameter of some
    n_steps: int = 1  # gradients of a step; a constructor parameter of some
    is_biased_near_zero: ClassVar[bool] = False  # for positive coordinates whose density is unbounded at zero
    batching = "either"  # a minibatch is part of the model: each step asks for a new one
    capabilities: ClassVar[tuple[type, ...]] = (FullPasses,)
    _draws_isolated_points: ClassVar[bool] = False  # whether it works on manifolds of dimension 0

    def init(self, model: Any, key: Any, position: ArrayLike | None = None) -> Any:
        """The state before the first step."""
        self._validate_params()
        keys = np.atleast_1d(np.asarray(key, dtype=np.uint64))
        manifold = model.manifold
        if not self._draws_isolated_points:
            _check_connected(self, manifold)
        if position is None:
            seeds = (int(fold_in(key, Purpose.START)) for key in keys)
            points = [manifold.random_point(np.random.default_rng(seed)) for seed in seeds]
            return self._begin(model, keys, np.ascontiguousarray(points))
        return self._begin(model, keys, checked_position(manifold, len(keys), position))

    @property
    def keeps_rows(self) -> bool:
        """Whether the state holds latent variables of all rows, which a stream cannot keep."""
        return False

    @property
    def is_anchored(self) -> bool:
        """Whether gradient estimates refer to a gradient of all data, computed now and then."""
        return False

    def rescale(self, state: Any, ratio: np.ndarray, noise_covariance: np.ndarray) -> None:
        """Multiply the coordinates of all chains, in place, where an estimator changes their scale during burn-in.

        The distribution of velocities does not change. A sampler whose state has more that depends on the scale
        overrides this.

        Parameters
        ----------
        state : State
            Current state.
        ratio : ndarray
            Factors of the coordinates; broadcasts to the shape of a point.
        noise_covariance : ndarray of shape (size,)
            Variances of the minibatch gradient that the target declares from now on.
        """
        state.position[...] *= ratio

    def stats(self, model: Any, state: Any) -> dict[str, np.ndarray]:
        """Diagnostics that `skmanifold.sample` stores with each draw."""
        return {}

    def burn_in(self, model: Any, state: Any, n_steps: int) -> Any:
        """Make the steps before the first draw; samplers with settings that adapt to the target override this.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.
        n_steps : int
            Number of steps.

        Returns
        -------
        state : State
            The new state.
        """
        for _ in range(n_steps):
            state = self.step(model, state)
        return state

    def compiled_run(self, model: Any, state: Any) -> Any:
        """What makes many steps in one call of a kernel, if the functions of the target are compiled.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            The initial state.

        Returns
        -------
        run : CompiledRun or None
            None if there is none for this sampler, target or manifold; here always.
        """
        return None

    def _log_position(self, state: Any) -> np.ndarray:
        """Logarithms of the absolute coordinates of all chains; those of zeros are finite."""
        return np.log(np.maximum(np.abs(state.position), _LEAST))

    def _begin_at_log(self, model: Any, keys: np.ndarray, log_position: np.ndarray) -> Any:
        """The initial state of chains at positive coordinates with these logarithms."""
        return self._begin(model, keys, np.exp(log_position))

    def _begin(self, model: Any, keys: np.ndarray, position: np.ndarray) -> Any:
        """The initial state of chains with these keys and positions; it may keep and modify the array `position`."""
        raise TypeError(f"{type(self).__name__} must define _begin(model, keys, position).")


def _check_connected(sampler: ManifoldSampler, manifold: Any) -> None:
    for factor in getattr(manifold, "factors", ()):
        _check_connected(sampler, factor)
    if offers(manifold, GeodesicFlow) and manifold.dim == 0:
        raise ValueError(
            f"{type(sampler).__name__} cannot move on {manifold!r}, whose dimension is 0: it consists of isolated "
            "points, whose probabilities can be computed from the log density at each of them."
        )


def checked_position(manifold: Any, n_chains: int, position: Any) -> np.ndarray:
    """A new array of positions, ``(n_chains, *shape)``; a ValueError if they are not points of the manifold."""
    position = np.array(position, dtype=np.float64, order="C")
    expected = (n_chains, *manifold.shape)
    if position.shape != expected:
        raise ValueError(f"position must be of shape {expected}, with one row per chain; got {position.shape}.")
    manifold.check_point(position)
    return position


def step_keys(keys: np.ndarray) -> np.ndarray:
    """Keys of the steps of all chains, which differ from those of the initial positions."""
    return derived_keys(keys, Purpose.STEP)
