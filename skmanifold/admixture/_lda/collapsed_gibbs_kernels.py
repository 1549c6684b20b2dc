"""Collapsed Gibbs sampling for latent Dirichlet allocation: kernels over arrays.

The state is one topic per token, in the corpus' CSR order (row, feature, occurrence), and two tables counted from it:
`word_topic` (n_features, n_components) and `topic_total` (n_components,). The tokens of row m are at
``token_start[m]:token_start[m + 1]``. Priors must be positive: `alpha` (n_components,) for a row's topics; for a
topic's words beta_kv = ``prior[v * word_stride + k * topic_stride]`` with the sums over v in `prior_total`
(n_components,). Strides (0, 0) make it a scalar, (1, 0) one value per word; a full table is fastest when stored by
word, strides (n_components, 1).
"""

from __future__ import annotations

import numpy as np

from ...numerics.special import log_rising
from ...random._keys import fold_in, random_bits, uniform
from ...utils._njit import njit

_HALF_WORD = np.uint64(32)


@njit(cache=True, nogil=True)
def _init_assignments(
    indptr,
    indices,
    counts,
    token_start,
    first_row,
    n_components,
    seed_topics,
    key,
    out_assignments,
    out_word_topic,
    out_topic_total,
):
    """Draw the topic of each token uniformly, and count; a draw depends on (key, row, feature, occurrence).

    Words with a topic in `seed_topics`, which is -1 for the others, have this topic.
    """
    out_word_topic[:] = 0
    out_topic_total[:] = 0
    for row in range(len(indptr) - 1):
        row_key = fold_in(key, first_row + row)
        token = token_start[row]
        for j in range(indptr[row], indptr[row + 1]):
            cell_key = fold_in(row_key, indices[j])
            for occurrence in range(counts[j]):
                # The upper half of the bits times K, shifted back: the bias is at most K / 2**32.
                high = random_bits(cell_key, occurrence) >> _HALF_WORD
                topic = np.int64((high * np.uint64(n_components)) >> _HALF_WORD)
                if seed_topics[indices[j]] >= 0:
                    topic = np.int64(seed_topics[indices[j]])
                out_assignments[token] = topic
                out_word_topic[indices[j], topic] += 1
                out_topic_total[topic] += 1
                token += 1


@njit(cache=True, nogil=True)
def _sweep_collapsed(
    indptr,
    indices,
    counts,
    token_start,
    alpha,
    prior,
    word_stride,
    topic_stride,
    prior_total,
    key,
    out_assignments,
    out_word_topic,
    out_topic_total,
):
    """Redraw every token once, in CSR order, from its full conditional (Griffiths and Steyvers, 2004, eq. 5).

    p(z = k | the rest) ∝ (D_mk + alpha_k) (W_kv + beta_kv) / (T_k + sum_v beta_kv), where D, W and T (a row's, a word's
    and all tokens of topic k) do not count the token: (13) in Zaheer et al. (2016) with corrected parentheses. A
    uniform of (key, row, feature, occurrence) inverts the distribution function in the order of the topics.
    """
    n_components = len(alpha)
    n_blocks = (n_components + 7) // 8
    doc_topic = np.empty(n_components, np.int32)
    topic_scale = np.empty(n_components)  # 1 / (T_k + sum_v beta_kv)
    doc_scale = np.empty(n_components)  # (D_mk + alpha_k) / (T_k + sum_v beta_kv)
    weights = np.zeros(8 * n_blocks)  # zero beyond n_components
    block_end = np.empty(n_blocks)
    for k in range(n_components):
        topic_scale[k] = 1.0 / (out_topic_total[k] + prior_total[k])

    for row in range(len(indptr) - 1):
        # Topics of the document's tokens, and with them what the weights of all its words have in common.
        row_key = fold_in(key, row)
        token = token_start[row]
        doc_topic[:] = 0
        for i in range(token, token_start[row + 1]):
            doc_topic[out_assignments[i]] += 1
        for k in range(n_components):
            doc_scale[k] = (doc_topic[k] + alpha[k]) * topic_scale[k]

        for j in range(indptr[row], indptr[row + 1]):
            word = np.int64(indices[j])
            cell_key = fold_in(row_key, word)
            for occurrence in range(counts[j]):
                # Only one weight depends on the removal of the token; the tables change if its topic changes.
                old = np.int64(out_assignments[token])
                _weigh_topics(out_word_topic, word, prior, word * word_stride, topic_stride, doc_scale, weights)
                doc_weight = (doc_topic[old] - 1 + alpha[old]) / (out_topic_total[old] - 1 + prior_total[old])
                weights[old] = (
                    out_word_topic[word, old] - 1 + prior[word * word_stride + old * topic_stride]
                ) * doc_weight
                new = _pick_topic(weights, n_components, uniform(cell_key, occurrence), block_end)
                if new != old:
                    out_assignments[token] = new
                    doc_topic[old] -= 1
                    doc_topic[new] += 1
                    out_word_topic[word, old] -= 1
                    out_word_topic[word, new] += 1
                    out_topic_total[old] -= 1
                    out_topic_total[new] += 1
                    topic_scale[old] = 1.0 / (out_topic_total[old] + prior_total[old])
                    topic_scale[new] = 1.0 / (out_topic_total[new] + prior_total[new])
                    doc_scale[old] = (doc_topic[old] + alpha[old]) * topic_scale[old]
                    doc_scale[new] = (doc_topic[new] + alpha[new]) * topic_scale[new]
                token += 1


@njit(cache=True, nogil=True)
def _weigh_topics(word_topic, word, prior, prior_start, topic_stride, doc_scale, out_weights):
    """(W_kv + beta_kv) times `doc_scale`, for one word; beta_kv is ``prior[prior_start + k * topic_stride]``."""
    # A loop for each important stride, because only loops with a fixed stride are vectorised.
    if topic_stride == 0:
        beta = prior[prior_start]
        for k in range(len(doc_scale)):
            out_weights[k] = (word_topic[word, k] + beta) * doc_scale[k]
    elif topic_stride == 1:
        word_prior = prior[prior_start : prior_start + len(doc_scale)]
        for k in range(len(doc_scale)):
            out_weights[k] = (word_topic[word, k] + word_prior[k]) * doc_scale[k]
    else:
        for k in range(len(doc_scale)):
            out_weights[k] = (word_topic[word, k] + prior[prior_start + k * topic_stride]) * doc_scale[k]


@njit(cache=True, nogil=True)
def _pick_topic(weights, n_components, u, out_block_end):
    """The first topic at which the running sum of `weights` exceeds `u` times their total; its weight is positive.

    `weights` is padded with zeros to blocks of eight, with entries of `out_block_end`: adding eight at a time shortens
    the chain of dependent additions.
    """
    n_blocks = len(out_block_end)
    total = 0.0
    for block in range(n_blocks):
        k = 8 * block
        total += ((weights[k] + weights[k + 1]) + (weights[k + 2] + weights[k + 3])) + (
            (weights[k + 4] + weights[k + 5]) + (weights[k + 6] + weights[k + 7])
        )
        out_block_end[block] = total
    target = u * total
    block = 0
    while block < n_blocks - 1 and out_block_end[block] <= target:
        block += 1
    running = out_block_end[block - 1] if block > 0 else 0.0
    topic = 8 * block
    for k in range(8 * block, min(8 * block + 8, n_components)):
        # Because of rounding, the sum of the eight may be less than the end of the block: then use the last one.
        if weights[k] > 0.0:
            topic = k
            running += weights[k]
            if target < running:
                break
    return topic


@njit(cache=True, nogil=True)
def _log_joint(token_start, assignments, word_topic, topic_total, alpha, prior, word_stride, topic_stride, prior_total):
    """Log p(w, z | alpha, beta), proportions and topics integrated out (Griffiths and Steyvers, 2004, eqs. 2 and 3).

    With (x)_n = Gamma(x + n) / Gamma(x): sum over rows of sum_k log (alpha_k)_D_mk - log (sum_k alpha_k)_N_m, plus sum
    over topics of sum_v log (beta_kv)_W_kv - log (sum_v beta_kv)_T_k, without multinomial coefficients.
    """
    n_components = len(alpha)
    alpha_total = alpha.sum()
    doc_topic = np.zeros(n_components, np.int64)
    result = 0.0
    for row in range(len(token_start) - 1):
        start, stop = token_start[row], token_start[row + 1]
        for i in range(start, stop):
            doc_topic[assignments[i]] += 1
        log_row = -log_rising(alpha_total, stop - start)
        for i in range(start, stop):
            topic = assignments[i]
            if doc_topic[topic] > 0:
                log_row += log_rising(alpha[topic], doc_topic[topic])
                doc_topic[topic] = 0
        result += log_row
    for word in range(len(word_topic)):
        log_word = 0.0
        for k in range(n_components):
            if word_topic[word, k] > 0:
                log_word += log_rising(prior[word * word_stride + k * topic_stride], word_topic[word, k])
        result += log_word
    for k in range(n_components):
        result -= log_rising(prior_total[k], topic_total[k])
    return result
