"""The library's emissions by short name, their families, and whether stored parameters are of a family."""

from __future__ import annotations

from typing import Any

from ..utils._declared import Held
from ._base import BaseEmission
from ._bernoulli import Bernoulli, BernoulliFamily
from ._gaussian import Gaussian
from ._gaussian_base import GaussianFamily, GaussianParameters
from ._gaussian_families import DiagonalFamily, FullFamily
from ._linear import LinearParameters, parameters_agree
from ._multinomial import Multinomial, MultinomialFamily
from ._poisson import Poisson, PoissonFamily

EMISSIONS: dict[str, type[BaseEmission]] = {
    emission.short_name: emission for emission in (Bernoulli, Gaussian, Multinomial, Poisson)
}

# The families that they have in mixtures and in admixtures: what each emission can do.
ROW_FAMILIES: dict[str, type] = {
    "bernoulli": BernoulliFamily,
    "gaussian": FullFamily,
    "multinomial": MultinomialFamily,
    "poisson": PoissonFamily,
}
TOKEN_FAMILIES: dict[str, type] = {**ROW_FAMILIES, "poisson": MultinomialFamily}

FAMILY = Held(BernoulliFamily, DiagonalFamily, FullFamily, MultinomialFamily, PoissonFamily)


def are_of_family(family: Any, parameters: Any) -> str | None:
    """Whether parameters that are valid by themselves are those of a family.

    Parameters
    ----------
    family : Family
        One of the library's.
    parameters : GaussianParameters or LinearParameters
        Each of them as it must be.

    Returns
    -------
    told : str or None
        What is wrong; None if nothing is.
    """
    if isinstance(family, GaussianFamily):
        ndim = 3 if isinstance(family, FullFamily) else 2
        if isinstance(parameters, GaussianParameters) and parameters.factors.ndim == ndim:
            return None
        return "has parameters that are not of its family"
    if not isinstance(parameters, LinearParameters):
        return "has parameters that are not of its family"
    return parameters_agree(family, parameters)
