"""Predictions of a column by a mixture of all columns."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyMixture,
    MixtureClassifier,
    MixtureRegressor,
    load,
)
from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.models import IncompatibleError

RNG = np.random.default_rng(0)
N = 240
GROUP = RNG.integers(3, size=N)
COMPLETE = pd.DataFrame(
    {
        "a": RNG.normal(3.0 * GROUP, 1.0),
        "kind": np.where(RNG.random(N) < 0.8, np.array(["x", "y", "z"])[GROUP], "x"),
        "n": RNG.poisson(2.0 + 6.0 * GROUP).astype(float),
    }
)
X = COMPLETE.mask(RNG.random(COMPLETE.shape) < 0.15)
NUMBERS = X[["a", "n"]].to_numpy()
Y = np.array(["low", "middle", "high"])[GROUP]
TARGET = 10.0 * GROUP + RNG.normal(size=N)
FEW = np.where(RNG.random(N) < 0.3, Y.astype(object), None)
EM = {"sampler": "em", "random_state": 0}
MIXTURE = ExponentialFamilyMixture(3, emission="auto", **EM)
BLOCKS = [("numbers", Gaussian(), ["n", "a"]), ("target", Categorical(), ["kind"])]


@pytest.mark.parametrize(
    "mixture",
    [
        MIXTURE,
        ExponentialFamilyMixture(3, emission=Columns(BLOCKS), **EM),
        ExponentialFamilyMixture(3, emission=Columns(count_columns=["n"]), **EM),
        DPMixture("auto", init=3, max_iter=20, random_state=0),
        CrossCat(max_iter=10, n_chains=1, random_state=0),
    ],
)
def test_classes_and_numbers_of_a_table_with_missing_cells_and_targets(mixture):
    model = MixtureClassifier(mixture).fit(X, FEW)
    assert model.score(X, Y) > 0.85
    assert model.classes_.tolist() == ["high", "low", "middle"]
    some = pd.Series(TARGET).mask(RNG.random(N) < 0.3)
    assert MixtureRegressor(mixture).fit(X, some).score(X, TARGET) > 0.7


@pytest.mark.parametrize("emission", ["gaussian", Gaussian("diag"), "auto"])
def test_emissions_of_arrays(emission):
    mixture = ExponentialFamilyMixture(3, emission=emission, **EM)
    classifier = MixtureClassifier(mixture).fit(NUMBERS, GROUP)
    assert classifier.score(NUMBERS, GROUP) > 0.85
    regressor = MixtureRegressor(mixture).fit(NUMBERS, TARGET)
    assert regressor.score(NUMBERS, TARGET) > 0.8
    with_blocks = isinstance(regressor.estimator_.emission_, Columns)
    assert with_blocks == (emission == "auto")  # a Gaussian emission has one more column


def test_probabilities_are_those_of_bayes():
    mixture = ExponentialFamilyMixture(3, emission=Gaussian("diag"), **EM)
    model = MixtureClassifier(mixture).fit(NUMBERS, Y)
    fitted = model.estimator_
    numbers, classes = fitted.named_blocks_["features"], fitted.components_[2]
    logs = stats.norm.logpdf(NUMBERS[:, np.newaxis], numbers["components_"], np.sqrt(numbers["covariances_"]))
    joint = fitted.weights_ * np.exp(np.nansum(logs, axis=2))
    exact = joint @ classes / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(NUMBERS), exact, rtol=1e-9)
    assert log_loss(Y, model.predict_proba(NUMBERS)) == pytest.approx(log_loss(Y, exact))


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (GROUP, [0, 1, 2]),
        (-5 * GROUP, [-10, -5, 0]),
        (GROUP > 0, [False, True]),
        (np.where(GROUP == 0, np.nan, GROUP), [1.0, 2.0]),
        (FEW.tolist(), ["high", "low", "middle"]),
        (["a" if g else float("nan") for g in GROUP], ["a"]),
        (pd.Series(FEW).astype("category"), ["high", "low", "middle"]),
        (pd.Series(GROUP).astype("Int64").mask(GROUP == 0), [1, 2]),
        (pl.Series(FEW.tolist()), ["high", "low", "middle"]),
        (pa.array(FEW.tolist()), ["high", "low", "middle"]),
    ],
)
def test_labels_of_several_types(y, classes):
    model = MixtureClassifier(MIXTURE).fit(X, y)
    assert model.classes_.tolist() == classes
    assert set(model.predict(X).tolist()) <= set(classes)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_more_than_ten_classes_keep_their_order():
    y = np.arange(N) % 12
    model = MixtureClassifier(ExponentialFamilyMixture(12, emission="auto", **EM)).fit(10.0 * y[:, np.newaxis], y)
    assert (model.predict([[0.0], [20.0], [110.0]]) == [0, 2, 11]).all()


def test_tables_of_several_libraries():
    expected = MixtureClassifier(MIXTURE).fit(X, Y).predict_proba(X)
    cells = X.astype(object).where(X.notna(), None)
    tables = (
        X.rename(columns={"a": "target"}),
        pl.DataFrame(cells.to_dict("list")),
        pa.table(cells.to_dict("list")),
        X.set_axis(range(3), axis=1),
        cells.to_numpy(),
        cells.to_numpy().tolist(),
    )
    for table in tables:
        model = MixtureClassifier(MIXTURE).fit(table, Y)
        assert model.predict_proba(table).tobytes() == expected.tobytes()
    assert model.n_features_in_ == 3


def test_quantiles_and_intervals_of_a_mixture_of_regressions():
    model = MixtureRegressor(ExponentialFamilyMixture(3, **EM)).fit(NUMBERS, TARGET)
    low, high = model.predict_interval(NUMBERS, 0.8)
    quantiles = model.predict_quantiles(NUMBERS, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(np.column_stack([low, high]), quantiles[:, [0, 2]], rtol=1e-9)
    assert abs(((low <= TARGET) & (high >= TARGET)).mean() - 0.8) < 0.1
    assert model.predict_quantiles(NUMBERS, 0.5).shape == (N,)


@pytest.mark.parametrize("predictor", [MixtureClassifier, MixtureRegressor])
def test_rows_jobs_copies_and_files(predictor, tmp_path):
    y = Y if predictor is MixtureClassifier else TARGET
    mixture = DPMixture("auto", init=3, max_iter=6, n_chains=2)
    model = predictor(mixture, random_state=0).fit(X, y)
    found = model.predict_proba(X) if predictor is MixtureClassifier else model.predict(X)
    model.save(tmp_path / "model")
    others = (
        clone(model).set_params(estimator__n_jobs=2).fit(X, y),
        pickle.loads(pickle.dumps(model)),
        load(tmp_path / "model"),
    )
    for other in others:
        again = other.predict_proba(X) if predictor is MixtureClassifier else other.predict(X)
        assert again.tobytes() == found.tobytes()
    part = model.predict_proba(X[7:30]) if predictor is MixtureClassifier else model.predict(X[7:30])
    np.testing.assert_allclose(part, found[7:30], rtol=1e-12)
    assert model.feature_names_in_.tolist() == ["a", "kind", "n"]
    assert model.estimator_.feature_names_in_.tolist() == ["a", "kind", "n", "target"]


def test_searches_and_cross_validation_with_missing_cells():
    search = GridSearchCV(MixtureClassifier(MIXTURE), {"estimator__n_components": [1, 3]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"estimator__n_components": 3}
    assert cross_val_score(MixtureRegressor(MIXTURE), X, TARGET, cv=3).min() > 0.7
    model = MixtureClassifier(random_state=3).set_params(estimator__max_iter=2, estimator__init=2)
    assert model.fit(X, Y).estimator_.get_params()["random_state"] == 3
    assert model.estimator_.max_iter == 2


def test_what_is_refused():
    model, numbers = MixtureClassifier(MIXTURE), MixtureRegressor(MIXTURE)
    for predictor, what in ((model, "labels"), (numbers, "targets")):
        with pytest.raises(ValueError, match=f"All {what} in y are missing"):
            predictor.fit(X, [None] * N)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            predictor.fit(X, GROUP[:5])
        assert not hasattr(predictor, "n_features_in_")
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X, TARGET)
    with pytest.raises(ValueError, match="strings and others"):
        model.fit(X, [1, "a"] * (N // 2))
    with pytest.raises(ValueError, match="infinity"):
        numbers.fit(X, np.full(N, np.inf))
    with pytest.raises(ValueError, match="feature names"):
        model.fit(X, Y).predict(X[["a", "n"]])
    with pytest.raises(ValueError, match="X has 1 features, but MixtureRegressor is expecting 2"):
        numbers.fit(NUMBERS, TARGET).predict(NUMBERS[:, :1])
    with pytest.raises(IncompatibleError, match="VonMisesFisher has no distributions of single cells"):
        MixtureClassifier(ExponentialFamilyMixture(2, emission="von_mises_fisher")).fit(NUMBERS, Y)
    with pytest.raises(TypeError, match="does not use DPCategoricalMixture"):
        MixtureClassifier(DPCategoricalMixture()).fit(NUMBERS, Y)
    with pytest.raises(TypeError, match="sample_weight"):
        model.fit(X, Y, sample_weight=np.ones(N))
