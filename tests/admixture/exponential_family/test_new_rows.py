"""New rows of admixtures have the moments of the model: each token has its own component."""

import numpy as np
import pytest
import scipy.sparse as sp
from samplers._evidence import assert_agrees, summarize
from sklearn.exceptions import NotFittedError

from skmanifold import ExponentialFamilyAdmixture
from skmanifold.admixture._tokens.new_rows import draw_cells, draw_words
from skmanifold.emissions import Bernoulli, Gaussian, Multinomial
from skmanifold.emissions._gaussian.base import GaussianFamily
from skmanifold.models import IncompatibleError
from skmanifold.persistence import load
from skmanifold.topics.topic_word import TopicWord

from ._family_data import EMISSIONS, make, small_rows

ALPHA = [0.5, 0.3, 1.2]
N = 20_000


def fitted(emission, **settings):
    return make(emission, doc_topic_prior=ALPHA, **settings).fit(small_rows(emission))


def second_moments(model):
    """Expected products of two proportions of a row."""
    alpha = model.doc_topic_prior_
    return (np.outer(alpha, alpha) + np.diag(alpha)) / (alpha.sum() * (alpha.sum() + 1.0))


def moments_of_bernoulli(model, X):
    means, weights = model.components_, model.doc_topic_prior_ / model.doc_topic_prior_.sum()
    pairs = np.triu_indices(7, 1)
    expected = np.concatenate([weights @ means, (means.T @ second_moments(model) @ means)[pairs]])
    return np.hstack([X, (X[:, :, None] * X[:, None, :])[:, *pairs]]), expected


def moments_of_multinomial(model, X):
    """Given the number of tokens of a row, which is one of those of the fitted rows."""
    X, words, weights = X.toarray(), model.components_, model.doc_topic_prior_ / model.doc_topic_prior_.sum()
    n = X.sum(axis=1)
    pairs = X[:, :, None] * X[:, None, :] - np.eye(7) * X[:, :, None]
    ones = X - n[:, None] * (weights @ words)
    expected = (n * (n - 1.0))[:, None, None] * (words.T @ second_moments(model) @ words)
    return np.hstack([ones, (pairs - expected)[:, *np.triu_indices(7)]]), np.zeros(7 + 28)


def moments_of_poisson(model, X):
    X, words, alpha, b = X.toarray(), model.components_, model.doc_topic_prior_, model.intensity_rate_
    means = alpha @ words / b
    pairs = X[:, :, None] * X[:, None, :] - np.eye(7) * X[:, :, None]
    expected = np.outer(means, means) + (words.T * alpha) @ words / b**2
    upper = np.triu_indices(7)
    return np.hstack([X, pairs[:, *upper]]), np.concatenate([means, expected[upper]])


def moments_of_gaussian(model, X):
    """Sums of vectors, of their products, and of the products of two different ones."""
    means, weights = model.components_, model.doc_topic_prior_ / model.doc_topic_prior_.sum()
    n = np.array([len(row) for row in X])
    sums = np.array([row.sum(axis=0) for row in X])
    own = np.array([row.T @ row for row in X])
    squares = np.einsum("k,kij->ij", weights, model.covariances_ + means[:, :, None] * means[:, None, :])
    others = sums[:, :, None] * sums[:, None, :] - own
    others = others - (n * (n - 1.0))[:, None, None] * (means.T @ second_moments(model) @ means)
    parts = sums - n[:, None] * (weights @ means), own - n[:, None, None] * squares, others
    return np.hstack([part.reshape(len(n), -1) for part in parts]), np.zeros(10)


MOMENTS = {
    "bernoulli": moments_of_bernoulli,
    "multinomial": moments_of_multinomial,
    "gaussian": moments_of_gaussian,
    "poisson": moments_of_poisson,
}


def agreement(model, X):
    values, expected = MOMENTS[model.emission](model, X)
    return summarize(values), expected


@pytest.mark.extended
@pytest.mark.parametrize("emission", EMISSIONS)
def test_new_rows_have_the_moments_of_the_model(emission):
    model = fitted(emission)
    X, proportions = model.sample(N, random_state=0)
    assert_agrees(*agreement(model, X))
    pairs = (proportions[:, :, None] * proportions[:, None, :]).reshape(N, 9)
    if emission == "poisson":
        alpha, b = model.doc_topic_prior_, model.intensity_rate_
        assert_agrees(summarize(proportions), alpha / b)
        assert_agrees(summarize(pairs), ((np.outer(alpha, alpha) + np.diag(alpha)) / b**2).ravel())
    else:
        np.testing.assert_allclose(proportions.sum(axis=1), 1.0)
        assert_agrees(summarize(pairs), second_moments(model).ravel())


@pytest.mark.extended
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_vectors_have_the_covariances_of_their_components(covariance_type):
    model = make(Gaussian(covariance_type), 1, word_vectors=np.random.default_rng(5).normal(size=(7, 2)))
    rows, _ = model.fit(small_rows("gaussian")).sample(2000, random_state=0)
    vectors = np.concatenate(rows) - model.components_[0]
    covariance = model.covariances_ if covariance_type == "tied" else model.covariances_[0]
    expected = covariance if covariance.ndim == 2 else np.diag(covariance)
    assert_agrees(summarize((vectors[:, :, None] * vectors[:, None, :]).reshape(-1, 4)), expected.ravel())


@pytest.mark.parametrize("emission", EMISSIONS)
def test_seeds_fix_the_rows_and_more_rows_begin_with_the_same(emission, tmp_path):
    model = fitted(emission, n_jobs=2)

    def drawn(n_samples, seed, model=model):
        X, proportions = model.sample(n_samples, random_state=seed)
        return [row.tolist() for row in (X.toarray() if sp.issparse(X) else X)], proportions.tolist()

    assert drawn(6, 3) == drawn(6, 3, fitted(emission))
    assert drawn(6, 3) == tuple(part[:6] for part in drawn(40, 3))
    assert drawn(6, 3) != drawn(6, 4)
    model.save(tmp_path / "model")
    assert drawn(6, 3, load(tmp_path / "model")) == drawn(6, 3)
    assert len(drawn(1, None)[0]) == len(model.sample()[1]) == 1


def test_rows_have_the_numbers_of_tokens_of_fitted_rows():
    X = np.zeros((4, 7))
    X[:, 0] = [0, 2, 2, 9]  # a row without tokens is one too
    X[3, 1] = 3
    model = make("multinomial").fit(X)
    rows, proportions = model.sample(2000, random_state=0)
    lengths, n_rows = np.unique(rows.sum(axis=1), return_counts=True)
    assert lengths.tolist() == [0, 2, 12]
    np.testing.assert_allclose(n_rows / 2000, [0.25, 0.5, 0.25], atol=4.5 * np.sqrt(0.25 / 2000))
    assert rows.dtype == np.int64
    assert rows.has_canonical_format
    assert proportions.shape == (2000, 3)
    model.partial_fit(3 * X)
    assert set(model.sample(100, random_state=0)[0].sum(axis=1)) <= {0, 2, 12}
    assert make("multinomial").partial_fit(3 * X).sample(50, random_state=0)[0].sum(axis=1).max() == 36
    model.set_params(emission="poisson").fit(X)
    assert not hasattr(model, "_row_lengths")


def test_words_of_the_smoothing_part_are_drawn_too():
    topics = TopicWord(
        np.array([0, 1, 1, 3]),
        np.array([1, 0, 1], np.uint16),
        np.array([0.5, 0.75, 0.25], np.float32),
        np.array([0.2, 0.2, 0.6]),
        np.array([0.25, 0.25, 1.0]),
    )
    for k, expected in enumerate(topics.toarray()):
        counts = draw_words(topics, np.eye(3, dtype=np.int64)[[k] * N], np.uint64(5)).toarray()
        assert_agrees(summarize(counts), expected)


class WithoutPrior:
    """A `TokenFamily` that is not a `DirichletFamily`."""

    def __init__(self, family):
        self.family, self.n_components, self.n_features = family, family.n_components, family.n_features
        for name in ("shapes", "n_cells", "mode", "attributes", "check_parameters", "statistics_of_tokens"):
            setattr(self, name, getattr(family, name))
        self.token_table, self.start_of_tokens = family.token_table, family.start_of_tokens


class OfTable(Multinomial):
    def bind_tokens(self, tokens, n_components, word_vectors=None):
        return WithoutPrior(super().bind_tokens(tokens, n_components))


def test_words_of_user_defined_families_have_the_moments_too():
    model = ExponentialFamilyAdmixture(3, emission=OfTable(), doc_topic_prior=ALPHA, max_iter=12, random_state=0)
    X, _ = model.fit(small_rows("multinomial")).sample(N, random_state=0)
    values, expected = moments_of_multinomial(model, X)
    assert_agrees(summarize(values), expected)


def test_cells_with_more_than_two_values():
    table = np.random.default_rng(0).dirichlet(np.ones(3), (4, 2))  # of components and columns
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    cells, totals = draw_cells(np.log(np.moveaxis(table, 0, 2)), np.tile(weights, (N, 1)), np.uint64(1))
    expected = np.einsum("k,kjc->jc", weights, table)
    for j in range(2):
        assert_agrees(summarize(cells[:, [j]] == np.arange(3)), expected[j])
    assert_agrees(summarize((cells[:, :1] == 0) & (cells[:, 1:] == 0)), expected[0, 0] * expected[1, 0])
    assert (totals.sum(axis=1) == 2).all()
    assert_agrees(summarize(totals), 2.0 * weights)


def test_bad_arguments_are_refused_in_one_sentence(monkeypatch, tmp_path):
    with pytest.raises(NotFittedError):
        make("poisson").sample()
    model = fitted("multinomial")
    with pytest.raises(ValueError, match="n_samples == 0, must be >= 1"):
        model.sample(0)
    with pytest.raises(TypeError, match="n_samples must be an instance of int"):
        model.sample(2.5)
    with pytest.raises(ValueError, match="cannot be used to seed"):
        model.sample(2, random_state="seed")
    del model._row_lengths
    with pytest.raises(ValueError, match=r"cannot be saved: .* lacks the numbers of tokens of its rows"):
        model.save(tmp_path / "model")
    vectors = fitted("gaussian")
    monkeypatch.delattr(GaussianFamily, "sample")
    with pytest.raises(IncompatibleError, match=r"ExponentialFamilyAdmixture\.sample needs"):
        vectors.sample()


def test_missing_cells_of_the_fit_are_drawn():
    X = small_rows("bernoulli")
    assert np.isnan(X).any()
    rows, _ = make(Bernoulli()).fit(X).sample(30, random_state=0)
    assert set(np.unique(rows)) == {0, 1}
