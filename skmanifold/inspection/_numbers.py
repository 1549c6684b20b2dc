"""Displays of numbers of components: their posterior distribution, merges into clusters, and scores of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import dendrogram, fcluster
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..admixture import HDPAdmixture, OrthogonalSphericalAdmixture
from ..mixture import DPCategoricalMixture, DPMixture, SubspaceClassifier, SubspaceMixture
from ._axes import (
    AGAINST,
    MAIN,
    QUIET,
    Axes,
    add_legend,
    check_estimator,
    check_method,
    draw_cells,
    group_colors,
    one_panel,
    percent,
    plain,
    pyplot,
    several_panels,
    strip,
)

_LEAST_SHOWN = 1e-3  # minimum probability of the first and last value in the plot
_MOST_WITH_NUMBERS = 16  # maximum number of columns of a heat map with numbers in its cells


@dataclass(kw_only=True, eq=False, repr=False)
class DimensionPosteriorDisplay:
    """Posterior probabilities of integers: dimensions of subspaces, numbers of topics or clusters.

    Use :meth:`from_estimator` to create it. A single posterior is shown as bars, several as a heat map with one row for
    each. All parameters are stored as attributes.

    Parameters
    ----------
    probabilities : ndarray of shape (n_posteriors, n_values)
        Probabilities of 0, 1, 2, ...; rows sum to 1.
    names : list of str of length n_posteriors
        Name of each posterior.
    value_name : str, default="dimension"
        Name of the integers.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from skmanifold import SubspaceMixture
    >>> from skmanifold.datasets import make_subspaces
    >>> from skmanifold.inspection import DimensionPosteriorDisplay
    >>> X = make_subspaces(400, 3, (1, 2), noise_precision=50.0, random_state=0).data
    >>> mixture = SubspaceMixture(2, random_state=0).fit(X)
    >>> display = DimensionPosteriorDisplay.from_estimator(mixture)
    >>> display.ax_.get_xlabel()
    'dimension'
    """

    probabilities: np.ndarray
    names: Sequence[str]
    value_name: str = "dimension"

    @classmethod
    def from_estimator(
        cls,
        estimator: OrthogonalSphericalAdmixture
        | HDPAdmixture
        | DPCategoricalMixture
        | DPMixture
        | SubspaceMixture
        | SubspaceClassifier,
        *,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the posterior of the dimensions, or of the number of topics or clusters, of a fitted estimator.

        Parameters
        ----------
        estimator : estimator instance
            Fitted SubspaceMixture (dimensions of its components), SubspaceClassifier (dimensions of each class),
            OrthogonalSphericalAdmixture, HDPAdmixture (number of topics), DPMixture or DPCategoricalMixture (number of
            clusters).
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : DimensionPosteriorDisplay

        Raises
        ------
        ValueError
            If the estimator has no such posterior.
        """
        counted = OrthogonalSphericalAdmixture, HDPAdmixture, DPCategoricalMixture, DPMixture
        what = "posteriors of dimensions or of numbers of components"
        check_estimator(cls, estimator, (*counted, SubspaceMixture, SubspaceClassifier), what)
        if isinstance(estimator, counted):
            has_topics = isinstance(estimator, (OrthogonalSphericalAdmixture, HDPAdmixture))
            noun = "topics" if has_topics else "clusters"
            rows = np.asarray(estimator.n_components_posterior_)[np.newaxis]
            return cls(probabilities=rows, names=[noun], value_name=f"number of {noun}").plot(ax=ax)
        if isinstance(estimator, SubspaceMixture):
            return cls(probabilities=estimator.dimension_posterior_, names=_components(estimator)).plot(ax=ax)
        posteriors = [mixture.dimension_posterior_ for mixture in estimator.mixtures_]
        width = max(rows.shape[1] for rows in posteriors)
        probabilities = np.concatenate([np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in posteriors])
        names = []
        for name, mixture in zip(estimator.classes_, estimator.mixtures_, strict=True):
            several = len(mixture.dimension_posterior_) > 1
            names += [f"{name}, {part}" for part in _components(mixture)] if several else [f"{name}"]
        return cls(probabilities=probabilities, names=names).plot(ax=ax)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the probabilities, without the values at both ends whose probabilities are all below 0.001.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **kwargs
            Keyword arguments of ``bar`` (one posterior) or ``imshow`` (several) of matplotlib.

        Returns
        -------
        self : DimensionPosteriorDisplay
        """
        probabilities = np.asarray(self.probabilities)
        seen = np.flatnonzero(probabilities.max(axis=0) >= _LEAST_SHOWN)
        values = np.arange(seen[0], seen[-1] + 1)
        if len(probabilities) == 1:
            self.ax_, self.figure_ = one_panel(self, ax, (np.clip(1.9 + 0.35 * len(values), 3.2, 8.0), 2.6))
            self._draw_bars(values, probabilities[0, values], kwargs)
        else:
            size = (np.clip(2.6 + 0.45 * len(values), 4.0, 9.0), np.clip(1.2 + 0.32 * len(probabilities), 2.3, 9.0))
            self.ax_, self.figure_ = one_panel(self, ax, size)
            self._draw_cells(values, probabilities[:, values], kwargs)
        self.ax_.set_xlabel(plain(self.value_name), parse_math=False)
        return self

    def _draw_bars(self, values: np.ndarray, probabilities: np.ndarray, kwargs: dict) -> None:
        self.ax_.bar(values, probabilities, **{"color": MAIN, "width": 0.8, **kwargs})
        self.ax_.set_ylabel("posterior probability")
        self.ax_.set_xlim(values[0] - 1.0, values[-1] + 1.0)
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        strip(self.ax_)

    def _draw_cells(self, values: np.ndarray, probabilities: np.ndarray, kwargs: dict) -> None:
        ax = self.ax_
        extent = (values[0] - 0.5, values[-1] + 0.5, len(probabilities) - 0.5, -0.5)
        draw_cells(ax, probabilities, extent, "posterior probability", 0.02, **{"aspect": "auto", **kwargs})
        ax.set_yticks(range(len(self.names)), [plain(name) for name in self.names], fontsize=8, parse_math=False)
        ax.xaxis.get_major_locator().set_params(integer=True, nbins=min(len(values), 12))
        if len(values) <= _MOST_WITH_NUMBERS:
            for (row, column), probability in np.ndenumerate(probabilities):
                if probability >= 0.005:
                    color = "white" if probability > 0.55 else "black"
                    place = {"ha": "center", "va": "center", "fontsize": 7, "color": color}
                    ax.text(values[column], row, f"{probability:.2f}", **place)


def _components(mixture: Any) -> list[str]:
    return [f"component {k} ({percent(weight)})" for k, weight in enumerate(mixture.weights_)]


_MOST_UPRIGHT = 8  # names of components that are not turned
_MOST_TICKS = 12


@dataclass(kw_only=True, eq=False, repr=False)
class MergesDisplay:
    """Dendrogram of the components of a mixture, whose number of clusters falls from below to the top.

    Use :meth:`from_estimator` to create it. A dashed line is at the number of clusters of `merge_components`; clusters
    below it have colours. All parameters are stored as attributes.

    Parameters
    ----------
    linkage : ndarray of shape (n_components - 1, 4)
        Merges as in :func:`scipy.cluster.hierarchy.linkage`; a height is the number of merges.
    sizes : ndarray of shape (n_components,)
        Numbers of rows of the components.
    n_clusters : int
        Number of clusters at the dashed line.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmanifold import DPMixture
    >>> from skmanifold.inspection import MergesDisplay
    >>> mixture = DPMixture(random_state=0).fit(load_iris().data)
    >>> display = MergesDisplay.from_estimator(mixture)
    >>> len(display.linkage) == len(mixture.component_clusters_) - 1
    True
    """

    linkage: np.ndarray
    sizes: np.ndarray
    n_clusters: int

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, n_clusters: int | None = None, ax: Axes | None = None, **line_kwargs: Any
    ) -> Self:
        """Plot the merges of the components of a fitted Dirichlet process mixture.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with a method `merge_components`.
        n_clusters : int, default=None
            Number of clusters at the dashed line; None is that of ``clusters="merged"``.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kwargs
            Keyword arguments of the dashed line, a ``Line2D`` of matplotlib.

        Returns
        -------
        display : MergesDisplay

        Raises
        ------
        ValueError
            If the estimator has no method `merge_components`, kept no draws of the labels or has one component, or
            `n_clusters` is not between 1 and the number of components.
        """
        check_method(cls, estimator, "merge_components", "DPMixture")
        merged = estimator.merge_components("merged" if n_clusters is None else n_clusters)
        K = len(merged.component_clusters_)
        if K == 1:
            raise ValueError("MergesDisplay needs at least two components; the fit has one.")
        sizes, linkage = estimator._estimate.statistics.sizes, _linkage(estimator._merges.pairs)
        return cls(linkage=linkage, sizes=sizes, n_clusters=merged.n_components_).plot(ax=ax, **line_kwargs)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Plot the dendrogram.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kwargs
            Keyword arguments of the dashed line, a ``Line2D`` of matplotlib.

        Returns
        -------
        self : MergesDisplay
        """
        self.ax_, self.figure_ = one_panel(self, ax, (5.2, 3.4))
        K = len(self.sizes)
        height = K - self.n_clusters + 0.5
        clusters, leaves = fcluster(self.linkage, height, "distance") - 1, list(range(K))
        for first, _ in self.linkage[:, :2].astype(int):
            leaves.append(leaves[first])
        colors = np.array(group_colors(self.n_clusters), dtype=object)[clusters].tolist()
        dendrogram(
            self.linkage,
            ax=self.ax_,
            labels=[f"{k} ({n:,})" for k, n in enumerate(self.sizes.tolist())],
            link_color_func=lambda node: QUIET if self.linkage[node - K, 2] > height else colors[leaves[node]],
            leaf_rotation=90 if K > _MOST_UPRIGHT else 0,
            leaf_font_size=8,
        )
        self.ax_.axhline(height, **{"color": AGAINST, "linestyle": "--", "linewidth": 0.9} | line_kwargs)
        every = max(1, -(-K // _MOST_TICKS))
        numbers = np.arange(1, K + 1)[::every]
        self.ax_.set_yticks(K - numbers, numbers)
        self.ax_.set_ylim(0, K - 0.5)
        self.ax_.set_ylabel("number of clusters")
        self.ax_.set_xlabel("component (rows)")
        return self


def _linkage(pairs: np.ndarray) -> np.ndarray:
    """Merges with their heights and numbers of components."""
    counts = np.ones(2 * len(pairs) + 1)
    for step, pair in enumerate(pairs):
        counts[len(pairs) + 1 + step] = counts[pair].sum()
    return np.column_stack([pairs, np.arange(len(pairs)) + 1.0, counts[len(pairs) + 1 :]])


_STYLES = "o-", "s--", "^:", "D-."  # of lines with the same colour


@dataclass(kw_only=True, eq=False, repr=False)
class CriteriaDisplay:
    """Scores of a search against the number of components, with a panel for each score.

    Use :meth:`from_search` to create it. There is a line for each combination of the other parameters. A circle is
    around the best score of a panel; higher is better. All parameters are stored as attributes.

    Parameters
    ----------
    n_components : ndarray of shape (n_numbers,)
        Numbers of components.
    scores : dict of str to ndarray of shape (n_lines, n_numbers)
        Name of each score, and its values; NaN where a fit failed or was not tried.
    names : list of str of length n_lines
        Names of the lines.

    Attributes
    ----------
    axes_ : ndarray of matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.emissions import Gaussian
    >>> from skmanifold.inspection import CriteriaDisplay
    >>> from skmanifold.metrics import bic_scorer, icl_scorer
    >>> X, rows = load_iris().data, np.arange(150)
    >>> grid = {"n_components": [1, 2, 3], "emission__covariance_type": ["full", "tied"]}
    >>> mixture = ExponentialFamilyMixture(emission=Gaussian(), random_state=0)
    >>> scoring = {"bic": bic_scorer, "icl": icl_scorer}
    >>> search = GridSearchCV(mixture, grid, scoring=scoring, refit="bic", cv=[(rows, rows)]).fit(X)
    >>> display = CriteriaDisplay.from_search(search)
    >>> display.names
    ['full', 'tied']
    >>> display.scores["icl"].shape
    (2, 3)
    """

    n_components: np.ndarray
    scores: Mapping[str, np.ndarray]
    names: Sequence[str]

    @classmethod
    def from_search(cls, search: BaseEstimator, *, ax: Axes | Sequence[Axes] | None = None) -> Self:
        """Plot the mean test scores of a fitted search.

        Parameters
        ----------
        search : estimator instance
            Fitted search with ``cv_results_``, such as :class:`sklearn.model_selection.GridSearchCV`. One of its
            parameters is `n_components`, of the estimator or of a step of it.
        ax : matplotlib axes or sequence of these, default=None
            An axes object for each score, or a single one that is divided. None creates a new figure.

        Returns
        -------
        display : CriteriaDisplay

        Raises
        ------
        ValueError
            If `search` is no search, or `n_components` is not one of its parameters or several of them.
        """
        pyplot(f"{cls.__name__}.from_search")
        if not hasattr(search, "cv_results_"):
            if hasattr(search, "fit"):
                check_is_fitted(search)
            raise ValueError(f"CriteriaDisplay needs a fitted search, such as GridSearchCV; got {search!r}.")
        candidates = search.cv_results_["params"]
        of_number = {name for of in candidates for name in of if name.split("__")[-1] == "n_components"}
        if len(of_number) != 1:
            raise ValueError(
                f"CriteriaDisplay needs a search over one parameter n_components; this one has {len(of_number)}."
            )
        numbers = np.array([of.pop(*of_number) for of in map(dict, candidates)])
        others = [{name: value for name, value in of.items() if name not in of_number} for of in candidates]
        is_single = len({name for of in others for name in of}) == 1
        lines = [
            ", ".join(str(value) if is_single else f"{name.split('__')[-1]}={value}" for name, value in of.items())
            for of in others
        ]
        names, distinct = list(dict.fromkeys(lines)), np.unique(numbers)
        where = [names.index(line) for line in lines], np.searchsorted(distinct, numbers)
        scores = {}
        for key, values in search.cv_results_.items():
            if key.startswith("mean_test_"):
                table = scores[key.removeprefix("mean_test_")] = np.full((len(names), len(distinct)), np.nan)
                table[where] = values
        return cls(n_components=distinct, scores=scores, names=names).plot(ax=ax)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, **line_kwargs: Any) -> Self:
        """Plot the scores.

        Parameters
        ----------
        ax : matplotlib axes or sequence of these, default=None
            An axes object for each score, or a single one that is divided. None creates a new figure.
        **line_kwargs
            Keyword arguments of the lines, ``Line2D`` of matplotlib.

        Returns
        -------
        self : CriteriaDisplay
        """
        n, colors = len(self.scores), group_colors(min(len(self.names), 6))
        self.axes_, self.figure_ = several_panels(self, ax, n, (1, n), (3.6 * n + 1.2, 3.4))
        for panel, (score, values) in zip(self.axes_, self.scores.items(), strict=True):
            lines = []
            for i, (name, of_line) in enumerate(zip(self.names, values, strict=True)):
                style = {"color": colors[i % len(colors)], "markersize": 4, "linewidth": 1.2, **line_kwargs}
                shape = _STYLES[i // len(colors) % len(_STYLES)]
                lines += panel.plot(self.n_components, of_line, shape, label=plain(name), **style)
            if np.isfinite(values).any():
                line, place = map(int, np.unravel_index(np.nanargmax(values), values.shape))
                at, best = self.n_components[place], values[line, place]
                panel.plot(at, best, "o", markersize=11, markerfacecolor="none", color=AGAINST, zorder=4)
                title = ", ".join(filter(None, [str(at), plain(self.names[line])]))
                panel.set_title(f"best: {title}", fontsize=9, parse_math=False)
            panel.set_xlabel("number of components")
            panel.set_ylabel(f"{plain(score)} (higher is better)", parse_math=False)
            if len(self.n_components) <= _MOST_TICKS:
                panel.set_xticks(self.n_components)
        if len(self.names) > 1:
            add_legend(self.axes_[-1], lines, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
        return self
