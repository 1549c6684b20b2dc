"""Steps of a split-merge move, by the kernels of a family."""

import numpy as np

from skmanifold.emissions import kernels
from skmanifold.utils._njit import njit

SIDE_1 = np.array([1])


def odds_and_density(data, sides, row):
    """The log odds of side 1, and the log predictive density of a row given it."""
    of_side_1 = np.zeros(1)
    factor_1, factor_0, log_odds = kernels.odds_of_sides(data, *sides, row, np.empty(2))
    kernels.add_predictive(data, *sides, row, SIDE_1, 1, of_side_1)
    return np.log(factor_1 / factor_0) + log_odds, of_side_1[0]


def refresh(data, statistics, posterior, labels):
    """Compute the posteriors of labels."""
    for label in labels:
        kernels.refresh_posterior(data, statistics, posterior, label)


@njit(cache=True)
def compiled_walk(data, statistics, posterior, rows, side, n_kept, row):
    """Put rows on sides and remove the last ones; returns the log odds and the predictive density of another row."""
    for i in range(len(rows)):
        kernels.update_posterior(data, statistics, posterior, rows[i], side[i], 1)
    for i in range(n_kept, len(rows)):
        kernels.update_posterior(data, statistics, posterior, rows[i], side[i], -1)
    of_side_1 = np.zeros(1)
    factor_1, factor_0, log_odds = kernels.odds_of_sides(data, statistics, posterior, row, np.empty(2))
    kernels.add_predictive(data, statistics, posterior, row, SIDE_1, 1, of_side_1)
    return np.log(factor_1 / factor_0) + log_odds, of_side_1[0]


@njit(cache=True)
def compiled_predictive(data, statistics, posterior, row, labels, out):
    """Log predictive densities of a row given labels, whose posteriors are computed first."""
    for label in labels:
        kernels.refresh_posterior(data, statistics, posterior, label)
    kernels.add_predictive(data, statistics, posterior, row, labels, len(labels), out)


@njit(cache=True)
def compiled_factor(data, statistics, posterior, label_0, label_1):
    """Log Bayes factor of two labels whose posteriors are known."""
    return kernels.log_bayes_factor(data, statistics, posterior, label_0, label_1)


@njit(cache=True)
def compiled_clear(data, statistics, posterior):
    """Remove all rows from both sides."""
    kernels.clear_sides(data, statistics, posterior)
