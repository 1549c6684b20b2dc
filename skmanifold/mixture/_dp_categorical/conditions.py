"""What the fitted attributes of `DPCategoricalMixture` must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions import BaseEmission
from ...emissions._categories.family import CategoryCounts
from ...emissions._clusters.statistics import n_used
from ...inference._draw_conditions import traces, whole_draws_agree
from ...samplers import BaseSampler
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...samplers._state_conditions import is_of
from ...utils._conditions import (
    FLAG,
    MOST_COUNTED,
    Array,
    Counted,
    Lacking,
    ListOf,
    Names,
    OneOf,
    OrNone,
    Pointer,
    Real,
    Sizes,
    Whole,
    index,
    key,
)
from ...utils._declared import Held, Settings, holds
from .._dirichlet_process.posterior_draws import ParameterDraw, PartitionDraw
from .stochastic_slice import Blocks, StochasticSliceState
from .stream import MOST_COMPONENTS, MixtureStream, state_of_blocks

_OF_DRAWS = "n_chains", "n_component_draws"
_TOLERANCE = 1e-6


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
    start, counts = mixture._column_start, mixture._emission == "multinomial"
    if (np.diff(start) < 1).any():
        return "has a column without categories"
    if sizes["n_features"] != (sizes["n_categories"] if counts else len(start) - 1):
        return "has other columns than features"
    if counts and ("_row_totals" not in vars(mixture) or "_fitted_on_sparse" not in vars(mixture)):
        return "lacks the lengths of rows"
    if not counts and not np.array_equal(np.diff(start), getattr(mixture, "n_categories_", ())):
        return "has other numbers of categories than columns"
    stream = mixture._stream
    if stream is None and (not vars(mixture).get("_draws") or "_posterior" not in vars(mixture)):
        return "has no draws"
    states = (vars(mixture).get("_states") or []) if stream is None else stream.states
    if not all(_matches_samplers(mixture, state.position) for state in states):
        return "has states that are not of its sampler"
    if counts and not len(mixture._row_totals):
        return "lacks the lengths of rows"
    draws = mixture._draws if stream is None else [*stream.predictive_draws(), *stream._last]
    for draw in draws:
        if isinstance(draw, ParameterDraw):
            sums = np.add.reduceat(np.exp(draw.components), start[:-1], axis=0)
            if not np.allclose(sums, 1.0, rtol=0.0, atol=_TOLERANCE):
                return "has draws of components that do not sum to one"
    return whole_draws_agree(mixture, has_best=False)


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
    _column_start=Pointer("n_columns", "n_categories"),
    _emission=OneOf(("multinomial", "categorical")),
    _category_prior=Real(above=0, high=MOST_COUNTED),
    _summary=Held(PartitionDraw),
    n_components_=Counted("n_components"),
    **traces(
        "log_joint",
        needed=("n_components",),
        n_components=Array("int64", ("n_chains", "n_draws"), low=0, below=MOST_COMPONENTS),
        concentration=Array("float64", ("n_chains", "n_draws"), above=0),
        weights=Array("float64", (*_OF_DRAWS, "n_padded"), low=0, high=1 + _TOLERANCE, nan=True),
        components=Array("float64", (*_OF_DRAWS, "n_padded", "n_categories"), low=0, high=1 + _TOLERANCE, nan=True),
        labels=Array("int32", (*_OF_DRAWS, "n_rows"), low=0, below=MOST_COMPONENTS),
    ),
    _stream=OrNone(Held(MixtureStream)),
    _draws=Lacking(ListOf(Held(PartitionDraw, ParameterDraw))),
    _states=Lacking(OrNone(ListOf(_state))),
    concentration_=Real(above=0, high=MOST_CONCENTRATED),
    labels_=Lacking(index("n_rows", below="n_components")),
    typical_rows_=Lacking(index("n_components", below="n_rows")),
    n_categories_=Lacking(Array("int64", ("n_columns",), low=1)),
    _row_totals=Lacking(Array("int64", ("n_fitted_rows",), low=0)),
    _fitted_on_sparse=Lacking(FLAG),
    emission_=Lacking(Settings(BaseEmission)),  # given as an instance
    sampler_=Settings(BaseSampler),
    n_batch_iter_=Whole(),
    _key=key,
)
