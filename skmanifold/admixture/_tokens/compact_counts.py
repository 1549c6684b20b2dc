"""Counts of topics in three bytes each, exact or rounded, for storage and communication but not for arithmetic.

Nearly all counts of a word in a topic are small. `pack` stores those below 255 in a byte and the others in a separate
list, in order, without loss. `round_counts` stores all of them in a byte; those above its precision are rounded at
random. Both have two bytes for the topic; so exact counts take as much memory as approximate ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics.csuros import largest_precision, register_values, round_to_register
from ...random._keys import fold_in
from ...utils._njit import njit
from .topic_counts import TopicCounts

_ESCAPE = np.int64(255)


class PackedCounts(NamedTuple):
    """`TopicCounts` of whole numbers, without loss: arrays that can be sent one by one."""

    n_topics: np.ndarray  # (V,) uint16: lengths of the words' lists
    topics: np.ndarray  # (nnz,) uint16
    codes: np.ndarray  # (nnz,) uint8: the count, or 255 for the next of the ...
    large: np.ndarray  # ... larger counts, of the type of the counts
    totals: np.ndarray  # (K,) int64


class RoundedCounts(NamedTuple):
    """`TopicCounts` in Csuros counters; the totals are those of the exact counts."""

    n_topics: np.ndarray  # (V,) uint16: lengths of the words' lists
    topics: np.ndarray  # (nnz,) uint16
    registers: np.ndarray  # (nnz,) uint8
    totals: np.ndarray  # (K,) int64
    precision: int  # of the counters


def pack(counts: TopicCounts) -> PackedCounts:
    """The same counts in about three bytes per count; shares `topics` and `totals`.

    Raises
    ------
    ValueError
        If the counts are not of an integer type.
    """
    _check_whole(counts)
    codes = np.empty(len(counts.counts), np.uint8)
    large = np.empty(_count_large(counts.counts) + 1, counts.counts.dtype)
    _pack(counts.counts, codes, large)
    return PackedCounts(_lengths(counts), counts.topics, codes, large[:-1], counts.totals)


def unpack(packed: PackedCounts) -> TopicCounts:
    """The exact inverse of `pack`; shares `topics` and `totals`."""
    counts = np.empty(len(packed.codes), packed.large.dtype)
    _unpack(packed.codes, packed.large, counts)
    return TopicCounts(_starts(packed.n_topics), packed.topics, counts, packed.totals)


def round_counts(counts: TopicCounts, key: np.uint64) -> RoundedCounts:
    """Counts rounded to eight bits without bias, at the highest precision that can represent the most common word.

    A draw depends on (key, word, topic), so the result does not depend on the order of the lists or on the process.
    Sums of rounded counts would be noisy, so the exact totals are kept.

    Raises
    ------
    ValueError
        If the counts are not of an integer type, or a word is too common for any precision.
    """
    _check_whole(counts)
    precision = largest_precision(_most_tokens(counts.indptr, counts.counts))
    registers = np.empty(len(counts.counts), np.uint8)
    _round(counts.indptr, counts.topics, counts.counts, precision, key, registers)
    return RoundedCounts(_lengths(counts), counts.topics, registers, counts.totals, precision)


def read_rounded(rounded: RoundedCounts) -> TopicCounts:
    """The counts that the counters represent, in 32 bits if possible."""
    values = register_values(rounded.precision)
    largest = values[rounded.registers.max(initial=0)]
    kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
    counts = values.astype(kind)[rounded.registers]
    return TopicCounts(_starts(rounded.n_topics), rounded.topics, counts, rounded.totals)


def _check_whole(counts: TopicCounts) -> None:
    if not np.issubdtype(counts.counts.dtype, np.integer):
        raise ValueError(f"Only whole counts can be stored in eight bits; these have the type {counts.counts.dtype}.")


def _lengths(counts: TopicCounts) -> np.ndarray:
    return np.diff(counts.indptr).astype(np.uint16)  # at most 65535 topics, each at most once


def _starts(n_topics: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(n_topics, dtype=np.int64)))


@njit(cache=True)
def _is_large(count):
    return (count < 0) | (count >= _ESCAPE)


@njit(cache=True, nogil=True)
def _count_large(counts):
    n_large = 0
    for j in range(len(counts)):
        n_large += _is_large(counts[j])
    return n_large


@njit(cache=True, nogil=True)
def _pack(counts, codes, large):
    """Write small and large counts; `large` has one extra place."""
    end = 0
    for j in range(len(counts)):
        is_large = _is_large(counts[j])
        codes[j] = _ESCAPE if is_large else np.int64(counts[j])
        large[end] = counts[j]  # overwritten unless large
        end += is_large


@njit(cache=True, nogil=True)
def _unpack(codes, large, counts):
    place = 0
    for j in range(len(codes)):
        if codes[j] == _ESCAPE:
            counts[j] = large[place]
            place += 1
        else:
            counts[j] = codes[j]


@njit(cache=True, nogil=True)
def _most_tokens(indptr, counts):
    most = np.int64(0)
    for word in range(len(indptr) - 1):
        tokens = np.int64(0)
        for j in range(indptr[word], indptr[word + 1]):
            tokens += counts[j]
        most = max(most, tokens)
    return most


@njit(cache=True, nogil=True)
def _round(indptr, topics, counts, precision, key, out):
    for word in range(len(indptr) - 1):
        stream = fold_in(key, word)
        for j in range(indptr[word], indptr[word + 1]):
            out[j] = round_to_register(counts[j], precision, stream, topics[j])
