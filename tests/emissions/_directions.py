"""Rows around random directions, and the kinds of concentrations."""

import numpy as np
import pytest

from skmanifold.distributions import VonMisesFisher as Law

KINDS = ["shared", "per_component", 6.0]
each_kind = pytest.mark.parametrize("kind", KINDS)


def planted(n=400, d=8, n_clusters=3, concentration=25.0, seed=0):
    """Rows around random directions, with lengths that do not matter, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_clusters, size=n)
    means = np.linalg.qr(rng.standard_normal((d, d)))[0][:n_clusters]
    X = np.empty((n, d))
    for k in range(n_clusters):
        X[labels == k] = Law(means[k], concentration).sample(int((labels == k).sum()), random_state=rng)
    return X * rng.uniform(0.5, 2.0, (n, 1)), labels
