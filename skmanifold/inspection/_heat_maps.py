"""Heat maps of co-clustering probabilities, of dependence between columns, and of surprising cells of a table."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_scalar

from ..metrics import co_clustering
from ..mixture._dirichlet_process.outliers import apart
from ..utils._inputs.tables import is_arrow, is_table
from ..utils._sklearn import take_rows
from ..utils._typing import ArrayLike, MatrixLike
from ._axes import Axes, check_method, draw_cells, draw_squares, one_panel, plain

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
        extend = "max" if largest.max() > end else "neither"
        style = {"aspect": "auto", "vmax": end, **image_kwargs}
        draw_cells(self.ax_, self.excess_.to_numpy(), (0, d, n, 0), "excess surprisal (nats)", 0.02, extend, **style)
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


_LEAST_NAMED = 0.03  # minimum fraction of rows for which a cluster gets a label


@dataclass(kw_only=True, eq=False, repr=False)
class CoClusteringDisplay:
    """Posterior probabilities that two rows are in the same cluster, with rows sorted by cluster.

    Use :meth:`from_estimator` to create it. Blocks on the diagonal are clusters. Pale cells within a block and shaded
    cells outside of blocks show uncertain assignments. All parameters are stored as attributes.

    Parameters
    ----------
    similarity : ndarray of shape (n_rows, n_rows)
        Probabilities, with rows and columns in the order of the plot.
    labels : ndarray of shape (n_rows,)
        Clusters of the rows in this order; rows of a cluster are adjacent.
    rows : ndarray of shape (n_rows,), default=None
        Indices of the rows in the data.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from skmanifold import DPCategoricalMixture
    >>> from skmanifold.datasets import make_categorical_mixture
    >>> from skmanifold.inspection import CoClusteringDisplay
    >>> X = make_categorical_mixture(500, 10, 3, weights=[0.5, 0.3, 0.2], random_state=0).data
    >>> mixture = DPCategoricalMixture("categorical", random_state=0).fit(X)
    >>> display = CoClusteringDisplay.from_estimator(mixture, X, max_rows=200)
    >>> display.similarity.shape
    (200, 200)
    """

    similarity: np.ndarray
    labels: np.ndarray
    rows: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike | None = None,
        *,
        labels: ArrayLike | None = None,
        max_rows: int = 500,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the co-clustering probabilities of a fitted estimator.

        Rows are sorted by cluster, and within clusters by average linkage of the probabilities, so that similar rows
        are adjacent.

        Parameters
        ----------
        estimator : estimator instance
            Fitted estimator with a method `co_clustering`, such as DPMixture. Other estimators raise an
            error, because products of `predict_proba` are not this probability.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows. None uses the rows of `fit` and the draws of their labels.
        labels : array-like of shape (n_samples,), default=None
            Clusters for the order of rows; None uses `predict` or ``labels_`` of the estimator.
        max_rows : int, default=500
            Maximum number of rows in the plot. If there are more, this number of evenly spaced rows is selected.
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.

        Returns
        -------
        display : CoClusteringDisplay

        Raises
        ------
        ValueError
            If the estimator has no method `co_clustering`, or if X is None and no labels were kept.
        """
        check_method(cls, estimator, "co_clustering", "DPMixture")
        if max_rows < 2:
            raise ValueError(f"max_rows must be at least 2; got {max_rows}.")
        given: Any = _drawn_labels(estimator).T if X is None else X
        n_rows = np.shape(given)[0]
        rows = np.unique(np.linspace(0, n_rows - 1, min(max_rows, n_rows)).astype(int))
        shown = take_rows(given, rows)
        similarity = co_clustering(apart(shown.T)) if X is None else estimator.co_clustering(shown)
        if labels is not None:
            labels = np.asarray(labels)
            if labels.shape != (n_rows,):
                raise ValueError(f"labels must have shape ({n_rows},), one per row; got {labels.shape}.")
            clusters = labels[rows]
        else:
            clusters = estimator.labels_[rows] if X is None else estimator.predict(shown)
        order = in_order(similarity, clusters)
        return cls(similarity=similarity[np.ix_(order, order)], labels=clusters[order], rows=rows[order]).plot(ax=ax)

    def plot(self, ax: Axes | None = None, **image_kwargs: Any) -> Self:
        """Plot the probabilities.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on. None creates a new figure.
        **image_kwargs
            Keyword arguments of ``imshow`` of matplotlib.

        Returns
        -------
        self : CoClusteringDisplay
        """
        check_consistent_length(self.similarity, self.labels)
        self.ax_, self.figure_ = one_panel(self, ax, (5.2, 4.4))
        n = len(self.labels)
        draw_cells(self.ax_, self.similarity, (0, n, n, 0), "probability of the same cluster", 0.03, **image_kwargs)
        labels = np.asarray(self.labels)
        begins, ends = draw_squares(self.ax_, labels)
        named = ends - begins >= _LEAST_NAMED * n
        names = [plain(label) for label in labels[begins[named]]]
        self.ax_.set_yticks((begins + ends)[named] / 2, names, fontsize=8, parse_math=False)
        self.ax_.set_xticks([])
        self.ax_.set_ylabel("cluster")
        self.ax_.set_xlabel(f"{n} rows, sorted by cluster")
        return self


def _drawn_labels(estimator: Any) -> np.ndarray:
    labels = estimator.posterior_.get("labels")
    if labels is None or labels.shape[1] == 0:
        raise ValueError("No draws of the labels of rows were kept: pass X.")
    return estimator._drawn_partitions


def in_order(similarity: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Order of rows, or columns, by label, and within a label by average linkage of the probabilities."""
    order = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 2:
            apart = 1.0 - similarity[np.ix_(members, members)]
            np.fill_diagonal(apart, 0.0)
            members = members[leaves_list(linkage(squareform(np.clip(apart, 0.0, 1.0), checks=False), "average"))]
        order.append(members)
    return np.concatenate(order)
