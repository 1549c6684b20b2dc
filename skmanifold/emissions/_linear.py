"""Families whose log densities are linear in sparse statistics: what Bernoulli, multinomial and Poisson rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BLOCK_ROWS, BlockSums
from ..numerics.row_hash import hash_counts
from ..sparse.counts import COUNT_TYPES, Counts, as_counts, canonical_csr, check_signs, refuse_texts
from ..sparse.counts import sums_of_rows as sums_of_rows  # public, for emissions of users
from ..utils._conditions import Array, Condition, Counted, Sizes, Whole
from ..utils._declared import holds
from ..utils._threads import split_range
from ..utils._typing import MatrixLike
from ..utils._validation import validate_data
from ._base import Arrays, Family
from ._linear_kernels import add_labelled, add_linear_scores, add_shared

_CLOSE = 1e-6
PRIOR = Array("float64", ("n_dimensions",), above=0)
_MOST_NATURAL = 1e15  # far beyond what any rows say


class LinearRows(NamedTuple):
    """Statistics of rows in CSR order: counts of features, and after them one column a feature for missing cells."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32; float64 where some are fractions
    n_features: int
    log_base: np.ndarray | None  # (n_rows,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def part(self, start: int, stop: int) -> LinearRows:
        """The rows `start` to `stop`, or to the last."""
        indptr = self.indptr[start : stop + 1]
        cells = slice(indptr[0], indptr[-1])
        log_base = None if self.log_base is None else self.log_base[start:stop]
        return LinearRows(indptr - indptr[0], self.indices[cells], self.counts[cells], self.n_features, log_base)

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows, of which the first is number `first_row`; those of ranges add up, modulo 2**64."""
        return hash_counts(self.indptr, self.indices, self.counts, key, first_row)

    def overall(self, n_statistics: int) -> np.ndarray:
        """Each statistic's sum over all rows, (n_statistics,)."""
        return np.bincount(self.indices, weights=self.counts, minlength=n_statistics)


@holds(
    offsets=Array("float64", ("n_components",)),
    naturals=Array("float64", (None, "n_components"), low=-_MOST_NATURAL, high=_MOST_NATURAL),
    means=Array("float64", (None, "n_components"), low=0, high=_MOST_NATURAL),
)
class LinearParameters(NamedTuple):
    """Parameters of K components: a row's log density is the offset and its statistics times the naturals."""

    offsets: np.ndarray  # (K,)
    naturals: np.ndarray  # (n_statistics, K)
    means: np.ndarray  # (n_features, K)


class LinearFamily(Family):
    """A family with ``n_statistics`` statistics a row; see the classes derived from it."""

    n_statistics: int

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_statistics, self.n_components)

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of offsets, naturals and means."""
        return (self.n_components,), (self.n_statistics, self.n_components), (self.n_features, self.n_components)

    def add_log_densities(
        self, rows: LinearRows, first: int, stop: int, parameters: LinearParameters, out: np.ndarray
    ) -> None:
        """Add log densities of rows, but for their ``log_base``, to `out`, (stop - first, K)."""
        add_linear_scores(first, stop, *rows[:3], parameters.offsets, parameters.naturals, out)

    def sum_labels(self, rows: LinearRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes and sums of statistics by label, exact where they are whole."""
        if rows.counts.dtype.kind == "f":
            return self._sum_in_blocks(add_labelled, rows, first, stop, first_block, labels)
        sizes = np.zeros(self.n_components, np.int64)
        totals = np.zeros((self.n_statistics, self.n_components), np.int64)
        add_labelled(first, stop, *rows[:3], labels, sizes, totals)
        return BlockSums.whole((sizes, totals))

    def sum_shares(self, rows: LinearRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Sums of shares and of statistics by share."""
        return self._sum_in_blocks(add_shared, rows, first, stop, first_block, shares)

    def _sum_in_blocks(self, kernel, rows, first, stop, first_block, labels_or_shares) -> BlockSums:
        """What `kernel` adds for each row, given its label or its shares."""

        def add(start, stop, sizes, totals):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                of_block = labels_or_shares[start + a : start + b]
                kernel(first + start + a, first + start + b, *rows[:3], of_block, sizes[block], totals[block])

        return self.sum_blocks(stop - first, first_block, add)

    def log_likelihood(self, statistics: Arrays, parameters: LinearParameters) -> float:
        """Log density of rows with these statistics, but for their ``log_base``, given whose they are."""
        sizes, totals = statistics
        return float(sizes @ parameters.offsets + (totals * parameters.naturals).sum())

    def highest_log_densities(self, rows: LinearRows) -> np.ndarray:
        """The highest log density that any parameters give each row, but for ``log_base``."""
        raise NotImplementedError

    def attributes(self, parameters: LinearParameters) -> dict[str, np.ndarray]:
        """``components_``, the expected rows."""
        return {"components_": np.ascontiguousarray(parameters.means.T)}

    def parameters_again(self, naturals: np.ndarray) -> LinearParameters:
        """The parameters that have these naturals."""
        raise NotImplementedError

    def observed(self, statistics: Arrays) -> np.ndarray:
        """How many cells of each feature each component has seen, (n_features, K), of families with missing cells."""
        sizes, totals = statistics
        return np.maximum(sizes - totals[self.n_features :], 0)


def parameters_agree(family: LinearFamily, parameters: LinearParameters) -> str | None:
    """Whether these are parameters of the family; says what is wrong, or None."""
    K, m = family.n_components, family.n_features
    if parameters.naturals.shape != (family.n_statistics, K) or parameters.means.shape != (m, K):
        return "has parameters that are not of its family"
    with np.errstate(over="ignore", invalid="ignore"):
        again = family.parameters_again(parameters.naturals)
        same = (np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE) for a, b in zip(parameters, again, strict=True))
        return None if all(same) else "has parameters that contradict each other"


def linear_family(**priors: Condition) -> dict[str, Condition]:
    """Conditions of a family's attributes, of those of its prior."""
    sizes = {"n_features": Counted("n_dimensions"), "n_components": Counted("n_components")}
    return {**sizes, **priors, "n_statistics": Whole(low=1)}


def statistics_agree(of_feature: int) -> Callable[[LinearFamily, Sizes], str | None]:
    """An agreement: so many statistics a feature."""

    def agree(family: LinearFamily, sizes: Sizes) -> str | None:
        return None if family.n_statistics == of_feature * family.n_features else "has another number of statistics"

    return agree


def read_counts(estimator: BaseEstimator, X: MatrixLike, *, reset: bool, missing: bool) -> Counts:
    """A user's non-negative X as it is, with fractions; NaN, where it may be missing, is a 1 in a column of its own."""
    finite = "allow-nan" if missing else True
    refuse_texts(estimator, X)
    valid = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=COUNT_TYPES, ensure_all_finite=finite)
    csr = canonical_csr(_with_columns_for_missing(sp.csr_array(valid)) if missing else valid)
    check_signs(csr, estimator)
    return as_counts(csr)


def _with_columns_for_missing(csr: sp.csr_array) -> sp.csr_array:
    n, m = csr.shape
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    absent = np.isnan(csr.data)
    if not absent.any():
        return sp.csr_array((csr.data, csr.indices, csr.indptr), shape=(n, 2 * m))
    indices = csr.indices.astype(np.int64) + m * absent
    wider = sp.csr_array((np.where(absent, 1.0, csr.data), indices, csr.indptr), shape=(n, 2 * m))
    wider.sort_indices()
    return wider
