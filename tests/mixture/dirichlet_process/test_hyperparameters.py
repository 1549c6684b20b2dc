"""Chains draw hyperparameters of Gaussian components from their posterior given the partition."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.emissions import Gaussian
from skmanifold.emissions._gaussian.hyperparameters import FreeNumbers, Hyperprior
from skmanifold.random._keys import root_key, subkey
from skmanifold.utils._threads import Workers

LABELS = np.repeat([0, 1, 2, 3], [6, 4, 3, 1]).astype(np.int32)
SHAPE = np.array([[1.0, 0.4], [0.4, 0.8]])
FREE = {
    "full": ("covariance", "degrees", "mean_precision"),
    "diag": ("covariance", "degrees", "mean_precision"),
    "spherical": ("covariance", "mean_precision"),
    "tied": ("mean_precision",),
}


def family_of(kind):
    """A family whose hyperparameters are drawn; the mean of their shape does not depend on rows."""
    scatter = {"full": SHAPE, "tied": SHAPE, "diag": np.diag(SHAPE)}.get(kind, 0.9)
    emission = Gaussian(kind, np.zeros(2), 0.1, scatter, 6.0)
    family = emission.prior_family(2, 1, 0)
    return family.with_hyperprior(FREE[kind], family)


def rows_of(family, key):
    """Rows with these labels, given hyperparameters, and their statistics."""
    family = family.with_components(4)
    parameters = family.draw(tuple(map(np.zeros, family.shapes())), subkey(key, 1))
    return family.sample(parameters, LABELS, subkey(key, 2))


def numbers(vector):
    """Functions of hyperparameters."""
    free, shape = np.log(vector[:3]), vector[3:]
    return np.concatenate([free, free**2, np.log(shape[[0, -1]]), np.arctan(shape)])


def series(kind, n_chains, n_steps, seed=0):
    """Means of `numbers` along chains that begin at draws from the prior, and those of these draws."""
    family, root = family_of(kind), root_key(seed)
    means, starts = [], []
    for chain in range(n_chains):
        key = subkey(root, chain)
        current = family.with_drawn_hyperparameters(key)
        vector = current.hyperprior.start(current.prior, current._least_degrees)
        vector = family.hyperprior.drawn_from_prior(family.prior, family._least_degrees, key)
        starts.append(numbers(vector))
        of_chain = []
        for step in range(n_steps):
            rows = rows_of(family._with_vector(vector), subkey(key, step))
            bound = family.clusters(Gaussian().read(Gaussian(), rows, reset=False))
            statistics = bound.no_statistics(4)._replace(hyperparameters=vector)
            bound.count(LABELS, statistics, Workers(1))
            vector = bound.redraw_hyperparameters(statistics, subkey(key, step, 3)).hyperparameters
            of_chain.append(numbers(vector))
        means.append(np.mean(of_chain, axis=0))
    return summarize(means), np.mean(starts, axis=0)
