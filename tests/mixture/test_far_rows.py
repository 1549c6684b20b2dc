"""Rows far from those of the fit: densities are finite numbers, or the row is refused in one sentence."""

import numpy as np
import pandas as pd
import pytest

from skmanifold import DPMixture, ExponentialFamilyMixture, MixtureImputer
from skmanifold.emissions import Columns, Gaussian

ROWS = np.random.default_rng(0).normal(size=(40, 3)) + 4.0 * (np.arange(40) % 2)[:, None]
FIT = {"max_iter": 4, "burn_in": 2, "thin": 1, "random_state": 0}
METHODS = "predict", "predict_proba", "transform", "score_samples", "score", "impute", "conditional"
REFUSED = "X has a row so far from all components that squares of its deviations are too large for float64: correct or"
KINDS = ("full", "diag", *(pytest.param(each, marks=pytest.mark.extended) for each in ("tied", "spherical")))

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore:.*burn_in")


def with_row(value, column=slice(None)):
    rows = ROWS[:5].copy()
    rows[3, column] = value
    rows[4, 1] = np.nan
    return rows


def told_of(mixture, method, X):
    if method == "conditional":
        found = mixture.conditional(X, [0])
        return np.column_stack([found.mean(), found.variance(), found.log_density(X)])
    return getattr(mixture, method)(X)


@pytest.mark.parametrize("covariance_type", KINDS)
def test_gaussian_rows(covariance_type):
    mixture = ExponentialFamilyMixture(2, emission=Gaussian(covariance_type), **FIT).fit(ROWS)
    for method in METHODS:
        for value in (1e6, -1e30, 1e80, 1e-160, 1e-320):
            assert np.isfinite(told_of(mixture, method, with_row(value))).all()
        for column in (1, slice(None)):
            for value in (1e155, -1e200, 1e300, 1.7e308, -1.7e308):
                with pytest.raises(ValueError, match=REFUSED):
                    told_of(mixture, method, with_row(value, column))
    before = mixture.components_.copy()
    with pytest.raises(ValueError, match=REFUSED):
        mixture.partial_fit(with_row(1e155))
    np.testing.assert_array_equal(mixture.components_, before)


def test_tables_and_imputers():
    table = pd.DataFrame(ROWS, columns=list("abc")).assign(kind=np.where(np.arange(40) % 3, "x", "y"))
    far = table[:5].assign(a=[0.0, 1.0, 1e155, 2.0, np.nan])
    mixture = ExponentialFamilyMixture(2, emission="auto", **FIT).fit(table)
    imputer = MixtureImputer(ExponentialFamilyMixture(2, **FIT)).fit(ROWS)
    for ask in (mixture.predict_proba, mixture.score, mixture.impute, lambda X: mixture.conditional(X, ["b"])):
        with pytest.raises(ValueError, match=REFUSED):
            ask(far)
    with pytest.raises(ValueError, match=REFUSED):
        imputer.transform(with_row(1.7e308))


@pytest.mark.parametrize("mixture", [ExponentialFamilyMixture(2, sampler="gibbs", **FIT), DPMixture(init=2, **FIT)])
def test_columns_of_very_different_scales_have_a_definite_default_prior(mixture):
    X = ROWS * np.array([1.0, 1e-100, 1e100])
    assert np.isfinite(mixture.fit(X).score_samples(X)).all()


def test_categories_that_are_numbers_are_sampled_as_numbers_of_a_gaussian_block():
    X = pd.DataFrame({"a": pd.Categorical(np.arange(40) % 4 + 1), "b": ROWS[:, 0]})
    emission = Columns([("numbers", Gaussian("diag"), ["a", "b"])])
    mixture = ExponentialFamilyMixture(2, emission=emission, **FIT).fit(X)
    assert mixture.categories_ == [None, None]
    assert mixture.sample(3, random_state=0)[0].dtypes.tolist() == [np.float64, np.float64]


def test_products_that_overflow_when_they_are_added_are_refused():
    with pytest.raises(ValueError, match="X has values whose squares are too large for float64: scale it"):
        DPMixture(init=2, **FIT).fit(ROWS * 1e153)
