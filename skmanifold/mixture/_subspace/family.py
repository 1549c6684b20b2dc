"""The family of affine subspaces: parameters, log densities and moments of rows, and priors with their defaults."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...emissions._dense_rows import DenseRows
from ...manifolds import Stiefel
from ...numerics.simd import ENTRIES, LANES, ROW_LANES, add_squares, load_rows
from ...utils._conditions import Array, Real, Sizes
from ...utils._njit import njit
from ...utils._validation import of_columns
from .missing_kernels import Loadings, SubspaceCells, add_terms_of_incomplete
from .sparse_rows import SparseRows, blocks, sum_of_blocks

_TOLERANCE = 1e-6
_NOISE_FRACTION = 1e-3  # rate of the noise precision for few cells, relative to the mean variance
# The default noise prior is equivalent to observing this share of the cells of X with this relative variance. It bounds
# the noise variance from below if clusters lie in fewer dimensions than X.
_PRIOR_SHARE = 1e-3
_PRIOR_NOISE = 1e-2
_LEAST_VARIANCE = 1e-80  # of rows that are not constant: precisions must not exceed `MOST`
_LEAST_LEFT = 1e-5  # share of a squared length that a difference may leave: below this it would lose too many digits
_ROWS_AT_ONCE = 4  # that `_add_products` reads
MOST = 1e100  # of cells and precisions; the square of a cell times a precision is finite


def are_orthonormal(basis: np.ndarray) -> bool:
    """Whether the rows of an array are orthonormal, up to rounding."""
    return bool(np.allclose(basis @ basis.T, np.eye(len(basis)), rtol=0.0, atol=_TOLERANCE))


class Subspaces(NamedTuple):
    r"""Components :math:`N(c_k, \Sigma_k)`, whose precision is lower along a subspace than orthogonal to it.

    It is ``ratios[k, j] * noise[k]`` along direction j, ``noise[k]`` across. Directions from ``dims[k]`` on are
    undefined.
    """

    # Orthonormal rows
    bases: Annotated[np.ndarray, Array("float64", "n_components capacity n_features", nan=True, infinite=True)]
    dims: Annotated[np.ndarray, Array("int64", "n_components", low=0, below="capacity+1")]
    ratios: Annotated[np.ndarray, Array("float64", "n_components capacity", nan=True, infinite=True)]  # in (0, 1]
    centres: Annotated[np.ndarray, Array("float64", "n_components n_features", low=-MOST, high=MOST)]
    noise: Annotated[np.ndarray, Array("float64", "n_components", above=0, high=MOST)]  # precisions

    def _disagreement(self, sizes: Sizes) -> str | None:
        for k, d in enumerate(self.dims):
            ratios = self.ratios[k, :d]
            if not ((ratios > 0.0) & (ratios <= 1.0)).all():
                return "has ratios of precisions that are not between 0 and 1"
            if not are_orthonormal(self.basis(k)):
                return "has a basis that is not orthonormal"
        return None

    @classmethod
    def of(cls, bases: Any, ratios: Any, centres: np.ndarray, noise: np.ndarray) -> Subspaces:
        """Components of different dimensions in padded arrays."""
        dims = np.array([len(basis) for basis in bases])
        K, m = centres.shape
        padded, filled = np.zeros((K, max(1, dims.max(initial=0)), m)), np.ones((K, max(1, dims.max(initial=0))))
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


class SubspaceFamily(NamedTuple):
    r"""The family of normal distributions near affine subspaces of unknown dimensions.

    :math:`p(d_k)` with a uniform subspace given :math:`d_k`; centres :math:`N(\text{location}, \lambda I)`; noise
    precisions Ga(shape, rate); ratios of precisions Beta(a, 1). Bases are not integrated out, so the posterior given
    rows has no closed form and is drawn by transitions; `draw` draws from the prior.
    """

    # Each row normalised; -inf where a dimension is impossible
    log_dimension: Annotated[np.ndarray, Array("float64", "n_components _", high=_TOLERANCE, infinite=True)]
    location: Annotated[np.ndarray, Array("float64", "n_features", low=-MOST, high=MOST)]
    centre_variance: Annotated[float, Real(above=0)]
    noise_shape: Annotated[float, Real(above=0)]
    noise_rate: Annotated[float, Real(above=0)]
    ratio_shape: Annotated[float, Real(above=0)]
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

    def with_components(self, n_components: int) -> SubspaceFamily:
        """The family for this number of components, which all have the prior of the first."""
        return self._replace(log_dimension=np.repeat(self.log_dimension[:1], n_components, axis=0))

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
        if rows.patterns is not None:
            add_terms_of_incomplete(rows.values, rows.patterns, first, stop, *Loadings.of(parameters), out)
        else:
            add_terms(rows.values[first:stop], parameters, parameters.log_offsets(), out)

    def parameters_of_cells(self, parameters: Subspaces) -> dict[str, Any]:
        """What `cell_distribution` takes."""
        return {"subspaces": parameters}

    def cell_distribution(self, attributes: dict[str, Any]) -> SubspaceCells:
        """The distributions of the cells of rows given the component."""
        return SubspaceCells(attributes["subspaces"])

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


def add_terms(X: Any, subspaces: Subspaces, offsets: np.ndarray, out: np.ndarray) -> None:
    """Add to `out`, (n, K), the log densities of rows, with `offsets`, (K,), as those at the centres."""
    # Numba would compile the kernel again for read-only arrays, such as memory maps
    writable = (np.require(array, requirements=["C", "W"]) for array in subspaces)
    add_log_terms(np.asarray(X), 0, len(X), *writable, offsets, out)


# Kernels of rows


@njit(cache=True, nogil=True)
def add_log_terms(X, start, stop, bases, dims, ratios, centres, noise, offsets, out):
    """Add the log densities of rows start to stop of X to `out`, (stop - start, K).

    `offsets`, (K,), are those at the centres. The weighted squared distance to a centre is a difference of two sums of
    squares. For rows near the subspace this would be inaccurate, so there the projection is subtracted from the row.
    """
    m, n_padded = X.shape[1], -(-bases.shape[1] // ENTRIES) * ENTRIES
    factors = np.zeros((len(dims), n_padded, m))
    for k in range(len(dims)):
        for j in range(dims[k]):
            scale = math.sqrt(1.0 - ratios[k, j])
            for a in range(m):
                factors[k, j, a] = scale * bases[k, j, a]
    # Rows are columns of a batch, so that each loop over lanes is a vector operation.
    rows, gaps = np.empty((m, ROW_LANES)), np.empty((m, ROW_LANES))
    squares, saved, exact = np.empty(ROW_LANES), np.empty(ROW_LANES), np.empty(ROW_LANES)
    for first in range(start, stop, ROW_LANES):
        load_rows(X, first, stop, rows)
        for k in range(len(dims)):
            squares[:] = 0.0
            for a in range(m):
                centre = centres[k, a]
                for lane in range(ROW_LANES):
                    gap = rows[a, lane] - centre
                    gaps[a, lane] = gap
                    squares[lane] += gap * gap
            saved[:] = 0.0
            for lane in range(0, ROW_LANES, LANES):
                for j in range(0, dims[k], ENTRIES):
                    add_squares(factors[k], gaps, j, m, lane, saved)
            n_near = 0
            for lane in range(ROW_LANES):
                n_near += squares[lane] - saved[lane] < _LEAST_LEFT * squares[lane]
            if n_near > 0:
                _subtract_projections(gaps, bases[k], dims[k], ratios[k], exact)
            half = 0.5 * noise[k]
            for lane in range(min(ROW_LANES, stop - first)):
                distance = squares[lane] - saved[lane]
                if distance < _LEAST_LEFT * squares[lane]:
                    distance = exact[lane]
                out[first - start + lane, k] += offsets[k] - half * distance


@njit(cache=True, nogil=True)
def _subtract_projections(gaps, basis, d, ratios, total):
    """Subtract from columns their projections on d directions; `total` gets weighted sums of squares.

    A projection costs the ratio times its squared length.
    """
    along = np.empty(ROW_LANES)
    total[:] = 0.0
    for j in range(d):
        along[:] = 0.0
        for a in range(len(gaps)):
            entry = basis[j, a]
            for lane in range(ROW_LANES):
                along[lane] += entry * gaps[a, lane]
        for a in range(len(gaps)):
            entry = basis[j, a]
            for lane in range(ROW_LANES):
                gaps[a, lane] -= entry * along[lane]
        ratio = ratios[j]
        for lane in range(ROW_LANES):
            total[lane] += ratio * along[lane] * along[lane]
    for a in range(len(gaps)):
        for lane in range(ROW_LANES):
            total[lane] += gaps[a, lane] * gaps[a, lane]


@njit(cache=True, nogil=True)
def add_moments(X, start, stop, labels, origins, counts, sums, products):
    """Add rows start to stop to the counts, sums and lower triangles of products of their labels.

    Sums and products are about `origins`, (K, m). Rows with a negative label are skipped.
    """
    K, m = origins.shape
    # Products are added for several rows of a component at a time, which reads and writes them less often.
    waiting, n_waiting = np.zeros((K, _ROWS_AT_ONCE, m)), np.zeros(K, np.int64)
    for i in range(start, stop):
        k = labels[i]
        if k < 0:
            continue
        counts[k] += 1
        gaps = waiting[k, n_waiting[k]]
        for a in range(m):
            gaps[a] = X[i, a] - origins[k, a]
            sums[k, a] += gaps[a]
        n_waiting[k] += 1
        if n_waiting[k] == _ROWS_AT_ONCE:
            _add_products(waiting[k], products[k])
            n_waiting[k] = 0
    for k in range(K):
        waiting[k, n_waiting[k] :] = 0.0
        _add_products(waiting[k], products[k])


@njit(cache=True, nogil=True)
def _add_products(rows, products):
    """Add the lower triangle of the products of four rows."""
    first, second, third, fourth = rows[0], rows[1], rows[2], rows[3]
    for a in range(len(products)):
        of_first, of_second, of_third, of_fourth = first[a], second[a], third[a], fourth[a]
        for b in range(a + 1):
            total = products[a, b] + of_first * first[b] + of_second * second[b]
            products[a, b] = total + of_third * third[b] + of_fourth * fourth[b]


# Priors of an estimator


def bound_family(estimator: Any, X: Any) -> SubspaceFamily:
    """The family with the parameters of the estimator, and defaults on the scale of its data."""
    check_sizes(X)
    if isinstance(X, SparseRows):
        mean, n_cells = X.mean(axis=0), X.size
        variance = float(sum_of_blocks(lambda rows: np.square(rows).sum(), X - mean)) / n_cells
        largest = np.abs(X.matrix).max()
        largest_gap = max(np.abs(np.asarray((X - mean)[block])).max() for block in blocks(X))
    else:
        mean, n_cells = np.nanmean(X, axis=0), int(np.count_nonzero(~np.isnan(X)))
        gaps = X - mean
        variance, largest, largest_gap = float(np.nanmean(gaps**2)), np.nanmax(np.abs(X)), np.nanmax(np.abs(gaps))
    rounding = float(np.finfo(np.float64).eps * largest)
    if variance < _LEAST_VARIANCE and largest_gap > rounding:
        raise ValueError("X varies by numbers whose squares are too small for float64: scale its columns first.")
    variance = variance if variance > rounding**2 else 1.0  # constant data have no scale
    return _family(estimator, X.shape[1], mean, variance, n_cells)


def check_sizes(X: Any) -> None:
    """Raise a ValueError if products of squares of rows and precisions could overflow."""
    X = X.matrix.data if isinstance(X, SparseRows) else X
    if np.fmax.reduce(np.abs(X), axis=None, initial=0.0) > MOST:
        raise ValueError(f"X has values beyond {MOST:g}, whose squares are too large: scale its columns first.")


def given_family(estimator: Any, m: int) -> SubspaceFamily:
    """A family whose priors do not depend on data; a ValueError if one of them does."""
    for name in ("noise_prior", "centre_prior_mean", "centre_prior_variance"):
        if getattr(estimator, name) is None:
            raise ValueError(
                f"The prior depends on the data because {name} is None: give numbers, or fit the estimator and omit "
                "n_features."
            )
    return _family(estimator, m, np.zeros(m), 1.0, 0)


def _family(estimator: Any, m: int, mean: np.ndarray, variance: float, n_cells: int) -> SubspaceFamily:
    """The family whose defaults are those of data with this mean, variance and number of cells."""
    shared, spread = estimator.noise == "shared", estimator.centre_prior_variance
    noise = _noise_prior(
        estimator.noise_prior, variance, n_cells if shared else n_cells / (estimator.n_components or 1)
    )
    log_dimension, ratio_shape = _log_dimension_prior(estimator, m), float(estimator.ratio_prior)
    location = mean if estimator.centre_prior_mean is None else _given_location(estimator, m)
    centre_variance = variance if spread is None else float(spread)
    return SubspaceFamily(log_dimension, location, centre_variance, *noise, ratio_shape, shared)


def _given_location(estimator: Any, m: int) -> np.ndarray:
    given = as_numbers(of_columns(estimator, "centre_prior_mean"))
    if given.shape != (m,) or not np.isfinite(given).all():
        raise ValueError(f"centre_prior_mean must be {m} finite numbers; got {estimator.centre_prior_mean!r}.")
    return given


def _log_dimension_prior(estimator: Any, m: int) -> np.ndarray:
    """Log prior of each component's dimension, (K, largest + 1)."""
    K, fixed = estimator.n_components or 1, estimator.dimensions
    if fixed is not None:
        return _log_fixed(fixed, estimator.n_components, m, estimator.max_dimension)
    largest = m - 1 if estimator.max_dimension is None else estimator.max_dimension
    if largest > m - 1:
        raise ValueError(f"max_dimension={largest} must be less than the number of features, {m}.")
    prior = 1.0 if estimator.dimension_prior is None else estimator.dimension_prior
    given = as_numbers(prior)
    if given.ndim == 0 and np.isfinite(given):
        logs = -given * np.arange(largest + 1.0)
    else:
        if given.shape != (largest + 1,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
            raise ValueError(
                f"dimension_prior must be a number, or {largest + 1} probabilities of the dimensions 0 to {largest}; "
                f"got {prior!r}."
            )
        allowed = np.flatnonzero(given)
        if len(allowed) != allowed[-1] - allowed[0] + 1:
            raise ValueError("dimension_prior must not have zeros between dimensions of positive probability.")
        with np.errstate(divide="ignore"):
            logs = np.log(given)
    return np.tile(logs - logsumexp(logs), (K, 1))


def _log_fixed(fixed: Any, K: int | None, m: int, most: int | None) -> np.ndarray:
    given = as_numbers(fixed)
    if K is None and given.ndim > 0:
        raise ValueError("dimensions must be one whole number if n_components is None.")
    K = K or 1
    if given.shape not in ((), (K,)) or not np.array_equal(given, np.floor(given)):
        raise ValueError(f"dimensions must be a whole number or one for each of the {K} components; got {fixed!r}.")
    if (given < 0).any() or (given > m - 1).any():
        raise ValueError(f"dimensions must be from 0 to {m - 1}, less than the number of features; got {fixed!r}.")
    if most is not None and (given > most).any():
        raise ValueError(f"dimensions={fixed!r} exceeds max_dimension={most}: leave max_dimension out.")
    each = np.broadcast_to(given.astype(np.int64), K)
    logs = np.full((K, each.max() + 1), -np.inf)
    logs[np.arange(K), each] = 0.0
    return logs


def _noise_prior(given: Any, variance: float, n_cells: float) -> tuple[float, float]:
    """Shape and rate of the gamma prior of the noise precisions; `n_cells` is the number of cells per precision."""
    if given is None:
        half = 0.5 * _PRIOR_SHARE * n_cells
        return 1.0 + half, (_NOISE_FRACTION + _PRIOR_NOISE * half) * variance
    values = as_numbers(given)
    if values.shape != (2,) or not np.isfinite(values).all() or not (values > 0).all():
        raise ValueError(f"noise_prior must be two positive numbers, a shape and a rate; got {given!r}.")
    return float(values[0]), float(values[1])


def as_numbers(given: Any) -> np.ndarray:
    """Convert to an array of floats; NaN if this is not possible."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)
