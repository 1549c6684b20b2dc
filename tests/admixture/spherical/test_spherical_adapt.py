"""What a spherical admixture learns, radii and concentrations, and what does not matter to it."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture
from skmanifold.admixture._spherical.concentrations import Concentrations, learn_concentration
from skmanifold.admixture._spherical.documents import initialize_topics
from skmanifold.admixture._spherical.model import SphericalModel
from skmanifold.admixture._spherical.passes import SphericalMinibatchPasses, initially_tuned
from skmanifold.admixture._spherical.targets import MinibatchSAM
from skmanifold.distributions import bessel_ratio, bessel_ratio_derivative, inverse_bessel_ratio
from skmanifold.distributions._von_mises_fisher import sample_cosine_complement
from skmanifold.inference._convergence import warn_temperature
from skmanifold.random._keys import subkey
from skmanifold.samplers import GSGNHT, SGGMC

from ._spherical_draws import KEY, generate, make_model

pytestmark = pytest.mark.filterwarnings(r"ignore:batch_size=10 has no effect:UserWarning")  # all have the same

# --- initial topics ---------------------------------------------------------------------------------------


def mean_cosine(topics, planted):
    """Mean cosine of topics and planted ones, in the order in which it is largest."""
    cosines = topics @ planted.T
    return cosines[linear_sum_assignment(cosines, maximize=True)].mean()


@pytest.mark.parametrize("total_samples", [None, 4000])
def test_initial_topics_are_near_planted_ones_whose_clusters_are_not(total_samples):
    # Each document has all topics, so that centres of clusters are far from topics.
    concentrations = Concentrations(2000.0, 50.0, 50.0)
    mean, planted, documents = generate(100, 5, 400, concentrations, 3.0, 1)
    given = make_model(documents, np.full(5, 3.0), concentrations, 10.0, mean)
    model = SphericalModel(given.setup, given.workers, total_samples)
    for chain in range(2):
        key = subkey(KEY, chain)
        found = model.initial_topics(key)
        assert np.allclose(np.linalg.norm(found, axis=1), 1.0)
        assert mean_cosine(found, planted) > 0.98
        assert mean_cosine(initialize_topics(model.rows, 5, key).topics, planted) < 0.8


# --- temperature ------------------------------------------------------------------------------------------


def moved_to_learned_radii(sampler, batch_size, concentrations, n_passes, n_features=200):
    """Model and state after passes of burn-in, and the mean temperature in as many passes after it."""
    mean, _, documents = generate(n_features, 5, 100, concentrations, 0.5, 1)
    model = make_model(documents, np.full(5, 0.5), concentrations, 10.0, mean)
    passes = SphericalMinibatchPasses(sampler, batch_size, 5, n_passes)
    model = initially_tuned(model, passes.init(model, KEY).statistics.topics, KEY, scaled=True, batch_size=batch_size)
    state, temperature = passes.init(model, KEY), 0.0
    for t in range(2 * n_passes):
        state = passes.step(model, state)
        if t < n_passes:
            model = passes.adapt(model, state, (False, False, False), scaled=True)
        else:
            temperature += state.statistics.temperature / n_passes
    return model, state, temperature


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize("batch_size", [2, 10])
@pytest.mark.parametrize(
    ("sampler", "tolerance"),
    [
        (GSGNHT(0.5, 0.3, n_steps=1), 0.02),
        (SGGMC(0.3, 1.0, n_steps=1), 0.05),
        (SGGMC(0.1, 1.0, n_steps=1, noise_covariance=None), 0.08),  # h s^2 / 2 too hot, with s^2 at most 1
    ],
    ids=repr,
)
def test_topics_are_at_temperature_one_on_radii_that_are_learned(sampler, tolerance, batch_size):
    concentrations = Concentrations(400.0, 200.0, 200.0)
    model, state, temperature = moved_to_learned_radii(sampler, batch_size, concentrations, 10 * batch_size)
    assert model.manifold.dim == 5 * 199
    assert temperature == pytest.approx(1, abs=tolerance)
    if isinstance(sampler, GSGNHT):
        assert 0 < state.moving.thermostat[0] < 1.0  # no friction is left of a bad beginning
    np.testing.assert_allclose(np.linalg.norm(state.position[0], axis=1), model.radii, rtol=1e-10)


def test_the_noise_that_is_declared_is_that_of_minibatches():
    """Its mean over the coordinates of the tangent space, for each topic."""
    concentrations, K, V = Concentrations(200.0, 100.0, 100.0), 4, 60
    mean, topics, documents = generate(V, K, 300, concentrations, 0.5, 4)
    model = make_model(documents, np.full(K, 0.5), concentrations, 1.0, mean)
    model = initially_tuned(model, topics, KEY, scaled=False, batch_size=10)
    target = MinibatchSAM(model, model.init_chains(0), KEY, 10, 1, True)
    position, out, gradients = topics[None].copy(), np.empty((1, K, V)), []
    for t in range(400):
        target.grad_log_density(position, np.array([subkey(KEY, t)], np.uint64), out)
        if t >= 100:
            model.manifold.project(position, out)
            gradients.append(out[0].copy())
    variance = np.var(gradients, axis=0).mean(axis=1)
    declared = target.noise_covariance.reshape(K, V)
    np.testing.assert_allclose(declared.mean(axis=1), variance, rtol=0.2)
    of_words = declared.mean(axis=0) / np.var(gradients, axis=0).mean(axis=0)
    np.testing.assert_allclose(np.quantile(of_words, [0.1, 0.9]), 1, rtol=0.5)


# --- what does not matter ---------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", [SphericalAdmixture, OrthogonalSphericalAdmixture])
def test_the_noise_that_minibatches_estimate_is_compensated(kind):
    """Also while burn-in moves the topics to other radii."""
    rng = np.random.default_rng(0)
    X = rng.random((120, 12)) * (rng.random((120, 12)) < 0.5) + 0.01
    options = {"batch_size": 4, "max_iter": 100, "burn_in": 40, "thin": 1, "document_concentration": 60.0}
    sampler = SGGMC(0.5, friction=0.5, n_steps=1, noise_covariance="fisher")
    compensated = kind(3, random_state=0, sampler=sampler, **options).fit(X)
    assert compensated.posterior_["temperature"].mean() == pytest.approx(1, abs=0.18)
    raw = kind(3, random_state=0, sampler=sampler.set_params(noise_covariance=None), **options).fit(X)
    assert raw.posterior_["temperature"].mean() > 1.25


def cosines_of_matched(components, topics):
    cosines = components @ topics.T
    return cosines[linear_sum_assignment(-cosines)]


# --- what is learned --------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_feature", [0.05, 2.0])
@pytest.mark.parametrize("dim", [2, 50, 5000, 100_000])
def test_the_concentration_of_draws_is_learned(dim, per_feature):
    kappa, n = per_feature * dim, 2000
    complement = sample_cosine_complement(dim, kappa, n, np.random.default_rng(0))
    learned = learn_concentration(dim, float(np.mean(1.0 - complement)), n)
    ratio, slope = bessel_ratio(dim, kappa), bessel_ratio_derivative(dim, kappa)
    shrunk = inverse_bessel_ratio(dim, (n * ratio + 0.5) / (n + 1))
    estimate = Estimate(learned, 1 / np.sqrt(slope * n))
    assert_agrees(estimate, shrunk)
    assert learned == pytest.approx(kappa, rel=0.01 + 10 / np.sqrt(n * slope) / kappa)
    assert_disagrees(estimate, 1.2 * kappa + 1.0)


@pytest.mark.parametrize(("n", "resultant"), [(1, 1.0), (3, 0.2), (10, 0.9), (1000, 0.999)])
def test_few_cosines_are_shrunk_as_stated(n, resultant):
    for dim in (2, 50, 5000, 100_000):
        learned = learn_concentration(dim, resultant, n)
        assert bessel_ratio(dim, learned) == pytest.approx((n * resultant + 0.5) / (n + 1), rel=1e-10)


@pytest.mark.parametrize("resultant", [-1.0, -0.4, 0.0, 1.0, 1.0 + 1e-15])
def test_extreme_cosines_give_concentrations(resultant):
    assert 0 < learn_concentration(50, resultant, 10**9) < np.inf


@pytest.mark.extended
@pytest.mark.parametrize("sampler", ["gsgnht", "sggmc", "gmc_gibbs"])
def test_documents_of_the_model_are_fitted_with_their_concentration(sampler):
    mean, topics, X = generate(50, 3, 1000, Concentrations(100.0, 50.0, 50.0), 0.5, 3)
    model = SphericalAdmixture(3, sampler=sampler, mean_direction=mean, max_iter=40, random_state=0).fit(X)
    assert model.document_concentration_ == pytest.approx(100.0, rel=0.05)
    assert cosines_of_matched(model.components_, topics).min() > 0.98
    assert 20 < model.topic_concentration_ < 120  # of three topics
    if sampler != "gmc_gibbs":
        assert model.posterior_["temperature"].mean() == pytest.approx(1, abs=0.1)


def test_heat_is_told_beyond_what_one_velocity_has_by_chance():
    for n_coordinates, chance, heat in ((3, [0.005, 10.0], [1e-5, 20.0]), (100_000, [0.83, 1.2], [0.79, 1.26])):
        for mean in chance:
            warn_temperature(np.array([[mean]]), n_coordinates)
        for mean in heat:
            with pytest.warns(ConvergenceWarning, match="temperature"):
                warn_temperature(np.array([[mean]]), n_coordinates)
