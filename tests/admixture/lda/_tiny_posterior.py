"""Exact posterior of the topics and assignments of the tiny corpus, and many copies of it run at once.

Copy r has topics, words and documents of its own: the prior of its words in the others' topics is next to nothing.
Given that all tokens are where they belong, the copies are independent, and each has the posterior of the corpus alone.
"""

import numpy as np
from samplers._evidence import summarize
from scipy.special import digamma

from skmanifold.admixture._lda.minibatch import MinibatchLDA
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.log_topic_word import LogTopics
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from .. import _tiny_corpus as tiny

KEY = np.uint64(20180512)
R = 16  # copies: 32 topics
NOTHING = 1e-12  # a prior that gives a topic no word
TABLE = np.array([[2, 1, 0], [0, 1, 2]])
PRIORS = {
    "scalar": (0.5, 0.5),
    "beta by word": (0.5, np.array([0.2, 0.7, 1.5])),
    "alpha by topic": (np.array([0.3, 1.4]), 0.5),
    "both": (np.array([1.1, 0.4]), np.array([1.3, 0.25, 0.6])),
}
_UPPER = np.triu_indices(tiny.N_WORDS)
_PAIRS = np.triu_indices(len(tiny.TOKEN_ROW), 1)
N_OF_TOPICS = 2 * tiny.N_WORDS + 2 * len(_UPPER[0])  # statistics that look at the topics alone


def statistics(topics, phi):
    """Functions that do not care how topics are numbered, then where each token is.

    `topics` is (..., 6) of 0 and 1, `phi` (..., 2, 3); the result has the statistics on its last axis.
    """
    products = phi[..., :, None, :, None] * phi[..., None, :, None, :]  # topic, topic, word, word
    within, across = products[..., 0, 0, :, :] + products[..., 1, 1, :, :], products[..., 0, 1, :, :]
    own = np.take_along_axis(phi[..., tiny.TOKEN_WORD], topics[..., None, :], axis=-2)[..., 0, :]
    return _join(phi, np.log(phi), within, across + np.swapaxes(across, -1, -2), topics, own)


def _join(phi, log_phi, within, across, topics, own):
    same = topics[..., _PAIRS[0]] == topics[..., _PAIRS[1]]
    parts = (phi.sum(axis=-2), log_phi.sum(axis=-2), within[..., *_UPPER], across[..., *_UPPER], own, same, topics)
    return np.concatenate(parts, axis=-1, dtype=float)


def exact_statistics(alpha, beta):
    """Expectations of `statistics` under the posterior: 64 states, and Dirichlet moments given each."""
    alpha, beta = np.broadcast_to(alpha, 2).astype(float), np.broadcast_to(beta, (2, 3)).astype(float)
    counts = [tiny.tiny_counts(state) for state in tiny.STATES]
    log_joints = np.array([tiny.log_joint(c[0], c[1], alpha, beta) for c in counts])
    law = np.exp(log_joints - log_joints.max())
    shapes = beta + np.array([c[1] for c in counts])
    totals = shapes.sum(axis=-1, keepdims=True)
    phi = shapes / totals
    second = shapes[..., :, None] * (shapes[..., None, :] + np.eye(3)) / (totals * (totals + 1))[..., None]
    cross = phi[:, 0, :, None] * phi[:, 1, None, :]
    own = np.take_along_axis(phi[..., tiny.TOKEN_WORD], tiny.STATES[:, None, :], axis=-2)[:, 0]
    log_phi = digamma(shapes) - digamma(totals)
    moments = _join(phi, log_phi, second.sum(axis=1), cross + np.swapaxes(cross, 1, 2), tiny.STATES, own)
    return law @ moments / law.sum()


def as_counts(table):
    return whole_counts(canonical_csr(np.asarray(table, float)), KEY)


def copied_arguments(n_copies, alpha, beta, table=TABLE):
    """Corpus and priors of the copies, for a model of either kind."""
    alpha = np.tile(np.broadcast_to(alpha, 2).astype(float), n_copies)
    prior = np.full((2 * n_copies, 3 * n_copies), NOTHING)
    for r in range(n_copies):
        prior[2 * r : 2 * r + 2, 3 * r : 3 * r + 3] = beta
    counts = as_counts(np.kron(np.eye(n_copies), table))
    return counts, alpha, TopicPrior(prior, *prior.shape), Workers(1)


def copied_model(n_copies, alpha, beta, kind=LDAModel):
    return kind(*copied_arguments(n_copies, alpha, beta))


def minibatch_model(n_copies, alpha, beta, batch_size, n_sweeps, n_burn_in, kind=MinibatchLDA):
    arguments = copied_arguments(n_copies, alpha, beta)
    sizes = {"batch_size": batch_size, "total_samples": arguments[0].n_rows}
    return kind(*arguments, **sizes, n_sweeps=n_sweeps, n_burn_in=n_burn_in)


def of_copies(array, n_copies):
    """The copies' own topics over their own words, (n_copies, 2, 3), of a (K, V) array."""
    return array.reshape(n_copies, 2, n_copies, 3)[np.arange(n_copies), :, np.arange(n_copies)]


def topics_of_copies(token_topics, n_copies):
    """Topics of the copies' tokens, 0 or 1; all must be where they belong."""
    local = token_topics.reshape(n_copies, -1).astype(int) - 2 * np.arange(n_copies)[:, None]
    assert np.all((local == 0) | (local == 1)), "a token is in a topic of another copy"
    return local


def summarize_batches(series, n_batches):
    """Of (time, copies, statistics): means of batches of times, for each copy by itself."""
    series = np.asarray(series)
    length = len(series) // n_batches
    batches = series[: length * n_batches].reshape(n_batches, length, *series.shape[1:]).mean(axis=1)
    return summarize(batches.reshape(-1, series.shape[-1]))


def counts_in_topics(topics, words=tiny.TOKEN_WORD):
    """(..., 2, 3) counts of `topics` (..., n) of tokens of `words`, which may be as many."""
    words = np.broadcast_to(words, topics.shape)
    hits = (topics[..., None, None] == np.arange(2)[:, None]) & (words[..., None, None] == np.arange(3))
    return hits.sum(axis=-3)


class SetsTopicsToTheirMean(LDAModel):
    """Stochastic EM."""

    def draw(self, statistics, key):
        prior = np.broadcast_to(self.topic_prior.values, (2 * R, 3 * R)).T
        weights = prior + statistics.tocsr().toarray()
        return LogTopics(np.log(weights), np.log(weights.sum(axis=0)))


class ForgetsThePrior(LDAModel):
    """Draws topics from counts and half of the prior."""

    def draw(self, statistics, key):
        half = TopicPrior(self.topic_prior.values / 2, 2 * R, 3 * R)
        return LDAModel(self.counts, self.doc_topic_prior, half, self.workers).draw(statistics, key)


class Remembers(MinibatchLDA):
    """Keeps the topics of the last tokens sampled."""

    def _sample(self, *arguments):
        sample = super()._sample(*arguments)
        self.last[:] = [sample[0]]
        return sample
