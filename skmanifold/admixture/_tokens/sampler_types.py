"""What samplers do with the topics of documents and tokens, from the protocols that they require."""

from __future__ import annotations

from ...base import draws_parameters, samples_density
from ...models import (
    CollapsedModel,
    CollapsedVariationalModel,
    ExpectationModel,
    LatentModel,
    MeanFieldModel,
    PartiallyCollapsedModel,
)
from ...samplers import BaseSampler


def draws_assignments(sampler: BaseSampler) -> bool:
    """Whether a sampler draws the topic of each token."""
    return any(protocol in sampler.requires for protocol in (LatentModel, PartiallyCollapsedModel, CollapsedModel))


def draws_documents(sampler: BaseSampler) -> bool:
    """Whether a sampler draws the topics of all tokens from their posterior."""
    return draws_parameters(sampler) and draws_assignments(sampler)


def assigns_tokens(sampler: BaseSampler) -> bool:
    """Whether the state of a sampler has a topic, or a distribution over topics, for each token."""
    return draws_assignments(sampler) or CollapsedVariationalModel in sampler.requires


def is_variational(sampler: BaseSampler) -> bool:
    """Whether a sampler estimates the topics by a mean-field approximation and does not draw them."""
    return MeanFieldModel in sampler.requires


def expects_counts(sampler: BaseSampler) -> bool:
    """Whether a sampler keeps proportions of documents with dense expected counts: EM and mean-field inference."""
    return is_variational(sampler) or ExpectationModel in sampler.requires


def fits_by_minibatches(sampler: BaseSampler) -> bool:
    """Whether a pass of `fit` is many steps, each with a minibatch of documents."""
    return samples_density(sampler) or (is_variational(sampler) and sampler.batching != "full")
