"""Orthonormal topics as samplers see them: gradients against differences and slow formulas, means over minibatches."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.admixture._orthogonal.passes import ConditionalFrames, OrthogonalModel, unit_setup
from skmanifold.admixture._spherical.targets import MinibatchSAM, move_chains
from skmanifold.distributions import log_vmf_normalizer
from skmanifold.distributions._matrix_von_mises_fisher import nearest_frame
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

from ..spherical._spherical_draws import KEY, ONE, GivenRows, make_rows, unit
from ._orthogonal_draws import WithoutLength, draw_frames

K, V, KAPPA = 3, 7, 40.0
OF_TOPICS = np.array([5.0, 40.0, 120.0])
STEP_KEYS = np.array([20160711], np.uint64)


def make_model(X, *, radius=3.0, workers=ONE, kind=OrthogonalModel, kappa=KAPPA):
    setup = unit_setup(as_directions(sp.csr_array(X)), K, 0.7, kappa, False)._replace(radii=np.array([radius]))
    return setup.model(workers, kind=kind)


def make_topics(seed=1, n_features=V):
    return draw_frames(1, K, n_features, np.random.default_rng(seed))[0]


def make_draws(model, n_draws, seed=2):
    return np.random.default_rng(seed).dirichlet(model.alpha, (len(model.directed), n_draws))


def slow_log_density(X, topics, draws, kappa=KAPPA):
    """Of the documents given topics and proportions, document by document: a mean over draws."""
    documents, value = unit(X[np.any(X != 0, axis=1)]), 0.0
    for v, thetas in zip(documents, draws, strict=True):
        for theta in thetas:
            of_document = float(theta @ np.broadcast_to(kappa, K))
            log_density = log_vmf_normalizer(X.shape[1], of_document) + of_document * (v @ unit(theta @ topics))
            value += log_density / len(thetas)
    return value


def log_density_of(target, topics):
    return target.log_density(target.model.to_position(topics)[None])[0]


def gradient_of(target, topics, keys=None):
    position = target.model.to_position(topics)[None]
    out = np.full_like(position, np.nan)
    target.grad_log_density(position, keys, out)
    return out


def tangent(model, topics, gradient):
    gradient = gradient.copy()
    model.manifold.project(model.to_position(topics)[None], gradient)
    return gradient[0]


def tangent_basis(model, topics):
    """Orthonormal directions along the manifold at a position."""
    size = model.manifold.size
    axes = np.eye(size).reshape(size, *model.manifold.shape)
    model.manifold.project(np.repeat(model.to_position(topics)[None], size, axis=0), axes)
    values, vectors = np.linalg.eigh(axes.reshape(size, size))
    return vectors[:, values > 0.5].T.reshape(-1, *model.manifold.shape)


def slopes_by_differences(target, topics):
    """Tangent gradient in the position, by central differences along geodesics, with Richardson's extrapolation."""
    model, slopes = target.model, np.zeros(target.manifold.shape)
    for direction in tangent_basis(model, topics):
        estimates = []
        for h in (4e-3, 2e-3):
            values = []
            for sign in (1, -1):
                x, v = model.to_position(topics)[None], sign * direction[None]
                model.manifold.flow(x, v, h)
                values.append(log_density_of(target, model.topics(x[0])))
            estimates.append((values[0] - values[1]) / (2 * h))
        slopes += (4 * estimates[1] - estimates[0]) / 3 * direction
    return slopes


def agree(gradient, slopes, rtol=1e-6):
    return np.allclose(gradient, slopes, rtol=0, atol=rtol * np.abs(slopes).max())


@pytest.mark.parametrize("n_draws", [1, 3])
@pytest.mark.parametrize("kappa", [KAPPA, OF_TOPICS])
def test_the_log_density_is_that_of_the_documents_and_linear_in_the_topics(n_draws, kappa):
    X = make_rows(11)
    model = make_model(X, kappa=kappa)
    draws = make_draws(model, n_draws)
    target = ConditionalFrames(model, draws)
    topics = [make_topics(seed) for seed in range(6)]
    fast = np.array([log_density_of(target, of) for of in topics])
    slow = np.array([slow_log_density(X, of, draws, kappa) for of in topics])
    np.testing.assert_allclose(fast - fast[0], slow - slow[0], rtol=1e-9, atol=1e-9 * np.ptp(slow))
    parameter = target.linear_parameter()
    linear = np.array([np.sum(parameter * model.to_position(of)) for of in topics])
    np.testing.assert_allclose(linear - linear[0], slow - slow[0], rtol=1e-9, atol=1e-9 * np.ptp(slow))


@pytest.mark.parametrize("n_draws", [1, 3])
@pytest.mark.parametrize(("radius", "kappa"), [(0.5, KAPPA), (30.0, KAPPA), (3.0, OF_TOPICS)])
def test_the_gradient_is_the_slope_of_the_log_density(n_draws, radius, kappa):
    model, topics = make_model(make_rows(11), radius=radius, kappa=kappa), make_topics()
    target = ConditionalFrames(model, make_draws(model, n_draws))
    slopes = slopes_by_differences(target, topics)
    gradient = gradient_of(target, topics)
    assert agree(tangent(model, topics, gradient), slopes)
    np.testing.assert_allclose(gradient[0], target.linear_parameter(), rtol=1e-10)


def test_wrong_gradients_are_not_the_slope():
    class ForgetsTheRadius(OrthogonalModel):
        def add_parameter(self, rows, pull, out):
            super().add_parameter(rows, self.radii[0] * pull, out)

    X, topics = make_rows(11), make_topics()
    model = make_model(X)
    draws = make_draws(model, 2)
    slopes = slopes_by_differences(ConditionalFrames(model, draws), topics)
    for kind in (WithoutLength, ForgetsTheRadius):
        wrong = ConditionalFrames(make_model(X, kind=kind), draws)
        assert not agree(tangent(model, topics, gradient_of(wrong, topics)), slopes, 1e-2)


def test_equal_pulls_of_all_documents_are_not_the_slope_with_a_concentration_for_each_topic():
    class EqualPulls(OrthogonalModel):
        def weights(self, draws):
            return np.mean(unit(draws), axis=1)

    X = make_rows(11)
    model = make_model(X, kappa=OF_TOPICS)
    draws = make_draws(model, 2)
    parameter = ConditionalFrames(model, draws).linear_parameter()
    wrong = ConditionalFrames(make_model(X, kappa=OF_TOPICS, kind=EqualPulls), draws).linear_parameter()
    assert not agree(wrong, parameter, 0.05)


def test_the_mean_over_all_minibatches_is_the_full_gradient():
    X, topics = make_rows(7), make_topics()
    model = make_model(X)
    target = GivenRows(model, model.init_chains(0), KEY, 2, 3, False)
    target.rows = model.directed
    full = gradient_of(target, topics, STEP_KEYS)
    draws = np.empty((5, 3, K))
    chains = model.init_chains(0)
    turned = model.to_word_major(model.to_position(topics))
    move_chains(model, chains, model.directed, STEP_KEYS[0], turned, 3, False, draws)
    np.testing.assert_allclose(gradient_of(ConditionalFrames(model, draws), topics), full, rtol=1e-11)
    each = []
    for pair in combinations(model.directed, 2):
        target.rows = np.array(pair)
        each.append(gradient_of(target, topics, STEP_KEYS))
    assert len(each) == 10
    np.testing.assert_allclose(np.mean(each, axis=0), full, rtol=1e-11, atol=1e-11 * np.abs(full).max())
    assert np.std(each, axis=0).max() > 0.1 * np.abs(full).max()


@pytest.mark.parametrize("kappa", [KAPPA, OF_TOPICS])
def test_the_deviations_of_documents_estimate_the_covariance_of_the_gradient(kappa):
    model, topics = make_model(make_rows(7), kappa=kappa), make_topics()
    target = GivenRows(model, model.init_chains(0), KEY, 2, 3, False)
    position = model.to_position(topics)[None]
    gradients, estimates, out = [], [], np.empty_like(position)
    for pair in combinations(model.directed, 2):
        target.rows = np.array(pair)
        deviations = target.grad_with_deviations(position, STEP_KEYS, out).reshape(2, -1)
        np.testing.assert_allclose(out.ravel(), gradient_of(target, topics, STEP_KEYS).ravel(), rtol=1e-12)
        gradients.append(out.ravel().copy())
        estimates.append(deviations.T @ deviations)
    expected = np.cov(np.transpose(gradients), ddof=0)
    np.testing.assert_allclose(np.mean(estimates, axis=0), expected, rtol=1e-8, atol=1e-10 * expected.max())


def test_the_gram_matrix_that_is_known_is_that_of_the_topics():
    model, topics = make_model(make_rows(7)), make_topics()
    word_topic, gram = model.to_word_major(model.to_position(topics))
    np.testing.assert_allclose(word_topic.T @ word_topic, gram, atol=1e-14)
    np.testing.assert_allclose(model.topics(model.to_position(topics)), topics, rtol=1e-15)


def test_the_nearest_frame_is_that_of_a_positive_stretch():
    topics = make_topics()
    stretch = np.random.default_rng(0).standard_normal((K, K))
    stretch = stretch @ stretch.T + np.eye(K)
    np.testing.assert_allclose(nearest_frame(stretch @ topics), topics, atol=1e-13)
    same = np.ones((2, 3))  # clusters that coincide
    frame = nearest_frame(same)
    np.testing.assert_allclose(frame @ frame.T, np.eye(2), atol=1e-14)


def test_gradients_do_not_depend_on_threads():
    X, topics = make_rows(300, 20_000), make_topics(n_features=20_000)
    gradients = []
    for jobs in (1, 2):
        with Workers(jobs) as workers:
            model = make_model(X, workers=workers)
            target = MinibatchSAM(model, model.init_chains(0), KEY, 150, 2, True)
            gradients.append(gradient_of(target, topics, STEP_KEYS))
            gradients.append(target.chains.points)
    np.testing.assert_array_equal(gradients[0], gradients[2])
    np.testing.assert_array_equal(gradients[1], gradients[3])


def test_the_declared_noise_and_curvature_are_those_of_unit_topics():
    """Radii are units: at the radius that is learned, curvature plus noise is at most one."""
    model = make_model(make_rows(40)).tuned(
        make_model(make_rows(40)).concentrations, np.array([5.0]), np.arange(1.0, 4)
    )
    covariance = model.noise_covariance().reshape(V, K)
    np.testing.assert_allclose(covariance.mean(axis=0), np.arange(1.0, 4) / 25, rtol=1e-12)
    topics = make_topics()
    target = ConditionalFrames(model, make_draws(model, 20, seed=3))
    _, terms = target._terms_at(model.to_position(topics)[None])
    coupling = np.abs(terms.coupling) / len(model.directed)
    curvature = model.curvature_plus_noise(coupling, model.noise)
    assert curvature.shape == (1,)
    largest = np.linalg.eigvalsh(KAPPA * len(model.directed) * coupling).max()
    assert curvature[0] == pytest.approx(largest + V + 3.0)
