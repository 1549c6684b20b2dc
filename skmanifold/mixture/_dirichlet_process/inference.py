"""What a fitted mixture says of rows: densities, components, who belongs together, and new rows."""

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

from ...inference._arviz import falling, to_tree
from ...metrics._partitions import co_clustering
from ...utils._threads import Workers, split_range
from ...utils._typing import MatrixLike, RandomStateLike
from .._membership import MembershipTransformer
from .._scores import DensityScores
from .category_table import Table
from .emission import WithCategories
from .encoding import category_table, count_table, validate_codes
from .posterior_draws import CountedDraw, ParameterDraw, log_predictive
from .stream import MixtureStream

_MAX_DENSE_BYTES = 4 << 30  # of a matrix of pairs
_CELLS_AT_ONCE = 1_000_000  # of rows drawn


class MixtureInference(WithCategories, MembershipTransformer, DensityScores):
    """Methods of an estimator with a fitted mixture; not public.

    It has the constructor parameters named here, and when fitted what is declared below.
    """

    handle_unknown: str
    n_jobs: int | None
    n_components_: int
    _emission: str
    _key: np.uint64  # of all streams, frozen when fitting begins
    _draws: list[CountedDraw | ParameterDraw]  # of a fit
    _stream: MixtureStream | None = None
    _summary: CountedDraw  # of the point partition
    _category_prior: float
    _column_start: np.ndarray
    _row_totals: np.ndarray  # tokens of the rows that were fitted, for rows like them
    _fitted_on_sparse: bool
    _posterior: dict[str, np.ndarray]
    _component_draws: np.ndarray  # those that are whole

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior if self._stream is None else self._stream.posterior()

    @property
    def _predictive(self) -> Sequence[CountedDraw | ParameterDraw]:
        return self._draws if self._stream is None else self._stream.draws()

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, ... components with rows, of shape (most that were drawn + 1,)."""
        check_is_fitted(self)
        draws = self.posterior_["n_components"].ravel()
        draws = draws if len(draws) else np.array([self.n_components_])  # before there are any
        return np.bincount(draws) / len(draws)

    @property
    def weights_(self) -> np.ndarray:
        """Share of each component, of shape (n_components_,)."""
        check_is_fitted(self)
        return self._summary.sizes / (self._summary.sizes.sum() + self._summary.concentration)

    @property
    def components_(self) -> np.ndarray | list[np.ndarray]:
        """Posterior means of the components' category probabilities given the point partition."""
        check_is_fitted(self)
        cells = self._summary.categories.T + self._category_prior
        columns = np.split(cells, self._column_start[1:-1], axis=1)
        means = [column / column.sum(axis=1, keepdims=True) for column in columns]
        return means[0] if self._emission == "multinomial" else means

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        r"""Log of the posterior predictive density of each row.

        The mean over all draws, of all chains, of the density of a new row: components with rows and what is left for
        those without, nothing renormalised,

        .. math:: \log \frac{1}{T} \sum_t \Bigl( \sum_j \omega_j^{(t)} f(x \mid \text{rows of } j)
            + \omega_0^{(t)} \int f(x \mid \theta) dG_0(\theta) \Bigr).

        With the exact samplers components and weights are integrated out given each draw of the partition; with the
        others they are as drawn. Missing cells are integrated out. The multinomial coefficient, which belongs to
        the row alone, is left out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.
        """
        table = self._table_of(X)
        with Workers(self.n_jobs) as workers:
            return log_predictive(table, self._predictive, self._category_prior, workers)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities that rows belong to the components of the point partition, given that it is one of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components_)
            Rows sum to 1.
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
        """
        return self._summary_terms(X)[:, :-1].argmax(axis=1)

    def co_clustering(self, X: MatrixLike | None = None) -> np.ndarray:
        """Posterior probabilities that two rows belong to the same component.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows, each by itself given the draws; one in a component that no fitted row has is taken to be there alone.
            None is the rows of `fit`, by the draws of their labels.

        Returns
        -------
        similarity : ndarray of shape (n_samples, n_samples)
            Symmetric, with ones on the diagonal.

        Raises
        ------
        ValueError
            If it would take more than 4 GiB, or X is None and no labels were kept.
        """
        check_is_fitted(self)
        if X is None:
            labels = self.posterior_.get("labels")
            if labels is None or labels.shape[1] == 0:
                raise ValueError("No draws of the rows' labels were kept: pass X.")
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

        Each row has a component, or with the probability left over one that no fitted row has, and category
        probabilities drawn for it from their posterior. For counts a row has as many tokens as a fitted row, chosen at
        random; no cell is missing.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Source of randomness.

        Returns
        -------
        X : ndarray or csr_array of shape (n_samples, n_features)
            Counts (sparse if those of `fit` were), or codes.
        labels : ndarray of shape (n_samples,)
            Components; -1 for one that no fitted row has.
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
        """What draws of the mixture say without labels, as ArviZ's tree of data.

        A component of one draw need not be a component of another: partitions differ, and there is no order of
        components that is right for all. So the weights of each draw are sorted, the largest first; components and
        labels are in ``posterior_`` alone, and what labels say without their numbers is `co_clustering`.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has ``n_components``, ``concentration``, ``weights`` with an axis ``rank``, NaN beyond
            the components of a draw, and their number ``n_active`` (with samplers by minibatches some have no rows);
            ``sample_stats`` has the log joint density by ArviZ's name ``lp``. Where `max_draws_bytes` left fewer whole
            draws, ``weights`` and ``n_active`` are in a group ``posterior_thinned``, whose ``draw`` says which ones
            they are. Axes are ``chain``, ``draw`` and ``rank``.

        Raises
        ------
        ImportError
            Where arviz-base is not installed (``pip install "skmanifold[arviz]"``).
        ValueError
            If there are no draws yet.
        """
        told = {name: draws for name, draws in self.posterior_.items() if name not in ("components", "labels")}
        if "weights" in told:
            told["weights"] = falling(told["weights"])
            told["n_active"] = np.count_nonzero(~np.isnan(told["weights"]), axis=-1)
        kept = self._component_draws if self._stream is None else None  # a stream keeps whole draws alone
        return to_tree(told, {"weights": ["rank"]}, component_draws=kept)

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
        log_gammas = np.log(generator.standard_gamma(shapes + 1.0))  # a shape below one is raised, and lowered again
        log_gammas -= generator.standard_exponential(shapes.shape) / shapes
        rows = generator.multinomial(totals[start:stop], softmax(log_gammas, axis=1))
        blocks.append(sp.csr_array(rows) if as_sparse else rows)
    return sp.vstack(blocks, format="csr") if as_sparse else np.concatenate(blocks)


def _sample_codes(rng, cells, labels, column_start):
    codes = np.empty((len(labels), len(column_start) - 1), np.int64)
    for column, (begin, end) in enumerate(pairwise(column_start)):
        shares = cells[:, begin:end] / cells[:, begin:end].sum(axis=1, keepdims=True)  # one token: its mean suffices
        levels = np.cumsum(shares, axis=1)[labels]
        codes[:, column] = (rng.random_sample(len(labels))[:, None] > levels[:, :-1]).sum(axis=1)
    return codes
