"""Display of the scores of a search over numbers of components and other parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._axes import AGAINST, Axes, add_legend, group_colors, plain, pyplot, several_panels

_STYLES = "o-", "s--", "^:", "D-."  # of lines with the same colour
_MOST_TICKS = 12


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
