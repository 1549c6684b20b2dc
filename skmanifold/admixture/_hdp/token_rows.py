"""Documents in ranges of rows, and the parts of a pass that each range does by itself.

A sweep draws the topics of all tokens, documents in parallel, in a way that no topic loses its last token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ...inference._distributed_fits.exchange import RowLatents
from ...numerics.block_sums import exact_sum
from ...numerics.row_hash import hash_counts
from ...random._keys import fold_in, fold_in_each, uniform
from ...sparse.counts import Counts
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._posterior.inference import TopicInference
from .._tokens.document_gibbs import (
    Documents,
    WordTable,
    all_documents,
    count_topics,
    document_prior,
    make_word_table,
    pad_topics,
    put_tokens,
    rows_of_tasks,
    sample_documents,
    take_tokens,
)
from .._tokens.document_gibbs_kernels import Guards, Sweeps, _sample_rows
from .._tokens.log_topic_word import LogTopics
from .._tokens.topic_counts import TopicCounts
from .births import count_tokens, draw_tables
from .two_sides import Counted, gather_tokens

_TOKENS_PER_TOPIC = 16  # the initial number of topics is the square root of the number of tokens, divided by four
_LEAST_TOPICS = 10
_SWEEPS = 5  # with the topics of another estimator

Start = Callable[[Documents, int, Workers, np.uint64], np.ndarray]


def start_of(init: Any, n_tokens: int, n_features: int, max_topics: int) -> tuple[Start, int]:
    """The start that `init` describes for a corpus, and about how many topics it has.

    ValueError if there are more than `max_topics`, or if the topics of an estimator are of other words.
    """
    if isinstance(init, str):
        n_topics = max(_LEAST_TOPICS, round(math.sqrt(n_tokens / _TOKENS_PER_TOPIC)))
        init = min(n_topics, n_tokens, max_topics)
    if isinstance(init, int | np.integer):
        _check_number(int(init), max_topics, "init")
        return _RandomStart(int(init)), int(init)
    fitted = init.estimator if isinstance(init, FrozenEstimator) else init
    if not isinstance(fitted, TopicInference):
        raise ValueError(f"init must be 'auto', a number or a fitted StochasticLDA; got {init!r}.")
    check_is_fitted(fitted)
    if fitted.n_features_in_ != n_features:
        raise ValueError(f"init has topics of {fitted.n_features_in_} words, but X has {n_features} columns.")
    topics = fitted._parameters.toarray(np.float64)
    _check_number(len(topics), max_topics, "the estimator in init")
    return _StartFromTopics(topics, fitted.doc_topic_prior_), len(topics)


def _check_number(n_topics: int, max_topics: int, who: str) -> None:
    if n_topics > max_topics:
        raise ValueError(f"{who} has {n_topics} topics, more than max_components={max_topics}.")


class _RandomStart:
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


class _StartFromTopics:
    """Topics drawn given those of a fitted estimator."""

    def __init__(self, topics: np.ndarray, doc_topic_prior: np.ndarray):
        with np.errstate(divide="ignore"):
            self.log_topics = np.log(topics.T)
        self.doc_topic_prior = doc_topic_prior

    def __call__(self, documents: Documents, first_row: int, workers: Workers, key: np.uint64) -> np.ndarray:
        """The topic of each token, uint16."""
        alpha = self.doc_topic_prior
        table = make_word_table(self.log_topics, np.zeros(len(alpha)), alpha, workers)
        row_keys = fold_in_each(key, np.arange(first_row, first_row + len(documents.token_start) - 1))
        return sample_documents(
            documents, table, alpha, row_keys, n_burn_in=_SWEEPS, n_kept=1, workers=workers
        ).token_topics


_TASK_TOKENS = 1 << 17  # whose priorities are compared by one task


class Ranges(Protocol):
    """All documents, in one or several ranges, with the topics of the tokens of each chain.

    A chain has a handle for the topics of its tokens, which the ranges change in place.
    """

    @property
    def lengths(self) -> list[np.ndarray]:
        """The numbers of tokens of the documents, for each range."""
        ...

    def no_counts(self) -> Counted:
        """Counts of two sides of the tokens of all ranges, all zero."""
        ...

    def begin(self, start: Start, key: np.uint64) -> Any:
        """Draw the topics of a new chain; returns the handle."""
        ...

    def ask(self, method: str, topics: Any, *arguments: Any) -> list:
        """The results of a method of `TokenRows` for the topics with this handle, in the order of the ranges."""
        ...

    def ask_each(self, method: str, topics: Any, arguments: list[tuple]) -> list:
        """The same with other arguments for each range."""
        ...


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


class Taken(NamedTuple):
    """Some documents of a range."""

    places: np.ndarray  # in the list of the wanted documents
    documents: Counts
    token_topics: np.ndarray


class TokenRows:
    """A range of documents, from `first_row` on; methods with a first argument `topics`, (n_tokens,) uint16, change it.

    `moved_by_rounding` is the expected change of fractional counts by rounding.
    """

    def __init__(self, counts: Counts, first_row: int, workers: Workers, moved_by_rounding: float = 0.0):
        self.counts = counts
        self.first_row = first_row
        self.workers = workers
        self.moved_by_rounding = moved_by_rounding

    @cached_property
    def documents(self) -> Documents:
        """The documents in the format of the document step."""
        return all_documents(self.counts)

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return int(self.documents.token_start[-1])

    def lengths(self, topics: np.ndarray | None) -> np.ndarray:
        """Numbers of tokens of the documents."""
        return np.diff(self.documents.token_start)

    def begin(self, start: Start, key: np.uint64) -> np.ndarray:
        """Draw the topics of the tokens at the start."""
        return start(self.documents, self.first_row, self.workers, key)

    def count(self, topics: np.ndarray, n_topics: int) -> np.ndarray:
        """Numbers of tokens of the topics."""
        return count_tokens(topics, n_topics)

    def find_largest(self, topics: np.ndarray) -> int:
        """The largest number of a topic; -1 without tokens."""
        return int(topics.max(initial=0)) if len(topics) else -1

    def count_words(self, topics: np.ndarray, n_topics: int) -> TopicCounts:
        """Counts of the words of each topic."""
        return count_topics(self.documents, topics, 1, n_topics, self.workers)

    def find_least(self, topics: np.ndarray, n_topics: int, first_token: int, key: np.uint64) -> np.ndarray:
        """The least priority of the tokens of each topic."""
        return least_priorities(topics, n_topics, first_token, key, self.workers)

    def sweep(
        self,
        topics: np.ndarray,
        prepared: Prepared,
        least: np.ndarray,
        first_token: int,
        key: np.uint64,
        guard_key: np.uint64,
    ) -> tuple[float, np.ndarray]:
        """Draw the topic of each token given the others of its document; the log likelihood, and numbers of tokens."""
        guards = guards_of(least, guard_key, first_token)
        row_keys = fold_in_each(key, np.arange(self.first_row, self.first_row + self.counts.n_rows))
        table, expected = prepared.table(self.workers), prepared.expected
        log_likelihood = sweep_with_guards(self.documents, table, expected, row_keys, topics, guards, self.workers)
        return log_likelihood, count_tokens(topics, len(expected))

    def take(self, topics: np.ndarray, rows: np.ndarray) -> Taken:
        """Those of some documents of the corpus that are in this range."""
        places, own = self._own(rows)
        taken = take_tokens(self.documents.token_start, own, topics)
        return Taken(places, self.counts.take(own), taken)

    def put(
        self, topics: np.ndarray, rows: np.ndarray, starts: np.ndarray, new: np.ndarray, n_topics: int
    ) -> np.ndarray:
        """Replace the topics of some documents of the corpus; returns the numbers of tokens of the topics.

        The topics of document ``rows[i]`` are ``new[starts[i]:starts[i + 1]]``.
        """
        places, own = self._own(rows)
        put_tokens(own, self.documents.token_start, topics, places, starts, new)
        return count_tokens(topics, n_topics)

    def renumber(self, topics: np.ndarray, number: np.ndarray) -> None:
        """Give each topic another number."""
        _replace(number, topics)

    def gather(self, topics: np.ndarray, topic: int, other: int) -> tuple[np.ndarray, ...]:
        """The tokens of one or two topics: numbers in the range, documents, words, and whether of the other topic."""
        size = sum(int(np.count_nonzero(topics == number)) for number in {topic, other})
        return gather_tokens(self.documents, topics, topic, other, size, self.first_row)

    def assign(self, topics: np.ndarray, tokens: np.ndarray, topic: int) -> None:
        """Give some tokens another topic."""
        topics[tokens] = topic

    def summarize(self, topics: np.ndarray, expected: np.ndarray, key: np.uint64) -> tuple[np.ndarray, TopicCounts]:
        """The tables and the counts of words of each topic."""
        tables = draw_tables(self.documents.token_start, topics, expected, self.first_row, key, self.workers)
        return tables, self.count_words(topics, len(expected))

    def _own(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in `rows` of the documents of this range, and their indices in it."""
        own = rows - self.first_row
        places = np.flatnonzero((own >= 0) & (own < self.counts.n_rows))
        return places, own[places]

    # Checkpoints

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the rows and their positions; hashes of ranges are summed modulo 2**64."""
        return hash_counts(*self.counts[:3], key, self.first_row)

    def pack_latents(self, latents: np.ndarray) -> Iterator[RowLatents]:
        """The topics of the tokens of each row."""
        yield RowLatents(self.first_row, self.documents.token_start, latents)

    def unpack_latents(self, read: Any) -> np.ndarray:
        """Topics of these rows' tokens, from what `read` returns; ValueError if written for other lengths."""
        _, indptr, topics = read(self.first_row, self.first_row + self.counts.n_rows)
        if np.any(np.diff(indptr) != np.diff(self.documents.token_start)):
            raise ValueError("the stored topics do not belong to these rows")
        return topics.copy()


class OneRange:
    """All documents as one range in this process; a handle is the array of topics."""

    def __init__(self, rows: TokenRows):
        self.rows = rows

    @cached_property
    def lengths(self) -> list[np.ndarray]:
        """The numbers of tokens of the documents."""
        return [self.rows.lengths(None)]

    def no_counts(self) -> Counted:
        """Counts of two sides, all zero."""
        return Counted.none(self.rows.counts.n_rows, self.rows.counts.n_features)

    def begin(self, start: Start, key: np.uint64) -> np.ndarray:
        """Draw the topics of a new chain."""
        return self.rows.begin(start, key)

    def ask(self, method: str, topics: np.ndarray, *arguments: Any) -> list:
        """The result of a method of `TokenRows`, in a list."""
        return [getattr(self.rows, method)(topics, *arguments)]

    def ask_each(self, method: str, topics: np.ndarray, arguments: list[tuple]) -> list:
        """The same; `arguments` has one entry."""
        return self.ask(method, topics, *arguments[0])


def first_tokens(ranges: Ranges) -> list[int]:
    """The number of the first token of each range in the whole corpus."""
    return np.cumsum([0, *(int(lengths.sum()) for lengths in ranges.lengths)])[:-1].tolist()


def gather_documents(ranges: Ranges, topics: Any, rows: np.ndarray) -> tuple[Counts, np.ndarray]:
    """Some documents of the corpus in the order of `rows`, and the topics of their tokens, as new arrays."""
    places, documents, token_topics = zip(*ranges.ask("take", topics, rows), strict=True)
    order = np.argsort(np.concatenate(places))
    sizes = np.concatenate([np.diff(some.indptr) for some in documents])
    indices, counts = (np.concatenate([some[i] for some in documents]) for i in (1, 2))
    joined = Counts(np.concatenate(([0], np.cumsum(sizes))), indices, counts, documents[0].n_features)
    joined_topics = np.concatenate(token_topics)
    return joined.take(order), take_tokens(joined.token_start(), order, joined_topics)


def put_documents(
    ranges: Ranges, topics: Any, rows: np.ndarray, documents: Counts, token_topics: np.ndarray, n_topics: int
) -> np.ndarray:
    """Replace the topics of the tokens of some documents; returns the numbers of tokens of the topics."""
    return np.sum(ranges.ask("put", topics, rows, documents.token_start(), token_topics, n_topics), axis=0)


@njit(cache=True, nogil=True)
def _replace(number, token_topics):
    for token in range(len(token_topics)):
        token_topics[token] = number[np.uint64(token_topics[token])]


def sweep_with_guards(
    documents: Documents,
    table: WordTable,
    expected: np.ndarray,
    row_keys: np.ndarray,
    token_topics: np.ndarray,
    guards: Guards,
    workers: Workers,
) -> float:
    """Draw the topic of each token given the others of its document, in place; some tokens stay, see `Guards`.

    `expected` is alpha b_k, (K,). The guards are those of the whole corpus (`guards_of`). Returns the sum over tokens
    of the log probability given the others of the document.
    """
    log_likelihood, sweep = np.zeros(len(row_keys)), Sweeps(0, 0, 1, False)
    history = np.empty(0, np.uint16)
    shared = documents, table, document_prior(expected), guards, row_keys, sweep, token_topics, history, log_likelihood
    workers.run(_sample_rows, [(*rows, *shared) for rows in rows_of_tasks(documents, 1)])
    return exact_sum(log_likelihood)


def guards_of(least: np.ndarray, key: np.uint64, first_token: int) -> Guards:
    """The guards of documents whose first token has this number, given the least priorities in the whole corpus."""
    return Guards(pad_topics(least), key, first_token)


def least_priorities(
    token_topics: np.ndarray, n_components: int, first_token: int, key: np.uint64, workers: Workers
) -> np.ndarray:
    """The least priority of the tokens of each topic, (n_components,); 1 for a topic without tokens."""
    tasks = split_range(len(token_topics), _TASK_TOKENS)
    parts = workers.run(_find_least, [(*tokens, token_topics, n_components, first_token, key) for tokens in tasks])
    return np.min([np.ones(n_components), *parts], axis=0)


@njit(cache=True, nogil=True)
def _find_least(first, stop, token_topics, n_components, first_token, key):
    least = np.ones(n_components)
    for token in range(first, stop):
        topic = np.uint64(token_topics[token])
        least[topic] = min(least[topic], uniform(key, first_token + token))
    return least
