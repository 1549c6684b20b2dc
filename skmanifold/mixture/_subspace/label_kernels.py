"""Kernels over the rows of a mixture of affine subspaces: log densities, and moments by label."""

from __future__ import annotations

import numpy as np

from ...numerics.row_batches import ROW_LANES, load_rows
from ...utils._njit import njit


@njit(cache=True, nogil=True)
def add_log_terms(X, start, stop, bases, dims, ratios, centres, noise, offsets, out):
    """Add the log densities of rows start to stop of X to `out`, (stop - start, K).

    `offsets`, (K,), are the log densities of the components at their centres. Rows are columns of a batch.

    The squared distance to a subspace is the squared length of the residual of the projection. The difference of two
    squared lengths would be inaccurate for rows near the subspace.
    """
    m = X.shape[1]
    rows, left = np.empty((m, ROW_LANES)), np.empty((m, ROW_LANES))
    across, along, within = np.empty(ROW_LANES), np.empty(ROW_LANES), np.empty(ROW_LANES)
    for first in range(start, stop, ROW_LANES):
        load_rows(X, first, stop, rows)
        for k in range(len(dims)):
            for a in range(m):
                centre = centres[k, a]
                for lane in range(ROW_LANES):
                    left[a, lane] = rows[a, lane] - centre
            for lane in range(ROW_LANES):
                within[lane] = 0.0
            for j in range(dims[k]):
                for lane in range(ROW_LANES):
                    along[lane] = 0.0
                for a in range(m):
                    entry = bases[k, j, a]
                    for lane in range(ROW_LANES):
                        along[lane] += entry * left[a, lane]
                for a in range(m):
                    entry = bases[k, j, a]
                    for lane in range(ROW_LANES):
                        left[a, lane] -= entry * along[lane]
                ratio = ratios[k, j]
                for lane in range(ROW_LANES):
                    within[lane] += ratio * along[lane] * along[lane]
            for lane in range(ROW_LANES):
                across[lane] = 0.0
            for a in range(m):
                for lane in range(ROW_LANES):
                    across[lane] += left[a, lane] * left[a, lane]
            half = 0.5 * noise[k]
            for lane in range(min(ROW_LANES, stop - first)):
                out[first - start + lane, k] += offsets[k] - half * (across[lane] + within[lane])


@njit(cache=True, nogil=True)
def add_moments(X, start, stop, labels, origins, counts, sums, products):
    """Add rows start to stop to the counts, sums and lower triangles of products of their labels.

    Sums and products are about `origins`, (K, m). Rows with a negative label are skipped.
    """
    m = X.shape[1]
    shifted = np.empty(m)
    for i in range(start, stop):
        k = labels[i]
        if k < 0:
            continue
        counts[k] += 1
        for a in range(m):
            shifted[a] = X[i, a] - origins[k, a]
            sums[k, a] += shifted[a]
        for a in range(m):
            entry = shifted[a]
            for b in range(a + 1):
                products[k, a, b] += entry * shifted[b]
