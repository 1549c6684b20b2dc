"""The library's emissions by short name, their families, and a check of stored parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils._declared import Held
from ._base import BaseEmission
from ._bernoulli import Bernoulli, BernoulliFamily
from ._categorical import Categorical, CategoricalFamily
from ._columns.emission import Columns, check_blocks
from ._columns.family import ColumnParameters, ColumnsFamily
from ._gaussian.base import GaussianFamily, GaussianParameters, TiedParameters
from ._gaussian.diagonal import DiagonalFamily
from ._gaussian.emission import Gaussian
from ._gaussian.full import FullFamily
from ._gaussian.tied import TiedFamily
from ._linear import LinearParameters, parameters_agree
from ._multinomial import Multinomial, MultinomialFamily
from ._negative_binomial.emission import NegativeBinomial
from ._negative_binomial.family import NegativeBinomialFamily, NegativeBinomialParameters
from ._poisson import Poisson, PoissonFamily
from ._von_mises_fisher.emission import VonMisesFisher
from ._von_mises_fisher.family import VonMisesFisherFamily, VonMisesFisherParameters

EMISSIONS: dict[str, type[BaseEmission]] = {
    emission.short_name: emission
    for emission in (Columns, Bernoulli, Categorical, Gaussian, Multinomial, NegativeBinomial, Poisson, VonMisesFisher)
}

# The families of these emissions in mixtures and in admixtures, which define what each emission can do.
ROW_FAMILIES: dict[str, type] = {
    "auto": ColumnsFamily,
    "bernoulli": BernoulliFamily,
    "categorical": CategoricalFamily,
    "gaussian": FullFamily,
    "multinomial": MultinomialFamily,
    "negative_binomial": NegativeBinomialFamily,
    "poisson": PoissonFamily,
    "von_mises_fisher": VonMisesFisherFamily,
}
TOKEN_FAMILIES: dict[str, type] = {
    "bernoulli": BernoulliFamily,
    "gaussian": FullFamily,
    "multinomial": MultinomialFamily,
    "poisson": MultinomialFamily,
}
TOKEN_EMISSIONS: dict[str, type[BaseEmission]] = {name: EMISSIONS[name] for name in TOKEN_FAMILIES}

FAMILY = Held(
    BernoulliFamily,
    CategoricalFamily,
    ColumnsFamily,
    DiagonalFamily,
    FullFamily,
    MultinomialFamily,
    NegativeBinomialFamily,
    PoissonFamily,
    TiedFamily,
    VonMisesFisherFamily,
)


_GAUSSIANS: dict[str, type] = {
    "full": FullFamily,
    "tied": TiedFamily,
    "diag": DiagonalFamily,
    "spherical": DiagonalFamily,
}


def is_of_emission(fitted: Any) -> str | None:
    """Check that the valid family of a fitted mixture belongs to its emission, and to the columns of its table.

    Parameters
    ----------
    fitted : estimator instance
        With ``emission_`` and ``_family``, and with ``_layout`` if the emission is `Columns`.

    Returns
    -------
    reason : str or None
        What is wrong; None if they agree.
    """
    emission, family, layout = fitted.emission_, fitted._family, vars(fitted).get("_layout")
    if not isinstance(emission, Columns):
        return "has the layout of a table" if layout is not None else _is_of(emission, family, fitted)
    if layout is None or not isinstance(family, ColumnsFamily):
        return "has a family that is not that of its emission"
    try:
        check_blocks(emission.blocks)
    except (TypeError, ValueError) as error:
        return f"has wrong blocks: {error}"
    names = [name for name, *_ in emission.blocks]
    if names != family.names.tolist() or len(names) != len(layout.places):
        return "has blocks of other names"
    if not all(map(np.array_equal, family.places, layout.places)):
        return "has blocks of other columns"
    for (_, block, _), part, place, reader in zip(
        emission.blocks, family.blocks, layout.places, layout.readers, strict=True
    ):
        if problem := _is_of(block, part, reader):
            return problem
        if any((layout.kinds[column] == "category") != block.has_codes for column in place):
            return "has columns whose kind is not that of their emission"
        if block.has_codes and [len(layout.categories[column]) for column in place] != reader.n_categories_.tolist():
            return "has columns with other numbers of categories"
    return None


def _is_of(emission: BaseEmission, family: Any, reader: Any) -> str | None:
    expected = ROW_FAMILIES[emission.short_name]
    if isinstance(emission, Gaussian):
        expected = _GAUSSIANS[emission.covariance_type]
    if type(family) is not expected:
        return "has a family that is not that of its emission"
    if isinstance(family, CategoricalFamily):
        known = vars(reader).get("n_categories_")
        if known is None or not np.array_equal(known, np.diff(family.column_start)):
            return "has other numbers of categories than its family"
    return None


def are_of_family(family: Any, parameters: Any) -> str | None:
    """Check that valid parameters belong to a family.

    Parameters
    ----------
    family : Family
        One of the library's families.
    parameters : NamedTuple
        Parameters whose fields have been checked.

    Returns
    -------
    reason : str or None
        What is wrong; None if the parameters are valid for the family.
    """
    if isinstance(family, ColumnsFamily):
        if not isinstance(parameters, ColumnParameters) or len(parameters.blocks) != len(family.blocks):
            return "has parameters that are not of its family"
        return next(filter(None, map(are_of_family, family.blocks, parameters.blocks)), None)
    if isinstance(family, TiedFamily):
        return None if isinstance(parameters, TiedParameters) else "has parameters that are not of its family"
    if isinstance(family, GaussianFamily):
        ndim = 3 if isinstance(family, FullFamily) else 2
        if isinstance(parameters, GaussianParameters) and parameters.factors.ndim == ndim:
            return None
        return "has parameters that are not of its family"
    if isinstance(family, VonMisesFisherFamily):
        shape = family.n_features, family.n_components
        is_own = isinstance(parameters, VonMisesFisherParameters) and parameters.directions.shape == shape
        return None if is_own else "has parameters that are not of its family"
    expected = NegativeBinomialParameters if isinstance(family, NegativeBinomialFamily) else LinearParameters
    if not isinstance(parameters, expected):
        return "has parameters that are not of its family"
    return parameters_agree(family, parameters)
