"""`set_output` gives data frames with the index and names, alone and in pipelines, for any container."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ._containers import NAMES, Capsule, arrow, package, pandas, polars, sparse_columns
from ._estimators import ESTIMATORS, data

TRANSFORMERS = [name for name, estimator in ESTIMATORS.items() if hasattr(estimator, "transform")]
LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars"])


def assert_frame(found, library, values, names, index=None):
    assert isinstance(found, package(library).DataFrame)
    assert list(found.columns) == list(names)
    np.testing.assert_array_equal(found.to_numpy(), values)
    if index is not None and library == "pandas":
        assert list(found.index) == list(index)


@LIBRARIES
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name, library):
    X, index = data(name), [f"row {i}" for i in range(12)]
    plain = clone(ESTIMATORS[name]).fit(X)
    values, names = plain.transform(X), plain.get_feature_names_out()
    for table in (pandas(X).set_axis(index), polars(X)):
        of_table = index if hasattr(table, "index") else None
        model = clone(ESTIMATORS[name]).set_output(transform=library)
        assert_frame(model.fit(table).transform(table), library, values, names, of_table)
        assert_frame(clone(model).fit_transform(table), library, values, names, of_table)
        chain = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), clone(model))
        assert_frame(chain.set_output(transform=library).fit_transform(table), library, values, names, of_table)


@LIBRARIES
@pytest.mark.parametrize("table", [arrow, Capsule, sparse_columns], ids=["arrow", "capsule", "sparse columns"])
def test_other_tables(table, library):
    package(library)
    X = data("lda")
    plain = clone(ESTIMATORS["lda"]).fit(X)
    model = clone(ESTIMATORS["lda"]).set_output(transform=library).fit(table(X))
    assert_frame(model.transform(table(X)), library, plain.transform(X), plain.get_feature_names_out())


@LIBRARIES
@pytest.mark.parametrize("table", [pandas, polars])
@pytest.mark.parametrize("name", ["lda", "dp codes", "subspaces"])
def test_columns_of_a_table(name, table, library):
    package(library)
    X = data(name)
    some = clone(ESTIMATORS[name]).fit(X[:, :3])
    values = np.column_stack([some.transform(X[:, :3]), X[:, 3]])
    columns = make_column_transformer((clone(ESTIMATORS[name]), NAMES[:3]), remainder="passthrough")
    columns.set_output(transform=library).set_params(verbose_feature_names_out=False)
    assert_frame(columns.fit_transform(table(X)), library, values, [*some.get_feature_names_out(), "d"])
