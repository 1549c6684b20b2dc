"""Display of simulation-based calibration: distribution functions of ranks with a simultaneous band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..metrics import calibration_band, calibration_test
from ..metrics._calibration import checked_ranks
from ..utils._typing import ArrayLike
from ._axes import QUIET, Axes, add_legend, group_colors, one_panel, plain, pyplot, strip

_SHADED = "0.88"  # colour of the band


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationDisplay:
    """Distribution functions of ranks of true values among draws, minus that of uniform ranks.

    If the draws come from the posterior, all lines stay in the grey band with the given probability, one line at a
    time. A line above zero means that the draws are too large, a line below that they are too small. A line that is
    first above and then below means that the draws vary too little, the reverse that they vary too much [1]_.

    Use :meth:`from_ranks` to create it. All parameters are stored as attributes.

    Parameters
    ----------
    differences : dict of str to ndarray of shape (n_draws + 1,)
        For each quantity, the share of ranks that are at most 0, 1, ..., n_draws, minus that of uniform ranks.
    band : ndarray of shape (2, n_draws + 1)
        Lower and upper ends of the band.
    pvalues : dict of str to float
        For each quantity, the p-value of :func:`~skmanifold.metrics.calibration_test`.
    level : float, default=0.95
        Level of the band.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    References
    ----------
    .. [1] T. Säilynoja, P.-C. Bürkner and A. Vehtari, "Graphical test for discrete uniformity and its applications in
       goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing 32, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold.inspection import CalibrationDisplay
    >>> from skmanifold.metrics import calibration_ranks
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=400)
    >>> x = rng.normal(mean)  # the posterior of the mean is normal with mean x / 2 and variance 1 / 2
    >>> draws = rng.normal(x[:, None] / 2, 0.5**0.5, (400, 99))
    >>> display = CalibrationDisplay.from_ranks({"mean": calibration_ranks(mean, draws)}, 99)
    >>> display.pvalues["mean"] > 0.05
    True
    """

    differences: dict[str, np.ndarray]
    band: np.ndarray
    pvalues: dict[str, float]
    level: float = 0.95

    @classmethod
    def from_ranks(
        cls,
        ranks: ArrayLike | Mapping[str, ArrayLike],
        n_draws: int,
        *,
        level: float = 0.95,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> Self:
        """Plot ranks of one or several quantities.

        Parameters
        ----------
        ranks : array-like of shape (n_simulations,), or dict of str to array-like
            Ranks from 0 to `n_draws`, as :func:`~skmanifold.metrics.calibration_ranks` returns them, of one quantity or
            by name. All quantities have the same number of simulations.
        n_draws : int
        level : float, default=0.95
            Level of the band.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kwargs
            Keyword arguments of ``plot`` of matplotlib.

        Returns
        -------
        display : CalibrationDisplay

        Raises
        ------
        ValueError
            If ranks are not integers from 0 to `n_draws`, their numbers differ, or the level is not between 0 and 1.
        """
        pyplot(f"{cls.__name__}.from_ranks")
        by_name = dict(ranks) if isinstance(ranks, Mapping) else {"rank": ranks}
        checked = {name: checked_ranks(values, n_draws) for name, values in by_name.items()}
        numbers = {len(values) for values in checked.values()}
        if len(numbers) != 1:
            raise ValueError(f"All quantities need the same number of simulations; got {sorted(numbers)}.")
        (n,) = numbers
        uniform = np.arange(1, n_draws + 2) / (n_draws + 1)
        shares = {name: np.bincount(values, minlength=n_draws + 1).cumsum() / n for name, values in checked.items()}
        return cls(
            differences={name: values - uniform for name, values in shares.items()},
            band=calibration_band(n, n_draws, level=level) - uniform,
            pvalues={name: calibration_test(values, n_draws).pvalue for name, values in checked.items()},
            level=level,
        ).plot(ax=ax, **line_kwargs)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Plot the differences, with the p-values in the legend.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kwargs
            Keyword arguments of ``plot`` of matplotlib.

        Returns
        -------
        self : CalibrationDisplay
        """
        self.ax_, self.figure_ = one_panel(self, ax, (4.8, 3.2))
        n_ranks = self.band.shape[1]
        x = np.arange(1, n_ranks + 1) / n_ranks
        self.ax_.fill_between(
            x, *self.band, step="mid", color=_SHADED, linewidth=0, label=f"{100 * self.level:g}% band"
        )
        self.ax_.axhline(0.0, color=QUIET, linewidth=0.6)
        colors, lines = group_colors(len(self.differences)), []
        for (name, values), color in zip(self.differences.items(), colors, strict=True):
            pvalue = self.pvalues[name]
            label = f"{plain(name)} (p {'< 0.001' if pvalue < 0.001 else f'= {pvalue:.2g}'})"
            lines += self.ax_.plot(x, values, **{"color": color, "linewidth": 1.2, "label": label, **line_kwargs})
        largest = max(np.abs(values).max() for values in (self.band, *self.differences.values()))
        self.ax_.set(xlim=(0, 1), ylim=(-1.1 * largest, 1.1 * largest))
        self.ax_.set_xlabel("rank of the true value, as a share")
        self.ax_.set_ylabel("distribution function\nminus uniform")
        named = [] if "label" in line_kwargs else lines
        add_legend(self.ax_, named, fontsize=7, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        strip(self.ax_)
        return self
