"""Inference with a fitted mixture: predictive densities, components, co-clustering and new rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from ...emissions._codes import Table, category_table, validate_codes
from ...inference._arviz import falling, to_tree
from ...metrics._partitions import co_clustering
from ...utils._threads import Workers, split_range
from ...utils._typing import MatrixLike, RandomStateLike
from .._membership import MembershipTransformer
from .._scores import DensityScores
from .category_table import count_table
from .emission import WithCategories
from .posterior_draws import CountedDraw, ParameterDraw, log_predictive
from .stream import MixtureStream

_MAX_DENSE_BYTES = 4 << 30  # of an (n_samples, n_samples) matrix
_CELLS_AT_ONCE = 1_000_000  # of sampled rows


class MixtureInference(WithCategories, MembershipTransformer, DensityScores):
    """Methods of an estimator with a fitted mixture; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    handle_unknown: str
    n_jobs: int | None
    n_components_: int
    _emission: str
    _key: np.uint64  # root of all random streams, set at the start of a fit
    _draws: list[CountedDraw | ParameterDraw]  # of `fit`, not of a stream
    _stream: MixtureStream | None = None
    _summary: CountedDraw  # of the point partition
    _category_prior: float
    _column_start: np.ndarray
    _row_totals: np.ndarray  # numbers of tokens of the fitted rows, used by `sample`
    _fitted_on_sparse: bool
    _posterior: dict[str, np.ndarray]
    _component_draws: np.ndarray  # indices of the complete draws

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior if self._stream is None else self._stream.posterior()

    @property
    def _predictive(self) -> Sequence[CountedDraw | ParameterDraw]:
        return self._draws if self._stream is None else self._stream.predictive_draws()

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, ... components with rows, of shape (largest drawn number + 1,)."""
        check_is_fitted(self)
        draws = self.posterior_["n_components"].ravel()
        draws = draws if len(draws) else np.array([self.n_components_])  # without draws so far
        return np.bincount(draws) / len(draws)

    @property
    def weights_(self) -> np.ndarray:
        """Weights of the components, of shape (n_components_,)."""
        check_is_fitted(self)
        return self._summary.sizes / (self._summary.sizes.sum() + self._summary.concentration)

    @property
    def components_(self) -> np.ndarray | list[np.ndarray]:
        """Posterior means of the category probabilities of each component, given the point partition."""
        check_is_fitted(self)
        cells = self._summary.categories.T + self._category_prior
        columns = np.split(cells, self._column_start[1:-1], axis=1)
        means = [column / column.sum(axis=1, keepdims=True) for column in columns]
        return means[0] if self._emission == "multinomial" else means

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        r"""Log of the posterior predictive density of each row.

        This is the log of the mean density of a new row over all draws of all chains. The density includes the
        components with rows and the remaining weight of those without:

        .. math:: \log \frac{1}{T} \sum_t \Bigl( \sum_j \omega_j^{(t)} f(x \mid \text{rows of } j)
            + \omega_0^{(t)} \int f(x \mid \theta) dG_0(\theta) \Bigr).

        With ``"slice"``, components and weights are integrated out given each drawn partition. With the other samplers,
        the drawn components and weights are used. Missing cells are integrated out. Multinomial coefficients are left
        out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        table = self._table_of(X)
        with Workers(self.n_jobs) as workers:
            return log_predictive(table, self._predictive, self._category_prior, workers)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the components of the point partition, given that the row belongs to one of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components_)
            Rows sum to 1.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        return softmax(self._summary_terms(X)[:, :-1], axis=1)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices into ``weights_``.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        return self._summary_terms(X)[:, :-1].argmax(axis=1)

    def co_clustering(self, X: MatrixLike | None = None) -> np.ndarray:
        """Posterior probabilities that two rows belong to the same component.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            New rows, assigned independently of each other given each draw. A row in a new component shares it with no
            other row. None uses the rows of `fit` and the draws of their labels.

        Returns
        -------
        similarity : ndarray of shape (n_samples, n_samples)
            Symmetric, with ones on the diagonal.

        Raises
        ------
        ValueError
            If the result would take more than 4 GiB, or X is None and no draws of the labels were kept.
        """
        check_is_fitted(self)
        if X is None:
            labels = self.posterior_.get("labels")
            if labels is None or labels.shape[1] == 0:
                raise ValueError("No draws of the labels were kept: pass X.")
            return co_clustering(labels.reshape(-1, labels.shape[-1]))
        table = self._table_of(X)
        n_bytes = 8 * table.n_rows**2
        if n_bytes > _MAX_DENSE_BYTES:
            raise ValueError(f"co_clustering of {table.n_rows} rows would take {n_bytes / 2**30:.1f} GiB; at most 4.")
        together = np.zeros((table.n_rows, table.n_rows))
        with Workers(self.n_jobs) as workers:
            for draw in self._predictive:
                shares = softmax(draw.log_terms(table, self._category_prior, workers), axis=1)[:, :-1]
                together += shares @ shares.T
        together /= len(self._predictive)
        np.fill_diagonal(together, 1.0)
        return together

    def sample(
        self, n_samples: int = 1, random_state: RandomStateLike = None
    ) -> tuple[np.ndarray | sp.csr_array, np.ndarray]:
        """Draw rows from the posterior predictive distribution given the point partition.

        Each row belongs to a component of the point partition or, with the remaining probability, to a new one. Its
        category probabilities are drawn from the posterior of the component, independently for each row. For counts,
        the number of tokens is that of a fitted row chosen at random. No cell is missing.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Seed.

        Returns
        -------
        X : ndarray or csr_array of shape (n_samples, n_features)
            Counts (sparse if X was sparse in `fit`), or codes of categories.
        labels : ndarray of shape (n_samples,)
            Components of the rows; -1 is a new component.

        Raises
        ------
        ValueError
            If `n_samples` is less than 1.
        """
        check_is_fitted(self)
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        rng = check_random_state(random_state)
        left_over = self._summary.concentration
        shares = np.append(self._summary.sizes, left_over) / (self._summary.sizes.sum() + left_over)
        labels = rng.choice(len(shares), n_samples, p=shares)
        with_empty = np.append(self._summary.categories, np.zeros((len(self._summary.categories), 1)), axis=1)
        cells = with_empty.T + self._category_prior
        if self._emission == "multinomial":
            X = _sample_counts(rng, cells, labels, rng.choice(self._row_totals, n_samples), self._fitted_on_sparse)
        else:
            X = _sample_codes(rng, cells, labels, self._column_start)
        return X, np.where(labels == self.n_components_, -1, labels)

    def to_arviz(self) -> Any:
        """Convert the draws to an ArviZ data tree; without components and labels.

        Components of different draws do not correspond to each other, because the partitions differ. Therefore the
        weights of each draw are sorted in decreasing order, and components and labels are left out. They are in
        ``posterior_``; `co_clustering` summarises the labels.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` contains ``n_components``, ``concentration``, ``weights`` with an axis ``rank`` (NaN
            beyond the components of a draw), and the number of weights ``n_active``. With samplers by minibatches,
            some of these components have no rows. ``sample_stats`` contains the log joint density as ``lp``. If
            `max_draws_bytes` limits the number of complete draws, ``weights`` and ``n_active`` are in a group
            ``posterior_thinned``, whose coordinate ``draw`` has their indices. Axes are ``chain``, ``draw`` and
            ``rank``.

        Raises
        ------
        ImportError
            If arviz-base is not installed.
        ValueError
            If there are no draws.
        """
        exported = {name: draws for name, draws in self.posterior_.items() if name not in ("components", "labels")}
        if "weights" in exported:
            exported["weights"] = falling(exported["weights"])
            exported["n_active"] = np.count_nonzero(~np.isnan(exported["weights"]), axis=-1)
        kept = self._component_draws if self._stream is None else None  # a stream keeps complete draws only
        return to_tree(exported, {"weights": ["rank"]}, component_draws=kept)

    def _summary_terms(self, X) -> np.ndarray:
        table = self._table_of(X)
        with Workers(self.n_jobs) as workers:
            return self._summary.log_terms(table, self._category_prior, workers)

    def _table_of(self, X) -> Table:
        check_is_fitted(self)
        if self._emission == "multinomial":
            return count_table(self, self._fitted_emission, X, None, reset=False)
        codes = validate_codes(self, X, reset=False)
        return category_table(self, codes, self._column_start, handle_unknown=self.handle_unknown)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._emission_name == "multinomial"
        tags.input_tags.categorical = self._emission_name == "categorical"
        tags.input_tags.allow_nan = self._emission_name == "categorical"
        tags.input_tags.positive_only = True
        return tags


def _sample_counts(rng, cells, labels, totals, as_sparse):
    generator = np.random.default_rng(rng.randint(0, 2**32, 4, dtype=np.uint32))
    blocks = []
    for start, stop in split_range(len(labels), max(1, _CELLS_AT_ONCE // cells.shape[1])):
        shapes = cells[labels[start:stop]]
        log_gammas = np.log(generator.standard_gamma(shapes + 1.0))  # avoids underflow; corrected in the next line
        log_gammas -= generator.standard_exponential(shapes.shape) / shapes
        rows = generator.multinomial(totals[start:stop], softmax(log_gammas, axis=1))
        blocks.append(sp.csr_array(rows) if as_sparse else rows)
    return sp.vstack(blocks, format="csr") if as_sparse else np.concatenate(blocks)


def _sample_codes(rng, cells, labels, column_start):
    codes = np.empty((len(labels), len(column_start) - 1), np.int64)
    for column, (begin, end) in enumerate(pairwise(column_start)):
        shares = cells[:, begin:end] / cells[:, begin:end].sum(axis=1, keepdims=True)  # sufficient for one token
        levels = np.cumsum(shares, axis=1)[labels]
        codes[:, column] = (rng.random_sample(len(labels))[:, None] > levels[:, :-1]).sum(axis=1)
    return codes
