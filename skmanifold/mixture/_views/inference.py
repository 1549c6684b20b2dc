"""Inference with fitted views: the estimate, memberships, predictions and new rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...inference._draw_store import draws_of
from ...inference._draws import Draws, to_tree
from ...random._keys import Purpose, root_key, subkey
from ...topics.top_words import column_names
from ...utils._conditions import Array, Sizes, index
from ...utils._declared import Saved
from ...utils._threads import Workers, limit_threads
from ...utils._typing import MatrixLike, RandomStateLike
from .._cluster_summary import ClusterSummary, summarized
from .._imputation import ImputesCells
from .._inference import MixtureInference
from .._memberships import draw_labels
from .._merging import Merges, clusters_of, joined
from .._scores import shares_and_log_density
from .draws import SomeViews, ViewDraw, ViewsDraw

_DRAWN = draws_of(
    "log_joint",
    needed=("n_views",),
    n_views=Array("int64", "n_chains n_draws", low=1),
    column_labels=Array("int32", "n_chains n_draws n_features", low=0, below="n_features"),
    view_concentration=Array("float64", "n_chains n_draws", above=0),
)


class ViewClusters(NamedTuple):
    """Merges of the components of a view of the estimate to clusters, and a typical row of each component, (K,)."""

    merges: Merges | None
    typical_rows: Annotated[np.ndarray, index("_", below="n_rows")]

    def of_components(self, view: ViewDraw, is_merged: bool) -> np.ndarray:
        """The cluster of each component, (K,)."""
        sizes = view.rows.statistics.sizes
        return self.merges.clusters(None, sizes) if is_merged and self.merges else np.arange(len(sizes))


class ViewInference(ImputesCells, MixtureInference):
    """Methods of an estimator with fitted views; not public.

    When fitted, the estimator has the attributes declared here.
    """

    clusters: str
    _posterior: Annotated[dict[str, np.ndarray], _DRAWN]
    _draws: Saved[list[ViewsDraw]]
    _estimate: Saved[ViewsDraw]
    _view_clusters: Saved[tuple[ViewClusters, ...]]  # of the views of the estimate

    def _disagreement(self, sizes: Sizes) -> str | None:
        views = self._estimate.views
        if not self._draws or not views:
            return "has no draws"
        if len(self._view_clusters) != len(views):
            return "has another number of views"
        for draw in (self._estimate, *self._draws):
            for view in draw.views:
                if problem := view.disagrees(self._family, len(views[0].labels)):
                    return problem
        for view, own in zip(views, self._view_clusters, strict=True):
            K = len(view.rows.statistics.sizes)
            if len(own.typical_rows) != K or (own.merges is not None and len(own.merges.pairs) + 1 != K):
                return "has another number of components"
        return super()._disagreement(sizes)

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        raise AttributeError(f"{type(self).__name__} has other components in each view; see cluster_summary.")

    def _family_rows(self, rows: Any) -> Any:
        return self._family.clusters(rows)

    def _needed(self, draw: ViewsDraw, values: np.ndarray) -> SomeViews:
        return SomeViews(draw, np.flatnonzero(np.isnan(values).any(axis=0)))

    def _views_of(self, rows: Any, draws: Sequence[ViewsDraw]) -> Iterator[list[tuple[Any, np.ndarray, Any]]]:
        """For each draw the views with missing cells: columns, memberships of rows, and distributions of cells."""
        values, family = rows.cells(), self._family_rows(rows)
        with Workers(self.n_jobs) as workers, limit_threads("blas"):
            for draw in draws:
                shares, cells = self._needed(draw, values).expected(family, workers)
                yield list(zip(cells.places, shares.values(), cells.parts, strict=True))

    @property
    def _predictive(self) -> Sequence[ViewsDraw]:
        return self._draws

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior

    @property
    def rhat_(self) -> dict[str, float]:
        """R-hat of the log joint density and of the number of views.

        NaN for one chain or fewer than four draws, infinite if chains are constant and differ.
        """
        return {name: _rhat(self.posterior_[name].astype(float)) for name in ("log_joint", "n_views")}

    # Views of the estimate

    def _components(self) -> list[np.ndarray]:
        check_is_fitted(self)
        pairs, is_merged = zip(self._view_clusters, self._estimate.views, strict=True), self.clusters == "merged"
        return [own.of_components(view, is_merged) for own, view in pairs]

    @property
    def column_labels_(self) -> np.ndarray:
        """The view of each column, (n_features,)."""
        check_is_fitted(self)
        return self._estimate.column_labels

    @property
    def n_views_(self) -> int:
        """Number of views."""
        check_is_fitted(self)
        return len(self._estimate.views)

    @property
    def views_(self) -> list[np.ndarray]:
        """Names of the columns of each view, or their indices if X had no names."""
        names = column_names(self, self.n_features_in_, None)
        return [np.asarray(names)[view.columns] for view in self._estimate.views]

    @property
    def labels_(self) -> np.ndarray:
        """Clusters of the fitted rows in each view, (n_samples, n_views)."""
        pairs = zip(self._components(), self._estimate.views, strict=True)
        return np.stack([clusters_of(own, view.labels) for own, view in pairs], axis=1)

    @property
    def n_components_(self) -> np.ndarray:
        """Number of clusters in each view, (n_views,)."""
        return np.array([own.max() + 1 for own in self._components()])

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_.sum())

    def predict_proba(self, X: MatrixLike) -> Any:
        """Posterior probabilities of the clusters of each view, given each row and the point partition.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : list of ndarray of shape (n_samples, n_clusters)
            One for each view.
        """
        family, found = self._family_rows(self._read(X)), []
        with Workers(self.n_jobs) as workers:
            for own, view in zip(self._components(), self._estimate.views, strict=True):
                shares, _ = shares_and_log_density(view.rows, view.family(family), len(own), workers)
                found.append(joined(shares, own))
        return found

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable cluster of each row in each view.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples, n_views)
        """
        return np.stack([own.argmax(axis=1) for own in self.predict_proba(X)], axis=1)

    def transform(self, X: MatrixLike) -> np.ndarray:
        """The probabilities of `predict_proba` of all views side by side, for the next step of a pipeline.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_clusters of all views)
        """
        return np.hstack(self.predict_proba(X))

    def uncertainty(self, X: MatrixLike) -> np.ndarray:
        """Posterior probability that a row does not belong to its most probable cluster, in each view.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        uncertainty : ndarray of shape (n_samples, n_views)
        """
        return np.stack([1.0 - own.max(axis=1) for own in self.predict_proba(X)], axis=1)

    def cluster_summary(self, view: int = 0, feature_names: Any = None) -> ClusterSummary:
        """Sizes and typical rows of the clusters in a view, and the columns that separate them, as data frames.

        Parameters
        ----------
        view : int, default=0
            Index of the view in ``views_``; the views with the most columns are first.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns of X.

        Returns
        -------
        summary : ClusterSummary
            ``clusters`` and ``columns``, as those of :class:`~skmanifold.DPMixture`, without drawn sizes.

        Raises
        ------
        ValueError
            If there is no such view, or the number of names differs from the number of columns.
        """
        components = self._components()
        number = check_scalar(view, "view", Integral, min_val=0, max_val=len(components) - 1)
        own, of_view = components[number], self._estimate.views[number]
        of_components = of_view.rows.statistics.sizes
        sizes = np.bincount(own, of_components).astype(np.int64)
        weights = np.eye(own.max() + 1)[own].T * of_components
        names = np.asarray(column_names(self, self.n_features_in_, feature_names))[of_view.columns]
        typical = self._view_clusters[number].typical_rows[np.unique(own, return_index=True)[1]]
        of_columns = self._family.of_columns(of_view.columns), names, of_view.columns
        return summarized(self, {"size": sizes}, sizes, typical, weights, of_view.rows.columns, *of_columns)

    # New rows

    def sample(  # type: ignore[override]
        self, n_samples: int = 1, given: Any = None, random_state: RandomStateLike = None
    ) -> Any:
        """Draw rows, or the other cells of rows in which some columns are given.

        Each row has a random draw of views, a component in each view, and cells from the predictive distribution.

        Parameters
        ----------
        n_samples : int, default=1
        given : dict, default=None
            Values of some columns, by name or index, which all rows have.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : array-like of shape (n_samples, n_features)
            Rows in the form of those of `fit`.

        Raises
        ------
        ValueError
            If `n_samples` is less than 1, or a column or a category is unknown.
        """
        check_is_fitted(self)
        n, key = check_scalar(n_samples, "n_samples", Integral, min_val=1), root_key(random_state)
        values = np.repeat(self._given_cells({} if given is None else given)[np.newaxis], n, axis=0)
        draws = draw_labels(np.ones(len(self._draws)), n, subkey(key, Purpose.LABELS))
        for t in np.unique(draws):
            chosen = np.flatnonzero(draws == t)
            rows = self._rows_of_cells(values[chosen])
            own = values[chosen]
            drawn = self._drawn_cells(rows, own, self._draws[t], subkey(key, Purpose.ROWS, int(t)))
            values[chosen] = np.where(np.isnan(own), drawn, own)
        return self._as_table(values)

    def _given_cells(self, given: dict[Any, Any]) -> np.ndarray:
        """Numbers and codes of the given columns, (n_features,); NaN where a column is not given."""
        cells, layout = np.full(self.n_features_in_, np.nan), vars(self)["_layout"]
        for name, value in given.items():
            (column,) = self._chosen_columns("given of sample", [name])
            if layout.kinds[column] == "category":
                known = layout.categories[column].tolist()
                if value not in known:
                    raise ValueError(f"{value!r} is no category of the column {name!r} in fit.")
                value = known.index(value)
            try:
                cells[column] = float(value)
            except (TypeError, ValueError):
                cells[column] = np.nan
            if not np.isfinite(cells[column]) or (layout.kinds[column] == "bool" and value not in (0, 1)):
                wanted = "True or False" if layout.kinds[column] == "bool" else "a finite number"
                raise ValueError(f"given of sample needs {wanted} for the column {name!r}; got {value!r}.")
        return cells

    def to_arviz(self) -> Any:
        """Convert the draws to an ArviZ data tree: ``n_views``, ``view_concentration`` and ``column_labels``.

        Returns
        -------
        xarray.DataTree
            Group ``posterior``; ``sample_stats`` contains the log joint density as ``lp``.

        Raises
        ------
        ValueError
            If there are no draws.
        """
        return to_tree(self.posterior_, {"column_labels": ["feature"]})


def _rhat(drawn: np.ndarray) -> float:
    if drawn.shape[0] < 2 or drawn.shape[1] < 4:
        return np.nan
    if not drawn.std(axis=1).any():
        return np.inf if np.ptp(drawn) else 1.0
    with np.errstate(divide="ignore"):  # halves of chains that are constant and differ
        return float(Draws(drawn).rhat())
