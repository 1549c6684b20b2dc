"""Rows of tokens whose components are of any exponential family: the model, and tables of tokens for the kernels."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...emissions._base import Family
from ...numerics.reductions import SUM_UNIT
from ...sparse.counts import Counts
from ...topics.topic_word import TopicWord
from ...utils._threads import Workers
from .._tokens.log_topic_word import LogTopics
from .._tokens.model import TokenLatents, TokenModel
from .._tokens.topic_counts import TopicCounts, counts_from_dense


class ScaledTokens(NamedTuple):
    """Densities of tokens as the kernels read them: p(v | k) = exp(log_scale_v) times that of `words`."""

    words: TopicWord
    log_scale: np.ndarray | None  # (V,) multiples of 2**-16; None: zeros


class FamilyTokenModel(TokenModel):
    """Rows of tokens: p(component) is Dirichlet by row, p(token | component) of an exponential family.

    Offers what `TokenModel` does. The *position* is the family's parameters, of which a table of all tokens' densities
    is made for each pass.

    Parameters
    ----------
    counts, doc_topic_prior, workers, block_tokens, first_row
        As in `TokenModel`.
    family : Family
        Of the tokens.
    """

    def __init__(
        self,
        counts: Counts,
        doc_topic_prior: np.ndarray,
        family: Family,
        workers: Workers,
        block_tokens: int | None = None,
        first_row: int = 0,
    ):
        super().__init__(counts, doc_topic_prior, workers, block_tokens, first_row)
        self.family = family

    def mode(self, statistics: TopicCounts) -> Any:
        """The parameters that are most probable in the natural parametrisation."""
        return self.family.mode(self.family.statistics_of_tokens(statistics))

    def draw(self, statistics: TopicCounts, key: np.uint64) -> Any:
        """The parameters from their posterior given the counts."""
        return self.family.draw(self.family.statistics_of_tokens(statistics), key)

    def init_latents(self, key: np.uint64) -> tuple[TokenLatents, TopicCounts]:
        """Every token's component as the family begins, or uniformly at random."""
        start = self.family.start_of_tokens(key)
        if start is None:
            return super().init_latents(key)
        latents, layout = self._empty_latents(), self.layout
        latents.token_topics[:] = np.repeat(start[layout.segment_word], np.diff(layout.segment_tokens))
        latents.cell_topics[:] = 0
        first = np.repeat(start[layout.segment_word], np.diff(layout.segment_cells))
        latents.cell_topics[np.arange(layout.n_cells), first] = layout.cell_count
        self.workers.run(self._count_block, [(segments, rows, latents) for segments, _, rows in self._blocks()])
        return latents, self._count_topics(latents)

    def init_rows(self, key: np.uint64) -> tuple[np.ndarray, TopicCounts]:
        """The same in CSR order."""
        start = self.family.start_of_tokens(key)
        if start is None:
            return super().init_rows(key)
        counts = self.counts
        table = np.zeros((counts.n_features, self.n_components), np.int32)
        table[np.arange(counts.n_features), start] = self._word_tokens
        return np.repeat(start[counts.indices], counts.counts).astype(np.uint16), counts_from_dense(
            table, table.sum(axis=0)
        )

    def sample_latents(self, position: Any, latents: TokenLatents, key: np.uint64):
        """Every token's component given the parameters and the rows' counts of the pass before (ESCA's S step)."""
        words, log_scale = scale_tokens(self.family.token_table(position))
        latents, statistics, log_likelihood = super().sample_latents(words, latents, key)
        return latents, statistics, log_likelihood + float((self._word_tokens * log_scale).sum())

    def sample_rows(self, position: Any, latents: np.ndarray, key: np.uint64):
        """Redraw the components of each row's tokens in turn."""
        return super().sample_rows(
            LogTopics(self.family.token_table(position), np.zeros(self.n_components)), latents, key
        )

    def check_position(self, position: Any, drawn: bool) -> None:
        """Raise a ValueError unless these can be parameters of the family."""
        self.family.check_parameters(position)

    @cached_property
    def _word_tokens(self) -> np.ndarray:
        """How often each token is there, (V,)."""
        counts = self.counts
        return np.bincount(counts.indices, weights=counts.counts, minlength=counts.n_features)


def scale_tokens(log_table: np.ndarray) -> ScaledTokens:
    """Tokens of log densities (V, K), whatever their size: each token's are divided by about their largest.

    Logs of the divisors are multiples of 2**-16, so that sums of them over tokens are exact in any order. What is zero
    in 32 bits beside the token's largest is left out.
    """
    n_tokens, n_components = log_table.shape
    log_scale = np.rint(log_table.max(axis=1) / SUM_UNIT) * SUM_UNIT
    weights = np.exp(log_table - log_scale[:, np.newaxis]).astype(np.float32)
    tokens, components = np.nonzero(weights)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(tokens, minlength=n_tokens))))
    entries = components.astype(np.uint16), weights[tokens, components]
    return ScaledTokens(TopicWord(indptr, *entries, np.zeros(n_tokens), np.ones(n_components)), log_scale)


def on_one_scale(draws: list[ScaledTokens]) -> tuple[list[TopicWord], np.ndarray | None]:
    """The same draws with one scale for each token, the largest of all of them, and that scale's log."""
    scales = [draw.log_scale for draw in draws if draw.log_scale is not None]
    if not scales:
        return [draw.words for draw in draws], None
    largest = np.max(scales, axis=0)
    words = []
    for draw, log_scale in zip(draws, scales, strict=True):
        factors = np.repeat(np.exp(log_scale - largest), np.diff(draw.words.indptr))
        words.append(draw.words._replace(weights=(draw.words.weights * factors).astype(np.float32)))
    return words, largest
