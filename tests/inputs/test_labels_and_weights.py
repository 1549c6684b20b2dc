"""Labels and weights of rows in the same containers as X, with and without rows that are held out."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold import HeldOutMonitor

from ._containers import Capsule, arrow, package, polars, strict
from ._estimators import ESTIMATORS, data

WORDS = np.array(["no", "yes"] * 6)
NUMBERS = np.arange(12) % 2
WEIGHTS = np.arange(1.0, 13.0)
MONITORED = pytest.mark.parametrize("monitored", [False, True], ids=["all", "held out"])


def series(values, dtype=None):
    return package("pandas").Series(values, dtype=dtype)


def chunks(values):
    return package("pyarrow").chunked_array([values[:5], values[5:]])


def enum(values):
    library = package("polars")
    return library.Series(values).cast(library.Enum(["yes", "no"]))


LABELS = {
    "pandas": lambda: (series(WORDS), WORDS),
    "pandas category": lambda: (series(WORDS, "category"), WORDS),
    "pandas string": lambda: (series(WORDS, "string"), WORDS),
    "pandas Int64": lambda: (series(NUMBERS, "Int64"), NUMBERS),
    "pandas boolean": lambda: (series(NUMBERS > 0, "boolean"), NUMBERS > 0),
    "pandas array": lambda: (package("pandas").array(NUMBERS, dtype="Int64"), NUMBERS),
    "pandas arrow": lambda: (chunks(NUMBERS) is not None and series(NUMBERS, "int64[pyarrow]"), NUMBERS),
    "polars": lambda: (package("polars").Series(WORDS), WORDS),
    "polars Enum": lambda: (enum(WORDS), WORDS),
    "polars Int64": lambda: (package("polars").Series(NUMBERS), NUMBERS),
    "polars Boolean": lambda: (package("polars").Series(NUMBERS > 0), NUMBERS > 0),
    "arrow": lambda: (chunks(WORDS.tolist()), WORDS),
    "arrow dictionary": lambda: (chunks(WORDS.tolist()).dictionary_encode(), WORDS),
    "arrow int64": lambda: (package("pyarrow").array(NUMBERS), NUMBERS),
    "list": lambda: (WORDS.tolist(), WORDS),
    "strict": lambda: (strict(NUMBERS), NUMBERS),
}


def classifier(monitored):
    model = clone(ESTIMATORS["classifier"])
    return model.set_callbacks(HeldOutMonitor(fraction=0.3, random_state=0)) if monitored else model


@MONITORED
@pytest.mark.parametrize("container", LABELS)
def test_labels(container, monitored):
    if container == "strict" and find_spec("sklearn.externals.array_api_compat") is None:
        pytest.skip("scikit-learn before 1.7 compares devices of labels without array_api_dispatch too")
    y, plain = LABELS[container]()
    X = data("classifier")
    found, wanted = classifier(monitored).fit(polars(X), y), classifier(monitored).fit(X, plain)
    assert found.classes_.tolist() == wanted.classes_.tolist()
    assert found.classes_.dtype.kind in (wanted.classes_.dtype.kind, "O" if plain is WORDS else "")
    np.testing.assert_array_equal(found.predict_proba(polars(X)), wanted.predict_proba(X))
    assert found.score(polars(X), y) == wanted.score(X, plain)


MISSING = {
    "pandas": lambda: series([None, *WORDS[1:]]),
    "pandas category": lambda: series([None, *WORDS[1:]], "category"),
    "pandas string": lambda: series([None, *WORDS[1:]], "string"),
    "pandas Int64": lambda: series([None, *NUMBERS[1:]], "Int64"),
    "polars": lambda: package("polars").Series([None, *WORDS[1:]]),
    "polars Int64": lambda: package("polars").Series([None, *NUMBERS[1:].tolist()]),
    "arrow": lambda: package("pyarrow").array([None, *WORDS[1:].tolist()]),
    "arrow dictionary": lambda: package("pyarrow").array([None, *WORDS[1:].tolist()]).dictionary_encode(),
    "list": lambda: [None, *WORDS[1:].tolist()],
    "masked": lambda: np.ma.array(WORDS, mask=np.arange(12) == 0),
}


@MONITORED
@pytest.mark.parametrize("container", MISSING)
def test_missing_labels(container, monitored):
    with pytest.raises(ValueError, match=r"^y has 1 missing label: remove these rows from X and y\.$"):
        classifier(monitored).fit(data("classifier"), MISSING[container]())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "a\0"] * 6, r"with the character '\\x00': remove such characters"),
        ([b"a", b"a\0"] * 6, r"with the character '\\x00': remove such characters"),
        (["a" * 10_000_000, *map(str, range(11))], "of 10000000 characters, more than 1000: shorten"),
    ],
)
@pytest.mark.parametrize("container", [list, series])
def test_labels_that_numpy_would_merge_or_widen_are_refused(container, labels, message):
    with pytest.raises(ValueError, match=f"^y has a label {message}"):
        classifier(False).fit(data("classifier"), container(labels))


WEIGHT_COLUMNS = {
    "pandas Int64": lambda weights: series(weights, "Int64"),
    "pandas Float64": lambda weights: package("pandas").array(weights, dtype="Float64"),
    "polars": lambda weights: package("polars").Series(weights, nan_to_null=True),
    "arrow": lambda weights: chunks([None if weight != weight else weight for weight in weights]),
    "masked": lambda weights: np.ma.array(np.nan_to_num(weights), mask=np.isnan(weights)),
    "strict": strict,
    "list": list,
}


@MONITORED
@pytest.mark.parametrize("container", WEIGHT_COLUMNS)
def test_weights(container, monitored):
    def fitted(X, weights):
        model = clone(ESTIMATORS["directions"])
        if monitored:
            model.set_callbacks(HeldOutMonitor(fraction=0.3, random_state=0))
        return model.fit(X, sample_weight=weights)

    X, column = data("directions"), WEIGHT_COLUMNS[container]
    found = fitted(arrow(X), column(WEIGHTS)).score_samples(arrow(X))
    np.testing.assert_array_equal(found, fitted(X, WEIGHTS).score_samples(X))
    if monitored:
        return  # the missing weight may be of a row that is held out
    with pytest.raises(ValueError, match="Input sample_weight contains NaN"):
        fitted(X, column(np.r_[np.nan, WEIGHTS[1:]]))


def test_labels_of_held_out_rows_of_any_table():
    X = data("directions")
    wanted = clone(ESTIMATORS["directions"]).set_callbacks(HeldOutMonitor(random_state=0)).fit_predict(X)
    for table in (polars(X), arrow(X), arrow(X).to_batches()[0], Capsule(X), strict(X)):
        model = clone(ESTIMATORS["directions"]).set_callbacks(HeldOutMonitor(random_state=0))
        np.testing.assert_array_equal(model.fit_predict(table), wanted)
