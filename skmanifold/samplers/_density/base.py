"""What samplers of a density on a manifold share: where their chains begin, and how they stop."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...manifolds import GeodesicFlow
from ...random._keys import Purpose, fold_in
from ...random._variates import fold_keys
from ...utils._protocol_check import offers
from ...utils._typing import ArrayLike
from .._base import BaseSampler, State


class NonFiniteError(FloatingPointError):
    """A gradient that is not finite stopped a sampler.

    Attributes
    ----------
    state : State
        Where the sampler stood when it asked for the gradient.
    draws : Draws or None
        What `skmanifold.sample` had drawn until then.
    """

    draws: Any = None

    def __init__(self, message: str, state: State | None = None) -> None:
        super().__init__(message)
        self.state = state


class ManifoldSampler(BaseSampler):
    """Base class of samplers that move points of a manifold, all chains at once.

    ``requires_manifold`` lists the protocols that they ask of ``model.manifold``.
    """

    requires_manifold: ClassVar[tuple[type, ...]] = ()
    batching = "either"
    _draws_isolated_points: ClassVar[bool] = False  # which moves along a manifold never reach

    def init(self, model: Any, key: Any, position: ArrayLike | None = None) -> State:
        """The state before the first step.

        Parameters
        ----------
        model : target
            What is drawn from.
        key : ndarray of shape (n_chains,), uint64
            One key for each chain.
        position : ndarray of shape (n_chains, *shape), optional
            Where to begin; by default at random points of the manifold.

        Returns
        -------
        state : State
            The initial state.

        Raises
        ------
        ValueError
            If a parameter is invalid, a position is not on the manifold, or the manifold consists of isolated points.
        """
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

    def stats(self, model: Any, state: State) -> dict[str, np.ndarray]:
        """Diagnostics that `skmanifold.sample` stores with each draw.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        stats : dict of str to ndarray
            Arrays whose first axis is that of the chains.
        """
        return {}

    def _begin(self, model: Any, keys: np.ndarray, position: np.ndarray) -> State:
        """The first state of chains with these keys at these positions, which it may keep and write to."""
        raise TypeError(f"{type(self).__name__} does not say how to begin: define _begin(model, keys, position).")


def _check_connected(sampler: ManifoldSampler, manifold: Any) -> None:
    for factor in getattr(manifold, "factors", ()):
        _check_connected(sampler, factor)
    if offers(manifold, GeodesicFlow) and manifold.dim == 0:
        raise ValueError(
            f"{type(sampler).__name__} cannot move on {manifold!r}, whose dimension is 0: it consists of isolated "
            "points, whose probabilities can be computed from the log density at each of them."
        )


def checked_position(manifold: Any, n_chains: int, position: Any) -> np.ndarray:
    """A fresh array of given positions, ``(n_chains, *shape)``; a ValueError if they are not points of the manifold."""
    position = np.array(position, dtype=np.float64, order="C")
    expected = (n_chains, *manifold.shape)
    if position.shape != expected:
        raise ValueError(f"position must be of shape {expected}, chains first; got {position.shape}.")
    manifold.check_point(position)
    return position


def step_keys(keys: np.ndarray) -> np.ndarray:
    """The streams of the chains' steps, apart from those of their starts."""
    out = np.empty_like(keys)
    fold_keys(keys, Purpose.STEP, out)
    return out
