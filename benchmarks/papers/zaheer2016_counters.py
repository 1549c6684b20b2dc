"""Approximate counters of Zaheer et al. (2016): counts of topics in 4 and 8 bits, incremented during the pass.

Each pass of the automaton reads the counts of words in topics of one buffer, draws the topics of all tokens by update
(20), and increments the counts of the other buffer, which begins with zeros. The versions differ in these counts, which
are dense arrays: exact counts of 32 bits, counters of 8 bits by Csuros (2010), and counters of 4 bits by Morris (1978),
two of them per byte. A register c represents the number v(c), with v(0) = 0, and an increment is written with
probability 1 / (v(c + 1) - v(c)); so the mean of v after n increments is n, as long as the largest register is not
reached. With a significand of d bits, the register 2^d t + u has v = (2^d + u) 2^t - 2^d. With a base b,
v = (b^c - 1) / (b - 1), and an increment is written with probability b^-c. Here d is the largest and b the smallest
value for which the counters can represent the number of tokens of each word. Another version has b = 1.4, the best of
six bases in trial runs, with less noise but no numbers above 386. Totals of topics are exact. Counts of topics in a
document come from the topics of its tokens.

The versions begin with the same topics of the tokens and make their passes in turn in one thread; times are processor
time of the last 10 passes. Three more times separate reading from writing. First, the S step reads a table of 32-bit
floats, made from the counters before the time is taken, so that it is the same for all versions. Second, in addition
all registers are written, whether an increment changes them or not. Third, the topics of all tokens are counted,
without S step. Perplexity is that of 500 held-out documents, by document completion. The priors are 50/K of the
proportions and 0.1 of the topics, as in the experiments of the paper, which does not state its counters or how they
perform. The library instead stores non-zero counts, with two bytes for the topic and one for most counts; the table
contains the size of this exact representation.

The claims: counters of 4 or 8 bits greatly reduce memory, keep the statistical performance, and are often faster,
because not every increment is written.
"""

from __future__ import annotations

import functools
import time
from typing import NamedTuple

import numba
import numpy as np
from scipy.optimize import brentq

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.lda_defaults import split
from skmanifold.admixture._tokens.compact_counts import largest_precision, pack, register_values
from skmanifold.admixture._tokens.topic_counts import counts_from_dense
from skmanifold.metrics import document_completion
from skmanifold.random._keys import fold_in, root_key, subkey, uniform
from skmanifold.sparse.counts import canonical_csr, whole_counts

NEEDS_DATA = True
BETA = 0.1
SETTINGS = (("wiki", 100, 100, 3), ("wiki", 1000, 20, 3))  # corpus, topics, passes, seeds
N_LAST, N_HELD_OUT = 10, 500
SMALL_BASE = 1.4
EXACT, BYTES, NIBBLES, SMALL = VERSIONS = "exact, 32 bits", "8 bits", "4 bits", f"4 bits, base {SMALL_BASE}"
PASSES = {  # whether the S step reads decoded counts, and whether all registers are written
    "pass": (False, False),
    "same_step": (True, False),
    "all_written": (True, True),
}
TIMES = {
    "pass": "pass",
    "same_step": "same S step",
    "all_written": "same S step, all written",
    "counting": "counting alone",
}


def cases(quick):
    """Settings of the runs."""
    settings = (("ap", 10, 5, 1),) if quick else SETTINGS
    return [
        {"corpus": corpus, "n_topics": n_topics, "n_passes": n_passes, "seed": seed}
        for corpus, n_topics, n_passes, n_seeds in settings
        for seed in range(n_seeds)
    ]


@numba.njit
def read_number(counts, values, word, topic):
    """The count of a word in a topic."""
    return counts[word, topic]


@numba.njit
def read_byte(counts, values, word, topic):
    """The number that a register of 8 bits represents."""
    return values[counts[word, topic]]


@numba.njit
def read_nibble(counts, values, word, topic):
    """The number that a register of 4 bits represents."""
    return values[counts[word, topic >> 1] >> 4 * (topic & 1) & 15]


@functools.cache
def adder(n_bits, write_all):
    """A function that adds one, with a draw that depends on (key, number), and returns whether the count changed."""

    @numba.njit
    def add_exact(counts, chances, word, topic, key, number):
        counts[word, topic] += 1
        return 1

    @numba.njit
    def add_to_byte(counts, chances, word, topic, key, number):
        chance = chances[counts[word, topic]]
        added = 1 if chance >= 1.0 or uniform(key, number) < chance else 0
        if write_all or added:
            counts[word, topic] += added
        return added

    @numba.njit
    def add_to_nibble(counts, chances, word, topic, key, number):
        place, shift = topic >> 1, 4 * (topic & 1)
        chance = chances[counts[word, place] >> shift & 15]
        added = 1 if chance >= 1.0 or uniform(key, number) < chance else 0
        if write_all or added:
            counts[word, place] += added << shift
        return added

    return {32: add_exact, 8: add_to_byte, 4: add_to_nibble}[n_bits]


class Counter(NamedTuple):
    """How counts are stored: bits of a register, and the numbers that the registers represent."""

    n_bits: int
    values: np.ndarray

    def zeros(self, n_words, n_topics):
        """The registers of counts of zero."""
        shape = n_words, (n_topics + 1) // 2 if self.n_bits == 4 else n_topics
        return np.zeros(shape, np.int32 if self.n_bits == 32 else np.uint8)

    def decode(self, counts, n_topics):
        """The numbers of all registers, (V, K)."""
        if self.n_bits == 32:
            return counts.copy()
        if self.n_bits == 4:
            counts = np.stack((counts & 15, counts >> 4), axis=-1).reshape(len(counts), -1)[:, :n_topics]
        return self.values[counts]


def chances_of(values):
    """The probability with which an increment is written, for each register; the last one stays as it is."""
    return np.append(1.0 / np.diff(values), 0.0)


def base_for(largest):
    """The smallest base with which a counter of 4 bits can represent this number."""
    return 1.0 if largest <= 15 else brentq(lambda base: (base**15 - 1) / (base - 1) - largest, 1.0 + 1e-9, largest)


def morris_values(base, n_bits=4):
    """The numbers of all registers: the sums of the powers of the base."""
    return np.append(0.0, np.cumsum(base ** np.arange(2.0**n_bits - 1)))


def make_counter(version, largest):
    """The counter of a version that can represent the number `largest`."""
    if version == EXACT:
        return Counter(32, np.zeros(1))
    if version == BYTES:
        return Counter(8, register_values(largest_precision(largest)).astype(float))
    return Counter(4, morris_values(SMALL_BASE if version == SMALL else base_for(largest)))


@functools.cache
def kernels_of(n_bits, decoded, write_all):
    """A pass over the documents, and the counting of given topics."""
    read = read_number if decoded else {32: read_number, 8: read_byte, 4: read_nibble}[n_bits]
    add = adder(n_bits, write_all)

    @numba.njit
    def make_pass(indptr, words, tokens, topics, alpha, beta, old, old_totals, values, new, totals, chances, key):
        n_topics, n_written, begin = len(alpha), 0, 0
        inverse = 1.0 / (old_totals + beta * len(old))
        doc, sums = np.empty(n_topics), np.empty(n_topics)
        for document in range(len(indptr) - 1):
            stream = fold_in(key, document)
            of_counters = fold_in(stream, 0)
            doc[:] = alpha
            token = begin
            for pair in range(indptr[document], indptr[document + 1]):
                for _ in range(tokens[pair]):
                    doc[topics[token]] += 1.0
                    token += 1
            doc *= inverse
            token = begin
            for pair in range(indptr[document], indptr[document + 1]):
                word, total = words[pair], 0.0
                for k in range(n_topics):
                    total += doc[k] * (read(old, values, word, k) + beta)
                    sums[k] = total
                for _ in range(tokens[pair]):
                    value = uniform(stream, token - begin) * total
                    topic = min(np.searchsorted(sums, value, side="right"), n_topics - 1)
                    topics[token] = topic
                    n_written += add(new, chances, word, topic, of_counters, token - begin)
                    totals[topic] += 1
                    token += 1
            begin = token
        return n_written

    @numba.njit
    def count(words, topics, new, chances, key):
        n_written = 0
        for token in range(len(words)):
            n_written += add(new, chances, words[token], topics[token], key, token)
        return n_written

    return make_pass, count


class Chain:
    """A version of the automaton with random initial topics of the tokens."""

    def __init__(self, version, counts, n_topics, seed):
        of_words = np.bincount(counts.indices, counts.counts, counts.n_features)
        self.counter, self.corpus = make_counter(version, of_words.max()), counts
        self.chances, self.key, self.n_passes = chances_of(self.counter.values), root_key(seed), 0
        self.alpha = np.full(n_topics, 50 / n_topics)
        self.words = np.repeat(counts.indices, counts.counts)
        self.topics = np.random.default_rng(seed).integers(n_topics, size=len(self.words)).astype(np.uint16)
        self.totals, self.new_totals = np.bincount(self.topics, minlength=n_topics), np.empty(n_topics, np.int64)
        self.old, self.new = (self.counter.zeros(counts.n_features, n_topics) for _ in range(2))
        self.count(self.old, 0)

    def count(self, counts, turn):
        """Count the topics of all tokens."""
        _, count = kernels_of(self.counter.n_bits, False, False)
        counts[:] = 0
        count(self.words, self.topics, counts, self.chances, subkey(self.key, 1, turn))

    def make_pass(self, table=None, write_all=False):
        """Draw the topics of all tokens, from a table of counts if given; return how many registers were changed."""
        corpus, (kernel, _) = self.corpus, kernels_of(self.counter.n_bits, table is not None, write_all)
        old = self.old if table is None else table
        self.new[:] = 0
        self.new_totals[:] = 0
        return kernel(
            *(corpus.indptr, corpus.indices, corpus.counts, self.topics, self.alpha, BETA, old, self.totals),
            *(self.counter.values, self.new, self.new_totals, self.chances, subkey(self.key, 0, self.n_passes)),
        )

    def step(self):
        """Make a pass and exchange the buffers; return how many increments changed a register."""
        n_written = self.make_pass()
        self.old, self.new = self.new, self.old
        self.totals, self.new_totals = self.new_totals, self.totals
        self.n_passes += 1
        return n_written

    def seconds(self):
        """Processor times of passes from the same state, and of counting; the topics are restored."""
        topics, table, found = self.topics.copy(), self.decoded().astype(np.float32), {}
        for name, (decoded, write_all) in PASSES.items():
            start = time.process_time()
            self.make_pass(table if decoded else None, write_all)
            found[name] = time.process_time() - start
            self.topics[:] = topics
        start = time.process_time()
        self.count(self.new, 1 + self.n_passes)
        return found | {"counting": time.process_time() - start}

    def decoded(self):
        """The counts of the last pass as its counters represent them."""
        return self.counter.decode(self.old, len(self.alpha))

    def recounted(self):
        """The exact counts of the topics of the tokens."""
        exact = np.zeros((self.corpus.n_features, len(self.alpha)), np.int32)
        np.add.at(exact, (self.words, self.topics), 1)
        return exact

    def perplexity(self, test, counts):
        """Of held-out documents, given the topics of these counts."""
        topics = (counts + BETA).T
        return float(document_completion(topics / topics.sum(axis=1, keepdims=True), test, self.alpha).perplexity)


def run(corpus, n_topics, n_passes, seed):
    """A row for each version: bytes, share of writes, times and their ratios to exact counts, and perplexity."""
    train, test = split(corpus, stop_words=False)
    small, counts = (whole_counts(canonical_csr(X), np.uint64(0)) for X in (train[:20], train))
    for version in VERSIONS:  # load the machine code
        Chain(version, small, 5, seed).seconds()
    chains = {version: Chain(version, counts, n_topics, seed) for version in VERSIONS}
    times, sums = {version: [] for version in VERSIONS}, dict.fromkeys(VERSIONS, 0.0)
    for n_done in range(n_passes):
        if n_done >= n_passes - N_LAST:
            for version, chain in chains.items():
                times[version].append(list(chain.seconds().values()))
        for version, chain in chains.items():
            chain.n_written = chain.step()
            if n_done >= n_passes - N_LAST:
                sums[version] = sums[version] + chain.decoded()
    rows = []
    for version, chain in chains.items():
        exact = chain.recounted()
        packed = pack(counts_from_dense(exact, chain.totals))
        sizes = {"bytes": chain.old.nbytes, "bytes_packed": size(packed), "non_zero": len(packed.codes)}
        perplexities = {
            "last": chain.perplexity(test[:N_HELD_OUT], chain.decoded()),
            "average": chain.perplexity(test[:N_HELD_OUT], sums[version] / len(times[version])),
            "recounted": chain.perplexity(test[:N_HELD_OUT], exact),
        }
        written = {"written": chain.n_written / len(chain.words)}
        rows.append({"version": version} | sizes | written | summary(times[version], times[EXACT]) | perplexities)
    return rows


def summary(seconds, exact):
    """Median seconds, and quartiles of the ratio to exact counts in the same turn, for each time."""
    found = {}
    for name, own, other in zip(TIMES, np.transpose(seconds), np.transpose(exact), strict=True):
        low, middle, high = np.quantile(own / other, [0.25, 0.5, 0.75])
        found |= {f"{name}_seconds": float(np.median(own)), f"{name}_ratio": float(middle)}
        found |= {f"{name}_low": float(low), f"{name}_high": float(high)}
    return found


def size(arrays):
    """The bytes of all arrays."""
    return sum(array.nbytes for array in arrays)


def show(rows):
    """Memory, time and perplexity by version."""
    for corpus, n_topics in dict.fromkeys((each["corpus"], each["n_topics"]) for each in rows):
        own = [each for each in rows if (each["corpus"], each["n_topics"]) == (corpus, n_topics)]
        of = {version: [each for each in own if each["version"] == version] for version in VERSIONS}
        what = f"{corpus}, K = {n_topics}, {own[0]['n_passes']} passes"
        show_memory(f"{what}: one buffer of counts, median over seeds", of)
        show_times(f"{what}: seconds, median over passes and seeds", of)
        title(f"{what}: held-out perplexity, median (range) over seeds")
        names = {
            "last": "counts of the last pass",
            "average": f"average of the last {N_LAST} passes",
            "recounted": "exact counts of the last topics",
        }
        begin_table(("counts", *names.values()))
        for version, found in of.items():
            row((version, *(spread([each[name] for each in found], ".1f") for name in names)))


def medians(rows, *names):
    """Medians over seeds."""
    return [float(np.median([each[name] for each in rows])) for name in names]


def show_memory(heading, of):
    """Bytes of the counts."""
    title(heading)
    begin_table(("counts", "MiB", "bytes per non-zero count", "increments that change a register"))
    for version, found in of.items():
        size, non_zero, written = medians(found, "bytes", "non_zero", "written")
        row((version, f"{size / 2**20:.2f}", f"{size / non_zero:.2f}", f"{written:.1%}"))
    size, non_zero = medians(of[EXACT], "bytes_packed", "non_zero")
    row(("exact, packed, non-zero counts alone", f"{size / 2**20:.2f}", f"{size / non_zero:.2f}", ""))


def show_times(heading, of):
    """Seconds of passes and of counting, with ratios to exact counts."""
    title(heading)
    begin_table(("counts", *(column for name in TIMES.values() for column in (name, "/ exact (quartiles)"))))
    for version, found in of.items():
        cells = []
        for name in TIMES:
            parts = (f"{name}_{part}" for part in ("seconds", "ratio", "low", "high"))
            seconds, ratio, low, high = medians(found, *parts)
            cells += [f"{seconds:.3g}", f"{ratio:.3f} ({low:.3f} to {high:.3f})" if version != EXACT else "1"]
        row((version, *cells))
