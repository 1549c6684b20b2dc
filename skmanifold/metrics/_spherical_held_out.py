"""Likelihood of whole documents under spherical topics, with the proportions integrated out by Monte Carlo.

There is one kernel for each method, so that the methods that are rarely needed are compiled only where they are. Each
fills an array whose rows are, for the documents with products ``b = beta'v`` with each draw of the topics, the
logarithm of the mean weight, the effective sample size, the number of draws, and the weighted mean of theta. The
effective sample size is NaN where that of a pilot was too low. Scratch memory is made by the caller, because kernels
that make arrays take longer to compile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..distributions._bessel import log_density_at_mode
from ..random._keys import Purpose, fold_in, root_key, subkey, uniform
from ..sparse.directions import AnyDirections, as_directions
from ..topics.document_densities import density_of, likelihood_terms
from ..topics.proportions import check_doc_topic_prior
from ..topics.spherical_kernels import multiply_columns, whole_gram
from ..utils._njit import njit, njit_part
from ..utils._threads import Workers, split_range
from ..utils._typing import ArrayLike, MatrixLike, RandomStateLike
from ..utils._validation import check_array
from ._spherical_importance import (
    FIRST_LOG_STEP,
    N_RUNGS,
    anneal,
    draw_from_prior,
    effective_fraction,
    reset,
    scratch_shape,
)
from ._spherical_proposal import draw_from_proposal, fit_proposal, starts_of, tabulate

_SPHERICAL = 3  # folded after Purpose.INFERENCE
_BLOCK_ROWS = 16
_CHUNK_ROWS = 4096  # of which products with all topics are in memory
_PRODUCT_ROWS = 64
_MAX_PRIOR_KAPPA = 5.0  # concentration up to which the prior is as good a proposal as the fitted one
LEAST_ESS = 0.3
_N_PILOT = 50
_LEAST_DRAWS = 2  # for each draw of the topics
_MOST_EQUAL = 4.0  # number of draws of the topics that are not treated as repetitions
_LEAST_GAIN = 1.0  # of a fit, in nats, after which densities for the other draws are estimated again
_SMALL_SHARE, _N_CHOSEN = 0.2, 6  # of the draws without a fit; of these so many are chosen
_DRAWS_PER_PARTICLE = 8
_N_ADAPTATION = 4  # particles that only adapt step sizes
_DRAW, _PILOT, _TUNING, _ANNEALING = Purpose.DRAW, Purpose.PILOT, Purpose.TUNING, Purpose.ANNEALING


@dataclass(frozen=True, eq=False)
class SphericalLikelihood:
    """Log densities of documents, with error diagnostics; they are NaN for rows without entries.

    Attributes
    ----------
    log_density : ndarray of shape (n_rows,)
        Log of the density of the direction of each document with respect to the surface area of the unit sphere, in
        nats. That of the uniform distribution is ``log_vmf_normalizer(n_features, 0)``.
    document_errors : ndarray of shape (n_rows,)
        Monte Carlo standard error of `log_density`, to first order in the spread of the weights.
    effective_sample_size : ndarray of shape (n_rows,)
        Effective sample size of the weights, ``sum(w)**2 / sum(w**2)``, as a fraction of their number. If it is low,
        the estimate depends on few draws and is probably too low.
    proportions : ndarray of shape (n_rows, n_components)
        Posterior means of the proportions given the topics, from the same draws; the prior mean for rows without
        entries.
    annealed : ndarray of shape (n_rows,), bool
        Whether the estimate of a document comes from annealed importance sampling.
    """

    log_density: np.ndarray
    document_errors: np.ndarray
    effective_sample_size: np.ndarray
    proportions: np.ndarray
    annealed: np.ndarray


def spherical_document_likelihood(
    topics: ArrayLike,
    X: MatrixLike,
    doc_topic_prior: ArrayLike,
    concentration: float,
    *,
    method: Literal["fitted", "prior"] = "fitted",
    n_draws: int = 200,
    random_state: RandomStateLike = 0,
    n_jobs: int | None = None,
) -> SphericalLikelihood:
    r"""Density of whole documents under a spherical admixture, given its topics.

    The direction of a document is :math:`v \sim \mathrm{vMF}(\beta\theta / \|\beta\theta\|, \kappa)`, with proportions
    :math:`\theta \sim \mathrm{Dir}(\alpha)`, which are integrated out:

    .. math:: p(v \mid \beta) = \int \mathrm{Dir}(\theta \mid \alpha) \, c_V(\kappa)
        \exp\left(\kappa \, v^\top \frac{\beta\theta}{\|\beta\theta\|}\right) d\theta.

    With ``method="fitted"`` the proposal of importance sampling is fitted to each document by expectation propagation
    [2]_: topic weights are drawn in turn, each from its prior times a normal factor for the document and the remaining
    topics, and divided by their sum. Importance weights are nearly equal for all :math:`\alpha`, unless :math:`\kappa`
    is small or the document points away from all topics. If the effective sample size of a pilot of 50 draws is less
    than 30%, the prior is tried as the proposal (first, for :math:`\kappa \le 5`), and then annealed importance
    sampling [3]_ with `n_draws` / 8 particles, from the prior along increasing concentrations. Pilots are not used in
    the estimate, so that the mean of the weights is **unbiased for the density**. On average its logarithm is too low,
    by about half its squared standard error.

    If a document points away from all topics and :math:`\kappa` is large, annealing may miss modes (for small
    :math:`\alpha`) or not converge (for large). Then the estimated error is too small, and the logarithm too low by a
    few nats or more.

    With ``method="prior"`` the draws come from the prior, as in [1]_: unbiased as well, but if :math:`\kappa` is in the
    thousands, the largest weight dominates, and the logarithm is too low by many nats.

    Parameters
    ----------
    topics : array-like of shape (n_components, n_features)
        Directions :math:`\beta_k`; rows are divided by their lengths.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Documents; rows are divided by their lengths.
    doc_topic_prior : array-like of shape (n_components,)
        Parameters :math:`\alpha` of the prior of the proportions.
    concentration : float
        :math:`\kappa`, at least 0.
    method : {"fitted", "prior"}, default="fitted"
        The proposal distribution.
    n_draws : int, default=200
        Number of draws of the proportions for each document.
    random_state : None, int or RandomState, default=0
        Seed. Draws depend only on it and on the content of the document, so equal documents have equal values.
    n_jobs : int or None
        Number of threads. The result does not depend on it.

    Returns
    -------
    SphericalLikelihood

    Raises
    ------
    ValueError
        If the shapes do not agree, a value is not finite, a topic is zero, `concentration` is negative, `n_draws` is
        less than 2 or `method` is unknown.

    References
    ----------
    .. [1] Liu, C., Zhu, J. and Song, Y. (2016). Stochastic gradient geodesic MCMC methods. NeurIPS.
    .. [2] Minka, T. (2001). Expectation propagation for approximate Bayesian inference. UAI.
    .. [3] Neal, R. (2001). Annealed importance sampling. Statistics and Computing 11, 125-139.

    Examples
    --------
    >>> from skmanifold.metrics._spherical_held_out import spherical_document_likelihood
    >>> topics = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    >>> result = spherical_document_likelihood(topics, [[3, 2, 1, 1]], [2, 2, 2], 20, n_draws=2000)
    >>> result.log_density.round(1), result.proportions.round(1)  # -0.820, by quadrature
    (array([-0.8]), array([[0.6, 0.2, 0.2]]))
    """
    beta = as_directions(check_array(topics, dtype=np.float64, input_name="topics"))
    if len(beta.directed) < beta.n_rows:
        raise ValueError("topics must not have rows of zeros, because these have no direction.")
    prior = check_doc_topic_prior(doc_topic_prior, beta.n_rows)
    if not 0 <= concentration < np.inf:
        raise ValueError(f"concentration must be finite and at least 0; got {concentration}.")
    if method not in ("fitted", "prior"):
        raise ValueError(f'method must be "fitted" or "prior"; got {method!r}.')
    if n_draws < 2:
        raise ValueError(f"n_draws must be at least 2; got {n_draws}.")
    X = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_min_features=2, input_name="X")
    if X.shape[1] != beta.n_features:
        raise ValueError(f"X has {X.shape[1]} columns, but the topics have {beta.n_features} features.")
    dense = beta.dense(np.arange(beta.n_rows))
    key = subkey(root_key(random_state), Purpose.INFERENCE, _SPHERICAL)
    with Workers(n_jobs) as workers:
        return integrate_documents(
            as_directions(X), [dense], prior, float(concentration), key, n_draws, workers, from_prior=method == "prior"
        )


def integrate_documents(
    directions: AnyDirections,
    topics: Sequence[np.ndarray],
    alpha: np.ndarray,
    kappa: float | np.ndarray,
    key: np.uint64,
    n_draws: int,
    workers: Workers,
    *,
    from_prior: bool = False,
    least_ess: float = LEAST_ESS,
) -> SphericalLikelihood:
    """Compute `spherical_document_likelihood` of validated arrays, on average over several draws of unit topics.

    Contents of documents are folded into the key. A row of which both pilots have an effective sample size below the
    fraction `least_ess` is annealed. With `from_prior` draws are from the prior alone. The standard error is about that
    of `n_draws` draws of the proportions for each of the draws of the topics that matter, at most four; proportions are
    given that one of these is true.
    """
    T, K, density = len(topics), len(topics[0]), density_of(kappa, directions.n_features)
    alpha = np.array(alpha)  # never read-only, which would be another type to compile for
    found = np.full((directions.n_rows, 3 + K), np.nan)
    found[:, 3:] = alpha / alpha.cumsum()[-1]
    share = min(1.0, _MOST_EQUAL / T)  # the more draws of the topics, the fewer particles for each
    n_particles = max(2, math.ceil(share * n_draws / _DRAWS_PER_PARTICLE))
    annealed = np.zeros(directions.n_rows, np.bool_)
    grams = np.empty((T, K, K))

    def rows_left(kernel: Any, at: np.ndarray, of_rows: tuple, given: tuple, *memory: tuple[int, ...]) -> np.ndarray:
        """Those of these places in `rows` that the kernel refuses, after results of the others are stored."""

        def run_block(start: int, stop: int) -> np.ndarray:
            block, out = at[start:stop], np.empty((stop - start, 3 + K))
            of_block = products.take(block, axis=1), *(each[block] for each in of_rows)
            kernel(*of_block, grams, alpha, density, *given, *map(np.zeros, memory), out)
            is_good = ~np.isnan(out[:, 1])
            found[rows[block[is_good]]] = out[is_good]
            return block[~is_good]

        return np.concatenate([at[:0], *workers.run(run_block, split_range(len(at), _BLOCK_ROWS))])

    is_fitted = not from_prior and density.reference > _MAX_PRIOR_KAPPA and K > 1
    of_proposal = n_draws, least_ess, tabulate(alpha) if is_fitted else None
    of_prior = n_draws, 0.0 if from_prior else least_ess
    for first, last in split_range(len(directions.directed), _CHUNK_ROWS):
        rows = directions.directed[first:last]
        at, products, keys = np.arange(len(rows)), np.empty((T, len(rows), K)), np.empty(len(rows), np.uint64)
        directions.fill_keys(key, rows, keys)
        for t, drawn in enumerate(topics):
            word_topic = np.ascontiguousarray(drawn.T, np.float64)
            if first == 0:
                multiply_columns(0, len(word_topic), word_topic, grams[t])
                grams[t] = whole_gram(grams[t : t + 1])
            fill = partial(directions.fill_products, word_topic=word_topic, out=products[t])
            workers.run(fill, [(rows, *part) for part in split_range(len(rows), _PRODUCT_ROWS)])
        columns = scratch_shape(K)
        if is_fitted:
            of_fits = (4, T), (T, 3, K), (T, K, K), (K + 6, K)
            starts = starts_of(alpha, density.reference, products[0], grams[0])
            at = rows_left(average_over_proposal, at, (keys, starts), of_proposal, *of_fits, columns)
        at = rows_left(average_over_prior, at, (keys,), of_prior, columns)
        annealed[rows[at]] = True
        rows_left(average_over_particles, at, (keys,), (n_particles,), (N_RUNGS,), (8, K), (3 + K,))
    # The kernels omit the factor c_V(kappa) exp(kappa), or with a concentration for each topic c_V(0).
    log_density, ess, n_used = found[:, :3].T
    log_density = log_density + log_density_at_mode(directions.n_features, kappa if np.ndim(kappa) == 0 else 0.0)
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.maximum(1 / ess - 1, 0) / (n_used - 1))
    return SphericalLikelihood(log_density, errors, ess.copy(), found[:, 3:].copy(), annealed)


@njit_part
def _finish(tally, n_draws, divisor):
    """Turn a tally of draws into a row of the result; their weights are divided by `divisor`."""
    total = tally[1]
    tally[0] += math.log(total / divisor)
    tally[1] = effective_fraction(tally, n_draws)
    tally[2] = n_draws
    for k in range(3, len(tally)):
        tally[k] /= total


@njit(cache=True, nogil=True, _nrt=False, error_model="numpy")
def average_over_proposal(
    products,
    keys,
    starts,
    grams,
    alpha,
    density,
    n_draws,
    least_ess,
    tables,
    fits,
    sites,
    uppers,
    work,
    columns,
    out,
):
    """Integrate documents with draws of the proposals that are fitted to each, for each draw of the topics.

    Documents are refused if the first fit fails or a pilot's effective sample size is below `least_ess`. Topics that
    make a document less probable have fewer draws, or none: the standard error of the mean density is about that of
    `n_draws` for each of four equally probable topics, or of fewer if fewer matter. The arrays before `out` are memory:
    for fits, `fits` (4, n_topics), `sites` (n_topics, 3, K) and `uppers` (n_topics, K, K), and for `fit_proposal` and
    `draw_from_proposal`.
    """
    n_topics = len(grams)
    k, logs, which, log_weights = fits[0], fits[1], fits[2], fits[3]
    for i in range(len(keys)):
        tally = out[i]
        of_row = products, i, keys[i], starts[i], grams, alpha, density, tables
        best = _fit_likely_draws(of_row, (fits, sites, uppers, work, columns, tally))
        reset(tally)
        if best >= 0:
            at = int(which[best])
            given = alpha, density, k[at], products[best, i], grams[best], tables, sites[at], uppers[at]
            pilot_key = fold_in(fold_in(keys[i], _PILOT), 0)
            draw_from_proposal(*given, pilot_key, _N_PILOT, 1.0, 0.0, tally, columns)
        if not (tally[2] > 0.0 and effective_fraction(tally, _N_PILOT) >= least_ess):
            tally[1] = np.nan
            continue
        total, squares, n_used = 0.0, 0.0, 0
        for t in range(n_topics):
            share = math.exp(logs[t] + log_weights[t] - logs[best])  # 0 without a fit
            total += share
            squares += share * share
        n_whole = n_draws * min(_MOST_EQUAL, total * total / squares)
        reset(tally)
        for t in range(n_topics):
            at = int(which[t])
            if at >= 0:
                share = math.exp(logs[t] + log_weights[t] - logs[best]) / total
                n = max(_LEAST_DRAWS, math.ceil(n_whole * share))
                given = alpha, density, k[at], products[t, i], grams[t], tables, sites[at], uppers[at]
                draw_key = fold_in(fold_in(keys[i], _DRAW), t)
                draw_from_proposal(*given, draw_key, n, 1.0, log_weights[t], tally, columns)
                n_used += n
        _finish(tally, n_used, n_topics)


@njit_part
def _fit_likely_draws(of_row, memory):
    """Fit proposals for those draws of the topics that matter for a document; returns the best, or -1.

    Densities for other draws are estimated from a fit (`_estimate_densities`). Draws are fitted from the largest
    estimate on, until the share of the others is small, also if their estimates are as wrong as the worst so far. Of
    the others a few are chosen in proportion to the estimates and fitted; weights of 1 / probability leave the mean
    unbiased. Fills `fits`: k of each fit, and for each draw the log density, estimated or at the centre of the
    proposal; the number of its fit, or -1; and the logarithm of its weight. If the first fit fails, -1 is returned.
    """
    key, first, grams = of_row[2], of_row[3], of_row[4]
    fits, sites = memory[0], memory[1]
    n_topics, logs, which, log_weights = len(grams), fits[1], fits[2], fits[3]
    logs[:], which[:], log_weights[:] = -np.inf, -1.0, -np.inf
    best, reference, n_fits, error = 0, 0, 0, 0.0
    t, rest, start = 0, 0.0, first
    while t >= 0:
        estimate = logs[t]
        if not _fit_draw(t, n_fits, reference, start, of_row, memory):
            return -1
        error = max(error, abs(logs[t] - estimate)) if n_fits > 0 else 0.0
        log_weights[t] = 0.0
        best = t if logs[t] > logs[best] else best
        if n_fits == 0 or logs[best] > logs[reference] + _LEAST_GAIN:
            reference = best
            start = sites[int(which[reference])]
            _estimate_densities(reference, of_row, memory)
        n_fits += 1
        t, n_left, known, rest = -1, 0, 0.0, 0.0
        for u in range(n_topics):
            share = math.exp(logs[u] - logs[best])
            if which[u] >= 0.0:
                known += share
            else:
                rest += share
                n_left += 1
                t = u if t < 0 or logs[u] > logs[t] else t
        if n_left > _N_CHOSEN and rest * math.exp(error) < _SMALL_SHARE * known:
            break
    step = rest / _N_CHOSEN
    mark, passed = step * uniform(fold_in(key, _PILOT), 1), 0.0
    for u in range(n_topics):
        if which[u] >= 0.0:
            continue
        passed += math.exp(logs[u] - logs[best])
        if passed > mark:
            n_times = math.ceil((passed - mark) / step)
            mark += n_times * step
            log_weights[u] = math.log(n_times * step) + logs[best] - logs[u]
            _fit_draw(u, n_fits, reference, start, of_row, memory)
            n_fits += 1
    for u in range(n_topics):
        best = u if which[u] >= 0.0 and logs[u] > logs[best] else best
    return best


@njit_part
def _fit_draw(t, at, reference, start, of_row, memory):
    """Fit a proposal for document i and draw t of the topics as number `at`; returns False if there is none.

    If neither start leads to a fit, the proposal is that for the `reference`. The log weight of its centre approximates
    the log density of the document.
    """
    products, i, key, first, grams, alpha, density, tables = of_row
    fits, sites, uppers, work, columns, tally = memory
    k, logs, which = fits[0], fits[1], fits[2]
    given = products[t, i], grams[t], tables
    k[at] = fit_proposal(alpha, density, *given, start, sites[at], uppers[at], work)
    if k[at] == 0.0 and at > 0:
        k[at] = fit_proposal(alpha, density, *given, first, sites[at], uppers[at], work)
    which[t] = at if k[at] > 0.0 else which[reference]
    at = int(which[t])
    if at < 0:
        return False
    reset(tally)
    draw_from_proposal(alpha, density, k[at], *given, sites[at], uppers[at], key, 1, 0.0, 0.0, tally, columns)
    logs[t] = tally[0]
    return True


@njit_part
def _estimate_densities(reference, of_row, memory):
    """Estimate log densities of document i for the draws of the topics that have no fit, from the fit of one.

    The difference D of two log likelihoods is expanded to first order about the means m of the fitted normal
    distribution, with covariance C: log E exp D = D(m) + grad D(m)' C grad D(m) / 2.
    """
    products, i, grams, density = of_row[0], of_row[1], of_row[4], of_row[6]
    fits, sites, uppers, work = memory[0], memory[1], memory[2], memory[3]
    logs, which = fits[1], fits[2]
    at = int(which[reference])
    means, upper, base, gradient = sites[at, 0], uppers[at], work[0], work[1]
    value, factor = likelihood_terms(density, means, products[reference, i], grams[reference], base)
    for j in range(len(means)):
        base[j] *= factor
    for t in range(len(grams)):
        if which[t] < 0.0:
            found, factor = likelihood_terms(density, means, products[t, i], grams[t], gradient)
            found += logs[reference] - value
            for j in range(len(means)):
                rest = factor * gradient[j] - base[j]
                for m in range(j):
                    rest -= upper[m, j] * gradient[m]
                gradient[j] = rest / upper[j, j]
                found += 0.5 * gradient[j] * gradient[j]
            logs[t] = max(logs[t], found if abs(found) < np.inf else logs[reference])


@njit(cache=True, nogil=True, _nrt=False, error_model="numpy")
def average_over_prior(products, keys, grams, alpha, density, n_draws, least_ess, scratch, out):
    """Integrate documents with draws of the prior; as `average_over_proposal`, without a pilot if `least_ess` is 0.

    `scratch` is as that of `draw_from_prior`. All topics have as many draws.
    """
    n_topics = len(grams)
    n_pilot = (_N_PILOT + n_topics - 1) // n_topics
    for i in range(len(keys)):
        tally = out[i]
        for stage in range(0 if least_ess > 0.0 else 1, 2):
            n = n_pilot if stage == 0 else n_draws
            reset(tally)
            for t in range(n_topics):
                key = fold_in(fold_in(keys[i], _PILOT if stage == 0 else _DRAW), t + 1)
                draw_from_prior(alpha, density, products[t, i], grams[t], key, n, tally, scratch)
            if stage == 0 and not effective_fraction(tally, n_topics * n) >= least_ess:
                tally[1] = np.nan
                break
            if stage == 1:
                _finish(tally, n_topics * n, n_topics * n)


@njit(cache=True, nogil=True, _nrt=False, error_model="numpy")
def average_over_particles(products, keys, grams, alpha, density, n_particles, log_steps, work, adaptation, out):
    """Integrate all documents by annealing, with step sizes adapted by separate particles for the first topics.

    `log_steps` (one for each temperature), `work`, of shape (8, K), and `adaptation`, a tally, are scratch memory.
    """
    n_topics = len(grams)
    for i in range(len(keys)):
        tally = out[i]
        reset(tally)
        log_steps[:] = FIRST_LOG_STEP
        for t in range(n_topics):
            document_key = fold_in(fold_in(keys[i], _ANNEALING), t)
            for stage in range(0 if t == 0 else 1, 2):
                adapts = stage == 0
                of_stage = fold_in(document_key, _TUNING if adapts else _DRAW)
                n_used, of_use = (_N_ADAPTATION, adaptation) if adapts else (n_particles, tally)
                anneal(alpha, density, products[t, i], grams[t], of_stage, n_used, log_steps, adapts, of_use, work)
        _finish(tally, n_topics * n_particles, n_topics * n_particles)
