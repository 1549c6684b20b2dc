"""Dirichlet priors of latent Dirichlet allocation learned from counts: what makes the tokens' topics most likely.

The documents' prior has a parameter a topic, the topics' prior one for all words. Both are maxima of a
Dirichlet-multinomial likelihood, found from histograms of the counts (T. P. Minka, "Estimating a Dirichlet
distribution", 2000; H. M. Wallach, D. Mimno and A. McCallum, "Rethinking LDA: why priors matter", NIPS 2009).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...utils._threads import Workers, split_range
from .._tokens.topic_counts import TopicCounts
from .dirichlet_mle_kernels import (
    CUT_BITS,
    FIRST_CELL,
    _add_tables,
    _climb,
    _evaluate,
    _expect_positive,
    _list_assignments,
    _list_entries,
    _share_out,
    _tabulate,
)

_MIN_TASK_ROWS = 1 << 14
_MAX_TASKS = 16  # each has a table of its own
_RESPONSIBILITY_ROWS = 1 << 8
_CACHE_LINE = 8  # topics whose expected counts lie together
_MAX_TABLE = 1 << 16  # larger counts are few, and sorted
# Where counts scatter no more than a multinomial's, the likelihood rises for ever: a prior of so many tokens is flat.
_CEILING = 1e4


class DocTopicHistogram(NamedTuple):
    """How many documents have n tokens of topic k: all that the likelihood of a Dirichlet prior needs.

    Zeros are left out: they change nothing.
    """

    indptr: np.ndarray  # (K + 1,) int64: topic k holds [indptr[k]:indptr[k + 1]] of the next two
    values: np.ndarray  # float64: counts n > 0, ascending
    weights: np.ndarray  # float64: documents with n tokens of the topic
    lengths: np.ndarray  # float64: lengths of documents, ascending
    length_weights: np.ndarray  # float64: documents of that length


def histogram_of_entries(
    entries: np.ndarray, row_start: np.ndarray, row_vectors: np.ndarray, n_components: int, workers: Workers
) -> DocTopicHistogram:
    """From the packed entries of ``TokenLatents``; memory is at most eight bytes a token, mostly far less."""
    shared = (entries, row_start, row_vectors, n_components)
    return _histogram_of_rows(_list_entries, shared, len(row_vectors), n_components, workers)


def histogram_of_assignments(
    token_topics: np.ndarray, token_start: np.ndarray, n_components: int, workers: Workers
) -> DocTopicHistogram:
    """From one topic for each token, those of row m at ``token_start[m]:token_start[m + 1]``."""
    shared = (token_topics, token_start, n_components)
    return _histogram_of_rows(_list_assignments, shared, len(token_start) - 1, n_components, workers)


def histogram_of_responsibilities(
    gamma: np.ndarray, row_indptr: np.ndarray, counts: np.ndarray, workers: Workers
) -> DocTopicHistogram:
    """From the responsibilities of CVB0, tokens being independent.

    A count stands for its distribution by two numbers: the probability p that it is not zero, exactly, and its mean
    if it is not (Teh, Newman and Welling, NIPS 2006, treat zero alike). With means alone, small ones would pass for
    tokens seen, and the prior come out several times too large. Values are shared out over a grid of 64 points an
    octave, which errs by 1e-5 of a term. Memory is sixteen bytes for each topic of each document.
    """
    pairs = np.arange(row_indptr[-1])
    lengths = np.diff(np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))[row_indptr])
    distinct, length_weights = np.unique(lengths[lengths > 0], return_counts=True)
    indptr, values, weights = _expected_histograms(gamma, row_indptr, pairs, counts, lengths.max(initial=1), workers)
    return DocTopicHistogram(indptr, values, weights, distinct.astype(np.float64), length_weights.astype(np.float64))


def word_histogram_of_responsibilities(
    gamma: np.ndarray,
    word_indptr: np.ndarray,
    word_pairs: np.ndarray,
    counts: np.ndarray,
    totals: np.ndarray,
    workers: Workers,
) -> DocTopicHistogram:
    """As ``histogram_of_responsibilities``, of words in topics, for `learn_topic_word_prior`.

    The pairs of word v are ``word_pairs[word_indptr[v]:word_indptr[v + 1]]``; the topics' `totals` stand for lengths.
    """
    shared = gamma, word_indptr, word_pairs, counts, max(1, int(counts.sum(dtype=np.int64))), workers
    _, values, weights = _expected_histograms(*shared)
    totals = totals[totals > 0].astype(np.float64)
    return DocTopicHistogram(np.array([0, len(values)]), values, weights, totals, np.ones(len(totals)))


def learn_doc_topic_prior(
    prior: np.ndarray, histogram: DocTopicHistogram, n_iter: int = 5, floor: float = 1e-3
) -> np.ndarray:
    """The Dirichlet parameters, one a topic, that make the documents' topics more likely than `prior` does.

    Parameters
    ----------
    prior : ndarray of shape (n_components,)
        Where to begin.
    histogram : DocTopicHistogram
        The documents' counts.
    n_iter : int
        Steps at most; with five a prior that is wrong by a factor of ten is nearly right.
    floor : float
        No parameter falls below ``floor / n_components``. That of a topic without tokens would become zero, and the
        topic could never again be drawn. The floors of all topics weigh no more than a thousandth of a token.

    Returns
    -------
    prior : ndarray of shape (n_components,)
        Unchanged if there is one topic or no token. Else the likelihood is no lower than at the beginning, the floor
        being applied to both.
    """
    if len(prior) == 1 or len(histogram.lengths) == 0:
        return np.array(prior, np.float64)
    lowest = floor / len(prior)
    return _climb(np.clip(prior, lowest, _CEILING, dtype=np.float64), 1.0, *histogram, n_iter, lowest, _CEILING)


def learn_topic_word_prior(
    prior: float, topic_counts: TopicCounts | DocTopicHistogram, n_features: int, n_iter: int = 5, floor: float = 1e-3
) -> float:
    """The one Dirichlet parameter that makes the words of all topics more likely than `prior` does.

    `topic_counts` are whole numbers, or for CVB0 the result of ``word_histogram_of_responsibilities``. The parameter is
    not below ``floor / n_features``. Topics without tokens have no say.
    """
    histogram = topic_counts if isinstance(topic_counts, DocTopicHistogram) else _histogram_of_words(topic_counts)
    if n_features == 1 or len(histogram.lengths) == 0:
        return float(prior)
    lowest = floor / n_features
    begin = np.clip(np.full(1, prior, np.float64), lowest, _CEILING)
    return float(_climb(begin, float(n_features), *histogram, n_iter, lowest, _CEILING)[0])


def log_likelihood(prior: np.ndarray, histogram: DocTopicHistogram, copies: int = 1) -> float:
    """Log p(topics of the tokens | prior), proportions integrated out; each parameter stands `copies` times."""
    prior = np.asarray(prior, np.float64)
    return _evaluate(prior, float(copies), *histogram, np.empty_like(prior), np.empty_like(prior))[0]


def _histogram_of_rows(list_rows, shared, n_rows, n_components, workers):
    """`list_rows` tells the pairs (topic, count) of ranges of rows; whole numbers, so the ranges do not matter."""

    def tabulate(start, stop):
        return _tabulate(*list_rows(start, stop, *shared), n_components + 1)

    blocks = split_range(n_rows, max(_MIN_TASK_ROWS, -(-n_rows // _MAX_TASKS)))
    tables = workers.run(tabulate, blocks)
    start, table = tables[0]
    if len(tables) > 1:
        start = np.concatenate(([0], np.cumsum(np.max([np.diff(s) for s, _ in tables], axis=0))))
        table = np.zeros(start[-1], np.int32)
        for part in tables:
            _add_tables(*part, start, table)
    filled = np.flatnonzero(table)
    cuts = np.searchsorted(filled, start)
    values = (filled - np.repeat(start[:-1], np.diff(cuts)) + 1).astype(np.float64)
    weights = table[filled].astype(np.float64)
    end = cuts[n_components]
    return DocTopicHistogram(cuts[:-1].astype(np.int64), values[:end], weights[:end], values[end:], weights[end:])


def _expected_histograms(gamma, indptr, pairs, counts, largest, workers):
    """Histograms for each topic, of rows or words with the given pairs: `indptr`, values, weights."""
    n, n_components = len(indptr) - 1, gamma.shape[1]
    values, weights = np.empty((n, n_components)), np.empty((n, n_components))
    blocks = split_range(n, _RESPONSIBILITY_ROWS)
    workers.run(_expect_positive, [(*rows, indptr, pairs, gamma, counts, values, weights) for rows in blocks])
    # Responsibilities in single precision may sum to a little more than 1.
    n_cells = int(np.float64(2.0 * largest).view(np.int64) >> CUT_BITS) - FIRST_CELL + 2
    table = np.empty((n_components, n_cells))
    columns = split_range(n_components, _CACHE_LINE)
    workers.run(_share_out, [(*topics, values, values.view(np.uint64), weights, table) for topics in columns])
    topics, cells = np.nonzero(table)
    starts = np.concatenate(([0], np.cumsum(np.bincount(topics, minlength=n_components)))).astype(np.int64)
    return starts, ((cells + FIRST_CELL) << CUT_BITS).view(np.float64), table[topics, cells]


def _histogram_of_words(topic_counts: TopicCounts) -> DocTopicHistogram:
    """How often a word stands n times in a topic, all words and topics together; topics for documents."""
    totals = topic_counts.totals[topic_counts.totals > 0].astype(np.float64)
    counts = topic_counts.counts
    if counts.dtype.kind == "f":
        raise TypeError("A prior is learned from whole counts of one pass, not from means or expectations.")
    is_large = counts >= _MAX_TABLE
    table = np.bincount(counts[~is_large], minlength=1)
    small = np.flatnonzero(table[1:]) + 1
    large, large_weights = np.unique(counts[is_large], return_counts=True)
    values, weights = np.concatenate((small, large)), np.concatenate((table[small], large_weights))
    return DocTopicHistogram(
        np.array([0, len(values)]), values.astype(np.float64), weights.astype(np.float64), totals, np.ones(len(totals))
    )
