import numpy as np
import pytest
import scipy.sparse as sp
from _memory import memory_below
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.stats import kstest

from skmanifold.datasets._synthetic_geometry import make_spherical_admixture
from skmanifold.distributions import bessel_ratio


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def cosines(rows, directions):
    return np.sum(rows * directions, axis=-1)


def mixtures(corpus):
    return unit(corpus.proportions @ corpus.components)


def test_shapes_unit_lengths_and_proportions_that_sum_to_one():
    corpus = make_spherical_admixture(30, 12, 4, document_concentration=5, random_state=0)
    assert corpus.data.shape == (30, 12)
    assert corpus.components.shape == (4, 12)
    assert corpus.proportions.shape == (30, 4)
    assert corpus.topic_mean.shape == corpus.mean_direction.shape == (12,)
    for rows in (corpus.data, corpus.components, corpus.topic_mean, corpus.mean_direction):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(corpus.proportions.sum(axis=1), 1.0, rtol=1e-14)
    assert corpus.proportions.min() >= 0
    given = (corpus.document_concentration, corpus.topic_concentration, corpus.mean_concentration)
    assert given == (5.0, 12.0, 12.0)


@pytest.mark.parametrize(("n_features", "concentration"), [(2, 3.0), (3, 0.0), (10, 40.0), (300, 300.0)])
def test_documents_have_the_mean_cosine_of_their_concentration(n_features, concentration):
    corpus = make_spherical_admixture(4000, n_features, 3, document_concentration=concentration, random_state=1)
    exact = bessel_ratio(n_features, concentration)
    found = summarize(cosines(corpus.data, mixtures(corpus)))
    assert_agrees(found, exact)
    # a concentration a tenth larger would be noticed, and so would another document's proportions
    if concentration:
        assert_disagrees(found, bessel_ratio(n_features, 1.1 * concentration))
        assert_disagrees(summarize(cosines(corpus.data, np.roll(mixtures(corpus), 1, axis=0))), exact)


def test_cosines_and_what_is_left_over_have_their_whole_law_in_three_dimensions():
    kappa = 2.5
    corpus = make_spherical_admixture(20_000, 3, 4, document_concentration=kappa, random_state=2)
    means = mixtures(corpus)
    cosine = cosines(corpus.data, means)

    def cdf(w, kappa=kappa):
        return np.expm1(kappa * (w + 1)) / np.expm1(2 * kappa)

    assert kstest(cosine, cdf).pvalue > 1e-3
    assert kstest(cosine, cdf, args=(1.05 * kappa,)).pvalue < 1e-3
    across = unit(corpus.data - cosine[:, np.newaxis] * means)
    frame = unit(np.cross(means, corpus.mean_direction))
    angle = np.arctan2(cosines(across, np.cross(means, frame)), cosines(across, frame))
    assert kstest(angle, "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-3


@pytest.mark.long
def test_topics_scatter_about_their_mean_and_that_about_the_first_diagonal():
    corpus = make_spherical_admixture(1, 20, 4000, topic_concentration=30.0, random_state=3)
    found = summarize(cosines(corpus.components, corpus.topic_mean))
    assert_agrees(found, bessel_ratio(20, 30.0))
    assert_disagrees(found, bessel_ratio(20, 33.0))
    np.testing.assert_allclose(corpus.mean_direction, 20**-0.5)

    corpora = [make_spherical_admixture(1, 20, 1, mean_concentration=25.0, random_state=seed) for seed in range(250)]
    found = summarize([cosines(corpus.topic_mean, corpus.mean_direction) for corpus in corpora])
    assert_agrees(found, bessel_ratio(20, 25.0))
    assert_disagrees(found, bessel_ratio(20, 40.0))


def test_concentrations_are_the_number_of_features_unless_given():
    corpus = make_spherical_admixture(3000, 50, 500, random_state=4)
    for rows, directions in ((corpus.data, mixtures(corpus)), (corpus.components, corpus.topic_mean)):
        assert_agrees(summarize(cosines(rows, directions)), bessel_ratio(50, 50.0))
    assert corpus.document_concentration == corpus.topic_concentration == corpus.mean_concentration == 50.0
    for n_features in (2, 5, 1000):
        assert 0.6 < bessel_ratio(n_features, n_features) < 0.7


@pytest.mark.parametrize("n_words", [None, 20])
def test_first_documents_of_a_larger_corpus_are_those_of_a_smaller_one(n_words):
    small, large = (make_spherical_admixture(n, 3000, 4, n_words=n_words, random_state=6) for n in (50, 211))
    assert (small.data != large.data[:50]).sum() == 0
    np.testing.assert_array_equal(small.proportions, large.proportions[:50])
    np.testing.assert_array_equal(small.components, large.components)
    # blocks do not repeat each other
    assert len(np.unique(large.proportions[:, 0])) == 211


def test_sparse_documents_are_the_largest_entries_of_the_dense_ones_at_unit_length():
    dense = make_spherical_admixture(200, 60, 4, random_state=7)
    cut = make_spherical_admixture(200, 60, 4, n_words=15, random_state=7)
    assert isinstance(cut.data, sp.csr_array)
    assert cut.data.has_sorted_indices
    assert np.all(np.diff(cut.data.indptr) == 15)
    least = np.sort(np.abs(dense.data), axis=1)[:, [-15]]
    np.testing.assert_allclose(cut.data.toarray(), unit(np.where(np.abs(dense.data) >= least, dense.data, 0)))
    for key in ("components", "proportions"):
        np.testing.assert_array_equal(cut[key], dense[key])
    # and they are no draws from the model
    means = mixtures(cut)
    assert_disagrees(summarize(cosines(cut.data.toarray(), means)), bessel_ratio(60, 60.0))


def test_all_words_kept_are_the_dense_documents():
    dense, kept = (make_spherical_admixture(20, 9, 2, n_words=n_words, random_state=8) for n_words in (None, 9))
    np.testing.assert_allclose(kept.data.toarray(), dense.data, rtol=1e-14)


def test_sparse_documents_never_stand_in_memory_as_dense_ones():
    with memory_below(8 * 2000 * 4000 / 5):
        corpus = make_spherical_admixture(2000, 4000, 3, n_words=10, random_state=0)
    assert corpus.data.nnz == 20_000
