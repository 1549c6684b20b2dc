"""Memberships, log densities and typical rows, given draws or an estimate of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..utils._threads import Workers, split_range
from ._memberships.kernels import fill_shares
from ._scores import refuse_far_rows

Memberships = tuple[np.ndarray, dict[str, Any]]  # memberships (n_rows, K) and attributes of the components

_ROWS_OF_TASK = 2048
_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities


class FamilyRows:
    """Rows together with a family whose parameters are given, so that nothing is integrated out."""

    def __init__(self, family: Any, rows: Any):
        self.family = family
        self.rows = rows
        self.n_rows: int = rows.n_rows

    def part(self, start: int, stop: int) -> FamilyRows:
        """Some of the rows."""
        return FamilyRows(self.family, self.rows.part(start, stop))

    def add_densities_of_rows(self, parameters: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, K), the log density of the rows given each component."""
        tasks = split_range(self.n_rows, _ROWS_OF_TASK)
        workers.run(self.family.add_log_densities, [(self.rows, a, b, parameters, out[a:b]) for a, b in tasks])
        if self.rows.log_base is not None:
            out += self.rows.log_base[:, None]


def to_shares(terms: np.ndarray, workers: Workers) -> np.ndarray:
    """Replace logs of weights times densities, (n, K), by memberships; returns the logs of the sums, (n,)."""
    log_sums = np.empty(len(terms))
    workers.run(_fill, [(terms[a:b], log_sums[a:b]) for a, b in split_range(len(terms), _ROWS_OF_TASK)])
    return log_sums


def _fill(terms: np.ndarray, log_sums: np.ndarray) -> None:
    fill_shares(terms, np.empty(2 * terms.size), log_sums)


def shares_and_log_density(
    estimate: Any, rows: Any, n_components: int, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities of K components given each row, (n_rows, K), and log densities in these, (n_rows,)."""
    shares = np.ascontiguousarray(estimate.log_terms(rows, workers)[:, :n_components])
    log_density = to_shares(shares, workers)
    refuse_far_rows(log_density)
    return shares, log_density


def label_rows(estimate: Any, rows: Any, n_components: int, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
    """The most probable of K components of each row, and the log density of the row in it times the weight."""
    shares, log_density = shares_and_log_density(estimate, rows, n_components, workers)
    labels = shares.argmax(axis=1)
    return labels, np.log(shares[np.arange(len(labels)), labels]) + log_density


def log_predictive(rows: Any, draws: Sequence[Any], workers: Workers) -> np.ndarray:
    """Log of the density of each row averaged over the draws (one for an estimate), (n_rows,), in nats."""
    out = np.empty(rows.n_rows)
    for start, stop in split_range(rows.n_rows, _ROWS_AT_ONCE):
        part = rows.part(start, stop)
        by_draw = [to_shares(draw.log_terms(part, workers), workers) for draw in draws]
        out[start:stop] = to_shares(np.ascontiguousarray(np.transpose(by_draw)), workers)
    return out - np.log(len(draws))


def typical_rows(of_own: np.ndarray, labels: np.ndarray, n_components: int) -> np.ndarray:
    """Index of the row of each component with the largest `of_own`, its log density there, (K,); -1 without rows."""
    order = np.lexsort((-of_own, labels))
    first, stop = (np.searchsorted(labels[order], np.arange(n_components), side=side) for side in ("left", "right"))
    found = np.full(n_components, -1)
    found[first < stop] = order[first[first < stop]]
    return found
