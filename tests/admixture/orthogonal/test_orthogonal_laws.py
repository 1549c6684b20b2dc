"""Samplers of orthonormal topics as wholes: the joint law with the number of topics, and the posterior of topics.

Wrong variants go through the same checks, and fail.
"""

from functools import cache

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._orthogonal.passes import FramePasses, OrthogonalModel
from skmanifold.samplers import GSGNHT, ColumnGibbs

from ..spherical._spherical_draws import (
    DOCUMENTS,
    KEY,
    KINDS,
    chain_of_topics,
    difference,
    draw_around,
    draw_documents,
    in_batches,
    minibatches,
    unit,
)
from ._orthogonal_draws import WithoutLength, draw_frames, draw_prior, make_model

V, N_DOCUMENTS, KAPPA = 4, 4, 10.0
OF_TOPICS = np.array([3.0, 40.0])
PRIORS = {"on the sphere": 1.5, "at its edge": 0.5, "in logarithms": 0.3}


# --- the joint law: documents drawn anew after each pass --------------------------------------------------


def joint_statistics(topics, theta, documents):
    """Of single or many topics, proportions and documents: along the last axis. Nothing that turns with all of them."""
    product = documents @ np.swapaxes(topics, -1, -2)
    along = (product * theta).sum(axis=-1) / np.linalg.norm(theta, axis=-1)
    parts = [theta.mean(axis=-2), (theta**2).mean(axis=-2), product.mean(axis=-2)]
    parts += [(product**2).mean(axis=-2), (product * theta).mean(axis=-2), along.mean(axis=-1)[..., None]]
    return np.concatenate(parts, axis=-1)


@cache
def prior_statistics(alpha, of_topics=False, n=30_000):
    rng, kappa = np.random.default_rng(9), OF_TOPICS if of_topics else KAPPA
    return summarize(joint_statistics(*draw_prior(n, 2, V, N_DOCUMENTS, alpha, kappa, rng)))


def proportions_at(model, chains):
    points = chains.points
    theta = points**2 if model.on_sphere else np.exp(points - points.max(axis=1, keepdims=True))
    return theta / theta.sum(axis=1, keepdims=True)


def begin(passes, alpha, kind=OrthogonalModel, kappa=KAPPA):
    """Model and state at a draw of the prior."""
    rng, n_components = np.random.default_rng(0), 2
    topics, theta, documents = (x[0] for x in draw_prior(1, n_components, V, N_DOCUMENTS, alpha, kappa, rng))
    model = make_model(documents, n_components, alpha=alpha, kappa=kappa, kind=kind)
    state = passes.init(model, KEY)
    state.position[0] = topics.T
    sums = rng.gamma(n_components * alpha, size=(N_DOCUMENTS, 1))
    state.latents.points[:] = np.sqrt(theta) if model.on_sphere else np.log(theta * sums)
    state.latents.log_steps[:] = np.log(0.35)
    return model, state, rng


def joint_chain(alpha, n_passes, kind=OrthogonalModel, n_draws=4, kappa=KAPPA):
    """The statistics after each pass; then documents are drawn anew."""
    passes = FramePasses(ColumnGibbs(), n_draws, 0)
    model, state, rng = begin(passes, alpha, kind, kappa)
    series = []
    for _ in range(n_passes):
        state = passes.step(model, state)
        topics, theta = passes.parameters(model, state), proportions_at(model, state.latents)
        series.append(joint_statistics(topics, theta, model.rows.data.reshape(N_DOCUMENTS, V)))  # of the old documents
        model.rows.data[:] = draw_documents(topics, theta, kappa, rng).ravel()
    return in_batches(series)


@pytest.mark.extended
@pytest.mark.short_cases("on the sphere")
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("of_topics", [False, True], ids=["one concentration", "one for each topic"])
def test_passes_keep_the_joint_law(prior, of_topics):
    estimate = joint_chain(PRIORS[prior], 600, kappa=OF_TOPICS if of_topics else KAPPA)
    assert_agrees(difference(estimate, prior_statistics(PRIORS[prior], of_topics)), 0.0)


@pytest.mark.extended
def test_the_joint_law_finds_a_pull_of_the_wrong_length():
    estimate = joint_chain(PRIORS["on the sphere"], 1000, WithoutLength)
    assert_disagrees(difference(estimate, prior_statistics(PRIORS["on the sphere"])), 0.0)


# --- the number of topics ---------------------------------------------------------------------------------

PENALTY, MOST = 0.4, 3
LOG_PRIOR = np.append(-np.inf, -PENALTY * np.arange(1, MOST + 1))
OF_NUMBERS = np.exp(LOG_PRIOR[1:]) / np.exp(LOG_PRIOR[1:]).sum()


def sizes_chain(alpha, n_passes, log_prior=LOG_PRIOR):
    """Whether there are 1, 2, 3 topics, and the largest share and mean cosine, after each pass and redrawing."""
    passes = FramePasses(ColumnGibbs(), 3, 0, 3, log_prior)
    model, state, rng = begin(passes, alpha)
    series = []
    for _ in range(n_passes):
        state = passes.step(model, state)
        topics = passes.parameters(model, state)
        np.testing.assert_allclose(topics @ topics.T, np.eye(len(topics)), atol=1e-10)
        np.testing.assert_array_equal(state.position[0].T, topics)
        theta = proportions_at(model, state.latents)
        documents = draw_around(unit(theta @ topics), KAPPA, rng)
        model.rows.data[:] = documents.ravel()
        series.append([*(len(topics) == np.arange(1, MOST + 1)), theta.max(axis=1).mean()])
    return in_batches(series)


@cache
def sizes_exact(alpha):
    rng = np.random.default_rng(3)
    shares = [rng.dirichlet(np.full(n, alpha), 100_000).max(axis=1).mean() for n in range(1, MOST + 1)]
    return np.append(OF_NUMBERS, OF_NUMBERS @ shares)


@pytest.mark.extended
@pytest.mark.short_cases("at its edge")
@pytest.mark.parametrize("prior", ["at its edge", "in logarithms"])
def test_births_and_deaths_keep_the_joint_law(prior):
    estimate = sizes_chain(PRIORS[prior], 400)
    assert estimate.error[:3].max() < 0.08
    assert_agrees(estimate, sizes_exact(PRIORS[prior]), 0.002)


@pytest.mark.extended
def test_the_prior_of_the_number_is_felt():
    estimate = sizes_chain(PRIORS["at its edge"], 200, log_prior=np.append(-np.inf, [0.0, 0.0, 3.0]))
    assert_disagrees(estimate, sizes_exact(PRIORS["at its edge"]), 0.002)


# --- the posterior of topics ------------------------------------------------------------------------------

ALPHA = 1.5


def topic_statistics(topics):
    """What does not ask which topic is which."""
    products = topics @ DOCUMENTS.T
    parts = [products.mean(axis=(-1, -2)), (products**2).mean(axis=(-1, -2)), (products**3).mean(axis=(-1, -2))]
    parts += [(products[..., 0, :] * products[..., 1, :]).mean(axis=-1), topics.sum(axis=-2)[..., 0]]
    parts += [(topics**2).sum(axis=-2)[..., 3], (topics[..., 0] * topics[..., 3]).sum(axis=-1)]
    return np.stack(parts, axis=-1)


def weighted_prior(n, rng, nodes=60):
    """The posterior's means of `topic_statistics`: weighted draws of the prior, proportions by quadrature."""
    topics = draw_frames(n, 2, V, rng)
    t, mass = np.polynomial.legendre.leggauss(nodes)
    t = (t + 1) / 2
    mass = mass * (t * (1 - t)) ** (ALPHA - 1)
    theta = np.stack([t, 1 - t], axis=-1)
    directions, log_weight = unit(theta), 0.0
    for v in DOCUMENTS:
        log_weight = log_weight + np.log(np.exp(KAPPA * (topics @ v) @ directions.T) @ (mass / mass.sum()))
    weight = np.exp(log_weight - log_weight.max())
    statistics = topic_statistics(topics)
    mean = weight @ statistics / weight.sum()
    return Estimate(mean, np.sqrt(weight**2 @ (statistics - mean) ** 2) / weight.sum())


@cache
def posterior():
    return weighted_prior(60_000, np.random.default_rng(0))


def topic_chain(passes, n_passes, radius=1.0, kind=OrthogonalModel):
    model = make_model(DOCUMENTS, 2, alpha=ALPHA, kappa=KAPPA, radius=radius, kind=kind)
    return chain_of_topics(model, passes, topic_statistics, posterior(), n_passes)


@pytest.mark.extended
def test_sweeps_draw_topics_from_the_posterior():
    estimate, temperature = topic_chain(FramePasses(ColumnGibbs(), 5, 0), 800)
    assert estimate.error.max() < 0.03
    assert_agrees(estimate, 0.0)
    assert np.isnan(temperature)


class Halved(OrthogonalModel):
    """As if minibatches stood for half of the documents."""

    def add_parameter(self, rows, pull, out):
        super().add_parameter(rows, 0.5 * pull, out)


@pytest.mark.extended
def test_sweeps_with_half_the_parameter_are_found_out():
    assert_disagrees(topic_chain(FramePasses(ColumnGibbs(), 5, 0), 300, kind=Halved)[0], 0.0)


# biases are of the first order in the step: proportions lag behind topics, and minibatches heat
BIASES = {("gsgnht", None): 0.01, ("sggmc", None): 0.015, ("gsgnht", 3): 0.02, ("sggmc", 3): 0.05}


@pytest.mark.extended
@pytest.mark.short_cases("3")
@pytest.mark.parametrize(("name", "batch_size"), BIASES)
def test_minibatch_samplers_draw_topics_near_the_posterior(name, batch_size):
    estimate, temperature = topic_chain(minibatches(KINDS[name], 0.1, batch_size), 600)
    assert_agrees(estimate, 0.0, BIASES[name, batch_size])
    assert temperature == pytest.approx(1, abs=0.05 if name == "gsgnht" else 0.2 if batch_size is None else 1.2)


@pytest.mark.extended
def test_the_radius_leaves_the_law_alone():
    estimate, temperature = topic_chain(minibatches(GSGNHT, 0.5, None, 0.4, thermostat_mass=20.0), 600, radius=5.0)
    assert_agrees(estimate, 0.0, BIASES["gsgnht", None])
    assert temperature == pytest.approx(1, abs=0.05)


def test_minibatch_samplers_with_wrong_gradients_are_found_out():
    estimate, _ = topic_chain(minibatches(GSGNHT, 0.1, None), 300, kind=Halved)
    assert_disagrees(estimate, 0.0, BIASES["gsgnht", None])
