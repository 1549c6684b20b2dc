"""Warning about trajectories whose energy diverges."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

_TOLERATED = 1e-3  # share of trajectories; steep tails alone cause a few


def warn_divergences(diverging: np.ndarray | None, stacklevel: int = 4) -> None:
    """Warn if trajectories diverged after burn-in: the draws may lack a part of the distribution."""
    if diverging is None or diverging.mean() <= _TOLERATED:
        return
    warnings.warn(
        f"{np.count_nonzero(diverging)} of {diverging.size} trajectories diverged: the draws may lack narrow parts of "
        "the distribution. Increase target_acceptance, or choose coordinates in which its scales are similar.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )
