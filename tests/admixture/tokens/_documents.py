"""Corpora, tables and slow laws for the tests of the document step."""

import numpy as np

from skmanifold.admixture._tokens.document_gibbs import all_documents, make_word_table
from skmanifold.random._keys import fold_in_each
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

KEY = np.uint64(20210711)


def make_counts(table):
    return whole_counts(canonical_csr(np.asarray(table, float)), KEY)


def make_table(phi, alpha, workers=None):
    """Table of a (K, V) array of probabilities."""
    with np.errstate(divide="ignore"):
        return make_word_table(np.log(phi.T), np.zeros(len(phi)), np.asarray(alpha, float), workers or Workers(1))


def make_keys(n_rows, seed=0):
    return fold_in_each(np.uint64(KEY + np.uint64(seed)), np.arange(n_rows))


def random_setting(n_components, seed=0, n_rows=25, n_words=30, mean=0.7):
    """Documents (some empty, one with large counts), probabilities, alpha and topics to start from."""
    rng = np.random.default_rng([seed, n_components])
    table = rng.poisson(mean, (n_rows, n_words))
    table[[0, 7, 8, n_rows - 1]] = 0
    table[:, [0, 4]] = 0
    table[13, [2, 3, 9]] = 300, 20, 7
    phi = rng.dirichlet(np.full(n_words, 0.2), n_components)
    alpha = rng.uniform(0.05, 0.5, n_components)
    documents = all_documents(make_counts(table))
    topics = rng.integers(n_components, size=documents.token_start[-1]).astype(np.uint16)
    return documents, phi, alpha, topics


def token_words(documents):
    """The word of each token, as a row of the table."""
    return np.repeat(documents.pair_word, documents.pair_count)


def dense_counts(counts):
    dense = counts.tocsr().toarray()
    np.testing.assert_array_equal(dense.sum(axis=0), counts.totals)
    return dense


def site_law(state, site, likelihood, alpha, *, exclude=True):
    """Memberships of one token's topic given the others of its document; `likelihood` is p(word | k) by (token, k)."""
    count = np.bincount(np.delete(state, site) if exclude else state, minlength=len(alpha))
    law = (count + alpha) * likelihood[site]
    return law / law.sum()


def row_transition(states, likelihood, alpha, *, exclude=True, synchronous=False):
    """One sweep over a document's tokens: in sequence, or each given the sweep before."""
    n_states, n_tokens = states.shape
    places = len(alpha) ** np.arange(n_tokens - 1, -1, -1)
    if synchronous:
        laws = [[site_law(state, i, likelihood, alpha, exclude=exclude) for i in range(n_tokens)] for state in states]
        return np.array([[np.prod([p[i][end[i]] for i in range(n_tokens)]) for end in states] for p in laws])
    transition = np.eye(n_states)
    for site in range(n_tokens):
        step = np.zeros((n_states, n_states))
        for i, state in enumerate(states):
            law = site_law(state, site, likelihood, alpha, exclude=exclude)
            for topic in range(len(alpha)):
                step[i, i + (topic - state[site]) * places[site]] += law[topic]
        transition = transition @ step
    return transition


def fresh_law(states, likelihood, alpha):
    """Each token given those before it."""
    law = np.ones(len(states))
    for i, state in enumerate(states):
        for site in range(len(state)):
            law[i] *= site_law(state[: site + 1], site, likelihood, alpha)[state[site]]
    return law


def sweep_log_likelihood(documents, phi, alpha, before, after):
    """Of the sweep that led from one state to another: token i saw the new topics before it, the old ones behind it."""
    words, total = token_words(documents), 0.0
    for start, stop in zip(documents.token_start[:-1], documents.token_start[1:], strict=True):
        for i in range(start, stop):
            others = np.concatenate((after[start:i], before[i + 1 : stop])).astype(np.int64)
            weight = (np.bincount(others, minlength=len(alpha)) + alpha) @ phi[:, words[i]]
            total += np.log(weight / (stop - start - 1 + alpha.sum()))
    return total
