"""Rows of tokens on disk: passes of ESCA piece by piece, with memory independent of the size of the corpus."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from ...inference._distributed_fits.session import scratch_folder
from ...inference._distributed_fits.sources import CorpusRange, cut_rows
from ...inference._distributed_fits.stored_latents import RowLatents
from ...topics.topic_word import TopicWord
from ...utils._disk import clear_if_unwritable
from ...utils._threads import Workers
from .latent_storage import ReadRows, StorableTokens
from .model import TopicsOfPass
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

    A pass reads, sorts and draws one piece after the other. The topics of the tokens, which are needed between
    passes, are in temporary files: in the folder of Python's ``tempfile``, or in that of the cluster's worker.

    Parameters
    ----------
    rows : list of CorpusRange
        The documents.
    doc_topic_prior : ndarray of shape (n_components,)
        Dirichlet parameters of the documents' proportions.
    workers : Workers
        Who runs the kernels.
    first_row : int
        Index of the first document in the whole corpus; random streams depend on it.
    piece_tokens : int, optional
        Approximate number of tokens in memory; results do not depend on it.
    seeds : Seeds, optional
        As in `TokenModel`.
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
