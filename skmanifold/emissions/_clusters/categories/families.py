"""Clusters of the rows of a family of categories: of multinomial counts, or of columns of codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....random._keys import subkey
from ....utils._threads import Workers
from ..._linear_rows import refuse_fractions
from ..._seeds import seed_clusters
from .clusters import CategoryClusters, CategoryCounts, CodeClusters

_PARAMETERS, _ROWS = 0, 1  # uses of a key


class CategoryFamilyClusters(CategoryClusters):
    """Rows of categories, with the draws and the seeds of their family.

    Parameters
    ----------
    family : LinearFamily
        The prior.
    rows : LinearRows or Table
        Rows of the family.
    table : Table
        The same rows as a table.
    prior : float
        Dirichlet parameter of each category.
    """

    def __init__(self, family: Any, rows: Any, table: Any, prior: float) -> None:
        super().__init__(table, prior)
        self.family = family
        self.rows = rows

    def count(self, labels: np.ndarray, statistics: CategoryCounts, workers: Workers) -> None:
        """Add all rows to the counts of their labels; fractions are refused."""
        refuse_fractions(self.rows, "multinomial", "whole counts")
        super().count(labels, statistics, workers)

    def part(self, start: int, stop: int) -> CategoryFamilyClusters:
        """The clusters of some of the rows."""
        table = self.table._replace(indptr=self.table.indptr[start : stop + 1])
        return CategoryFamilyClusters(self.family, self.rows.part(start, stop), table, self.prior)

    def subset(self, rows: np.ndarray) -> CategoryFamilyClusters:
        """The clusters of the rows with these indices."""
        return CategoryFamilyClusters(self.family, self.rows.take(rows), self.table.take(rows), self.prior)

    def expected(self, statistics: CategoryCounts) -> dict[str, Any]:
        """Posterior means of the probabilities of the categories of each cluster, as the family has them."""
        return {"components_": self.family.attributes(self.family.mode(statistics))["components_"]}

    def new_rows(self, statistics: CategoryCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw a row for each label from its predictive distribution: parameters of each row, then its tokens."""
        of_rows = labels, statistics.categories[:, labels]
        parameters = self.family.draw(of_rows, subkey(key, _PARAMETERS))
        return self.family.sample(parameters, np.arange(len(labels), dtype=np.int32), subkey(key, _ROWS))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds among the rows."""
        return seed_clusters(self.family, self.rows, n_clusters, key)


class CodeFamilyClusters(CodeClusters):
    """Rows of codes, with the draws and the seeds of their family.

    Parameters
    ----------
    family : CategoricalFamily
        The prior.
    table : Table
        Rows of the family.
    """

    def __init__(self, family: Any, table: Any) -> None:
        super().__init__(table, family.prior)
        self.family = family

    def new_rows(self, statistics: CategoryCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Codes drawn from the predictive distributions, without missing cells."""
        return self.family.sample(self.family.mode((statistics.sizes, statistics.categories)), labels, key)

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds among the rows."""
        return seed_clusters(self.family, self.table, n_clusters, key)

    def _of(self, table: Any) -> CodeFamilyClusters:
        return CodeFamilyClusters(self.family, table)
