"""Agreement of clusters with known groups under the best one-to-one matching."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment


def match(labels, truth):
    """The group of each cluster, one to one, such that most rows agree."""
    size = 1 + max(labels.max(), truth.max())
    table = np.zeros((size, size), int)
    np.add.at(table, (labels, truth), 1)
    return linear_sum_assignment(-table)[1]


def agreement(labels, truth):
    """Share of rows in the right group under the best matching."""
    return np.mean(match(labels, truth)[labels] == truth)
