"""Family of rows of negative binomial counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from ...random._keys import subkey
from ...random._variates import fill_log_gamma_variates
from ...utils._conditions import Array
from ...utils._declared import Held, holds
from .._linear import MOST_NATURAL, PRIOR, LinearFamily, linear_family, statistics_agree
from .._linear_rows import LinearRows
from .._protocols import Arrays
from .._seeds import cluster_rows
from .dispersions import Dispersions
from .kernels import add_log_rising, fill_negative_binomial

_OF_DISPERSIONS, _OF_COUNTS, _OF_ROWS = 0, 1, 2  # uses of the key of a draw


@holds(
    offsets=Array("float64", ("n_components",)),
    naturals=Array("float64", (None, "n_components"), low=-MOST_NATURAL, high=MOST_NATURAL),
    means=Array("float64", ("n_dimensions", "n_components"), low=0, high=MOST_NATURAL),
    sizes=Array("float64", ("n_dimensions",), above=0),
)
class NegativeBinomialParameters(NamedTuple):
    """Parameters of K components, as those of `LinearParameters`, and the dispersions, which all components share.

    Attributes
    ----------
    offsets : ndarray of shape (K,)
        Log densities of a row of zeros.
    naturals : ndarray of shape (2 * n_features, K)
        Logs of the probabilities p, and what a missing cell adds: -r log(1 - p).
    means : ndarray of shape (n_features, K)
        Expected counts.
    sizes : ndarray of shape (n_features,)
        Inverse dispersions r.
    """

    offsets: np.ndarray
    naturals: np.ndarray
    means: np.ndarray
    sizes: np.ndarray


@holds(
    statistics_agree(2),
    **linear_family(shape=PRIOR, rate=PRIOR),
    dispersions=Held(Dispersions),
)
class NegativeBinomialFamily(LinearFamily):
    """Family of negative binomial rows, whose statistics are the counts of a row, followed by its missing cells.

    Parameters
    ----------
    shape, rate : ndarray of shape (n_features,)
        The prior of p is Beta(shape, 1 + rate * r).
    dispersions : Dispersions
        Possible values of r.
    n_components : int
        Number of components K.
    """

    parameters_type = NegativeBinomialParameters

    def __init__(self, shape: np.ndarray, rate: np.ndarray, dispersions: Dispersions, n_components: int) -> None:
        self.shape = shape
        self.rate = rate
        self.dispersions = dispersions
        self.n_components = n_components
        self.n_features = len(shape)
        self.n_statistics = 2 * self.n_features

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of offsets, natural parameters, means and inverse dispersions."""
        return *super().parameter_shapes(), (self.n_features,)

    def add_log_densities(self, rows: LinearRows, first: int, stop: int, parameters: Any, out: np.ndarray) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``."""
        super().add_log_densities(rows, first, stop, parameters, out)
        add_log_rising(first, stop, *rows[:3], parameters.sizes, out)

    def mode(self, statistics: Arrays) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p and of the dispersions."""
        shapes, rates = self._posterior(statistics)
        sizes = self.dispersions.most_probable(shapes, rates, *self._given(statistics))
        return self._parameters(np.log(shapes) - np.log(rates) - np.log(sizes)[:, None], sizes)

    def draw(self, statistics: Arrays, key: np.uint64) -> NegativeBinomialParameters:
        """Draw dispersions given the partition, and then p from the beta posteriors."""
        shapes, rates = self._posterior(statistics)
        of_dispersions = subkey(key, _OF_DISPERSIONS)
        sizes = self.dispersions.drawn(shapes, rates, *self._given(statistics), of_dispersions)
        of_counts, of_rows = np.empty(shapes.shape), np.empty(shapes.shape)
        fill_log_gamma_variates(subkey(key, _OF_COUNTS), shapes, of_counts)
        fill_log_gamma_variates(subkey(key, _OF_ROWS), 1.0 + rates * sizes[:, None], of_rows)
        return self._parameters(of_counts - of_rows, sizes)

    def log_prior(self, parameters: NegativeBinomialParameters) -> float:
        """Log prior density of the logs of p, up to a constant."""
        log_p, of_missing = np.split(parameters.naturals, 2)
        of_each = self.shape[:, None] * log_p - self.rate[:, None] * of_missing
        return float(of_each.sum() - self.n_components * betaln(self.shape, 1.0 + self.rate * parameters.sizes).sum())

    def log_likelihood(self, statistics: Arrays, parameters: Any) -> float:
        """Log density of rows with these statistics given their components, without their ``log_base``."""
        of_cells = self.dispersions.log_rising(parameters.sizes, self.observed(statistics).sum(axis=1))
        return super().log_likelihood(statistics, parameters) + of_cells

    def seed_labels(self, rows: LinearRows, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means of the logs of counts plus one."""
        return cluster_rows(_log_counts(rows), self.n_components, key)

    def seed_weighted_labels(self, rows: LinearRows, key: np.uint64, row_weights: np.ndarray) -> np.ndarray:
        """Initial labels of weighted rows by k-means of the logs of counts plus one."""
        return cluster_rows(_log_counts(rows), self.n_components, key, row_weights)

    def clusters(self, rows: LinearRows | None = None) -> Any:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        from .._clusters.linear.negative_binomial import NegativeBinomialClusters

        sizes = self.dispersions.inverses[:, 0]
        if self.dispersions.inverses.shape[1] > 1 and rows is not None:
            sums = rows.overall(self.n_statistics)
            n_observed = rows.n_rows - sums[self.n_features :]
            posterior = self.shape + sums[: self.n_features], self.rate + n_observed
            shapes, rates = (array[:, None] for array in posterior)
            sizes = self.dispersions.most_probable_marginal(shapes, rates, (self.shape, self.rate), n_observed)
        return NegativeBinomialClusters(self, LinearRows.none(self.n_features) if rows is None else rows, sizes)

    def n_parameters(self) -> int:
        """Number of free parameters: a mean for each feature of each component, and a dispersion for each feature."""
        n_free = self.n_features if self.dispersions.inverses.shape[1] > 1 else 0
        return self.n_components * self.n_features + n_free

    def sample(self, parameters: NegativeBinomialParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components, without missing cells."""
        out = np.empty((len(labels), self.n_features), np.int64)
        means = np.ascontiguousarray(parameters.means.T)
        fill_negative_binomial(key, labels, means, parameters.sizes, out)
        return out

    def attributes(self, parameters: Any) -> dict[str, Any]:
        """The fitted attributes ``components_``, the expected rows, and ``dispersions_``."""
        return {**super().attributes(parameters), "dispersions_": 1.0 / parameters.sizes}

    def parameters_again(self, naturals: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """The parameters with these natural parameters and inverse dispersions.

        Parameters
        ----------
        naturals : ndarray of shape (2 * n_features, K)
            Natural parameters.
        sizes : ndarray of shape (n_features,)
            Inverse dispersions.

        Returns
        -------
        parameters : NegativeBinomialParameters
            Parameters of all components.
        """
        log_p, of_missing = np.split(naturals, 2)
        return self._parameters(log_p + of_missing / sizes[:, None], sizes)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Prior shapes plus sums of counts, and prior rates plus numbers of observed cells, (n_features, K) each."""
        shapes = statistics[1][: self.n_features] + self.shape[:, None]
        return shapes, self.observed(statistics) + self.rate[:, None]

    def _given(self, statistics: Arrays) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """The prior, and the numbers of observed cells of each feature."""
        return (self.shape, self.rate), self.observed(statistics).sum(axis=1)

    def _parameters(self, logits: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """Parameters with these logits of p."""
        of_missing = sizes[:, None] * np.logaddexp(0.0, logits)
        naturals = np.concatenate([-np.logaddexp(0.0, -logits), of_missing])
        means = np.minimum(sizes[:, None] * np.exp(np.minimum(logits, 100.0)), MOST_NATURAL)
        return NegativeBinomialParameters(-of_missing.sum(axis=0), naturals, means, sizes)


def _log_counts(rows: LinearRows) -> np.ndarray:
    """Logs of counts plus one as a dense array, NaN where a cell is missing."""
    row_of = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
    out = np.zeros((rows.n_rows, rows.n_features))
    is_missing = rows.indices >= rows.n_features
    out[row_of, rows.indices % rows.n_features] = np.where(is_missing, np.nan, np.log1p(rows.counts))
    return out
