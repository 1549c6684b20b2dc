"""Sources of the rows of a fit, divided into parts for the workers of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...datasets import Corpus, RowFiles
from ...datasets._row_files import RowFile
from ...sparse.counts import Counts
from ...utils._inputs.sparse_structure import check_structure
from ...utils._threads import split_range


class CorpusRange(NamedTuple):
    """The documents `start` to `stop` of a corpus."""

    corpus: Corpus
    start: int
    stop: int


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
    """Consecutive corpora on disk."""

    is_ragged = False

    def __init__(self, corpora: list[Corpus]):
        check_same_width(corpus.shape[1] for corpus in corpora)
        if not any(corpus.n_tokens for corpus in corpora):
            raise ValueError("X has no tokens.")
        self.corpora = corpora

    def split(self, n_parts: int) -> list[list[CorpusRange]]:
        """Ranges of documents of about equal numbers of tokens."""
        ends = np.cumsum([len(corpus) for corpus in self.corpora])
        before = np.concatenate(([0], np.cumsum([corpus.n_tokens for corpus in self.corpora])))
        tokens = np.concatenate([[0], *(c.token_start[1:] + b for c, b in zip(self.corpora, before, strict=False))])
        parts = []
        for start, stop in cut_rows(tokens, n_parts):
            ranges = []
            for corpus, end in zip(self.corpora, ends.tolist(), strict=True):
                first = end - len(corpus)
                low, high = max(start, first), min(stop, end)
                if low < high:
                    ranges.append(CorpusRange(corpus, low - first, high - first))
            parts.append(ranges)
        return parts


class FilesSource:
    """Rows in files, which are read where they are needed."""

    is_ragged = False

    def __init__(self, rows: RowFiles):
        if not rows.files:
            raise ValueError("X has no rows.")
        self._files = rows.files

    def split(self, n_parts: int) -> list[list[RowFile]]:
        """Consecutive files, of about equal numbers of bytes."""
        ends = np.cumsum([file.n_bytes for file in self._files])
        cuts = cut_rows(np.concatenate(([0], ends)), n_parts)
        return [self._files[start:stop] for start, stop in cuts]


class DaskSource:
    """A Dask array or data frame of rows, or a Dask bag of documents, whose blocks are computed on the cluster.

    Parameters
    ----------
    client : distributed.Client
    X : dask.array.Array, dask.dataframe.DataFrame or dask.bag.Bag
    """

    def __init__(self, client: Any, X: Any):
        self.is_ragged = not hasattr(X, "shape")
        if not self.is_ragged and X.ndim != 2:
            raise ValueError(f"Expected 2D array, got a Dask array of {X.ndim} dimensions instead.")
        self._client = client
        if self.is_ragged:
            self._blocks = X.map_partitions(list).to_delayed()
        elif hasattr(X, "columns"):
            self._blocks = X.to_delayed()
        else:
            join = sys.modules["dask"].delayed(_side_by_side)
            self._blocks = [row[0] if len(row) == 1 else join(list(row)) for row in X.to_delayed()]

    def split(self, n_parts: int) -> list[list]:
        """Futures of consecutive blocks, computed again; the cluster releases them with these futures."""
        blocks = self._client.compute(list(self._blocks))
        return [blocks[start:stop] for start, stop in split_range(len(blocks), -(-len(blocks) // n_parts))]


def _side_by_side(blocks: list) -> Any:
    """Join blocks of columns of the same rows."""
    for block in blocks:
        check_structure(block)
    return sp.hstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.hstack(blocks)


def in_dask(X: Any) -> bool:
    """Whether X is a Dask array, data frame or bag. Does not import Dask: without an import X cannot be one."""
    return any(
        isinstance(X, getattr(sys.modules.get(module), kind, ()))
        for module, kind in (("dask.array", "Array"), ("dask.dataframe", "DataFrame"), ("dask.bag", "Bag"))
    )


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


def cut_rows(token_start: np.ndarray, n_parts: int) -> list[tuple[int, int]]:
    """At most `n_parts` ranges of rows, none empty, of about equal numbers of tokens."""
    first, n_rows = token_start[0], len(token_start) - 1
    wanted = first + np.arange(1, n_parts) * ((token_start[-1] - first) / n_parts)
    cuts = np.union1d(np.searchsorted(token_start, wanted), [0, n_rows]).tolist()
    return list(pairwise(cuts))
