"""Starts of Dirichlet process mixtures: with and without small clusters, and with each form of covariances."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skmanifold import DPMixture
from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.emissions._bound_rows import StartEffort
from skmanifold.emissions._dense_rows import DenseRows
from skmanifold.emissions._gaussian.full import FullFamily
from skmanifold.emissions._gaussian.hyperparameters import NormalPrior
from skmanifold.mixture._dirichlet_process import starts
from skmanifold.random._keys import root_key
from skmanifold.utils._threads import Workers

ONE = Workers(1)
CENTRES = np.array([[-5.0, 0.0], [5.0, 0.0]])
SMALL = 6


@pytest.fixture
def clusters():
    """Two clusters of 100 rows each."""
    rows = np.repeat(CENTRES, 100, axis=0) + np.random.default_rng(0).normal(size=(200, 2))
    prior = NormalPrior(np.zeros(2), 0.1, np.eye(2), 5.0)
    return FullFamily(prior, 1, np.zeros(2)).clusters(DenseRows(rows))


@pytest.fixture
def labels():
    """Labels with a gap, where some rows of each cluster form a small third one."""
    labels = np.repeat(np.array([3, 1], np.int32), 100)
    labels[:SMALL] = labels[-SMALL:] = 4
    return labels


def found_with(clusters, labels, evidence=0.0):
    statistics = clusters.no_statistics(5)
    clusters.count(labels, statistics, ONE)
    return starts.Found(evidence, labels, statistics, clusters)


def test_rows_of_small_clusters_go_to_the_best_of_the_others(clusters, labels):
    found = found_with(clusters, labels)
    expected = np.repeat([3, 1], 100)
    np.testing.assert_array_equal(starts._without_small(found, 0.25, ONE), expected)
    assert np.bincount(found.labels)[4] == 2 * SMALL  # the labels that were passed stay
    np.testing.assert_array_equal(starts._without_small(found, 0.1, ONE), labels)  # 12 of 67 rows on average


@pytest.mark.parametrize("has_small", [False, True])
@pytest.mark.parametrize("better", ["with", "without"])
def test_the_last_round_is_tried_with_and_without_small_clusters(clusters, labels, has_small, better, monkeypatch):
    if not has_small:
        labels = np.repeat(np.array([3, 1], np.int32), 100)
    tried = []

    def improved(clusters, labels, free, n_rounds, key, workers):
        if labels.max() != 9:  # not those of the seeds
            tried.append(len(np.unique(labels)))
        evidence = {"with": 1.0, "without": -1.0}[better] * len(np.unique(labels))
        return found_with(clusters, labels if labels.max() != 9 else given, evidence)

    given = labels
    monkeypatch.setattr(FullFamily, "start_effort", lambda self: StartEffort(1000, (), 1, 0.25))
    monkeypatch.setattr(FullFamily, "spread_labels", lambda self, n, key: np.full(200, 9, np.int32))
    monkeypatch.setattr(starts, "_improved", improved)
    found = starts.find_clusters(clusters, None, 100, (), root_key(0), ONE)
    assert tried == ([3, 2] if has_small else [2])
    assert len(np.unique(found.labels)) == (3 if has_small and better == "with" else 2)


def test_superfluous_clusters_are_found_out(clusters, monkeypatch):
    monkeypatch.setattr(FullFamily, "start_effort", lambda self: StartEffort(1000, (), 1, 0.25))
    found = starts.find_clusters(clusters, None, 100, ("covariance",), root_key(0), ONE)
    np.testing.assert_array_equal(found.labels[[0, 100]], [0, 1])
    assert np.bincount(found.labels).tolist() == [100, 100]


@pytest.mark.parametrize("form", ["full", "diag"])
def test_the_form_of_covariances_with_the_highest_evidence_is_chosen_for_tables(form):
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=600)
    roots = np.linalg.cholesky(stats.wishart(4, np.eye(4)).rvs(3, random_state=rng) / 4)
    if form == "diag":
        roots = np.eye(4) * rng.uniform(0.3, 2.0, (3, 1, 4))
    numbers = 6.0 * rng.normal(size=(3, 4))[labels] + np.einsum("iab,ib->ia", roots[labels], rng.normal(size=(600, 4)))
    X = pd.DataFrame(numbers, columns=list("abcd")).assign(e=np.array(["x", "y", "z"])[labels])
    mixture = DPMixture("auto", max_iter=4, random_state=0).fit(X)
    (_, chosen, _), (_, categories, _) = mixture.emission_.blocks
    assert chosen.covariance_type == form
    assert chosen.mean_precision_prior is not None
    assert isinstance(categories, Categorical)


@pytest.mark.parametrize(
    ("emission", "columns"), [("auto", ["a"]), (Columns([("numbers", Gaussian("full"), ["a", "b"])]), ["a", "b"])]
)
def test_one_number_and_blocks_of_the_user_keep_their_form(emission, columns):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])[columns]
    mixture = DPMixture(emission, max_iter=4, random_state=0).fit(X)
    assert mixture.emission_.blocks[0][1].covariance_type == "full"
