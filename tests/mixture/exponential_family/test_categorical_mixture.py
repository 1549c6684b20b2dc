"""Mixtures of category codes: EM and posteriors against numpy, missing cells, unknown codes, and bad input."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import logsumexp

from skmanifold import DPCategoricalMixture, ExponentialFamilyMixture, load
from skmanifold.emissions import Bernoulli, Categorical, Gaussian
from skmanifold.mixture._scores import fill_shares
from skmanifold.samplers import EM, ESCA

from ._mixtures import small_table

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
compiled = pytest.mark.skipif(not hasattr(fill_shares, "py_func"), reason="chains of kernels that are compiled")
SHORT = {"max_iter": 20, "random_state": 0}


def make(n_components=3, **settings):
    return ExponentialFamilyMixture(n_components, **{"emission": "categorical", **SHORT, **settings})


@cache
def small_fit(sampler="esca"):
    """Never change it."""
    return make(sampler=sampler).fit(small_table())


# --- what is found ---------------------------------------------------------------------------------------


def latent_classes_by_em(X, labels, n_components, n_passes, prior, weight_prior):
    """Weights, probabilities by column, and log likelihood of each row, by loops over the cells."""
    n_categories = [int(np.nanmax(column)) + 1 for column in X.T]
    shares = np.eye(n_components)[labels]
    for _ in range(n_passes + 1):
        weights = (shares.sum(axis=0) + weight_prior) / (len(X) + n_components * weight_prior)
        columns = [np.full((n_components, n), prior) for n in n_categories]
        for i, j in np.argwhere(~np.isnan(X)):
            columns[j][:, int(X[i, j])] += shares[i]
        columns = [column / column.sum(axis=1, keepdims=True) for column in columns]
        terms = np.tile(np.log(weights), (len(X), 1))
        for i, j in np.argwhere(~np.isnan(X)):
            terms[i] += np.log(columns[j][:, int(X[i, j])])
        log_density = logsumexp(terms, axis=1)
        shares = np.exp(terms - log_density[:, None])
    return weights, columns, log_density, shares


def test_em_is_that_of_latent_class_analysis():
    X = small_table()
    labels = np.arange(len(X)) % 3
    settings = {"sampler": EM(tol=0.0), "init": labels, "max_iter": 7, "burn_in": 0, "weight_prior": 0.4}
    mixture = make(emission=Categorical(category_prior=0.3), **settings).fit(X)
    weights, columns, log_density, shares = latent_classes_by_em(X, labels, 3, 7, 0.3, 0.4)
    np.testing.assert_allclose(mixture.weights_, weights, rtol=1e-9)
    for found, expected in zip(mixture.components_, columns, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(mixture.score_samples(X), log_density, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mixture.predict_proba(X), shares, rtol=1e-9)
    n_parameters = 2 + 3 * sum(column.shape[1] - 1 for column in columns)
    assert mixture.bic(X) == pytest.approx(n_parameters * np.log(len(X)) - 2 * log_density.sum())


@pytest.mark.parametrize("sampler", [EM(tol=0.0), ESCA()])
def test_two_categories_are_those_of_bernoulli(sampler):
    X = np.minimum(small_table(), 1.0)
    settings = {"sampler": sampler, "init": np.arange(len(X)) % 3}
    codes = make(emission=Categorical(category_prior=0.7), **settings).fit(X)
    events = make(emission=Bernoulli(0.7, 0.7), **settings).fit(X)
    np.testing.assert_allclose(codes.log_density_trace_, events.log_density_trace_, rtol=1e-6)
    np.testing.assert_allclose(np.stack([c[:, 1] for c in codes.components_], axis=1), events.components_, rtol=1e-6)


# --- posteriors ------------------------------------------------------------------------------------------


def counts_of(X, prior):
    """Dirichlet parameters of the posterior of one component, column after column."""
    return [np.array([np.sum(column == code) for code in range(int(np.nanmax(column)) + 1)]) + prior for column in X.T]


def test_one_component_has_the_conjugate_posterior():
    X, prior = small_table()[:20], 0.4
    posterior = counts_of(X, prior)
    expected = [column / column.sum() for column in posterior]
    for sampler in ("esca", "em"):
        found = make(1, emission=Categorical(prior), sampler=sampler).fit(X).components_
        np.testing.assert_allclose(np.hstack(found)[0], np.concatenate(expected), rtol=1e-12)
    drawn = make(1, emission=Categorical(prior), sampler="gibbs", max_iter=1500, burn_in=0, thin=1).fit(X)
    draws = drawn.posterior_["components"][0, :, 0]  # independent
    assert_agrees(summarize(draws), np.concatenate(expected))
    second = [column * (column + 1) / column.sum() / (column.sum() + 1) for column in posterior]
    assert_agrees(summarize(draws**2), np.concatenate(second))
    of_filled = counts_of(np.nan_to_num(X), prior)
    assert_disagrees(summarize(draws), np.concatenate([column / column.sum() for column in of_filled]))


# --- missing cells ---------------------------------------------------------------------------------------


def test_a_table_may_have_empty_rows_and_columns():
    X = small_table().copy()
    X[:, 1] = np.nan
    mixture = make(2).fit(X)
    assert mixture.n_categories_.tolist() == [3, 1, 3, 3, 3]
    np.testing.assert_array_equal(mixture.components_[1], 1.0)
    assert np.isfinite(make(2).fit(np.full((4, 2), np.nan)).score(X[:, :2] * np.nan))


# --- categories ------------------------------------------------------------------------------------------


def test_a_stream_has_the_categories_of_its_first_minibatch():
    X = small_table()
    mixture = make().partial_fit(X[:30]).partial_fit(X[30:])
    assert mixture.n_categories_.tolist() == [3] * 5
    assert mixture.sample(200, random_state=0)[0].max(axis=0).tolist() == [2] * 5
    before = mixture.score(X)
    with pytest.raises(ValueError, match="Column 2 of X has the code 3"):
        mixture.partial_fit(X + np.array([0, 0, 1, 0, 0]))
    assert mixture.score(X) == before
    after_fit = make().fit(X).partial_fit(X[:20])
    with pytest.raises(ValueError, match="Column 0 of X has the code 3"):
        after_fit.partial_fit(X + 1)


def test_other_emissions_forget_the_categories():
    X = np.nan_to_num(small_table())
    mixture = make().fit(X)
    with pytest.raises(ValueError, match="n_components=90 components need as many rows"):
        mixture.set_params(n_components=90).fit(np.where(X == 2, 3, X))
    assert mixture.n_categories_.tolist() == [3] * 5
    mixture.set_params(n_components=2, emission=Gaussian("diag")).fit(X)
    assert not hasattr(mixture, "n_categories_")


def test_components_have_the_form_of_the_dirichlet_process_mixture():
    X = small_table()
    mixture, other = small_fit("gibbs"), DPCategoricalMixture("categorical", init=5, **SHORT).fit(X)
    np.testing.assert_array_equal(mixture.n_categories_, other.n_categories_)
    for one, another in zip(mixture.components_, other.components_, strict=True):
        assert one.shape[1] == another.shape[1]
        np.testing.assert_allclose(one.sum(axis=1), 1.0)
    assert mixture.posterior_["components"].shape[2:] == (3, 15)
    assert other.posterior_["components"].shape[3] == 15
    names = pd.DataFrame(X, columns=["colour", "size", "a", "b", "c"])
    tree = make(sampler="gibbs").fit(names).to_arviz()
    assert tree.posterior.coords["category"].values[[0, 2, 3]].tolist() == ["colour_0", "colour_2", "size_0"]


# --- input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_categories_", np.array([3, 3, 3, 3, 4]), "n_categories_ that are not those of its estimate"),
        ("components_", [np.full((3, 3), 1 / 3)] * 5, "components_ that are not those of its estimate"),
        ("components_", np.full((3, 5), 1 / 3), "components_ that are not those of its estimate"),
        ("components_", [np.full((3, 3), 1 / 3)] * 4, "components_ that are not those of its estimate"),
    ],
)
def test_files_that_contradict_themselves_are_refused(name, value, message, tmp_path):
    mixture = make().fit(small_table())
    mixture.save(tmp_path / "mixture")
    assert load(tmp_path / "mixture").score(small_table()) == mixture.score(small_table())
    vars(mixture)[name] = value
    with pytest.raises(ValueError, match=message):
        mixture.save(tmp_path / "other")
