"""Admixtures of exponential families find what made the data, and their methods say what they promise."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import logsumexp

from skmanifold import ExponentialFamilyAdmixture, StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.emissions import Bernoulli, Gaussian, Multinomial, Poisson
from skmanifold.metrics._held_out import split_tokens
from skmanifold.random._keys import Purpose, root_key, subkey
from skmanifold.samplers import ESCA, CollapsedGibbs
from skmanifold.topics.topic_word import as_topic_word
from skmanifold.utils._threads import Workers

from .._corpora import small_corpus
from ._family_data import EMISSIONS, gamma_poisson, grades_of_membership, in_order, make, small_rows, words_with_vectors

SAMPLERS = ("esca", "gibbs")


def with_components(model, components):
    """The same model, as if it had found these."""
    model = copy.copy(model)
    if isinstance(model.emission_, Bernoulli):
        model._estimate = model._tokens.family.parameters_of({"components_": components})
    else:
        model._estimate = as_topic_word(components)
    del model._posterior
    return model


# What made the data is found


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_grades_of_membership_are_found(sampler, missing):
    types, grades, answers = grades_of_membership()
    X = np.where(np.random.default_rng(1).random(answers.shape) < missing, np.nan, answers)
    model = ExponentialFamilyAdmixture(
        3, emission="bernoulli", sampler=sampler, doc_topic_prior=0.3, n_chains=2, max_iter=150, random_state=0
    ).fit(X)
    order = in_order(types, model.components_)
    assert np.abs(model.components_[order] - types).mean() < (0.04 if sampler == "esca" else 0.03)
    truth = with_components(model, types)
    assert truth.score(X) - 0.005 < model.score(X) < truth.score(X) + 0.01
    assert np.abs(model.transform(X)[:, order] - truth.transform(X)).mean() < 0.03
    assert np.abs(model.transform(X)[:, order] - grades).mean() < 0.13


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_clusters_of_word_vectors_are_found(sampler):
    vectors, clusters, counts = words_with_vectors()
    model = ExponentialFamilyAdmixture(
        5, emission="gaussian", word_vectors=vectors, sampler=sampler, max_iter=40, random_state=0
    ).fit(counts)
    for k in range(5):
        mine = clusters == k
        mean = np.average(vectors[mine], axis=0, weights=counts[:, mine].sum(axis=0))
        covariance = np.cov(vectors[mine].T, aweights=counts[:, mine].sum(axis=0), ddof=0)
        nearest = np.argmin(np.linalg.norm(model.components_ - mean, axis=1))
        np.testing.assert_allclose(model.components_[nearest], mean, atol=0.05)
        np.testing.assert_allclose(model.covariances_[nearest], covariance, rtol=0.02, atol=0.03)
    of_words = model.token_counts_.toarray()
    assert (of_words.max(axis=0) >= 0.99 * of_words.sum(axis=0)).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_intensities_of_gamma_poisson_rows_are_found(sampler):
    factors, intensities, counts = gamma_poisson()
    model = ExponentialFamilyAdmixture(
        4, emission="poisson", sampler=sampler, doc_topic_prior=0.5, max_iter=100, random_state=0
    ).fit(counts)
    order = in_order(factors, model.components_)
    np.testing.assert_allclose(model.components_[order], factors, atol=0.02)
    found = model.transform(counts)[:, order]
    assert model.intensity_rate_ == pytest.approx(0.05, rel=0.1)  # as the data were made
    assert np.corrcoef(found.ravel(), intensities.ravel())[0, 1] > 0.95
    of_truth = with_components(model, factors).transform(counts)
    assert np.abs(found - of_truth).mean() < 0.05 * of_truth.mean()
    assert found.sum() == pytest.approx(intensities.sum(), rel=0.01)
    np.testing.assert_allclose(model.inverse_transform(found).sum(axis=1), found.sum(axis=1), rtol=1e-6)


# What the methods promise


@pytest.mark.covering
@pytest.mark.parametrize("sampler", [ESCA(), ESCA(exclude_self=True), "gibbs", CollapsedGibbs()])
@pytest.mark.parametrize("emission", [Multinomial(category_prior=0.3), Poisson(shape_prior=0.3)])
@pytest.mark.parametrize("prior", [0.4, None], ids=["given", "larger in burn-in"])
def test_multinomial_tokens_give_the_bytes_of_lda(emission, sampler, prior):
    settings = {
        "doc_topic_prior": prior,
        "n_chains": 2,
        "max_iter": 12,
        "thin": 2,
        "random_state": 3,
        "sampler": sampler,
    }
    X = small_corpus()
    mine = ExponentialFamilyAdmixture(4, emission=emission, **settings).fit(X)
    lda = StochasticLDA(4, topic_word_prior=0.3, **settings).fit(X)
    np.testing.assert_array_equal(mine.components_, lda.components_)
    np.testing.assert_array_equal(mine.log_density_trace_, lda.log_density_trace_)
    assert mine.posterior_.keys() == lda.posterior_.keys()
    for name, draws in lda.posterior_.items():
        np.testing.assert_array_equal(mine.posterior_[name], draws)
    assert mine.score(X) == lda.score(X)
    assert mine.perplexity(X) == lda.perplexity(X)
    np.testing.assert_array_equal(mine.predict(X), lda.predict(X))
    found, n_tokens = mine.transform(X), X.sum(axis=1)[:, None]
    if isinstance(emission, Poisson):
        found = found * (mine.intensity_rate_ + 1) / (n_tokens + lda.doc_topic_prior_.sum())
    np.testing.assert_allclose(found, lda.transform(X), rtol=1e-12)
    proportions = lda.transform(X)
    np.testing.assert_array_equal(mine.inverse_transform(proportions), lda.inverse_transform(proportions))


def test_a_stream_of_multinomial_tokens_gives_the_bytes_of_lda():
    X = small_corpus()
    settings = {"total_samples": 60, "random_state": 3, "sampler": ESCA(exclude_self=True)}
    mine, lda = ExponentialFamilyAdmixture(4, **settings), StochasticLDA(4, **settings)
    for start in range(0, 60, 20):
        mine.partial_fit(X[start : start + 20])
        lda.partial_fit(X[start : start + 20])
    np.testing.assert_array_equal(mine.components_, lda.components_)
    np.testing.assert_array_equal(mine.partial_fit(X).components_, lda.partial_fit(X).components_)


def log_densities(model):
    """Of tokens given the estimate, (n_tokens, K)."""
    if isinstance(model.emission_, Bernoulli):
        p = model.components_
        return np.log(np.stack([1 - p, p], axis=-1)).reshape(len(p), -1).T
    if isinstance(model.emission_, Gaussian):
        laws = zip(model.components_, model.covariances_, strict=True)
        return np.stack([stats.multivariate_normal(*law).logpdf(model.word_vectors) for law in laws], axis=1)
    return np.log(model.components_.T.astype(float))


def proportions_of(counts, log_table, alpha):
    """The fixed point, by many plain steps."""
    p = np.exp(log_table - log_table.max(axis=1, keepdims=True))
    n = counts.sum(axis=1, keepdims=True)
    theta = np.tile(alpha / alpha.sum(), (len(counts), 1))
    for _ in range(3000):
        shares = theta[:, None] * p
        shares /= shares.sum(axis=2, keepdims=True)
        theta = ((counts[:, :, None] * shares).sum(axis=1) + alpha) / (n + alpha.sum())
    return theta


def dense(counts):
    entries = counts.counts, counts.indices, counts.indptr
    return sp.csr_array(entries, shape=(counts.n_rows, counts.n_features)).toarray()


@pytest.mark.parametrize("emission", EMISSIONS)
def test_proportions_and_scores_are_those_of_the_definition(emission):
    X = small_rows(emission, 30)
    model = make(emission, doc_topic_prior=[0.3, 0.8, 0.5]).fit(X)
    tokens, log_table, alpha = model._read_again(X), log_densities(model), model.doc_topic_prior_
    theta = proportions_of(dense(tokens), log_table, alpha)
    if emission == "poisson":
        theta *= (dense(tokens).sum(axis=1, keepdims=True) + alpha.sum()) / (model.intensity_rate_ + 1)
    np.testing.assert_allclose(model.transform(X), theta, atol=2e-6 * theta.sum(axis=1).max())
    np.testing.assert_array_equal(model.predict(X), theta.argmax(axis=1))
    np.testing.assert_allclose(model.inverse_transform(theta), theta @ model.components_, rtol=1e-6)
    key = root_key(int(subkey(model._key, Purpose.INFERENCE)) % 2**32)
    observed, held_out = (dense(half) for half in split_tokens(tokens, key, Workers(1)))
    half = proportions_of(observed, log_table, alpha)
    logs = logsumexp(np.log(half)[:, None] + log_table, axis=2)
    assert model.score(X) == pytest.approx((held_out * logs).sum() / held_out.sum(), abs=1e-5)


@pytest.mark.parametrize("emission", ["bernoulli", "gaussian"])
def test_scores_of_draws_average_each_tokens_density(emission):
    X = small_rows(emission, 30)
    model = make(emission, sampler="gibbs", n_predictive_draws=3, max_iter=40).fit(X)
    tokens, alpha = model._read_again(X), model.doc_topic_prior_
    key = root_key(int(subkey(model._key, Purpose.INFERENCE)) % 2**32)
    observed, held_out = (dense(half) for half in split_tokens(tokens, key, Workers(1)))
    logs, theta = [], []
    n_draws = model.posterior_["components"].shape[1]
    assert n_draws == 10
    for i in (3, 6, 9):
        for name, draws in model.posterior_.items():
            if name in ("components", "covariances"):
                setattr(ATable, f"{name}_", draws[0, i])
        ATable.emission_, ATable.word_vectors = model.emission_, model.word_vectors
        log_table = log_densities(ATable)
        logs.append(logsumexp(np.log(proportions_of(observed, log_table, alpha))[:, None] + log_table, axis=2))
        theta.append(proportions_of(dense(tokens), log_table, alpha))
    expected = (held_out * (logsumexp(logs, axis=0) - np.log(3))).sum() / held_out.sum()
    assert model.score(X) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(model.transform(X, average_draws=True), np.mean(theta, axis=0), atol=2e-6)
    assert model.set_params(n_predictive_draws=1).score(X) != pytest.approx(expected, abs=1e-5)


class ATable:
    """Parameters of one draw."""


@pytest.mark.covering
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_are_kept_as_said(emission, sampler):
    X = small_rows(emission)
    model = make(emission, sampler=sampler, n_chains=2, max_iter=13, burn_in=3, thin=3).fit(X)
    posterior, n_entries = model.posterior_, 2 if emission == "gaussian" else 7
    shapes = {"log_likelihood": (2, 3), "topic_weights": (2, 3, 3), "components": (2, 3, 3, n_entries)}
    if emission == "gaussian":
        shapes["covariances"] = (2, 3, 3, 2, 2)
    assert {name: draws.shape for name, draws in posterior.items()} == shapes
    np.testing.assert_allclose(posterior["topic_weights"].sum(axis=-1), 1)
    np.testing.assert_array_equal(posterior["log_likelihood"], model.log_density_trace_[:, [5, 8, 11]])
    assert model.token_counts_.sum() == pytest.approx(model._read_again(X).n_tokens, rel=1e-6)
    none_kept = make(emission, sampler=sampler, max_draws_bytes=0).fit(X)
    assert none_kept.posterior_.get("components", np.empty((1, 0))).shape[1] == 0
    assert np.isfinite(none_kept.score(X))


@pytest.mark.parametrize("emission", EMISSIONS)
def test_what_draws_tell_comes_with_every_emission(emission):
    pytest.importorskip("arviz_base")
    X = small_rows(emission)
    model = make(emission, sampler="gibbs", n_chains=2, max_iter=40, thin=1).fit(X)
    low, high = model.credible_intervals()
    assert (low <= high).all()
    assert low.shape == model.components_.shape
    assert model.topic_diagnostics().similarity.shape == (3,)
    assert model.to_arviz().posterior["components"].shape == (2, 20, 3, 2 if emission == "gaussian" else 7)
    with pytest.raises(AttributeError, match=r"estimates the topics and does not draw them.* such as 'gibbs'\."):
        make(emission).fit(X).credible_intervals()


@pytest.mark.parametrize("emission", EMISSIONS)
def test_one_component_has_the_parameters_of_all_tokens(emission):
    X = small_rows(emission)
    model = make(emission, 1).fit(X)
    theta = np.ones((60, 1))
    if emission == "poisson":
        theta = (X.sum(axis=1, keepdims=True) + 1) / (model.intensity_rate_ + 1)
    np.testing.assert_allclose(model.transform(X), theta, rtol=1e-12)
    if emission == "bernoulli":
        seen = ~np.isnan(X)
        expected = (np.nansum(X, axis=0) + 1) / (seen.sum(axis=0) + 2)
    elif emission == "gaussian":
        expected = np.average(model.word_vectors, axis=0, weights=X.sum(axis=0))
    else:
        expected = (X.sum(axis=0) + 0.1) / (X.sum() + 0.7)
    np.testing.assert_allclose(model.components_[0], expected, rtol=1e-5)


def test_missing_cells_are_no_tokens():
    """An item that nobody of a half answered says of that half nothing."""
    X = small_rows("bernoulli")
    X[:30, 6] = np.nan
    X[4] = np.nan
    model = make("bernoulli").fit(X)
    assert model.token_counts_.sum() == pytest.approx(np.isfinite(X).sum(), rel=1e-6)
    np.testing.assert_allclose(model.transform(X)[4], 1 / 3)
    assert np.isfinite(model.score(X))


@pytest.mark.extended
@pytest.mark.parametrize("emission", ["bernoulli", "gaussian", "poisson"])
def test_a_stream_comes_near_to_a_fit(emission):
    if emission == "bernoulli":
        truth, _, X = grades_of_membership()
        settings = {"emission": emission, "doc_topic_prior": 0.3}
    elif emission == "poisson":
        truth, _, X = gamma_poisson()
        settings = {"emission": emission, "doc_topic_prior": 0.5}
    else:
        vectors, clusters, X = words_with_vectors()
        truth = np.array([vectors[clusters == k].mean(axis=0) for k in range(5)])
        settings = {"emission": emission, "word_vectors": vectors}
    n = len(X)
    model = ExponentialFamilyAdmixture(len(truth), total_samples=n, random_state=0, **settings)
    for start in range(0, n, n // 4):
        model.partial_fit(X[start : start + n // 4])
    assert model.n_batch_iter_ == 4
    n_tokens = model._read_again(X).n_tokens
    assert model.token_counts_.sum() == pytest.approx(n_tokens, rel=0.1)
    fitted = ExponentialFamilyAdmixture(len(truth), max_iter=100, random_state=0, **settings).fit(X)
    assert model.score(X) > fitted.score(X) - 0.03
    score = fitted.score(X)
    assert fitted.partial_fit(X[: n // 4]).score(X) == pytest.approx(score, abs=0.02)
    assert fitted.token_counts_.sum() == pytest.approx(n_tokens * 1_000_000 / n, rel=0.1)
    assert not hasattr(fitted, "n_iter_")


def test_names_of_emissions_stand_for_their_defaults_and_can_be_set():
    model = ExponentialFamilyAdmixture(2, emission="bernoulli", sampler="esca")
    model.set_params(emission__ones_prior=3.0, sampler__n_average=5)
    assert model.emission.get_params() == {"ones_prior": 3.0, "zeros_prior": 1.0, "allow_probabilities": False}
    assert model.sampler.n_average == 5
    X = small_rows("bernoulli")
    fitted = model.set_params(max_iter=4, random_state=0).fit(X)
    assert fitted.emission_ is not model.emission
    assert isinstance(fitted.sampler_, ESCA)
    other = ExponentialFamilyAdmixture(2, emission="bernoulli", max_iter=4, random_state=0).fit(X)
    assert fitted.components_.mean() > other.components_.mean() + 0.01


def test_many_components_of_many_words_stay_sparse():
    X = make_lda_corpus(50, 3000, 5, mean_length=20, random_state=0).data
    model = ExponentialFamilyAdmixture(2000, emission="poisson", max_iter=2, max_draws_bytes=0, random_state=0).fit(X)
    assert model.token_counts_.nnz <= X.sum()
    assert len(model._estimate.weights) <= X.sum()
    assert model.transform(X[:2]).shape == (2, 2000)
