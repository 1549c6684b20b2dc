"""Rows of tokens whose distribution given the component is of any exponential family."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np

from ...emissions._abilities import HasDraw, HasParametersOf
from ...emissions._estimator import in_words, needs_of_family
from ...emissions._family import Family
from ...emissions._protocols import DirichletFamily, TokenFamily
from ...sparse.counts import Counts
from ...utils._declared import check
from ...utils._parameters import missing_names, offers
from ...utils._threads import Workers, limit_threads
from ...utils._typing import available_if
from .._tokens.log_topic_word import LogTopics
from .._tokens.model import TokenLatents, TokenModel
from .._tokens.topic_counts import ScaledTokens, TopicCounts, TopicPrior, scale_tokens

_MAX_TABLE_BYTES = 8 << 30

# What a method of the model needs from the family in addition to a `TokenFamily`; draws are kept as attributes.
FAMILY_NEEDS: dict[str, tuple[type, ...]] = {"draw": (HasDraw, HasParametersOf)}


def _draws_parameters(model: FamilyTokenModel) -> bool:
    return offers(model.family, *FAMILY_NEEDS["draw"])


class FamilyTokenModel(TokenModel):
    """A `TokenModel` with Dirichlet proportions whose tokens, given the component, are from an exponential family.

    The position is the family's parameters, from which each pass computes a table of the densities of all tokens.
    """

    def __init__(
        self, counts: Counts, doc_topic_prior: np.ndarray, family: TokenFamily, workers: Workers, first_row: int = 0
    ):
        super().__init__(counts, doc_topic_prior, workers, first_row)
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

    def _seed_topics(self, key: np.uint64) -> np.ndarray:
        start = self.family.start_of_tokens(key)
        return super()._seed_topics(key) if start is None else start.astype(np.int32)

    def sample_latents(self, position: Any, latents: TokenLatents, key: np.uint64):
        """Draw every token's component given the parameters and the rows' counts of the last pass (ESCA's S step)."""
        words, log_scale = scale_tokens(self.family.token_table(position))
        latents, statistics, log_likelihood = super().sample_latents(words, latents, key)
        return latents, statistics, log_likelihood + float((self._word_tokens * log_scale).sum())

    def sample_rows(self, position: Any, latents: np.ndarray, key: np.uint64):
        """Draw the component of each token of a row given those of the others."""
        table = LogTopics(self.family.token_table(position), np.zeros(self.n_components))
        return super().sample_rows(table, latents, key)

    def check_position(self, position: Any, drawn: bool) -> None:
        """Raise a ValueError unless `position` can be parameters of the family."""
        self.family.check_parameters(position)

    @cached_property
    def _word_tokens(self) -> np.ndarray:
        """Number of occurrences of each token, (V,)."""
        counts = self.counts
        return np.bincount(counts.indices, weights=counts.counts, minlength=counts.n_features)


class FamilyTokens:
    """The distribution of tokens of any family, with a table of the densities of all tokens given all components.

    Parameters
    ----------
    family : TokenFamily
        Distribution of the tokens.
    n_tokens : int
        Number of distinct tokens.
    """

    family: Annotated[Any, partial(check, Family)]

    def __init__(self, family: TokenFamily, n_tokens: int):
        self.family = family
        n_bytes = 8 * family.n_components * n_tokens
        if n_bytes > _MAX_TABLE_BYTES:
            raise ValueError(
                f"The densities of {n_tokens} tokens given each of {family.n_components} components would need "
                f"{n_bytes / 2**30:.1f} GiB, more than {_MAX_TABLE_BYTES / 2**30:.0f}: use fewer components or columns."
            )

    def draw_bytes(self) -> int:
        """Approximate memory of one draw, in bytes."""
        return 8 * self.family.n_cells()

    def record(self, position: Any) -> dict[str, np.ndarray]:
        """Arrays of the parameters that are kept in ``posterior_``."""
        return {name.removesuffix("_"): np.array(value) for name, value in self.attributes(position).items()}

    def attributes(self, position: Any) -> dict[str, np.ndarray]:
        """Fitted attributes by name."""
        return self.family.attributes(position)

    def scaled(self, position: Any) -> ScaledTokens:
        """Densities of the tokens given the parameters."""
        with limit_threads("blas"):  # other numbers of threads round otherwise
            return scale_tokens(self.family.token_table(position))

    def scaled_draw(self, draw: dict[str, np.ndarray]) -> ScaledTokens:
        """The same, given the arrays of a draw."""
        family: Any = self.family  # a `HasParametersOf` too, where a sampler draws the parameters
        return self.scaled(family.parameters_of({f"{name}_": value for name, value in draw.items()}))

    def mix(self, position: Any, proportions: np.ndarray) -> np.ndarray:
        """Sums of the components' expectations, weighted by `proportions`, (n_rows, K)."""
        return np.einsum("ik,kj->ij", proportions, self.attributes(position)["components_"])


def tokens_of(family: Any, n_tokens: int) -> TopicPrior | FamilyTokens:
    """The distribution of tokens of a family; a `TopicPrior` if the family has a Dirichlet prior."""
    if offers(family, DirichletFamily):
        return TopicPrior(family.token_prior, family.n_components, n_tokens)
    return FamilyTokens(family, n_tokens)
