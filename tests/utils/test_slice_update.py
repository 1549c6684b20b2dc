"""Slice updates of several numbers leave their distributions unchanged."""

import numpy as np
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.stats import truncnorm

from skmanifold.numerics.slice_update import slice_updates

N = 4000
SCALES, LOW, HIGH = np.tile([0.3, 2.0], N // 2), np.tile([-0.2, -3.0], N // 2), np.tile([1.0, 1.0], N // 2)


def moments(power):
    """First and second moments after updates, of batches; densities are raised to a power."""
    rng, values = np.random.default_rng(0), np.zeros(N)

    def log_densities(values):
        return -0.5 * power * (values / SCALES) ** 2

    for _ in range(15):
        values = slice_updates(log_densities, values, LOW, HIGH, rng)
    assert ((values >= LOW) & (values <= HIGH)).all()
    batches = values.reshape(40, -1, 2)
    return summarize(np.concatenate([batches.mean(axis=1), (batches**2).mean(axis=1)], axis=1))


def test_numbers_have_their_distributions():
    expected = [
        truncnorm.moment(order, low / scale, high / scale) * scale**order
        for order in (1, 2)
        for scale, low, high in zip(SCALES[:2], LOW[:2], HIGH[:2], strict=True)
    ]
    assert_agrees(moments(1.0), np.array(expected))
    assert_disagrees(moments(0.5), np.array(expected))


def test_the_last_densities_are_those_of_the_returned_numbers():
    last = []

    def log_densities(values):
        last[:] = [values.copy()]
        return -0.5 * values**2

    found = slice_updates(log_densities, np.zeros(5), np.full(5, -4.0), np.full(5, 4.0), np.random.default_rng(1))
    np.testing.assert_array_equal(last[0], found)
