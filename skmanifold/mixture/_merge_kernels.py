"""Merges of pairs of clusters by their marginal densities."""

from __future__ import annotations

import math

import numpy as np

from ..emissions.kernels import log_bayes_factor, merge_labels, refresh_posterior
from ..utils._njit import njit

LEAST_SHARE = 1e-4  # of a row in a cluster; smaller ones are left out of entropies


@njit(cache=True, nogil=True)
def _fill_pair_entropies(shares, a, out):
    """Entropies of the choice between clusters a and b given that it is one of them, summed over rows, for each b."""
    n, K = shares.shape
    out[:] = 0.0
    for i in range(n):
        of_a = shares[i, a]
        if of_a <= LEAST_SHARE:
            continue
        of_a_alone = of_a * math.log(of_a)
        for b in range(K):
            of_b = shares[i, b]
            if of_b > LEAST_SHARE and b != a:
                both = of_a + of_b
                out[b] += both * math.log(both) - of_a_alone - of_b * math.log(of_b)


@njit(cache=True, nogil=True)
def _fill_gains(data, statistics, posterior, present, shares, log_concentration, power, a, first, gains):
    """Fill the gains in evidence if cluster a is merged with each one from `first` on."""
    entropies = np.empty(len(present))
    _fill_pair_entropies(shares, a, entropies)
    for b in range(first, len(present)):
        if b == a or statistics.sizes[present[b]] == 0:
            continue
        low, high = present[min(a, b)], present[max(a, b)]
        n_0, n_1 = statistics.sizes[low], statistics.sizes[high]
        of_prior = math.lgamma(n_0 + n_1) - math.lgamma(n_0) - math.lgamma(n_1) - log_concentration
        gain = power * of_prior - log_bayes_factor(data, statistics, posterior, low, high)
        gains[min(a, b), max(a, b)] = gain - entropies[b]


@njit(cache=True, nogil=True)
def merge_pairs(
    data, statistics, posterior, present, shares, merged_with, log_concentration, power, least_gain, n_left
):
    """Merge the pair of clusters with the largest gain until that is `least_gain`, or `n_left` clusters are left.

    The gain is a log Bayes factor, minus the entropy of the choice between the two given the `shares`, (n_rows, K),
    which may have no rows, plus the log ratio of the partitions' prior probabilities with an exponent `power`.
    `merged_with` gets the label that the rows of each label have after the merges; shares are merged too.
    """
    n = len(present)
    for index in range(n):
        refresh_posterior(data, statistics, posterior, present[index])
    gains = np.full((n, n), -np.inf)
    for a in range(n):
        _fill_gains(data, statistics, posterior, present, shares, log_concentration, power, a, a + 1, gains)
    for _ in range(n - n_left):
        best = int(np.argmax(gains))
        first, second = best // n, best % n
        if not gains[first, second] > least_gain:
            return
        kept, gone = present[first], present[second]
        merge_labels(data, statistics, kept, gone)
        refresh_posterior(data, statistics, posterior, kept)
        for i in range(len(shares)):
            shares[i, first] += shares[i, second]
            shares[i, second] = 0.0
        for label in range(len(merged_with)):
            if merged_with[label] == gone:
                merged_with[label] = kept
        for c in range(n):
            gains[second, c] = gains[c, second] = -np.inf
        _fill_gains(data, statistics, posterior, present, shares, log_concentration, power, first, 0, gains)
