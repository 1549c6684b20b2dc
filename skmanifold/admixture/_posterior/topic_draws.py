"""Posterior draws of topics: matching the topics of several chains, diagnostics, and export to ArviZ.

`components` are draws of the topics of several chains, a float32 array of shape (n_chains, n_draws, n_components,
n_features) whose rows sum to 1. They may need most of the memory, so they are read in pieces and never converted as a
whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._install import optional_module
from ...inference._draws import LEAST_FOR_ESS, LEAST_FOR_RHAT, falling, to_tree
from ...metrics import match_topics
from ...topics.topic_word import TopicWord

STABLE_SIMILARITY = 0.8
_N_WORDS = 10  # most probable words of a topic in its diagnostics
TOPIC_AXES = {  # axes of the variables with topics, after those of chains and draws
    "components": ["topic", "word"],
    "topic_weights": ["topic"],
    "doc_topic_prior": ["topic"],
}


class ChainMatch(NamedTuple):
    """Topic ``permutations[c, k]`` of chain c matches topic k of the `best` chain, with cosine `similarity`."""

    permutations: np.ndarray
    similarity: np.ndarray
    best: int

    def least_similarity(self) -> np.ndarray:
        """Smallest cosine of each topic with its match in another chain; NaN for a single chain."""
        others = np.delete(self.similarity, self.best, axis=0)
        return others.min(axis=0) if len(others) else np.full(self.permutations.shape[1], np.nan)


class TopicDiagnostics(NamedTuple):
    """Convergence diagnostics and stability of each topic of the best chain, (n_components,); see `diagnose_topics`.

    `rhat` is rank-normalised and split, NaN for one chain or fewer than four draws; `ess` the bulk effective sample
    size over all chains, NaN for fewer than 50 draws per chain or quantities constant in a chain; `similarity` the
    smallest cosine to the matches in other chains, `is_stable` whether it reaches the threshold: NaN and False for one
    chain.
    """

    rhat: np.ndarray
    ess: np.ndarray
    similarity: np.ndarray
    is_stable: np.ndarray


def match_chains(components, best: int) -> ChainMatch:
    """Match the topics of all chains one to one to those of chain `best`, with the largest sum of cosines of means.

    `components` are draws, (n_chains, n_draws, n_components, n_features), or for each chain its draws or one matrix. It
    is assumed that labels do not switch within a chain.
    """
    reference = mean_topics(components[best])
    n_components = reference.n_components if isinstance(reference, TopicWord) else len(reference)
    permutations = np.tile(np.arange(n_components), (len(components), 1))
    similarity = np.ones(permutations.shape)
    for chain, topics in enumerate(components):
        if chain != best:
            _, permutations[chain], similarity[chain] = match_topics(reference, mean_topics(topics))
    return ChainMatch(permutations, similarity, best)


def mean_topics(topics):
    """Mean over a chain's draws, float64 of shape (n_components, n_features); a single matrix is returned unchanged."""
    if isinstance(topics, TopicWord) or np.ndim(topics) != 3:
        return topics
    if len(topics) == 0:
        raise ValueError("A chain has no draws of its topics.")
    return np.mean(topics, axis=0, dtype=np.float64)


def permute_topics(values: np.ndarray, permutations: np.ndarray) -> np.ndarray:
    """Permute the topics in `values`, (n_chains, n_draws, n_components, ...), to the order of the best chain.

    Returns the array itself, not a copy, if all permutations are identities.
    """
    if np.array_equal(permutations, np.broadcast_to(np.arange(permutations.shape[1]), permutations.shape)):
        return values
    out = np.empty_like(values)
    for chain, order in enumerate(permutations):
        np.take(values[chain], order, axis=1, out=out[chain], mode="clip")  # "clip" writes without a buffer
    return out


def effective_draws(components: np.ndarray) -> np.ndarray:
    """Effective number of draws of one chain for each topic, (n_components,), by arviz-stats.

    It is the median bulk ESS over the topic's ten most probable words; NaN for fewer than 50 draws, a constant topic,
    or without arviz-stats.
    """
    n_topics = components.shape[1]
    if len(components) < LEAST_FOR_ESS:
        return np.full(n_topics, np.nan)
    series = _draws_of_top_words([components], np.arange(n_topics)[np.newaxis], 0, _N_WORDS)
    try:
        return np.median(_diagnose("ess", series), axis=1)
    except ImportError:
        return np.full(n_topics, np.nan)


def diagnose_topics(
    components,
    topic_weights: np.ndarray,
    match: ChainMatch,
    *,
    n_words: int = _N_WORDS,
    threshold: float = STABLE_SIMILARITY,
) -> TopicDiagnostics:
    """R-hat, effective sample size and stability of each topic of the best chain, after matching, by arviz-stats.

    A topic has the worst value over its weight and its `n_words` words most probable in the best chain's mean.
    Quantities that are the same in all draws are excluded, NaN if all are. Of `components` there may be fewer draws
    than of `topic_weights`, or None. Stable topics have cosines of at least `threshold` in every other chain.
    """
    permutations, _, best = match
    similarity = match.least_similarity()
    series = [permute_topics(np.asarray(topic_weights), permutations)[..., np.newaxis]]
    if components is not None:
        series.append(_draws_of_top_words(components, permutations, best, n_words))
    rhat = np.concatenate([_diagnose("rhat", values) for values in series], axis=1)
    ess = np.concatenate([_diagnose("ess", values) for values in series], axis=1)
    varies = np.concatenate([(values != values[:1, :1]).any(axis=(0, 1)) for values in series], axis=1)
    worst_rhat = np.where(varies, rhat, -np.inf).max(axis=1)  # a NaN among the values gives NaN
    worst_ess = np.where(varies, ess, np.inf).min(axis=1)
    worst_rhat[~varies.any(axis=1)] = worst_ess[~varies.any(axis=1)] = np.nan
    return TopicDiagnostics(worst_rhat, worst_ess, similarity, similarity >= threshold)


def to_arviz(
    posterior: dict,
    permutations: np.ndarray | None = None,
    feature_names=None,
    *,
    component_draws=None,
    axes: dict[str, list[str]] = TOPIC_AXES,
) -> Any:
    """Export draws to ArviZ, with topics in the order of the best chain (`permutations`, or None).

    Variables with topics are in ``posterior``, log densities in ``sample_stats``; components thinned more than the rest
    in ``posterior_thinned``, with indices `component_draws`, so that
    ``tree.posterior.sel(draw=tree.posterior_thinned.draw)`` has the other variables of the same draws. `axes` are names
    after chain and draw, the topics' first. `feature_names` label the last axis of ``components``.
    """
    if permutations is not None:
        posterior = {
            name: permute_topics(values, permutations) if name in axes else values for name, values in posterior.items()
        }
    coords = {} if feature_names is None else {axes["components"][-1]: np.asarray(feature_names)}
    return to_tree(posterior, axes, coords, component_draws=component_draws)


def to_unlabelled(posterior: dict) -> Any:
    """Export draws of topics whose number differs between draws: the weights in decreasing order, without topics.

    ``topic_weights`` are NaN beyond the topics of a draw.
    """
    draws = {name: values for name, values in posterior.items() if name != "components"}
    draws["topic_weights"] = falling(draws["topic_weights"])
    return to_tree(draws, {"topic_weights": ["rank"]})


def _draws_of_top_words(components, permutations, best, n_words):
    """Probabilities of the best chain's most probable words, (n_chains, n_draws, n_components, n_words)."""
    means = mean_topics(components[best])
    n_words = min(n_words, means.shape[1])
    words = np.argpartition(-means, n_words - 1, axis=1)[:, :n_words]
    draws = [components[c][:, order[:, np.newaxis], words] for c, order in enumerate(permutations)]
    return np.array(draws, dtype=np.float64)  # R-hat uses ranks, and float32 would have ties


def _diagnose(name, values):
    """R-hat or bulk ESS of each quantity, of shape (n_components, n_quantities)."""
    array_stats = optional_module("arviz_stats.base", f"The {name} of topics", "arviz").array_stats
    if values.shape[1] < (LEAST_FOR_ESS if name == "ess" else LEAST_FOR_RHAT) or (name == "rhat" and len(values) < 2):
        return np.full(values.shape[2:], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # constant quantities divide by zero
        out = np.asarray(getattr(array_stats, name)(values, chain_axis=0, draw_axis=1))
    if name == "ess":  # arviz-stats treats a constant chain as independent draws
        is_constant = (values == values[:, :1]).all(axis=1).any(axis=0)
        out = np.where(is_constant, np.nan, out)
    return out
