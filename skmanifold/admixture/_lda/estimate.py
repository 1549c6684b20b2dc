"""From chains, wherever they stand, to the fitted attributes of topics."""

from __future__ import annotations

import numpy as np

from ...inference._chains import Chain, best_chain
from ...topics.topic_word import as_topic_word
from .._tokens.topic_counts import TopicPrior, mean_counts
from .minibatch_passes import MinibatchPasses
from .stream import TopicStream


def prior_attributes(doc_topic_prior: np.ndarray, topic_prior: TopicPrior) -> dict:
    """The priors as attributes."""
    values = topic_prior.values
    return {"doc_topic_prior_": doc_topic_prior, "topic_word_prior_": float(values) if values.ndim == 0 else values}


def fitted_topics(chains: list[Chain]) -> dict:
    """What inference needs, from wherever the chains stand: the best one's averages, and the topics they make."""
    best = best_chain(chains)
    total, n_passes = chains[best].estimate()
    model, mover = chains[best].model, chains[best].sampler
    common = {"best_chain_": best, "n_batch_iter_": 0, "_n_counted_rows": model.n_rows}
    common.update(prior_attributes(model.doc_topic_prior, model.topic_prior))
    if isinstance(mover, MinibatchPasses):
        stream = TopicStream(type(mover.sampler), [chain.state.moving for chain in chains])
        return {**common, "_topic_counts": None, "_estimate": as_topic_word(total.components), "_stream": stream}
    counts = mean_counts(total, n_passes)
    return {**common, "_topic_counts": counts, "_estimate": model.mode(counts), "_stream": None}
