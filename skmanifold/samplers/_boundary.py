"""Densities whose gradient explodes at a boundary: samplers without a Metropolis test do not draw from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..manifolds import PositiveOrthant
from ..models import HasCounts, HasGradient, IncompatibleError
from ..models._charts import ExpandedMean, Mirror, SquareRoot
from ..utils._offers import offers
from ._geodesic import GSGNHT, SGGMC
from ._hamiltonian import SGHMC, SGNHT
from ._langevin import SGLD, SGRLD
from ._riemannian import SGRHMC

_NEAR = (1e-8, 1e-6)  # distances from a boundary at which a gradient is looked at
_ROUNDING = 1e-3


def check_boundary(sampler: Any, target: Any) -> None:
    """Raise `IncompatibleError` where steps of `sampler` are wrong at the boundary of the target, however small.

    Near the boundary y = 0 of a coordinate the density is y^p times something smooth, with a gradient p / y whose
    second moment is infinite for p < 1 other than 0. Steps along it do not have the law of the target then. They are
    exact, or nearly, with a Metropolis test, with a metric that vanishes at the boundary, and in logarithms.
    """
    chart = _with_boundary(target)
    if chart is None or not _takes_plain_steps(sampler, target) or not offers(target, HasGradient):
        return
    powers, again = (_powers(chart, target, distance) for distance in _NEAR)
    is_power = np.abs(powers - again) < _ROUNDING * (1 + np.abs(powers))  # no log-normal, say; false where not finite
    powers = powers[is_power & (np.abs(powers) > _ROUNDING)]
    if not powers.size or powers.min() >= 1 - _ROUNDING:
        return
    power = float(powers.min())
    name, inner = type(sampler).__name__, getattr(chart, "target", chart)
    if isinstance(chart, SquareRoot | ExpandedMean):
        least = (power + 1) / 2 if isinstance(chart, SquareRoot) else power + 1
        right = "1/2 or 1 and more" if isinstance(chart, SquareRoot) else "1 or 2 and more"
        word, cure = "concentrations", "Softmax(target)"
    else:
        least, right, word, cure = power + 1, "1 or 2 and more", "shapes", "Log(target)"
    ways = [f"wrap the target in {cure} instead"]
    if offers(inner, HasCounts):
        ways.append("give it as it is to SCIR")
    where = f"in {type(chart).__name__}" if chart is not inner else f"on a {type(chart.manifold).__name__}"
    raise IncompatibleError(
        f"{name} {where} needs {word} of {right}, and the least here is {least:.3g}: at the boundary the gradient is "
        f"too large for its steps, however small; {', or '.join(ways)}."
    )


def _with_boundary(target: Any) -> Any:
    """The chart, or the target, whose coordinates have the boundary; None if there is none."""
    while target is not None:
        if isinstance(target, SquareRoot | ExpandedMean | Mirror) or isinstance(target.manifold, PositiveOrthant):
            return target
        target = getattr(target, "target", None)
    return None


def _takes_plain_steps(sampler: Any, target: Any) -> bool:
    """Whether the gradient moves the position as it is: no test, and no metric that vanishes at the boundary."""
    if isinstance(sampler, SGRLD | SGRHMC):
        return sampler.inverse_metric is None and not isinstance(target.manifold, PositiveOrthant)
    return isinstance(sampler, SGGMC | GSGNHT | SGLD | SGHMC | SGNHT)


def _powers(chart: Any, target: Any, distance: float) -> np.ndarray:
    """The power p of each coordinate, from the gradient where every other coordinate is nearly zero."""
    shape = chart.target.manifold.shape if isinstance(chart, SquareRoot) else chart.manifold.shape
    near = np.arange(shape[-1]) % 2 == np.arange(2)[:, np.newaxis]  # (2, d): each coordinate in one of two points
    near = np.broadcast_to(near.reshape(2, *(1,) * (len(shape) - 1), shape[-1]), (2, *shape))
    points = np.where(near, distance**2 if isinstance(chart, SquareRoot) else distance, 1.0)
    if isinstance(chart, SquareRoot):
        points = chart.coordinates(points)
    gradient = np.empty_like(points)
    with np.errstate(all="ignore"):
        target.grad_log_density(np.ascontiguousarray(points), None, gradient)
    return (points * gradient)[near]
