"""Containers of numbers as people have them, each made of a plain array; packages are imported where one is made."""

import tempfile

import numpy as np
import pytest
import scipy.sparse as sp

NAMES = ["a", "b", "c", "d"]


def package(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def pandas(X, types=None):
    frame = package("pandas").DataFrame(X, columns=NAMES)
    return frame if types is None else frame.astype(types)


def polars(X, types=None):
    library = package("polars")
    frame = library.DataFrame(X, schema=NAMES, nan_to_null=True)
    return frame if types is None else frame.cast(getattr(library, types))


def arrow(X, types="float64"):
    library = package("pyarrow")
    column_type = getattr(library, types)()
    scalar = column_type.to_pandas_dtype()
    columns = [[None if cell != cell else scalar(cell) for cell in column] for column in X.T]
    return library.table([library.array(column, column_type) for column in columns], NAMES)


def sparse_columns(X, types=float, fill=0):
    return pandas(X, package("pandas").SparseDtype(types, fill))


def codes(X):
    """Categories of whole numbers, the missing ones with the code -1."""
    categorical = package("pandas").Categorical
    columns = {n: np.where(np.isnan(x), -1, x).astype(int) for n, x in zip(NAMES, X.T, strict=True)}
    return package("pandas").DataFrame({n: categorical.from_codes(x, range(20)) for n, x in columns.items()})


def dictionaries(X):
    table = arrow(X)
    for place, name in enumerate(NAMES):
        table = table.set_column(place, name, table.column(name).dictionary_encode())
    return table


class Capsule:
    """A table that is known by Arrow's PyCapsule interface alone."""

    def __init__(self, X):
        self.table = arrow(X)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def on_disk(X):
    with tempfile.TemporaryFile() as file:
        stored = np.memmap(file, X.dtype, "w+", shape=X.shape)
        stored[:] = X
    stored.flags.writeable = False
    return stored


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def read_only_csr(X):
    csr = sp.csr_array(X)
    for part in (csr.data, csr.indices, csr.indptr):
        part.flags.writeable = False
    return csr


def wide_indices(X):
    csr = sp.csr_array(X)
    return sp.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=X.shape)


def strict(X, **options):
    return package("array_api_strict").asarray(X, **options)


def dask(X):
    return package("dask.array").from_array(X, chunks=(5, 2))


def dask_csr(X):
    return package("dask.array").from_array(X, chunks=(5, X.shape[1])).map_blocks(sp.csr_matrix)


ARRAYS = {
    "read-only": read_only,
    "memmap": on_disk,
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "big-endian": lambda X: X.astype(">f8"),
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "int8": lambda X: X.astype(np.int8),
    "uint64": lambda X: X.astype(np.uint64),
    "objects": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    "no mask": lambda X: np.ma.array(X),
    "strict": strict,
    "strict int64": lambda X: strict(X.astype(int)),
    "dask": dask,
}
SPARSE = {
    **{
        f"{layout}_{kind}": getattr(sp, f"{layout}_{kind}")
        for layout in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
        for kind in ("array", "matrix")
    },
    "csr int8": lambda X: sp.csr_array(X.astype(np.int8)),
    "csr int64": lambda X: sp.csr_array(X.astype(np.int64)),
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr wide": wide_indices,
    "csr read-only": read_only_csr,
    "dask csr": dask_csr,
}
SPARSE_FRAMES = {
    "pandas sparse": sparse_columns,
    "pandas sparse int": lambda X: sparse_columns(X.astype(int), int),
    "pandas sparse nan": lambda X: sparse_columns(X, fill=np.nan),
    "pandas sparse one": lambda X: sparse_columns(X, fill=1),
}
SOME_SPARSE_COLUMNS = {
    "pandas some sparse": lambda X: sparse_columns(X).astype({"a": float, "c": "Int64"}),
}
TABLES = {
    "pandas": pandas,
    "pandas Int64": lambda X: pandas(X, "Int64"),
    "pandas Float32": lambda X: pandas(X, "Float32"),
    "pandas mixed": lambda X: pandas(X, {"a": "Int8", "b": "float32", "c": "category"}),
    "pandas category": lambda X: pandas(X, "category"),
    "pandas codes": codes,
    "pandas objects": lambda X: pandas(X, object),
    "pandas arrow": lambda X: (package("pyarrow"), pandas(X, "Int64").astype("int64[pyarrow]"))[1],
    "polars": polars,
    "polars UInt8": lambda X: polars(X, "UInt8"),
    "polars Float32": lambda X: polars(X, "Float32"),
    "arrow": arrow,
    "arrow int32": lambda X: arrow(X, "int32"),
    "arrow chunks": lambda X: package("pyarrow").concat_tables([arrow(X[:3]), arrow(X[3:])]),
    "arrow batch": lambda X: arrow(X).to_batches()[0],
    "arrow dictionaries": dictionaries,
    "capsule": Capsule,
}
# What holds missing cells, of an array with NaN
WITH_MISSING = {
    "pandas": pandas,
    "pandas Int64": lambda X: pandas(X, "Int64"),
    "pandas NA": lambda X: pandas(X, "Int64").astype(object),
    "pandas None": lambda X: pandas(np.where(np.isnan(X), None, X)),
    "pandas category": lambda X: pandas(X, "Int64").astype("category"),
    "pandas codes": codes,
    "pandas arrow": lambda X: (package("pyarrow"), pandas(X, "Int64").astype("int64[pyarrow]"))[1],
    "polars": polars,
    "polars Int64": lambda X: polars(X, "Int64"),
    "arrow": arrow,
    "arrow int32": lambda X: arrow(X, "int32"),
    "arrow dictionaries": dictionaries,
    "objects None": lambda X: np.where(np.isnan(X), None, X),
    "objects NA": lambda X: np.where(np.isnan(X), package("pandas").NA, X),
    "masked": lambda X: np.ma.array(np.nan_to_num(X, nan=3.0), mask=np.isnan(X)),
    "masked int": lambda X: np.ma.array(np.nan_to_num(X, nan=3.0).astype(int), mask=np.isnan(X)),
    "strict": strict,
}
MISSING_IN_SPARSE = {
    "csr": sp.csr_array,
    "pandas sparse": sparse_columns,
    "pandas sparse nan": lambda X: sparse_columns(X, fill=np.nan),
    "pandas some sparse": lambda X: sparse_columns(X).astype({"c": "Int64", "d": "category"}),
}
