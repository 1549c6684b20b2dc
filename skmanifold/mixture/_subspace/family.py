"""The family of affine subspaces: parameters of components, and their priors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...emissions._dense_rows import DenseRows
from ...manifolds import Stiefel
from ...utils._conditions import FLAG, Array, Real, Sizes
from ...utils._declared import holds
from .label_kernels import add_log_terms

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

    @classmethod
    def of(cls, bases: Any, ratios: Any, centres: np.ndarray, noise: np.ndarray) -> Subspaces:
        """Components of different dimensions in padded arrays."""
        dims = np.array([len(basis) for basis in bases])
        K, m = centres.shape
        padded, filled = np.zeros((K, max(1, dims.max()), m)), np.ones((K, max(1, dims.max())))
        for k, d in enumerate(dims):
            padded[k, :d], filled[k, :d] = bases[k], ratios[k]
        return cls(padded, dims, filled, centres, noise)

    def basis(self, k: int) -> np.ndarray:
        """Orthonormal rows of component k, (d, m)."""
        return self.bases[k, : self.dims[k]]

    def is_direction(self) -> np.ndarray:
        """Whether a direction is within the subspace of its component, (K, capacity)."""
        return np.arange(self.ratios.shape[1]) < self.dims[:, None]

    def log_offsets(self) -> np.ndarray:
        """Log density of each component at its centre, (K,)."""
        squeeze = 0.5 * np.log(np.where(self.is_direction(), self.ratios, 1.0)).sum(axis=1)
        return squeeze + 0.5 * self.centres.shape[1] * np.log(self.noise / (2.0 * np.pi))

    def in_order(self, order: np.ndarray) -> Subspaces:
        """The same components in another order."""
        return Subspaces(*(values[order] for values in self))

    def moved(self, shift: np.ndarray) -> Subspaces:
        """The same components with shifted centres, in arrays of the smallest possible capacity."""
        largest = int(self.dims.max(initial=0))
        bases, ratios = self.bases[:, :largest].copy(), self.ratios[:, :largest].copy()
        return self._replace(bases=bases, ratios=ratios, centres=self.centres + shift)


@holds(
    log_dimension=Array("float64", ("n_components", None), high=_TOLERANCE, infinite=True),
    location=Array("float64", ("n_features",), low=-MOST, high=MOST),
    centre_variance=Real(above=0),
    noise_shape=Real(above=0),
    noise_rate=Real(above=0),
    ratio_shape=Real(above=0),
    shared_noise=FLAG,
)
class SubspaceFamily(NamedTuple):
    r"""The family of normal distributions near affine subspaces of unknown dimensions.

    :math:`p(d_k)` with a uniform subspace given :math:`d_k`; centres :math:`N(\text{location}, \lambda I)`; noise
    precisions Ga(shape, rate); ratios of precisions Beta(a, 1).

    The posterior of a component given its rows has no closed form, because bases are not integrated out: a sampler
    updates the parameters by transitions. Therefore the family has no marginal or predictive densities, no mode, no
    statistics and no independent draws from the posterior, and serves in finite mixtures only. `draw` draws from the
    prior.
    """

    log_dimension: np.ndarray  # (K, max_dimension + 1), each row normalised; -inf where a dimension is impossible
    location: np.ndarray  # (m,)
    centre_variance: float
    noise_shape: float
    noise_rate: float
    ratio_shape: float
    shared_noise: bool

    @property
    def n_components(self) -> int:
        """Number of components K."""
        return len(self.log_dimension)

    @property
    def n_features(self) -> int:
        """Number of features m."""
        return len(self.location)

    @property
    def max_dimension(self) -> int:
        """The largest dimension that is possible."""
        return self.log_dimension.shape[1] - 1

    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the statistics: there are none."""
        return []

    def draw(self, statistics: tuple[np.ndarray, ...], key: np.uint64) -> Subspaces:
        """Draw the components from their priors, without statistics of rows."""
        rng, (K, m) = np.random.default_rng(int(key)), (self.n_components, self.n_features)
        dims = [int(rng.choice(len(logs), p=np.exp(logs))) for logs in self.log_dimension]
        bases = [Stiefel(m, d).random_point(rng).T if d else np.zeros((0, m)) for d in dims]
        ratios = [rng.beta(self.ratio_shape, 1.0, d) for d in dims]
        noise = rng.gamma(self.noise_shape, 1.0 / self.noise_rate, 1 if self.shared_noise else K)
        centres = self.location + np.sqrt(self.centre_variance) * rng.standard_normal((K, m))
        return Subspaces.of(bases, ratios, centres, np.resize(noise, K))

    def sample(self, parameters: Subspaces, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of the components with these labels, (n, m)."""
        X = np.random.default_rng(int(key)).standard_normal((len(labels), self.n_features))
        for k in range(self.n_components):
            rows, basis, ratios = labels == k, parameters.basis(k), parameters.ratios[k, : parameters.dims[k]]
            along = (X[rows] @ basis.T) * (1.0 / np.sqrt(ratios) - 1.0)
            X[rows] = parameters.centres[k] + (X[rows] + along @ basis) / np.sqrt(parameters.noise[k])
        return X

    def add_log_densities(self, rows: DenseRows, first: int, stop: int, parameters: Subspaces, out: np.ndarray) -> None:
        """Add the log densities of the rows `first` to `stop` given each component to `out`, (stop - first, K)."""
        add_terms(rows.values, first, stop, parameters, parameters.log_offsets(), out)

    def attributes(self, parameters: Subspaces) -> dict[str, Any]:
        """The parameters as arrays, with NaN for directions beyond the dimensions."""
        is_direction = parameters.is_direction()
        variances = 1.0 / (parameters.ratios * parameters.noise[:, None])
        return {
            "dimensions_": parameters.dims,
            "means_": parameters.centres,
            "noise_variance_": 1.0 / parameters.noise,
            "bases_": np.where(is_direction[..., None], parameters.bases, np.nan),
            "variances_": np.where(is_direction, variances, np.nan),
        }


def add_terms(X: np.ndarray, first: int, stop: int, subspaces: Subspaces, offsets: np.ndarray, out: np.ndarray) -> None:
    """Add to `out`, (stop - first, K), the log densities of rows, with `offsets`, (K,), as those at the centres."""
    add_log_terms(X, first, stop, *map(for_kernels, subspaces), offsets, out)


def for_kernels(array: np.ndarray) -> np.ndarray:
    """A contiguous, writable array: numba would compile the kernels again for a read-only one, such as a memory map."""
    return np.require(array, requirements=["C", "W"])
