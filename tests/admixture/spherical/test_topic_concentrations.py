"""A concentration for each topic: learning, fits, streams and files."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture
from skmanifold.admixture._spherical.model import Concentrations
from skmanifold.admixture._spherical.passes import learn_topic_concentrations
from skmanifold.distributions import bessel_ratio
from skmanifold.models import IncompatibleError

from ._spherical_draws import draw_documents, make_model, unit

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


@pytest.mark.extended
def test_learned_concentrations_are_where_the_slopes_are_zero():
    model, chains, topics = model_of(600)
    learned = learn_topic_concentrations(model, model.concentrations, chains, topics).document
    _, theta, X = planted()
    theta, cosines = theta[:600], (unit(theta[:600] @ topics) * X[:600]).sum(axis=1)
    slopes = theta.T @ (cosines - bessel_ratio(40, theta @ learned)) + 0.5 - bessel_ratio(40, learned)
    assert np.abs(slopes).max() < 1e-6
    np.testing.assert_allclose(learned, PLANTED, rtol=0.25)
    again = learn_topic_concentrations(model, Concentrations(np.full(4, 3.0), 10.0, 10.0), chains, topics).document
    np.testing.assert_allclose(again, learned, rtol=1e-6)


@pytest.mark.extended
@pytest.mark.short_cases("SphericalAdmixture-gsgnht", "OrthogonalSphericalAdmixture")
@pytest.mark.parametrize(
    ("kind", "sampler"),
    [(kind, sampler) for kind in KINDS for sampler in ("gsgnht", "gmc_gibbs", "gibbs") if sampler in kind._samplers],
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
def test_given_concentrations_stay_as_they_are():
    X = planted()[2][:200]
    model = SphericalAdmixture(4, document_concentration=PLANTED.tolist(), max_iter=6, random_state=0).fit(X)
    np.testing.assert_array_equal(model.document_concentration_, PLANTED)
    one = SphericalAdmixture(4, document_concentration=90.0, max_iter=6, random_state=0).fit(X)
    equal = SphericalAdmixture(4, document_concentration=np.full(4, 90.0), max_iter=6, random_state=0).fit(X)
    np.testing.assert_allclose(one.components_, equal.components_, atol=1e-6)
    assert one.score(X) == pytest.approx(equal.score(X), abs=1e-6)


@pytest.mark.extended
def test_streams_learn_concentrations_of_topics():
    topics, _, X = planted()
    model = SphericalAdmixture(4, document_concentration="per_topic", total_samples=1200, random_state=0)
    for _ in range(6):
        for start in range(0, 1200, 100):
            model.partial_fit(X[start : start + 100])
    order = np.argmax(topics @ model.components_.T, axis=1)
    assert (np.diff(model.document_concentration_[order]) > 0).all()


def test_what_is_refused():
    X = planted()[2][:60]
    for sampler in ("vb", "svb"):
        for given in ("per_topic", [10.0, 20.0]):
            with pytest.raises(IncompatibleError, match="has one concentration for all documents: use a sampler"):
                SphericalAdmixture(2, sampler=sampler, document_concentration=given).fit(X)
    for wrong in ([1.0, 2.0, 3.0], [1.0, -2.0], [np.nan, 1.0], [[1.0, 2.0]]):
        with pytest.raises(
            ValueError, match="document_concentration must be 'auto', 'per_topic', a positive number or one"
        ):
            SphericalAdmixture(2, document_concentration=wrong).fit(X)
    for given in ("per_topic", [10.0, 20.0]):
        with pytest.raises(ValueError, match="n_components=None needs one concentration of all documents"):
            OrthogonalSphericalAdmixture(document_concentration=given).fit(X)
    with pytest.raises(
        ValueError, match="document_concentration must be 'auto', 'per_topic', a positive number or one"
    ):
        OrthogonalSphericalAdmixture(2, document_concentration=[1.0, 2.0, 3.0]).fit(X)
    sparse = SphericalAdmixture(2, document_concentration="per_topic", max_iter=4, random_state=0)
    assert np.isfinite(sparse.fit(sp.csr_array(X)).score(X))
