"""Set the chains of proportions to given proportions when the number of topics changes."""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import fold_in
from ...random._variates import log_gamma_variate
from ...utils._njit import njit

_LEAST = 1e-300  # least proportion, so that its logarithm is finite


@njit(cache=True, nogil=True)
def place_proportions(proportions, rows, alpha, key, on_sphere, points):
    """Set the chains of documents `rows` to the given proportions, (n, K); `points` has the chains of all documents.

    In the coordinates of log gamma variates, their sum does not enter the likelihood and is drawn from its prior.
    """
    total = alpha.sum()
    for i in range(len(rows)):
        row = rows[i]
        if on_sphere:
            points[row] = np.sqrt(proportions[i])
        else:
            log_sum = log_gamma_variate(fold_in(key, row), total)
            for k in range(len(alpha)):
                points[row, k] = log_sum + math.log(max(proportions[i, k], _LEAST))
