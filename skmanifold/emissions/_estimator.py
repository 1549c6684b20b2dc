"""What estimators with an emission share: the parameter `emission`, and what it and its family must offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import clone

from ..models import IncompatibleError
from ..utils._inputs.column_order import in_column_order
from ..utils._parameters import members, missing_names, offers
from ._base import BaseEmission

if TYPE_CHECKING:  # at run time emissions do not import samplers
    from ..samplers import BaseSampler


_WORDS = {
    "clusters": "clusters with a conjugate prior",
    "cell_distribution": "distributions of single cells",
    "mode": "a mode of the parameters",
    "attributes": "fitted attributes",
    "check_parameters": "a check of stored parameters",
    "shapes": "shapes of its statistics",
    "n_cells": "the size of its statistics",
    "n_components": "a number of components",
    "n_features": "a number of features",
    "add_log_densities": "log densities of rows",
    "sum_labels": "statistics of labelled rows",
    "sum_shares": "statistics of rows with membership probabilities",
    "expect_rows": "an E step that reads rows once",
    "draw_missing": "draws of missing cells",
    "sum_expected": "expected statistics of rows with missing cells",
    "feature_variances": "variances of features",
    "statistics_of_tokens": "statistics of tokens",
    "token_table": "log densities of tokens",
    "token_prior": "a Dirichlet prior of tokens",
    "start_of_tokens": "initial components of tokens",
    "draw": "draws of the parameters",
    "parameters_of": "parameters from fitted attributes",
    "log_prior": "a log prior density",
    "log_likelihood": "a log likelihood of statistics",
    "seed_labels": "initial labels from seeds",
    "sample": "new rows",
    "n_parameters": "a number of free parameters",
    "part": "ranges of rows",
    "hash_rows": "a hash of rows",
    "read": "a reader of rows",
    "bind": "a family of rows",
    "bind_weighted": "a family of rows with weights",
    "seed_weighted_labels": "initial labels from seeds among rows with weights",
    "read_tokens": "a reader of tokens",
    "bind_tokens": "a family of tokens",
    "is_proper": "a proper prior",
    "with_learned_numbers": "a prior that is learned from statistics",
    "clusters_of_sums": "clusters that are given by statistics",
}


def in_words(names: Iterable[str]) -> str:
    """What each of these members of protocols does, its name in brackets, joined by "and", for errors."""
    return " and ".join(f"{_WORDS.get(name, name)} ({name})" for name in names)


def name_of(emission: BaseEmission) -> str:
    """The class of an emission, and the form of its covariances if it has one, for summaries and errors."""
    form = getattr(emission, "covariance_type", None)
    return type(emission).__name__ + ("" if form is None else f"({form!r})")


def needs_of_family(needs_of_method: dict[str, tuple[type, ...]], protocols: Iterable[type]) -> list[type]:
    """The protocols that a family must satisfy so that its model satisfies `protocols`.

    `needs_of_method` has the protocols of the family that a method of the model needs.
    """
    methods = [name for protocol in protocols for name in members(protocol)]
    return [need for name in methods for need in needs_of_method.get(name, ())]


def sort_hyperparameters(emission: BaseEmission, names: Any) -> None:
    """Sort hyperparameters that are tables, of a clone of the user's emission, by the names of X (`in_column_order`).

    ValueError if a table has as many columns as X, but other names.
    """
    for name, value in emission.get_params(deep=False).items():
        axes = (0, 1) if name == "covariance_prior" else (1,)
        setattr(emission, name, in_column_order(value, names, name, axes))


class WithEmission:
    """Mixin, before the base class, for estimators with the constructor parameter `emission`; not public.

    ``_emissions`` are emissions by short name, ``_families`` their families, ``_emission_protocol`` what an emission
    must satisfy, ``_family_needs`` the protocols of the family that each method of the model needs.
    """

    _samplers: ClassVar[dict[str, type[BaseSampler]]]
    _emissions: ClassVar[dict[str, type[BaseEmission]]]
    _families: ClassVar[dict[str, type]]
    _emission_protocol: ClassVar[type]
    _family_needs: ClassVar[dict[str, tuple[type, ...]]] = {}
    _blocks: ClassVar[tuple[str, ...]] = ("sampler", "emission")
    sampler: str | BaseSampler
    emission: str | BaseEmission
    emission_: BaseEmission  # when fitted

    def _named_block(self, block: str, name: str) -> Any:
        if block != "emission":
            return super()._named_block(block, name)  # type: ignore[misc]
        if name not in self._emissions:
            raise ValueError(f"Unknown emission {name!r}: known names are {', '.join(map(repr, self._emissions))}.")
        return self._emissions[name]()

    @property
    def _emission_kind(self) -> type[BaseEmission]:
        """The class of the emission, which declares which X it accepts; `BaseEmission` if the name is unknown."""
        kind = self._emissions.get(self.emission) if isinstance(self.emission, str) else type(self.emission)
        return kind if kind and issubclass(kind, BaseEmission) else BaseEmission

    def _resolve_emission(self) -> BaseEmission:
        """A new, validated emission from the constructor's `emission`: a clone, or the emission with this name."""
        emission: Any = self.emission
        if isinstance(emission, str):
            return self._named_block("emission", emission)
        if isinstance(emission, type):
            name = emission.__name__
            raise TypeError(f"emission must be an instance or a name, not the class {name}: write {name}().")
        if not isinstance(emission, BaseEmission):
            names = ", ".join(map(repr, self._emissions))
            raise TypeError(f"emission must be a name ({names}) or an instance of an emission; got {emission!r}.")
        self._check_offers(emission, emission, [self._emission_protocol], type(self).__name__)
        emission = clone(emission)
        emission._validate_params()
        return emission

    def _check_unchanged(self, emission: BaseEmission) -> None:
        """Raise a ValueError if the emission is of another class than that of the fit."""
        if type(emission) is not type(self.emission_):
            raise ValueError(f"emission={emission!r}, but the fitted model has {self.emission_!r}: call fit.")

    def _check_sampler_and_family(self, emission: BaseEmission, family: Any) -> None:
        """Raise an IncompatibleError unless the model of this family satisfies the protocols of the sampler."""
        known = self._samplers
        sampler: Any = known[self.sampler] if isinstance(self.sampler, str) else self.sampler

        def needs_of(sampler: Any) -> list[type]:
            return needs_of_family(self._family_needs, sampler.requires)

        if not offers(family, *needs_of(sampler)):
            fitting = [each.__name__ for each in known.values() if offers(family, *needs_of(each))]
            advice = f"; samplers that would work: {', '.join(fitting)}" if fitting else ""
            name = sampler.__name__ if isinstance(sampler, type) else type(sampler).__name__
            self._check_offers(emission, family, needs_of(sampler), name, advice)

    def _check_offers(
        self, emission: BaseEmission, thing: Any, protocols: Iterable[type], whom: str, advice: str = ""
    ) -> None:
        """Raise an IncompatibleError, which names alternatives, unless the emission or its family has the protocols."""
        lacks = missing_names(thing, *protocols)
        if not lacks:
            return
        known: dict[str, Any] = self._emissions if thing is emission else self._families
        able = [name for name, each in known.items() if all(getattr(each, member, None) for member in lacks)]
        others = f" ({', '.join(map(repr, able))} {'do' if len(able) > 1 else 'does'})" if able else ""
        raise IncompatibleError(
            f"{whom} needs {in_words(lacks)}, which the emission {name_of(emission)} does not offer{others}{advice}."
        )
