"""Memberships and log densities of rows in fitted mixtures, and their summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..emissions._family import rows_for
from ..numerics.special import fill_exp
from ..random._keys import fold_in, uniform
from ..utils._njit import njit
from ..utils._threads import Workers, split_range
from ..utils._validation import validate_sample_weight


@njit(cache=True, nogil=True)
def _exponentiate(terms, scratch, log_density):
    """Subtract the maximum of each row of `terms`, written to `log_density`, and exponentiate.

    Rows of -inf, far from all components, get equal terms. `fill_exp` is several times faster if its output is not its
    input, whose place is in `scratch`.
    """
    n, n_components = terms.shape
    below, powers = scratch[: n * n_components], scratch[n * n_components : 2 * n * n_components]
    for i in range(n):
        largest = -np.inf
        for k in range(n_components):
            largest = max(largest, terms[i, k])
        log_density[i] = largest
        for k in range(n_components):
            below[i * n_components + k] = terms[i, k] - largest if largest > -np.inf else 0.0
    fill_exp(n * n_components, below, powers, terms.reshape(n * n_components))


@njit(cache=True, nogil=True)
def draw_labels_of_terms(terms, key, first_row, scratch, labels, log_density):
    """Draw labels, (n,) int32, with probability proportional to exp(terms), (n, K), which are overwritten.

    The draw depends only on the key and on `first_row` plus the index of the row. `log_density`, (n,), gets the logs of
    the sums of the exponentials; `scratch` has at least 2 n K numbers.
    """
    _exponentiate(terms, scratch, log_density)
    last = terms.shape[1] - 1
    for i in range(len(labels)):
        total = 0.0
        for k in range(last + 1):
            total += terms[i, k]
            terms[i, k] = total
        at = uniform(fold_in(key, first_row + i), 0) * total
        label = 0
        while label < last and at >= terms[i, label]:
            label += 1
        labels[i] = label
        log_density[i] += math.log(total)


@njit(cache=True, nogil=True)
def fill_shares(terms, scratch, log_density):
    """Replace the terms of rows, (n, K), by responsibilities; fills `log_density` with the logs of the sums.

    `scratch` has at least 2 n K entries.
    """
    _exponentiate(terms, scratch, log_density)
    n_components = terms.shape[1]
    for i in range(len(log_density)):
        total = 0.0
        for k in range(n_components):
            total += terms[i, k]
        for k in range(n_components):
            terms[i, k] /= total
        log_density[i] += math.log(total)


Memberships = tuple[np.ndarray, Any]  # memberships (n_rows, K), and distributions of cells given the component

_ROWS_OF_TASK = 2048
_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities


class FamilyRows:
    """Rows together with a family whose parameters are given, so that nothing is integrated out."""

    def __init__(self, family: Any, rows: Any):
        self.family = family
        self.rows = rows_for(family, rows)
        self.n_rows: int = rows.n_rows

    def part(self, start: int, stop: int) -> FamilyRows:
        """Some of the rows."""
        return FamilyRows(self.family, self.rows.part(start, stop))

    def add_densities_of_rows(self, parameters: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, K), the log density of the rows given each component."""
        tasks, family = split_range(self.n_rows, _ROWS_OF_TASK), self.family
        if getattr(family, "unrounded", False):
            parameters, family = family.of_rounded(parameters), family.unrounded
        workers.run(family.add_log_densities, [(self.rows, a, b, parameters, out[a:b]) for a, b in tasks])
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


_LEAST = -1e200  # log density of a row: squares of deviations of other columns, given such a row, are finite


def refuse_far_rows(log_densities: np.ndarray) -> None:
    """Raise a ValueError if a row is so far from all components that squares of its deviations can overflow."""
    if not np.all(log_densities >= _LEAST):
        raise ValueError(
            "X has a row so far from all components that squares of its deviations are too large for float64: correct "
            "or remove it."
        )


def used_rows(log_densities: np.ndarray, X: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mask of the rows that have a density and a positive weight, and their weights, which are 1 by default."""
    if np.isnan(log_densities).all():
        raise ValueError("All rows of X are zeros, which have no direction.")
    weights = np.ones(len(log_densities)) if sample_weight is None else validate_sample_weight(sample_weight, X)
    used = ~np.isnan(log_densities) & (weights > 0.0)
    if not used.any():
        raise ValueError("sample_weight must not be zero for all rows of X that have a density.")
    return used, weights[used]


class MixtureSummary(NamedTuple):
    """Log likelihood, information criteria and sizes of components of a fitted mixture; `repr` is a table.

    `n_rows`, `log_likelihood` and `sizes` are sums of weights of rows if these are given.
    """

    model: str
    n_rows: float
    log_likelihood: float
    n_parameters: int
    aic: float
    bic: float
    icl: float
    weights: np.ndarray  # (n_components,)
    sizes: np.ndarray  # (n_components,): numbers of rows by the most probable component

    def __repr__(self) -> str:
        numbers = [
            ("rows", f"{self.n_rows:,.10g}"),
            ("log likelihood", f"{self.log_likelihood:,.2f}"),
            ("parameters", f"{self.n_parameters:,}"),
            *((name.upper(), f"{getattr(self, name):,.2f}") for name in ("aic", "bic", "icl")),
        ]
        sizes = [f"{k:<10}{w:9.3f}{n:14,.10g}" for k, (w, n) in enumerate(zip(self.weights, self.sizes, strict=True))]
        head = f"{'component':<10}{'weight':>9}{'rows':>14}"
        return "\n".join([self.model, *(f"{name:<16}{value:>17}" for name, value in numbers), "", head, *sizes])
