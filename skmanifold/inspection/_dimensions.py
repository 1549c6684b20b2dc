"""Display of posterior probabilities of dimensions and numbers of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..admixture import HDPAdmixture, OrthogonalSphericalAdmixture
from ..mixture import DPCategoricalMixture, DPMixture, SubspaceClassifier, SubspaceMixture
from ._axes import MAIN, Axes, check_estimator, draw_cells, one_panel, percent, plain, strip

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
