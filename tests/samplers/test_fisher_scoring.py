"""Fisher scoring: exact on normal posteriors at every step size, and what it refuses."""

import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import Euclidean
from skmanifold.models import Density, IncompatibleError, standard_normal
from skmanifold.samplers import SGFS

from ._evidence import assert_agrees, assert_disagrees, expectations, walk

SIGMA = np.array([[2.0, 0.9], [0.9, 0.5]])
N = 60


def normal_mean(d=2, covariance=SIGMA, scale=1.0, n=N):
    """The posterior N(0, covariance / N) of the mean of N normal rows whose empirical covariance is that of the model.

    With another `scale` the covariance of the model is not that of the rows, so that the Fisher information is wrong.
    """
    rows = np.random.default_rng(0).standard_normal((n, d))
    rows -= rows.mean(axis=0)
    rows = rows @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T))).T @ np.linalg.cholesky(covariance).T
    precision = np.linalg.inv(scale * covariance)
    return Density(
        Euclidean(d),
        lambda x, chosen: (rows[chosen] - x[:, None, :]) @ precision,
        lambda x, chosen: np.zeros(chosen.shape),
        n_samples=n,
        vectorized=True,
    ).minibatched(n // 2)


def second_moments(sampler, target, n_steps=100):
    return expectations(
        sampler,
        target,
        lambda state: state.position[:, :, None] * state.position[:, None, :] * N,
        n_steps,
        burn_in=30,
        n_chains=300,
        position=np.zeros(target.manifold.size),
    )


@pytest.mark.extended
@pytest.mark.parametrize(("noise", "h"), [("fisher", 4.0), ("fisher", 50.0), ("matrix", 50.0)])
def test_draws_from_a_normal_posterior_are_exact_at_every_step_size(noise, h):
    sampler = SGFS(h, noise if noise == "fisher" else np.diag([120.0, 600.0]))
    estimate = second_moments(sampler, normal_mean())
    assert_agrees(estimate, SIGMA, 0.02 * np.abs(SIGMA))  # the estimate of the information is noisy
    # where the information is half of the curvature the distribution is another one
    assert_disagrees(second_moments(sampler, normal_mean(scale=2.0)), 2 * SIGMA, 0.04 * np.abs(SIGMA))


def test_a_large_step_size_leaves_the_noise_of_minibatches_alone():
    """As h grows, x' = x + 2 (F + V)^-1 g: its covariance is 2 C - C F C = 4 (F + V)^-1 V (F + V)^-1."""
    target = normal_mean()
    *_, state = walk(SGFS(1e9), target, 1, n_chains=4000, position=np.zeros(2))
    share = 0.5
    exact = 4 * share**2 * (1 - share) / share * SIGMA
    np.testing.assert_allclose(N * np.cov(state.position.T), exact, rtol=0.1)


def test_a_diagonal_is_learned_where_points_are_large():
    d, n_rows = 65, 130
    variances = np.linspace(0.5, 5.0, d)
    sampler, target = SGFS(4.0), normal_mean(d, np.diag(variances), n=n_rows)
    found = []
    for n, state in enumerate(walk(sampler, target, 120, n_chains=60, position=np.zeros(d))):
        if n >= 40:
            found.append(n_rows * state.position.var(axis=0))
    assert state.memory.running.shape == (60, d)
    np.testing.assert_allclose(np.mean(found, axis=0) / variances, 1.0, atol=0.25)
    assert abs((np.mean(found, axis=0) / variances).mean() - 1) < 0.04


def test_small_steps_are_langevin_steps():
    target, h = normal_mean(), 1e-5
    B = np.array([[30.0, 5.0], [5.0, 90.0]])
    start = np.array([0.3, -0.2])
    *_, state = walk(SGFS(h, B), target, 1, n_chains=5000, position=start)
    moved = (state.position - start) / h
    D = np.linalg.inv(B) / 2
    drift = -D @ np.linalg.inv(SIGMA) @ start * N
    error = moved.std(axis=0) / np.sqrt(len(moved))
    assert (np.abs(moved.mean(axis=0) - drift) < 4.5 * error + 0.02 * np.abs(drift)).all()
    np.testing.assert_allclose(np.cov(moved.T) * h / 2, D, rtol=0.08, atol=5e-4)


def test_minibatches_are_needed():
    everything = normal_mean().minibatched(None)
    with pytest.raises(ValueError, match=r"^SGFS estimates the Fisher information from minibatches: set batch_size"):
        sample(everything, SGFS(), n_draws=2)
    with pytest.raises(ValueError, match=r"^SGFS estimates the Fisher information from minibatches"):
        sample(everything, SGFS(), n_draws=2, batch_size=N)
    with pytest.raises(IncompatibleError, match=r"^SGFS needs gradients of single samples"):
        sample(standard_normal(2), SGFS())


def test_singular_information_needs_a_matrix():
    flat = Density(
        Euclidean(2),
        lambda x, rows: np.stack([rows - 3.0 - x[:, :1], 0.0 * rows], axis=2),
        n_samples=7,
        vectorized=True,
    )
    with pytest.raises(ValueError, match=r"^The Fisher information is singular: set noise to a positive number"):
        sample(flat, SGFS(), n_draws=2, batch_size=3)
    assert np.isfinite(sample(flat, SGFS(noise=1.0), n_draws=2, batch_size=3, random_state=0).position).all()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (np.eye(3), r"^noise must be a number, or of shape \(2,\)"),
        ([[1.0, 2.0], [2.0, 1.0]], "^noise must be positive semi-definite"),
    ],
)
def test_wrong_noise_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        sample(normal_mean(), SGFS(noise=noise), n_draws=2)
