"""A corpus small enough to enumerate, random ones, and the conditionals of LDA written out slowly in numpy."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import gammaln

# Documents [0, 0, 1] and [1, 2, 2], two topics, three words, both priors 1/2: 64 states.
TOKEN_ROW = np.array([0, 0, 0, 1, 1, 1])
TOKEN_WORD = np.array([0, 0, 1, 1, 2, 2])
N_TOPICS, N_WORDS = 2, 3
ALPHA = BETA = 0.5
STATES = np.array(list(itertools.product(range(N_TOPICS), repeat=len(TOKEN_ROW))))
PAIRS = [(0, 1), (0, 2), (0, 3), (2, 3), (0, 5)]

# Exact values, worked out independently of this file: P(z_i = z_j) for PAIRS, then E log p(w, z).
LOG_EVIDENCE = -7.579509060188357
POSTERIOR_ROW = [0.87355132, 0.69598510, 0.37044702, 0.54801325, 0.26686672, -10.72732739]
ESCA_ROW = [0.84194975, 0.70295695, 0.32573971, 0.46675550, 0.21626511, -10.77742789]


def pairs(counts):
    """(row, position, word, count) in CSR order."""
    for row in range(counts.n_rows):
        for j in range(counts.indptr[row], counts.indptr[row + 1]):
            yield row, j, int(counts.indices[j]), int(counts.counts[j])


def random_table(seed, n_rows=12, n_words=9, mean=0.7):
    table = np.random.default_rng(seed).poisson(mean, (n_rows, n_words))
    table[3] = 0  # an empty row
    table[:, 4] = 0  # a word that nobody uses
    return table


PRIOR_LAYOUTS = ["number", "by word", "by topic", "matrix"]


def make_prior(layout, n_topics, n_words, seed=0):
    table = np.random.default_rng(seed).uniform(0.05, 1.5, (n_topics, n_words))
    return {"number": table[0, 0], "by word": table[0], "by topic": table[:, :1], "matrix": table}[layout]


def count_topics(rows, words, topics, n_rows, n_words, n_topics):
    """The tables D (row, topic), W (topic, word) and T (topic)."""
    doc_topic = np.zeros((n_rows, n_topics), dtype=int)
    topic_word = np.zeros((n_topics, n_words), dtype=int)
    np.add.at(doc_topic, (rows, topics), 1)
    np.add.at(topic_word, (topics, words), 1)
    return doc_topic, topic_word, topic_word.sum(axis=1)


def log_joint(doc_topic, topic_word, alpha, beta):
    """Log p(w, z) from the counts; alpha (n_topics,), beta (n_topics, n_words)."""

    def log_multinomial_beta(x, axis):
        return gammaln(x).sum(axis=axis) - gammaln(x.sum(axis=axis))

    return (
        (log_multinomial_beta(doc_topic + alpha, 1) - log_multinomial_beta(alpha, 0)).sum()
        + (log_multinomial_beta(topic_word + beta, 1) - log_multinomial_beta(beta, 1)).sum()
    ).item()


def tiny_counts(state):
    return count_topics(TOKEN_ROW, TOKEN_WORD, state, 2, N_WORDS, N_TOPICS)


def tiny_log_joints():
    alpha, beta = np.full(N_TOPICS, ALPHA), np.full((N_TOPICS, N_WORDS), BETA)
    return np.array([log_joint(*tiny_counts(state)[:2], alpha, beta) for state in STATES])


def tiny_posterior():
    joint = np.exp(tiny_log_joints())
    return joint / joint.sum()


def site_law(state, site, *, remove=True, printed=False):
    """Memberships of one token's topic given the others; without `remove` the token counts itself among them.

    `printed` is (13) as printed in Zaheer et al. (2016), with its parentheses astray.
    """
    doc_topic, topic_word, topic_total = tiny_counts(state)
    in_doc, in_word = doc_topic[TOKEN_ROW[site]].copy(), topic_word[:, TOKEN_WORD[site]].copy()
    if remove:
        for table in (in_doc, in_word, topic_total):
            table[state[site]] -= 1
    numerator = (in_doc + ALPHA) * in_word + BETA if printed else (in_doc + ALPHA) * (in_word + BETA)
    law = numerator / (topic_total + N_WORDS * BETA)
    return law / law.sum()


def gibbs_transition(**rule):
    """One sweep over the six sites, in order: the product of the matrices that change one site."""
    transition = np.eye(len(STATES))
    for site in range(len(TOKEN_ROW)):
        step = np.zeros((len(STATES), len(STATES)))
        for i, state in enumerate(STATES):
            law = site_law(state, site, **rule)
            for topic in range(N_TOPICS):
                target = state.copy()
                target[site] = topic
                step[i, state_index(target)] += law[topic]
        transition = transition @ step
    return transition


def esca_transition():
    """One synchronous sweep: each token on its own, given the state before, itself included."""
    transition = np.ones((len(STATES), len(STATES)))
    for i, state in enumerate(STATES):
        for site in range(len(TOKEN_ROW)):
            transition[i] *= site_law(state, site, remove=False)[STATES[:, site]]
    return transition


def state_index(state):
    return int(np.ravel_multi_index(tuple(state), (N_TOPICS,) * len(TOKEN_ROW)))


def stationary(transition):
    n = len(transition)
    system = np.vstack([transition.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]


def summary_row(law):
    """P(z_i = z_j) for PAIRS, and E log p(w, z)."""
    return [law @ (STATES[:, i] == STATES[:, j]) for i, j in PAIRS] + [law @ tiny_log_joints()]
