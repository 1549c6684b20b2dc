"""Quantiles, intervals and draws of columns given the others."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from skmanifold import CrossCat, DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Gaussian, NegativeBinomial, Poisson, Spikes

RNG = np.random.default_rng(0)
GROUP = RNG.random(200) < 0.5
X = RNG.normal(size=(200, 2)) + np.where(GROUP, 0.0, 5.0)[:, np.newaxis]
COUNTS = RNG.poisson(np.where(GROUP, 2.0, 9.0)[:, np.newaxis], (200, 2)).astype(float)
SHORT = {"sampler": "em", "random_state": 0, "max_iter": 20}


def test_quantiles_invert_the_distribution_function_of_the_mixture():
    mixture = ExponentialFamilyMixture(2, **SHORT).fit(X)
    row = np.array([[np.nan, np.nan]])
    levels = np.array([0.01, 0.3, 0.5, 0.9])
    found = mixture.conditional(row, 1).quantile(levels)[0]
    deviations = np.sqrt(np.array([mixture.covariances_[k][1, 1] for k in range(2)]))
    exact = stats.norm.cdf(found[:, np.newaxis], mixture.components_[:, 1], deviations) @ mixture.weights_
    np.testing.assert_allclose(exact, levels, rtol=1e-9)


def test_quantiles_of_counts_are_whole_numbers():
    mixture = ExponentialFamilyMixture(2, emission=Poisson(), **SHORT).fit(COUNTS)
    row = np.array([[np.nan, np.nan]])
    for level in (0.05, 0.5, 0.95):
        found = mixture.conditional(row, 1).quantile(level)[0]
        below, at = (stats.poisson.cdf(x, mixture.components_[:, 1]) @ mixture.weights_ for x in (found - 1, found))
        assert found % 1 == 0
        assert below < level <= at


def test_draws_have_the_moments_and_intervals_cover_them():
    conditional = ExponentialFamilyMixture(2, **SHORT).fit(X).conditional(X[:20], 1)
    drawn, (low, high) = conditional.sample(1000, random_state=0), conditional.interval(0.8)
    assert np.all(np.abs(drawn.mean(axis=1) - conditional.mean()) < 4.5 * np.sqrt(conditional.variance() / 1000))
    inside = ((drawn > low[:, np.newaxis]) & (drawn < high[:, np.newaxis])).mean()
    assert abs(inside - 0.8) < 4.5 * np.sqrt(0.16 / drawn.size)


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan, []])
def test_wrong_levels_are_refused(level):
    conditional = ExponentialFamilyMixture(2, **SHORT).fit(X).conditional(X[:2], [0, 1])
    with pytest.raises(ValueError, match="q must be one or more probabilities above 0 and below 1"):
        conditional.quantile(level)


TABLE = pd.DataFrame({"a": X[:, 0], "kind": np.where(GROUP, "x", "y"), "b": X[:, 1]})
TABLE.loc[::7, "a"] = np.nan


def is_near_its_draws(mixture, rows, column):
    """Whether quantiles are those of many draws of a column, given the other cells of a few rows."""
    conditional, levels = mixture.conditional(rows, column), np.array([0.1, 0.5, 0.9])
    drawn, found = conditional.sample(4000, random_state=0), conditional.quantile(levels)
    for own, quantiles in zip(drawn, found, strict=True):
        below, at = (np.mean(compare.outer(own, quantiles), axis=0) for compare in (np.less, np.less_equal))
        error = 4.5 * np.sqrt(levels * (1.0 - levels) / len(own))
        if not (np.all(below < levels + error) and np.all(at > levels - error)):
            return False
    return True


@pytest.mark.parametrize(
    ("emission", "rows"),
    [
        (NegativeBinomial(), COUNTS**2),
        (Gaussian(), X),
        (Gaussian("diag", transform="auto"), np.exp(0.5 * X)),
        (Spikes(Gaussian()), X.round(1).clip(0.0)),
    ],
)
def test_quantiles_are_those_of_draws(emission, rows):
    mixture = ExponentialFamilyMixture(2, emission=emission, **{**SHORT, "max_iter": 300}).fit(rows)
    assert is_near_its_draws(mixture, rows[:4], 1)


def test_quantiles_of_partitions_are_those_of_draws_of_the_cells():
    mixture = DPMixture(Gaussian("diag"), init=2, max_iter=40, random_state=0).fit(X)
    found = mixture.conditional(X[:4], 1)
    drawn = found.sample(4000, random_state=0)
    share = (drawn <= found.quantile(0.3)[:, np.newaxis]).mean(axis=1)
    assert np.all(np.abs(share - 0.3) < 0.05)  # draws of parameters and then of cells are t distributed


@pytest.mark.parametrize(
    "mixture",
    [
        ExponentialFamilyMixture(2, emission="auto", sampler="gibbs", max_iter=6, random_state=0),
        DPMixture("auto", init=2, max_iter=6, random_state=0),
        CrossCat(max_iter=6, n_chains=2, random_state=0),
    ],
)
def test_the_number_of_threads_and_the_other_rows_do_not_matter(mixture):
    fitted = mixture.fit(TABLE)
    one, two = (fitted.set_params(n_jobs=n_jobs).conditional(TABLE, ["b", "a"]) for n_jobs in (1, 2))
    for method, arguments in (("quantile", ([0.2, 0.7],)), ("interval", (0.5,)), ("sample", (3, 0))):
        own, other = (np.array(getattr(each, method)(*arguments)) for each in (one, two))
        assert own.tobytes() == other.tobytes()
    part = fitted.conditional(TABLE[:30], ["b", "a"]).quantile(0.2)
    np.testing.assert_allclose(part, one.quantile(0.2)[:30], rtol=1e-9)


def test_categories_have_no_quantiles():
    conditional = ExponentialFamilyMixture(2, emission="auto", **SHORT).fit(TABLE).conditional(TABLE, ["a", "kind"])
    for method in (lambda: conditional.quantile(0.5), conditional.interval):
        with pytest.raises(ValueError, match="Column 'kind' has categories, which have no quantiles"):
            method()


def test_tables_without_the_columns():
    mixture = ExponentialFamilyMixture(2, emission="auto", **SHORT).fit(TABLE)
    cells = TABLE.astype(object).where(TABLE.notna(), None)
    for column in ("a", "kind", ["b", "kind"]):
        expected = mixture.conditional(TABLE, column).predict()
        rest = cells.drop(columns=column)
        for table in (TABLE.drop(columns=column), pl.DataFrame(rest.to_dict("list")), pa.table(rest.to_dict("list"))):
            found = mixture.conditional(table, column).predict()
            assert np.array(found, dtype=object).tolist() == np.array(expected, dtype=object).tolist()
        unknown = TABLE.assign(kind="unknown") if column == "kind" else TABLE
        found = mixture.conditional(unknown[["b", "a", "kind"]], column).predict()  # which are ignored
        assert np.array(found, dtype=object).tolist() == np.array(expected, dtype=object).tolist()
    with pytest.raises(ValueError, match="X lacks the column 'b' of fit"):
        mixture.conditional(TABLE[["a"]], "kind")
    with pytest.raises(ValueError, match="X lacks the column 'kind' of fit"):
        mixture.impute(TABLE[["a", "b"]])


@pytest.mark.parametrize("emission", ["gaussian", "auto"])
def test_arrays_without_the_columns(emission):
    mixture = ExponentialFamilyMixture(2, emission=emission, **SHORT).fit(np.hstack([X, COUNTS]))
    rows = np.hstack([X, COUNTS])
    expected = mixture.conditional(rows, [1, 3]).mean()
    for rest in (rows[:, [0, 2]], rows[:, [0, 2]].tolist(), pd.DataFrame(rows[:, [0, 2]])):
        assert mixture.conditional(rest, [1, 3]).mean().tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="X has 3 features, but ExponentialFamilyMixture is expecting 4"):
        mixture.conditional(rows[:, :3], [1, 3])  # which of both is missing is not known
    with pytest.raises(ValueError, match="X has 3 features, but ExponentialFamilyMixture is expecting 4"):
        mixture.impute(rows[:, :3])


def test_frames_of_numbers_without_a_column():
    table = TABLE[["a", "b"]].fillna(0.0)
    mixture = ExponentialFamilyMixture(2, **SHORT).fit(table)
    expected = mixture.conditional(table, "a").mean()
    for own in (table[["b"]], pl.DataFrame(table[["b"]].to_dict("list")), pa.table(table[["b"]].to_dict("list"))):
        assert mixture.conditional(own, "a").mean().tobytes() == expected.tobytes()
