"""The families that fitted estimators keep, and whether parameters are theirs."""

from __future__ import annotations

from typing import Any

from ..utils._declared import Held
from ._bernoulli import BernoulliFamily
from ._gaussian_families import DiagonalFamily, FullFamily, GaussianFamily, GaussianParameters
from ._linear import LinearParameters, parameters_agree
from ._multinomial import MultinomialFamily
from ._poisson import PoissonFamily

FAMILY = Held(BernoulliFamily, DiagonalFamily, FullFamily, MultinomialFamily, PoissonFamily)


def are_of_family(family: Any, parameters: Any) -> str | None:
    """What is wrong with parameters, each of them by itself as it must be, as those of a family; None if nothing is."""
    if isinstance(family, GaussianFamily):
        ndim = 3 if isinstance(family, FullFamily) else 2
        if isinstance(parameters, GaussianParameters) and parameters.factors.ndim == ndim:
            return None
        return "has parameters that are not of its family"
    if not isinstance(parameters, LinearParameters):
        return "has parameters that are not of its family"
    return parameters_agree(family, parameters)
