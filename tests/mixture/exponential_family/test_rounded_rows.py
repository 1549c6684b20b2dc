"""Gibbs sampling of rounded rows: labels and numbers within cells, compared with quadrature over the cells."""

from functools import reduce

import numpy as np
import pytest
from emissions._cases import KEY, read
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import logsumexp

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Columns, DenseRows, Gaussian, IncompleteRows
from skmanifold.emissions._abilities import DrawsInCells
from skmanifold.mixture._exponential_family.model import FamilyModel, RowWeights
from skmanifold.mixture._memberships import Position
from skmanifold.numerics.block_sums import BLOCK_ROWS, SUM_UNIT, merge
from skmanifold.random._keys import fold_in_each
from skmanifold.utils._parameters import offers
from skmanifold.utils._threads import Workers

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
WEIGHTS = np.array([0.7, 0.3])
MEANS = np.array([[0.0, 0.5, -0.4], [1.0, 0.0, 0.5]])
MATRICES = np.array(
    [
        [[1.0, 0.95, 0.3], [0.95, 1.2, 0.2], [0.3, 0.2, 0.5]],
        [[0.5, -0.5, 0.1], [-0.5, 0.8, 0.1], [0.1, 0.1, 1.5]],
    ]
)
ROW = np.array([0.8, 0.3, -0.5])
COVARIANCES = {
    "full": MATRICES,
    "tied": MATRICES[0],
    "diag": np.diagonal(MATRICES, axis1=1, axis2=2),
    "spherical": np.array([[0.3] * 3, [1.1] * 3]),
}
N_ROWS, N_BATCHES, N_NODES = 8000, 40, 24


def as_matrices(kind):
    given = COVARIANCES[kind]
    return (
        np.stack([given] * 2) if kind == "tied" else given if given.ndim == 3 else np.array(list(map(np.diag, given)))
    )


def model_of(emission, X, given=None, n_workers=1, row_weights=None):
    """A model of rows, of which the family, with two components, knows nothing; and parameters."""
    others = np.random.default_rng(0).gamma(4.0, size=(50, X.shape[1])) - 3.0
    family = emission.bind(read(emission, others), 2)
    rows = IncompleteRows.of_values(X) if np.isnan(X).any() else DenseRows(X)
    model = FamilyModel(rows, 0, 1.0, family, None, Workers(n_workers), row_weights=row_weights)
    return model, Position(WEIGHTS, family.parameters_of(given))


def attributes(kind):
    return {"components_": MEANS, "covariances_": COVARIANCES[kind]}


def moments_by_quadrature(kind, lows, highs):
    """Expectations of memberships, (2,), and of their products with numbers, (2, d), and with products of numbers.

    And the log probability of the cell divided by its volume. NaN: missing.
    """
    seen, d = ~np.isnan(lows), len(lows)
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    axes = [
        np.array([low]) if low == high else 0.5 * (low + high + (high - low) * nodes)
        for low, high in zip(lows[seen], highs[seen], strict=True)
    ]
    shares = [np.ones(1) if low == high else 0.5 * weights for low, high in zip(lows[seen], highs[seen], strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, seen.sum())
    shares = reduce(np.multiply.outer, shares).ravel()
    masses, firsts, seconds = np.zeros(2), np.zeros((2, d)), np.zeros((2, d, d))
    for k, matrix in enumerate(as_matrices(kind)):
        own, mean = matrix[np.ix_(seen, seen)], MEANS[k]
        density = WEIGHTS[k] * shares * stats.multivariate_normal(mean[seen], own).pdf(points)
        values, slope = np.empty((len(points), d)), matrix[np.ix_(~seen, seen)] @ np.linalg.inv(own)
        values[:, seen], values[:, ~seen] = points, mean[~seen] + (points - mean[seen]) @ slope.T
        masses[k], firsts[k], seconds[k] = density.sum(), density @ values, (values.T * density) @ values
        rest = matrix[np.ix_(~seen, ~seen)] - slope @ matrix[np.ix_(seen, ~seen)]
        seconds[k][np.ix_(~seen, ~seen)] += masses[k] * rest
    total = masses.sum()
    return masses / total, firsts / total, seconds / total, np.log(total)


CASES = {
    "full": ("full", [1.5, 2.0, 0.7], None, []),
    "wide": ("full", [6.0, 6.0, 9.0], None, []),
    "some exact": ("full", [0.0, 2.0, 0.7], None, []),
    "missing": ("full", [1.5, 2.0, 0.7], None, [0]),
    "two missing": ("full", [1.5, 2.0, 0.7], None, [1, 2]),
    "transform": ("full", [1.5, 2.0, 0.7], [0.5, 1.0, 1.6], [2]),
    "tied": ("tied", [1.5, 2.0, 0.7], None, [2]),
    "diag": ("diag", [1.5, 6.0, 0.0], [0.5, 1.0, 1.6], []),
    "diag, missing": ("diag", [1.5, 2.0, 0.7], None, [1]),
    "spherical": ("spherical", [1.5, 6.0, 0.7], None, []),
}


@pytest.mark.parametrize("case", CASES)
def test_labels_and_numbers_have_their_distribution_given_the_cells(case):
    kind, widths, powers, missing = CASES[case]
    row = ROW.copy()
    row[missing] = np.nan
    emission = Gaussian(kind, resolution=widths, transform=powers)
    model, position = model_of(emission, np.tile(row, (N_ROWS, 1)), attributes(kind))
    family, half = model.family, 0.5 * np.array(widths)
    forward = (lambda x: x) if powers is None else family.transform.forward
    masses, firsts, seconds, level = moments_by_quadrature(kind, forward(row - half), forward(row + half))
    found = []
    for part, key in zip(np.split(np.arange(N_ROWS), N_BATCHES), fold_in_each(KEY, np.arange(N_BATCHES)), strict=True):
        batch = FamilyModel(model.rows.take(part), 0, 1.0, family, None, Workers(1))
        _, statistics, log_likelihood = batch.sample_rows(position, None, key)
        sums = [array.ravel() / len(part) for array in statistics.total()[:3]]
        found.append(np.concatenate([*sums, [log_likelihood / len(part)]]))
    shift = np.multiply.outer(masses, family.origin)
    products = seconds - firsts[:, :, np.newaxis] * family.origin - family.origin[:, np.newaxis] * firsts[:, np.newaxis]
    products += shift[:, :, np.newaxis] * family.origin
    gaps = firsts - shift
    if kind in ("diag", "spherical"):
        products = np.diagonal(products, axis1=1, axis2=2).copy()
        gaps[:, missing] = products[:, missing] = 0.0  # statistics are those of observed cells
    else:
        products = np.tril(products.sum(axis=0) if kind == "tied" else products)
    base = 0.0 if model.rows.log_base is None else model.rows.log_base[0]
    expected = np.concatenate([masses, gaps.ravel(), products.ravel(), [level + base]])
    estimate = summarize(found)
    assert_agrees(estimate, expected, bias=SUM_UNIT)
    approximate = FamilyModel(model.rows, 0, 1.0, family, None, Workers(1)).sample_latents(position, None, KEY)
    sums = [array.ravel() / N_ROWS for array in approximate[1].total()[:3]]
    assert_disagrees(estimate, np.concatenate([*sums, [approximate[2] / N_ROWS]]), bias=SUM_UNIT)


# --- the posterior of a variance ----------------------------------------------------------------------------

NUMBERS = np.array([0.0, 0.0, 1.0, 1.0, 2.0])
PRIOR = {"mean": 0.5, "mean_precision": 0.5, "covariance": 0.2, "degrees": 4.0}


def expected_log_variance():
    """By quadrature, of five numbers that were rounded to whole ones."""
    means, logs = np.linspace(-8.0, 9.0, 1200), np.linspace(-8.0, 6.0, 500)
    deviations = np.exp(0.5 * logs[:, np.newaxis])
    of_cells = (
        np.diff(stats.norm.cdf((np.array([x - 0.5, x + 0.5])[:, np.newaxis, np.newaxis] - means) / deviations), axis=0)
        for x in NUMBERS
    )
    of_means = stats.norm.pdf(means, PRIOR["mean"], deviations / np.sqrt(PRIOR["mean_precision"]))
    of_variances = stats.invgamma.pdf(np.exp(logs), PRIOR["degrees"] / 2.0, scale=PRIOR["covariance"] / 2.0)
    density = reduce(np.multiply, of_cells)[0] * of_means * (of_variances * np.exp(logs))[:, np.newaxis]
    return float(density.sum(axis=1) @ logs / density.sum())


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_the_posterior_of_a_variance(kind, monkeypatch):
    mean, *numbers = PRIOR.values()
    emission = Gaussian(kind, [mean], *numbers, resolution=1.0)

    def log_variances():
        mixture = ExponentialFamilyMixture(
            1, emission=emission, sampler="gibbs", max_iter=1300, burn_in=100, thin=1, n_polish=0, random_state=0
        )
        draws = mixture.fit(NUMBERS[:, np.newaxis]).posterior_["covariances"]
        return summarize(np.log(draws.ravel()).reshape(30, 40).mean(axis=1))

    exact = expected_log_variance()
    assert_agrees(log_variances(), exact)
    monkeypatch.setattr(FamilyModel, "sample_rows", FamilyModel.sample_latents)
    assert_disagrees(log_variances(), exact)


# --- other rows ---------------------------------------------------------------------------------------------


def rounded_rows(n=6000, missing=0.1):
    """Rows of two components, rounded to whole numbers."""
    rng = np.random.default_rng(0)
    X = np.round(MEANS[rng.integers(0, 2, n)] + rng.standard_normal((n, 3)) @ (np.eye(3) + 0.3))
    X[rng.random(X.shape) < missing] = np.nan
    return X


def as_bytes(labels, statistics, *_):
    return labels.tobytes(), *(array.tobytes() for array in statistics.total())


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_draws_do_not_depend_on_threads_and_cuts(kind):
    X = rounded_rows()
    emission = Gaussian(kind, resolution=1.0)
    model, position = model_of(emission, X, attributes(kind))
    *whole, log_likelihood = model.sample_rows(position, None, KEY)
    others, _ = model_of(emission, X, attributes(kind), n_workers=2)
    assert as_bytes(*others.sample_rows(position, None, KEY)) == as_bytes(*whole)
    parts = []
    for first, stop in ((0, 3 * BLOCK_ROWS), (3 * BLOCK_ROWS, len(X))):
        part = FamilyModel(model.rows.part(first, stop), first, 1.0, model.family, None, Workers(1))
        parts.append(part.sample_rows(position, None, KEY))
    labels, statistics, levels = zip(*parts, strict=True)
    assert as_bytes(np.concatenate(labels), merge(*statistics)) == as_bytes(*whole)
    assert sum(levels) == log_likelihood


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_tiny_cells_have_the_labels_and_sums_of_exact_numbers(kind):
    X = np.random.default_rng(1).normal(size=(500, 3))
    X[::7, 1] = np.nan
    exact, rounded = (
        FamilyModel.sample_rows(*model_of(Gaussian(kind, resolution=width), X, attributes(kind)), None, KEY)
        for width in (0.0, 1e-9)
    )
    np.testing.assert_array_equal(rounded[0], exact[0])
    for found, expected in zip(rounded[1].total(), exact[1].total(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(rounded[2], exact[2], atol=1e-3)


def test_weights_multiply_statistics_and_not_draws():
    X = rounded_rows(500)
    emission, given = Gaussian(resolution=1.0), attributes("full")
    once, twice = (
        FamilyModel.sample_rows(*model_of(emission, X, given, row_weights=weights), None, KEY)
        for weights in (None, RowWeights.of_values(np.full(500, 2.0)))
    )
    np.testing.assert_array_equal(once[0], twice[0])
    for found, expected in zip(twice[1].total(), once[1].total(), strict=True):
        np.testing.assert_allclose(found, 2.0 * expected, rtol=1e-9, atol=1e-9)
    assert twice[2] == pytest.approx(2.0 * once[2], abs=1e-2)


def test_blocks_of_columns_accept_together():
    rng = np.random.default_rng(2)
    z = rng.integers(0, 2, 80)
    X = MEANS[z] + rng.standard_normal((80, 3)) @ np.linalg.cholesky(MATRICES[0]).T
    table = np.column_stack([X.round(), rng.random(80) < np.where(z, 0.8, 0.3), X[:, :1] ** 2])
    blocks = [
        ("pair", Gaussian(resolution=2.0), [0, 1]),
        ("bits", Bernoulli(), [3]),
        ("exact", Gaussian("diag"), [4]),
        ("wide", Gaussian("diag", resolution=3.0), [2]),
    ]
    rows = read(Columns(blocks), table)
    family = Columns(blocks).bind(rows, 2)
    model = FamilyModel(rows, 0, 1.0, family, None, Workers(1))
    position = model.mode(model.count(z.astype(np.int32)))
    pair, bits, exact, wide = (family.attributes_of_blocks(position.parameters)[name] for name in family.names)
    logs = np.log(position.weights)
    for k in range(2):
        at = table[0, :2]
        of_pair = stats.multivariate_normal(pair["components_"][k], pair["covariances_"][k])
        logs[k] += np.log(of_pair.cdf(at + 1.0, lower_limit=at - 1.0))
        of_wide = stats.norm(wide["components_"][k, 0], np.sqrt(wide["covariances_"][k, 0]))
        logs[k] += np.log(np.diff(of_wide.cdf(table[0, 2] + np.array([-1.5, 1.5]))))[0]
        logs[k] += np.log(np.abs(1.0 - table[0, 3] - bits["components_"][k, 0]))
        logs[k] += stats.norm(exact["components_"][k, 0], np.sqrt(exact["covariances_"][k, 0])).logpdf(table[0, 4])
    many = FamilyModel(rows.take(np.zeros(N_ROWS, np.int64)), 0, 1.0, family, None, Workers(1))
    labels, statistics, level = many.sample_rows(position, None, KEY)
    assert_agrees(summarize(labels), np.exp(logs[1] - logsumexp(logs)))
    sizes, sums = statistics.total()[:2]
    np.testing.assert_array_equal(sizes, np.bincount(labels))
    means = family.blocks[0].origin + sums / sizes[:, np.newaxis]
    assert np.all(np.abs(means - table[0, :2]) < 1.0)
    assert np.all(np.abs(means - table[0, :2]) > 1e-3)
    assert level / N_ROWS == pytest.approx(logsumexp(logs) - np.log(2.0 * 2.0 * 3.0), abs=0.02)
    assert offers(family, DrawsInCells)
    assert not offers(family.unrounded, DrawsInCells)


def test_the_last_of_many_proposals_is_used(monkeypatch):
    """Of two columns that are almost equal and far thinner than their cells."""
    matrices = np.tile([[1e-4, 0.9999e-4], [0.9999e-4, 1e-4]], (2, 1, 1))
    X = np.tile([0.5, 0.0], (200, 1))
    thin = {"components_": MEANS[:, :2], "covariances_": matrices}
    model, position = model_of(Gaussian(resolution=2.0), X, thin)

    def variances_of_difference():
        _, statistics, log_likelihood = model.sample_rows(position, None, KEY)
        sizes, sums, products = statistics.total()
        assert np.isfinite(log_likelihood)
        assert np.all(np.abs(model.family.origin + sums / sizes[:, np.newaxis] - X[0]) < 1.0)
        squares = products[:, 0, 0] + products[:, 1, 1] - 2.0 * products[:, 1, 0]
        return squares / sizes - ((sums[:, 0] - sums[:, 1]) / sizes) ** 2

    exact = 2.0 * (matrices[0, 0, 0] - matrices[0, 0, 1])
    np.testing.assert_allclose(variances_of_difference(), exact, rtol=0.5)
    monkeypatch.setattr("skmanifold.mixture._exponential_family.model._MOST_PROPOSALS", 3)
    assert np.all(variances_of_difference() > 10.0 * exact)
