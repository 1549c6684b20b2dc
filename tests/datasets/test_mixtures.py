import numpy as np
import pytest
from scipy.stats import binom, chi2

from skmanifold.datasets._synthetic import make_categorical_mixture


def p_value(observed, expected):
    """Of Pearson's chi-square over all cells of tables whose last axis is a multinomial."""
    statistic = ((observed - expected) ** 2 / expected).sum()
    freedom = observed.size - observed[..., 0].size
    return chi2.sf(statistic, freedom)


def counts_given_labels(mixture):
    counts = np.zeros(mixture.components.shape)
    for label, row in zip(mixture.labels, mixture.data, strict=True):
        for column, code in enumerate(row):
            if not np.isnan(code):
                counts[label, column, int(code)] += 1
    return counts


def test_shapes_types_and_probabilities_that_sum_to_one():
    mixture = make_categorical_mixture(30, 7, 3, n_categories=6, random_state=0)
    assert mixture.data.shape == (30, 7)
    assert mixture.data.dtype == np.int8
    assert mixture.data.flags.c_contiguous
    assert mixture.data.min() >= 0
    assert mixture.data.max() < 6
    assert mixture.labels.shape == (30,)
    assert mixture.labels.dtype == np.int64
    assert set(mixture.labels) <= {0, 1, 2}
    assert mixture.components.shape == (3, 7, 6)
    assert mixture.components.min() >= 0
    np.testing.assert_allclose(mixture.components.sum(axis=2), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(mixture.weights, np.full(3, 1 / 3))


@pytest.mark.parametrize(
    ("n_categories", "whole", "with_nan"),
    [(128, np.int8, np.float32), (129, np.int16, np.float32), (32769, np.int32, np.float64)],
)
def test_codes_have_the_smallest_type_that_holds_them(n_categories, whole, with_nan):
    options = {"n_categories": n_categories, "category_prior": 1e4, "random_state": 0}
    mixture = make_categorical_mixture(1000, 3, 1, **options)
    assert mixture.data.dtype == whole
    assert mixture.data.min() >= 0
    assert mixture.data.max() > 0.9 * n_categories
    assert make_categorical_mixture(10, 3, 1, missing=0.5, **options).data.dtype == with_nan


def test_cells_follow_the_components_of_their_own_row():
    mixture = make_categorical_mixture(20_000, 6, 4, category_prior=1.0, random_state=1)
    counts = counts_given_labels(mixture)
    sizes = np.bincount(mixture.labels, minlength=4)[:, None, None]
    assert 1e-3 < p_value(counts, sizes * mixture.components) < 1 - 1e-3
    # and the components of another row, or of another column, would be noticed
    assert p_value(counts, sizes * np.roll(mixture.components, 1, axis=0)) < 1e-9
    assert p_value(counts, sizes * np.roll(mixture.components, 1, axis=1)) < 1e-9


def test_columns_are_independent_given_the_label():
    mixture = make_categorical_mixture(30_000, 3, 2, n_categories=2, category_prior=2.0, random_state=2)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        pairs = np.zeros((2, 4))
        np.add.at(pairs, (mixture.labels, 2 * mixture.data[:, first] + mixture.data[:, second]), 1)
        joint = np.einsum("ka,kb->kab", mixture.components[:, first], mixture.components[:, second]).reshape(2, 4)
        assert 1e-3 < p_value(pairs, pairs.sum(axis=1, keepdims=True) * joint) < 1 - 1e-3
        # and a little dependence would be noticed
        joint += 0.03 * np.array([1, -1, -1, 1])
        assert p_value(pairs, pairs.sum(axis=1, keepdims=True) * joint) < 1e-9


def test_rows_are_independent():
    mixture = make_categorical_mixture(40_000, 2, 2, category_prior=2.0, random_state=6)
    first, second = (mixture.data[mixture.labels == label][:19_000] for label in (0, 1))
    others = np.roll(first, 1, axis=0)
    for left, right, labels in ((first, second, (0, 1)), (first, others, (0, 0))):
        agreeing = np.count_nonzero(left == right, axis=0)
        chance = (mixture.components[labels[0]] * mixture.components[labels[1]]).sum(axis=1)
        np.testing.assert_array_less(np.abs(agreeing - 19_000 * chance), 4.5 * np.sqrt(19_000 * chance * (1 - chance)))


@pytest.mark.parametrize("weights", [None, [3, 1, 0, 4], [0.5, 0.2, 0.2, 0.1]])
def test_labels_follow_the_weights(weights):
    mixture = make_categorical_mixture(20_000, 1, 4, weights=weights, random_state=3)
    shares = np.array(weights or [1, 1, 1, 1]) / sum(weights or [1, 1, 1, 1])
    np.testing.assert_allclose(mixture.weights, shares, rtol=1e-12)
    sizes = np.bincount(mixture.labels, minlength=4)
    assert np.all(sizes[shares == 0] == 0)
    some = shares > 0
    assert 1e-3 < p_value(sizes[some], 20_000 * shares[some]) < 1 - 1e-3
    # labels come in no order
    assert np.count_nonzero(np.diff(mixture.labels)) > 5000


def test_missing_cells_have_their_share_and_leave_the_others_as_they_are():
    whole = make_categorical_mixture(4000, 10, 3, random_state=5)
    gaps = make_categorical_mixture(4000, 10, 3, missing=0.3, random_state=5)
    lost = np.isnan(gaps.data)
    np.testing.assert_array_equal(gaps.data[~lost], whole.data[~lost])
    for key in ("labels", "components"):
        np.testing.assert_array_equal(gaps[key], whole[key])
    # whatever the row, the column and the code
    for groups in (np.broadcast_to(np.arange(10), lost.shape), np.tile(whole.labels[:, None], 10), whole.data):
        n, n_lost = np.bincount(groups.ravel()), np.bincount(groups[lost])
        assert binom.cdf(n_lost, n, 0.3).min() > 1e-4
        assert binom.sf(n_lost, n, 0.3).min() > 1e-4


def test_tiny_prior_gives_one_category_per_column_and_no_nan():
    mixture = make_categorical_mixture(200, 30, 3, category_prior=1e-5, random_state=0)
    assert np.mean(mixture.components.max(axis=2) > 1 - 1e-9) > 0.95
    assert np.all(mixture.components[mixture.labels[:, None], np.arange(30), mixture.data] > 1e-9)


def test_one_of_everything():
    mixture = make_categorical_mixture(1, 1, 1, n_categories=1, random_state=0)
    assert (mixture.data, mixture.labels, mixture.weights, mixture.components) == ([[0]], [0], [1], [[[1]]])
