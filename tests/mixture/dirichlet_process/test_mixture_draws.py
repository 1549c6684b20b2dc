"""Densities of rows given a draw: against slow references, as probabilities, and one after the other in any cut."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from skmanifold.emissions._categories import CategoryCounts
from skmanifold.mixture import _scores as _densities
from skmanifold.mixture._memberships import ParameterDraw, PartitionDraw, partition_draw
from skmanifold.mixture._scores import log_predictive
from skmanifold.utils._threads import Workers

from ..exponential_family._mixtures import slow_log_terms
from . import _tiny_partitions as tiny
from ._tiny_partitions import table_of

COLUMN_START = np.array([0, 2, 5, 6])  # a column of a single category at the end
RNG = np.random.default_rng(0)
# A row without tokens, one with an empty column, counts of one, around the sixteen that one logarithm takes, and large
TOKENS = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 1, 0],
        [0, 2, 1, 1, 0, 1],
        [15, 0, 16, 17, 0, 3],
        [1, 300, 0, 70_000, 2, 0],
        [0, 0, 0, 0, 0, 5],
    ]
)
SIZES = np.array([7, 2, 1])
COUNTS = np.array([[30, 0, 5, 2, 0, 8], [0, 1, 0, 0, 1, 0], [2_000_000, 5, 0, 3, 0, 1]])
COUNTED = PartitionDraw(CategoryCounts(SIZES, COUNTS.T), 1.7)
PARAMETERS = ParameterDraw(
    np.log(softmax(RNG.normal(size=4))),
    np.concatenate([np.log(RNG.dirichlet(np.ones(n), 3).T) for n in np.diff(COLUMN_START)]),
    1.7,
)
DRAWS = {"counted": COUNTED, "parameters": PARAMETERS}
each_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
each_prior = pytest.mark.parametrize("prior", [1e-3, 0.5, 3.0])


def clusters_of(rows, start=None, prior=0.5):
    return tiny.category_clusters(table_of(rows, start), prior)


def slow_terms(draw, tokens, start, prior):
    if isinstance(draw, PartitionDraw):
        counts = draw.statistics
        return slow_log_terms(tokens, start, counts.sizes, counts.categories.T, draw.concentration, prior)
    empty = slow_log_terms(tokens, start, [], np.empty((0, start[-1])), 1.0, prior)  # weight 1
    terms = [[w + row @ logs for w, logs in zip(draw.log_weights, draw.components.T, strict=False)] for row in tokens]
    return np.concatenate((terms, empty + draw.log_weights[-1]), axis=1)


@each_draw
@each_prior
@pytest.mark.parametrize("start", [COLUMN_START, np.array([0, 6])], ids=["columns", "one"])
def test_terms_are_weights_times_densities(draw, prior, start):
    got = draw.log_terms(clusters_of(TOKENS, start, prior), Workers(1))
    assert got.shape == (len(TOKENS), 4)
    # Beyond sixteen factors it is a difference of log gammas, of about 1e8 at most.
    np.testing.assert_allclose(got, slow_terms(draw, TOKENS, start, prior), rtol=1e-12, atol=4e-8)
    short = TOKENS.sum(axis=1) < 9
    np.testing.assert_allclose(got[short], slow_terms(draw, TOKENS[short], start, prior), rtol=1e-12, atol=1e-13)


@each_draw
def test_a_row_without_tokens_has_the_weights(draw):
    weights = np.exp(draw.log_terms(clusters_of(TOKENS, COLUMN_START), Workers(1))[0])
    expected = np.exp(draw.log_weights) if isinstance(draw, ParameterDraw) else np.array([7, 2, 1, 1.7]) / 11.7
    np.testing.assert_allclose(weights, expected, rtol=1e-14)


def test_the_predictive_is_the_mean_of_the_draws_densities_not_of_their_logarithms():
    clusters = clusters_of(TOKENS, COLUMN_START)
    of_draws = [logsumexp(slow_terms(draw, TOKENS, COLUMN_START, 0.5), axis=1) for draw in DRAWS.values()]
    got = log_predictive(clusters, [*DRAWS.values()], Workers(1))
    np.testing.assert_allclose(got, logsumexp(of_draws, axis=0) - np.log(2), rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(got - np.mean(of_draws, axis=0))) > 0.1


def test_hopeless_rows_keep_a_finite_density():
    rows = [[0, 60_000, 0, 0, 0, 0]]
    draw = PartitionDraw(CategoryCounts(np.array([5]), np.array([[2**40], [0], [0], [0], [0], [0]])), 1e-12)
    log_density = log_predictive(clusters_of(rows, prior=1e-6), [draw], Workers(1))
    assert np.isfinite(log_density)
    sharp = ParameterDraw(np.array([0.0, -1e5]), np.array([[0.0, *[-1e9] * 5]]).T, 1.0)
    assert np.isfinite(log_predictive(clusters_of(rows), [sharp], Workers(1)))


def test_a_partition_is_told_from_the_largest_component_down():
    counts = CategoryCounts(np.zeros(6, np.int64), np.zeros((3, 6), np.int64))
    counts.sizes[[1, 3, 4]] = 2, 5, 2
    counts.categories[:, [1, 3, 4]] = [[1, 4, 7], [2, 5, 8], [3, 6, 9]]
    draw = partition_draw(counts, 0.3)
    assert draw.statistics.sizes.tolist() == [5, 2, 2]
    assert draw.statistics.categories.tolist() == [[4, 1, 7], [5, 2, 8], [6, 3, 9]]
    assert draw.concentration == 0.3


@each_draw
def test_rows_are_told_alike_however_many_are_looked_at_at_once(monkeypatch, draw):
    clusters = clusters_of(TOKENS, COLUMN_START)
    whole = log_predictive(clusters, [draw, COUNTED], Workers(1))
    monkeypatch.setattr(_densities, "_ROWS_AT_ONCE", 4)
    np.testing.assert_array_equal(log_predictive(clusters, [draw, COUNTED], Workers(1)), whole)
