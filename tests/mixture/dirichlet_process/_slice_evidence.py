"""Exact draws and expectations of labels of sticks and of the concentration, and slice samplers that begin there.

Chains that begin at exact draws of the posterior need no burn-in: at any later time each is one more exact draw, if the
sampler is right. Labels of sticks given a partition come from the urn that is left once weights are integrated out:
with r rows still without a stick, the next stick is empty with probability alpha / (alpha + r), or else has the rows of
a cluster, with probability proportional to their number.
"""

from functools import cached_property
from itertools import permutations

import numpy as np
from samplers._evidence import Estimate, summarize
from scipy.special import gammaln

from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers._base import State
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny

NO_PRIOR = (1.0, 1.0)  # where the concentration is given


def model_of(table, concentration, batch_size=None, kind=DPModel, prior=tiny.PRIOR):
    """`concentration` is alpha, or shape and rate of its gamma prior."""
    learned = isinstance(concentration, tuple)
    given = (None, concentration) if learned else (concentration, NO_PRIOR)
    return kind(tiny.category_clusters(table, prior), *given, init=3, batch_size=batch_size, workers=Workers(1))


def draw_places(sizes, alpha, rng):
    """Sticks of clusters of these sizes, by the urn."""
    order = np.argsort(rng.exponential(size=len(sizes)) / sizes)
    remaining = np.cumsum(np.asarray(sizes)[order][::-1])[::-1]
    places = np.empty(len(sizes), int)
    places[order] = np.cumsum(rng.geometric(remaining / (alpha + remaining))) - 1
    return places


def _ordered(partition):
    """Orders in which the sticks may have the clusters: probability, and rows without a stick before each."""
    sizes = np.bincount(partition)
    for order in permutations(range(len(sizes))):
        remaining = np.cumsum(sizes[list(order)][::-1])[::-1]
        yield np.prod(sizes[list(order)] / remaining), order, remaining


def clusters_and_empty_sticks(labels):
    """Numbers of labels of sticks (..., n_rows) that differ, and of those below the highest that have no rows."""
    ordered = np.sort(labels, axis=-1)
    n_clusters = 1 + (np.diff(ordered, axis=-1) > 0).sum(axis=-1)
    return n_clusters, ordered[..., -1] + 1 - n_clusters


def statistics(labels, alphas, learned):
    """Of labels (..., n_rows) and concentrations (...): the K = 1, 2, ..., whether rows 0 and 1 are together, empty
    sticks before the last, the stick of row 0; and, where it is learned, alpha and its products with these two.
    """
    n_clusters, empty = clusters_and_empty_sticks(labels)
    first = labels[..., 0]
    columns = [n_clusters == k for k in range(1, labels.shape[-1] + 1)]
    columns += [first == labels[..., 1], empty, first]
    if learned:
        columns += [alphas, alphas * empty, alphas * first]
    return np.stack(columns, axis=-1).astype(float)


class PartitionPosterior:
    """Of labels of sticks and the concentration, given the probabilities of all partitions of a few rows."""

    def __init__(self, law, n_rows, concentration):
        self.law, self.n_rows, self.concentration = law, n_rows, concentration
        self.learned = isinstance(concentration, tuple)
        self.partitions = np.array(tiny.partitions(n_rows))

    def _moments(self, n_clusters):
        """E(alpha | K), E(alpha^2 | K)."""
        if not self.learned:
            return self.concentration, self.concentration**2
        of_power = [tiny._prior_factor(n_clusters, self.n_rows, self.concentration, power) for power in (0, 1, 2)]
        return of_power[1] / of_power[0], of_power[2] / of_power[0]

    @cached_property
    def expectations(self):
        """Of `statistics`."""
        total = 0.0
        for p_partition, partition in zip(self.law, self.partitions, strict=True):
            n_clusters = partition.max() + 1
            alpha, square = self._moments(n_clusters)
            for p, order, remaining in _ordered(partition):
                until_first = order.index(partition[0])
                per_alpha = (1 / remaining).sum()  # empty sticks, as a multiple of alpha
                per_alpha_first = (1 / remaining[: until_first + 1]).sum()
                of_labels = [partition[0] == partition[1], alpha * per_alpha, until_first + alpha * per_alpha_first]
                if self.learned:
                    of_labels += [alpha, square * per_alpha, alpha * until_first + square * per_alpha_first]
                row = np.concatenate([np.arange(1, self.n_rows + 1) == n_clusters, of_labels])
                total = total + p_partition * p * row
        return total

    @cached_property
    def _alpha_quantiles(self):
        """By K, (log alpha, distribution function)."""
        shape, rate = self.concentration
        log_alpha = np.linspace(-12, 4, 4001)
        alpha = np.exp(log_alpha)
        tables = []
        for n_clusters in range(1, self.n_rows + 1):
            logs = (n_clusters + shape) * log_alpha - rate * alpha
            logs += gammaln(alpha) - gammaln(alpha + self.n_rows)
            below = np.cumsum(np.exp(logs - logs.max()))
            tables.append((log_alpha, below / below[-1]))
        return tables

    def draws(self, n, rng):
        """(n,) concentrations and (n, n_rows) labels."""
        alphas, labels = np.empty(n), np.empty((n, self.n_rows), np.int32)
        for i, chosen in enumerate(rng.choice(len(self.law), n, p=self.law)):
            partition = self.partitions[chosen]
            if not self.learned:
                alphas[i] = self.concentration
            else:
                log_alpha, below = self._alpha_quantiles[partition.max()]
                alphas[i] = np.exp(np.interp(rng.random(), below, log_alpha))
            labels[i] = draw_places(np.bincount(partition), alphas[i], rng)[partition]
        return alphas, labels


class ExactPosterior(PartitionPosterior):
    """Given the rows of a table."""

    def __init__(self, table, concentration):
        self.table = table
        super().__init__(tiny.exact_law(concentration=concentration, table=table), table.n_rows, concentration)


def state_of(model, alpha, labels, key):
    """A sampler's state there."""
    labels = labels.astype(np.int32)
    return State(float(alpha), key, 0, -np.inf, statistics=model.count(labels), latents=labels)


def slice_estimate(sampler, model, posterior, *, n_chains=60, n_steps=45, seed=0) -> Estimate:
    """Of `statistics` along chains that begin at exact draws."""
    alphas, starts = posterior.draws(n_chains, np.random.default_rng(seed))
    root = root_key(seed)
    labels = np.empty((n_chains, n_steps, model.n_rows), np.int64)
    concentrations = np.empty((n_chains, n_steps))
    for chain in range(n_chains):
        state = state_of(model, alphas[chain], starts[chain], subkey(root, chain))
        for n in range(n_steps):
            state = sampler.step(model, state)
            labels[chain, n], concentrations[chain, n] = state.latents, state.position
    return summarize(statistics(labels, concentrations, posterior.learned).mean(axis=1))


# --- data drawn anew -------------------------------------------------------------------------------------


def draw_from_the_prior(n, n_rows, rng, gamma, n_sticks=150):
    """Concentrations (n,), weights of sticks (n, n_sticks) and labels (n, n_rows)."""
    shape, rate = gamma
    alphas = rng.gamma(shape, 1 / rate, n)
    shares = rng.beta(1, alphas[:, None], (n, n_sticks))
    left = np.cumprod(1 - shares, axis=1)
    weights = shares * np.concatenate([np.ones((n, 1)), left[:, :-1]], axis=1)
    return alphas, weights, np.stack([(u[:, None] < left).sum(axis=1) for u in rng.random((n_rows, n))], axis=-1)
