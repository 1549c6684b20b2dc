"""Clusters with diagonal or spherical covariances against multivariate t densities and exact partition posteriors."""

import numpy as np
import pytest
from mixture.dirichlet_process import _tiny_partitions as tiny
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.linalg import block_diag
from scipy.special import gammaln

from skmanifold.emissions import Gaussian, kernels
from skmanifold.emissions._dense_rows import DenseRows, IncompleteRows
from skmanifold.emissions._gaussian.base import NormalPrior
from skmanifold.emissions._gaussian.diagonal import DiagonalFamily
from skmanifold.emissions._statistics import occupied, selected
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from ._splits import compare, refresh, walk_sides

pytestmark = pytest.mark.extended

ONE = Workers(1)
NAN = np.nan
TYPES = ["diag", "spherical"]
PRIORS = {
    "diag": NormalPrior(np.array([0.5, -1.0, 20.0]), 0.3, np.array([0.7, 3.0, 50.0]), 2.5),
    "spherical": NormalPrior(np.array([0.5, -1.0, 2.0]), 0.3, np.array([0.7]), 2.5),
}


def table(n=14, seed=0):
    """Rows with missing cells, one of them with all cells missing, and labels of which 2 has no rows."""
    rng = np.random.default_rng(seed)
    labels = np.array([0, 1, 3] * n, np.int32)[:n]
    X = rng.normal(labels[:, None] * [1.0, -2.0, 6.0], [1.0, 0.5, 4.0])
    X[rng.random(X.shape) < 0.2] = NAN
    X[4] = NAN
    return X, labels


def clusters_of(X, kind, prior=None, origin=None):
    prior = prior or PRIORS[kind]
    origin = prior.mean + 0.25 if origin is None else origin
    rows = IncompleteRows.of_values(np.asarray(X, float))
    return DiagonalFamily(prior, 1, origin).clusters(rows)


def counted(clusters, labels, capacity=6, workers=ONE):
    statistics = clusters.no_statistics(capacity)
    clusters.count(labels, statistics, workers)
    return statistics


def log_marginal_of(X, prior):
    """Log density of the observed cells of rows in one cluster: multivariate t with features in blocks."""
    columns = [column[~np.isnan(column)] for column in np.transpose(X)]
    shapes = [np.eye(len(column)) + 1.0 / prior.mean_precision for column in columns]
    gaps = [column - mean for column, mean in zip(columns, prior.mean, strict=True)]
    pools = [(np.concatenate(gaps), block_diag(*[shape for shape in shapes if len(shape)]), prior.covariance[0])]
    if len(prior.covariance) > 1:
        pools = list(zip(gaps, shapes, prior.covariance, strict=True))
    return sum(
        stats.multivariate_t.logpdf(gap, None, scatter / prior.degrees * shape, prior.degrees)
        for gap, shape, scatter in pools
        if len(gap)
    )


def log_predictive_of(row, X, prior):
    return log_marginal_of(np.vstack([X, row]), prior) - log_marginal_of(X, prior)


# --- densities -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_marginal_and_predictive_densities_are_those_of_multivariate_t_distributions(kind):
    X, labels = table()
    prior, clusters = PRIORS[kind], clusters_of(X, kind)
    statistics = counted(clusters, labels)
    exact = sum(log_marginal_of(X[labels == k], prior) for k in np.unique(labels))
    np.testing.assert_allclose(clusters.log_marginal(statistics), exact, rtol=1e-12)

    chosen = selected(statistics, np.arange(4))
    out = np.full((len(X), 4), 0.5)
    clusters.add_log_predictive(chosen, out, ONE)
    expected = np.array([[log_predictive_of(row, X[labels == k], prior) for k in range(4)] for row in X])
    np.testing.assert_allclose(out - 0.5, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(out[4], 0.5)  # no cell is observed

    one_by_one = np.full((len(X), 4), 0.5)
    fill_predictive(clusters.data, statistics, clusters.new_posterior(6, statistics, root_key(0)), one_by_one)
    np.testing.assert_allclose(one_by_one - 0.5, expected, rtol=1e-10, atol=1e-10)


def fill_predictive(data, statistics, posterior, out):
    labels = np.arange(out.shape[1])
    refresh(data, statistics, posterior, labels)
    for row in range(len(out)):
        kernels.add_predictive(data, statistics, posterior, row, labels, len(labels), out[row])


@pytest.mark.parametrize("kind", TYPES)
def test_many_features_and_rows_far_from_all_clusters(kind):
    """Products are replaced by their logarithms before they overflow."""
    rng = np.random.default_rng(3)
    d = 14
    prior = NormalPrior(np.zeros(d), 1e-3, np.full(d if kind == "diag" else 1, 1e-6), 1.5)
    X = rng.normal(size=(6, d)) * 10.0 ** rng.integers(0, 12, d)
    X[2, ::3] = NAN
    clusters = clusters_of(X, kind, prior)
    statistics = counted(clusters, np.array([0, 0, 0, 0, 1, 1], np.int32), 2)
    expected = [[log_predictive_of(row, X[start:stop], prior) for start, stop in ((0, 4), (4, 6))] for row in X]
    of_rows, one_by_one = np.zeros((6, 2)), np.zeros((6, 2))
    clusters.add_log_predictive(statistics, of_rows, ONE)
    fill_predictive(clusters.data, statistics, clusters.new_posterior(2, statistics, root_key(0)), one_by_one)
    np.testing.assert_allclose(of_rows, expected, rtol=1e-9)
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-9)


# --- split-merge -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_sides_of_a_split(kind):
    X, labels = table()
    X[labels == 1] += 50.0  # an outlying row on a side leaves no trace
    prior, clusters = PRIORS[kind], clusters_of(X, kind)
    _, sides = clusters.split_merge_space(counted(clusters, labels), root_key(0))
    members = np.flatnonzero(labels == 0)
    others = np.flatnonzero(labels == 1)
    side = np.arange(len(members) + len(others)) % 2
    for n_kept in (len(members), 1, 0):
        rows = np.concatenate([members, others])
        log_odds, of_side_1 = walk_sides(clusters.data, sides, rows, side, n_kept, 8)
        on = [X[rows[:n_kept][side[:n_kept] == s]] for s in (0, 1)]
        of_sides = [log_predictive_of(X[8], part, prior) for part in on]
        np.testing.assert_allclose(log_odds, of_sides[1] - of_sides[0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(of_side_1, of_sides[1], rtol=1e-8)
        factor = kernels.log_bayes_factor(clusters.data, *sides, 0, 1)
        kernels.clear_sides(clusters.data, *sides)
        if n_kept == len(members):
            parts = sum(log_marginal_of(part, prior) for part in on)
            np.testing.assert_allclose(factor, parts - log_marginal_of(X[members], prior), rtol=1e-8)
    _, new = clusters.split_merge_space(counted(clusters, labels), root_key(0))
    for cleared, empty in zip((*sides[0], *sides[1]), (*new[0], *new[1]), strict=True):
        np.testing.assert_array_equal(cleared[:2], empty[:2])


@pytest.mark.parametrize("kind", TYPES)
def test_merged_labels(kind):
    X, labels = table()
    prior, clusters = PRIORS[kind], clusters_of(X, kind)
    statistics = counted(clusters, labels)
    factor = compare(clusters.data, statistics, clusters.new_posterior(6, statistics, root_key(0)), 3, 0)
    parts = sum(log_marginal_of(X[labels == k], prior) for k in (0, 3))
    np.testing.assert_allclose(factor, parts - log_marginal_of(X[labels != 1], prior), rtol=1e-10)
    kernels.merge_labels(clusters.data, statistics, 3, 0)
    for merged, again in zip(statistics, counted(clusters, np.where(labels == 0, 3, labels)), strict=True):
        np.testing.assert_allclose(merged, again, rtol=1e-12)


# --- statistics ------------------------------------------------------------------------------------------


def test_sums_after_moves_are_those_of_the_rows():
    X, labels = table(60)
    clusters = clusters_of(X * 1e3, "diag")
    statistics, rng = counted(clusters, labels), np.random.default_rng(0)
    for n in range(50):
        rows = rng.permutation(60)[:20]
        new = np.zeros(20, np.int32) if n % 10 == 9 else rng.integers(6, size=20).astype(np.int32)
        clusters.move(rows, new, labels, statistics, ONE)
        labels[rows] = new
    clusters.move(np.arange(60), np.full(60, 5, np.int32), labels, statistics, ONE)
    labels[:] = 5
    again = counted(clusters, labels)
    for moved, exact in zip(statistics, again, strict=True):
        np.testing.assert_allclose(moved, exact, rtol=1e-9)
        np.testing.assert_array_equal(moved[:5], 0)
    to_new = np.array([0, 0, 0, 0, 0, 7])
    relabelled = clusters.relabelled(to_new[labels].astype(np.int32), statistics, to_new, ONE)
    np.testing.assert_array_equal(relabelled.sums[7], again.sums[5])  # counted again
    np.testing.assert_array_equal(occupied(relabelled), [7])


# --- draws -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_draws_of_components_have_the_moments_of_the_posterior(kind):
    X, labels = table()
    prior, clusters = PRIORS[kind], clusters_of(X, kind)
    statistics = counted(clusters, labels)
    for label, rows in ((0, X[labels == 0]), (50, X[:0])):
        arrays = clusters.arrays_of(clusters.draw_components(statistics, np.full(4000, label), root_key(label), ONE))
        shape, scatter, means, kappas = posterior_of(rows, prior)
        precisions = 1.0 / arrays["covariances"]
        gaps = (arrays["components"] - means) ** 2 * precisions * kappas
        signs = arrays["components"] > means
        assert_agrees(summarize(precisions), 2.0 * shape / scatter)
        assert_agrees(summarize(precisions**2), shape * (shape + 1.0) * (2.0 / scatter) ** 2)
        assert_agrees(summarize(gaps), 1.0)
        assert_agrees(summarize(signs), 0.5)
        products = precisions[:, 0] * precisions[:, 1]
        pooled, apart = shape * (shape + 1.0) * (2.0 / scatter) ** 2, np.prod((2.0 * shape / scatter)[:2])
        right, wrong = (pooled[0], apart) if kind == "spherical" else (apart, pooled[0])
        assert_agrees(summarize(products), right)
        assert_disagrees(summarize(products), wrong)
        one_degree_less = 2.0 * (shape - 0.5) / scatter
        assert_disagrees(summarize(precisions), one_degree_less)


def posterior_of(X, prior):
    """Shapes and twice the rates of the precisions, means, and precisions of the means in rows, each (3,)."""
    n = (~np.isnan(X)).sum(axis=0)
    kappas = prior.mean_precision + n
    means = (prior.mean_precision * prior.mean + np.nansum(X, axis=0)) / kappas
    added = np.nansum((X - means) ** 2, axis=0) + prior.mean_precision * (means - prior.mean) ** 2
    if len(prior.covariance) == 1:
        n, added = np.full(3, n.sum()), np.full(3, added.sum())
    return (prior.degrees + n) / 2.0, prior.covariance + added, means, kappas


@pytest.mark.parametrize("kind", TYPES)
def test_new_rows_and_posterior_means(kind):
    X, labels = table(60)
    prior, clusters = PRIORS[kind], clusters_of(X, kind)
    statistics = counted(clusters, labels)
    shape, scatter, means, kappas = posterior_of(X[labels == 1], prior)
    rows = clusters.new_rows(statistics, np.full(4000, 1, np.int32), root_key(0))
    scales = np.sqrt(scatter / (2.0 * shape) * (1.0 + 1.0 / kappas))
    levels = stats.t.cdf(rows, 2.0 * shape, means, scales)
    assert_agrees(summarize(levels), 0.5)
    assert_agrees(summarize(levels**2), 1.0 / 3.0)
    assert_disagrees(summarize(stats.t.cdf(rows, 2.0 * shape, means, 1.2 * scales) ** 2), 1.0 / 3.0)
    expected = clusters.expected(selected(statistics, np.array([1, 2])))
    np.testing.assert_allclose(expected["components_"], [means, prior.mean])
    variances = scatter / (2.0 * shape - 2.0), np.broadcast_to(prior.covariance / (prior.degrees - 2.0), 3)
    np.testing.assert_allclose(expected["covariances_"], variances)
    first = clusters.new_rows(statistics, np.array([1, 3], np.int32), root_key(0))
    np.testing.assert_array_equal(first[0], rows[0])


# --- chains ----------------------------------------------------------------------------------------------

FIVE = np.array([[0.9, -1.2, 20.0], [0.2, NAN, 26.0], [NAN, 1.0, 13.0], [1.9, 1.4, NAN], [1.4, -0.4, 15.0]])


def exact_statistics(X, prior, alpha):
    """P(K = 1), ..., P(K = 5), and P(i and j together) for all i < j."""
    partitions = np.array(tiny.partitions(len(X)))
    logs = []
    for partition in partitions:
        of_clusters = [X[partition == k] for k in range(partition.max() + 1)]
        logs.append(sum(np.log(alpha) + gammaln(len(rows)) + log_marginal_of(rows, prior) for rows in of_clusters))
    weights = np.exp(logs - np.max(logs))
    return weights @ of_partitions(partitions) / weights.sum()


def of_partitions(labels):
    pairs = np.triu_indices(labels.shape[-1], 1)
    ordered = np.sort(labels, axis=-1)
    n_clusters = 1 + (np.diff(ordered, axis=-1) > 0).sum(axis=-1, keepdims=True)
    return np.concatenate([n_clusters == np.arange(1, 6), labels[..., pairs[0]] == labels[..., pairs[1]]], axis=-1)


@pytest.mark.long  # the short suite has such posteriors in mixture/dirichlet_process
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("sampler", "batch_size"), [(Slice(0), None), (Slice(3, 1), 2)])
def test_partition_posterior_of_five_rows(kind, sampler, batch_size):
    X = FIVE if kind == "diag" else FIVE * [1.0, 1.0, 0.1]
    clusters, prior = clusters_of(X, kind), PRIORS[kind]
    model = DPModel(clusters, 1.0, (1.0, 1.0), init=2, batch_size=batch_size, workers=ONE)
    means, root = [], root_key(0)
    for chain in range(40):
        state, labels = sampler.init(model, subkey(root, chain)), []
        for n in range(110):
            state = sampler.step(model, state)
            if n >= 10:
                labels.append(state.latents)
        means.append(of_partitions(np.array(labels)).mean(axis=0))
    estimate = summarize(means)
    assert_agrees(estimate, exact_statistics(X, prior, 1.0))
    assert_disagrees(estimate, exact_statistics(np.nan_to_num(X), prior, 1.0))
    assert_disagrees(estimate, exact_statistics(X, prior._replace(degrees=prior.degrees + 1.0), 1.0))


def test_threads_and_parts_do_not_change_bytes(monkeypatch):
    monkeypatch.setattr("skmanifold.emissions._bound_rows._ROWS_OF_TASK", 50)
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._LEAST_SLICES", 100)
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._LEAST_ROWS", 100)
    X, labels = table(3000)
    with Workers(2) as two:
        results = []
        for workers in (ONE, two):
            clusters = clusters_of(X, "spherical")
            model = DPModel(clusters, None, (1.0, 1.0), init=labels, batch_size=None, workers=workers)
            state = Slice().init(model, root_key(0))
            for _ in range(3):
                state = Slice().step(model, state)
            out = np.zeros((3000, 40))
            statistics = selected(state.statistics, np.arange(40))
            clusters.add_log_predictive(statistics, out, workers)
            results.append((state.latents, *statistics, out))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    part = np.zeros((5, 40))
    clusters.part(7, 12).add_log_predictive(statistics, part, ONE)
    np.testing.assert_array_equal(part, out[7:12])


# --- initial labels and bad input ------------------------------------------------------------------------


def test_seeds_are_spread_over_the_rows():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(8), 700)
    X = rng.normal(size=(8, 6))[truth] * 40.0 + rng.normal(size=(5600, 6))
    X[rng.random(X.shape) < 0.1] = NAN
    prior = NormalPrior(np.zeros(6), 0.01, np.ones(6), 4.0)
    labels = clusters_of(X, "diag", prior).spread_labels(30, root_key(0))
    assert labels.dtype == np.int32
    assert 20 < len(np.unique(labels)) <= 30
    table = np.zeros((8, 30))
    np.add.at(table, (truth, labels), 1)
    assert table.max(axis=0).sum() > 0.99 * len(X)
    few = clusters_of(X[:3], "diag", prior)
    np.testing.assert_array_equal(np.sort(few.spread_labels(5, root_key(0))), [0, 1, 2])
    same = clusters_of(np.ones((4, 6)), "diag", prior)
    np.testing.assert_array_equal(same.spread_labels(3, root_key(0)), 0)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("power", [-400, 400])
def test_scales_change_nothing(kind, power):
    X, _ = table()
    prior, factor = PRIORS[kind], 2.0**power
    scaled = prior._replace(mean=prior.mean * factor, covariance=prior.covariance * factor**2)
    draws = []
    for rows, of_rows in ((X, prior), (X * factor, scaled)):
        clusters = clusters_of(rows, kind, of_rows, of_rows.mean)
        model = DPModel(clusters, None, (1.0, 1.0), init=3, batch_size=None, workers=ONE)
        state = Slice().init(model, root_key(0))
        for _ in range(5):
            state = Slice().step(model, state)
        draws.append((state.latents, clusters.arrays_of(model.draw(state.statistics, 1.0, root_key(1)).components)))
    np.testing.assert_array_equal(draws[0][0], draws[1][0])
    np.testing.assert_array_equal(draws[0][1]["components"] * factor, draws[1][1]["components"])


def test_hard_rows_and_refusals():
    for X in (np.zeros((1, 2)), np.array([[1.0, 5.0], [2.0, 5.0], [NAN, 5.0]]), np.full((2, 2), NAN)):
        prior = NormalPrior(np.zeros(2), 1e-3, np.full(2, 1e-3), 0.01)
        clusters = clusters_of(X, "diag", prior)
        model = DPModel(clusters, None, (1.0, 1.0), init=1, batch_size=None, workers=ONE)
        state = Slice().init(model, root_key(0))
        for _ in range(20):
            state = Slice().step(model, state)
            drawn = clusters.arrays_of(model.draw(state.statistics, 1.0, root_key(1)).components)
            assert all(np.isfinite(array).all() for array in drawn.values())
        assert np.isfinite(state.log_density)
    with pytest.raises(ValueError, match="larger covariance_prior"):
        clusters_of(np.array([[1e40, 0.0]]), "diag", prior)

    rows = DenseRows(np.arange(8.0).reshape(4, 2))
    for kind in TYPES:
        family = Gaussian(kind).bind(rows, 1)
        assert family.clusters(rows).n_rows == 4
        assert family.clusters().n_rows == 0
        with pytest.raises(ValueError, match="need a proper prior"):
            Gaussian(kind, mean_precision_prior=0.0).bind(rows, 1).clusters(rows)
