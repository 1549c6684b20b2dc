"""Topic coherence: whether the top words of a topic occur in the same documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_non_negative

from ..sparse.counts import canonical_csr
from ..topics.top_words import find_top_words
from ..topics.topic_word import TopicWord
from ..utils._inputs.column_order import in_column_order, table_names
from ..utils._njit import njit
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import check_array

_EPS = {"npmi": 0.0, "umass": 1.0, "c_v": 1e-12}


def topic_coherence(
    topic_word: ArrayLike | TopicWord,
    X: MatrixLike | None = None,
    *,
    measure: Literal["npmi", "umass", "c_v"] = "npmi",
    n_top_words: int = 10,
    eps: float | None = None,
    reference: Iterable[ArrayLike] | None = None,
    window: int = 110,
) -> np.ndarray:
    r"""Coherence of each topic's most probable words, from their co-occurrence in documents or windows of texts.

    Let N be the number of documents of the reference corpus, D(v) the number that contain the word v, D(u, v) the
    number that contain both u and v, and P = D / N. The first two measures are means over the pairs of the top words
    :math:`v_1, v_2, ...` of a topic, in descending order of probability:

    .. math::
        \text{npmi} &= \operatorname{mean}_{i < j} N_{ij}, \qquad
            N_{ij} = \frac{\log \frac{P(v_i, v_j) + \epsilon}{P(v_i) P(v_j)}}{-\log (P(v_i, v_j) + \epsilon)} \\
        \text{umass} &= \operatorname{mean}_{i < j} \log \frac{D(v_i, v_j) + \epsilon}{D(v_i)} \\
        \text{c\_v} &= \operatorname{mean}_i \cos(N_{i \cdot}, \textstyle\sum_j N_{j \cdot})

    NPMI, from [1]_, is between -1 (the words never occur together) and 1 (they only occur together). It is applied to
    topics as in [2]_. UMass is at most about 0. Equation (1) of [3]_ has a sum instead of the mean; multiply by
    ``n_top_words * (n_top_words - 1) / 2`` to obtain it. :math:`C_V` of [4]_ compares words by their NPMI with all top
    words, including themselves. It is between -1 and 1, and agreed best with human ratings in [4]_, where documents are
    windows of 110 words of a large reference corpus.

    Parameters
    ----------
    topic_word : array-like of shape (n_components, n_features) or TopicWord
        The topics. Only the order of the words within each topic matters. Of equal entries, also zeros, that with the
        lower column index comes first.
    X : {array-like, sparse matrix} of shape (n_rows, n_features), default=None
        Reference corpus, non-negative. A document contains the words with nonzero entries. If `topic_word` and `X` are
        tables, their columns are matched by name.
    measure : {"npmi", "umass", "c_v"}, default="npmi"
        Coherence measure.
    n_top_words : int, default=10
        Number of words per topic, 2 to n_features.
    eps : float, optional
        Smoothing constant. For "npmi" it must be less than 1 / N, and None is 0; a pair that never occurs together then
        has the limit, -1. For "umass" None is 1. For "c_v" None is 1e-12, and it must be positive and less than 1 / N.
    reference : iterable of array-like of int, default=None
        Reference texts, in place of X: the column indices of the words of each text in the order of the text, -1 for
        words without a column. The documents are then all windows of consecutive words.
    window : int, default=110
        Number of words in a window of `reference`. A shorter text is one window.

    Returns
    -------
    ndarray of shape (n_components,)
        Coherence of each topic; higher is better. Words that are in no document are excluded. A topic without a pair of
        other words has NaN. A pair of words that are both in every document is independent and has an NPMI of 0.

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, `X` is negative somewhere, an option is out of its range, or
        not exactly one of `X` and `reference` is given.

    Notes
    -----
    For texts in which no word occurs twice within a window, "c_v" and "npmi" of a reference equal ``c_v`` and
    ``c_npmi`` of gensim. For other texts gensim does not count a window from which one of two occurrences of a word has
    moved out.

    References
    ----------
    .. [1] Bouma, G. (2009). Normalized (pointwise) mutual information in collocation extraction. GSCL.
    .. [2] Lau, J. H., Newman, D. and Baldwin, T. (2014). Machine reading tea leaves: automatically evaluating topic
       coherence and topic model quality. EACL.
    .. [3] Mimno, D., Wallach, H., Talley, E., Leenders, M. and McCallum, A. (2011). Optimizing semantic coherence in
       topic models. EMNLP.
    .. [4] Roeder, M., Both, A. and Hinneburg, A. (2015). Exploring the space of topic coherence measures. WSDM.

    Examples
    --------
    >>> from skmanifold.metrics import topic_coherence
    >>> X = [[1, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    >>> topics = [[0.5, 0.4, 0.1, 0.0], [0.0, 0.1, 0.5, 0.4]]
    >>> topic_coherence(topics, X, n_top_words=2)
    array([ 1., -1.])
    >>> texts = [[0, 1, -1, 0, 1], [2, 1, 0], [3, 2, -1]]
    >>> topic_coherence(topics, reference=texts, measure="c_v", n_top_words=2, window=2).round(2)
    array([0.82, 0.94])
    """
    if measure not in _EPS:
        raise ValueError(f'measure must be "npmi", "umass" or "c_v"; got {measure!r}.')
    if (X is None) == (reference is None):
        raise ValueError("Give either X, the counts of documents, or reference, the words of texts.")
    check_scalar(window, "window", Integral, min_val=1)
    eps = _EPS[measure] if eps is None else eps
    if not (np.isfinite(eps) and eps >= 0):
        raise ValueError(f"eps must be finite and not negative; got {eps}.")
    X = in_column_order(X, table_names(topic_word), "X", of="topic_word")
    if not isinstance(topic_word, TopicWord):
        topic_word = check_array(topic_word, dtype=(np.float64, np.float32), input_name="topic_word")
    n_features = topic_word.n_features if isinstance(topic_word, TopicWord) else np.shape(topic_word)[1]
    count: Callable[[np.ndarray], Iterable[np.ndarray]]
    if reference is None:
        documents: Any = check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")
        check_non_negative(documents, "topic_coherence")
        if documents.shape[1] != n_features:
            raise ValueError(f"X has {documents.shape[1]} columns, but the topics have {n_features} words.")
        what, n_documents, count = "n_rows", documents.shape[0], partial(_count_documents, documents)
    else:
        starts, words = _read_texts(reference, n_features)
        what, n_documents = "the number of windows", int(np.maximum(np.diff(starts) - window + 1, 1).sum())
        count = partial(_count_texts, starts, words, int(window), n_features)
    if measure != "umass" and not eps * n_documents < 1:
        raise ValueError(f"eps must be less than 1 / {what}, {1 / n_documents:.3g}, for {measure}; got {eps}.")
    if measure == "c_v" and eps == 0:
        raise ValueError("eps must be positive for c_v; got 0.")
    if not 2 <= n_top_words <= n_features:
        raise ValueError(f"n_top_words must be between 2 and the number of words, {n_features}; got {n_top_words}.")
    counts = count(find_top_words(topic_word, n_top_words))
    return np.array([_coherence(of_topic, n_documents, measure, eps) for of_topic in counts])


def _count_documents(X: Any, top_words: np.ndarray) -> Iterator[np.ndarray]:
    """For each topic, numbers of documents with both of two words, and with one word on the diagonal."""
    presence = canonical_csr(X).tocsc()
    presence.data[:] = 1.0
    for words in top_words:
        columns = presence[:, words]
        yield (columns.T @ columns).toarray()


def _coherence(together: np.ndarray, n: int, measure: str, eps: float) -> float:
    """The measure for one topic, given numbers of documents with its words."""
    known = np.flatnonzero(together.diagonal() > 0)
    if len(known) < 2:
        return np.nan
    together = together[np.ix_(known, known)]
    alone = together.diagonal()
    if measure == "c_v":
        values = _npmi(alone[:, np.newaxis] / n, alone / n, together / n, eps)
        total = values.sum(axis=0)
        lengths = np.linalg.norm(values, axis=1) * np.linalg.norm(total)
        return float(np.mean(values @ total / np.where(lengths > 0, lengths, 1.0)))
    i, j = np.triu_indices(len(known), 1)
    if measure == "npmi":
        return float(_npmi(alone[i] / n, alone[j] / n, together[i, j] / n, eps).mean())
    with np.errstate(divide="ignore"):  # eps = 0: log 0
        return float(np.log((together[i, j] + eps) / alone[i]).mean())


def _npmi(first, second, joint, eps):
    """Normalised pointwise mutual information; -1 where the smoothed joint probability is 0, and 0 where joint is 1."""
    smoothed = joint + eps
    values = np.where(joint < 1, -1.0, 0.0)
    inside = (joint < 1) & (smoothed > 0)
    ratio = smoothed[inside] / np.broadcast_to(first * second, joint.shape)[inside]
    values[inside] = np.log(ratio) / -np.log(smoothed[inside])
    return values


def _read_texts(texts: Iterable[Any], n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Where texts begin and end, and their words: column indices, or -1 for other words."""
    parts = [np.asarray(text) for text in texts]
    if not parts:
        raise ValueError("reference has no texts.")
    for number, part in enumerate(parts):
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            got = f"an array of shape {part.shape} and type {part.dtype}"
            if part.dtype.kind in "OU":
                got = "words: look up the column of each word"
            raise ValueError(
                f"Text {number} of reference must be a sequence of column indices, whole numbers; got {got}."
            )
    starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    words = np.concatenate([np.empty(0, np.int64), *(part.astype(np.int64) for part in parts)])
    if words.size and not (words.min() >= -1 and words.max() < n_features):
        raise ValueError(
            f"Words of reference must be column indices from 0 to {n_features - 1}, or -1; got "
            f"{words.min()} to {words.max()}."
        )
    return starts, words


def _count_texts(starts: np.ndarray, words: np.ndarray, window: int, n_features: int, topics: np.ndarray) -> np.ndarray:
    """Numbers of windows with both words of a topic, (K, n, n), with one word on the diagonal.

    Texts are cut into all windows of some length; a shorter text is one window.
    """
    (K, n), entries = topics.shape, topics.ravel()
    order = np.argsort(entries, kind="stable")
    indptr = np.searchsorted(entries[order], np.arange(n_features + 1)).astype(np.int64)
    together = np.zeros((K, n, n), np.int64)
    _count_windows(starts, words, window, indptr, order.astype(np.int64), together)
    return together


@njit(cache=True, nogil=True)
def _count_windows(starts, words, window, indptr, places, together):
    """Add the windows of all texts; word v is at ``places[indptr[v]:indptr[v + 1]]`` of the flat list of top words."""
    n = together.shape[1]
    for text in range(len(starts) - 1):
        start, stop = starts[text], starts[text + 1]
        last = max(stop - start - window, 0)  # start of the last window
        used = 0
        found = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            v = words[i]
            if v >= 0 and indptr[v] < indptr[v + 1]:
                found[used] = i
                used += 1
        if used == 0:
            continue
        found = found[:used]
        found = found[np.argsort(words[found], kind="mergesort")]
        # Windows that contain a word begin in a union of ranges: those of word d are first[d] to first[d + 1].
        low, high = np.empty(used, np.int64), np.empty(used, np.int64)
        distinct, first = np.empty(used, np.int64), np.zeros(used + 1, np.int64)
        n_distinct, n_ranges = 0, 0
        for i in found:
            begin, end = max(i - start - window + 1, 0), min(i - start, last)
            if n_distinct == 0 or words[i] != distinct[n_distinct - 1]:
                distinct[n_distinct] = words[i]
                first[n_distinct] = n_ranges
                n_distinct += 1
            elif begin <= high[n_ranges - 1] + 1:
                high[n_ranges - 1] = max(high[n_ranges - 1], end)
                continue
            low[n_ranges], high[n_ranges] = begin, end
            n_ranges += 1
        first[n_distinct] = n_ranges
        # For each pair of words of the same topic, the number of windows in both unions.
        for a in range(n_distinct):
            for of_a in range(indptr[distinct[a]], indptr[distinct[a] + 1]):
                topic, i = divmod(places[of_a], n)
                for b in range(a, n_distinct):
                    for of_b in range(indptr[distinct[b]], indptr[distinct[b] + 1]):
                        other, j = divmod(places[of_b], n)
                        if other == topic:
                            shared = _overlap(low, high, first[a], first[a + 1], first[b], first[b + 1])
                            together[topic, i, j] += shared
                            if a != b:
                                together[topic, j, i] += shared


@njit(cache=True, nogil=True)
def _overlap(low, high, a, stop_a, b, stop_b):
    """Number of integers in both of two unions of ranges, which are in ascending order."""
    total = 0
    while a < stop_a and b < stop_b:
        total += max(min(high[a], high[b]) - max(low[a], low[b]) + 1, 0)
        if high[a] < high[b]:
            a += 1
        else:
            b += 1
    return total
