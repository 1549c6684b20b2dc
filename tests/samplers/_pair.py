"""Two samples with opposite gradients, and metrics that grow with one of them: on average the normal law, and one."""

import numpy as np

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density

from ._evidence import expectations


def _scale(rows, x):
    return np.broadcast_to(1 + 0.5 * (2 * rows[:, :1] - 1), x.shape)


def pair_of_samples():
    """The target in minibatches of one, a metric of rows, and a metric of the rows that the gradient last saw."""
    last = {}

    def gradient(x, rows):
        last["rows"] = rows
        return (-x[:, None, :] + 2.0 * (2 * rows[:, :, None] - 1)) / 2

    target = Density(Euclidean(1), gradient, n_samples=2, vectorized=True).minibatched(1)
    return target, lambda x, rows: _scale(rows, x), lambda x: _scale(last["rows"], x)


def no_divergence(x, rows=None):
    return np.zeros_like(x)


def mean_position(sampler, target):
    """The mean is 0, and 1 where metric and gradient rise together."""
    return expectations(
        sampler, target, lambda state: state.position[:, 0], 1000, burn_in=300, n_chains=500, position=np.zeros(1)
    )
