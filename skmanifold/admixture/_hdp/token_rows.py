"""Documents in shards, and the parts of a pass that each shard does by itself.

A sweep draws the topics of all tokens, documents in parallel, in a way that no topic loses its last token.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ...numerics.block_sums import exact_sum
from ...random._keys import fold_in, fold_in_each, uniform
from ...sparse.counts import Counts, entries_of_rows
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._posterior.inference import TopicInference
from .._tokens.document_gibbs import (
    Documents,
    WordTable,
    count_topics,
    document_prior,
    make_word_table,
    pad_topics,
    rows_of_tasks,
    sample_documents,
)
from .._tokens.document_gibbs_kernels import Guards, Sweeps, _sample_rows
from .._tokens.fits import record_documents
from .._tokens.log_topic_word import LogTopics
from .._tokens.shards import StorableTokens
from .._tokens.topic_counts import TopicCounts
from .births import count_tokens, draw_tables
from .two_sides import gather_tokens

_TOKENS_PER_TOPIC = 16  # the initial number of topics is the square root of the number of tokens, divided by four
_LEAST_TOPICS = 10
_SWEEPS = 5  # with the topics of another estimator


def start_of(init: Any, n_tokens: int, n_features: int, max_topics: int) -> RandomStart | StartFromTopics:
    """The start that `init` describes for a corpus.

    ValueError if it has more than `max_topics`, or if the topics of an estimator are of other words.
    """
    if isinstance(init, str):
        n_topics = max(_LEAST_TOPICS, round(math.sqrt(n_tokens / _TOKENS_PER_TOPIC)))
        return RandomStart(min(n_topics, n_tokens, max_topics))
    start: RandomStart | StartFromTopics
    if isinstance(init, int | np.integer):
        start, who = RandomStart(int(init)), "init"
    else:
        fitted, who = init.estimator if isinstance(init, FrozenEstimator) else init, "the estimator in init"
        if not isinstance(fitted, TopicInference):
            raise ValueError(f"init must be 'auto', a number or a fitted StochasticLDA; got {init!r}.")
        check_is_fitted(fitted)
        if fitted.n_features_in_ != n_features:
            raise ValueError(f"init has topics of {fitted.n_features_in_} words, but X has {n_features} columns.")
        start = StartFromTopics(fitted._parameters.toarray(np.float64), fitted.doc_topic_prior_)
    if start.n_topics > max_topics:
        raise ValueError(f"{who} has {start.n_topics} topics, more than max_components={max_topics}.")
    return start


class RandomStart:
    """Uniformly random topics."""

    def __init__(self, n_topics: int):
        self.n_topics = n_topics

    def __call__(self, documents: Documents, first_row: int, workers: Workers, key: np.uint64) -> np.ndarray:
        """The topic of each token, uint16."""
        topics = np.empty(documents.token_start[-1], np.uint16)
        _draw_uniform(documents.token_start, first_row, self.n_topics, key, topics)
        return topics


@njit(cache=True)
def _draw_uniform(token_start, first_row, n_topics, key, out):
    for row in range(len(token_start) - 1):
        row_key = fold_in(key, first_row + row)
        for token in range(token_start[row], token_start[row + 1]):
            out[token] = min(np.int64(uniform(row_key, token - token_start[row]) * n_topics), n_topics - 1)


class StartFromTopics:
    """Topics drawn given those of a fitted estimator."""

    def __init__(self, topics: np.ndarray, doc_topic_prior: np.ndarray):
        with np.errstate(divide="ignore"):
            self.log_topics = np.log(topics.T)
        self.n_topics, self.doc_topic_prior = len(topics), doc_topic_prior

    def __call__(self, documents: Documents, first_row: int, workers: Workers, key: np.uint64) -> np.ndarray:
        """The topic of each token, uint16."""
        alpha = self.doc_topic_prior
        table = make_word_table(self.log_topics, np.zeros(len(alpha)), alpha, workers)
        row_keys = fold_in_each(key, np.arange(first_row, first_row + len(documents.token_start) - 1))
        return sample_documents(
            documents, table, alpha, row_keys, n_burn_in=_SWEEPS, n_kept=1, workers=workers
        ).token_topics


_TASK_TOKENS = 1 << 17  # whose priorities are compared by one task


class Prepared:
    """Topics, and alpha b_k, with the table from which tokens are drawn; the table is made where it is used."""

    def __init__(self, topics: LogTopics, expected: np.ndarray):
        self.topics = topics
        self.expected = expected
        self._table: WordTable | None = None

    def __reduce__(self) -> tuple:
        return Prepared, (self.topics, self.expected)

    def table(self, workers: Workers) -> WordTable:
        """The table of all words."""
        if self._table is None:
            self._table = make_word_table(*self.topics, self.expected, workers)
        return self._table


class DocumentTokens(StorableTokens):
    """Documents of one shard; methods with a first argument `topics`, (n_tokens,) uint16, change it."""

    n_components = 1 << 16  # stored topics can be any of 16 bits

    def lengths(self, topics: np.ndarray | None) -> np.ndarray:
        """Numbers of tokens of the documents."""
        return np.diff(self.token_start)

    def begin(self, start: RandomStart | StartFromTopics, key: np.uint64) -> np.ndarray:
        """Draw the topics of the tokens at the start."""
        return start(self._documents, self.first_row, self.workers, key)

    def count(self, topics: np.ndarray, n_topics: int) -> np.ndarray:
        """Numbers of tokens of the topics."""
        return count_tokens(topics, n_topics)

    def count_words(self, topics: np.ndarray, n_topics: int) -> TopicCounts:
        """Counts of the words of each topic."""
        return count_topics(self._documents, topics, 1, n_topics, self.workers)

    def count_in_documents(self, topics: np.ndarray, n_rows: int, n_topics: int) -> dict[str, np.ndarray]:
        """As `record_documents`."""
        return record_documents(topics, self.token_start, n_rows, n_topics)

    def find_least(self, topics: np.ndarray, n_topics: int, first_token: int, key: np.uint64) -> np.ndarray:
        """The least priority of the tokens of each topic, (n_topics,); 1 for a topic without tokens."""
        tasks = [(*tokens, topics, n_topics, first_token, key) for tokens in split_range(len(topics), _TASK_TOKENS)]
        return np.min([np.ones(n_topics), *self.workers.run(_find_least, tasks)], axis=0)

    def sweep(
        self,
        topics: np.ndarray,
        prepared: Prepared,
        least: np.ndarray,
        first_token: int,
        key: np.uint64,
        guard_key: np.uint64,
    ) -> tuple[float, np.ndarray]:
        """Draw the topic of each token given the others of its document; some tokens stay, see `Guards`.

        `least` and `first_token`, the number of the first token here, are of the whole corpus. Returns the sum over
        tokens of the log probability given the others of the document, and the numbers of tokens of the topics.
        """
        row_keys = fold_in_each(key, np.arange(self.first_row, self.first_row + self.n_rows))
        log_likelihood, history = np.zeros(len(row_keys)), np.empty(0, np.uint16)
        given = prepared.table(self.workers), document_prior(prepared.expected)
        guards = Guards(pad_topics(least), guard_key, first_token)
        shared = *given, guards, row_keys, Sweeps(0, 0, 1, False), topics, history, log_likelihood
        tasks = [(*rows, self._documents, *shared) for rows in rows_of_tasks(self._documents, 1)]
        self.workers.run(_sample_rows, tasks)
        return exact_sum(log_likelihood), count_tokens(topics, len(prepared.expected))

    def take(self, topics: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, Counts, np.ndarray]:
        """Those of some documents of the corpus that are in this shard: places in `rows`, documents, and topics."""
        places, own = self._own(rows)
        return places, self.counts.take(own), topics[entries_of_rows(self.token_start, own)[1]]

    def put(
        self, topics: np.ndarray, rows: np.ndarray, starts: np.ndarray, new: np.ndarray, n_topics: int
    ) -> np.ndarray:
        """Replace the topics of some documents of the corpus; returns the numbers of tokens of the topics.

        The topics of document ``rows[i]`` are ``new[starts[i]:starts[i + 1]]``.
        """
        places, own = self._own(rows)
        topics[entries_of_rows(self.token_start, own)[1]] = new[entries_of_rows(starts, places)[1]]
        return count_tokens(topics, n_topics)

    def renumber(self, topics: np.ndarray, number: np.ndarray) -> None:
        """Give each topic another number."""
        _replace(number, topics)

    def gather(self, topics: np.ndarray, topic: int, other: int) -> tuple[np.ndarray, ...]:
        """The tokens of one or two topics: numbers in the shard, documents, words, and whether of the other topic."""
        size = sum(int(np.count_nonzero(topics == number)) for number in {topic, other})
        return gather_tokens(self._documents, topics, topic, other, size, self.first_row)

    def assign(self, topics: np.ndarray, tokens: np.ndarray, topic: int) -> None:
        """Give some tokens another topic."""
        topics[tokens] = topic

    def summarize(self, topics: np.ndarray, expected: np.ndarray, key: np.uint64) -> tuple[np.ndarray, TopicCounts]:
        """The tables and the counts of words of each topic."""
        tables = draw_tables(self.token_start, topics, expected, self.first_row, key, self.workers)
        return tables, self.count_words(topics, len(expected))

    def _own(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in `rows` of the documents of this shard, and their indices in it."""
        own = rows - self.first_row
        places = np.flatnonzero((own >= 0) & (own < self.counts.n_rows))
        return places, own[places]


def gather_documents(shards: Any, chain: int, rows: np.ndarray) -> tuple[Counts, np.ndarray]:
    """Some documents of the corpus in the order of `rows`, and the topics of their tokens, as new arrays."""
    places, documents, token_topics = zip(*shards.ask_latents("take", chain, (rows,)), strict=True)
    order = np.argsort(np.concatenate(places))
    sizes = np.concatenate([np.diff(some.indptr) for some in documents])
    indices, counts = (np.concatenate([some[i] for some in documents]) for i in (1, 2))
    joined = Counts(np.concatenate(([0], np.cumsum(sizes))), indices, counts, documents[0].n_features)
    tokens = entries_of_rows(joined.token_start(), order)[1]
    return joined.take(order), np.concatenate(token_topics)[tokens]


def put_documents(
    shards: Any, chain: int, rows: np.ndarray, documents: Counts, token_topics: np.ndarray, n_topics: int
) -> np.ndarray:
    """Replace the topics of the tokens of some documents; returns the numbers of tokens of the topics."""
    arguments = rows, documents.token_start(), token_topics, n_topics
    return np.sum(shards.ask_latents("put", chain, arguments), axis=0)


@njit(cache=True, nogil=True)
def _replace(number, token_topics):
    for token in range(len(token_topics)):
        token_topics[token] = number[np.uint64(token_topics[token])]


@njit(cache=True, nogil=True)
def _find_least(first, stop, token_topics, n_components, first_token, key):
    least = np.ones(n_components)
    for token in range(first, stop):
        topic = np.uint64(token_topics[token])
        least[topic] = min(least[topic], uniform(key, first_token + token))
    return least
