"""What the fitted attributes of `ExponentialFamilyMixture` must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._base import FAMILY, BaseEmission
from ...emissions._columns.layout import ColumnLayout
from ...inference._draw_conditions import traces, whole_draws_agree
from ...numerics.block_sums import BlockSums
from ...samplers import BaseSampler
from ...utils._conditions import (
    FLAG,
    MOST_COUNTED,
    Array,
    Counted,
    Either,
    Lacking,
    ListOf,
    Names,
    Real,
    Sizes,
    Whole,
    index,
    key,
    placed,
)
from ...utils._declared import Held, Settings, holds
from .._memberships.finite import Position
from .._prior import side_by_side


def _agree(mixture: Any, sizes: Sizes) -> str | None:
    family = mixture._family
    if family.n_features != sizes["n_features"]:
        return "has a family of other features"
    drawn = {f"_draws[{i}]": position for i, position in enumerate(mixture._draws)}
    for name, position in {"_position": mixture._position, **drawn}.items():
        with placed(name):
            family.check_parameters(position.parameters)
    attributes = {**family.attributes(mixture._position.parameters), "weights_": mixture._position.weights}
    for name, value in attributes.items():
        if not _are_equal(value, vars(mixture).get(name)):
            return f"has {name} that are not those of its estimate"
    if [array.shape for array in mixture._sums.total()] != list(family.shapes()):
        return "has sums that are not those of its family"
    if mixture._sums.total()[0].min() < 0:
        return "has a component of a negative size"
    draws = vars(mixture).get("_posterior", {}).get("components")
    if draws is not None and draws.size:
        if draws.shape[-1] != side_by_side(mixture.components_).shape[1]:
            return "has draws of other components"
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(mixture._scale_of_components(draws)(draws)).sum()):
                return "has draws of components too far from its estimate"
    return mixture.emission_.disagrees(family, mixture) or whole_draws_agree(mixture)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two arrays, or two lists of arrays, are equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(np.array_equal, one, other))
    return np.array_equal(one, other)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


fitted_mixture = holds(
    _agree,
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    weights_=Array("float64", ("n_components",), low=0, sums_to_one=0),
    _family=FAMILY,
    _layout=Lacking(Held(ColumnLayout)),
    components_=Either(
        _is_list,
        ListOf(Array("float64", ("n_components", None)), size="n_features"),
        Array("float64", ("n_components", "n_features")),
    ),
    n_categories_=Lacking(Array("int64", ("n_features",), low=1)),
    covariances_=Lacking(Array("float64", None)),
    mean_directions_=Lacking(Array("float64", ("n_components", "n_features"), unit=1)),
    concentrations_=Lacking(Array("float64", ("n_components",), low=0, high=MOST_COUNTED)),
    dispersions_=Lacking(Array("float64", ("n_features",), above=0)),
    **traces(
        "log_likelihood",
        weights=Array("float64", ("n_chains", "n_draws", "n_components"), low=0, sums_to_one=-1),
        components=Array("float64", ("n_chains", "n_component_draws", "n_components", None)),
        covariances=Array("float64", None),
        dispersions=Array("float64", ("n_chains", "n_component_draws", "n_features"), above=0),
        mean_directions=Array("float64", ("n_chains", "n_component_draws", "n_components", "n_features"), unit=-1),
        concentrations=Array("float64", ("n_chains", "n_component_draws", "n_components"), low=0, high=MOST_COUNTED),
        labels=Array("int32", ("n_chains", "n_component_draws", None), low=0),
    ),
    _position=Held(Position),
    best_chain_=Lacking(Whole(below="n_chains")),
    _sums=Held(BlockSums),
    converged_=Lacking(FLAG),
    _draws=ListOf(Held(Position)),
    _n_summed_rows=Real(above=0),
    _key=key,
    emission_=Settings(BaseEmission),
    sampler_=Settings(BaseSampler),
    n_batch_iter_=Whole(),
    labels_=Lacking(index("n_rows", below="n_components")),
    typical_rows_=Lacking(Array("int64", ("n_components",), low=-1)),
)
