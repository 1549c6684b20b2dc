"""Emissions by short name."""

from ._base import BaseEmission
from ._bernoulli import Bernoulli
from ._gaussian import Gaussian
from ._multinomial import Multinomial
from ._poisson import Poisson

EMISSIONS: dict[str, type[BaseEmission]] = {
    emission.short_name: emission for emission in (Bernoulli, Gaussian, Multinomial, Poisson)
}
