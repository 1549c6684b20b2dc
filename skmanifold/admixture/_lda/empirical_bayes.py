"""Empirical Bayes for the priors during burn-in: estimated from the counts of a state, used in the next pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._tokens.model import Assignments, TokenLatents
from .._tokens.topic_counts import TopicPrior
from .dirichlet_mle import (
    DocTopicHistogram,
    histogram_of_assignments,
    histogram_of_entries,
    histogram_of_responsibilities,
    learn_doc_topic_prior,
    learn_topic_word_prior,
    word_histogram_of_responsibilities,
)
from .model import LDAModel, Responsibilities

_FIRST, _EVERY = 10, 5  # passes before the first update (early counts reflect the random initialisation); interval
# Largest factor of an update with responsibilities. They begin nearly uniform: such counts look like those of a large
# prior, which would keep them uniform.
_MOST_GROWTH = 1.25


def adapter(doc_topic: bool, topic_word: bool, burn_in: int) -> Callable[[LDAModel, Any], LDAModel]:
    """Function that `run_chains` calls after each pass of burn-in; it updates the priors that are learned.

    The priors do not change after burn-in, so that all draws are from the same posterior.
    """

    def adapt(model: LDAModel, state: Any) -> LDAModel:
        t = state.n_steps
        due = t == burn_in or (t >= _FIRST and t % _EVERY == 0)
        if not (due and (doc_topic or topic_word)):
            return model
        alpha, topic_prior = model.doc_topic_prior, model.topic_prior
        if doc_topic:
            before, alpha = alpha, learn_doc_topic_prior(alpha, _count_documents(model, state.latents))
            if isinstance(state.latents, Responsibilities):
                alpha = np.minimum(alpha, _MOST_GROWTH * before)
        if topic_word:
            n_features = model.counts.n_features
            beta = learn_topic_word_prior(float(topic_prior.values), _count_words(model, state), n_features)
            topic_prior = TopicPrior(beta, model.n_components, n_features)
        return with_priors(model, alpha, topic_prior)

    return adapt


def with_priors(model: LDAModel, doc_topic_prior: Any, topic_prior: TopicPrior) -> LDAModel:
    """A copy of the model with other priors; the corpus and its layout are shared."""
    other = model.with_doc_topic_prior(doc_topic_prior)
    other.__dict__.pop("_prior_strides", None)  # depends on the prior
    other.topic_prior = topic_prior
    return other


def _count_documents(model: LDAModel, latents: Any) -> DocTopicHistogram:
    """Histogram of the documents' topic counts, from any sampler's latents."""
    if isinstance(latents, TokenLatents):
        return histogram_of_entries(
            latents.entries, model.layout.row_start, latents.row_vectors, model.n_components, model.workers
        )
    if isinstance(latents, Responsibilities):
        return histogram_of_responsibilities(latents.gamma, model.counts.indptr, model.counts.counts, model.workers)
    topics = latents.topics if isinstance(latents, Assignments) else latents
    return histogram_of_assignments(topics, model.token_start, model.n_components, model.workers)


def _count_words(model: LDAModel, state: Any) -> Any:
    """Topic-word counts; for CVB0, whose expected counts are not integers, a histogram."""
    if isinstance(state.latents, Responsibilities):
        gamma, _, totals = state.latents
        return word_histogram_of_responsibilities(gamma, *model.word_index, model.counts.counts, totals, model.workers)
    return state.statistics
