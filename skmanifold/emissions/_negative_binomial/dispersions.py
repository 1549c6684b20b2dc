"""The distribution of the dispersions of features, given the sums of counts of each component.

The inverse dispersion r of a feature is one of finitely many values, so that its posterior distribution is a table. The
part of the likelihood that depends on single counts is the same for all partitions of the rows.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, xlogy

from ...random._keys import fold_in_each
from ...utils._conditions import Array
from ...utils._threads import split_range
from .._linear_rows import LinearRows

_INVERSES = 1.0 / np.geomspace(1e-4, 100.0, 121)  # adjacent values differ by a factor of 1.12
_CELLS_AT_ONCE = 1 << 18  # some megabytes
_TO_UNIT = 2.0**-64


class Dispersions(NamedTuple):
    """Possible inverse dispersions r of each feature, (n_features, n_values), equally probable a priori.

    `mean_log_rising` has the means over observed cells of log(Gamma(x + r) / Gamma(r)).
    """

    inverses: Annotated[np.ndarray, Array("float64", "n_dimensions _", above=0)]
    mean_log_rising: Annotated[np.ndarray, Array("float64", "n_dimensions _")]

    def log_rising(self, sizes: np.ndarray, n_observed: np.ndarray) -> float:
        """Sum of log(Gamma(x + r) / Gamma(r)) over all cells, for one value r of each feature, (n_features,)."""
        places = np.abs(self.inverses - sizes[:, np.newaxis]).argmin(axis=1)
        return float(n_observed @ self.mean_log_rising[np.arange(len(sizes)), places])

    def most_probable(self, shapes: np.ndarray, rates: np.ndarray, prior: tuple, n_observed: np.ndarray) -> np.ndarray:
        """The r, (n_features,), that maximise the joint density with the means, whose mode is ``shapes / rates``.

        Both are (n_features, K), prior plus sums of counts or numbers of observed cells; `prior` has them without rows.
        """

        def of_components(a, b, r):
            means = a / b
            return xlogy(a, means / (means + r)) - b * r * np.log1p(means / r)

        return self._best(self._scores(of_components, shapes, rates, prior, n_observed))

    def most_probable_marginal(
        self, shapes: np.ndarray, rates: np.ndarray, prior: tuple, n_observed: np.ndarray
    ) -> np.ndarray:
        """The most probable values given the partition, with the means integrated out; arguments as above."""
        return self._best(self._scores(_log_beta, shapes, rates, prior, n_observed))

    def drawn(
        self, shapes: np.ndarray, rates: np.ndarray, prior: tuple, n_observed: np.ndarray, key: np.uint64
    ) -> np.ndarray:
        """Values drawn from their distribution given the partition, with the means integrated out; arguments as above.

        The draw of a feature depends only on the key and its index.
        """
        scores = self._scores(_log_beta, shapes, rates, prior, n_observed)
        levels = np.cumsum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
        uniforms = fold_in_each(key, np.arange(len(scores))) * _TO_UNIT * levels[:, -1]
        places = (levels[:, :-1] <= uniforms[:, np.newaxis]).sum(axis=1)
        return self.inverses[np.arange(len(scores)), places]

    def _best(self, scores: np.ndarray) -> np.ndarray:
        return self.inverses[np.arange(len(scores)), scores.argmax(axis=1)]

    def _scores(self, of_components, shapes, rates, prior, n_observed) -> np.ndarray:
        """Log posterior probability of each value up to a constant, (n_features, n_values)."""
        out, (m, K) = n_observed[:, np.newaxis] * self.mean_log_rising, shapes.shape
        n_values = self.inverses.shape[1]
        for start, stop in split_range(m, max(1, _CELLS_AT_ONCE // (K * n_values))):
            some, r = slice(start, stop), self.inverses[start:stop, :, np.newaxis]
            a, b = shapes[some, np.newaxis], rates[some, np.newaxis]
            out[some] += of_components(a, b, r).sum(axis=2)
            a, b = prior[0][some, np.newaxis], prior[1][some, np.newaxis]
            out[some] -= K * _log_beta(a, b, self.inverses[some])
        return out


def dispersions_of(rows: LinearRows, given: np.ndarray | None, row_weights: np.ndarray | None = None) -> Dispersions:
    """Possible dispersions of the features of rows of counts; those `given`, or between 1e-4 and 100."""
    m = rows.n_features
    inverses = np.tile(_INVERSES, (m, 1)) if given is None else 1.0 / given[:, np.newaxis]
    weights = np.ones(len(rows.counts))
    if row_weights is not None:
        weights = np.repeat(row_weights, np.diff(rows.indptr))
    n_rows = rows.n_rows if row_weights is None else row_weights.sum()
    n_missing = np.bincount(rows.indices, weights=weights, minlength=2 * m)[m:]
    sums, order = np.zeros(inverses.shape), np.argsort(rows.indices, kind="stable")
    ends = np.searchsorted(rows.indices[order], np.arange(m + 1))
    for j in range(m):  # zeros add nothing
        entries = order[ends[j] : ends[j + 1]]
        values, which = np.unique(rows.counts[entries], return_inverse=True)
        of_values = np.bincount(which, weights=weights[entries], minlength=len(values))
        sums[j] = of_values @ (gammaln(values[:, np.newaxis] + inverses[j]) - gammaln(inverses[j]))
    return Dispersions(inverses, sums / np.maximum(n_rows - n_missing, 1e-300)[:, np.newaxis])


def _log_beta(shapes: np.ndarray, rates: np.ndarray, inverses: np.ndarray) -> np.ndarray:
    return betaln(shapes, 1.0 + rates * inverses)
