"""What a table shows given fitted views: dependence of columns, similarity of rows, and surprising cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from ..._install import optional_module
from ...emissions._cells import distribution_of_columns
from ...inference._draw_store import evenly_spaced
from ...random._keys import Purpose, root_key, subkey
from ...topics.top_words import column_names
from ...utils._threads import Workers, limit_threads
from ...utils._typing import MatrixLike, RandomStateLike
from .._memberships import draw_labels
from .._scores import shares_and_log_density
from .draws import ViewDraw
from .inference import ViewInference

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

_MAX_DENSE_BYTES = 4 << 30  # of a matrix of pairs of rows
_N_BATCHES = 5  # of the draws of a chain, for Monte Carlo errors
_N_INFORMATION, _MOST_INFORMATION = 500, 40  # rows of a draw, and draws, from which information is estimated


class ComparesColumnsAndRows(ViewInference):
    """Methods of an estimator with fitted views that compare columns, rows and cells; not public."""

    def column_dependence(self, return_errors: bool = False) -> Any:
        """Posterior probabilities that two columns share a view.

        Columns of different views are independent. Columns of one view depend on each other unless it has a single
        component: columns that depend on no other often share such a view by chance, and `mutual_information`, which is
        then zero, tells them apart.

        Parameters
        ----------
        return_errors : bool, default=False
            Whether to return Monte Carlo standard errors too, from means of consecutive draws.

        Returns
        -------
        dependence : DataFrame of shape (n_features, n_features)
        errors : DataFrame of shape (n_features, n_features)
            Only if `return_errors` is True.
        """
        check_is_fitted(self)
        pd = optional_module("pandas", "column_dependence", "demo")
        drawn = self._posterior["column_labels"]
        names = column_names(self, self.n_features_in_, None)
        if not drawn.size:
            drawn = self.column_labels_[np.newaxis, np.newaxis]
        total, batches = np.zeros((drawn.shape[2],) * 2), []
        for chain in drawn:
            for batch in np.array_split(chain, min(_N_BATCHES, len(chain))):
                same = np.zeros(total.shape)
                for labels in batch:
                    same += labels[:, np.newaxis] == labels
                total += same
                batches.append(same / len(batch))
        found = pd.DataFrame(total / (drawn.shape[0] * drawn.shape[1]), index=names, columns=names)
        if not return_errors:
            return found
        n = len(batches)
        errors = np.std(batches, axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(total.shape, np.nan)
        return found, pd.DataFrame(errors, index=names, columns=names)

    def mutual_information(self, random_state: RandomStateLike = 0) -> pd.DataFrame:
        r"""Mutual information of pairs of columns, averaged over draws.

        .. math:: I_{ij} = \int p(x_i, x_j) \log \frac{p(x_i, x_j)}{p(x_i) p(x_j)} \, dx_i dx_j,

        which is 0 in the draws in which the columns are in different views. In others it is estimated from 500 rows
        that are drawn from the mixture, at expected parameters of the components.

        Parameters
        ----------
        random_state : int, RandomState instance or None, default=0
            Seed of the drawn rows.

        Returns
        -------
        information : DataFrame of shape (n_features, n_features)
            In nats; NaN on the diagonal.
        """
        check_is_fitted(self)
        pd = optional_module("pandas", "mutual_information", "demo")
        key, d = root_key(random_state), self.n_features_in_
        draws, names = evenly_spaced(self._draws, _MOST_INFORMATION), column_names(self, d, None)
        total, family = np.zeros((d, d)), self._family.clusters()
        with limit_threads("blas"):
            for t, draw in enumerate(draws):
                for v, view in enumerate(draw.views):
                    if len(view.columns) > 1:
                        own = np.ix_(view.columns, view.columns)
                        total[own] += _information(view, view.family(family), subkey(subkey(key, t), v))
        np.fill_diagonal(total, np.nan)
        return pd.DataFrame(total / len(draws), index=names, columns=names)

    def row_similarity(
        self, X: MatrixLike | None = None, Y: MatrixLike | None = None, columns: Any = None
    ) -> np.ndarray:
        """Posterior probabilities that two rows are in the same component, averaged over columns.

        Rows are assigned to the components of each view; a column counts with those of its view.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Rows. None uses the rows of `fit`, and the draws of their labels.
        Y : array-like of shape (n_others, n_features), default=None
            Rows to compare with. None uses the rows of X.
        columns : str, int, list of these, slice or mask, default=None
            Columns that count. None uses all.

        Returns
        -------
        similarity : ndarray of shape (n_samples, n_others)

        Raises
        ------
        ValueError
            If the result would take more than 4 GiB, a column is unknown, `columns` is empty, or Y is given without X.
        """
        check_is_fitted(self)
        if X is None and Y is not None:
            raise ValueError("row_similarity with Y needs X too.")
        chosen = np.arange(self.n_features_in_) if columns is None else self._chosen_columns("row_similarity", columns)
        if not len(chosen):
            raise ValueError("row_similarity needs at least one column.")
        of_rows: list[Any] = [None if each is None else self._family_rows(self._read(each)) for each in (X, Y)]
        n = len(self._estimate.views[0].labels) if X is None else of_rows[0].n_rows
        m = n if Y is None else of_rows[1].n_rows
        if 8 * n * m > _MAX_DENSE_BYTES:
            raise ValueError(f"row_similarity of {n} and {m} rows would take {8 * n * m / 2**30:.1f} GiB; at most 4.")
        total = np.zeros((n, m))
        with Workers(self.n_jobs) as workers, limit_threads("blas"):
            for draw in self._draws:
                for view in draw.views:
                    weight = np.isin(view.columns, chosen).sum()
                    if not weight:
                        continue
                    K = len(view.rows.statistics.sizes)
                    if X is None:
                        shares = [np.eye(K)[view.labels]]
                    else:
                        given = [own for own in of_rows if own is not None]
                        shares = [
                            shares_and_log_density(view.rows, view.family(own), K + 1, workers)[0] for own in given
                        ]
                        shares = [own[:, :K] for own in shares]  # a new component has no other row
                    total += weight * (shares[0] @ shares[-1].T)
        total /= len(self._draws) * len(chosen)
        if Y is None:
            np.fill_diagonal(total, 1.0)
        return total

    def surprisal(self, X: MatrixLike) -> pd.DataFrame:
        r"""Minus the log density of each cell given the other cells of its row.

        .. math:: s_{ij} = -\log \frac{1}{T} \sum_t p^{(t)}(x_{ij} \mid x_{i, -j}).

        Large values are cells that are unusual for their row, such as errors. Surprisals of categories are minus log
        probabilities; those of numbers depend on their unit, so compare cells of the same column, or differences from
        the median of the column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        surprisal : DataFrame of shape (n_samples, n_features)
            In nats; NaN where a cell is missing.
        """
        pd = optional_module("pandas", "surprisal", "demo")
        rows = self._read(X)
        values, d = rows.cells(), self.n_features_in_
        family, out = self._family_rows(rows), np.empty(values.shape)
        with Workers(self.n_jobs) as workers, limit_threads("blas"):
            whole = [[view.log_density(family, workers) for view in draw.views] for draw in self._draws]
            for j in range(d):
                masked = values.copy()
                masked[:, j] = np.nan
                others = self._family_rows(self._rows_of_cells(masked))
                of_draws = []
                for draw, densities in zip(self._draws, whole, strict=True):
                    v = draw.column_labels[j]
                    of_draws.append(densities[v] - draw.views[v].log_density(others, workers))
                out[:, j] = np.log(len(of_draws)) - np.logaddexp.reduce(of_draws)  # in one order for any rows
        out[np.isnan(values)] = np.nan
        return pd.DataFrame(out, index=getattr(X, "index", None), columns=column_names(self, d, None))


def _information(view: ViewDraw, family: Any, key: np.uint64) -> np.ndarray:
    """Mutual information of all pairs of columns of a view, (n_columns, n_columns)."""
    given = family.given(view.rows.statistics)
    cells = distribution_of_columns(given, given.cell_attributes(view.rows.statistics))
    weights = view.rows.statistics.sizes / view.rows.statistics.sizes.sum()
    labels = draw_labels(weights, _N_INFORMATION, subkey(key, Purpose.LABELS))
    nothing = np.full((_N_INFORMATION, len(view.columns)), np.nan)
    rows = cells.drawn(nothing, labels, subkey(key, Purpose.ROWS), 0)
    terms = np.stack([cells.log_densities_of_column(j, rows[:, j]) for j in range(rows.shape[1])])
    logs = np.log(weights)
    alone = logsumexp(terms + logs, axis=2)
    out = np.empty((len(terms),) * 2)
    for i, of_column in enumerate(terms):
        out[i] = (logsumexp(terms + of_column + logs, axis=2) - alone - alone[i]).mean(axis=1)
    return np.maximum(0.5 * (out + out.T), 0.0)
