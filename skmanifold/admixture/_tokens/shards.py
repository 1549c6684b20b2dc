"""Fits whose rows of tokens are on disk, of which one piece is read after the other, or on workers of a cluster."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_non_negative

from ...datasets._save_corpus import counts_of_documents
from ...emissions import BaseEmission
from ...inference._distributed_fits.dask_shards import open_shards
from ...inference._distributed_fits.exchange import RowLatents
from ...inference._distributed_fits.session import scratch_folder
from ...inference._distributed_fits.sources import (
    CorpusRange,
    CountsSource,
    FileRange,
    check_same_width,
    corpora_of,
    cut_rows,
    join_counts,
    reader,
    source_of,
    stacked,
)
from ...numerics.row_hash import hash_counts
from ...sparse.counts import (
    COUNT_TYPES,
    USE_COUNTS_OF_WORDS,
    Counts,
    canonical_csr,
    check_token_start,
    check_tokens,
    moved_by_rounding,
    warn_of_fractions,
    whole_counts,
)
from ...topics.topic_word import TopicWord
from ...utils._disk import clear_if_unwritable
from ...utils._njit import njit
from ...utils._threads import Workers
from ...utils._validation import check_array
from .._exponential_family.model import FamilyTokenModel, FamilyTokens
from .compact_counts import TopicsOfPass, cut_words, join_words, pack_travelling, unpack_travelling
from .esca_kernels import _count_rows
from .model import TokenLatents, TokenModel
from .topic_counts import TopicCounts, TopicPrior, add_counts

# Latents are stored row by row, independent of the layout, and so for any division of the rows.

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

    piece_tokens: int | None = None  # if not by default

    def __init__(
        self, rows: list[CorpusRange], make: Callable[..., StorableTokens], workers: Workers, first_row: int = 0
    ):
        self.rows = rows
        self.make = make
        self.workers = workers
        self.first_row = first_row

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
            yield self.make(corpus.counts(start, stop), workers=self.workers, first_row=first_row)

    def init_latents(self, key: np.uint64) -> tuple[StoredLatents, TopicCounts]:
        """Every token's topic uniformly at random."""
        stored = StoredLatents()
        return stored, self._pass(stored, lambda model: (*model.init_latents(key), 0.0))[0]

    def sample_latents(self, position: TopicWord | TopicsOfPass, latents: StoredLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass."""
        return self._sample(latents, lambda model, held: model.sample_latents(position, held, key))

    def sample_given_others(self, position: TopicWord | TopicsOfPass, latents: StoredLatents, key: np.uint64):
        """Every token's topic given the topics and the documents' counts of the previous pass, both without it."""
        return self._sample(latents, lambda model, held: model.sample_given_others(position, held, key))

    def _sample(self, latents: StoredLatents, draw: Callable) -> tuple[StoredLatents, TopicCounts, float]:
        return latents, *self._pass(latents, lambda model: draw(model, model.unpack_latents(latents.read)))

    def _pass(self, stored: StoredLatents, ask: Callable[[StorableTokens], tuple]) -> tuple[TopicCounts, float]:
        """Store the latents of each piece that `ask` returns with counts and a log likelihood; sums of the latter."""
        total, log_likelihood = None, 0.0
        for model in self._models():
            latents, counts, part = ask(model)
            stored.write(next(model.pack_latents(latents)))
            total = counts if total is None else add_counts(total, counts)
            log_likelihood += part
        assert total is not None
        return total, log_likelihood

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
        return hash_counts(*self.counts[:3], key, self.first_row)

    def pack_latents(self, latents: TokenLatents | np.ndarray) -> Iterator[RowLatents]:
        """The topics of the tokens of each row."""
        if not isinstance(latents, np.ndarray):
            topics = np.empty(self.n_tokens, np.uint16)
            self._run_on_blocks(_reorder, self.layout, latents, self.token_start, topics, True)
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
        self._run_on_blocks(_reorder, self.layout, full, self.token_start, latents, False)
        self._run_on_blocks(_count_rows, self.layout, full)
        return full


@njit(cache=True, nogil=True)
def _reorder(block, layout, latents, token_start, topics, by_row):
    """Copy the topics of one block from `latents` to `topics`, in the order of rows, then words (`by_row`), or back.

    In `topics`, those of a large cell are in the order of topics; on the way back, its topic counts must be zero.
    """
    segment_pairs, pair_row, pair_count = layout.segment_pairs, layout.pair_row, layout.pair_count
    token_topics, cell_topics = latents.token_topics, latents.cell_topics
    first, stop = layout.block_segments[block], layout.block_segments[block + 1]
    cursor = token_start[layout.block_rows[block] : layout.block_rows[block + 1]].copy()
    token, cell = layout.segment_tokens[first], layout.segment_cells[first]
    for pair in range(segment_pairs[first], segment_pairs[stop]):
        row = np.int64(pair_row[pair])
        place = cursor[row]
        if pair_count[pair] == 0:
            if by_row:
                for topic in range(cell_topics.shape[1]):
                    topics[place : place + cell_topics[cell, topic]] = topic
                    place += cell_topics[cell, topic]
            else:
                for _ in range(layout.cell_count[cell]):
                    cell_topics[cell, np.int64(topics[place])] += 1
                    place += 1
            cell += 1
        for _ in range(pair_count[pair]):
            if by_row:
                topics[place] = token_topics[token]
            else:
                token_topics[token] = topics[place]
            place += 1
            token += 1
        cursor[row] = place


NO_TOKENS = "X has no tokens: all counts are zero, or fractions that were rounded to zero."


class TokenShards:
    """A `ShardBuilder` of rows of counts.

    The function `make` returns the model of `Counts` with some `workers` and a `first_row`. `rounding_key` is for
    fractional counts, `whom` for messages, and `streams` is whether corpora stay on disk.
    """

    def __init__(self, make: Callable[..., StorableTokens], rounding_key: np.uint64, whom: str, streams: bool = True):
        self.make = make
        self.rounding_key = rounding_key
        self.whom = whom
        self.streams = streams

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """Counts in memory, matrices, files, documents or ranges of corpora; matrices are copied."""
        if isinstance(blocks[0], CorpusRange):
            return blocks, sum(stop - start for _, start, stop in blocks), blocks[0].corpus.shape[1]
        if isinstance(blocks[0], Counts):
            indptr, indices, values = (np.require(array, requirements="W") for array in blocks[0][:3])
            counts = Counts(indptr, indices, values, blocks[0].n_features)  # received arrays are read-only
            return counts, counts.n_rows, counts.n_features
        if isinstance(blocks[0], list | tuple):
            counts = counts_of_documents(document for block in blocks for document in block)
            return counts, counts.n_rows, counts.n_features
        settings = {"accept_sparse": "csr", "dtype": COUNT_TYPES, "ensure_min_samples": 0, "input_name": "X"}
        read = (block.read() if isinstance(block, FileRange) else block for block in blocks)
        parts = [sp.csr_array(check_array(block, **settings)) for block in read]
        check_same_width(part.shape[1] for part in parts)
        csr = sp.csr_array(sp.vstack(parts, format="csr"))
        check_non_negative(csr, self.whom)
        csr = canonical_csr(csr)
        return csr, *csr.shape

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> StorableTokens | StreamedTokens:
        """A model of rows on disk, which are streamed, or of rows in memory."""
        if isinstance(rows, list) and self.streams:
            before = first_row
            for corpus, start, stop in rows:  # only pieces are in memory, so only single rows can be too long
                check_token_start(corpus.token_start[start : stop + 1], most=corpus.n_tokens, first_row=before)
                before += stop - start
            return StreamedTokens(rows, self.make, workers, first_row)
        counts, moved = self.whole(rows, first_row, n_features)
        model = self.make(counts, workers=workers, first_row=first_row)
        model.moved_by_rounding = moved
        return model

    def whole(self, rows: Any, first_row: int, n_features: int) -> tuple[Counts, float]:
        """Rows as whole counts in memory, and how much rounding has moved."""
        if type(rows) is tuple:  # as `summarize` has kept them
            return rows
        moved = 0.0
        if isinstance(rows, list):
            rows = join_counts([corpus.counts(start, stop) for corpus, start, stop in rows])
        if not isinstance(rows, Counts):
            moved = moved_by_rounding(rows)
            rows = whole_counts(rows, self.rounding_key, first_row=first_row)
        rows = rows._replace(n_features=n_features)
        check_tokens(rows, first_row=first_row)
        return rows, moved

    # Statistics are merged in the order of the rows, and divided by words; counts are sent in three bytes each.
    merge = staticmethod(add_counts)
    cut, join = staticmethod(cut_words), staticmethod(join_words)
    pack, unpack = staticmethod(pack_travelling), staticmethod(unpack_travelling)


class RowSummary(NamedTuple):
    """What the distribution of the tokens depends on."""

    column_sums: np.ndarray  # (n_tokens,) int64
    row_sums: np.ndarray  # (n_rows,) int64

    def as_one_row(self) -> Counts:
        """The sums of the columns as counts of one row."""
        columns = np.flatnonzero(self.column_sums)
        indptr = np.array([0, len(columns)])
        return Counts(indptr, columns.astype(np.int32), self.column_sums[columns], len(self.column_sums))


class SummedTokenShards(TokenShards):
    """A `SummarizingShardBuilder`: the distribution of the tokens depends on the sums of rows and columns.

    Parameters
    ----------
    tokens_of : callable
        Function of a `RowSummary` of all rows that returns the distribution of the tokens; called by the client.
    doc_topic_prior : ndarray of shape (n_components,)
    rounding_key : uint64
    whom : str
    emission : BaseEmission or None
        What reads rows of files, corpora or blocks as tokens; None reads counts.
    """

    def __init__(
        self,
        tokens_of: Callable[[RowSummary], TopicPrior | FamilyTokens],
        doc_topic_prior: np.ndarray,
        rounding_key: np.uint64,
        whom: str,
        emission: BaseEmission | None,
    ):
        super().__init__(partial(StorableTokens, doc_topic_prior=doc_topic_prior), rounding_key, whom)
        self._tokens_of = tokens_of
        self._prior = doc_topic_prior
        self.emission = emission

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_tokens_of": None}

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """Counts, as in `TokenShards`, or rows for the emission, not validated."""
        if self.emission is None:
            return super().read(blocks)
        rows = stacked(blocks)
        return rows, *rows.shape

    def whole(self, rows: Any, first_row: int, n_features: int) -> tuple[Counts, float]:
        """Tokens in memory, and how much rounding has moved; a ValueError if the emission leaves fractions."""
        if self.emission is None:
            return super().whole(rows, first_row, n_features)
        counts = self.emission.read_tokens(reader(self.whom, {"n_features_in_": n_features}), rows, None, reset=False)
        if counts.counts.dtype.kind == "f":
            raise ValueError(f"Cells that are probabilities need X in memory in a fit of {self.whom}.")
        check_tokens(counts, first_row=first_row)
        return counts, 0.0

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Any, RowSummary]:
        """The tokens of the rows with what rounding has moved, and their sums."""
        counts, moved = self.whole(rows, first_row, n_features)
        column_sums = np.zeros(counts.n_features, np.int64)
        np.add.at(column_sums, counts.indices, counts.counts)
        return (counts, moved), RowSummary(column_sums, counts.row_sums())

    def builder_of(self, summaries: list[RowSummary]) -> TokenShards:
        """The builder of models of these rows; a ValueError if there are no tokens."""
        column_sums, row_sums = zip(*summaries, strict=True)
        summary = RowSummary(np.sum(column_sums, axis=0), np.concatenate(row_sums))
        if not summary.row_sums.any():
            raise ValueError(NO_TOKENS)
        tokens, make = self._tokens_of(summary), self.make
        if isinstance(tokens, FamilyTokens):
            make = partial(_StorableFamilyTokens, doc_topic_prior=self._prior, family=tokens.family)
        return TokenShards(make, self.rounding_key, self.whom)


class _StorableFamilyTokens(StorableTokens, FamilyTokenModel):
    """Model of the rows of a shard."""


def open_token_shards(X: Any, counts: Counts | None, builder: TokenShards, workers: Workers) -> Any:
    """The rows of a fit in shards, with `counts` if X is in memory; raises an error if there are no tokens."""
    shards = open_shards(builder, CountsSource(counts) if counts is not None else source_of(X), workers)
    if not shards.total("n_tokens"):
        raise ValueError(NO_TOKENS)
    if counts is None and not corpora_of(X):
        warn_of_fractions(
            shards.total("moved_by_rounding"), shards.total("n_tokens"), USE_COUNTS_OF_WORDS, stacklevel=7
        )
    return shards
