"""Display of rows in the components of a mixture, in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA

from ..emissions._columns.layout import open_table
from ..emissions._columns.rows import chosen_columns
from ..emissions._gaussian.base import GaussianFamily
from ..mixture import ExponentialFamilyMixture
from ..mixture._inference import EstimateInference
from ..utils._typing import MatrixLike
from ._axes import (
    MAIN,
    QUIET,
    SHADES,
    Axes,
    add_legend,
    check_estimator,
    group_colors,
    number_groups,
    one_panel,
    percent,
    plain,
)

_MARKERS = "os^Dv<>P"
_MOST_NAMED = 12
_IN_ELLIPSE = 0.9  # probability
_IN_CONTOURS = (0.25, 0.5, 0.75, 0.95)
_N_NODES = 120  # of each axis of a grid
_MARGIN = 0.15  # of a grid, relative to the range of the rows


@dataclass(kw_only=True, eq=False, repr=False)
class MixtureDisplay:
    """Rows of a mixture in two of their columns, or in their first two principal components.

    Use :meth:`from_estimator` to create it. It shows the most probable component of each row, or how uncertain this is,
    or the density. All parameters are stored as attributes.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Coordinates of the rows. Rows with NaN are not shown.
    labels : ndarray of shape (n_samples,)
        The most probable component of each row; -1 is an outlier.
    uncertainty : ndarray of shape (n_samples,)
        Probability that a row does not belong to this component.
    response : {"classification", "uncertainty", "density"}, default="classification"
        Colours and symbols of the components; or larger and darker points for uncertain rows; or contours of the
        density, which contain 25, 50, 75 and 95 percent of the probability.
    means : ndarray of shape (n_components, 2), default=()
        Means of Gaussian components, none of other ones.
    covariances : ndarray of shape (n_components, 2, 2), default=()
        Their covariances. An ellipse contains 90 percent of the probability of its component.
    grid : tuple of ndarray of shape (n_x,), (n_y,) and (n_y, n_x), default=None
        Coordinates of a grid, and log densities there.
    axis_names : sequence of str of length 2, default=("x0", "x1")
        Names of the coordinates.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.inspection import MixtureDisplay
    >>> flowers = load_iris(as_frame=True).data
    >>> mixture = ExponentialFamilyMixture(3, random_state=0).fit(flowers)
    >>> display = MixtureDisplay.from_estimator(mixture, flowers, columns=[2, 3])
    >>> display.axis_names
    ['petal length (cm)', 'petal width (cm)']
    >>> display = MixtureDisplay.from_estimator(mixture, flowers, response="uncertainty")
    """

    points: np.ndarray
    labels: np.ndarray
    uncertainty: np.ndarray
    response: Literal["classification", "uncertainty", "density"] = "classification"
    means: Sequence[np.ndarray] | np.ndarray = ()
    covariances: Sequence[np.ndarray] | np.ndarray = ()
    grid: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    axis_names: Sequence[str] = ("x0", "x1")

    @classmethod
    def from_estimator(
        cls,
        mixture: BaseEstimator,
        X: MatrixLike,
        *,
        response: Literal["classification", "uncertainty", "density"] = "classification",
        columns: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Plot rows of a fitted mixture.

        Parameters
        ----------
        mixture : estimator instance
            Fitted mixture. If it has Gaussian components, without a transform of columns, their ellipses are shown.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.
        response : {"classification", "uncertainty", "density"}, default="classification"
            What is shown: components of rows, their uncertainty, or the density. The density in two columns is the
            exact marginal density of `score_samples`, and needs Gaussian components. That in principal components needs
            an :class:`~skmanifold.ExponentialFamilyMixture` without a transform of columns.
        columns : sequence of two str or int, default=None
            Names or indices of two columns of numbers. None uses both columns if there are two, else the first two
            principal components of X, in which missing cells are imputed.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : MixtureDisplay

        Raises
        ------
        ValueError
            If the estimator is no mixture or has one column, the columns are not two columns of numbers, or the density
            is not available.
        """
        check_estimator(cls, mixture, (EstimateInference,), "rows in the components of a mixture")
        labels, uncertainty, d = mixture.predict(X), mixture.uncertainty(X), mixture.n_features_in_
        if d == 2 and columns is None:
            columns = [0, 1]
        family = mixture._family
        is_gaussian, is_plain = isinstance(family, GaussianFamily), getattr(family, "transform", None) is None
        is_known = columns is not None or (is_plain and isinstance(mixture, ExponentialFamilyMixture))
        if response == "density" and not (is_gaussian and is_known):
            raise ValueError(
                "response='density' needs Gaussian components, and for principal components an "
                "ExponentialFamilyMixture without a transform: use two columns, or another response."
            )
        chosen, points, names = _numbers(X, columns)
        if columns is None:
            if np.isnan(points).any():
                points = _numbers(mixture.impute(X), None)[1]
            pca = PCA(2, random_state=0).fit(points)
            points, axes, origin = pca.transform(points), pca.components_, pca.mean_
            shares = pca.explained_variance_ratio_.tolist()
            names = [f"principal component {i} ({percent(share)})" for i, share in enumerate(shares, 1)]
        else:
            axes, origin = np.zeros((2, d)), np.zeros(d)
            axes[[0, 1], chosen] = 1.0
        means, covariances, grid = np.empty((0, 2)), np.empty((0, 2, 2)), None
        if is_gaussian and is_plain:
            means, covariances = _in_plane(family, mixture.components_, mixture.covariances_, axes, origin)
        if response == "density":
            low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
            margin = _MARGIN * np.where(high > low, high - low, 1.0)
            x, y = np.linspace(low - margin, high + margin, _N_NODES).T
            nodes = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
            if columns is None:
                log_density = _log_density(mixture, nodes, axes, origin)
            else:  # the density of rows whose other cells are missing is the marginal one
                cells = np.full((len(nodes), d), np.nan)
                cells[:, chosen] = nodes
                log_density = mixture._log_densities_of(mixture.emission_.rows_of_values(mixture, cells))
            grid = x, y, log_density.reshape(_N_NODES, _N_NODES)
        gaussian: dict[str, Any] = {"means": means, "covariances": covariances, "grid": grid, "axis_names": names}
        return cls(points=points, labels=labels, uncertainty=uncertainty, response=response, **gaussian).plot(ax=ax)

    def plot(self, ax: Axes | None = None, **scatter_kwargs: Any) -> Self:
        """Plot the rows.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **scatter_kwargs
            Keyword arguments of ``scatter`` of matplotlib for the points.

        Returns
        -------
        self : MixtureDisplay

        Raises
        ------
        ValueError
            If the response is unknown, or is "density" without a grid.
        """
        draw = getattr(self, f"_draw_{self.response}", None)
        if draw is None or (self.response == "density" and self.grid is None):
            known = "'classification', 'uncertainty' or, with a grid, 'density'"
            raise ValueError(f"response must be {known}; got {self.response!r}.")
        self.ax_, self.figure_ = one_panel(self, ax, (5.4, 4.0))
        draw(**{"rasterized": len(self.points) > 2000, **scatter_kwargs})
        self.ax_.set_xlabel(plain(self.axis_names[0]), parse_math=False)
        self.ax_.set_ylabel(plain(self.axis_names[1]), parse_math=False)
        return self

    def _draw_classification(self, **style: Any) -> None:
        colors, named = group_colors(max(self.labels.max(initial=0) + 1, len(self.means))), []
        for k in np.unique(self.labels).tolist():
            color, marker = (colors[k], _MARKERS[k % len(_MARKERS)]) if k >= 0 else (QUIET, "x")
            shape = {"color": color, "marker": marker, "s": 16.0, "linewidths": 0.5, "alpha": 0.7}
            points, name = self.points[self.labels == k], str(k) if k >= 0 else "outlier"
            named.append(self.ax_.scatter(*points.T, label=name, **{**shape, **style}))
        self._add_ellipses(colors)
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
        for k, mean in enumerate(self.means):
            self.ax_.text(*mean, str(k), ha="center", va="center", fontsize=8, bbox=box)
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "fontsize": 8, "title_fontsize": 8}
        if 1 < len(named) <= _MOST_NAMED:
            add_legend(self.ax_, named, title="component", frameon=False, **place)
        elif len(named) > _MOST_NAMED:
            number_groups(self.ax_, colors, "component")

    def _add_ellipses(self, colors: Sequence[Any]) -> None:
        from matplotlib.patches import Ellipse

        for mean, covariance, color in zip(self.means, self.covariances, colors, strict=False):
            if not np.isfinite(covariance).all():  # posterior means of small clusters
                continue
            squares, directions = np.linalg.eigh(covariance)
            width, height = 2.0 * np.sqrt(-2.0 * np.log1p(-_IN_ELLIPSE) * np.maximum(squares, 0.0))
            angle = float(np.degrees(np.arctan2(directions[1, 0], directions[0, 0])))
            self.ax_.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, edgecolor=color, linewidth=1.2))
        self.ax_.autoscale_view()

    def _draw_uncertainty(self, **style: Any) -> None:
        order = np.argsort(self.uncertainty)  # uncertain rows are on top
        shades = self.uncertainty[order]
        scale = {"c": shades, "cmap": SHADES, "vmin": 0.0, "vmax": max(0.5, shades.max(initial=0.0))}
        shape = {"s": 8.0 + 80.0 * shades, "edgecolors": QUIET, "linewidths": 0.4}
        found = self.ax_.scatter(*self.points[order].T, **{**scale, **shape, **style})
        self._add_ellipses([QUIET] * len(self.means))
        self.figure_.colorbar(found, ax=self.ax_, label="uncertainty").outline.set_visible(False)

    def _draw_density(self, **style: Any) -> None:
        assert self.grid is not None
        x, y, log_density = self.grid
        self.ax_.scatter(*self.points.T, **{"color": QUIET, "alpha": 0.4, "s": 6.0, "linewidths": 0, **style})
        density = np.exp(log_density - log_density.max())
        heights = np.sort(density, axis=None)[::-1]
        within = np.cumsum(heights) / heights.sum()
        levels = {float(heights[np.searchsorted(within, share)]): percent(share) for share in _IN_CONTOURS[::-1]}
        lines = self.ax_.contour(x, y, density, sorted(levels), colors=MAIN, linewidths=1.0)
        self.ax_.clabel(lines, fmt=levels, fontsize=7)


def _numbers(X: Any, columns: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Indices of the columns, their values, (n_rows, n_columns), and their names; a ValueError unless all are numbers.

    There are at least two columns, and not more if `columns` are given.
    """
    table = open_table(X.toarray() if sp.issparse(X) else X)
    chosen = np.arange(table.n_columns) if columns is None else chosen_columns("MixtureDisplay", columns, table)
    read = [table.read(int(column)) for column in chosen]
    if len(read) < 2 or (columns is not None and len(read) > 2) or any(each.kind == "category" for each in read):
        raise ValueError("MixtureDisplay shows two columns, or principal components, of numbers: set columns.")
    names = [f"x{c}" if table.names is None else str(table.names[c]) for c in chosen]
    return chosen, np.column_stack([each.values for each in read]), names


def _in_plane(
    family: GaussianFamily, means: np.ndarray, covariances: np.ndarray, axes: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of K components along two axes, (2, d), from an origin."""
    if not family.has_matrices:
        covariances = covariances[..., np.newaxis] * np.eye(covariances.shape[-1])
    return (means - origin) @ axes.T, np.broadcast_to(axes @ covariances @ axes.T, (len(means), 2, 2))


def _log_density(mixture: Any, nodes: np.ndarray, axes: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Log of the density along two axes, which is that of a Gaussian mixture, averaged over draws."""
    terms = []
    for draw in mixture._predictive:
        own = mixture._family.attributes(draw.parameters)
        means, covariances = _in_plane(mixture._family, own["components_"], own["covariances_"], axes, origin)
        for weight, mean, covariance in zip(draw.weights, means, covariances, strict=True):
            terms.append(np.log(weight) + multivariate_normal.logpdf(nodes, mean, covariance, allow_singular=True))
    return logsumexp(terms, axis=0) - np.log(len(mixture._predictive))
