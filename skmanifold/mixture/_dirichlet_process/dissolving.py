"""Dissolve small clusters of a partition, where that increases the evidence; for starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr

from ...emissions._statistics import by_size
from .greedy_merging import LEAST_SHARE
from .model import DPModel


def dissolve_small(
    model: DPModel, labels: np.ndarray, statistics: Any, shares: np.ndarray, concentration: float
) -> float:
    """Move all rows of a cluster to the other clusters that suit each row best, if the evidence increases.

    Rows between large clusters may form a small one that no merge removes, since it belongs to several of them. The
    clusters smaller than the average are tried, the smallest first. See `merge_greedily` for the evidence.

    Parameters
    ----------
    model : DPModel
    labels : ndarray of shape (n_rows,), int32
        Overwritten.
    statistics : NamedTuple
        Statistics of the labels; overwritten.
    shares : ndarray of shape (n_rows, capacity)
        Probabilities of the labels given each row; overwritten.
    concentration : float

    Returns
    -------
    evidence : float
        In nats.
    """
    shares[shares <= LEAST_SHARE] = 0.0
    entropy = _entropy(shares)
    evidence = model.log_joint(statistics, concentration) + entropy
    present = by_size(statistics)[::-1]
    for label in present[statistics.sizes[present] < model.n_rows / len(present)]:
        concerned = np.flatnonzero(shares[:, label])
        others = shares[concerned]
        others[:, label] = 0.0
        totals = others.sum(axis=1, keepdims=True)
        rows = np.flatnonzero(labels == label)
        targets = shares[rows]
        targets[:, label] = 0.0
        if not (totals.all() and targets.any(axis=1).all()):
            continue
        others /= totals
        new_labels = targets.argmax(axis=1).astype(labels.dtype)
        model.clusters.move(rows, new_labels, labels, statistics, model.workers)
        labels[rows] = new_labels
        new_entropy = entropy + _entropy(others) - _entropy(shares[concerned])
        new_evidence = model.log_joint(statistics, concentration) + new_entropy
        if new_evidence > evidence:
            shares[concerned] = others
            entropy, evidence = new_entropy, new_evidence
        else:
            old_labels = np.full(len(rows), label, labels.dtype)
            model.clusters.move(rows, old_labels, labels, statistics, model.workers)
            labels[rows] = label
    return evidence


def _entropy(shares: np.ndarray) -> float:
    """Entropy of the label of each row, summed over rows, in nats."""
    return float(entr(shares).sum())
