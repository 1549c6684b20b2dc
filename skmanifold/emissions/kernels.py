"""Kernels of clusters that each family has in its own form, chosen by the type of `data`.

`data` is a named tuple with the rows and the prior of a family. `statistics` are the sums of the rows of each label
(`statistics.py`). `components` are drawn parameters. `posterior` has what predictive and marginal densities need of
each label, with the parameters integrated out. The classes of statistics, components and posterior belong to `data`.

A split-merge move has statistics and a posterior of its own for the two sides of a split, which are the labels 0 and 1;
label 2 is scratch. A family needs the first six kernels; the others have defaults that use these.
"""

import numpy as np

from ..utils._njit import by_type, njit_part

_SIDES = np.array([0, 1])


@by_type
def count_row(data, statistics, row, label, sign):
    """Add a row to the statistics of a label (`sign` 1), or subtract it (-1)."""


@by_type
def fill_scores(data, statistics, rows, n_above, current, components, scores):
    """Fill `scores`, (n, K), with the log densities of rows given the first ``n_above[i]`` components.

    Rows with one component need none; most keep ``current[i]``. A score more than 42 below the highest of its row may
    be -inf: a label's random number has 53 bits.
    """


@by_type
def merge_labels(data, statistics, kept, gone):
    """Add the statistics of one label to another, and set them to zero."""


@by_type
def refresh_posterior(data, statistics, posterior, label):
    """Compute the posterior of a label again."""


@by_type
def add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    """Add to `out` the log predictive densities of a row given the rows of each label, as if it were in none."""


@by_type
def log_bayes_factor(data, statistics, posterior, label_0, label_1):
    """Log marginal density of the rows of two labels minus that of their union."""


@by_type
def update_posterior(data, statistics, posterior, row, label, sign):
    """Add a row to a label (`sign` 1), or remove it (-1), in the statistics and in the posterior."""


@by_type
def odds_of_sides(data, statistics, posterior, row, scratch):
    """Three numbers f, g and x such that f / g exp(x) is the ratio of the predictive densities of label 1 and label 0.

    `scratch` has shape (2,).
    """


@by_type
def clear_sides(data, statistics, posterior):
    """Remove all rows from the labels 0 and 1."""


@update_posterior.of(None)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    count_row(data, statistics, row, label, sign)
    refresh_posterior(data, statistics, posterior, label)


@odds_of_sides.of(None)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    scratch[0] = scratch[1] = 0.0
    add_predictive(data, statistics, posterior, row, _SIDES, 2, scratch)
    return 1.0, 1.0, scratch[1] - scratch[0]


@clear_sides.of(None)
@njit_part
def _clear_sides(data, statistics, posterior):
    for side in range(2):
        merge_labels(data, statistics, 2, side)  # label 2 is never read
        refresh_posterior(data, statistics, posterior, side)
