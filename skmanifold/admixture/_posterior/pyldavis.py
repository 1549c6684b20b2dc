"""Export of topics to pyLDAvis, which shows topics as circles in the plane with their characteristic words."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from sklearn.utils import check_scalar

from ..._install import optional_module
from ...sparse.counts import validate_counts
from ...topics.top_words import column_names
from ...utils._threads import limit_threads
from ...utils._typing import ArrayLike, MatrixLike

MAX_FEATURES = 10_000  # pyLDAvis takes seconds with this many words
_LEAST = np.finfo(np.float64).tiny  # least probability: the page takes logarithms


def to_pyldavis(
    estimator: Any,
    X: MatrixLike,
    *,
    feature_names: ArrayLike | None = None,
    max_features: int | None = MAX_FEATURES,
    **options: Any,
) -> Any:
    """Prepare the topics of a fitted estimator and the documents X for pyLDAvis; topics keep their order.

    Rows of ``components_`` must sum to 1; those of `transform` are normalised. Documents without tokens are ignored. At
    most `max_features` words, those with most tokens, are shown, on which topics and proportions are then conditioned.
    ImportError without pyLDAvis; ValueError if X has no tokens or a parameter does not fit.
    """
    check_pyldavis(max_features)
    topics = np.maximum(np.asarray(estimator.components_, np.float64), _LEAST)
    if not np.allclose(topics.sum(axis=1), 1.0, atol=1e-3):
        raise ValueError("to_pyldavis needs topics that are probabilities: rows of components_ must sum to 1.")
    if feature_names is None and not hasattr(estimator, "feature_names_in_"):
        feature_names = [f"x{column}" for column in range(topics.shape[1])]
    words = column_names(estimator, topics.shape[1], feature_names)
    counts = validate_counts(estimator, X, reset=False)
    return prepare_page(topics, lambda: estimator.transform(X), counts, words, max_features, options)


def check_pyldavis(max_features: int | None) -> None:
    """Raise an ImportError without pyLDAvis, or a ValueError if the number of words is less than 1."""
    optional_module("pyLDAvis", "to_pyldavis", "pyldavis")
    if max_features is not None:
        check_scalar(max_features, "max_features", Integral, min_val=1)


def prepare_page(
    topics: np.ndarray,
    proportions_of_rows: Callable[[], np.ndarray],
    counts: Any,
    words: np.ndarray,
    max_features: int | None,
    options: dict[str, Any],
) -> Any:
    """The page of topics, (K, V), and of documents with these proportions, (n, K), and counts, (n, V)."""
    import pyLDAvis

    from .prepared_data import PreparedData

    frequency = np.asarray(counts.sum(axis=0), np.float64).ravel()
    if max_features is not None and max_features < len(words):
        shown = np.sort(np.argsort(-frequency, kind="stable")[:max_features])
        topics, words, frequency = topics[:, shown], words[shown], frequency[shown]
        counts = counts[:, shown]
    lengths = np.asarray(counts.sum(axis=1), np.float64).ravel()
    has_tokens = lengths > 0
    if not has_tokens.any():
        raise ValueError("X has no tokens of the words that are shown, so the sizes of topics cannot be computed.")
    shares = topics.sum(axis=1)  # probability of the shown words in each topic
    proportions = np.asarray(proportions_of_rows(), np.float64)[has_tokens] * shares
    proportions /= proportions.sum(axis=1, keepdims=True)
    defaults = {"mds": principal_coordinates, "n_jobs": 1, "sort_topics": False}
    shown_topics, counted = topics / shares[:, np.newaxis], (lengths[has_tokens], words.tolist(), frequency)
    prepared = pyLDAvis.prepare(shown_topics, proportions, *counted, **{**defaults, **options})
    return PreparedData(*prepared)


def principal_coordinates(topics: np.ndarray) -> np.ndarray:
    """Coordinates of topics in the plane, (n_topics, 2), by classical scaling of Jensen-Shannon divergences.

    Those of pyLDAvis, but real for any topics and defined for one. The largest coordinate in absolute value is
    positive, on every machine.
    """
    topics = np.asarray(topics, np.float64)
    divergences = squareform(pdist(topics, "jensenshannon") ** 2)
    squares = divergences**2
    centred = squares - squares.mean(axis=0)
    gram = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    n = min(2, len(topics))
    with limit_threads("blas"):  # rounding depends on the number of threads
        values, vectors = eigh(gram, subset_by_index=(len(topics) - n, len(topics) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n)])
    coordinates = np.zeros((len(topics), 2))
    coordinates[:, :n] = vectors * (signs * np.sqrt(np.maximum(values, 0.0)))
    return coordinates
