"""What chains on a manifold leave behind: draws, and how far to trust them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._arviz import to_tree

LEAST_FOR_ESS = 50  # draws of a chain: from fewer the autocorrelations are mostly noise
LEAST_FOR_RHAT = 4  # draws of a chain, which is split, and a variance takes two
CONVERGED = 1.01  # the largest R-hat of chains that agree (Vehtari et al. 2021)


@dataclass(frozen=True, repr=False)
class Draws:
    """Draws of one or more chains.

    Attributes
    ----------
    position : ndarray of shape (n_chains, n_draws, *shape)
        Points of the target's manifold.
    stats : dict of ndarray of shape (n_chains, n_draws, ...)
        What the sampler tells beside each draw. Samplers that propose: ``log_density``, and whether the proposal was
        ``accepted``. Samplers with a momentum: the kinetic ``temperature``, whose mean is 1 in a sound run, and the
        ``thermostat``. `SCIR` and `GeometricBrownian`: ``log_position``, which does not underflow.
    sampler : BaseSampler
        What drew them.
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
        """All chains' draws one after the other, ``(n_chains * n_draws, *shape)``."""
        return self.position.reshape(-1, *self.position.shape[2:])

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Draws:
        """Draws of a function of the point.

        Parameters
        ----------
        function : callable
            From points ``(..., *shape)`` with any leading axes to values with the same leading axes, such as a chart's
            ``point``.
        """
        return replace(self, position=np.asarray(function(self.position)))

    def mean(self) -> np.ndarray:
        """Mean over all draws of all chains, of the shape of a point."""
        return self.position.mean(axis=(0, 1))

    def ess(self, **options: Any) -> np.ndarray:
        """Effective sample size of each coordinate, over all chains, by arviz-stats.

        It is nan where a chain has not moved at all, which arviz-stats would take for independent draws. Below 50
        draws of a chain it is mostly noise.

        Parameters
        ----------
        **options
            Of arviz-stats' ``ess``, such as ``method="mean"``; by default the bulk's.

        Raises
        ------
        ImportError
            Where arviz-stats is not installed.
        """
        ess = self._diagnose("ess", options)
        still = (self.position == self.position[:, :1]).all(axis=1).any(axis=0)
        return np.where(still, np.nan, ess)

    def rhat(self, **options: Any) -> np.ndarray:
        """Rank-normalised split R-hat of each coordinate, by arviz-stats; at most 1.01 if the chains agree.

        It is nan for one chain. Independent draws too go beyond 1.01 by chance where they are few: in one case of
        three with 4 chains of 50 draws.
        """
        return self._diagnose("rhat", options)

    def mcse(self, **options: Any) -> np.ndarray:
        """Monte Carlo standard error of each coordinate's mean, by arviz-stats."""
        return self._diagnose("mcse", options)

    def to_arviz(self) -> Any:
        """The draws as ArviZ's tree of data.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has ``position``, with axis ``coordinate`` for vectors and axes ``row`` and ``column``
            for matrices; ``sample_stats`` has `stats`, with ``log_density`` by ArviZ's name ``lp``.

        Raises
        ------
        ImportError
            Where arviz-base is not installed (``pip install "skmanifold[arviz]"``).
        """
        draws = {"position": self.position, **self.stats}
        return to_tree(draws, {name: _axes(np.ndim(values) - 2) for name, values in draws.items()}, stats=self.stats)

    def _diagnose(self, name: str, options: dict) -> np.ndarray:
        try:
            from arviz_stats.base import array_stats
        except ImportError as error:
            raise ImportError(f'{name} needs arviz-stats: pip install "skmanifold[arviz]".') from error
        return np.asarray(getattr(array_stats, name)(self.position, chain_axis=0, draw_axis=1, **options))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.position.shape[2:])) or "scalar"
        return f"Draws({self.n_chains} chains of {self.n_draws} draws, {shape}, by {self.sampler!r})"


def _axes(n: int) -> list[str]:
    """Names of a point's axes."""
    return [[], ["coordinate"], ["row", "column"]][n] if n <= 2 else [f"axis_{i}" for i in range(n)]
