import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skmanifold import DPCategoricalMixture
from skmanifold.inspection import CoClusteringDisplay

from . import _fitted as fitted


def test_probabilities_are_those_of_the_estimator_with_sorted_rows():
    mixture, X = fitted.dirichlet_process(), fitted.table()
    display = CoClusteringDisplay.from_estimator(mixture, X)
    together = mixture.co_clustering(X)
    np.testing.assert_allclose(display.similarity, together[np.ix_(display.rows, display.rows)])
    assert sorted(display.rows) == list(range(len(X)))
    np.testing.assert_array_equal(display.labels, mixture.predict(X)[display.rows])
    assert (np.diff(display.labels) >= 0).all()
    (image,) = display.ax_.images
    np.testing.assert_array_equal(image.get_array(), display.similarity)
    assert image.colorbar.ax.get_ylabel() == "probability of the same cluster"


def test_without_rows_the_draws_of_the_labels_are_used():
    mixture = fitted.dirichlet_process()
    display = CoClusteringDisplay.from_estimator(mixture, max_rows=50)
    assert len(display.rows) == 50
    together = mixture.co_clustering()
    np.testing.assert_allclose(display.similarity, together[np.ix_(display.rows, display.rows)])
    np.testing.assert_array_equal(display.labels, mixture.labels_[display.rows])


def test_similar_rows_of_a_cluster_are_adjacent():
    similarity = np.where(np.equal.outer([0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1]), 0.9, 0.1)
    np.fill_diagonal(similarity, 1.0)

    class OneCluster(DPCategoricalMixture):
        def co_clustering(self, X):
            return similarity

        def predict(self, X):
            return np.zeros(6, int)

        def __sklearn_is_fitted__(self):
            return True

    display = CoClusteringDisplay.from_estimator(OneCluster(), np.zeros((6, 2)))
    parity = display.rows % 2
    assert np.count_nonzero(np.diff(parity)) == 1


def test_many_rows_are_thinned_evenly_for_every_container():
    mixture, X = fitted.dirichlet_process("multinomial"), fitted.counts()
    of_sparse = CoClusteringDisplay.from_estimator(mixture, sp.coo_array(X), max_rows=20)
    of_array = CoClusteringDisplay.from_estimator(mixture, X.toarray(), max_rows=20)
    np.testing.assert_array_equal(np.sort(of_sparse.rows), np.linspace(0, 59, 20).astype(int))
    np.testing.assert_array_equal(of_sparse.similarity, of_array.similarity)
    table = pd.DataFrame(fitted.table())
    assert len(CoClusteringDisplay.from_estimator(fitted.dirichlet_process(), table.to_numpy(), max_rows=20).rows) == 20


def test_custom_labels_order_the_rows():
    mixture, X = fitted.dirichlet_process(), fitted.table()
    labels = np.array(["b", "a", "c"])[np.arange(len(X)) % 3]
    display = CoClusteringDisplay.from_estimator(mixture, X, labels=labels)
    np.testing.assert_array_equal(display.labels, labels[display.rows])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"labels must have shape \(120,\)"):
        CoClusteringDisplay.from_estimator(mixture, X, labels=labels[:5])


def test_a_matrix_has_at_least_two_rows():
    with pytest.raises(ValueError, match="max_rows must be at least 2"):
        CoClusteringDisplay.from_estimator(fitted.dirichlet_process(), fitted.table(), max_rows=1)
