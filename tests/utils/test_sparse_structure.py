"""What is no sparse matrix is refused in one sentence, before scipy or a kernel reads it."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import skmanifold
from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.admixture._tokens.shards import TokenShards
from skmanifold.datasets import save_corpus
from skmanifold.distributions import VonMisesFisher
from skmanifold.inference._distributed_fits.sources import _side_by_side
from skmanifold.metrics import document_completion, left_to_right
from skmanifold.sparse.counts import MAX_TOKENS, canonical_csr, check_token_start, validate_counts
from skmanifold.utils._inputs.sparse_structure import check_structure
from skmanifold.utils._sklearn import take_rows


def matrix(kind="csr", **changes):
    X = getattr(sp, f"{kind}_array")(np.arange(12.0).reshape(3, 4))
    for name, value in changes.items():
        setattr(X, name, np.array(value) if isinstance(value, list) else value)
    return X


def far_away(column, index_type=np.int64):
    X = matrix()
    X.indices = X.indices.astype(index_type)
    X.indices[5] = column
    return X


LISTS = matrix("lil")
LISTS.rows[1] = [0, 1]
KEYS = matrix("dok")
KEYS._dict[(1, 4)] = 1.0
BROKEN = [
    (far_away(4), "CSR matrix: column index 4 in row 1, but there are 4 columns"),
    (far_away(-1), "CSR matrix: column index -1 in row 1, but there are 4 columns"),
    (far_away(2**32 + 1), "CSR matrix: column index 4294967297 in row 1, but there are 4 columns"),
    (far_away(2**63, np.uint64), "CSR matrix: column index 9223372036854775808 in row 1"),
    (far_away(-1, ">i4"), "CSR matrix: column index -1 in row 1"),
    (matrix(indptr=[0, 3, 2, 11]), "CSR matrix: indptr decreases from 3 to 2 at row 1"),
    (matrix(indptr=[0, 3, 7, 12]), "CSR matrix: indptr ends at 12, beyond its 11 indices"),
    (matrix(indptr=[0, 3, 2**40, 11]), "CSR matrix: indptr decreases from 1099511627776 to 11 at row 2"),
    (matrix(indptr=[1, 3, 7, 11]), "CSR matrix: indptr starts with 1, not 0"),
    (matrix(indptr=[0, 3, 11]), "CSR matrix: indptr has 3 entries, not 4: one more than there are rows"),
    (matrix(indices=np.zeros(11)), "CSR matrix: indices is not an array of whole numbers in one dimension"),
    (matrix(indices=np.zeros((11, 1), int)), "CSR matrix: indices is not an array of whole numbers in one dimension"),
    (matrix(indices=(0,) * 11), "CSR matrix: indices is not an array of whole numbers in one dimension"),
    (matrix(data=[1.0]), "CSR matrix: it has 11 indices but 1 entries of data"),
    (matrix(data=np.zeros((11, 1))), "CSR matrix: data is not an array of 1 dimension"),
    (matrix(_shape=(3, 3)), "CSR matrix: column index 3 in row 0, but there are 3 columns"),
    (matrix(_shape=(4, 4)), "CSR matrix: indptr has 4 entries, not 5: one more than there are rows"),
    (matrix("csc", _shape=(2, 4)), "CSC matrix: row index 2 in column 0, but there are 2 rows"),
    (matrix("bsr", _shape=(3, 2), data=np.zeros((6, 1, 1))), "BSR matrix"),
    (matrix("bsr", data=np.zeros((6, 2, 2))), "BSR matrix: blocks of 2 x 2 do not fill 3 rows and 4 columns"),
    (matrix("coo", row=np.arange(11)), "COO matrix: row index 10 of entry 10, but there are 3 rows"),
    (matrix("coo", coords=(np.zeros(11, int),)), "COO matrix: it does not have two arrays of coordinates"),
    (matrix("coo", data=[1.0]), "COO matrix: it has 11 rows but 1 entries of data"),
    (matrix("dia", offsets=[0, 0, 1, 2, 3, 4]), "DIA matrix: an offset occurs twice"),
    (matrix("dia", offsets=[2**32, 0, 1, 2, 3, -1]), "DIA matrix: the offset 4294967296"),
    (matrix("dia", offsets=[0]), "DIA matrix: it has 1 offsets but 6 diagonals"),
    (LISTS, "LIL matrix: row 1 has 2 columns but 4 entries of data"),
    (matrix("lil", rows=LISTS.rows[:2]), "LIL matrix: it does not have 3 lists of columns and of data"),
    (matrix("lil", _shape=(3, 2)), "LIL matrix: column index 3, but there are 2 columns"),
    (KEYS, "DOK matrix: column index 4, but there are 4 columns"),
    (sp.coo_array((np.ones(1), ([1],)), shape=(3,)), "must have 2 dimensions, rows and columns; got a coo_array of 1"),
    (sp.coo_array((1, 2**31 + 7)).T, "has 2147483655 rows; at most 2147483647"),
    (matrix(data=np.array(["a"] * 11)), "is a sparse matrix of the type <U1: its entries must be numbers"),
]


@pytest.mark.parametrize(("X", "told"), BROKEN)
def test_what_is_no_matrix_is_refused_in_one_sentence(X, told):
    with pytest.raises(ValueError, match=f"^X .*{re.escape(told)}[^\\n]*$"):
        check_structure(X)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0), (0, 0), (2, 2)])
def test_every_matrix_passes(kind, shape):
    rng = np.random.default_rng(0)
    for dense in (np.zeros(shape), rng.poisson(1.0, shape)):
        for flavour in ("array", "matrix"):
            X = getattr(sp, f"{kind}_{flavour}")(dense)
            check_structure(X)
            np.testing.assert_array_equal(X.toarray(), dense)


def test_room_for_more_entries_is_no_fault_and_is_not_read():
    X = matrix()
    X.data, X.indices = np.append(X.data, np.inf), np.append(X.indices, 99)
    check_structure(X)
    assert canonical_csr(X).nnz == len(canonical_csr(X).indices) == 11


def test_flags_of_before_a_change_do_not_count():
    X = sp.csr_array(np.array([[1.0, 2.0, 3.0]]))
    assert X.has_canonical_format
    X.indices[:] = [2, 0, 2]
    csr = canonical_csr(X)
    assert (csr.indices.tolist(), csr.data.tolist()) == ([0, 2], [2.0, 4.0])


def test_entries_that_add_up_to_infinity_are_refused():
    X = sp.csr_array((np.full(2, 1e308), np.zeros(2, int), [0, 2]), shape=(1, 3))
    with pytest.raises(ValueError, match="whose sum exceeds the range of float64"):
        canonical_csr(X)


def test_a_row_that_was_fitted_to_a_column_that_is_not_there():
    X = sp.csr_array((np.array([1, 2, 3]), np.array([0, 2, 50]), np.array([0, 2, 3])), shape=(2, 12))
    with pytest.raises(ValueError, match="column index 50 in row 1, but there are 12 columns"):
        StochasticLDA(3, max_iter=6).fit(X)


@pytest.mark.parametrize(
    "door",
    [
        lambda X: validate_counts(StochasticLDA(), X, reset=True),
        lambda X: StochasticLDA().set_callbacks(HeldOutMonitor()).fit(X),
        lambda X: take_rows(X, np.array([2, 1])),
        lambda X: _side_by_side([X, X]),
        lambda X: TokenShards(None, np.uint64(0), "StochasticLDA").read([matrix(), X]),
        lambda X: document_completion(np.ones((2, 4)), X, [1.0, 1.0]),
        VonMisesFisher([0.0, 0.0, 0.0, 1.0], 1.0).log_density,
    ],
)
def test_doors_look_before_anything_reads(door):
    with pytest.raises(ValueError, match="column index 1000000 in row 1, but there are 4 columns"):
        door(far_away(10**6))


def test_a_broken_matrix_is_not_written_to_disk(tmp_path):
    with pytest.raises(ValueError, match="Document 0 is not a valid CSR matrix"):
        save_corpus([far_away(7)], tmp_path / "corpus", n_features=4)


def test_a_row_on_disk_may_not_be_longer_than_one_in_memory(tmp_path):
    corpora = [save_corpus([{0: 1}, {1: n}], tmp_path / str(n), n_features=4) for n in (3, 2**31 - 1)]
    with pytest.raises(ValueError, match="Row 3 of X has 2147483647 tokens, more than the limit of 100000000"):
        StochasticLDA(2).fit(corpora)


def test_directions_of_duplicates_are_those_of_their_sums():
    X = sp.csr_array((np.array([0.3, 0.3, 0.8]), np.array([0, 0, 1]), [0, 3]), shape=(1, 2))
    law = VonMisesFisher([1.0, 0.0], 2.0)
    np.testing.assert_allclose(law.log_density(X), law.log_density([[0.6, 0.8]]))


def test_only_one_module_calls_the_checks_of_scikit_learn():
    package = Path(skmanifold.__file__).parent
    others = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith("from sklearn") and ("check_array" in line or "validate_data" in line)
    ]
    assert others == []


def test_too_many_tokens_are_refused_with_their_number():
    lengths = [3, 100_000_000, 100_000_001]
    with pytest.raises(ValueError, match="Row 2 of X has 100000001 tokens, more than the limit of 100000000"):
        check_token_start(np.cumsum([0, *lengths]))
    check_token_start(np.cumsum([0, *lengths[:2]]))
    many = np.arange(23, dtype=np.int64) * 100_000_000
    with pytest.raises(ValueError, match="X has 2200000000 tokens, more than the limit of 2147483647 tokens in memory"):
        check_token_start(many)
    check_token_start(many, most=2 * MAX_TOKENS)


@pytest.mark.parametrize(
    "call",
    [
        StochasticLDA(2).fit,
        StochasticLDA(2, sampler="scir").partial_fit,
        lambda X: StochasticLDA(2, max_iter=2, burn_in=0, random_state=0).fit(np.eye(2)).score(X),
        lambda X: document_completion(np.ones((2, 2)), X, [1.0, 1.0]),
        lambda X: left_to_right(np.ones((2, 2)), np.minimum(X, 100_001), [1.0, 1.0]),
        skmanifold.ExponentialFamilyAdmixture(2, emission="poisson").fit,
    ],
)
def test_one_cell_does_not_ask_for_labels_by_the_gigabyte(call):
    with pytest.raises(
        ValueError, match=r"Row 0 of X has (2147483648|100002) tokens, more than the limit of 100000(000)? "
    ):
        call(np.array([[2.0**31 - 1, 1.0], [1.0, 2.0]]))
