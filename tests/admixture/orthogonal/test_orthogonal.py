"""The orthogonal spherical admixture as an estimator: what it finds, accepts, refuses, keeps and gives back."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import OrthogonalSphericalAdmixture
from skmanifold.distributions import log_vmf_normalizer
from skmanifold.metrics import match_topics, spherical_document_likelihood
from skmanifold.samplers import SGGMC, ColumnGibbs

from .._corpora import learned
from ..spherical._spherical_draws import signed_rows
from ._orthogonal_draws import planted

SAMPLERS = list(OrthogonalSphericalAdmixture._samplers)
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)


def make(sampler="gibbs", n_components=3, **params):
    batches = {} if sampler == "gibbs" or isinstance(sampler, ColumnGibbs) else {"batch_size": 10}  # which it reads
    params = {"max_iter": 6, "burn_in": 2, "thin": 1, "random_state": 0, **batches, **params}
    return OrthogonalSphericalAdmixture(n_components, sampler=sampler, **params)


# What is found


@pytest.mark.extended
@each_sampler
def test_planted_topics_are_found_with_their_concentration(sampler):
    X, topics = planted()
    model = make(sampler, max_iter=60, burn_in=30).fit(X)
    match = match_topics(model.components_, topics)
    assert match.similarity.min() > 0.99
    assert np.sum(model.components_ * topics[match.other], axis=1).min() > 0.99  # signs, too
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-12)
    assert np.all((model.resultant_lengths_ > 0.9) & (model.resultant_lengths_ <= 1 + 1e-12))
    assert model.document_concentration_ == pytest.approx(200.0, rel=0.05)
    assert model.n_components_ == 3
    assert model.n_components_posterior_.tolist() == [0, 0, 0, 1]
    if sampler != "gibbs":
        assert model.posterior_["temperature"].mean() == pytest.approx(1, abs=0.1)


@pytest.mark.extended
def test_the_number_of_planted_topics_is_found():
    X, topics = planted(n=150, V=30)
    model = make(n_components=None, max_iter=50, burn_in=30, n_size_moves=8).fit(X)
    assert model.n_components_ == model.n_components_posterior_.argmax() == 3
    assert model.n_components_posterior_.sum() == pytest.approx(1)
    assert match_topics(model.components_, topics).similarity.min() > 0.98
    held_out = planted(V=30, n=400)[0][300:]
    given, wrong = (make(n_components=n, max_iter=40, burn_in=20).fit(X) for n in (3, 2))
    assert model.score(held_out) == pytest.approx(given.score(held_out), abs=0.3)
    assert model.score(held_out) > wrong.score(held_out) + 1


@each_sampler
def test_a_single_topic_is_the_mean_direction(sampler):
    X = 0.1 * np.random.default_rng(0).standard_normal((60, 8)) + np.arange(8)
    model = make(sampler, 1, max_iter=40, burn_in=20).fit(X)
    mean = (X / np.linalg.norm(X, axis=1, keepdims=True)).mean(axis=0)
    assert model.components_[0] @ mean / np.linalg.norm(mean) > 0.999
    assert np.all(model.transform(X) == 1)


@each_sampler
def test_as_many_topics_as_features_are_a_basis(sampler):
    model = make(sampler, 4, max_iter=10).fit(np.abs(signed_rows(n_features=4)))
    draws = model.posterior_["components"][0]
    np.testing.assert_allclose(draws @ np.swapaxes(draws, 1, 2), np.broadcast_to(np.eye(4), draws.shape), atol=1e-10)
    assert np.isfinite(model.score(signed_rows(n_features=4)))


# A number that is inferred


def inferred(**params):
    return make(n_components=None, max_iter=20, burn_in=4, n_chains=2, n_size_moves=4, **params)


def test_draws_with_different_numbers_of_topics_are_padded():
    X = signed_rows()
    model = inferred(n_components_penalty=0.0, document_concentration=3.0).fit(X)
    numbers, draws = model.posterior_["n_components"], model.posterior_["components"]
    assert len(np.unique(numbers[model.best_chain_])) > 1
    assert draws.shape == (2, 16, numbers.max(), 8)
    assert model.posterior_["topic_weights"].shape == (2, 16, numbers.max())
    for chain, i in np.ndindex(2, 16):
        draw, n = draws[chain, i], numbers[chain, i]
        assert np.isnan(draw[n:]).all()
        np.testing.assert_allclose(draw[:n] @ draw[:n].T, np.eye(n), atol=1e-10)
        np.testing.assert_allclose(np.nansum(model.posterior_["topic_weights"][chain, i]), 1)
    best = numbers[model.best_chain_]
    shares = np.bincount(best, minlength=len(model.n_components_posterior_)) / 16
    np.testing.assert_allclose(model.n_components_posterior_, shares)
    assert model.n_components_ == shares.argmax() == len(model.components_) == len(model.doc_topic_prior_)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(model.n_components_), atol=1e-12)
    # each draw predicts with as many topics as it has
    drawn = [draws[model.best_chain_, i, : best[i]] for i in range(16)]
    model.set_params(n_predictive_draws=16, n_importance_draws=500)
    X = np.delete(X, 3, axis=0)[:8]
    of_draws = [
        spherical_document_likelihood(topics, X, np.full(len(topics), 0.5), 3.0, n_draws=500) for topics in drawn
    ]
    logs = [result.log_density for result in of_draws]
    expected = np.logaddexp.reduce(logs, axis=0) - np.log(16) - log_vmf_normalizer(8, 0)
    np.testing.assert_allclose(model.score_samples(X), expected, atol=0.05)
    proportions = model.transform(X, average_draws=True)
    assert proportions.shape == (8, model.n_components_)
    np.testing.assert_allclose(proportions.sum(axis=1), 1)
    with pytest.warns(UserWarning, match=rf"from {(best == model.n_components_).sum()} draws have level"):
        low, high = model.credible_intervals()
    assert low.shape == model.components_.shape
    assert np.all(low <= high)
    with pytest.raises(ValueError, match=f"fit with n_components={model.n_components_} for this"):
        model.topic_diagnostics()


@pytest.mark.long
def test_a_limit_and_a_penalty_hold_the_number_down():
    X = np.random.default_rng(0).standard_normal((40, 8))
    free = inferred(n_components_penalty=0.0, document_concentration=20.0).fit(X)
    assert free.posterior_["n_components"].max() > 2
    assert inferred(max_components=2, n_components_penalty=0.0).fit(X).posterior_["n_components"].max() <= 2
    dear = inferred(n_components_penalty=1e3, document_concentration=20.0).fit(X)
    assert dear.n_components_ == 1
    still = inferred(document_concentration=20.0).set_params(n_size_moves=0).fit(X)
    assert still.n_components_posterior_.max() == 1


def test_a_number_above_the_limit_is_refused():
    with pytest.raises(ValueError, match=r"^n_components=3 exceeds max_components=2: set only one of them"):
        make(n_components=3, max_components=2).fit(signed_rows())
    assert make(n_components=3, max_components=3).fit(signed_rows()).n_components_ == 3


def test_minibatches_do_not_infer_the_number():
    for sampler in ("gsgnht", SGGMC()):
        with pytest.raises(ValueError, match=r"^n_components=None needs sampler='gibbs': \w+ cannot change the number"):
            make(sampler, None).fit(signed_rows())


# What does not matter


def test_wide_documents_give_the_same_bytes_for_any_number_of_threads():
    X = sp.random_array((120, 20_000), density=0.002, random_state=0, format="csr")
    fits = [make(n_jobs=n_jobs, max_iter=4, burn_in=1).fit(X) for n_jobs in (1, 2)]
    assert learned(fits[0]) == learned(fits[1])


# Settings


def test_a_number_fixes_the_concentration_and_nothing_is_learned_after_burn_in():
    X, _ = planted(n=60)
    assert make(document_concentration=60.0).fit(X).document_concentration_ == 60.0
    frozen = make(max_iter=20, burn_in=0).fit(X)
    assert frozen.document_concentration_ == make(max_iter=5, burn_in=0).fit(X).document_concentration_
    assert make(max_iter=20, burn_in=10).fit(X).document_concentration_ != frozen.document_concentration_


def test_no_draws_of_an_inferred_number_are_kept_in_no_memory():
    X = signed_rows()
    unknown = make(n_components=None, max_draws_bytes=0).fit(X)
    assert np.isfinite(unknown.score(X))
    with pytest.raises(ValueError, match="were kept"):
        unknown.credible_intervals()


# Bad input
