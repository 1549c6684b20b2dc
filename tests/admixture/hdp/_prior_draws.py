"""Corpora drawn from the prior of a hierarchical Dirichlet process, with the state of a chain that belongs to them."""

from typing import NamedTuple

import numpy as np

from skmanifold.admixture._hdp.births import TopicWeights
from skmanifold.admixture._hdp.model import ConcentrationPriors, HDPModel, HDPPosition, HDPPrior, HDPStatistics
from skmanifold.admixture._tokens.log_topic_word import LogTopics
from skmanifold.samplers._states import LatentState
from skmanifold.utils._threads import Workers

from ._tiny_hdp import OneShard

BETA = 0.5
N_WORDS = 4
LENGTHS = (7, 6, 5, 3, 1)
PRIORS = ConcentrationPriors(None, None, (2.0, 1.5), (2.0, 2.0))


class Corpus(NamedTuple):
    """A corpus and all that generated it."""

    table: np.ndarray  # documents and words
    topics: np.ndarray  # of the tokens, sorted by word within a document
    n_tables: np.ndarray
    phi: np.ndarray
    weights: TopicWeights
    alpha: float
    gamma: float


def draw_corpus(rng, priors=PRIORS, lengths=LENGTHS, n_words=N_WORDS, beta=BETA):
    """A draw by a Chinese restaurant franchise."""
    alpha, gamma = (rng.gamma(shape, 1 / rate) for shape, rate in (priors.alpha_prior, priors.gamma_prior))
    n_tables, phi, topics = [], [], []
    table = np.zeros((len(lengths), n_words), int)
    for row, length in enumerate(lengths):
        sizes, dishes, tokens = [], [], []
        for _ in range(length):
            at = _choose(rng, [*sizes, alpha])
            if at == len(sizes):
                dish = _choose(rng, [*n_tables, gamma])
                if dish == len(n_tables):
                    n_tables.append(0)
                    phi.append(rng.dirichlet(np.full(n_words, beta)))
                n_tables[dish] += 1
                sizes.append(0)
                dishes.append(dish)
            sizes[at] += 1
            tokens.append((_choose(rng, phi[dishes[at]]), dishes[at]))
        np.add.at(table[row], [word for word, _ in tokens], 1)
        topics += [topic for _, topic in sorted(tokens, key=lambda token: token[0])]
    weights = rng.gamma([*n_tables, gamma])
    weights /= weights.sum()
    used = TopicWeights(weights[:-1], float(np.log(weights[-1])))
    return Corpus(table, np.array(topics, np.uint16), np.array(n_tables), np.array(phi), used, alpha, gamma)


def _choose(rng, weights):
    return int(np.searchsorted(np.cumsum(weights), rng.random() * np.sum(weights), side="right"))


def make_model(table, concentrations=PRIORS, beta=BETA, max_topics=1000, n_moves=2, start=None):
    prior = HDPPrior(np.array(beta), concentrations, start, max_topics, n_moves)
    return HDPModel(OneShard(table), prior, Workers(1))


def state_of(model, topics, n_tables, phi, weights, alpha, gamma, key):
    """The state of a chain."""
    ids = np.arange(len(n_tables))
    (counts,) = model.shards.ask_latents("count_words", topics, (len(ids),))
    statistics = HDPStatistics(counts, n_tables, ids, np.ones_like(ids), len(ids), alpha, gamma)
    with np.errstate(divide="ignore"):
        log_phi = np.log(np.maximum(phi.T, 1e-300))
    position = HDPPosition(LogTopics(log_phi, np.zeros(len(ids))), weights, ids, len(ids), alpha, gamma)
    return LatentState(position, key, 0, -np.inf, statistics, topics.copy())
