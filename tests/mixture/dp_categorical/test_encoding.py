import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold.emissions import Multinomial
from skmanifold.emissions import _codes as category_tables
from skmanifold.emissions._codes import Table, category_table, fit_categories, validate_codes
from skmanifold.mixture._dp_categorical import _read_counts
from skmanifold.sparse.counts import canonical_csr, whole_counts

EMISSION = Multinomial()
KEY = np.uint64(77)


class Mixture(BaseEstimator):
    """What an estimator does with X."""

    def __init__(self, min_categories=None, handle_unknown="error"):
        self.min_categories = min_categories
        self.handle_unknown = handle_unknown

    def fit(self, X, y=None):
        codes = validate_codes(self, X, reset=True)
        self.column_start_ = fit_categories(self, codes, self.min_categories)
        self.table_ = self._table(codes)
        return self

    def encode(self, X):
        return self._table(validate_codes(self, X, reset=False))

    def _table(self, codes):
        return category_table(self, codes, self.column_start_, handle_unknown=self.handle_unknown)


def encode_by_cells(X, column_start, unknown_is_missing=False):
    """The table one cell after the other; what `category_table` does by blocks."""
    indptr, indices = [0], []
    for row in np.asarray(X, float):
        for column, value in enumerate(row):
            n_categories = column_start[column + 1] - column_start[column]
            if np.isnan(value) or (unknown_is_missing and value >= n_categories):
                continue
            assert value in range(n_categories)
            indices.append(column_start[column] + int(value))
        indptr.append(len(indices))
    return Table.of(
        np.array(indptr, np.int64), np.array(indices, np.int32), np.ones(len(indices), np.int32), np.array(column_start)
    )


def assert_same_table(table, other):
    assert_same_arrays(*([*rows[:3], rows.column_start] for rows in (table, other)))


def assert_same_arrays(arrays, others):
    for array, of_other, kind in zip(
        arrays, others, (np.int64, np.int32, np.int32, np.int64)[: len(arrays)], strict=True
    ):
        assert array.dtype == of_other.dtype == kind
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.tobytes() == of_other.tobytes()


def codes_with_gaps(n_rows=300, n_columns=7, n_categories=5, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_categories, (n_rows, n_columns)).astype(float)
    codes[rng.random(codes.shape) < missing] = np.nan
    codes[[0, n_rows // 2]] = np.nan  # rows without any token
    return codes


@pytest.mark.parametrize("cells_per_block", [1, 7, 100, 10**6])
def test_table_holds_one_token_for_each_cell_that_is_not_missing(cells_per_block, monkeypatch):
    monkeypatch.setattr(category_tables, "_CELLS_PER_BLOCK", cells_per_block)
    X = codes_with_gaps()
    X[:, 2] *= 3
    mixture = Mixture().fit(X)
    expected = np.cumsum([0, *(np.nanmax(X, axis=0) + 1)]).astype(int)
    assert expected[3] - expected[2] == 13
    np.testing.assert_array_equal(mixture.column_start_, expected)
    assert_same_table(mixture.table_, encode_by_cells(X, expected))
    assert_same_table(mixture.encode(X[40:90]), encode_by_cells(X[40:90], expected))
    table = mixture.table_
    np.testing.assert_array_equal(table.cells(), X)
    assert (table.n_rows, table.n_features) == (300, 7)


WHOLE = np.random.default_rng(1).integers(0, 2, (50, 3))
WHOLE[0] = 1


def test_categorical_integers_with_gaps_beside_plain_integers():
    # left to itself, pandas writes these gaps as -2**63
    X = pd.DataFrame({"a": pd.Categorical([0, None, 1]), "b": [0, 1, 2]})
    assert_same_table(Mixture().fit(X).table_, encode_by_cells([[0, 0], [np.nan, 1], [1, 2]], [0, 2, 5]))


def test_integers_and_floats_are_not_copied():
    for kind in (np.int8, np.float32, np.float64):
        X = WHOLE.astype(kind)
        assert np.shares_memory(validate_codes(Mixture(), X, reset=True), X)


@pytest.mark.parametrize(
    ("min_categories", "sizes"), [(None, [3, 1, 1]), (2, [3, 2, 2]), ([1, 4, 9], [3, 4, 9]), (np.int8(3), [3, 3, 3])]
)
def test_columns_have_the_categories_seen_and_at_least_those_asked_for(min_categories, sizes):
    X = np.array([[0, 0, np.nan], [2, 0, np.nan]])  # the second is constant, the third unknown
    mixture = Mixture(min_categories).fit(X)
    assert mixture.column_start_.dtype == np.int64
    np.testing.assert_array_equal(np.diff(mixture.column_start_, prepend=0), [0, *sizes])
    assert_same_table(mixture.table_, encode_by_cells(X, mixture.column_start_))


def test_unknown_codes_are_missing_where_they_are_ignored():
    mixture = Mixture(handle_unknown="ignore").fit([[0, 1], [2, 0]])
    X = [[3, 0], [1e300, 5], [np.nan, 1], [2, 2]]
    assert_same_table(mixture.encode(X), encode_by_cells(X, [0, 3, 5], unknown_is_missing=True))


@pytest.mark.parametrize("row", [0, 61])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            -1.0,
            "Negative values in data passed to Mixture: column {} of X has -1.0, but codes of categories start at 0",
        ),
        (-np.inf, "Negative values in data passed to Mixture: column {} of X has -inf, but codes of categories"),
        (1.5, "Column {} of X has 1.5, but codes of categories are whole numbers from 0 (NaN where missing)."),
        (np.inf, "Column {} of X has inf, but codes of categories are whole numbers from 0 (NaN where missing)."),
    ],
)
def test_what_is_no_code_is_refused_by_column(value, sentence, row, named, monkeypatch):
    monkeypatch.setattr(category_tables, "_CELLS_PER_BLOCK", 20)
    good, bad = np.zeros((2, 80, 3))
    bad[row, 1] = value
    if named:
        good, bad = (pd.DataFrame(X, columns=["size", "colour", "age"]) for X in (good, bad))
    start = "^" + re.escape(sentence.format("'colour'" if named else 1))
    for handle_unknown in ("error", "ignore"):
        mixture = Mixture(handle_unknown=handle_unknown).fit(good)
        for method in (mixture.encode, mixture.fit):
            with pytest.raises(ValueError, match=start):
                method(bad)


def test_negative_codes_are_told_before_others_and_how_to_mark_them():
    marks = r"encoded_missing_value=np\.nan, unknown_value=np\.nan"
    with pytest.raises(ValueError, match=rf"column 1 of X has -1, .* {marks}"):
        Mixture().fit(np.array([[10**9, 0], [0, -1]]))
    with pytest.raises(ValueError, match=r"column 1 of X has -1\.0"):
        Mixture().fit([[0.5, 0], [0, -1]])


@pytest.mark.parametrize("code", [1_000_000, 2**31, 2**63 - 1])
def test_codes_far_beyond_the_number_of_rows_are_refused(code):
    X = pd.DataFrame({"size": [0, 1], "day": [code, 0]})
    sentence = (
        f"^Column 'day' of X has the code {code}, but a column of 2 rows may have at most 1000000 categories: "
        r"number the categories from 0 first, as OrdinalEncoder does, or raise min_categories\.$"
    )
    with pytest.raises(ValueError, match=sentence):
        Mixture().fit(X)


def test_codes_up_to_the_number_of_rows_or_to_what_is_asked_for_are_taken(monkeypatch):
    assert Mixture().fit([[999_999]]).column_start_[-1] == 1_000_000
    assert Mixture(min_categories=3_000_001).fit([[3_000_000]]).column_start_[-1] == 3_000_001
    monkeypatch.setattr(category_tables, "_MOST_CATEGORIES", 5)
    assert Mixture().fit(np.arange(20)[:, None]).column_start_[-1] == 20
    with pytest.raises(ValueError, match=r"a column of 20 rows may have at most 20 categories"):
        Mixture().fit(np.arange(1, 21)[:, None])


def test_more_categories_than_32_bits_hold_are_refused():
    with pytest.raises(ValueError, match=r"^X has 2147483648 categories in all columns; at most 2147483647 are"):
        Mixture(min_categories=[2**31 - 1, 1]).fit([[0, 0]])


def test_unknown_codes_are_refused_by_column():
    mixture = Mixture().fit(pd.DataFrame({"size": [0, 1], "colour": [2, 0]}))
    sentence = (
        r"^Column 'colour' of X has the code 3, but the fitted number of categories of the column is 3: set "
        r"handle_unknown='ignore' to treat unknown codes as missing, or allow more categories by min_categories, "
    )
    with pytest.raises(ValueError, match=sentence):
        mixture.encode(pd.DataFrame({"size": [0, 1], "colour": [0, 3]}))


@pytest.mark.parametrize("min_categories", [0, 2.0, True, [1, 2], [[1, 2, 3]], [1, 0, 1], "many"])
def test_bad_min_categories_are_refused(min_categories):
    sentence = (
        "min_categories must be None, an int of at least 1 or an array of 3 of them (one for each column of X); got "
        f"{min_categories!r}."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Mixture(min_categories).fit([[0, 1, 2]])


STRINGS = {
    "objects": (np.array([[0, "red"], [1, "blue"]], object), 1, "strings"),
    "list": ([["red"], ["blue"]], 0, "strings"),
    "bytes": (np.array([[b"1"]]), 0, "strings"),
    "digits": (pd.DataFrame({"a": [1, 2], "zip": ["01", "02"]}), "zip", "strings"),
    "categorical": (pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.Categorical(["x", "y"])}), "b", "strings"),
    "categorical digits": (
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.Categorical(["1", "2"])}),
        "b",
        "strings",
    ),
    "dates": (np.array([["2020-01-01"]], "M8[D]"), 0, "datetime64[D] values"),
}


@pytest.mark.parametrize("name", STRINGS)
def test_strings_are_sent_to_ordinal_encoder(name):
    X, column, kind = STRINGS[name]
    sentence = (
        f"Column {column!r} of X has {kind}, but emission='categorical' takes codes of categories: encode "
        'the columns by OrdinalEncoder, for example in a pipeline, or use DPMixture(emission="auto"), which reads them '
        "as they are."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Mixture().fit(X)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_codes_are_refused(kind):
    with pytest.raises(TypeError, match=r"^Sparse X .* where zero is a category: pass a dense array"):
        Mixture().fit(kind(np.eye(3)))


def test_strings_with_gaps_come_through_a_pipeline():
    # Not None, which is a category of its own to the encoder unless pandas (from 3 on) has made it nan
    X = pd.DataFrame({"colour": ["red", "blue", np.nan, "red"], "size": ["s", np.nan, "l", "m"]})
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    pipeline = make_pipeline(encoder, Mixture()).fit(X)
    expected = [[1, 2], [0, np.nan], [np.nan, 0], [1, 1]]
    assert_same_table(pipeline[-1].table_, encode_by_cells(expected, [0, 2, 5]))
    new = pd.DataFrame({"colour": ["green", "red"], "size": ["l", np.nan]})
    encoded = pipeline[-1].encode(pipeline[0].transform(new))
    assert_same_table(encoded, encode_by_cells([[np.nan, 0], [1, np.nan]], [0, 2, 5]))
    # and names come with pandas out
    columns = make_column_transformer((OrdinalEncoder(unknown_value=-1, handle_unknown="use_encoded_value"), [*X]))
    named = make_pipeline(columns.set_output(transform="pandas"), Mixture()).fit(X)
    with pytest.raises(ValueError, match=r"column 'ordinalencoder__colour' of X has -1\.0, .* unknown_value=np\.nan"):
        named[-1].encode(named[0].transform(new))


COUNTS = np.random.default_rng(2).poisson(0.8, (40, 6)) * 0.75
COUNTS[[0, 20]] = 0


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, pd.DataFrame, sp.csr_matrix, sp.csc_array])
def test_counts_are_rounded_by_the_key_or_as_they_are(kind):
    counts = whole_counts(canonical_csr(COUNTS), KEY)
    mixture = Mixture()
    with pytest.warns(UserWarning, match="which fit rounds at random: this moves .* use ExponentialFamilyMixture"):
        table = _read_counts(mixture, EMISSION, kind(COUNTS), KEY, reset=True)
    assert table.n_features == counts.n_features == 6
    assert_same_arrays(table[:3], counts[:3])
    assert mixture.n_features_in_ == 6
    assert np.all(np.diff(table.indptr)[[0, 20]] == 0)
    with pytest.warns(UserWarning, match="rounds at random"):
        other = _read_counts(mixture, EMISSION, kind(COUNTS), np.uint64(78), reset=False)
    assert other.counts.tobytes() != table.counts.tobytes()
    exact = _read_counts(mixture, EMISSION, kind(COUNTS), None, reset=False)
    np.testing.assert_array_equal(exact.counts, COUNTS[COUNTS > 0])


CODES = np.random.default_rng(3).integers(0, [2, 3, 4, 6], (60, 4))


@pytest.mark.parametrize("X", [CODES, CODES.astype(float), CODES[:12], pd.DataFrame(CODES), CODES + 1])
def test_what_looks_like_codes_of_categories_is_told(X):
    with pytest.warns(UserWarning, match="as codes of categories do, .* use emission='categorical' for codes"):
        _read_counts(Mixture(), EMISSION, X, KEY, reset=True)


@pytest.mark.parametrize(
    "X",
    [
        sp.csr_array(CODES),
        CODES.clip(0, 1),
        np.random.default_rng(0).poisson(1.0, (300, 8)),
        np.random.default_rng(0).poisson(0.05, (300, 8)),
        np.random.default_rng(0).multinomial(4, [0.7, 0.2, 0.1], 50),
        np.random.default_rng(0).geometric(0.4, (100, 4)) - 1,
        load_digits().data,
        np.zeros((4, 3)),
    ],
    ids=["sparse", "events", "poisson", "rare", "equal sums", "geometric", "pixels", "empty"],
)
def test_counts_are_not_taken_for_codes(X):
    _read_counts(Mixture(), EMISSION, X, KEY, reset=True)


def test_no_tokens_at_all_are_a_table():
    table = _read_counts(Mixture(), EMISSION, np.zeros((3, 2)), KEY, reset=True)
    assert table.n_features == 2
    assert_same_arrays(table[:3], (np.zeros(4, np.int64), *np.zeros((2, 0), np.int32)))


def test_bad_counts_are_refused():
    mixture = Mixture()
    with pytest.raises(ValueError, match="Negative values in data passed to Mixture"):
        _read_counts(mixture, EMISSION, [[1, -1]], KEY, reset=True)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        _read_counts(mixture, EMISSION, [[1, np.nan]], KEY, reset=True)
    with pytest.raises(ValueError, match="X has 1 features, but Mixture is expecting 2"):
        _read_counts(mixture, EMISSION, [[1]], KEY, reset=False)
