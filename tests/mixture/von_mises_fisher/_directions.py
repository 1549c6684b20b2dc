"""Rows on the sphere, and what is compared of their mixtures, that several test files share."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.distributions import VonMisesFisher

each_assignment = pytest.mark.parametrize("assignment", ["soft", "hard"])


def planted(dim, concentrations, sizes, seed=0):
    """Draws of von Mises-Fisher laws about random directions: rows, labels and directions."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((len(sizes), dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    laws = [VonMisesFisher(*law) for law in zip(directions, concentrations, strict=True)]
    X = np.concatenate([law.sample(size, rng) for law, size in zip(laws, sizes, strict=True)])
    return X, np.repeat(np.arange(len(sizes)), sizes), directions


def documents(n_rows=150, dim=60, n_components=4, seed=0):
    """Sparse rows of both signs and any length; no two alike, none empty."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(dim, 0.2), n_components)
    signs = rng.choice([-1.0, 1.0], dim)
    labels = rng.integers(n_components, size=n_rows)
    counts = np.array([rng.multinomial(20, probabilities[label]) for label in labels])
    return sp.csr_array(counts * signs * rng.uniform(0.1, 30.0, (n_rows, 1)))


def parameters(mixture):
    return mixture.weights_, mixture.mean_directions_, mixture.concentrations_
