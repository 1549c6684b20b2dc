"""The corpus in the order of ESCA, by block of documents, word and document, and entries with its topic counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ...numerics.simd import (
    FLOATS,
    I32,
    I64,
    INTS,
    LANES,
    ZEROS,
    add_running,
    close_running,
    lane_of,
    lane_of_reference,
    pointer_to,
    sum_across_reference,
    vector_at,
)
from ...sparse.counts import Counts, index_columns, whole_sums_of_rows
from ...utils._njit import njit
from ...utils._threads import Workers

# A document's topics are *entries* of 32 bits, padded with entries of count 0 to whole vectors of sixteen::
#
#     bit 31 ........ 16 15 ......... 0
#        |    count    |     topic    |
#
# A count that exceeds 16 bits is stored in several entries of the same topic. ``scan_row`` multiplies each count by its
# topic's score and sums lane by lane: it stores the running sums down the lanes after each vector, and at the end those
# across the lanes. In this order, down the first lane, then down the second and so on, ``find_in_scan`` finds the entry
# that an inverse-CDF draw picks. A sum across the lanes costs several shuffles; here a document needs one, not one for
# each of its vectors.
#
# The vectors are LLVM vectors (``<16 x float>``), which LLVM maps to the instructions of the processor. They use only
# IEEE additions and multiplications in a fixed order, so results are identical on all processors.
# ``scan_row_reference`` implements that order in numpy; it is also used if numba's compiler is disabled.

TOPIC_BITS = np.uint32(16)
TOPIC_MASK = np.uint32((1 << 16) - 1)
MAX_ENTRY_COUNT = np.uint32((1 << 16) - 1)


@njit(cache=True)
def entry_topic(entry):
    """The topic of an entry, as an index."""
    return np.uint64(entry & TOPIC_MASK)


@njit(cache=True)
def entry_count(entry):
    """The count of an entry."""
    return entry >> TOPIC_BITS


@njit(cache=True)
def make_entry(count, topic):
    """An entry of a count and a topic, both uint32."""
    return (count << TOPIC_BITS) | topic


@intrinsic
def _scan_row_vector(typing_context, entries, start, n_vectors, scores, out_sums, out_lanes):
    signature = types.float32(entries, types.int64, types.int64, scores, out_sums, out_lanes)

    def codegen(context, builder, signature, arguments):
        kinds = signature.args
        entries, scores, sums, lanes = (pointer_to(context, builder, kinds[i], arguments[i]) for i in (0, 3, 4, 5))
        start, n_vectors = arguments[1], arguments[2]
        total = cgutils.alloca_once(builder, FLOATS)
        builder.store(ZEROS, total)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, I64(LANES))
            row = builder.gep(entries, [builder.add(start, offset)])
            # Scalar loads of the scores are faster than gather instructions, which some processors do not
            # there. Two topics come with each 64-bit load of entries; the lower half is the first (little endian).
            pairs = builder.bitcast(row, I64.as_pointer())
            gathered = ir.Constant(FLOATS, ir.Undefined)
            for lane in range(0, LANES, 2):
                two = builder.load(builder.gep(pairs, [I64(lane // 2)]), align=4)
                for half in (0, 1):
                    topic = builder.and_(builder.lshr(two, I64(32 * half)), I64(int(TOPIC_MASK)))
                    score = builder.load(builder.gep(scores, [topic]))
                    gathered = builder.insert_element(gathered, score, I32(lane + half))
            packed = builder.load(builder.bitcast(row, INTS.as_pointer()), align=4)
            counts = builder.uitofp(builder.lshr(packed, ir.Constant(INTS, [int(TOPIC_BITS)] * LANES)), FLOATS)
            add_running(builder, total, builder.fmul(counts, gathered), sums, offset)
        return close_running(builder, total, lanes)

    return signature, codegen


@intrinsic
def _find_in_scan_vector(typing_context, sums, lanes, n_vectors, value):
    signature = types.int64(sums, lanes, types.int64, types.float32)

    def codegen(context, builder, signature, arguments):
        sums, lanes = (pointer_to(context, builder, signature.args[i], arguments[i]) for i in (0, 1))
        n_vectors, value = arguments[2], arguments[3]
        across = builder.load(vector_at(builder, lanes, I64(0), FLOATS), align=4)
        lane, rest = lane_of(builder, across, lanes, value)
        found = cgutils.alloca_once(builder, I64)
        builder.store(lane, found)
        with cgutils.for_range(builder, builder.sub(n_vectors, I64(1))) as loop:
            offset = builder.add(builder.mul(loop.index, I64(LANES)), lane)
            passed = builder.fcmp_ordered("<=", builder.load(builder.gep(sums, [offset])), rest)
            step = builder.select(passed, I64(LANES), I64(0))
            builder.store(builder.add(builder.load(found), step), found)
        return builder.load(found)

    return signature, codegen


def scan_row_reference(entries, start, n_vectors, scores, out_sums, out_lanes):
    """The operations of ``scan_row`` in numpy."""
    total = np.zeros(LANES, np.float32)
    for vector in range(n_vectors):
        packed = entries[start + vector * LANES : start + (vector + 1) * LANES]
        total = total + (packed >> TOPIC_BITS).astype(np.float32) * scores[packed & TOPIC_MASK]
        out_sums[vector * LANES : (vector + 1) * LANES] = total
    out_lanes[:] = sum_across_reference(total)
    return out_lanes[-1]


def find_in_scan_reference(sums, lanes, n_vectors, value):
    """The operations of ``find_in_scan``, in numpy."""
    lane, rest = lane_of_reference(lanes, value)
    return lane + LANES * int(np.count_nonzero(sums[lane : LANES * (n_vectors - 1) : LANES] <= rest))


scan_row: Any = scan_row_reference if config.DISABLE_JIT else _scan_row_vector
find_in_scan: Any = find_in_scan_reference if config.DISABLE_JIT else _find_in_scan_vector


# Within a block the topics of the documents stay in cache, and all tokens of a word are adjacent, so the topics of a
# word are prepared once per block. Blocks only determine the order of computation: results do not depend on them.
#
# All tokens of a large cell, with more tokens than `most_single_tokens`, are drawn at once: large cells have no tokens
# here, but are in a separate list.

_MAX_BLOCK_ROWS = 32_768
_BALANCED_BLOCKS = 12
_TOKENS_PER_WORD = 4  # of a block, on average
_BLOCK_ENTRIES = 1 << 19
_MIN_BLOCK_TOKENS = 1 << 14
_MIN_CELL_TOKENS = 1024  # more than the count of a word in a document, except for books
_TOKENS_PER_TOPIC = 4  # above this, K binomial variates are faster than draws of the tokens


class TokenLayout(NamedTuple):
    """A corpus sorted by (block of rows, word, row).

    A *pair* is a word in a document, with its count; a *segment* all pairs of one word in one block.
    """

    block_rows: np.ndarray  # (n_blocks + 1,) int64: the first row of each block
    block_segments: np.ndarray  # (n_blocks + 1,) int64
    segment_word: np.ndarray  # (n_segments,) int32
    segment_pairs: np.ndarray  # (n_segments + 1,) int64
    segment_tokens: np.ndarray  # (n_segments + 1,) int64
    segment_cells: np.ndarray  # (n_segments + 1,) int64: the large cells, in the order of their pairs
    pair_row: np.ndarray  # (nnz,) uint16: row within its block
    pair_count: np.ndarray  # (nnz,) int32: tokens that are drawn one by one, 0 for a large cell
    cell_row: np.ndarray  # (n_cells,) uint16: row within its block
    cell_count: np.ndarray  # (n_cells,) int32
    row_tokens: np.ndarray  # (n_rows,) int64: document lengths
    row_start: np.ndarray  # (n_rows + 1,) int64: start of a row's entries, a multiple of 16
    word_segments: np.ndarray  # (n_segments,) int64: the segments of word v, block by block, are ...
    word_start: np.ndarray  # (V + 1,) int64: ... word_segments[word_start[v]:word_start[v + 1]]
    word_cells: np.ndarray  # (V,) int64: numbers of large cells

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.block_rows) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens that are drawn one by one."""
        return int(self.segment_tokens[-1])

    @property
    def n_cells(self) -> int:
        """Number of large cells."""
        return len(self.cell_row)


def most_single_tokens(n_components: int) -> int:
    """The most tokens of a cell that are drawn one by one."""
    return max(_MIN_CELL_TOKENS, _TOKENS_PER_TOPIC * n_components)


def make_layout(counts: Counts, n_components: int, workers: Workers, block_tokens: int | None = None) -> TokenLayout:
    """Sort a corpus for ESCA; `block_tokens` is the approximate number of draws per block."""
    most_single = most_single_tokens(n_components)
    lengths = counts.row_sums()
    n_draws = lengths
    if len(counts.counts) and counts.counts.max() > most_single:
        n_draws = whole_sums_of_rows(counts.indptr, np.where(counts.counts > most_single, n_components, counts.counts))
    capacity = np.minimum(lengths, n_components + lengths // int(MAX_ENTRY_COUNT))
    row_start = np.concatenate(([0], np.cumsum(-(-capacity // LANES) * LANES)))
    if block_tokens is None:
        block_tokens = _tokens_of_block(n_draws.sum(), counts.n_features, row_start[-1], workers.n_workers)
    block_rows = _cut_blocks(n_draws, block_tokens)

    pair_row = np.empty(len(counts.indices), np.uint16)
    pair_count = np.empty(len(counts.indices), np.int32)
    blocks = pairwise(block_rows)
    corpus = (counts.indptr, counts.indices, counts.counts, counts.n_features, most_single)
    parts = workers.run(_sort_block, [(*corpus, *rows, pair_row, pair_count) for rows in blocks])
    words, pairs, tokens, cells, cell_row, cell_count = zip(*parts, strict=True)
    segment_word = np.concatenate(words)
    first_pair, first_token, first_cell = (np.cumsum(np.concatenate([[0], *each])) for each in (pairs, tokens, cells))
    word_start, word_segments = np.empty(counts.n_features + 1, np.int64), np.empty(len(segment_word), np.int64)
    index_columns(segment_word, word_start, word_segments)
    word_cells = np.bincount(segment_word, np.diff(first_cell), counts.n_features).astype(np.int64)
    of_blocks, of_segments = (block_rows, np.cumsum([0, *map(len, words)])), (segment_word, first_pair, first_token)
    of_cells = first_cell, pair_row, pair_count, np.concatenate(cell_row), np.concatenate(cell_count)
    return TokenLayout(*of_blocks, *of_segments, *of_cells, lengths, row_start, word_segments, word_start, word_cells)


def _tokens_of_block(n_draws, n_features, n_entries, n_workers):
    """Number of tokens in a block by default.

    A block has several tokens of each word, whose topics are prepared once per block, unless it would be one of few;
    its entries stay in cache, and twelve blocks can be balanced.
    """
    n_blocks = min(max(n_draws // (_TOKENS_PER_WORD * n_features), 2 * n_workers), _BALANCED_BLOCKS)
    n_blocks = max(n_blocks, -(-n_entries // _BLOCK_ENTRIES))
    n_blocks = -(-n_blocks // n_workers) * n_workers  # each thread gets the same number
    return max(-(-n_draws // n_blocks), _MIN_BLOCK_TOKENS)


def _cut_blocks(lengths, block_tokens):
    """First rows of blocks of about equal numbers of tokens, and the number of rows."""
    ends = np.cumsum(lengths)
    n_blocks = max(1, -(-int(ends[-1]) // block_tokens))
    cuts = np.searchsorted(ends, np.arange(1, n_blocks) * (ends[-1] / n_blocks))
    cuts = np.union1d(cuts, np.arange(0, len(lengths), _MAX_BLOCK_ROWS))
    return np.union1d(cuts, [0, len(lengths)]).astype(np.int64)


@njit(cache=True, nogil=True)
def _sort_block(indptr, indices, counts, n_features, most_single, first_row, stop_row, out_pair_row, out_pair_count):
    """Counting sort of one block by word.

    Returns its segments' words and numbers of pairs, tokens and large cells, and the rows and counts of these cells.
    """
    begin, end = indptr[first_row], indptr[stop_row]
    # Number of pairs of each word, then the place of its next pair.
    cursor = np.zeros(n_features, np.int64)
    for j in range(begin, end):
        cursor[indices[j]] += 1
    n_segments = 0
    for word in range(n_features):
        if cursor[word] > 0:
            n_segments += 1
    words = np.empty(n_segments, np.int32)
    pairs = np.empty(n_segments, np.int64)
    tokens = np.zeros(n_segments, np.int64)
    cells = np.zeros(n_segments, np.int64)
    n_cells = 0
    for j in range(begin, end):
        n_cells += counts[j] > most_single
    cell_row = np.empty(n_cells, np.uint16)
    cell_count = np.empty(n_cells, np.int32)
    position, segment = begin, 0
    for word in range(n_features):
        n_pairs = cursor[word]
        cursor[word] = position
        position += n_pairs
        if n_pairs > 0:
            words[segment], pairs[segment] = word, n_pairs
            segment += 1
    # Rows in ascending order, so that the pairs of a word are in the order of rows.
    for row in range(first_row, stop_row):
        for j in range(indptr[row], indptr[row + 1]):
            place = cursor[indices[j]]
            out_pair_row[place] = row - first_row
            out_pair_count[place] = counts[j]
            cursor[indices[j]] = place + 1
    # Large cells leave a pair without tokens in their place, and are listed separately.
    place, cell = begin, 0
    for segment in range(n_segments):
        for _ in range(pairs[segment]):
            if out_pair_count[place] > most_single:
                cell_row[cell], cell_count[cell] = out_pair_row[place], out_pair_count[place]
                cells[segment] += 1
                cell += 1
                out_pair_count[place] = 0
            tokens[segment] += out_pair_count[place]
            place += 1
    return words, pairs, tokens, cells, cell_row, cell_count
