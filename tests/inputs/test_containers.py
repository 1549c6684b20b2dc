"""Every container of the same numbers gives the same result as a plain array, bit for bit.

Sparse directions give the result of a CSR array, because dense ones have products of another rounding.
"""

import sys
import tracemalloc
from functools import cache
from importlib.util import find_spec

import pytest
import scipy.sparse as sp
import sklearn
from numba.core.dispatcher import Dispatcher
from sklearn.base import clone

from skmanifold import HeldOutMonitor, StochasticLDA, distributed
from skmanifold.sparse.counts import validate_counts

from ._containers import (
    ARRAYS,
    MISSING_IN_SPARSE,
    NAMES,
    SOME_SPARSE_COLUMNS,
    SPARSE,
    SPARSE_FRAMES,
    TABLES,
    WITH_MISSING,
    dask,
    strict,
)
from ._estimators import ALLOW_MISSING, DENSE_ONLY, ESTIMATORS, LABELS, assert_same, data, results, with_missing

NAMED = ("pandas", "polars", "arrow", "capsule")
# Of few counts
pytestmark = pytest.mark.filterwarnings("ignore:Each column of X holds a few small whole numbers:UserWarning")


@cache
def plain_results(name, missing=False, sparse=False):
    X = with_missing(name) if missing else data(name)
    return results(name, sp.csr_array(X) if sparse else X)


def n_signatures():
    """Compiled versions of all kernels."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("skmanifold.")]
    kernels = {id(part): part for module in modules for part in vars(module).values() if isinstance(part, Dispatcher)}
    return sum(len(kernel.signatures) for kernel in kernels.values())


def check(name, containers, container, X, missing=False):
    wanted = plain_results(name, missing, sparse=name in OF_DIRECTIONS and container in OF_SPARSE)
    compiled = n_signatures()
    found = results(name, containers[container](X))
    assert_same(found, wanted)
    assert found["names"] == (NAMES if container.startswith(NAMED) else [])
    assert n_signatures() == compiled, "kernels were compiled again for this container"


OF_DIRECTIONS = "directions", "spherical", "orthogonal"
DENSE = {**ARRAYS, **TABLES}


@pytest.mark.covering
@pytest.mark.parametrize("container", DENSE)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_dense_containers(name, container):
    if (name, container) == ("directions", "float32"):
        pytest.skip("float32 directions stay float32: test_dense_directions compares them")
    check(name, DENSE, container, data(name))


@pytest.mark.parametrize("name", ["lda", "hdp", "admixture", "gaussian"])
def test_dask_arrays_are_in_memory_without_a_cluster(name):
    model, X = clone(ESTIMATORS[name]), data(name)
    expected = model.fit(X).score(X)
    with distributed(None):
        assert model.fit(dask(X)).score(X) == expected
    monitor = HeldOutMonitor(fraction=0.25, random_state=0)
    scores = [model.set_callbacks(monitor).fit(rows).score(X) for rows in (X, dask(X))]
    assert scores[0] == scores[1]


OF_SPARSE = {**SPARSE, **SPARSE_FRAMES, **SOME_SPARSE_COLUMNS}


@pytest.mark.covering
@pytest.mark.parametrize("container", OF_SPARSE)
@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - DENSE_ONLY))
def test_sparse_containers(name, container):
    check(name, OF_SPARSE, container, data(name))


@pytest.mark.covering
@pytest.mark.parametrize("container", WITH_MISSING)
@pytest.mark.parametrize("name", sorted(ALLOW_MISSING))
def test_missing_cells(name, container):
    check(name, WITH_MISSING, container, with_missing(name), missing=True)


@pytest.mark.parametrize("container", MISSING_IN_SPARSE)
def test_missing_cells_of_sparse_data(container):
    check("poisson", MISSING_IN_SPARSE, container, with_missing("poisson"), missing=True)


@pytest.mark.parametrize("name", ["bernoulli", "dp codes", "subspaces"])
def test_columns_of_yes_and_no(name):
    X = data("bernoulli")
    wanted = results(name, X)
    for types in ("bool", "boolean"):
        assert_same(results(name, TABLES["pandas"](X).astype(types)), wanted)
    assert_same(results(name, TABLES["polars"](X > 0)), wanted)
    assert_same(results(name, TABLES["arrow"](X, "bool_")), wanted)


@pytest.mark.parametrize("name", ["lda", "gaussian", "classifier"])
def test_arrays_of_other_libraries_under_dispatch(name, monkeypatch):
    if find_spec("sklearn.externals.array_api_compat") is None:  # before scikit-learn 1.7
        pytest.importorskip("array_api_compat", reason="scikit-learn needs array_api_compat")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    wanted = plain_results(name)
    with sklearn.config_context(array_api_dispatch=True):
        assert_same(results(name, strict(data(name)), strict(LABELS)), wanted)
        assert_same(results(name, data(name)), wanted)


def test_sparse_columns_are_never_dense():
    n_rows, n_columns = 20_000, 50
    X = sp.random_array((n_rows, n_columns), density=0.01, random_state=0, format="csr")
    frame = pytest.importorskip("pandas").DataFrame.sparse.from_spmatrix(X)
    tracemalloc.start()
    counts = validate_counts(StochasticLDA(), frame, reset=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (counts != X).nnz == 0
    assert peak < 0.2 * 8 * n_rows * n_columns
