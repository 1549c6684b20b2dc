"""Posterior draws of topics: matching the topics of several chains, diagnostics, and export to ArviZ.

`components` are draws of the topics of several chains, a float32 array of shape (n_chains, n_draws, n_components,
n_features) whose rows sum to 1. They may need most of the memory, so they are read in pieces and never converted as a
whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._install import install_command
from ...inference._arviz import falling, to_tree
from ...inference._draws import LEAST_FOR_ESS, LEAST_FOR_RHAT
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
    """Assignment of the topics of each chain to those of the best chain.

    Parameters
    ----------
    permutations : ndarray of shape (n_chains, n_components), int64
        Topic ``permutations[c, k]`` of chain c is matched to topic k of the best chain.
    similarity : ndarray of shape (n_chains, n_components)
        Cosines of the matched topics; 1 for the best chain.
    best : int
        Index of the chain to which the others are matched.
    """

    permutations: np.ndarray
    similarity: np.ndarray
    best: int

    def least_similarity(self) -> np.ndarray:
        """Smallest cosine of each topic with its match in another chain; NaN for a single chain."""
        others = np.delete(self.similarity, self.best, axis=0)
        return others.min(axis=0) if len(others) else np.full(self.permutations.shape[1], np.nan)


class TopicDiagnostics(NamedTuple):
    """Convergence diagnostics and stability of each topic of the best chain; see :func:`diagnose_topics`.

    Parameters
    ----------
    rhat : ndarray of shape (n_components,)
        Rank-normalised split R-hat: the maximum over the topic's weight and its most probable words. It is near 1 if
        the chains agree. NaN for a single chain or fewer than four draws.
    ess : ndarray of shape (n_components,)
        Bulk effective sample size over all chains: the minimum over the same quantities. NaN for fewer than 50 draws
        per chain, which are too few to estimate it, or if a quantity is constant in a chain.
    similarity : ndarray of shape (n_components,)
        Cosine between the topic and its match in another chain: the minimum over the other chains. NaN for a single
        chain.
    is_stable : ndarray of shape (n_components,), bool
        Whether `similarity` is at least the threshold, so that every other chain has found the topic. False for a
        single chain.
    """

    rhat: np.ndarray
    ess: np.ndarray
    similarity: np.ndarray
    is_stable: np.ndarray


def match_chains(components, best: int) -> ChainMatch:
    """Match the topics of all chains to those of the best chain.

    The order of topics is arbitrary and differs between chains. The mean topics of each chain are matched one to one to
    those of the best chain so that the sum of the cosines is largest. This assumes that labels do not switch within a
    chain.

    Parameters
    ----------
    components : array-like of shape (n_chains, n_draws, n_components, n_features), or a sequence
        Draws of the topics; or for each chain its draws, or one topic-word matrix (array or TopicWord).
    best : int
        Index of the chain whose order of topics is used.

    Returns
    -------
    match : ChainMatch
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
    """Effective number of draws of one chain for each topic, (n_components,).

    This is the median over the topic's ten most probable words of the bulk effective sample size by arviz-stats. It is
    NaN for fewer than 50 draws, for a topic that is constant, or if arviz-stats is not installed.

    Parameters
    ----------
    components : ndarray of shape (n_draws, n_components, n_features)
        Draws of one chain.

    Returns
    -------
    effective : ndarray of shape (n_components,)
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
    """R-hat, effective sample size and stability of each topic of the best chain, after matching.

    R-hat and effective sample size are computed by arviz-stats. The result for a topic is the worst value over its
    weight and the probabilities of the `n_words` words that are most probable in the best chain's mean. Quantities with
    the same value in all draws of all chains, such as the weight of a single topic, are excluded; the result is NaN if
    all are excluded.

    Parameters
    ----------
    components : ndarray of shape (n_chains, n_draws, n_components, n_features) or None
        Draws of the topics; there may be fewer of them than of the weights. If None, only the weights are used.
    topic_weights : ndarray of shape (n_chains, n_draws, n_components)
        Draws of the topics' shares of the tokens.
    match : ChainMatch
        Matching of the chains' topics.
    n_words : int, default=10
        Number of words per topic.
    threshold : float, default=0.8
        Smallest cosine in every other chain for which a topic is stable.

    Returns
    -------
    diagnostics : TopicDiagnostics

    Raises
    ------
    ImportError
        If arviz-stats is not installed.
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
    """Export draws to ArviZ, with topics in the order of the best chain.

    Variables with topics are in the group ``posterior``, log densities in ``sample_stats``. If ``components`` were
    thinned more than the rest, they are in a separate group, ``posterior_thinned``. Use
    ``group="posterior_thinned"`` in ArviZ's functions; ``tree.posterior.sel(draw=tree.posterior_thinned.draw)`` has the
    other variables of the same draws.

    Parameters
    ----------
    posterior : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws, such as ``posterior_`` of an estimator.
    permutations : ndarray of shape (n_chains, n_components), optional
        As in :class:`ChainMatch`; None keeps the order of the topics.
    feature_names : sequence of str, optional
        Labels of the last axis of ``components``; None numbers them.
    component_draws : sequence of int, optional
        Indices of the draws in ``components``, from 0, if some were dropped.
    axes : dict of str to list of str
        Axes of the variables with topics, after those of chains and draws; the first is the axis of topics.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    ImportError
        If arviz-base is not installed.
    """
    if permutations is not None:
        posterior = {
            name: permute_topics(values, permutations) if name in axes else values for name, values in posterior.items()
        }
    coords = {} if feature_names is None else {axes["components"][-1]: np.asarray(feature_names)}
    return to_tree(posterior, axes, coords, component_draws=component_draws)


def to_unlabelled(posterior: dict) -> Any:
    """Export draws of topics whose number differs between draws: the weights in decreasing order, without topics.

    Parameters
    ----------
    posterior : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws; ``topic_weights`` are NaN beyond the topics of a draw.

    Returns
    -------
    xarray.DataTree
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
    try:
        from arviz_stats.base import array_stats
    except ImportError as error:
        raise ImportError(f"The {name} of topics needs arviz-stats: {install_command('arviz')}") from error
    if values.shape[1] < (LEAST_FOR_ESS if name == "ess" else LEAST_FOR_RHAT) or (name == "rhat" and len(values) < 2):
        return np.full(values.shape[2:], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # constant quantities divide by zero
        out = np.asarray(getattr(array_stats, name)(values, chain_axis=0, draw_axis=1))
    if name == "ess":  # arviz-stats treats a constant chain as independent draws
        is_constant = (values == values[:, :1]).all(axis=1).any(axis=0)
        out = np.where(is_constant, np.nan, out)
    return out
