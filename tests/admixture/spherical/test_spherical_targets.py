"""Gradients and log densities of a spherical admixture's topics: differences, slow formulas, means over minibatches."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln

from skmanifold.admixture._orthogonal.passes import ConditionalFrames
from skmanifold.admixture._spherical.concentrations import Concentrations
from skmanifold.admixture._spherical.model import ProportionChains, SphericalModel
from skmanifold.admixture._spherical.setup import Setup
from skmanifold.admixture._spherical.targets import ConditionalSAM, MinibatchSAM, move_chains, terms_given_proportions
from skmanifold.distributions import bessel_ratio, log_vmf_normalizer
from skmanifold.random._keys import subkey
from skmanifold.sparse.directions import as_directions
from skmanifold.topics.spherical_kernels import fill_document_gradients
from skmanifold.utils._threads import Workers

from ..orthogonal import _orthogonal_draws as orthogonal
from ._spherical_draws import (
    KEY,
    ONE,
    STEP_KEYS,
    GivenRows,
    ScalesThePrior,
    WithoutProjection,
    gradient_of,
    log_density_of,
    make_rows,
    unit,
)

K, V = 3, 7
RADII = np.array([0.5, 3.0, 20.0])
CONCENTRATIONS = Concentrations(40.0, 15.0, 8.0)
OF_TOPICS = CONCENTRATIONS._replace(document=np.array([10.0, 45.0, 120.0]))
each_law = pytest.mark.parametrize("concentrations", [CONCENTRATIONS, OF_TOPICS], ids=["one", "of topics"])
ALPHA = np.array([0.7, 1.5, 3.0])


def make_model(
    X, *, alpha=ALPHA, concentrations=CONCENTRATIONS, radii=RADII, workers=ONE, total_samples=None, kind=SphericalModel
):
    rows = as_directions(sp.csr_array(X))
    mean = unit(np.linspace(1.0, -0.4, X.shape[1]))
    fixed = (False, False, False), np.array(radii), np.zeros(len(alpha)), False
    return kind(Setup(rows, np.array(alpha), mean, concentrations, *fixed), workers, total_samples)


def make_topics(n, n_features=V, seed=1):
    return unit(np.random.default_rng(seed).normal(0.3, 1.0, (n, n_features)))


def make_draws(n_rows, n_draws, seed=2, alpha=ALPHA):
    return np.random.default_rng(seed).dirichlet(alpha, (n_rows, n_draws))


def slow_log_density(model, X, topics, draws):
    """The joint density of documents, proportions and topics, the topics' mean integrated out; a mean over draws."""
    kappa, sigma, kappa_0 = model.concentrations
    n_features, alpha = X.shape[1], model.alpha
    documents = unit(X[np.any(X != 0, axis=1)])
    natural = kappa_0 * model.mean_direction + sigma * topics.sum(axis=0)
    value = log_vmf_normalizer(n_features, kappa_0) + len(topics) * log_vmf_normalizer(n_features, sigma)
    value -= log_vmf_normalizer(n_features, np.linalg.norm(natural))
    for v, thetas in zip(documents, draws, strict=True):
        of_document = 0.0
        for theta in thetas:
            cosine = v @ unit(theta @ topics)
            dirichlet = gammaln(alpha.sum()) - gammaln(alpha).sum() + (alpha - 1) @ np.log(theta)
            of_theta = kappa if np.ndim(kappa) == 0 else theta @ kappa
            of_document += dirichlet + log_vmf_normalizer(n_features, of_theta) + of_theta * cosine
        value += model.total_samples / len(documents) * of_document / len(thetas)
    return value


def tangent(topics, gradient):
    return gradient - topics * (topics * gradient).sum(axis=1, keepdims=True)


def slopes_by_differences(target, topics):
    """Tangent gradient in the position, by central differences with Richardson's extrapolation."""
    slopes = np.zeros_like(topics)
    for k in range(len(topics)):
        basis = np.linalg.svd(topics[k][None])[2][1:]
        for direction in basis:
            estimates = []
            for h in (4e-4, 2e-4):
                values = []
                for sign in (1, -1):
                    moved = topics.copy()
                    moved[k] = np.cos(h) * topics[k] + sign * np.sin(h) * direction
                    values.append(log_density_of(target, moved))
                estimates.append((values[0] - values[1]) / (2 * h * target.model.radii[k]))
            slopes[k] += (4 * estimates[1] - estimates[0]) / 3 * direction
    return slopes


def agree(gradient, slopes, rtol=1e-6):
    return np.allclose(gradient, slopes, rtol=0, atol=rtol * np.abs(slopes).max(axis=1, keepdims=True))


# --- given proportions -----------------------------------------------------------------------------------


@each_law
@pytest.mark.parametrize("total_samples", [None, 1000])
@pytest.mark.parametrize("n_draws", [1, 3])
def test_the_log_density_is_that_of_the_joint_law(n_draws, total_samples, concentrations):
    X = make_rows(11)
    model = make_model(X, total_samples=total_samples, concentrations=concentrations)
    draws = make_draws(len(model.directed), n_draws)
    target = ConditionalSAM(model, draws)
    topics = [make_topics(K, seed=seed) for seed in range(6)]
    fast = np.array([log_density_of(target, of) for of in topics])
    slow = np.array([slow_log_density(model, X, of, draws) for of in topics])
    np.testing.assert_allclose(fast - fast[0], slow - slow[0], rtol=1e-9, atol=1e-9 * np.ptp(slow))


@each_law
@pytest.mark.parametrize("total_samples", [None, 1000])
@pytest.mark.parametrize("n_draws", [1, 3])
def test_the_gradient_is_the_slope_of_the_log_density(n_draws, total_samples, concentrations):
    X, topics = make_rows(11), make_topics(K)
    model = make_model(X, total_samples=total_samples, concentrations=concentrations)
    target = ConditionalSAM(model, make_draws(len(model.directed), n_draws))
    assert agree(tangent(topics, gradient_of(target, topics)), slopes_by_differences(target, topics))


def test_wrong_gradients_are_not_the_slope():
    class ForgetsTheRadii(SphericalModel):
        def fill_gradient(self, rows, terms, word_topic, out):
            prior = super().fill_gradient(rows, terms, word_topic, out)
            out *= self.radii[:, None]
            return prior

    X, topics = make_rows(11), make_topics(K)
    draws = make_draws(len(make_model(X).directed), 2)
    slopes = slopes_by_differences(ConditionalSAM(make_model(X), draws), topics)
    for kind in (WithoutProjection, ScalesThePrior, ForgetsTheRadii):
        wrong = ConditionalSAM(make_model(X, kind=kind), draws)
        assert not agree(tangent(topics, gradient_of(wrong, topics)), slopes, 1e-4)


def test_a_prior_that_cancels_out_has_no_gradient():
    topics = np.array([[1.0, 0.0], [-1.0, 0.0]])
    model = make_model(np.eye(2), alpha=[1.0, 1.0], radii=[1.0, 1.0], concentrations=Concentrations(4.0, 5.0, 1e-300))
    prior = model.prior(np.ascontiguousarray(topics.T))
    np.testing.assert_allclose(prior.gradient, 0, atol=1e-290)
    assert np.isfinite(prior.log_density)


# --- minibatches -----------------------------------------------------------------------------------------


def copied(chains):
    return ProportionChains(*(array.copy() for array in chains))


def wandered(model, n_references=0):
    """Chains that are nowhere special."""
    chains = model.init_chains(n_references)
    rng = np.random.default_rng(5)
    chains.points[:] = np.sqrt(rng.dirichlet(model.alpha, len(chains.points)))
    return chains


def make_frames(X, *, workers=ONE, concentrations=CONCENTRATIONS):
    kappa = concentrations.document
    return orthogonal.make_model(X, K, alpha=0.7, kappa=kappa, radius=3.0, workers=workers)


def draw_topics(n_features=V):
    return orthogonal.draw_frames(1, K, n_features, np.random.default_rng(1))[0]


CASES = {
    "topics": (make_model, lambda n_features=V: make_topics(K, n_features), ConditionalSAM),
    "frames": (make_frames, draw_topics, ConditionalFrames),
}
each_case = pytest.mark.parametrize("case", CASES)


@each_law
@each_case
def test_the_mean_over_all_minibatches_is_the_full_gradient(case, concentrations):
    make, topics, conditional = CASES[case]
    model, topics = make(make_rows(7), concentrations=concentrations), topics()
    target = GivenRows(model, wandered(model), KEY, 2, 3, False)
    target.rows = model.directed
    assert len(target.rows) == 5
    full = gradient_of(target, topics, STEP_KEYS)
    turned, draws = model.to_word_major(model.to_position(topics)), np.empty((5, 3, K))
    move_chains(model, copied(target.chains), model.directed, STEP_KEYS[0], turned, 3, adapts=False, draws=draws)
    np.testing.assert_allclose(gradient_of(conditional(model, draws), topics), full, rtol=1e-11)
    each = []
    for pair in combinations(model.directed, 2):
        target.rows = np.array(pair)
        each.append(gradient_of(target, topics, STEP_KEYS))
    assert len(each) == 10
    np.testing.assert_allclose(np.mean(each, axis=0), full, rtol=1e-11, atol=1e-11 * np.abs(full).max())
    assert np.std(each, axis=0).max() > 0.1 * np.abs(full).max()


@each_law
@each_case
def test_the_deviations_of_documents_estimate_the_covariance_of_the_gradient(case, concentrations):
    make, topics, _ = CASES[case]
    model, topics = make(make_rows(7), concentrations=concentrations), topics()
    target = GivenRows(model, wandered(model), KEY, 2, 3, False)
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


@each_case
def test_gradients_do_not_depend_on_threads(case):
    make, topics, _ = CASES[case]
    X, gradients = make_rows(300, 20_000), []
    for jobs in (1, 2):
        with Workers(jobs) as workers:
            model = make(X, workers=workers)
            target = MinibatchSAM(model, wandered(model), KEY, 150, 2, True)
            gradients.append((gradient_of(target, topics(20_000), STEP_KEYS), target.chains.points))
    for one, two in zip(*gradients, strict=True):
        np.testing.assert_array_equal(one, two)


def test_gradients_of_documents_agree_with_their_formula():
    rng = np.random.default_rng(5)
    for n_topics, n_words in ((3, 7), (4, 256), (6, 515)):
        documents, topics = rng.standard_normal((5, n_words)), rng.standard_normal((n_topics, n_words))
        weights, coupling = rng.standard_normal((5, n_topics)), rng.standard_normal((5, n_topics, n_topics))
        out = np.full((5, n_topics, n_words), np.nan)
        fill_document_gradients(1, 4, documents, weights, coupling, topics, out)
        expected = weights[:, :, None] * documents[:, None] - coupling @ topics
        np.testing.assert_allclose(out[1:4], expected[1:4], rtol=1e-12, atol=1e-13)
        assert np.isnan(out[[0, 4]]).all()


def test_the_noise_of_a_stream_is_that_of_all_its_documents():
    X, topics = make_rows(7), make_topics(K)
    model, all_of_them = make_model(X, total_samples=50), make_model(X)
    position, out = (topics * model.radii[:, None])[None], np.empty((1, K, V))
    deviations = MinibatchSAM(model, model.init_chains(0), KEY, None, 3, False).grad_with_deviations(
        position, STEP_KEYS, out
    )
    assert np.abs(deviations).max() > 0
    exact = MinibatchSAM(all_of_them, model.init_chains(0), KEY, None, 3, False)
    assert not exact.grad_with_deviations(position, STEP_KEYS, out).any()


def test_differences_to_an_anchor_have_the_same_mean_and_less_noise():
    X = make_rows(7)
    model = make_model(X, radii=[2.0, 3.0, 5.0], alpha=10 * ALPHA)  # such proportions are nearly known
    n = model.rows.n_rows
    target = GivenRows(model, wandered(model, n), KEY, 2, 20, False)
    anchor = make_topics(K)
    near = unit(anchor + 0.03 * np.random.default_rng(3).standard_normal(anchor.shape))
    positions = [(topics * model.radii[:, None])[None] for topics in (anchor, near)]
    at_anchor, out = np.empty((2, *positions[0].shape))
    target.grad_log_density(positions[0], None, at_anchor)
    # the anchor's gradient is exact for the proportions that it keeps
    references = target.chains.reference[model.directed][:, None]
    np.testing.assert_allclose(at_anchor[0], gradient_of(ConditionalSAM(model, references), anchor), rtol=1e-12)
    np.testing.assert_allclose(references.sum(axis=-1), 1)
    target.rows = model.directed
    full = gradient_of(target, near, STEP_KEYS)
    plain, reduced = [], []
    for pair in combinations(model.directed, 2):
        target.rows = np.array(pair)
        target.grad_difference(positions[0], positions[1], STEP_KEYS, out)
        reduced.append(out[0] + at_anchor[0])
        plain.append(gradient_of(target, near, STEP_KEYS))
    np.testing.assert_allclose(np.mean(reduced, axis=0), full, rtol=1e-10, atol=1e-10 * np.abs(full).max())
    assert np.var(reduced, axis=0).sum() < 0.1 * np.var(plain, axis=0).sum()
    target.chains.reference[:] = make_draws(n, 1)[:, 0]  # any proportions do, if both ends have the same
    at_other = gradient_of(ConditionalSAM(model, target.chains.reference[model.directed][:, None]), anchor)
    reduced = []
    for pair in combinations(model.directed, 2):
        target.rows = np.array(pair)
        target.grad_difference(positions[0], positions[1], STEP_KEYS, out)
        reduced.append(out[0].copy())
    np.testing.assert_allclose(np.mean(reduced, axis=0) + at_other, full, rtol=1e-10, atol=1e-10 * np.abs(full).max())
    assert not np.allclose(np.mean(reduced, axis=0) + at_anchor[0], full, rtol=1e-3)


def test_the_same_key_is_the_same_minibatch():
    X, topics = make_rows(40), make_topics(K)
    model = make_model(X)
    target = MinibatchSAM(model, wandered(model, 40), KEY, 4, 2, False)
    chosen = target._rows(STEP_KEYS)
    assert len(chosen) == len(set(chosen)) == 4
    assert set(chosen) <= set(model.directed)
    others = [target._rows(np.array([subkey(KEY, t)], np.uint64)) for t in range(20)]
    assert len({tuple(sorted(rows)) for rows in others}) > 15
    stood = copied(target.chains)
    first = gradient_of(target, topics, STEP_KEYS)
    moved = copied(target.chains)
    still = np.setdiff1d(np.arange(40), chosen)
    np.testing.assert_array_equal(moved.points[still], stood.points[still])
    assert np.any(moved.points[chosen] != stood.points[chosen], axis=1).mean() >= 0.5
    for before, now in zip(stood, target.chains, strict=True):
        now[:] = before
    np.testing.assert_array_equal(gradient_of(target, topics, STEP_KEYS), first)
    for now, then in zip(target.chains, moved, strict=True):
        np.testing.assert_array_equal(now, then)
    # the difference's minibatch is that of the gradient
    target.grad_log_density((topics * RADII[:, None])[None], None, np.empty((1, K, V)))
    for before, now in zip(stood[:2], target.chains[:2], strict=True):
        now[:] = before
    position, out = (topics * RADII[:, None])[None], np.empty((1, K, V))
    target.grad_difference(position, position, STEP_KEYS, out)
    turned, at_anchor = model.to_word_major(position[0]), np.empty((K, V))
    terms = terms_given_proportions(model, target.chains.reference[chosen][:, None], chosen, turned)
    model.fill_gradient(chosen, terms, turned.topics, at_anchor)
    np.testing.assert_allclose(out[0] + at_anchor, first, rtol=1e-11, atol=1e-11 * np.abs(first).max())


def test_the_prior_is_not_scaled_with_the_documents():
    X, topics = make_rows(7), make_topics(K)
    gradients = []
    for total in (5, 50, 500):
        model = make_model(X, total_samples=total)
        target = MinibatchSAM(model, wandered(model), KEY, None, 2, False)
        gradients.append(gradient_of(target, topics, STEP_KEYS))
    documents = (gradients[1] - gradients[0]) / 45
    np.testing.assert_allclose(gradients[2] - gradients[1], 450 * documents, rtol=1e-9)
    _, sigma, kappa_0 = model.concentrations
    natural = kappa_0 * model.mean_direction + sigma * topics.sum(axis=0)
    length = np.linalg.norm(natural)
    prior = sigma * bessel_ratio(V, length) * natural / length / RADII[:, None]
    np.testing.assert_allclose(gradients[0] - 5 * documents, prior, rtol=1e-9, atol=1e-9 * np.abs(gradients[0]).max())
