"""What estimators with an emission share: the parameter `emission`, a name or an instance, and what X may be."""

from __future__ import annotations

from typing import Any, ClassVar

from ._base import BaseEmission, named_emission, resolve_emission


class WithEmission:
    """Methods of an estimator with the constructor parameter `emission`; not public. Goes before its base class.

    It lists the emissions it knows by their short names in ``_emissions``.
    """

    _emissions: ClassVar[dict[str, type[BaseEmission]]]
    _blocks: ClassVar[tuple[str, ...]] = ("sampler", "emission")
    emission: str | BaseEmission

    def _named_block(self, block: str, name: str) -> Any:
        if block == "emission":
            return named_emission(name, self._emissions)
        return super()._named_block(block, name)  # type: ignore[misc]

    def _resolve_emission(self) -> BaseEmission:
        """A fresh, validated emission from the constructor's `emission`."""
        return resolve_emission(self.emission, self._emissions)
