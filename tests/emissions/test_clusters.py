"""Rows in clusters: initial labels, statistics after many moves, missing cells, and what is refused."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from sklearn.metrics import normalized_mutual_info_score

from skmanifold.emissions import Bernoulli, Gaussian, Multinomial, NegativeBinomial, Poisson, kernels
from skmanifold.emissions._dense_rows import IncompleteRows
from skmanifold.emissions._gaussian.diagonal import DiagonalFamily
from skmanifold.emissions._gaussian.full import FullFamily
from skmanifold.emissions._gaussian.hyperparameters import NormalPrior
from skmanifold.emissions._gaussian.kernels import FULL_LANES
from skmanifold.emissions._gaussian.tied import TiedFamily
from skmanifold.emissions._statistics import occupied
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._njit import njit
from skmanifold.utils._threads import Workers

from ._cases import read
from ._splits import compiled_clear, compiled_factor, compiled_predictive, compiled_walk

pytestmark = pytest.mark.extended

KEY, ONE, NAN = root_key(1), Workers(1), np.nan
D = 5  # not a multiple of four
_ROOT = np.tril(np.random.default_rng(5).normal(size=(D, D))) + 2.0 * np.eye(D)
PRIOR = NormalPrior(np.linspace(-1.0, 1.0, D), 0.3, _ROOT @ _ROOT.T, D + 1.5)
FAMILIES = {"full": FullFamily, "tied": TiedFamily, "diag": DiagonalFamily}
each_matrix = pytest.mark.parametrize("kind", ["full", "tied"])


def table(n=21, seed=0, missing=0.0):
    """Rows, and labels of which 2 has no rows."""
    rng = np.random.default_rng(seed)
    labels = np.array([0, 1, 3] * n, np.int32)[:n]
    X = rng.normal(labels[:, None] * 1.5, 1.0 + labels[:, None], (n, D)) @ rng.normal(size=(D, D))
    X[rng.random(X.shape) < missing] = NAN
    return X, labels


def clusters_of(X, kind, prior=PRIOR):
    if kind == "diag" and prior is PRIOR:
        prior = PRIOR._replace(covariance=np.diag(PRIOR.covariance))
    family = FAMILIES[kind](prior, 1, prior.mean + 0.25)
    return family.clusters(IncompleteRows.of_values(np.ascontiguousarray(X, float)))


def counted(clusters, labels, capacity=6):
    statistics = clusters.no_statistics(capacity)
    clusters.count(np.asarray(labels, np.int32), statistics, ONE)
    return statistics


# --- densities given a covariance that clusters share -----------------------------------------------------


def test_split_merge_of_clusters_with_one_covariance_is_given_one_that_is_drawn():
    """The contract has these numbers of families whose clusters are independent."""
    X, labels = table()
    X[labels == 1] *= 100.0  # outlying rows on a side leave no trace
    clusters = clusters_of(X, "tied")
    data, statistics = clusters.data, counted(clusters, labels)
    posterior, sides = clusters.split_merge_space(statistics, root_key(0))
    root = np.linalg.inv(posterior.factor)

    def log_marginal(X):
        """Of the rows of one cluster, as one normal vector."""
        n = len(X)
        whole = np.kron(np.eye(n) + 1.0 / PRIOR.mean_precision, root @ root.T)
        return stats.multivariate_normal.logpdf(X.ravel(), np.tile(PRIOR.mean, n), whole) if n else 0.0

    members, others = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    rows = np.concatenate([members, others])
    side = np.arange(len(rows)) % 2
    for n_kept in (len(members), 1, 0):
        log_odds, of_side_1 = compiled_walk(data, *sides, rows, side, n_kept, 8)
        on = [X[rows[:n_kept][side[:n_kept] == s]] for s in (0, 1)]
        of_sides = [log_marginal(np.vstack([part, X[8]])) - log_marginal(part) for part in on]
        np.testing.assert_allclose(log_odds, of_sides[1] - of_sides[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(of_side_1, of_sides[1], rtol=1e-7)
        factor = sum(map(log_marginal, on)) - log_marginal(np.vstack(on))
        np.testing.assert_allclose(compiled_factor(data, *sides, 0, 1), factor, rtol=1e-7, atol=1e-9)
        compiled_clear(data, *sides)
    found, own = np.zeros(3), [X[labels == k] for k in (0, 1, 3)]
    compiled_predictive(data, statistics, posterior, 5, np.array([0, 1, 3]), found)
    expected = [log_marginal(np.vstack([part, X[5]])) - log_marginal(part) for part in own]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    factor = log_marginal(own[0]) + log_marginal(own[2]) - log_marginal(X[labels != 1])
    np.testing.assert_allclose(compiled_factor(data, statistics, posterior, 3, 0), factor, rtol=1e-9)
    kernels.merge_labels(data, statistics, 3, 0)
    for merged, again in zip(statistics, counted(clusters, np.where(labels == 0, 3, labels)), strict=True):
        np.testing.assert_allclose(merged, again, rtol=1e-12, atol=1e-12)


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


@njit(cache=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    kernels.fill_scores(data, statistics, rows, n_above, current, components, scores)


# --- moves and missing cells -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAMILIES)
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
    again = clusters.no_statistics(6)
    if kind != "diag":
        again = again._replace(completed=statistics.completed)
        rows = X[np.isnan(X).any(axis=1)] * 1e3
        np.testing.assert_array_equal(statistics.completed[~np.isnan(rows)], rows[~np.isnan(rows)])
        assert (missing > 0.0) == (len(statistics.completed) > 0)
    clusters.count(fives, again, ONE)
    for moved, exact in zip(statistics, again, strict=True):
        np.testing.assert_allclose(moved, exact, rtol=1e-9, atol=1e-4)
    np.testing.assert_array_equal(statistics.sums[:5], 0.0)
    to_new = np.array([0, 0, 0, 0, 0, 7])
    relabelled = clusters.relabelled(to_new[fives].astype(np.int32), statistics, to_new, ONE)
    np.testing.assert_array_equal(relabelled.sums[7], again.sums[5])  # counted again
    np.testing.assert_array_equal(occupied(relabelled), [7])


@each_matrix
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


# --- initial labels --------------------------------------------------------------------------------------

SEEDED = [Bernoulli(), NegativeBinomial(), Poisson(), Multinomial(), *map(Gaussian, FAMILIES)]


@pytest.mark.parametrize("emission", SEEDED, ids=str)
def test_seeds_find_planted_clusters_among_many_rows(emission):
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=3000)
    means = rng.choice([0.05, 0.9], size=(4, 20))[z]
    if isinstance(emission, Gaussian):
        X = rng.normal(30.0 * means, 1.0)
        X[::50, 2] = NAN
    else:
        X = rng.random(means.shape) < means if isinstance(emission, Bernoulli) else rng.poisson(3 * means)
    rows = read(emission, X.astype(float))
    clusters = emission.bind(rows, 1).clusters(rows)
    labels = clusters.spread_labels(8, KEY)
    assert labels.dtype == np.int32
    assert 4 <= len(np.unique(labels)) <= 8
    purity = sum(np.bincount(z[labels == label]).max() for label in np.unique(labels)) / 3000
    assert purity > 0.95
    assert normalized_mutual_info_score(z, clusters.part(0, 500).spread_labels(1, KEY).repeat(6)) == 0.0


def test_seeds_of_few_and_of_equal_rows():
    prior, X = NormalPrior(np.zeros(6), 0.01, np.ones(6), 4.0), np.random.default_rng(0).normal(size=(3, 6))
    np.testing.assert_array_equal(np.sort(clusters_of(X, "diag", prior).spread_labels(5, KEY)), [0, 1, 2])
    np.testing.assert_array_equal(clusters_of(np.ones((4, 6)), "diag", prior).spread_labels(3, KEY), 0)


# --- hard rows, and what is refused ----------------------------------------------------------------------


def test_hard_rows():
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


def test_fractions_are_refused():
    for emission, X in [
        (Bernoulli(allow_probabilities=True), [[0.0, 1.0], [1.0, 0.3]]),
        (NegativeBinomial(), [[0.0, 2.0], [np.nan, 0.3]]),
        (Poisson(), [[0.0, 2.0], [np.nan, 0.3]]),
    ]:
        rows = read(emission, np.array(X))
        with pytest.raises(ValueError, match=r"but X has 0\.3 in row 1, column 1"):
            emission.bind(rows, 1).clusters(rows)
    rows = read(Multinomial(), np.array([[0.0, 2.0], [1.0, 0.5]]))
    clusters = Multinomial().bind(rows, 1).clusters(rows)
    with pytest.raises(ValueError, match=r"emission='multinomial' takes whole counts, but X has 0\.5 in row 1"):
        counted(clusters, [0, 0])
    with pytest.raises(ValueError, match="the same category_prior for all features"):
        Multinomial([0.1, 0.2]).bind(rows, 1).clusters(rows)
