"""Topics as pyLDAvis shows them: circles of topics, and the words that set each apart."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from sklearn.utils import check_scalar
from threadpoolctl import threadpool_limits

from ...sparse.counts import validate_counts
from ...utils._typing import ArrayLike, MatrixLike

MAX_FEATURES = 10_000  # so many words take pyLDAvis seconds
_LEAST = np.finfo(np.float64).tiny  # a page cannot read the logarithm of zero


def to_pyldavis(
    estimator: Any,
    X: MatrixLike,
    *,
    feature_names: ArrayLike | None = None,
    max_features: int | None = MAX_FEATURES,
    **options: Any,
) -> Any:
    """The topics of a fitted estimator and the documents X as pyLDAvis takes them.

    Documents without tokens are left out. Topics keep their order, and where they are drawn is reproducible.

    Parameters
    ----------
    estimator : estimator
        Fitted, with rows of ``components_`` that sum to 1 and a `transform` to proportions or what is in proportion.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts of words in documents.
    feature_names : array-like of shape (n_features,), default=None
        The words; None is ``feature_names_in_``, or x0, x1, ... where there are none.
    max_features : int or None, default=10_000
        The most words that are shown, those with most tokens in X; None is all. If some are left out, so are their
        tokens: topics and proportions are those of a token given that it is one of the others.
    **options
        Of ``pyLDAvis.prepare``.

    Returns
    -------
    pyLDAvis.PreparedData

    Raises
    ------
    ImportError
        Where pyLDAvis is not installed.
    ValueError
        If X has no tokens, or an argument does not fit the topics.
    """
    try:
        import pyLDAvis
    except ImportError as error:
        raise ImportError('to_pyldavis needs pyLDAvis: pip install "skmanifold[pyldavis]".') from error
    if max_features is not None:
        check_scalar(max_features, "max_features", Integral, min_val=1)
    topics = np.maximum(np.asarray(estimator.components_, np.float64), _LEAST)
    if not np.allclose(topics.sum(axis=1), 1.0, atol=1e-3):
        raise ValueError("to_pyldavis needs topics that are probabilities of words: rows of components_ sum to 1.")
    words = _words(estimator, feature_names, topics.shape[1])
    counts = validate_counts(estimator, X, reset=False)
    frequency = np.asarray(counts.sum(axis=0), np.float64).ravel()
    if max_features is not None and max_features < len(words):
        shown = np.sort(np.argsort(-frequency, kind="stable")[:max_features])
        topics, words, frequency = topics[:, shown], words[shown], frequency[shown]
        counts = counts[:, shown]
    lengths = np.asarray(counts.sum(axis=1), np.float64).ravel()
    has_tokens = lengths > 0
    if not has_tokens.any():
        raise ValueError("X has no tokens of words that are shown: there are no documents to tell topics' sizes from.")
    shares = topics.sum(axis=1)  # of each topic's tokens, those of words that are shown
    proportions = np.asarray(estimator.transform(X), np.float64)[has_tokens] * shares
    proportions /= proportions.sum(axis=1, keepdims=True)
    ours = {"mds": principal_coordinates, "n_jobs": 1, "sort_topics": False}
    return pyLDAvis.prepare(
        topics / shares[:, np.newaxis],
        proportions,
        lengths[has_tokens],
        words.tolist(),
        frequency,
        **{**ours, **options},
    )


def principal_coordinates(topics: np.ndarray) -> np.ndarray:
    """Places of topics in the plane, (n_topics, 2), from their Jensen-Shannon divergences by classical scaling.

    As pyLDAvis's own, but real for any topics, there for a single one too, and with signs that do not depend on the
    machine: the coordinate largest in size is positive.
    """
    topics = np.asarray(topics, np.float64)
    divergences = squareform(pdist(topics, "jensenshannon") ** 2)
    squares = divergences**2
    centred = squares - squares.mean(axis=0)
    gram = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    n = min(2, len(topics))
    with threadpool_limits(1, user_api="blas"):  # other numbers of threads round otherwise
        values, vectors = eigh(gram, subset_by_index=(len(topics) - n, len(topics) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n)])
    places = np.zeros((len(topics), 2))
    places[:, :n] = vectors * (signs * np.sqrt(np.maximum(values, 0.0)))
    return places


def _words(estimator: Any, feature_names, n_features: int) -> np.ndarray:
    if feature_names is None:
        feature_names = getattr(estimator, "feature_names_in_", [f"x{v}" for v in range(n_features)])
    words = np.asarray(feature_names, dtype=object)
    if words.shape != (n_features,):
        raise ValueError(f"feature_names must be {n_features} words, one a column; got shape {words.shape}.")
    return words
