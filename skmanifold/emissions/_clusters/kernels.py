"""Kernels of clusters that each family has in its own form, chosen by the type of `data`.

`data` is a named tuple with the rows and the prior of a family. `statistics` are the sums of the rows of each label
(`statistics.py`). `components` are drawn parameters. `cache` has what predictive densities need of each label, and
`sides` the same for the two sides of a split. The classes of statistics, components, cache and sides belong to `data`.
A predictive density has the parameters integrated out.
"""

from __future__ import annotations

from ...utils._by_type import by_type


@by_type
def count_row(data, statistics, row, label, sign):
    """Add a row to the statistics of a label (`sign` 1), or subtract it (-1)."""


@by_type
def fill_scores(data, statistics, rows, n_above, current, components, scores):
    """Fill `scores`, (n, K), with the log densities of rows given the first ``n_above[i]`` components.

    Rows with one component need none. ``current[i]`` is the component that the row has now, which most rows keep. A
    score may be -inf if it is more than 42 below the highest of its row: then it does not change the draw of a label,
    whose random number has 53 bits.
    """


@by_type
def refresh_cluster(data, statistics, label, cache):
    """Compute the cache of a label again."""


@by_type
def add_predictive(data, statistics, cache, row, labels, n_labels, out):
    """Add to `out` the log predictive densities of a row given the rows of each label, as if it were in none."""


@by_type
def log_bayes_factor_of_labels(data, statistics, cache, label_0, label_1):
    """Log marginal density of the rows of two labels minus that of their union."""


@by_type
def merge_labels(data, statistics, kept, gone):
    """Add the statistics of one label to another, and set them to zero."""


@by_type
def note_row(data, row, sides):
    """Prepare the sides for a row that is added for the first time."""


@by_type
def add_to_side(data, statistics, row, side, sides):
    """Add a row to a side."""


@by_type
def remove_from_side(data, statistics, row, side, sides):
    """Remove a row from a side."""


@by_type
def odds_of_sides(data, statistics, row, sides):
    """Three numbers f, g and x such that f / g exp(x) is the ratio of the predictive densities of side 1 and side 0."""


@by_type
def log_predictive_of_side(data, statistics, row, sides):
    """Log predictive density of a row given side 1."""


@by_type
def log_bayes_factor_of_sides(data, statistics, cache, label, sides):
    """Log marginal density of the rows on both sides, which are the rows of `label`, minus that of their union."""


@by_type
def clear_sides(data, sides):
    """Remove all rows from both sides."""
