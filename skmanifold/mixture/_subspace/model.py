"""The posterior of a mixture of affine subspaces, with the updates that samplers use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...emissions._dense_rows import DenseRows
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import gamma_variate
from ...utils._threads import Workers, split_range
from .._memberships import DirichletWeights, Position
from .._scores import draw_labels_of_terms
from .family import MOST, SubspaceFamily, Subspaces, add_log_terms, add_moments
from .frame_kernels import best_dimension, draw_centre, move_directions, move_frame, sum_of_squares
from .missing_kernels import Loadings, add_terms_of_incomplete, draw_missing
from .moments import StreamMoments
from .sparse_rows import SparseRows, blocks, sum_of_blocks
from .tilt_kernels import complete_frame, spectrum, with_axes

_ROWS, _TASKS = 2048, 32  # minimum number of rows of a task, and maximum number of tasks
_MOMENTS_AT_ONCE = 1 << 25  # approximate maximum number of products of all tasks
_LEAST_NOISE = 1e-10  # initial noise variance relative to that of the rows, which may lie exactly on subspaces
# While initial partitions are compared, the dimension is at most the larger of this number and the number of rows per
# component divided by the second.
_START_DIMENSION = 8
_START_ROWS = 20
_WIDE = 32  # with more features and few rows, the rows are used instead of scatter matrices
MOST_FEATURES_OF_SCATTERS = 2000  # with more, there are no scatter matrices
_MANY = 1 << 15  # with more rows, moments of equal labels are computed once
_LEAST_RATIO = 1e-12  # of precisions in the initial state
_MOST_KEPT = 64  # features of a single subspace whose whole frame is kept

Restrict = Callable[[np.ndarray, int], None]  # of terms, in place, from a row on: -inf for labels that are excluded


def _allow_all(terms: np.ndarray, first: int) -> None:
    """Each row may have each label."""


@dataclass(eq=False)
class SubspaceModel:
    r"""Rows :math:`x_i` from a mixture of K affine subspaces, with conjugate updates of labels and subspaces.

    .. math:: x_i \mid z_i = k \sim N(c_k, \Sigma_k), \quad
        \Sigma_k^{-1} = g_k (I - U_k (I - \mathrm{diag}(r_k)) U_k'), \quad 0 < r_{kj} < 1.

    X, (n, m), C-contiguous float64, has the rows minus the location of the prior. `starts` are initial partitions,
    (n,), and `n_adapting` is the number of first steps in which a sampler may adapt.
    """

    X: np.ndarray
    family: SubspaceFamily
    weights: DirichletWeights
    starts: Sequence[np.ndarray]
    workers: Workers
    n_adapting: int = 0

    @property
    def n_features(self) -> int:
        """Number of features m."""
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.X)

    @property
    def complete(self) -> SubspaceModel:
        """The model of completed rows, which are those of X."""
        return self

    def with_components(self, n_components: int) -> SubspaceModel:
        """The model with this number of components, which all have the prior of the first."""
        return replace(self, family=self.family.with_components(n_components))

    def with_starts(self, starts: Sequence[np.ndarray]) -> SubspaceModel:
        """The model with other initial partitions."""
        return replace(self, starts=starts)

    def labels_of(self, latents: Any) -> np.ndarray:
        """Labels, (n,), of what `draw_labels` returns."""
        return latents

    def rows_of(self, latents: Any) -> np.ndarray:
        """Rows without missing cells, (n, m)."""
        return self.X

    # Labels

    def draw_labels(
        self, subspaces: Subspaces, offsets: np.ndarray, key: np.uint64, restrict: Restrict = _allow_all
    ) -> tuple[np.ndarray, float]:
        """Draw labels given subspaces, (n,) int32; also returns the sum of the log densities. `offsets` are (K,)."""
        labels, log_density = np.empty(len(self.X), np.int32), np.empty(len(self.X))

        def draw(first: int, stop: int) -> None:
            terms = np.zeros((stop - first, len(offsets)))
            add_log_terms(np.asarray(self.X[first:stop]), 0, stop - first, *subspaces, offsets, terms)
            restrict(terms, first)
            of_rows = labels[first:stop], log_density[first:stop]
            draw_labels_of_terms(terms, key, first, np.empty(2 * terms.size), *of_rows)

        self.workers.run(draw, split_range(len(self.X), _ROWS))
        return labels, float(log_density.sum())

    def moments(self, labels: np.ndarray, origins: np.ndarray) -> Moments:
        """Moments of the rows of each component; `origins`, (K, m), are points near the means."""
        m = self.n_features
        n_tasks = min(_TASKS, 1 + _MOMENTS_AT_ONCE // (len(origins) * m * m))
        pieces = split_range(len(self.X), max(_ROWS, -(-len(self.X) // n_tasks)))
        shape = len(pieces), len(origins)
        sizes, sums, products = np.zeros(shape, np.int64), np.zeros((*shape, m)), np.zeros((*shape, m, m))

        def add(i: int, first: int, stop: int) -> None:
            X, own = self.X[first:stop], labels[first:stop]
            for block in blocks(X):
                rows = np.asarray(X[block])
                add_moments(rows, 0, len(rows), own[block], origins, sizes[i], sums[i], products[i])

        self.workers.run(add, [(i, *ab) for i, ab in enumerate(pieces)])
        n, total, squares = sizes.sum(axis=0), sums.sum(axis=0), products.sum(axis=0)
        means = total / np.maximum(n, 1)[:, None]
        lower = np.tril(squares) + np.tril(squares, -1).mT
        scatters = lower - n[:, None, None] * means[:, :, None] * means[:, None, :]
        return Moments(n, np.where(n[:, None] > 0, means + origins, 0.0), scatters)

    # Subspaces

    def draw_subspaces(self, position: Position, labels: np.ndarray, n_sweeps: int, key: np.uint64) -> Position:
        """Update centres, frames and dimensions, then noise and weights, given labels."""
        return self._draw_given(position, self._summarise(labels, position.parameters.centres), n_sweeps, key)

    def blend(
        self, before: StreamMoments | None, position: Position, labels: np.ndarray, rate: float, scale: float
    ) -> StreamMoments:
        """Moments of a stream after a minibatch with these labels, whose rows have the weight `scale` each."""
        new = self.moments(labels, position.parameters.centres)
        scaled = StreamMoments(scale * new.counts, new.means, scale * new.scatters, float(self.n_rows))
        return scaled if before is None else before.blend(scaled, rate)

    def draw_given_moments(self, position: Position, moments: StreamMoments, n_sweeps: int, key: np.uint64) -> Position:
        """Update the parameters given the moments of a stream."""
        shares, means, scatters, n_rows = moments
        return self._draw_given(position, Moments(n_rows * shares, means, n_rows * scatters), n_sweeps, key)

    def _draw_given(self, position: Position, summary: Moments | Members, n_sweeps: int, key: np.uint64) -> Position:
        subspaces = position.parameters
        keys = [subkey(key, Purpose.COMPONENTS, k) for k in range(len(subspaces.dims))]
        tasks = [(k, summary, subspaces, n_sweeps, own) for k, own in enumerate(keys)]
        bases, ratios, centres, squares = zip(*self.workers.run(self._move, tasks), strict=True)
        noise = self.draw_noise(summary.counts, np.array(squares), subkey(key, Purpose.NOISE_PRECISION))
        drawn = Subspaces.of(bases, ratios, np.array(centres), noise)
        return Position(self.weights.draw(summary.counts, key), drawn)

    def draw_noise(self, counts: np.ndarray, squares: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw noise precisions, (K,)."""
        prior = self.family
        if prior.shared_noise:
            counts, squares = counts.sum(keepdims=True), squares.sum(keepdims=True)
        shapes = prior.noise_shape + 0.5 * counts * self.n_features
        keys = fold_in_each(key, np.arange(len(shapes)))
        drawn = [gamma_variate(*of) for of in zip(keys, shapes, strict=True)] / (prior.noise_rate + 0.5 * squares)
        return np.array(np.broadcast_to(np.clip(drawn, 1e-300, MOST), prior.n_components))

    def _move(self, k: int, summary: Moments | Members, subspaces: Subspaces, n_sweeps: int, key: np.uint64):
        """Update the centre and the frame of one component; also returns its sum of squares."""
        prior, n, noise = self.family, int(summary.counts[k]), subspaces.noise[k]
        basis, ratios = subspaces.basis(k), subspaces.ratios[k, : subspaces.dims[k]].copy()
        of_rows = noise, n, summary.means[k]
        centre = draw_centre(basis, ratios, *of_rows, prior.centre_variance, subkey(key, Purpose.CENTRES))
        Y = summary.factor(k, centre)
        of_prior = prior.log_dimension[k], prior.ratio_shape
        of_move = n, noise, *of_prior, n_sweeps, subkey(key, Purpose.FRAMES)
        basis, ratios, squares = move_frame(Y, basis, ratios, *of_move)
        return basis, ratios, centre, squares

    def _summarise(self, labels: np.ndarray, origins: np.ndarray) -> Moments | Members:
        m = self.n_features
        many = isinstance(self.X, SparseRows) or len(self.X) >= m * len(origins)
        if m > MOST_FEATURES_OF_SCATTERS or (m > _WIDE and not many):
            return Members(self.X, [np.flatnonzero(labels == k) for k in range(len(origins))])
        if len(self.X) < _MANY:
            return self.moments(labels, origins)
        # About rows, the moments depend on the labels alone, so those of the last labels of any chain can serve again.
        known, moments = vars(self).get("_last", (None, None))
        if known is None or not np.array_equal(known, labels):
            present, rows = np.unique(labels, return_index=True)
            origins = np.zeros_like(origins)
            origins[present[present >= 0]] = np.asarray(self.X[rows[present >= 0]])
            moments = self.moments(labels, origins)
            self._last = labels, moments
        return moments

    # Initial states

    @cached_property
    def beginnings(self) -> list[tuple[np.ndarray, Position]]:
        """Initial labels and the parameters fitted to them; computed once for all chains."""
        return [(labels, self.fit_subspaces(labels)) for labels in self.starts]

    @cached_property
    def start_model(self) -> SubspaceModel:
        """The model of the rows of initial partitions with a smaller maximum dimension, to compare the partitions."""
        log_dimension, rows = self.family.log_dimension, self.start_rows
        lowest = np.isfinite(log_dimension).argmax(axis=1).max()
        highest = max(_START_DIMENSION, len(self.X) // (_START_ROWS * len(log_dimension)), lowest)
        family = self.family._replace(log_dimension=np.ascontiguousarray(log_dimension[:, : highest + 1]))
        if len(rows) == len(self.X):
            return self if highest >= log_dimension.shape[1] - 1 else replace(self, family=family)
        # The default prior of the noise is equivalent to a share of all cells, and would dominate those of few rows.
        share = len(rows) / len(self.X)
        shape, rate = 1.0 + share * (family.noise_shape - 1.0), share * family.noise_rate
        family = family._replace(noise_shape=shape, noise_rate=rate)
        return replace(self, X=self.X[rows], starts=[labels[rows] for labels in self.starts], family=family)

    @cached_property
    def start_rows(self) -> np.ndarray:
        """Indices of the rows that an initial partition has labels for; all without partitions."""
        return np.flatnonzero(np.max([*self.starts] or np.zeros((1, len(self.X))), axis=0) >= 0)

    def fit_subspaces(self, labels: np.ndarray) -> Position:
        """Subspaces fitted to the rows with these labels by least squares; BIC selects the dimensions."""
        prior, K, m = self.family, self.family.n_components, self.n_features
        summary = self._summarise(labels, np.zeros((K, m)))
        least = prior.noise_rate / prior.noise_shape
        squares = sum_of_blocks(lambda rows: np.einsum("ia,ia->", rows, rows), self.X)
        overall = max(squares / self.X.size, least)  # rows may be constant
        factors = [summary.factor(k, summary.means[k]) for k in range(K)]
        allowed = np.isfinite(prior.log_dimension)
        fits = [_fit_component(*of, overall) for of in zip(factors, summary.counts, allowed, strict=True)]
        bases, along, across = zip(*fits, strict=True)
        cells = summary.counts * float(m)
        squares = cells * across
        if prior.shared_noise:
            cells, squares = cells.sum(keepdims=True), squares.sum(keepdims=True)
        variances = np.resize((prior.noise_rate + 0.5 * squares) / (prior.noise_shape + 0.5 * cells), K)
        ratios = [np.clip(noise / of, _LEAST_RATIO, 1.0) for noise, of in zip(variances, along, strict=True)]
        fitted = Subspaces.of(bases, ratios, summary.means, np.minimum(1.0 / variances, MOST))
        return Position(DirichletWeights(1.0).mode(summary.counts), fitted)


class SingleSubspaceModel(SubspaceModel):
    """`SubspaceModel` for one component, whose rows never change, so that their scatter is computed once.

    With few features its states have an orthonormal frame of all m directions, the first ``dims[0]`` of which are the
    basis; no direction is proposed.
    """

    @cached_property
    def _all_rows(self) -> Moments | Members:
        return super()._summarise(np.zeros(len(self.X), np.int32), self.X.mean(axis=0)[None])

    def _summarise(self, labels: np.ndarray, origins: np.ndarray) -> Moments | Members:
        return self._all_rows

    def draw_labels(
        self, subspaces: Subspaces, offsets: np.ndarray, key: np.uint64, restrict: Restrict = _allow_all
    ) -> tuple[np.ndarray, float]:
        """Labels, which are 0, and the sum of the log densities."""
        Y, n = self._all_rows.factor(0, subspaces.centres[0]), len(self.X)
        squares = sum_of_squares(Y, subspaces.basis(0), subspaces.ratios[0, : subspaces.dims[0]])
        return np.zeros(n, np.int32), float(n * offsets[0] - 0.5 * subspaces.noise[0] * squares)

    def draw_subspaces(self, position: Position, labels: np.ndarray, n_sweeps: int, key: np.uint64) -> Position:
        """Update the centre, the frame, the dimension and the noise."""
        if self.n_features > _MOST_KEPT:
            return super().draw_subspaces(position, labels, n_sweeps, key)
        subspaces, prior = position.parameters, self.family
        noise, n, frame = subspaces.noise[0], len(self.X), subspaces.bases[0]
        d, ratios = subspaces.dims[0], subspaces.ratios[0]
        of_rows = noise, n, self._all_rows.means[0]
        centre = draw_centre(frame[:d], ratios[:d], *of_rows, prior.centre_variance, subkey(key, Purpose.CENTRES))
        if len(frame) < self.n_features:
            frame = complete_frame(frame[:d], self.n_features, subkey(key, Purpose.COMPLETION))
        Y, of_prior = self._all_rows.factor(0, centre), (prior.log_dimension[0], prior.ratio_shape)
        of_frames = n_sweeps, subkey(key, Purpose.FRAMES)
        frame, d, ratios = move_directions(Y, frame, d, ratios, n, noise, *of_prior, *of_frames)
        squares = np.array([sum_of_squares(Y, frame[:d], ratios[:d])])
        drawn = self.draw_noise(self._all_rows.counts, squares, subkey(key, Purpose.NOISE_PRECISION))
        return Position(np.ones(1), Subspaces(frame[None], np.array([d]), ratios[None], centre[None], drawn))

    @property
    def start_model(self) -> SingleSubspaceModel:
        """The same model: there is only one partition."""
        return self

    def fit_subspaces(self, labels: np.ndarray) -> Position:
        """The subspace along the first principal axes whose dimension has the highest posterior density."""
        prior, mean, n, m = self.family, self._all_rows.means, len(self.X), self.n_features
        lowest = int(np.isfinite(prior.log_dimension[0]).argmax())
        scatters, axes = _principal_axes(self._all_rows.factor(0, mean[0]), m if m <= _MOST_KEPT else lowest)
        of_prior = prior.ratio_shape, prior.noise_shape, prior.noise_rate
        d, noise = best_dimension(scatters, n, prior.log_dimension[0, : len(axes) + 1], *of_prior)
        noise = min(noise, MOST)
        ratios = np.ones(len(axes))
        ratios[:d] = np.clip(n / (noise * np.maximum(scatters[:d], 1e-300)), _LEAST_RATIO, 1.0)
        return Position(np.ones(1), Subspaces(axes[None], np.array([d]), ratios[None], mean, np.array([noise])))


class CompletedRows(NamedTuple):
    """What a chain draws for each row: its label, and its missing cells."""

    labels: np.ndarray  # (n,) int32
    rows: np.ndarray  # (n, m)


@dataclass(eq=False)
class IncompleteSubspaceModel:
    r"""Rows with missing cells from a mixture of affine subspaces.

    Labels are drawn given the observed cells, missing cells given these and the label, and subspaces given all. `rows`
    are those of X, minus the location of the prior; `complete` has initial values in the missing cells.
    """

    rows: DenseRows
    complete: SubspaceModel

    @cached_property
    def beginnings(self) -> list[tuple[CompletedRows, Position]]:
        """Initial labels and rows, and the parameters fitted to them."""
        return [(CompletedRows(labels, self.complete.X), position) for labels, position in self.complete.beginnings]

    @cached_property
    def start_model(self) -> IncompleteSubspaceModel:
        """The model of the rows of initial partitions with a smaller maximum dimension."""
        return replace(self, rows=self.rows.take(self.complete.start_rows), complete=self.complete.start_model)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.rows.n_rows

    def with_components(self, n_components: int) -> IncompleteSubspaceModel:
        """The model with this number of components, which all have the prior of the first."""
        return replace(self, complete=self.complete.with_components(n_components))

    def with_starts(self, starts: Sequence[np.ndarray]) -> IncompleteSubspaceModel:
        """The model with other initial partitions."""
        return replace(self, complete=self.complete.with_starts(starts))

    def labels_of(self, latents: Any) -> np.ndarray:
        """Labels, (n,), of what `draw_labels` returns."""
        return latents.labels

    def rows_of(self, latents: Any) -> np.ndarray:
        """Rows without missing cells, (n, m)."""
        return latents.rows

    def draw_labels(
        self, subspaces: Subspaces, offsets: np.ndarray, key: np.uint64, restrict: Restrict = _allow_all
    ) -> tuple[CompletedRows, float]:
        """Draw labels and missing cells; also returns the sum of the log densities of the observed cells."""
        X, loadings, patterns = self.rows.values, Loadings.of(subspaces), self.rows.patterns
        labels, log_density, completed = np.empty(len(X), np.int32), np.empty(len(X)), np.empty(X.shape)
        log_weights, of_cells = offsets - subspaces.log_offsets(), subkey(key, Purpose.MISSING_CELLS)

        def draw(first: int, stop: int) -> None:
            terms = np.repeat(log_weights[np.newaxis], stop - first, axis=0)
            add_terms_of_incomplete(X, patterns, first, stop, *loadings, terms)
            restrict(terms, first)
            of_rows = labels[first:stop], log_density[first:stop]
            draw_labels_of_terms(terms, key, first, np.empty(2 * terms.size), *of_rows)
            draw_missing(X, first, stop, labels, 0, *loadings, of_cells, completed)

        self.complete.workers.run(draw, split_range(len(X), _ROWS))
        return CompletedRows(labels, completed), float(log_density.sum())

    def draw_subspaces(self, position: Position, labels: CompletedRows, n_sweeps: int, key: np.uint64) -> Position:
        """Update the parameters given labels and rows."""
        model = replace(self.complete, X=labels.rows)
        return model.draw_subspaces(position, labels.labels, n_sweeps, key)

    def blend(self, before: Any, position: Position, labels: CompletedRows, rate: float, scale: float) -> StreamMoments:
        """Moments of a stream after a minibatch with these labels and completed rows."""
        return replace(self.complete, X=labels.rows).blend(before, position, labels.labels, rate, scale)

    def draw_given_moments(self, position: Position, moments: StreamMoments, n_sweeps: int, key: np.uint64) -> Position:
        """Update the parameters given the moments of a stream."""
        return self.complete.draw_given_moments(position, moments, n_sweeps, key)


class Moments:
    """Sizes, means (zero without rows) and scatters of components about them; factors of scatters about any centre."""

    def __init__(self, counts: np.ndarray, means: np.ndarray, scatters: np.ndarray):
        self.counts, self.means, self.scatters = counts, means, scatters
        self._factors: dict[int, np.ndarray] = {}  # about the means

    def factor(self, k: int, centre: np.ndarray) -> np.ndarray:
        """Y, of at most m + 1 rows, with Y'Y the scatter of component k about `centre`."""
        if k not in self._factors:
            values, vectors = np.linalg.eigh(self.scatters[k])
            kept = values > 0.0
            self._factors[k] = (np.sqrt(values[kept]) * vectors[:, kept]).T
        return np.vstack([self._factors[k], np.sqrt(self.counts[k]) * (self.means[k] - centre)])


class Members:
    """Rows of each component, used if there are too few for scatter matrices."""

    def __init__(self, X: np.ndarray, rows: list[np.ndarray]):
        self.X = X
        self.rows = rows
        self.counts = np.array([len(of) for of in rows])
        self.means = np.array([X[of].mean(axis=0) if len(of) else np.zeros(X.shape[1]) for of in rows])

    def factor(self, k: int, centre: np.ndarray) -> np.ndarray:
        """Y, of at least one row, with Y'Y the scatter of component k about `centre`."""
        rows = np.asarray(self.X[self.rows[k]] - centre)
        return rows if len(rows) else np.zeros((1, self.X.shape[1]))


def _principal_axes(Y: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Y'Y, (m,), decreasing, and eigenvectors as rows, at least this many."""
    nothing = np.empty((0, Y.shape[1]))
    leading, axes, rest = with_axes(*spectrum(Y, nothing), nothing, np.int64(least))
    scatters = np.full(Y.shape[1], rest)
    scatters[: len(leading)] = leading
    return scatters, axes


def _fit_component(Y: np.ndarray, n: int, allowed: np.ndarray, overall: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Basis, variances along it and orthogonal to it, for n rows with scatter Y'Y; BIC selects the dimension."""
    m, choices = Y.shape[1], np.flatnonzero(allowed)
    if n == 0:
        return np.eye(m)[: choices[0]], np.full(choices[0], overall), overall
    scatters, axes = _principal_axes(Y, int(choices[0]))
    values = np.maximum(scatters / n, _LEAST_NOISE * overall)
    rest = np.cumsum(values[::-1])[::-1] / np.arange(m, 0, -1)  # mean variance orthogonal to the first d axes
    costs = np.full(m, np.inf)
    for d in choices[choices <= len(axes)]:
        n_free = d * m - d * (d - 1) / 2 + m + 1
        costs[d] = n * (np.log(values[:d]).sum() + (m - d) * np.log(rest[d])) + n_free * np.log(max(n, 2))
    d = int(costs.argmin())
    return np.ascontiguousarray(axes[:d]), values[:d], rest[d]
