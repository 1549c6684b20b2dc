"""Orthonormal topics as samplers see them: gradients against differences and slow formulas, means over minibatches."""

import numpy as np
import pytest

from skmanifold.admixture._orthogonal.passes import ConditionalFrames, OrthogonalModel
from skmanifold.distributions import log_vmf_normalizer
from skmanifold.distributions._matrix_von_mises_fisher import nearest_frame

from ..spherical._spherical_draws import gradient_of, log_density_of, make_rows, unit
from ._orthogonal_draws import WithoutLength, draw_frames
from ._orthogonal_draws import make_model as make_orthogonal

K, V, KAPPA = 3, 7, 40.0
OF_TOPICS = np.array([5.0, 40.0, 120.0])


def make_model(X, *, radius=3.0, kind=OrthogonalModel, kappa=KAPPA):
    return make_orthogonal(X, K, alpha=0.7, kappa=kappa, radius=radius, kind=kind)


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


def tangent(model, topics, gradient):
    gradient = gradient[None].copy()
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
    np.testing.assert_allclose(gradient, target.linear_parameter(), rtol=1e-10)


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
