"""The exact posterior over partitions of a few rows of categories, by enumeration.

Rows of one cluster share, in each column, a distribution over its categories with a symmetric Dirichlet prior; the
partition has the prior of a Dirichlet process. Nothing here is shared with the package's kernels.
"""

from collections.abc import Iterator

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln

from skmanifold.emissions._categorical import CategoricalFamily
from skmanifold.emissions._codes import Table


def category_clusters(table, prior):
    """Rows of a table and the prior of their categories."""
    return CategoricalFamily(prior, table.column_start, 1).clusters(table)


def table_of(rows, column_start=None) -> Table:
    """A table of dense counts, all of one column unless `column_start` says otherwise."""
    rows = np.asarray(rows)
    row, category = np.nonzero(rows)
    return Table.of(
        np.searchsorted(row, np.arange(len(rows) + 1)).astype(np.int64),
        category.astype(np.int32),
        rows[row, category].astype(np.int32),
        np.array([0, rows.shape[1]] if column_start is None else column_start, np.int64),
    )


# Five multinomial rows of two categories, whose figures were computed independently of the package.
TABLE = table_of([(3, 0), (2, 1), (0, 3), (1, 2), (4, 0)])
PRIOR = 0.5
P_COMPONENTS = np.array([0.02792, 0.31611, 0.44128, 0.19023, 0.02445])  # P(K = 1..5) where alpha = 1
P_TOGETHER = 0.41627  # P(z_1 = z_2)
GAMMA_P_COMPONENTS = np.array([0.05988, 0.28102, 0.36031, 0.23377, 0.06503])  # alpha ~ Ga(1, 1)
GAMMA_P_TOGETHER = 0.40245
GAMMA_MEAN_CONCENTRATION = 1.51869

# Five rows of three columns, with 2, 3 and 2 categories, and three missing cells.
CATEGORICAL = table_of(
    [
        (1, 0, 0, 1, 0, 1, 0),
        (1, 0, 0, 1, 0, 0, 0),
        (0, 1, 1, 0, 0, 0, 1),
        (0, 1, 0, 0, 0, 0, 1),
        (1, 0, 0, 0, 1, 1, 0),
    ],
    [0, 2, 5, 7],
)


def _label_sequences(n_rows: int) -> Iterator[tuple[int, ...]]:
    if n_rows == 0:
        yield ()
        return
    for labels in _label_sequences(n_rows - 1):
        for label in range(max(labels, default=-1) + 2):
            yield (*labels, label)


def partitions(n_rows: int) -> list[tuple[int, ...]]:
    """All partitions of rows, each as labels that count clusters in the order of their first rows."""
    return list(_label_sequences(n_rows))


PARTITIONS = partitions(TABLE.n_rows)


def index_of(labels) -> int:
    """Place in `PARTITIONS` of the partition that any labels of five rows stand for."""
    names: dict[int, int] = {}
    return _PLACES[tuple(names.setdefault(int(label), len(names)) for label in labels)]


_PLACES = {labels: place for place, labels in enumerate(PARTITIONS)}


def clusters_of(labels) -> list[frozenset[int]]:
    """Sets of rows that make up a partition."""
    return [frozenset(np.flatnonzero(np.equal(labels, label)).tolist()) for label in np.unique(labels)]


def log_marginal(rows, table: Table = TABLE, prior: float = PRIOR) -> float:
    """Log probability of the tokens, in order, of rows that share a cluster, its distributions integrated out."""
    counts = np.zeros(table.column_start[-1])
    for row in rows:
        entries = slice(table.indptr[row], table.indptr[row + 1])
        counts[table.indices[entries]] += table.counts[entries]
    result = np.sum(gammaln(prior + counts) - gammaln(prior))
    for start, stop in zip(table.column_start[:-1], table.column_start[1:], strict=True):
        total = prior * (stop - start)
        result += gammaln(total) - gammaln(total + counts[start:stop].sum())
    return float(result)


def _prior_factor(n_components: int, n_rows: int, concentration: float | tuple[float, float], power: int = 0) -> float:
    """Mean of alpha^(K + power) Gamma(alpha) / Gamma(alpha + n), unnormalised where alpha has a gamma prior."""

    def factor(alpha):
        return alpha ** (n_components + power) * np.exp(gammaln(alpha) - gammaln(alpha + n_rows))

    if not isinstance(concentration, tuple):
        return factor(concentration)
    shape, rate = concentration
    return quad(lambda alpha: factor(alpha) * alpha ** (shape - 1) * np.exp(-rate * alpha), 0, np.inf)[0]


def law_of(log_likelihood, n_rows: int, concentration: float | tuple[float, float] = 1.0) -> np.ndarray:
    """Posterior probabilities of all partitions, given the log likelihood of a partition's clusters; `concentration` is
    alpha, or shape and rate of its gamma prior.
    """
    factors = [_prior_factor(n_components, n_rows, concentration) for n_components in range(1, n_rows + 1)]
    logs = []
    for clusters in map(clusters_of, partitions(n_rows)):
        of_sizes = sum(gammaln(len(rows)) for rows in clusters)
        logs.append(np.log(factors[len(clusters) - 1]) + of_sizes + log_likelihood(clusters))
    law = np.exp(np.array(logs) - max(logs))
    return law / law.sum()


def exact_law(
    *, concentration: float | tuple[float, float] = 1.0, prior: float = PRIOR, table: Table = TABLE
) -> np.ndarray:
    """Posterior probabilities of all partitions of the rows of a table."""

    def log_likelihood(clusters):
        return sum(log_marginal(rows, table, prior) for rows in clusters)

    return law_of(log_likelihood, table.n_rows, concentration)


def n_components_law(law: np.ndarray, n_rows: int = TABLE.n_rows) -> np.ndarray:
    """P(K = 1, 2, ...) under a law over partitions."""
    return np.bincount([max(labels) for labels in partitions(n_rows)], weights=law)


def together(law: np.ndarray, i: int = 0, j: int = 1, n_rows: int = TABLE.n_rows) -> float:
    """P(z_i = z_j) under a law over partitions."""
    return float(sum(p for p, labels in zip(law, partitions(n_rows), strict=True) if labels[i] == labels[j]))
