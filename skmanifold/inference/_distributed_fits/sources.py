"""Sources of the rows of a fit, divided into parts for the workers of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ...datasets import Corpus, RowFiles
from ...datasets._row_files import RowFile
from ...sparse.counts import Counts, check_token_start
from ...utils._inputs.sparse_structure import check_structure, join_rows
from ...utils._inputs.tables import is_of, readable
from ...utils._threads import split_range
from ...utils._typing import MatrixLike
from .session import active_session

Stored: TypeAlias = MatrixLike | Corpus | Sequence[Corpus]  # documents in memory or on disk
_TOKENS_AT_ONCE = 1 << 20  # a longer document is a block by itself


def count_blocks(corpora: list[Corpus], n_features: int) -> Iterator[Counts]:
    """Yield consecutive documents of corpora, one after the other, as `Counts`.

    ValueError if there are no documents, one is too long, or the number of columns is not `n_features`.
    """
    _check(corpora, n_features)
    for corpus in corpora:
        for start, stop in corpus.pieces(_TOKENS_AT_ONCE):
            yield corpus.counts(start, stop)


def read_corpora(corpora: list[Corpus], n_features: int) -> Counts:
    """All documents in memory at once: a minibatch."""
    _check(corpora, n_features)
    return join_counts([corpus.counts(0, len(corpus)) for corpus in corpora])


def _check(corpora: list[Corpus], n_features: int) -> None:
    """Raise a ValueError unless there are documents of `n_features` columns, none too long."""
    if not any(len(corpus) for corpus in corpora):
        raise ValueError("X is an empty corpus, but at least one document is needed.")
    first_row = 0
    for corpus in corpora:
        if corpus.shape[1] != n_features:
            raise ValueError(f"X is a corpus of {corpus.shape[1]} columns, but {n_features} are expected.")
        check_token_start(corpus.token_start, most=corpus.n_tokens, first_row=first_row)
        first_row += len(corpus)


def join_counts(parts: list[Counts]) -> Counts:
    """The rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indices, counts = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return Counts(np.concatenate(([0], np.cumsum(lengths))), indices, counts, parts[0].n_features)


class CorpusRange(NamedTuple):
    """The documents `start` to `stop` of a corpus."""

    corpus: Corpus
    start: int
    stop: int

    def read(self) -> sp.csr_array:
        """The documents as a matrix in memory."""
        return self.corpus.rows(self.start, self.stop)


@dataclass(frozen=True)  # a tuple would be a document of a bag
class FileRange:
    """The rows `start` to `stop` of a file."""

    file: RowFile
    start: int
    stop: int

    def read(self) -> Any:
        """The rows: an array or a CSR array."""
        return self.file.read(slice(self.start, self.stop))


class CountsSource:
    """Counts in memory, in parts of about equal numbers of tokens."""

    is_ragged = False

    def __init__(self, counts: Counts):
        self.counts = counts

    def split(self, n_parts: int) -> list[list[Counts]]:
        """One block per part."""
        cuts = cut_rows(self.counts.token_start(), n_parts)
        return [[self.counts.part(start, stop)] for start, stop in cuts]


class CorpusSource:
    """Consecutive corpora on disk, cut at multiples of `block_rows` documents."""

    is_ragged = False

    def __init__(self, corpora: list[Corpus], block_rows: int = 1):
        check_same_width(corpus.shape[1] for corpus in corpora)
        if not any(corpus.n_tokens for corpus in corpora):
            raise ValueError("X has no tokens.")
        self.corpora = corpora
        self.block_rows = block_rows

    def split(self, n_parts: int) -> list[list[CorpusRange]]:
        """Ranges of documents of about equal numbers of tokens."""
        before = np.concatenate(([0], np.cumsum([corpus.n_tokens for corpus in self.corpora])))
        tokens = np.concatenate([[0], *(c.token_start[1:] + b for c, b in zip(self.corpora, before, strict=False))])
        cuts = cut_rows(tokens, n_parts, self.block_rows)
        ends = np.cumsum([len(corpus) for corpus in self.corpora])
        return [[CorpusRange(self.corpora[i], *of) for i, *of in _ranges(ends, *cut)] for cut in cuts]


class FilesSource:
    """Rows in files, which are read where they are needed, cut at multiples of `block_rows` rows."""

    is_ragged = False

    def __init__(self, rows: RowFiles, block_rows: int = 1):
        if not rows.files:
            raise ValueError("X has no rows.")
        self._files = rows.files
        self._block_rows = block_rows

    def split(self, n_parts: int) -> list[list[FileRange]]:
        """Ranges of rows of about equal numbers of bytes, if those of one file have equally many."""
        bytes_before = np.cumsum([0, *(file.n_bytes for file in self._files)])
        rows_before = np.cumsum([0, *(file.n_rows for file in self._files)])
        wanted = np.arange(1, n_parts) * (bytes_before[-1] / n_parts)
        cuts = _cut_at(np.interp(wanted, bytes_before, rows_before), rows_before[-1], self._block_rows)
        return [[FileRange(self._files[i], *of) for i, *of in _ranges(rows_before[1:], *cut)] for cut in cuts]


def _ranges(ends: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The ranges that make up the rows `start` to `stop` of consecutive parts with these ends."""
    first = 0
    for part, end in enumerate(ends.tolist()):
        low, high = max(start, first), min(stop, end)
        if low < high:
            yield part, low - first, high - first
        first = end


class DaskSource:
    """A Dask array, data frame or bag of documents, whose blocks are computed on the cluster.

    Each block but the last has a multiple of `block_rows` rows; if not 1, the cluster first counts rows of unknown
    blocks.
    """

    def __init__(self, client: Any, X: Any, block_rows: int = 1):
        self.is_ragged = not hasattr(X, "shape")
        if not self.is_ragged and X.ndim != 2:
            raise ValueError(f"Expected 2D array, got a Dask array of {X.ndim} dimensions instead.")
        self._client = client
        self._X = X
        self._block_rows = block_rows

    @cached_property
    def blocks(self) -> list:
        """The blocks of rows, delayed."""
        X = self._X if self._block_rows == 1 else self._in_blocks(self._X)
        if self.is_ragged:
            return X.map_partitions(list).to_delayed()
        if hasattr(X, "columns"):
            return X.to_delayed()
        join = sys.modules["dask"].delayed(_side_by_side)
        return [row[0] if len(row) == 1 else join(list(row)) for row in X.to_delayed()]

    def computed(self, delayed: list) -> list:
        """The values of delayed objects."""
        return self._client.gather(self._client.compute(delayed))

    def _in_blocks(self, X: Any) -> Any:
        """X as an array in other blocks."""
        with self._client.as_current():
            if hasattr(X, "columns"):
                X = X.to_dask_array(lengths=True)
            elif np.isnan(X.shape[0]):
                X = copy(X).compute_chunk_sizes()
        most = max(1, *X.chunks[0])
        return X.rechunk({0: -(-most // self._block_rows) * self._block_rows})

    def split(self, n_parts: int) -> list[list]:
        """Futures of consecutive blocks, computed again; the cluster releases them with these futures."""
        blocks = self._client.compute(list(self.blocks))
        return [blocks[start:stop] for start, stop in split_range(len(blocks), -(-len(blocks) // n_parts))]


def stacked(blocks: list) -> Any:
    """The rows of files, corpora or blocks of one shard as an array or CSR matrix, which is not validated."""
    parts = [block.read() if isinstance(block, CorpusRange | FileRange) else block for block in blocks]
    for part in parts:
        check_structure(part)
    check_same_width(part.shape[1] for part in parts)
    rows = parts[0] if len(parts) == 1 else join_rows(parts)
    is_read_only = sp.issparse(rows) and not rows.data.flags.writeable  # as received, for which there are no kernels
    return rows.copy() if is_read_only else rows


def _side_by_side(blocks: list) -> Any:
    """Join blocks of columns of the same rows."""
    for block in blocks:
        check_structure(block)
    return sp.hstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.hstack(blocks)


def in_dask(X: Any) -> bool:
    """Whether X is a Dask array, data frame or bag. Does not import Dask: without an import X cannot be one."""
    return is_of(X, "dask.array", "Array") or is_of(X, "dask.dataframe", "DataFrame") or is_of(X, "dask.bag", "Bag")


def n_columns(X: Any) -> int:
    """The number of columns of X, which is not in memory; a ValueError if a Dask array does not know it."""
    found = (corpora_of(X) or [X])[0].shape[1]
    if found != found:
        raise ValueError("X is a Dask array with an unknown number of columns: call X.compute_chunk_sizes().")
    return int(found)


def column_names(X: Any) -> np.ndarray | None:
    """The names of the columns of files or of a Dask data frame, if all are strings."""
    names = X.feature_names if isinstance(X, RowFiles) else getattr(X, "columns", None) if in_dask(X) else None
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.array(names, dtype=object)


def corpora_of(X: Any) -> list[Corpus]:
    """The corpora of X, if it is a corpus or a list of corpora."""
    if isinstance(X, Corpus):
        return [X]
    return list(X) if isinstance(X, list | tuple) and X and all(isinstance(part, Corpus) for part in X) else []


def check_same_width(widths: Iterable[int]) -> None:
    """Raise a ValueError unless all parts have the same number of columns."""
    different = sorted(set(widths))
    if len(different) > 1:
        raise ValueError(f"All parts of X must have the same number of columns; there are parts of {different}.")


def cut_rows(token_start: np.ndarray, n_parts: int, block_rows: int = 1) -> list[tuple[int, int]]:
    """At most `n_parts` ranges of rows, none empty, of about equal numbers of tokens, cut after whole blocks."""
    first, n_rows = token_start[0], len(token_start) - 1
    wanted = first + np.arange(1, n_parts) * ((token_start[-1] - first) / n_parts)
    return _cut_at(np.searchsorted(token_start, wanted), n_rows, block_rows)


def _cut_at(rows: np.ndarray, n_rows: int, block_rows: int) -> list[tuple[int, int]]:
    """Ranges of `n_rows` rows, cut near these rows at multiples of `block_rows`; none is empty."""
    blocks = np.rint(rows / block_rows).astype(np.int64)
    return list(pairwise(np.union1d(np.minimum(blocks * block_rows, n_rows), [0, n_rows]).tolist()))


def reader(name: str, stored: dict[str, Any]) -> BaseEstimator:
    """A stand-in for the fitted estimator with this name, for validation on a worker, with what it has stored."""
    found = type(name, (BaseEstimator,), {})()
    vars(found).update(stored)
    return found


def is_elsewhere(X: Any) -> bool:
    """Whether a fit to X reads it in parts: X is on disk, or in Dask and the session has a cluster."""
    session = active_session()
    has_cluster = session is not None and session.client is not None
    return bool(corpora_of(X)) or isinstance(X, RowFiles) or (has_cluster and in_dask(X))


def loaded(X: Any) -> Any:
    """X, in memory if it is a Dask array that no cluster reads; other Dask collections raise a TypeError."""
    return readable(X) if in_dask(X) and not is_elsewhere(X) else X


def source_of(X: Any, block_rows: int = 1) -> Any:
    """The source of rows that are not in this process."""
    session: Any = active_session()
    if isinstance(X, RowFiles):
        return FilesSource(X, block_rows)
    corpora = corpora_of(X)
    return CorpusSource(corpora, block_rows) if corpora else DaskSource(session.client, X, block_rows)


def remember_columns(estimator: Any, X: Any, n_features: int) -> None:
    """Store the number of columns of rows that are not in this process, and their names, if they have names."""
    estimator.__dict__.pop("feature_names_in_", None)
    estimator.n_features_in_ = n_features
    names = column_names(X)
    if names is not None:
        estimator.feature_names_in_ = names
