"""What the fitted attributes of `SubspaceMixture` must satisfy."""

from __future__ import annotations

from itertools import chain
from typing import Any

from ...inference._draw_conditions import traces
from ...samplers import BaseSampler
from ...utils._conditions import Array, Counted, Lacking, ListOf, Names, Sizes, Whole, index
from ...utils._declared import Held, Settings, holds
from .._memberships.finite import Position
from .family import MOST, SubspaceFamily, Subspaces, are_orthonormal

_PER_COMPONENT = "n_components", "n_features"


def _agree(mixture: Any, sizes: Sizes) -> str | None:
    if not mixture._draws:
        return "has no draws"
    if "log_likelihood" not in mixture._posterior:
        return "lacks the log likelihood of its draws"
    if any(len(draws) != len(mixture._whole_draws) for draws in mixture._chains):
        return "has chains of different lengths"
    for draw in (*mixture._draws, *chain.from_iterable(mixture._chains)):
        Held(Subspaces)(draw.parameters, "a draw", sizes)
    for dimension, basis in zip(mixture.dimensions_, mixture.bases_, strict=True):
        if len(basis) != dimension:
            return "has bases of other dimensions than dimensions_"
        if not are_orthonormal(basis):
            return "has a basis that is not orthonormal"
    return None


fitted_mixture = holds(
    _agree,
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    means_=Array("float64", _PER_COMPONENT, low=-MOST, high=MOST),
    weights_=Array("float64", ("n_components",), low=0, sums_to_one=0),
    **traces("log_likelihood"),
    best_chain_=Whole(below="n_chains"),
    _draws=ListOf(Held(Position)),
    _chains=ListOf(ListOf(Held(Position)), "n_chains"),
    _whole_draws=index("n_whole", below="n_draws"),
    dimension_posterior_=Array("float64", ("n_components", None), low=0, sums_to_one=1),
    dimensions_=Array("int64", ("n_components",), low=0),
    bases_=ListOf(Array("float64", (None, "n_features")), "n_components"),
    noise_variance_=Array("float64", ("n_components",), above=0),
    centre_prior_mean_=Array("float64", ("n_features",), low=-MOST, high=MOST),
    _family=Held(SubspaceFamily),
    _stored_labels=Lacking(Array("int32", ("n_chains", "n_whole", None), low=0, below="n_components")),
    labels_=index("n_rows", below="n_components"),
    sampler_=Settings(BaseSampler),
)
