"""Integer counts of documents on disk, in blocks with a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ..datasets import Corpus
from ..sparse.counts import Counts, check_token_start
from ..utils._typing import MatrixLike

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
