"""One-to-one matching of the topics of two models or chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_non_negative

from ..topics.topic_word import TopicWord
from ..utils._inputs.column_order import in_column_order, table_names
from ..utils._threads import split_range
from ..utils._typing import ArrayLike
from ..utils._validation import check_array

_CHUNK_CELLS = 1 << 20  # dense entries in memory at a time


class TopicMatch(NamedTuple):
    """Pairs of matched topics, in the order of the reference.

    Parameters
    ----------
    reference : ndarray of shape (n_pairs,)
        Rows of the reference, ascending; all of them if the reference has at most as many topics as the other matrix.
    other : ndarray of shape (n_pairs,)
        The matched rows of the other matrix.
    similarity : ndarray of shape (n_pairs,)
        Similarities of the pairs.
    """

    reference: np.ndarray
    other: np.ndarray
    similarity: np.ndarray


def match_topics(
    reference: ArrayLike | TopicWord,
    other: ArrayLike | TopicWord,
    *,
    metric: Literal["cosine", "hellinger", "total_variation"] = "cosine",
) -> TopicMatch:
    r"""One-to-one matching of two sets of topics with the greatest sum of similarities.

    For rows p and q the similarity is one of

    .. math::
        \text{cosine} &= \frac{p \cdot q}{\|p\| \, \|q\|} \\
        \text{hellinger} &= 1 - \Bigl(1 - \sum_v \sqrt{p_v q_v}\Bigr)^{1/2} \\
        \text{total\_variation} &= 1 - \tfrac{1}{2} \sum_v |p_v - q_v|

    The last two are one minus the distance of that name, after division of each row by its sum. All three are 1 for
    equal topics and 0 for topics without a common word. The Hungarian method finds the pairs exactly.

    Parameters
    ----------
    reference, other : array-like of shape (n_topics, n_features) or TopicWord
        The topics. If their numbers differ, the number of pairs is the smaller one. Entries may be negative for the
        cosine only.
    metric : {"cosine", "hellinger", "total_variation"}, default="cosine"
        The similarity.

    Returns
    -------
    TopicMatch
        The pairs: ``other[match.other]`` is in the order of ``reference[match.reference]``.

    Raises
    ------
    ValueError
        If the numbers of words differ, a value is not finite, a row is zero, or a value is negative and the metric is
        not "cosine".

    Examples
    --------
    >>> from skmanifold.metrics import match_topics
    >>> match = match_topics([[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1], [2, 0, 0]])
    >>> match.other.tolist(), match.similarity.tolist()
    ([2, 0], [1.0, 1.0])
    """
    if metric not in ("cosine", "hellinger", "total_variation"):
        raise ValueError(f'metric must be "cosine", "hellinger" or "total_variation"; got {metric!r}.')
    other = in_column_order(other, table_names(reference), "other", of="reference")
    topics = _readable(reference, metric), _readable(other, metric)
    n_features, n_other = (of_matrix.n_features for of_matrix in topics)
    if n_other != n_features:
        raise ValueError(f"The reference has {n_features} words, but the other matrix has {n_other}.")
    similarity = _similarities(*topics, metric)
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return TopicMatch(rows, columns, similarity[rows, columns])


class _Topics(NamedTuple):
    """A matrix of topics, of which some columns at a time are made dense."""

    n_topics: int
    n_features: int
    words: Callable[[int, int], np.ndarray]


def _readable(topics, metric) -> _Topics:
    if isinstance(topics, TopicWord):
        return _Topics(topics.n_components, topics.n_features, topics.words)
    topics = check_array(topics, dtype=(np.float64, np.float32), input_name="topics")
    if metric != "cosine":
        check_non_negative(topics, f"match_topics with metric={metric!r}")
    if not np.all(topics.any(axis=1)):
        raise ValueError("Every topic must have a nonzero entry.")
    n_topics, n_features = topics.shape
    return _Topics(n_topics, n_features, lambda start, stop: topics[:, start:stop].astype(np.float64))


def _similarities(reference: _Topics, other: _Topics, metric: str) -> np.ndarray:
    """Similarities of all pairs, from blocks of words, so that sparse topics never become one dense array."""
    chunks = split_range(reference.n_features, max(1, _CHUNK_CELLS // max(reference.n_topics, other.n_topics)))
    scales = []
    for topics in (reference, other):
        sums = np.zeros(topics.n_topics)
        for chunk in chunks:
            block = topics.words(*chunk)
            sums += np.einsum("kv,kv->k", block, block) if metric == "cosine" else block.sum(axis=1)
        scales.append((np.sqrt(sums) if metric == "cosine" else sums)[:, np.newaxis])
    out = np.zeros((reference.n_topics, other.n_topics))
    for chunk in chunks:
        left, right = reference.words(*chunk) / scales[0], other.words(*chunk) / scales[1]
        if metric == "cosine":
            out += left @ right.T
        elif metric == "hellinger":
            out += np.sqrt(left) @ np.sqrt(right).T
        else:
            out += cdist(left, right, "cityblock")
    if metric == "hellinger":
        return 1 - np.sqrt(np.maximum(1 - out, 0))
    return 1 - out / 2 if metric == "total_variation" else out
