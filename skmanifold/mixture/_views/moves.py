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
from .proposals import (
    Launch,
    Proposal,
    compacted,
    counted,
    log_proposal,
    log_view_prior,
    propose_partition,
    scanned,
)

if TYPE_CHECKING:
    from .model import ColumnNumbers, View, ViewModel

_MOST_TRIED = 0.1  # share of the columns for which new views are proposed in a pass
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
    r"""Propose to split the view of two random columns i and j, or to merge their views.

    A merge gives all columns the partition of the view of i. A split keeps this partition for the view of i, and
    proposes another one for that of j: columns are drawn to the launch partition of j or stay, each in proportion to
    its marginal density given the two partitions, and a scan of the columns that moved draws the new partition. The
    launch depends only on i, j, the columns of both views together and the partition that is kept, so that it has the
    same distribution for the reverse move (Jain and Neal, 2004). With n_a and n_b columns, a split is accepted with the
    ratio

    .. math:: \gamma \frac{\Gamma(n_a) \Gamma(n_b)}{\Gamma(n_a + n_b)} \, p(\pi_b)
        \prod_{k \in b} \frac{p(x_k \mid \pi_b)}{p(x_k \mid \pi_a)} \, \frac{1}{q(b) \, q(\pi_b)}.
    """
    n_columns = model.n_columns
    if n_columns < 2 or uniform(key, 3) >= _ROWS_SCANNED / model.n_rows:
        return views
    i = int(uniform(key, 0) * n_columns)
    j = int(uniform(key, 1) * (n_columns - 1))
    j += j >= i
    of_i, of_j = (next(v for v, view in enumerate(views) if column in view.columns) for column in (i, j))
    kept, is_split = views[of_i], of_i == of_j
    both = kept.columns if is_split else np.sort(np.concatenate((kept.columns, views[of_j].columns)))
    family = model.given(numbers)
    of_both = family.of_columns(both)
    labels_kept = compacted(kept.labels)
    of_kept = log_marginals(of_both, labels_kept)
    launch, of_launch = _launch(model, of_both, both, i, j, labels_kept, of_kept, subkey(key, Purpose.START))
    # Which columns move to the launch, and the log of the probability of that
    log_odds = of_launch - of_kept
    if is_split:
        uniforms = np.array([uniform(subkey(key, Purpose.COMPONENTS), int(k)) for k in both])
        moves = uniforms < expit(log_odds)
    else:
        moves = np.isin(both, views[of_j].columns)
    moves[both == i], moves[both == j] = False, True
    free = (both != i) & (both != j)
    log_q = -np.logaddexp(0.0, np.where(moves, -log_odds, log_odds))[free].sum()
    moved = both[moves]
    of_moved, n_rows = family.of_columns(moved), model.n_rows
    if is_split:
        labels, log_scan = scanned(of_moved, launch, subkey(key, Purpose.LABELS))
        drawn = subkey(key, Purpose.CONCENTRATION)
        own = model.prior.proposed(int(labels.max()) + 1, n_rows, drawn)
    else:
        labels, own = compacted(views[of_j].labels), views[of_j].concentration
        _, log_scan = scanned(of_moved, launch, np.uint64(0), labels)
    if log_scan == -math.inf:
        return views
    log_q += log_scan + model.prior.log_proposal(own, int(labels.max()) + 1, n_rows)
    n_b = len(moved)
    log_ratio = math.log(concentration) + gammaln(len(both) - n_b) + gammaln(n_b) - gammaln(len(both))
    log_ratio += log_view_prior(labels, own, model.prior)
    log_ratio += log_marginals(of_moved, labels).sum() - of_kept[moves].sum() - log_q
    if math.log1p(-uniform(key, 2)) >= (log_ratio if is_split else -log_ratio):
        return views
    others = [view for v, view in enumerate(views) if v not in (of_i, of_j)]
    if is_split:
        others += [
            model.view(both[~moves], kept.labels, kept.concentration, numbers),
            model.view(moved, labels, own, numbers),
        ]
    else:
        others.append(model.view(both, kept.labels, kept.concentration, numbers))
    return sorted(others, key=lambda view: view.columns[0])


def _launch(
    model: ViewModel, of_both: Any, both: np.ndarray, i: int, j: int, kept: np.ndarray, of_kept: np.ndarray, key: Any
) -> tuple[Launch, np.ndarray]:
    """A random launch for column j, and marginal densities of all columns given its partition.

    It begins at the partition of column j by itself, or at the one that is kept. The columns that it suits better than
    the one that is kept then take part in a scan.
    """
    first = model.launches[j].labels if uniform(key, 0) < 0.5 else kept
    of_first = log_marginals(of_both, first)
    chosen = (of_first > of_kept) & (both != i) | (both == j)
    own = of_both.of_columns(np.flatnonzero(chosen))
    labels, log_scan = scanned(own, Launch.of_labels(own, first), subkey(key, Purpose.LABELS))
    labels = first if log_scan == -math.inf else labels
    return Launch.of_labels(own, labels), log_marginals(of_both, labels)
