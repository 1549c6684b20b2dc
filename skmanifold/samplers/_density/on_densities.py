"""The samplers of densities on manifolds, and a check for gradients that diverge at a boundary, which most refuse."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...manifolds import PositiveOrthant
from ...models import HasCounts, HasGradient, IncompatibleError
from ...models._charts import Chart, ExpandedMean, SquareRoot
from ...models._euclidean_charts import Mirror
from ...utils._parameters import offers
from .._cir.scir import SCIR, GeometricBrownian
from .base import ManifoldSampler
from .fisher_scoring import SGFS
from .hamiltonian import GSGNHT, SGGMC, SGHMC, SGNHT
from .langevin import SGLD, SGRLD
from .metropolis import GMC, HMC
from .nuts import NUTS
from .riemannian import SGRHMC

_NEAR = (1e-8, 1e-6)  # distances from a boundary at which the gradient is evaluated
_ROUNDING = 1e-3

ON_DENSITIES: tuple[type[ManifoldSampler], ...] = (
    HMC,
    NUTS,
    SGLD,
    SGFS,
    SGHMC,
    SGNHT,
    SGRLD,
    SGRHMC,
    GMC,
    SGGMC,
    GSGNHT,
    SCIR,
    GeometricBrownian,
)


def check_boundary(sampler: Any, target: Any, stacklevel: int = 3) -> None:
    """Raise `IncompatibleError` if steps of `sampler` of any size are wrong at the boundary of the target.

    Near the boundary y = 0 of a coordinate the density is y^p times a smooth function. Its gradient p / y has an
    infinite second moment for p < 1 except 0. A Metropolis test, logarithmic coordinates or a metric that vanishes at
    the boundary avoid this. For p < -1/2 the metric is not sufficient, and a warning is given.
    """
    chart = _with_boundary(target)
    in_metric = isinstance(sampler, SGRLD | SGRHMC) and isinstance(target.manifold, PositiveOrthant)
    takes_part = isinstance(sampler, SGGMC | GSGNHT | SGLD | SGHMC | SGNHT | SGRLD | SGRHMC)
    if chart is None or not takes_part or getattr(sampler, "inverse_metric", None) is not None:
        return
    if not offers(target, HasGradient):
        return
    powers, again = (_powers(chart, target, distance) for distance in _NEAR)
    is_power = np.abs(powers - again) < _ROUNDING * (1 + np.abs(powers))  # false for a log-normal, or if not finite
    powers = powers[is_power & (np.abs(powers) > _ROUNDING)]
    if not powers.size or powers.min() >= (-0.5 if in_metric else 1) - _ROUNDING:
        return
    power, name = float(powers.min()), type(sampler).__name__
    word, least, right, cures = _words(chart, power)
    if in_metric:
        warnings.warn(
            f"{name} does not draw from a density whose {word} are below 1/2, and the least here is {least:.3g}: its "
            f"steps near the boundary are too long for any step size; {cures}.",
            stacklevel=stacklevel,
        )
        return
    where = f"in {type(chart).__name__}" if isinstance(chart, Chart) else f"on a {type(chart.manifold).__name__}"
    raise IncompatibleError(
        f"{name} {where} needs {word} of {right}, and the least here is {least:.3g}: at the boundary the gradient is "
        f"too large for steps of any size; {cures}."
    )


def _words(chart: Any, power: float) -> tuple[str, float, str, str]:
    """For messages: the name of the parameters, the least one, the valid values, and advice."""
    ways = "use SCIR with the target itself" if offers(getattr(chart, "target", chart), HasCounts) else ""
    if isinstance(chart, SquareRoot | ExpandedMean):
        word, cure = "concentrations", "wrap the target in Softmax(target) instead"
    else:
        word, cure = "shapes", "wrap the target in Log(target) instead"
    if isinstance(chart, SquareRoot):
        least, right = (power + 1) / 2, "1/2 or 1 and more"
    else:
        least, right = power + 1, "1 or 2 and more"
    return word, least, right, f"{cure}, or {ways}" if ways else cure


def _with_boundary(target: Any) -> Any:
    """The chart or target whose coordinates have a boundary; None if there is no boundary."""
    while target is not None:
        if isinstance(target, SquareRoot | ExpandedMean | Mirror) or isinstance(target.manifold, PositiveOrthant):
            return target
        target = getattr(target, "target", None)
    return None


def _powers(chart: Any, target: Any, distance: float) -> np.ndarray:
    """The power p of each coordinate, from the gradient at points where alternate coordinates are nearly zero."""
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
