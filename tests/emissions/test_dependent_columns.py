"""Columns that other columns determine: a Gaussian mixture warns once, and names them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Columns, Gaussian
from skmanifold.emissions._gaussian.dependent_columns import dependent_columns

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
CONSEQUENCE = "which makes densities too high and distorts the clusters"
SHORT = {"max_iter": 2, "burn_in": 1, "random_state": 0}


def relations(values):
    return [sorted(columns.tolist()) for columns in dependent_columns(np.ascontiguousarray(values, dtype=np.float64))]


def without(values, share, seed):
    return np.where(np.random.default_rng(seed).random(values.shape) < share, np.nan, values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.c_[X, X[:, 1]], [[1, 4]]),
        (np.c_[X, 1e6 - 3.0 * X[:, 1]], [[1, 4]]),
        (np.c_[X, (X[:, 1] * np.float32(2.54)).astype(np.float32)], [[1, 4]]),
        (np.c_[X, X[:, 0] - 2.0 * X[:, 3]], [[0, 3, 4]]),
        (np.c_[X, X @ [1.0, 2.0, -3.0, 0.5], np.full(200, 0.1)], [[0, 1, 2, 3, 4]]),
        (without(np.c_[X, X[:, 1]], 0.3, 1), [[1, 4]]),
        (without(np.c_[X, X[:, 0] + X[:, 1]], 0.1, 2), [[0, 1, 4]]),
        (without(np.c_[RNG.normal(size=(200, 20)), X[:, 0], -X[:, 0]], 0.3, 3), [[20, 21]]),  # no complete row
        (np.c_[RNG.normal(size=(10, 20)), X[:10, 0], X[:10, 0]], [[20, 21]]),  # fewer rows than columns
    ],
)
def test_columns_that_others_determine(values, expected):
    assert relations(values) == expected


@pytest.mark.parametrize(
    "values",
    [
        X,
        X[:1],
        X[:3],
        X[:4],
        X[:5],
        np.c_[X, X[:, 1] + 0.0447 * RNG.normal(size=200)],  # correlation 0.999
        np.c_[X, X[:, 1] + 0.0001 * RNG.normal(size=200)],
        np.c_[X, np.ones((200, 2))],
        np.eye(4)[RNG.integers(4, size=200)],  # indicators, whose sum is 1
        np.c_[X, np.eye(4)[RNG.integers(4, size=200)]],
        RNG.poisson(0.03, size=(200, 60)),
        load_digits().data,
        load_digits().data[:100],
        without(np.c_[X, X[:, 1] + 0.01 * RNG.normal(size=200)], 0.3, 4),
        without(load_digits().data[:300], 0.5, 5),
        np.c_[X * 1e300, X[:, 0]],
        np.where(RNG.random(200)[:, None] < 0.1, -1e6, X),  # a code for missing cells dominates the variances
    ],
)
def test_no_false_alarm(values):
    assert relations(values) == []


def test_a_relation_of_the_sample_that_other_rows_break_is_none():
    values = np.c_[np.tile(X, (20, 1)), np.tile(X[:, 1], 20)]
    assert relations(values) == [[1, 4]]
    values[1, 4] += 1.0  # row 1 is not in the sample, which has each fourth row
    assert relations(values) == []


def messages(read, *arguments, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read(*arguments, **options)
    return [str(each.message) for each in found if "Columns" in str(each.message)]


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_columns_are_named(covariance_type):
    table = pd.DataFrame(np.c_[X, X[:, 1]], columns=["a", "b", "c", "d", "copy"])
    reader, emission = BaseEstimator(), Gaussian(covariance_type)
    expected = [f"Columns 'b' and 'copy' of X are linearly dependent, {CONSEQUENCE}: remove one of them."]
    assert messages(emission.read, reader, table, reset=True) == expected
    assert messages(emission.read, reader, table, reset=False) == []


def test_columns_of_a_block_are_named_as_in_the_table():
    table = pd.DataFrame({"kind": ["x", "y"] * 100, "cm": X[:, 0], "weight": X[:, 1], "inch": X[:, 0] / 2.54})
    expected = [f"Columns 'cm' and 'inch' of X are linearly dependent, {CONSEQUENCE}: remove one of them."]
    assert messages(Columns().read, BaseEstimator(), table, reset=True) == expected
    apart = Columns([("one", Gaussian(), ["cm", "weight"]), ("other", Gaussian("diag"), ["inch"])])
    assert messages(apart.read, BaseEstimator(), table[["cm", "weight", "inch"]], reset=True) == []


def test_several_relations_are_one_sentence():
    def message(values):
        (found,) = messages(Gaussian().read, BaseEstimator(), values, reset=True)
        assert found.endswith(f" of X are linear functions of other columns, {CONSEQUENCE}: remove them.")
        return found

    assert message(np.c_[X, X[:, 1], X[:, 2] + X[:, 3]]).startswith("Columns ")
    of_ten = message(np.c_[X, np.outer(X[:, 0], np.arange(1.0, 11.0))])
    assert of_ten.count(",") == 5
    assert " and 5 others of X " in of_ten


@pytest.mark.parametrize(
    "mixture",
    [ExponentialFamilyMixture(2, **SHORT), pytest.param(DPMixture(init=2, **SHORT), marks=pytest.mark.extended)],
)
def test_fits_warn_once(mixture):
    mixture.set_params(emission=Gaussian("spherical"), n_chains=2)
    assert len(messages(mixture.fit, np.c_[X, X[:, 1]])) == 1


def test_minibatches_are_compared_once():
    mixture = ExponentialFamilyMixture(2, emission=Gaussian("spherical"), random_state=0)
    assert len(messages(mixture.partial_fit, np.c_[X, X[:, 1]])) == 1
    assert messages(mixture.partial_fit, np.c_[X, X[:, 1]]) == []
