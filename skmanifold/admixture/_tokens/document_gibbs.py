"""The document step of latent Dirichlet allocation: topics of the tokens of some documents, given the topics."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.block_sums import exact_sum
from ...numerics.simd import LANES, zeros_by_cache_line
from ...sparse.counts import Counts, index_columns
from ...utils._njit import njit
from ...utils._threads import Workers, split_by_task, split_range
from .document_gibbs_kernels import DocumentPrior, Guards, Sweeps, _sample_rows
from .esca_kernels import count_words
from .topic_counts import TopicCounts, add_counts, counts_of_ranges

_TASK_CELLS = 1 << 20  # cells of the word table filled by one task
_TASK_DRAWS = 1 << 16  # topics drawn by one task
_TASK_COUNTS = 1 << 19  # kept topics counted by one task
_MAX_HISTORY = 1 << 27  # maximum number of kept topics in memory, two bytes each

_LOWEST = -1e300
_BITS_IN_EXPONENT = np.int32(23)
_EXPONENT_OF_ONE = 127
_LOG2_E = 1 / math.log(2)
_C1, _C2, _C3, _C4, _C5, _C6, _C7 = (np.float32(math.log(2) ** n / math.factorial(n)) for n in range(1, 8))
_ONE = np.float32(1)


class Documents(NamedTuple):
    """Some rows of a corpus in the format of the document step: their pairs of (row, word) in CSR order."""

    indptr: np.ndarray  # (n_rows + 1,) int64: start of each row's pairs
    pair_word: np.ndarray  # (n_pairs,) int32: index into `words`
    pair_count: np.ndarray  # (n_pairs,) int32
    token_start: np.ndarray  # (n_rows + 1,) int64: start of each row's tokens
    words: np.ndarray  # (n_words,) int32: the words' indices in the vocabulary, ascending
    word_indptr: np.ndarray  # (n_words + 1,) int64
    word_pairs: np.ndarray  # (n_pairs,) int64: the words' pairs, ascending
    pair_start: np.ndarray  # (n_pairs + 1,) int64: start of each pair's tokens


class WordTable(NamedTuple):
    """Probabilities p(v | k) of some words for sampling; topics are padded with zeros to multiples of 16."""

    scores: np.ndarray  # (n_words, 16 n_blocks) float32: p(v | k) divided by its largest over k
    prior_sums: np.ndarray  # (n_words, n_blocks) float64: running sums of alpha_k scores_vk over blocks of sixteen k
    log_scale: np.ndarray  # (n_words,) float64: log of that largest


class DocumentSample(NamedTuple):
    """Result of `sample_documents`."""

    token_topics: np.ndarray  # (n_tokens,) uint16: topics of the last sweep, in CSR order
    counts: TopicCounts  # by row of the word table, summed over the kept sweeps
    log_likelihood: float  # mean over the kept sweeps


def all_documents(counts: Counts) -> Documents:
    """The whole corpus; its words are the vocabulary."""
    words = np.arange(counts.n_features, dtype=np.int32)
    return _documents(counts.indptr, counts.indices, counts.counts, words, counts.pair_start())


def take_documents(counts: Counts, rows: np.ndarray) -> Documents:
    """Some rows of a corpus, and their words."""
    taken, occurs = counts.take(rows), np.zeros(counts.n_features, bool)
    occurs[taken.indices] = True
    words, place = np.flatnonzero(occurs).astype(np.int32), np.cumsum(occurs, dtype=np.int32) - 1
    return _documents(taken.indptr, place[taken.indices], taken.counts, words, taken.pair_start())


def _documents(indptr, pair_word, pair_count, words, pair_start) -> Documents:
    word_indptr, word_pairs = np.empty(len(words) + 1, np.int64), np.empty(len(pair_word), np.int64)
    index_columns(pair_word, word_indptr, word_pairs)
    return Documents(indptr, pair_word, pair_count, pair_start[indptr], words, word_indptr, word_pairs, pair_start)


def make_word_table(
    log_weights: np.ndarray, log_normalisers: np.ndarray, alpha: np.ndarray, workers: Workers
) -> WordTable:
    """Table of p(v | k) = exp(``log_weights[v, k] - log_normalisers[k]``), for logarithms of any size.

    The running sums are float64: an alpha_k far below 1e-38 must still be able to draw a topic.
    """
    n_words, n_components = log_weights.shape
    n_blocks = -(-n_components // LANES)
    width = n_blocks * LANES
    table = WordTable(
        zeros_by_cache_line(n_words * width, np.float32).reshape(n_words, width),
        np.empty((n_words, n_blocks)),
        np.empty(n_words),
    )
    shared = log_weights, np.ascontiguousarray(log_normalisers, np.float64), pad_topics(alpha), *table
    tasks = split_range(n_words, max(1, _TASK_CELLS // width))
    workers.run(_fill_table, [(*words, *shared) for words in tasks])
    return table


@njit(cache=True, nogil=True)
def _fill_table(first_word, stop_word, log_weights, log_normalisers, alpha, out_scores, out_prior_sums, out_log_scale):
    """Scores, block sums of alpha times scores and scales of a range of words.

    The exponential is 2^n 2^f with a Taylor polynomial in f, to float32's precision, in loops without branches or
    calls: vector instructions that give the same bytes on every processor.
    """
    n_components, width = log_weights.shape[1], out_scores.shape[1]
    x = np.full(width, -np.inf)
    lanes = np.empty(LANES)
    fraction = np.empty(width, np.float32)
    exponent = np.empty(width, np.int32)
    power = exponent.view(np.float32)
    weight = np.zeros(width)
    for word in range(first_word, stop_word):
        row = log_weights[word]
        scores = out_scores[word]
        for k in range(n_components):
            x[k] = np.float64(row[k]) - log_normalisers[k]
        # The largest entry, lane by lane: a maximum does not depend on the order.
        for lane in range(LANES):
            lanes[lane] = x[lane]
        for block in range(1, width // LANES):
            for lane in range(LANES):
                value = x[block * LANES + lane]
                lanes[lane] = value if value > lanes[lane] else lanes[lane]
        largest = _LOWEST  # not -inf: a word of probability zero in all topics gets scores of zero, not nan
        for lane in range(LANES):
            largest = lanes[lane] if lanes[lane] > largest else largest
        # 2^whole is made of its exponent bits, which `power` reads as float32.
        for k in range(width):
            y = (x[k] - largest) * _LOG2_E
            y = y if y > -127.0 else -127.0
            whole = np.rint(y)
            fraction[k] = y - whole
            exponent[k] = (np.int32(whole) + np.int32(_EXPONENT_OF_ONE)) << _BITS_IN_EXPONENT
        for k in range(width):
            f = fraction[k]
            polynomial = _ONE + f * (_C1 + f * (_C2 + f * (_C3 + f * (_C4 + f * (_C5 + f * (_C6 + f * _C7))))))
            scores[k] = polynomial * power[k]
        for k in range(width):
            weight[k] = alpha[k] * np.float64(scores[k])
        # Running sums of blocks, with a fixed tree of additions within a block.
        total = 0.0
        for block in range(width // LANES):
            b = block * LANES
            total += (
                ((weight[b] + weight[b + 8]) + (weight[b + 1] + weight[b + 9]))
                + ((weight[b + 2] + weight[b + 10]) + (weight[b + 3] + weight[b + 11]))
            ) + (
                ((weight[b + 4] + weight[b + 12]) + (weight[b + 5] + weight[b + 13]))
                + ((weight[b + 6] + weight[b + 14]) + (weight[b + 7] + weight[b + 15]))
            )
            out_prior_sums[word, block] = total
        out_log_scale[word] = largest


def sample_documents(
    documents: Documents,
    table: WordTable,
    alpha: np.ndarray,
    row_keys: np.ndarray,
    *,
    n_burn_in: int,
    n_kept: int,
    workers: Workers,
    token_topics: np.ndarray | None = None,
) -> DocumentSample:
    """Gibbs sweeps over the tokens of each document, its proportions integrated out.

    Sweep s draws the i-th token of a row with ``uniform(fold_in(row_key, s), i)``; draws do not depend on threads.
    `n_burn_in` sweeps are discarded, and `n_kept`, at least one, counted. Without initial `token_topics`, uint16 and
    overwritten, the first sweep draws each token given only the previous ones, and is always discarded: one of
    `n_burn_in`, or an additional one.
    """
    fresh = token_topics is None
    n_tokens = int(documents.token_start[-1])
    if token_topics is None:
        n_burn_in = max(n_burn_in, 1)
        token_topics = np.zeros(n_tokens, np.uint16)
    prior, guards = document_prior(alpha), Guards(np.zeros(0), np.uint64(0), 0)
    log_likelihood = np.zeros(len(row_keys))
    counts: TopicCounts | None = None
    n_sweeps = n_burn_in + n_kept
    first_sweep, n_at_once = 0, max(1, _MAX_HISTORY // max(1, n_tokens))
    while first_sweep < n_sweeps:
        first_kept = max(first_sweep, n_burn_in)
        stop_sweep = min(n_sweeps, first_kept + n_at_once)
        n_now = stop_sweep - first_kept
        # With one kept sweep, the current topics are the history.
        history = np.empty(n_tokens * n_now if n_now > 1 else 0, np.uint16)
        sweeps = Sweeps(first_sweep, first_kept, stop_sweep, fresh and first_sweep == 0)
        shared = (documents, table, prior, guards, row_keys, sweeps, token_topics, history, log_likelihood)
        workers.run(_sample_rows, [(*rows, *shared) for rows in rows_of_tasks(documents, stop_sweep - first_sweep)])
        part = count_topics(documents, history if n_now > 1 else token_topics, n_now, len(alpha), workers)
        counts = part if counts is None else add_counts(counts, part)
        first_sweep = stop_sweep
    assert counts is not None
    return DocumentSample(token_topics, counts, exact_sum(log_likelihood) / n_kept)


def rows_of_tasks(documents: Documents, n_sweeps: int) -> list[tuple[int, int]]:
    """The first row and the end of the rows of each task."""
    return split_by_task(documents.token_start[:-1] * n_sweeps // _TASK_DRAWS)


def count_topics(documents: Documents, history, n_kept: int, n_components: int, workers: Workers) -> TopicCounts:
    """Count the topics of the kept sweeps, word by word."""
    n_draws = int(documents.token_start[-1]) * n_kept
    kind = np.int32 if n_draws <= np.iinfo(np.int32).max else np.int64
    draws_per_pair = max(1, n_draws // max(1, len(documents.word_pairs)))
    arrays = (documents.word_indptr, documents.word_pairs, documents.pair_start, history, n_kept, None)

    def count(first_word, stop_word):
        return count_words(first_word, stop_word, *arrays, np.zeros(n_components, kind))

    tasks = split_by_task(documents.word_indptr[:-1] * draws_per_pair // _TASK_COUNTS)
    return counts_of_ranges(workers.run(count, tasks))


def document_prior(alpha: np.ndarray) -> DocumentPrior:
    """The Dirichlet parameters alpha_k in the format of the kernels."""
    padded = pad_topics(alpha)
    return DocumentPrior(padded, float(padded.sum()))


def pad_topics(values: np.ndarray) -> np.ndarray:
    """A number for each topic as float64, padded with zeros to a multiple of 16."""
    padded = np.zeros(-(-len(values) // LANES) * LANES)
    padded[: len(values)] = values
    return padded
