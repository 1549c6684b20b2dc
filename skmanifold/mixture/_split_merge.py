"""Split-merge moves of a Dirichlet-process mixture's partition."""

from __future__ import annotations

import numpy as np

from ._split_merge_kernels import make_moves
from ._table import Table


def split_merge(
    table: Table, labels: np.ndarray, concentration: float, prior: float, n_moves: int, n_scans: int, key: np.uint64
) -> tuple[int, int]:
    """Make Metropolis-Hastings moves that split a cluster in two or merge two of them.

    Components and weights are integrated out: a component has in each column a Dirichlet(prior, ..., prior)
    distribution over its categories. A move draws a row i and, with probability 1/2 each, tries to split its cluster
    around i and another row j of it, or to merge it with the cluster of a row j outside of it; where there is no such j
    it does nothing.

    The other rows are dealt to the sides of i and j one by one, each in proportion to the probability given the rows
    already there (Dahl, 2005), and with ``n_scans > 0`` by so many restricted Gibbs scans from there (Jain and Neal,
    2004). The time of a move grows with the entries of the rows in the one or two clusters concerned, times
    ``n_scans + 1``. Most merges are refused before that, since the ratio could not be large enough even if the reverse
    split were certain.

    Parameters
    ----------
    table : Table
        Rows of categories.
    labels : ndarray of shape (n_rows,), int32
        Cluster of each row, changed in place. Any labels from 0, but memory grows with the largest. A new cluster gets
        the smallest label that is free, and a merged one that of i's cluster, so that only the partition has a meaning.
    concentration : float
        Concentration alpha of the Dirichlet process: a partition has prior probability proportional to
        alpha^K prod_k Gamma(m_k), where cluster k has m_k rows.
    prior : float
        Parameter of the symmetric Dirichlet distributions.
    n_moves : int
        Number of moves tried.
    n_scans : int
        Number of restricted Gibbs scans, 0 for none.
    key : uint64
        Key of the moves' draws, folded for each.

    Returns
    -------
    n_splits, n_merges : int
        Numbers of accepted moves.

    References
    ----------
    Jain and Neal (2004). "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model".
    Journal of Computational and Graphical Statistics 13.

    Dahl (2005). "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture
    models". Technical report, Texas A&M University.
    """
    n_splits, n_merges = make_moves(
        *table, table.column_of(), float(concentration), float(prior), n_moves, n_scans, np.uint64(key), labels
    )
    return int(n_splits), int(n_merges)
