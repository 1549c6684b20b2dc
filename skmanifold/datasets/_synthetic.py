"""Generators of corpora and of tables of categories, with the true parameters."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike
from sklearn.utils import check_random_state

from ..utils._typing import ArrayLike, Bunch, RandomStateLike

_CELLS_PER_BLOCK = 1_000_000  # entries of proportions drawn at a time; another value would give another corpus
_LEAST_SHAPE = 1e-100  # minimum shape of a gamma draw; 1 / shape must not overflow


class _WordCounts(Bunch):
    data: sp.csr_array
    components: np.ndarray
    proportions: np.ndarray
    base_distribution: np.ndarray


def make_lda_corpus(
    n_samples: int = 100,
    n_features: int = 1000,
    n_components: int = 10,
    *,
    mean_length: float = 100.0,
    length_dispersion: float = 0.0,
    doc_topic_prior: ArrayLike = 0.1,
    topic_word_prior: float = 0.1,
    zipf_exponent: float = 1.0,
    dtype: DTypeLike = np.float64,
    random_state: RandomStateLike = None,
) -> _WordCounts:
    r"""Draw a corpus from latent Dirichlet allocation over a Zipf vocabulary.

    Word frequencies follow Zipf's law, :math:`b_v \propto \mathrm{rank}(v)^{-s}`, with random ranks of the columns.
    Then, as in [1]_ but with the base distribution `b` in the prior of the topics,

    .. math::
        \phi_k \sim \mathrm{Dirichlet}(\eta V b), \quad
        \theta_d \sim \mathrm{Dirichlet}(\alpha), \quad
        z_{di} \sim \theta_d, \quad w_{di} \sim \phi_{z_{di}}.

    All topics then contain the most frequent words, like function words, and few topics contain a rare word. With
    ``zipf_exponent=0`` the topics have the usual symmetric prior.

    Time and memory are proportional to the number of tokens plus the sizes of `components` and `proportions`, not to
    ``n_samples * n_features``.

    Parameters
    ----------
    n_samples : int, default=100
        Number of documents.
    n_features : int, default=1000
        Number of words in the vocabulary, V.
    n_components : int, default=10
        Number of topics, K.
    mean_length : float, default=100.0
        Expected number of tokens in a document. Documents may be empty.
    length_dispersion : float, default=0.0
        Lengths have the variance ``mean_length + length_dispersion * mean_length**2``: a Poisson distribution for 0,
        and a negative binomial one for larger values (about 0.5 in collections of news articles).
    doc_topic_prior : float or array-like of shape (n_components,), default=0.1
        Dirichlet parameter alpha of the proportions of a document: one number for all topics or one for each.
    topic_word_prior : float, default=0.1
        Mean eta over the vocabulary of the Dirichlet parameters of a topic. With a smaller value topics have fewer
        words and overlap less; for large values they approach the base distribution.
    zipf_exponent : float, default=1.0
        Exponent s of Zipf's law; 0 makes all words equally frequent.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of `components` and `proportions`. The draws do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed. An int gives the same corpus in every call with the same release of numpy.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : csr_array of shape (n_samples, n_features), int32
            Counts; indices are sorted within rows.
        components : ndarray of shape (n_components, n_features)
            The true topics; rows sum to 1.
        proportions : ndarray of shape (n_samples, n_components)
            The true proportions of topics in each document; rows sum to 1.
        base_distribution : ndarray of shape (n_features,), float64
            The Zipf distribution `b`, the prior mean of the topics.

    Raises
    ------
    ValueError
        If a parameter has the wrong type or is out of its range.

    References
    ----------
    .. [1] D. M. Blei, A. Y. Ng and M. I. Jordan (2003), "Latent Dirichlet allocation", Journal of Machine Learning
       Research 3, 993-1022.

    Examples
    --------
    >>> from skmanifold.datasets import make_lda_corpus
    >>> corpus = make_lda_corpus(n_samples=200, n_features=500, n_components=5, random_state=0)
    >>> corpus.data.shape, corpus.components.shape, corpus.proportions.shape
    ((200, 500), (5, 500), (200, 5))
    """
    _check_sizes(n_samples=n_samples, n_features=n_features, n_components=n_components)
    _check_numbers(0, mean_length=mean_length, topic_word_prior=topic_word_prior)
    _check_numbers(None, length_dispersion=length_dispersion, zipf_exponent=zipf_exponent)
    alpha = _check_doc_topic_prior(doc_topic_prior, n_components)
    if dtype not in (np.float64, np.float32):
        raise ValueError(f"dtype must be np.float64 or np.float32; got {dtype!r}.")
    # the Generator of numpy is several times faster than RandomState
    rng = np.random.default_rng(check_random_state(random_state).randint(0, 2**32, size=8, dtype=np.uint32))

    base = np.arange(1, n_features + 1, dtype=np.float64) ** -zipf_exponent
    base = rng.permutation(base / base.sum())
    rate: float | np.ndarray = mean_length
    if length_dispersion > 0:  # a gamma mixture of Poissons is negative binomial
        rate = rng.gamma(1.0 / length_dispersion, length_dispersion * mean_length, size=n_samples)
    lengths = rng.poisson(rate, size=n_samples)

    proportions, tokens_of_topic = _draw_documents(rng, lengths, alpha, dtype)
    components, rows, words = _draw_words(rng, tokens_of_topic, topic_word_prior * n_features * base, dtype)
    ones = np.ones(len(rows), dtype=np.int32)
    data = sp.coo_array((ones, (rows, words)), shape=(n_samples, n_features)).tocsr()
    data.sort_indices()
    return _WordCounts(data=data, components=components, proportions=proportions, base_distribution=base)


def _draw_documents(rng, lengths, alpha, dtype):
    """Proportions, and a (n_samples, n_components) CSC array of the number of tokens of each topic in each document."""
    proportions = np.empty((len(lengths), len(alpha)), dtype=dtype)
    size = max(1, _CELLS_PER_BLOCK // len(alpha))
    counts = []
    for start in range(0, len(lengths), size):
        block = _draw_dirichlet(rng, alpha, len(lengths[start : start + size]))
        proportions[start : start + size] = block
        counts.append(sp.csr_array(rng.multinomial(lengths[start : start + size], block)))
    return proportions, sp.vstack(counts, format="csr").tocsc()


def _draw_words(rng, tokens_of_topic, concentration, dtype):
    """Topics, and the document and the word of every token, in the order of topics."""
    components = np.empty((tokens_of_topic.shape[1], len(concentration)), dtype=dtype)
    rows, words = [], []
    for topic in range(len(components)):
        (weights,) = _draw_dirichlet(rng, concentration, 1)
        components[topic] = weights
        cells = slice(tokens_of_topic.indptr[topic], tokens_of_topic.indptr[topic + 1])
        documents = np.repeat(tokens_of_topic.indices[cells], tokens_of_topic.data[cells])
        cumulative = np.cumsum(weights)
        draws = rng.random(len(documents)) * cumulative[-1]
        rows.append(documents.astype(np.int32))
        words.append(np.searchsorted(cumulative, draws, side="right").astype(np.int32))
    return components, np.concatenate(rows), np.concatenate(words)


def _draw_dirichlet(rng, concentration, n_rows):
    """Dirichlet draws from logarithms of gammas, because gammas of shape 1e-3 mostly underflow to zero."""
    shape = np.maximum(concentration, _LEAST_SHAPE)
    # gamma(a) = gamma(a + 1) * uniform**(1 / a), and -log(uniform) is exponential
    log_gamma = np.log(rng.standard_gamma(shape + 1.0, size=(n_rows, len(shape))))
    log_gamma -= rng.standard_exponential(size=(n_rows, len(shape))) / shape
    log_gamma -= log_gamma.max(axis=1, keepdims=True)
    weights = np.exp(log_gamma, out=log_gamma)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _is_whole(value, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _check_sizes(**sizes) -> list[int]:
    """Sizes as Python's numbers, because narrow ones of numpy could overflow."""
    for name, value in sizes.items():
        if not _is_whole(value, 1):
            raise ValueError(f"{name} must be an int of at least 1; got {value!r}.")
    return [int(value) for value in sizes.values()]


def _check_numbers(above: int | None = None, /, **numbers) -> None:
    """Finite numbers above `above`, or of at least 0 if it is None."""
    for name, value in numbers.items():
        finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not finite or value < 0 or value == above:
            what = "of at least 0" if above is None else f"above {above}"
            raise ValueError(f"{name} must be a finite number {what}; got {value!r}.")


def _check_doc_topic_prior(prior, n_components: int) -> np.ndarray:
    if np.ndim(prior) == 0:
        _check_numbers(0, doc_topic_prior=prior)
        return np.full(n_components, float(prior))
    alpha = np.asarray(prior)
    if alpha.shape != (n_components,) or alpha.dtype.kind not in "iuf" or not np.all(np.isfinite(alpha) & (alpha > 0)):
        raise ValueError(
            f"doc_topic_prior must be a number or an array of {n_components} finite numbers above 0 (one per topic)."
        )
    return alpha.astype(np.float64)


class _CategoricalTable(Bunch):
    data: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    components: np.ndarray


def make_categorical_mixture(
    n_samples: int = 1000,
    n_features: int = 20,
    n_components: int = 5,
    *,
    n_categories: int = 4,
    weights: ArrayLike | None = None,
    category_prior: float = 0.3,
    missing: float = 0.0,
    random_state: RandomStateLike = None,
) -> _CategoricalTable:
    r"""Draw a table of category codes from a mixture in which the columns are independent given the component.

    This is the latent class model [1]_ with a symmetric prior of the categories: for component k, column j and row i,

    .. math::
        \phi_{kj} \sim \mathrm{Dirichlet}(a), \quad
        z_i \sim \pi, \quad x_{ij} \sim \phi_{z_i j}.

    Then cells are missing completely at random, with the probability `missing`.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=20
        Number of columns.
    n_components : int, default=5
        Number of components, K.
    n_categories : int, default=4
        Number of categories of every column.
    weights : array-like of shape (n_components,), default=None
        Proportions pi of the components: non-negative numbers, which are divided by their sum. None makes them equal.
    category_prior : float, default=0.3
        Dirichlet parameter a of each category. With a smaller value each component has fewer probable categories, and
        components are easier to distinguish; for large values all distributions approach the uniform one.
    missing : float, default=0.0
        Probability that a cell is missing, less than 1. The other cells do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed. An int gives the same table in every call with the same release of numpy.

    Returns
    -------
    mixture : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_samples, n_features)
            Codes from 0 to ``n_categories - 1``, of the smallest possible signed integer type. If `missing` is positive
            they are floats (float32 if it is exact), with NaN in missing cells.
        labels : ndarray of shape (n_samples,), int64
            The component of each row.
        weights : ndarray of shape (n_components,), float64
            The true proportions of the components; they sum to 1.
        components : ndarray of shape (n_components, n_features, n_categories), float64
            The true probabilities of the categories; they sum to 1 over the last axis.

    Raises
    ------
    ValueError
        If a parameter has the wrong type or is out of its range.

    References
    ----------
    .. [1] L. A. Goodman (1974), "Exploratory latent structure analysis using both identifiable and unidentifiable
       models", Biometrika 61, 215-231.

    Examples
    --------
    >>> from skmanifold.datasets import make_categorical_mixture
    >>> mixture = make_categorical_mixture(n_samples=200, n_features=6, n_components=3, random_state=0)
    >>> mixture.data.shape, mixture.labels.shape, mixture.components.shape
    ((200, 6), (200,), (3, 6, 4))
    """
    n_samples, n_features, n_components, n_categories = _check_sizes(
        n_samples=n_samples, n_features=n_features, n_components=n_components, n_categories=n_categories
    )
    _check_numbers(0, category_prior=category_prior)
    _check_numbers(missing=missing)
    if missing >= 1:
        raise ValueError(f"missing must be a number below 1; got {missing!r}.")
    weights = _check_weights(weights, n_components)
    rng = np.random.default_rng(check_random_state(random_state).randint(0, 2**32, size=8, dtype=np.uint32))
    (rng_of_missing,) = rng.spawn(1)

    components = _draw_dirichlet(rng, np.full(n_categories, category_prior), n_components * n_features)
    components = components.reshape(n_components, n_features, n_categories)
    labels = rng.choice(n_components, size=n_samples, p=weights)
    rows = np.argsort(labels, kind="stable")  # one cumulative table per component
    drawn, starts = np.unique(labels[rows], return_index=True)
    ranges = [*zip(drawn, starts, [*starts[1:], n_samples], strict=True)]
    code_type = np.min_scalar_type(-n_categories)
    data = np.empty((n_samples, n_features), np.promote_types(code_type, np.float32) if missing else code_type)
    codes = np.empty(n_samples, data.dtype)
    for column in range(n_features):
        uniform = rng.random(n_samples)
        for component, start, stop in ranges:
            below = np.cumsum(components[component, column, :-1])  # rounding cannot give an invalid category
            codes[rows[start:stop]] = np.searchsorted(below, uniform[start:stop], side="right")
        if missing:
            codes[rng_of_missing.random(n_samples) < missing] = np.nan
        data[:, column] = codes
    return _CategoricalTable(data=data, labels=labels, weights=weights, components=components)


def _check_weights(weights, n_components: int) -> np.ndarray:
    if weights is None:
        return np.full(n_components, 1.0 / n_components)
    shares = np.asarray(weights)
    right = shares.shape == (n_components,) and shares.dtype.kind in "iuf" and np.all(np.isfinite(shares))
    if not right or np.any(shares < 0) or not np.any(shares > 0):
        raise ValueError(
            f"weights must be None or an array of {n_components} finite numbers of at least 0 (one per component), not "
            "all 0."
        )
    return shares / shares.sum()
