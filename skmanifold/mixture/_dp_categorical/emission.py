"""The emission of a Dirichlet process mixture: counts or codes, and the Dirichlet parameter of their categories."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...emissions._abilities import in_words
from ...emissions._base import BaseEmission
from ...emissions._categorical import Categorical
from ...emissions._codes import Table
from ...emissions._estimator import WithEmission
from ...emissions._multinomial import Multinomial, MultinomialFamily
from ...emissions._protocols import DirichletFamily, TokenEmission
from ...models import IncompatibleError
from ...sparse.counts import Counts

_DEFAULT_PRIOR = 0.5


class WithCategories(WithEmission):
    """Mixin for estimators whose `emission` is of counts or codes, given by name or as an instance; not public."""

    _blocks: ClassVar[tuple[str, ...]] = ("sampler", "weights_sampler", "emission")
    _emissions: ClassVar[dict[str, type[BaseEmission]]] = {"multinomial": Multinomial, "categorical": Categorical}
    _families: ClassVar[dict[str, type]] = {"multinomial": MultinomialFamily, "categorical": MultinomialFamily}
    _emission_protocol = TokenEmission
    _family_needs: ClassVar[dict[str, tuple[type, ...]]] = {}
    category_prior: float
    min_categories: Any
    handle_unknown: str

    @property
    def _emission_name(self) -> str:
        """What X contains: "multinomial" for counts, "categorical" for codes."""
        if isinstance(self.emission, str):
            return self.emission
        return "categorical" if self._emission_kind.has_codes else "multinomial"

    def _named_block(self, block: str, name: str) -> Any:
        block_of_name = super()._named_block(block, name)
        return block_of_name.set_params(category_prior=self.category_prior) if block == "emission" else block_of_name

    def _resolve_emission(self) -> Any:
        """A new emission; one that is given by name has the `category_prior` of the estimator."""
        if isinstance(self.emission, str):
            return self._emissions[self.emission](category_prior=float(self.category_prior))
        if self.category_prior != _DEFAULT_PRIOR:
            raise ValueError(
                f"category_prior={self.category_prior} is for an emission given by name, not for {self.emission!r}, "
                "which has a category_prior of its own."
            )
        return super()._resolve_emission()

    def _check_emission(self, emission: BaseEmission) -> None:
        if not emission.has_codes:
            super()._check_emission(emission)

    def _min_categories_of(self, emission: Any) -> Any:
        """Minimum numbers of categories, which the estimator or the emission may have."""
        own, given = self.min_categories, getattr(emission, "min_categories", None)
        if own is not None and given is not None:
            raise ValueError(
                f"Both {type(self).__name__} and its emission {emission!r} have min_categories: set only one of them."
            )
        return given if own is None else own

    def _handle_unknown_of(self, emission: Any) -> str:
        """How to handle unknown codes; they are ignored if the estimator or the emission requires it."""
        return "ignore" if "ignore" in (self.handle_unknown, getattr(emission, "handle_unknown", "error")) else "error"

    def _prior_of_categories(self, table: Table) -> float:
        """The Dirichlet parameter of each category, the same for all."""
        emission = self._resolve_emission()
        if emission.has_codes or isinstance(self.emission, str):
            return float(emission.category_prior)
        name, whom = type(emission).__name__, type(self).__name__
        if emission.has_vector_tokens:  # its bind_tokens would require vectors, which is not the reason
            raise IncompatibleError(
                f"{whom} needs {in_words(['token_prior'])}, which the emission {name} does not offer ('multinomial', "
                "'categorical' do)."
            )
        family = emission.bind_tokens(Counts(*table[:3], table.n_categories), 1)
        self._check_family(emission, family, [DirichletFamily], whom)
        priors = np.unique(family.token_prior)
        if len(priors) > 1:
            raise ValueError(
                f"{whom} needs one Dirichlet parameter for all categories; the emission {name} has several."
            )
        return float(priors[0])

    @property
    def _fitted_emission(self) -> Any:
        """The emission that was fitted; the default one if it was given by name, where there is no ``emission_``."""
        return vars(self).get("emission_", Multinomial())
