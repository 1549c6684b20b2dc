"""Draws of chains: convergence diagnostics, credible intervals, and export to ArviZ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from .._install import optional_module
from ..utils._threads import split_range

_CHUNK_CELLS = 1 << 20  # number of values sorted at a time


def equal_tailed_intervals(draws: np.ndarray, level: float = 0.9) -> np.ndarray:
    """Ends, (2, n_rows, n_columns) float32, of equal-tailed credible intervals of each entry, from one chain's draws.

    They are Weibull's quantiles (1 - level) / 2 and (1 + level) / 2: the j-th of n sorted draws is the quantile j / (n
    + 1), and a new independent draw is between them with probability `level`; with numpy's default with less (81%
    instead of 90% for 20 draws). With fewer than `draws_needed` it is the range, of probability `reached_level`.
    """
    if np.ndim(draws) != 3 or len(draws) == 0:
        raise ValueError("draws must be those of one chain, of shape (n_draws, n_rows, n_columns), and not empty.")
    check_level(level)
    n_draws, n_rows, n_columns = draws.shape
    place = max(0.0, (1 - level) / 2 * (n_draws + 1) - 1)  # index of the lower end among the sorted draws, from 0
    below = min(int(place), n_draws - 1)
    above = min(below + 1, n_draws - 1)
    share = place - below
    out = np.empty((2, n_rows, n_columns), dtype=np.float32)
    for start, stop in split_range(n_columns, max(1, _CHUNK_CELLS // (n_draws * n_rows))):
        cells = np.moveaxis(draws[:, :, start:stop], 0, -1).copy()  # sorting is fastest along a contiguous axis
        cells.sort(axis=-1)
        for end, (near, far) in enumerate(((below, above), (n_draws - 1 - below, n_draws - 1 - above))):
            low = cells[..., near].astype(np.float64)
            out[end, :, start:stop] = low + share * (cells[..., far] - low)
    return out


def check_level(level: float) -> None:
    """Raise an error unless `level` is a probability between 0 and 1."""
    if not isinstance(level, Real):
        raise TypeError(f"level must be a number between 0 and 1; got a {type(level).__name__}.")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level}.")


def draws_needed(level: float) -> int:
    """The smallest number of draws whose intervals reach `level`: 19 for 90%."""
    return max(1, math.ceil((1 + level) / (1 - level) - 1e-9))  # 1e-9 guards against rounding errors


def reached_level(level: float, n_draws: int) -> float:
    """The level of intervals from n independent draws: `level`, or that of their range, (n - 1) / (n + 1)."""
    return level if n_draws >= draws_needed(level) else max(0.0, (n_draws - 1) / (n_draws + 1))


def warn_of_level(level: float, n_draws: int, ess: np.ndarray) -> None:
    """Warn of too few draws for `level`, or too small an ESS, (n_topics,), NaN if unknown, for half of the topics."""
    needed = draws_needed(level)
    slow = ess[ess < needed]
    if n_draws < needed:
        reached = reached_level(level, n_draws)
        said = (
            f"Intervals from {n_draws} draw{'s' * (n_draws != 1)} have level {100 * reached:.3g}% and not "
            f"{100 * level:g}%, which needs {needed} draws: increase max_iter or max_draws_bytes, decrease thin or "
            "burn_in, or continue the stream."
        )
    elif 0 < len(ess) <= 2 * len(slow):
        said = (
            f"Intervals of {len(slow)} of {len(ess)} topics have a level below {100 * level:g}%, because the smallest "
            f"effective sample size of {n_draws} draws is {slow.min():.0f} and {needed} is needed: increase max_iter, "
            "together with thin or max_draws_bytes."
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=3)


SAMPLE_STATS = ("log_joint", "log_likelihood", "temperature")  # draws of estimators that are statistics of the run
_NAMES = {  # of ArviZ
    "log_joint": "lp",
    "log_density": "lp",
    "acceptance": "acceptance_rate",
    "depth": "tree_depth",
    "n_gradients": "n_steps",
}


def to_tree(
    draws: Mapping[str, np.ndarray],
    axes: Mapping[str, list[str]],
    coords: Mapping[str, Any] | None = None,
    *,
    stats: Collection[str] = SAMPLE_STATS,
    component_draws: np.ndarray | None = None,
) -> Any:
    """Named draws as an `xarray.DataTree` whose variables have named axes; ValueError if shapes do not agree.

    Draws, (n_chains, n_draws, ...), are in the group ``posterior``, padded with NaN if lengths differ between draws;
    variables in `stats` in ``sample_stats``. A group of ArviZ has a single dimension of draws, so those with fewer are
    in ``posterior_thinned``, whose ``draw`` has their indices, `component_draws`. `axes` are names after chain and
    draw, `coords` labels along axes, or None. Variables without entries, and statistics that are all NaN, are omitted.
    """
    from_dict = optional_module("arviz_base", "to_arviz", "arviz").from_dict
    coords = {axis: labels for axis, labels in (coords or {}).items() if labels is not None}
    n_draws = max(np.shape(values)[1] for values in draws.values())
    if n_draws == 0:
        raise ValueError("No draws were kept: increase max_draws_bytes, or decrease burn_in or thin.")
    n_thinned = n_draws if component_draws is None else len(component_draws)
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, values in draws.items():
        if np.ndim(values) != 2 + len(axes.get(name, [])):
            raise ValueError(f"The axes of {name!r}, of shape {np.shape(values)}, have no names.")
        if name in stats:
            group = "sample_stats"
            if np.issubdtype(values.dtype, np.floating) and np.isnan(values).all():
                continue
        else:
            group = "posterior_thinned" if values.shape[1] == n_thinned < n_draws else "posterior"
        if values.size:
            groups.setdefault(group, {})[_NAMES.get(name, name)] = values
    thinned = groups.pop("posterior_thinned", None)
    lengths = {name: values.shape[1] for group in groups.values() for name, values in group.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The numbers of draws differ, {lengths}: pass the indices of kept draws as component_draws.")
    # the check would warn if there are more chains than draws
    tree = from_dict(groups, coords=coords, dims=dict(axes), check_conventions=False)
    if thinned is not None:
        coords = {**coords, "draw": np.asarray(component_draws)}
        part = from_dict({"posterior_thinned": thinned}, coords=coords, dims=dict(axes), check_conventions=False)
        tree["posterior_thinned"] = part["posterior_thinned"]
    return tree


def falling(values: np.ndarray) -> np.ndarray:
    """`values` sorted in descending order along the last axis with NaN last, so that labels do not matter."""
    return -np.sort(-values, axis=-1)


LEAST_FOR_ESS = 50  # minimum number of draws per chain; with fewer the autocorrelations are mostly noise
LEAST_FOR_RHAT = 4  # minimum number of draws per chain, because each half needs two for a variance
CONVERGED = 1.01  # largest R-hat of chains that agree (Vehtari et al. 2021)


@dataclass(frozen=True, repr=False)
class Draws:
    """Draws of one or more chains.

    Attributes
    ----------
    position : ndarray of shape (n_chains, n_draws, *shape)
        Points of the manifold of the target.
    stats : dict of ndarray of shape (n_chains, n_draws, ...)
        Diagnostics of each draw. Samplers with a Metropolis test: ``log_density``, and whether the proposal was
        ``accepted``. `NUTS`: ``log_density``, ``energy``, whether the trajectory was ``diverging``, its mean
        ``acceptance`` probability, ``depth`` and ``n_gradients``, and the ``step_size``. Samplers with a momentum: the
        kinetic ``temperature``, whose mean differs from 1 if steps are too large, and the ``thermostat``. `SCIR` and
        `GeometricBrownian`: ``log_position``, which does not underflow.
    sampler : BaseSampler
        The sampler of the draws.
    """

    position: np.ndarray
    stats: dict[str, np.ndarray] = field(default_factory=dict)
    sampler: Any = None

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.position.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return self.position.shape[1]

    def flat(self) -> np.ndarray:
        """Draws of all chains, concatenated.

        Returns
        -------
        ndarray of shape (n_chains * n_draws, ...)
        """
        return self.position.reshape(-1, *self.position.shape[2:])

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Draws:
        """Draws of a function of the point.

        Parameters
        ----------
        function : callable
            Function of points ``(..., *shape)`` with any leading axes that returns values with the same leading axes,
            such as the method ``point`` of a chart.

        Returns
        -------
        Draws

        Raises
        ------
        ValueError
            If the values do not have the leading axes of the points.
        """
        values = np.asarray(function(self.position))
        if values.shape[:2] != self.position.shape[:2]:
            raise ValueError(
                f"function must keep the axes of chains and draws, {self.position.shape[:2]}, but returns the shape "
                f"{values.shape}: write x[..., 0] for the first coordinate."
            )
        return replace(self, position=values)

    def mean(self) -> np.ndarray:
        """Mean over all draws of all chains.

        Returns
        -------
        ndarray
        """
        return self.position.mean(axis=(0, 1))

    def ess(self, **options: Any) -> np.ndarray:
        """Effective sample size of each coordinate, over all chains, by arviz-stats.

        It is NaN if a coordinate of a chain is constant; arviz-stats would treat such draws as independent. With fewer
        than 50 draws per chain it is mostly noise.

        Parameters
        ----------
        **options
            Options of ``ess`` of arviz-stats, such as ``method="mean"``; by default it is the bulk effective sample
            size.

        Returns
        -------
        ndarray
            Effective sample sizes, of the shape of a point.
        """
        ess = self._diagnose("ess", options)
        constant = (self.position == self.position[:, :1]).all(axis=1).any(axis=0)
        return np.where(constant, np.nan, ess)

    def rhat(self, **options: Any) -> np.ndarray:
        """Rank-normalised split R-hat of each coordinate, by arviz-stats; at most 1.01 if the chains agree.

        It is NaN for one chain, and for fewer than 4 draws per chain. It does not show modes that no chain has found.
        With few draws R-hat can exceed 1.01 by chance: in one of three cases for 4 chains of
        50 independent draws.

        Parameters
        ----------
        **options
            Options of ``rhat`` of arviz-stats.

        Returns
        -------
        ndarray
            R-hat, of the shape of a point.
        """
        return self._diagnose("rhat", options)

    def mcse(self, **options: Any) -> np.ndarray:
        """Monte Carlo standard error of the mean of each coordinate, by arviz-stats.

        Parameters
        ----------
        **options
            Options of ``mcse`` of arviz-stats.

        Returns
        -------
        ndarray
            Standard errors, of the shape of a point.
        """
        return self._diagnose("mcse", options)

    def summary(self, **options: Any) -> Any:
        """A table with a row for each coordinate, by arviz-stats.

        Its columns are the mean, the standard deviation, an interval, the effective sample sizes of the bulk and the
        tails, R-hat and Monte Carlo standard errors.

        Parameters
        ----------
        **options
            Options of ``summary`` of arviz-stats, such as ``round_to``.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If arviz-stats or arviz-base is not installed.
        """
        return optional_module("arviz_stats", "summary", "arviz").summary(self.to_arviz(), **options)

    def to_arviz(self) -> Any:
        """Convert the draws to a data tree of ArviZ.

        Returns
        -------
        xarray.DataTree
            The group ``posterior`` has ``position``, with the axis ``coordinate`` for vectors and the axes ``row`` and
            ``column`` for matrices. The group ``sample_stats`` has `stats`, with the names of ArviZ where they differ:
            ``log_density`` is ``lp``.
        """
        draws = {"position": self.position, **self.stats}
        return to_tree(draws, {name: _axes(np.ndim(values) - 2) for name, values in draws.items()}, stats=self.stats)

    def _diagnose(self, name: str, options: dict) -> np.ndarray:
        array_stats = optional_module("arviz_stats.base", name, "arviz").array_stats
        return np.asarray(getattr(array_stats, name)(self.position, chain_axis=0, draw_axis=1, **options))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.position.shape[2:])) or "scalar"
        return f"Draws({self.n_chains} chains of {self.n_draws} draws, {shape}, by {self.sampler!r})"


def _axes(n: int) -> list[str]:
    """Names of the axes of a point."""
    return [[], ["coordinate"], ["row", "column"]][n] if n <= 2 else [f"axis_{i}" for i in range(n)]
