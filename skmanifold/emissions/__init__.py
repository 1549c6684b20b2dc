"""Emissions: how rows of a mixture, or tokens of an admixture, are distributed given their component."""

from ._base import BaseEmission
from ._bernoulli import Bernoulli
from ._gaussian import Gaussian
from ._multinomial import Multinomial
from ._poisson import Poisson

# By short name
EMISSIONS: dict[str, type[BaseEmission]] = {
    emission.short_name: emission for emission in (Bernoulli, Gaussian, Multinomial, Poisson)
}

__all__ = ["EMISSIONS", "BaseEmission", "Bernoulli", "Gaussian", "Multinomial", "Poisson"]
