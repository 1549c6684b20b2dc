"""What the fitted attributes of Dirichlet process mixtures must satisfy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...emissions import BaseEmission
from ...emissions._bernoulli import BernoulliFamily
from ...emissions._categorical import CategoricalFamily
from ...emissions._clusters.categories.clusters import CategoryCounts
from ...emissions._clusters.statistics import n_used, shapes_of
from ...emissions._columns.family import ColumnsFamily
from ...emissions._columns.layout import ColumnLayout
from ...emissions._linear import LinearFamily
from ...emissions._multinomial import MultinomialFamily
from ...emissions._registry import FAMILY
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
from ...utils._declared import Class, Held, Settings, holds
from .posterior_draws import ParameterDraw, PartitionDraw, with_new
from .stochastic_slice import Blocks, StochasticSliceState
from .stream import MOST_COMPONENTS, MixtureStream, state_of_blocks

_OF_DRAWS = "n_chains", "n_component_draws"
_TOLERANCE = 1e-6
_OF_CATEGORIES = MultinomialFamily, CategoricalFamily


def _family(value: Any, where: str, sizes: Sizes) -> None:
    """A family; if it is one of categories, it determines their number in draws and states of chains."""
    FAMILY(value, where, sizes)
    if isinstance(value, _OF_CATEGORIES):
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


def _agree(is_of_emission: Callable[[Any], str | None], mixture: Any, sizes: Sizes) -> str | None:
    learned, stream = vars(mixture), mixture._stream
    if mixture._family.n_features != sizes["n_features"]:
        return "has a family of other features"
    if problem := is_of_emission(mixture):
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
    return None if _are_means(family, means) else "has statistics without a posterior"


def _parameters_agree(family: Any, draw: ParameterDraw) -> str | None:
    if not isinstance(family, _OF_CATEGORIES):
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


def _are_means(family: Any, attributes: dict[str, Any]) -> bool:
    """Whether posterior means of components, by their names, are possible for a family."""
    if isinstance(family, ColumnsFamily):
        blocks = zip(family.names.tolist(), family.blocks, strict=True)
        return all(_are_means(block, attributes[name]) for name, block in blocks)
    low = 0.0 if isinstance(family, LinearFamily) else -np.inf
    high = 1.0 if isinstance(family, BernoulliFamily) else np.inf
    for values in attributes.values():
        for part in values if isinstance(values, list) else [values]:
            with np.errstate(over="ignore"):
                squares = np.square(part, dtype=np.float64)  # of which second moments are sums
            if not (np.isfinite(squares).all() and np.all((low <= part) & (part <= high))):
                return False
    return True


def fitted_mixture(is_of_emission: Callable[[Any], str | None]) -> Callable[[Class], Class]:
    """Declare the fitted attributes of a mixture; `is_of_emission` returns why the family is not of the emission."""
    return holds(
        partial(_agree, is_of_emission),
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
