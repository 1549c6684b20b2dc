"""What holds for every family: statistics, densities, draws and modes, and both memberships agree.

Each test is a check that takes a family, and can fail: `test_contract_checks` has known wrong variants.
"""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, summarize
from scipy.special import logsumexp

from skmanifold.emissions import kernels
from skmanifold.random._keys import fold_in_each
from skmanifold.utils._threads import Workers

from ._families import BUILDERS, KEY, LABELS, N_ROWS, ONE, K, case_of, sparse
from ._splits import compiled_clear, compiled_factor, compiled_predictive, compiled_walk

EXACT = {"rtol": 1e-12, "atol": 1e-12}
ORDER = np.random.default_rng(3).permutation(N_ROWS)
HAVE_GAPS = [name for name in BUILDERS if case_of(name).cells is not None]
HAVE_SPARSE = [name for name in BUILDERS if case_of(name).emission.allows_sparse]
each = pytest.mark.parametrize("name", BUILDERS)
each_with_gaps = pytest.mark.parametrize("name", HAVE_GAPS)
each_form = pytest.mark.parametrize(
    ("name", "has_gaps"), [(name, gaps) for name in BUILDERS for gaps in (False, True) if not gaps or name in HAVE_GAPS]
)


def rows_of(case, has_gaps):
    return case.with_gaps() if has_gaps else case.X


def one_hot(labels):
    return np.eye(K)[labels]


def assert_same(found, expected, **tolerance):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


# --- statistics ------------------------------------------------------------------------------------------


def check_statistics_of_parts(case, X):
    whole = case.arrays(case.statistics(X, LABELS))
    assert_same(case.statistics_of_parts(X, LABELS, 5), whole, **EXACT)
    many, labels = np.tile(X, (70, 1)), np.tile(LABELS, 70)
    sums = case.sums(many, labels)
    for merged, of_all in zip(case.sums_of_blocks(many, labels), sums, strict=True):
        np.testing.assert_array_equal(merged, of_all)
    assert_same(case.sums_of_shares(X, one_hot(LABELS)), case.sums(X, LABELS), **EXACT)
    assert_same(sums, [70.0 * array for array in case.sums(X, LABELS)], rtol=1e-11, atol=1e-11)


def check_moves(case, X):
    rows, new = np.array([0, 3, 4, 7, 8]), np.array([2, 1, 0, 0, 0], np.int32)
    after = LABELS.copy()
    after[rows] = new
    moved, counted = case.moved(X, LABELS, rows, new), case.statistics(X, after)
    assert_same(case.arrays(moved), case.arrays(counted), **EXACT)


@each_form
def test_statistics_of_parts_are_those_of_the_whole(name, has_gaps):
    check_statistics_of_parts(case_of(name), rows_of(case_of(name), has_gaps))


@each_form
def test_a_row_that_moves_is_removed_and_added(name, has_gaps):
    check_moves(case_of(name), rows_of(case_of(name), has_gaps))


def check_weights(case, X):
    weights = np.arange(N_ROWS) % 3 + 1
    copies = np.repeat(np.arange(N_ROWS), weights)
    rows, repeated = case.rows(X), case.rows(X[copies])
    weighted = case.sums_of_shares(rows, one_hot(LABELS) * weights[:, np.newaxis])
    assert_same(weighted, case.sums(repeated, LABELS[copies]), rtol=1e-11, atol=1e-11)
    families = case.bind(rows, weights), case.bind(repeated)
    sums = [case.means(family.mode(weighted)) for family in families]
    np.testing.assert_allclose(*sums, **EXACT)


@each_form
def test_whole_weights_are_repeated_rows(name, has_gaps):
    check_weights(case_of(name), rows_of(case_of(name), has_gaps))


# --- densities -------------------------------------------------------------------------------------------


def check_chain(case, X):
    """The marginal density is the product of predictive densities, in two orders of the rows."""
    total = case.log_marginal(X, case.statistics(X, LABELS))
    for order in (np.arange(N_ROWS), ORDER):
        product = 0.0
        for n in range(N_ROWS):
            before = case.statistics(X[order[:n]], LABELS[order[:n]]) if n else case.no_statistics()
            product += case.log_predictive(X[order[n : n + 1]], before)[0, LABELS[order[n]]]
        np.testing.assert_allclose(product, total, rtol=case.rtol)


@each_form
def test_marginal_densities_are_products_of_predictive_densities(name, has_gaps):
    case = case_of(name)
    if not (has_gaps and case.completes):
        check_chain(case, rows_of(case, has_gaps))


def check_predictive(case, X):
    """Predictive densities, also of two equal rows, are means over drawn parameters, of both memberships."""
    rows = case.rows(X[[1, 3, 6]])
    statistics, sums = case.statistics(X, LABELS), case.sums(X, LABELS)
    exact = np.exp(case.log_predictive(rows, statistics))
    is_near = exact > 0.1 * exact.max(axis=0)  # means of small densities need many draws
    draws = case.draws(sums, 500 if np.isnan(X).any() else 2000)
    finite = [np.exp(case.log_densities(rows, drawn)) for drawn in draws]
    n_draws, labels = (800, np.arange(K)) if case.is_shared else (60, np.repeat(np.arange(K), 40))
    process, of_new = [], []
    for key in fold_in_each(KEY, np.arange(n_draws)):
        components = case.components(rows, statistics, labels, key)
        densities = np.exp(case.log_densities_given(rows, components, len(labels)))
        process.append(densities.reshape(3, K, -1))
        of_new.append(np.exp(case.log_predictive_of_new(rows, components))[:, 0])
    assert_agrees(summarize(np.array(of_new)[:, is_near[:, -1]]), exact[is_near[:, -1], -1], 1e-12)
    again = case.statistics(np.vstack([X, X[3]]), np.append(LABELS, LABELS[3]))  # this row has no missing cell
    twice = exact[1, 0] * np.exp(case.log_predictive(X[[3]], again)[0, 0])
    for densities in (np.array(finite)[..., np.newaxis], np.array(process)):
        assert_agrees(summarize(densities.mean(axis=3)[:, is_near]), exact[is_near])
        assert_agrees(summarize((densities[:, 1, 0] ** 2).mean(axis=1)), twice)
    means = [case.means(drawn) for drawn in draws]
    assert_agrees(summarize(means), case.expected(statistics))


@each_form
def test_predictive_densities_are_means_over_drawn_parameters(name, has_gaps):
    check_predictive(case_of(name), rows_of(case_of(name), has_gaps))


def check_gaps(case, X):
    """The density of a row with a missing cell is a sum over the values of the cell, or an integral."""
    statistics, mode = case.statistics(case.X, LABELS), case.mode(case.sums(case.X, LABELS))
    components = case.components(case.X, statistics, np.arange(K))
    for column, cell in enumerate(case.cells):
        rows = X[[0, 5]]
        complete = np.repeat(rows, len(cell.values), axis=0)
        complete[:, column] = np.tile(cell.values, len(rows))
        rows[:, column] = np.nan
        for log_density in (
            lambda X: case.log_predictive(X, statistics),
            lambda X: case.log_densities(X, mode),
            lambda X: case.log_densities_given(X, components, K),
        ):
            parts = log_density(complete).reshape(len(rows), -1, K) + cell.log_weights[:, np.newaxis]
            np.testing.assert_allclose(log_density(rows), logsumexp(parts, axis=1), rtol=1e-6, atol=1e-7)


@each_with_gaps
def test_missing_cells_are_integrated_out(name):
    check_gaps(case_of(name), case_of(name).with_gaps())


def check_cells(case, X):
    """Expectations and draws of a missing cell are those of its density given the row."""
    mode, labels, n = case.mode(case.sums(case.X, LABELS)), np.array([0, 1], np.int32), 1500
    for column, cell in enumerate(case.cells):
        rows = X[[0, 5]]
        complete = np.repeat(rows, len(cell.values), axis=0)
        complete[:, column] = np.tile(cell.values, len(rows))
        rows[:, column] = np.nan
        logs = case.log_densities(complete, mode).reshape(len(rows), -1, K)[labels, :, labels]
        shares = np.exp(logs + cell.log_weights - case.log_densities(rows, mode)[labels, labels][:, np.newaxis])
        moments = shares @ cell.values, shares @ cell.values**2
        found = case.expected_cells(mode, rows, labels)
        if found.probabilities[column] is None:
            np.testing.assert_allclose(found.firsts[:, column], moments[0], rtol=1e-6)
            np.testing.assert_allclose(found.seconds[:, column], moments[1], rtol=1e-6)
        else:
            np.testing.assert_allclose(found.probabilities[column], shares, rtol=1e-9)
        drawn = case.drawn_cells(mode, np.repeat(rows, n, axis=0), np.repeat(labels, n))[:, column].reshape(2, n)
        assert_agrees(summarize(drawn.T), moments[0])
        assert_agrees(summarize(drawn.T**2), moments[1])


@each_with_gaps
def test_missing_cells_have_their_conditional_distribution(name):
    check_cells(case_of(name), case_of(name).with_gaps())


@each_with_gaps
def test_densities_of_a_column_are_those_of_rows_without_other_cells(name):
    case = case_of(name)
    mode = case.mode(case.sums(case.X, LABELS))
    cells = case.cell_distribution(mode)
    if not hasattr(cells, "log_densities_of_column"):  # of categories, whose information needs no densities
        return
    for column in range(case.X.shape[1]):
        rows = np.full((3, case.X.shape[1]), np.nan)
        rows[:, column] = case.X[:3, column]
        found = cells.log_densities_of_column(column, rows[:, column])
        np.testing.assert_allclose(found, case.log_densities(rows, mode), rtol=1e-9)


@each_with_gaps
def test_a_row_without_observed_cells_has_the_density_one(name):
    case = case_of(name)
    row, statistics = np.full((1, case.X.shape[1]), np.nan), case.statistics(case.X, LABELS)
    np.testing.assert_allclose(case.log_predictive(row, statistics), 0.0, atol=1e-12)
    np.testing.assert_allclose(case.log_densities(row, case.mode(case.sums(case.X, LABELS))), 0.0, atol=1e-12)


def check_agreement(case, X):
    """Densities of both memberships are the same, and their sum is that of statistics."""
    case, shares = case.bound_to(X), np.random.default_rng(5).dirichlet(np.ones(K), N_ROWS)
    statistics = case.statistics(case.X, LABELS)
    components = case.components(X, statistics, np.arange(K))
    parameters = case.as_parameters(components)
    found = case.log_densities(X, parameters)
    np.testing.assert_allclose(found, case.log_densities_given(X, components, K), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(case.drawn_means(components), case.means(parameters), **EXACT)
    np.testing.assert_allclose(case.log_densities(X, parameters, start=0.5) - 0.5, found, rtol=1e-11, atol=1e-11)
    predictive = case.log_predictive(X, statistics)
    np.testing.assert_allclose(case.log_predictive(X, statistics, start=0.5) - 0.5, predictive, rtol=1e-9, atol=1e-9)
    if not (case.completes and np.isnan(X).any()):
        for sums, weights in ((case.sums(X, LABELS), one_hot(LABELS)), (case.sums_of_shares(X, shares), shares)):
            total = case.log_likelihood(sums, parameters) + case.log_base(X)
            np.testing.assert_allclose(total, (weights * found).sum(), rtol=1e-11)


@each_form
def test_both_memberships_have_the_same_densities(name, has_gaps):
    check_agreement(case_of(name), rows_of(case_of(name), has_gaps))


@pytest.mark.extended
@each_form
def test_scores_of_slice_sampling_are_log_densities(name, has_gaps):
    case = case_of(name)
    X, statistics = rows_of(case, has_gaps), case.statistics(case.X, LABELS)
    components = case.components(X, statistics, np.arange(K))
    exact = case.log_densities_given(X, components, K)[ORDER]
    scores = case.scores(X, statistics, components, K, ORDER)
    is_small = np.isneginf(scores)
    assert np.all(exact[is_small] < np.broadcast_to(exact.max(axis=1, keepdims=True), exact.shape)[is_small] - 42.0)
    gaps = np.where(is_small, 0.0, scores - exact)
    np.testing.assert_allclose(gaps, np.where(is_small, 0.0, gaps.max(axis=1, keepdims=True)), atol=1e-9)


# --- the prior and the mode ------------------------------------------------------------------------------


def check_prior(case):
    """Draws and expectations given no rows are those of the prior."""
    prior = np.tile(case.mean, (K, 1))
    np.testing.assert_allclose(case.expected(case.no_statistics()), prior, **EXACT)
    if "concentrations_" not in case.attributes(case.mode(case.no_sums())):  # a mode has a direction
        np.testing.assert_allclose(case.means(case.mode(case.no_sums())), prior, **EXACT)
    means = [case.means(drawn) for drawn in case.draws(case.no_sums(), 1500)]
    statistics, of_clusters = case.no_statistics(), []
    labels = np.array([0, 2]) if case.is_shared else np.repeat([0, 2, 9], 20)  # the last is beyond the capacity
    rows = case.rows(case.X)
    for key in fold_in_each(KEY, np.arange(1500 if case.is_shared else 100)):
        of_clusters.append(case.drawn_means(case.components(rows, statistics, labels, key)))
    for drawn in (np.array(means), np.array(of_clusters)):
        assert_agrees(summarize(drawn.mean(axis=1)), case.mean)
        assert_agrees(summarize((drawn**2).mean(axis=1)), case.square)


@each
def test_the_posterior_of_no_rows_is_the_prior(name):
    check_prior(case_of(name))


def check_mode(case, X):
    case = case.bound_to(X)
    sums = case.sums(X, LABELS)

    def log_joint(parameters):
        return case.log_prior(parameters) + case.log_likelihood(sums, parameters)

    mode, rng, shares = case.mode(sums), np.random.default_rng(0), one_hot(LABELS)
    best = log_joint(mode)
    for drawn in case.draws(sums, 20):
        assert log_joint(drawn) < best
    for scale in (0.01, 0.1, 0.3):
        for _ in range(10):
            near = case.mode(case.sums_of_shares(X, shares + scale * rng.random(shares.shape)))
            assert log_joint(near) < best
    return mode


@each_form
def test_the_mode_is_the_most_probable(name, has_gaps):
    case = case_of(name)
    mode = check_mode(case, rows_of(case, has_gaps))
    if "von_mises_fisher" not in name and not has_gaps:  # in natural parameters, its expectations are posterior means
        np.testing.assert_allclose(case.means(mode), case.expected(case.statistics(case.X, LABELS)), **EXACT)


# --- rows that are drawn ---------------------------------------------------------------------------------


def check_new_rows(case):
    """Of two distributions p and q, the mean of q / (p + q) over p is that of p / (p + q) over q; and their means."""
    n, statistics, mode = 3000, case.statistics(case.X, LABELS), case.mode(case.sums(case.X, LABELS))
    labels = np.repeat(np.arange(K, dtype=np.int32), n)
    drawn = [*np.split(case.new_rows(statistics, labels), K), *np.split(case.sample(mode, labels[: 2 * n]), 2)]
    for X, expected in zip(drawn, [*case.expected(statistics), *case.means(mode)[:2]], strict=True):
        assert_agrees(summarize(case.observations(X)), expected, 1e-12)
    one, other = (case.new_rows(statistics, labels[[0, n, last]]) for last in (0, n))
    np.testing.assert_array_equal(one[:2], other[:2])  # a row depends on its number and its label
    logs = [np.hstack([case.log_predictive(X, statistics), case.log_densities(X, mode)[:, :2]]) for X in drawn]
    for a in range(len(drawn)):
        for b in range(a):
            of_a, of_b = (
                1.0 / (1.0 + np.exp(log[:, i] - log[:, j])) for log, i, j in ((logs[a], a, b), (logs[b], b, a))
            )
            assert_agrees(summarize(of_a - of_b), 0.0, 1e-12)


@each
def test_rows_are_drawn_from_their_densities(name):
    check_new_rows(case_of(name))


# --- split-merge -----------------------------------------------------------------------------------------


def check_sides(case, X):
    """Odds, densities and Bayes factors are those of marginal densities, after rows were added and removed."""
    clusters, statistics = case.clusters(X), case.statistics(X, LABELS)
    data, tolerance = clusters.data, {"rtol": case.rtol, "atol": case.rtol}
    posterior, sides = clusters.split_merge_space(statistics, KEY)
    rows, row, side = ORDER[:11], ORDER[11], np.arange(11) % 2
    blocks = getattr(clusters, "blocks", [clusters])
    bases = [getattr(block, "log_base", block.rows.log_base) for block in blocks]
    base = sum(of_block[row] for of_block in bases if of_block is not None)

    def log_marginal(*parts):
        rows = np.concatenate(parts).astype(int)
        return case.log_marginal(X[rows], case.statistics(X[rows], np.zeros(len(rows), np.int32))) if len(rows) else 0.0

    for n_kept in (11, 6, 1, 0):
        log_odds, of_side_1 = compiled_walk(data, *sides, rows, side, n_kept, row)
        on = [rows[:n_kept][side[:n_kept] == s] for s in (0, 1)]
        expected = [log_marginal(part, [row]) - log_marginal(part) for part in on]
        np.testing.assert_allclose([log_odds, of_side_1 + base], [expected[1] - expected[0], expected[1]], **tolerance)
        factor = log_marginal(on[0]) + log_marginal(on[1]) - log_marginal(*on)
        np.testing.assert_allclose(compiled_factor(data, *sides, 0, 1), factor, **tolerance)
        compiled_clear(data, *sides)
    own, found = [np.flatnonzero(k == LABELS) for k in (0, 1)], np.zeros(2)
    compiled_predictive(data, statistics, posterior, row, np.array([0, 1]), found)
    expected = [log_marginal(part, [row]) - log_marginal(part) for part in own]
    np.testing.assert_allclose(found + base, expected, **tolerance)
    factor = log_marginal(own[0]) + log_marginal(own[1]) - log_marginal(*own)
    np.testing.assert_allclose(compiled_factor(data, statistics, posterior, 1, 0), factor, **tolerance)
    kernels.merge_labels(data, statistics, 1, 0)
    merged = case.statistics(X, np.ones(N_ROWS, np.int32))
    assert_same(case.arrays(statistics), case.arrays(merged), **EXACT)


HAVE_SIDES = [name for name in BUILDERS if not case_of(name).is_shared and name != "von_mises_fisher"]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "has_gaps"),
    [
        *((name, False) for name in HAVE_SIDES),
        *((name, True) for name in HAVE_SIDES if name in HAVE_GAPS and not case_of(name).completes),
    ],
)
def test_moves_of_splits_and_merges_have_the_odds_of_marginal_densities(name, has_gaps):
    check_sides(case_of(name), rows_of(case_of(name), has_gaps))


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore:Columns .* are linear")
@pytest.mark.parametrize("name", ["bernoulli", "categorical", "diag", "negative_binomial", "poisson", "spherical"])
def test_products_over_many_columns_are_logarithms_in_splits_and_merges(name):
    case = case_of(name).repeated(8)
    check_sides(case, case.with_gaps())
    if name in ("diag", "spherical"):
        check_sides(case, 1e12 * case.X)


# --- input, parts and threads ----------------------------------------------------------------------------


def check_types(case, X, tolerance):
    rows = X.astype(np.float32)
    statistics = case.statistics(case.X, LABELS)
    found = case.log_predictive(rows, statistics)
    np.testing.assert_allclose(found, case.log_predictive(rows.astype(float), statistics), **tolerance)


@each_form
def test_rows_of_float32_are_those_of_float64(name, has_gaps):
    case = case_of(name)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if "von_mises_fisher" in name else {"rtol": 0.0}
    check_types(case, rows_of(case, has_gaps), tolerance)


@pytest.mark.parametrize("name", HAVE_SPARSE)
def test_sparse_rows_are_those_of_dense_rows(name):
    case = case_of(name)
    X, mode = sparse(case.X), case.mode(case.sums(case.X, LABELS))
    statistics = case.statistics(X, LABELS)
    assert_same(case.arrays(statistics), case.arrays(case.statistics(case.X, LABELS)), **EXACT)
    assert_same(case.sums(X, LABELS), case.sums(case.X, LABELS), **EXACT)
    np.testing.assert_allclose(case.log_predictive(X, statistics), case.log_predictive(case.X, statistics), **EXACT)
    np.testing.assert_allclose(case.log_densities(X, mode), case.log_densities(case.X, mode), **EXACT)


def check_rows_alone(case, X):
    statistics, mode = case.statistics(X, LABELS), case.mode(case.sums(X, LABELS))
    whole = case.log_predictive(X, statistics)
    for chosen in (np.array([7, 2, 11]), np.array([3])):  # the last row has no missing cell
        check_chosen_rows(case, X, statistics, mode, chosen)
    np.testing.assert_array_equal(case.log_predictive_of_part(X, statistics, 3, 9), whole[3:9])
    np.testing.assert_array_equal(case.log_densities(X, mode, 3, 9), case.log_densities(X, mode)[3:9])


def check_chosen_rows(case, X, statistics, mode, chosen):
    whole = case.log_predictive(X, statistics)[chosen]
    np.testing.assert_array_equal(case.log_predictive_of_subset(X, statistics, chosen), whole)
    np.testing.assert_array_equal(case.log_predictive(X[chosen], statistics), whole)
    np.testing.assert_array_equal(case.log_densities(X[chosen], mode), case.log_densities(X, mode)[chosen])
    components = case.components(X, statistics, np.arange(K))
    given = case.log_densities_given(X, components, K)[chosen]
    np.testing.assert_array_equal(case.log_densities_given(X[chosen], components, K), given)


@each_form
def test_a_row_has_the_same_bytes_in_any_company(name, has_gaps):
    check_rows_alone(case_of(name), rows_of(case_of(name), has_gaps))


def check_threads(case, X):
    """So many rows and labels that there are several tasks."""
    many, labels = np.tile(X, (750, 1)), np.tile(LABELS, 750)
    rows = np.arange(0, len(many), 2)
    new, drawn = np.full(len(rows), 2, np.int32), np.arange(7000) % 40
    results = []
    with Workers(2) as two:
        for workers in (ONE, two):
            statistics = case.statistics(many, labels, workers, 40)
            components = case.components(X, statistics, np.arange(40), KEY, workers)
            results.append(
                [
                    *case.arrays(statistics),
                    *case.arrays(case.moved(many, labels, rows, new, workers)),
                    case.log_predictive(many, statistics, workers),
                    case.log_densities_given(many, components, 40, workers),
                    *case.drawn_arrays(case.components(X, statistics, drawn, KEY, workers)),
                ]
            )
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@each
def test_threads_change_no_byte(name):
    check_threads(case_of(name), case_of(name).X)
