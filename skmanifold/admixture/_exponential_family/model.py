"""Model of rows of tokens whose components are of any exponential family, and tables of tokens for the kernels."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...emissions._abilities import HasDraw, HasParametersOf
from ...emissions._estimator import in_words, needs_of_family
from ...emissions._protocols import TokenFamily
from ...numerics.reductions import SUM_UNIT
from ...sparse.counts import Counts
from ...topics.topic_word import TopicWord
from ...utils._protocol_check import missing_names, offers
from ...utils._threads import Workers
from ...utils._typing import available_if
from .._tokens.log_topic_word import LogTopics
from .._tokens.model import TokenLatents, TokenModel
from .._tokens.topic_counts import TopicCounts, counts_from_dense

# What a method of the model needs from the family in addition to a `TokenFamily`; draws are kept as attributes.
FAMILY_NEEDS: dict[str, tuple[type, ...]] = {"draw": (HasDraw, HasParametersOf)}


def _draws_parameters(model: FamilyTokenModel) -> bool:
    return offers(model.family, *FAMILY_NEEDS["draw"])


class ScaledTokens(NamedTuple):
    """Densities of tokens for the kernels: p(v | k) is exp(log_scale_v) times the value in `words`."""

    words: TopicWord
    log_scale: np.ndarray | None  # (V,) multiples of 2**-16; None: zeros


class FamilyTokenModel(TokenModel):
    """Rows of tokens with Dirichlet proportions, whose distribution given the component is an exponential family.

    Implements the protocols of `TokenModel`. The position is the family's parameters. A table of the densities of all
    tokens is computed from it in each pass.

    Parameters
    ----------
    counts, doc_topic_prior, workers, block_tokens, first_row
        As in `TokenModel`.
    family : TokenFamily
        Distribution of the tokens.
    """

    def __init__(
        self,
        counts: Counts,
        doc_topic_prior: np.ndarray,
        family: TokenFamily,
        workers: Workers,
        block_tokens: int | None = None,
        first_row: int = 0,
    ):
        super().__init__(counts, doc_topic_prior, workers, block_tokens, first_row)
        self.family: Any = family  # with what `FAMILY_NEEDS` lists, if these methods are there

    def missing_in_family(self, protocols: Iterable[type]) -> str:
        """What the family lacks for the model to offer these protocols, in words; empty if nothing."""
        return in_words(missing_names(self.family, *needs_of_family(FAMILY_NEEDS, protocols)))

    def mode(self, statistics: TopicCounts) -> Any:
        """Posterior mode of the parameters in the natural parametrisation."""
        return self.family.mode(self.family.statistics_of_tokens(statistics))

    @available_if(_draws_parameters)
    def draw(self, statistics: TopicCounts, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given the counts."""
        return self.family.draw(self.family.statistics_of_tokens(statistics), key)

    def init_latents(self, key: np.uint64) -> tuple[TokenLatents, TopicCounts]:
        """Initial component of every token: chosen by the family, or uniformly at random."""
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
        """Initial components as in `init_latents`, in CSR order."""
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
        """Draw every token's component given the parameters and the rows' counts of the last pass (ESCA's S step)."""
        words, log_scale = scale_tokens(self.family.token_table(position))
        latents, statistics, log_likelihood = super().sample_latents(words, latents, key)
        return latents, statistics, log_likelihood + float((self._word_tokens * log_scale).sum())

    def sample_rows(self, position: Any, latents: np.ndarray, key: np.uint64):
        """Draw the component of each token of a row given those of the others."""
        return super().sample_rows(
            LogTopics(self.family.token_table(position), np.zeros(self.n_components)), latents, key
        )

    def check_position(self, position: Any, drawn: bool) -> None:
        """Raise a ValueError unless `position` can be parameters of the family."""
        self.family.check_parameters(position)

    @cached_property
    def _word_tokens(self) -> np.ndarray:
        """Number of occurrences of each token, (V,)."""
        counts = self.counts
        return np.bincount(counts.indices, weights=counts.counts, minlength=counts.n_features)


def scale_tokens(log_table: np.ndarray) -> ScaledTokens:
    """Scale log densities of tokens, (V, K), of any magnitude: divide those of each token by about their largest.

    Logarithms of the divisors are multiples of 2**-16, so that their sums over tokens are exact in any order. Values
    that underflow to zero in 32 bits relative to the token's largest are omitted.
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
