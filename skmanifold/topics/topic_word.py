"""The topic-word matrix in the layout of the kernels: by words, sparse over topics, plus a rank-one smoothing part."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from ..utils._conditions import Array, Pointer, Sizes, index, repeats
from ..utils._inputs.tables import readable
from ..utils._threads import split_range
from ..utils._typing import ArrayLike

_MAX_COMPONENTS = np.iinfo(np.uint16).max
_TOLERANCE = 1e-3  # tolerance for sums of float32
_CHUNK_CELLS = 1 << 20  # cells of the dense matrix converted at a time


class TopicWord(NamedTuple):
    r"""Topics word by word: :math:`p(v \mid k) = \text{weights}_{vk} + \text{base}_v \, \text{inverse}_k`.

    The counts are sparse and the smoothing prior is a product of two vectors, so memory is only needed for the
    non-zero counts. For counts :math:`W_{kv}` with sums :math:`T_k` and a prior :math:`\beta_v`, the weights are
    :math:`W_{kv} / (T_k + \sum_u \beta_u)`, `base` is :math:`\beta` and `inverse` is
    :math:`1 / (T_k + \sum_u \beta_u)`.
    """

    # Word v has the entries indptr[v] to indptr[v + 1]
    indptr: Annotated[np.ndarray, Pointer("n_features", "n_entries")]
    # The topic of each entry, at most once within a word
    topics: Annotated[np.ndarray, index("n_entries", below="n_components", dtype="uint16")]
    # Probabilities that are added to the smoothing part
    weights: Annotated[np.ndarray, Array("float32", "n_entries", low=0)]
    base: Annotated[np.ndarray, Array("float64", "n_features", low=0)]  # the word's share of the smoothing prior
    inverse: Annotated[np.ndarray, Array("float64", "n_components", above=0)]  # one over the topic's normaliser

    def _disagreement(self, sizes: Sizes) -> str | None:
        if repeats(self.indptr, self.topics, self.n_components):
            return "has the same topic twice for a word"
        sums = np.bincount(self.topics, self.weights, minlength=self.n_components)
        if not np.allclose(sums + self.base.sum() * self.inverse, 1.0, rtol=0.0, atol=_TOLERANCE):
            return "has topics whose words' probabilities do not sum to one"
        return None

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.inverse)

    @property
    def n_features(self) -> int:
        """Number of words V."""
        return len(self.base)

    def tocsr(self, dtype: DTypeLike = np.float64) -> sp.csr_array:
        """The part without smoothing, (n_features, n_components)."""
        entries = self.weights.astype(dtype, copy=False), self.topics.astype(np.int32), self.indptr
        return sp.csr_array(entries, shape=(self.n_features, self.n_components))

    def words(self, start: int, stop: int, dtype: DTypeLike = np.float64) -> np.ndarray:
        """The dense columns `start` to `stop`, of shape (n_components, stop - start)."""
        out = np.multiply.outer(self.inverse, self.base[start:stop]).astype(dtype, copy=False)
        entries = slice(self.indptr[start], self.indptr[stop])
        columns = np.repeat(np.arange(stop - start), np.diff(self.indptr[start : stop + 1]))
        out[self.topics[entries], columns] += self.weights[entries]
        return out

    def toarray(self, dtype: DTypeLike = np.float32) -> np.ndarray:
        """The dense matrix, of shape (n_components, n_features); its rows sum to 1."""
        out = np.empty((self.n_components, self.n_features), dtype=dtype)
        for start, stop in _word_chunks(*out.shape):
            out[:, start:stop] = self.words(start, stop)
        return out


def topic_word_from_array(components: ArrayLike) -> TopicWord:
    """The sparse form of a dense topic-word matrix, (n_components, n_features), of this or another library.

    Every row is divided by its sum, in float64, and stored as float32; entries that are then exactly zero are dropped,
    and ``base`` is zero. Raises a ValueError if numbers are not finite or negative, or if a row has no positive sum.
    """
    components = np.asarray(readable(components, "topic_word"))
    if components.ndim != 2 or 0 in components.shape or components.dtype.kind not in "biuf":
        raise ValueError(
            "The topic-word matrix must be a dense, non-empty numeric array of shape (n_components, n_features); "
            f"got shape {components.shape} and dtype {components.dtype}."
        )
    n_components, n_features = components.shape
    if n_components > _MAX_COMPONENTS:
        raise ValueError(f"The topic-word matrix has {n_components} rows; at most {_MAX_COMPONENTS} are supported.")
    chunks = _word_chunks(n_components, n_features)
    sums = np.zeros(n_components)
    for start, stop in chunks:
        block = components[:, start:stop]
        low, high = block.min(), block.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError("The topic-word matrix must be finite; it has NaN or infinite entries.")
        if low < 0:
            raise ValueError(f"The topic-word matrix must be non-negative; its smallest entry is {low:.6g}.")
        with np.errstate(over="ignore"):  # an error is raised below
            sums += block.sum(axis=1, dtype=np.float64)
    if not np.all((sums > 0) & np.isfinite(sums)):
        row = int(np.argmin((sums > 0) & np.isfinite(sums)))
        raise ValueError(f"Every row of the topic-word matrix must have a positive, finite sum; row {row} does not.")

    n_entries, topics, weights = [], [], []
    for start, stop in chunks:
        block = (components[:, start:stop] / sums[:, np.newaxis]).T.astype(np.float32, order="C")
        words, columns = np.nonzero(block)
        n_entries.append(np.count_nonzero(block, axis=1))
        topics.append(columns.astype(np.uint16))
        weights.append(block[words, columns])
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(n_entries))))
    entries = np.concatenate(topics), np.concatenate(weights)
    return TopicWord(indptr, *entries, np.zeros(n_features), np.ones(n_components))


def as_topic_word(topic_word: ArrayLike | TopicWord) -> TopicWord:
    """`topic_word` itself if it is a TopicWord, else the result of :func:`topic_word_from_array`."""
    return topic_word if isinstance(topic_word, TopicWord) else topic_word_from_array(topic_word)


def _word_chunks(n_components, n_features):
    return split_range(n_features, max(1, _CHUNK_CELLS // n_components))
