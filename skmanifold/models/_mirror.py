"""Positive coordinates as absolute values of points of a Euclidean space."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..manifolds import Euclidean, Manifold, PositiveOrthant
from ._charts import _LEAST, Chart, ExpandedMean, Log, Softmax, SquareRoot
from ._compatibility import is_compatible


class Mirror(Chart):
    r"""A target on a positive orthant, extended symmetrically to the whole space: :math:`x = |y|`, elementwise.

    The density :math:`\pi(|y|)` is the same in each of the orthants, and there is no Jacobian. A sampler on the
    Euclidean space that crosses a coordinate hyperplane is equivalent to one with reflection at the boundary, where the
    position is reflected and that coordinate of the momentum, if there is one, changes its sign.

    If the shape of a gamma density is below 2 and not 1, the gradient (shape - 1) / x is too large at the boundary for
    steps of any size, and `sample` raises an error for samplers without a Metropolis test. Use `Log` instead.

    Parameters
    ----------
    target : object
        A density on a `PositiveOrthant`, which gives the `Euclidean` space of the same shape.

    References
    ----------
    Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC, section 4.2.
    """

    source = PositiveOrthant

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of points: the points themselves."""
        return np.array(x, np.float64)

    def _domain(self, manifold: Any) -> Manifold:
        return Euclidean(manifold.shape)

    def _change(self, y):
        x = np.abs(y)
        return np.maximum(x, _LEAST, out=x), y

    def _pull_back(self, x, y, vectors):
        return np.copysign(1.0, y) * vectors

    def _log_jacobian(self, y):
        return np.zeros_like(y)

    def _add_jacobian_gradient(self, x, y, out):
        pass


CHARTS: tuple[type[Chart], ...] = (ExpandedMean, Softmax, SquareRoot, Log, Mirror)


def seen_by(sampler: Any, target: Any) -> Any:
    """A target in the coordinates in which a sampler can use it.

    A sampler that needs a Euclidean space can use a target on a positive orthant through `Mirror`; other targets are
    returned unchanged.

    Parameters
    ----------
    sampler : BaseSampler
        A sampler.
    target : object
        A target.

    Returns
    -------
    target : object
        The target, or `Mirror` of it.
    """
    if not is_compatible(sampler, target) and is_compatible(sampler, Mirror(target)):
        return Mirror(target)
    return target
