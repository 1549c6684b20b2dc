"""What estimators with an emission share: the parameter `emission`, and what the emission must offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import clone

from ..models import IncompatibleError
from ..utils._inputs.column_order import in_column_order
from ._abilities import in_words, missing_members, needs_of_family
from ._base import BaseEmission

if TYPE_CHECKING:  # at run time emissions do not import samplers
    from ..samplers import BaseSampler


def sort_hyperparameters(emission: BaseEmission, names: Any) -> None:
    """Sort tables of hyperparameters by the names of the columns of X; see `in_column_order`.

    Parameters
    ----------
    emission : BaseEmission
        A clone of the user's emission; its parameters are replaced.
    names : sequence of str or None
        Names of the columns of X, if they have names.

    Raises
    ------
    ValueError
        If a table has as many columns as X, but other names.
    """
    for name, value in emission.get_params(deep=False).items():
        axes = (0, 1) if name == "covariance_prior" else (1,)
        setattr(emission, name, in_column_order(value, names, name, axes))


class WithEmission:
    """Mixin for estimators with the constructor parameter `emission`; not public. It precedes the base class.

    The estimator lists its emissions by short name in ``_emissions`` and their families in ``_families``. The protocol
    that an emission must satisfy is ``_emission_protocol``. The protocols of the family that a method of the model
    needs are in ``_family_needs``, by the name of the method.
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
        if isinstance(self.emission, str):
            return self._emissions.get(self.emission, BaseEmission)
        return type(self.emission) if isinstance(self.emission, BaseEmission) else BaseEmission

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
        self._check_emission(emission)
        emission = clone(emission)
        emission._validate_params()
        return emission

    def _check_emission(self, emission: BaseEmission) -> None:
        """Raise an IncompatibleError unless the emission satisfies the protocol of this estimator."""
        self._check_offers(emission, emission, [self._emission_protocol], type(self).__name__)

    def _check_unchanged(self, emission: BaseEmission) -> None:
        """Raise a ValueError if the emission is of another class than that of the fit."""
        if type(emission) is not type(self.emission_):
            raise ValueError(f"emission={emission!r}, but the fitted model has {self.emission_!r}: call fit.")

    def _check_sampler_and_family(self, emission: BaseEmission, family: Any) -> None:
        """Raise an IncompatibleError unless the model of this family satisfies the protocols of the sampler."""
        known = self._samplers
        sampler: Any = known[self.sampler] if isinstance(self.sampler, str) else self.sampler
        needs = needs_of_family(self._family_needs, sampler.requires)
        if missing_members(family, needs):
            needs_of = {each.__name__: needs_of_family(self._family_needs, each.requires) for each in known.values()}
            fitting = [name for name, of_sampler in needs_of.items() if not missing_members(family, of_sampler)]
            advice = f"; samplers that would work: {', '.join(fitting)}" if fitting else ""
            name = sampler.__name__ if isinstance(sampler, type) else type(sampler).__name__
            self._check_offers(emission, family, needs, name, advice)

    def _check_offers(
        self, emission: BaseEmission, thing: Any, protocols: Iterable[type], whom: str, advice: str = ""
    ) -> None:
        """Raise an IncompatibleError unless the emission, or its family, satisfies the protocols that `whom` needs."""
        lacks = missing_members(thing, protocols)
        if not lacks:
            return
        known: dict[str, Any] = self._emissions if thing is emission else self._families
        able = [name for name, each in known.items() if all(getattr(each, member, None) for member in lacks)]
        others = f" ({', '.join(map(repr, able))} {'do' if len(able) > 1 else 'does'})" if able else ""
        raise IncompatibleError(
            f"{whom} needs {in_words(lacks)}, which the emission {type(emission).__name__} does not offer{others}"
            f"{advice}."
        )
