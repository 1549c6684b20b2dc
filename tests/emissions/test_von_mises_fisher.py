"""The von Mises-Fisher emission against scipy and quadrature: densities, modes, draws, marginal densities."""

import numpy as np
import pytest
import scipy.sparse as sp
from samplers._evidence import assert_agrees, summarize
from scipy import stats
from scipy.special import gammaln, ive, logsumexp

from skmanifold import ExponentialFamilyMixture, VonMisesFisherMixture
from skmanifold.emissions import VonMisesFisher, kernels
from skmanifold.emissions._von_mises_fisher.family import (
    VonMisesFisherFamily,
    VonMisesFisherParameters,
    draw_directions,
)
from skmanifold.emissions._von_mises_fisher.kernels import ConcentrationPrior, draw_concentration
from skmanifold.emissions._von_mises_fisher.rows import DenseUnitRows, SparseRows
from skmanifold.numerics.block_sums import merge
from skmanifold.random._keys import fold_in_each, root_key
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

from ._directions import each_kind, planted
from ._splits import odds_and_density, refresh

KEY = root_key(1)
ONE = Workers(1)
PRIOR = ConcentrationPrior(1.3, 0.6)


def log_normalizer(d, kappa):
    """Log of the normaliser relative to that of the uniform distribution, by scipy."""
    nu, kappa = d / 2 - 1, np.maximum(kappa, 1e-12)
    return nu * np.log(kappa / 2) - gammaln(nu + 1) - np.log(ive(nu, kappa)) - kappa


def rows_of(X, kind):
    if kind == "sparse":
        return SparseRows(*as_directions(sp.csr_array(X)))
    return DenseUnitRows(X.astype(kind))


each_type = pytest.mark.parametrize("type_of_rows", ["float64", "float32", "sparse"])


# --- the family ------------------------------------------------------------------------------------------


@each_type
def test_log_densities_are_those_of_scipy(type_of_rows):
    X, _ = planted()
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    rng = np.random.default_rng(3)
    directions, concentrations = rng.standard_normal((5, 8)), np.array([0.01, 1.0, 20.0, 300.0, 4e3])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    family = VonMisesFisherFamily(ConcentrationPrior(1.0, 0.5), "per_component", 5, 8)
    parameters = VonMisesFisherParameters.of(directions.T, concentrations)
    found = np.full((30, 5), 0.25)
    family.add_log_densities(rows_of(X, type_of_rows), 10, 40, parameters, found)
    log_area = np.log(2 * np.pi**4 / 6)
    exact = [
        stats.vonmises_fisher(m, k).logpdf(units[10:40]) + log_area
        for m, k in zip(directions, concentrations, strict=True)
    ]
    tolerance = 3e-7 * 4e3 if type_of_rows == "float32" else 1e-9
    np.testing.assert_allclose(found - 0.25, np.stack(exact, axis=1), atol=tolerance)


def test_expectations_in_one_step_are_those_of_shares():
    X, _ = planted(3000)
    family, rows, rng = VonMisesFisherFamily(PRIOR, "shared", 3, 8), rows_of(X, "sparse"), np.random.default_rng(0)
    parameters = VonMisesFisherParameters.of(rng.standard_normal((8, 3)), np.array([1.0, 5.0, 20.0]))
    row_weights, log_weights, log_density = rng.uniform(0.5, 2.0, 3000), np.log([0.2, 0.3, 0.5]), np.empty(3000)
    terms = np.tile(log_weights, (3000, 1))
    family.add_log_densities(rows, 0, 3000, parameters, terms)
    exact = logsumexp(terms, axis=1)
    shares = np.exp(terms - exact[:, None]) * row_weights[:, None]
    parts = [
        family.expect_rows(rows, *place, parameters, log_weights, row_weights, log_density)
        for place in ((0, 2048, 0), (2048, 3000, 2))
    ]
    np.testing.assert_allclose(log_density, exact, rtol=1e-12)
    of_shares = family.sum_shares(rows, 0, 3000, 0, shares).total()
    for one, other in zip(merge(*parts).total(), of_shares, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_vonmisesfishermixture_has_the_same_estimate():
    X, _ = planted()
    start = planted()[1]
    face = VonMisesFisherMixture(3, concentration="shared", random_state=0, tol=1e-13, max_iter=500).fit(X)
    prior = VonMisesFisher("shared", cosine_prior=face._family.prior.cosine)
    emission = ExponentialFamilyMixture(3, emission=prior, sampler="em", init=start, weight_prior=1e-9, max_iter=500)
    emission.fit(X)
    order = np.argmax(face.mean_directions_ @ emission.mean_directions_.T, axis=1)
    np.testing.assert_allclose(face.concentrations_, emission.concentrations_[order], rtol=1e-4)
    np.testing.assert_allclose(face.mean_directions_, emission.mean_directions_[order], atol=1e-4)
    np.testing.assert_allclose(face.weights_, emission.weights_[order], atol=1e-4)
    assert face.score(X) == pytest.approx(emission.score(X), abs=1e-4)


# --- draws -----------------------------------------------------------------------------------------------

POSTERIORS = [(2, 0.0, []), (3, 4.0, [3.7]), (10, 6.0, [2.0, 1.0]), (100, 30.0, [20.0, 5.0, 1.0]), (40, 300.0, [12.0])]


def log_posterior(d, n, lengths, kappa, prior=PRIOR):
    total = (n + prior.rows) * log_normalizer(d, kappa) + prior.rows * prior.cosine * kappa
    return total - sum(log_normalizer(d, kappa * length) for length in lengths)


@pytest.mark.extended
@pytest.mark.parametrize(("d", "n", "lengths"), POSTERIORS)
def test_concentrations_are_drawn_from_their_posterior(d, n, lengths):
    lengths = np.array(lengths)
    gap, keys = n - lengths.sum() + 1.3 * 0.4, fold_in_each(KEY, np.arange(4000))
    drawn = np.log([draw_concentration(key, d / 2 - 1, n + 1.3, gap, lengths) for key in keys])
    grid = np.linspace(drawn.min() - 5.0, drawn.max() + 1.0, 40_001)
    logs = log_posterior(d, n, lengths, np.exp(grid)) + grid
    levels = np.cumsum(np.exp(logs - logs.max()))
    assert stats.kstest(drawn, lambda u: np.interp(u, grid, levels / levels[-1])).pvalue > 1e-3
    wrong = log_posterior(d, 1.2 * n + 2.0, lengths, np.exp(grid)) + grid
    levels = np.cumsum(np.exp(wrong - wrong.max()))
    assert stats.kstest(drawn, lambda u: np.interp(u, grid, levels / levels[-1])).pvalue < 1e-3


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("concentration", [0.0, 0.3, 5.0, 2000.0])
@pytest.mark.parametrize("d", [2, 3, 20])
def test_directions_are_drawn_from_their_distribution(d, concentration):
    mean = np.random.default_rng(d).standard_normal(d)
    drawn = draw_directions(KEY, np.tile(mean, (5000, 1)), np.full(5000, concentration))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1.0, rtol=1e-12)
    cosines = drawn @ mean / np.linalg.norm(mean)
    grid = np.linspace(-1.0, 1.0, 400_001)[1:-1]
    if concentration > 100.0:
        grid = 1.0 - np.geomspace(1e-9, 1.0, 200_001)[::-1]
    logs = concentration * grid + 0.5 * (d - 3) * np.log1p(-(grid**2))
    steps = np.gradient(grid)
    levels = np.cumsum(np.exp(logs - logs.max()) * steps)
    assert stats.kstest(cosines, lambda t: np.interp(t, grid, levels / levels[-1])).pvalue > 1e-3
    across = drawn - np.outer(cosines, mean / np.linalg.norm(mean))
    assert_agrees(summarize(across / np.linalg.norm(across, axis=1, keepdims=True)), 0.0)


# --- clusters --------------------------------------------------------------------------------------------


class Clusters:
    """Rows in clusters, with exact marginal densities by quadrature."""

    def __init__(self, kind, d=5, type_of_rows="float64", n=30):
        self.kind, self.d = kind, d
        X, _ = planted(n, d, 3, 12.0)
        self.units = X / np.linalg.norm(X, axis=1, keepdims=True)
        self.prior = ConcentrationPrior(1.3, 0.6)
        self.family = VonMisesFisherFamily(self.prior, kind, 1, d)
        self.clusters = self.family.clusters(rows_of(X, type_of_rows))

    def counted(self, labels, capacity=6):
        statistics = self.clusters.no_statistics(capacity)
        self.clusters.count(np.asarray(labels, np.int32), statistics, ONE)
        return statistics

    def log_marginal(self, partition):
        """Log density of rows in clusters, each a list of row numbers."""
        if self.kind == "per_component":
            return sum(self._log_marginal([rows]) for rows in partition)
        return self._log_marginal(partition)

    def _log_marginal(self, partition):
        grid = np.exp(np.linspace(-14.0, 9.0, 20_001)) if isinstance(self.kind, str) else np.array([self.kind])
        log_prior = log_posterior(self.d, 0, [], grid, self.prior) + np.log(grid)
        total = log_prior.copy()
        for rows in partition:
            length = np.linalg.norm(self.units[rows].sum(axis=0))
            total += len(rows) * log_normalizer(self.d, grid) - log_normalizer(self.d, grid * length)
        return float(logsumexp(total) - logsumexp(log_prior))


def members(labels, n_labels):
    return [np.flatnonzero(labels == label).tolist() for label in range(n_labels)]


@each_kind
@pytest.mark.parametrize("type_of_rows", ["float64", "sparse"])
def test_marginal_densities_of_partitions(kind, type_of_rows):
    case = Clusters(kind, type_of_rows=type_of_rows)
    labels = np.random.default_rng(3).integers(4, size=30)
    exact = case.log_marginal(members(labels, 4))
    assert case.clusters.log_marginal(case.counted(labels)) == pytest.approx(exact, abs=1e-6)


@pytest.mark.extended
@each_kind
@pytest.mark.parametrize("type_of_rows", ["float64", "sparse"])
def test_bayes_factors_of_labels_and_sides(kind, type_of_rows):
    """With a shared concentration, given the one that was drawn."""
    case = Clusters(kind, type_of_rows=type_of_rows)
    labels = np.random.default_rng(3).integers(4, size=30)
    statistics = case.counted(labels)
    data = case.clusters.data
    posterior, sides = case.clusters.split_merge_space(statistics, KEY)
    refresh(data, statistics, posterior, np.flatnonzero(statistics.sizes))
    if kind == "shared":
        assert posterior.concentration > 0.0
        case.kind = posterior.concentration
    first, second = members(labels, 4)[1:3]
    exact = case.log_marginal([first, second]) - case.log_marginal([first + second])
    found = kernels.log_bayes_factor(data, statistics, posterior, 1, 2)
    assert found == pytest.approx(exact, abs=1e-6)
    for side, rows in enumerate((first, second)):
        for row in rows:
            kernels.update_posterior(data, *sides, row, side, 1)
    assert kernels.log_bayes_factor(data, *sides, 0, 1) == pytest.approx(exact, abs=1e-6)
    of_labels, n = np.zeros(2), np.array([1, 2])
    row = int(np.flatnonzero(labels == 0)[0])
    odds, of_side_1 = odds_and_density(data, sides, row)
    kernels.add_predictive(data, statistics, posterior, row, n, 2, of_labels)
    assert odds == pytest.approx(of_labels[1] - of_labels[0], abs=1e-9)  # an estimate, but the same function
    assert of_side_1 == pytest.approx(of_labels[1], abs=1e-9)
    if kind != "per_component":
        exact = case.log_marginal([[*second, row]]) - case.log_marginal([second])
        assert of_labels[1] == pytest.approx(exact, abs=1e-6)
    moved = second[0]
    kernels.update_posterior(data, *sides, moved, 1, -1)
    kernels.update_posterior(data, *sides, moved, 0, 1)
    exact = case.log_marginal([[*first, moved], second[1:]]) - case.log_marginal([first + second])
    assert kernels.log_bayes_factor(data, *sides, 0, 1) == pytest.approx(exact, abs=1e-6)
    kernels.clear_sides(data, *sides)
    assert not sides[0].sums[:2].any()
    kernels.merge_labels(data, statistics, 1, 2)
    np.testing.assert_allclose(statistics.sums, case.counted(np.where(labels == 2, 1, labels)).sums, atol=1e-12)


def test_the_learned_prior_maximises_the_marginal_likelihood():
    case = Clusters("per_component", n=200)
    labels = np.random.default_rng(3).integers(20, size=200)
    statistics = case.counted(labels, 20)
    learned = case.clusters.with_learned_prior(statistics, ("cosine",))
    best = learned.log_marginal(statistics)
    for shift in (-0.05, 0.05):
        cosine = min(max(learned.prior.cosine + shift, 0.01), 0.99)
        assert case.clusters.with_prior(ConcentrationPrior(1.3, cosine)).log_marginal(statistics) < best
