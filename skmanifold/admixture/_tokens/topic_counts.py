"""Sparse counts of words in topics, their Dirichlet prior, seed words, and tables of densities for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...numerics.block_sums import SUM_UNIT
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._conditions import MOST_COUNTED, Array, Pointer, Sizes, index, refuse, repeats
from ...utils._njit import njit

# Prior of a seed word in the other topics: positive, so that the distribution is proper, and so small that no chain
# assigns a token of the word to them.
_ELSEWHERE = 1e-20


class Seeds(NamedTuple):
    """Columns and their topics; a column occurs once."""

    columns: Annotated[np.ndarray, index("n_seeds", below="n_features")]  # int64
    topics: Annotated[np.ndarray, index("n_seeds", below="n_components")]  # int64

    def _disagreement(self, sizes: Sizes) -> str | None:
        return None if len(np.unique(self.columns)) == len(self.columns) else "has the same column twice"

    def topic_of_column(self, n_features: int) -> np.ndarray:
        """The topic of each column, (n_features,) int32, -1 if no seed; ValueError if a column is out of range."""
        if self.columns.max(initial=-1) >= n_features:
            raise ValueError(f"seed_words has the column index {self.columns.max()}, but X has {n_features} columns.")
        out = np.full(n_features, -1, np.int32)
        out[self.columns] = self.topics
        return out

    def restrict(self, prior: np.ndarray, n_components: int, n_features: int) -> np.ndarray:
        """Dirichlet parameters, ``(n_components, n_features)``, with nearly zero for seeds in other topics."""
        out = np.array(np.broadcast_to(prior, (n_components, n_features)))
        own = out[self.topics, self.columns]
        out[:, self.columns] = _ELSEWHERE
        out[self.topics, self.columns] = own
        return out


NO_SEEDS = Seeds(np.empty(0, np.int64), np.empty(0, np.int64))


class ScaledTokens(NamedTuple):
    """Densities of tokens for the kernels: p(v | k) is exp(log_scale_v) times the value in `words`."""

    words: TopicWord
    log_scale: np.ndarray | None  # (V,) multiples of 2**-16; None: zeros


def scale_tokens(log_table: np.ndarray) -> ScaledTokens:
    """Scale log densities of tokens, (V, K), of any magnitude: divide those of each token by about their largest.

    Logs of divisors are multiples of 2**-16, so that sums over tokens are exact in any order. Values that underflow in
    32 bits are omitted.
    """
    n_tokens, n_components = log_table.shape
    log_scale = np.rint(log_table.max(axis=1) / SUM_UNIT) * SUM_UNIT
    weights = np.exp(log_table - log_scale[:, np.newaxis]).astype(np.float32)
    entries = counts_from_dense(weights, np.ones(n_components))
    return ScaledTokens(TopicWord(*entries[:3], np.zeros(n_tokens), entries.totals), log_scale)


def on_one_scale(draws: list[ScaledTokens]) -> tuple[list[TopicWord], np.ndarray | None]:
    """Rescale draws so that each token has the same scale in all, the largest; also return the scale's logarithm."""
    scales = [draw.log_scale for draw in draws if draw.log_scale is not None]
    if not scales:
        return [draw.words for draw in draws], None
    largest = np.max(scales, axis=0)
    words = []
    for draw, log_scale in zip(draws, scales, strict=True):
        factors = np.repeat(np.exp(log_scale - largest), np.diff(draw.words.indptr))
        words.append(draw.words._replace(weights=(draw.words.weights * factors).astype(np.float32)))
    return words, largest


_TOLERANCE = 1e-3  # tolerance for sums of float32


def topic_word_prior(value: Any, where: str, sizes: Sizes) -> None:
    """Condition on the values of a `TopicPrior` for known sizes."""
    V, K = sizes["n_features"], sizes["n_components"]
    shapes: tuple[tuple[int, ...], ...] = ((), (V,), (K, 1), (K, V))
    if np.shape(value) not in shapes:
        refuse(where, f"has the shape {np.shape(value)}, which is not that of a prior of {K} topics and {V} words")
    Array("float64", None, above=0)(np.asarray(value), where, sizes)


def _is_sparse_or_none(value: Any, where: str, sizes: Sizes) -> None:
    if value is not None and (
        type(value) is not sp.csr_array or value.shape != (sizes["n_features"], sizes["n_components"])
    ):
        refuse(where, "is not a sparse matrix of words and topics")


class TopicCounts(NamedTuple):
    """Sufficient statistics of the topics, word by word; a topic occurs at most once in a word's list."""

    indptr: Annotated[np.ndarray, Pointer("n_features", "n_entries")]
    topics: Annotated[np.ndarray, index("n_entries", below="n_components", dtype="uint16")]
    # Integers of passes, float32 of a mean, float64 of a stream or expectation
    counts: Annotated[np.ndarray, Array("int32 int64 float32 float64", "n_entries", low=0, high=MOST_COUNTED)]
    # The sums over words
    totals: Annotated[np.ndarray, Array("int64 float64", "n_components", low=0, high=MOST_COUNTED)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if repeats(self.indptr, self.topics, len(self.totals)):
            return "has the same topic twice for a word"
        sums = np.bincount(self.topics, self.counts, minlength=len(self.totals))
        if not np.allclose(sums, self.totals, rtol=_TOLERANCE, atol=_TOLERANCE):
            return "has totals that are not the sums of the counts"
        return None

    def tocsr(self) -> sp.csr_array:
        """As a sparse array of shape (V, K)."""
        return sp.csr_array(
            (self.counts, self.topics.astype(np.int32), self.indptr), shape=(len(self.indptr) - 1, len(self.totals))
        )


def counts_from_dense(word_topic: np.ndarray, totals: np.ndarray) -> TopicCounts:
    """The non-zero cells of a (V, K) array."""
    words, topics = np.nonzero(word_topic)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(words, minlength=len(word_topic)))))
    return TopicCounts(indptr, topics.astype(np.uint16), word_topic[words, topics], totals.copy())


def add_counts(left: TopicCounts, right: TopicCounts, left_scale=1, right_scale=1) -> TopicCounts:
    """``left_scale * left + right_scale * right``; integers if all four are, of 32 bits if possible."""
    totals = left_scale * left.totals + right_scale * right.totals
    kind = np.result_type(left.counts.dtype, right.counts.dtype, np.int32, type(left_scale), type(right_scale)).type
    largest = abs(left_scale) * left.totals.sum() + abs(right_scale) * right.totals.sum()
    if kind == np.int64 and largest <= np.iinfo(np.int32).max:
        kind = np.int32
    indptr = np.zeros(len(left.indptr), np.int64)
    topics = np.empty(len(left.topics) + len(right.topics), np.uint16)
    counts = np.empty(len(topics), kind)
    scales = kind(left_scale), kind(right_scale)
    _merge_rows(left[:3], right[:3], *scales, len(left.totals), indptr, topics, counts)
    for array in (topics, counts):  # release unused memory without a copy
        array.resize(indptr[-1], refcheck=False)
    return TopicCounts(indptr, topics, counts, totals)


def mean_counts(total: TopicCounts, n_passes: int) -> TopicCounts:
    """The mean of `n_passes` passes that sum to `total`, as float32; the totals as float64."""
    share = np.float64(1.0 / n_passes)
    return total._replace(
        counts=np.multiply(total.counts, share, dtype=np.float32, casting="unsafe"), totals=total.totals * share
    )


def scale_counts(counts: TopicCounts, factor: float) -> TopicCounts:
    """All counts times `factor`, as float64."""
    return counts._replace(counts=counts.counts * float(factor), totals=counts.totals * float(factor))


def sum_topics(counts: TopicCounts, groups: Sequence[np.ndarray]) -> TopicCounts:
    """Counts of groups of topics, as float64; topics in no group are dropped."""
    members = np.concatenate(groups)
    places = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    sums = sp.csr_array((np.ones(len(members)), (members, places)), shape=(len(counts.totals), len(groups)))
    table = sp.csr_array(counts.tocsr().astype(np.float64) @ sums)
    totals = np.array([counts.totals[group].sum() for group in groups], np.float64)
    return TopicCounts(table.indptr.astype(np.int64), table.indices.astype(np.uint16), table.data, totals)


def counts_of_ranges(parts: list[tuple[np.ndarray, ...]]) -> TopicCounts:
    """Counts of all words from those of consecutive ranges: numbers of topics, topics and counts, and totals."""
    n_topics, topics, counts, totals = zip(*parts, strict=True)
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(n_topics))))
    return TopicCounts(indptr, np.concatenate(topics), np.concatenate(counts), np.sum(totals, axis=0))


@njit(cache=True)
def close_list(begin, end, topics, scratch, counts, totals):
    """Move the counts of a word's listed topics from `scratch`, one cell per topic, to its list; reset them to zero."""
    for j in range(begin, end):
        topic = np.uint64(topics[j])
        counts[j] = scratch[topic]
        totals[topic] += np.int64(scratch[topic])
        scratch[topic] = 0


@njit(cache=True, nogil=True)
def _merge_rows(left, right, left_scale, right_scale, n_components, out_indptr, out_topics, out_counts):
    # Sums of two sparse tables, word by word; `place` has the entry of each topic of the word, -1 without one.
    left_indptr, left_topics, left_counts = left
    right_indptr, right_topics, right_counts = right
    place = np.full(n_components, -1, np.int64)
    end = 0
    for word in range(len(left_indptr) - 1):
        begin = end
        for j in range(left_indptr[word], left_indptr[word + 1]):
            place[np.uint64(left_topics[j])] = end
            out_topics[end] = left_topics[j]
            out_counts[end] = left_scale * left_counts[j]
            end += 1
        for j in range(right_indptr[word], right_indptr[word + 1]):
            topic = np.uint64(right_topics[j])
            if place[topic] < 0:
                out_topics[end] = topic
                out_counts[end] = right_scale * right_counts[j]
                end += 1
            else:
                out_counts[place[topic]] += right_scale * right_counts[j]
        # Clear the places of this word's topics alone.
        for j in range(begin, end):
            place[np.uint64(out_topics[j])] = -1
        out_indptr[word + 1] = end


class StridedPrior(NamedTuple):
    """A prior of the cells of a table, ``values[row * row_step + column * column_step]``."""

    values: np.ndarray
    row_step: int  # 0 if it is the same in all rows
    column_step: int  # 0 or 1


class TopicPrior:
    """A Dirichlet prior of each topic over words: a number for each word, plus increments for single topics.

    It is the distribution of tokens whose components have such priors, with the interface of `FamilyTokens`. What does
    not depend on the prior are static methods.

    Parameters
    ----------
    prior : float or array-like of shape (n_features,), (n_components, 1) or (n_components, n_features)
        Positive pseudo-counts.
    n_components, n_features : int
        K and V.

    Raises
    ------
    ValueError
        If the shape does not fit or an entry is not positive and finite.
    """

    values: Annotated[np.ndarray, topic_word_prior]
    base: Annotated[np.ndarray, Array("float64", "n_features", above=0)]
    totals: Annotated[np.ndarray, Array("float64", "n_components", above=0)]
    extra: Annotated[Any, _is_sparse_or_none]

    def _disagreement(self, sizes: Sizes) -> str | None:
        made = TopicPrior(self.values, sizes["n_components"], sizes["n_features"])
        same = np.allclose(made.base, self.base) and np.allclose(made.totals, self.totals)
        extras = ([] if extra is None else vars(extra).values() for extra in (made.extra, self.extra))
        same = same and all(np.array_equal(one, other) for one, other in zip_longest(*extras))
        return None if same else "does not correspond to its values"

    def __init__(self, prior, n_components: int, n_features: int):
        values = np.array(prior, dtype=np.float64, order="C")
        allowed = ((), (n_features,), (n_components, 1), (n_components, n_features))
        if values.shape not in allowed:
            raise ValueError(
                f"topic_word_prior must be a number or have shape ({n_features},), ({n_components}, 1) or "
                f"({n_components}, {n_features}); got {values.shape}."
            )
        if not np.all(np.isfinite(values)) or values.min() <= 0:
            raise ValueError("topic_word_prior must be positive and finite.")
        self.values = values
        lowest = values.min(axis=0) if values.ndim == 2 else values
        self.base = np.broadcast_to(lowest, (n_features,)).astype(np.float64)
        self.totals = np.full(n_components, self.base.sum())
        self.extra: sp.csr_array | None = None
        if values.ndim == 2:
            extra = sp.csr_array((np.broadcast_to(values, (n_components, n_features)) - self.base).T)
            if extra.nnz:
                self.extra = extra
                self.totals = self.totals + extra.sum(axis=0)

    def strides(self, n_components: int, n_features: int) -> StridedPrior:
        """The prior of each word (row) in each topic (column)."""
        full = np.broadcast_to(self.values, (n_components, n_features))
        topic_step, word_step = (step // self.values.itemsize for step in full.strides)
        if topic_step and word_step:  # both vary: the topics of a word are adjacent in memory
            return StridedPrior(np.ascontiguousarray(self.values.T).ravel(), n_components, 1)
        return StridedPrior(np.ascontiguousarray(self.values).ravel(), word_step, topic_step)

    def draw_bytes(self) -> int:
        """Memory of one draw of the topics, in bytes."""
        return 4 * len(self.totals) * len(self.base)

    def smooth(self, counts: TopicCounts) -> TopicWord:
        """Topics from counts: p(v | k) = (count_vk + prior_kv) / (total_k + sum_v prior_kv), as a `TopicWord`."""
        inverse = 1.0 / (counts.totals + self.totals)
        indptr, topics, values = counts.indptr, counts.topics, counts.counts
        if self.extra is not None:
            both = (counts.tocsr() + self.extra).tocsr()
            indptr, topics, values = both.indptr.astype(np.int64), both.indices.astype(np.uint16), both.data
        return TopicWord(indptr, topics, _weigh(topics, values, inverse), self.base, inverse)

    @staticmethod
    def record(position: Any) -> dict[str, np.ndarray]:
        """Arrays of the topics that are kept in ``posterior_``."""
        return {"components": position if isinstance(position, np.ndarray) else position.toarray()}

    @staticmethod
    def attributes(position: TopicWord) -> dict[str, np.ndarray]:
        """Fitted attributes by name."""
        return {"components_": position.toarray()}

    @staticmethod
    def scaled(position: TopicWord) -> ScaledTokens:
        """Probabilities of the tokens given the topics."""
        return ScaledTokens(position, None)

    @staticmethod
    def scaled_draw(draw: dict[str, np.ndarray]) -> ScaledTokens:
        """The same, given the arrays of a draw."""
        return ScaledTokens(as_topic_word(draw["components"]), None)

    @staticmethod
    def mix(position: TopicWord, proportions: np.ndarray) -> np.ndarray:
        """Sums of the topics' probabilities, weighted by `proportions`, (n_rows, K)."""
        smooth = np.multiply.outer((proportions * position.inverse).sum(axis=1), position.base)
        return (position.tocsr(np.float32) @ proportions.T).T + smooth


@njit(cache=True, nogil=True)
def _weigh(topics, counts, inverse):
    weights = np.empty(len(topics), np.float32)
    for j in range(len(topics)):
        weights[j] = counts[j] * inverse[np.uint64(topics[j])]
    return weights
