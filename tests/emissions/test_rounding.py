"""Grids of rounded columns, rows that repeat more often than rounding explains, and the prior that is learned then."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Columns, Gaussian, VonMisesFisher
from skmanifold.emissions._rounding import cell_width
from skmanifold.mixture._dirichlet_process.starts import distinct_rows

from ._cases import read

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=300)
AGES = np.round(40.0 + 12.0 * NUMBERS)


@pytest.mark.parametrize(
    ("column", "width"),
    [
        (AGES, 1.0),
        ((AGES - AGES.mean()) / AGES.std(), 1.0 / AGES.std()),
        (((AGES - AGES.mean()) / AGES.std()).astype(np.float32).astype(float), 1.0 / AGES.std()),
        (np.append(AGES, 1e6), 1.0),
        (0.1 * np.round(NUMBERS * 10.0) + 0.03, 0.1),
        (np.append(AGES, np.nan), 1.0),
        (1.7e9 + 60.0 * AGES, 60.0),
        (np.round(NUMBERS, 2), 0.01),
        (NUMBERS, 0.0),
        (NUMBERS.astype(np.float32).astype(float), 0.0),
        (np.repeat(NUMBERS, 5), 0.0),
        (np.concatenate([NUMBERS, np.zeros(300)]), 0.0),
        (np.ones(10), 0.0),
        (np.full(4, np.nan), 0.0),
    ],
)
def test_the_grid_of_a_column(column, width):
    np.testing.assert_allclose(cell_width(column), width, rtol=1e-5)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_first_numbers_are_within_their_cells(kind):
    X = np.column_stack([AGES, NUMBERS, np.round(NUMBERS, 1)])
    X[3, 0] = np.nan
    rows = read(Gaussian(), X)
    family = Gaussian(kind, resolution="auto").bind(rows, 1)
    clusters = family.clusters(rows)
    values = clusters.no_statistics(1).values * clusters_scales(clusters) + family.origin * (kind == "diag")
    np.testing.assert_array_equal(np.round(values[:, 0]), X[:, 0])
    np.testing.assert_allclose(values[:, 1], NUMBERS, atol=1e-12)
    np.testing.assert_allclose(np.round(values[:, 2], 1), X[:, 2], atol=1e-12)
    assert np.isnan(values[3, 0])
    assert len(np.unique(values[:, 0])) == len(X)
    np.testing.assert_array_equal(rows.values, X)
    complete = read(Gaussian(), NUMBERS[:, np.newaxis])
    assert Gaussian(kind, resolution="auto").bind(complete, 1).resolution is None


def clusters_scales(clusters):
    return getattr(clusters, "scales", 1.0)


IRIS = load_iris().data
DIRECTIONS = RNG.normal(size=(60, 3))


@pytest.mark.parametrize(
    ("emission", "X", "n_distinct"),
    [
        pytest.param(Gaussian(), IRIS, None, id="one pair of equal rows"),
        pytest.param(Gaussian(), np.repeat(IRIS, 2, axis=0), 149, id="all rows twice"),
        pytest.param(Gaussian(), np.repeat(NUMBERS, 2)[:, np.newaxis], 300, id="no grid"),
        pytest.param(Gaussian(), AGES[:, np.newaxis], None, id="ages"),
        pytest.param(Gaussian(), np.round(RNG.normal(size=(600, 2)) * 4.0), None, id="two rounded columns"),
        pytest.param(VonMisesFisher(), DIRECTIONS, None, id="directions"),
        pytest.param(VonMisesFisher(), np.repeat(DIRECTIONS, 3, axis=0), 60, id="directions three times"),
        pytest.param(Bernoulli(), np.ones((40, 2)), None, id="zeros and ones may repeat"),
        pytest.param(Columns(), np.column_stack([AGES, AGES > 40.0]), None, id="ages and zeros and ones"),
        pytest.param(Columns(), np.repeat(np.column_stack([NUMBERS, AGES > 40.0]), 2, axis=0), 300, id="table twice"),
    ],
)
def test_rows_that_repeat_more_than_rounding_explains(emission, X, n_distinct):
    rows = read(emission, X)
    distinct = distinct_rows(emission, rows, None)
    assert (None if distinct is None else len(distinct)) == n_distinct
    half = np.arange(0, len(X), 2)
    if n_distinct and n_distinct * 2 == len(X):  # each second row is the first of two equal ones
        np.testing.assert_array_equal(distinct, half)
        assert distinct_rows(emission, rows, half) is None


def two_groups(n):
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], n // 2)
    return (rng.normal(size=n) * np.array([2.0, 4.0])[group] + np.array([20.0, 60.0])[group])[:, np.newaxis]


@pytest.mark.parametrize("n_chains", [1, pytest.param(2, marks=pytest.mark.extended)])
@pytest.mark.parametrize("emission", ["gaussian", pytest.param("auto", marks=pytest.mark.extended)])
def test_ages_in_whole_years_have_as_many_clusters_as_exact_ages(emission, n_chains):
    ages = two_groups(400)
    exact, rounded = (
        DPMixture(emission, max_iter=100, n_chains=n_chains, random_state=0).fit(X) for X in (ages, ages.round())
    )
    assert exact.n_components_ == rounded.n_components_ == 2
    assert abs(exact.score(ages) - rounded.score(ages)) < 0.03


@pytest.mark.parametrize("kind", ["diag", "spherical"])
@pytest.mark.extended
def test_rounded_columns_with_variances(kind):
    X = np.random.default_rng(1).normal(size=(600, 2))
    exact, rounded = (DPMixture(Gaussian(kind), random_state=0).fit(Y) for Y in (X, X.round(1)))
    assert abs(exact.n_components_ - rounded.n_components_) <= 1
    assert abs(exact.score(X) - rounded.score(X)) < 0.03


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_missing_cells_are_predicted_from_rounded_ones(kind):
    rng = np.random.default_rng(0)
    z = 3.0 * rng.normal(size=400)
    X = np.column_stack([np.round(z), np.round(z + 0.5), z + 0.01 * rng.normal(size=400)])
    emission = Gaussian(kind, resolution=[1.0, 1.0, 0.0])
    fitted = DPMixture(emission, init=np.zeros(400, int), max_iter=60, random_state=0).fit(X)
    holed = X.copy()
    holed[:, 2] = np.nan
    assert np.abs(fitted.impute(holed) - X).max() < 0.6
    drawn = np.array([each[:, 2] for each in fitted.impute(holed, n_draws=40, random_state=0)])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    assert 0.88 < ((low < X[:, 2]) & (X[:, 2] < high)).mean() < 1.0


def test_repeated_rows_give_one_warning_and_few_clusters():
    X = IRIS[np.random.default_rng(0).integers(0, 150, 150)]
    with pytest.warns(UserWarning, match=r"\d+ of 150 rows of X repeat other rows exactly") as caught:
        mixture = DPMixture(max_iter=100, random_state=0).fit(X)
    assert len(caught) == 1
    assert mixture.n_components_ <= 15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPMixture(max_iter=2, random_state=0).fit(IRIS)


@pytest.mark.extended
@pytest.mark.parametrize("emission", ["auto", VonMisesFisher("per_component")], ids=["auto", "von_mises_fisher"])
def test_repeated_rows_of_other_emissions(emission):
    X = np.repeat(np.random.default_rng(0).normal(size=(100, 3)), 5, axis=0)
    with pytest.warns(UserWarning, match="400 of 500 rows of X repeat"):
        mixture = DPMixture(emission, random_state=0).fit(X)
    assert mixture.n_components_ <= 15


# --- finite mixtures -------------------------------------------------------------------------------------


def rounded_fit(kind, width, X, n_components=1, sampler="em"):
    emission = Gaussian(kind, covariance_prior=1.0, resolution=width)
    return ExponentialFamilyMixture(n_components, emission=emission, sampler=sampler, max_iter=40, random_state=0).fit(
        X
    )


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_covariances_of_finite_mixtures_contain_the_variance_of_cells(kind):
    X = np.round(np.random.default_rng(0).normal(size=(50, 3)) * 2.0)
    exact, rounded = (rounded_fit(kind, width, X).covariances_.squeeze() for width in (0.0, "auto"))
    n, d = X.shape
    expected = {"diag": np.full(d, n / (n + 1)), "spherical": np.full(d, n * d / (n * d + 1))}
    expected = expected.get(kind, np.eye(d) * n / (n + 1)) / 12.0
    np.testing.assert_allclose(rounded - exact, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_em_increases_the_bound_of_rounded_rows(kind, missing):
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(120, 2)) + 3.0 * (np.arange(120) % 2)[:, np.newaxis])
    X[rng.random(X.shape) < missing] = np.nan
    likeliest = Gaussian(kind, None, 0.0, 0.0, {"full": 4, "tied": 5, "diag": 3}[kind], 1.0)  # the trace is maximised
    mixture = ExponentialFamilyMixture(2, emission=likeliest, sampler="em", max_iter=40, random_state=0).fit(X)
    trace = mixture.log_density_trace_[0]
    assert (np.diff(trace) > -1e-6 * np.abs(trace[1:])).all()
    values = np.stack(np.meshgrid(*[np.arange(-12.0, 18.0)] * 2), axis=-1).reshape(-1, 2)
    assert np.exp(mixture.score_samples(values)).sum() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_scores_of_gibbs_draws_are_probabilities_of_cells(kind):
    deviation, rng = 0.7, np.random.default_rng(0)
    X = np.round(deviation * rng.normal(size=(1500, 2)))
    mixture = rounded_fit(kind, 1.0, X, sampler="gibbs")
    values = np.arange(-6.0, 7.0)
    p = np.diff(norm.cdf(np.stack([values - 0.5, values + 0.5]), scale=deviation), axis=0)[0]
    cells = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    found = np.exp(mixture.score_samples(cells))
    assert found.sum() == pytest.approx(1.0, abs=0.002)
    p = np.outer(p, p).ravel()
    assert 0.0 < p @ np.log(p / found) < 0.004  # five parameters from 1500 rows: about .0017
    blocks = Columns([("a", Gaussian(kind, resolution=1.0), [0, 1])])
    table = ExponentialFamilyMixture(1, emission=blocks, sampler="gibbs", max_iter=40, random_state=0).fit(X)
    assert table.score(X) == pytest.approx(mixture.score(X), abs=0.001)
