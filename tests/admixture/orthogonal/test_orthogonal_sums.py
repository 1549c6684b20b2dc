"""Where the number of topics changes: sums of topics by their number, and chains put at given proportions."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._orthogonal.passes import SumsByNumber, add_by_number, as_sums
from skmanifold.admixture._spherical.passes import TopicStatistics, no_scales
from skmanifold.admixture._spherical.targets import place_proportions

from ..spherical._spherical_draws import KEY
from ._orthogonal_draws import draw_frames


def left_by_a_pass(topics):
    return TopicStatistics(topics, no_scales(len(topics)), np.nan, 1)


def test_topics_are_added_to_those_that_they_are_like_for_each_number_by_itself():
    rng = np.random.default_rng(0)
    topics = {n: draw_frames(1, n, 20, rng)[0] for n in (2, 5)}
    total, n_passes = left_by_a_pass(topics[5]), {2: 0, 5: 1}
    for n in (5, 2, 5, 2, 5, 5):
        noisy = topics[n] + 0.05 * rng.standard_normal((n, 20))
        total = add_by_number(total, left_by_a_pass(noisy[rng.permutation(n)]))
        n_passes[n] += 1
    for n, (of_number, count) in total.by_number.items():
        assert count == n_passes[n]
        reference = topics[n][(of_number @ topics[n].T).argmax(axis=1)]
        np.testing.assert_allclose(of_number / count, reference, atol=0.2)
    assert total.modal == 5
    np.testing.assert_allclose(total.probabilities, np.array([0, 0, 2, 0, 0, 5]) / 7)
    twice = add_by_number(total, total)  # windows of passes
    assert {n: count for n, (_, count) in twice.by_number.items()} == {2: 4, 5: 10}
    assert total.by_number[2][1] == 2  # nothing is changed in place


def test_of_numbers_that_are_as_frequent_the_least_is_modal():
    one, two = np.eye(1, 3), np.eye(2, 3)
    assert SumsByNumber({2: (two, 4), 1: (one, 4)}).modal == 1
    assert as_sums(left_by_a_pass(two), 7).by_number[2][1] == 7


@pytest.mark.parametrize("alpha", [0.2, 1.5])
def test_chains_stand_at_given_proportions_with_a_sum_from_its_law(alpha):
    n, K = 20_000, 3
    theta = np.random.default_rng(0).dirichlet(np.full(K, 0.5), n)
    theta[0] = [0.0, 0.25, 0.75]
    rows, points = np.arange(0, 2 * n, 2), np.full((2 * n, K), np.nan)
    on_sphere = alpha >= 0.5
    place_proportions(theta, rows, np.full(K, alpha), KEY, on_sphere, points)
    assert np.isnan(points[1::2]).all()
    assert np.isfinite(points[::2]).all()
    masses = points[::2] ** 2 if on_sphere else np.exp(points[::2])
    np.testing.assert_allclose(masses / masses.sum(axis=1, keepdims=True), theta, rtol=1e-12, atol=1e-290)
    if on_sphere:
        np.testing.assert_allclose(masses.sum(axis=1), 1)
        return
    sums = masses.sum(axis=1, keepdims=True)
    estimate = summarize(np.hstack([sums, sums**2, np.log(sums) * theta[:, :1]]))
    shape = K * alpha
    digamma = -1.5406192138931904  # of 0.6
    assert_agrees(estimate, [shape, shape * (shape + 1), digamma * theta[:, 0].mean()], 0.02)
    assert_disagrees(estimate, [1.0, 1.0, 0.0], 0.02)
