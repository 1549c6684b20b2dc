"""What Gaussian families share: priors, given or learned, parameters, statistics and word vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...random._keys import fold_in_each, subkey
from ...random._variates import fill_log_gamma_variates, fill_normal
from ...utils._conditions import Array, Integer, Sizes
from ...utils._declared import Lacking
from .._base import NoModeError
from .._dense_rows import DenseRows
from .._protocols import Arrays, TokenCounts
from .._seeds import cluster_rows
from .hyperparameters import NormalPrior
from .kernels import add_labelled_products, add_products, add_shared_products
from .learned import LearnsNumbers
from .missing_kernels import count_labelled_missing, count_shared_missing

_N_PROBES = 2  # random vectors that check whether factors belong to covariances
_TOLERANCE = 0.01  # allows for rounding errors with condition numbers up to 1e12
LOG_2PI = math.log(2.0 * math.pi)
_LEAST_FREEDOM = 1.0  # the denominator of the covariance of a predictive distribution whose covariance is used
_MOST_LOG_DEVIATION = 150.0  # of a predictive distribution, in units of its scatter
_GAMMAS = 2**40  # child of a key beyond those of all rows
_ROWS_OF_SEEDS = 50  # per cluster, on average
_MOST_ROWS_OF_SEEDS = 20_000
_MOST_DEVIATIONS = 1e35  # from a row to the origin, so that products of a few squares are finite
LEAST_SHARE = 1e-12  # share of a feature's variance that the features before it must leave unexplained


_Spreads: TypeAlias = (  # matrices, or variances, of components
    Annotated[np.ndarray, Array("float64", "_ n_dimensions n_dimensions")]
    | Annotated[np.ndarray, Array("float64", "n_components n_dimensions", above=0)]
)


class GaussianParameters(NamedTuple):
    """Parameters of K components, in the form that the kernels read."""

    means: Annotated[np.ndarray, Array("float64", "n_components n_dimensions")]
    covariances: _Spreads  # (1, d, d) if they are equal, or variances (K, d)
    factors: _Spreads  # inverses of the Cholesky factors of covariances, or precisions (K, d)
    offsets: Annotated[np.ndarray, Array("float64", "n_components")]  # log densities at the means, (K,)

    def _disagreement(self, sizes: Sizes) -> str | None:
        means, covariances, factors, offsets = self
        d = means.shape[1]
        if covariances.shape != factors.shape or len(covariances) not in (1, len(means)):
            return "has covariances and factors of different shapes"
        if covariances.ndim == 2:
            log_roots, whole = 0.5 * np.log(factors).sum(axis=1), covariances * factors
        else:
            roots = np.diagonal(factors, axis1=1, axis2=2)
            if not (roots > 0.0).all():
                return "has factors of covariances that are singular"
            log_roots = np.log(roots).sum(axis=1)
            # F C F' must be the identity: products with random vectors show it as fast as the matrices are read.
            probes = np.random.default_rng(0).choice([-1.0, 1.0], (d, _N_PROBES))
            whole = 1.0 + (factors @ (covariances @ (factors.mT @ probes)) - probes) / np.sqrt(d)
        if not np.allclose(whole, 1.0, rtol=0.0, atol=_TOLERANCE):
            return "has factors that are not those of its covariances"
        if not np.allclose(offsets, log_roots - 0.5 * d * LOG_2PI, rtol=1e-6, atol=1e-3):
            return "has densities at the means that are not those of its covariances"
        with np.errstate(over="ignore", invalid="ignore"):
            squares = factors * means**2 if covariances.ndim == 2 else (factors @ means[:, :, None]) ** 2
            if not np.isfinite(squares.sum()):
                return "has means so far away that the densities of rows are zero"
        return None


class MatrixData(NamedTuple):
    """Rows of clusters, and the normal-inverse-Wishart prior of components with covariance matrices."""

    values: np.ndarray  # (n_rows, d); NaN where a cell is missing
    place: np.ndarray  # (n_rows,) int32: index among the rows with missing cells, or -1
    patterns: np.ndarray  # (n_rows,) uint64: a number for the missing cells of each row
    origin: np.ndarray  # (d,), subtracted from rows before they are added, which reduces rounding errors
    mean: np.ndarray  # (d,) of the prior, relative to the origin
    mean_precision: float
    covariance: np.ndarray  # (d, d)
    degrees: float
    log_det: float  # of the covariance of the prior
    far: float  # twice the difference of log densities from the highest at which a score may be -inf: the random
    # number of a label has 53 bits, so that smaller densities do not change it


class MatrixComponents(NamedTuple):
    """Drawn parameters of K components, and what the scores of rows need of them."""

    parameters: GaussianParameters
    prepared: np.ndarray  # the factors, (K, n, n), with zeros, n a multiple of four; tied: images of the means, (K, d)


class IncompleteComponents(NamedTuple):
    """As `MatrixComponents`, if some rows have missing cells; other rows do not compile kernels of missing cells."""

    parameters: GaussianParameters
    prepared: np.ndarray
    columns: np.ndarray  # (G, d, d): transposes of the factors
    precisions: np.ndarray  # (G, d, d): lower triangles


class Posterior(NamedTuple):
    """Posterior of means given the covariances, and of G covariances, K or one for all components."""

    precisions: np.ndarray  # (K,): of the means, in rows; or (K, d), in observed cells
    means: np.ndarray  # (K, d), relative to the origin
    scatters: np.ndarray  # (G, d, d), or of each variance, (K, d) or (K, 1)
    degrees: np.ndarray  # of freedom: (G,), or of each variance


class GaussianFamily(LearnsNumbers):
    """Base class of Gaussian families: statistics are sizes, sums, and sums of products about an origin.

    The origin, (d,), is a point near the rows, which reduces rounding errors.
    """

    parameters_type: ClassVar[type | None] = GaussianParameters
    # Each subclass defines these.
    _add_densities: Callable[..., None]
    _posterior: Callable[..., Posterior]
    _with_covariances: Callable[..., np.ndarray]  # rows of normal variates, with covariances of labels
    _shaped: Callable[..., np.ndarray]  # covariances as fitted attributes
    shares_covariance = False  # whether all components have the same
    origin: Annotated[np.ndarray, Array("float64", "n_dimensions")]
    _width: Annotated[int, Integer(low=1)]
    word_vectors: Lacking[Annotated[np.ndarray, Array("float64", "n_tokens n_dimensions")] | None] = None
    # Counts of the word vectors in the data of the fit
    word_weights: Lacking[Annotated[np.ndarray, Array("float64 int64", "n_tokens", low=0)] | None] = None

    def _disagreement(self, sizes: Sizes) -> str | None:
        full, of_columns = self.has_matrices, np.ndim(self.prior.degrees)
        if np.ndim(self.prior.mean_precision) != of_columns:
            return "has numbers of all columns and of each in its prior"
        is_of_family = self.prior.covariance.ndim == 1 + full and self._width == (self.n_features if full else 1)
        wanted = (self.n_features,) if full or of_columns else (1, self.n_features)
        has_shape = is_of_family and not (full and of_columns) and len(self.prior.covariance) in wanted
        return None if has_shape else "has a prior of another shape"

    def __init__(self, prior: NormalPrior, n_components: int, origin: np.ndarray):
        self.prior = prior
        self.hyperprior, self.resolution, self.transform = None, None, None
        self.n_components = n_components
        self.n_features = len(origin)
        self.origin = np.ascontiguousarray(origin)
        self._width = self.n_features if prior.covariance.ndim == 2 else 1  # of the products: or squares alone

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, sums and products."""
        K, d = self.n_components, self.n_features
        return (K,), (K, d), (self._n_matrices(K), d, self._width)

    def _n_matrices(self, n_components: Any) -> Any:
        """Number of covariances of so many components."""
        return 1 if self.shares_covariance else n_components

    def check_parameters(self, parameters: GaussianParameters) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        K, d = self.n_components, self.n_features
        shape = " ".join(map(str, (self._n_matrices(K), d, d) if self.has_matrices else (K, d)))
        Array("float64", shape)(parameters.covariances, "covariances of the parameters", {})

    def seed_weighted_labels(self, rows: DenseRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means, with features scaled to equal ranges."""
        return cluster_rows(rows.values, self.n_components, key, row_weights)

    def sum_labels(self, rows: DenseRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes, sums and products of rows given their labels; missing cells are at the origin."""

        def add(a, b, sizes, sums, products, *missing):
            X = rows.filled(first + a, first + b, self.origin)
            add_labelled_products(X, 0, len(X), BLOCK_ROWS, labels[a:b], self.origin, sizes, sums, products)
            if missing and rows.has_missing:
                count_labelled_missing(rows.values, first + a, first + b, BLOCK_ROWS, labels[a:b], *missing)

        return self.sum_blocks(stop - first, first_block, add)

    def sum_shares(self, rows: DenseRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Sizes, sums and products of rows given their shares; missing cells are at the origin."""
        return self._sum_each_block(first, stop, first_block, shares, partial(self._add_shared, rows))

    def sum_blocks(self, n_rows, first_block, add, shapes=None) -> BlockSums:
        """Sums by blocks of rows; products have in addition the variance of a uniform number within each cell."""
        variances = self._variances_of_cells()
        if variances is None or shapes is not None:
            return super().sum_blocks(n_rows, first_block, add, shapes)

        def add_with_cells(start, stop, sizes, sums, products, *missing):
            add(start, stop, sizes, sums, products, *missing)
            if self.has_matrices:
                of_rows = sizes.sum(axis=1, keepdims=True) if self.shares_covariance else sizes
                products += of_rows[..., np.newaxis, np.newaxis] * np.diag(variances)
            else:
                products[..., 0] += (sizes[..., np.newaxis] - missing[0]) * variances

        return super().sum_blocks(n_rows, first_block, add_with_cells)

    def feature_variances(self, parameters: Any) -> np.ndarray:
        """Variances of the features within components, summed over components."""
        return np.einsum("kvv->v" if self.has_matrices else "kv->v", parameters.covariances)

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of word vectors by component."""
        assert self.word_vectors is not None
        _, sums, products, *others = map(np.zeros, self.shapes())
        table, (n_words, d) = counts.tocsr(), self.word_vectors.shape
        by_component, shared = table.tocsc(), (self.origin, (np.zeros((4, d)), np.empty(4)))
        words, weights = by_component.indices.astype(np.int64), by_component.data.astype(np.float64)
        of_each = products if len(products) == len(sums) else np.zeros((len(sums), d, 1))
        for k, part in enumerate(pairwise(by_component.indptr.tolist())):
            add_products(self.word_vectors, 0, words, *part, weights, *shared, sums[k], of_each[k])
        if of_each is not products:
            of_all = np.arange(n_words), 0, n_words, table.sum(axis=1).astype(np.float64)
            add_products(self.word_vectors, 0, *of_all, *shared, np.zeros(d), products[0])
        return np.asarray(counts.totals, dtype=np.float64), sums, products, *others

    def token_table(self, parameters: GaussianParameters) -> np.ndarray:
        """Log density of each word vector given each component."""
        assert self.word_vectors is not None
        out = np.zeros((len(self.word_vectors), self.n_components))
        self._add_densities(self.word_vectors, 0, len(out), parameters, out)
        return out

    def start_of_tokens(self, key: np.uint64) -> np.ndarray:
        """Initial components from clusters of the word vectors."""
        assert self.word_vectors is not None
        assert self.word_weights is not None
        labels, present = np.zeros(len(self.word_vectors), np.int64), np.flatnonzero(self.word_weights)
        labels[present] = cluster_rows(self.word_vectors[present], self.n_components, key, self.word_weights[present])
        return labels

    def attributes(self, parameters: GaussianParameters) -> dict[str, np.ndarray]:
        """The fitted attributes ``components_``, the means, and ``covariances_``."""
        return self.in_units(self.parameters_of_cells(parameters))

    def parameters_of_cells(self, parameters: GaussianParameters) -> dict[str, np.ndarray]:
        """Means and covariances of transformed columns."""
        return {"components_": parameters.means, "covariances_": self._shaped(parameters.covariances)}

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> GaussianParameters:
        """The parameters with these means and covariances."""
        return self._parameters(attributes["components_"] - self.origin, attributes["covariances_"])

    def sample(self, parameters: GaussianParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        normals = self._normals(len(labels), key)
        return self._inverse(parameters.means[labels] + self._with_covariances(normals, parameters.covariances, labels))

    def expected(self, statistics: Any, shares: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Posterior means of the mean of each cluster, and of covariances, which may have no finite mean."""
        _, centres, scatters, degrees = self._posterior(statistics)
        means = self.in_units(self.cell_attributes(statistics))["components_"]
        freedom = self._as_covariances(degrees - self._least_degrees)
        covariances = np.divide(scatters, freedom, out=np.full_like(scatters, np.inf), where=freedom > 0.0)
        if shares is None:
            return {"components_": means, "covariances_": self._shaped(covariances)}
        covariances = np.broadcast_to(covariances, (len(means), *covariances.shape[1:]))
        whole = [self._joined(own[used], centres[used], covariances[used]) for own in shares for used in [own > 0.0]]
        return {"components_": shares @ means, "covariances_": np.stack(whole)}

    def _joined(self, shares: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
        """The covariance of a cluster of components: that within, and that between them."""
        gaps = means - shares @ means
        squares = gaps[:, :, np.newaxis] * gaps[:, np.newaxis] if self.has_matrices else gaps**2
        return np.tensordot(shares, covariances + squares, 1)

    def cell_attributes(self, statistics: Any) -> dict[str, np.ndarray]:
        """Means and covariances of the predictive distributions of clusters, of transformed columns.

        Where a covariance is infinite or nearly so, the inverse of the mean precision is in its place.
        """
        precisions, means, scatters, degrees = self._posterior(statistics)
        freedom = degrees - self._least_degrees
        factors = (precisions + 1.0) / precisions / np.where(freedom > _LEAST_FREEDOM, freedom, degrees)
        return {"components_": means + self.origin, "covariances_": scatters * self._as_covariances(factors)}

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of clusters `labels`, parameters integrated out: m + sqrt(s / g) L z, z normal, g chi-squared.

        Row i depends only on the key, i and its label.
        """
        precisions, means, scatters, degrees = self._posterior(statistics)
        scales, freedom = (
            each if each.ndim == 2 else np.broadcast_to(each, len(means))[:, np.newaxis]
            for each in ((precisions + 1.0) / precisions, degrees - self._least_degrees + 2.0)
        )
        halves = 0.5 * freedom[labels]
        logs = np.empty(halves.shape)
        fill_log_gamma_variates(subkey(key, _GAMMAS), halves, logs)
        deviations = np.exp(np.minimum(0.5 * (np.log(0.5 * scales[labels]) - logs), _MOST_LOG_DEVIATION))
        normals = self._normals(len(labels), key) * deviations
        return self._inverse(self.origin + means[labels] + self._with_covariances(normals, scatters, labels))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means of a random sample of the rows; the other rows have the nearest centre."""
        if not self.n_features:
            return np.zeros(self.n_rows, np.int32)
        n_sampled = min(max(_ROWS_OF_SEEDS * n_clusters, 1000), _MOST_ROWS_OF_SEEDS)
        return cluster_rows(self.rows.values, n_clusters, key, n_sampled=n_sampled)

    def _as_covariances(self, of_each: np.ndarray) -> np.ndarray:
        """Numbers of each covariance matrix, or of each variance, in a shape that multiplies them."""
        return of_each[:, np.newaxis, np.newaxis] if self.has_matrices else of_each

    def _normals(self, n_rows: int, key: np.uint64) -> np.ndarray:
        """Rows of standard normal variates; row i depends only on the key and i."""
        out = np.empty((n_rows, self.n_features))
        fill_normal(fold_in_each(key, np.arange(n_rows)), 0, out)
        return out

    def _add_shared(self, rows, first, stop, shares, sizes, sums, products, *missing):
        """Add rows of one block to the statistics of all components."""
        X = rows.filled(first, stop, self.origin)
        add_shared_products(X, 0, len(X), shares, self.origin, sizes, sums, products)
        if missing and rows.has_missing:
            count_shared_missing(rows.values, first, stop, shares, *missing)

    def _precisions(self, counts: np.ndarray) -> np.ndarray:
        """Precisions of the components' means in rows, or in observed cells; a NoModeError if one is zero."""
        precisions = self.prior.mean_precision + counts
        if not precisions.min(initial=np.inf) > 0.0:
            component = int(np.argmin(precisions)) // (precisions.size // len(precisions))
            lacks = "a column without observed cells" if counts[component].max() > 0.0 else "no rows"
            raise NoModeError(
                f"Component {component} has {lacks}, and mean_precision_prior=0 gives its mean no "
                "prior: use fewer components, or a positive mean_precision_prior."
            )
        return precisions


def refuse_far_rows(*deviations: np.ndarray) -> None:
    """Raise a ValueError if a deviation from the origin, in prior standard deviations, is too large for its square."""
    if not max(np.fmax.reduce(np.abs(part), axis=None, initial=0.0) for part in deviations) < _MOST_DEVIATIONS:
        raise ValueError(
            f"X or mean_prior has values more than {_MOST_DEVIATIONS:g} prior standard deviations from the mean of the "
            "fitted rows: correct them, or use a larger covariance_prior."
        )


def refuse_singular(what: str) -> None:
    """Raise a NoModeError that names a singular covariance."""
    raise NoModeError(
        f"{what} is singular: its rows lie on a hyperplane or are too few, and the prior is too weak: use a larger "
        "covariance_prior, or fewer components where their number is given."
    )
