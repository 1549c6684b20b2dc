"""Left-to-right evaluation: Monte Carlo estimates of the marginal likelihood of a document under LDA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..random._discrete_variates import first_above
from ..random._keys import Purpose, fold_in, root_key, row_key, subkey, uniform
from ..sparse.counts import whole_sums_of_rows
from ..topics.proportions import check_doc_topic_prior
from ..topics.topic_word import TopicWord, as_topic_word
from ..utils._inputs.column_order import in_column_order, table_names
from ..utils._njit import njit
from ..utils._threads import Workers, split_range
from ..utils._typing import ArrayLike, MatrixLike, RandomStateLike
from ._held_out import HeldOutScore, PerDocument, check_counts, held_out_score

_LEFT_TO_RIGHT = 2  # folded into the key after Purpose.INFERENCE
_BLOCK_ROWS = 4
_MAX_ROW_TOKENS = 100_000  # the time grows with the square of the number of tokens: hours for one such document


@dataclass(frozen=True, eq=False)
class LeftToRightScore(HeldOutScore):
    """A held-out likelihood from left-to-right evaluation.

    Attributes
    ----------
    log_likelihood, standard_error, n_tokens, n_documents, per_document
        See HeldOutScore.
    monte_carlo_error : float
        Standard error of `log_likelihood` due to the particles only; `standard_error`, over documents, includes it.
        Like `document_errors`, it is accurate to first order in the spread of the runs.
    document_errors : ndarray of shape (n_rows,)
        Monte Carlo standard error of the log likelihood of each document, in nats; NaN if that is infinite.
    """

    monte_carlo_error: float
    document_errors: np.ndarray


def left_to_right(
    topic_word: ArrayLike | TopicWord,
    X: MatrixLike,
    doc_topic_prior: ArrayLike,
    *,
    n_particles: int = 20,
    n_runs: int = 4,
    random_state: RandomStateLike = 0,
    n_jobs: int | None = None,
) -> LeftToRightScore:
    r"""Marginal likelihood of whole documents under LDA, by left-to-right evaluation.

    The function estimates :math:`\log p(w \mid \phi, \alpha)` of the token sequence of every document (without the
    multinomial coefficient), with the proportions integrated out under their Dirichlet(:math:`\alpha`) prior. A run
    processes the tokens one by one, in a random order. At position n each of its R particles first redraws the earlier
    assignments :math:`z_1, ..., z_{n-1}`, one after the other, from their Gibbs conditionals given the first n - 1
    words. Then it computes

    .. math:: p_n = p(w_n \mid z_{<n}) = \sum_k \frac{D_k + \alpha_k}{n - 1 + \sum_l \alpha_l} \, \phi_{k w_n},

    where :math:`D` are the counts of :math:`z_{<n}`, and draws :math:`z_n`. The weight of a particle is the product of
    its :math:`p_n`. If the effective number of particles is less than R / 2, the particles are resampled
    (systematically) with probabilities proportional to the weights, and the mean weight becomes a factor of the
    estimate of the run.

    The Gibbs draws leave :math:`p(z_{<n} \mid w_{<n})` invariant: a run is a sequential Monte Carlo sampler [3]_ with
    the moves of [4]_, whose estimate has the expectation p(w) for any R. The mean of the `n_runs` independent runs is
    therefore **unbiased for p(w)**; its logarithm is on average too low by about half its squared standard error.
    Averages over particles at each position (algorithm 3 of [1]_) or along one chain [2]_ have products that are
    biased. Weights without resampling (R = 1) are unbiased, but so skewed for more than about fifty tokens that their
    mean is almost always far too low.

    The cost grows with the square of the length of a document.

    Parameters
    ----------
    topic_word : array-like of shape (n_components, n_features) or TopicWord
        The topics :math:`\phi`. Rows of an array are divided by their sums.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Counts of words in documents, integers.
    doc_topic_prior : array-like of shape (n_components,)
        Parameters :math:`\alpha` of the prior of the proportions.
    n_particles : int, default=20
        Number of particles R in a run.
    n_runs : int, default=4
        Number of independent runs per document, at least 2. Their spread gives the Monte Carlo error.
    random_state : None, int or RandomState, default=0
        Seed. Draws depend only on it and on the content of the document, so equal documents have equal values.
    n_jobs : int or None
        Number of threads. The result does not depend on it.

    Returns
    -------
    LeftToRightScore
        The score per token over all documents, and the scores of the documents. Empty documents are excluded. A
        document has minus infinity if one of its words has probability zero in all topics.

    Raises
    ------
    ValueError
        If the shapes do not agree, a value is negative, fractional or not finite, `n_particles` is less than 1,
        `n_runs` is less than 2, X has no tokens, or a document has more than 100,000 tokens.

    References
    ----------
    .. [1] Wallach, H., Murray, I., Salakhutdinov, R. and Mimno, D. (2009). Evaluation methods for topic models. ICML.
    .. [2] Buntine, W. (2009). Estimating likelihoods for topic models. ACML, Lecture Notes in Computer Science 5828.
    .. [3] Del Moral, P., Doucet, A. and Jasra, A. (2006). Sequential Monte Carlo samplers. Journal of the Royal
       Statistical Society B 68, 411-436.
    .. [4] Gilks, W. and Berzuini, C. (2001). Following a moving target: Monte Carlo inference for dynamic Bayesian
       models. Journal of the Royal Statistical Society B 63, 127-146.

    Examples
    --------
    >>> from skmanifold.metrics import left_to_right
    >>> score = left_to_right([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], [[2, 0, 0], [0, 1, 0]], [1.0, 1.0])
    >>> score.n_documents, score.per_document.log_likelihood[1].round(3)  # one token: log(1 / 2), exactly
    (2, np.float64(-0.693))
    """
    X = in_column_order(X, table_names(topic_word), "X", of="topic_word")
    topics = as_topic_word(topic_word)
    prior = check_doc_topic_prior(doc_topic_prior, topics.n_components)
    if n_particles < 1:
        raise ValueError(f"n_particles must be at least 1; got {n_particles}.")
    if n_runs < 2:
        raise ValueError(f"n_runs must be at least 2, to estimate the Monte Carlo error; got {n_runs}.")
    key = root_key(random_state)
    counts = check_counts(X, topics.n_features, "left_to_right", _MAX_ROW_TOKENS)
    if counts.counts.dtype.kind == "f":
        raise ValueError(
            "left_to_right needs integer counts, but X has fractional counts: pass counts of words "
            "(CountVectorizer), or use document_completion, which uses fractions as weights."
        )
    if counts.n_tokens == 0:
        raise ValueError("X must have tokens to evaluate, but all of its documents are empty.")
    n_tokens = counts.row_sums()
    log_estimates = np.zeros((counts.n_rows, n_runs))
    impossible = (np.diff(topics.indptr) == 0) & (topics.base == 0.0)  # words of probability zero in all topics
    log_estimates[whole_sums_of_rows(counts.indptr, impossible[counts.indices]) > 0] = -np.inf
    smooth_prior = np.cumsum(prior * topics.inverse)  # for draws of a topic from the smoothing part of the prior
    model = (*(np.require(array, requirements=["C", "W"]) for array in topics), prior, smooth_prior)
    rows = (*counts[:3], counts.counts.astype(np.float64).view(np.uint64))
    given = rows, n_tokens, model, subkey(key, Purpose.INFERENCE, _LEFT_TO_RIGHT), n_particles, log_estimates
    with Workers(n_jobs) as workers:
        workers.run(_evaluate_rows, [(*block, *given) for block in split_range(counts.n_rows, _BLOCK_ROWS)])
    log_likelihood, errors = _log_mean_exp(log_estimates)
    score = held_out_score(PerDocument(log_likelihood, n_tokens))
    error = float(np.sqrt(np.sum(errors**2)) / score.n_tokens)
    return LeftToRightScore(**vars(score), monte_carlo_error=error, document_errors=errors)


def _log_mean_exp(log_values):
    """The log of the mean of exponentials of each row, and its standard error to first order (NaN at -inf)."""
    largest = log_values.max(axis=1)
    possible = np.isfinite(largest)
    ratios = np.exp(log_values - np.where(possible, largest, 0.0)[:, np.newaxis])
    mean = np.where(possible, ratios.mean(axis=1), 1.0)
    errors = ratios.std(axis=1, ddof=1) / (mean * np.sqrt(log_values.shape[1]))
    return np.where(possible, largest + np.log(mean), -np.inf), np.where(possible, errors, np.nan)


@njit(cache=True, nogil=True)
def _evaluate_rows(first, last, rows, n_tokens, model, key, n_particles, out):
    """Estimates of all runs; those of minus infinity stay, because there is nothing to draw."""
    indptr, indices, counts, bits = rows
    n_components = len(model[4])
    # Scratch arrays of the longest document serve all.
    most_tokens = n_tokens[first:last].max()
    tokens = np.empty(most_tokens, dtype=np.int64)
    latents = np.zeros((n_particles, most_tokens), dtype=np.int32)
    topic_counts = np.zeros((n_particles, n_components), dtype=np.int32)
    cumulative = np.empty(n_components)
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        row_stream = row_key(key, indices, bits, start, stop)
        for run in range(out.shape[1]):
            if out[row, run] == -np.inf:
                continue
            n = 0
            for j in range(start, stop):
                for _ in range(counts[j]):
                    tokens[n] = indices[j]
                    n += 1
            stream = fold_in(row_stream, run)
            # Each run has another order of the tokens.
            _shuffle(tokens[:n], fold_in(stream, 0))
            out[row, run] = _run_particles(tokens[:n], model, stream, latents, topic_counts, cumulative)


@njit(cache=True, nogil=True)
def _shuffle(tokens, key):
    for i in range(len(tokens) - 1, 0, -1):
        j = int(uniform(key, i) * (i + 1))
        tokens[i], tokens[j] = tokens[j], tokens[i]


@njit(cache=True, nogil=True)
def _run_particles(tokens, model, stream, latents, topic_counts, cumulative):
    """The log estimate of p(tokens) of one run; `topic_counts` must be zero, and is zero again afterwards."""
    prior_sum = model[5].sum()
    n_particles = len(latents)
    weights = np.ones(n_particles)
    log_estimate = 0.0
    for n in range(len(tokens)):
        for particle in range(n_particles):
            key = fold_in(fold_in(stream, particle + 2), n)
            total = _advance(tokens, n, key, model, latents[particle], topic_counts[particle], cumulative)
            weights[particle] *= total / (n + prior_sum)
        # The mean weight is moved to the estimate at every position, so that the weights do not underflow.
        mean = weights.mean()
        log_estimate += np.log(mean)
        squares = 0.0
        for particle in range(n_particles):
            weights[particle] /= mean
            squares += weights[particle] ** 2
        if n_particles < 0.5 * squares:
            _resample(weights, uniform(fold_in(stream, 1), n), n + 1, latents, topic_counts)
    for particle in range(n_particles):
        for i in range(len(tokens)):
            topic_counts[particle, latents[particle, i]] = 0
    return log_estimate


@njit(cache=True, nogil=True)
def _resample(weights, u, n_tokens, latents, topic_counts):
    """Systematic resampling of particles by `weights` (of mean 1), in place; the weights become 1."""
    n_particles = len(weights)
    offspring = np.zeros(n_particles, dtype=np.int64)
    cumulative = 0.0
    n_made = 0
    for particle in range(n_particles):
        cumulative += weights[particle]
        while n_made < n_particles and (n_made + u < cumulative or particle == n_particles - 1):
            offspring[particle] += 1
            n_made += 1
        weights[particle] = 1.0
    source = 0
    for particle in range(n_particles):
        if offspring[particle] > 0:
            continue
        while offspring[source] < 2:
            source += 1
        offspring[source] -= 1
        for i in range(n_tokens):
            topic_counts[particle, latents[particle, i]] -= 1
            topic_counts[particle, latents[source, i]] += 1
            latents[particle, i] = latents[source, i]


@njit(cache=True, nogil=True)
def _advance(tokens, n, key, model, latents, topic_counts, cumulative):
    """Gibbs draws of the first `n` latents, then of the next one; returns the sum of products for the next one."""
    inverse = model[4]
    smooth_counts = 0.0  # computed again at each position, so that rounding errors do not accumulate
    for i in range(n):
        smooth_counts += inverse[latents[i]]
    total = 0.0
    for i in range(n + 1):
        if i < n:
            topic_counts[latents[i]] -= 1
            smooth_counts -= inverse[latents[i]]
        latents[i], total = _draw_topic(
            tokens[i], uniform(key, i), model, smooth_counts, latents, i, n, topic_counts, cumulative
        )
        topic_counts[latents[i]] += 1
        smooth_counts += inverse[latents[i]]
    return total


@njit(cache=True, nogil=True)
def _draw_topic(v, u, model, smooth_counts, latents, skip, n_latents, topic_counts, cumulative):
    """Draw a topic with probability proportional to (count + prior) times the word's probability; return their sum too.

    `smooth_counts` is the sum of ``inverse`` over the first `n_latents` latents except the one at `skip`.
    """
    word_indptr, word_topics, word_weights, base, inverse, prior, smooth_prior = model
    start = word_indptr[v]
    n_entries = word_indptr[v + 1] - start
    sparse = 0.0
    for i in range(n_entries):
        k = word_topics[start + i]
        sparse += (topic_counts[k] + prior[k]) * word_weights[start + i]
        cumulative[i] = sparse
    total = sparse + base[v] * (smooth_counts + smooth_prior[-1])
    u *= total
    if u < sparse or base[v] == 0.0:
        return np.int32(word_topics[start + first_above(cumulative, n_entries, u)]), total
    u = (u - sparse) / base[v]
    if u < smooth_counts:
        for i in range(n_latents):
            if i != skip:
                u -= inverse[latents[i]]
                if u < 0.0:
                    return latents[i], total
        u = 0.0  # reached only because the sums differ by rounding
    else:
        u -= smooth_counts
    return np.int32(first_above(smooth_prior, len(smooth_prior), u)), total
