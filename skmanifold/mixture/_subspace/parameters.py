"""Parameters of a mixture of affine subspaces, moments of its rows, and its priors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...utils._conditions import FLAG, Array, Real, Sizes
from ...utils._declared import holds

_TOLERANCE = 1e-6
MOST = 1e100  # of cells and precisions; the square of a cell times a precision is finite


def are_orthonormal(basis: np.ndarray) -> bool:
    """Whether the rows of an array are orthonormal, up to rounding."""
    return bool(np.allclose(basis @ basis.T, np.eye(len(basis)), rtol=0.0, atol=_TOLERANCE))


def _agree(subspaces: Subspaces, sizes: Sizes) -> str | None:
    for k, d in enumerate(subspaces.dims):
        ratios = subspaces.ratios[k, :d]
        if not ((ratios > 0.0) & (ratios <= 1.0)).all():
            return "has ratios of precisions that are not between 0 and 1"
        if not are_orthonormal(subspaces.basis(k)):
            return "has a basis that is not orthonormal"
    return None


@holds(
    _agree,
    bases=Array("float64", ("n_components", "capacity", "n_features"), nan=True, infinite=True),
    dims=Array("int64", ("n_components",), low=0, below="capacity+1"),
    ratios=Array("float64", ("n_components", "capacity"), nan=True, infinite=True),
    centres=Array("float64", ("n_components", "n_features"), low=-MOST, high=MOST),
    noise=Array("float64", ("n_components",), above=0, high=MOST),
    weights=Array("float64", ("n_components",), low=0, sums_to_one=0),
)
class Subspaces(NamedTuple):
    r"""Components :math:`N(c_k, \Sigma_k)`, whose precision is lower along a subspace than orthogonal to it.

    Along direction j of component k the precision is ``ratios[k, j] * noise[k]``. Orthogonal to the subspace it is
    ``noise[k]``. Entries of directions from ``dims[k]`` on are undefined.
    """

    bases: np.ndarray  # (K, capacity, m), orthonormal rows
    dims: np.ndarray  # (K,) int64
    ratios: np.ndarray  # (K, capacity), in (0, 1]
    centres: np.ndarray  # (K, m)
    noise: np.ndarray  # (K,): precisions
    weights: np.ndarray  # (K,)

    @property
    def n_components(self) -> int:
        """Number of components K."""
        return len(self.dims)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(values.nbytes for values in self)

    def basis(self, k: int) -> np.ndarray:
        """Orthonormal rows of component k, (d, m)."""
        return self.bases[k, : self.dims[k]]

    def log_offsets(self) -> np.ndarray:
        """Log of each component's weight times its density at its centre, (K,)."""
        m = self.centres.shape[1]
        is_direction = np.arange(self.ratios.shape[1]) < self.dims[:, None]
        squeeze = 0.5 * np.log(np.where(is_direction, self.ratios, 1.0)).sum(axis=1)
        return np.log(self.weights) + squeeze + 0.5 * m * np.log(self.noise / (2.0 * np.pi))

    def in_order(self, order: np.ndarray) -> Subspaces:
        """The same components in another order."""
        return Subspaces(*(values[order] for values in self))

    def moved(self, shift: np.ndarray) -> Subspaces:
        """The same components with shifted centres."""
        return self._replace(centres=self.centres + shift)

    def compact(self) -> Subspaces:
        """The same components in arrays of the smallest possible capacity."""
        largest = int(self.dims.max(initial=0))
        return self._replace(bases=self.bases[:, :largest].copy(), ratios=self.ratios[:, :largest].copy())


class Moments(NamedTuple):
    """Sums over the rows of each component."""

    counts: np.ndarray  # (K,) int64
    means: np.ndarray  # (K, m); zeros for components without rows
    scatters: np.ndarray  # (K, m, m), about the means


@holds(
    log_dimension=Array("float64", ("n_components", None), high=_TOLERANCE, infinite=True),
    location=Array("float64", ("n_features",), low=-MOST, high=MOST),
    centre_variance=Real(above=0),
    noise_shape=Real(above=0),
    noise_rate=Real(above=0),
    ratio_shape=Real(above=0),
    weight=Real(above=0),
    shared_noise=FLAG,
)
class Priors(NamedTuple):
    r"""Priors of the components.

    :math:`p(d_k)` with a uniform subspace given :math:`d_k`; centres :math:`N(\text{location}, \lambda I)`; noise
    precisions Ga(shape, rate); ratios of precisions Beta(a, 1); weights Dir(b, ..., b).
    """

    log_dimension: np.ndarray  # (K, max_dimension + 1), each row normalised; -inf where a dimension is impossible
    location: np.ndarray  # (m,)
    centre_variance: float
    noise_shape: float
    noise_rate: float
    ratio_shape: float
    weight: float
    shared_noise: bool

    @property
    def max_dimension(self) -> int:
        """The largest dimension that is possible."""
        return self.log_dimension.shape[1] - 1
