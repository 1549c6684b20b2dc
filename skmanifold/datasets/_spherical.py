"""Generator of documents from the spherical admixture model, with the true parameters."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import scipy.sparse as sp

from ..distributions import VonMisesFisher
from ..distributions._von_mises_fisher import draw_about
from ..random._keys import Purpose, root_key, subkey
from ..utils._threads import limit_threads, split_range
from ..utils._typing import ArrayLike, Bunch, RandomStateLike
from ._synthetic import _check_doc_topic_prior, _check_number, _check_size, _draw_dirichlet

_CELLS_PER_BLOCK = 2**17  # entries of documents drawn at a time; another value would give another corpus


class _SphericalCorpus(Bunch):
    data: np.ndarray | sp.csr_array
    components: np.ndarray
    proportions: np.ndarray
    topic_mean: np.ndarray
    mean_direction: np.ndarray
    document_concentration: float
    topic_concentration: float
    mean_concentration: float


def make_spherical_admixture(
    n_samples: int = 500,
    n_features: int = 100,
    n_components: int = 5,
    *,
    doc_topic_prior: ArrayLike = 0.5,
    document_concentration: float | None = None,
    topic_concentration: float | None = None,
    mean_concentration: float | None = None,
    n_words: int | None = None,
    random_state: RandomStateLike = None,
) -> _SphericalCorpus:
    r"""Draw documents that are directions from the spherical admixture model.

    Topics and documents are unit vectors with entries of both signs [1]_:

    .. math:: \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad
        v_d \sim \mathrm{vMF}\left(\frac{\beta \theta_d}{|\beta \theta_d|}, \kappa_1\right),

    where all entries of m are :math:`V^{-1/2}`. (The angles between these vectors do not depend on m.)

    The time is proportional to ``n_samples * n_features``, as is the memory of dense documents. The memory of sparse
    documents is proportional to ``n_samples * n_words``.

    Parameters
    ----------
    n_samples : int, default=500
        Number of documents. A larger number appends documents and does not change the first ones.
    n_features : int, default=100
        Number of words in the vocabulary, V; at least 2.
    n_components : int, default=5
        Number of topics, K.
    doc_topic_prior : float or array-like of shape (n_components,), default=0.5
        Dirichlet parameter alpha of the proportions of a document: one number for all topics or one for each.
    document_concentration, topic_concentration, mean_concentration : float, default=None
        Concentrations :math:`\kappa_1` of documents, :math:`\sigma` of topics and :math:`\kappa_0` of :math:`\mu`; 0 is
        the uniform distribution. None is `n_features`, with which the expected cosine with the mean direction is 0.6 to
        0.7 for any number of features.
    n_words : int, default=None
        Number of entries to keep in each document, those of largest absolute value. Rows are normalised again, and the
        documents are a sparse array. They are then as sparse as tf-idf, but **not draws from the model**: a truncated
        row is farther from its mean direction than :math:`\kappa_1` implies, and von Mises-Fisher draws have no zeros.
        Use it for benchmarks of speed and memory, or to test estimators on a misspecified model. None keeps all.
    random_state : int, RandomState instance or None, default=None
        Seed. An int gives the same corpus in every call with the same release of numpy.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_samples, n_features), or csr_array if `n_words` is given
            The documents; rows have unit length.
        components : ndarray of shape (n_components, n_features)
            The true topics :math:`\beta_k`; rows have unit length.
        proportions : ndarray of shape (n_samples, n_components)
            The true proportions :math:`\theta_d`; rows sum to 1.
        topic_mean : ndarray of shape (n_features,)
            The mean direction :math:`\mu` of the topics.
        mean_direction : ndarray of shape (n_features,)
            The direction m.
        document_concentration, topic_concentration, mean_concentration : float
            The concentrations.

    Raises
    ------
    ValueError
        If a parameter has the wrong type or is out of its range.

    See Also
    --------
    skmanifold.SphericalAdmixture : Estimates the topics.
    make_lda_corpus : Counts of words, which :class:`~sklearn.feature_extraction.text.TfidfTransformer` converts to
        sparse directions without negative entries.

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney (2010), "Spherical topic models", ICML.

    Examples
    --------
    >>> from skmanifold.datasets import make_spherical_admixture
    >>> corpus = make_spherical_admixture(n_samples=200, n_features=50, n_components=3, random_state=0)
    >>> corpus.data.shape, corpus.components.shape, corpus.proportions.shape
    ((200, 50), (3, 50), (200, 3))
    """
    for name, value in (("n_samples", n_samples), ("n_features", n_features), ("n_components", n_components)):
        _check_size(name, value)
    n_samples, n_features, n_components = map(int, (n_samples, n_features, n_components))  # narrow types overflow
    if n_features < 2:
        raise ValueError("n_features must be at least 2, because directions need two features.")
    alpha = _check_doc_topic_prior(doc_topic_prior, n_components)
    of_document, of_topic, of_mean = (
        _check_concentration(name, value, n_features)
        for name, value in (
            ("document_concentration", document_concentration),
            ("topic_concentration", topic_concentration),
            ("mean_concentration", mean_concentration),
        )
    )
    _check_n_words(n_words, n_features)
    key = root_key(random_state)

    rng = _generator(key, Purpose.COMPONENTS)
    mean_direction = np.full(n_features, n_features**-0.5)
    topic_mean = VonMisesFisher(mean_direction, of_mean).sample(random_state=rng)
    components = VonMisesFisher(topic_mean, of_topic).sample(n_components, random_state=rng)

    proportions = np.empty((n_samples, n_components))
    n_kept = n_features if n_words is None else n_words
    values = np.empty((n_samples, n_kept))
    columns = None if n_words is None else np.empty((n_samples, n_kept), np.int32)
    size = max(1, _CELLS_PER_BLOCK // max(n_features, n_components))
    with limit_threads("blas"):  # rounding depends on the number of threads
        for block, (first, stop) in enumerate(split_range(n_samples, size)):
            rng = _generator(key, Purpose.DRAW, block)
            theta = _draw_dirichlet(rng, alpha, size)  # the last block is complete too, so that prefixes agree
            documents = draw_about(theta @ components, of_document, rng)[: stop - first]
            if columns is not None:
                columns[first:stop] = _largest(documents, n_kept)
                documents = np.take_along_axis(documents, columns[first:stop], axis=1)
                documents /= np.linalg.norm(documents, axis=1, keepdims=True)
            values[first:stop], proportions[first:stop] = documents, theta[: stop - first]

    data: np.ndarray | sp.csr_array = values
    if columns is not None:
        kind = np.int32 if columns.size < 2**31 else np.int64
        starts = n_kept * np.arange(n_samples + 1, dtype=kind)
        data = sp.csr_array((values.ravel(), columns.ravel().astype(kind, copy=False), starts), (n_samples, n_features))
    return _SphericalCorpus(
        data=data,
        components=components,
        proportions=proportions,
        topic_mean=topic_mean,
        mean_direction=mean_direction,
        document_concentration=of_document,
        topic_concentration=of_topic,
        mean_concentration=of_mean,
    )


def _generator(key, *names) -> np.random.Generator:
    return np.random.default_rng(int(subkey(key, *names)))


def _largest(documents, n_words):
    """Columns of the `n_words` entries of each row that are largest in absolute value, ascending."""
    columns = np.argpartition(np.abs(documents), -n_words, axis=1)[:, -n_words:]
    return np.sort(columns, axis=1)


def _check_concentration(name: str, value, n_features: int) -> float:
    if value is None:
        return float(n_features)
    _check_number(name, value, zero=True)
    return float(value)


def _check_n_words(n_words, n_features: int) -> None:
    whole = isinstance(n_words, Integral) and not isinstance(n_words, bool)
    if n_words is not None and not (whole and 1 <= int(n_words) <= n_features):
        raise ValueError(f"n_words must be None or an int from 1 to n_features={n_features}; got {n_words!r}.")
