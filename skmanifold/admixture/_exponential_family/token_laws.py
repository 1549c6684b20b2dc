"""Distributions of the tokens of an admixture: Dirichlet-multinomial with sparse counts, or any family."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._family import FAMILY
from ...emissions._protocols import DirichletFamily, TokenFamily
from ...sparse.counts import Counts
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._conditions import Whole
from ...utils._declared import Held, holds
from ...utils._protocol_check import offers
from ...utils._threads import Workers
from .._lda.model import LDAModel
from .._posterior.inference import dense_components, mix_topics
from .._tokens.latent_storage import StorableTokens
from .._tokens.model import TokenModel
from .._tokens.topic_counts import TopicPrior
from .model import FamilyTokenModel, ScaledTokens, scale_tokens

_MAX_TABLE_BYTES = 8 << 30
Draw = dict[str, np.ndarray]


@holds(family=FAMILY)
class FamilyTokens:
    """Tokens of any family, with a table of the densities of all tokens given all components.

    Parameters
    ----------
    family : TokenFamily
        Distribution of the tokens.
    n_tokens : int
        Number of distinct tokens.
    """

    def __init__(self, family: TokenFamily, n_tokens: int):
        self.family = family
        n_bytes = 8 * family.n_components * n_tokens
        if n_bytes > _MAX_TABLE_BYTES:
            raise ValueError(
                f"The densities of {n_tokens} tokens given each of {family.n_components} components would need "
                f"{n_bytes / 2**30:.1f} GiB, more than {_MAX_TABLE_BYTES / 2**30:.0f}: use fewer components or columns."
            )

    def model(self, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers) -> TokenModel:
        """Make the model of rows of tokens."""
        return FamilyTokenModel(counts, doc_topic_prior, self.family, workers)

    def shard(self, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers, first_row: int) -> StorableTokens:
        """Make the model of some of the rows, which begin at row `first_row` of all data."""
        return _StorableFamilyTokens(counts, doc_topic_prior, self.family, workers, first_row=first_row)

    def draw_bytes(self) -> int:
        """Approximate memory of one draw, in bytes."""
        return 8 * self.family.n_cells()

    def draw(self, position: Any) -> Draw:
        """Arrays of the parameters that are kept in ``posterior_``."""
        return {name.removesuffix("_"): np.array(value) for name, value in self.attributes(position).items()}

    def attributes(self, position: Any) -> dict[str, np.ndarray]:
        """Fitted attributes by name."""
        return self.family.attributes(position)

    def of_estimate(self, position: Any) -> ScaledTokens:
        """Densities of the tokens given the parameters."""
        return scale_tokens(self.family.token_table(position))

    def of_draw(self, draw: Draw) -> ScaledTokens:
        """The same, given the arrays of a draw."""
        family: Any = self.family  # a `HasParametersOf` too, where a sampler draws the parameters
        return self.of_estimate(family.parameters_of({f"{name}_": value for name, value in draw.items()}))

    def draw_names(self, position: Any) -> list[str]:
        """Names of the arrays of a draw."""
        return [name.removesuffix("_") for name in self.attributes(position)]

    def mix(self, position: Any, proportions: np.ndarray) -> np.ndarray:
        """Sums of the components' expectations, weighted by `proportions`, (n_rows, K)."""
        return np.einsum("ik,kj->ij", proportions, self.attributes(position)["components_"])


class _StorableFamilyTokens(StorableTokens, FamilyTokenModel):
    """Model of the rows of a shard."""


@holds(prior=Held(TopicPrior), n_cells=Whole(low=1))
class DirichletTokens:
    """Tokens whose components have Dirichlet priors, like words of topics: only nonzero counts are stored.

    Parameters
    ----------
    family : DirichletFamily
    n_tokens : int
        Number of distinct tokens.
    """

    def __init__(self, family: DirichletFamily, n_tokens: int):
        self.prior = TopicPrior(family.token_prior, family.n_components, n_tokens)
        self.n_cells = family.n_components * n_tokens

    def model(self, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers) -> TokenModel:
        """Make the model of rows of tokens."""
        return LDAModel(counts, doc_topic_prior, self.prior, workers)

    def shard(self, counts: Counts, doc_topic_prior: np.ndarray, workers: Workers, first_row: int) -> StorableTokens:
        """Make the model of some of the rows, which begin at row `first_row` of all data."""
        return StorableTokens(counts, doc_topic_prior, workers, first_row=first_row)

    def draw_bytes(self) -> int:
        """Memory of one draw, in bytes."""
        return 4 * self.n_cells

    def draw(self, position: Any) -> Draw:
        """Arrays of the parameters that are kept in ``posterior_``."""
        return {"components": position.toarray()}

    def attributes(self, position: TopicWord) -> dict[str, np.ndarray]:
        """Fitted attributes by name."""
        return {"components_": dense_components(position, "token_counts_")}

    def of_estimate(self, position: TopicWord) -> ScaledTokens:
        """Probabilities of the tokens given the parameters."""
        return ScaledTokens(position, None)

    def of_draw(self, draw: Draw) -> ScaledTokens:
        """The same, given the arrays of a draw."""
        return ScaledTokens(as_topic_word(draw["components"]), None)

    def draw_names(self, position: TopicWord) -> list[str]:
        """Names of the arrays of a draw."""
        return ["components"]

    def mix(self, position: TopicWord, proportions: np.ndarray) -> np.ndarray:
        """Sums of the components' probabilities, weighted by `proportions`, (n_rows, K)."""
        return mix_topics(position, proportions)


def tokens_of(family: Any, n_tokens: int) -> FamilyTokens | DirichletTokens:
    """Dirichlet tokens if the family has a Dirichlet prior, else tokens of any family."""
    return (DirichletTokens if offers(family, DirichletFamily) else FamilyTokens)(family, n_tokens)
