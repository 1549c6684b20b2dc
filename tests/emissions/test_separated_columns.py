"""Families of some of the columns: the whole is the product of its columns, also if there are none."""

import numpy as np
import pytest

from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, NegativeBinomial, Poisson, Spikes
from skmanifold.emissions._abilities import SeparatesColumns
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key
from skmanifold.samplers import Slice
from skmanifold.utils._parameters import offers

from ._cases import Anyone
from ._families import BUILDERS, LABELS, ONE, K, case_of

KEY = root_key(3)
SEPARABLE = [name for name in BUILDERS if offers(case_of(name).family, SeparatesColumns)]
each = pytest.mark.parametrize("name", SEPARABLE)
NONE = np.zeros(0, np.int64)
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def counted(clusters, labels, capacity=K):
    statistics = clusters.no_statistics(capacity)
    clusters.count(labels, statistics, ONE)
    return statistics


def predictive(clusters, statistics):
    out = np.zeros((clusters.n_rows, len(statistics.sizes)))
    clusters.add_log_predictive(statistics, out, ONE)
    return out


def test_families_without_independent_columns_lack_the_ability():
    assert {"bernoulli", "categorical", "negative_binomial", "poisson"} <= set(SEPARABLE)
    assert {"columns", "diag", "spikes"} <= set(SEPARABLE)
    assert not {"full", "tied", "multinomial", "von_mises_fisher", "shared von_mises_fisher"} & set(SEPARABLE)


@each
def test_densities_are_products_over_columns(name):
    case = case_of(name)
    clusters = case.clusters(case.with_gaps()).separated()
    statistics = counted(clusters, LABELS)
    singles = [clusters.of_columns(np.array([j])) for j in range(clusters.n_features)]
    own = [counted(single, LABELS) for single in singles]
    pairs = list(zip(singles, own, strict=True))
    np.testing.assert_allclose(sum(predictive(*pair) for pair in pairs), predictive(clusters, statistics), **CLOSE)
    marginals = [single.log_marginal(each) for single, each in pairs]
    np.testing.assert_allclose(clusters.log_marginals_of_columns(statistics), marginals, **CLOSE)
    np.testing.assert_allclose(sum(marginals), clusters.log_marginal(statistics), **CLOSE)
    np.testing.assert_allclose([single.log_marginals_of_columns(each)[0] for single, each in pairs], marginals)


@each
def test_the_order_of_choosing_columns_and_rows_does_not_matter(name):
    case, X, chosen = case_of(name), case_of(name).with_gaps(), np.array([0, case_of(name).X.shape[1] - 1])
    rows, family = case.rows(X), case.family.separated()
    bound = family.clusters(rows).of_columns(chosen)
    of_chosen = rows.of_columns(chosen)
    np.testing.assert_array_equal(of_chosen.cells(), X[:, chosen])
    again = family.of_columns(chosen).clusters(of_chosen)
    statistics = counted(again, LABELS)
    np.testing.assert_allclose(predictive(bound, counted(bound, LABELS)), predictive(again, statistics), **CLOSE)
    part, some = bound.subset(np.array([2, 7, 9])), np.array([2, 7, 9])
    np.testing.assert_allclose(predictive(part, statistics), predictive(bound, statistics)[some], **CLOSE)


@each
def test_without_columns_all_densities_are_one(name):
    case = case_of(name)
    rows = case.rows(case.X)
    clusters = case.family.with_ranges(rows).clusters(rows).of_columns(NONE)
    labels, statistics = LABELS.copy(), counted(clusters, LABELS, 8)
    assert clusters.log_marginal(statistics) == 0.0
    assert not predictive(clusters, statistics).any()
    assert clusters.log_marginals_of_columns(statistics).shape == (0,)
    model = DPModel(clusters, None, (1.0, 1.0), labels, None, ONE)
    for step in range(3):
        statistics = model.split_merge(labels, statistics, 1.0, 10, 1, KEY + np.uint64(step))
    components = model.draw_components(statistics, np.arange(2), KEY)
    out = np.zeros((len(LABELS), 2))
    clusters.add_densities_of_rows(components, out, ONE)
    clusters.add_log_broad(out[:, :1], ONE)
    assert not out.any()
    assert clusters.new_rows(statistics, np.zeros(4, np.int32), KEY).shape == (4, 0)
    assert clusters.spread_labels(3, KEY).shape == LABELS.shape
    clusters.expected(statistics)


KINDS = [
    ("bits", Bernoulli(), [0, 1]),
    ("codes", Categorical(None, min_categories=3), [2, 3]),
    ("events", Poisson(1.0), [4]),
    ("visits", NegativeBinomial(), [5, 6]),
    ("heights", Gaussian("diag"), [7, 8]),
    ("sums", Spikes(spikes=[[0.0]], cell_widths=[0.1]), [9]),
]


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)[:, np.newaxis]
    X = np.hstack(
        [
            rng.random((n, 2)) < 0.2 + 0.3 * z,
            np.minimum(rng.poisson(0.5 + z, (n, 2)), 2),
            rng.poisson(1 + 2 * z, (n, 1)),
            rng.negative_binomial(1.5, 0.3, (n, 2)) * (1 + z),
            rng.normal(z, 1.0, (n, 2)),
            rng.normal(2.0 * z, 1.0, (n, 1)) * (rng.random((n, 1)) < 0.6),
        ]
    ).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def product(X):
    emission = Columns(KINDS)
    rows = emission.read(Anyone(), X, reset=True)
    before = emission.bind(rows, 1).with_ranges(rows).clusters(rows)
    return before.with_hyperprior(emission.free_hyperparameters(), before).separated()


def test_blocks_keep_their_order_and_columns_their_places():
    X, chosen = table(), np.array([0, 3, 5, 6, 9])
    clusters = product(X).of_columns(chosen)
    whole = product(X)
    assert clusters.names.tolist() == whole.names.tolist()
    assert type(clusters.data) is type(whole.data)
    places = dict(zip(clusters.names.tolist(), map(list, clusters.places), strict=True))
    assert places == {"bits": [0], "codes": [1], "events": [], "visits": [2, 3], "heights": [], "sums": [4]}
    is_spike = (np.arange(10) == 9) & (np.abs(X) < 0.05)
    np.testing.assert_array_equal(clusters.rows.cells(), np.where(is_spike, 0.0, X)[:, chosen])


def test_products_have_log_densities_of_each_column():
    X = table()
    clusters, labels = product(X), (np.arange(len(X)) % 3).astype(np.int32)
    single = [clusters.of_columns(np.array([j])) for j in range(X.shape[1])]
    expected = [own.log_marginal(counted(own, labels)) for own in single]
    found = clusters.log_marginals_of_columns(counted(clusters, labels))
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert sum(expected) == pytest.approx(clusters.log_marginal(counted(clusters, labels)))


def test_a_pass_does_not_depend_on_blocks_without_columns():
    X = table()
    clusters = product(X).of_columns(np.array([2, 3]))
    alone = clusters.of_block("codes")
    drawn = {}
    for name, family in (("joined", clusters), ("alone", alone)):
        model = DPModel(family, 1.0, (1.0, 1.0), 4, None, ONE)
        labels = model.init_labels(KEY)
        statistics = model.count(labels)
        for step in range(5):
            statistics = model.split_merge(labels, statistics, 1.0, 5, 1, KEY + np.uint64(step))
        drawn[name] = labels, model.log_joint(statistics, 1.0), predictive(family, statistics)
    for one, other in zip(*drawn.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("chosen", [[2, 5], [7], [0, 9]])
def test_slice_sampling_and_draws_with_blocks_without_columns(chosen):
    X, m = table(), len(chosen)
    clusters = product(X).of_columns(np.array(chosen))
    model, sampler = DPModel(clusters, None, (1.0, 1.0), 4, None, ONE), Slice()
    state = sampler.init(model, KEY)
    for _ in range(5):
        state = sampler.step(model, state)
    assert np.isfinite(state.log_density)
    statistics, labels = state.statistics, np.arange(2)
    components = model.draw_components(statistics, labels, KEY)
    given = clusters.given(statistics)
    cells = given.cell_distribution(given.cell_attributes(statistics))
    assert cells.typical(np.eye(len(statistics.sizes))).shape == (len(statistics.sizes), m)
    assert given.cell_distribution(given.drawn_attributes(components)).information(np.full((1, 2), 0.5)).shape == (m,)
    assert [len(column) for column in given.expected(statistics)["components_"]] == [len(statistics.sizes)] * m
    assert given.new_rows(statistics, np.zeros(4, np.int32), KEY).shape == (4, m)
    assert given.spread_labels(3, KEY).max() == 2
    out = np.zeros((len(X), 1))
    given.add_log_broad(out, ONE)
    assert np.isfinite(out).all()
