"""Counts as a table of categories with one column."""

from __future__ import annotations

import math
import warnings

import numpy as np
import scipy.sparse as sp

from ...emissions._base import BaseEmission
from ...emissions._codes import Table
from ...sparse.counts import as_counts, counts_to_fit, validate_counts
from ...utils._inputs.tables import is_sparse

_HIGHEST_CODE = 30  # dense counts with a larger value do not look like codes
_MAX_DISPERSION = 0.95  # median variance-to-mean ratio of codes; that of counts is at least about 1
_MIN_SHARE, _MIN_ROWS = 0.05, 3  # of the rows with the highest code, in at least half of the columns
_HIGHEST_FREQUENT = 12  # a larger maximum that is frequent is probably a saturated value, as of pixels
_FRACTION_ADVICE = "pass whole counts, or use ExponentialFamilyMixture, which takes fractions as weights"
_CODES_WARNING = (
    "Each column of X holds a few small whole numbers, as codes of categories do, but emission='multinomial' takes "
    "counts: use emission='categorical' for codes, or pass counts as a sparse matrix to silence this."
)


def count_table(estimator, emission, X, rounding_key: np.uint64 | None, *, reset: bool) -> Table:
    """Validate counts and return them as a table of one column. Rows may have no tokens.

    With a `rounding_key`, as in `fit`, fractional counts are randomly rounded to whole numbers. Without one they are
    kept. A custom emission with a method `read_tokens` reads X itself.
    """
    if type(emission).read_tokens is not BaseEmission.read_tokens:
        counts = emission.read_tokens(estimator, X, rounding_key, reset=reset)
        return Table(counts.indptr, counts.indices, counts.counts, np.array([0, counts.n_features], np.int64))
    csr = validate_counts(estimator, X, reset=reset)
    if rounding_key is None:
        counts = as_counts(csr)
    else:
        counts = counts_to_fit(csr, rounding_key, _FRACTION_ADVICE, stacklevel=8)
        if reset and not is_sparse(X) and _look_like_codes(csr):
            warnings.warn(_CODES_WARNING, stacklevel=8)
    return Table(counts.indptr, counts.indices, counts.counts, np.array([0, counts.n_features], np.int64))


def _look_like_codes(csr: sp.csr_array) -> bool:
    """Whether dense counts are probably category codes, judged by the columns with values above 1.

    Counts of events have a variance of at least about their mean, unless the row sums are fixed, and their highest
    values are rare. Codes of few categories have a variance smaller than their mean, and their highest value is
    frequent.
    """
    n_rows, n_columns = csr.shape
    highest = csr.max(axis=0).toarray().ravel()  # with two axes before SciPy 1.15
    several = highest >= 2
    if not several.any() or highest.max() > _HIGHEST_CODE or (csr.data % 1).any():
        return False
    means = np.asarray(csr.mean(axis=0))
    variances = np.asarray(csr.multiply(csr).mean(axis=0)) - means**2
    if csr.sum(axis=1).var() < 0.5 * variances.sum():
        return False
    dispersion = np.median(variances[several] / means[several])
    if dispersion < min(_MAX_DISPERSION, 1.0 - 4.0 * math.sqrt(2.0 / (n_rows * several.sum()))):
        return True
    at_highest = np.bincount(csr.indices, weights=csr.data == highest[csr.indices], minlength=n_columns)
    is_frequent = at_highest[several] >= max(_MIN_ROWS, _MIN_SHARE * n_rows)
    return bool(is_frequent.mean() >= 0.5 and highest.max() <= _HIGHEST_FREQUENT)
