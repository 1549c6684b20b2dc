"""What cannot be read is refused in one sentence that says what to do, before the fit begins."""

import os
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skmanifold import DPMixture, MixtureImputer, distributed

from ._containers import arrow, package, pandas, polars, sparse_columns, strict
from ._estimators import ESTIMATORS, LABELS, data, with_missing


def refusal(name, X, y=None):
    model = clone(ESTIMATORS[name])
    with pytest.raises((TypeError, ValueError)) as caught:
        model.fit(X, LABELS if name == "classifier" and y is None else y)
    assert not hasattr(model, "n_features_in_")
    return str(caught.value)


@pytest.mark.parametrize("table", [pandas, polars, arrow])
def test_strings(table):
    X = data("gaussian")
    frame = polars(X).to_pandas().astype({"b": object}) if table is pandas else polars(X)
    words = ["7", "many"] * 6
    if table is pandas:
        frame["b"] = words
    else:
        library = package("polars")
        frame = frame.with_columns(library.Series("b", words).cast(library.Categorical))
    frame = frame.to_arrow() if table is arrow else frame
    encode = "remove the column, or encode it first, for example by OneHotEncoder in a ColumnTransformer."
    auto = 'set emission="auto", which describes texts and categories, or remove the column.'
    for name, needs in (("lda", f"needs numbers: {encode}"), ("gaussian", f"needs numbers with this emission: {auto}")):
        who = type(ESTIMATORS[name]).__name__
        assert refusal(name, frame) == f"Column 'b' of X has 'many', but {who} {needs}"
    assert "encode the columns by OrdinalEncoder" in refusal("dp codes", frame)
    assert 'or use DPMixture(emission="auto"), which reads' in refusal("dp codes", frame)
    assert 'or use emission="auto", which reads' in refusal("dp rows of codes", frame)


@pytest.mark.parametrize("container", [np.array, list])
def test_strings_without_names_of_columns(container):
    X = container([[1.0, "7", "a"]] * 12 if container is list else np.array([[1.0, "7", "a"]] * 12, dtype=object))
    for name in ("gaussian", "subspaces"):
        assert refusal(name, X).startswith(
            f"Column 2 of X has 'a', but {type(ESTIMATORS[name]).__name__} needs numbers"
        )
    assert refusal("directions", X).startswith("Column 2 of X has 'a', but VonMisesFisherMixture takes directions")


@pytest.mark.parametrize("table", [pandas, polars, arrow])
@pytest.mark.parametrize("name", ["directions", "dp", "poisson"])
def test_columns_of_categories_where_counts_or_directions_are_needed(name, table):
    frame = polars(data("gaussian")).with_columns(package("polars").Series("plan", ["basic", "family"] * 6))
    message = refusal(name, {pandas: frame.to_pandas, polars: lambda: frame, arrow: frame.to_arrow}[table]())
    vectorizer = "TfidfVectorizer" if name == "directions" else "CountVectorizer"
    instead = 'emission="auto"' if name == "poisson" else 'DPMixture(emission="auto")'
    assert message == (
        f"Column 'plan' of X has 'basic', but {type(ESTIMATORS[name]).__name__} takes "
        f"{'directions' if name == 'directions' else 'counts'}: put {vectorizer} before it in a pipeline if this is a "
        f"text, or use {instead} if it is a category."
    )


@pytest.mark.parametrize("name", [*ESTIMATORS, "auto", "imputer"])
def test_none(name):
    more = {"auto": DPMixture("auto"), "imputer": MixtureImputer()}
    model = clone({**ESTIMATORS, **more}[name])
    expected = "^X is None: pass data with a row for each sample, such as an array or a data frame[.]$"
    for method in ("fit", "partial_fit"):
        if hasattr(model, method):
            with pytest.raises(ValueError, match=expected):
                getattr(model, method)(None, *([LABELS] if name == "classifier" else []))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("directions", "DPMixture('von_mises_fisher') infers the number of components"),
        ("gaussian", "DPMixture infers the number of components"),
        ("subspaces", "with None the number of subspaces is inferred"),
        ("spherical", "to choose it, compare held-out scores of several numbers"),
        ("admixture", "to choose it, compare held-out scores of several numbers"),
        ("lda", "HDPAdmixture infers the number of topics"),
        ("orthogonal", "with None the number of topics is inferred"),
    ],
)
def test_other_values_for_the_number_of_components(name, advice):
    for wrong in ("auto", 0):
        model = clone(ESTIMATORS[name]).set_params(n_components=wrong)
        with pytest.raises(ValueError, match=r"^The 'n_components' parameter of \w+ must be ") as caught:
            model.fit(data(name))
        assert str(caught.value).endswith(f" ({advice}). Got {wrong!r} instead.")


@pytest.mark.parametrize("name", ["lda", "dp codes", "subspaces"])
def test_dates(name):
    X = data(name)
    dates = X.astype("datetime64[D]")
    cure = "but numbers are needed: convert it to numbers first, for example to days."
    if name == "dp codes":
        assert "encode the columns by OrdinalEncoder" in refusal(name, dates)
    else:
        assert refusal(name, dates) == f"X has the type datetime64[D], {cure}"
    assert refusal(name, pandas(X).assign(b=dates[:, 1])).startswith("Column 'b' of X has the type datetime64")
    library = package("polars")
    table = polars(X).with_columns(library.Series("c", dates[:, 2]).cast(library.Date))
    assert refusal(name, table) == f"Column 'c' of X has the type Date, {cure}"
    assert refusal(name, table.to_arrow()) == f"Column 'c' of X has the type date32[day], {cure}"


def texts():
    return package("polars").DataFrame({"text": ["a b c", "b c d"]})


NO_NUMBERS = {
    "texts": (texts, "X has strings, but StochasticLDA takes counts: put CountVectorizer before it in a pipeline."),
    "texts of arrow": (
        lambda: texts().to_arrow(),
        "X has strings, but StochasticLDA takes counts: put CountVectorizer",
    ),
    "lists": (
        lambda: polars(data("lda")).with_columns(package("polars").concat_list("a", "b").alias("b")),
        "Column 'b' of X has ",
    ),
    "not in memory": (
        lambda: polars(data("lda")).lazy(),
        "X is a LazyFrame, which is not in memory: pass X.collect().",
    ),
    "another device": (
        lambda: strict(data("lda"), device=package("array_api_strict").Device("device1")),
        "X is a array_api_strict.Array that numpy cannot read: copy it",
    ),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_what_has_no_numbers_in_memory(case):
    make, sentence = NO_NUMBERS[case]
    assert refusal("lda", make()).startswith(sentence)


@pytest.mark.long  # the import takes seconds
def test_data_frames_of_dask():
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pandas(data("lda")), npartitions=2)
    for session in (nullcontext(), distributed(None)):  # without a cluster
        with session:
            for name in ("gaussian", "lda"):
                assert refusal(name, frame) == (
                    "X is a data frame of Dask, which only a fit within `with skmanifold.distributed(client):` reads: "
                    "pass X.compute()."
                )


@pytest.mark.parametrize("name", ["dp codes", "gaussian", "subspaces", "any subspaces", "classifier"])
def test_sparse_columns_where_data_are_dense(name):
    message = refusal(name, sparse_columns(data(name)))
    assert message == "X is a data frame of sparse columns, but dense data are needed: pass X.sparse.to_dense()."


@pytest.mark.parametrize("table", [lambda X: pandas(X, "Int64"), polars, arrow], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize("name", ["lda", "directions"])
def test_missing_cells(name, table):
    assert refusal(name, table(with_missing(name))) == refusal(name, with_missing(name))


def test_tables_by_capsule_without_pyarrow(monkeypatch):
    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    cure = "install it, or pass a numpy array."
    assert refusal("lda", Capsule()) == f"X is a Capsule, which requires pyarrow: {cure}"


def test_another_order_of_columns():
    X = data("lda")
    for table in (pandas(X), polars(X), arrow(X), arrow(X).to_batches()[0], sparse_columns(X)):
        model = clone(ESTIMATORS["lda"]).fit(table)
        for other in (pandas(X), polars(X), sparse_columns(X)):
            assert np.array_equal(model.transform(other), model.transform(table))
            with pytest.raises(ValueError, match="Feature names must be in the same order"):
                model.transform(other[["b", "a", "c", "d"]])
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            model.transform(X)


@pytest.mark.parametrize("name", ["gaussian", "lda", "directions", "spherical", "subspaces"])
@pytest.mark.parametrize("part", [np.asarray, lambda X: X[2:], lambda X: X])
def test_files_that_are_truncated_after_they_were_mapped(name, part, tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.tile(data(name), (400, 1)))
    X = part(np.load(path, mmap_mode="r"))
    size = path.stat().st_size
    os.truncate(path, 1000)
    expected = f"X is mapped from the file {path}, which is truncated: it has 1000 bytes of {size}."
    assert refusal(name, X) == expected


def test_truncated_files_of_the_entries_of_a_sparse_matrix(tmp_path):
    X = sp.csr_array(data("lda"))
    np.save(tmp_path / "data.npy", X.data)
    X.data = np.load(tmp_path / "data.npy", mmap_mode="r")
    os.truncate(tmp_path / "data.npy", 130)
    assert "which is truncated: it has 130 bytes" in refusal("lda", X)
