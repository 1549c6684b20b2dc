"""Displays of columns that depend on each other, and of the most surprising cells of a table."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_scalar

from ..utils._inputs.tables import is_arrow, is_table
from ..utils._sklearn import take_rows
from ..utils._typing import ArrayLike, MatrixLike
from ._axes import Axes, check_method, draw_cells, draw_squares, one_panel, plain
from ._co_clustering import in_order

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

_MOST_NAMES = 50  # on an axis; of more columns, evenly spaced ones are named
_MOST_SURPRISAL = 10.0  # nats at the end of the colours: 4.5 standard deviations of a normal distribution
_MOST_VALUES = 30  # columns up to which values are written in the cells


@dataclass(kw_only=True, eq=False, repr=False)
class DependenceDisplay:
    r"""How much columns depend on each other, with columns sorted by view.

    Use :meth:`from_estimator` to create it. Squares on the diagonal are views of the estimate. With probabilities, dark
    cells outside of squares and pale cells within are pairs of columns about which the draws disagree. Columns of one
    view may be independent, if it has a single component: mutual information shows how strong a dependence is. All
    parameters are stored as attributes.

    Parameters
    ----------
    dependence : DataFrame of shape (n_features, n_features)
        Values from 0 to 1, such as those of :meth:`CrossCat.column_dependence <skmanifold.CrossCat.column_dependence>`,
        with rows and columns in the order of the plot. Its index has the names.
    labels : ndarray of shape (n_features,), default=None
        Views of the columns in this order; columns of a view are adjacent. None draws no squares.
    value_name : str, default="probability of one view"
        Label of the colours.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import CrossCat
    >>> from skmanifold.inspection import DependenceDisplay
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.integers(2, size=(100, 1))
    >>> X = np.hstack([rng.normal(4.0 * groups, 1.0, (100, 2)), rng.normal(size=(100, 2))])
    >>> model = CrossCat(max_iter=40, n_chains=2, random_state=0).fit(X)
    >>> DependenceDisplay.from_estimator(model).dependence.shape
    (4, 4)
    """

    dependence: pd.DataFrame
    labels: ArrayLike | None = None
    value_name: str = "probability of one view"

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        measure: Literal["probability", "information"] = "probability",
        ax: Axes | None = None,
    ) -> Self:
        r"""Plot the dependence of the columns of a fitted estimator.

        Columns are sorted by view, and within views by average linkage of the probabilities, so that columns that
        depend on each other are adjacent.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with views of columns: CrossCat.
        measure : {"probability", "information"}, default="probability"
            The posterior probability that two columns share a view, or the mutual information I of
            :meth:`CrossCat.mutual_information <skmanifold.CrossCat.mutual_information>` as :math:`\sqrt{1 - e^{-2I}}`,
            the absolute correlation of two normal variables with this information.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : DependenceDisplay

        Raises
        ------
        ValueError
            If the estimator has no method `column_dependence`, or the measure is unknown.
        """
        check_method(cls, estimator, "column_dependence", "CrossCat")
        if measure not in {"probability", "information"}:
            raise ValueError(f"measure must be 'probability' or 'information'; got {measure!r}.")
        found, labels, name = estimator.column_dependence(), estimator.column_labels_, cls.value_name
        order = in_order(found.to_numpy(), labels)
        if measure == "information":
            information = estimator.mutual_information()
            found, name = (-np.expm1(-2.0 * information)) ** 0.5, "correlation with the same information"
            found = found.fillna(1.0)  # of the diagonal
        return cls(dependence=found.iloc[order, order], labels=labels[order], value_name=name).plot(ax=ax)

    def plot(self, ax: Axes | None = None, **image_kwargs: Any) -> Self:
        """Plot the values.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **image_kwargs
            Keyword arguments of ``imshow`` of matplotlib.

        Returns
        -------
        self : DependenceDisplay
        """
        d = len(self.dependence)
        side = np.clip(1.2 + 0.22 * d, 2.6, 8.0) + _room(self.dependence.index)
        self.ax_, self.figure_ = one_panel(self, ax, (side + 0.8, side))
        draw_cells(self.ax_, self.dependence.to_numpy(), (0, d, d, 0), plain(self.value_name), 0.03, **image_kwargs)
        if self.labels is not None:
            check_consistent_length(self.dependence, self.labels)
            draw_squares(self.ax_, np.asarray(self.labels))
        _name(self.ax_.set_yticks, self.dependence.index)
        _name(self.ax_.set_xticks, self.dependence.index, rotation=90)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SurprisalDisplay:
    """The rows of a table with the most surprising cells, each cell given the others of its row.

    Use :meth:`from_estimator` to create it. The colour of a cell is its excess surprisal: the surprisal minus the
    median of the column, in nats. Such differences of log densities do not depend on the unit of a column, so that
    all columns have one scale. With an excess of 5 nats the density is 150 times smaller than that of a usual cell;
    in a normal distribution such a value is 3.2 standard deviations from the mean. Colours end at 10 nats. Missing
    cells are grey. All parameters are stored as attributes.

    Parameters
    ----------
    surprisal : DataFrame of shape (n_samples, n_features)
        Surprisals of all rows, such as those of :meth:`CrossCat.surprisal <skmanifold.CrossCat.surprisal>`.
    values : array-like of shape (n_samples, n_features), default=None
        Values that are written in the cells if there are at most 30 columns. None writes nothing.

    Attributes
    ----------
    excess_ : DataFrame of shape (n_rows, n_features)
        What is drawn: surprisals minus the median of the column, the row with the largest one first.
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import pandas as pd
    >>> from skmanifold.inspection import SurprisalDisplay
    >>> surprisal = pd.DataFrame({"age": [1.0, 1.2, 9.2], "plan": [0.5, 0.4, 0.5]}, index=["a", "b", "c"])
    >>> SurprisalDisplay(surprisal=surprisal).plot(n_rows=1).excess_
       age  plan
    c  8.0   0.0
    """

    surprisal: pd.DataFrame
    values: MatrixLike | None = None

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: MatrixLike, *, n_rows: int = 20, ax: Axes | None = None
    ) -> Self:
        """Plot the most surprising cells of rows.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with surprisals of cells: CrossCat.
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_rows : int, default=20
            Number of rows in the plot, those with the most surprising cells.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : SurprisalDisplay

        Raises
        ------
        ValueError
            If the estimator has no method `surprisal`.
        """
        check_method(cls, estimator, "surprisal", "CrossCat")
        found = estimator.surprisal(X)
        names: Any = getattr(estimator, "feature_names_in_", None)
        table: Any = X
        if names is not None and is_table(table):
            table = table.select(list(names)) if is_arrow(table) else table[list(names)]
        return cls(surprisal=found, values=table).plot(n_rows=n_rows, ax=ax)

    def plot(self, ax: Axes | None = None, *, n_rows: int = 20, **image_kwargs: Any) -> Self:
        """Plot the cells.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        n_rows : int, default=20
            Number of rows in the plot, those with the most surprising cells.
        **image_kwargs
            Keyword arguments of ``imshow`` of matplotlib.

        Returns
        -------
        self : SurprisalDisplay
        """
        check_scalar(n_rows, "n_rows", Integral, min_val=1)
        excess = self.surprisal - self.surprisal.median()
        largest = np.nan_to_num(excess.to_numpy(), nan=-np.inf).max(axis=1)
        rows = np.argsort(-largest, kind="stable")[:n_rows]
        self.excess_ = excess.iloc[rows]
        n, d = self.excess_.shape
        size = np.clip(2.4 + 0.55 * d, 4.5, 12.0), np.clip(0.8 + 0.24 * n, 1.9, 11.0) + _room(excess.columns)
        self.ax_, self.figure_ = one_panel(self, ax, size)
        self.ax_.set_facecolor("0.88")
        end = image_kwargs.pop("vmax", _MOST_SURPRISAL)
        draw_cells(
            self.ax_,
            self.excess_.to_numpy(),
            (0, d, n, 0),
            "excess surprisal (nats)",
            0.02,
            "max" if largest.max() > end else "neither",
            **{"aspect": "auto", "vmax": end, **image_kwargs},
        )
        if self.values is not None and d <= _MOST_VALUES:
            check_consistent_length(self.surprisal, self.values)
            values = np.asarray(take_rows(self.values, rows), dtype=object)
            for (i, j), above in np.ndenumerate(self.excess_.to_numpy()):
                if not np.isnan(above):
                    style = {"color": "white" if above > 0.55 * end else "0.15", "parse_math": False, "fontsize": 7}
                    self.ax_.text(j + 0.5, i + 0.5, _as_text(values[i, j]), ha="center", va="center", **style)
        self.ax_.set_ylabel("row")
        _name(self.ax_.set_yticks, self.excess_.index)
        _name(self.ax_.set_xticks, self.excess_.columns, rotation=90)
        return self


def _name(set_ticks: Any, names: Any, **style: Any) -> None:
    """Names at the middle of the cells of an axis, of evenly spaced ones if there are many."""
    shown = np.arange(0, len(names), max(1, -(-len(names) // _MOST_NAMES)))
    texts = [plain(names[i]) for i in shown]
    set_ticks(shown + 0.5, texts, fontsize=8, parse_math=False, **style)


def _room(names: Any) -> float:
    """Inches for vertical names below the axes."""
    return 0.07 * min(max(len(plain(name)) for name in names), 40)


def _as_text(value: Any) -> str:
    """A number with four digits, or a text of at most nine characters."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    text = plain(value)
    return text if len(text) <= 9 else f"{text[:8]}\N{HORIZONTAL ELLIPSIS}"
