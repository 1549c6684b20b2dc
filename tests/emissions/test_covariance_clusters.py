"""Clusters with full and tied covariances against closed forms, quadratures and exact partition posteriors."""

import numpy as np
import pytest
from mixture.dirichlet_process import _tiny_partitions as tiny
from mixture.dirichlet_process._emission_partitions import CASES
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import multigammaln

from skmanifold.emissions import kernels
from skmanifold.emissions._dense_rows import IncompleteRows
from skmanifold.emissions._gaussian.base import NormalPrior
from skmanifold.emissions._gaussian.full import FullFamily
from skmanifold.emissions._gaussian.kernels import FULL_LANES
from skmanifold.emissions._gaussian.tied import TiedFamily
from skmanifold.emissions._statistics import occupied, selected
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._njit import njit
from skmanifold.utils._threads import Workers

from ._splits import compiled_clear, compiled_factor, compiled_predictive, compiled_walk

pytestmark = pytest.mark.extended

ONE, NAN = Workers(1), np.nan
KINDS = {"full": FullFamily, "tied": TiedFamily}
D = 5  # not a multiple of four
_ROOT = np.tril(np.random.default_rng(5).normal(size=(D, D))) + 2.0 * np.eye(D)
PRIOR = NormalPrior(np.linspace(-1.0, 1.0, D), 0.3, _ROOT @ _ROOT.T, D + 1.5)
parametrize_kind = pytest.mark.parametrize("kind", KINDS)


def table(n=21, seed=0, missing=0.0):
    """Rows, and labels of which 2 has no rows."""
    rng = np.random.default_rng(seed)
    labels = np.array([0, 1, 3] * n, np.int32)[:n]
    X = rng.normal(labels[:, None] * 1.5, 1.0 + labels[:, None], (n, D)) @ rng.normal(size=(D, D))
    X[rng.random(X.shape) < missing] = NAN
    return X, labels


def clusters_of(X, kind, prior=PRIOR, origin=None):
    family = KINDS[kind](prior, 1, prior.mean + 0.25 if origin is None else origin)
    return family.clusters(IncompleteRows.of_values(np.ascontiguousarray(X, float)))


def counted(clusters, labels, capacity=6, workers=ONE):
    statistics = clusters.no_statistics(capacity)
    clusters.count(labels, statistics, workers)
    return statistics


def posterior_of(parts, prior=PRIOR):
    """Scatter, degrees of freedom and, by cluster, precisions and means of clusters that share a covariance."""
    scatter, degrees, kappas, means = np.array(prior.covariance), prior.degrees, [], []
    for X in parts:
        kappas.append(prior.mean_precision + len(X))
        means.append((prior.mean_precision * prior.mean + X.sum(axis=0)) / kappas[-1])
        gap = prior.mean - means[-1]
        scatter = scatter + (X - means[-1]).T @ (X - means[-1]) + prior.mean_precision * np.outer(gap, gap)
        degrees += len(X)
    return scatter, degrees, np.array(kappas), np.array(means)


def log_marginal_of(parts, prior=PRIOR):
    """Log density of rows in clusters that share a covariance."""
    d, n = len(prior.mean), sum(map(len, parts))
    scatter, degrees, kappas, _ = posterior_of(parts, prior)
    of_degrees = multigammaln(degrees / 2, d) - multigammaln(prior.degrees / 2, d) - n * d / 2 * np.log(np.pi)
    of_scatter = prior.degrees * np.linalg.slogdet(prior.covariance)[1] - degrees * np.linalg.slogdet(scatter)[1]
    return of_degrees + of_scatter / 2 + d / 2 * np.log(prior.mean_precision / kappas).sum()


def parts_of(X, labels, kind, n_labels=4):
    """For each label, the clusters that share its covariance, its own first."""
    own = [X[labels == k] for k in range(n_labels)]
    return own, [[own[k], *(own[:k] + own[k + 1 :] if kind == "tied" else [])] for k in range(n_labels)]


def students_of(X, labels, kind, n_labels=4):
    """Predictive t distributions of the clusters."""
    students = []
    for shared in parts_of(X, labels, kind, n_labels)[1]:
        scatter, degrees, kappas, means = posterior_of(shared)
        df = degrees - D + 1
        students.append((means[0], scatter * (1 + 1 / kappas[0]) / df, df))
    return students


# --- densities -------------------------------------------------------------------------------------------


@parametrize_kind
def test_marginal_and_predictive_densities(kind):
    X, labels = table()
    clusters = clusters_of(X, kind)
    statistics = counted(clusters, labels)
    own, shared = parts_of(X, labels, kind)
    exact = log_marginal_of(own) if kind == "tied" else sum(log_marginal_of([part]) for part in own)
    np.testing.assert_allclose(clusters.log_marginal(statistics), exact, rtol=1e-12)

    out = np.full((len(X), 4), 0.5)
    clusters.add_log_predictive(selected(statistics, np.arange(4)), out, ONE)
    expected = [
        [log_marginal_of([np.vstack([first, row]), *rest]) - log_marginal_of([first, *rest]) for first, *rest in shared]
        for row in X
    ]
    np.testing.assert_allclose(out - 0.5, expected, rtol=1e-10)


@parametrize_kind
def test_predictive_densities_of_observed_cells(kind):
    X, labels = table()
    holes = table(missing=0.3)[0]
    holes[4] = NAN
    statistics = counted(clusters_of(X, kind), labels)
    out = np.full((len(X), 4), 0.5)
    clusters_of(np.where(np.isnan(holes), NAN, X), kind).add_log_predictive(statistics_of_four(statistics), out, ONE)
    students = students_of(X, labels, kind)
    for row, hole, found in zip(X, holes, out - 0.5, strict=True):
        seen = ~np.isnan(hole)
        expected = [
            stats.multivariate_t.logpdf(row[seen], mean[seen], shape[np.ix_(seen, seen)], df) if seen.any() else 0.0
            for mean, shape, df in students
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def statistics_of_four(statistics):
    chosen = selected(statistics, np.arange(4))
    assert len(chosen.completed) == 0  # draws and predictions do not need the values of missing cells
    return chosen


def test_components_far_from_all_rows_are_left_out():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), FULL_LANES).astype(np.int32)
    n_rows, prior = len(labels), PRIOR._replace(mean_precision=1e-6)
    clusters = clusters_of(rng.normal(labels[:, None] * 400.0, 1.0, (n_rows, D)), "full", prior)
    statistics = counted(clusters, labels)
    components, scores = clusters.draw_components(statistics, np.arange(4), root_key(0), ONE), np.empty((n_rows, 4))
    of_rows = np.arange(n_rows), np.full(n_rows, 4), labels.astype(np.int64)
    _fill_scores(clusters.data, statistics, *of_rows, components, scores)
    np.testing.assert_array_equal(np.isneginf(scores), labels[:, None] != np.arange(4))


def test_the_density_of_a_new_component_has_the_covariance_of_the_others():
    X, labels = table()
    clusters = clusters_of(X, "tied")
    components = clusters.draw_components(counted(clusters, labels), np.arange(3), root_key(1), ONE)
    covariance = clusters.arrays_of(components)["covariances"] * (1 + 1 / PRIOR.mean_precision)
    out = np.zeros((len(X), 1))
    clusters.add_log_density_of_new(components, out, ONE)
    np.testing.assert_allclose(out[:, 0], stats.multivariate_normal.logpdf(X, PRIOR.mean, covariance), rtol=1e-10)


@njit(cache=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    kernels.fill_scores(data, statistics, rows, n_above, current, components, scores)


# --- split-merge -----------------------------------------------------------------------------------------


def log_marginal_given(X, covariance, prior=PRIOR):
    """Log density of rows of one cluster given the covariance: with rows as one normal vector."""
    n = len(X)
    if n == 0:
        return 0.0
    whole = np.kron(np.eye(n) + 1.0 / prior.mean_precision, covariance)
    return stats.multivariate_normal.logpdf(X.ravel(), np.tile(prior.mean, n), whole)


def marginal_of_clusters(kind, posterior):
    """Log density of the rows of one cluster; given the covariance of the moves, if it is tied."""
    if kind == "full":
        return lambda X: log_marginal_of([X])
    root = np.linalg.inv(posterior.factor)
    return lambda X: log_marginal_given(X, root @ root.T)


@parametrize_kind
def test_sides_of_a_split(kind):
    X, labels = table()
    X[labels == 1] *= 100.0  # outlying rows on a side leave no trace
    clusters = clusters_of(X, kind)
    statistics = counted(clusters, labels)
    posterior, sides = clusters.split_merge_space(statistics, root_key(0))
    _, new = clusters.split_merge_space(statistics, root_key(0))
    log_marginal = marginal_of_clusters(kind, posterior)
    members, others = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    rows = np.concatenate([members, others])
    side = np.arange(len(rows)) % 2
    for n_kept in (len(members), 1, 0):
        log_odds, of_side_1 = compiled_walk(clusters.data, *sides, rows, side, n_kept, 8)
        on = [X[rows[:n_kept][side[:n_kept] == s]] for s in (0, 1)]
        of_sides = [log_marginal(np.vstack([part, X[8]])) - log_marginal(part) for part in on]
        np.testing.assert_allclose(log_odds, of_sides[1] - of_sides[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(of_side_1, of_sides[1], rtol=1e-7)
        factor = compiled_factor(clusters.data, *sides, 0, 1)
        compiled_clear(clusters.data, *sides)
        if n_kept == len(members):
            expected = sum(map(log_marginal, on)) - log_marginal(X[members])
            np.testing.assert_allclose(factor, expected, rtol=1e-7)
    for part, of_new in zip(sides, new, strict=True):
        for name in {"sizes", "sums", "products", "means", "roots", "log_dets", "constants"} & set(part._fields):
            cleared, empty = getattr(part, name)[:2], getattr(of_new, name)[:2]
            np.testing.assert_array_equal(*(map(np.triu, (cleared, empty)) if name == "roots" else (cleared, empty)))


@parametrize_kind
def test_labels_in_split_merge(kind):
    X, labels = table()
    clusters = clusters_of(X, kind)
    statistics = counted(clusters, labels)
    posterior, _ = clusters.split_merge_space(statistics, root_key(0))
    log_marginal = marginal_of_clusters(kind, posterior)
    out = np.full(3, 0.5)
    compiled_predictive(clusters.data, statistics, posterior, 5, np.array([0, 1, 3]), out)
    factor = compiled_factor(clusters.data, statistics, posterior, 3, 0)
    parts = sum(log_marginal(X[labels == k]) for k in (0, 3))
    np.testing.assert_allclose(factor, parts - log_marginal(X[labels != 1]), rtol=1e-9)
    own = [X[labels == k] for k in (0, 1, 3)]
    expected = [log_marginal(np.vstack([part, X[5]])) - log_marginal(part) for part in own]
    np.testing.assert_allclose(out - 0.5, expected, rtol=1e-9)
    kernels.merge_labels(clusters.data, statistics, 3, 0)
    merged = counted(clusters, np.where(labels == 0, 3, labels))
    for found, again in zip(statistics, merged, strict=True):
        np.testing.assert_allclose(found, again, rtol=1e-12, atol=1e-12)


# --- statistics ------------------------------------------------------------------------------------------


@parametrize_kind
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_sums_after_moves_are_those_of_the_rows(kind, missing):
    X, labels = table(60, missing=missing)
    clusters = clusters_of(X * 1e3, kind)
    statistics, rng, place_of = counted(clusters, labels), np.random.default_rng(0), np.arange(6)
    components = clusters.draw_components(statistics, place_of, root_key(0), ONE)
    for n in range(30):
        rows = rng.permutation(60)[:20]
        new = np.zeros(20, np.int32) if n % 10 == 9 else rng.integers(6, size=20).astype(np.int32)
        clusters.redraw_missing(rows, new, labels, statistics, components, place_of, subkey(root_key(0), n), ONE)
        clusters.move(rows, new, labels, statistics, ONE)
        labels[rows] = new
    fives = np.full(60, 5, np.int32)
    clusters.move(np.arange(60), fives, labels, statistics, ONE)
    again = clusters.no_statistics(6)._replace(completed=statistics.completed)
    clusters.count(fives, again, ONE)
    for moved, exact in zip(statistics, again, strict=True):
        np.testing.assert_allclose(moved, exact, rtol=1e-9, atol=1e-4)
    np.testing.assert_array_equal(statistics.sums[:5], 0.0)
    rows = X[np.isnan(X).any(axis=1)] * 1e3
    np.testing.assert_array_equal(statistics.completed[~np.isnan(rows)], rows[~np.isnan(rows)])
    assert (missing > 0.0) == (len(statistics.completed) > 0)
    to_new = np.array([0, 0, 0, 0, 0, 7])
    relabelled = clusters.relabelled(to_new[fives].astype(np.int32), statistics, to_new, ONE)
    np.testing.assert_array_equal(relabelled.sums[7], again.sums[5])  # counted again
    np.testing.assert_array_equal(occupied(relabelled), [7])


# --- draws -----------------------------------------------------------------------------------------------


@parametrize_kind
def test_draws_of_components_have_the_moments_of_the_posterior(kind):
    X, labels = table(12)
    clusters = clusters_of(X, kind)
    statistics = counted(clusters, labels)
    for label in (0, 50):
        key = root_key(label)
        chosen = np.array([label])
        drawn = [clusters.draw_components(statistics, chosen, subkey(key, i), ONE) for i in range(3000)]
        arrays = [clusters.arrays_of(components) for components in drawn]
        means = np.array([each["components"][0] for each in arrays])
        covariances = np.array([each["covariances"].reshape(D, D) for each in arrays])
        _, shared = parts_of(X, labels, kind, 51)
        scatter, degrees, kappas, centres = posterior_of(shared[label])
        precisions = np.linalg.inv(covariances)
        assert_agrees(summarize(precisions), degrees * np.linalg.inv(scatter))
        assert_disagrees(summarize(precisions), (degrees - 1) * np.linalg.inv(scatter))
        gaps = means - centres[0]
        assert_agrees(summarize(np.einsum("ia,iab,ib->i", gaps, precisions, gaps) * kappas[0]), D)
        assert_agrees(summarize(gaps > 0.0), 0.5)
        determinant = degrees - np.arange(D)
        of_determinant = np.linalg.det(precisions) * np.linalg.det(scatter)
        assert_agrees(summarize(of_determinant), np.prod(determinant))


@parametrize_kind
def test_new_rows_and_posterior_means(kind):
    X, labels = table()
    clusters = clusters_of(X, kind)
    statistics = counted(clusters, labels)
    rows = clusters.new_rows(statistics, np.full(4000, 3, np.int32), root_key(0))
    mean, shape, df = students_of(X, labels, kind)[3]
    squares = np.einsum("ia,ab,ib->i", rows - mean, np.linalg.inv(shape), rows - mean) / D
    assert_agrees(summarize(stats.f.cdf(squares, D, df)), 0.5)
    assert_agrees(summarize(stats.f.cdf(squares, D, df) ** 2), 1 / 3)
    assert_agrees(summarize(stats.t.cdf(rows, df, mean, np.sqrt(np.diag(shape))) ** 2), 1 / 3)
    assert_disagrees(summarize(stats.f.cdf(squares / 1.2, D, df)), 0.5)
    expected = clusters.expected(statistics)
    scatter, degrees, _, means = posterior_of(parts_of(X, labels, kind)[1][3])
    np.testing.assert_allclose(expected["components_"][3], means[0])
    covariances = np.broadcast_to(expected["covariances_"], (6, D, D))
    np.testing.assert_allclose(covariances[3], scatter / (degrees - D - 1))
    again = clusters.new_rows(statistics, np.array([3, 1], np.int32), root_key(0))
    np.testing.assert_array_equal(again[0], rows[0])
    moments = clusters.cell_attributes(statistics)
    np.testing.assert_allclose(moments["components_"][3], mean)
    np.testing.assert_allclose(moments["covariances_"][3], shape * df / (df - 2))


@parametrize_kind
def test_missing_cells_are_drawn_given_the_observed_cells_and_the_new_label(kind):
    X, labels = table(40)
    X[:, [1, 3]] = np.where(np.arange(40)[:, None] < 20, NAN, X[:, [1, 3]])
    X[:20] = X[0]
    clusters = clusters_of(X, kind)
    statistics, place_of = counted(clusters, labels), np.array([2, 0, 3, 1])
    components = clusters.draw_components(statistics, np.array([1, 3, 0, 2]), root_key(0), ONE)
    rows, new = np.arange(10, 30), np.full(20, 3, np.int32)
    before, drawn = statistics.completed.copy(), []
    for i in range(300):
        clusters.redraw_missing(rows, new, labels, statistics, components, place_of, subkey(root_key(1), i), ONE)
        drawn.append(statistics.completed[10:20, [1, 3]].copy())
    np.testing.assert_array_equal(statistics.completed[:10], before[:10])  # not in the minibatch
    arrays = clusters.arrays_of(components)
    mean, covariance = arrays["components"][1], np.broadcast_to(arrays["covariances"], (4, D, D))[1]
    m, s = [1, 3], [0, 2, 4]
    slope = covariance[np.ix_(m, s)] @ np.linalg.inv(covariance[np.ix_(s, s)])
    rest = covariance[np.ix_(m, m)] - slope @ covariance[np.ix_(s, m)]
    gaps = np.reshape(drawn, (-1, 2)) - (mean[m] + slope @ (X[0, s] - mean[s]))
    assert_agrees(summarize(gaps), 0.0)
    assert_agrees(summarize(gaps[:, :, None] * gaps[:, None]), rest)
    assert_disagrees(summarize(gaps[:, :, None] * gaps[:, None]), covariance[np.ix_(m, m)])


# --- chains ----------------------------------------------------------------------------------------------


def law_of(case):
    """P(K = 1), ..., P(K = 5), and P(i and j together) for all i < j."""
    return case.law() @ of_partitions(np.array(tiny.PARTITIONS))


def of_partitions(labels):
    pairs = np.triu_indices(labels.shape[-1], 1)
    ordered = np.sort(labels, axis=-1)
    n_clusters = 1 + (np.diff(ordered, axis=-1) > 0).sum(axis=-1, keepdims=True)
    return np.concatenate([n_clusters == np.arange(1, 6), labels[..., pairs[0]] == labels[..., pairs[1]]], axis=-1)


def case_clusters(name, workers=ONE):
    case = CASES[name]
    prior = NormalPrior(case.hyper["mean"], case.hyper["kappa"], np.array(case.hyper["psi"]), case.hyper["degrees"])
    return case, clusters_of(case.X, name[:4], prior)


@pytest.mark.long  # the short suite has such posteriors in mixture/dirichlet_process
@pytest.mark.parametrize("name", ["full, missing", "tied, missing"])
@pytest.mark.parametrize(("sampler", "batch_size"), [(Slice(0), None), (Slice(3, 1), 2)])
def test_partition_posterior_of_five_rows(name, sampler, batch_size):
    case, clusters = case_clusters(name)
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
    assert_agrees(estimate, law_of(case))
    assert_disagrees(estimate, law_of(case.read_as_zero()))


@pytest.mark.long
@parametrize_kind
def test_results_do_not_depend_on_threads(kind, monkeypatch):
    monkeypatch.setattr("skmanifold.emissions._bound_rows._ROWS_OF_TASK", 50)
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._LEAST_SLICES", 100)
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._LEAST_ROWS", 100)
    X, _ = table(3000, missing=0.01)
    states = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            model = DPModel(clusters_of(X, kind), None, (1.0, 1.0), init=5, batch_size=1000, workers=workers)
            sampler = Slice(2)
            state = sampler.init(model, root_key(0))
            for _ in range(3):
                state = sampler.step(model, state)
            out = np.zeros((len(X), 3))
            model.clusters.add_log_predictive(selected(state.statistics, np.arange(3)), out, workers)
            states.append((*state.statistics, state.latents, state.log_density, out))
    for one, two in zip(*states, strict=True):
        np.testing.assert_array_equal(one, two)


@parametrize_kind
def test_seeds_find_planted_clusters(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=3000)
    X = rng.normal(labels[:, None] * 30.0, 1.0, (3000, D))
    X[::50, 2] = NAN
    found = clusters_of(X, kind).spread_labels(8, root_key(0))
    assert found.dtype == np.int32
    assert found.max() < 8
    agrees = [np.bincount(labels[found == k]).max() / np.sum(found == k) for k in np.unique(found)]
    assert min(agrees) == 1.0


# --- bad input -------------------------------------------------------------------------------------------


@parametrize_kind
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e100])
def test_any_scale(kind, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * scale
    X[:100] += 20.0 * scale
    X[:, 2] = scale
    prior = NormalPrior(X.mean(axis=0), 0.1, np.eye(3) * scale**2, 5.0)
    model = DPModel(clusters_of(X, kind, prior, X.mean(axis=0)), None, (1.0, 1.0), init=10, batch_size=50, workers=ONE)
    state = Slice(3, 1).init(model, root_key(0))
    for _ in range(30):
        state = Slice(3, 1).step(model, state)
    assert np.isfinite(state.log_density)
    assert np.bincount(state.latents[:100]).argmax() != np.bincount(state.latents[100:]).argmax()


@parametrize_kind
@pytest.mark.parametrize("changed", [{"mean_precision": 0.0}, {"covariance": np.zeros((D, D))}, {"degrees": D - 1.0}])
def test_an_improper_prior_is_refused(kind, changed):
    with pytest.raises(ValueError, match="need a proper prior"):
        clusters_of(np.zeros((3, D)), kind, PRIOR._replace(**changed))
