"""What the fitted attributes of Dirichlet process mixtures must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions import BaseEmission
from ...emissions._base import FAMILY
from ...emissions._categories.family import CategoryCounts, CategoryFamily
from ...emissions._clusters.statistics import n_used, shapes_of
from ...emissions._columns.layout import ColumnLayout
from ...inference._draw_conditions import traces, whole_draws_agree
from ...samplers import BaseSampler
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...samplers._state_conditions import is_of
from ...utils._conditions import (
    FLAG,
    Array,
    Counted,
    Lacking,
    ListOf,
    Names,
    OrNone,
    Real,
    Sizes,
    Whole,
    index,
    key,
)
from ...utils._declared import Held, Settings, holds
from .._memberships.process import ParameterDraw, PartitionDraw, with_new
from .stochastic_slice import Blocks, StochasticSliceState
from .stream import MOST_COMPONENTS, MixtureStream, state_of_blocks

_OF_DRAWS = "n_chains", "n_component_draws"
_TOLERANCE = 1e-6


def _family(value: Any, where: str, sizes: Sizes) -> None:
    """A family; if it is one of categories, it determines their number in draws and states of chains."""
    FAMILY(value, where, sizes)
    if isinstance(value, CategoryFamily):
        sizes["n_categories"] = value.n_statistics


def _state(value: Any, where: str, sizes: Sizes) -> None:
    """Of a fit: labels of all rows, counts of them, and as many blocks as labels reach."""
    counts = getattr(value, "statistics", None)
    if isinstance(counts, CategoryCounts) and np.any(counts.sizes):
        sizes["n_clusters"] = n_used(counts)
    _STATE(value, where, sizes)


_STATE = state_of_blocks(
    StochasticSliceState,
    statistics=Held(CategoryCounts),
    latents=index("n_rows", below="n_clusters", dtype="int32"),
)


def _agree(mixture: Any, sizes: Sizes) -> str | None:
    learned, stream = vars(mixture), mixture._stream
    if mixture._family.n_features != sizes["n_features"]:
        return "has a family of other features"
    if problem := mixture._fitted_emission.disagrees(mixture._family, mixture):
        return problem
    if stream is None and not ({"_posterior", "labels_"} <= learned.keys() and learned.get("_draws")):
        return "has no draws"
    draws = mixture._draws if stream is None else [*stream.predictive_draws(), *stream._last]
    states = (learned.get("_states") or []) if stream is None else stream.states
    for draw in (mixture._summary, *draws):
        agree = _partition_agrees if isinstance(draw, PartitionDraw) else _parameters_agree
        if problem := agree(mixture._family, draw):
            return problem
    if not all(_matches_samplers(mixture, state.position) for state in states):
        return "has states that are not of its sampler"
    if len(mixture._summary.statistics.sizes) != sizes["n_components"]:
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


fitted_mixture = holds(
    _agree,
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    _family=_family,
    _layout=Lacking(Held(ColumnLayout)),
    _fitted_on_sparse=FLAG,
    n_components_=Counted("n_components"),
    _summary=Held(PartitionDraw),
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
    labels_=Lacking(index("n_rows", below="n_components")),
    typical_rows_=Lacking(index("n_components", below="n_rows")),  # not known before the end of a fit
    n_categories_=Lacking(Array("int64", ("n_features",), low=1)),
    emission_=Settings(BaseEmission),
    sampler_=Settings(BaseSampler),
    n_batch_iter_=Whole(),
    _key=key,
)
