"""Split-merge moves of a Dirichlet-process mixture's partition."""

from __future__ import annotations

import numpy as np

from .category_table import Table
from .cluster_counts import MixtureCounts
from .split_merge_moves import make_moves


def split_merge(
    table: Table,
    labels: np.ndarray,
    counts: MixtureCounts,
    concentration: float,
    prior: float,
    n_moves: int,
    n_scans: int,
    key: np.uint64,
) -> tuple[int, int]:
    """Make Metropolis-Hastings moves that split a cluster in two or merge two of them.

    Components and weights are integrated out: a component has in each column a Dirichlet(prior, ..., prior)
    distribution over its categories. With probability 1/2 each, a move tries to

    - split: of a row i and another row j of its cluster, chosen at random, each gets a cluster of its own;
    - merge: a cluster chosen at random, small or large, with the cluster that a row i of it would most likely go to if
      it had to go, drawn in proportion to size times predictive probability; j is a row of that.

    The other rows are dealt to the sides of i and j one by one, each in proportion to the probability given the rows
    already there (Dahl, 2005), and with ``n_scans > 0`` by so many restricted Gibbs scans from there (Jain and Neal,
    2004). The time of a move grows with the entries of the rows in the one or two clusters concerned, times
    ``n_scans + 1``. Many merges are refused before that, since the ratio could not be large enough even if the reverse
    split were certain.

    Parameters
    ----------
    table : Table
        Rows of categories.
    labels : ndarray of shape (n_rows,), int32
        Cluster of each row, changed in place. A new cluster gets the smallest label that is free, and a merged one that
        of i's cluster, so that only the partition has a meaning.
    counts : MixtureCounts
        Those of the labels, changed in place; with room for labels below the number of clusters plus `n_moves`.
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
    settings = float(concentration), float(prior), n_moves, n_scans, np.uint64(key)
    n_splits, n_merges = make_moves(*table, table.column_of(), *settings, labels, *counts)
    return int(n_splits), int(n_merges)
