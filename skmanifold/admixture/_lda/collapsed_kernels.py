"""Kernels of latent Dirichlet allocation with topics integrated out: collapsed Gibbs sampling and CVB0."""

import math

import numpy as np

from ...numerics.block_sums import dot, sum_lanes
from ...numerics.special import log_rising
from ...random._keys import fold_in, random_bits, uniform
from ...utils._njit import njit
from ...utils._threads import split_range

# The state is one topic per token, in the corpus' CSR order (row, feature, occurrence), and two tables counted from it:
# `word_topic` (n_features, n_components) and `totals` (n_components,). The tokens of row m are at
# ``token_start[m]:token_start[m + 1]``. Priors must be positive: `alpha` (n_components,) for a row's topics, a
# `StridedPrior` for a topic's words, with its sums over words in `prior_total` (n_components,). A full table is fastest
# when stored by word.

_HALF_WORD = np.uint64(32)
_WORD_BLOCK = 1 << 10  # words of one partial sum


@njit(cache=True, nogil=True)
def _init_assignments(corpus, token_start, first_row, seed_topics, key, out):
    """Draw the topic of each token uniformly, and count; a draw depends on (key, row, feature, occurrence).

    Words with a topic in `seed_topics`, which is -1 for the others, have this topic.
    """
    out_assignments, out_word_topic, out_topic_total = out
    out_word_topic[:] = 0
    out_topic_total[:] = 0
    for row in range(len(corpus.indptr) - 1):
        row_key = fold_in(key, first_row + row)
        token = token_start[row]
        for j in range(corpus.indptr[row], corpus.indptr[row + 1]):
            word = corpus.indices[j]
            cell_key = fold_in(row_key, word)
            for occurrence in range(corpus.counts[j]):
                # The upper half of the bits times K, shifted back: the bias is at most K / 2**32.
                high = random_bits(cell_key, occurrence) >> _HALF_WORD
                topic = np.int64((high * np.uint64(len(out_topic_total))) >> _HALF_WORD)
                if seed_topics[word] >= 0:
                    topic = np.int64(seed_topics[word])
                out_assignments[token] = topic
                out_word_topic[word, topic] += 1
                out_topic_total[topic] += 1
                token += 1


@njit(cache=True, nogil=True)
def _sweep_collapsed(corpus, token_start, alpha, prior, prior_total, key, out):
    """Redraw every token once, in CSR order, from its full conditional (Griffiths and Steyvers, 2004, eq. 5).

    p(z = k | the rest) ∝ (D_mk + alpha_k) (W_kv + beta_kv) / (T_k + sum_v beta_kv), where D, W and T (a row's, a word's
    and all tokens of topic k) do not count the token: (13) in Zaheer et al. (2016) with corrected parentheses. A
    uniform of (key, row, feature, occurrence) inverts the distribution function in the order of the topics.
    """
    out_assignments, out_word_topic, out_topic_total = out
    n_components = len(alpha)
    n_blocks = (n_components + 7) // 8
    doc_topic = np.empty(n_components, np.int32)
    topic_scale = np.empty(n_components)  # 1 / (T_k + sum_v beta_kv)
    doc_scale = np.empty(n_components)  # (D_mk + alpha_k) / (T_k + sum_v beta_kv)
    weights = np.zeros(8 * n_blocks)  # zero beyond n_components
    block_end = np.empty(n_blocks)
    for k in range(n_components):
        topic_scale[k] = 1.0 / (out_topic_total[k] + prior_total[k])

    for row in range(len(corpus.indptr) - 1):
        # Topics of the document's tokens, and with them what the weights of all its words have in common.
        row_key = fold_in(key, row)
        token = token_start[row]
        doc_topic[:] = 0
        for i in range(token, token_start[row + 1]):
            doc_topic[out_assignments[i]] += 1
        for k in range(n_components):
            doc_scale[k] = (doc_topic[k] + alpha[k]) * topic_scale[k]

        for j in range(corpus.indptr[row], corpus.indptr[row + 1]):
            word = np.int64(corpus.indices[j])
            cell_key = fold_in(row_key, word)
            for occurrence in range(corpus.counts[j]):
                # Only one weight depends on the removal of the token; the tables change if its topic changes.
                old = np.int64(out_assignments[token])
                _weigh_topics(out_word_topic, word, prior, doc_scale, weights)
                doc_weight = (doc_topic[old] - 1 + alpha[old]) / (out_topic_total[old] - 1 + prior_total[old])
                beta = prior.values[word * prior.row_step + old * prior.column_step]
                weights[old] = (out_word_topic[word, old] - 1 + beta) * doc_weight
                new = _pick_topic(weights, n_components, uniform(cell_key, occurrence), block_end)
                if new != old:
                    out_assignments[token] = new
                    doc_topic[old] -= 1
                    doc_topic[new] += 1
                    out_word_topic[word, old] -= 1
                    out_word_topic[word, new] += 1
                    out_topic_total[old] -= 1
                    out_topic_total[new] += 1
                    for topic in (old, new):
                        topic_scale[topic] = 1.0 / (out_topic_total[topic] + prior_total[topic])
                        doc_scale[topic] = (doc_topic[topic] + alpha[topic]) * topic_scale[topic]
                token += 1


@njit(cache=True, nogil=True)
def _weigh_topics(word_topic, word, prior, doc_scale, out_weights):
    """(W_kv + beta_kv) times `doc_scale`, for one word."""
    # A loop for each step, because only loops with a fixed step are vectorised.
    start = word * prior.row_step
    if prior.column_step == 0:
        beta = prior.values[start]
        for k in range(len(doc_scale)):
            out_weights[k] = (word_topic[word, k] + beta) * doc_scale[k]
    else:
        word_prior = prior.values[start : start + len(doc_scale)]
        for k in range(len(doc_scale)):
            out_weights[k] = (word_topic[word, k] + word_prior[k]) * doc_scale[k]


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
def _log_joint(token_start, state, alpha, prior, prior_total):
    """Log p(w, z | alpha, beta), proportions and topics integrated out (Griffiths and Steyvers, 2004, eqs. 2 and 3).

    With (x)_n = Gamma(x + n) / Gamma(x): sum over rows of sum_k log (alpha_k)_D_mk - log (sum_k alpha_k)_N_m, plus sum
    over topics of sum_v log (beta_kv)_W_kv - log (sum_v beta_kv)_T_k, without multinomial coefficients.
    """
    assignments, word_topic, topic_total = state
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
                beta = prior.values[word * prior.row_step + k * prior.column_step]
                log_word += log_rising(beta, word_topic[word, k])
        result += log_word
    for k in range(n_components):
        result -= log_rising(prior_total[k], topic_total[k])
    return result


# The state is `gamma` (n_pairs, n_components) float32: for each nonzero count, in CSR order, the topic probabilities
# that its tokens share; and the counts expected with them, `word_topic` and `totals`. A sweep is synchronous between
# rows and sequential within each row: ``_update_rows`` reads the tables of the previous sweep, then
# ``_accumulate_words`` and ``sum_words`` rebuild them from `gamma`. Each output cell is summed by one task in a fixed
# order, so that the result does not depend on the ranges of rows and words. Only the blocks of ``sum_words`` must
# always be the same.


@njit(cache=True, nogil=True)
def _init_gamma(start, stop, corpus, seed_topics, key, out_gamma):
    """Normalised uniforms for the rows from `start` to `stop`; that of topic k depends on (key, row, feature, k).

    Words with a topic in `seed_topics`, which is -1 for the others, have this topic only.
    """
    n_components = out_gamma.shape[1]
    weights = np.empty(n_components)
    for row in range(start, stop):
        row_key = fold_in(key, row)
        for j in range(corpus.indptr[row], corpus.indptr[row + 1]):
            seed_topic = seed_topics[corpus.indices[j]]
            if seed_topic >= 0:
                out_gamma[j] = 0.0
                out_gamma[j, seed_topic] = 1.0
                continue
            pair_key = fold_in(row_key, corpus.indices[j])
            for k in range(n_components):
                weights[k] = 1.0 - uniform(pair_key, k)  # never 0
            scale = 1.0 / sum_lanes(weights)
            for k in range(n_components):
                out_gamma[j, k] = weights[k] * scale


@njit(cache=True, nogil=True)
def _update_rows(start, stop, seed_topics, corpus, alpha, prior, prior_total, out, out_log_likelihood):
    """One sweep over the rows from `start` to `stop` (Asuncion et al., 2009; (14) in Zaheer et al., 2016).

    gamma_k ∝ (W_kv - g_k + beta_kv) / (T_k - g_k + sum_v beta_kv) * (D_mk - g_k + alpha_k), normalised; the previous
    gamma g of the pair removes one token. D_m = sum_v c_mv gamma_mv is changed by each update, W and T are not. Words
    with a topic in `seed_topics` keep their gamma: otherwise that of another could grow from the tiny prior to one.

    `out_log_likelihood` is log p(w_m) at the expected counts before the sweep: sum_v c_mv log sum_k theta_mk phi_kv.
    """
    out_gamma, word_topic, topic_total = out
    n_components = len(alpha)
    alpha_total = alpha.sum()
    doc_topic, doc_scale, weights = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    beta = np.full(n_components, prior.values[0])
    for row in range(start, stop):
        first, last = corpus.indptr[row], corpus.indptr[row + 1]
        doc_topic[:] = 0.0
        n_tokens = 0
        for j in range(first, last):
            n_tokens += corpus.counts[j]
            _add_scaled(np.float64(corpus.counts[j]), out_gamma, j, doc_topic)
        for k in range(n_components):
            doc_scale[k] = (doc_topic[k] + alpha[k]) / (topic_total[k] + prior_total[k])
        # The denominator of theta is the same for all topics, and left out of `doc_scale`.
        total = -n_tokens * math.log(n_tokens + alpha_total)
        of_prior = dot(doc_scale, beta)
        for j in range(first, last):
            word = np.int64(corpus.indices[j])
            # With a single beta its part is the same for all words of the document.
            if _read_prior(prior, word, beta):
                of_prior = dot(doc_scale, beta)
            total += corpus.counts[j] * math.log(dot(doc_scale, word_topic[word]) + of_prior)
        out_log_likelihood[row] = total
        for j in range(first, last):
            word = np.int64(corpus.indices[j])
            if seed_topics[word] >= 0:
                continue
            _read_prior(prior, word, beta)
            _weigh_topics_softly(
                word_topic, word, topic_total, prior_total, doc_topic, alpha, beta, out_gamma, j, weights
            )
            _replace_gamma(corpus.counts[j], weights, out_gamma, j, doc_topic)


@njit(cache=True, nogil=True)
def _read_prior(prior, word, out_beta):
    """Write the prior of one word, unless it is a single number; returns whether it is not."""
    if prior.row_step == 0 and prior.column_step == 0:
        return False
    for k in range(len(out_beta)):
        out_beta[k] = prior.values[word * prior.row_step + k * prior.column_step]
    return True


# With numpy's error model a division by zero raises no error, so that the loop can be vectorised.
@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_topics_softly(word_topic, word, topic_total, prior_total, doc_topic, alpha, beta, gamma, pair, out_weights):
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


def sum_words(word_topic, workers):
    """The topic counts of all words, added in fixed blocks, whose sums are added in their order."""
    blocks = split_range(len(word_topic), _WORD_BLOCK)
    partials, totals = np.empty((len(blocks), word_topic.shape[1])), np.empty(word_topic.shape[1])
    workers.run(_sum_words, [(*words, word_topic, part) for words, part in zip(blocks, partials, strict=True)])
    _sum_words(0, len(partials), partials, totals)
    return totals
