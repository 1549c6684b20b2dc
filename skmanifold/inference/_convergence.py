"""Warnings about draws that are not reliable: trajectories that fail, chains that do not agree, a wrong temperature."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtri
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning

from ..manifolds import PositiveOrthant
from ._draws import Draws

_DIVERGING = 1e-3  # tolerated share of trajectories; steep tails alone cause a few
_CUT_OFF = 0.05  # tolerated share of trajectories
_ACCEPTED = 0.1  # least share of proposals of a chain
_LEAST_FOR_SHARE = 20  # draws per chain
_LEAST_DRAWS = 100  # per chain; with fewer a warning could come by chance
_ESS, _ESS_OF_CHAIN = 100.0, 2.0  # least effective sample sizes: R-hat is about 1.04 with four chains, 1.4 with many
_ESS_OF_DRAWS = 0.05  # the limit for short runs, as a share of all draws
_MOST_RANKED = 1_000_000  # draws of coordinates whose R-hat is computed
_TOLERANCE = 0.2  # deviation of the logarithm of the temperature, beyond chance, that causes a warning
_RARE = 1e-6  # tail probability of chance deviations
_N_BATCHES = 10
_LEAST_BATCH = 10  # draws per batch


def warn_convergence(draws: Draws, manifold: Any, stacklevel: int) -> None:
    """Warn about the first problem that the draws show, if they show one."""
    message = _diverging(draws) or _cut_off(draws) or _rejected(draws) or _disagreeing(draws, manifold)
    if message:
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)


def _diverging(draws: Draws) -> str:
    diverging = draws.stats.get("diverging")
    if diverging is None or diverging.mean() <= _DIVERGING:
        return ""
    return (
        f"{np.count_nonzero(diverging)} of {diverging.size} trajectories diverged: the draws may lack narrow parts of "
        "the distribution. Increase target_acceptance, or choose coordinates in which its scales are similar."
    )


def _cut_off(draws: Draws) -> str:
    depth, most = draws.stats.get("depth"), getattr(draws.sampler, "max_depth", None)
    if depth is None or most is None or draws.n_draws < _LEAST_FOR_SHARE or (depth >= most).mean() <= _CUT_OFF:
        return ""
    return (
        f"{np.count_nonzero(depth >= most)} of {depth.size} trajectories ended at max_depth={most} before they turned "
        "back: the chains move slowly along the widest directions. Choose coordinates in which the scales of the "
        "distribution are similar, for example by the chart Linear, or increase burn_in or max_depth."
    )


def _rejected(draws: Draws) -> str:
    accepted = draws.stats.get("accepted")
    if accepted is None or draws.n_draws < _LEAST_FOR_SHARE:
        return ""
    shares = accepted.mean(axis=1)
    if shares.min() >= _ACCEPTED:
        return ""
    return (
        f"Chain {shares.argmin()} accepted {shares.min():.0%} of its proposals, and all chains {shares.mean():.0%}: "
        "the draws repeat few points. Decrease step_size; tune_step_size finds one."
    )


def _disagreeing(draws: Draws, manifold: Any) -> str:
    """The coordinate with the smallest effective sample size."""
    if draws.n_chains < 2 or draws.n_draws < _LEAST_DRAWS:
        return ""
    values = draws.position.reshape(draws.n_chains, draws.n_draws, -1)
    least = min(max(_ESS, _ESS_OF_CHAIN * draws.n_chains), _ESS_OF_DRAWS * values[..., 0].size)
    found = [(*ess_and_rhat(values[..., index]), int(index)) for index in _suspects(values, least)]
    ess, rhat, index = min(found, default=(np.inf, np.nan, -1))
    if ess >= least:
        return ""
    name, remedy = _coordinate(manifold, index)
    return (
        f"The chains have not converged: R-hat is {rhat:.2f} and the effective sample size is {ess:.0f} for {name}. "
        f"Increase n_draws or thin{remedy}."
    )


def _coordinate(manifold: Any, index: int) -> tuple[str, str]:
    """The name of a coordinate, with the factor of a product, and what helps it besides longer chains."""
    name = f"position[{', '.join(['...', *map(str, np.unravel_index(index, manifold.shape))])}]"
    factors = getattr(manifold, "factors", ())
    ends = np.cumsum([factor.size for factor in factors])
    number = int(np.searchsorted(ends, index, side="right"))
    if factors:
        name += f", which is in factor {number}, {factors[number]!r}"
    if isinstance(factors[number] if factors else manifold, PositiveOrthant):
        return name, ", or draw the logarithm of this coordinate, whose scale suits the steps better"
    return name, ", tune step_size, or choose coordinates in which the scales of the distribution are similar"


def _suspects(values: np.ndarray, least: float) -> np.ndarray:
    """Coordinates whose mean, or mean distance from the mean, varies between the halves of chains, worst first.

    Ranks of all coordinates would take as long as fast samplers. The limit is ten times `least`: the estimate is rough.
    """
    n_chains, n_draws, _ = values.shape
    with np.errstate(all="ignore"):  # coordinates that do not vary, or overflow
        ratios = np.maximum(_variance_ratio(values), _variance_ratio(np.abs(values - values.mean(axis=(0, 1)))))
    order = np.argsort(-np.nan_to_num(ratios, nan=-1.0, posinf=np.inf), kind="stable")
    suspicious = ratios[order] > 2 * n_chains / (10 * least)
    return order[suspicious][: max(1, _MOST_RANKED // (n_chains * n_draws))]


def _variance_ratio(values: np.ndarray) -> np.ndarray:
    """The variance of the means of half chains over their mean variance: about 2 n_chains / effective sample size."""
    halves = _halves(values)
    of_means = np.var([half.mean(axis=1) for half in halves], axis=(0, 1))
    return of_means / np.mean([half.var(axis=1) for half in halves], axis=(0, 1))


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    length = values.shape[1] // 2
    return values[:, :length], values[:, values.shape[1] - length :]


def ess_and_rhat(values: np.ndarray) -> tuple[float, float]:
    """Effective sample size and rank-normalised split R-hat of one coordinate (Vehtari et al. 2021).

    They are the worse of values and distances from the median, as of arviz-stats, which may not be installed.
    """
    split = np.concatenate(_halves(values))
    (ess, rhat), (ess_of_spread, rhat_of_spread) = map(_of_scores, (split, np.abs(split - np.median(split))))
    return min(ess, ess_of_spread), max(rhat, rhat_of_spread)


def _of_scores(values: np.ndarray) -> tuple[float, float]:
    """The same of the normal scores of these chains."""
    scores = ndtri((rankdata(values).reshape(values.shape) - 0.375) / (values.size + 0.25))
    n_draws, means = scores.shape[1], scores.mean(axis=1)
    spectra = np.abs(np.fft.rfft(scores - means[:, np.newaxis], 2 * n_draws)) ** 2
    covariances = np.fft.irfft(spectra, 2 * n_draws)[:, :n_draws].mean(axis=0) / n_draws
    within, total = covariances[0] * n_draws / (n_draws - 1), covariances[0] + means.var(ddof=1)
    if within <= 0:
        return (len(scores) / 2.0, np.inf) if total > 0 else (np.inf, np.nan)
    correlations = 1 - (within - covariances) / total
    correlations[0] = 1.0
    # Geyer's initial sequence: sums of two are positive and decrease
    pairs = correlations[: n_draws // 2 * 2].reshape(-1, 2).sum(axis=1)
    n_positive = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    time = 2 * np.minimum.accumulate(pairs[:n_positive]).sum() - 1
    return float(scores.size / max(time, 1 / np.log10(scores.size))), float(np.sqrt(total / within))


def warn_temperature(
    temperature: np.ndarray | None,
    n_coordinates: float,
    step_size: str = "sampler__step_size",
    drawn: str = "posterior",
    stacklevel: int = 4,
) -> bool:
    """Warn if the mean kinetic temperature of a sampler with a velocity deviates from 1 by more than chance.

    Chance is that of `n_coordinates` independent coordinates. `step_size` and `drawn` name parameter and target.
    Returns whether it warned.
    """
    if temperature is None or not np.isfinite(temperature).any():
        return False
    mean = float(np.nanmean(temperature))
    # The range of temperatures of independent velocities.
    half = 0.5 * n_coordinates
    low, high = gammaincinv(half, _RARE) / half, gammainccinv(half, _RARE) / half
    deviates = not low * np.exp(-_TOLERANCE) <= mean <= high * np.exp(_TOLERANCE)
    if deviates:
        warnings.warn(
            f"The mean kinetic temperature is {mean:.3g}, not 1: the draws are not those of the {drawn}. Use "
            f"smaller steps ({step_size}), larger minibatches, or a longer burn_in.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return deviates


def n_independent_coordinates(temperature: np.ndarray, dim: int) -> float:
    """The number of independent velocity coordinates whose mean has the same variance as that of all temperatures.

    Chains are independent; within chains the variance is estimated from batch means.
    """
    n_chains, n_draws = temperature.shape
    least, length = float(dim * n_chains), n_draws // _N_BATCHES
    if length < _LEAST_BATCH:
        return least
    batches = temperature[:, -length * _N_BATCHES :].reshape(-1, length).mean(axis=1)
    variance = batches.var(ddof=1) / len(batches)
    if not 0 < variance < np.inf:
        return least
    return min(max(2 * float(batches.mean()) ** 2 / variance, least), float(dim * temperature.size))
