"""The topics of all tokens, documents in parallel, in a way that no topic loses its last token."""

from __future__ import annotations

import numpy as np

from ...numerics.reductions import exact_sum
from ...random._keys import uniform
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._tokens.document_gibbs import Documents, WordTable, document_prior, pad_topics, rows_of_tasks
from .._tokens.document_gibbs_kernels import Guards, Sweeps, _sample_rows

_TASK_TOKENS = 1 << 17  # whose priorities are compared by one task


def sweep_with_guards(
    documents: Documents,
    table: WordTable,
    expected: np.ndarray,
    row_keys: np.ndarray,
    token_topics: np.ndarray,
    guards: Guards,
    workers: Workers,
) -> float:
    """Draw the topic of each token given the others of its document, in place; some tokens stay, see `Guards`.

    Parameters
    ----------
    documents : Documents
        The corpus.
    table : WordTable
        Distributions of the topics over words.
    expected : ndarray of shape (K,)
        alpha b_k.
    row_keys : ndarray of shape (n_rows,)
        A stream for each document.
    token_topics : ndarray of shape (n_tokens,), uint16
        Topics of the tokens, in CSR order.
    guards : Guards
        From the tokens of the whole corpus, see `guards_of`.
    workers : Workers
        Threads, on which the draws do not depend.

    Returns
    -------
    log_likelihood : float
        Sum over tokens of the log probability given the others of the document.
    """
    log_likelihood, sweep = np.zeros(len(row_keys)), Sweeps(0, 0, 1, False)
    history = np.empty(0, np.uint16)
    shared = documents, table, document_prior(expected), guards, row_keys, sweep, token_topics, history, log_likelihood
    workers.run(_sample_rows, [(*rows, *shared) for rows in rows_of_tasks(documents, 1)])
    return exact_sum(log_likelihood)


def guards_of(least: np.ndarray, key: np.uint64, first_token: int) -> Guards:
    """The guards of documents whose first token has this number, given the least priorities in the whole corpus."""
    return Guards(pad_topics(least), key, first_token)


def least_priorities(
    token_topics: np.ndarray, n_components: int, first_token: int, key: np.uint64, workers: Workers
) -> np.ndarray:
    """The least priority of the tokens of each topic, (n_components,); 1 for a topic without tokens."""
    tasks = split_range(len(token_topics), _TASK_TOKENS)
    parts = workers.run(_find_least, [(*tokens, token_topics, n_components, first_token, key) for tokens in tasks])
    return np.min([np.ones(n_components), *parts], axis=0)


@njit(cache=True, nogil=True)
def _find_least(first, stop, token_topics, n_components, first_token, key):
    least = np.ones(n_components)
    for token in range(first, stop):
        topic = np.uint64(token_topics[token])
        least[topic] = min(least[topic], uniform(key, first_token + token))
    return least
