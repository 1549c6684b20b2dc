"""Kernels of mean-field inference for latent Dirichlet allocation: updates of documents, and terms of the objective.

A document's factor is Dir(gamma), with `shapes` gamma, and a topic's is Dir(lambda) with lambda = counts + prior. The
weights of topics in documents and words (see `mixture_kernels`) are exp(E log theta_mk) and exp(E log phi_kv), each
divided by its largest over k so that not all of them underflow. The logarithms of these are *offsets*.
"""

from __future__ import annotations

import numpy as np

from ...numerics.log_gamma import N_WORK, fill_log_gamma
from ...numerics.vector_math import fill_exp
from ...utils._njit import njit
from .mixture_kernels import weigh_row


@njit(cache=True, nogil=True)
def log_gamma_of(shapes):
    """Log gamma and digamma of an array."""
    n = len(shapes)
    work, values, slopes = np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    fill_log_gamma(n, shapes, work, values, slopes)
    return values, slopes


@njit(cache=True, nogil=True)
def _fill_weights(logs, powers, out_weights):
    """``out_weights = exp(logs - offset)``, where the offset, which is returned, is the largest; changes `logs`."""
    offset = logs[0]
    for k in range(1, len(logs)):
        offset = max(offset, logs[k])
    for k in range(len(logs)):
        logs[k] -= offset
    fill_exp(len(logs), logs, powers, out_weights)
    return offset


# Words


@njit(cache=True, nogil=True)
def weigh_words(start, stop, words, counts, prior, word_stride, topic_stride, total_slopes, out_weights, out_offsets):
    """Weights and offsets of the words from `start` to `stop` of a list; `total_slopes` is digamma(sum_v lambda_kv)."""
    n = counts.shape[1]
    shapes, work, values, slopes = np.empty(n), np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    for i in range(start, stop):
        word = np.int64(words[i])
        for k in range(n):
            shapes[k] = counts[word, k] + prior[word * word_stride + k * topic_stride]
        fill_log_gamma(n, shapes, work, values, slopes)
        for k in range(n):
            slopes[k] -= total_slopes[k]
        out_offsets[i] = _fill_weights(slopes, values, out_weights[i])


@njit(cache=True, nogil=True)
def score_words(start, stop, counts, prior, word_stride, topic_stride):
    """The part of -sum_k KL(Dir(lambda_k) | Dir(beta_k)) that is a sum over words, from `start` to `stop`."""
    n = counts.shape[1]
    shapes, work, values, slopes = np.empty(n), np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    prior_values = np.empty(n)
    total = 0.0
    for word in range(start, stop):
        if word == start or word_stride != 0:
            for k in range(n):
                shapes[k] = prior[word * word_stride + k * topic_stride]
            fill_log_gamma(n, shapes, work, prior_values, slopes)
        for k in range(n):
            shapes[k] = counts[word, k] + prior[word * word_stride + k * topic_stride]
        fill_log_gamma(n, shapes, work, values, slopes)
        of_word = 0.0
        for k in range(n):
            of_word += values[k] - prior_values[k] - counts[word, k] * slopes[k]
        total += of_word
    return total


# Documents


@njit(cache=True, nogil=True)
def _evaluate_row(
    start,
    stop,
    pair_word,
    pair_count,
    alpha,
    word_weights,
    shapes,
    values,
    slopes,
    work,
    out_weights,
    out_ratios,
    out_sums,
):
    """Weights, ratios and expected counts of a document, and its term in the objective without constants.

    That is sum_v c_v log sum_k a_k b_vk - KL, up to what does not depend on the factor while its shapes sum to N_m +
    sum_k alpha_k. `values` and `slopes` are log gamma and digamma of the shapes; overwritten.
    """
    value = 0.0
    for k in range(len(shapes)):
        value += values[k] - (shapes[k] - alpha[k]) * slopes[k]
    offset = _fill_weights(slopes, work[0], out_weights)
    value += weigh_row(start, stop, pair_word, pair_count, out_weights, word_weights, out_ratios, out_sums)
    n_tokens = 0.0
    for j in range(start, stop):
        n_tokens += pair_count[j]
    return value + n_tokens * offset


@njit(cache=True, nogil=True)
def evaluate_rows(
    start,
    stop,
    indptr,
    pair_word,
    pair_count,
    alpha,
    word_weights,
    shapes,
    out_weights,
    out_ratios,
    out_sums,
    out_values,
):
    """The same for the documents from `start` to `stop`."""
    n = len(alpha)
    work, values, slopes = np.empty((N_WORK, n)), np.empty(n), np.empty(n)
    for row in range(start, stop):
        fill_log_gamma(n, shapes[row], work, values, slopes)
        out_values[row] = _evaluate_row(
            indptr[row],
            indptr[row + 1],
            pair_word,
            pair_count,
            alpha,
            word_weights,
            shapes[row],
            values,
            slopes,
            work,
            out_weights[row],
            out_ratios,
            out_sums[row],
        )


@njit(cache=True, nogil=True)
def fit_rows(
    start,
    stop,
    indptr,
    pair_word,
    pair_count,
    alpha,
    word_weights,
    n_steps,
    tol,
    out_shapes,
    out_weights,
    out_ratios,
    out_sums,
    out_values,
):
    """Up to `n_steps` steps gamma_mk = alpha_k + D_mk for each document from `start` to `stop`.

    Outputs must be those of the shapes, and afterwards are those before the last step: with their responsibilities the
    last step and a step of the topics are optimal together. A step gains at least KL(old factor | new factor), about
    half of the sum of both divergences, sum_k (new - old gamma_k) (digamma(new) - digamma(old)). Steps end when this is
    at most `tol`.
    """
    n = len(alpha)
    work, values = np.empty((N_WORK, n)), np.empty(n)
    slopes, new, new_slopes = np.empty(n), np.empty(n), np.empty(n)
    for row in range(start, stop):
        shapes = out_shapes[row]
        # Digammas of the old shapes are needed only to compare steps.
        if n_steps > 1:
            fill_log_gamma(n, shapes, work, values, slopes)
        for step in range(n_steps):
            for k in range(n):
                new[k] = alpha[k] + out_sums[row, k]
            is_last, increase = step == n_steps - 1, 0.0
            # The last step needs no comparison, and so no digammas.
            if not is_last:
                fill_log_gamma(n, new, work, values, new_slopes)
                for k in range(n):
                    increase += 0.5 * (new[k] - shapes[k]) * (new_slopes[k] - slopes[k])
                    slopes[k] = new_slopes[k]
            for k in range(n):
                shapes[k] = new[k]
            # Stop before the evaluation: the outputs stay those before the last step.
            if is_last or not increase > tol:
                break
            out_values[row] = _evaluate_row(
                indptr[row],
                indptr[row + 1],
                pair_word,
                pair_count,
                alpha,
                word_weights,
                shapes,
                values,
                new_slopes,
                work,
                out_weights[row],
                out_ratios,
                out_sums[row],
            )
