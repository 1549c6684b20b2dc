"""Conditions that the fitted attributes of the spherical admixtures must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inference._draw_conditions import traces, whole_draws_agree
from ...samplers import BaseSampler
from ...utils._conditions import Array, Condition, Counted, Either, Lacking, Names, OrNone, Real, Sizes, Whole, key
from ...utils._declared import Held, Settings, holds
from .._tokens.sampler_types import is_variational
from .fit_strategies import FactorStream
from .model import MOST_CONCENTRATED
from .setup import PRIOR, Setup
from .streams import SphericalStream

_CONCENTRATION = Real(low=0, high=MOST_CONCENTRATED)
_OF_DRAWS = "n_chains", "n_draws"
_NUMBERS = Array("float64", _OF_DRAWS, nan=True, infinite=True)
_NAMED: dict[str, Condition] = {
    "n_features_in_": Counted("n_features", low=2),
    "feature_names_in_": Lacking(Names("n_features")),
}
_TOPICS: dict[str, Condition] = {
    "doc_topic_prior_": PRIOR,
    "components_": Array("float64", ("n_components", "n_features"), unit=1),
    "resultant_lengths_": Array("float64", ("n_components",), low=0, high=1 + 1e-6),
    "document_concentration_": Either(
        lambda value: isinstance(value, np.ndarray),
        Array("float64", ("n_components",), above=0, high=MOST_CONCENTRATED),
        _CONCENTRATION,
    ),
    "sampler_": Settings(BaseSampler),
    "_key": key,
}


def _agree(admixture: Any, sizes: Sizes) -> str | None:
    stream = admixture._stream
    variational = is_variational(admixture.sampler_)
    if variational != isinstance(stream, FactorStream) and (variational or stream is not None):
        return "has a stream of another sampler"
    if isinstance(stream, SphericalStream) and stream.kind is not type(admixture.sampler_):
        return "has a stream of another sampler"
    return whole_draws_agree(admixture)


fitted_topics = holds(
    _agree,
    **_NAMED,
    **_TOPICS,
    topic_concentration_=_CONCENTRATION,
    mean_concentration_=_CONCENTRATION,
    mean_direction_=Array("float64", ("n_features",), unit=0),
    topic_scale_=Lacking(Array("float64", ("n_components",), above=0)),
    **traces(
        "log_likelihood",
        "objective",
        topic_weights=Array("float64", (*_OF_DRAWS, "n_components"), low=0, sums_to_one=-1),
        temperature=_NUMBERS,
        document_concentration=Array("float64", _OF_DRAWS, low=0),
        topic_concentration=Array("float64", _OF_DRAWS, low=0),
        mean_concentration=Array("float64", _OF_DRAWS, low=0),
        components=Array("float64", ("n_chains", "n_component_draws", "n_components", "n_features"), unit=-1),
        doc_topic=Array("float64", ("n_chains", "n_component_draws", None, "n_components"), low=0, high=1, nan=True),
    ),
    _stream=OrNone(Held(FactorStream, SphericalStream)),
    best_chain_=Whole(below="n_chains"),
    _setup=Held(Setup),
    n_batch_iter_=Whole(),
)


def _orthogonal_agree(admixture: Any, sizes: Sizes) -> str | None:
    components = vars(admixture).get("_posterior", {}).get("components")
    if components is not None and components.size:
        lengths = np.square(components).sum(axis=-1)  # NaN where a draw has fewer topics
        rows = ~np.isnan(components).any(axis=-1)
        if not np.allclose(lengths[rows], 1.0, rtol=0.0, atol=1e-3) or not rows[..., 0].all():
            return "has draws of topics that are not of length one"
        if (rows[..., 1:] & ~rows[..., :-1]).any() or np.isnan(components).any(axis=-1).sum() != np.isnan(
            components
        ).all(axis=-1).sum():
            return "has draws of topics with gaps"
    return whole_draws_agree(admixture)


fitted_orthogonal_topics = holds(
    _orthogonal_agree,
    **_NAMED,
    **_TOPICS,
    n_components_=Counted("n_components"),
    n_components_posterior_=Array("float64", (None,), low=0, sums_to_one=0),
    **traces(
        "log_likelihood",
        topic_weights=Array("float64", (*_OF_DRAWS, None), low=0, high=1 + 1e-6, nan=True),
        temperature=_NUMBERS,
        document_concentration=Array("float64", _OF_DRAWS, low=0),
        n_components=Array("int64", _OF_DRAWS, low=1),
        components=Array("float64", ("n_chains", "n_component_draws", None, "n_features"), nan=True),
        doc_topic=Array("float64", ("n_chains", "n_component_draws", None, None), low=0, high=1, nan=True),
    ),
    best_chain_=Whole(below="n_chains"),
)
