"""Outliers of a Dirichlet process mixture: rows of a broad component, which are in no cluster and have the label -1.

A row is an outlier with probability pi, which has a beta prior, independently of the other rows; but at least one row
is none. The rows that are no outliers come from the Dirichlet process mixture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln

from ...emissions._family import Family
from ...emissions._statistics import by_size, n_used, with_values
from ...metrics._partitions import compact_labels
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import log_beta_variate
from ...samplers import BaseSampler
from ...samplers._latent.stick_breaking import draw_sticks, lengthen_sticks, order_above
from ...samplers._states import LatentState
from ...utils._threads import Workers, split_range
from .._scores import draw_labels_of_terms, to_shares
from .model import DPModel

OUTLIER = -1
_PRIOR = 1.0, 19.0  # beta distribution of pi, with mean 1/20
_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities


def weight_given(n_outliers: float, n_rows: int) -> float:
    """Posterior mean of pi given the number of outliers."""
    return (_PRIOR[0] + n_outliers) / (sum(_PRIOR) + n_rows)


def log_weights_given(n_outliers: int, n_rows: int, key: np.uint64) -> tuple[float, float]:
    """Logs of pi and of 1 - pi, drawn given the number of outliers."""
    return log_beta_variate(key, _PRIOR[0] + n_outliers, _PRIOR[1] + n_rows - n_outliers)


def without_outliers(model: DPModel, labels: np.ndarray) -> tuple[DPModel, np.ndarray]:
    """The model of the rows that are no outliers, and their labels; the same objects if there are no outliers."""
    rows = np.flatnonzero(labels != OUTLIER)
    return (model, labels) if len(rows) == len(labels) else (_of_rows(model, rows), labels[rows])


def compact(labels: np.ndarray) -> np.ndarray:
    """Labels of clusters renumbered by size; those of outliers stay."""
    out, rows = np.full(len(labels), OUTLIER), labels != OUTLIER
    out[rows] = compact_labels(labels[rows])
    return out


def apart(draws: np.ndarray) -> np.ndarray:
    """Drawn labels, (n_draws, n_rows), in which each outlier is a cluster of its own."""
    are_outliers = draws == OUTLIER
    return np.where(are_outliers, draws.max() + np.cumsum(are_outliers, axis=1), draws) if are_outliers.any() else draws


def score_rows(
    clusters: Family, draws: Sequence[Any], n_fitted: int, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of new rows, and probabilities that they are outliers, by means over draws of partitions."""
    log_density, shares = np.full(clusters.n_rows, -np.inf), np.zeros(clusters.n_rows)
    for start, stop in split_range(clusters.n_rows, _ROWS_AT_ONCE):
        part, broad, rows = clusters.part(start, stop), np.zeros((stop - start, 1)), slice(start, stop)
        part.add_log_broad(broad, workers)
        for draw in draws:
            weight = weight_given(n_fitted - draw.statistics.sizes.sum(), n_fitted)
            of_outlier = math.log(weight) + broad[:, 0]
            total = np.logaddexp(of_outlier, math.log1p(-weight) + to_shares(draw.log_terms(part, workers), workers))
            log_density[rows] = np.logaddexp(log_density[rows], total)
            shares[rows] += np.exp(of_outlier - total)
    return log_density - math.log(len(draws)), shares / len(draws)


class SliceWithOutliers(BaseSampler):
    r"""Passes of a slice sampler over the rows that are no outliers, each after a draw of the rows that are.

    A row of a component has a slice u ~ U(0, w), where w is the weight of the component, as in `Slice`; an outlier has
    one with density 1 / (2 sqrt(u)). Given slices and parameters, each row becomes an outlier or a row of a component
    whose weight exceeds its slice, with or without other rows:

        P(outlier) ~ pi g(x) / (2 sqrt(u)),  P(component j) ~ (1 - pi) f(x | parameters of j) 1(w_j > u).

    If no row would be left, the labels stay. Without slices, the components among which a row chooses would be those
    that have rows, which depend on the labels: the posterior would not be stationary.
    """

    state_types = (LatentState,)
    log_density_name = "log_joint"
    draws_parameters = True
    averages_passes = False
    _parameter_constraints: ClassVar[dict] = {"sampler": [BaseSampler]}

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def init(self, model: DPModel, key: np.uint64) -> LatentState:
        """The initial state: rows of initial clusters that are more probable as outliers are outliers."""
        state = self.sampler.init(model, key)
        labels = _first_labels(model, state)
        rows = np.flatnonzero(labels != OUTLIER)
        own = _of_rows(model, rows).count(labels[rows])
        return state._replace(statistics=_of_all(own, state.statistics, rows), latents=labels)

    def step(self, model: DPModel, state: LatentState) -> LatentState:
        """One pass; ``log_density`` is that of the slice sampler and of the outliers."""
        key = subkey(state.key, Purpose.OUTLIERS, state.n_steps)
        labels, whole, own = _redraw(model, state, key)
        rows, n = np.flatnonzero(labels != OUTLIER), model.n_rows
        outliers = np.flatnonzero(labels == OUTLIER)
        part = _of_rows(model, rows)
        state = self.sampler.step(part, state._replace(statistics=own, latents=labels[rows]))
        labels[rows] = state.latents
        log_density = state.log_density + _log_broad(model, outliers).sum() + _log_prior(len(outliers), n)
        statistics = _of_all(state.statistics, whole, rows)
        return state._replace(statistics=statistics, latents=labels, log_density=float(log_density))

    def parameters(self, model: DPModel, state: LatentState) -> Any:
        """Weights and components, drawn given the partition."""
        return self.sampler.parameters(model, state)


def _of_rows(model: DPModel, rows: np.ndarray) -> DPModel:
    """The model of some rows."""
    return replace(model, clusters=model.clusters.subset(rows))


def _of_all(statistics: Any, whole: Any, rows: np.ndarray) -> Any:
    """Statistics of some rows, with the numbers within cells of all rows; `whole` has those of the others."""

    def placed(of_some: np.ndarray, of_all: np.ndarray) -> np.ndarray:
        values = of_all.copy()
        values[rows] = of_some
        return values

    return with_values(placed, statistics, whole)


def _log_prior(n_outliers: int, n_rows: int) -> float:
    """Log prior probability that these rows are outliers and the others are not."""
    return float(betaln(_PRIOR[0] + n_outliers, _PRIOR[1] + n_rows - n_outliers) - betaln(*_PRIOR))


def _first_labels(model: DPModel, state: LatentState) -> np.ndarray:
    """Labels of a start, of which each cluster but the largest becomes outliers if they are more probable then."""
    labels, n_outliers, n = state.latents.copy(), 0, model.n_rows
    for label in by_size(state.statistics)[:0:-1]:
        rows = np.flatnonzero(labels == label)
        part, alike = _of_rows(model, rows), np.zeros(len(rows), np.int32)
        own, left = part.count(alike), n - n_outliers
        log_cluster = part.log_joint(own, state.position) + part.clusters.entropy_of_missing(alike, own)
        log_cluster += betaln(left - len(rows) + state.position, len(rows)) - betaln(state.position, len(rows))
        log_prior = _log_prior(n_outliers + len(rows), n) - _log_prior(n_outliers, n)
        if log_prior + _log_broad(model, rows).sum() > log_cluster:
            labels[rows], n_outliers = OUTLIER, n_outliers + len(rows)
    return labels


def _log_broad(model: DPModel, rows: np.ndarray) -> np.ndarray:
    """Log densities of rows if they are outliers, (n, 1), which do not depend on drawn hyperparameters."""
    out = np.zeros((len(rows), 1))
    if len(rows):
        model.clusters.subset(rows).add_log_broad(out, model.workers)
    return out


def _redraw(model: DPModel, state: LatentState, key: np.uint64) -> tuple[np.ndarray, Any, Any]:
    """Draw which rows are outliers, and labels of the others; returns labels, and statistics of all rows and of others.

    Those of all rows are not counted again. Missing cells of the others are drawn given their components.
    """
    labels, clusters, workers, n = state.latents, model.clusters, model.workers, model.n_rows
    outliers = np.flatnonzero(labels == OUTLIER)
    statistics = clusters.spread_in_cells(state.statistics, outliers, subkey(key, Purpose.ROUNDING))
    log_weight, log_rest = log_weights_given(len(outliers), n, subkey(key, Purpose.WEIGHTS))
    sticks = draw_sticks(statistics.sizes[: n_used(statistics)], state.position, key)
    levels = (fold_in_each(subkey(key, Purpose.SLICE), np.arange(n)) + 0.5) * 2.0**-64
    levels = np.where(labels == OUTLIER, levels**2, levels * sticks.weights()[0][labels])
    weights, _ = lengthen_sticks(sticks, state.position, levels.min(), key).weights()
    above = order_above(weights, levels.min())
    components = model.draw_components(statistics, above, subkey(key, Purpose.COMPONENTS))

    def of_rows(rows: np.ndarray) -> tuple[Any, Any]:
        part = clusters.subset(rows)
        own = with_values(lambda values: values[rows], statistics)
        return part.given(own), own

    names, new = np.append(above, OUTLIER).astype(np.int32), np.empty(n, np.int32)
    for start, stop in split_range(n, _ROWS_AT_ONCE):
        rows = np.arange(start, stop)
        part, own = of_rows(rows)
        terms = np.where(weights[above] > levels[rows, np.newaxis], log_rest, -np.inf)
        part.exact(own).add_densities_of_rows(components, terms, workers)
        of_levels = math.log(0.5) - 0.5 * np.log(levels[rows, np.newaxis])
        terms = np.hstack((terms, log_weight + of_levels + _log_broad(model, rows)))
        drawn, scratch = np.empty(len(rows), np.int32), np.empty(2 * terms.size)
        draw_labels_of_terms(terms, subkey(key, Purpose.LABELS), start, scratch, drawn, np.empty(len(rows)))
        new[rows] = names[drawn]
    new = new if new.max() != OUTLIER else labels.copy()

    rows = np.flatnonzero(new != OUTLIER)
    part, _ = of_rows(rows)
    own, place_of = part.no_statistics(max(len(statistics.sizes), int(new.max()) + 1)), np.zeros(len(weights), np.int64)
    place_of[above] = np.arange(len(above))
    part.count(new[rows], own, workers)
    shared = own, components, place_of, subkey(key, Purpose.MISSING_CELLS), workers
    part.redraw_missing(np.arange(len(rows)), new[rows], new[rows], *shared)
    return new, statistics, own
