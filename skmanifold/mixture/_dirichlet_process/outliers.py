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
from ...emissions._statistics import by_size, with_values
from ...metrics._partitions import compact_labels
from ...random._keys import Purpose, subkey
from ...random._variates import log_beta_variate
from ...samplers import BaseSampler
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
    """Passes of a slice sampler over the rows that are no outliers, each after a draw of the rows that are.

    Given pi, and the weights and parameters of the components with rows, each row becomes an outlier or a row of one of
    these components, with probability proportional to weight times density. This is a Gibbs update, because the label
    of each row is among them. If no row would be left, the labels stay.
    """

    state_types = (LatentState,)
    log_density_name = "log_joint"
    draws_parameters = True
    averages_passes = False
    _parameter_constraints: ClassVar[dict] = {"sampler": [BaseSampler]}

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def init(self, model: DPModel, key: np.uint64) -> LatentState:
        """The initial state, without outliers."""
        return self.sampler.init(model, key)

    def step(self, model: DPModel, state: LatentState) -> LatentState:
        """One pass; ``log_density`` is that of the slice sampler and of the outliers."""
        key = subkey(state.key, Purpose.OUTLIERS, state.n_steps)
        labels, whole, own = _redraw(model, state, key)
        rows, n = np.flatnonzero(labels != OUTLIER), model.n_rows
        outliers = np.flatnonzero(labels == OUTLIER)
        part = _of_rows(model, rows)
        state = self.sampler.step(part, state._replace(statistics=own, latents=labels[rows]))
        labels[rows] = state.latents

        def placed(of_part: np.ndarray, of_all: np.ndarray) -> np.ndarray:
            values = of_all.copy()
            values[rows] = of_part
            return values

        log_density = state.log_density + _log_broad(model, outliers).sum()
        log_density += betaln(_PRIOR[0] + n - len(rows), _PRIOR[1] + len(rows)) - betaln(*_PRIOR)
        statistics = with_values(placed, state.statistics, whole)
        return state._replace(statistics=statistics, latents=labels, log_density=float(log_density))

    def parameters(self, model: DPModel, state: LatentState) -> Any:
        """Weights and components, drawn given the partition."""
        return self.sampler.parameters(model, state)


def _of_rows(model: DPModel, rows: np.ndarray) -> DPModel:
    """The model of some rows."""
    return replace(model, clusters=model.clusters.subset(rows))


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
    draw, present = model.draw(statistics, state.position, subkey(key, Purpose.DRAW)), by_size(statistics)

    def of_rows(rows: np.ndarray) -> tuple[Any, Any]:
        part = clusters.subset(rows)
        own = with_values(lambda values: values[rows], statistics)
        return part.given(own), own

    names, new = np.append(present, OUTLIER).astype(np.int32), np.empty(n, np.int32)
    for start, stop in split_range(n, _ROWS_AT_ONCE):
        rows = np.arange(start, stop)
        part, own = of_rows(rows)
        terms = np.repeat(log_rest + draw.log_weights[np.newaxis, :-1], len(rows), axis=0)
        part.exact(own).add_densities_of_rows(draw.components, terms, workers)
        terms = np.hstack((terms, log_weight + _log_broad(model, rows)))
        drawn, scratch = np.empty(len(rows), np.int32), np.empty(2 * terms.size)
        draw_labels_of_terms(terms, subkey(key, Purpose.LABELS), start, scratch, drawn, np.empty(len(rows)))
        new[rows] = names[drawn]
    new = new if new.max() != OUTLIER else labels.copy()

    rows = np.flatnonzero(new != OUTLIER)
    part, _ = of_rows(rows)
    own, place_of = part.no_statistics(len(statistics.sizes)), np.zeros(len(statistics.sizes), np.int64)
    place_of[present] = np.arange(len(present))
    part.count(new[rows], own, workers)
    shared = own, draw.components, place_of, subkey(key, Purpose.MISSING_CELLS), workers
    part.redraw_missing(np.arange(len(rows)), new[rows], new[rows], *shared)
    return new, statistics, own
