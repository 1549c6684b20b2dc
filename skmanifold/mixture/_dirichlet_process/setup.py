"""What a Dirichlet-process mixture begins with: its model, its first labels, and room for its draws."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from ...inference._draw_store import DrawStore
from ...metrics._partitions import compact_labels
from ...utils._threads import Workers
from .category_table import Table
from .model import DPModel

_AUTO_CLUSTERS = 100
_MAX_TABLE_BYTES = 4 << 30  # of category probabilities
_EXPECTED_COMPONENTS = 50  # for how much memory a draw may take


def initial_labels(init: Any, n_rows: int) -> int | np.ndarray:
    """Number of labels to deal out at random, or the user's own labels, compact."""
    if isinstance(init, str):
        return min(_AUTO_CLUSTERS, n_rows)
    if isinstance(init, Integral):
        return min(int(init), n_rows)
    labels = np.asarray(init)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(
            f"init must be 'auto', a number of clusters or {n_rows} labels that are whole numbers from 0, one for "
            f"each row; got an array of shape {labels.shape} and type {labels.dtype}."
        )
    return compact_labels(labels)


def draw_store(mixture: Any, table: Table) -> DrawStore:
    """A store for as many whole draws of a chain as fit into `max_draws_bytes`, about."""
    draw_bytes = 4 * table.n_rows + 24 * table.n_categories * _EXPECTED_COMPONENTS
    return DrawStore.within(mixture.max_draws_bytes, draw_bytes * mixture.n_chains, mixture.thin)


def build_model(mixture: Any, table: Table, init: int | np.ndarray, workers: Workers) -> DPModel:
    """The model of a table with the estimator's settings, checked."""
    prior = np.asarray(mixture.concentration_prior)
    if prior.shape != (2,) or prior.dtype.kind not in "fiu" or not (np.isfinite(prior).all() and prior.min() > 0):
        raise ValueError(
            "concentration_prior must be two positive numbers, shape and rate of a gamma distribution; got "
            f"{mixture.concentration_prior!r}."
        )
    n_components = (mixture.concentration or 0.0) * math.log(1e3 * table.n_rows)  # above the least slice, about
    if 8 * n_components * table.n_categories > _MAX_TABLE_BYTES:
        raise ValueError(
            f"concentration={mixture.concentration:g} would need tables of {n_components:.1g} components, more than "
            f"{_MAX_TABLE_BYTES / 2**30:.0f} GiB: lower it."
        )
    return DPModel(
        table,
        mixture._prior_of_categories(table),
        mixture.concentration,
        (float(prior[0]), float(prior[1])),
        init=init,
        batch_size=_batch_size(table) if mixture.batch_size == "auto" else mixture.batch_size,
        workers=workers,
    )


def _batch_size(table: Table) -> int:
    """Rows that take four times as long as drawing the components, or a hundredth of all if these are more."""
    tokens_of_row = len(table.indices) / table.n_rows
    return max(int(240 * table.n_categories / (tokens_of_row + 12)), table.n_rows // 100, 1)
