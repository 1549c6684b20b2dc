"""What the fitted attributes of `DPMixture` must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions import BaseEmission
from ...emissions._base import FAMILY
from ...emissions._clusters.statistics import shapes_of
from ...emissions._columns.layout import ColumnLayout
from ...inference._draw_conditions import traces, whole_draws_agree
from ...samplers import BaseSampler
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...utils._conditions import Array, Counted, Lacking, ListOf, Names, Real, Sizes, index, key
from ...utils._declared import Held, Settings, holds
from .posterior_draws import PartitionDraw, with_new

MOST_COMPONENTS = 1 << 24  # in one draw
_OF_DRAWS = "n_chains", "n_component_draws"
_TOLERANCE = 1e-6


def _agree(mixture: Any, sizes: Sizes) -> str | None:
    if mixture._family.n_features != sizes["n_features"]:
        return "has a family of other features"
    if problem := mixture.emission_.disagrees(mixture._family, mixture):
        return problem
    clusters = mixture._family.clusters()
    for draw in (mixture._summary, *mixture._draws):
        expected = clusters.no_statistics(len(draw.statistics.sizes))
        if shapes_of(draw.statistics) != shapes_of(expected):
            return "has statistics that are not those of its family"
        try:
            with np.errstate(all="ignore"):
                means = clusters.cell_attributes(with_new(draw.statistics))
        except ValueError as error:  # of singular covariances
            return f"has statistics without a posterior: {error}"
        if not clusters.are_means(means):
            return "has statistics without a posterior"
    if len(mixture._summary.statistics.sizes) != sizes["n_components"]:
        return "has another number of components"
    return whole_draws_agree(mixture, has_best=False)


fitted_mixture = holds(
    _agree,
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    _family=FAMILY,
    _layout=Lacking(Held(ColumnLayout)),
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
    _draws=ListOf(Held(PartitionDraw)),
    concentration_=Real(above=0, high=MOST_CONCENTRATED),
    labels_=index("n_rows", below="n_components"),
    typical_rows_=Lacking(index("n_components", below="n_rows")),  # not known before the end of a fit
    n_categories_=Lacking(Array("int64", ("n_features",), low=1)),
    emission_=Settings(BaseEmission),
    sampler_=Settings(BaseSampler),
    _key=key,
)
