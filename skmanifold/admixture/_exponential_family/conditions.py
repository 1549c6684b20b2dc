"""Conditions that the fitted attributes of `ExponentialFamilyAdmixture` must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._base import BaseEmission
from ...emissions._row_lengths import LENGTHS, LEVELS
from ...inference._draw_conditions import traces, whole_draws_agree
from ...samplers import BaseSampler
from ...topics.topic_word import TopicWord
from ...utils._conditions import Array, Counted, Either, Lacking, Names, Real, Sizes, Whole, anything, key, placed
from ...utils._declared import Held, Settings, holds
from .._tokens.topic_counts import TopicCounts, TopicPrior
from .model import FamilyTokens

_SHAPE = "n_chains", "n_component_draws", "n_components"


def _counts(value: Any, where: str, sizes: Sizes) -> None:
    """Check counts of tokens; there is one token per column, or two."""
    if isinstance(value, TopicCounts) and isinstance(value.indptr, np.ndarray):
        sizes["n_features"] = len(value.indptr) - 1
    Held(TopicCounts)(value, where, sizes)


def _agree(admixture: Any, sizes: Sizes) -> str | None:
    tokens, estimate = admixture._tokens, admixture._estimate
    n_tokens = len(admixture._topic_counts.indptr) - 1
    if n_tokens != admixture.emission_.tokens_of_column * sizes["columns"]:
        return "has counts of other tokens than its columns"
    emission = admixture.emission_
    has_lengths = not (emission.has_missing_tokens or emission.has_random_totals)
    if has_lengths and "_row_lengths" not in vars(admixture):
        return "lacks the numbers of tokens of its rows"
    if isinstance(tokens, TopicPrior):
        if not isinstance(estimate, TopicWord):
            return "has an estimate of another emission"
        draws = vars(admixture).get("_posterior", {}).get("components", np.empty((0, 1)))
        if draws.size and (draws.min() < 0 or not np.allclose(draws.sum(axis=-1), 1.0, rtol=0.0, atol=1e-3)):
            return "has draws of components that do not sum to one"
        return whole_draws_agree(admixture)
    if isinstance(estimate, TopicWord):
        return "has an estimate of another emission"
    if problem := emission.disagrees(tokens.family, admixture):
        return problem
    vectors = tokens.family.word_vectors
    if emission.has_vector_tokens and (vectors is None or len(vectors) != n_tokens):
        return "lacks the vectors of its tokens"
    with placed("_estimate"):
        tokens.family.check_parameters(estimate)
    return _draws_are_of_family(admixture) or whole_draws_agree(admixture)


def _draws_are_of_family(admixture: Any) -> str | None:
    posterior = vars(admixture).get("_posterior", {})
    if "components" not in posterior or not posterior["components"].size:
        return None
    found = admixture._tokens.attributes(admixture._estimate)
    for name, value in found.items():
        draws = posterior.get(name.removesuffix("_"))
        if draws is None or draws.shape[2:] != value.shape or draws.shape[:2] != posterior["components"].shape[:2]:
            return f"has no draws of its {name.removesuffix('_')}"
    covariances = posterior.get("covariances")
    if covariances is not None and covariances.ndim == 5 and np.linalg.eigvalsh(covariances).min() <= 0.0:
        return "has draws of covariances that are singular"
    return None


fitted_admixture = holds(
    _agree,
    n_features_in_=Counted("columns"),
    feature_names_in_=Lacking(Names("columns")),
    doc_topic_prior_=Array("float64", ("n_components",), above=0),
    _topic_counts=_counts,
    _tokens=Held(TopicPrior, FamilyTokens),
    _estimate=Either(lambda value: isinstance(value, TopicWord), Held(TopicWord), anything),
    **traces(
        "log_likelihood",
        topic_weights=Array("float64", ("n_chains", "n_draws", "n_components"), low=0, sums_to_one=-1),
        components=Array("float32 float64", (*_SHAPE, None)),
        doc_topic_counts=Array("int64", ("n_chains", "n_component_draws", None, "n_components"), low=0),
        covariances=Either(
            lambda value: np.ndim(value) == 5,
            Array("float64", (*_SHAPE, None, None)),
            Array("float64", (*_SHAPE, None), above=0),
        ),
    ),
    best_chain_=Lacking(Whole(below="n_chains")),
    emission_=Settings(BaseEmission),
    sampler_=Settings(BaseSampler),
    n_batch_iter_=Whole(),
    _n_counted_rows=Whole(low=1),
    _key=key,
    _row_lengths=Lacking(LENGTHS),
    _length_levels=Lacking(LEVELS),
    intensity_rate_=Lacking(Real(above=0)),
)
