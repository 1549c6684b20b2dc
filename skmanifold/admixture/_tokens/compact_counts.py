"""Counts of topics for storage and communication but not for arithmetic: in three bytes each, or in parts by words.

Nearly all counts of a word in a topic are small. `pack` stores those below 255 in a byte and the others in a separate
list, in order, without loss. `round_counts` stores all of them in a byte; those above its precision are rounded at
random. Both have two bytes for the topic; so exact counts take as much memory as approximate ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...random._keys import fold_in, random_bits
from ...sparse.counts import whole_sums_of_rows
from ...topics.topic_word import TopicWord
from ...utils._njit import njit
from .topic_counts import TopicCounts, _weigh

# A register X = 2^d t + u with 0 <= u < 2^d represents the number (2^d + u) 2^t - 2^d: a significand of d bits and an
# exponent (M. Csuros, "Approximate counting with a floating-point counter", COCOON 2010). Numbers up to 2^d are exact.
# A larger *precision* d reduces the error but also the range of a byte. The relative standard deviation of a number
# that is incremented in steps of one approaches sqrt(3 / (8 2^d)). If the whole number is known, it is rounded once, to
# one of the two neighbouring register values; the error is then that of one rounding.

_PRECISIONS = range(8, 2, -1)  # with 2 or less, the largest register value would exceed 64 bits


@njit(cache=True)
def round_to_register(count, precision, key, counter):
    """Round an integer `count` at random to one of the two neighbouring register values, without bias.

    The random draw is a function of (key, counter).
    """
    base = np.int64(1) << precision
    scaled = np.int64(count) + base
    exponent = np.int64(0)
    while scaled >> exponent >= 2 * base:
        exponent += 1
    register = exponent * base + (scaled >> exponent) - base
    below = (np.int64(1) << exponent) - 1
    draw = np.int64(random_bits(key, counter) & np.uint64(below))
    return register + (1 if draw < scaled & below else 0)


def largest_precision(largest: int) -> int:
    """The highest precision with which eight bits represent numbers up to `largest`; ValueError above 3.2e10."""
    for precision in _PRECISIONS:
        if register_values(precision)[-1] >= largest:
            return precision
    raise ValueError(f"A counter of eight bits cannot represent {largest}.")


def register_values(precision: int) -> np.ndarray:
    """The numbers that all registers of eight bits represent, (256,) int64."""
    registers, base = np.arange(256), 1 << precision
    return ((base + (registers & (base - 1))) << (registers >> precision)) - base


_ESCAPE = 255


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
    """Integer counts (else a ValueError) in about three bytes per count; shares `topics` and `totals`."""
    _check_whole(counts)
    values = counts.counts
    codes = np.minimum(values.view(f"u{values.itemsize}"), _ESCAPE).astype(np.uint8)  # negative ones are large
    return PackedCounts(_lengths(counts), counts.topics, codes, values[codes == _ESCAPE], counts.totals)


def unpack(packed: PackedCounts) -> TopicCounts:
    """The exact inverse of `pack`; shares `topics` and `totals`."""
    counts = packed.codes.astype(packed.large.dtype)
    counts[packed.codes == _ESCAPE] = packed.large
    return TopicCounts(_starts(packed.n_topics), packed.topics, counts, packed.totals)


def round_counts(counts: TopicCounts, key: np.uint64) -> RoundedCounts:
    """Integer counts rounded to eight bits without bias, at the highest precision for the most common word.

    A draw depends on (key, word, topic), not on the order of lists or the process. Sums of rounded counts would be
    noisy, so exact totals are kept. ValueError for other types, or a word too common for any precision.
    """
    _check_whole(counts)
    precision = largest_precision(whole_sums_of_rows(counts.indptr, counts.counts).max(initial=0))
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


@njit(cache=True, nogil=True)
def _round(indptr, topics, counts, precision, key, out):
    for word in range(len(indptr) - 1):
        stream = fold_in(key, word)
        for j in range(indptr[word], indptr[word + 1]):
            out[j] = round_to_register(counts[j], precision, stream, topics[j])


class TopicsOfPass(NamedTuple):
    """What a pass needs that is not of the rows: topics, and the prior of the proportions, which burn-in may change."""

    topics: Any
    doc_topic_prior: np.ndarray


class PackedTopics(NamedTuple):
    """A `TopicWord`, represented by the counts from which it was computed."""

    counts: PackedCounts  # without totals
    base: np.ndarray  # (V,) float64
    inverse: np.ndarray  # (K,) float64


def pack_travelling(value: Any) -> Any:
    """Pack whole counts, and topics made of whole counts; other objects are returned unchanged."""
    if isinstance(value, TopicsOfPass):
        return value._replace(topics=pack_travelling(value.topics))
    if isinstance(value, TopicCounts) and np.issubdtype(value.counts.dtype, np.integer):
        return pack(value)
    return _pack_topics(value) if isinstance(value, TopicWord) else value


def unpack_travelling(value: Any) -> Any:
    """The exact inverse of `pack_travelling`."""
    if isinstance(value, TopicsOfPass):
        return value._replace(topics=unpack_travelling(value.topics))
    if isinstance(value, PackedTopics):
        indptr, topics, counts, _ = unpack(value.counts)
        return TopicWord(indptr, topics, _weigh(topics, counts, value.inverse), value.base, value.inverse)
    return unpack(value) if isinstance(value, PackedCounts) else value


def _pack_topics(topics: TopicWord) -> PackedTopics | TopicWord:
    """Topics by their counts, if these determine all weights exactly; a prior with seed words may prevent it."""
    counts = np.empty(len(topics.weights), np.int32)
    if not _find_counts(topics.topics, topics.weights, topics.inverse, 1.0 / topics.inverse, counts):
        return topics
    whole = TopicCounts(topics.indptr, topics.topics, counts, np.empty(0, np.int64))
    return PackedTopics(pack(whole), topics.base, topics.inverse)


@njit(cache=True, nogil=True)
def _find_counts(topics, weights, inverse, totals, out):
    """Whether every weight is that of a whole count; the counts are written to `out`."""
    is_whole = True  # without an early exit, so that the loop can be vectorized
    for j in range(len(weights)):
        topic = np.uint64(topics[j])
        count = np.rint(weights[j] * totals[topic])
        is_whole &= (count >= 0.0) & (count < 2147483648.0) & (np.float32(count * inverse[topic]) == weights[j])
        out[j] = np.int32(count)
    return is_whole


def cut_words(counts: TopicCounts, n: int) -> list[TopicCounts]:
    """Part i has the words i, i + n, i + 2 n and so on: about the same number of counts in each part."""
    n = max(1, min(n, len(counts.indptr) - 1))
    return [_take_words(counts, first, n) for first in range(n)] if n > 1 else [counts]


def join_words(parts: list[TopicCounts]) -> TopicCounts:
    """The inverse of `cut_words`."""
    if len(parts) == 1:
        return parts[0]
    totals = np.sum([part.totals for part in parts], axis=0)
    n_topics = np.zeros(sum(len(part.indptr) - 1 for part in parts) + 1, np.int64)
    for first, part in enumerate(parts):
        n_topics[1 + first :: len(parts)] = np.diff(part.indptr)
    indptr = np.cumsum(n_topics)
    topics = np.empty(indptr[-1], np.uint16)
    kind = np.result_type(*(part.counts.dtype for part in parts))
    if kind == np.int32 and totals.sum() > np.iinfo(np.int32).max:  # as `add_counts` does
        kind = np.dtype(np.int64)
    counts = np.empty(indptr[-1], kind)
    for first, part in enumerate(parts):
        _put(part.indptr, part.topics, part.counts, first, len(parts), indptr, topics, counts)
    return TopicCounts(indptr, topics, counts, totals)


def _take_words(counts: TopicCounts, first: int, step: int) -> TopicCounts:
    n_topics = np.diff(counts.indptr)[first::step]
    indptr = np.concatenate(([0], np.cumsum(n_topics)))
    topics = np.empty(indptr[-1], np.uint16)
    taken = np.empty(indptr[-1], counts.counts.dtype)
    totals = np.zeros_like(counts.totals)
    _take(counts.indptr, counts.topics, counts.counts, first, step, indptr, topics, taken, totals)
    return TopicCounts(indptr, topics, taken, totals)


@njit(cache=True, nogil=True)
def _take(indptr, topics, counts, first, step, out_indptr, out_topics, out_counts, out_totals):
    for i in range(len(out_indptr) - 1):
        begin, end = indptr[first + i * step], indptr[first + i * step + 1]
        out = out_indptr[i]
        for j in range(end - begin):
            out_topics[out + j] = topics[begin + j]
            out_counts[out + j] = counts[begin + j]
            out_totals[np.uint64(topics[begin + j])] += counts[begin + j]


@njit(cache=True, nogil=True)
def _put(indptr, topics, counts, first, step, out_indptr, out_topics, out_counts):
    for i in range(len(indptr) - 1):
        begin, out = indptr[i], out_indptr[first + i * step]
        for j in range(indptr[i + 1] - begin):
            out_topics[out + j] = topics[begin + j]
            out_counts[out + j] = counts[begin + j]
