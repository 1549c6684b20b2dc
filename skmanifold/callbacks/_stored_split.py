"""Rows that are held out of data on disk or in Dask collections."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import RowFiles
from ..datasets._documents import counts_of_documents
from ..datasets._rest_of_corpus import hold_out_documents
from ..inference._distributed_fits.sources import corpora_of, source_of
from ..utils._inputs.sparse_structure import join_rows
from ..utils._sklearn import n_rows, take_rows


def hold_out_stored(X: Any, choose: Callable[[int], np.ndarray]) -> tuple[Any, Any]:
    """X that is not in memory without some rows, and these in memory; ``choose(n_rows)`` has their sorted indices."""
    if isinstance(X, RowFiles):
        return X.hold_out(choose(len(X)))
    corpora = corpora_of(X)
    if corpora:
        return hold_out_documents(corpora, choose(sum(map(len, corpora))))
    return _hold_out_of_dask(X, choose)


def _hold_out_of_dask(X: Any, choose: Callable[[int], np.ndarray]) -> tuple[Any, Any]:
    """The same for Dask collections; the cluster computes their blocks to count rows, and again to take some."""
    source = source_of(X)
    delayed, blocks = sys.modules["dask"].delayed, source.blocks
    sizes, widths = zip(*source.computed([delayed(_measured)(block) for block in blocks]), strict=True)
    ends = np.cumsum([0, *sizes])
    held = choose(int(ends[-1]))
    of_blocks = [held[(held >= start) & (held < stop)] - start for start, stop in pairwise(ends)]
    pairs = [(block, rows) for block, rows in zip(blocks, of_blocks, strict=True) if len(rows)]
    taken = source.computed([delayed(take_rows)(block, rows) for block, rows in pairs])
    rest = [delayed(_drop)(block, rows) if len(rows) else block for block, rows in zip(blocks, of_blocks, strict=True)]
    lengths = [size - len(rows) for size, rows in zip(sizes, of_blocks, strict=True)]
    if source.is_ragged:
        width = int(np.delete(np.concatenate(widths), held).max())  # of the fit; documents may have other words
        counts = counts_of_documents(document for block in taken for document in block)
        held_rows = sp.csr_array(counts[2::-1], (len(held), max(width, counts.n_features)))
        return sys.modules["dask.bag"].from_delayed(rest), held_rows[:, :width]
    if hasattr(X, "columns"):
        import pandas as pd

        return sys.modules["dask.dataframe"].from_delayed(rest, meta=X._meta), pd.concat(taken)
    da = sys.modules["dask.array"]
    parts = [
        da.from_delayed(block, (length, X.shape[1]), dtype=X.dtype, meta=X._meta)
        for block, length in zip(rest, lengths, strict=True)
    ]
    return da.concatenate(parts), join_rows(taken)


def _measured(block: Any) -> tuple[int, Any]:
    """Number of rows, and of columns; for documents, that of each of them."""
    if isinstance(block, list):
        return len(block), np.array([counts_of_documents([document]).n_features for document in block])
    return block.shape


def _drop(block: Any, rows: np.ndarray) -> Any:
    return take_rows(block, np.setdiff1d(np.arange(n_rows(block)), rows))
