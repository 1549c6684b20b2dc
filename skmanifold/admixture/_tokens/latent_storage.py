"""Storage format of the latents of rows of tokens: row by row, independent of the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...inference._distributed_fits.stored_latents import RowLatents
from ...numerics.row_hash import hash_counts
from ...numerics.simd import LANES, zeros_by_cache_line
from ...utils._njit import njit
from .entry_scan import TOPIC_MASK, entry_count
from .model import TokenLatents, TokenModel, empty_topics

ReadRows = Callable[[int, int], RowLatents]


class TopicsOfPass(NamedTuple):
    """What a pass needs that is not of the rows: topics, and the prior of the proportions, which burn-in may change."""

    topics: Any
    doc_topic_prior: np.ndarray


class StorableTokens(TokenModel):
    """Rows of tokens whose latents can be written, and read for any division of the rows.

    `sample_latents` and `sample_rows` accept `TopicsOfPass` in place of topics.
    """

    moved_by_rounding: float = 0.0  # expected change of fractional counts by rounding

    def sample_latents(self, position: Any, latents: TokenLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass."""
        return super().sample_latents(self._topics(position), latents, key)

    def sample_rows(self, position: Any, latents: np.ndarray, key: np.uint64):
        """Redraw the topics of each document's tokens in turn."""
        return super().sample_rows(self._topics(position), latents, key)

    def _topics(self, position: Any) -> Any:
        if isinstance(position, TopicsOfPass):
            position, prior = position
            self.doc_topic_prior = prior.copy()  # received arrays are read-only
        return position

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the rows and their positions; hashes of ranges are summed modulo 2**64."""
        counts = self.counts
        return hash_counts(counts.indptr, counts.indices, counts.counts, key, self.first_row)

    def pack_latents(self, latents: TokenLatents | np.ndarray) -> Iterator[RowLatents]:
        """The topic counts of each row for ESCA, or the topics of its tokens for Gibbs sampling."""
        if isinstance(latents, np.ndarray):
            yield RowLatents(self.first_row, self.token_start, latents)
            return
        indptr = np.concatenate(([0], np.cumsum(latents.row_vectors) * LANES))
        values = np.empty(indptr[-1], np.uint32)
        _move_entries(latents.entries, self.layout.row_start, values, indptr, indptr)
        yield RowLatents(self.first_row, indptr, values)

    def unpack_latents(self, read: ReadRows) -> TokenLatents | np.ndarray:
        """Latents of these rows from the stored values that `read` returns.

        Raises
        ------
        ValueError
            If they were written for other rows: documents of other lengths, or more topics.
        """
        _, indptr, values = read(self.first_row, self.first_row + self.counts.n_rows)
        of_tokens = values.dtype == np.uint16
        n_tokens = np.diff(indptr) if of_tokens else _count_tokens(indptr, values)
        wanted = np.diff(self.token_start) if of_tokens else self.layout.row_tokens  # both are needed later
        if np.any(n_tokens != wanted) or np.any((values & TOPIC_MASK) >= self.n_components):
            raise ValueError("the stored topics do not belong to these rows")
        if of_tokens:
            return values
        layout, lengths = self.layout, np.diff(indptr)
        if np.any(lengths % LANES) or np.any(lengths > np.diff(layout.row_start)):
            raise ValueError("these rows cannot have as many topics as are stored")
        entries = zeros_by_cache_line(layout.row_start[-1], np.uint32)
        _move_entries(values, indptr, entries, layout.row_start, indptr)
        return TokenLatents(*empty_topics(layout, self.n_components), lengths // LANES, entries)


@njit(cache=True, nogil=True)
def _count_tokens(indptr, values):
    counts = np.zeros(len(indptr) - 1, np.int64)
    for row in range(len(counts)):
        for j in range(indptr[row], indptr[row + 1]):
            counts[row] += np.int64(entry_count(values[j]))
    return counts


@njit(cache=True, nogil=True)
def _move_entries(source, source_start, target, target_start, indptr):
    for row in range(len(indptr) - 1):
        begin, shift = source_start[row], target_start[row]
        for j in range(indptr[row + 1] - indptr[row]):
            target[shift + j] = source[begin + j]
