"""Topic proportions of new documents for fixed topics: a deterministic fixed point, one document at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..sparse.counts import Counts
from ..utils._njit import njit, njit_part
from ..utils._threads import Workers, split_range
from ..utils._typing import ArrayLike
from .topic_word import TopicWord

_BLOCK_ROWS = 128
_DENSE_CELLS_PER_ENTRY = 8  # adjacent cells that take as long as an entry (measured)
_MOST_CELLS = 1 << 20  # of the dense weights of a document: four megabytes
_PROGRESS = 0.98  # an extrapolation must reduce the squared residual to this fraction of the smallest one so far


def infer_proportions(
    topics: TopicWord,
    counts: Counts,
    doc_topic_prior: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-7,
    workers: Workers | None = None,
) -> np.ndarray:
    r"""Topic proportions of documents given the topics, (n_rows, K); each row sums to 1.

    Solves, document by document, for the expected topic counts

    .. math:: D_k = \sum_v c_v \frac{(D_k + \alpha_k) \, \phi_{kv}}{\sum_l (D_l + \alpha_l) \, \phi_{lv}},
              \qquad \theta_k = \frac{D_k + \alpha_k}{n + \sum_l \alpha_l}.

    This is EM for the mode of :math:`\theta` under a Dirichlet(:math:`\alpha + 1`) prior, equivalently the mode under
    Dirichlet(:math:`\alpha`) in softmax coordinates. The objective
    :math:`\sum_v c_v \log \sum_k \theta_k \phi_{kv} + \sum_k \alpha_k \log \theta_k` is strictly concave, so the
    solution is unique. Pairs of EM steps are extrapolated by the third scheme of [1]_; an extrapolated point whose
    residual is not smaller than all previous ones is replaced by the EM step, so that the iteration converges where EM
    does. There is no randomness, and a row's result does not depend on the other rows or the threads.

    Counts may be fractions. A document stops after `max_iter` EM steps, or if a step changes no proportion by more than
    `tol`. If many topics contain the words of a document, their weights are copied to a dense array, of which a step
    processes several cells at once. Words of probability zero in all topics are ignored; a document without other words
    has the mean of the prior.

    References
    ----------
    .. [1] Varadhan, R. and Roland, C. (2008). Simple and globally convergent methods for accelerating the convergence
       of any EM algorithm. Scandinavian Journal of Statistics 35, 335-353; scheme SqS3.
    """
    prior = check_doc_topic_prior(doc_topic_prior, topics.n_components)
    if counts.n_features != topics.n_features:
        raise ValueError(f"The counts have {counts.n_features} columns, the topics {topics.n_features} words.")
    if max_iter < 1 or not tol > 0:
        raise ValueError(f"max_iter and tol must be positive; got max_iter={max_iter} and tol={tol}.")
    out = np.empty((counts.n_rows, topics.n_components))
    values = counts.counts.astype(np.float64)
    whole = TopicWord(*(np.require(array, requirements=["C", "W"]) for array in topics))
    shared = counts._replace(counts=values), whole, prior, max_iter, tol, out
    tasks = [(*rows, *shared) for rows in split_range(counts.n_rows, _BLOCK_ROWS)]
    (workers or Workers(1)).run(_infer_rows, tasks)
    return out


def check_doc_topic_prior(doc_topic_prior: ArrayLike, n_components: int) -> np.ndarray:
    """The prior of the proportions as a new float64 array of shape (n_components,), positive and finite."""
    prior = np.array(doc_topic_prior, dtype=np.float64)
    if prior.shape != (n_components,):
        raise ValueError(f"doc_topic_prior must have shape ({n_components},), one entry per topic; got {prior.shape}.")
    if not np.all((prior > 0) & np.isfinite(prior)):
        raise ValueError("doc_topic_prior must be positive and finite.")
    return prior


class _Words(NamedTuple):
    """The words of a document, the topics, and memory for the weights of these words in all topics."""

    indices: np.ndarray  # of the document, as far as `n_words`
    counts: np.ndarray  # the same, float64
    topics: TopicWord
    by_topic: np.ndarray  # dense weights in both orders, (K, n_words) and (n_words, K), so that loops are over
    by_word: np.ndarray  # adjacent cells
    ratios: np.ndarray  # scratch memory


@njit(cache=True, nogil=True)
def _infer_rows(first, last, documents, topics, prior, max_iter, tol, out):
    indptr, indices, counts, _ = documents
    word_indptr, base = topics.indptr, topics.base
    n_components = len(prior)
    start_point = np.empty(n_components)
    once = np.empty(n_components)
    twice = np.empty(n_components)
    prior_sum = 0.0
    for k in range(n_components):
        prior_sum += prior[k]
    most_words = 0
    for row in range(first, last):
        most_words = max(most_words, indptr[row + 1] - indptr[row])
    most_dense = min(most_words, _MOST_CELLS // n_components)
    words = _Words(
        np.empty(most_words, np.int64),
        np.empty(most_words),
        topics,
        np.empty((n_components, most_dense), np.float32),
        np.empty((most_dense, n_components), np.float32),
        np.empty(most_dense),
    )
    for row in range(first, last):
        n_words, n_entries, n_tokens = 0, 0, 0.0
        for j in range(indptr[row], indptr[row + 1]):
            v = indices[j]
            if word_indptr[v + 1] > word_indptr[v] or base[v] > 0.0:
                words.indices[n_words] = v
                words.counts[n_words] = counts[j]
                n_words += 1
                n_entries += word_indptr[v + 1] - word_indptr[v]
                n_tokens += counts[j]
        total = n_tokens + prior_sum
        if n_tokens == 0.0:
            for k in range(n_components):
                out[row, k] = prior[k] / total
            continue
        for k in range(n_components):
            start_point[k] = prior[k] + n_tokens / n_components
        is_dense = n_words <= most_dense and n_words * n_components <= _DENSE_CELLS_PER_ENTRY * n_entries
        if is_dense:
            _gather(words, n_words)
        _solve_row(words, n_words, is_dense, prior, total, max_iter, tol * total, start_point, once, twice)
        for k in range(n_components):
            out[row, k] = twice[k] / total


@njit_part
def _gather(words, n_words):
    """Fill the dense weights of a document's words."""
    topics, by_topic, by_word = words.topics, words.by_topic, words.by_word
    n_components = by_word.shape[1]
    for k in range(n_components):
        for j in range(n_words):
            by_topic[k, j] = 0.0
    for j in range(n_words):
        for k in range(n_components):
            by_word[j, k] = 0.0
        v = words.indices[j]
        for i in range(topics.indptr[v], topics.indptr[v + 1]):
            by_topic[topics.topics[i], j] = topics.weights[i]
            by_word[j, topics.topics[i]] = topics.weights[i]


@njit_part
def _solve_row(words, n_words, is_dense, prior, total, max_iter, tol, point, once, twice):
    """Fixed point of the EM step on counts plus prior, from `point`, to absolute accuracy `tol`; left in `twice`."""
    least = np.inf
    extrapolated = False
    n_steps = 0
    while True:
        _step_em(words, n_words, is_dense, prior, point, once)
        residual, change = _compare(point, once)
        n_steps += 1
        if extrapolated and not residual < _PROGRESS * least:
            if n_steps >= max_iter:
                return
            _copy(twice, point)
            extrapolated = False
            continue
        least = min(least, residual)
        if change < tol or n_steps >= max_iter:
            _copy(once, twice)
            return
        _step_em(words, n_words, is_dense, prior, once, twice)
        n_steps += 1
        _, change = _compare(once, twice)
        if change < tol or n_steps >= max_iter:
            return
        curvature = 0.0
        for k in range(len(point)):
            curvature += ((twice[k] - once[k]) - (once[k] - point[k])) ** 2
        extrapolated = curvature > 0.0 and residual > curvature
        if not extrapolated:  # a step of at most one does not go beyond EM
            _copy(twice, point)
            continue
        step = np.sqrt(residual / curvature)
        new_sum = 0.0
        for k in range(len(point)):
            first = once[k] - point[k]
            second = (twice[k] - once[k]) - first
            point[k] = max(prior[k], point[k] + step * (2.0 * first + step * second))
            new_sum += point[k]
        scale = total / new_sum
        for k in range(len(point)):
            point[k] *= scale


@njit_part
def _copy(old, out):
    """Copy an array; for an assignment to a slice numba would also compile shape errors, which takes two seconds."""
    for k in range(len(old)):
        out[k] = old[k]


@njit_part
def _step_em(words, n_words, is_dense, prior, point, out):
    """One EM step: expected topic counts given `point` (any positive multiple of it), plus the prior."""
    inverse = words.topics.inverse
    smooth = 0.0
    for k in range(len(point)):
        smooth += point[k] * inverse[k]
        out[k] = 0.0
    from_base = _add_dense(words, n_words, smooth, point, out) if is_dense else _add(words, n_words, smooth, point, out)
    for k in range(len(point)):
        out[k] = prior[k] + point[k] * (out[k] + from_base * inverse[k])


@njit_part
def _add(words, n_words, smooth, point, out):
    """Add counts over probabilities times the words' weights to `out`; returns their sum with the smoothing part."""
    word_indptr, word_topics, word_weights, base, _ = words.topics
    from_base = 0.0
    for j in range(n_words):
        v = words.indices[j]
        start, stop = word_indptr[v], word_indptr[v + 1]
        probability = base[v] * smooth
        for i in range(start, stop):
            probability += word_weights[i] * point[word_topics[i]]
        if probability > 0.0:
            ratio = words.counts[j] / probability
            from_base += ratio * base[v]
            for i in range(start, stop):
                out[word_topics[i]] += ratio * word_weights[i]
    return from_base


@njit_part
def _add_dense(words, n_words, smooth, point, out):
    """The same as `_add`, with dense weights."""
    base, ratios = words.topics.base, words.ratios
    for j in range(n_words):
        ratios[j] = base[words.indices[j]] * smooth  # first the words' probabilities
    _add_products(words.by_topic, point, len(point), ratios, n_words)
    from_base = 0.0
    for j in range(n_words):
        ratios[j] = words.counts[j] / ratios[j] if ratios[j] > 0.0 else 0.0
        from_base += ratios[j] * base[words.indices[j]]
    _add_products(words.by_word, ratios, n_words, out, len(out))
    return from_base


@njit_part
def _add_products(table, factors, n_rows, out, n_columns):
    """Add the rows of a table times `factors` to `out`, in their order; four at once, to read and write `out` less."""
    in_fours = n_rows - n_rows % 4
    for i in range(0, in_fours, 4):
        a, b, c, d = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        for j in range(n_columns):
            out[j] = (((out[j] + a * table[i, j]) + b * table[i + 1, j]) + c * table[i + 2, j]) + d * table[i + 3, j]
    for i in range(in_fours, n_rows):
        a = factors[i]
        for j in range(n_columns):
            out[j] += a * table[i, j]


@njit_part
def _compare(old, new):
    """Squared length and largest entry of the difference."""
    squared = 0.0
    largest = 0.0
    for k in range(len(old)):
        change = new[k] - old[k]
        squared += change * change
        largest = max(largest, abs(change))
    return squared, largest
