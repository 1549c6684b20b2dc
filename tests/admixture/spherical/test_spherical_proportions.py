import numpy as np
import pytest
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.distributions import log_vmf_normalizer
from skmanifold.random._keys import fold_in
from skmanifold.topics.document_densities import (
    OneConcentration,
    concentration_at,
    cosine_terms,
    density_of,
    likelihood_terms,
    log_document,
    relative_terms,
)
from skmanifold.topics.spherical_kernels import fill_softmax, move_point

TOPICS = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]) / np.sqrt(2)
PRODUCTS = TOPICS @ np.array([3.0, 2, 1, 1]) / np.sqrt(15)
GRAM = TOPICS @ TOPICS.T
ONE = OneConcentration(20.0)
OF_TOPICS = density_of(np.array([4.0, 25.0, 60.0]), 4)


@njit(cache=True)
def _walk(law, on_sphere, parameters, step, key, n_chains, n_burn_in, n_draws):
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
            accepted = move_point(point, parameters, on_sphere, law, PRODUCTS, GRAM, step, 5, draw_key, work)
            if draw >= 0:
                rate += accepted / n_draws / n_chains
                for k in range(n):
                    sums[chain, 0, k] += work[0, k] / n_draws
                    sums[chain, 1, k] += work[0, k] ** 2 / n_draws
    return sums, rate


@pytest.mark.extended
def test_both_coordinates_agree_where_the_prior_is_uneven():
    alpha = np.array([0.6, 3.0, 1.2])
    on_sphere, _ = _walk(ONE, True, 2 * alpha - 1, 0.15, np.uint64(2), 200, 50, 1000)
    in_logs, _ = _walk(ONE, False, alpha, 0.35, np.uint64(3), 200, 50, 1000)
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


# --- a concentration for each topic ----------------------------------------------------------------------


def slow_log_likelihood(theta, of_topics=OF_TOPICS.concentrations):
    """Relative to the uniform distribution; proportions along the last axis."""
    mixtures = theta @ TOPICS
    cosines = mixtures @ [3, 2, 1, 1] / np.linalg.norm(mixtures, axis=-1) / np.sqrt(15)
    kappa = theta @ of_topics / theta.sum(axis=-1)
    return log_vmf_normalizer(4, kappa) - log_vmf_normalizer(4, 0.0) + kappa * cosines


@pytest.mark.parametrize("size", [1.0, 7.0])
def test_the_likelihood_with_a_concentration_for_each_topic_and_its_gradient(size):
    theta, out = size * np.random.default_rng(0).dirichlet(np.ones(3)), np.empty(3)
    log_likelihood, factor = likelihood_terms(OF_TOPICS, theta, PRODUCTS, GRAM, out)
    gradient = factor * out
    assert log_likelihood == pytest.approx(slow_log_likelihood(theta), rel=1e-12)
    for k, unit in enumerate(1e-6 * np.eye(3)):
        ends = [slow_log_likelihood(theta + sign * unit) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient[k], abs=1e-7)
    assert gradient @ theta == pytest.approx(0, abs=1e-11)
    cosine, _ = cosine_terms(theta, PRODUCTS, GRAM, out)
    assert log_document(OF_TOPICS, theta, cosine) == pytest.approx(log_likelihood, rel=1e-12)
    kappa, (relative, beyond) = concentration_at(OF_TOPICS, theta), relative_terms(OF_TOPICS, theta)
    assert relative * OF_TOPICS.reference == pytest.approx(kappa)
    of_reference = log_vmf_normalizer(4, OF_TOPICS.reference) - log_vmf_normalizer(4, 0.0)
    assert of_reference + beyond + kappa * cosine == pytest.approx(log_likelihood, rel=1e-10)


def test_equal_concentrations_are_one():
    theta, one, other = np.random.default_rng(0).dirichlet(np.ones(3)), np.empty(3), np.empty(3)
    _, factor = likelihood_terms(ONE, theta, PRODUCTS, GRAM, one)
    likelihood_terms(density_of(np.full(3, 20.0), 4), theta, PRODUCTS, GRAM, other)
    np.testing.assert_allclose(factor * one, other, rtol=1e-12, atol=1e-12)
    assert density_of(20.0, 4) == ONE


DENSITIES = {"one": (ONE, np.full(3, 20.0)), "of topics": (OF_TOPICS, OF_TOPICS.concentrations)}


def moments(alpha, concentrations):
    """E theta and E theta^2 by the trapezoidal rule in the logs of ratios of proportions."""
    t = np.linspace(-40.0, 40.0, 801)
    y = np.stack([*np.meshgrid(t, t, indexing="ij"), np.zeros((801, 801))], axis=-1)
    theta = np.exp(y - y.max(axis=-1, keepdims=True))
    theta /= theta.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = alpha * np.log(theta).sum(axis=-1) + slow_log_likelihood(theta, concentrations)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return np.einsum("ij,ijk->k", weights, theta), np.einsum("ij,ijk->k", weights, theta**2)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("alpha", [2.0, 0.5])
@pytest.mark.parametrize("on_sphere", [True, False])
@pytest.mark.parametrize("name", DENSITIES)
def test_transitions_leave_the_posterior_of_proportions_as_it_is(alpha, on_sphere, name):
    """With a forgotten Jacobian, or another density, they do not."""
    density, concentrations = DENSITIES[name]
    parameter, step = (2 * alpha - 1, 0.12) if on_sphere else (alpha, 0.33)
    expected = moments(alpha, concentrations)
    sums, rate = _walk(density, on_sphere, np.full(3, parameter), step, np.uint64(1), 200, 50, 1000)
    assert 0.6 < rate < 0.995
    np.testing.assert_allclose(sums[:, 0].sum(axis=1), 1.0)
    assert_agrees(summarize(sums), expected)
    if alpha == 2.0:
        sums, _ = _walk(density, on_sphere, np.full(3, parameter - 1), step, np.uint64(1), 200, 50, 1000)
        assert_disagrees(summarize(sums), expected)
    assert_disagrees(summarize(sums), moments(alpha, np.full(3, 40.0)))


def test_softmax_of_far_points():
    out = np.empty(3)
    fill_softmax(np.array([-2000.0, 800.0, 800.0]), out)
    np.testing.assert_array_equal(out, [0, 0.5, 0.5])
