"""Exact posteriors over partitions agree with other ways to compute them; wrong models have other posteriors."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, summarize
from scipy import stats

from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._emission_evidence import clusters_of
from ._emission_partitions import CASES as ALL_CASES
from ._emission_partitions import TableRows
from ._gaussian_rows import FullRows, TiedRows

CASES = {name: rows for name, rows in ALL_CASES.items() if not isinstance(rows, TableRows)}  # sums over blocks
WITH_QUADRATURE = [name for name, rows in CASES.items() if rows.has_missing_draws and rows.missing.any()]
GAUSSIAN = [name for name, rows in CASES.items() if "degrees" in rows.hyper]
PARTITIONS = [(0, 0, 0, 0, 0), (0, 1, 0, 1, 0), (0, 0, 1, 0, 2), (0, 1, 2, 3, 4)]


@pytest.mark.extended
@pytest.mark.parametrize("name", CASES)
def test_many_partitions_are_probable(name):
    law = CASES[name].law()
    assert len(law) == 52
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert (law > 1e-3).sum() > 40
    assert law.max() < 0.16


# --- likelihoods of the package ---------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.parametrize("name", [name for name in CASES if name not in WITH_QUADRATURE])
def test_likelihoods_of_partitions_are_those_of_the_package(name):
    rows = CASES[name]
    clusters = clusters_of(rows)
    for labels in PARTITIONS:
        statistics = clusters.no_statistics(5)
        clusters.count(np.array(labels, np.int32), statistics, Workers(1))
        expected = rows.log_likelihood(tiny.clusters_of(labels))
        assert clusters.log_marginal(statistics) == pytest.approx(expected, rel=1e-9)


def shares_parameters(rows):
    """Whether components drawn together are not independent."""
    return isinstance(rows, TiedRows) or rows.hyper.get("concentration") == "shared"


# --- parameters drawn ------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.parametrize("name", [name for name in CASES if not shares_parameters(CASES[name])])
def test_marginal_likelihoods_are_means_over_the_prior(name):
    rows, rng = CASES[name], np.random.default_rng(0)
    components = rows.draw_components(40_000, rng)
    members = [0, 1] if rows.missing.any() else [2, 3]
    densities = np.exp(sum(rows.log_densities(components, rows.X[i]) for i in members))
    assert_agrees(summarize(densities), np.exp(rows.log_marginal(members)))


@pytest.mark.extended
def test_the_likelihood_with_a_shared_covariance_is_a_mean_over_the_prior():
    rows, rng = CASES["tied, missing"], np.random.default_rng(0)
    full = FullRows(rows.X, **rows.hyper)
    first, covariances = full.draw_components(100_000, rng)
    noise = np.linalg.cholesky(covariances) @ rng.standard_normal((*first.shape, 1)) / np.sqrt(rows.hyper["kappa"])
    second = rows.hyper["mean"] + noise[..., 0]
    logs = [full.log_densities((means, covariances), rows.X[i]) for means, i in ((first, 0), (first, 1), (second, 3))]
    exact = rows.log_marginal_of_clusters([frozenset({0, 1}), frozenset({3})])
    assert_agrees(summarize(np.exp(sum(logs))), np.exp(exact))


def posterior_of_the_other(rows, labels, other, rng, n=400):
    """Probabilities of partition `other`, where it and `labels` are as probable, of rows drawn given `labels`."""
    found = np.empty(n)
    for i in range(n):
        X = rows.draw_rows(rows.draw_components(max(labels) + 1, rng), np.array(labels), rng)
        drawn = rows.changed(X=X)
        logs = [drawn.log_likelihood(tiny.clusters_of(partition)) for partition in (labels, other)]
        found[i] = 1 / (1 + np.exp(logs[0] - logs[1]))
    return summarize(found)


COMPLETE = [name for name in CASES if not CASES[name].missing.any()]


@pytest.mark.extended
@pytest.mark.short_cases(*(name for name in COMPLETE if not name.startswith("directions")))
@pytest.mark.parametrize("name", COMPLETE)
def test_rows_are_drawn_from_the_likelihood(name):
    """The mean of p(other) / (p + p(other)) is the same with the partitions exchanged."""
    rng, labels = np.random.default_rng(0), [(0, 0, 1, 1, 0), (0, 1, 1, 0, 2)]
    there, back = (posterior_of_the_other(CASES[name], *pair, rng) for pair in (labels, labels[::-1]))
    assert 0.02 < there.mean < 0.45
    assert_agrees(Estimate(there.mean - back.mean, np.hypot(there.error, back.error)), 0.0)


# --- quadrature ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_QUADRATURE)
def test_more_nodes_give_the_same_posterior(name):
    rows = CASES[name].changed()
    rows.step /= 2
    for labels in PARTITIONS:
        clusters = tiny.clusters_of(labels)
        assert rows.log_likelihood(clusters) == pytest.approx(CASES[name].log_likelihood(clusters), abs=1e-9)


@pytest.mark.extended
@pytest.mark.parametrize("name", ["full, one missing", "full, missing", "tied, missing"])
def test_missing_cells_are_drawn_given_the_partition(name):
    """Their distribution function is uniform: with the other cell left out, or with the one drawn before."""
    rows, rng, labels, n = CASES[name], np.random.default_rng(0), (0, 0, 1, 0, 1), 300
    clusters = tiny.clusters_of(labels)
    group = next(group for group in rows.groups(clusters) if any(1 in cluster for cluster in group))
    cells = rows.missing_cells(group)
    (_, j), *others = cells
    drawn = np.array([rows.draw_missing(labels, rng) for _ in range(n)])
    assert np.isfinite(drawn).all()
    nodes, log_weights = rows.nodes(0.02)
    first = []
    for node in nodes[j]:
        X = rows.X.copy()
        X[cells[0]] = node
        first.append(rows.changed(X=X).log_marginal_of_clusters(group))
    density = np.exp(np.array(first) + log_weights[j] - rows.log_marginal_of_clusters(group))
    assert density.sum() == pytest.approx(1, abs=1e-8)
    places = np.interp(drawn[(slice(None), *cells[0])], nodes[j], np.cumsum(density) - density / 2)
    assert stats.kstest(places, "uniform").pvalue > 1e-4
    for i, k in others:
        places = []
        for X in drawn:
            logs = rows.log_marginal_of_completed(group, rows.completed([*cells[:1], (i, k)], (X[cells[0]], nodes[k])))
            below = np.cumsum(np.exp(logs - logs.max() + log_weights[k]))
            places.append(np.interp(X[i, k], nodes[k], below / below[-1]))
        assert stats.kstest(places, "uniform").pvalue > 1e-4


# --- wrong models ----------------------------------------------------------------------------------------


def distance(law, other):
    """In total variation."""
    return np.abs(law - other).sum() / 2


@pytest.mark.parametrize("name", GAUSSIAN)
def test_one_degree_of_freedom_less_shows(name):
    rows = CASES[name]
    assert distance(rows.law(), rows.changed(degrees=rows.hyper["degrees"] - 1).law()) > 0.08


@pytest.mark.parametrize("name", [name for name, rows in CASES.items() if rows.missing.any()])
def test_zeros_for_missing_cells_show(name):
    rows = CASES[name]
    assert distance(rows.law(), rows.read_as_zero().law()) > 0.15
