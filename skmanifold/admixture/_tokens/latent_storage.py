"""Storage format of the latents of rows of tokens: row by row, independent of the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...inference._distributed_fits.stored_latents import RowLatents
from ...numerics.row_hash import hash_counts
from ...utils._njit import njit
from .model import TokenLatents, TokenModel, TopicsOfPass

ReadRows = Callable[[int, int], RowLatents]


class StorableTokens(TokenModel):
    """Rows of tokens whose latents can be written, and read for any division of the rows.

    Methods accept `TopicsOfPass` in place of topics, and the topics of tokens, as they are stored, in place of
    `TokenLatents`.
    """

    moved_by_rounding: float = 0.0  # expected change of fractional counts by rounding

    def sample_latents(self, position: Any, latents: TokenLatents | np.ndarray, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass."""
        return super().sample_latents(self._topics(position), self._with_counts(latents), key)

    def sample_given_others(self, position: Any, latents: TokenLatents | np.ndarray, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass, both without it."""
        return self._sample_tokens(self._topics(position), self._with_counts(latents), key, excludes_self=True)

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
        """The topics of the tokens of each row."""
        if not isinstance(latents, np.ndarray):
            topics = np.empty(self.n_tokens, np.uint16)
            self._run_over_blocks(_order_by_row, latents, topics)
            latents = topics
        yield RowLatents(self.first_row, self.token_start, latents)

    def unpack_latents(self, read: ReadRows) -> np.ndarray:
        """The topics of the tokens of these rows, from the stored values that `read` returns.

        Raises
        ------
        ValueError
            If they were written for other rows: documents of other lengths, or more topics.
        """
        _, indptr, topics = read(self.first_row, self.first_row + self.counts.n_rows)
        if np.any(np.diff(indptr) != np.diff(self.token_start)) or np.any(topics >= self.n_components):
            raise ValueError("the stored topics do not belong to these rows")
        return topics

    def _with_counts(self, latents: TokenLatents | np.ndarray) -> TokenLatents:
        """Latents of ESCA from the topics of the tokens."""
        if isinstance(latents, TokenLatents):
            return latents
        full = self._empty_latents()
        full.cell_topics[:] = 0
        self._run_over_blocks(_order_by_word, full, latents)
        self.workers.run(self._count_block, [(segments, rows, full) for segments, _, rows in self._blocks()])
        return full

    def _run_over_blocks(self, kernel: Callable, latents: TokenLatents, topics: np.ndarray) -> None:
        layout = self.layout
        of_layout = layout.segment_pairs, layout.segment_tokens, layout.segment_cells, layout.pair_row
        cells = layout.pair_count, layout.cell_count
        self.workers.run(
            kernel,
            [
                (segments, *of_layout, *cells, self.token_start[rows], *latents[:2], topics)
                for segments, _, rows in self._blocks()
            ],
        )


@njit(cache=True, nogil=True)
def _order_by_row(
    segments,
    segment_pairs,
    segment_tokens,
    segment_cells,
    pair_row,
    pair_count,
    cell_count,
    row_token,
    token_topics,
    cell_topics,
    out_topics,
):
    """Copy the topics of one block to the order of rows, then words; those of a large cell in the order of topics."""
    cursor = row_token.copy()
    token, cell = segment_tokens[segments[0]], segment_cells[segments[0]]
    for pair in range(segment_pairs[segments[0]], segment_pairs[segments[1]]):
        row = np.int64(pair_row[pair])
        place = cursor[row]
        if pair_count[pair] == 0:
            for topic in range(cell_topics.shape[1]):
                out_topics[place : place + cell_topics[cell, topic]] = topic
                place += cell_topics[cell, topic]
            cell += 1
        for _ in range(pair_count[pair]):
            out_topics[place] = token_topics[token]
            place += 1
            token += 1
        cursor[row] = place


@njit(cache=True, nogil=True)
def _order_by_word(
    segments,
    segment_pairs,
    segment_tokens,
    segment_cells,
    pair_row,
    pair_count,
    cell_count,
    row_token,
    out_token_topics,
    out_cell_topics,
    topics,
):
    """The inverse of ``_order_by_row``; the topic counts of large cells must be zero."""
    cursor = row_token.copy()
    token, cell = segment_tokens[segments[0]], segment_cells[segments[0]]
    for pair in range(segment_pairs[segments[0]], segment_pairs[segments[1]]):
        row = np.int64(pair_row[pair])
        place = cursor[row]
        if pair_count[pair] == 0:
            for _ in range(cell_count[cell]):
                out_cell_topics[cell, np.int64(topics[place])] += 1
                place += 1
            cell += 1
        for _ in range(pair_count[pair]):
            out_token_topics[token] = topics[place]
            place += 1
            token += 1
        cursor[row] = place
