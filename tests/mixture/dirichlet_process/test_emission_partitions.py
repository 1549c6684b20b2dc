"""Exact posteriors over partitions agree with other ways to compute them; wrong models have other posteriors."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, summarize
from scipy import stats
from scipy.integrate import quad

from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._cell_rows import BernoulliRows, MultinomialRows, NegativeBinomialRows, PoissonRows
from ._direction_rows import DirectionRows, log_normalizer
from ._emission_evidence import clusters_of
from ._emission_partitions import CASES as ALL_CASES
from ._emission_partitions import TableRows
from ._gaussian_rows import DiagRows, FullRows, SphericalRows, TiedRows

CASES = {name: rows for name, rows in ALL_CASES.items() if not isinstance(rows, TableRows)}  # sums over blocks
WITH_QUADRATURE = [name for name, rows in CASES.items() if rows.has_missing_draws and rows.missing.any()]
WITHOUT_QUADRATURE = [name for name in CASES if name not in WITH_QUADRATURE]
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


# --- the chain rule --------------------------------------------------------------------------------------


def log_negative_binomial(cell, r, x, y):
    """Log probability of a count whose p has a beta distribution, by quadrature."""
    return np.log(quad(lambda p: stats.nbinom.pmf(cell, r, 1 - p) * stats.beta.pdf(p, x, y), 0, 1, epsabs=1e-13)[0])


def chain_of_cells(rows, members):
    """Log p(observed cells of the members of a cluster), cell by cell, each given those before it."""
    hyper, total = rows.hyper, 0.0
    psi = np.array(np.broadcast_to(hyper["psi"], rows.n_features), float) if "psi" in hyper else None
    degrees = np.full(rows.n_features, hyper.get("degrees", 0.0))
    seen = [[] for _ in range(rows.n_features)]
    for row in rows.X[members]:
        for j in np.flatnonzero(~np.isnan(row)):
            cell, before, n = row[j], sum(seen[j]), len(seen[j])
            if psi is not None:
                kappa = hyper["kappa"] + n
                mean = (hyper["kappa"] * hyper["mean"][j] + before) / kappa
                scale = np.sqrt(psi[j] / degrees[j] * (kappa + 1) / kappa)
                total += stats.t.logpdf(cell, degrees[j], mean, scale)
                shared = slice(None) if isinstance(rows, SphericalRows) else j
                psi[shared] += kappa / (kappa + 1) * (cell - mean) ** 2
                degrees[shared] += 1
            elif isinstance(rows, BernoulliRows):
                one = (hyper["ones"][j] + before) / (hyper["ones"][j] + hyper["zeros"][j] + n)
                total += np.log(one if cell else 1 - one)
            elif isinstance(rows, PoissonRows):
                rate = hyper["rate"][j] + n
                total += stats.nbinom.logpmf(cell, hyper["shape"][j] + before, rate / (rate + 1))
            elif isinstance(rows, NegativeBinomialRows):
                r = 1 / hyper["dispersion"][j]
                x, y = hyper["shape"][j] + before, 1 + (hyper["rate"][j] + n) * r
                total += log_negative_binomial(cell, r, x, y)
            else:
                total += np.log((hyper["prior"] + seen[j].count(cell)) / (hyper["prior"] * hyper["widths"][j] + n))
            seen[j].append(cell)
    return total


def chain_of_tokens(rows, members):
    weights, total = np.array(rows.hyper["prior"]), 0.0
    for row in rows.X[members].astype(int):
        for j in np.repeat(np.arange(len(row)), row):
            total += np.log(weights[j] / weights.sum())
            weights[j] += 1
    return total


def chain_of_rows(rows, clusters):
    """Log p(observed cells) of clusters that share a covariance: multivariate t, rows with missing cells last."""
    order = [(c, i) for c, cluster in enumerate(clusters) for i in sorted(cluster)]
    order.sort(key=lambda place: np.isnan(rows.X[place[1]]).any())
    kappa, mean, d = rows.hyper["kappa"], rows.hyper["mean"], rows.n_features

    def density(left, sizes, sums, psi, degrees):
        if not left:
            return 1.0
        (c, i), *later = left
        x, n = rows.X[i], kappa + sizes[c]
        centre = (kappa * mean + sums[c]) / n
        df = degrees - d + 1
        shape = psi * (n + 1) / n / df

        def onwards(row):
            added = n / (n + 1) * np.outer(row - centre, row - centre)
            one = np.arange(len(sizes)) == c
            return density(later, sizes + one, sums + one[:, None] * row, psi + added, degrees + 1)

        seen = np.flatnonzero(~np.isnan(x))
        if not later or len(seen) == d:
            now = stats.multivariate_t.pdf(x[seen], centre[seen], shape[np.ix_(seen, seen)], df)
            return now * onwards(x) if later else now

        def at(value):
            row = np.where(np.isnan(x), value, x)
            return stats.multivariate_t.pdf(row, centre, shape, df) * onwards(row)

        return quad(at, -np.inf, np.inf, epsabs=1e-14, epsrel=1e-10)[0]

    nothing = np.zeros(len(clusters)), np.zeros((len(clusters), d))
    return np.log(density(order, *nothing, np.asarray(rows.hyper["psi"]), rows.hyper["degrees"]))


def chain_of_directions(rows, clusters):
    """Log p(rows) of clusters, row by row; the posterior of the concentration is updated on a grid."""
    kind, grid = rows.hyper["concentration"], np.exp(np.linspace(-30.0, 9.0, 40_001))
    if isinstance(kind, str):
        prior = np.exp(rows.log_prior(grid)) * grid
    else:
        grid, prior = np.array([kind]), np.ones(1)
    total, weights = 0.0, prior / prior.sum()
    for cluster in clusters:
        sums = np.zeros(3)
        weights = weights if kind == "shared" else prior / prior.sum()
        for x in rows.X[sorted(cluster)]:
            lengths = np.linalg.norm([sums, sums + x], axis=1)
            of_row = log_normalizer(grid) + log_normalizer(grid * lengths[0]) - log_normalizer(grid * lengths[1])
            weights = weights * np.exp(of_row)
            total += np.log(weights.sum())
            weights /= weights.sum()
            sums += x
    return total


def by_chain_rule(rows, clusters):
    if isinstance(rows, DirectionRows):
        return chain_of_directions(rows, clusters)
    if rows.has_missing_draws:
        return sum(chain_of_rows(rows, group) for group in rows.groups(clusters))
    chain = chain_of_tokens if isinstance(rows, MultinomialRows) else chain_of_cells
    return sum(chain(rows, sorted(cluster)) for cluster in clusters)


@pytest.mark.extended
@pytest.mark.parametrize("name", CASES)
def test_likelihoods_of_partitions_follow_from_predictive_densities(name):
    rows = CASES[name]
    for labels in PARTITIONS:
        clusters = tiny.clusters_of(labels)
        assert rows.log_likelihood(clusters) == pytest.approx(by_chain_rule(rows, clusters), abs=1e-8)


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


@pytest.mark.parametrize("kind", [FullRows, TiedRows])
def test_a_single_feature_has_a_closed_form(kind):
    """Missing cells are left out; one variance per component is also the case of diagonal covariances."""
    full = CASES["full, missing"].hyper
    X = CASES["full, missing"].X[:, :1]
    hyper = {"mean": full["mean"][:1], "kappa": full["kappa"], "degrees": 3.0}
    rows = kind(X, **hyper, psi=((0.6,),))
    without = kind(X, **hyper, psi=((0.6,),))
    for labels in PARTITIONS:
        clusters = tiny.clusters_of(labels)
        seen = [cluster - {1} for cluster in clusters]
        found = without.log_likelihood([cluster for cluster in seen if cluster])
        assert rows.log_likelihood(clusters) == pytest.approx(found, abs=1e-9)
        if kind is FullRows:
            diag = DiagRows(X, **hyper, psi=(0.6,))
            assert diag.log_likelihood(clusters) == pytest.approx(found, abs=1e-9)


def test_diagonal_and_spherical_covariances_agree_for_one_feature():
    X = CASES["diag, missing"].X[:, :1]
    hyper = {"mean": np.zeros(1), "kappa": 0.3, "degrees": 3.0}
    laws = [DiagRows(X, **hyper, psi=(0.5,)).law(), SphericalRows(X, **hyper, psi=0.5).law()]
    np.testing.assert_allclose(*laws, atol=1e-13)


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


def predictive_of(rows):
    """Log density of a row given clusters of others, whose first it joins; a row may be in its cluster twice."""
    known = {}

    def log_p(clusters):
        key = frozenset(tuple(sorted(cluster)) for cluster in clusters if cluster)
        if key not in known:
            if isinstance(rows, TiedRows):
                known[key] = float(rows.log_marginal_of_completed(key, rows.X))
            elif shares_parameters(rows):
                known[key] = rows.log_integral(
                    lambda kappa: sum(rows.log_of_cluster(list(cluster), kappa) for cluster in key)
                )
            else:
                known[key] = sum(rows.log_marginal(list(cluster)) for cluster in key)
        return known[key]

    return lambda row, clusters: log_p([[*clusters[0], row], *clusters[1:]]) - log_p(clusters)


@pytest.mark.extended
@pytest.mark.short_cases(*(name for name in WITHOUT_QUADRATURE if name not in ("directions", "directions, sparse")))
@pytest.mark.parametrize("name", WITHOUT_QUADRATURE)
def test_predictions_from_the_other_rows_leave_the_posterior_alone(name):
    law, log_predictive = CASES[name].law(), predictive_of(CASES[name])
    np.testing.assert_allclose(tiny.stationary_law(log_predictive), law, atol=1e-10)
    assert distance(tiny.stationary_law(log_predictive, includes_the_row=True), law) > 0.05
