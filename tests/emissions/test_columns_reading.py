"""Tables with columns of several types: what is read from each library, and what is refused."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skmanifold import ExponentialFamilyMixture, load
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, Poisson
from skmanifold.emissions._columns.layout import open_table

pytestmark = [
    pytest.mark.filterwarnings("ignore:EM stopped"),
    pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent"),
    pytest.mark.filterwarnings("ignore:X (does not have|has) (valid )?feature names"),
]

N = 24
RNG = np.random.default_rng(0)
HIDDEN = np.arange(N) % 5 == 0
FLOATS, INTS, BOOLS = (
    RNG.normal(size=N).round(3).tolist(),
    (np.arange(N) % 3).tolist(),
    (np.arange(N) % 2 == 0).tolist(),
)
STRINGS = ["abc"[i] for i in INTS]
DECIMALS = [Decimal(25 * i).scaleb(-2) for i in range(N)]  # of one exponent, as polars 1.0 needs
DAYS = [datetime.date(2020, 1, 1 + i) for i in range(N)]


def holed(cells):
    return [None if hidden else cell for cell, hidden in zip(cells, HIDDEN, strict=True)]


def mixed_table():
    """A table with all kinds of columns and missing cells, by columns."""
    return {"size": holed(FLOATS), "count": INTS, "colour": holed(STRINGS), "answer": BOOLS}


def rows_of(columns):
    return [list(row) for row in zip(*columns.values(), strict=True)]


def as_object_array(columns):
    array = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=object)
    for j, cells in enumerate(columns.values()):
        array[:, j] = cells
    return array


LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "pyarrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "numpy": as_object_array,
    "list": rows_of,
}


def make_mixture(emission="auto", **settings):
    return ExponentialFamilyMixture(2, emission=emission, sampler="em", max_iter=5, random_state=0, **settings)


def fit(X, emission="auto"):
    return make_mixture(emission).fit(X)


def refused(action, message, error=ValueError):
    """Check that an action raises an error with one sentence that matches."""
    with pytest.raises(error, match=message) as caught:
        action()
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert ". " not in sentence


KINDS = {
    float: "float",
    Decimal: "float",
    int: "int",
    np.int8: "int",
    bool: "bool",
    str: "category",
    np.str_: "category",
}


def check_column(table, cells, categories=None):
    """Check what is read from the column 1 of a table, and that a mixture can be fitted to it.

    Without `categories`, the type of the cells decides; strings have those that occur.
    """
    present = [cell for cell in cells if cell is not None]
    kind = "category" if categories else KINDS.get(type(present[-1]), "category")
    categories = categories or (sorted(set(present)) if kind == "category" else None)
    read = open_table(table).read(1)
    assert read.kind == kind
    code = float if categories is None else categories.index
    np.testing.assert_array_equal(read.values, [np.nan if cell is None else code(cell) for cell in cells])
    if categories is None:
        assert read.categories is None
    else:
        assert read.categories.tolist() == categories
        assert (read.categories.dtype.kind == "O") == isinstance(categories[0], str)
    mixture = fit(table)
    found = mixture.categories_[1]
    assert (None if found is None else found.tolist()) == categories
    assert np.isfinite(mixture.predict_proba(table)).all()


def arrow(name):
    pytest.importorskip("pyarrow")
    return f"{name}[pyarrow]"


def categorical(cells, categories=None, ordered=False):
    return pd.Series(pd.Categorical(cells, categories, ordered=ordered))


PANDAS = {
    "float64": (lambda _: pd.Series(FLOATS), FLOATS),
    "NaN": (lambda _: pd.Series(holed(FLOATS), dtype=float), holed(FLOATS)),
    "float32": (lambda _: pd.Series(DECIMALS, dtype="float32"), DECIMALS),
    "Float64": (lambda _: pd.Series(holed(FLOATS), dtype="Float64"), holed(FLOATS)),
    "int64": (lambda _: pd.Series(INTS), INTS),
    "uint8": (lambda _: pd.Series(INTS, dtype="uint8"), INTS),
    "Int64": (lambda _: pd.Series(holed(INTS), dtype="Int64"), holed(INTS)),
    "bool": (lambda _: pd.Series(BOOLS), BOOLS),
    "boolean": (lambda _: pd.Series(holed(BOOLS), dtype="boolean"), holed(BOOLS)),
    "sparse": (lambda _: pd.Series(pd.arrays.SparseArray(FLOATS)), FLOATS),
    "category": (lambda _: categorical(holed(STRINGS)), holed(STRINGS)),
    "ordered": (lambda _: categorical(STRINGS, ["c", "z", "a", "b"], True), STRINGS, ["c", "z", "a", "b"]),
    "unobserved": (lambda _: categorical(holed(STRINGS), list("zcba")), holed(STRINGS), list("zcba")),
    "category of int": (lambda _: categorical(holed(INTS), [2, 1, 0]), holed(INTS), [2, 1, 0]),
    "category of Int64": (lambda _: categorical(pd.Series(INTS, dtype="Int64")), INTS, [0, 1, 2]),
    "category of float": (lambda _: categorical(np.array(INTS) / 2), [0.5 * i for i in INTS], [0, 0.5, 1]),
    "category of bool": (lambda _: categorical(holed(BOOLS)), holed(BOOLS), [False, True]),
    "objects of str": (lambda _: pd.Series(holed(STRINGS), dtype=object), holed(STRINGS)),
    "string": (lambda _: pd.Series(holed(STRINGS), dtype="string"), holed(STRINGS)),
    "str": (lambda _: pd.Series(holed(STRINGS), dtype="str"), holed(STRINGS)),
    "objects of int": (lambda _: pd.Series(holed(INTS), dtype=object), holed(INTS)),
    "objects of float": (lambda _: pd.Series(holed(FLOATS), dtype=object), holed(FLOATS)),
    "objects of both": (lambda _: pd.Series([1, 0.5] * 12, dtype=object), [1, 0.5] * 12),
    "objects of bool": (lambda _: pd.Series(holed(BOOLS), dtype=object), holed(BOOLS)),
    "objects of Decimal": (lambda _: pd.Series(holed(DECIMALS), dtype=object), holed(DECIMALS)),
    "objects with NA": (lambda _: pd.Series([pd.NA, *STRINGS[1:]], dtype=object), [None, *STRINGS[1:]]),
    "int64 of pyarrow": (lambda _: pd.Series(holed(INTS), dtype=arrow("int64")), holed(INTS)),
    "double of pyarrow": (lambda _: pd.Series(holed(FLOATS), dtype=arrow("double")), holed(FLOATS)),
    "bool of pyarrow": (lambda _: pd.Series(holed(BOOLS), dtype=arrow("bool")), holed(BOOLS)),
}


POLARS = {
    "Float64": (lambda pl: pl.Series(holed(FLOATS)), holed(FLOATS)),
    "Float32": (lambda pl: pl.Series(list(map(float, DECIMALS)), dtype=pl.Float32), DECIMALS),
    "Decimal": (lambda pl: pl.Series(holed(DECIMALS)), holed(DECIMALS)),
    "Int64": (lambda pl: pl.Series(holed(INTS)), holed(INTS)),
    "UInt8": (lambda pl: pl.Series(INTS, dtype=pl.UInt8), INTS),
    "Boolean": (lambda pl: pl.Series(holed(BOOLS)), holed(BOOLS)),
    "String": (lambda pl: pl.Series(holed(STRINGS)), holed(STRINGS)),
    "Categorical": (lambda pl: pl.Series(holed(STRINGS), dtype=pl.Categorical), holed(STRINGS)),
    "Enum": (lambda pl: pl.Series(holed(STRINGS), dtype=pl.Enum(list("czab"))), holed(STRINGS), list("czab")),
    "Object": (lambda pl: pl.Series(holed(INTS), dtype=pl.Object), holed(INTS)),
}


ARROW = {
    "double": (lambda pa: pa.array(holed(FLOATS)), holed(FLOATS)),
    "float32": (lambda pa: pa.array(list(map(float, DECIMALS)), pa.float32()), DECIMALS),
    "decimal": (lambda pa: pa.array(holed(DECIMALS), pa.decimal128(10, 3)), holed(DECIMALS)),
    "int64": (lambda pa: pa.array(holed(INTS)), holed(INTS)),
    "uint8": (lambda pa: pa.array(INTS, pa.uint8()), INTS),
    "below 2**53": (lambda pa: pa.array([2**53 - 1 - i for i in INTS]), [2**53 - 1 - i for i in INTS]),
    "bool": (lambda pa: pa.array(holed(BOOLS)), holed(BOOLS)),
    "string": (lambda pa: pa.array(holed(STRINGS)), holed(STRINGS)),
    "large_string": (lambda pa: pa.array(holed(STRINGS), pa.large_string()), holed(STRINGS)),
    "string_view": (lambda pa: pa.array(holed(STRINGS), pa.string_view()), holed(STRINGS)),
    "dictionary": (lambda pa: pa.array(holed(STRINGS)).dictionary_encode(), holed(STRINGS)),
    "dictionary of int": (lambda pa: pa.array(holed(INTS)).dictionary_encode(), holed(INTS)),
    "chunks": (lambda pa: pa.chunked_array([STRINGS[:9], STRINGS[9:]]), STRINGS),
}


TYPES = {"pandas": PANDAS, "polars": POLARS, "pyarrow": ARROW}


@pytest.mark.parametrize(("library", "name"), [(library, name) for library in TYPES for name in TYPES[library]])
def test_types_of_columns(library, name):
    make, *expected = TYPES[library][name]
    check_column(LIBRARIES[library]({"x": FLOATS, "c": make(pytest.importorskip(library))}), *expected)


@pytest.mark.parametrize("form", ["numpy", "list", "tuples"])
@pytest.mark.parametrize(
    "cells",
    [
        *(holed(FLOATS), holed(INTS), BOOLS, holed(BOOLS), holed(STRINGS), holed(DECIMALS)),
        *([np.str_(cell) for cell in STRINGS], [np.int8(cell) for cell in INTS]),
    ],
)
def test_arrays_of_objects_and_lists(cells, form):
    """Cells of lists keep their types: numpy alone would convert booleans next to numbers to numbers."""
    columns = {"x": holed(FLOATS), "c": cells}
    X = as_object_array(columns) if form == "numpy" else rows_of(columns)
    check_column([tuple(row) for row in X] if form == "tuples" else X, cells)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, Decimal("NaN"), np.float32("nan")])
@pytest.mark.parametrize("form", ["numpy", "list", "pandas"])
def test_missing_cells_of_objects(missing, form):
    X = LIBRARIES[form]({"x": FLOATS, "c": [missing, *STRINGS[1:]]})
    check_column(X, [None, *STRINGS[1:]])


def test_arrays_of_one_type():
    for array, kind in [
        (np.array([FLOATS, FLOATS]).T, "float"),
        (np.array([INTS, INTS]).T, "int"),
        (np.array([BOOLS, BOOLS]).T, "bool"),
        (np.array([STRINGS, STRINGS]).T, "category"),
    ]:
        read = open_table(array).read(1)
        assert read.kind == kind
        assert fit(array).sample(3, random_state=0)[0].shape == (3, 2)
    masked = np.ma.masked_array(np.array([FLOATS, FLOATS]).T, np.array([~HIDDEN & False, HIDDEN]).T)
    check_column(masked, holed(FLOATS))


def test_the_same_table_in_each_library_gives_the_same_answer():
    tables = {name: make(mixed_table()) for name, make in LIBRARIES.items()}
    mixtures = {name: fit(X) for name, X in tables.items()}
    expected = mixtures["pandas"].predict_proba(tables["pandas"])
    assert np.ptp(expected) > 0.5
    for mixture in mixtures.values():
        assert [len(parts[0]) for parts in mixture.components_] == [1, 1, 3, 1]
        for X in tables.values():
            np.testing.assert_array_equal(mixture.predict_proba(X), expected)


REFUSED = {
    "dates": (
        lambda: {"a": pd.Series(pd.to_datetime(DAYS))},
        r"Column 'a' of X has the type datetime64.* convert it to numbers",
    ),
    "zoned": (lambda: {"a": pd.Series(pd.to_datetime(DAYS, utc=True))}, "Column 'a' of X has the type datetime64"),
    "durations": (lambda: {"a": pd.to_timedelta(INTS, "D")}, "Column 'a' of X has the type timedelta64"),
    "periods": (lambda: {"a": pd.period_range("2020", periods=N)}, "Column 'a' of X has the type period"),
    "intervals": (lambda: {"a": pd.cut(FLOATS, 3)}, "Column 'a' of X has the type interval"),
    "date objects": (
        lambda: {"a": DAYS},
        "Column 'a' of X has cells of the type date, .* convert it to numbers, booleans or",
    ),
    "lists": (lambda: {"a": [[1, 2]] * N}, "Column 'a' of X has cells of the type list, .* or remove it from X"),
    "dicts": (lambda: {"a": [{}] * N}, "Column 'a' of X has cells of the type dict"),
    "mixed": (lambda: {"a": [1, "x"] * 12}, "Column 'a' of X has cells of the types int and string"),
    "bool and int": (lambda: {"a": pd.Series([True, 2] * 12, dtype=object)}, "cells of the types bool and int"),
    "mixed categories": (lambda: {"a": pd.Categorical([1, "x"] * 12)}, "categories of the types int and string"),
    "complex": (lambda: {"a": np.array(FLOATS) + 1j}, "Column 'a' of X has the type complex128"),
    "infinite": (lambda: {"a": [np.inf, *FLOATS[1:]]}, "Column 'a' of X contains infinity: .* set them to NaN"),
    "no number": (lambda: {"a": [np.nan] * N}, "Column 'a' of X has no observed cell"),
    "None": (lambda: {"a": [None] * N}, "Column 'a' of X has no observed cell"),
    "no category": (lambda: {"a": pd.Categorical([None] * N)}, "Column 'a' of X has no observed cell: remove such"),
    "0 rows": (lambda: {"a": []}, r"Found array with 0 sample\(s\)"),
}


@pytest.mark.parametrize(("columns", "message"), REFUSED.values(), ids=REFUSED)
def test_pandas_refused(columns, message):
    refused(lambda: fit(pd.DataFrame(columns())), message)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (DAYS, "Column 'a' of X has the type date.*, but numbers are needed: convert it to numbers"),
        ([datetime.timedelta(1)] * N, "Column 'a' of X has the type duration"),
        ([[1, 2]] * N, "Column 'a' of X has the type list.* or remove it from X"),
        ([{"u": 1}] * N, "Column 'a' of X has the type struct"),
        ([b"u"] * N, "Column 'a' of X has the type binary"),
        ([None] * N, "Column 'a' of X has no observed cell"),
        ([np.inf, *FLOATS[1:]], "Column 'a' of X contains infinity"),
    ],
)
def test_other_libraries_refused(library, cells, message):
    X = LIBRARIES[library]({"a": cells})
    refused(lambda: fit(X), f"(?i){message}")


NESTED = np.empty((N, 1), dtype=object)
NESTED[:, 0] = [np.zeros(2) for _ in range(N)]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (FLOATS, "Reshape your data: expected 2D array, got 1D array instead"),
        (np.array(FLOATS), "Reshape your data: expected 2D array, got 1D"),
        (pd.Series(FLOATS), "Reshape your data: expected 2D array, got 1D"),
        (np.zeros((4, 2, 2)), "Reshape your data: expected 2D array, got 3D"),
        ([], "Reshape your data: expected 2D array"),
        ([[]], r"Found array with 0 feature\(s\)"),
        (pd.DataFrame(index=range(3)), r"Found array with 0 feature\(s\)"),
        ([[1.0, 2.0], [3.0]], "X has rows of different lengths: give each row a cell for each column"),
        ([[1.0, [2, 3]], [2.0, [3, 4]], [0.5, [1]]], "Column 1 of X has cells of the type list"),
        (NESTED, "Column 0 of X has cells of the type ndarray"),
        (np.array([FLOATS]).T + 1j, "Complex data not supported, but Column 0 of X"),
        (np.array([DAYS], dtype="datetime64[D]").T, "X has the type datetime64"),
        (np.array([STRINGS], dtype="S1").T, "Column 0 of X has cells of the type bytes"),
        ([["a", 1.0], ["b", "x"]], "Column 1 of X has cells of the types float and string"),
    ],
)
def test_arrays_and_lists_refused(X, message):
    refused(lambda: fit(X), message)


def test_sparse_and_lazy_tables_are_refused():
    refused(lambda: fit(sp.csr_array(np.eye(4))), r"does not take sparse X: pass X.toarray\(\)", TypeError)
    lazy = pytest.importorskip("polars").DataFrame({"a": FLOATS}).lazy()
    refused(lambda: fit(lazy), r"not in memory: pass X.collect\(\)", TypeError)


def test_columns_with_the_same_name_are_refused():
    message = "X has two columns with the name 'a': give each column its own name"
    refused(lambda: fit(pd.DataFrame(np.zeros((4, 3)), columns=["a", "b", "a"])), message)
    pyarrow = pytest.importorskip("pyarrow")
    refused(lambda: fit(pyarrow.Table.from_arrays([pyarrow.array(FLOATS)] * 2, names=["a", "a"])), message)


def test_large_numbers_are_not_merged_as_categories():
    X = pd.DataFrame({"x": FLOATS, "id": [2**62 + i for i in INTS]})
    emission = Columns([("x", Gaussian("diag"), "x"), ("id", Categorical(), "id")])
    refused(lambda: fit(X, emission), r"Column 'id' of X has whole numbers .* of 2\*\*53 or more .*to strings")
    assert fit(X.astype({"id": str}), emission).categories_[1].shape == (3,)


@pytest.mark.parametrize("emission", [Gaussian("diag"), Poisson()])
def test_strings_are_no_numbers(emission):
    message = "strings such as 'a', but the block 'k' of Columns needs numbers: .* Categorical"
    refused(lambda: fit(pd.DataFrame({"a": STRINGS}), Columns([("k", emission, "a")])), message)


def test_a_count_that_is_too_large_is_refused_by_name():
    X = pd.DataFrame({"x": FLOATS, "n": [3e9, *INTS[1:]]})
    refused(lambda: fit(X, Columns(count_columns="n")), r"Column 'n' of X has a count of 3e\+09; at most 2147483647")


def test_errors_of_a_block_name_the_column():
    X = pd.DataFrame({"x": FLOATS, "n": INTS})
    blocks = [("size", Gaussian("diag"), "x"), ("events", Bernoulli(), "n")]
    refused(lambda: fit(X, Columns(blocks)), "Block 'events' of Columns: .* X has 2 in row 2, column 'n'")
    refused(
        lambda: fit(X, Columns(count_columns="x")), "Block 'counts' of Columns: Column 'x' of X has -.* of at least 0"
    )


def test_categories_of_large_numbers_stay_exact(tmp_path):
    large = [2**64 - 1, 2**64 - 2, 5]  # float64 has no difference between the first two
    X = pd.DataFrame({"id": pd.Categorical(np.array(large * 8, dtype=np.uint64), np.array(large, dtype=np.uint64))})
    mixture = fit(X)
    mixture.save(tmp_path / "mixture")
    for each in (mixture, load(tmp_path / "mixture")):
        assert each.categories_[0].tolist() == large
        drawn = each.sample(200, random_state=0)[0]["id"]
        assert set(drawn) == set(large)
        np.testing.assert_array_equal(each.predict_proba(X), mixture.predict_proba(X))


def test_draws_of_whole_numbers_do_not_wrap():
    X = pd.DataFrame({"n": np.array([2**53 - 1, -(2**53) + 1] * 12)})
    drawn = (
        ExponentialFamilyMixture(1, emission="auto", sampler="em", random_state=0).fit(X).sample(400, random_state=0)
    )
    assert np.abs(drawn[0]["n"]).max() > 2**53
    assert drawn[0]["n"].dtype == float
    small = fit(pd.DataFrame({"n": np.array([127, 126, 125] * 8, dtype=np.int8)})).sample(100, random_state=0)[0]["n"]
    assert 120 < small.min() < small.max() < 135


def test_errors_name_columns_of_arrays_by_plain_indices():
    emission = Columns([("a", Gaussian(), [0, 1])])
    with pytest.raises(ValueError, match=r"^Column 1 of X contains infinity"):
        ExponentialFamilyMixture(1, emission=emission).fit(np.array([[0.0, np.inf], [1.0, 2.0]]))
