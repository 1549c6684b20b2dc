import numpy as np
import pytest
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.random._keys import fold_in
from skmanifold.topics.spherical_proportions import cosine_terms, fill_softmax, move_in_logs, move_on_sphere

TOPICS = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]) / np.sqrt(2)
PRODUCTS = TOPICS @ np.array([3.0, 2, 1, 1]) / np.sqrt(15)
GRAM = TOPICS @ TOPICS.T
KAPPA = 20.0
# E theta and E theta^2 given the topics, by quadrature of 30 digits.
MOMENTS = {
    2.0: [(0.57263608, 0.18980446, 0.23755946), (0.34347397, 0.04856281, 0.06800578)],
    0.5: [(0.71130713, 0.10350248, 0.18519039), (0.52838663, 0.02456749, 0.05254737)],
}


@njit(cache=True)
def _walk(on_sphere, parameters, step, key, n_chains, n_burn_in, n_draws):
    """Chains' means of theta, theta^2, and their mean acceptance probability."""
    n = len(parameters)
    sums = np.zeros((n_chains, 2, n))
    rate = 0.0
    work = np.empty((5, n))
    for chain in range(n_chains):
        point = np.full(n, 1.0 / np.sqrt(n)) if on_sphere else np.zeros(n)
        chain_key = fold_in(key, chain)
        for draw in range(-n_burn_in, n_draws):
            draw_key = fold_in(chain_key, draw + n_burn_in)
            move = (KAPPA, PRODUCTS, GRAM, step, 5, draw_key, work)
            if on_sphere:
                accepted = move_on_sphere(point, parameters, *move)
            else:
                accepted = move_in_logs(point, parameters, *move)
            if draw >= 0:
                rate += accepted / n_draws / n_chains
                for k in range(n):
                    sums[chain, 0, k] += work[0, k] / n_draws
                    sums[chain, 1, k] += work[0, k] ** 2 / n_draws
    return sums, rate


@pytest.mark.parametrize("alpha", [2.0, 0.5])
@pytest.mark.parametrize("on_sphere", [True, False])
def test_transitions_leave_the_posterior_of_proportions_as_it_is(alpha, on_sphere):
    parameters = np.full(3, 2 * alpha - 1 if on_sphere else alpha)
    step = 0.15 if on_sphere else 0.35
    sums, rate = _walk(on_sphere, parameters, step, np.uint64(1), 200, 50, 1000)
    assert 0.6 < rate < 0.995
    np.testing.assert_allclose(sums[:, 0].sum(axis=1), 1.0)
    assert_agrees(summarize(sums), MOMENTS[alpha])


def test_the_check_tells_a_forgotten_jacobian():
    alpha = 2.0
    for on_sphere, parameters, step in ((True, 2 * alpha - 2, 0.15), (False, alpha - 1, 0.35)):
        sums, _ = _walk(on_sphere, np.full(3, parameters), step, np.uint64(1), 200, 50, 1000)
        assert_disagrees(summarize(sums), MOMENTS[alpha])


def test_both_coordinates_agree_where_the_prior_is_uneven():
    alpha = np.array([0.6, 3.0, 1.2])
    on_sphere, _ = _walk(True, 2 * alpha - 1, 0.15, np.uint64(2), 200, 50, 1000)
    in_logs, _ = _walk(False, alpha, 0.35, np.uint64(3), 200, 50, 1000)
    assert_agrees(summarize(on_sphere - in_logs), 0.0)
    assert_disagrees(summarize(on_sphere[:, :, ::-1] - in_logs), 0.0)


def test_cosine_and_its_gradient():
    generator = np.random.default_rng(0)
    theta = generator.dirichlet(np.ones(3))
    out = np.empty(3)
    mean = theta @ TOPICS
    cosine, root = cosine_terms(theta, PRODUCTS, GRAM, out)
    gradient = out.copy()
    assert root == pytest.approx(np.linalg.norm(mean), rel=1e-12)
    assert cosine == pytest.approx(mean @ [3, 2, 1, 1] / np.linalg.norm(mean) / np.sqrt(15), rel=1e-12)
    for k, unit in enumerate(1e-6 * np.eye(3)):
        ends = [cosine_terms(theta + sign * unit, PRODUCTS, GRAM, out)[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient[k], abs=1e-8)
    assert gradient @ theta == pytest.approx(0, abs=1e-12)  # the length of theta does not matter


def test_softmax_of_far_points():
    out = np.empty(3)
    fill_softmax(np.array([-2000.0, 800.0, 800.0]), out)
    np.testing.assert_array_equal(out, [0, 0.5, 0.5])
