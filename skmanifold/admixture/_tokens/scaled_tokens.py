"""Tables of densities of tokens for the kernels, of any magnitude."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics.reductions import SUM_UNIT
from ...topics.topic_word import TopicWord


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
    tokens, components = np.nonzero(weights)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(tokens, minlength=n_tokens))))
    entries = components.astype(np.uint16), weights[tokens, components]
    return ScaledTokens(TopicWord(indptr, *entries, np.zeros(n_tokens), np.ones(n_components)), log_scale)


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
