"""Held-out likelihood by document completion, for topic-word matrices of any library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_non_negative

from ..inference._distributed_fits.sources import Stored, corpora_of, count_blocks
from ..random._keys import Purpose, root_key, row_key, subkey, uniform
from ..sparse.counts import COUNT_TYPES, MAX_ROW_TOKENS, Counts, as_counts, canonical_csr, check_tokens
from ..topics.proportions import check_doc_topic_prior, infer_proportions
from ..topics.topic_word import TopicWord, as_topic_word
from ..utils._inputs.column_order import in_column_order, table_names
from ..utils._njit import njit
from ..utils._threads import Workers, split_range
from ..utils._typing import ArrayLike, MatrixLike, RandomStateLike
from ..utils._validation import check_array

_MAX_ITER, _TOL = 1000, 1e-7  # of inferred proportions
_SPLIT = 1  # folded into the key after Purpose.INFERENCE
_BLOCK_ROWS = 256
_CHUNK_CELLS = 1 << 23  # proportions in memory at a time


class PerDocument(NamedTuple):
    """Log likelihood, in nats, and number of scored tokens of each document, both 0 if it is excluded.

    `n_tokens` are int64, or float64 sums of fractional counts.
    """

    log_likelihood: np.ndarray
    n_tokens: np.ndarray


@dataclass(frozen=True, eq=False)
class HeldOutScore:
    """A held-out likelihood and its standard error.

    Attributes
    ----------
    log_likelihood : float
        Log likelihood per token, in nats: the sum over scored tokens divided by their number. Higher is better.
    standard_error : float
        Standard error of `log_likelihood` over the choice of documents. It is that of a ratio estimator,
        ``sqrt(D / (D - 1) * sum_d (l_d - r n_d)**2) / sum_d n_d``, for D documents with sums ``l_d`` over ``n_d``
        tokens and r = `log_likelihood`. It is NaN for a single document or an infinite likelihood. To compare two
        models, use the differences of their `per_document` sums instead, because much of this error is common to both.
    n_tokens : int
        Number of scored tokens. For fractional counts it is their sum, a float.
    n_documents : int
        Number of scored documents.
    per_document : PerDocument
        Log likelihoods and numbers of tokens of the documents.
    """

    log_likelihood: float
    standard_error: float
    n_tokens: int
    n_documents: int
    per_document: PerDocument

    @property
    def perplexity(self) -> float:
        """Perplexity, ``exp(-log_likelihood)``; lower is better."""
        return float(np.exp(-self.log_likelihood))


def document_completion(
    topic_word: ArrayLike | TopicWord | Sequence[ArrayLike | TopicWord],
    X: Stored,
    doc_topic_prior: ArrayLike,
    *,
    random_state: RandomStateLike = 0,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
    n_jobs: int | None = None,
) -> HeldOutScore:
    r"""Likelihood of one half of the tokens of each document given the other half.

    Exactly floor(n / 2) of the n tokens of a document are observed, chosen without replacement. The others are held
    out. The proportions :math:`\theta` are estimated from the observed half by
    :func:`~skmanifold.topics.proportions.infer_proportions`. The held-out half, with the counts :math:`h_v`, has the
    log likelihood

    .. math:: \sum_{v} h_v \log \sum_k \theta_k \phi_{kv}.

    It is the likelihood of a plug-in prediction, not a bound. The split depends only on the content of the document and
    on `random_state`, so that all models predict the same tokens. Documents with fewer than two tokens are excluded.
    This is the document completion of [1]_, section 5, with tokens chosen at random.

    Fractional counts are weights. A count of 2.3 is three tokens with the weights 1, 1 and 0.3: half of the tokens are
    observed, and the weights of the others are the :math:`h_v`. Counts are not rounded.

    With S draws of the topics, proportions :math:`\theta_s` are estimated for each draw from the same observed half,
    and the probability of a held-out token is the mean over draws:

    .. math:: \sum_{v} h_v \log \frac{1}{S} \sum_{s=1}^{S} \sum_k \theta_{sk} \phi_{skv}.

    The mean is that of each token, not of each document, whose product of probabilities would be dominated by the best
    draw and keep growing with S; it converges after a few draws. The score is comparable with that of a single matrix
    and, by Jensen's inequality, not less than the mean of the scores of the draws. Draws of several chains may be
    pooled without matching; all have the same weight. `standard_error` does not include the variation over draws.

    Parameters
    ----------
    topic_word : array-like of shape (n_components, n_features) or TopicWord, or several
        The topics :math:`\phi`. Rows of an array are divided by their sums. One row is a unigram model. Draws of the
        topics are a list or tuple of such matrices, or an array of shape (n_draws, n_components, n_features).
    X : {array-like, sparse matrix} of shape (n_rows, n_features), or Corpus
        Non-negative counts; fractions are weights. A :class:`~skmanifold.datasets.Corpus`, or a list of several, is
        read from disk in blocks.
    doc_topic_prior : array-like of shape (n_components,)
        Parameters :math:`\alpha` of the prior of the proportions. With draws of the topics, it is one vector for all or
        a sequence of vectors, one per draw.
    random_state : None, int or RandomState, default=0
        Seed of the split.
    max_iter : int, default=1000
        Maximum number of iterations of `infer_proportions`.
    tol : float, default=1e-7
        Tolerance of `infer_proportions`.
    n_jobs : int or None
        Number of threads. The result does not depend on it.

    Returns
    -------
    HeldOutScore
        The score. `log_likelihood` is minus infinity if a held-out word has probability zero (in every draw).

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is negative or not finite, no document has two tokens, or there are more than
        100,000,000 in one document or 2,147,483,647 in all.

    References
    ----------
    .. [1] Wallach, H., Murray, I., Salakhutdinov, R. and Mimno, D. (2009). Evaluation methods for topic models. ICML.

    Examples
    --------
    >>> from skmanifold.metrics import document_completion
    >>> X = [[3, 2, 0, 0], [0, 0, 4, 4]]
    >>> score = document_completion([[1, 1, 0, 0], [0, 0, 1, 1]], X, [0.1, 0.1])
    >>> score.n_tokens, score.n_documents, round(score.perplexity, 2)
    (7, 2, 2.07)
    """
    X = in_column_order(X, table_names(topic_word), "X", of="topic_word")
    draws = pair_draws(topic_word, doc_topic_prior)
    key, n_features, corpora = root_key(random_state), draws[0][0].n_features, corpora_of(X)
    blocks = count_blocks(corpora, n_features) if corpora else [check_counts(X, n_features, "document_completion")]
    with Workers(n_jobs) as workers:
        scores = [complete_halves(draws, *split_tokens(part, key, workers), workers, max_iter, tol) for part in blocks]
    return held_out_score(PerDocument(*map(np.concatenate, zip(*scores, strict=True))))


def held_out_score(scores: PerDocument) -> HeldOutScore:
    """The score of documents from their sums; a ValueError if none was scored."""
    if not scores.n_tokens.any():
        raise ValueError("No tokens can be held out, because no document in X has two or more tokens.")
    scored = scores.n_tokens > 0  # documents without tokens are excluded
    sums, sizes = scores.log_likelihood[scored], scores.n_tokens[scored]
    n_documents, total = len(sums), sizes.sum().item()
    mean = float(sums.sum() / total)
    error = float("nan")
    if n_documents > 1 and np.isfinite(mean):
        error = float(np.sqrt(n_documents / (n_documents - 1) * np.sum((sums - mean * sizes) ** 2)) / total)
    return HeldOutScore(mean, error, total, n_documents, scores)


def complete_halves(
    draws: list[tuple],
    observed: Counts,
    held_out: Counts,
    workers: Workers,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> PerDocument:
    """The sums of documents of which one half is observed, as `pair_draws` and `split_tokens` give the arguments."""
    log_likelihood = np.zeros(observed.n_rows)
    probability = np.zeros(len(held_out.counts))
    for matrix, prior in draws:
        topics = as_topic_word(matrix)
        arrays = tuple(np.require(array, requirements=["C", "W"]) for array in topics)
        for start, stop in split_range(observed.n_rows, max(_BLOCK_ROWS, _CHUNK_CELLS // topics.n_components)):
            part = observed.part(start, stop)
            proportions = infer_proportions(topics, part, prior, max_iter=max_iter, tol=tol, workers=workers)
            held = held_out.part(start, stop)
            out = probability[held_out.indptr[start] : held_out.indptr[stop]]
            given = *held[:2], *arrays, proportions, out
            workers.run(_add_probabilities, [(*block, *given) for block in split_range(stop - start, _BLOCK_ROWS)])
    probability /= len(draws)
    arrays = (held_out.indptr, held_out.counts.astype(np.float64), probability, log_likelihood)
    workers.run(_sum_logs, [(*block, *arrays) for block in split_range(observed.n_rows, _BLOCK_ROWS)])
    return PerDocument(log_likelihood, held_out.row_sums())


def pair_draws(
    topic_word: ArrayLike | TopicWord | Sequence[ArrayLike | TopicWord], doc_topic_prior: ArrayLike
) -> list[tuple]:
    """Pairs of a topic matrix, one or one per draw, and its prior; the first is validated and is a TopicWord.

    The others are converted to TopicWord one at a time, when needed, because a TopicWord takes more memory.
    """
    matrices = _split_draws(topic_word, 2)
    priors = _split_draws(doc_topic_prior, 1) if matrices else None
    matrices = matrices or [topic_word]
    priors = priors or [doc_topic_prior] * len(matrices)
    if len(priors) != len(matrices):
        raise ValueError(f"doc_topic_prior has {len(priors)} vectors, but there are {len(matrices)} draws of topics.")
    first = as_topic_word(matrices[0])
    check_doc_topic_prior(priors[0], first.n_components)
    return list(zip([first, *matrices[1:]], priors, strict=True))


def _split_draws(value: Any, ndim: int) -> list[Any] | None:
    """The items of a sequence of arrays with `ndim` axes; None if `value` is not one."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim == ndim + 1 else None
    if not isinstance(value, list | tuple) or isinstance(value, TopicWord) or not value:
        return None
    return list(value) if isinstance(value[0], TopicWord) or np.ndim(value[0]) == ndim else None


def check_counts(X: MatrixLike, n_features: int, caller: str, most_per_row: int = MAX_ROW_TOKENS) -> Counts:
    """Validated counts of `X`; `caller` is the function's name in error messages."""
    X = check_array(X, accept_sparse="csr", dtype=COUNT_TYPES, input_name="X")
    check_non_negative(X, caller)
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} columns, but the topics have {n_features} words.")
    counts = as_counts(canonical_csr(X))
    check_tokens(counts, most_per_row=most_per_row)
    return counts


def split_tokens(counts: Counts, key: np.uint64, workers: Workers) -> tuple[Counts, Counts]:
    """Observed and held-out halves; a row of less than two tokens is empty in both, and fractions are weights."""
    values = counts.counts.astype(np.float64)
    in_observed, in_held_out = np.zeros_like(values), np.zeros_like(values)
    split_key = subkey(key, Purpose.INFERENCE, _SPLIT)
    arrays = (*counts[:2], values, values.view(np.uint64), split_key, in_observed, in_held_out)
    workers.run(_split_rows, [(*block, *arrays) for block in split_range(counts.n_rows, _BLOCK_ROWS)])
    return _with_counts(counts, in_observed), _with_counts(counts, in_held_out)


def _with_counts(counts, new_counts):
    """`counts` with the values `new_counts`, without zeros."""
    keep = new_counts > 0
    indptr = np.concatenate(([0], np.cumsum(keep)))[counts.indptr]
    kept = new_counts[keep].astype(counts.counts.dtype)
    return Counts(indptr, counts.indices[keep], kept, counts.n_features)


@njit(cache=True, nogil=True)
def _split_rows(first, last, indptr, indices, counts, bits, key, out_observed, out_held_out):
    """Selection sampling (Knuth, volume 2, algorithm S): every set of floor(n / 2) tokens has the same probability."""
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        left = np.int64(0)
        for j in range(start, stop):
            left += np.int64(np.ceil(counts[j]))
        if left < 2:
            continue
        needed = left // 2
        row_stream = row_key(key, indices, bits, start, stop)
        for j in range(start, stop):
            rest = counts[j]
            while rest > 0.0:
                weight = min(rest, 1.0)
                if uniform(row_stream, left) * left < needed:
                    out_observed[j] += weight
                    needed -= 1
                else:
                    out_held_out[j] += weight
                left -= 1
                rest -= weight


@njit(cache=True, nogil=True)
def _add_probabilities(
    first, last, indptr, indices, word_indptr, word_topics, word_weights, base, inverse, proportions, out
):
    for row in range(first, last):
        smooth = 0.0
        for k in range(len(inverse)):
            smooth += proportions[row, k] * inverse[k]
        for j in range(indptr[row], indptr[row + 1]):
            v = indices[j]
            probability = base[v] * smooth
            for i in range(word_indptr[v], word_indptr[v + 1]):
                probability += word_weights[i] * proportions[row, word_topics[i]]
            out[j] += probability


@njit(cache=True, nogil=True)
def _sum_logs(first, last, indptr, counts, probability, out):
    for row in range(first, last):
        log_likelihood = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            log_likelihood += counts[j] * np.log(probability[j])
        out[row] = log_likelihood
