"""Draws of chains on a manifold, with convergence diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._install import install_command
from ._arviz import to_tree

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
        try:
            from arviz_stats import summary
        except ImportError as error:
            raise ImportError(f"summary needs arviz-stats: {install_command('arviz')}") from error
        return summary(self.to_arviz(), **options)

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
        try:
            from arviz_stats.base import array_stats
        except ImportError as error:
            raise ImportError(f"{name} needs arviz-stats: {install_command('arviz')}") from error
        return np.asarray(getattr(array_stats, name)(self.position, chain_axis=0, draw_axis=1, **options))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.position.shape[2:])) or "scalar"
        return f"Draws({self.n_chains} chains of {self.n_draws} draws, {shape}, by {self.sampler!r})"


def _axes(n: int) -> list[str]:
    """Names of the axes of a point."""
    return [[], ["coordinate"], ["row", "column"]][n] if n <= 2 else [f"axis_{i}" for i in range(n)]
