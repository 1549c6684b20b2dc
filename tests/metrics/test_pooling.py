"""Rubin's rules: parts of the variance, degrees of freedom, missing information, and coverage of intervals."""

import numpy as np
import pytest
from scipy import stats

from skmanifold.metrics import PooledEstimate, pool_estimates


def test_the_rules_agree_with_a_calculation_by_hand():
    """W = 0.6, B = 1, T = 0.6 + 4/3 = 29/15, so lambda = 20/29 and r = 20/9."""
    pooled = pool_estimates([1.0, 2.0, 3.0], [0.5, 0.7, 0.6])
    assert isinstance(pooled, PooledEstimate)
    assert all(type(value) is float for value in pooled)
    degrees = 2 * (29 / 20) ** 2
    expected = 2.0, 29 / 15, 0.6, 1.0, degrees, (20 / 9 + 2 / (degrees + 3)) / (20 / 9 + 1)
    np.testing.assert_allclose(pooled, expected, rtol=1e-14)
    half = stats.t.ppf(0.95, degrees) * np.sqrt(29 / 15)
    np.testing.assert_allclose(pooled.interval(0.9), (2 - half, 2 + half), rtol=1e-12)


def test_the_correction_for_small_samples_agrees_with_a_calculation_by_hand():
    pooled = pool_estimates([1.0, 2.0, 3.0], [0.5, 0.7, 0.6], dof_complete=10)
    observed = (9 / 29) * 10 * 11 / 13
    assert pooled.degrees_of_freedom == pytest.approx(1 / (1 / (2 * (29 / 20) ** 2) + 1 / observed), rel=1e-14)
    large = pool_estimates([1.0, 2.0, 3.0], [0.5, 0.7, 0.6])
    assert pooled.fraction_missing == large.fraction_missing
    assert pool_estimates([1.0, 2.0, 3.0], [0.5, 0.7, 0.6], dof_complete=np.inf) == large


def test_parameters_are_pooled_one_by_one():
    rng = np.random.default_rng(0)
    estimates, variances = rng.normal(size=(6, 3)), rng.random((6, 3))
    pooled = pool_estimates(estimates.tolist(), variances, dof_complete=30)
    for j in range(3):
        alone = pool_estimates(estimates[:, j], variances[:, j], dof_complete=30)
        np.testing.assert_allclose([values[j] for values in pooled], alone, rtol=1e-12)
        np.testing.assert_allclose([ends[j] for ends in pooled.interval()], alone.interval(), rtol=1e-12)


def test_equal_estimates_have_a_normal_distribution_and_no_missing_information():
    pooled = pool_estimates([0.3] * 5, [4.0] * 5)
    assert pooled[1:] == (4.0, 4.0, 0.0, np.inf, 0.0)
    half = 2 * stats.norm.ppf(0.975)
    np.testing.assert_allclose(pooled.interval(), (0.3 - half, 0.3 + half), rtol=1e-12)
    small = pool_estimates([0.3] * 5, [4.0] * 5, dof_complete=20)
    assert small.degrees_of_freedom == pytest.approx(20 * 21 / 23)
    assert small.fraction_missing == 0.0


def test_without_any_variance_the_interval_is_the_estimate():
    pooled = pool_estimates([2.0, 2.0], [0.0, 0.0])
    assert pooled[1:] == (0.0, 0.0, 0.0, np.inf, 0.0)
    assert pooled.interval() == (2.0, 2.0)


def test_without_variance_within_the_tables_all_information_is_missing():
    pooled = pool_estimates([1.0, 3.0, 5.0], [0.0, 0.0, 0.0])
    assert pooled.fraction_missing == 1.0
    assert pooled.degrees_of_freedom == 2.0
    small = pool_estimates([1.0, 3.0, 5.0], [0.0, 0.0, 0.0], dof_complete=8)
    assert small.degrees_of_freedom == 0.0
    assert small.interval() == (-np.inf, np.inf)


def test_estimates_have_a_scale_but_no_origin():
    rng = np.random.default_rng(1)
    estimates, variances = rng.normal(size=8), rng.random(8)
    pooled, other = pool_estimates(estimates, variances), pool_estimates(3 * estimates + 7, 9 * variances)
    np.testing.assert_allclose(other[:2], (3 * pooled.estimate + 7, 9 * pooled.variance), rtol=1e-12)
    np.testing.assert_allclose(other[4:], pooled[4:], rtol=1e-12)


def test_many_imputations_give_the_variance_of_the_observed_mean():
    """Known variance 1, n rows of which n_1 are observed: T tends to 1 / n_1, the missing share to 1 - n_1 / n."""
    rng = np.random.default_rng(2)
    n, n_observed, n_tables = 20, 12, 40_000
    observed = rng.normal(size=n_observed)
    means = rng.normal(observed.mean(), n_observed**-0.5, n_tables)
    missing = rng.normal(means[:, np.newaxis], 1.0, (n_tables, n - n_observed))
    estimates = (observed.sum() + missing.sum(axis=1)) / n
    pooled = pool_estimates(estimates, np.full(n_tables, 1 / n))
    spread = 1 / n_observed - 1 / n
    error = spread * np.sqrt(2 / n_tables)
    assert abs(pooled.estimate - observed.mean()) < 5 * np.sqrt(spread / n_tables)
    assert abs(pooled.variance - 1 / n_observed) < 5 * error
    assert abs(pooled.fraction_missing - (1 - n_observed / n)) < 5 * error * n_observed


@pytest.mark.extended
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_cover_the_mean_of_normal_rows_with_missing_cells(level):
    """Cells are missing completely at random, and drawn from the exact posterior predictive distribution."""
    rng = np.random.default_rng(3)
    n, n_tables, n_repetitions, covered, single = 30, 10, 2000, 0, 0
    for _ in range(n_repetitions):
        x = rng.normal(1.0, 2.0, n)
        observed = x[rng.random(n) < 0.6]
        n_observed = len(observed)
        squares = ((observed - observed.mean()) ** 2).sum()
        scales = np.sqrt(squares / rng.chisquare(n_observed - 1, n_tables))  # posterior under the prior 1 / sigma**2
        means = rng.normal(observed.mean(), scales / np.sqrt(n_observed))
        missing = rng.normal(means[:, np.newaxis], scales[:, np.newaxis], (n_tables, n - n_observed))
        tables = np.hstack([np.tile(observed, (n_tables, 1)), missing])
        estimates, variances = tables.mean(axis=1), tables.var(axis=1, ddof=1) / n
        low, high = pool_estimates(estimates, variances, dof_complete=n - 1).interval(level)
        covered += low <= 1.0 <= high
        half = stats.t.ppf((1 + level) / 2, n - 1) * np.sqrt(variances[0])
        single += abs(estimates[0] - 1.0) <= half
    error = np.sqrt(level * (1 - level) / n_repetitions)
    assert abs(covered / n_repetitions - level) < 4 * error
    assert single / n_repetitions < level - 10 * error  # one imputed table as if it were complete


@pytest.mark.parametrize(
    ("estimates", "variances", "dof_complete", "message"),
    [
        ([1.0], [1.0], None, r"estimates has the results of 1 table, but Rubin's rules need at least 2\."),
        (1.0, 1.0, None, "results of 1 table"),
        ([], [], None, "0 sample"),
        ([1.0, 2.0], [1.0, -1.0], None, r"variances must not be negative; got -1\.0\."),
        ([1.0, 2.0], [1.0], None, r"estimates has the shape \(2,\), but variances has the shape \(1,\)\."),
        ([1.0, 2.0], [[1.0, 2.0]], None, r"the shape \(1, 2\)"),
        (np.ones((2, 2, 2)), np.ones((2, 2, 2)), None, "dim 3"),
        ([1.0, np.nan], [1.0, 1.0], None, "Input estimates contains NaN"),
        ([1.0, 2.0], [1.0, np.nan], None, "Input variances contains NaN"),
        ([1.0, np.inf], [1.0, 1.0], None, "Input estimates contains infinity"),
        ([1.0, 2.0], [1.0, 1.0], 0, r"dof_complete must be a positive number or None; got 0\."),
        ([1.0, 2.0], [1.0, 1.0], np.nan, "dof_complete must be a positive number"),
        ([1.0, 2.0], [1.0, 1.0], True, "dof_complete must be a positive number"),
        ([1.0, 2.0], [1.0, 1.0], "9", "dof_complete must be a positive number"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(estimates, variances, dof_complete, message):
    with pytest.raises(ValueError, match=message):
        pool_estimates(estimates, variances, dof_complete)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 95, np.nan, "0.9", None])
def test_levels_are_between_zero_and_one(level):
    with pytest.raises(ValueError, match="level must be a number between 0 and 1; got "):
        pool_estimates([1.0, 2.0], [1.0, 1.0]).interval(level)
