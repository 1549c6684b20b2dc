"""Summaries of clusters: sizes with intervals, typical rows, and the columns that separate the clusters."""

import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import entropy
from sklearn.exceptions import NotFittedError

from skmanifold import DPCategoricalMixture, DPMixture, load
from skmanifold._install import install_command
from skmanifold.emissions import Gaussian
from skmanifold.emissions._cells import CategoryCells, mutual_information
from skmanifold.mixture._dirichlet_process import fit_strategy

from ..exponential_family._mixtures import counts_by, data_of, slow_log_terms, small_fit, small_table, tokens_of

POINT = np.array([0, 0, 0, 1, 1])
DRAWN_SIZES = ["drawn_size", "drawn_size_low", "drawn_size_high"]


@cache
def fit_of_rows():
    """The small table by the emission of rows; never change it."""
    settings = {"clusters": "components", "max_iter": 12, "burn_in": 4, "random_state": 0}
    return DPMixture("categorical", init=5, **settings).fit(small_table())


def fits():
    return {"rows": fit_of_rows(), **{emission: small_fit(emission) for emission in ("categorical", "multinomial")}}


def data_of_fit(name):
    return data_of("categorical" if name == "rows" else name)


each_fit = pytest.mark.parametrize("name", ["rows", "categorical", "multinomial"])


# --- sizes -----------------------------------------------------------------------------------------------


def fit_with_draws(draws):
    """Two clusters of three rows and of two, with these draws of labels."""
    settings = {"clusters": "components", "max_iter": 2, "random_state": 0}
    mixture = DPMixture("categorical", init=POINT, **settings).fit(POINT[:, None].repeat(40, axis=1))
    assert mixture.labels_.tolist() == POINT.tolist()
    mixture._posterior = {**mixture.posterior_, "labels": np.array(draws, np.int32)[np.newaxis]}
    return mixture


def test_intervals_of_sizes_are_those_of_clusters_matched_by_their_rows():
    draws = [
        [0, 0, 0, 1, 1],  # sizes 3, 2
        [1, 1, 0, 0, 0],  # other names: 2, 3
        [0, 0, 0, 0, 0],  # one cluster, which has more rows of the first: 5, 0
        [4, 2, 2, 0, 3],  # with a part of the first that is larger than the others: 2, 1
    ]
    clusters = fit_with_draws(draws).cluster_summary().clusters
    assert clusters["size"].tolist() == [3, 2]
    # of 2, 2, 3, 5 and of 0, 1, 2, 3
    assert clusters["drawn_size"].tolist() == [2, 1]
    assert clusters["drawn_size_low"].tolist() == [2, 0]
    assert clusters["drawn_size_high"].tolist() == [5, 3]
    assert (clusters[DRAWN_SIZES].dtypes == np.int64).all()


def test_without_draws_of_labels_there_are_no_drawn_sizes():
    mixture = fit_with_draws(np.empty((0, 5)))
    clusters = mixture.cluster_summary().clusters
    assert clusters["size"].tolist() == [3, 2]
    assert clusters.columns[:2].tolist() == ["size", "typical_row"]
    mixture._posterior.pop("labels")
    pd.testing.assert_frame_equal(mixture.cluster_summary().clusters, clusters)


@each_fit
def test_sizes_of_all_chains_are_used_and_lie_around_those_of_the_point_partition(name):
    mixture = fits()[name]
    clusters = mixture.cluster_summary().clusters
    assert clusters["size"].tolist() == np.bincount(mixture.labels_).tolist()
    assert clusters["drawn_size"].between(clusters["drawn_size_low"], clusters["drawn_size_high"]).all()
    assert clusters["drawn_size_high"].iloc[0] > clusters["drawn_size_low"].iloc[0]
    assert abs(clusters["size"].iloc[0] - clusters["drawn_size"].iloc[0]) < 15


# --- columns ---------------------------------------------------------------------------------------------


def entropy_gain(weights, probabilities):
    """Mutual information of the cluster and a category with these probabilities, (K, n_categories)."""
    return entropy(weights @ probabilities) - weights @ entropy(probabilities, axis=1)


@pytest.mark.parametrize("name", ["rows", "categorical"])
def test_information_of_a_column_of_codes_is_the_entropy_that_the_cluster_takes_away(name):
    mixture = fits()[name]
    weights = np.bincount(mixture.labels_) / len(mixture.labels_)
    expected = np.array([entropy_gain(weights, column) for column in mixture.components_])
    columns = mixture.cluster_summary().columns
    assert columns.columns.tolist() == ["mutual_information"]
    np.testing.assert_allclose(columns["mutual_information"][range(5)], expected)
    assert expected.min() > 1e-4


def test_parts_of_categories_of_counts_add_up_to_the_information_of_a_token():
    mixture = small_fit("multinomial")
    shares, means = np.bincount(mixture.labels_) / len(mixture.labels_), mixture.components_
    found = mixture.cluster_summary().columns["mutual_information"]
    assert found.sum() == pytest.approx(entropy_gain(shares, means))
    for category in range(6):
        joint = shares * means[:, category]
        expected = (joint * np.log(means[:, category] / joint.sum())).sum()
        assert found[category] == pytest.approx(expected)


def test_a_column_of_equal_probabilities_has_no_information_and_a_column_of_labels_has_all():
    cells = CategoryCells([np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]])])
    np.testing.assert_allclose(cells.information(np.diag([6000, 2000])), [0, entropy([0.75, 0.25])], atol=1e-9)


@pytest.mark.parametrize(
    "emission",
    [
        "gaussian",
        *(
            pytest.param(each, marks=pytest.mark.extended)
            for each in ("bernoulli", Gaussian("diag"), "poisson", "negative_binomial")
        ),
    ],
)
def test_columns_of_clusters_have_the_cells_that_imputation_uses(emission):
    rng = np.random.default_rng(0)
    of_rows = rng.integers(2, size=80)
    X = rng.poisson(np.array([[1.0, 8.0, 3.0], [9.0, 8.0, 1.0]])[of_rows])
    X = np.minimum(X, 1) if emission == "bernoulli" else X
    mixture = DPMixture(emission, init=of_rows, clusters="components", max_iter=4, random_state=0).fit(X)
    clusters, columns = mixture.cluster_summary()
    statistics = mixture._estimate.statistics
    cells = mixture._family.cell_distribution(mixture._family.clusters().cell_attributes(statistics))
    found = columns["mutual_information"][range(3)]
    np.testing.assert_allclose(found, cells.information(np.diag(statistics.sizes / 80.0)), rtol=1e-9)
    np.testing.assert_allclose(clusters[list(range(3))], mixture.components_)


def test_mutual_information_of_densities_in_closed_form():
    half = np.diag([0.5, 0.5])
    likely = np.log([[0.75, 0.25], [0.25, 0.75]])  # of a zero and of a one, which are as frequent
    assert mutual_information(likely, half) == pytest.approx(np.log(2) - entropy([0.75, 0.25]))
    disjoint = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    assert mutual_information(disjoint, half) == pytest.approx(np.log(2))
    assert mutual_information(np.full((3, 2), -1e5), half) < 1e-11
    twice = np.repeat(likely, 2, axis=1)  # two components in each cluster
    weights = np.array([[0.1, 0.4, 0.0, 0.0], [0.0, 0.0, 0.2, 0.3]])
    assert mutual_information(twice, weights) == pytest.approx(mutual_information(likely, half))


@each_fit
def test_columns_are_in_descending_order_of_information_with_typical_cells(name):
    mixture = fits()[name]
    clusters, columns = mixture.cluster_summary()
    assert (np.diff(columns["mutual_information"]) <= 0).all()
    own = ["size", *DRAWN_SIZES, "typical_row"]
    assert clusters.columns.tolist() == [*own, *columns.index]
    assert sorted(columns.index) == list(range(mixture.n_features_in_))
    for column in columns.index:
        if name == "multinomial":
            np.testing.assert_allclose(clusters[column], mixture.components_[:, column])
        else:
            assert clusters[column].tolist() == mixture.components_[column].argmax(axis=1).tolist()


# --- typical rows ----------------------------------------------------------------------------------------


@each_fit
@pytest.mark.parametrize("rows_at_once", [7, 10**6])
def test_typical_rows_have_the_highest_density_in_their_clusters(name, rows_at_once, monkeypatch):
    monkeypatch.setattr(fit_strategy, "_ROWS_AT_ONCE", rows_at_once)
    X = data_of_fit(name)
    mixture = fits()[name]
    if rows_at_once == 7:
        mixture = type(mixture)(**mixture.get_params()).fit(X)
    emission = "multinomial" if name == "multinomial" else "categorical"
    tokens, start = tokens_of(emission, X, getattr(mixture, "n_categories_", [6]))
    labels = mixture.labels_
    terms = slow_log_terms(tokens, start, *counts_by(labels, tokens), 1.0, 0.5)
    assert mixture.typical_rows_.shape == (mixture.n_components_,)
    for k, row in enumerate(mixture.typical_rows_):
        assert labels[row] == k
        members = np.flatnonzero(labels == k)
        highest = members[terms[members, k] > terms[members, k].max() - 1e-9]
        assert row == highest[0]  # the first of equal ones
    assert mixture.cluster_summary().clusters["typical_row"].tolist() == mixture.typical_rows_.tolist()


# --- names, files and states -----------------------------------------------------------------------------


def test_names_of_columns_are_those_of_the_user_or_of_the_data_frame():
    frame = pd.DataFrame(small_table(), columns=list("abcde"))
    settings = {"clusters": "components", "max_iter": 12, "burn_in": 4, "random_state": 0}
    mixture = DPMixture("categorical", init=5, **settings).fit(frame)
    order = fit_of_rows().cluster_summary().columns.index
    assert mixture.cluster_summary().columns.index.tolist() == ["abcde"[j] for j in order]
    named = mixture.cluster_summary(["v", "w", "x", "y", "z"])
    assert named.columns.index.tolist() == named.clusters.columns[-5:].tolist() == ["vwxyz"[j] for j in order]
    with pytest.raises(ValueError, match="feature_names"):
        mixture.cluster_summary(["v", "w"])


def test_without_pandas_one_sentence_says_how_to_install_it(monkeypatch):
    mixture = fit_of_rows()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError) as caught:
        mixture.cluster_summary()
    assert str(caught.value) == f"cluster_summary needs pandas: {install_command('demo')}"


@pytest.mark.parametrize("mixture", [DPMixture(), DPCategoricalMixture()])
def test_a_summary_is_of_a_fit(mixture):
    with pytest.raises(NotFittedError):
        mixture.cluster_summary()


@pytest.mark.parametrize("after_fit", [False, True])
@pytest.mark.parametrize("emission", ["multinomial", "categorical"])
def test_a_stream_has_expected_sizes_without_intervals_and_typical_rows(emission, after_fit):
    X = data_of(emission)
    mixture = DPCategoricalMixture(emission, sampler="scir", init=5, max_iter=6, total_samples=300, random_state=0)
    if after_fit:
        mixture.fit(X)
    clusters, columns = mixture.partial_fit(X).partial_fit(X).cluster_summary()
    assert not hasattr(mixture, "typical_rows_")
    assert clusters.columns.tolist() == ["size", *columns.index]
    assert len(clusters) == mixture.n_components_
    share = clusters["size"] / (clusters["size"].sum() + mixture.concentration_)
    np.testing.assert_allclose(share, mixture.weights_)
    assert 200 < clusters["size"].sum() <= 300.01
    if emission == "categorical":
        weights = (clusters["size"] / clusters["size"].sum()).to_numpy()
        expected = [entropy_gain(weights, mixture.components_[column]) for column in columns.index]
        np.testing.assert_allclose(columns["mutual_information"], expected)


@pytest.mark.parametrize("kind", [DPMixture, DPCategoricalMixture])
def test_a_fit_in_progress_is_summarised_and_saved(kind, tmp_path):
    seen = []

    class Looks:
        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            fitted_estimator.save(tmp_path / "mixture")
            found = load(tmp_path / "mixture").cluster_summary()
            seen.append(([name for name in found.clusters if "size" in str(name)], len(found.columns)))

    kind("categorical", max_iter=3, random_state=0).set_callbacks(Looks()).fit(small_table())
    assert seen == [(["size"], 5)] * 2 + [(["size", *DRAWN_SIZES], 5)] * 2  # the first draw is that of the last pass
