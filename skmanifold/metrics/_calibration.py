"""Simulation-based calibration: ranks of true values among draws, simultaneous bands, coverage of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, poisson
from sklearn.utils import check_random_state

from ..utils._typing import ArrayLike, RandomStateLike
from ..utils._validation import check_array

_TIES = 1e-9  # relative difference of probabilities that counts as none
_N_BISECTIONS = 40


class CalibrationTest(NamedTuple):
    """Result of `calibration_test`.

    Parameters
    ----------
    pvalue : float
        Probability that the distribution function of uniform ranks leaves the narrowest band that holds the observed
        one. It is exact and is valid for all ranks together.
    shift : float
        Mean of ``(rank + 1/2) / (n_draws + 1)`` minus 1/2, from -0.5 to 0.5. If it is positive, the draws are too
        small on average.
    shift_error : float
        Standard deviation of the shift for uniform ranks.
    levels : ndarray of shape (n_levels,)
        Levels that intervals from `n_draws` draws have.
    coverage : ndarray of shape (n_levels,)
        Share of the equal-tailed intervals that contain the true value.
    coverage_error : ndarray of shape (n_levels,)
        Standard deviation of the coverage for uniform ranks.
    """

    pvalue: float
    shift: float
    shift_error: float
    levels: np.ndarray
    coverage: np.ndarray
    coverage_error: np.ndarray


def calibration_ranks(truth: ArrayLike, draws: ArrayLike, *, random_state: RandomStateLike = None) -> np.ndarray:
    r"""Ranks of true values among draws from the posteriors, for simulation-based calibration.

    Parameters are drawn from the prior and data given these parameters; then the posterior given the data is sampled.
    For each simulation s, a quantity has the true value :math:`f(\theta_s)` and the values :math:`f(\theta_{s,l})` in
    L draws. If the draws are exact and independent, the rank

    .. math:: r_s = \#\{l : f(\theta_{s,l}) < f(\theta_s)\}

    is uniform on 0, ..., L ([1]_, theorem 1). Ties are broken at random, so that this also holds for discrete
    quantities. Draws of a Markov chain should be thinned until they are nearly independent.

    Parameters
    ----------
    truth : array-like of shape (n_simulations,)
    draws : array-like of shape (n_simulations, n_draws)
    random_state : int, RandomState instance or None, default=None
        Seed for ties.

    Returns
    -------
    ranks : ndarray of shape (n_simulations,), int64
        Numbers from 0 to n_draws.

    Raises
    ------
    ValueError
        If the shapes do not agree, or a value is not finite.

    References
    ----------
    .. [1] S. Talts, M. Betancourt, D. Simpson, A. Vehtari and A. Gelman, "Validating Bayesian inference algorithms
       with simulation-based calibration", arXiv:1804.06788, 2018.

    Examples
    --------
    >>> from skmanifold.metrics import calibration_ranks
    >>> calibration_ranks([0.5, -3.0], [[0.1, 0.2, 0.9], [0.3, -0.2, 0.0]]).tolist()
    [2, 0]
    """
    values: np.ndarray = check_array(draws, dtype=np.float64, input_name="draws")
    of_truth: np.ndarray = check_array(truth, dtype=np.float64, ensure_2d=False, input_name="truth")
    if of_truth.shape != values.shape[:1]:
        raise ValueError(f"truth has shape {of_truth.shape}; draws with shape {values.shape} need {values.shape[:1]}.")
    below, equal = (values < of_truth[:, None]).sum(axis=1), (values == of_truth[:, None]).sum(axis=1)
    return below + check_random_state(random_state).randint(0, equal + 1)


def calibration_test(ranks: ArrayLike, n_draws: int, *, levels: Sequence[float] = (0.5, 0.9)) -> CalibrationTest:
    r"""Test whether ranks are uniform, and compute the coverage of credible intervals.

    The statistic is the smallest two-sided binomial tail probability of the empirical distribution function,

    .. math:: \gamma = \min_j 2 \min\{P(C_j \le c_j), P(C_j \ge c_j)\}, \quad C_j \sim
        \mathrm{Bin}\bigl(n, \tfrac{j + 1}{L + 1}\bigr),

    where :math:`c_j` is the number of ranks up to j [1]_. Its distribution for uniform ranks is computed exactly.

    Parameters
    ----------
    ranks : array-like of shape (n_simulations,)
        Ranks from 0 to `n_draws`, as `calibration_ranks` returns them.
    n_draws : int
        Number of draws L of each simulation.
    levels : sequence of float, default=(0.5, 0.9)
        Levels of equal-tailed intervals. With n_draws draws an interval between two of them has a level that is a
        multiple of ``1 / (n_draws + 1)``; the nearest one is used.

    Returns
    -------
    CalibrationTest
        p-value, shift, and coverage of intervals, with their standard deviations for uniform ranks.

    Raises
    ------
    ValueError
        If the ranks are not integers from 0 to `n_draws`, or a level is not between 0 and 1.

    References
    ----------
    .. [1] T. Säilynoja, P.-C. Bürkner and A. Vehtari, "Graphical test for discrete uniformity and its applications in
       goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing 32, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold.metrics import calibration_test
    >>> ranks = np.random.default_rng(0).integers(0, 100, 400)
    >>> test = calibration_test(ranks, 99)
    >>> test.pvalue > 0.05, test.levels.round(2).tolist()
    (True, [0.5, 0.9])
    """
    checked = checked_ranks(ranks, n_draws)
    wanted = np.asarray(levels, dtype=np.float64)
    if not np.all((wanted > 0) & (wanted < 1)):
        raise ValueError(f"levels must be between 0 and 1; got {levels!r}.")
    n, n_ranks = len(checked), n_draws + 1
    outside = np.clip(np.rint((1 - wanted) / 2 * n_ranks), 1, max(1, n_draws // 2)).astype(int)
    reached = 1 - 2 * outside / n_ranks
    within = [np.mean((checked >= j) & (checked <= n_draws - j)) for j in outside]
    shift = float(np.mean((checked + 0.5) / n_ranks) - 0.5)
    of_uniform = np.sqrt((1 - 1 / n_ranks**2) / 12 / n)
    error = np.sqrt(reached * (1 - reached) / n)
    pvalue = 1 - _probability_within(_lower_tails(n, n_draws), _smallest_tail(checked, n_draws) * (1 + _TIES))
    return CalibrationTest(float(np.clip(pvalue, 0, 1)), shift, float(of_uniform), reached, np.array(within), error)


def calibration_band(n_simulations: int, n_draws: int, *, level: float = 0.95) -> np.ndarray:
    """Simultaneous band for the empirical distribution function of uniform ranks.

    Parameters
    ----------
    n_simulations : int
    n_draws : int
        Number of draws L of each simulation; ranks are 0, ..., L.
    level : float, default=0.95
        Minimum probability that the whole function lies within the band, ends included.

    Returns
    -------
    band : ndarray of shape (2, n_draws + 1)
        Lower and upper ends of the share of ranks that are at most 0, 1, ..., L.

    Raises
    ------
    ValueError
        If a number is below 1, or the level is not between 0 and 1.

    Examples
    --------
    >>> from skmanifold.metrics import calibration_band
    >>> calibration_band(400, 3).round(2).tolist()
    [[0.2, 0.44, 0.7, 1.0], [0.3, 0.56, 0.8, 1.0]]
    """
    if n_simulations < 1 or n_draws < 1:
        raise ValueError(f"A band needs at least one simulation and one draw; got {n_simulations} and {n_draws}.")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level}.")
    low, high = 0.0, 1.0  # the largest tail probability with this coverage is between these
    tails = _lower_tails(n_simulations, n_draws)
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability_within(tails, middle) >= level else (low, middle)
    return np.pad(_limits(tails, low), ((0, 0), (0, 1)), constant_values=n_simulations) / n_simulations


def checked_ranks(ranks: ArrayLike, n_draws: int) -> np.ndarray:
    """Validate ranks and return them as integers; a ValueError names what is wrong."""
    given: np.ndarray = check_array(ranks, dtype=np.float64, ensure_2d=False, input_name="ranks")
    whole = given.astype(np.int64)
    if given.ndim != 1 or np.any(whole != given) or whole.min() < 0 or whole.max() > n_draws:
        raise ValueError(f"ranks must be one-dimensional, whole numbers from 0 to n_draws={n_draws}.")
    return whole


def _smallest_tail(ranks: np.ndarray, n_draws: int) -> float:
    """Smallest two-sided tail probability of the numbers of ranks up to 0, 1, ..., n_draws - 1."""
    n, counts = len(ranks), np.bincount(ranks, minlength=n_draws + 1).cumsum()[:-1]
    shares = np.arange(1, n_draws + 1) / (n_draws + 1)
    tails = np.minimum(binom.cdf(counts, n, shares), binom.sf(counts - 1, n, shares))
    return min(1.0, 2 * float(tails.min()))


def _lower_tails(n: int, n_draws: int) -> np.ndarray:
    """Distribution functions of the numbers of ranks up to 0, ..., n_draws - 1, at 0, ..., n."""
    return binom.cdf(np.arange(n + 1)[:, None], n, np.arange(1, n_draws + 1) / (n_draws + 1))


def _limits(lower_tails: np.ndarray, tail: float) -> np.ndarray:
    """Smallest and largest numbers of ranks up to 0, ..., n_draws - 1 whose tail probabilities are at least `tail`.

    `binom.ppf` would give the same, but fails for probabilities below about 1e-240.
    """
    low = (lower_tails < tail / 2).sum(axis=0)
    return np.array([low, len(lower_tails) - 1 - low[::-1]])


def _probability_within(lower_tails: np.ndarray, tail: float) -> float:
    """Probability that all tail probabilities of uniform ranks are at least `tail`.

    The numbers of ranks equal to 0, 1, ..., L are independent Poisson variables given that their sum is n.
    """
    if tail > 1:
        return 0.0
    low, high = _limits(lower_tails, tail)
    if np.any(low > high):
        return 0.0
    n, n_ranks = len(lower_tails) - 1, len(low) + 1
    of_one = poisson.pmf(np.arange(n + 1), n / n_ranks)
    first, within = 0, np.ones(1)  # probabilities of the numbers first, first + 1, ...
    for start, stop in zip([*low, n], [*high, n], strict=True):
        reached = np.convolve(within, of_one[: stop - first + 1])[: stop - first + 1]
        within, first = reached[max(0, start - first) :], max(start, first)
        if not len(within):
            return 0.0
    return float(within[0] / poisson.pmf(n, n))
