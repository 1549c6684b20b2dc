"""Model of the hierarchical Dirichlet process for Gibbs sampling, and counts of topics that begin and end."""

from __future__ import annotations

import copy
from functools import cached_property, reduce
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from ...inference._distributed_fits.shards import ShardedModel
from ...inference._draw_store import DrawStore
from ...random._keys import subkey
from ...random._variates import sample_rows as choose_rows
from ...samplers._latent.stick_breaking import check_concentration_prior
from ...utils._conditions import MOST_COUNTED, Array, Real, Sizes
from ...utils._declared import check
from ...utils._threads import Workers
from .._tokens.log_topic_word import LogTopics, draw_topics
from .._tokens.topic_counts import TopicCounts, TopicPrior, add_counts
from .births import (
    Hyperparameters,
    TopicWeights,
    draw_document_concentration,
    draw_topic_concentration,
    draw_weights,
    sample_with_births,
)
from .split_merge import merge_greedily, split_and_merge
from .token_rows import Prepared, RandomStart, StartFromTopics, gather_documents, put_documents

_TOKENS, _GUARDS, _PART, _BIRTHS, _MOVES, _TABLES, _START = range(7)
_WEIGHTS, _GAMMA, _ALPHA, _TOPICS = range(4)
_ROOM = 1.5  # expected number of topics over that at the start, for the memory of draws
_SHARE_WITH_BIRTHS, _LEAST_WITH_BIRTHS = 0.05, 64  # of the documents: those where topics begin in a pass


class ConcentrationPriors(NamedTuple):
    """Given values of the two concentrations, or None, and the shapes and rates of their gamma priors."""

    alpha: float | None
    gamma: float | None
    alpha_prior: tuple[float, float]
    gamma_prior: tuple[float, float]

    @classmethod
    def of(cls, admixture: Any) -> Self:
        """Those of an estimator, of which the shapes and rates are checked."""
        names = "concentration", "topic_concentration"
        priors = (check_concentration_prior(getattr(admixture, f"{name}_prior"), f"{name}_prior") for name in names)
        return cls(admixture.concentration, admixture.topic_concentration, *priors)

    def start(self) -> tuple[float, float]:
        """The given values, or the means of the priors."""
        alpha, gamma = (shape / rate for shape, rate in (self.alpha_prior, self.gamma_prior))
        return self.alpha or alpha, self.gamma or gamma


class HDPPosition(NamedTuple):
    """Topics in use with their weights, and the concentrations."""

    topics: LogTopics
    weights: TopicWeights
    # Ascending: a topic keeps its id, while its number may change
    ids: Annotated[np.ndarray, Array("int64", "n_components", low=0)]
    n_ids: int  # number of ids that have been used
    alpha: Annotated[float, Real(above=0)]
    gamma: Annotated[float, Real(above=0)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        return check_ids(self.ids, self.n_ids)


class HDPPrior(NamedTuple):
    """What a model depends on besides its documents, as `AdmixturePrior` for a given number of topics."""

    topic_word_prior: np.ndarray  # of shape () or (n_features,)
    concentrations: ConcentrationPriors
    start: RandomStart | StartFromTopics  # draws the initial topics of the tokens
    max_topics: int
    n_moves: int  # split-merge proposals of a pass
    merges_greedily: bool = False  # in a pass of burn-in, which then changes the posterior

    def model(self, shards: Any, workers: Workers) -> HDPModel:
        """The model of documents in shards."""
        return HDPModel(shards, self, workers)

    def draw_store(self, admixture: Any, n_stored: int) -> DrawStore:
        """A store for as many draws as fit into `max_draws_bytes`, with the counts of so many rows."""
        draw_bytes = int(_ROOM * self.start.n_topics) * (4 * admixture.n_features_in_ + 8 * n_stored)
        return DrawStore.within(admixture.max_draws_bytes, draw_bytes * admixture.n_chains, admixture.thin)


class HDPModel(ShardedModel):
    """Posterior of a hierarchical Dirichlet process over topics of words; implements `PartiallyCollapsedModel`.

    A pass (`sample_rows`, then `draw`) leaves the posterior unchanged. It consists of the steps in
    ``doc/architecture.md``: tokens in parallel, births and deaths in a random part of the documents, splits and merges,
    tables; then weights, concentrations and topics.

    Parameters
    ----------
    shards : Shards
        The corpus, as `DocumentTokens`; a pass asks them several times.
    prior : HDPPrior
    workers : Workers
        Who runs the kernels that need no documents.
    """

    def __init__(self, shards: Any, prior: HDPPrior, workers: Workers):
        super().__init__(None, shards)
        self.n_features = shards.n_features
        self.prior = prior
        self.workers = workers

    def with_prior(self, **changes: Any) -> Self:
        """A copy for a pass of burn-in, with changes of the prior."""
        other = copy.copy(self)
        other.prior = self.prior._replace(**changes)
        return other

    def _ask(self, method: str, chain: int | None, *arguments: Any) -> list:
        """The results of a method of `DocumentTokens` for the topics of a chain, in the order of the shards."""
        return self.shards.ask_latents(method, chain, arguments)

    @cached_property
    def _lengths(self) -> np.ndarray:
        """The numbers of tokens of all documents."""
        return np.concatenate(self._ask("lengths", None))

    @cached_property
    def _beta(self) -> tuple[np.ndarray, float]:
        beta = np.atleast_1d(self.prior.topic_word_prior)
        return beta, float(np.broadcast_to(beta, (self.n_features,)).sum())

    def topic_prior(self, n_topics: int) -> TopicPrior:
        """The prior of this number of topics."""
        return TopicPrior(self.prior.topic_word_prior, n_topics, self.n_features)

    def init_rows(self, key: np.uint64) -> tuple[int, HDPStatistics]:
        """The topics of the tokens at the start; a chain has a number in place of them, since the shards keep them."""
        chain = next(self._chains)
        self.shards.begin_chain("begin", chain, self.prior.start, subkey(key, _START))
        n_tokens, used = self._renumber(chain, self._count(chain, self.prior.start.n_topics))
        alpha, gamma = self.prior.concentrations.start()
        expected = alpha * (n_tokens / n_tokens.sum())
        return chain, self._statistics(chain, np.arange(len(used)), len(used), expected, alpha, gamma, key)

    def sample_rows(self, position: HDPPosition, chain: int, key: np.uint64) -> tuple[int, HDPStatistics, float]:
        """Redraw the topics of all tokens, with births, deaths, splits and merges of topics, and the tables."""
        prepared = Prepared(position.topics, position.alpha * position.weights.used)
        log_likelihood, n_tokens = self._sweep(chain, prepared, key)
        given = Hyperparameters(position.alpha, position.gamma, *self._beta)
        weights, n_tokens = self._with_births(chain, prepared, position.weights, n_tokens, given, key)
        n_tokens, used = self._renumber(chain, n_tokens)
        weights = TopicWeights(weights.used[used], weights.log_unused)
        ids, n_ids = _ids_after(position.ids, len(position.ids), used, position.n_ids)
        n_topics, limits = len(used), (self.prior.max_topics, self.prior.n_moves)
        moves = self.shards, chain, n_tokens, weights, given, *limits, subkey(key, _MOVES)
        of_topics, n_tokens = split_and_merge(*moves)
        if self.prior.merges_greedily:
            counts = reduce(add_counts, self._ask("count_words", chain, len(of_topics)))
            of_topics = merge_greedily(self.shards, chain, counts, of_topics, given)
            n_tokens = self._count(chain, len(of_topics))
        n_tokens, used = self._renumber(chain, n_tokens)
        ids, n_ids = _ids_after(ids, n_topics, used, n_ids)
        concentrations = position.alpha, position.gamma
        expected = position.alpha * of_topics[used]
        return chain, self._statistics(chain, ids, n_ids, expected, *concentrations, key), log_likelihood

    def _sweep(self, chain: int, prepared: Prepared, key: np.uint64) -> tuple[float, np.ndarray]:
        """Draw the topics of all tokens; the log likelihood, and the numbers of tokens of the topics."""
        tokens_key, guard_key, n_topics = subkey(key, _TOKENS), subkey(key, _GUARDS), len(prepared.expected)
        firsts = np.cumsum([0, *self.shards.of_each("n_tokens")])[:-1].tolist()
        parts = self.shards.ask_latents("find_least", chain, *((n_topics, first, guard_key) for first in firsts))
        least = np.min(parts, axis=0)
        arguments = [(prepared, least, first, tokens_key, guard_key) for first in firsts]
        log_likelihoods, n_tokens = zip(*self.shards.ask_latents("sweep", chain, *arguments), strict=True)
        return float(np.sum(log_likelihoods)), np.sum(n_tokens, axis=0)

    def _with_births(self, chain, prepared, weights, n_tokens, given, key) -> tuple[TopicWeights, np.ndarray]:
        """Weights and numbers of tokens after a step in which topics begin and end."""
        n_rows = self.n_rows
        part = np.empty((1, min(n_rows, max(_LEAST_WITH_BIRTHS, int(_SHARE_WITH_BIRTHS * n_rows)))), np.int64)
        choose_rows(np.array([subkey(key, _PART)]), 0, n_rows, part)
        documents, of_tokens = gather_documents(self.shards, chain, part[0])
        arguments = n_tokens, prepared.table(self.workers), weights, given, self.prior.max_topics, subkey(key, _BIRTHS)
        after = sample_with_births(documents, part[0], of_tokens, *arguments)
        return after, put_documents(self.shards, chain, part[0], documents, of_tokens, len(after.used))

    def _count(self, chain: int, n_topics: int) -> np.ndarray:
        """Numbers of tokens of the topics."""
        return np.sum(self._ask("count", chain, n_topics), axis=0)

    def _renumber(self, chain: int, n_tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number the topics that have tokens without gaps; the numbers of their tokens, and their old numbers."""
        used = np.flatnonzero(n_tokens)
        if len(used) < len(n_tokens):
            number = np.zeros(len(n_tokens), np.uint16)
            number[used] = np.arange(len(used))
            self._ask("renumber", chain, number)
        return n_tokens[used], used

    def _statistics(self, chain, ids, n_ids, expected, alpha, gamma, key) -> HDPStatistics:
        tables, counts = zip(*self._ask("summarize", chain, expected, subkey(key, _TABLES)), strict=True)
        n_tables, n_passes = np.sum(tables, axis=0), np.ones(len(ids), np.int64)
        return HDPStatistics(reduce(add_counts, counts), n_tables, ids, n_passes, n_ids, alpha, gamma)

    def draw(self, statistics: HDPStatistics, key: np.uint64) -> HDPPosition:
        """Draw the weights, concentrations and topics given the topics of the tokens and the tables."""
        counts, n_tables, ids, _, n_ids, alpha, gamma = statistics
        given = self.prior.concentrations
        if given.alpha is not None:
            alpha = given.alpha
        else:
            arguments = self._lengths, n_tables.sum(), given.alpha_prior, subkey(key, _ALPHA)
            alpha = draw_document_concentration(alpha, *arguments)
        weights = draw_weights(n_tables, gamma, subkey(key, _WEIGHTS))
        if given.gamma is None:
            gamma = draw_topic_concentration(weights, given.gamma_prior, subkey(key, _GAMMA))
        n_topics = len(n_tables)
        prior = self.topic_prior(n_topics).strides(n_topics, self.n_features)
        topics = draw_topics(prior, counts, subkey(key, _TOPICS), self.workers)
        return HDPPosition(topics, weights, ids, n_ids, alpha, gamma)

    # Checkpoints

    def latent_type(self, drawn: bool) -> np.dtype:
        """Type of the stored topics of tokens."""
        return np.dtype(np.uint16)

    def check_position(self, position: Any, drawn: bool) -> None:
        """Raise a ValueError unless these can be topics of this vocabulary, with their weights."""
        check(HDPPosition, position, "a position", {"n_features": self.n_features})

    def check_statistics(self, statistics: Any) -> None:
        """Raise a ValueError unless these can be counts of the words of topics."""
        check(HDPStatistics, statistics, "statistics", {"n_features": self.n_features})


def _ids_after(ids: np.ndarray, n_topics: int, used: np.ndarray, n_ids: int) -> tuple[np.ndarray, int]:
    """The ids of the topics in use, of which those from `n_topics` on are new."""
    n_new = int(np.count_nonzero(used >= n_topics))
    return np.append(ids[used[used < n_topics]], n_ids + np.arange(n_new)), n_ids + n_new


def check_ids(ids: np.ndarray, n_ids: int) -> str | None:
    """What is wrong with the ids of topics, if anything."""
    if (np.diff(ids) <= 0).any() or ids[-1] >= n_ids:
        return "has ids of topics that are not in order"
    return None


class HDPStatistics(NamedTuple):
    """What passes leave for draws and estimates, for the topics in use after the last of them."""

    counts: TopicCounts
    n_tables: Annotated[np.ndarray, Array("int64", "n_components", low=1, high=MOST_COUNTED)]
    # Ascending: a topic keeps its id, while its number may change
    ids: Annotated[np.ndarray, Array("int64", "n_components", low=0, high=MOST_COUNTED)]
    # Passes in which the topic was in use
    n_passes: Annotated[np.ndarray, Array("int64", "n_components", low=1, high=MOST_COUNTED)]
    n_ids: int  # number of ids that have been used
    alpha: Annotated[float, Real(above=0)]
    gamma: Annotated[float, Real(above=0)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        return check_ids(self.ids, self.n_ids)


def add_statistics(left: HDPStatistics, right: HDPStatistics) -> HDPStatistics:
    """Sum over the passes of both, of which `right` are the later ones; topics that have ended are dropped."""
    _, at_left, at_right = np.intersect1d(left.ids, right.ids, assume_unique=True, return_indices=True)
    counts = add_counts(_place(left.counts, at_left, at_right, len(right.ids)), right.counts)
    n_tables, n_passes = right.n_tables.copy(), right.n_passes.copy()
    n_tables[at_right] += left.n_tables[at_left]
    n_passes[at_right] += left.n_passes[at_left]
    concentrations = left.alpha + right.alpha, left.gamma + right.gamma
    return HDPStatistics(counts, n_tables, right.ids, n_passes, right.n_ids, *concentrations)


def take_topics(counts: TopicCounts, topics: np.ndarray) -> TopicCounts:
    """The counts of some topics, in this order."""
    return _place(counts, topics, np.arange(len(topics)), len(topics))


def _place(counts: TopicCounts, topics: np.ndarray, places: np.ndarray, n_topics: int) -> TopicCounts:
    """The counts of some topics, with the numbers `places` among `n_topics`."""
    number = np.full(len(counts.totals), -1)
    number[topics] = places
    moved = number[counts.topics]
    kept = moved >= 0
    indptr = np.concatenate(([0], np.cumsum(kept)))[counts.indptr]
    totals = np.zeros(n_topics, counts.totals.dtype)
    totals[places] = counts.totals[topics]
    return TopicCounts(indptr, moved[kept].astype(np.uint16), counts.counts[kept], totals)
