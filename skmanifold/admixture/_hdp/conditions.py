"""Conditions that the fitted attributes of `HDPAdmixture` must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inference._draw_conditions import traces, whole_draws_agree
from ...samplers import BaseSampler
from ...topics.topic_word import TopicWord
from ...utils._conditions import Array, Counted, Lacking, Names, Real, Sizes, Whole, key
from ...utils._declared import Held, Settings, holds
from .._tokens.topic_counts import TopicCounts, topic_word_prior

_OF_DRAWS = "n_chains", "n_draws"
_NUMBERS = Array("float64", _OF_DRAWS, low=0)


def _agree(hdp: Any, sizes: Sizes) -> str | None:
    posterior = hdp._posterior
    in_use = ~np.isnan(posterior["topic_ids"])
    if (in_use[..., 1:] & ~in_use[..., :-1]).any() or (in_use.sum(axis=-1) != posterior["n_components"]).any():
        return "has draws of topics with gaps"
    if (in_use != ~np.isnan(posterior["topic_weights"])).any():
        return "has draws of topics without weights"
    if "components" in posterior:
        drawn = ~np.isnan(posterior["components"])
        n_drawn = drawn.all(axis=-1).sum(axis=-1)
        complete = posterior["n_components"][:, hdp._component_draws]
        if drawn.any(axis=-1).sum() != n_drawn.sum() or (n_drawn != complete).any():
            return "has draws of topics with gaps"
    return whole_draws_agree(hdp)


fitted_hdp = holds(
    _agree,
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    n_components_=Counted("n_components"),
    topic_ids_=Array("int64", ("n_components",), low=0),
    topic_weights_=Array("float64", ("n_components",), above=0, high=1),
    doc_topic_prior_=Array("float64", ("n_components",), above=0),
    topic_word_prior_=topic_word_prior,
    concentration_=Real(above=0),
    topic_concentration_=Real(above=0),
    **traces(
        "log_likelihood",
        needed=("n_components",),
        n_components=Array("int64", _OF_DRAWS, low=1),
        concentration=_NUMBERS,
        topic_concentration=_NUMBERS,
        topic_weights=Array("float64", (*_OF_DRAWS, None), low=0, high=1, nan=True),
        topic_ids=Array("float64", (*_OF_DRAWS, None), low=0, nan=True),
        components=Array("float32", ("n_chains", "n_component_draws", None, "n_features"), low=0, high=1, nan=True),
        doc_topic_counts=Array("float64 int64", ("n_chains", "n_component_draws", None, None), low=0, nan=True),
    ),
    _topic_counts=Held(TopicCounts),
    _estimate=Held(TopicWord),
    best_chain_=Whole(below="n_chains"),
    sampler_=Settings(BaseSampler),
    _n_counted_rows=Whole(low=1),
    _key=key,
)
