"""The library's emissions by short name, and their families."""

from __future__ import annotations

from typing import Any

from ._base import BaseEmission
from ._bernoulli import Bernoulli
from ._categorical import Categorical
from ._columns.emission import Columns
from ._gaussian.emission import Gaussian
from ._multinomial import Multinomial
from ._negative_binomial import NegativeBinomial
from ._poisson import Poisson
from ._von_mises_fisher.emission import VonMisesFisher

EMISSIONS: dict[str, type[BaseEmission]] = {
    emission.short_name: emission
    for emission in (Columns, Bernoulli, Categorical, Gaussian, Multinomial, NegativeBinomial, Poisson, VonMisesFisher)
}

# The families of these emissions in mixtures and in admixtures, which define what each emission can do.
ROW_FAMILIES: dict[str, Any] = {name: emission.row_family for name, emission in EMISSIONS.items()}
TOKEN_EMISSIONS = {name: emission for name, emission in EMISSIONS.items() if emission.token_family}
TOKEN_FAMILIES: dict[str, Any] = {name: emission.token_family for name, emission in TOKEN_EMISSIONS.items()}
