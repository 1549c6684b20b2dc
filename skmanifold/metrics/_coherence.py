"""Topic coherence: whether the top words of a topic occur in the same documents."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.utils.validation import check_non_negative

from ..sparse.counts import canonical_csr
from ..topics.top_words import find_top_words
from ..topics.topic_word import TopicWord
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import check_array


def topic_coherence(
    topic_word: ArrayLike | TopicWord,
    X: MatrixLike,
    *,
    measure: Literal["npmi", "umass"] = "npmi",
    n_top_words: int = 10,
    eps: float | None = None,
) -> np.ndarray:
    r"""Coherence of each topic's most probable words, from their co-occurrence in documents.

    Let N be the number of documents of the reference corpus, D(v) the number that contain the word v, D(u, v) the
    number that contain both u and v, and P = D / N. The two measures are means over the pairs of the top words
    :math:`v_1, v_2, ...` of a topic, in descending order of probability:

    .. math::
        \text{npmi} &= \operatorname{mean}_{i < j}
            \frac{\log \frac{P(v_i, v_j) + \epsilon}{P(v_i) P(v_j)}}{-\log (P(v_i, v_j) + \epsilon)} \\
        \text{umass} &= \operatorname{mean}_{i < j} \log \frac{D(v_i, v_j) + \epsilon}{D(v_i)}

    The first, from [1]_, is between -1 (the words never occur together) and 1 (they only occur together). It is applied
    to topics as in [2]_, but with documents instead of windows. The second is at most about 0. Equation (1) of [3]_ has
    a sum instead of the mean; multiply by ``n_top_words * (n_top_words - 1) / 2`` to obtain it.

    Parameters
    ----------
    topic_word : array-like of shape (n_components, n_features) or TopicWord
        The topics. Only the order of the words within each topic matters. Of equal entries, also zeros, that with the
        lower column index comes first.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Reference corpus, non-negative. A document contains the words with nonzero entries.
    measure : {"npmi", "umass"}, default="npmi"
        Coherence measure.
    n_top_words : int, default=10
        Number of words per topic, 2 to n_features.
    eps : float, optional
        Smoothing constant. For "npmi" it must be less than 1 / n_rows, and None is 0; a pair that never occurs together
        then has the limit, -1. For "umass" None is 1.

    Returns
    -------
    ndarray of shape (n_components,)
        Coherence of each topic; higher is better. Pairs with a word that is in no document are excluded. A topic
        without any other pair has NaN. A pair of words that are both in every document is independent and has an NPMI
        of 0.

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, `X` is negative somewhere, or an option is out of its range.

    References
    ----------
    .. [1] Bouma, G. (2009). Normalized (pointwise) mutual information in collocation extraction. GSCL.
    .. [2] Lau, J. H., Newman, D. and Baldwin, T. (2014). Machine reading tea leaves: automatically evaluating topic
       coherence and topic model quality. EACL.
    .. [3] Mimno, D., Wallach, H., Talley, E., Leenders, M. and McCallum, A. (2011). Optimizing semantic coherence in
       topic models. EMNLP.

    Examples
    --------
    >>> from skmanifold.metrics import topic_coherence
    >>> X = [[1, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    >>> topic_coherence([[0.5, 0.4, 0.1, 0.0], [0.0, 0.1, 0.5, 0.4]], X, n_top_words=2)
    array([ 1., -1.])
    """
    if measure not in ("npmi", "umass"):
        raise ValueError(f'measure must be "npmi" or "umass"; got {measure!r}.')
    if eps is None:
        eps = 0.0 if measure == "npmi" else 1.0
    if not (np.isfinite(eps) and eps >= 0):
        raise ValueError(f"eps must be finite and not negative; got {eps}.")
    X = check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")
    check_non_negative(X, "topic_coherence")
    if not isinstance(topic_word, TopicWord):
        topic_word = check_array(topic_word, dtype=(np.float64, np.float32), input_name="topic_word")
    if measure == "npmi" and not eps * X.shape[0] < 1:
        raise ValueError(f"eps must be less than 1 / n_rows, {1 / X.shape[0]:.3g}, for npmi; got {eps}.")
    n_features = topic_word.n_features if isinstance(topic_word, TopicWord) else np.shape(topic_word)[1]
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} columns, but the topics have {n_features} words.")
    if not 2 <= n_top_words <= n_features:
        raise ValueError(f"n_top_words must be between 2 and the number of words, {n_features}; got {n_top_words}.")

    top_words = find_top_words(topic_word, n_top_words)
    presence = canonical_csr(X).tocsc()
    presence.data[:] = 1.0
    pairs = np.triu_indices(n_top_words, 1)
    out = np.empty(len(top_words))
    for k, words in enumerate(top_words):
        columns = presence[:, words]
        together = (columns.T @ columns).toarray()
        alone = together.diagonal()
        first, second, joint = alone[pairs[0]], alone[pairs[1]], together[pairs]
        known = (first > 0) & (second > 0)
        if not known.any():
            out[k] = np.nan
            continue
        first, second, joint = first[known], second[known], joint[known]
        if measure == "npmi":
            values = _npmi(first / X.shape[0], second / X.shape[0], joint / X.shape[0], eps)
        else:
            with np.errstate(divide="ignore"):  # eps = 0: log 0
                values = np.log((joint + eps) / first)
        out[k] = values.mean()
    return out


def _npmi(first, second, joint, eps):
    """Normalised pointwise mutual information; -1 where the smoothed joint probability is 0, and 0 where joint is 1."""
    smoothed = joint + eps
    values = np.where(joint < 1, -1.0, 0.0)
    inside = (joint < 1) & (smoothed > 0)
    ratio = smoothed[inside] / (first * second)[inside]
    values[inside] = np.log(ratio) / -np.log(smoothed[inside])
    return values
