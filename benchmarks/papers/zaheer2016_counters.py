"""Approximate counters of Zaheer et al. (2016): counts of topics in 4 and 8 bits, incremented during the pass.

Each pass of the automaton reads the counts of words in topics of one buffer, draws the topics of all tokens by update
(20), and increments the counts of the other buffer, which begins with zeros. Three versions differ in these counts,
which are dense arrays: exact counts of 32 bits; counters of 8 bits by Csuros (2010); and counters of 4 bits by Morris
(1978), two of them per byte. A register c represents the number v(c), with v(0) = 0, and an increment is written with
the probability 1 / (v(c + 1) - v(c)), so that the mean of v after n increments is n, until the largest register is
reached. With a significand of d bits, the register 2^d t + u has v = (2^d + u) 2^t - 2^d. With a base b,
v = (b^c - 1) / (b - 1), and an increment is written with the probability b^-c. Here d is the largest, and b is the
smallest, for which the counters can represent the number of tokens of each word. Totals of topics are exact. Counts of
topics in a document come from the topics of its tokens.

The versions make their passes in turn in one thread, from the same initial topics; seconds are processor time. Also
measured are increments alone, that is, counting the topics of all tokens. Perplexity is that of held-out documents, by
document completion. The priors are 50/K of the proportions and 0.1 of the topics, as in the experiments of the paper,
which does not state its counters or how they perform. The library instead stores the non-zero counts alone, with two
bytes for the topic and one for most counts; the table contains the size of this exact representation.

The claims: counters of 4 or 8 bits greatly reduce memory, keep the statistical performance, and are often faster,
because not every increment is written.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from _results import begin_table, row, title
from _runs import spread
from lda_defaults import split
from scipy.optimize import brentq

from skmanifold.admixture._tokens.compact_counts import pack
from skmanifold.admixture._tokens.topic_counts import counts_from_dense
from skmanifold.metrics import document_completion
from skmanifold.numerics.csuros import largest_precision, register_values
from skmanifold.random._keys import fold_in, root_key, subkey, uniform
from skmanifold.sparse.counts import canonical_csr, whole_counts

NEEDS_DATA = True
BETA = 0.1
SETTINGS = (("wiki", 100, 100, 5), ("wiki", 1000, 30, 3))  # corpus, topics, passes, seeds
N_AVERAGED, N_COUNTINGS = 20, 9
EXACT, BYTES, NIBBLES = VERSIONS = "exact, 32 bits", "8 bits", "4 bits"


def cases(quick):
    """Settings of the runs."""
    settings = (("ap", 10, 5, 1),) if quick else SETTINGS
    return [
        {"corpus": corpus, "n_topics": n_topics, "n_passes": n_passes, "seed": seed}
        for corpus, n_topics, n_passes, n_seeds in settings
        for seed in range(n_seeds)
    ]


@numba.njit
def read_exact(counts, values, word, topic):
    """The count of a topic."""
    return counts[word, topic]


@numba.njit
def read_byte(counts, values, word, topic):
    """The number that a register of 8 bits represents."""
    return values[counts[word, topic]]


@numba.njit
def read_nibble(counts, values, word, topic):
    """The number that a register of 4 bits represents."""
    return values[counts[word, topic >> 1] >> 4 * (topic & 1) & 15]


@numba.njit
def add_exact(counts, chances, word, topic, key, number):
    """Add one; return how many increments were written."""
    counts[word, topic] += 1
    return 1


@numba.njit
def add_to_byte(counts, chances, word, topic, key, number):
    """Add one at random; the draw is a function of (key, number)."""
    chance = chances[counts[word, topic]]
    if chance < 1.0 and uniform(key, number) >= chance:
        return 0
    counts[word, topic] += 1
    return 1


@numba.njit
def add_to_nibble(counts, chances, word, topic, key, number):
    """Add one at random; the draw is a function of (key, number)."""
    place, shift = topic >> 1, 4 * (topic & 1)
    chance = chances[counts[word, place] >> shift & 15]
    if chance < 1.0 and uniform(key, number) >= chance:
        return 0
    counts[word, place] += 1 << shift
    return 1


class Counter(NamedTuple):
    """How counts are stored: functions that read and add, and the numbers that the registers represent."""

    n_bits: int
    read: Callable
    add: Callable
    values: np.ndarray  # of the registers

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
        return Counter(32, read_exact, add_exact, np.zeros(1))
    if version == BYTES:
        return Counter(8, read_byte, add_to_byte, register_values(largest_precision(largest)).astype(float))
    return Counter(4, read_nibble, add_to_nibble, morris_values(base_for(largest)))


@functools.cache
def kernels_of(read, add):
    """A pass over the documents, and the counting of given topics, for one kind of counter."""

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
        self.make_pass, self.count = kernels_of(self.counter.read, self.counter.add)
        self.chances, self.key, self.n_passes = chances_of(self.counter.values), root_key(seed), 0
        self.alpha = np.full(n_topics, 50 / n_topics)
        self.words = np.repeat(counts.indices, counts.counts)
        self.topics = np.random.default_rng(seed).integers(n_topics, size=len(self.words)).astype(np.uint16)
        self.old, self.new = (self.counter.zeros(counts.n_features, n_topics) for _ in range(2))
        self.totals = np.bincount(self.topics, minlength=n_topics)
        self.count(self.words, self.topics, self.old, self.chances, subkey(self.key, 1))

    def step(self):
        """Make a pass; return its seconds and the number of increments that were written."""
        corpus, key, totals = self.corpus, subkey(self.key, 0, self.n_passes), np.zeros_like(self.totals)
        start = time.process_time()
        self.new[:] = 0
        n_written = self.make_pass(
            *(corpus.indptr, corpus.indices, corpus.counts, self.topics, self.alpha, BETA),
            *(self.old, self.totals, self.counter.values, self.new, totals, self.chances, key),
        )
        seconds = time.process_time() - start
        self.old, self.new, self.totals = self.new, self.old, totals
        self.n_passes += 1
        return seconds, n_written

    def seconds_of_counting(self, turn):
        """Processor time of the increments for all tokens, without draws of topics; the other buffer is lost."""
        self.new[:] = 0
        key = subkey(self.key, 2, turn)
        start = time.process_time()
        self.count(self.words, self.topics, self.new, self.chances, key)
        return time.process_time() - start

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
    """A row for each version: time and its ratio to that of exact counts, share of writes, bytes and perplexity."""
    train, test = split(corpus, stop_words=False)
    small, counts = (whole_counts(canonical_csr(X), np.uint64(0)) for X in (train[:20], train))
    for version in VERSIONS:  # load the machine code
        Chain(version, small, 5, seed).step()
    chains = {version: Chain(version, counts, n_topics, seed) for version in VERSIONS}
    seconds, counting = ({version: [] for version in VERSIONS} for _ in range(2))
    shares, sums = dict.fromkeys(VERSIONS), dict.fromkeys(VERSIONS, 0.0)
    for turn in range(n_passes):
        for version, chain in chains.items():
            spent, n_written = chain.step()
            seconds[version].append(spent)
            shares[version] = n_written / len(chain.words)
            if turn >= n_passes - N_AVERAGED:
                sums[version] = sums[version] + chain.decoded()
    for turn in range(N_COUNTINGS):
        for version, chain in chains.items():
            counting[version].append(chain.seconds_of_counting(turn))
    rows = []
    for version, chain in chains.items():
        exact = chain.recounted()
        packed = pack(counts_from_dense(exact, chain.totals))
        quartiles = np.quantile(np.divide(seconds[version], seconds[EXACT]), [0.25, 0.5, 0.75])
        found = {"seconds": np.median(seconds[version])}
        found |= dict(zip(("ratio_low", "ratio", "ratio_high"), quartiles, strict=True))
        found |= {
            "counting": np.median(counting[version]),
            "counting_ratio": np.median(np.divide(counting[version], counting[EXACT])),
            "written": shares[version],
            "last": chain.perplexity(test, chain.decoded()),
            "average": chain.perplexity(test, sums[version] / min(n_passes, N_AVERAGED)),
            "recounted": chain.perplexity(test, exact),
        }
        found = {name: float(value) for name, value in found.items()}
        sizes = {"bytes": chain.old.nbytes, "non_zero": len(packed.codes), "bytes_packed": size(packed)}
        rows.append({"version": version, **sizes, **found})
    return rows


def size(arrays):
    """The bytes of all arrays."""
    return sum(array.nbytes for array in arrays)


def show(rows):
    """Memory, time and perplexity by version."""
    for corpus, n_topics in dict.fromkeys((each["corpus"], each["n_topics"]) for each in rows):
        own = [each for each in rows if (each["corpus"], each["n_topics"]) == (corpus, n_topics)]
        n_passes = own[0]["n_passes"]
        of = {version: [each for each in own if each["version"] == version] for version in VERSIONS}
        title(f"{corpus}, K = {n_topics}, {n_passes} passes: memory and time, median over seeds")
        ratios = "pass / exact (quartiles)", "counting / exact"
        begin_table(
            ("counts", "MiB", "increments written", "seconds per pass", ratios[0], "seconds of counting", ratios[1])
        )
        for version, found in of.items():
            median = {
                name: np.median([each[name] for each in found]) for name in found[0] if name not in ("corpus", "version")
            }
            ratio = f"{median['ratio']:.3f} ({median['ratio_low']:.3f} to {median['ratio_high']:.3f})"
            cells = f"{median['bytes'] / 2**20:.2f}", f"{median['written']:.1%}", f"{median['seconds']:.3g}", ratio
            row((version, *cells, f"{median['counting']:.3g}", f"{median['counting_ratio']:.3f}"))
        packed = np.median([each["bytes_packed"] for each in of[EXACT]])
        row(("exact, packed, non-zero counts alone", f"{packed / 2**20:.2f}", *[""] * 5))
        title(f"{corpus}, K = {n_topics}: held-out perplexity after {n_passes} passes, median (range) over seeds")
        names = {
            "last": "counts of the last pass",
            "average": f"average of the last {min(n_passes, N_AVERAGED)} passes",
            "recounted": "exact counts of the last topics",
        }
        begin_table(("counts", *names.values()))
        for version, found in of.items():
            row((version, *(spread([each[name] for each in found], ".1f") for name in names)))
