"""Moves of columns between views, and of groups of columns that split a view or merge two views.

Hyperparameters of columns, and numbers within cells, stay fixed in these moves. The prior of the partition of the
columns is a Chinese restaurant process with concentration gamma.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, gammaln

from ...random._keys import Purpose, subkey, uniform
from ...utils._threads import ONE
from .draws import labels_of_columns
from .proposals import Proposal, coarsened, compacted, counted, log_proposal, log_view_prior, propose_partition

if TYPE_CHECKING:
    from .model import ColumnNumbers, View, ViewModel

_MOST_TRIED = 0.1  # share of the columns for which new views are proposed in a pass
_ROWS_JOINED = 20_000  # of more rows splits and merges are rarer: they take about as long as a pass over the rows
_ROWS_SCANNED = 2000  # of more rows proposals are rare: a scan takes longer than a pass over the rows


def move_columns(
    model: ViewModel, views: list[View], numbers: ColumnNumbers, concentration: float, n_candidates: int, key: np.uint64
) -> list[View]:
    r"""Draw the view of each column in turn, given the partitions of the views.

    View v with :math:`n_v` other columns and partition :math:`\pi_v` has the weight :math:`n_v p(x_j \mid \pi_v)`. New
    views have partitions :math:`\pi_c` drawn from a proposal q, of which there are m, with weights

    .. math:: \frac{\gamma}{m} \frac{p(\pi_c) p(x_j \mid \pi_c)}{q(\pi_c)}.

    If column j is alone in its view, this view is one of the m. With the prior as q this is algorithm 8 of Neal (2000).
    It leaves the posterior unchanged for any q that does not depend on the partitions, since then the partitions of
    candidates that are not chosen are independent draws from q in the extended state.
    """
    family, n_columns = model.given(numbers), model.n_columns
    partitions = [(compacted(view.labels), view.concentration) for view in views]
    table = np.array([log_marginals(family, labels) for labels, _ in partitions])
    where = labels_of_columns(views)
    sizes = np.bincount(where, minlength=len(views))
    share = min(_MOST_TRIED, _ROWS_SCANNED / model.n_rows) if n_candidates else 0.0
    changed: set[int] = set()
    for j in range(n_columns):
        own_key = subkey(key, j)
        own, is_tried = where[j], uniform(own_key, 0) < share
        is_alone = sizes[own] == 1
        if is_alone and not is_tried:
            continue
        sizes[own] -= 1
        present = np.flatnonzero(sizes)
        log_weights = np.log(sizes[present]) + table[present, j]
        candidates: list[Proposal] = []
        if is_tried:
            of_column = family.of_columns(np.array([j]))
            for c in range(n_candidates):
                if c == 0 and is_alone:
                    labels, of_rows = partitions[own]
                    log_q = log_proposal(of_column, model.launches[j], model.prior, labels, of_rows)
                    proposal, log_density = Proposal(labels, of_rows, log_q), table[own, j]
                else:
                    drawn = subkey(own_key, Purpose.PROPOSAL, c)
                    proposal = propose_partition(of_column, model.launches[j], model.prior, drawn)
                    log_density = log_marginals(of_column, proposal.labels)[0]
                log_prior = log_view_prior(proposal.labels, proposal.concentration, model.prior)
                log_new = math.log(concentration / n_candidates) + log_prior + log_density - proposal.log_density
                log_weights = np.append(log_weights, log_new)
                candidates.append(proposal)
        chosen = _drawn(log_weights, uniform(own_key, 1))
        if chosen < len(present):
            new = int(present[chosen])
        elif is_alone and chosen == len(present):
            new = int(own)
        else:
            proposal = candidates[chosen - len(present)]
            new = int(own) if is_alone else len(table)
            if not is_alone:
                table, sizes = np.vstack((table, table[own])), np.append(sizes, 0)
                partitions.append(partitions[own])
            table[new], partitions[new] = log_marginals(family, proposal.labels), proposal[:2]
            changed.add(new)
        sizes[new] += 1
        where[j] = new
        if new != own:
            changed |= {int(own), new}
    out = []
    for at in np.flatnonzero(sizes).tolist():
        if at in changed:
            out.append(model.view(np.flatnonzero(where == at), *partitions[at], numbers))
        else:
            out.append(views[at])
    return sorted(out, key=lambda view: view.columns[0])


def log_marginals(family: Any, labels: np.ndarray) -> np.ndarray:
    """Log densities of all columns of a given family, each by itself, given labels without gaps, (n_columns,)."""
    return family.log_marginals_of_columns(counted(family, labels, ONE))


def _drawn(log_weights: np.ndarray, u: float) -> int:
    """An index drawn in proportion to the weights."""
    levels = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(min(np.searchsorted(levels, u * levels[-1], side="right"), len(levels) - 1))


def split_or_merge(
    model: ViewModel, views: list[View], numbers: ColumnNumbers, concentration: float, key: np.uint64
) -> list[View]:
    r"""Propose to split the view of two random columns i and j, or to merge two views, of columns i and j.

    A merge gives all columns the coarsest partition that refines both: :math:`\pi = \pi_a \wedge \pi_b`. A split
    proposes two coarser partitions of which the current one is the common refinement, so that each move reverses the
    other. For this the clusters of :math:`\pi`, as blocks of rows, are joined twice (`coarsened`): by the columns i and
    j alone, then again by the columns that each of the two results suits better. Given these launches each other
    column is drawn to i or to j in proportion to its marginal densities, and the blocks are joined a last time, by the
    columns a of i and by the columns b of j. The launches depend only on i, j, the columns and :math:`\pi` (Jain and
    Neal, 2004). With n_a and n_b columns, a split is accepted with the ratio

    .. math:: \gamma \frac{\Gamma(n_a) \Gamma(n_b)}{\Gamma(n_a + n_b)} \frac{p(\pi_a) p(\pi_b)}{p(\pi)}
        \frac{p(x_a \mid \pi_a) \, p(x_b \mid \pi_b)}{p(x_a, x_b \mid \pi)}
        \frac{(n_a + n_b - 1) / (d - n_a)}{q(a, b) \, q(\pi_a) \, q(\pi_b)},

    where d is the number of columns: j is drawn from the others of the view of i, or from other views. Concentrations
    are proposed given the numbers of clusters, in both directions.
    """
    i, is_split = int(uniform(key, 0) * model.n_columns), uniform(key, 1) < 0.5
    if uniform(key, 4) >= _ROWS_JOINED / model.n_rows:
        return views
    where = labels_of_columns(views)
    partners = np.flatnonzero((where == where[i]) == is_split)
    partners = partners[partners != i]
    if not len(partners):
        return views
    j = partners[int(uniform(key, 2) * len(partners))]
    chosen = list(dict.fromkeys((where[i], where[j])))
    old = [views[v] for v in chosen]
    both = np.sort(np.concatenate([view.columns for view in old]))
    of_both, prior, n_rows = model.given(numbers).of_columns(both), model.prior, model.n_rows
    of_i, of_j, blocks = both == i, both == j, compacted(old[0].labels)
    clusters: list[Any] = [None, None]
    if not is_split:
        n_first = int(blocks.max()) + 1
        codes, blocks = np.unique(blocks + n_first * compacted(old[1].labels).astype(np.int64), return_inverse=True)
        blocks, clusters = blocks.astype(np.int32), [codes % n_first, codes // n_first]
    odds = _odds_of_columns(of_both, blocks, of_i, of_j, subkey(key, Purpose.START))
    if is_split:
        drawn = np.array([uniform(subkey(key, Purpose.COMPONENTS), int(k)) for k in both])
        moves = (drawn < expit(odds)) & ~of_i | of_j
    else:
        moves = where[both] == where[j]
    log_q = -np.logaddexp(0.0, np.where(moves, -odds, odds))[~(of_i | of_j)].sum()
    # Partitions of the two sides
    apart, log_ratio = np.arange(int(blocks.max()) + 1), 0.0
    sides: list[tuple] = []
    for side, columns in enumerate((~moves, moves)):
        own, own_key = of_both.of_columns(np.flatnonzero(columns)), subkey(key, Purpose.LABELS, side)
        apart, log_side = coarsened(own, blocks, apart, own_key, clusters[side])
        labels, n_own = apart[blocks].astype(np.int32), int(apart.max()) + 1
        alpha = (
            prior.proposed(n_own, n_rows, subkey(own_key, Purpose.CONCENTRATION))
            if is_split
            else old[side].concentration
        )
        log_q += log_side + prior.log_proposal(alpha, n_own, n_rows)
        log_ratio += log_view_prior(labels, alpha, prior) + log_marginals(own, labels).sum()
        sides.append((both[columns], labels, alpha))
    alpha = old[0].concentration if is_split else prior.proposed(len(apart), n_rows, subkey(key, Purpose.CONCENTRATION))
    log_ratio += prior.log_proposal(alpha, len(apart), n_rows) - log_q
    log_ratio -= log_view_prior(blocks, alpha, prior) + log_marginals(of_both, blocks).sum()
    n, n_a, n_b = len(both), int((~moves).sum()), int(moves.sum())
    log_ratio += math.log(concentration) + gammaln(n_a) + gammaln(n_b) - gammaln(n)
    log_ratio += math.log((n - 1) / (model.n_columns - n_a))  # choices of j
    if math.log1p(-uniform(key, 3)) >= (log_ratio if is_split else -log_ratio):
        return views
    proposed: list[Any] = sides if is_split else [(both, blocks, alpha)]
    kept = [view for v, view in enumerate(views) if v not in chosen]
    new = [model.view(columns, labels, alpha, numbers) for columns, labels, alpha in proposed]
    return sorted(kept + new, key=lambda view: view.columns[0])


def _odds_of_columns(of_both: Any, blocks: np.ndarray, of_i: np.ndarray, of_j: np.ndarray, key: Any) -> np.ndarray:
    """Log odds that each column goes with column j, not with i, given launches of two coarser partitions."""
    sides, odds = (of_i, of_j), np.zeros(len(of_i))
    if not blocks.any():
        return odds
    for turn in range(2):
        densities = []
        for side, columns in enumerate(sides):
            own, own_key = of_both.of_columns(np.flatnonzero(columns)), subkey(key, turn, side)
            clusters, _ = coarsened(own, blocks, np.arange(int(blocks.max()) + 1), own_key)
            densities.append(log_marginals(of_both, clusters[blocks].astype(np.int32)))
        odds = densities[1] - densities[0]
        suits_j = (odds > 0.0) & ~of_i | of_j
        sides = ~suits_j, suits_j
    return odds
