"""How much the log density of a chain has risen in its last passes."""

from __future__ import annotations

from collections.abc import Sequence

N_COMPARED = 7  # passes in each of the two means that are compared


def mean_rise(log_density: Sequence[float]) -> float:
    """Mean log density of the last seven passes minus that of the seven before.

    Parameters
    ----------
    log_density : sequence of float
        The log density of each pass so far.

    Returns
    -------
    rise : float
        In nats; infinite if there are fewer than 14 passes.
    """
    if len(log_density) < 2 * N_COMPARED:
        return float("inf")
    rise = sum(log_density[-N_COMPARED:]) - sum(log_density[-2 * N_COMPARED : -N_COMPARED])
    return rise / N_COMPARED
