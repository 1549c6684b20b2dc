"""A concentration for each topic: learning, fits, streams and files."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture
from skmanifold.admixture._spherical.concentrations import Concentrations, learn_topic_concentrations
from skmanifold.admixture._spherical.passes import blend, gradient_noise, no_scales, observe_draws
from skmanifold.admixture._spherical.setup import Setup
from skmanifold.admixture._spherical.targets import NO_DRAWS, PassSums, move_chains
from skmanifold.admixture._spherical.variational import MeanFieldSAM
from skmanifold.distributions import bessel_ratio, log_vmf_normalizer
from skmanifold.samplers import MeanField
from skmanifold.sparse.directions import as_directions

from ._spherical_draws import KEY, ONE, draw_documents, make_model, unit

SAMPLERS = ("gsgnht", "gmc_gibbs", "vb", "svb", "gibbs")
KINDS = (SphericalAdmixture, OrthogonalSphericalAdmixture)
PLANTED = np.array([30.0, 100.0, 300.0, 900.0])


@cache
def planted(n=1200, V=40, kind=SphericalAdmixture):
    """Topics, proportions and documents."""
    rng = np.random.default_rng(0)
    topics = unit(rng.standard_normal((4, V)) + 0.3)
    if kind is OrthogonalSphericalAdmixture:
        topics = np.linalg.qr(topics.T)[0].T
    theta = rng.dirichlet(np.full(4, 0.5), n)
    return topics, theta, draw_documents(topics, theta, PLANTED, rng)


def model_of(n):
    topics, theta, X = planted()
    model = make_model(X[:n], np.full(4, 0.5), Concentrations(np.full(4, 200.0), 10.0, 10.0), mean=unit(np.ones(40)))
    chains = model.init_chains(0)
    chains.points[:] = np.sqrt(theta[:n])
    return model, chains, topics


def test_noise_is_positive_although_the_weighted_cosine_exceeds_one():
    model, chains, topics = model_of(50)
    model = model.tuned(
        model.concentrations._replace(document=np.array([1.0, 1.0, 1.0, 5000.0])), model.radii, model.noise
    )
    turned, chosen = model.to_word_major(topics), np.argsort(-chains.points[:50, 3])[:20]
    sums = PassSums(4)
    sums.add(move_chains(model, chains, chosen, KEY, turned, 1, True, NO_DRAWS), model.prior(turned.topics))
    scales = blend(no_scales(4), sums, 1.0)
    assert scales.cosine > 1.0
    assert np.all(gradient_noise(model, scales, 10) > 0.0)


@pytest.mark.extended
def test_learned_concentrations_are_where_the_slopes_are_zero():
    model, chains, topics = model_of(600)
    observed = observe_draws(model, chains, topics)
    learned = learn_topic_concentrations(40, 600, model.concentrations.document, observed)
    _, theta, X = planted()
    theta, cosines = theta[:600], (unit(theta[:600] @ topics) * X[:600]).sum(axis=1)
    slopes = theta.T @ (cosines - bessel_ratio(40, theta @ learned)) + 0.5 - bessel_ratio(40, learned)
    assert np.abs(slopes).max() < 1e-6
    np.testing.assert_allclose(learned, PLANTED, rtol=0.25)
    again = learn_topic_concentrations(40, 600, np.full(4, 3.0), observed)
    np.testing.assert_allclose(again, learned, rtol=1e-6)


def test_learned_concentrations_maximise_the_objective_of_factors():
    """With the prior's pseudo-observations. Without the variances of concentrations, they would not."""
    metric = (False, False, False), np.ones(4), np.zeros(4), False
    priors = np.full(4, 0.5), unit(np.ones(40)), Concentrations(PLANTED[::-1], 10.0, 10.0)
    model = MeanFieldSAM(Setup(as_directions(planted()[2][:150]), *priors, *metric), ONE)
    sampler, state = MeanField(), MeanField().init(model, KEY)
    for _ in range(5):
        state = sampler.step(model, state)
    observed = model.observe(state.latents)

    def slopes(at):
        values = []
        for k, sign in np.ndindex(4, 2):
            moved = at * (1.0 + 1e-5 * (1 - 2 * sign) * (np.arange(4) == k))
            objective = model.tuned(priors[2]._replace(document=moved)).objective(state.position, state.latents, 1.0)
            values.append(objective + np.sum(log_vmf_normalizer(40, moved) + 0.5 * moved))
        return -np.diff(np.reshape(values, (4, 2)), axis=1)[:, 0] / 2e-5

    learned = learn_topic_concentrations(40, 150, PLANTED, observed)
    assert np.abs(slopes(learned)).max() < 1e-3
    plain = learn_topic_concentrations(40, 150, PLANTED, observed._replace(inverse=np.zeros(150)))
    assert np.abs(slopes(plain)).max() > 1.0


@pytest.mark.extended
@pytest.mark.short_cases("SphericalAdmixture-gsgnht", "vb", "svb", "OrthogonalSphericalAdmixture")
@pytest.mark.parametrize(
    ("kind", "sampler"),
    [(kind, sampler) for kind in KINDS for sampler in SAMPLERS if sampler in kind._samplers],
)
def test_planted_concentrations_are_found_and_predict_better(kind, sampler):
    topics, theta, X = planted(kind=kind)
    settings = {"n_components": 4, "sampler": sampler, "max_iter": 60, "random_state": 0}
    fits = {of: kind(document_concentration=of, **settings).fit(X[:800]) for of in ("auto", "per_topic")}
    model = fits["per_topic"]
    order = np.argmax(topics @ model.components_.T, axis=1)
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_allclose(model.document_concentration_[order], PLANTED, rtol=0.35)
    assert model.score(X[800:]) > fits["auto"].score(X[800:]) + 1.0
    proportions = model.transform(X[800:])[:, order]
    assert np.abs(proportions - theta[800:]).mean() < 0.06


@pytest.mark.extended
@pytest.mark.parametrize("sampler", ["gsgnht", "vb", "svb"])
def test_given_concentrations_stay_as_they_are(sampler):
    X, settings = planted()[2][:200], {"sampler": sampler, "max_iter": 6, "random_state": 0}
    model = SphericalAdmixture(4, document_concentration=PLANTED.tolist(), **settings).fit(X)
    np.testing.assert_array_equal(model.document_concentration_, PLANTED)
    one = SphericalAdmixture(4, document_concentration=90.0, **settings).fit(X)
    equal = SphericalAdmixture(4, document_concentration=np.full(4, 90.0), **settings).fit(X)
    np.testing.assert_allclose(one.components_, equal.components_, atol=1e-6)
    assert one.score(X) == pytest.approx(equal.score(X), abs=1e-6)


@pytest.mark.extended
@pytest.mark.parametrize("sampler", ["gsgnht", "svb"])
def test_streams_learn_concentrations_of_topics(sampler):
    topics, _, X = planted()
    settings = {"sampler": sampler, "total_samples": 1200, "random_state": 0}
    model = SphericalAdmixture(4, document_concentration="per_topic", **settings)
    for _ in range(6):
        for start in range(0, 1200, 100):
            model.partial_fit(X[start : start + 100])
    order = np.argmax(topics @ model.components_.T, axis=1)
    assert (np.diff(model.document_concentration_[order]) > 0).all()


def test_what_is_refused():
    X = planted()[2][:60]
    for wrong in ([1.0, 2.0, 3.0], [1.0, -2.0], [np.nan, 1.0], [[1.0, 2.0]]):
        with pytest.raises(
            ValueError, match="document_concentration must be 'auto', 'per_topic', a positive number or one"
        ):
            SphericalAdmixture(2, document_concentration=wrong).fit(X)
    for given in ("per_topic", [10.0, 20.0]):
        with pytest.raises(ValueError, match="one for each topic would determine it"):
            OrthogonalSphericalAdmixture(document_concentration=given).fit(X)
    with pytest.raises(
        ValueError, match="document_concentration must be 'auto', 'per_topic', a positive number or one"
    ):
        OrthogonalSphericalAdmixture(2, document_concentration=[1.0, 2.0, 3.0]).fit(X)
    sparse = SphericalAdmixture(2, document_concentration="per_topic", max_iter=4, random_state=0)
    assert np.isfinite(sparse.fit(sp.csr_array(X)).score(X))
