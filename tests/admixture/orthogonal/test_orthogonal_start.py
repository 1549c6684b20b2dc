"""Where chains begin whose number of orthonormal topics is inferred, and that they leave the mode at one topic."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from skmanifold import OrthogonalSphericalAdmixture
from skmanifold.admixture._orthogonal.fit_strategy import (
    FrameStart,
    _between,
    _is_past,
    _spaced,
    best_start,
    log_evidence,
)
from skmanifold.distributions import log_vmf_normalizer
from skmanifold.metrics import match_topics
from skmanifold.random._keys import root_key
from skmanifold.sparse.directions import as_directions

from ..spherical._spherical_draws import ONE, draw_around, unit
from ._orthogonal_draws import draw_frames, make_model, planted

KEY = root_key(5)


def crowded(n_features, n_components, noise=0.05, n=400):
    """Rows about mixtures of nearly as many orthonormal topics as there are columns; and the topics."""
    rng = np.random.default_rng(0)
    topics = draw_frames(1, n_components, n_features, rng)[0]
    proportions = rng.dirichlet(np.full(n_components, 0.3), n)
    return proportions @ topics + noise * rng.standard_normal((n, n_features)), topics


def assert_finds(n_features, n_components, max_iter, noise=0.05):
    # With 3 rows for each column the number depends on rounding: 39 to 43 for 40 topics.
    X, topics = crowded(n_features, n_components, noise, n=max(400, 9 * n_features))
    X, held_out = X[:-100], X[-100:]
    options = {"max_iter": max_iter, "random_state": 0}
    model = OrthogonalSphericalAdmixture(n_size_moves=2, **options).fit(X)
    assert abs(model.n_components_ - n_components) <= n_components // 20
    assert match_topics(topics, model.components_).similarity.min() > 0.9
    told = OrthogonalSphericalAdmixture(n_components, **options).fit(X)
    assert model.score(held_out) > 0.98 * told.score(held_out) - 0.1
    return model


@pytest.mark.extended
@pytest.mark.short_cases("3-3")
@pytest.mark.parametrize(("n_features", "n_components"), [(3, 3), (6, 5), (10, 8)])
def test_nearly_as_many_topics_as_columns_are_found(n_features, n_components):
    assert_finds(n_features, n_components, 30)


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_features", "n_components"),
    [(3, 3), (4, 4), (6, 5), (6, 6), (10, 8), (10, 10), (20, 15), (20, 20), (30, 15), (100, 40)],
)
def test_nearly_as_many_topics_as_columns_are_found_by_default(n_features, n_components):
    assert_finds(n_features, n_components, 200, noise=0.02)


@pytest.mark.long
def test_standardised_wines_have_several_topics():
    X = StandardScaler().fit_transform(load_wine().data)
    model = OrthogonalSphericalAdmixture(max_iter=60, random_state=0).fit(X)
    told = OrthogonalSphericalAdmixture(3, max_iter=60, random_state=0).fit(X)
    assert model.n_components_ == 3
    assert model.score(X) == pytest.approx(told.score(X), abs=0.05)


def test_one_topic_is_found_where_there_is_one():
    X, _ = planted(n=60, V=6, K=1, kappa=20.0)
    assert OrthogonalSphericalAdmixture(max_iter=20, random_state=0).fit(X).n_components_ == 1


# Evidence


def test_the_evidence_of_one_topic_is_exact():
    X, _ = planted(n=20, V=5, K=1, kappa=3.0)
    model = make_model(X, 1, kappa=7.0)
    mean = X.sum(axis=0)
    length = np.linalg.norm(mean)
    uniform = log_vmf_normalizer(5, 0.0)
    exact = 20 * (log_vmf_normalizer(5, 7.0) - uniform) + uniform - log_vmf_normalizer(5, 7.0 * length)
    assert log_evidence(model, mean[None] / length, KEY) == pytest.approx(float(exact), abs=1e-8)


@pytest.mark.extended
@pytest.mark.short_cases("3-2")
@pytest.mark.parametrize(("n_features", "n_components"), [(2, 2), (3, 2), (3, 3)])
def test_the_evidence_of_several_topics_is_near_the_integral_over_frames(n_features, n_components):
    rng = np.random.default_rng(0)
    n, kappa = 12, 5.0
    frames = draw_frames(2000, n_components, n_features, rng)
    theta = unit(rng.dirichlet(np.full(n_components, 0.5), 1000))
    X = draw_around(theta[:n] @ frames[0], kappa, rng)
    cosines = np.einsum("sk,fkv,dv->fds", theta[n:], frames[1:], X, optimize=True)
    log_likelihood = (logsumexp(kappa * cosines, axis=2) - np.log(1000 - n)).sum(axis=1)
    of_documents = log_vmf_normalizer(n_features, kappa) - log_vmf_normalizer(n_features, 0.0)
    expected = logsumexp(log_likelihood) - np.log(1999) + n * of_documents
    model = make_model(X, n_components, kappa=kappa)
    assert log_evidence(model, frames[0], KEY) == pytest.approx(expected, abs=3.0)


# Numbers that are tried


def test_numbers_grow_by_a_factor_up_to_the_last():
    assert _spaced(1) == [1]
    assert _spaced(30) == [1, 2, 3, 4, 6, 8, 11, 15, 21, 29, 30]
    assert _between(15, [8, 11, 15, 21]) == [13, 18]
    assert _between(30, [21, 29, 30]) == []
    assert _between(1, [1, 2]) == []


def test_greater_numbers_are_tried_until_the_evidence_has_fallen_from_a_peak():
    def starts(*evidence):
        return [FrameStart(np.eye(1), 1.0, value) for value in evidence]

    assert not _is_past(starts(1.0, 0.0, -1.0, -2.0, -3.0, -4.0))  # greater numbers may be better than one
    assert not _is_past(starts(1.0, 2.0, 1.0, 0.0))
    assert _is_past(starts(1.0, 2.0, 1.0, 0.0, -1.0))
    assert not _is_past(starts(1.0, 2.0, 1.0, 0.0, 0.5))


def test_the_start_has_its_share_of_the_prior_and_keeps_a_given_concentration():
    X, _ = planted(n=80, V=6, K=3)
    free = best_start(as_directions(X), 0.5, 200.0, np.array([-np.inf, 0, 0, 0, 0]), 5, KEY, ONE)
    dear = best_start(as_directions(X), 0.5, 200.0, np.array([-np.inf, 0, 0, -2.0, 0]), 5, KEY, ONE)
    assert len(free.topics) == len(dear.topics) == 3
    assert free.concentration == dear.concentration == 200.0
    assert free.log_evidence - dear.log_evidence == pytest.approx(2.0, abs=1e-9)


# Chains


@pytest.mark.extended
def test_chains_far_below_the_best_start_say_so():
    X, _ = crowded(20, 15, noise=0.02)
    model = OrthogonalSphericalAdmixture(max_iter=3, burn_in=0, thin=1, n_chains=3, n_size_moves=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"^The log evidence of chains \[[12](, 2)?\], .* have not reached"):
        model.fit(sp.csr_array(X))
    assert model.best_chain_ == 0


@pytest.mark.extended
def test_the_best_chain_has_the_highest_evidence_and_not_the_most_topics():
    """Log likelihoods given proportions rise with the number of topics."""
    X, _ = planted(n=60, V=6, K=2, kappa=30.0)
    model = OrthogonalSphericalAdmixture(
        document_concentration=30.0, n_components_penalty=0.0, max_iter=20, n_chains=3, random_state=0
    ).fit(X)
    assert model.n_components_ == 2
