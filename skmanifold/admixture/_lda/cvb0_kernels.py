"""CVB0 for latent Dirichlet allocation (collapsed variational Bayes, zeroth order): kernels over arrays.

The state is `gamma` (n_pairs, n_components) float32: for each nonzero count, in CSR order, the topic probabilities that
its tokens share. A sweep is synchronous between rows and sequential within each row: ``_update_rows`` reads the
tables `word_topic` (n_features, n_components) and `topic_total` (n_components,) of the previous sweep, then
``_accumulate_words`` and the two sums after it rebuild them from `gamma`. Each output cell is summed by one task in a
fixed order, so that the result does not depend on the ranges of rows and words. Only the blocks of `partials` of the
topic totals must always be the same.

Priors as in ``_lda_collapsed_kernels``: beta_kv = ``prior[v * word_stride + k * topic_stride]``, all positive.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.reductions import dot, sum_lanes
from ...random._keys import fold_in, uniform
from ...utils._njit import njit


@njit(cache=True, nogil=True)
def _init_gamma(start, stop, indptr, indices, seed_topics, key, out_gamma):
    """Normalised uniforms for the rows from `start` to `stop`; that of topic k depends on (key, row, feature, k).

    Words with a topic in `seed_topics`, which is -1 for the others, have this topic only.
    """
    n_components = out_gamma.shape[1]
    weights = np.empty(n_components)
    for row in range(start, stop):
        row_key = fold_in(key, row)
        for j in range(indptr[row], indptr[row + 1]):
            seed_topic = seed_topics[indices[j]]
            if seed_topic >= 0:
                out_gamma[j] = 0.0
                out_gamma[j, seed_topic] = 1.0
                continue
            pair_key = fold_in(row_key, indices[j])
            for k in range(n_components):
                weights[k] = 1.0 - uniform(pair_key, k)  # never 0
            scale = 1.0 / sum_lanes(weights)
            for k in range(n_components):
                out_gamma[j, k] = weights[k] * scale


@njit(cache=True, nogil=True)
def _update_rows(
    start,
    stop,
    seed_topics,
    indptr,
    indices,
    counts,
    alpha,
    prior,
    word_stride,
    topic_stride,
    prior_total,
    word_topic,
    topic_total,
    out_gamma,
):
    """One sweep over the rows from `start` to `stop` (Asuncion et al., 2009; (14) in Zaheer et al., 2016).

    gamma_k ∝ (W_kv - g_k + beta_kv) / (T_k - g_k + sum_v beta_kv) * (D_mk - g_k + alpha_k), normalised; the previous
    gamma g of the pair removes one token. D_m = sum_v c_mv gamma_mv is changed by each update, W and T are not. Words
    with a topic in `seed_topics` keep their gamma: otherwise that of another could grow from the tiny prior to one.
    """
    n_components = len(alpha)
    doc_topic = np.empty(n_components)
    weights = np.empty(n_components)
    beta = np.full(n_components, prior[0])
    for row in range(start, stop):
        doc_topic[:] = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            _add_scaled(np.float64(counts[j]), out_gamma, j, doc_topic)
        for j in range(indptr[row], indptr[row + 1]):
            word = np.int64(indices[j])
            if seed_topics[word] >= 0:
                continue
            if word_stride != 0 or topic_stride != 0:
                _read_prior(prior, word * word_stride, topic_stride, beta)
            _weigh_topics(word_topic, word, topic_total, prior_total, doc_topic, alpha, beta, out_gamma, j, weights)
            _replace_gamma(counts[j], weights, out_gamma, j, doc_topic)


@njit(cache=True, nogil=True)
def _read_prior(prior, first, stride, out_beta):
    """The prior of one word."""
    for k in range(len(out_beta)):
        out_beta[k] = prior[first + k * stride]


# With numpy's error model a division by zero raises no error, so that the loop can be vectorised.
@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_topics(word_topic, word, topic_total, prior_total, doc_topic, alpha, beta, gamma, pair, out_weights):
    """The right-hand side of the update for one pair, not normalised; counts below zero by rounding are set to zero."""
    for k in range(len(out_weights)):
        own = np.float64(gamma[pair, k])
        in_word = word_topic[word, k] - own
        in_topic = topic_total[k] - own
        in_doc = doc_topic[k] - own
        in_word = (in_word if in_word > 0.0 else 0.0) + beta[k]
        in_topic = (in_topic if in_topic > 0.0 else 0.0) + prior_total[k]
        in_doc = (in_doc if in_doc > 0.0 else 0.0) + alpha[k]
        out_weights[k] = in_word * in_doc / in_topic


@njit(cache=True, nogil=True)
def _replace_gamma(count, weights, out_gamma, pair, out_doc_topic):
    """Set the pair's gamma to the normalised weights and update D."""
    scale = 1.0 / sum_lanes(weights)
    for k in range(len(weights)):
        new = np.float32(weights[k] * scale)
        difference = np.float64(new) - np.float64(out_gamma[pair, k])
        out_gamma[pair, k] = new
        # The rounded value, so that D remains the sum of the stored gamma.
        out_doc_topic[k] += count * difference


@njit(cache=True, nogil=True)
def _add_scaled(factor, gamma, pair, out_sums):
    """Add `factor` times one pair's gamma."""
    for k in range(len(out_sums)):
        out_sums[k] += factor * gamma[pair, k]


@njit(cache=True, nogil=True)
def _accumulate_words(start, stop, word_indptr, word_pairs, counts, gamma, out_word_topic):
    """W_kv = sum_m c_mv gamma_mvk for the words from `start` to `stop`, added in the order of the rows."""
    for word in range(start, stop):
        out_word_topic[word] = 0.0
        for i in range(word_indptr[word], word_indptr[word + 1]):
            _add_scaled(np.float64(counts[word_pairs[i]]), gamma, word_pairs[i], out_word_topic[word])


@njit(cache=True, nogil=True)
def _sum_words(start, stop, word_topic, out_partial):
    """The topic counts of one block of words, added in their order."""
    out_partial[:] = 0.0
    for word in range(start, stop):
        for k in range(len(out_partial)):
            out_partial[k] += word_topic[word, k]


@njit(cache=True, nogil=True)
def _merge_partials(partials, out_topic_total):
    """T_k, from the blocks' sums in the order of the blocks."""
    _sum_words(0, len(partials), partials, out_topic_total)


@njit(cache=True, nogil=True)
def _score_rows(
    start,
    stop,
    indptr,
    indices,
    counts,
    alpha,
    prior,
    word_stride,
    topic_stride,
    prior_total,
    word_topic,
    topic_total,
    gamma,
    out_log_likelihood,
):
    """Log p(w_m) for the rows from `start` to `stop` at the expected counts: sum_v c_mv log sum_k theta_mk phi_kv."""
    n_components = len(alpha)
    alpha_total = alpha.sum()
    doc_topic = np.empty(n_components)
    beta = np.full(n_components, prior[0])
    for row in range(start, stop):
        doc_topic[:] = 0.0
        n_tokens = 0
        for j in range(indptr[row], indptr[row + 1]):
            n_tokens += counts[j]
            _add_scaled(np.float64(counts[j]), gamma, j, doc_topic)
        for k in range(n_components):
            doc_topic[k] = (doc_topic[k] + alpha[k]) / (topic_total[k] + prior_total[k])
        # The denominator of theta is the same for all topics, and left out of `doc_topic`.
        total = -n_tokens * math.log(n_tokens + alpha_total)
        of_prior = dot(doc_topic, beta)
        for j in range(indptr[row], indptr[row + 1]):
            word = indices[j]
            # With the same beta for all words and topics its part is the same for all words of the document.
            if word_stride != 0 or topic_stride != 0:
                _read_prior(prior, word * word_stride, topic_stride, beta)
                of_prior = dot(doc_topic, beta)
            total += counts[j] * math.log(dot(doc_topic, word_topic[word]) + of_prior)
        out_log_likelihood[row] = total
