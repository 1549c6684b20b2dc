"""DPCategoricalMixture: what is found, that densities are probabilities and right, and the law of sampled rows."""

from itertools import product
from math import factorial

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import gammaln, logsumexp
from sklearn.metrics import adjusted_rand_score

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture
from skmanifold.metrics import expected_variation_of_information, point_partition
from skmanifold.samplers import SCIR, Slice
from skmanifold.utils._threads import Workers

from ..dirichlet_process import _tiny_partitions as tiny
from ..exponential_family._mixtures import (
    EMISSIONS,
    SAMPLERS,
    counts_by,
    data_of,
    make,
    slow_log_terms,
    small_fit,
    small_table,
    tokens_of,
)

each_emission = pytest.mark.parametrize("emission", EMISSIONS)
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)


# What is found

SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def planted(emission):
    """800 rows of four components: data, labels, and the components."""
    if emission == "categorical":
        mixture = make_categorical_mixture(800, 15, 4, weights=SHARES, category_prior=0.2, missing=0.05, random_state=3)
        return mixture.data, mixture.labels, mixture.components
    rng = np.random.default_rng(5)
    components = rng.dirichlet(np.full(12, 0.3), 4)
    labels = rng.choice(4, 800, p=SHARES)
    return rng.multinomial(40, components[labels]), labels, components[:, None]


@pytest.mark.extended
@pytest.mark.covering
@each_emission
@each_sampler
def test_a_planted_mixture_is_found(emission, sampler):
    X, labels, components = planted(emission)
    mixture = DPCategoricalMixture(emission, sampler=sampler, init=20, random_state=0).fit(X)
    assert np.sum(mixture.weights_ > 0.01) == 4
    if sampler == "slice":  # steps of the others' sticks and components leave single rows behind
        assert mixture.n_components_ == mixture.n_components_posterior_.argmax() == 4
    assert adjusted_rand_score(labels, mixture.labels_) > 0.97
    np.testing.assert_allclose(mixture.weights_[:4], np.bincount(labels) / 800, atol=0.015)
    means = [mixture.components_] if emission == "multinomial" else mixture.components_
    for column, mean in enumerate(means):
        # A probability p told by n rows has the standard error sqrt(p (1 - p) / n); about 80 rows are fewest.
        tokens = 40 if emission == "multinomial" else 1
        np.testing.assert_allclose(mean[:4], components[:, column], atol=4.5 * np.sqrt(0.25 / (70 * tokens)))


@each_emission
@each_sampler
def test_all_that_is_fitted_follows_the_number_of_components(emission, sampler):
    mixture, X = small_fit(emission, sampler), data_of(emission)
    n = mixture.n_components_
    assert mixture.labels_.shape == (X.shape[0],)
    assert sorted(set(mixture.labels_.tolist())) == list(range(n))
    assert mixture.weights_.shape == (n,)
    assert len(mixture._estimate.statistics.sizes) == n
    means = [mixture.components_] if emission == "multinomial" else mixture.components_
    assert [mean.shape for mean in means] == [(n, 6)] if emission == "multinomial" else [(n, 3)] * 5
    for mean in means:
        np.testing.assert_allclose(mean.sum(axis=1), 1, rtol=1e-14)
    assert type(mixture.sampler_).short_name == sampler
    assert mixture.n_iter_ == mixture.max_iter


@each_emission
def test_point_estimates_are_those_of_the_point_partition(emission):
    mixture, X = small_fit(emission), data_of(emission)
    sizes = np.bincount(mixture.labels_)
    assert np.all(np.diff(sizes) <= 0)
    assert mixture.concentration_ == mixture.posterior_["concentration"].mean()
    np.testing.assert_allclose(mixture.weights_, sizes / (sizes.sum() + mixture.concentration_), rtol=1e-14)
    tokens, start = tokens_of(emission, X, [6] if emission == "multinomial" else [3] * 5)
    counts = counts_by(mixture.labels_, tokens)[1] + 0.5
    means = [mixture.components_] if emission == "multinomial" else mixture.components_
    for mean, first, stop in zip(means, start[:-1], start[1:], strict=True):
        cells = counts[:, first:stop]
        np.testing.assert_allclose(mean, cells / cells.sum(axis=1, keepdims=True), rtol=1e-14)
    terms = slow_log_terms(tokens, start, sizes, counts - 0.5, mixture.concentration_, 0.5)[:, :-1]
    expected = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
    np.testing.assert_allclose(mixture.predict_proba(X), expected, rtol=1e-9)


def test_the_point_partition_has_no_more_components_than_the_median_draw():
    X = make_categorical_mixture(200, 10, 8, category_prior=0.6, random_state=2).data  # rows of uncertain labels
    mixture = DPCategoricalMixture(
        "categorical", sampler=Slice(n_split_merge=3), init=20, max_iter=60, random_state=0
    ).fit(X)
    draws = mixture.posterior_["labels"][0]
    n_components = mixture.posterior_["n_components"]
    free = point_partition(draws)
    assert free.max() + 1 > n_components.max() + 5  # rows that are in no draw alone
    assert n_components.min() <= mixture.n_components_ <= np.median(n_components)
    loss, of_draws = (expected_variation_of_information(labels, draws) for labels in (mixture.labels_, draws))
    assert loss < of_draws.min()
    assert loss < 1.1 * expected_variation_of_information(free, draws)


@each_emission
def test_draws_of_weights_and_components_are_padded_distributions(emission):
    draws = small_fit(emission).posterior_
    n_components, weights, components = draws["n_components"][0], draws["weights"][0], draws["components"][0]
    assert len(set(n_components.tolist())) > 1  # else nothing is padded
    for n, of_draw, shares in zip(n_components, weights, components, strict=True):
        assert np.all(np.isnan(of_draw[n:]))
        assert np.all(np.isnan(shares[n:]))
        assert 0.5 < of_draw[:n].sum() < 1
        n_columns = 1 if emission == "multinomial" else 5
        np.testing.assert_allclose(shares[:n].reshape(n, n_columns, -1).sum(axis=2), 1, rtol=1e-12)


def test_a_concentration_that_is_given_stays():
    X, n_components = small_table(), []
    for concentration in (0.01, 30.0):
        mixture = make("categorical", concentration=concentration, max_iter=30).fit(X)
        assert mixture.concentration_ == pytest.approx(concentration, rel=1e-14)
        np.testing.assert_array_equal(mixture.posterior_["concentration"], concentration)
        n_components.append(mixture.posterior_["n_components"].mean())
    assert n_components[0] + 10 < n_components[1]


# Densities


def draw_densities(mixture, tokens, start):
    """Log densities of rows under each draw kept, of all chains, from what is public."""
    draws = {name: np.concatenate(values) for name, values in mixture.posterior_.items()}
    if isinstance(mixture.sampler_, Slice):
        X, _ = tokens_of(mixture.emission, data_of(mixture.emission), np.diff(start))
        for labels, concentration in zip(draws["labels"], draws["concentration"], strict=True):
            yield logsumexp(slow_log_terms(tokens, start, *counts_by(labels, X), concentration, 0.5), axis=1)
        return
    empty = slow_log_terms(tokens, start, [], np.empty((0, start[-1])), 1.0, 0.5)[:, 0]
    for weights, components in zip(draws["weights"], draws["components"], strict=True):
        n = np.isfinite(weights).sum()
        terms = np.log(weights[:n]) + tokens @ np.log(components[:n]).T
        yield logsumexp(np.c_[terms, np.log(1 - weights[:n].sum()) + empty], axis=1)


@each_emission
@each_sampler
def test_score_samples_is_the_log_of_the_mean_density_under_the_draws(emission, sampler):
    X = data_of(emission)
    mixture = make(emission, sampler, n_chains=2, max_iter=8).fit(X)
    tokens, start = tokens_of(emission, X, [6] if emission == "multinomial" else [3] * 5)
    by_draw = np.array([*draw_densities(mixture, tokens, start)])
    assert len(by_draw) == 4
    scores = mixture.score_samples(X)
    np.testing.assert_allclose(scores, logsumexp(by_draw, axis=0) - np.log(4), rtol=1e-8, atol=1e-14)
    assert mixture.score(X) == scores.mean()
    assert mixture.score(X, np.zeros(X.shape[0])) == scores.mean()


@each_sampler
def test_without_draws_the_density_is_that_of_where_all_chains_stand(sampler):
    X = small_table()
    one, two = (make("categorical", sampler, thin=100, n_chains=n).fit(X).score_samples(X) for n in (1, 2))
    second = 2 * np.exp(two) - np.exp(one)  # the first chain is the same
    assert np.all(second > 0)
    assert not np.allclose(second, np.exp(one))


NEW_ROWS = np.array([(1, 0), (0, 2), (3, 1), (0, 6), (0, 0)])


def exact_predictive(new, concentration):
    """p(new | the five rows), as the quotient of two sums over partitions."""

    def evidence(rows):
        table, n = tiny.table_of(rows), len(rows)
        total = 0.0
        for labels in tiny.partitions(n):
            clusters = tiny.clusters_of(labels)
            log_weight = sum(gammaln(len(members)) + tiny.log_marginal(members, table) for members in clusters)
            total += tiny._prior_factor(len(clusters), n, concentration) * np.exp(log_weight)
        return total

    five = [(3, 0), (2, 1), (0, 3), (1, 2), (4, 0)]
    return evidence([*five, new]) / evidence(five)


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("sampler", "concentration"),
    [
        (Slice(), 1.0),
        (Slice(), None),
        (Slice(0, redraw_order=False), 1.0),
        (SCIR(0.5, control_variate="stored"), None),
    ],
    ids=str,
)
def test_densities_of_new_rows_are_those_of_the_posterior_predictive(sampler, concentration):
    options = {"concentration": concentration, "concentration_prior": (1.0, 1.0), "batch_size": 2}
    five = [(3, 0), (2, 1), (0, 3), (1, 2), (4, 0)]
    fits = [
        DPCategoricalMixture(sampler=sampler, max_iter=90, burn_in=10, thin=1, random_state=seed, **options).fit(five)
        for seed in range(12)
    ]
    estimate = summarize([np.exp(fit.score_samples(NEW_ROWS[:-1])) for fit in fits])
    given, learned = ([exact_predictive(new, alpha) for new in NEW_ROWS[:-1]] for alpha in (1.0, (1.0, 1.0)))
    assert_agrees(estimate, learned if concentration is None else given)
    if concentration == 1.0:
        assert_disagrees(estimate, [exact_predictive(new, 3.0) for new in NEW_ROWS[:-1]])
    np.testing.assert_allclose(fits[0].score_samples(NEW_ROWS[-1:]), 0, atol=1e-13)


# Who belongs together


@each_emission
def test_co_clustering_of_the_fitted_rows_counts_draws_of_their_labels(emission):
    mixture = make(emission, n_chains=2).fit(data_of(emission))
    labels = mixture.posterior_["labels"].reshape(8, -1)
    together = mixture.co_clustering()
    np.testing.assert_allclose(together, np.mean(labels[:, :, None] == labels[:, None], axis=0))
    assert np.any((together > 0) & (together < 1))


@each_emission
@each_sampler
def test_co_clustering_of_new_rows_is_that_of_independent_labels_given_each_draw(emission, sampler):
    mixture, X = small_fit(emission, sampler), data_of(emission)[:9]
    together = mixture.co_clustering(X)
    clusters = mixture._family_rows(mixture._read(X))
    expected = 0.0
    for draw in mixture._predictive:
        terms = draw.log_terms(clusters, Workers(1))
        shares = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))[:, :-1]
        expected = expected + shares @ shares.T / len(mixture._predictive)
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(together, expected, rtol=1e-12)
    np.testing.assert_array_equal(together, together.T)
    np.testing.assert_allclose(mixture.co_clustering(X[::-1]), together[::-1, ::-1], rtol=1e-12)


# Rows drawn


def test_sampled_counts_have_the_law_of_the_point_partition():
    X = np.random.default_rng(0).multinomial(2, [0.6, 0.3, 0.1], 30)
    X[:15] = X[:15, ::-1]
    mixture = DPCategoricalMixture(concentration=8.0, init=np.arange(30) // 15, max_iter=10, random_state=0).fit(X)
    rows, labels = mixture.sample(6000, random_state=2)
    sizes, tokens = counts_by(mixture.labels_, X)
    assert len(sizes) > 1
    np.testing.assert_array_equal(rows.sum(axis=1), 2)
    every = np.array([row for row in product(range(3), repeat=3) if sum(row) == 2])
    law = np.exp(slow_log_terms(every, np.array([0, 3]), sizes, tokens, 8.0, 0.5))
    law *= np.array([2 / np.prod([factorial(n) for n in row]) for row in every.tolist()])[:, None]
    place = {tuple(row): i for i, row in enumerate(every.tolist())}
    observed = np.zeros_like(law)
    np.add.at(observed, ([place[tuple(row)] for row in rows.tolist()], labels), 1)
    often = law > 5 / 6000
    both = [np.append(cells[often], cells[~often].sum() + 1e-9) for cells in (observed, 6000 * law)]
    assert stats.chisquare(*both).pvalue > 1e-4
    # One vector of probabilities for all rows of a component would not do.
    means = np.vstack((mixture.components_, [[1 / 3] * 3]))
    shares = np.append(mixture.weights_, 1 - mixture.weights_.sum())
    plug_in = shares * np.array([[stats.multinomial.pmf(row, 2, p) for p in means] for row in every])
    law_of_new, plug_in_of_new = law[:, -1] / law[:, -1].sum(), plug_in[:, -1] / plug_in[:, -1].sum()
    n_new = observed[:, -1].sum()
    assert stats.chisquare(observed[:, -1], n_new * law_of_new).pvalue > 1e-4
    assert stats.chisquare(observed[:, -1], n_new * plug_in_of_new).pvalue < 1e-4
