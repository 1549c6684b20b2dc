"""Initial partitions for mixtures of subspaces: spectral clustering, K-flats, and k-means."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import xlogy
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ...metrics._partitions import compact_labels
from ...numerics.linalg import gram_of_columns, gram_of_rows, symmetric_eigen
from ...random._keys import Purpose, subkey, uniform
from ...random._variates import some_rows
from .._memberships import read_labels
from .family import SubspaceFamily, Subspaces, add_terms

_MAX_ROWS = 5000  # rows of an initial partition; the first sweep labels the others
_MAX_CELLS = 1 << 22  # of these rows, if there are more rows than for the eigenvalue problem
_MAX_SPECTRAL_ROWS = 1000  # rows of the eigenvalue problem; K-flats assigns the others
_MAX_RANKS = 8
_NUMBERS = 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20  # of initial clusters, if their number is inferred
_WORSE = 2  # after so many numbers without a smaller loss no more are tried
_N_KMEANS = 3
_LEAST_DEGREE = 1e-12  # relative degree of a row that is orthogonal to all others
_N_ITERATIONS = 50  # most runs converge within ten iterations
_N_TRIES = 20
_MAX_RESEEDED_ROUNDS = 10  # after these rounds an empty cluster stays empty
_LEAST_ROWS = 4  # rows for each axis of a subspace whose dimension is selected
_SAME_LOSS = 1e-9  # relative tolerance, so that rounding does not decide between equal partitions
_LEAST_NOISE = 1e-10  # noise variance, relative to a mean variance of 1, of rows that lie exactly on subspaces
_MAX_NOISE_ROUNDS = 20
_LEAST_AXIS = 1e-12  # relative variance; with few rows, smaller ones are rounding errors
_LEAST_SPREAD = 1e-7  # relative singular value; smaller ones are rounding errors


def start_partitions(X: np.ndarray, family: SubspaceFamily, init: Any, n_init: int, key: np.uint64) -> list[np.ndarray]:
    """Initial labels, each (n,) int32, -1 for rows not used: those of `init`, or `n_init` partitions of X, (n, m)."""
    K = family.n_components
    if not isinstance(init, str):
        return [read_labels(init, len(X), K, "init must be a name, or").astype(np.int32)]
    if K == 1:
        return [np.zeros(len(X), np.int32)]
    methods = ("spectral", "k-flats", "k-means") if init == "auto" else (init,)
    return [_label_some_rows(X, family, methods[i % len(methods)], subkey(key, i)) for i in range(n_init)]


def start_of_any_number(X: np.ndarray, family: SubspaceFamily, init: Any, key: np.uint64) -> np.ndarray:
    """Initial labels for an inferred number of subspaces: those of `init`, or the partition with the smallest loss."""
    if not isinstance(init, str):
        return compact_labels(read_labels(init, len(X), None, "init must be a name, or"))
    method = "spectral" if init == "auto" else init  # which includes K-flats
    labels, rows = _rows_to_label(X, key)
    chosen, least, n_worse = np.asarray(X[rows]), np.inf, 0
    for number in _NUMBERS:
        if number > len(rows) or n_worse == _WORSE:
            break
        several = family.with_components(number)
        found = _labels_by(method, chosen, several, subkey(key, number)) if number > 1 else np.zeros(len(rows), int)
        loss = KFlats(chosen, number, *_dimensions_of_flats(several)).refine(found, n_iter=0)[1]
        n_worse += 1
        if loss < least:
            least, n_worse, labels[rows] = loss, 0, compact_labels(found)
    return labels


def _rows_to_label(X: np.ndarray, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Labels of -1 for all rows, and the indices of those that get others: all, or random ones."""
    n, m = X.shape
    most = min(n, _MAX_ROWS, max(_MAX_SPECTRAL_ROWS, _MAX_CELLS // m))
    return np.full(n, -1, np.int32), some_rows(key, Purpose.SUBSAMPLE, n, most)


def _label_some_rows(X: np.ndarray, family: SubspaceFamily, method: str, key: np.uint64) -> np.ndarray:
    labels, rows = _rows_to_label(X, key)
    labels[rows] = _labels_by(method, np.asarray(X[rows]), family, key)
    return labels


def _labels_by(method: str, X: np.ndarray, family: SubspaceFamily, key: np.uint64) -> np.ndarray:
    K = family.n_components
    if method == "k-means":
        with warnings.catch_warnings():  # given if there are fewer distinct rows than components
            warnings.simplefilter("ignore", ConvergenceWarning)
            return KMeans(K, n_init=1, random_state=int(key >> np.uint64(32))).fit(X).labels_
    of_flats = _dimensions_of_flats(family)
    if method == "spectral":
        return spectral_labels(X, K, key, *of_flats)
    flats = KFlats(X, K, *of_flats)
    return flats.best(flats.seeds(key))[0]


def _dimensions_of_flats(family: SubspaceFamily) -> tuple[np.ndarray | None, int]:
    """The dimensions that K-flats have, or None if they are inferred, and the largest."""
    possible = np.isfinite(family.log_dimension)
    is_fixed = (possible.sum(axis=1) == 1).all()
    return possible.argmax(axis=1) if is_fixed else None, family.max_dimension


# K-flats


class KFlats:
    """Partitions of rows by K-flats (affine subspaces).

    The loss is that of a Gaussian mixture with hard labels: weights n_k / n, a variance along each axis, one orthogonal
    to all subspaces, and log(n) / 2 for each parameter as in BIC. Distances alone would favour large dimensions, which
    None selects at every refit, up to `max_dimension` and one axis for every four rows: with fewer, a subspace fits any
    rows.
    """

    def __init__(self, X, n_components: int, dimensions=None, max_dimension=None):
        self.rows = coordinates(X)
        self.n_components = n_components
        width = self.rows.shape[1]
        self.inferred = dimensions is None
        if self.inferred:
            most = min(max(1, len(self.rows) // (_LEAST_ROWS * n_components)), width - 1)
            most = most if max_dimension is None else min(most, max_dimension)
            self.dimensions = np.zeros(n_components, np.int64)
        else:
            self.dimensions = np.minimum(np.broadcast_to(np.asarray(dimensions, np.int64), n_components), width)
            most = int(self.dimensions.max())
        self.max_dimension = min(most, width)

    def seed(self, key: np.uint64, n_try: int) -> np.ndarray:
        """Initial partition by subspaces through random rows and their neighbours."""
        dimensions = self.dimensions
        if self.inferred:
            n_sizes = max(1, int(self.max_dimension).bit_length())
            dimensions = np.full(self.n_components, min(1 << n_try % n_sizes, self.rows.shape[1]))
        return seed_subspaces(self.rows, subkey(key, Purpose.START, n_try), dimensions)

    def seeds(self, key: np.uint64, n_tries: int = _N_TRIES) -> list[np.ndarray]:
        """Several initial partitions, with the dimensions 1, 2, 4, ... in turn if dimensions are selected."""
        return [self.seed(key, n_try) for n_try in range(n_tries)]

    def refine(self, labels, n_iter: int = _N_ITERATIONS) -> tuple[np.ndarray, float]:
        """Improve a partition by Lloyd's iterations; returns it and its loss per row, up to a constant.

        There may be fewer clusters if there are few distinct rows.
        """
        (n, width), n_subspaces = self.rows.shape, self.n_components
        labels, dimensions = np.array(labels, np.int64), self.dimensions.copy()
        means, spectra = np.zeros((n_subspaces, width)), np.zeros((n_subspaces, width))
        axes = np.zeros((n_subspaces, self.max_dimension, width))
        for iteration in range(n_iter + 1):
            sizes = np.bincount(labels[labels >= 0], minlength=n_subspaces).astype(np.float64)
            spectra[sizes == 0.0] = 0.0
            for k in np.flatnonzero(sizes):
                means[k], axes[k], spectra[k] = _fit_axes(self.rows[labels == k], self.max_dimension)
            noise, loss = self._fit_spectra(sizes, spectra, dimensions)
            loss -= xlogy(sizes, sizes / n).sum()
            if iteration == n_iter:
                break
            terms = self._log_terms(sizes, means, axes, spectra, dimensions, noise)
            nearest, highest = terms.argmax(axis=1), terms.max(axis=1)
            moved, labels = bool(np.any(nearest != labels)), nearest
            filled = iteration < _MAX_RESEEDED_ROUNDS and _reseed_empty(self.rows, dimensions, labels, highest)
            if not moved and not filled:
                break
        return labels, loss / n

    def _log_terms(self, sizes, means, axes, spectra, dimensions, noise: float) -> np.ndarray:
        """Log of weight times density, (n_rows, K); -inf in a subspace without rows."""
        bases = [of[:d] for of, d in zip(axes, dimensions, strict=True)]
        ratios = [noise / np.maximum(of[:d], noise) for of, d in zip(spectra, dimensions, strict=True)]
        subspaces = Subspaces.of(bases, ratios, means, np.full(len(sizes), 1.0 / noise))
        with np.errstate(divide="ignore"):
            terms = np.repeat(np.log(sizes / len(self.rows))[None], len(self.rows), axis=0)
        add_terms(self.rows, subspaces, subspaces.log_offsets(), terms)
        return terms

    def _fit_spectra(self, sizes, spectra, dimensions) -> tuple[float, float]:
        """Noise variance and loss of the spectra; selects `dimensions`, in place, if they are not given."""
        log_n = math.log(len(self.rows))
        if self.inferred:
            return choose_dimensions_and_noise(sizes, spectra, self.max_dimension, log_n, dimensions)
        noise = _pooled_noise(sizes, spectra, dimensions)
        return float(noise), float(_spectra_loss(sizes, spectra, dimensions, noise, log_n))

    def best(self, starts) -> tuple[np.ndarray, float]:
        """Improve each initial partition; returns the one with the smallest loss, and the loss."""
        refined = [self.refine(labels) for labels in starts]
        least = min(loss for _, loss in refined)
        return next(result for result in refined if result[1] <= least + _SAME_LOSS * (1.0 + abs(least)))


def seed_subspaces(rows, key: np.uint64, dimensions, given=None) -> np.ndarray:
    """Partition by subspaces through single rows and their neighbours; each row is chosen far from the earlier ones.

    `given` are the indices of these rows instead.
    """
    n = len(rows)
    labels, gaps = np.zeros(n, np.int64), np.full(n, np.inf)
    for k, dimension in enumerate(dimensions):
        place, cumulative = uniform(key, k), np.cumsum(gaps)
        chosen = int(place * n)
        if k > 0 and cumulative[-1] > 0.0:
            chosen = min(int(np.searchsorted(cumulative, place * cumulative[-1], side="right")), n - 1)
        chosen = chosen if given is None else given[k]
        mean, axes, _ = _fit_axes(rows[nearest_rows(rows, chosen, min(2 * dimension + 1, n))], dimension)
        centred = rows - mean
        across = np.maximum(_squared_lengths(centred) - _squared_lengths(centred @ axes.T), 0.0)
        labels[across < gaps] = k
        gaps = np.minimum(across, gaps)
    return labels


def nearest_rows(rows, i: int, n_near: int) -> np.ndarray:
    """Indices of the rows nearest to row `i`, which comes first; ties are resolved in favour of lower indices."""
    gaps = _squared_lengths(rows - rows[i])
    gaps[i] = -1.0
    near = np.flatnonzero(gaps <= np.partition(gaps, n_near - 1)[n_near - 1])
    return near[np.argsort(gaps[near], kind="stable")][:n_near]


def _squared_lengths(rows) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)


def _fit_axes(rows, n_axes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of rows, and the leading axes and decreasing spectrum of their scatter, padded with zeros."""
    n, width = rows.shape
    mean = rows.mean(axis=0)
    centred, few = rows - mean, n < width
    values, vectors = symmetric_eigen(gram_of_rows(centred) if few else gram_of_columns(centred))  # ascending
    spectrum, axes = np.zeros(width), np.zeros((n_axes, width))
    spectrum[: len(values)] = np.maximum(values[::-1], 0.0) / n
    n_kept = min(n_axes, np.count_nonzero(spectrum > _LEAST_AXIS * spectrum[0]))
    leading = vectors[:, ::-1][:, :n_kept].T
    axes[:n_kept] = leading @ centred / np.sqrt(n * spectrum[:n_kept, None]) if few else leading
    return mean, axes, spectrum


def choose_dimensions_and_noise(sizes, spectra, max_dimension: int, log_n: float, dimensions) -> tuple[float, float]:
    """Select dimensions, in place, and the shared noise variance by alternating updates; returns noise and loss.

    A small noise variance prefers large dimensions and conversely, so the best of several initial dimensions is kept.
    """
    first = [0]
    while (following := first[-1] + 1 + first[-1] // 4) <= max_dimension:
        first.append(following)
    tried = np.repeat(np.array(first)[:, None], len(sizes), axis=1)
    penalties = log_n * (spectra.shape[1] - np.arange(max_dimension))
    gains = np.zeros((*tried.shape, max_dimension + 1))
    for _ in range(_MAX_NOISE_ROUNDS):
        noise = _pooled_noise(sizes, spectra, tried)
        # Directions beyond the noise come first; the others only have a penalty.
        ratios = np.maximum(spectra[:, :max_dimension] / noise[:, None, None], 1.0)
        np.cumsum(sizes[:, None] * (ratios - 1.0 - np.log(ratios)) - penalties, axis=2, out=gains[..., 1:])
        before, tried = tried, gains.argmax(axis=2)
        if np.array_equal(tried, before):
            break
    noise = _pooled_noise(sizes, spectra, tried)
    losses = _spectra_loss(sizes, spectra, tried, noise, log_n)
    best = int(losses.argmin())
    dimensions[:] = tried[best]
    return float(noise[best]), float(losses[best])


def _pooled_noise(sizes, spectra, dimensions) -> np.ndarray:
    """Variance orthogonal to subspaces of these dimensions, (..., K): mean of the remaining eigenvalues of all."""
    width = spectra.shape[1]
    across = np.where(np.arange(width) >= dimensions[..., None], spectra, 0.0).sum(axis=-1) @ sizes
    return np.maximum(across / np.maximum((width - dimensions) @ sizes, 1.0), _LEAST_NOISE)


def _spectra_loss(sizes, spectra, dimensions, noise, log_n: float) -> np.ndarray:
    """Negative log-likelihood of the rows given their subspaces, up to a constant, plus log(n) / 2 per parameter."""
    width, noise = spectra.shape[1], np.asarray(noise)[..., None, None]
    is_along = np.arange(width) < dimensions[..., None]
    variances = np.where(is_along, np.maximum(spectra, noise), noise)
    # A mean, d orthogonal axes and d variances
    n_parameters = width + dimensions * width - dimensions * (dimensions - 1) // 2
    fits = (np.log(variances) + spectra / variances).sum(axis=-1)
    return 0.5 * (fits @ sizes + log_n * n_parameters @ (sizes > 0.0))


def _reseed_empty(rows, dimensions, labels, terms) -> bool:
    """Give each empty cluster the row with the lowest density and its neighbours; returns whether there was one."""
    empty = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=len(dimensions)) == 0)
    for n_filled, k in enumerate(empty):
        worst = terms.argmin()
        if terms[worst] == np.inf:  # no row is left
            return n_filled > 0
        near = nearest_rows(rows, worst, max(1, min(2 * dimensions[k] + 1, len(rows) // len(dimensions))))
        labels[near], terms[near] = k, np.inf
    return len(empty) > 0


def coordinates(X) -> np.ndarray:
    """Centred rows in the axes of their span, scaled to a mean variance of 1.

    Directions without variance are removed. They contain no information, and would bias the noise variance to zero.
    """
    centred = np.asarray(X, float) - np.mean(X, axis=0)
    scale = np.abs(centred).max(initial=0.0)
    if scale == 0.0:
        return np.zeros((len(centred), 1))
    left, sizes, _ = np.linalg.svd(centred / scale, full_matrices=False)
    kept = sizes > _LEAST_SPREAD * sizes[0]
    spread = np.sqrt(np.mean(np.square(sizes[kept])) / len(centred))
    return np.ascontiguousarray(left[:, kept] * (sizes[kept] / spread))


# Spectral clustering


def spectral_labels(
    X, n_components: int, key: np.uint64, dimensions=None, max_dimension: int | None = None
) -> np.ndarray:
    """Labels, (n_rows,), of K-flats from spectral clusters and from random subspaces; the smallest loss decides.

    Spectral clustering separates independent subspaces, random initialisation also those that intersect; each alone
    fails in some cases.
    """
    flats = KFlats(X, n_components, dimensions, max_dimension)
    n = len(flats.rows)
    if n > _MAX_SPECTRAL_ROWS:
        some, labels = some_rows(key, Purpose.SUBSAMPLE, n, _MAX_SPECTRAL_ROWS), np.full(n, -1)
        labels[some] = spectral_labels(flats.rows[some], n_components, key, dimensions, max_dimension)
        return flats.refine(labels)[0]
    return flats.best(spectral_partitions(flats.rows, n_components, key) + flats.seeds(key))[0]


def spectral_partitions(rows, n_components: int, key: np.uint64) -> list[np.ndarray]:
    """Spectral clusters of the shape interaction matrix, one partition for each of a few ranks.

    With a constant column, the left singular vectors of rows on independent affine subspaces are orthogonal between
    subspaces (Costeira and Kanade, 1998). With noise the rank is unknown, and strongly affects the result.
    """
    n = len(rows)
    if n <= n_components:
        return [np.arange(n)]
    size = np.sqrt(rows.shape[1])  # the typical length of a row
    vectors, _, _ = np.linalg.svd(np.column_stack([rows, np.full(n, size)]), full_matrices=False)
    most = vectors.shape[1]
    ranks = np.unique(np.rint(np.geomspace(min(n_components + 1, most), most, _MAX_RANKS)).astype(int))
    return [_normalised_cut(_interaction(vectors[:, :rank]), n_components, key) for rank in ranks]


def _interaction(vectors) -> np.ndarray:
    """Fourth powers of cosines between rows: close to 1 only for some rows of one subspace, small between subspaces."""
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(sizes > 0.0, sizes, 1.0)
    affinity = np.square(np.square(directions @ directions.T))
    np.fill_diagonal(affinity, 0.0)
    return affinity


def _normalised_cut(affinity, n_components: int, key: np.uint64) -> np.ndarray:
    """Labels by the normalised cut: k-means on the eigenvectors of the random walk."""
    n = len(affinity)
    degrees = affinity.sum(axis=1)
    scales = 1.0 / np.sqrt(np.maximum(degrees, _LEAST_DEGREE * max(degrees.max(), 1.0)))
    affinity *= scales
    affinity *= scales[:, np.newaxis]
    _, places = eigh(affinity, subset_by_index=[n - n_components, n - 1], overwrite_a=True, check_finite=False)
    places *= scales[:, np.newaxis]
    seed = int(subkey(key, Purpose.START) >> np.uint64(32))
    return KMeans(n_components, n_init=_N_KMEANS, random_state=seed).fit(places).labels_.astype(np.int64)
