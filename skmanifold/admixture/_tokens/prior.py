"""Draws from the prior of documents: topics, proportions, topics of tokens and words."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_scalar

from ...random._keys import Purpose, subkey
from ...topics.topic_word import topic_word_from_array
from ...utils._typing import ArrayLike
from .new_rows import draw_words, share_tokens


class DrawnDocuments(NamedTuple):
    """Documents, and the numbers of their tokens by topic."""

    X: sp.csr_array
    topic_counts: np.ndarray  # (n_rows, K) int64


def check_lengths(n_tokens: ArrayLike, n_samples: int) -> np.ndarray:
    """Numbers of tokens of the documents, (n_samples,) int64, from a parameter; a ValueError if they are not valid."""
    lengths = np.asarray(n_tokens)
    if lengths.dtype.kind not in "iu" or lengths.shape not in ((), (n_samples,)) or lengths.min(initial=0) < 0:
        raise ValueError(
            f"n_tokens must be a non-negative int or an array of {n_samples} of them, one for each document; got "
            f"{n_tokens!r}."
        )
    return np.full(n_samples, lengths, np.int64)


def check_sizes(n_samples: int, n_features: int) -> None:
    """Raise an error unless the numbers of documents and words are integers of at least 1."""
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        check_scalar(value, name, Integral, min_val=1)


def draw_documents(topics: np.ndarray, proportions: np.ndarray, lengths: np.ndarray, key: np.uint64) -> DrawnDocuments:
    """Draw the topics and words of tokens given topics, (K, V), proportions, (n, K), and numbers of tokens, (n,)."""
    totals = share_tokens(proportions, lengths, subkey(key, Purpose.LABELS))
    return DrawnDocuments(draw_words(topic_word_from_array(topics), totals, subkey(key, Purpose.ROWS)), totals)


def shares_of_topics(topic_counts: np.ndarray) -> np.ndarray:
    """Each topic's share of the tokens, (K,)."""
    totals = topic_counts.sum(axis=0)
    return totals / max(1, totals.sum())
