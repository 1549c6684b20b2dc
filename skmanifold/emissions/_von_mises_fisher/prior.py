"""The conjugate prior of concentrations, and modes and draws given sums of rows."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from ...distributions import inverse_bessel_ratio
from ...distributions._bessel import log_density_at_mode
from ...random._keys import fold_in_each
from ...utils._conditions import MOST_COUNTED, Real
from ...utils._declared import holds
from ...utils._njit import njit
from .concentrations import draw_concentration, log_integral

_MAX_RATIO = 1.0 - 1e-12  # maximum mean resultant length, because of rounding

Concentration = float | Literal["shared", "per_component"]


@holds(rows=Real(above=0, high=MOST_COUNTED), cosine=Real(low=0, high=1))
class ConcentrationPrior(NamedTuple):
    """Prior equivalent to `rows` rows whose mean cosine with the mean direction is `cosine`."""

    rows: float
    cosine: float

    @property
    def gap(self) -> float:
        """Rows minus the sum of their cosines: a - b."""
        return self.rows * (1.0 - self.cosine)

    def mode(self, d: int, kind: Concentration, sizes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The most probable concentrations, (K,), together with directions, given sizes and lengths of sums."""
        if not isinstance(kind, str):
            return np.full(len(sizes), float(kind))
        if kind == "shared":
            lengths, sizes = np.full(len(sizes), lengths.sum()), np.full(len(sizes), sizes.sum())
        ratios = np.minimum((lengths + self.rows * self.cosine) / (sizes + self.rows), _MAX_RATIO)
        return inverse_bessel_ratio(d, ratios)

    def draw(self, d: int, kind: Concentration, sizes: np.ndarray, lengths: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw concentrations, (K,), with directions integrated out, given sizes and lengths of sums."""
        if not isinstance(kind, str):
            return np.full(len(sizes), float(kind))
        order, out = 0.5 * d - 1.0, np.empty(len(sizes))
        if kind == "shared":
            with_rows = lengths[lengths > 0.0]
            n = float(sizes.sum())
            out[:] = draw_concentration(key, order, n + self.rows, n - lengths.sum() + self.gap, with_rows)
            return out
        _draw_each(fold_in_each(key, np.arange(len(sizes))), order, self.rows, self.gap, sizes, lengths, out)
        return out

    def log_density(self, d: int, concentrations: np.ndarray) -> np.ndarray:
        """Log prior densities of concentrations, up to a constant."""
        return self.rows * log_peak(d, concentrations) - self.gap * concentrations

    def log_normalizer(self, d: int) -> float:
        """Log of the integral of the exponential of `log_density`."""
        return float(log_integral(0.5 * d - 1.0, self.rows, self.gap, np.empty(0)))


@njit(cache=True, nogil=True)
def _draw_each(keys, order, rows, gap, sizes, lengths, out):
    for k in range(len(out)):
        n = float(sizes[k])
        n_lengths = 1 if lengths[k] > 0.0 else 0
        out[k] = draw_concentration(keys[k], order, n + rows, n - lengths[k] + gap, lengths[k : k + n_lengths])


def log_peak(d: int, concentrations) -> np.ndarray:
    """Log density at the mean direction relative to the uniform distribution."""
    return log_density_at_mode(d, concentrations) - _uniform_peak(d)


@lru_cache(maxsize=16)
def _uniform_peak(d: int) -> float:
    """Log density of the uniform distribution."""
    return float(log_density_at_mode(d, 0.0))
