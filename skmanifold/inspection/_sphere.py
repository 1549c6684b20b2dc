"""Display of directions in two and three dimensions, with equal-area projections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..admixture import OrthogonalSphericalAdmixture, SphericalAdmixture
from ..inference import Draws
from ..mixture import VonMisesFisherMixture
from ..utils._typing import MatrixLike
from ..utils._validation import check_array
from ._axes import QUIET, Axes, add_legend, check_estimator, group_colors, number_groups, one_panel, plain, pyplot

_MINUS = "\N{MINUS SIGN}"
_N_BINS = 72  # bins of five degrees
_TALLEST_BIN = 0.75  # height of the tallest bin, in radii
_MOST_NAMED = 12  # maximum number of groups in a legend
_MARGIN = 1.12  # half width of the view, in radii
_ON_LINE: dict[str, Any] = {  # style of a text on a line
    "ha": "center",
    "va": "center",
    "fontsize": 9,
    "color": QUIET,
    "bbox": {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
}
_GAP = 1.12  # distance from the centre of the plot to that of a hemisphere, in radii


@dataclass(kw_only=True, eq=False, repr=False)
class SphereDisplay:
    """Directions in two or three dimensions: draws, rows, and mean directions.

    Use :meth:`from_draws` or :meth:`from_estimator` to create it. In two dimensions directions are points on a circle,
    with a histogram around it whose areas are proportional to counts. In three dimensions they are points on two
    hemispheres, each seen from outside, in Lambert's equal-area projection, so densities of points are comparable. The
    left hemisphere is centred at the positive end of the third axis, the right one at the negative end. Dotted rings
    are 30 and 60 degrees from the centre. A legend names up to twelve groups; for more, a colour bar shows their
    numbers. All parameters are stored as attributes.

    Parameters
    ----------
    directions : ndarray of shape (n_points, 2) or (n_points, 3)
        Unit vectors.
    groups : ndarray of int of shape (n_points,), default=None
        Group of each vector, numbered from 0. None is a single group.
    means : ndarray of shape (n_groups, 2) or (n_groups, 3), default=None
        Mean directions of the groups, shown as stars. None shows no stars.
    names : list of str of length n_groups, default=None
        Names of the groups for the legend. None shows no legend.
    axis_names : list of str of length 2 or 3, default=None
        Names of the coordinates. None is x1, x2 and x3.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import sample
    >>> from skmanifold.inspection import SphereDisplay
    >>> from skmanifold.manifolds import Sphere
    >>> from skmanifold.models import Density
    >>> from skmanifold.samplers import SGGMC
    >>> direction = np.array([0.0, 0.0, 5.0])
    >>> target = Density(Sphere(3), grad_log_density=lambda x: direction)
    >>> draws = sample(target, SGGMC(step_size=0.1), n_draws=500, n_chains=2, random_state=0)
    >>> display = SphereDisplay.from_draws(draws)
    >>> display.directions.shape
    (1000, 3)
    """

    directions: np.ndarray
    groups: np.ndarray | None = None
    means: np.ndarray | None = None
    names: Sequence[str] | None = None
    axis_names: Sequence[str] | None = None

    @classmethod
    def from_draws(cls, draws: Draws, *, ax: Axes | None = None) -> Self:
        """Plot draws of points on a circle or a sphere.

        Parameters
        ----------
        draws : Draws
            Draws on ``Sphere(2)`` or ``Sphere(3)`` of any radius, or of several such points, each with a different
            colour. For a `Product` pass one part: ``draws.map(lambda x: product.split(x)[0])``.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : SphereDisplay

        Raises
        ------
        ValueError
            If the draws are not points on a circle or a sphere.
        """
        pyplot(f"{cls.__name__}.from_draws")
        if not isinstance(draws, Draws):
            raise ValueError(f"SphereDisplay.from_draws needs Draws, the result of sample; got {draws!r}.")
        shape = draws.position.shape[2:]
        if len(shape) not in (1, 2) or shape[-1] not in (2, 3):
            raise ValueError(f"SphereDisplay shows points with 2 or 3 coordinates; these have shape {shape}.")
        points = draws.position.reshape(-1, int(np.prod(shape[:-1])), shape[-1])
        lengths = np.linalg.norm(points, axis=-1, keepdims=True)
        if not np.allclose(lengths, lengths[:1], rtol=1e-6) or not lengths.all():
            raise ValueError("SphereDisplay shows points on a sphere, but the length of these differs between draws.")
        directions = points / lengths
        n_points = points.shape[1]
        names = [f"point {k}" for k in range(n_points)] if n_points > 1 else None
        groups = np.tile(np.arange(n_points), len(points))
        return cls(directions=directions.reshape(-1, shape[-1]), groups=groups, names=names).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: SphericalAdmixture | OrthogonalSphericalAdmixture | VonMisesFisherMixture,
        X: MatrixLike | None = None,
        *,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the components of a fitted estimator as stars, and rows in the colours of their components.

        Parameters
        ----------
        estimator : estimator instance
            Fitted VonMisesFisherMixture, SphericalAdmixture or OrthogonalSphericalAdmixture of two or three features.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows, of which only the direction is used; rows of zeros are excluded. None uses the draws of the topics of
            the best chain, if there are any.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : SphereDisplay

        Raises
        ------
        ValueError
            If the components of the estimator are not unit vectors, or do not have two or three features.
        """
        known = VonMisesFisherMixture, SphericalAdmixture, OrthogonalSphericalAdmixture
        check_estimator(cls, estimator, known, "components that are unit vectors")
        of_mixture = isinstance(estimator, VonMisesFisherMixture)
        means = estimator.mean_directions_ if of_mixture else estimator.components_
        n_components, n_features = means.shape
        if n_features not in (2, 3):
            raise ValueError(f"SphereDisplay shows directions with 2 or 3 features; the estimator has {n_features}.")
        if X is not None:
            groups = np.asarray(estimator.predict(X))
            rows = check_array(X, accept_sparse=True, dtype=np.float64)
            rows = rows.toarray() if hasattr(rows, "toarray") else rows
            lengths = np.linalg.norm(rows, axis=1)
            directions, groups = rows[lengths > 0] / lengths[lengths > 0, np.newaxis], groups[lengths > 0]
        else:
            drawn = [] if of_mixture else estimator._labelled_draws(np.iinfo(np.int64).max)
            directions = np.concatenate([np.empty((0, n_features)), *drawn])
            groups = np.tile(np.arange(n_components), len(drawn))
        names = [f"{'component' if of_mixture else 'topic'} {k}" for k in range(n_components)]
        features = getattr(estimator, "feature_names_in_", None)
        axis_names = None if features is None else list(map(str, features))
        display = cls(directions=directions, groups=groups, means=means, names=names, axis_names=axis_names)
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None, **scatter_kwargs: Any) -> Self:
        """Plot the directions.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on, which are set to equal scales without a frame. None creates a new figure.
        **scatter_kwargs
            Keyword arguments of ``scatter`` of matplotlib for the points.

        Returns
        -------
        self : SphereDisplay

        Raises
        ------
        ValueError
            If the directions do not have two or three coordinates.
        """
        from matplotlib.colors import to_rgba_array

        directions = np.asarray(self.directions)
        if directions.ndim != 2 or directions.shape[1] not in (2, 3):
            raise ValueError(f"SphereDisplay shows directions with 2 or 3 coordinates; got shape {directions.shape}.")
        is_flat = directions.shape[1] == 2
        self.ax_, self.figure_ = one_panel(self, ax, (4.6, 4.2) if is_flat else (6.8, 3.9))
        groups = np.zeros(len(directions), int) if self.groups is None else np.asarray(self.groups)
        n_means = 0 if self.means is None else len(self.means)
        n_groups = max(groups.max(initial=-1) + 1, n_means, 1)
        colors = group_colors(n_groups)
        axis_names = [plain(name) for name in self.axis_names or ["$x_1$", "$x_2$", "$x_3$"]]
        (self._draw_circle if is_flat else self._draw_hemispheres)(axis_names, parse_math=not self.axis_names)
        if is_flat:
            self._draw_histograms(directions, groups, colors)
        points = directions if is_flat else _on_hemispheres(directions)
        # Many points are more transparent. Groups are plotted in mixed order so that no group hides another.
        n = len(points)
        ink = float(np.clip(27.0 / np.sqrt(max(n, 1)), 0.2, 0.8))
        spread = np.argsort(np.arange(n) * 0.6180339887498949 % 1.0)
        style = {"s": 9.0 if n < 1000 else 5.0, "alpha": ink, "linewidths": 0, "rasterized": n > 2000}
        shades = to_rgba_array(colors)[groups[spread]]
        self.ax_.scatter(*points[spread].T, **{"color": shades, **style, **scatter_kwargs})
        if self.means is not None:
            means = np.asarray(self.means)
            stars = means if is_flat else _on_hemispheres(means)
            star = {"marker": "*", "s": 80.0, "edgecolors": "black", "linewidths": 0.8, "zorder": 4}
            self.ax_.scatter(*stars.T, c=colors[:n_means], **star)
            self._number(stars, is_flat)
        if self.names is not None and 1 < len(self.names) <= _MOST_NAMED:
            self._draw_legend(self.names, colors, 2 if is_flat else 4)
        elif n_groups > _MOST_NAMED:
            number_groups(self.ax_, colors, plain(_noun(self.names)), shrink=0.6)
        self.ax_.set_aspect("equal")
        self.ax_.set_axis_off()
        return self

    def _draw_circle(self, axis_names: list[str], **style: Any) -> None:
        _draw_ring(self.ax_, 0.0)
        _draw_cross(self.ax_, 0.0)
        for sign, mark in ((1, ""), (-1, _MINUS)):
            self.ax_.text(0.6 * sign, 0.0, mark + axis_names[0], **_ON_LINE, **style)
            self.ax_.text(0.0, 0.6 * sign, mark + axis_names[1], **_ON_LINE, **style)
        self.ax_.set_xlim(-_MARGIN, _MARGIN)
        self.ax_.set_ylim(-_MARGIN, _MARGIN)

    def _draw_histograms(self, directions: np.ndarray, groups: np.ndarray, colors: list[Any]) -> None:
        """Stacked histograms of angles for all groups, as areas outside of the circle."""
        if not len(directions):
            return
        angles = np.arctan2(directions[:, 1], directions[:, 0])
        edges = np.linspace(-np.pi, np.pi, _N_BINS + 1)
        counts = np.array([np.histogram(angles[groups == k], edges)[0] for k in range(len(colors))])
        # The area of a bin from radius 1 to r is proportional to r^2 - 1.
        scale = ((1.0 + _TALLEST_BIN) ** 2 - 1.0) / counts.sum(axis=0).max()
        inner = np.ones(_N_BINS)
        for of_group, color in zip(counts, colors, strict=True):
            outer = np.sqrt(inner**2 + scale * of_group)
            self._draw_bins(edges, inner, outer, color)
            inner = outer

    def _draw_bins(self, edges: np.ndarray, inner: np.ndarray, outer: np.ndarray, color: Any) -> None:
        from matplotlib.collections import PolyCollection

        corners = []
        for begin, end, near, far in zip(edges[:-1], edges[1:], inner, outer, strict=True):
            if far > near:
                arc = np.linspace(begin, end, 6)
                rim = np.column_stack([np.cos(arc), np.sin(arc)])
                corners.append(np.concatenate([near * rim, far * rim[::-1]]))
        for corner in corners:  # extend the view to all bins
            (left, bottom), (right, top) = corner.min(axis=0) - 0.1, corner.max(axis=0) + 0.1
            (x0, x1), (y0, y1) = self.ax_.get_xlim(), self.ax_.get_ylim()
            self.ax_.set(xlim=(min(left, x0), max(right, x1)), ylim=(min(bottom, y0), max(top, y1)))
        bins = PolyCollection(corners, facecolors=color, edgecolors="white", linewidths=0.4, alpha=0.8)
        self.ax_.add_collection(bins, autolim=False)

    def _draw_hemispheres(self, axis_names: list[str], **style: Any) -> None:
        name = {"ha": "center", "va": "center", "fontsize": 9, **style}
        for side in (1, -1):
            centre = -side * _GAP
            _draw_ring(self.ax_, centre)
            _draw_cross(self.ax_, centre)
            for degrees in (30, 60):
                radius = np.sqrt(1.0 - np.cos(np.radians(degrees)))
                _draw_ring(self.ax_, centre, radius, linewidth=0.5, linestyle=":")
                self.ax_.text(centre, -radius, f"{degrees}°", **{**_ON_LINE, "fontsize": 7, "zorder": 0.5})
            for sign, mark in ((1, ""), (-1, _MINUS)):
                self.ax_.text(centre, 1.1 * sign, mark + axis_names[1], **name)
            mark = "" if side > 0 else _MINUS
            self.ax_.text(centre, -1.34, f"centre: {mark}{axis_names[2]}", **name)
            outer = {"ha": "right"} if side > 0 else {"ha": "left"}
            self.ax_.text(-side * (2 * _GAP - 0.05), 0.0, _MINUS + axis_names[0], **{**name, **outer})
        self.ax_.text(0.0, 0.0, axis_names[0], **name)
        self.ax_.set_xlim(-2.55, 2.55)
        self.ax_.set_ylim(-1.47, 1.22)

    def _number(self, stars: np.ndarray, is_flat: bool) -> None:
        """Write the numbers of the groups next to their stars; in two dimensions inside of the circle."""
        for k, (x, y) in enumerate(stars):
            place = (0.84 * x, 0.84 * y) if is_flat else (x + 0.1, y + 0.1)
            box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
            self.ax_.text(*place, str(k), ha="center", va="center", fontsize=8, zorder=5, bbox=box)

    def _draw_legend(self, names: Sequence[str], colors: list[Any], n_columns: int) -> None:
        from matplotlib.lines import Line2D

        dot: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5}
        pairs = zip(colors, map(plain, names), strict=True)
        handles = [Line2D([], [], color=color, label=name, **dot) for color, name in pairs]
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": min(len(handles), n_columns)}
        add_legend(self.ax_, handles, fontsize=8, frameon=False, handletextpad=0.2, **place)


def _on_hemispheres(directions: np.ndarray) -> np.ndarray:
    """Lambert's equal-area projections of both hemispheres onto adjacent unit discs, each seen from outside."""
    x, y, z = directions.T
    side = np.where(z >= 0.0, 1.0, -1.0)
    # The squared distance from the centre of a disc is 1 - |z|, which is proportional to the area of the cap.
    stretch = 1.0 / np.sqrt(1.0 + np.abs(z))
    return np.column_stack([side * (stretch * x - _GAP), stretch * y])


def _draw_ring(ax: Any, centre: float, radius: float = 1.0, **style: Any) -> None:
    arc = np.linspace(0.0, 2.0 * np.pi, 181)
    style = {"color": "0.7", "linewidth": 1.0, "zorder": 0, **style}
    ax.plot(centre + radius * np.cos(arc), radius * np.sin(arc), **style)


def _draw_cross(ax: Any, centre: float) -> None:
    for x, y in (((centre - 1.0, centre + 1.0), (0.0, 0.0)), ((centre, centre), (-1.0, 1.0))):
        ax.plot(x, y, color="0.85", linewidth=0.5, zorder=0)


def _noun(names: Sequence[str] | None) -> str:
    """What groups are called, such as "topic" if their names are "topic 0", "topic 1", ..."""
    return names[0].removesuffix(" 0") if names and names[0].endswith(" 0") else "group"
