"""Conditions that the fitted attributes of `StochasticLDA` must satisfy."""

from __future__ import annotations

from typing import Any

from ...inference._draw_conditions import whole_draws_agree
from ...samplers import BaseSampler
from ...topics.topic_word import TopicWord
from ...utils._conditions import Array, Counted, Lacking, Names, OrNone, Sizes, Whole, key
from ...utils._declared import Held, Settings, holds
from .._posterior.draw_conditions import topic_traces
from .._tokens.seeds import Seeds
from .._tokens.topic_counts import TopicCounts, topic_word_prior
from .minibatch_passes import TopicStream


def _agree(lda: Any, sizes: Sizes) -> str | None:
    stream = lda._stream
    if lda._estimate is None and stream is None:
        return "has no topics"
    if (lda._topic_counts is None) != (stream is not None):
        return "has both counts of topics and draws of a stream, or neither"
    if stream is not None and stream.kind is not type(lda.sampler_):
        return "has a stream of another sampler"
    lazy = stream is not None and any(state.position is None for state in stream.states)
    if lazy and lda._estimate is None and stream.row_prior is None:
        return "lacks the prior of its stream"
    if lda._topic_counts is not None and "_n_counted_rows" not in vars(lda):
        return "lacks the number of rows of its counts"
    return whole_draws_agree(lda)


fitted_topics = holds(
    _agree,
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    doc_topic_prior_=Array("float64", ("n_components",), above=0),
    topic_word_prior_=topic_word_prior,
    **topic_traces(),
    _seeds=Lacking(Held(Seeds)),
    _topic_counts=OrNone(Held(TopicCounts)),
    _estimate=OrNone(Held(TopicWord)),
    _stream=OrNone(Held(TopicStream)),
    best_chain_=Lacking(Whole(below="n_chains")),
    sampler_=Settings(BaseSampler),
    n_batch_iter_=Whole(),
    _n_counted_rows=Lacking(Whole(low=1)),
    _key=key,
)
