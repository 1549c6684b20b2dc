import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom

from skmanifold.random._keys import subkey, uniform
from skmanifold.sparse.counts import Counts, as_counts, canonical_csr, counts_to_fit, whole_counts

KEY = np.uint64(77)


def dense_table(seed=0, shape=(9, 7)):
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 9, shape) * (rng.random(shape) < 0.4) / 2
    table[[0, 4]] = 0
    table[:, 3] = 0
    return table


def disordered(kind, index_type=np.int32):
    """The table as CSR with unsorted columns, duplicates and explicit zeros."""
    table = dense_table()
    rng = np.random.default_rng(1)
    indptr, indices, data = [0], [], []
    for row in table:
        columns = np.flatnonzero(row)
        values = row[columns]
        pairs = [
            *zip(columns, values - 0.25, strict=True),
            *zip(columns, np.full(len(columns), 0.25), strict=True),
            (3, 0.0),
        ]
        rng.shuffle(pairs)
        indices += [column for column, _ in pairs]
        data += [value for _, value in pairs]
        indptr.append(len(indices))
    out = kind((np.array(data, float), np.array(indices, index_type), np.array(indptr, index_type)), shape=table.shape)
    assert not out.has_canonical_format
    return out


def wide_indices(kind):
    out = kind(dense_table())
    out.indices, out.indptr = out.indices.astype(np.int64), out.indptr.astype(np.int64)
    return out


INPUTS = {
    "array": dense_table,
    "csr_array": lambda: sp.csr_array(dense_table()),
    "csc_matrix": lambda: sp.csc_matrix(dense_table()),
    "coo_array": lambda: disordered(sp.csr_array).tocoo(copy=True),
    "disordered matrix": lambda: disordered(sp.csr_matrix),
    "disordered array": lambda: disordered(sp.csr_array),
    "disordered int64": lambda: disordered(sp.csr_array, np.int64),
    "csr int64": lambda: wide_indices(sp.csr_array),
    "csc int64": lambda: wide_indices(sp.csc_array),
}


def parts_of(X):
    """Copies of all arrays of an input."""
    names = ("data", "indices", "indptr", "row", "col", "rows") if sp.issparse(X) else ()
    return [np.array(getattr(X, name)) for name in names if hasattr(X, name)] if names else [np.array(X)]


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_becomes_the_same_canonical_csr(name):
    X = INPUTS[name]()
    before = parts_of(X)
    csr = canonical_csr(X)
    expected = sp.csr_array(dense_table())
    assert isinstance(csr, sp.csr_array)
    for attribute in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(csr, attribute), getattr(expected, attribute))
    assert csr.data.dtype in (np.float64, np.int64, np.int32)
    assert csr.indices.dtype == np.int32
    assert np.all(csr.data != 0)
    for part, copy in zip(parts_of(X), before, strict=True):
        np.testing.assert_array_equal(part, copy)
        assert part.dtype == copy.dtype


def test_too_many_columns_are_refused():
    with pytest.raises(ValueError, match=r"X has 2147483648 columns; at most 2147483647 \(int32\) are supported"):
        canonical_csr(sp.csr_array((1, 2**31), dtype=float))


def as_dense(counts):
    shape = counts.n_rows, counts.n_features
    return sp.csr_array((counts.counts, counts.indices, counts.indptr), shape=shape).toarray()


def check_form(counts):
    assert isinstance(counts, Counts)
    assert [array.dtype for array in counts[:3]] == [np.int64, np.int32, np.int32]
    assert counts.counts.size == 0 or counts.counts.min() > 0
    assert counts.indptr[0] == 0
    assert counts.indptr[-1] == len(counts.indices) == len(counts.counts)
    for begin, end in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        assert np.all(np.diff(counts.indices[begin:end]) > 0)


def test_whole_numbers_stay_as_they_are():
    table = np.random.default_rng(2).poisson(0.7, (20, 15)).astype(float)
    table[3, 2] = 2.0**31 - 1
    csr = canonical_csr(table)
    counts = whole_counts(csr, KEY)
    check_form(counts)
    np.testing.assert_array_equal(as_dense(counts), table)
    assert (counts.n_rows, counts.n_features, counts.n_tokens) == (20, 15, table.sum())
    # One fraction elsewhere moves nothing else.
    table[0, 0] = 0.5
    others = as_dense(whole_counts(canonical_csr(table), KEY))
    others[0, 0] = table[0, 0] = 0
    np.testing.assert_array_equal(others, table)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_arrays_of_counts_can_be_written_even_if_those_of_the_input_cannot(kind):
    csr = sp.csr_array(np.arange(6, dtype=kind).reshape(2, 3))
    for array in (csr.data, csr.indices, csr.indptr):
        array.flags.writeable = False
    counts = whole_counts(canonical_csr(csr), KEY)
    assert all(array.flags.writeable for array in counts[:3])
    np.testing.assert_array_equal(as_dense(counts), csr.toarray())


def test_rounding_is_right_on_average_and_never_further_than_one():
    fractions = np.array([0.02, 0.3, 0.5, 1.75, 6.9, 1000.1, 2.0])
    n_rows, n_keys = 50, 60
    csr = canonical_csr(np.tile(fractions, (n_rows, 1)))
    ups = np.zeros(len(fractions))
    for i in range(n_keys):
        counts = whole_counts(csr, subkey(KEY, i))
        check_form(counts)
        up = as_dense(counts) - np.floor(fractions)
        assert np.isin(up, [0, 1]).all()
        ups += up.sum(axis=0)
    n = n_keys * n_rows
    chance = fractions - np.floor(fractions)
    p_values = 2 * np.minimum(binom.cdf(ups, n, chance), binom.sf(ups - 1, n, chance))
    assert p_values.min() > 1e-3
    assert ups[-1] == 0
    assert np.abs(ups[1:4] - n * chance[1:4]).max() < 4 * np.sqrt(n / 4)


def test_in_fit_the_draw_belongs_to_key_row_and_column():
    table = np.random.default_rng(3).random((12, 10)) * 3
    table[5] = table[2]
    counts = as_dense(whole_counts(canonical_csr(table), KEY))
    draws = np.array([[uniform(subkey(KEY, row), column) for column in range(10)] for row in range(12)])
    np.testing.assert_array_equal(counts, np.floor(table) + (draws < table - np.floor(table)))
    assert np.any(counts[5] != counts[2])  # equal rows do not share noise
    # What else a row holds does not matter.
    thinned = table.copy()
    thinned[:, ::2] = 0
    np.testing.assert_array_equal(as_dense(whole_counts(canonical_csr(thinned), KEY))[:, 1::2], counts[:, 1::2])


def test_counts_as_they_are_keep_fractions_and_narrow_what_is_whole():
    table = np.random.default_rng(4).random((30, 12)) * 2 * (np.random.default_rng(5).random((30, 12)) < 0.6)
    exact = as_counts(canonical_csr(table))
    assert exact.counts.dtype == np.float64
    np.testing.assert_array_equal(as_dense(exact), table)
    for row in range(30):  # bit by bit, whatever the other rows hold
        assert as_counts(canonical_csr(table[[row]])).row_sums()[0] == exact.row_sums()[row]
    whole = as_counts(canonical_csr(np.floor(2 * table)))
    check_form(whole)
    assert whole.row_sums().dtype == np.int64
    np.testing.assert_array_equal(whole.row_sums(), np.floor(2 * table).sum(axis=1))
    with pytest.raises(ValueError, match=r"count of 1e.12"):
        as_counts(canonical_csr([[1e12]]))


@pytest.mark.parametrize(("factor", "warns"), [(1.0, False), (0.99, False), (0.5, True)])
def test_a_warning_tells_how_much_rounding_changes(factor, warns):
    table = np.random.default_rng(6).poisson(3.0, (200, 30)) * factor
    fractions = table - np.floor(table)
    moved = (fractions * (1 - fractions)).sum()
    rounded = [as_dense(whole_counts(canonical_csr(table), subkey(KEY, i))) for i in range(20)]
    changed = np.array([np.abs(of - table).sum() / 2 for of in rounded])
    assert abs(changed.mean() - moved) <= 4 * changed.std() / np.sqrt(20) + 1e-9
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts_to_fit(canonical_csr(table), KEY, "cure it", stacklevel=1)
    assert [str(warning.message) for warning in caught] == warns * [
        f"X has fractional counts, which fit rounds at random: this moves {moved / table.sum():.0%} of their sum; "
        "cure it."
    ]
    assert all(warning.filename == __file__ for warning in caught)


def test_counts_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match=r"X has a count of 2.14748e\+09; at most 2147483647 are supported"):
        whole_counts(canonical_csr([[2.0**31]]), KEY)


def test_nothing_is_nothing():
    counts = whole_counts(canonical_csr(np.zeros((3, 4))), KEY)
    check_form(counts)
    assert (counts.n_rows, counts.n_features, counts.n_tokens) == (3, 4, 0)


def test_tokens_are_counted_in_64_bits():
    counts = whole_counts(canonical_csr(np.full((1, 3), 2.0**31 - 1)), KEY)
    assert counts.n_tokens == 3 * (2**31 - 1)
