"""Weights of the rows of a mixture: `sample_weight` without the rows of weight zero."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...numerics.reductions import SUM_UNIT
from ...utils._sklearn import take_rows
from ...utils._validation import validate_sample_weight


class RowWeights(NamedTuple):
    """Positive weights of rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        Weights.
    unit : float
        Log likelihoods are sums of multiples of it. Ranges of the same rows have the same unit.
    """

    values: np.ndarray
    unit: float

    @classmethod
    def of_values(cls, values: np.ndarray) -> RowWeights:
        """Weights of all rows, with a unit in proportion to their mean, a power of two."""
        return cls(values, SUM_UNIT * 2.0 ** math.floor(math.log2(values.mean())))


class WeightedRows(NamedTuple):
    """What a fit reads.

    Attributes
    ----------
    rows : object
        Rows of positive weight, as the emission reads them.
    weights : RowWeights or None
        Their weights; None if `fit` was called without `sample_weight`.
    used : ndarray of shape (n_used,) or slice
        Which of all rows they are.
    every : object
        All rows, for labels.
    """

    rows: Any
    weights: RowWeights | None
    used: np.ndarray | slice
    every: Any


def read_weighted(mixture: Any, emission: Any, X: Any, sample_weight: Any) -> WeightedRows:
    """Validate X and the weights, which may be None; a ValueError if fewer rows have a weight than components."""
    if sample_weight is None:
        rows = emission.read(mixture, X, reset=True)
        return WeightedRows(rows, None, slice(None), rows)
    values = validate_sample_weight(sample_weight, X)
    used = np.flatnonzero(values)
    if len(used) < min(mixture.n_components, len(values)):
        raise ValueError(
            f"n_components={mixture.n_components} components need as many rows, but only {len(used)} rows of X have a "
            "positive sample_weight."
        )
    if len(used) == len(values):
        rows = every = emission.read(mixture, X, reset=True)
    else:
        rows = emission.read(mixture, take_rows(X, used), reset=True)
        every = emission.read(mixture, X, reset=False)
    return WeightedRows(rows, RowWeights.of_values(values[used]), used, every)
