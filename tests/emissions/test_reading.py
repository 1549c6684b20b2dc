"""X at the door of an emission: missing cells, fractions, sparse and dense, what is refused; tokens of admixtures."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skmanifold.admixture._tokens.topic_counts import counts_from_dense
from skmanifold.emissions import EMISSIONS as BY_NAME
from skmanifold.emissions import Bernoulli, Categorical, Gaussian, Multinomial, Poisson
from skmanifold.numerics.block_sums import merge
from skmanifold.sparse.counts import Counts

from ._cases import EMISSIONS, KEY, Anyone, log_densities, make_X, read

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys


def table_of(rows, n_columns):
    return sp.csr_array((rows.counts, rows.indices, rows.indptr), shape=(rows.n_rows, n_columns)).toarray()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_missing_cells_have_columns_of_their_own_dense_or_sparse(name, kind):
    X = make_X(name)
    rows = read(EMISSIONS[name], kind(X))
    expected = np.hstack([np.nan_to_num(X), np.isnan(X)])
    np.testing.assert_array_equal(table_of(rows, 6), expected)
    assert rows.n_features == 3


def test_what_the_user_gave_is_left_alone():
    X = sp.csr_array(make_X("poisson"))
    before = X.copy()
    read(Poisson(), X)
    np.testing.assert_array_equal(X.data, before.data)
    np.testing.assert_array_equal(X.indices, before.indices)


@pytest.mark.parametrize("emission", [Poisson(), Multinomial(), Bernoulli(allow_probabilities=True)])
def test_fractions_of_a_mixture_are_weights(emission):
    """A family is linear in its rows, with the same statistics for labels as for shares of 0 and 1."""
    X = np.random.default_rng(0).random((1500, 3))
    rows = read(emission, X)
    np.testing.assert_array_equal(table_of(rows, 6)[:, :3], X)
    family = emission.bind(rows, 2)
    labels = (np.arange(1500) % 2).astype(np.int32)
    sizes, totals = family.sum_labels(rows, 0, 1500, 0, labels).total()
    np.testing.assert_array_equal(sizes, [750, 750])
    by_statistic = totals if emission.short_name == "multinomial" else totals.T
    np.testing.assert_allclose(by_statistic[:3], np.stack([X[::2].sum(axis=0), X[1::2].sum(axis=0)], axis=1))
    by_shares = family.sum_shares(rows, 0, 1500, 0, np.eye(2)[labels]).total()
    assert all(a.tobytes() == b.tobytes() for a, b in zip((sizes, totals), by_shares, strict=True))
    parts = [family.sum_labels(rows, a, b, a // 1024, labels[a:b]) for a, b in ((0, 1024), (1024, 1500))]
    assert merge(*parts).total()[1].tobytes() == totals.tobytes()
    parameters, out = family.mode((sizes, totals)), np.zeros((1500, 2))
    family.add_log_densities(rows, 0, 1500, parameters, out)
    offsets, naturals = (0.0, parameters) if isinstance(parameters, np.ndarray) else parameters[:2]
    np.testing.assert_allclose(out, offsets + X @ naturals[:3])
    assert rows.hash_rows(KEY, 0) != read(emission, X[::-1]).hash_rows(KEY, 0)
    halves = rows.part(0, 700).hash_rows(KEY, 0) + rows.part(700, 1500).hash_rows(KEY, 700)
    assert rows.hash_rows(KEY, 0) == halves % 2**64


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_probabilities_of_events_are_refused_unless_they_are_announced(kind):
    X = np.array([[0.0, 1.0, 0.0], [1.0, 0.25, np.nan]])
    with pytest.raises(
        ValueError, match=r"takes 0 and 1, .* X has 0\.25 in row 1, column 1 .*allow_probabilities=True"
    ):
        read(Bernoulli(), kind(X))
    emission = Bernoulli(allow_probabilities=True)
    tokens = emission.read_tokens(Anyone(), kind(X), None, reset=True)
    np.testing.assert_array_equal(table_of(tokens, 6), [[1, 0, 0, 1, 1, 0], [0, 1, 0.75, 0.25, 0, 0]])
    drawn = emission.read_tokens(Anyone(), kind(np.full((4000, 1), 0.25)), KEY, reset=True)
    table = table_of(drawn, 2)
    np.testing.assert_array_equal(table.sum(axis=1), 1)
    assert abs(table[:, 1].mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    rows = read(emission, [[0.25, 1.0]])
    entropy = 0.25 * np.log(0.25) + 0.75 * np.log(0.75)
    np.testing.assert_allclose(emission.bind(rows, 1).highest_log_densities(rows), entropy)


def test_a_named_column_of_events_is_told_by_its_name():
    with pytest.raises(ValueError, match=r"X has 1\.3 in row 1, column 'voted'\."):
        read(Bernoulli(), pd.DataFrame({"age": [0, 1], "voted": [1, 1.3]}))


def test_digits_are_numbers():
    assert read(Poisson(), [["1", "2"]]).counts.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("emission", "X", "message"),
    [
        (
            Bernoulli(),
            [[0.0, 2.0]],
            r"takes 0 and 1, and NaN where a cell is missing, but X has 2 in row 0, column 1\.",
        ),
        (
            Bernoulli(allow_probabilities=True),
            [[0.5, 1.3]],
            r"takes numbers from 0 to 1, .* X has 1\.3 in row 0, column 1",
        ),
        (Bernoulli(), [[0.0, -1.0]], "Negative values in data passed to Anyone"),
        (Poisson(), [[np.nan, -1.0]], "Negative values in data passed to Anyone"),
        (Poisson(), [[np.inf, 1.0]], "infinity"),
        (Poisson(), [[1e12, 1.0]], "count of 1e.12"),
        (
            Multinomial(),
            [[np.nan, 1.0]],
            "^The emission Multinomial does not take NaN, .* 'categorical', 'gaussian', 'negative_binomial' and "
            "'poisson' do",
        ),
        (Gaussian(), [[np.inf, np.nan]], "infinity"),
        (Gaussian(), [[np.nan, np.nan], [np.nan, np.nan]], "^All cells of X are missing"),
        (Gaussian(), [[1.0, np.nan], [2.0, np.nan]], "^Column 1 of X has no observed cell"),
        (
            Gaussian(),
            sp.csr_array(np.eye(2)),
            "does not take sparse X as 'bernoulli', .*'poisson' and 'von_mises_fisher' do",
        ),
    ],
)
def test_values_that_an_emission_does_not_take_are_refused(emission, X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read(emission, X)


@pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent")
def test_gaussian_rows_without_a_scale_are_refused_in_one_sentence():
    X = np.column_stack([np.arange(5.0), np.ones(5)])
    for same in (X[:1], np.full((5, 3), 0.1)):
        for kind in ("full", "tied", "diag", "spherical"):
            with pytest.raises(ValueError, match=rf"rows of X .n_samples={len(same)}. are the same.*give a covariance"):
                Gaussian(kind).bind(read(Gaussian(), same), 1)
    with pytest.raises(ValueError, match="too large"):
        Gaussian().bind(read(Gaussian(), X * 1e200), 1)
    for scale in (1e-160, 1e-170):
        small = np.column_stack([X[:, 0], scale * X[:, 0]])
        for kind in ("full", "tied", "diag", "spherical"):
            with pytest.raises(ValueError, match=r"^Column 1 of the rows of X .* squares are too small for float64"):
                Gaussian(kind).bind(read(Gaussian(), small), 1)
    tokens = Counts(np.array([0, 2]), np.array([0, 1], np.int32), np.array([3, 1], np.int32), 3)
    with pytest.raises(ValueError, match="word_vectors of words that occur are the same"):
        Gaussian().bind_tokens(tokens, 1, word_vectors=[[1.0, 2.0], [1.0, 2.0], [5.0, 6.0]])


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "multinomial"])
def test_highest_log_densities_are_above_all_others_and_reached(name):
    X = np.nan_to_num(make_X(name, n=8))
    rows = read(EMISSIONS[name], X)
    family = EMISSIONS[name].bind(rows, 2)
    highest = family.highest_log_densities(rows)
    for row in range(8):
        tiny = type(EMISSIONS[name])(1e-9) if name != "bernoulli" else Bernoulli(1e-9, 1e-9)
        tiny = Poisson(1e-9, 1e-9) if name == "poisson" else tiny
        own = tiny.bind(rows, 1)
        sizes, totals = own.sum_labels(rows, row, row + 1, 0, np.zeros(1, np.int32)).total()
        out = np.zeros((1, 1))
        own.add_log_densities(rows, row, row + 1, own.mode((sizes, totals)), out)
        assert out[0, 0] == pytest.approx(highest[row], abs=1e-5)


# --- tokens ----------------------------------------------------------------------------------------------


def test_bernoulli_tokens_are_the_observed_cells():
    X = np.array([[1.0, np.nan, 0.0], [0.0, 1.0, 1.0]])
    tokens = Bernoulli().read_tokens(Anyone(), X, KEY, reset=True)
    np.testing.assert_array_equal(tokens.indptr, [0, 2, 5])
    np.testing.assert_array_equal(tokens.indices, [1, 4, 0, 3, 5])
    assert tokens.n_features == 6
    assert (tokens.counts == 1).all()


def test_mode_of_tokens_is_that_of_the_paper():
    """p = (S + a) / (N + a + b) for events, (n + beta) / (n + V beta) for words and counts."""
    table = np.random.default_rng(0).integers(0, 9, (6, 2))
    counts = counts_from_dense(table, table.sum(axis=0))
    X = np.ones((2, 3))
    events = Bernoulli(0.7, 1.3).bind_tokens(Bernoulli().read_tokens(Anyone(), X, KEY, reset=True), 2)
    mode = events.mode(events.statistics_of_tokens(counts))
    zeros, ones = table[0::2], table[1::2]
    np.testing.assert_allclose(mode.means, (ones + 0.7) / (zeros + ones + 2.0))
    np.testing.assert_allclose(np.exp(events.token_table(mode)[1::2]), mode.means)
    np.testing.assert_allclose(np.exp(events.token_table(mode)[0::2]), 1.0 - mode.means)
    for emission in (Multinomial(0.4), Poisson(0.4)):
        tokens = emission.read_tokens(Anyone(), np.ones((2, 6)), KEY, reset=True)
        words = emission.bind_tokens(tokens, 2)
        mode = words.mode(words.statistics_of_tokens(counts))
        expected = (table + 0.4) / (table + 0.4).sum(axis=0)
        np.testing.assert_allclose(np.exp(words.token_table(mode)), expected)
        np.testing.assert_allclose(words.attributes(mode)["components_"], expected.T)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_gaussian_tokens_are_rows_of_word_vectors(kind):
    """Statistics are those of the vectors repeated, one row for each token."""
    rng = np.random.default_rng(0)
    vectors, table = rng.standard_normal((6, 2)), rng.integers(0, 9, (6, 2))
    emission = Gaussian(kind)
    X = table.sum(axis=1)[None, :]
    tokens = emission.read_tokens(Anyone(), X, KEY, reset=True)
    words = emission.bind_tokens(tokens, 2, vectors)
    mode = words.mode(words.statistics_of_tokens(counts_from_dense(table, table.sum(axis=0))))
    repeated = np.concatenate([np.repeat(vectors, table[:, k], axis=0) for k in (0, 1)])
    rows = read(emission, repeated)
    family = emission.bind(rows, 2)
    labels = np.repeat([0, 1], table.sum(axis=0)).astype(np.int32)
    same = family.mode(family.sum_labels(rows, 0, len(repeated), 0, labels).total())
    np.testing.assert_allclose(mode.means, same.means, rtol=1e-9)
    np.testing.assert_allclose(mode.covariances, same.covariances, rtol=1e-9)
    reference = log_densities(kind, vectors, words.attributes(mode))
    np.testing.assert_allclose(words.token_table(mode), reference, rtol=1e-9)


def test_gaussian_tokens_need_a_vector_each():
    tokens = Gaussian().read_tokens(Anyone(), np.ones((2, 6)), KEY, reset=True)
    with pytest.raises(ValueError, match="needs word_vectors, one for each column"):
        Gaussian().bind_tokens(tokens, 2)
    with pytest.raises(ValueError, match="for each of the 6 columns of X; it has 5"):
        Gaussian().bind_tokens(tokens, 2, np.ones((5, 2)))


def test_emissions_are_values():
    for name, kind in BY_NAME.items():
        emission = kind()
        assert emission.short_name == name
        assert kind._parameter_constraints.keys() == emission.get_params().keys()
        assert vars(emission).keys() == emission.get_params().keys()


def test_numbers_of_categories_are_stored_with_the_names_of_columns():
    reader, emission = Anyone(), Categorical()
    rows = emission.read(reader, pd.DataFrame({"a": [0, 2, np.nan], "b": [1, 0, 0]}), reset=True)
    assert reader.n_categories_.tolist() == [3, 2]
    assert (rows.n_rows, rows.n_features, rows.log_base) == (3, 2, None)
    np.testing.assert_array_equal(table_of(rows, 5), [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 0, 0, 1, 0]])
    again = emission.read(reader, pd.DataFrame({"a": [1], "b": [0]}), reset=False)
    np.testing.assert_array_equal(table_of(again, 5), [[0, 1, 0, 1, 0]])
    with pytest.raises(ValueError, match="Column 'b' of X has the code 2, but the fitted number of categories"):
        emission.read(reader, pd.DataFrame({"a": [1], "b": [2]}), reset=False)
    halves = rows.part(0, 2).hash_rows(KEY, 0) + rows.part(2, 9).hash_rows(KEY, 2)
    assert rows.hash_rows(KEY, 0) == halves % 2**64
    others = rows._replace(column_start=np.array([0, 2, 5]))  # the same tokens, of other columns
    assert rows.hash_rows(KEY, 0) != others.hash_rows(KEY, 0)
