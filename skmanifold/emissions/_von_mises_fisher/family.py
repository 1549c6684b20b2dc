"""Family of directions: von Mises-Fisher components with a conjugate prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...distributions import bessel_ratio
from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...random._directions import fill_direction
from ...random._keys import fold_in_each, subkey
from ...utils._conditions import MOST_COUNTED, Array, Counted, Either, OneOf, Real
from ...utils._declared import Held, holds
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._base import Family, check_shapes
from .._protocols import Arrays
from .k_means import SphericalKMeans
from .prior import Concentration, ConcentrationPrior, log_peak
from .rows import DirectedRows

if TYPE_CHECKING:
    from .._clusters.directions.clusters import DirectionClusters

_OF_CONCENTRATIONS, _OF_DIRECTIONS = 0, 1  # uses of the key of a draw


@holds(
    directions=Array("float64", ("n_features", "n_components"), unit=0),
    concentrations=Array("float64", ("n_components",), low=0, high=MOST_COUNTED),
)
class VonMisesFisherParameters(NamedTuple):
    """Parameters of K components.

    Attributes
    ----------
    directions : ndarray of shape (n_features, K)
        Mean directions, as columns.
    concentrations : ndarray of shape (K,)
        Concentrations.
    """

    directions: np.ndarray
    concentrations: np.ndarray


_KIND = Either(
    lambda value: isinstance(value, str),
    OneOf(("shared", "per_component")),
    Real(above=0, high=MOST_COUNTED),
)


@holds(
    n_components=Counted("n_components"),
    n_features=Counted("n_features"),
    prior=Held(ConcentrationPrior),
    concentration=_KIND,
)
class VonMisesFisherFamily(Family):
    """Family of directions, whose statistics are sums of unit vectors.

    Parameters
    ----------
    prior : ConcentrationPrior
        Prior of the concentrations.
    concentration : {"shared", "per_component"} or float
        Which concentrations are learned.
    n_components : int
        Number of components K.
    n_features : int
        Number of columns d.
    """

    parameters_type = VonMisesFisherParameters

    def __init__(
        self, prior: ConcentrationPrior, concentration: Concentration, n_components: int, n_features: int
    ) -> None:
        self.prior = prior
        self.concentration = concentration
        self.n_components = n_components
        self.n_features = n_features

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics: sizes, and sums of unit vectors."""
        return (self.n_components,), (self.n_components, self.n_features)

    def add_log_densities(
        self, rows: DirectedRows, first: int, stop: int, parameters: VonMisesFisherParameters, out: np.ndarray
    ) -> None:
        """Add the log densities of the rows `first` to `stop`, relative to the uniform distribution."""
        directions, concentrations = parameters
        log_peaks = log_peak(self.n_features, concentrations)
        rows.add_log_densities(first, stop, directions, concentrations, log_peaks, out)

    def sum_labels(self, rows: DirectedRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their labels."""
        count = partial(np.bincount, minlength=self.n_components)
        return self._sum(first, stop, first_block, labels, count, rows.add_labelled)

    def sum_shares(self, rows: DirectedRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their membership probabilities."""
        return self._sum(first, stop, first_block, shares, partial(np.sum, axis=0), rows.add_shares)

    def mode(self, statistics: Arrays) -> VonMisesFisherParameters:
        r"""The posterior mode of directions and concentrations."""
        sizes, lengths, units = self._lengths(statistics)
        return VonMisesFisherParameters(units.T, self.prior.mode(self.n_features, self.concentration, sizes, lengths))

    def draw(self, statistics: Arrays, key: np.uint64) -> VonMisesFisherParameters:
        """Draw concentrations with the directions integrated out, and then directions."""
        sizes, lengths, _ = self._lengths(statistics)
        of_prior = self.n_features, self.concentration, sizes, lengths
        concentrations = self.prior.draw(*of_prior, subkey(key, _OF_CONCENTRATIONS))
        directions = draw_directions(subkey(key, _OF_DIRECTIONS), statistics[1], concentrations * lengths)
        return VonMisesFisherParameters(np.ascontiguousarray(directions.T), concentrations)

    def log_prior(self, parameters: VonMisesFisherParameters) -> float:
        """Log prior density of the parameters, up to a constant."""
        if not isinstance(self.concentration, str):
            return 0.0
        n_learned = 1 if self.concentration == "shared" else self.n_components
        return float(self.prior.log_density(self.n_features, parameters.concentrations[:n_learned]).sum())

    def log_likelihood(self, statistics: Arrays, parameters: VonMisesFisherParameters) -> float:
        """Log density of rows with these statistics given their components."""
        sizes, sums = statistics
        directions, concentrations = parameters
        cosines = np.einsum("kj,jk->k", sums, directions)
        return float(sizes @ log_peak(self.n_features, concentrations) + concentrations @ (cosines - sizes))

    def attributes(self, parameters: VonMisesFisherParameters) -> dict[str, np.ndarray]:
        """Expected rows, which are mean directions times mean cosines, mean directions and concentrations."""
        return attributes_of(np.ascontiguousarray(parameters.directions.T), parameters.concentrations)

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        check_shapes(parameters, ((self.n_features, self.n_components), (self.n_components,)))

    def n_parameters(self) -> int:
        """Number of free parameters: directions, and the concentrations that are learned."""
        n_concentrations = {"shared": 1, "per_component": self.n_components}.get(str(self.concentration), 0)
        return self.n_components * (self.n_features - 1) + n_concentrations

    def seed_labels(self, rows: DirectedRows, key: np.uint64) -> np.ndarray:
        """Initial labels by spherical k-means from seeds."""
        return self.seed_weighted_labels(rows, key, np.ones(rows.n_rows))

    def seed_weighted_labels(self, rows: DirectedRows, key: np.uint64, row_weights: np.ndarray) -> np.ndarray:
        """Initial labels of weighted rows."""
        with Workers(1) as workers:  # chains may run in parallel
            found = SphericalKMeans(rows, row_weights, self.n_components, workers)
            directions, alike = found.begin_at_rows(key, "k-means++").directions, np.ones(self.n_components)
            found.assign_rows(directions, alike, alike, hard=True)
        return found.labels.astype(np.int32)

    def sample(self, parameters: VonMisesFisherParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components."""
        directions = np.ascontiguousarray(parameters.directions.T)
        return draw_directions(key, directions[labels], parameters.concentrations[labels])

    def clusters(self, rows: DirectedRows | None = None) -> DirectionClusters:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        from .._clusters.directions.clusters import DirectionClusters
        from .rows import DenseRows

        return DirectionClusters(self, DenseRows(np.empty((0, self.n_features))) if rows is None else rows)

    def _sum(
        self,
        first: int,
        stop: int,
        first_block: int,
        memberships: np.ndarray,
        count: Callable[[np.ndarray], np.ndarray],
        add_rows: Callable[[int, int, np.ndarray, np.ndarray], None],
    ) -> BlockSums:
        """Sums over blocks of rows, whose memberships `count` counts and `add_rows` uses."""

        def add(start: int, end: int, sizes: np.ndarray, sums: np.ndarray) -> None:
            for block, (a, b) in enumerate(split_range(end - start, BLOCK_ROWS)):
                of_block = memberships[start + a : start + b]
                sizes[block] += count(of_block)
                add_rows(first + start + a, first + start + b, of_block, sums[block])

        return self.sum_blocks(stop - first, first_block, add)

    def _lengths(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sizes, lengths of the sums, at most the sizes, and unit vectors, (K, n_features)."""
        sizes, sums = statistics
        units, lengths = unit_vectors(sums)
        return sizes, np.minimum(lengths, sizes), units


def lengths_of(sums: np.ndarray) -> np.ndarray:
    """Lengths of sums of unit vectors.

    Parameters
    ----------
    sums : ndarray of shape (K, d)
        Sums.

    Returns
    -------
    lengths : ndarray of shape (K,)
        Euclidean lengths.
    """
    return np.sqrt(np.square(sums).sum(axis=1))


def unit_vectors(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions of sums, (K, d), and their lengths, (K,); zeros have the direction of the first axis.

    Parameters
    ----------
    sums : ndarray of shape (K, d)
        Sums of unit vectors.

    Returns
    -------
    units : ndarray of shape (K, d)
        Unit vectors.
    lengths : ndarray of shape (K,)
        Lengths of the sums.
    """
    lengths = lengths_of(sums)
    known = lengths > 0.0
    units = np.where(known[:, np.newaxis], sums / np.where(known, lengths, 1.0)[:, np.newaxis], 0.0)
    units[~known, 0] = 1.0
    return units, lengths


def attributes_of(directions: np.ndarray, concentrations: np.ndarray) -> dict[str, np.ndarray]:
    """Fitted attributes of components.

    Parameters
    ----------
    directions : ndarray of shape (K, d)
        Mean directions.
    concentrations : ndarray of shape (K,)
        Concentrations.

    Returns
    -------
    attributes : dict of str to ndarray
        Fitted attributes by their names.
    """
    cosines = bessel_ratio(directions.shape[1], concentrations)
    return {
        "components_": cosines[:, np.newaxis] * directions,
        "mean_directions_": directions,
        "concentrations_": concentrations,
    }


def draw_directions(key: np.uint64, means: np.ndarray, concentrations: np.ndarray) -> np.ndarray:
    """Draw unit vectors, of which number i depends only on the key, i and its distribution.

    Parameters
    ----------
    key : uint64
        Key of the random numbers.
    means : ndarray of shape (n, d)
        Mean directions, of any length; zeros mean the uniform distribution.
    concentrations : ndarray of shape (n,)
        Concentrations.

    Returns
    -------
    directions : ndarray of shape (n, d)
        Unit vectors.
    """
    out = np.empty(means.shape)
    _fill_directions(fold_in_each(key, np.arange(len(out))), np.ascontiguousarray(means), concentrations, out)
    return out


@njit(cache=True, nogil=True)
def _fill_directions(keys, means, concentrations, out):
    for i in range(len(out)):
        fill_direction(keys[i], means[i], concentrations[i], out[i])
