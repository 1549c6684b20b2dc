"""Rows of tokens whose latents can be stored, and rows on disk, of which one piece after the other is in memory.

Latents are stored row by row, independent of the layout, and so for any division of the rows.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...inference._distributed_fits.session import scratch_folder
from ...inference._distributed_fits.sources import CorpusRange, cut_rows
from ...inference._distributed_fits.stored_latents import RowLatents
from ...numerics.row_hash import hash_counts
from ...topics.topic_word import TopicWord
from ...utils._disk import clear_if_unwritable
from ...utils._njit import njit
from ...utils._threads import Workers
from .compact_counts import TopicsOfPass
from .model import TokenLatents, TokenModel
from .seeds import NO_SEEDS, Seeds
from .topic_counts import TopicCounts, add_counts

_PIECE_TOKENS = 1 << 24  # number of tokens in memory, about sixteen bytes each, ...
_PIECE_TOKENS_PER_WORD = 32  # ... or more, because each piece takes time and memory for all words


class StoredLatents:
    """The latents of the pieces in a folder of files, which is removed with the object."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="skmanifold-", dir=scratch_folder()))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def write(self, part: RowLatents) -> None:
        """Store the latents of a piece, in place of the previous ones."""
        folder = self._folder
        with clear_if_unwritable("The topics of the documents", folder):
            np.save(folder / f"{part.first_row}-indptr.npy", part.indptr)
            np.save(folder / f"{part.first_row}-values.npy", part.values)

    def read(self, start: int, stop: int) -> RowLatents:
        """The latents of the piece whose first row is `start`."""
        folder = self._folder
        return RowLatents(start, np.load(folder / f"{start}-indptr.npy"), np.load(folder / f"{start}-values.npy"))


class StreamedTokens:
    """Documents of a corpus on disk; offers the updates of `LatentModel` except for the mode of the parameters.

    A pass reads, sorts and draws pieces of about `piece_tokens`, on which results do not depend. Topics of tokens are
    in temporary files between passes, in the folder of ``tempfile`` or that of the cluster's worker.
    """

    def __init__(
        self,
        rows: list[CorpusRange],
        doc_topic_prior: np.ndarray,
        workers: Workers,
        first_row: int = 0,
        piece_tokens: int | None = None,
        *,
        seeds: Seeds = NO_SEEDS,
    ):
        self.rows = rows
        self.doc_topic_prior = doc_topic_prior
        self.workers = workers
        self.first_row = first_row
        self.piece_tokens = piece_tokens
        self.seeds = seeds

    @cached_property
    def _pieces(self) -> list[tuple[int, CorpusRange]]:
        """Index of the first document in the whole corpus, and the range of documents in its corpus."""
        pieces, first_row = [], self.first_row
        for corpus, start, stop in self.rows:
            tokens = corpus.token_start[start : stop + 1]
            piece_tokens = self.piece_tokens or max(_PIECE_TOKENS, _PIECE_TOKENS_PER_WORD * corpus.shape[1])
            n_pieces = max(1, -(-int(tokens[-1] - tokens[0]) // piece_tokens))
            pieces += [
                (first_row + low, CorpusRange(corpus, start + low, start + high))
                for low, high in cut_rows(tokens, n_pieces)
            ]
            first_row += stop - start
        return pieces

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return sum(int(corpus.token_start[stop] - corpus.token_start[start]) for corpus, start, stop in self.rows)

    def _models(self) -> Iterator[StorableTokens]:
        """A model of each piece, created when it is needed."""
        for first_row, (corpus, start, stop) in self._pieces:
            counts = corpus.counts(start, stop)
            yield StorableTokens(counts, self.doc_topic_prior, self.workers, first_row=first_row, seeds=self.seeds)

    def init_latents(self, key: np.uint64) -> tuple[StoredLatents, TopicCounts]:
        """Every token's topic uniformly at random."""
        stored, total = StoredLatents(), None
        for model in self._models():
            latents, counts = model.init_latents(key)
            stored.write(next(model.pack_latents(latents)))
            total = counts if total is None else add_counts(total, counts)
        assert total is not None
        return stored, total

    def sample_latents(self, position: TopicWord | TopicsOfPass, latents: StoredLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass."""
        return self._sample("sample_latents", position, latents, key)

    def sample_given_others(self, position: TopicWord | TopicsOfPass, latents: StoredLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass, both without it."""
        return self._sample("sample_given_others", position, latents, key)

    def _sample(self, method: str, position: TopicWord | TopicsOfPass, latents: StoredLatents, key: np.uint64):
        total, log_likelihood = None, 0.0
        for model in self._models():
            held = model.unpack_latents(latents.read)
            drawn, counts, part = getattr(model, method)(position, held, key)
            latents.write(next(model.pack_latents(drawn)))
            total = counts if total is None else add_counts(total, counts)
            log_likelihood += part
        return latents, total, log_likelihood

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the documents and their positions, the same as in memory; it reads all pieces."""
        return sum(model.hash_rows(key) for model in self._models()) % 2**64

    def pack_latents(self, latents: StoredLatents) -> Iterator[RowLatents]:
        """The latents piece by piece."""
        for first_row, (_, start, stop) in self._pieces:
            yield latents.read(first_row, first_row + stop - start)

    def unpack_latents(self, read: ReadRows) -> StoredLatents:
        """New files with the latents that `read` returns."""
        stored = StoredLatents()
        for first_row, (_, start, stop) in self._pieces:
            stored.write(read(first_row, first_row + stop - start))
        return stored


ReadRows = Callable[[int, int], RowLatents]


class StorableTokens(TokenModel):
    """Rows of tokens whose latents can be written, and read for any division of the rows.

    Methods accept `TopicsOfPass` in place of topics, and stored topics of tokens in place of `TokenLatents`.
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
        """Topics of these rows' tokens, from what `read` returns; ValueError for other lengths or more topics."""
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
