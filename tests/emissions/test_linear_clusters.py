"""Clusters of binary rows and of counts against closed forms."""

import numpy as np
import pytest
from mixture.dirichlet_process import _tiny_partitions as tiny
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from sklearn.metrics import normalized_mutual_info_score

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Multinomial, NegativeBinomial, Poisson, kernels
from skmanifold.emissions._linear import fill_multinomial
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from ._clusters import EMISSIONS, Case
from ._splits import compare, odds_and_density, refresh

pytestmark = pytest.mark.extended

LINEAR = [name for name in EMISSIONS if name != "multinomial"]
WITH_MOMENTS = [name for name in LINEAR if "large dispersions" not in name]  # of drawn means
KEY = root_key(1)
ONE, TWO = Workers(1), Workers(2)


def counted(clusters, labels, capacity=5):
    statistics = clusters.no_statistics(capacity)
    clusters.count(np.asarray(labels, np.int32), statistics, ONE)
    return statistics


def random_labels(n, n_labels=4, seed=3):
    return np.random.default_rng(seed).integers(n_labels, size=n).astype(np.int32)


def members(labels, label):
    return np.flatnonzero(labels == label).tolist()


@pytest.mark.parametrize("name", EMISSIONS)
def test_marginal_densities_of_partitions(name):
    case, labels = Case(name), random_labels(40)
    exact = sum(case.log_marginal(members(labels, label)) for label in range(4))
    np.testing.assert_allclose(case.clusters.log_marginal(counted(case.clusters, labels)), exact, rtol=1e-12)


@pytest.mark.parametrize("name", EMISSIONS)
def test_predictive_densities_are_ratios_of_marginals(name):
    case, labels = Case(name), random_labels(40)
    labels[30:] = 4  # rows to be predicted
    statistics = counted(case.clusters, labels, 6)
    held_out = case.clusters.part(30, 40)
    out, of_kernel = np.full((10, 6), 0.25), np.zeros((10, 4))
    held_out.add_log_predictive(statistics, out, ONE)
    posterior, some = case.clusters.new_posterior(6, statistics, KEY), np.array([3, 0, 1, 2])
    refresh(case.clusters.data, statistics, posterior, some)
    for i in range(10):
        kernels.add_predictive(case.clusters.data, statistics, posterior, 30 + i, some, 4, of_kernel[i])
    exact = [[case.log_predictive(30 + i, members(labels, label)) for label in (0, 1, 2, 3, 5)] for i in range(10)]
    np.testing.assert_allclose(out[:, [0, 1, 2, 3, 5]] - 0.25, exact, rtol=1e-11, atol=1e-11)
    if case.log_base is not None:  # the kernel leaves out what does not depend on the label
        of_kernel += case.log_base[30:, None]
    np.testing.assert_allclose(of_kernel, np.array(exact)[:, some], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", LINEAR)
def test_sides_of_a_split(name, missing):
    """Odds, predictive density and Bayes factor, while rows are added and removed, twice."""
    case, rng = Case(name, missing=missing), np.random.default_rng(4)
    data, statistics = case.clusters.data, counted(case.clusters, np.zeros(40))
    _, sides = case.clusters.split_merge_space(statistics, KEY)
    base = np.zeros(40) if case.log_base is None else case.log_base
    for _ in range(2):
        on = {}
        for row in rng.permutation(40)[:25].tolist():
            exact = [case.log_predictive(row, [r for r in on if on[r] == side]) for side in (0, 1)]
            log_odds, of_1 = odds_and_density(data, sides, row)
            np.testing.assert_allclose(log_odds, exact[1] - exact[0], atol=1e-10)
            np.testing.assert_allclose(of_1, exact[1] - base[row], rtol=1e-11, atol=1e-11)
            on[row] = int(rng.integers(2))
            kernels.update_posterior(data, *sides, row, on[row], 1)
            if rng.random() < 0.3 and len(on) > 2:
                moved = next(iter(on))
                kernels.update_posterior(data, *sides, moved, on[moved], -1)
                on[moved] = 1 - on[moved]
                kernels.update_posterior(data, *sides, moved, on[moved], 1)
        parts = [[r for r in on if on[r] == side] for side in (0, 1)]
        exact = sum(map(case.log_marginal, parts)) - case.log_marginal(on)
        np.testing.assert_allclose(kernels.log_bayes_factor(data, *sides, 0, 1), exact, atol=1e-10)
        kernels.clear_sides(data, *sides)
    (of_sides, posterior), (empty, new) = sides, case.clusters.split_merge_space(statistics, KEY)[1]
    refresh(data, of_sides, posterior, (0, 1))
    refresh(data, empty, new, (0, 1))
    for array, other in zip((*of_sides, *posterior), (*empty, *new), strict=True):
        if array is not posterior.present:
            np.testing.assert_array_equal(array[:2], other[:2])


@pytest.mark.parametrize("name", LINEAR)
def test_bayes_factors_of_labels_and_merges(name):
    case, labels = Case(name), random_labels(40)
    statistics = counted(case.clusters, labels)
    exact = sum(case.log_marginal(members(labels, label)) for label in (1, 2))
    exact -= case.log_marginal(members(labels, 1) + members(labels, 2))
    found = compare(case.clusters.data, statistics, case.clusters.new_posterior(5, statistics, KEY), 1, 2)
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)
    kernels.merge_labels(case.clusters.data, statistics, 1, 2)
    assert_same(statistics, counted(case.clusters, np.where(labels == 2, 1, labels)))


def assert_same(statistics, others):
    for array, other in zip(statistics, others, strict=True):
        np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("name", ["bernoulli", "negative_binomial", "poisson", "multinomial"])
def test_seeds_find_planted_clusters_among_many_rows(name):
    rng = np.random.default_rng(0)
    z = rng.integers(4, size=3000)
    means = rng.choice([0.05, 0.9], size=(4, 20))[z]
    X = rng.random((3000, 20)) < means if name == "bernoulli" else rng.poisson(3 * means)
    kinds = {
        "bernoulli": Bernoulli, "negative_binomial": NegativeBinomial, "poisson": Poisson, "multinomial": Multinomial,
    }  # fmt: skip
    emission = kinds[name]()
    rows = emission.read(ExponentialFamilyMixture(2), X.astype(float), reset=True)
    clusters = emission.bind(rows, 1).clusters(rows)
    labels = clusters.spread_labels(8, KEY)
    assert labels.dtype == np.int32
    assert 4 <= len(np.unique(labels)) <= 8
    purity = sum(np.bincount(z[labels == label]).max() for label in np.unique(labels)) / 3000
    assert purity > 0.95
    assert normalized_mutual_info_score(z, clusters.part(0, 500).spread_labels(1, KEY).repeat(6)) == 0.0


def test_fractions_are_refused():
    for emission, X in [
        (Bernoulli(allow_probabilities=True), [[0.0, 1.0], [1.0, 0.3]]),
        (NegativeBinomial(), [[0.0, 2.0], [np.nan, 0.3]]),
        (Poisson(), [[0.0, 2.0], [np.nan, 0.3]]),
    ]:
        rows = emission.read(ExponentialFamilyMixture(2), np.array(X), reset=True)
        with pytest.raises(ValueError, match=r"but X has 0\.3 in row 1, column 1"):
            emission.bind(rows, 1).clusters(rows)
    rows = Multinomial().read(ExponentialFamilyMixture(2), np.array([[0.0, 2.0], [1.0, 0.5]]), reset=True)
    clusters = Multinomial().bind(rows, 1).clusters(rows)
    with pytest.raises(ValueError, match=r"emission='multinomial' takes whole counts, but X has 0\.5 in row 1"):
        counted(clusters, [0, 0])
    with pytest.raises(ValueError, match="the same category_prior for all features"):
        Multinomial([0.1, 0.2]).bind(rows, 1).clusters(rows)


def test_rows_of_few_and_of_many_tokens_have_the_same_distribution():
    """Rows of more than 1,024 tokens are drawn feature by feature."""
    p = np.array([[0.5, 0.3, 0.15, 0.05]])
    for length in (1000, 1050):
        drawn, lengths = np.zeros((3000, 4), np.int64), np.full(3000, length)
        fill_multinomial(KEY, np.zeros(3000, np.int32), p, np.cumsum(p, axis=1), lengths, drawn)
        np.testing.assert_array_equal(drawn.sum(axis=1), length)
        gaps = (drawn - length * p) / np.sqrt(length)
        assert_agrees(summarize(gaps), 0.0)
        assert_agrees(summarize(gaps[:, :, None] * gaps[:, None]), np.diag(p[0]) - p.T @ p)


# The posterior of the partition of five rows, over all 52 partitions

TINY = {
    "bernoulli": [[1, 1, 0, 0, 0], [1, np.nan, 0, 1, 0], [0, 1, 1, 1, 0], [np.nan, 0, 1, 1, 0], [1, 1, 0, 0, np.nan]],
    "poisson": [[3, 0, 1, 0, 0], [2, np.nan, 0, 1, 0], [0, 4, 1, 1, 0], [np.nan, 9, 1, 0, 0], [4, 0, 0, 0, np.nan]],
    "multinomial": [[3, 0, 1, 0, 0], [2, 0, 0, 1, 0], [0, 4, 1, 1, 0], [0, 9, 1, 0, 0], [4, 0, 0, 0, 1]],
}


def law_over_partitions(log_marginal, alpha):
    logs = []
    for labels in tiny.partitions(5):
        clusters = tiny.clusters_of(labels)
        factorials = sum(tiny.gammaln(len(rows)) for rows in clusters)
        logs.append(len(clusters) * np.log(alpha) + factorials + sum(map(log_marginal, clusters)))
    return np.exp(logs - np.logaddexp.reduce(logs))


def frequencies(clusters, sampler, batch_size, alpha, n_chains=12, n_steps=120):
    model = DPModel(clusters, alpha, (1.0, 1.0), init=2, batch_size=batch_size, workers=ONE)
    means = []
    for chain in range(n_chains):
        state = sampler.init(model, subkey(KEY, chain))
        visits = np.zeros(52)
        for step in range(n_steps + 20):
            state = sampler.step(model, state)
            visits[tiny.index_of(state.latents)] += step >= 20
        means.append(visits / n_steps)
    return Estimate(*summarize(means))


@pytest.mark.long  # the short suite has such posteriors in mixture/dirichlet_process
@pytest.mark.parametrize("name", TINY)
def test_partitions_of_five_rows_have_their_posterior(name):
    emission = {"bernoulli": Bernoulli(0.4, 1.3), "poisson": Poisson(0.6, 0.5), "multinomial": Multinomial(0.3)}[name]
    case = Case(name, X=np.array(TINY[name], float), emission=emission)
    exact = law_over_partitions(case.log_marginal, 1.5)
    likely = exact > 0.005
    columns = np.where(np.isnan(case.X), 0.0, case.X)  # a wrong variant: a missing cell is a zero
    read_as_zero = law_over_partitions(Case(name, X=columns, emission=emission).log_marginal, 1.5)
    for sampler, batch_size in [(Slice(4), None), (Slice(2, 1), 2), (Slice(0), None)]:
        mean, error = frequencies(case.clusters, sampler, batch_size, 1.5)
        assert_agrees(Estimate(mean[likely], error[likely]), exact[likely])
        if np.isnan(case.X).any():
            assert_disagrees(Estimate(mean[likely], error[likely]), read_as_zero[likely])
