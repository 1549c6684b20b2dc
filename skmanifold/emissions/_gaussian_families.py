"""Gaussian families: full covariances, and variances alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..numerics.block_sums import BLOCK_ROWS, BlockSums
from ..random._keys import fold_in_each
from ..random._variates import fill_normal
from ..utils._conditions import FLAG, Array, Condition, Counted, Either, Lacking, OrNone, Real, Sizes, Whole
from ..utils._declared import Held, holds
from ..utils._threads import split_range
from ._family import Family, NoModeError, check_shapes
from ._gaussian_kernels import (
    add_counted_products,
    add_diagonal_densities,
    add_full_densities,
    add_labelled_products,
    add_shared_products,
    fill_gammas_and_normals,
    fill_wishart_roots,
)
from ._protocols import Arrays, TokenCounts
from ._rows import DenseRows
from ._vector_clusters import cluster_rows, cluster_vectors

_LEAST_SHARE = 1e-12  # of a feature's variance that the features before it must leave unexplained
_N_PROBES = 2
_LEAST_CLOSE = 0.01  # of numbers that condition numbers up to 1e12 blur
_LOG_2PI = math.log(2.0 * math.pi)


_SPREADS = Either(  # matrices, or variances, of components
    lambda value: np.ndim(value) == 3,
    Array("float64", ("n_components", "n_dimensions", "n_dimensions")),
    Array("float64", ("n_components", "n_dimensions"), above=0),
)


@holds(
    mean=Array("float64", ("n_dimensions",)),
    mean_precision=Real(low=0),
    covariance=Either(
        lambda value: np.ndim(value) == 2,
        Array("float64", ("n_dimensions", "n_dimensions")),
        Array("float64", (None,), low=0),
    ),
    degrees=Real(),
)
class NormalPrior(NamedTuple):
    """Normal inverse Wishart prior, or normal inverse gamma."""

    mean: np.ndarray  # (d,)
    mean_precision: float  # how many rows it is worth
    covariance: np.ndarray  # (d, d); variances (d,), or (1,) for all features together
    degrees: float


def _parameters_agree(parameters: GaussianParameters, sizes: Sizes) -> str | None:
    means, covariances, factors, offsets = parameters
    d = means.shape[1]
    if covariances.shape != factors.shape:
        return "has covariances and factors of different shapes"
    if covariances.ndim == 2:
        log_roots, whole = 0.5 * np.log(factors).sum(axis=1), covariances * factors
    else:
        roots = np.diagonal(factors, axis1=1, axis2=2)
        if not (roots > 0.0).all():
            return "has factors of covariances that are singular"
        log_roots = np.log(roots).sum(axis=1)
        # Whether F C F' is the identity is seen from what it makes of some vectors, in the time of reading it.
        probes = np.random.default_rng(0).choice([-1.0, 1.0], (d, _N_PROBES))
        whole = 1.0 + (factors @ (covariances @ (factors.mT @ probes)) - probes) / np.sqrt(d)
    if not np.allclose(whole, 1.0, rtol=0.0, atol=_LEAST_CLOSE):
        return "has factors that are not those of its covariances"
    if not np.allclose(offsets, log_roots - 0.5 * d * _LOG_2PI, rtol=1e-6, atol=1e-3):
        return "has densities at the means that are not those of its covariances"
    with np.errstate(over="ignore", invalid="ignore"):
        squares = factors * means**2 if covariances.ndim == 2 else (factors @ means[:, :, None]) ** 2
        if not np.isfinite(squares.sum()):
            return "has means so far away that the densities of rows are zero"
    return None


@holds(
    _parameters_agree,
    means=Array("float64", ("n_components", "n_dimensions")),
    covariances=_SPREADS,
    factors=_SPREADS,
    offsets=Array("float64", ("n_components",)),
)
class GaussianParameters(NamedTuple):
    """Parameters of K components as the kernels read them."""

    means: np.ndarray  # (K, d)
    covariances: np.ndarray  # (K, d, d), or variances (K, d)
    factors: np.ndarray  # (K, d, d) inverses of Cholesky factors, or precisions (K, d)
    offsets: np.ndarray  # (K,) log densities at the means


class GaussianFamily(Family):
    """What both kinds share: statistics are sizes, sums, and products about an origin near the rows.

    Parameters
    ----------
    prior : NormalPrior
    n_components : int
    origin : ndarray of shape (d,)
    """

    word_weights: np.ndarray | None = None  # how often each was there when they were bound

    def __init__(self, prior: NormalPrior, n_components: int, origin: np.ndarray):
        self.prior = prior
        self.n_components = n_components
        self.n_features = len(origin)
        self.origin = np.ascontiguousarray(origin)
        self._width = self.n_features if prior.covariance.ndim == 2 else 1  # of the products: or squares alone

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, sums and products."""
        K, d = self.n_components, self.n_features
        return (K,), (K, d), (K, d, self._width)

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of means, covariances, factors and offsets."""
        K, d = self.n_components, self.n_features
        of_covariances = (K, d, d) if self.prior.covariance.ndim == 2 else (K, d)
        return (K, d), of_covariances, of_covariances, (K,)

    def check_parameters(self, parameters: GaussianParameters) -> None:
        """Refuse parameters, read from a file, that cannot be of this family."""
        check_shapes(parameters, self.parameter_shapes())

    def seed_labels(self, rows: DenseRows, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means of rows, features scaled to equal ranges."""
        return cluster_rows(rows.values, self.n_components, key)

    def sum_labels(self, rows: DenseRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes, sums and products by label."""

        def add(start, stop, *arrays):
            of_rows = first + start, first + stop, BLOCK_ROWS, labels[start:stop]
            add_labelled_products(rows.values, *of_rows, self.origin, *arrays)

        return self.sum_blocks(stop - first, first_block, add)

    def sum_shares(self, rows: DenseRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """The same by share."""

        def add(start, stop, *arrays):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                of_rows = first + start + a, first + start + b, shares[start + a : start + b]
                add_shared_products(rows.values, *of_rows, self.origin, *(array[block] for array in arrays))

        return self.sum_blocks(stop - first, first_block, add)

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics of how often each topic took each word vector."""
        _, sums, products = map(np.zeros, self.shapes())
        table = counts.tocsr()
        add_counted_products(
            self.word_vectors,
            np.asarray(table.indptr, dtype=np.int64),
            np.asarray(table.indices, dtype=np.int32),
            np.asarray(table.data, dtype=np.float64),
            self.origin,
            sums,
            products,
        )
        return np.asarray(counts.totals, dtype=np.float64), sums, products

    def token_table(self, parameters: GaussianParameters) -> np.ndarray:
        """Log densities of the word vectors, (n_words, K)."""
        assert self.word_vectors is not None
        out = np.zeros((len(self.word_vectors), self.n_components))
        self._add_densities(self.word_vectors, 0, len(out), parameters, out)
        return out

    def start_of_tokens(self, key: np.uint64) -> np.ndarray:
        """Clusters of the word vectors: components that all begin alike would take long to part."""
        assert self.word_vectors is not None
        assert self.word_weights is not None
        return cluster_vectors(self.word_vectors, self.word_weights, self.n_components, key)

    def add_log_densities(
        self, rows: DenseRows, first: int, stop: int, parameters: GaussianParameters, out: np.ndarray
    ) -> None:
        """Add log densities of rows to `out`, (stop - first, K)."""
        self._add_densities(rows.values, first, stop, parameters, out)

    def attributes(self, parameters: GaussianParameters) -> dict[str, np.ndarray]:
        """``components_``, the means, and ``covariances_``."""
        return {"components_": parameters.means, "covariances_": parameters.covariances}

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> GaussianParameters:
        """The parameters with these means and covariances."""
        return self._parameters(attributes["components_"] - self.origin, attributes["covariances_"])

    if TYPE_CHECKING:  # of each kind

        def _parameters(self, means: np.ndarray, covariances: np.ndarray) -> GaussianParameters: ...

        def _add_densities(self, X, first, stop, parameters, out): ...

    def _centres(self, sizes: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precisions of the means in rows, means and prior mean, about the origin."""
        precision = self.prior.mean_precision + sizes
        if not np.all(precision > 0.0):
            raise NoModeError(
                f"Component {int(np.argmin(precision))} has no rows, and mean_precision_prior=0 says nothing of its "
                "mean: fewer components, or a positive mean_precision_prior, would do."
            )
        prior_mean = self.prior.mean - self.origin
        means = (self.prior.mean_precision * prior_mean + sums) / precision[:, None]
        return precision, means, prior_mean

    def _check_proper(self, least_degrees: float, definite: bool) -> None:
        prior = self.prior
        if prior.mean_precision <= 0.0 or prior.degrees <= least_degrees or not definite:
            raise ValueError(
                "Draws of Gaussian components need a proper prior: mean_precision_prior above 0, "
                f"degrees_of_freedom_prior above {least_degrees:g} and a positive definite covariance_prior."
            )


def _family_agrees(family: GaussianFamily, sizes: Sizes) -> str | None:
    full = isinstance(family, FullFamily)
    if (family.prior.covariance.ndim == 2) != full or family._width != (family.n_features if full else 1):
        return "has a prior of another shape"
    if isinstance(family, DiagonalFamily):
        wanted = 1 if family.spherical else family.n_features
        return None if len(family.prior.covariance) == wanted else "has a prior of another shape"
    return None


_OF_GAUSSIANS: dict[str, Condition] = {
    "origin": Array("float64", ("n_dimensions",)),
    "prior": Held(NormalPrior),
    "n_components": Counted("n_components"),
    "n_features": Counted("n_dimensions"),
    "_width": Whole(low=1),
    "word_vectors": Lacking(OrNone(Array("float64", ("n_tokens", "n_dimensions")))),
    "word_weights": Lacking(OrNone(Array("float64 int64", ("n_tokens",), low=0))),
}


@holds(_family_agrees, **_OF_GAUSSIANS)
class FullFamily(GaussianFamily):
    """Components with any covariance."""

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        _, means, scatters = self._posterior(statistics)
        degrees = self.prior.degrees - self.n_features - 2.0 + statistics[0]
        covariances = scatters / np.where(degrees > 0.0, degrees, np.nan)[:, None, None]
        return self._parameters(means, covariances)

    def draw(self, statistics: Arrays, key: np.uint64) -> GaussianParameters:
        """Means and covariances from their posterior."""
        K, d = self.n_components, self.n_features
        self._check_proper(d - 1, np.linalg.eigvalsh(self.prior.covariance).min() > 0.0)
        precision, means, scatters = self._posterior(statistics)
        roots, normals = np.empty((K, d, d)), np.empty((K, d))
        fill_wishart_roots(key, self.prior.degrees + statistics[0], roots, normals)
        # Sigma = C (TT')^-1 C' with the Cholesky factor C of the scatter, as H'H with H = T^-1 C'
        halves = np.linalg.solve(roots, _cholesky(scatters).mT)
        covariances = halves.mT @ halves
        parameters = self._parameters(means, (covariances + covariances.mT) / 2.0)
        noise = (halves.mT @ normals[:, :, None])[:, :, 0] / np.sqrt(precision)[:, None]
        return parameters._replace(means=parameters.means + noise)

    def log_prior(self, parameters: GaussianParameters) -> float:
        """Log of the normal inverse Wishart density in the natural parameters."""
        d, prior = self.n_features, self.prior
        log_roots = np.log(np.diagonal(parameters.factors, axis1=1, axis2=2)).sum(axis=1)
        halves = parameters.factors @ (parameters.means - prior.mean)[:, :, None]
        spread = np.einsum("kab,bc,kac->k", parameters.factors, prior.covariance, parameters.factors)
        spread = spread + prior.mean_precision * (halves[:, :, 0] ** 2).sum(axis=1)
        return float(((prior.degrees - d - 2.0) * log_roots - 0.5 * spread).sum())

    def log_likelihood(self, statistics: Arrays, parameters: GaussianParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products = statistics
        means = parameters.means - self.origin
        lower = np.tril(products) + np.tril(products, -1).mT
        # About the mean they are S - (s - n m) m' - m s', of which the quadratic form needs no more
        gaps = (sums - sizes[:, None] * means)[:, :, None] * means[:, None, :] + means[:, :, None] * sums[:, None, :]
        spread = np.einsum("kab,kbc,kac->", parameters.factors, lower - gaps, parameters.factors)
        return float(sizes @ parameters.offsets - 0.5 * spread)

    def n_parameters(self) -> int:
        """Means and covariances."""
        d = self.n_features
        return self.n_components * (d + d * (d + 1) // 2)

    def sample(self, parameters: GaussianParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        out = np.empty((len(labels), self.n_features))
        fill_normal(fold_in_each(key, np.arange(len(labels))), 0, out)
        for k, covariance in enumerate(parameters.covariances):
            mine = labels == k
            out[mine] = parameters.means[k] + out[mine] @ np.linalg.cholesky(covariance).T
        return out

    def _add_densities(self, X, first, stop, parameters, out):
        add_full_densities(X, first, stop, parameters.means, parameters.factors, parameters.offsets, out)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precisions in rows and means, about the origin, of the components' means; and scatters."""
        sizes, sums, products = statistics
        precision, means, prior_mean = self._centres(sizes, sums)
        lower = np.tril(products) + np.tril(products, -1).mT
        fixed = self.prior.covariance + self.prior.mean_precision * np.outer(prior_mean, prior_mean)
        return precision, means, fixed + lower - precision[:, None, None] * means[:, :, None] * means[:, None, :]

    def _parameters(self, means: np.ndarray, covariances: np.ndarray) -> GaussianParameters:
        roots = _cholesky(covariances)
        factors = np.tril(np.linalg.solve(roots, np.broadcast_to(np.eye(self.n_features), roots.shape)))
        log_roots = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        offsets = log_roots - 0.5 * self.n_features * _LOG_2PI
        return GaussianParameters(means + self.origin, covariances, np.ascontiguousarray(factors), offsets)


@holds(_family_agrees, **_OF_GAUSSIANS, spherical=FLAG)
class DiagonalFamily(GaussianFamily):
    """Components with a variance for each feature, or with one variance.

    Parameters
    ----------
    prior : NormalPrior
    n_components : int
    origin : ndarray of shape (d,)
    spherical : bool
        One variance a component.
    """

    def __init__(self, prior: NormalPrior, n_components: int, origin: np.ndarray, spherical: bool):
        super().__init__(prior, n_components, origin)
        self.spherical = spherical

    @property
    def _n_pooled(self) -> int:
        """How many features share a variance."""
        return self.n_features if self.spherical else 1

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        _, means, squares = self._posterior(statistics)
        degrees = self.prior.degrees - 2.0 + self._n_pooled * (statistics[0] - 1.0)
        return self._parameters(means, squares / np.where(degrees > 0.0, degrees, np.nan)[:, None])

    def draw(self, statistics: Arrays, key: np.uint64) -> GaussianParameters:
        """Means and variances from their posterior."""
        self._check_proper(0.0, self.prior.covariance.min() > 0.0)
        precision, means, squares = self._posterior(statistics)
        degrees = self.prior.degrees + self._n_pooled * statistics[0]
        shapes = np.ascontiguousarray(np.broadcast_to(0.5 * degrees[:, None], squares.shape))
        gammas, normals = np.empty(squares.shape), np.empty(means.shape)
        fill_gammas_and_normals(key, shapes, gammas, normals)
        variances = 0.5 * squares / gammas
        return self._parameters(means + normals * np.sqrt(variances / precision[:, None]), variances)

    def log_prior(self, parameters: GaussianParameters) -> float:
        """Log of the normal inverse gamma densities in the natural parameters."""
        prior = self.prior
        gaps = prior.mean_precision * (parameters.means - prior.mean) ** 2
        variances = parameters.covariances
        if self.spherical:
            gaps, variances = gaps.sum(axis=1, keepdims=True), variances[:, :1]
        power = prior.degrees - 2.0 - self._n_pooled
        return float(-0.5 * (power * np.log(variances) + (prior.covariance + gaps) / variances).sum())

    def log_likelihood(self, statistics: Arrays, parameters: GaussianParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products = statistics
        means = parameters.means - self.origin
        squares = products[:, :, 0] - means * (2.0 * sums - sizes[:, None] * means)
        return float(sizes @ parameters.offsets - 0.5 * (parameters.factors * squares).sum())

    def n_parameters(self) -> int:
        """Means and variances."""
        return self.n_components * (self.n_features + (1 if self.spherical else self.n_features))

    def sample(self, parameters: GaussianParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        out = np.empty((len(labels), self.n_features))
        fill_normal(fold_in_each(key, np.arange(len(labels))), 0, out)
        return parameters.means[labels] + out * np.sqrt(parameters.covariances)[labels]

    def _add_densities(self, X, first, stop, parameters, out):
        add_diagonal_densities(X, first, stop, parameters.means, parameters.factors, parameters.offsets, out)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precisions in rows and means, about the origin, of the components' means; and sums of squares."""
        sizes, sums, products = statistics
        precision, means, prior_mean = self._centres(sizes, sums)
        squares = self.prior.mean_precision * prior_mean**2 + products[:, :, 0] - precision[:, None] * means**2
        if self.spherical:
            squares = squares.sum(axis=1, keepdims=True)
        return precision, means, self.prior.covariance + np.maximum(squares, 0.0)

    def _parameters(self, means: np.ndarray, variances: np.ndarray) -> GaussianParameters:
        if not np.all(variances > 0.0):
            _refuse_singular(int(np.argmin(np.where(np.isnan(variances), 0.0, variances).min(axis=1))))
        variances = np.array(np.broadcast_to(variances, means.shape))
        offsets = -0.5 * (np.log(variances) + _LOG_2PI).sum(axis=1)
        return GaussianParameters(means + self.origin, variances, 1.0 / variances, offsets)


def _cholesky(covariances: np.ndarray) -> np.ndarray:
    """Cholesky factors; a ValueError that names the component where there is none."""
    try:
        roots = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        for k, covariance in enumerate(covariances):
            try:
                np.linalg.cholesky(covariance)
            except np.linalg.LinAlgError:
                _refuse_singular(k)
        raise
    left = np.diagonal(roots, axis1=1, axis2=2) ** 2 / np.diagonal(covariances, axis1=1, axis2=2)
    if not np.all(left > _LEAST_SHARE):
        _refuse_singular(int(np.argmax(~(left > _LEAST_SHARE).all(axis=1))))
    return roots


def _refuse_singular(component: int) -> None:
    raise NoModeError(
        f"The covariance of component {component} is singular: its rows lie on a hyperplane or are too few, and the "
        "prior does not make up for it; fewer components, or a larger covariance_prior, would do."
    )
