"""Documents as mixtures over topics: expected counts of topics, for EM and mean-field inference."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...random._keys import Purpose, fold_in_each
from ...random._variates import fill_normal
from ...utils._threads import Workers, split_by_task, split_range
from .._tokens.document_gibbs import Documents
from .cvb0_kernels import _merge_partials, _sum_words
from .mixture_kernels import count_words

_TASK_CELLS = 1 << 19  # topics of pairs that one task weighs, a millisecond or more
_WORD_BLOCK = 1 << 10  # words of one partial sum
_NOISE = 0.1  # standard deviation of the logarithms of initial counts


class Mixtures:
    """The documents, and the division of work between tasks.

    Parameters
    ----------
    documents : Documents
        The pairs of documents and words.
    n_components : int
        Number of topics K.
    workers : Workers
        Threads for the kernels.

    Attributes
    ----------
    row_blocks : list of (start, stop)
        The documents of each task.
    """

    def __init__(self, documents: Documents, n_components: int, workers: Workers):
        self.documents = documents
        self.n_components = n_components
        self.workers = workers
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(documents.indptr))
        self._word_rows = rows[documents.word_pairs]
        self.row_blocks = self._blocks(documents.indptr)
        self._word_tasks = self._blocks(documents.word_indptr)

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return len(self.documents.indptr) - 1

    @cached_property
    def word_totals(self) -> np.ndarray:
        """Number of tokens of each word, (n_words,)."""
        documents = self.documents
        return np.bincount(documents.pair_word, documents.pair_count, len(documents.words))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each document, (n_rows,) float64."""
        return np.diff(self.documents.token_start).astype(np.float64)

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start of each document's pairs, and word and count of each pair."""
        return self.documents[:3]

    def _blocks(self, indptr: np.ndarray) -> list[tuple[int, int]]:
        return split_by_task(indptr[:-1] * self.n_components // _TASK_CELLS)

    def draw_counts(self, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
        """Initial counts of topics in words, (n_words, K), and in documents, (n_rows, K).

        All topics have the frequencies of words in the corpus, with noise, and all documents have equal shares of the
        topics. So documents differ by their words alone. This separates topics better than random topics of tokens,
        and better than topics with noise alone, where one topic that learns the frequencies explains all documents.
        """
        word_topic = np.empty((len(self.word_totals), self.n_components))
        fill_normal(fold_in_each(key, self.documents.words), Purpose.NOISE, word_topic)
        np.exp(_NOISE * word_topic, out=word_topic)
        word_topic *= self.word_totals[:, np.newaxis] / self.n_components
        return word_topic, self.equal_shares()

    def equal_shares(self) -> np.ndarray:
        """Counts of topics in documents, (n_rows, K), the same for all topics."""
        return np.repeat(self.lengths[:, np.newaxis] / self.n_components, self.n_components, axis=1)

    def count_words(
        self, ratios: np.ndarray, doc_weights: np.ndarray, word_weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected counts of words in topics, (n_words, K), and their sums over words, (K,)."""
        documents = self.documents
        word_topic = np.empty((len(documents.words), self.n_components))
        shared = documents.word_indptr, documents.word_pairs, self._word_rows, ratios, doc_weights, word_weights
        self.workers.run(count_words, [(*words, *shared, word_topic) for words in self._word_tasks])
        return word_topic, self.sum_words(word_topic)

    def sum_words(self, word_topic: np.ndarray) -> np.ndarray:
        """Sums over words, (K,), in fixed blocks."""
        blocks = split_range(len(word_topic), _WORD_BLOCK)
        partials, totals = np.empty((len(blocks), self.n_components)), np.empty(self.n_components)
        tasks = [(*words, word_topic, partial) for words, partial in zip(blocks, partials, strict=True)]
        self.workers.run(_sum_words, tasks)
        _merge_partials(partials, totals)
        return totals
