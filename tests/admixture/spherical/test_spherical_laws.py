"""Samplers of a spherical admixture as wholes: the joint law and the posterior of topics.

Wrong variants go through the same checks, and fail.
"""

from functools import cache

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._spherical.model import SphericalModel
from skmanifold.admixture._spherical.passes import BlockwisePasses
from skmanifold.distributions import bessel_ratio
from skmanifold.random._keys import subkey
from skmanifold.samplers import GMC, GSGNHT, SGGMC, SVRG, BlockwiseGMC

from ._spherical_draws import (
    CONCENTRATIONS,
    DOCUMENTS,
    KEY,
    KINDS,
    MEAN,
    ScalesThePrior,
    WithoutProjection,
    chain_of_topics,
    difference,
    draw_documents,
    draw_prior,
    in_batches,
    make_model,
    minibatches,
)


class WithoutNormalizer(SphericalModel):
    """The mean of the topics is not integrated out, but left out."""

    def prior(self, word_topic):
        return super().prior(word_topic)._replace(length=1.0)


class PrintedExponent(SphericalModel):
    """2 alpha - 2 on the sphere of roots: the Jacobian is missing."""

    def __init__(self, setup, workers):
        super().__init__(setup._replace(alpha=setup.alpha - 0.5), workers)


# --- the joint law: documents drawn anew after each pass --------------------------------------------------

PRIORS = {"on the sphere": (2.0, 1.2, 1.0), "at its edge": (0.5, 0.5, 0.5), "in logarithms": (0.3, 0.5, 1.0)}
N_DOCUMENTS = 4


def joint_statistics(topics, theta, documents):
    """Of single or many topics, proportions and documents: along the last axis."""
    cosines = topics @ MEAN
    pairs = [(topics[..., i, :] * topics[..., j, :]).sum(axis=-1) for i, j in ((0, 1), (0, 2), (1, 2))]
    mixture = theta @ topics
    length, along = np.linalg.norm(mixture, axis=-1), (mixture * documents).sum(axis=-1)
    of_documents = [theta, theta**2, documents @ np.swapaxes(topics, -1, -2)]
    others = [length, along, (documents @ MEAN)]
    return np.concatenate(
        [
            cosines,
            cosines**2,
            np.stack(pairs, axis=-1),
            *(values.mean(axis=-2) for values in of_documents),
            np.stack([values.mean(axis=-1) for values in others], axis=-1),
        ],
        axis=-1,
    )


OF_TOPICS = CONCENTRATIONS._replace(document=np.array([2.0, 10.0, 50.0]))


@cache
def prior_statistics(alpha, n=50_000, of_topics=False):
    rng, concentrations = np.random.default_rng(9), OF_TOPICS if of_topics else CONCENTRATIONS
    return summarize(joint_statistics(*draw_prior(n, 3, N_DOCUMENTS, alpha, concentrations, MEAN, rng)))


@pytest.mark.extended
def test_draws_from_the_prior_have_its_moments():
    mean, error = prior_statistics(PRIORS["on the sphere"])
    alpha = np.array(PRIORS["on the sphere"])
    total, of_mean, of_topic = alpha.sum(), bessel_ratio(4, 5.0), bessel_ratio(4, 5.0)
    assert_agrees(Estimate(mean[:3], error[:3]), of_mean * of_topic)
    square = 1 - 3 * of_topic / 5.0  # E cos^2
    along = (4 * square - 1) / 3
    assert_agrees(Estimate(mean[3:6], error[3:6]), along * square + (square - along))
    assert_agrees(Estimate(mean[6:9], error[6:9]), of_topic**2)
    assert_agrees(Estimate(mean[9:12], error[9:12]), alpha / total)
    assert_agrees(Estimate(mean[12:15], error[12:15]), alpha * (alpha + 1) / (total * (total + 1)))


def joint_chain(
    alpha, n_passes, sampler=None, kind=SphericalModel, radii=1.0, n_draws=5, seed=0, concentrations=CONCENTRATIONS
):
    """The statistics after each pass and redrawing of documents, from a draw of the prior; and the acceptance rate."""
    rng = np.random.default_rng(seed)
    topics, theta, documents = (x[0] for x in draw_prior(1, 3, N_DOCUMENTS, alpha, concentrations, MEAN, rng))
    model = make_model(documents, alpha, concentrations, radii=radii, kind=kind)
    passes = BlockwisePasses(sampler or BlockwiseGMC(0.3, 3), None, n_draws, 0)
    state = passes.init(model, subkey(KEY, seed))
    state.position[0] = topics * model.radii[:, None]
    points = state.latents.points
    points[:] = np.sqrt(theta) if model.on_sphere else np.log(theta * rng.gamma(np.sum(alpha), size=(N_DOCUMENTS, 1)))
    state.latents.log_steps[:] = np.log(0.35)
    series, moved, last = [], 0, topics
    for _ in range(n_passes):
        state = passes.step(model, state)
        topics = parameters = passes.parameters(model, state)
        moved += not np.array_equal(parameters, last)
        last = parameters
        theta = points**2 if model.on_sphere else np.exp(points)
        theta = theta / theta.sum(axis=1, keepdims=True)
        documents = draw_documents(topics, theta, concentrations.document, rng)
        model.rows.data[:] = documents.ravel()
        series.append(joint_statistics(topics, theta, documents))
    return in_batches(series), moved / n_passes


def joint_chains(alpha, n_chains, n_passes, **options):
    """Means of the statistics over chains, whose errors are those between chains; and the mean acceptance rate.

    A chain forgets slowly: the batches of a single one know too little of its error.
    """
    chains = [joint_chain(alpha, n_passes, seed=seed, **options) for seed in range(n_chains)]
    return summarize([estimate.mean for estimate, _ in chains]), np.mean([rate for _, rate in chains])


@pytest.mark.parametrize(
    ("prior", "options"),
    [
        pytest.param("on the sphere", {"concentrations": OF_TOPICS}, marks=pytest.mark.extended),
        pytest.param("at its edge", {"concentrations": OF_TOPICS}, marks=pytest.mark.long),
        pytest.param(
            "in logarithms", {"concentrations": OF_TOPICS, "sampler": BlockwiseGMC(0.15, 5)}, marks=pytest.mark.long
        ),
        pytest.param("on the sphere", {"sampler": GMC(0.3, 3), "n_draws": 1}, marks=pytest.mark.extended),
        pytest.param(
            "on the sphere", {"sampler": BlockwiseGMC(0.6, 3), "radii": (1.5, 2.0, 4.0)}, marks=pytest.mark.long
        ),
    ],
)
def test_samplers_given_proportions_keep_the_joint_law(prior, options):
    estimate, rate = joint_chains(PRIORS[prior], 40, 40, **options)
    assert 0.3 < rate < 0.95
    assert estimate.error[:9].max() < 0.06
    reference = prior_statistics(PRIORS[prior], of_topics="concentrations" in options)
    assert_agrees(difference(estimate, reference), 0.0)


@pytest.mark.long
@pytest.mark.parametrize("kind", [WithoutNormalizer, PrintedExponent])
def test_the_joint_law_finds_wrong_densities(kind):
    estimate, _ = joint_chains(PRIORS["on the sphere"], 40, 40, kind=kind)
    assert_disagrees(difference(estimate, prior_statistics(PRIORS["on the sphere"])), 0.0)


@pytest.mark.extended
def test_a_wrong_gradient_costs_acceptances():
    """The Metropolis test keeps the law all the same: only samplers without it show that a gradient is wrong."""
    alpha = PRIORS["on the sphere"]
    _, right = joint_chain(alpha, 200)
    _, wrong = joint_chain(alpha, 200, kind=WithoutProjection)
    assert wrong < right - 0.1


@pytest.mark.long
@pytest.mark.parametrize("prior", PRIORS)
def test_the_blockwise_sampler_keeps_the_joint_law_in_a_long_run(prior):
    estimate, _ = joint_chain(PRIORS[prior], 15_000)
    assert estimate.error[:9].max() < 0.02
    assert_agrees(difference(estimate, prior_statistics(PRIORS[prior], 500_000)), 0.0)


@pytest.mark.long
def test_a_mean_over_draws_in_place_of_one_is_approximate():
    alpha = PRIORS["on the sphere"]
    reference = prior_statistics(alpha)
    estimate, _ = joint_chain(alpha, 10_000, GMC(0.3, 3), n_draws=1)
    assert_agrees(difference(estimate, reference), 0.0)
    for n_draws in (5, 20):
        estimate, _ = joint_chain(alpha, 10_000, GMC(0.3, 3), n_draws=n_draws)
        assert_disagrees(difference(estimate, reference), 0.0)
        assert_agrees(difference(estimate, reference), 0.0, 0.15)


# --- the posterior of topics ------------------------------------------------------------------------------

PAIR = (1.5, 1.5)
# Draws of the topics from their prior, 20 million, weighted by the documents' likelihood: the proportion is integrated
# out by Gauss-Jacobi quadrature with 20 nodes.
POSTERIOR = Estimate(
    np.array([0.705066, 0.535753, 0.349148, 0.57266, 0.41739, 0.279808]),
    np.array([0.000171, 0.0002, 0.000547, 0.000126, 0.000072, 0.000213]),
)


def topic_statistics(topics):
    """What does not ask which topic is which."""
    cosines, products = topics @ MEAN, topics @ DOCUMENTS.T
    alike = (topics[..., 0, :] * topics[..., 1, :]).sum(axis=-1)
    parts = [cosines.mean(axis=-1), (cosines**2).mean(axis=-1), alike, products.mean(axis=(-1, -2))]
    parts += [(products**2).mean(axis=(-1, -2)), (products[..., 0, :] * products[..., 1, :]).mean(axis=-1)]
    return np.stack(parts, axis=-1)


def quadrature(nodes=20):
    """Proportions and weights of the Beta law of the first topic's share."""
    t, weight = np.polynomial.legendre.leggauss(4 * nodes)
    t = (t + 1) / 2
    weight = weight * t ** (PAIR[0] - 1) * (1 - t) ** (PAIR[1] - 1)
    return np.stack([t, 1 - t], axis=-1), weight / weight.sum()


def weighted_prior(n, rng):
    """The posterior's means of `topic_statistics`, by draws of the prior with weights."""
    topics, _, _ = draw_prior(n, 2, 1, PAIR, CONCENTRATIONS, MEAN, rng)
    theta, mass = quadrature()
    mixtures = theta @ topics
    log_weight = 0.0
    for v in DOCUMENTS:
        cosine = mixtures @ v / np.linalg.norm(mixtures, axis=-1)
        log_weight = log_weight + np.log(np.exp(CONCENTRATIONS.document * cosine) @ mass)
    weight = np.exp(log_weight - log_weight.max())
    statistics = topic_statistics(topics)
    mean = weight @ statistics / weight.sum()
    return Estimate(mean, np.sqrt(weight**2 @ (statistics - mean) ** 2) / weight.sum())


@pytest.mark.extended
def test_the_exact_posterior_is_that_of_weighted_draws():
    assert_agrees(weighted_prior(20_000, np.random.default_rng(0)), POSTERIOR.mean)


def topic_chain(passes, n_passes, radii=1.0, kind=SphericalModel, burn_in=100):
    model = make_model(DOCUMENTS, PAIR, radii=radii, kind=kind)
    return chain_of_topics(model, passes, topic_statistics, POSTERIOR, n_passes, burn_in)


@pytest.mark.extended
def test_the_blockwise_sampler_draws_topics_from_the_posterior():
    passes = BlockwisePasses(BlockwiseGMC(0.35, 3), None, 5, 0)
    assert_agrees(topic_chain(passes, 800, (1.0, 2.0))[0], 0.0)


# biases are of the first order in the step: proportions lag behind topics, and minibatches heat
BIASES = {("gsgnht", None): 0.03, ("sggmc", None): 0.04, ("gsgnht", 3): 0.11, ("sggmc", 3): 0.14}
# and their tolerances; that of "sggmc" with minibatches is the mean of twelve chains, with four standard deviations
TEMPERATURES = {
    ("gsgnht", None): (1, 0, 0.03),
    ("sggmc", None): (1, 0, 0.2),
    ("gsgnht", 3): (1, 0, 0.03),
    ("sggmc", 3): (1.86, 0, 0.09),
}


@pytest.mark.extended
@pytest.mark.short_cases("3")
@pytest.mark.parametrize(("name", "batch_size"), BIASES)
def test_minibatch_samplers_draw_topics_near_the_posterior(name, batch_size):
    estimate, temperature = topic_chain(minibatches(KINDS[name], 0.1, batch_size), 1600)
    assert estimate.error.max() < 0.03
    assert_agrees(estimate, 0.0, BIASES[name, batch_size])
    assert temperature == pytest.approx(*TEMPERATURES[name, batch_size])


@pytest.mark.extended
@pytest.mark.short_cases("3")
@pytest.mark.parametrize(
    ("kind", "batch_size"), [(WithoutProjection, None), (WithoutProjection, 3), (ScalesThePrior, None)]
)
def test_minibatch_samplers_with_wrong_gradients_are_found_out(kind, batch_size):
    estimate, _ = topic_chain(minibatches(GSGNHT, 0.1, batch_size), 600, kind=kind)
    assert_disagrees(estimate, 0.0, BIASES["gsgnht", batch_size])


def positions_after(passes, radii, n=30):
    model = make_model(DOCUMENTS, PAIR, radii=radii)
    state = passes.init(model, KEY)
    for _ in range(n):
        state = passes.step(model, state)
    return passes.parameters(model, state)


def test_radii_are_units_of_the_step_size():
    """With R for h, 1 / R for the friction and R^2 for the thermostat's mass, each step is the same."""
    R = 7.0
    pairs = [
        (minibatches(SGGMC, 0.1 * R, 3, 2.0 / R), minibatches(SGGMC, 0.1, 3, 2.0)),
        (minibatches(GSGNHT, 0.1 * R, 3, 2.0 / R, thermostat_mass=R**2), minibatches(GSGNHT, 0.1, 3, 2.0)),
        (BlockwisePasses(BlockwiseGMC(0.3 * R, 3), None, 2, 0), BlockwisePasses(BlockwiseGMC(0.3, 3), None, 2, 0)),
    ]
    for scaled, plain in pairs:
        expected = positions_after(plain, 1.0)
        np.testing.assert_allclose(positions_after(scaled, R), expected, atol=1e-8)
        assert not np.allclose(positions_after(plain, R), expected, atol=0.1)


@pytest.mark.extended
def test_radii_of_each_topic_leave_the_law_alone():
    estimate, temperature = topic_chain(minibatches(GSGNHT, 0.5, None, 0.4, thermostat_mass=20.0), 1600, (4.0, 8.0))
    assert_agrees(estimate, 0.0, BIASES["gsgnht", None])
    assert temperature == pytest.approx(1, abs=0.03)


@pytest.mark.extended
def test_differences_to_an_anchor_leave_the_law_alone():
    passes = minibatches(SGGMC, 0.1, 3, control_variate=SVRG(5))
    estimate, temperature = topic_chain(passes, 1000)
    assert_agrees(estimate, 0.0, BIASES["sggmc", 3])
    plain = topic_chain(minibatches(SGGMC, 0.1, 3), 300)[1]
    assert temperature < plain - 0.1  # less noise heats less


@pytest.mark.long
@pytest.mark.parametrize(("name", "batch_size"), BIASES)
def test_the_bias_of_minibatch_samplers_falls_with_the_step_size(name, batch_size):
    for h in (0.1, 0.05):
        estimate, _ = topic_chain(minibatches(KINDS[name], h, batch_size), round(1500 / h), burn_in=500)
        assert_agrees(estimate, 0.0, BIASES[name, batch_size] * h / 0.1)
