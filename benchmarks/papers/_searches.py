"""Searches for the best settings of samplers, with as many settings for each sampler and the same ranges for all.

The settings are points of one scrambled Sobol sequence. A range is a function of a coordinate u in [0, 1) and of a
central value: the sampler's own in the paper, or the best one of an earlier search.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

SEED = 2018  # of the scrambling


def around(factor):
    """From the central value divided by `factor` to this value times `factor`, uniform in the logarithm."""
    return lambda u, centre: centre * factor ** (2 * u - 1)


def between(low, high):
    """The same range for all samplers, uniform in the logarithm."""
    return lambda u, centre: low * (high / low) ** u


def zero_or(low, high):
    """Zero for half of the points, and uniform in the range for the others."""
    return lambda u, centre: 0.0 if u < 0.5 else low + (high - low) * (2 * u - 1)


def whole(values):
    """A range rounded to whole numbers."""
    return lambda u, centre: round(values(u, centre))


def settings_of(ranges, centre, log2_n):
    """The central settings, and 2^log2_n others with three digits."""
    points = qmc.Sobol(len(ranges), seed=SEED).random_base2(log2_n)
    found = [{name: ranges[name](u, centre[name]) for name, u in zip(ranges, point, strict=True)} for point in points]
    return [centre, *({name: float(f"{value:.3g}") for name, value in each.items()} for each in found)]


def ranked(rows, names, loss):
    """Pairs of settings with these names and their mean `loss` over seeds, in order of the loss.

    Settings whose loss is not finite are last.
    """
    losses = {}
    for each in rows:
        losses.setdefault(tuple(each[name] for name in names), []).append(
            np.nan_to_num(loss(each), nan=np.inf, posinf=np.inf)
        )
    means = [(dict(zip(names, values, strict=True)), float(np.mean(found))) for values, found in losses.items()]
    return sorted(means, key=lambda pair: pair[1])


def best_and_own(ranking, own, n_best, table):
    """The rank as text, settings and loss of the best settings and of the sampler's own, which are in a table."""
    for number, (settings, loss) in enumerate(ranking, 1):
        if number <= n_best or settings == own:
            yield f"{number} of {len(ranking)}" + (f", {table}" if settings == own else ""), settings, loss
