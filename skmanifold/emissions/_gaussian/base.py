"""What Gaussian families share: priors, parameters, statistics and word vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...utils._conditions import (
    MOST_COUNTED,
    Array,
    Condition,
    Counted,
    Either,
    Lacking,
    OrNone,
    Real,
    Sizes,
    Whole,
)
from ...utils._declared import Held, holds
from ...utils._threads import split_range
from .._base import NoModeError, check_shapes
from .._dense_rows import DenseRows, IncompleteRows
from .._family import Family
from .._protocols import Arrays, TokenCounts
from .._seeds import cluster_rows, cluster_vectors
from .kernels import add_counted_products, add_labelled_products, add_shared_products

_N_PROBES = 2  # random vectors that check whether factors belong to covariances
_TOLERANCE = 0.01  # allows for rounding errors with condition numbers up to 1e12
LOG_2PI = math.log(2.0 * math.pi)
_MOST_DEVIATIONS = 1e35  # from a row to the origin, so that products of a few squares are finite
LEAST_SHARE = 1e-12  # share of a feature's variance that the features before it must leave unexplained


_SPREADS = Either(  # matrices, or variances, of components
    lambda value: np.ndim(value) == 3,
    Array("float64", ("n_components", "n_dimensions", "n_dimensions")),
    Array("float64", ("n_components", "n_dimensions"), above=0),
)


@holds(
    mean=Array("float64", ("n_dimensions",)),
    mean_precision=Real(low=0, high=MOST_COUNTED),
    covariance=Either(
        lambda value: np.ndim(value) == 2,
        Array("float64", ("n_dimensions", "n_dimensions")),
        Array("float64", (None,), low=0),
    ),
    degrees=Real(low=-MOST_COUNTED, high=MOST_COUNTED),
)
class NormalPrior(NamedTuple):
    """Normal-inverse-Wishart prior, or normal-inverse-gamma prior."""

    mean: np.ndarray  # (d,)
    mean_precision: float  # in rows
    covariance: np.ndarray  # (d, d); variances (d,), or one variance of all features, (1,)
    degrees: float


def parameters_agree(parameters: GaussianParameters, sizes: Sizes) -> str | None:
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
        # F C F' must be the identity: products with random vectors show it in the time that reading the matrices takes.
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


@holds(
    parameters_agree,
    means=Array("float64", ("n_components", "n_dimensions")),
    covariances=_SPREADS,
    factors=_SPREADS,
    offsets=Array("float64", ("n_components",)),
)
class GaussianParameters(NamedTuple):
    """Parameters of K components, in the form that the kernels read."""

    means: np.ndarray  # (K, d)
    covariances: np.ndarray  # (K, d, d), or variances (K, d)
    factors: np.ndarray  # inverses of the Cholesky factors of covariances, (K, d, d), or precisions (K, d)
    offsets: np.ndarray  # log densities at the means, (K,)


def _tied_agree(parameters: TiedParameters, sizes: Sizes) -> str | None:
    means, covariances, factors, offsets = parameters
    matrices = covariances[np.newaxis], factors[np.newaxis]
    return parameters_agree(GaussianParameters(means, *matrices, offsets), sizes)


@holds(
    _tied_agree,
    means=Array("float64", ("n_components", "n_dimensions")),
    covariances=Array("float64", ("n_dimensions", "n_dimensions")),
    factors=Array("float64", ("n_dimensions", "n_dimensions")),
    offsets=Array("float64", ("n_components",)),
)
class TiedParameters(NamedTuple):
    """Parameters of K components with one covariance, in the form that the kernels read."""

    means: np.ndarray  # (K, d)
    covariances: np.ndarray  # (d, d)
    factors: np.ndarray  # inverse of the Cholesky factor of the covariance, (d, d)
    offsets: np.ndarray  # log densities at the means, which are equal, (K,)


def family_agrees(family: GaussianFamily, sizes: Sizes) -> str | None:
    full = family.has_matrices
    if (family.prior.covariance.ndim == 2) != full or family._width != (family.n_features if full else 1):
        return "has a prior of another shape"
    wanted = 1 if getattr(family, "spherical", False) else family.n_features
    return None if len(family.prior.covariance) == wanted else "has a prior of another shape"


OF_GAUSSIANS: dict[str, Condition] = {
    "origin": Array("float64", ("n_dimensions",)),
    "prior": Held(NormalPrior),
    "n_components": Counted("n_components"),
    "n_features": Counted("n_dimensions"),
    "_width": Whole(low=1),
    "word_vectors": Lacking(OrNone(Array("float64", ("n_tokens", "n_dimensions")))),
    "word_weights": Lacking(OrNone(Array("float64 int64", ("n_tokens",), low=0))),
}


class GaussianFamily(Family):
    """Base class of Gaussian families: statistics are sizes, sums, and sums of products about an origin.

    Parameters
    ----------
    prior : NormalPrior
        Prior of the means and covariances.
    n_components : int
        Number of components K.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    parameters_type: ClassVar[type | None] = GaussianParameters
    has_matrices = True  # whether covariances are matrices
    word_weights: np.ndarray | None = None  # counts of the word vectors in the data of the fit

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
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        check_shapes(parameters, self.parameter_shapes())

    def seed_weighted_labels(self, rows: DenseRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means, with features scaled to equal ranges."""
        return cluster_rows(rows.values, self.n_components, key, row_weights)

    def sum_labels(
        self, rows: DenseRows | IncompleteRows, first: int, stop: int, first_block: int, labels: np.ndarray
    ) -> BlockSums:
        """Sizes, sums and products of rows given their labels; missing cells are at the origin."""

        def add(start, stop, *arrays):
            self._add_labelled(rows, first + start, first + stop, labels[start:stop], *arrays)

        return self.sum_blocks(stop - first, first_block, add)

    def sum_shares(
        self, rows: DenseRows | IncompleteRows, first: int, stop: int, first_block: int, shares: np.ndarray
    ) -> BlockSums:
        """Sizes, sums and products of rows given their shares; missing cells are at the origin."""

        def add(start, stop, *arrays):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                of_rows = first + start + a, first + start + b, shares[start + a : start + b]
                self._add_shared(rows, *of_rows, *(array[block] for array in arrays))

        return self.sum_blocks(stop - first, first_block, add)

    def feature_variances(self, parameters: Any) -> np.ndarray:
        """Variances of the features within components, summed over components."""
        covariances = parameters.covariances
        return np.einsum("kvv->v" if covariances.ndim == 3 else "kv->v", covariances)

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of word vectors by component."""
        _, sums, products, *others = map(np.zeros, self.shapes())
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
        return cluster_vectors(self.word_vectors, self.word_weights, self.n_components, key)

    def attributes(self, parameters: GaussianParameters) -> dict[str, np.ndarray]:
        """The fitted attributes ``components_``, the means, and ``covariances_``."""
        return {"components_": parameters.means, "covariances_": parameters.covariances}

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> GaussianParameters:
        """The parameters with these means and covariances."""
        return self._parameters(attributes["components_"] - self.origin, attributes["covariances_"])

    if TYPE_CHECKING:  # each subclass defines these

        def _parameters(self, means: np.ndarray, covariances: np.ndarray) -> Any: ...

        def _add_densities(self, X, first, stop, parameters, out): ...

    def _add_labelled(self, rows, first, stop, labels, *arrays):
        """Add rows to the statistics of their labels, by blocks of rows."""
        X = rows.filled(first, stop, self.origin)
        add_labelled_products(X, 0, len(X), BLOCK_ROWS, labels, self.origin, *arrays)

    def _add_shared(self, rows, first, stop, shares, *arrays):
        """Add rows of one block to the statistics of all components."""
        X = rows.filled(first, stop, self.origin)
        add_shared_products(X, 0, len(X), shares, self.origin, *arrays)

    def _precisions(self, counts: np.ndarray) -> np.ndarray:
        """Precisions of the components' means in rows, or in observed cells; a NoModeError if one is zero."""
        precisions = self.prior.mean_precision + counts
        if not precisions.min() > 0.0:
            component = int(np.argmin(precisions)) // (precisions.size // len(precisions))
            lacks = "a column without observed cells" if counts[component].max() > 0.0 else "no rows"
            raise NoModeError(
                f"Component {component} has {lacks}, and mean_precision_prior=0 gives its mean no "
                "prior: use fewer components, or a positive mean_precision_prior."
            )
        return precisions

    def _check_proper(self, least_degrees: float, definite: bool) -> None:
        prior = self.prior
        if prior.mean_precision <= 0.0 or prior.degrees <= least_degrees or not definite:
            raise ValueError(
                "Draws of Gaussian components need a proper prior: mean_precision_prior above 0, "
                f"degrees_of_freedom_prior above {least_degrees:g} and a positive definite covariance_prior."
            )


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
