"""Gaussian families with covariance matrices, whose missing cells are drawn, or replaced by their expectations."""

from __future__ import annotations

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...utils._threads import split_range
from .._dense_rows import DenseRows, IncompleteRows
from .base import GaussianFamily, GaussianParameters, TiedParameters
from .missing_kernels import add_expected_products, add_observed_densities, draw_missing_cells


class CompletingFamily(GaussianFamily):
    """Base class of Gaussian families with covariance matrices: of each component, or one for all.

    Their statistics are those of completed rows. The missing cells are drawn given the observed cells and the component
    of the row, or the statistics are expectations. Before there are parameters, missing cells are at the origin.

    Parameters
    ----------
    prior : NormalPrior
        Prior of the means and covariances.
    n_components : int
        Number of components K.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors: the mean of the observed cells.
    """

    def draw_missing(
        self,
        rows: IncompleteRows,
        first: int,
        stop: int,
        labels: np.ndarray,
        parameters: GaussianParameters | TiedParameters,
        key: np.uint64,
        first_row: int,
    ) -> DenseRows:
        """Draw the missing cells of the rows `first` to `stop`, given their components and the observed cells."""
        values = rows.values[first:stop].copy()
        _, incomplete = rows.split(first, stop)
        incomplete = incomplete[np.argsort(labels[incomplete - first], kind="stable")]
        of_rows = rows.values, incomplete, incomplete - first, rows.patterns, labels
        factors = self._shared_factors(parameters)
        draw_missing_cells(*of_rows, first_row, key, parameters.means, factors, values)
        return DenseRows(values)

    def sum_expected(
        self,
        rows: IncompleteRows,
        first: int,
        stop: int,
        first_block: int,
        shares: np.ndarray,
        parameters: GaussianParameters | TiedParameters,
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, given the observed cells and membership probabilities."""
        d, factors = self.n_features, self._shared_factors(parameters)

        def add(start, stop, *arrays):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                sizes, sums, products = (array[block] for array in arrays)
                complete, incomplete = rows.split(first + start + a, first + start + b)
                of_complete = DenseRows(rows.values[complete]), 0, len(complete), shares[complete - first]
                self._add_shared(*of_complete, sizes, sums, products)
                of_rows = rows.values, incomplete, incomplete - first, rows.patterns, shares
                into = self.origin, sizes, sums, products.reshape(-1, d, d)
                add_expected_products(*of_rows, parameters.means, factors, *into)

        return self.sum_blocks(stop - first, first_block, add)

    def _shared_factors(self, parameters: GaussianParameters | TiedParameters) -> np.ndarray:
        """Inverses of the Cholesky factors of covariances, (K, d, d), or of the covariance of all, (1, d, d)."""
        return parameters.factors.reshape(-1, self.n_features, self.n_features)

    def _add_observed(self, rows, chosen, places, parameters, out):
        of_components = parameters.means, self._shared_factors(parameters), parameters.offsets
        add_observed_densities(rows.values, chosen, places, rows.patterns, *of_components, out)
