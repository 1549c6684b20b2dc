"""Priors of Gaussian clusters that are learned from a partition, and greedy merges, which count entropies."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from skmanifold import DPMixture
from skmanifold.emissions import Gaussian
from skmanifold.emissions._gaussian import full as full_gaussian
from skmanifold.emissions._gaussian.hyperparameters import FreeNumbers, PriorNumbers
from skmanifold.emissions._gaussian.matrices import MatrixFamily
from skmanifold.mixture._dirichlet_process import estimator
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.starts import dissolve_small, merge_greedily
from skmanifold.mixture._merge_kernels import LEAST_SHARE
from skmanifold.random._keys import root_key
from skmanifold.utils._threads import Workers

from ._cases import read

ONE = Workers(1)
NAN = np.nan
TYPES = ["full", "diag", "spherical"]
ALL = ("covariance", "degrees", "mean_precision")
parametrize_kind = pytest.mark.parametrize("kind", TYPES)


def table(n=60, d=3, missing=0.0, seed=0):
    """Rows of clusters of different shapes, and labels of which 2 has no rows."""
    rng = np.random.default_rng(seed)
    labels = np.resize([0, 1, 3, 4, 3], n).astype(np.int32)
    X = rng.normal(15.0 * rng.normal(size=(5, d))[labels], np.exp(rng.normal(size=(5, d)))[labels])
    X[rng.random(X.shape) < missing] = NAN
    return X, labels


def clusters_of(X, kind, **priors):
    """Clusters of these rows and the hyperparameters that are not given."""
    emission = Gaussian(kind, **priors)
    rows = read(emission, X)
    return emission.bind(rows, 1).clusters(rows), emission.free_hyperparameters()


def counted(clusters, labels):
    statistics = clusters.no_statistics(int(labels.max()) + 1)
    clusters.count(labels, statistics, ONE)
    return statistics


def learned(X, labels, kind, **priors):
    """The prior that is learned from labels."""
    clusters, free = clusters_of(X, kind, **priors)
    return clusters.with_learned_prior(counted(clusters, labels), free).prior


def log_marginal_of(X, labels, kind, prior):
    """Log density of rows with any prior; compared with chains of t densities in `dirichlet_process`."""
    covariance = prior.covariance[0] if kind == "spherical" else prior.covariance
    clusters, _ = clusters_of(
        X,
        kind,
        mean_prior=prior.mean,
        mean_precision_prior=prior.mean_precision,
        covariance_prior=covariance,
        degrees_of_freedom_prior=prior.degrees,
    )
    return clusters.log_marginal(counted(clusters, labels))


# --- marginal densities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.3])
@parametrize_kind
def test_log_marginals_differ_from_those_of_the_clusters_by_a_constant(kind, missing, monkeypatch):
    X, labels = table(missing=missing)
    clusters, _ = clusters_of(X, kind)
    statistics, found = counted(clusters, labels), []
    for chosen in [PriorNumbers(*each) for each in product((0.3, 40.0), (2.5, 9.0), (1e-3, 0.7, 30.0))]:
        wrong = PriorNumbers(chosen.factor, chosen.degrees + 1.0, chosen.mean_precision)
        of_numbers = []

        def choose(self, log_marginal, chosen=chosen, wrong=wrong, out=of_numbers):
            out += [log_marginal(chosen), log_marginal(wrong)]
            return chosen

        monkeypatch.setattr(FreeNumbers, "best", choose)
        adapted = clusters.with_learned_prior(statistics, ALL)
        assert adapted.prior[1::2] == (chosen.mean_precision, chosen.degrees)
        of_clusters = adapted.log_marginal(statistics)
        np.testing.assert_allclose(log_marginal_of(X, labels, kind, adapted.prior), of_clusters, rtol=1e-10)
        found.append(of_clusters - np.array(of_numbers))
    right, wrong = np.ptp(found, axis=0)
    assert right < 1e-8
    assert wrong > 1.0


# --- the learned numbers ---------------------------------------------------------------------------------


def pooled_reference(X, labels, kind):
    """What the factor multiplies: the covariance within clusters, shrunk towards the default."""
    clusters, _ = clusters_of(X, kind)
    d, present = X.shape[1], np.unique(labels)
    whole = clusters.prior.covariance * len(present) ** (-2.0 / d)
    within = np.concatenate([X[labels == k] - X[labels == k].mean(axis=0) for k in present])
    if kind == "full":
        return (within.T @ within + (d + 2.0) * whole) / (len(X) - len(present) + d + 2.0)
    squares, n_values = (within**2).sum(axis=0), len(X) - len(present)
    if kind == "spherical":
        squares, n_values = squares.sum(keepdims=True), n_values * d
    return (squares + 3.0 * whole) / (n_values + 3.0)


def log_posterior(X, labels, kind, prior, reference, logs, with_lognormals=True):
    """Up to a constant, as a function of the logarithms of scale, excess of degrees, and mean precision."""
    scale, excess, mean_precision = np.exp(logs)
    least = X.shape[1] + 1.0 if kind == "full" else 2.0
    of_numbers = prior._replace(
        mean_precision=mean_precision, covariance=scale * excess * reference, degrees=least + excess
    )
    of_rows = log_marginal_of(X, labels, kind, of_numbers)
    lognormals = stats.norm.logpdf(logs, np.log([1.0, 2.0, 0.1]), [2.0, 1.0, 0.5]).sum()
    return of_rows + with_lognormals * lognormals


@parametrize_kind
def test_learned_numbers_are_a_maximum(kind):
    X, labels = table()
    prior, reference = learned(X, labels, kind), pooled_reference(X, labels, kind)
    excess = prior.degrees - (X.shape[1] + 1.0 if kind == "full" else 2.0)
    factor = prior.covariance.flat[0] / reference.flat[0]
    np.testing.assert_allclose(prior.covariance, factor * reference, rtol=1e-9)
    best = np.log([factor / excess, excess, prior.mean_precision])
    steps = [0.05 * np.array(step) for step in product((-1, 0, 1), repeat=3) if any(step)]

    def gains(at, **options):
        return [
            log_posterior(X, labels, kind, prior, reference, at + step, **options)
            - log_posterior(X, labels, kind, prior, reference, at, **options)
            for step in steps
        ]

    assert max(gains(best)) < 0.0
    assert max(gains(best, with_lognormals=False)) > 0.0
    off_by_one = np.log([factor / (excess + 1.0), excess + 1.0, prior.mean_precision])
    assert max(gains(off_by_one)) > 0.0


@parametrize_kind
def test_given_numbers_stay(kind):
    X, labels = table()
    free = learned(X, labels, kind)
    assert learned(X, labels, kind, mean_precision_prior=0.37).mean_precision == 0.37
    covariance = 0.7 if kind == "spherical" else [0.7, 2.0, 1.0]
    given = learned(X, labels, kind, covariance_prior=covariance)
    default, _ = clusters_of(X, kind, covariance_prior=covariance)
    np.testing.assert_array_equal(given.covariance, default.prior.covariance)
    assert given.degrees == default.prior.degrees  # learned only together with the covariance
    assert given.mean_precision != default.prior.mean_precision
    for degrees in (2.5, 4.0, 4.5, 20.0):  # no more than d + 1, and more
        part = learned(X, labels, kind, degrees_of_freedom_prior=degrees)
        assert part.degrees == degrees
        assert part.mean_precision != default.prior.mean_precision
        assert not np.allclose(part.covariance, free.covariance, rtol=0.01)
    for prior in (free, part):
        np.testing.assert_array_equal(prior.mean, default.prior.mean)


def test_the_tied_covariance_keeps_its_prior():
    X, labels = table()
    clusters, free = clusters_of(X, "tied")
    assert free == ("mean_precision", "covariance")  # a finite mixture learns both
    prior = clusters.with_learned_prior(counted(clusters, labels), free).prior
    assert prior.degrees == clusters.prior.degrees
    np.testing.assert_array_equal(prior.covariance, clusters.prior.covariance)

    def log_posterior_of(log):
        of_rows = log_marginal_of(X, labels, "tied", prior._replace(mean_precision=np.exp(log)))
        return of_rows + stats.norm.logpdf(log, np.log(0.1), 0.5)

    best = np.log(prior.mean_precision)
    assert log_posterior_of(best) > max(log_posterior_of(best + step) for step in (-0.05, 0.05))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@parametrize_kind
def test_shifts_and_scales_of_columns_change_only_the_units(kind, missing):
    X, labels = table(missing=missing)
    scales = np.full(3, 300.0) if kind == "spherical" else np.array([300.0, 1e-4, 7.0])
    shift = 10.0 * scales * [1.0, -1.0, 0.5]
    before, after = learned(X, labels, kind), learned(X * scales + shift, labels, kind)
    units = {"full": np.outer(scales, scales), "diag": scales**2, "spherical": scales[:1] ** 2}[kind]
    np.testing.assert_allclose(after[1::2], before[1::2], rtol=0.005)  # to the precision of the search
    np.testing.assert_allclose(after.mean, before.mean * scales + shift, rtol=1e-9)
    np.testing.assert_allclose(after.covariance / units, before.covariance, rtol=0.005)
    other = learned(np.where(labels[:, np.newaxis] == 1, 3.0, 1.0) * X, labels, kind)
    assert not np.allclose(other[1::2], before[1::2], rtol=0.05)


ODD = {
    "one cluster": (table()[0], np.zeros(60, np.int32)),
    "two rows": (np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([0, 1], np.int32)),
    "two rows in a cluster": (np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([0, 0], np.int32)),
    "fewer rows than columns": table(5, 9),
    "each row a cluster": (table(20)[0], np.arange(20, dtype=np.int32)),
    "a constant column": (table()[0] * [1.0, 0.0, 1.0] + 0.1, table()[1]),
    "collinear columns": (table()[0][:, [0, 1, 0]], table()[1]),
    "equal rows in each cluster": (table()[0][table()[1]], table()[1]),
    "missing cells": table(missing=0.6),
}


@pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent")
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_odd_rows_give_a_finite_proper_prior(kind, name):
    X, labels = ODD[name]
    clusters, free = clusters_of(X, kind)
    statistics = counted(clusters, labels)
    adapted = clusters.with_learned_prior(statistics, free)
    _, mean_precision, covariance, degrees = adapted.prior
    assert 0.0 < mean_precision < np.inf
    assert 0.0 < degrees < np.inf
    assert np.isfinite(covariance).all()
    np.testing.assert_array_equal(covariance, covariance.T)
    assert (np.linalg.eigvalsh(covariance) if covariance.ndim == 2 else covariance).min() > 0.0
    assert np.isfinite(adapted.log_marginal(statistics))


# --- the mixture -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", pytest.param("diag", marks=pytest.mark.extended)])
def test_the_emission_of_a_fit_has_the_learned_prior(kind, monkeypatch):
    X, _ = table(d=2)
    X[:9] += 40.0
    settings = {"max_iter": 3, "init": 10, "hyperparameters": "learn", "random_state": 0}
    mixture = DPMixture(Gaussian(kind), **settings).fit(X)
    emission = mixture.emission_
    assert emission.free_hyperparameters() == ()
    again = emission.bind(read(emission, X), 1)
    for given, kept in zip(again.prior, mixture._family.prior, strict=True):
        np.testing.assert_array_equal(given, kept)
    default = Gaussian(kind).bind(read(emission, X), 1).prior
    assert again.prior.degrees != default.degrees
    assert again.prior.mean_precision != default.mean_precision

    monkeypatch.setattr(estimator, "find_clusters", lambda *args: pytest.fail("the prior was learned again"))
    second = DPMixture(emission, **settings).fit(X)
    np.testing.assert_array_equal(second.log_density_trace_, mixture.log_density_trace_)


@pytest.mark.extended
def test_the_emission_keeps_what_the_user_gave():
    X, _ = table(d=2)
    given = Gaussian("diag", mean_prior=[1.0, 2.0], mean_precision_prior=0.3, degrees_of_freedom_prior=1.7)
    emission = DPMixture(given, max_iter=2, init=5, random_state=0).fit(X).emission_
    assert (emission.mean_precision_prior, emission.degrees_of_freedom_prior) == (0.3, 1.7)
    np.testing.assert_array_equal(emission.mean_prior, [1.0, 2.0])
    assert given.covariance_prior is None
    assert emission.covariance_prior.shape == (2,)


# --- greedy merges ---------------------------------------------------------------------------------------


def shares_of(clusters, statistics):
    out = np.tile(np.log(statistics.sizes), (clusters.n_rows, 1))
    clusters.add_log_predictive(statistics, out, ONE)
    out = np.exp(out - out.max(axis=1, keepdims=True))
    return out / out.sum(axis=1, keepdims=True)


def entropy_of(shares):
    kept = shares[shares > LEAST_SHARE]
    return -float((kept * np.log(kept)).sum())


def brute_force(clusters, labels, shares, counting_entropy=True):
    """Merge the best of all pairs, by the log joint densities of whole partitions, while the evidence increases."""
    model = DPModel(clusters, 1.0, (1.0, 1.0), init=labels, batch_size=None, workers=ONE)

    def evidence(labels, shares):
        return model.log_joint(counted(clusters, labels), 1.0) + counting_entropy * entropy_of(shares)

    def merged(labels, shares, a, b):
        shares = shares.copy()
        shares[:, a] += shares[:, b]
        shares[:, b] = 0.0
        return np.where(labels == b, a, labels).astype(np.int32), shares

    best = evidence(labels, shares)
    while len(present := np.unique(labels)) > 1:
        pairs = [merged(labels, shares, a, b) for a, b in combinations(present, 2)]
        values = [evidence(*pair) for pair in pairs]
        if max(values) <= best:
            break
        best, (labels, shares) = max(values), pairs[int(np.argmax(values))]
    return labels, shares


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_merges_are_those_of_brute_force(kind):
    n_left, n_different = [], 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(90, 2))
        X[::2] *= [0.4, 1.0]
        X[::3] += [2.5, 0.0]
        labels = np.resize(np.arange(6, dtype=np.int32), 90)  # 2 and 4 are alike, and so are 1 and 5
        clusters, _ = clusters_of(X, kind)
        statistics = counted(clusters, labels)
        shares = shares_of(clusters, statistics)
        found, of_labels = merge_greedily(clusters, labels, statistics, 1.0, root_key(0), ONE)
        expected, of_merged = brute_force(clusters, labels, shares)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(of_labels, of_merged, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(statistics.sizes, np.bincount(expected, minlength=6))
        n_left.append(len(np.unique(found)))
        n_different += not np.array_equal(brute_force(clusters, labels, shares, counting_entropy=False)[0], found)
    assert max(n_left) > 1
    assert n_different > 0


def test_a_small_cluster_of_rows_of_others_is_dissolved_and_a_separate_one_stays():
    rng = np.random.default_rng(0)
    of_three = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 40.0]])[np.repeat([0, 1, 2], [200, 200, 12])]
    X = of_three + rng.normal(size=of_three.shape)
    truth = np.repeat([0, 1, 3], [200, 200, 12]).astype(np.int32)
    labels = truth.copy()
    labels[[*np.argsort(-X[:200, 0])[:5], *200 + np.argsort(X[200:400, 0])[:5]]] = 2  # of both, the rows between them
    clusters, _ = clusters_of(X, "full", mean_precision_prior=0.1, covariance_prior=2.0, degrees_of_freedom_prior=5)
    model = DPModel(clusters, 1.0, (1.0, 1.0), init=labels, batch_size=None, workers=ONE)
    statistics = model.count(labels)
    shares = np.zeros((len(X), len(statistics.sizes)))
    shares[:, :4] = shares_of(clusters, counted(clusters, labels))
    before = model.log_joint(statistics, 1.0) + entropy_of(shares)
    found = labels.copy()
    evidence = dissolve_small(model, found, statistics, shares, 1.0)
    assert np.unique(found).tolist() == [0, 1, 3]
    np.testing.assert_array_equal(found == 3, truth == 3)
    assert (found != truth).sum() < 10
    np.testing.assert_array_equal(statistics.sizes, model.count(found).sizes)
    np.testing.assert_allclose(statistics.products, model.count(found).products, rtol=1e-9)
    assert evidence > before
    np.testing.assert_allclose(evidence, model.log_joint(model.count(found), 1.0) + entropy_of(shares), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent")
def test_many_columns_start_from_clusters_with_one_covariance():
    rng = np.random.default_rng(0)
    n, d, K = 2000, 40, 4
    root = np.exp(rng.normal(size=(d, 1))) * rng.normal(size=(d, d))  # all columns show the widest directions most
    truth = rng.integers(0, K, n)
    X = (rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(K, d))[truth]) @ root
    clusters, _ = clusters_of(X, "full")
    assert adjusted_rand_score(truth, MatrixFamily.spread_labels(clusters, K, root_key(3))) < 0.5
    labels = clusters.spread_labels(K, root_key(3))
    assert labels.dtype == np.int32
    assert adjusted_rand_score(truth, labels) > 0.9
    X[:, 1] = 2.0  # a constant column and a copy: the scatter of the rows is singular
    X[:, 3] = X[:, 2]
    X[rng.random(X.shape) < 0.01] = NAN
    clusters, _ = clusters_of(X, "full")
    assert adjusted_rand_score(truth, clusters.spread_labels(K, root_key(3))) > 0.8


def test_passes_of_tied_clusters_are_those_of_em(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) + 3.0
    labels = rng.integers(0, 2, 50)
    gaps = X - X.mean(axis=0)
    scatter = np.diag([1.0, 2.0, 3.0])
    whole = gaps.T @ gaps + scatter
    sizes = np.bincount(labels).astype(float)
    sums = np.array([gaps[labels == k].sum(axis=0) for k in range(2)])
    for n_passes in (1, 2, 3):
        means = sums / (sizes + 1.0)[:, np.newaxis]  # a prior of one row at the mean of all rows
        covariance = (whole - np.einsum("k,ka,kb->ab", sizes + 1.0, means, means)) / 50
        densities = np.column_stack([multivariate_normal(mean, covariance).pdf(gaps) for mean in means])
        joint = densities * (sizes + 1.0)
        shares = joint / joint.sum(axis=1, keepdims=True)
        monkeypatch.setattr(full_gaussian, "_N_PASSES", n_passes)
        monkeypatch.setattr(full_gaussian, "_ROWS_AT_ONCE", 7)
        np.testing.assert_array_equal(full_gaussian.tied_labels(X, labels, 2, scatter), shares.argmax(axis=1))
        sizes, sums = shares.sum(axis=0), shares.T @ gaps
