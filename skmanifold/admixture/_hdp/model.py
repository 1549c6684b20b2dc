"""Model of the hierarchical Dirichlet process for Gibbs sampling."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from ...random._keys import fold_in_each, subkey
from ...random._variates import sample_rows as choose_rows
from ...sparse.counts import Counts
from ...utils._njit import njit
from ...utils._threads import Workers
from .._tokens.document_gibbs import Documents, all_documents, count_topics, make_word_table
from .._tokens.log_topic_word import LogTopics, draw_topics
from .._tokens.topic_counts import TopicPrior
from .births import sample_with_births
from .greedy_merging import merge_greedily
from .guarded_sweep import sweep_with_guards
from .split_merge import split_and_merge
from .starts import Start
from .statistics import HDPStatistics
from .weights import (
    Hyperparameters,
    TopicWeights,
    count_tokens,
    draw_document_concentration,
    draw_tables,
    draw_topic_concentration,
    draw_weights,
)

_TOKENS, _GUARDS, _PART, _BIRTHS, _MOVES, _TABLES, _START = range(7)
_WEIGHTS, _GAMMA, _ALPHA, _TOPICS = range(4)
_SHARE_WITH_BIRTHS, _LEAST_WITH_BIRTHS = 0.05, 64  # of the documents: those where topics begin in a pass


class Concentrations(NamedTuple):
    """Given values of the two concentrations, or None, and the shapes and rates of their gamma priors."""

    alpha: float | None
    gamma: float | None
    alpha_prior: tuple[float, float]
    gamma_prior: tuple[float, float]

    def start(self) -> tuple[float, float]:
        """The given values, or the means of the priors."""
        alpha, gamma = (shape / rate for shape, rate in (self.alpha_prior, self.gamma_prior))
        return self.alpha or alpha, self.gamma or gamma


class HDPLatents(NamedTuple):
    """Topics of the tokens."""

    token_topics: np.ndarray  # (n_tokens,) uint16
    ids: np.ndarray  # (K,) int64, ascending: a topic keeps its id, while its number may change
    n_ids: int  # number of ids that have been used


class HDPPosition(NamedTuple):
    """Topics in use with their weights, and the concentrations."""

    topics: LogTopics
    weights: TopicWeights
    alpha: float
    gamma: float


class HDPModel:
    """Posterior of a hierarchical Dirichlet process over topics of words; implements `PartiallyCollapsedModel`.

    A pass (`sample_rows`, then `draw`) leaves the posterior unchanged. It consists of the steps in
    ``doc/architecture.md``: tokens in parallel, births and deaths in a random part of the documents, splits and merges,
    tables; then weights, concentrations and topics.

    Parameters
    ----------
    counts : Counts
        The corpus.
    topic_word_prior : ndarray of shape () or (n_features,)
        Dirichlet parameters of the topics.
    concentrations : Concentrations
        Values or priors of the concentrations.
    start : callable
        Draws the initial topics of the tokens.
    max_topics : int
        Largest number of topics.
    n_moves : int
        Number of split-merge proposals of a pass.
    workers : Workers
        Who runs the kernels.
    """

    def __init__(
        self,
        counts: Counts,
        topic_word_prior: np.ndarray,
        concentrations: Concentrations,
        start: Start,
        max_topics: int,
        n_moves: int,
        workers: Workers,
    ):
        self.counts = counts
        self.topic_word_prior = topic_word_prior
        self.concentrations = concentrations
        self.start = start
        self.max_topics = max_topics
        self.n_moves = n_moves
        self.merges_greedily = False
        self.workers = workers

    def in_burn_in(self, alpha: float | None, n_moves: int, merges_greedily: bool) -> Self:
        """A copy for a pass of burn-in, which may have another `alpha` and change the posterior by greedy merges."""
        other = copy.copy(self)
        other.concentrations, other.n_moves = self.concentrations._replace(alpha=alpha), n_moves
        other.merges_greedily = merges_greedily
        return other

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return self.counts.n_rows

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return self.counts.n_tokens

    @cached_property
    def documents(self) -> Documents:
        """The corpus in the format of the document step."""
        return all_documents(self.counts)

    @cached_property
    def _beta(self) -> tuple[np.ndarray, float]:
        beta = np.atleast_1d(self.topic_word_prior)
        return beta, float(np.broadcast_to(beta, (self.counts.n_features,)).sum())

    def topic_prior(self, n_topics: int) -> TopicPrior:
        """The prior of this number of topics."""
        return TopicPrior(self.topic_word_prior, n_topics, self.counts.n_features)

    def init_rows(self, key: np.uint64) -> tuple[HDPLatents, HDPStatistics]:
        """The topics of the tokens at the start."""
        topics = self.start(self.documents, self.workers, subkey(key, _START))
        topics, used = _renumber(topics, int(topics.max()) + 1)
        ids = np.arange(len(used))
        return HDPLatents(topics, ids, len(ids)), self._statistics(topics, ids, *self._first_weights(topics), key)

    def _first_weights(self, topics: np.ndarray) -> tuple[np.ndarray, float, float]:
        alpha, gamma = self.concentrations.start()
        shares = count_tokens(topics, int(topics.max()) + 1) / len(topics)
        return alpha * shares, alpha, gamma

    def sample_rows(self, position: HDPPosition, latents: HDPLatents, key: np.uint64):
        """Redraw the topics of all tokens, with births, deaths, splits and merges of topics, and the tables."""
        documents, topics, weights = self.documents, latents.token_topics, position.weights
        expected = position.alpha * weights.used
        table = make_word_table(*position.topics, expected, self.workers)
        row_keys = fold_in_each(subkey(key, _TOKENS), np.arange(self.n_rows))
        guard_key = subkey(key, _GUARDS)
        log_likelihood = sweep_with_guards(documents, table, expected, row_keys, topics, guard_key, self.workers)
        given = Hyperparameters(position.alpha, position.gamma, *self._beta)
        n_topics = len(weights.used)
        weights = TopicWeights(*self._with_births(topics, table, weights, given, key))
        topics, used = _renumber(topics, len(weights.used))
        weights = TopicWeights(weights.used[used], weights.log_unused)
        ids, n_ids = _ids_after(latents.ids, n_topics, used, latents.n_ids)
        n_topics = len(weights.used)
        moves = split_and_merge(documents, topics, weights, given, self.max_topics, self.n_moves, subkey(key, _MOVES))
        of_topics = moves.weights
        if self.merges_greedily:
            of_topics = merge_greedily(documents, topics, of_topics, given, self.workers)
        topics, used = _renumber(topics, len(of_topics))
        ids, n_ids = _ids_after(ids, n_topics, used, n_ids)
        expected = position.alpha * of_topics[used]
        statistics = self._statistics(topics, ids, expected, position.alpha, position.gamma, key)
        return HDPLatents(topics, ids, n_ids), statistics, log_likelihood

    def _with_births(self, topics, table, weights, given, key):
        part = np.empty((1, min(self.n_rows, max(_LEAST_WITH_BIRTHS, int(_SHARE_WITH_BIRTHS * self.n_rows)))), np.int64)
        choose_rows(np.array([subkey(key, _PART)]), 0, self.n_rows, part)
        n_tokens = count_tokens(topics, len(weights.used))
        birth_key = subkey(key, _BIRTHS)
        return sample_with_births(
            self.documents, part[0], topics, n_tokens, table, weights, given, self.max_topics, birth_key
        )

    def _statistics(self, topics, ids, expected, alpha, gamma, key) -> HDPStatistics:
        n_tables = draw_tables(self.documents.token_start, topics, expected, 0, subkey(key, _TABLES), self.workers)
        counts = count_topics(self.documents, topics, 1, len(expected), self.workers)
        return HDPStatistics(counts, n_tables, ids, np.ones(len(ids), np.int64), alpha, gamma)

    def draw(self, statistics: HDPStatistics, key: np.uint64) -> HDPPosition:
        """Draw the weights, concentrations and topics given the topics of the tokens and the tables."""
        counts, n_tables, _, _, alpha, gamma = statistics
        given = self.concentrations
        if given.alpha is not None:
            alpha = given.alpha
        else:
            alpha = draw_document_concentration(
                alpha, np.diff(self.documents.token_start), n_tables.sum(), given.alpha_prior, subkey(key, _ALPHA)
            )
        weights = draw_weights(n_tables, gamma, subkey(key, _WEIGHTS))
        if given.gamma is None:
            gamma = draw_topic_concentration(weights, given.gamma_prior, subkey(key, _GAMMA))
        n_topics, n_features = len(n_tables), self.counts.n_features
        prior = self.topic_prior(n_topics).strides(n_topics, n_features)
        topics = draw_topics(prior, counts, subkey(key, _TOPICS), self.workers)
        return HDPPosition(topics, weights, alpha, gamma)


def _renumber(token_topics: np.ndarray, n_topics: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the topics that have tokens without gaps; also returns their old numbers, ascending."""
    used = np.flatnonzero(count_tokens(token_topics, n_topics))
    if len(used) < n_topics:
        number = np.zeros(n_topics, np.uint16)
        number[used] = np.arange(len(used))
        _replace(number, token_topics)
    return token_topics, used


@njit(cache=True, nogil=True)
def _replace(number, token_topics):
    for token in range(len(token_topics)):
        token_topics[token] = number[np.uint64(token_topics[token])]


def _ids_after(ids: np.ndarray, n_topics: int, used: np.ndarray, n_ids: int) -> tuple[np.ndarray, int]:
    """The ids of the topics in use, of which those from `n_topics` on are new."""
    n_new = int(np.count_nonzero(used >= n_topics))
    return np.append(ids[used[used < n_topics]], n_ids + np.arange(n_new)), n_ids + n_new
