"""A plain collapsed Gibbs sampler of a Dirichlet process mixture of counts, row by row, for comparison.

Neal's algorithm 3 with updated tables of logarithms: the component of a row is drawn given those of all other rows,
with components and weights integrated out; the concentration by the auxiliary variable of Escobar and West (1995),
which is valid without stick lengths.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skmanifold.emissions._categories import CategoryCounts
from skmanifold.mixture._memberships import PartitionDraw


class CollapsedDP:
    """`step()` makes a pass; `draw()` returns what predictions need."""

    def __init__(self, table, prior, n_clusters, seed, concentration_prior=(1.0, 1.0)):
        rng = np.random.default_rng(seed)
        self.table, self.prior, self.rng, self.gamma = table, float(prior), rng, concentration_prior
        self.labels = rng.integers(0, n_clusters, table.n_rows).astype(np.int32)
        capacity = 4 * max(n_clusters, 25)
        self.sizes = np.zeros(capacity, np.int64)
        self.counts = np.zeros((table.column_start[-1], capacity), np.int64)
        self.totals = np.zeros(capacity, np.int64)
        for row, label in enumerate(self.labels):
            entries = slice(table.indptr[row], table.indptr[row + 1])
            self.sizes[label] += 1
            self.counts[table.indices[entries], label] += table.counts[entries]
            self.totals[label] += table.counts[entries].sum()
        self.concentration = 1.0

    def step(self):
        table = self.table
        log_counts = np.log(self.counts + self.prior)
        uniforms = self.rng.random(table.n_rows)
        data = table.indptr, table.indices, table.counts
        _sweep(
            *data,
            self.prior,
            self.concentration,
            uniforms,
            self.labels,
            self.sizes,
            self.counts,
            self.totals,
            log_counts,
        )
        self._draw_concentration()

    def _draw_concentration(self):
        n, k = self.table.n_rows, np.count_nonzero(self.sizes)
        shape, rate = self.gamma
        auxiliary = np.log(self.rng.beta(self.concentration + 1, n))
        odds = (shape + k - 1) / (n * (rate - auxiliary))
        k -= self.rng.random() > odds / (1 + odds)
        self.concentration = self.rng.gamma(shape + k) / (rate - auxiliary)

    def draw(self):
        occupied = np.flatnonzero(self.sizes)
        return PartitionDraw(CategoryCounts(self.sizes[occupied], self.counts[:, occupied]), self.concentration)


@njit(cache=True)
def _sweep(indptr, indices, tokens, prior, concentration, uniforms, labels, sizes, counts, totals, log_counts):
    n_categories, capacity = counts.shape
    whole, log_prior = prior * n_categories, math.log(prior)
    used, scores = np.empty(capacity, np.int64), np.empty(capacity)
    for row in range(len(labels)):
        first, stop, old = indptr[row], indptr[row + 1], labels[row]
        n_tokens = 0
        sizes[old] -= 1
        for e in range(first, stop):
            counts[indices[e], old] -= tokens[e]
            log_counts[indices[e], old] = math.log(counts[indices[e], old] + prior)
            n_tokens += tokens[e]
        totals[old] -= n_tokens
        n_used, free = 0, -1
        for j in range(capacity):
            if sizes[j] > 0:
                used[n_used] = j
                scores[n_used] = math.log(sizes[j]) - _log_rising(totals[j] + whole, n_tokens)
                n_used += 1
            elif free < 0:
                free = j
        used[n_used] = free
        scores[n_used] = math.log(concentration) - _log_rising(whole, n_tokens)
        for e in range(first, stop):
            f = indices[e]
            for i in range(n_used):
                scores[i] += log_counts[f, used[i]]
            scores[n_used] += log_prior
            for t in range(1, tokens[e]):
                for i in range(n_used + 1):
                    scores[i] += math.log(counts[f, used[i]] + prior + t)
        largest = scores[: n_used + 1].max()
        total = 0.0
        for i in range(n_used + 1):
            scores[i] = math.exp(scores[i] - largest)
            total += scores[i]
        at, new = uniforms[row] * total, used[n_used]
        for i in range(n_used + 1):
            at -= scores[i]
            if at < 0.0:
                new = used[i]
                break
        labels[row] = new
        sizes[new] += 1
        totals[new] += n_tokens
        for e in range(first, stop):
            counts[indices[e], new] += tokens[e]
            log_counts[indices[e], new] = math.log(counts[indices[e], new] + prior)


@njit(cache=True)
def _log_rising(x, n):
    product = 1.0
    for t in range(n):
        product *= x + t
        if product > 1e280:
            return math.lgamma(x + n) - math.lgamma(x)
    return math.log(product)
