"""What the fitted attributes of mixtures of the rows of an emission must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..emissions import BaseEmission
from ..emissions._categories.family import CategoryFamily
from ..emissions._columns.layout import ColumnLayout
from ..emissions._family import FAMILY
from ..emissions._statistics import n_used, shapes_of
from ..inference._draw_conditions import traces, whole_draws_agree
from ..numerics.block_sums import BlockSums
from ..samplers import BaseSampler
from ..samplers._latent.stick_breaking import MOST_CONCENTRATED
from ..samplers._state_conditions import is_of
from ..utils._conditions import (
    FLAG,
    MOST_COUNTED,
    Array,
    Condition,
    Counted,
    Lacking,
    ListOf,
    Names,
    OrNone,
    Real,
    Sizes,
    Whole,
    anything,
    index,
    key,
    placed,
)
from ..utils._declared import Held, Settings, holds
from ._dirichlet_process.stochastic_slice import Blocks, StochasticSliceState
from ._dirichlet_process.stream import MOST_COMPONENTS, MixtureStream, state_of_blocks
from ._memberships.finite import Position
from ._memberships.process import ParameterDraw, PartitionDraw, with_new
from ._prior import side_by_side

_OF_DRAWS = "n_chains", "n_component_draws"
OF_FAMILY = "components_", "covariances_", "mean_directions_", "concentrations_", "dispersions_"
_TOLERANCE = 1e-6


def _family(value: Any, where: str, sizes: Sizes) -> None:
    """A family; if it is one of categories, it determines their number in draws and states of chains."""
    FAMILY(value, where, sizes)
    if isinstance(value, CategoryFamily):
        sizes["n_categories"] = value.n_statistics


def _fitted(agree: Any, **conditions: Condition) -> Any:
    """The declaration of a mixture; `conditions` determine the number of components."""
    return holds(
        agree,
        n_features_in_=Counted("n_features"),
        feature_names_in_=Lacking(Names("n_features")),
        _family=_family,
        _layout=Lacking(Held(ColumnLayout)),
        n_categories_=Lacking(Array("int64", ("n_features",), low=1)),
        **conditions,
        labels_=Lacking(index("n_rows", below="n_components")),
        emission_=Settings(BaseEmission),
        sampler_=Settings(BaseSampler),
        n_batch_iter_=Whole(),
        _key=key,
    )


def _emission_disagrees(mixture: Any, sizes: Sizes) -> str | None:
    if mixture._family.n_features != sizes["n_features"]:
        return "has a family of other features"
    return mixture._fitted_emission.disagrees(mixture._family, mixture)


# A fixed number of components


def _finite_agrees(mixture: Any, sizes: Sizes) -> str | None:
    if problem := _emission_disagrees(mixture, sizes):
        return problem
    family, estimate, learned = mixture._family, mixture._estimate, vars(mixture)
    drawn = {f"_draws[{i}]": position for i, position in enumerate(mixture._draws)}
    for name, position in {"_estimate": estimate, **drawn}.items():
        with placed(name):
            family.check_parameters(position.parameters)
    attributes = {**family.attributes(estimate.parameters), "weights_": estimate.weights}
    for name in {*attributes, *(learned.keys() & OF_FAMILY)}:
        if not _are_equal(attributes.get(name), learned.get(name)):
            return f"has {name} that are not those of its estimate"
    if [array.shape for array in mixture._sums.total()] != list(family.shapes()):
        return "has sums that are not those of its family"
    if mixture._sums.total()[0].min() < 0:
        return "has a component of a negative size"
    draws = learned.get("_posterior", {}).get("components")
    if draws is not None and draws.size:
        if draws.shape[-1] != side_by_side(mixture.components_).shape[1]:
            return "has draws of other components"
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(mixture._scale_of_components(draws)(draws)).sum()):
                return "has draws of components too far from its estimate"
    return whole_draws_agree(mixture)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two arrays, or two lists of arrays, are equal."""
    return type(one) is type(other) and len(one) == len(other) and all(map(np.array_equal, one, other))


finite_mixture = _fitted(
    _finite_agrees,
    weights_=Array("float64", ("n_components",), low=0, sums_to_one=0),
    **dict.fromkeys(OF_FAMILY, Lacking(anything)),
    **traces(
        "log_likelihood",
        weights=Array("float64", ("n_chains", "n_draws", "n_components"), low=0, sums_to_one=-1),
        components=Array("float64", (*_OF_DRAWS, "n_components", None)),
        covariances=Array("float64", None),
        dispersions=Array("float64", (*_OF_DRAWS, "n_features"), above=0),
        mean_directions=Array("float64", (*_OF_DRAWS, "n_components", "n_features"), unit=-1),
        concentrations=Array("float64", (*_OF_DRAWS, "n_components"), low=0, high=MOST_COUNTED),
        labels=Array("int32", (*_OF_DRAWS, None), low=0),
    ),
    _estimate=Held(Position),
    best_chain_=Lacking(Whole(below="n_chains")),
    _sums=Held(BlockSums),
    converged_=Lacking(FLAG),
    _draws=ListOf(Held(Position)),
    _n_summed_rows=Real(above=0),
    typical_rows_=Lacking(Array("int64", ("n_components",), low=-1)),
)


# A Dirichlet process


def _process_agrees(mixture: Any, sizes: Sizes) -> str | None:
    if problem := _emission_disagrees(mixture, sizes):
        return problem
    learned, stream = vars(mixture), mixture._stream
    if stream is None and not ({"_posterior", "labels_"} <= learned.keys() and learned.get("_draws")):
        return "has no draws"
    draws = mixture._draws if stream is None else [*stream.predictive_draws(), *stream._last]
    states = (learned.get("_states") or []) if stream is None else stream.states
    for draw in (mixture._estimate, *draws):
        agree = _partition_agrees if isinstance(draw, PartitionDraw) else _parameters_agree
        if problem := agree(mixture._family, draw):
            return problem
    if not all(_matches_samplers(mixture, state.position) for state in states):
        return "has states that are not of its sampler"
    if len(mixture._estimate.statistics.sizes) != sizes["n_components"]:
        return "has another number of components"
    return whole_draws_agree(mixture, has_best=False)


def _partition_agrees(family: Any, draw: PartitionDraw) -> str | None:
    clusters = family.clusters()
    if shapes_of(draw.statistics) != shapes_of(clusters.no_statistics(len(draw.statistics.sizes))):
        return "has statistics that are not those of its family"
    try:
        with np.errstate(all="ignore"):
            means = clusters.cell_attributes(with_new(draw.statistics))
    except ValueError as error:  # of singular covariances
        return f"has statistics without a posterior: {error}"
    return None if clusters.are_means(means) else "has statistics without a posterior"


def _parameters_agree(family: Any, draw: ParameterDraw) -> str | None:
    if not isinstance(family, CategoryFamily):
        return "has draws that are not those of its family"
    start = family.clusters().data.column_start
    sums = np.add.reduceat(np.exp(draw.components), start[:-1], axis=0)
    is_right = draw.components.shape[0] == start[-1] and np.allclose(sums, 1.0, rtol=0.0, atol=_TOLERANCE)
    return None if is_right else "has draws of components that do not sum to one"


def _matches_samplers(mixture: Any, blocks: Blocks) -> bool:
    """Whether the states of the blocks belong to the samplers of the mixture, as far as it stores them."""
    kind, weights = type(mixture.sampler_), mixture.weights_sampler
    if not is_of(kind, blocks.components):
        return False
    of_sticks = type(weights)
    if weights is None or isinstance(weights, str):
        of_sticks = kind if weights is None else mixture._samplers.get(weights, BaseSampler)
    return is_of(of_sticks, blocks.sticks)


# Labels of all rows, and as many blocks as these reach
_state = state_of_blocks(StochasticSliceState, n_used, latents=index("n_rows", below="n_clusters", dtype="int32"))

process_mixture = _fitted(
    _process_agrees,
    _fitted_on_sparse=FLAG,
    n_components_=Counted("n_components"),
    _estimate=Held(PartitionDraw),
    **traces(
        "log_joint",
        needed=("n_components",),
        n_components=Array("int64", ("n_chains", "n_draws"), low=0, below=MOST_COMPONENTS),
        concentration=Array("float64", ("n_chains", "n_draws"), above=0),
        weights=Array("float64", (*_OF_DRAWS, "n_padded"), low=0, high=1 + _TOLERANCE, nan=True),
        components=Array("float64", (*_OF_DRAWS, "n_padded", None), nan=True),
        covariances=Array("float64", None, nan=True),
        concentrations=Array("float64", (*_OF_DRAWS, "n_padded"), nan=True),
        labels=Array("int32", (*_OF_DRAWS, "n_rows"), low=0, below=MOST_COMPONENTS),
    ),
    _stream=OrNone(Held(MixtureStream)),
    _draws=Lacking(ListOf(Held(PartitionDraw, ParameterDraw))),
    _states=Lacking(OrNone(ListOf(_state))),
    concentration_=Real(above=0, high=MOST_CONCENTRATED),
    typical_rows_=Lacking(index("n_components", below="n_rows")),  # not known before the end of a fit
)
