"""Chains of proportions put at given places, where the number of topics changes."""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import fold_in
from ...random._variates import log_gamma_variate
from ...utils._njit import njit

_LEAST = 1e-300  # of a share: its logarithm is finite


@njit(cache=True, nogil=True)
def place_proportions(proportions, rows, alpha, key, on_sphere, points):
    """Put the chains of documents `rows` at proportions, (n, K); `points` are those of all documents.

    In logarithms of gammas their sum, which the documents do not see, is drawn anew.
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
