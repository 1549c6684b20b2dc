"""Display of convergence: log density after each pass, R-hat, effective sample size and held-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..base import BaseSampledEstimator
from ..inference import Draws
from ..inference._draws import CONVERGED, LEAST_FOR_ESS, LEAST_FOR_RHAT
from ..mixture import VonMisesFisherMixture
from ._axes import (
    AGAINST,
    MAIN,
    QUIET,
    Axes,
    add_legend,
    check_estimator,
    group_colors,
    is_alone,
    number_groups,
    plain,
    pyplot,
    several_panels,
    strip,
)

if TYPE_CHECKING:  # no circle of imports
    from ..callbacks import HeldOutMonitor

_MOST_POINTS = 30  # maximum number of points of the curve of effective sample sizes
_FEW_POINTS = 10  # curves with at most this many points have markers
_MOST_NAMED_CHAINS = 6
_SHADED = "0.92"  # background of burn-in
_MOST_BESIDE = 4  # maximum number of chains in a legend on the same line as R-hat
_OF_A_TASK = {  # columns of the log of a monitor that are not scores
    "task_id_path",
    "parent_task_id_path",
    "estimator_name",
    "task_name",
    "task_id",
    "sequential_subtasks",
}


@dataclass(kw_only=True, eq=False, repr=False)
class TraceDisplay:
    """Log density after each pass of each chain, with R-hat, effective sample sizes and held-out scores.

    The plot shows "not converged" if R-hat is above 1.01, the limit of Vehtari et al. (2021) [1]_.

    Use :meth:`from_estimator` or :meth:`from_draws` to create it. All parameters are stored as attributes.

    Parameters
    ----------
    trace : ndarray of shape (n_chains, n_passes)
        Log density, or another quantity to assess convergence; from estimators per token or per row.
    burn_in : int, default=0
        Number of discarded passes at the start.
    ess_passes : ndarray of shape (n_points,), default=None
        Passes of the effective sample sizes in `ess`.
    ess : dict of str to ndarray of shape (n_points,), default=None
        Effective sample sizes over all chains up to these passes, by quantity. None shows no such panel.
    n_draws : ndarray of shape (n_points,), default=None
        Numbers of draws of all chains up to these passes.
    score_passes : ndarray of shape (n_scores,), default=None
        Passes after which held-out rows were scored.
    scores : dict of str to ndarray of shape (n_scores,), default=None
        Held-out scores, by name. None shows no such panel.
    trace_name : str, default="log density"
        Name of the quantity of the trace.
    trace_unit : str, default=None
        Unit of the trace, which the axis shows. None shows none.
    pass_name : str, default="pass"
        Name of the steps of the trace.
    note : str, default=None
        Reason why there is no R-hat or no effective sample size, shown below the trace.
    rhat : float, default=None
        Rank-normalised split R-hat of the draws; for several coordinates the largest. None if it is unknown.

    Attributes
    ----------
    axes_ : ndarray of matplotlib axes
        The panels: the trace, and if available effective sample sizes and scores.
    figure_ : matplotlib figure

    References
    ----------
    .. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner, "Rank-normalization, folding, and
       localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2), 2021.

    Examples
    --------
    >>> from skmanifold import StochasticLDA
    >>> from skmanifold.datasets import make_lda_corpus
    >>> from skmanifold.inspection import TraceDisplay
    >>> X = make_lda_corpus(n_samples=200, n_features=100, n_components=5, random_state=0).data
    >>> lda = StochasticLDA(n_components=5, n_chains=2, random_state=0).fit(X)
    >>> display = TraceDisplay.from_estimator(lda)
    >>> display.trace.shape
    (2, 400)
    >>> display.note
    'ESCA estimates and makes no draws: no effective sample size.'
    """

    trace: np.ndarray
    burn_in: int = 0
    ess_passes: np.ndarray | None = None
    ess: dict[str, np.ndarray] | None = None
    n_draws: np.ndarray | None = None
    score_passes: np.ndarray | None = None
    scores: dict[str, np.ndarray] | None = None
    trace_name: str = "log density"
    trace_unit: str | None = None
    pass_name: str = "pass"
    note: str | None = None
    rhat: float | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseSampledEstimator | VonMisesFisherMixture,
        *,
        monitor: HeldOutMonitor | None = None,
        ax: Axes | Sequence[Axes] | np.ndarray | None = None,
    ) -> Self:
        """Plot the convergence of the fit of an estimator.

        The log density is shown per token, or per row for estimators without tokens. R-hat and the effective sample
        size, by arviz-stats, are those of the log density, which does not depend on the order of components. R-hat
        compares chains, so it needs at least two. With few draws it may be above 1.01 by chance. In a converged run the
        effective sample size grows in proportion to the number of draws. It is omitted if the sampler makes no draws, a
        chain has fewer than 50 draws, or arviz-stats is not installed; ``note`` then has the reason.

        Parameters
        ----------
        estimator : estimator instance
            Estimator fitted by `fit`; `partial_fit` does not store a trace.
        monitor : HeldOutMonitor, default=None
            A monitor that was set on the estimator during the fit, to show its scores.
        ax : matplotlib axes, or array of one for each panel, default=None
            Axes to draw on. A single axes object is divided into panels. None creates a new figure.

        Returns
        -------
        display : TraceDisplay

        Raises
        ------
        ValueError
            If the estimator has no trace, or the monitor has no scores of it.
        """
        check_estimator(cls, estimator, (BaseSampledEstimator, VonMisesFisherMixture), "the passes of a fit")
        kind = type(estimator).__name__
        held_out = {} if monitor is None else _held_out_scores(monitor, kind)
        if isinstance(estimator, VonMisesFisherMixture):
            bounds = estimator.log_likelihood_trace_[np.newaxis]
            return cls(
                trace=bounds, trace_name="lower bound per row", trace_unit="nats", pass_name="iteration", **held_out
            ).plot(ax=ax)
        trace: np.ndarray | None = getattr(estimator, "log_density_trace_", None)
        if trace is None:
            raise ValueError(f"TraceDisplay needs a trace from fit, but this {kind} was fitted with partial_fit.")
        sampler = estimator.sampler_
        name = sampler.log_density_name.replace("_", " ")
        name = "log joint density" if name == "log joint" else name
        schedule = estimator._schedule(sampler)
        # Without draws and without an average over passes, only the last pass matters.
        matters = sampler.draws_parameters or sampler.average_window(schedule.n_kept_passes) > 1
        if sampler.draws_parameters:
            passes = np.array([i for i in range(1, trace.shape[1] + 1) if schedule.is_draw(i)], int)
            summary = _summarise(trace[:, passes - 1, np.newaxis], passes, name)
        else:
            note = f"{type(sampler).__name__} estimates and makes no draws: no effective sample size."
            summary = {"note": note}
        return cls(
            trace=trace / (estimator._n_units or 1),
            burn_in=estimator._n_burn_in if matters else 0,
            trace_name=f"{name} per {estimator._unit}",
            trace_unit="nats",
            **summary,
            **held_out,
        ).plot(ax=ax)

    @classmethod
    def from_draws(cls, draws: Draws, *, ax: Axes | Sequence[Axes] | np.ndarray | None = None) -> Self:
        """Plot the convergence of a run of :func:`~skmanifold.sample`.

        The trace is that of the log density if the sampler computes it, and otherwise that of the coordinate that mixes
        worst. R-hat is the largest of the coordinates and of the log density, because chains in different modes can
        have the same log density. Effective sample sizes are those of the log density, or of the worst and the median
        coordinate; there are none with fewer than 50 draws per chain.

        Parameters
        ----------
        draws : Draws
        ax : matplotlib axes, or array of one for each panel, default=None
            Axes to draw on. A single axes object is divided into panels. None creates a new figure.

        Returns
        -------
        display : TraceDisplay

        Raises
        ------
        ValueError
            If `draws` are not Draws.
        """
        pyplot(f"{cls.__name__}.from_draws")
        if not isinstance(draws, Draws):
            raise ValueError(f"TraceDisplay.from_draws needs Draws, the result of sample; got {draws!r}.")
        passes = np.arange(1, draws.n_draws + 1)
        log_density = draws.stats.get("log_density")
        coordinates = draws.position.reshape(draws.n_chains, draws.n_draws, -1)
        if log_density is not None:
            summary = _summarise(log_density[..., np.newaxis], passes, "log density")
            if "rhat" in summary:  # chains in different modes can have the same log density
                summary["rhat"] = float(np.fmax(summary["rhat"], _largest_rhat(coordinates)))
            return cls(trace=log_density, pass_name="draw", **summary).plot(ax=ax)
        summary = _summarise(coordinates, passes, "coordinate")
        worst = _worst_coordinate(coordinates, summary)
        place = ", ".join(map(str, np.unravel_index(worst, draws.position.shape[2:])))
        name = f"coordinate [{place}]"
        return cls(trace=coordinates[..., worst], trace_name=name, pass_name="draw", **summary).plot(ax=ax)

    def plot(self, ax: Axes | Sequence[Axes] | np.ndarray | None = None, **line_kwargs: Any) -> Self:
        """Plot the panels, one below the other.

        The passes after burn-in fill at least a third of the height of the first panel, so parts of the trace during
        burn-in may not be visible.

        Parameters
        ----------
        ax : matplotlib axes, or array of one for each panel, default=None
            Axes to draw on. A single axes object is divided into panels. None creates a new figure.
        **line_kwargs
            Keyword arguments of ``plot`` of matplotlib for the trace.

        Returns
        -------
        self : TraceDisplay

        Raises
        ------
        ValueError
            If the number of axes differs from the number of panels.
        """
        below = [draw for draw, shown in ((self._draw_ess, self.ess), (self._draw_scores, self.scores)) if shown]
        n = 1 + len(below)
        heights = [1.7, *(1.0 for _ in below)]
        size = (6.4, 1.0 + 1.35 * sum(heights))
        self.axes_, self.figure_ = several_panels(self, ax, n, (n, 1), size, sharex=True, height_ratios=heights)
        self._draw_trace(self.axes_[0], line_kwargs)
        for draw, panel in zip(below, self.axes_[1:], strict=True):
            draw(panel)
        for panel in self.axes_:
            if self.burn_in:
                panel.axvspan(0.5, self.burn_in + 0.5, color=_SHADED, zorder=0, linewidth=0)
            strip(panel)
            panel.tick_params(labelsize=8)
            panel.yaxis.label.set_size(9)
        if is_alone(ax):
            for panel in self.axes_[:-1]:
                panel.tick_params(labelbottom=False)
        if len(self.trace) > _MOST_NAMED_CHAINS:
            number_groups(list(self.axes_), group_colors(len(self.trace)), "chain")
        self.axes_[-1].set_xlabel(plain(self.pass_name), parse_math=False)
        self.axes_[-1].xaxis.get_major_locator().set_params(integer=True)
        if self.note:
            place = {"xy": (1.0, 0.02), "xycoords": "axes fraction", "ha": "right", "va": "bottom"}
            style: dict[str, Any] = {"fontsize": 7, "color": QUIET, "bbox": _box("white"), "parse_math": False}
            self.axes_[0].annotate(plain(self.note), **place, **style)
        return self

    def _draw_trace(self, panel, line_kwargs: dict) -> None:
        trace = np.asarray(self.trace)
        passes = np.arange(1, trace.shape[1] + 1)
        for chain, (values, color) in enumerate(zip(trace, group_colors(len(trace)), strict=True)):
            style = {"color": color, "linewidth": 1.0, "label": f"chain {chain}", **line_kwargs}
            panel.plot(passes, values, **style)
        if 1 < len(trace) <= _MOST_NAMED_CHAINS:
            top = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
            panel.legend(ncols=len(trace), fontsize=8, frameon=False, **top)
        if self.burn_in:
            place = {"xy": (0.5 + self.burn_in / 2, 0.98), "xycoords": ("data", "axes fraction"), "va": "top"}
            panel.annotate("burn-in", **place, ha="center", fontsize=8, color=QUIET, bbox=_box(_SHADED))
        if self.rhat is not None and not np.isnan(self.rhat):
            converged = self.rhat <= CONVERGED
            text = f"R-hat {self.rhat:.3f}" + ("" if converged else ": not converged")
            above = 16 if _MOST_BESIDE < len(trace) <= _MOST_NAMED_CHAINS else 3  # a long legend fills the line
            place = {"xy": (0.0, 1.0), "xycoords": "axes fraction", "xytext": (0, above), "va": "bottom"}
            panel.annotate(text, **place, textcoords="offset points", fontsize=8, color=QUIET if converged else AGAINST)
        unit = f" ({self.trace_unit})" if self.trace_unit else ""
        panel.set_ylabel(plain(self.trace_name.replace(" per ", "\nper ") + unit), parse_math=False)
        panel.set_xlim(0.5, trace.shape[1] + 0.5)
        _show_what_is_kept(panel, trace, self.burn_in)

    def _draw_ess(self, panel) -> None:
        styles = ("-", "--", ":")
        points = {"marker": "o" if np.asarray(self.ess_passes).size <= _FEW_POINTS else None, "markersize": 3}
        lines = []
        for (name, sizes), style in zip((self.ess or {}).items(), styles, strict=False):
            options = {"color": MAIN, "linestyle": style, "linewidth": 1.4, "label": plain(name), **points}
            lines += panel.plot(self.ess_passes, sizes, **options)
        lines += panel.plot(self.ess_passes, self.n_draws, color=QUIET, linewidth=0.8, label="draws", **points)
        panel.set_ylim(bottom=0.0)
        panel.set_ylabel("effective\nsample size")
        add_legend(panel, lines, fontsize=7, frameon=False, loc="upper left")

    def _draw_scores(self, panel) -> None:
        colors, by_name, lines = [AGAINST, *group_colors(6)[1:5]], self.scores or {}, []
        for (name, scores), color in zip(by_name.items(), colors, strict=False):
            marker = "o" if len(scores) <= 40 else None
            style = {"color": color, "linewidth": 1.2, "marker": marker, "markersize": 3}
            lines += panel.plot(self.score_passes, scores, label=plain(name), **style)
        panel.set_ylabel("held-out score")
        if len(by_name) > 1:
            add_legend(panel, lines, fontsize=7, frameon=False)


def _summarise(draws: np.ndarray, passes: np.ndarray, name: str) -> dict[str, Any]:
    """Diagnostics of draws, (n_chains, n_draws, n_coordinates), made at `passes`, as parameters of the display."""
    n_chains, n_draws, n_coordinates = draws.shape
    summary: dict[str, Any] = {}
    notes = []
    try:
        if n_chains == 1:
            notes.append("One chain has no R-hat.")
        elif n_draws < LEAST_FOR_RHAT:
            notes.append(f"R-hat needs {LEAST_FOR_RHAT} draws of a chain; there are {n_draws}.")
        else:
            summary["rhat"] = _largest_rhat(draws)
        if n_draws < LEAST_FOR_ESS:
            notes.append(f"An effective sample size needs {LEAST_FOR_ESS} draws of a chain; there are {n_draws}.")
        else:
            ends = np.unique(np.linspace(LEAST_FOR_ESS, n_draws, _MOST_POINTS).astype(int))
            sizes = np.array([Draws(draws[:, :end]).ess() for end in ends])
            ess = {name: sizes[:, 0]}
            if n_coordinates > 1:
                ess = {f"worst {name}": sizes.min(axis=1), f"median {name}": np.median(sizes, axis=1)}
            summary |= {"ess_passes": passes[ends - 1], "ess": ess, "n_draws": n_chains * ends}
    except ImportError:
        notes = ["No R-hat and no effective sample size: arviz-stats is not installed."]
    return {**summary, "note": "\n".join(notes) or None}


def _largest_rhat(draws: np.ndarray) -> float:
    """The largest R-hat of the coordinates, (n_chains, n_draws, n_coordinates)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # for constant quantities
        return float(np.fmax.reduce(Draws(draws).rhat()))


def _worst_coordinate(draws: np.ndarray, summary: dict[str, Any]) -> int:
    """The coordinate that mixes worst, by effective sample size, or by R-hat if there are too few draws for that."""
    if "ess" in summary:
        badness = -Draws(draws).ess()
    elif "rhat" in summary:
        badness = Draws(draws).rhat()
    else:
        return 0
    return 0 if np.isnan(badness).all() else int(np.nanargmax(badness))


def _held_out_scores(monitor: Any, kind: str) -> dict[str, Any]:
    """Passes, from 1, and scores of the last monitored fit of an estimator of this class, for the display."""
    rows = [row for row in monitor.get_logs().data if row["estimator_name"] == kind and row["task_name"] == "pass"]
    rows = [row for row in rows if row["parent_task_id_path"] == rows[-1]["parent_task_id_path"]]
    names = [name for name in rows[0] if name not in _OF_A_TASK] if rows else []
    if not names:
        raise ValueError(f"The monitor has no scores of a {kind}.")
    rows.sort(key=lambda row: row["task_id"])
    passes = np.array([row["task_id"] + 1 for row in rows])
    return {"score_passes": passes, "scores": {name: np.array([row[name] for row in rows]) for name in names}}


def _box(color: str) -> dict[str, Any]:
    """Background of a text that lines may cross."""
    return {"boxstyle": "round,pad=0.15", "facecolor": color, "edgecolor": "none", "alpha": 0.8}


def _show_what_is_kept(panel: Any, trace: np.ndarray, burn_in: int) -> None:
    """Set limits so that the passes after burn-in fill at least a third of the height."""
    finite = np.isfinite(trace)
    kept = trace[:, burn_in:][finite[:, burn_in:]]
    if not kept.size:
        return
    low, high = kept.min(), kept.max()
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    lowest = max(trace[finite].min(), low - 1.8 * (high - low)) if high > low else trace[finite].min()
    highest = min(trace[finite].max(), high + 1.8 * (high - low)) if high > low else trace[finite].max()
    panel.set_ylim(lowest - margin, highest + margin)
