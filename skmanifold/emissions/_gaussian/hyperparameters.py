"""The numbers of a prior of Gaussian components: the most probable ones given a partition, and draws of them.

The scatter of the prior is ``scale * excess * shape``, where ``excess`` are the degrees of freedom above the least, so
that the prior mean of the covariances is ``scale * shape``. The three numbers, scale, excess and the precision of means
in rows, have lognormal priors, which keep them finite if there are few clusters.

A shape that is drawn has a Wishart prior with the mean V, the covariance of all rows, or gamma priors for variances.
Neither depends on a partition. Given the precisions P_k of K clusters it is Wishart distributed again,

    shape | P ~ W(n_0 + K nu, (n_0 V^-1 + scale * excess * sum_k P_k)^-1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import digamma, gammaln
from scipy.stats import truncnorm

from ...numerics.slice_update import slice_update, slice_updates
from ...random._keys import subkey
from ...utils._conditions import MOST_COUNTED, Array, Real
from .._statistics import occupied

_CENTRES = np.log([1.0, 2.0, 0.1])  # of scale, excess and mean precision
_DEVIATIONS = np.array([2.0, 1.0, 0.5])  # of the logarithms
_BOUNDS = np.log([(1e-5, 100.0), (0.5, 1e4), (0.01, 1e4)])
_LEAST_SCALE = 0.3  # of components of finite mixtures
_NAMES = "covariance", "degrees", "mean_precision"
_POWERS = "transform"
_MORE_ROWS = 2.0  # of the Wishart prior, above the number of columns
_SHARE_OF_SHAPE = 0.5  # of the draws
_LEAST_SHARE = 1e-6  # of what columns of V leave unexplained of each other, in prior covariances
_LARGEST = np.finfo(np.float64).max
_N_FIXED = 3  # numbers before the shape in a draw


class NormalPrior(NamedTuple):
    """Normal-inverse-Wishart prior, or normal-inverse-gamma prior, whose columns may have numbers of their own."""

    mean: Annotated[np.ndarray, Array("float64", "n_dimensions")]
    mean_precision: (  # in rows
        Annotated[float, Real(low=0, high=MOST_COUNTED)]
        | Annotated[np.ndarray, Array("float64", "n_dimensions", low=0, high=MOST_COUNTED)]
    )
    covariance: (
        Annotated[np.ndarray, Array("float64", "n_dimensions n_dimensions")]
        | Annotated[np.ndarray, Array("float64", "_", low=0)]
    )  # variances (d,), or one variance of all features, (1,)
    degrees: (
        Annotated[float, Real(low=-MOST_COUNTED, high=MOST_COUNTED)]
        | Annotated[np.ndarray, Array("float64", "n_dimensions", low=-MOST_COUNTED, high=MOST_COUNTED)]
    )

    def of_columns(self, columns: np.ndarray) -> NormalPrior:
        """The prior of some columns with variances."""
        return NormalPrior._make(np.asarray(each)[columns] if np.ndim(each) else each for each in self)

    def shared(self) -> NormalPrior:
        """The prior of one column with its own numbers, as that of all columns."""
        return self._replace(mean_precision=np.ravel(self.mean_precision)[0], degrees=np.ravel(self.degrees)[0])


class PriorNumbers(NamedTuple):
    """The numbers of a prior; arrays, (d,), if each column has its own."""

    factor: Any  # of the reference, in the prior's scatter
    degrees: Any
    mean_precision: Any  # in rows


class FreeNumbers:
    """Which numbers of a prior are learned or drawn, and their hyperprior.

    They are those of `free`: "covariance", "degrees" (only with it), "mean_precision". `given` are the others.
    Covariances have a finite mean above `least` degrees of freedom. Free logarithms are (n_free,), or (n_free, d) if
    each column has its own numbers.
    """

    def __init__(self, given: PriorNumbers, free: Any, least: float) -> None:
        self.is_free = np.array([name in free for name in _NAMES])
        self.given, self.least = given, least

    def numbers(self, logs: np.ndarray) -> PriorNumbers:
        """The numbers whose free ones have these logarithms."""
        is_free_covariance, is_free_degrees, is_free_precision = self.is_free
        whole = np.empty((len(_CENTRES), *logs.shape[1:]))
        whole.T[:] = _CENTRES
        whole[self.is_free] = logs
        scale, excess, mean_precision = np.exp(whole) if logs.ndim == 2 else np.exp(whole).tolist()
        excess = excess if is_free_degrees else np.maximum(self.given.degrees - self.least, 0.5)
        return PriorNumbers(
            scale * excess if is_free_covariance else self.given.factor,
            self.least + excess if is_free_degrees else self.given.degrees,
            mean_precision if is_free_precision else self.given.mean_precision,
        )

    def log_prior(self, logs: np.ndarray) -> Any:
        """Log prior density of the logarithms, or of those of each column, up to a constant."""
        distances = (logs.T - _CENTRES[self.is_free]) / _DEVIATIONS[self.is_free]
        return -0.5 * (distances**2).sum(axis=1) if logs.ndim == 2 else -0.5 * float(distances @ distances)

    def usual(self, least_excess: float) -> PriorNumbers:
        """The medians of the free numbers, with an excess of at least this."""
        return self.numbers(np.maximum(_CENTRES, [-np.inf, np.log(least_excess), -np.inf])[self.is_free])

    def best(self, log_marginal: Callable[[PriorNumbers], float], least_excess: float = 0.0) -> PriorNumbers:
        """The most probable numbers given a partition, by its `log_marginal`, a function of them.

        With a `least_excess` they are those of a finite mixture: components without rows have a mode, columns of few
        different numbers cannot make the scale arbitrarily small, and the numbers are rounded to a percent, so that
        rounding errors of sums do not change them.
        """

        def cost(logs: np.ndarray) -> float:
            return -(self.log_prior(logs) + log_marginal(self.numbers(logs)))

        if not self.is_free.any():
            return self.given
        bounds, settings = _BOUNDS.copy(), {}
        if least_excess:
            bounds[:2, 0] = np.log([_LEAST_SCALE, least_excess])
            jac = partial(self._slopes_of_cost, log_marginal) if isinstance(log_marginal, MatrixMoments) else None
            settings = {"jac": jac, "options": {"ftol": 1e-6}}
        of_free = {"method": "L-BFGS-B", "bounds": bounds[self.is_free]}
        found = minimize(cost, _CENTRES[self.is_free], **of_free, **settings).x
        return self.numbers(np.ceil(100.0 * found) / 100.0 if least_excess else found)

    def _slopes_of_cost(self, log_marginal: MatrixMoments, logs: np.ndarray) -> np.ndarray:
        """Derivatives of the negative log posterior density with respect to the free logarithms."""
        numbers, (is_free_covariance, is_free_degrees, _) = self.numbers(logs), self.is_free
        of_factor, of_degrees, of_precision = log_marginal.slopes(numbers)
        of_scale = of_factor * numbers.factor
        of_excess = of_scale * is_free_covariance + of_degrees * (numbers.degrees - self.least) * is_free_degrees
        slopes = np.array([of_scale, of_excess, of_precision * numbers.mean_precision])[self.is_free]
        return (logs - _CENTRES[self.is_free]) / _DEVIATIONS[self.is_free] ** 2 - slopes

    def drawn(
        self, log_marginal: Callable[[PriorNumbers], Any], logs: np.ndarray, least_scale: Any, rng: np.random.Generator
    ) -> np.ndarray:
        """A slice update of one free logarithm, which is chosen at random, given the others and a partition.

        If each column has its own numbers, it is one of each, with the log marginal densities of columns.
        """
        logs, of_columns = logs.copy(), logs.shape[1:]
        which = rng.integers(len(logs), size=of_columns)
        at, (low, high) = (which, *map(np.arange, of_columns)), _BOUNDS[self.is_free][which].T
        if self.is_free[0]:
            least = np.log(least_scale) if of_columns else math.log(least_scale)
            low = np.where(which == 0, np.maximum(low, least), low)

        def log_density(values: Any) -> Any:
            logs[at] = values
            return self.log_prior(logs) + log_marginal(self.numbers(logs))

        update: Callable[..., Any] = slice_updates if of_columns else slice_update
        logs[at] = update(log_density, logs[at], low, high, rng)
        return logs

    def drawn_from_prior(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Free logarithms from their prior, of all columns or, with a shape (d,), of each."""
        centres, deviations = _CENTRES[self.is_free], _DEVIATIONS[self.is_free]
        low, high = ((_BOUNDS[self.is_free] - centres[:, None]) / deviations[:, None]).T
        drawn = truncnorm.rvs(low, high, size=(*shape, len(low)), random_state=rng)
        return (centres + deviations * drawn).T


class Hyperprior(NamedTuple):
    """Prior of the numbers and the shape of a prior that a chain draws."""

    inverse: Annotated[np.ndarray, Array("float64", None)]  # of the mean V of the shape, (d, d) or (n_pools,)
    free: tuple[str, ...]  # see `FreeNumbers`

    @classmethod
    def of_mean(cls, shape: np.ndarray, free: Any) -> Hyperprior:
        """The hyperprior with this mean of the shape."""
        known = tuple(name for name in free if name in (*_NAMES, _POWERS))
        return cls(np.linalg.inv(shape) if shape.ndim == 2 else 1.0 / shape, known)

    @property
    def draws_shape(self) -> bool:
        """Whether scale and shape are drawn."""
        return "covariance" in self.free

    @property
    def draws_powers(self) -> bool:
        """Whether powers of transforms are drawn."""
        return _POWERS in self.free

    def start(self, prior: NormalPrior, powers: np.ndarray, least: float) -> np.ndarray:
        """A prior as a vector: mean precision, degrees, scale, the shape, and `powers` if they are drawn.

        If columns have their own numbers, it is the vector of each column, (d, m).
        """
        factor = np.maximum(prior.degrees - least, 0.5) if self.draws_shape else 1.0
        return self._vector((prior.mean_precision, prior.degrees, 1.0), prior.covariance / factor, powers)

    def _vector(self, numbers: Any, shape: np.ndarray, powers: np.ndarray) -> np.ndarray:
        powers = powers[: len(powers) * self.draws_powers]
        if np.ndim(numbers[1]) == 0:
            return np.array([*numbers, *shape.ravel(), *powers])
        return np.stack(np.broadcast_arrays(*numbers, shape, *([powers] if self.draws_powers else [])), axis=-1)

    def of_each_column(self, vector: np.ndarray) -> np.ndarray:
        """The vectors of columns, (d, m), that have their numbers in common."""
        numbers = np.repeat(vector[:_N_FIXED, np.newaxis], len(self.inverse), axis=1)
        return self._vector(numbers, self._shape_of(vector), self.powers_of(vector))

    def of_columns(self, vector: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The vector, or the vectors, of some columns with variances."""
        if vector.ndim == 2:
            return vector[columns]
        return self._vector(vector[:_N_FIXED], self._shape_of(vector)[columns], self.powers_of(vector)[columns])

    def powers_of(self, vector: np.ndarray) -> np.ndarray:
        """The powers in a vector, a view; empty if they are fixed."""
        if vector.ndim == 2:
            return vector[:, _N_FIXED + 1] if self.draws_powers else np.empty(0)
        return vector[_N_FIXED + self.inverse.size :]

    def prior_of(self, vector: np.ndarray, mean: np.ndarray, least: float) -> NormalPrior:
        """The prior that a vector stands for."""
        mean_precision, degrees, scale = _numbers_in(vector)
        factor = scale * np.maximum(degrees - least, 0.5) if self.draws_shape else 1.0
        return NormalPrior(mean, mean_precision, factor * self._shape_of(vector), degrees)

    def numbers_of(self, vector: np.ndarray, least: float) -> tuple[FreeNumbers, np.ndarray]:
        """The free numbers, and their logarithms in a vector."""
        mean_precision, degrees, scale = _numbers_in(vector)
        free = FreeNumbers(PriorNumbers(1.0, degrees, mean_precision), self.free, least)
        return free, np.log([scale, np.maximum(degrees - least, 0.5), mean_precision])[free.is_free]

    def _shape_of(self, vector: np.ndarray) -> np.ndarray:
        if vector.ndim == 2:
            return vector[:, _N_FIXED]
        return vector[_N_FIXED:][: self.inverse.size].reshape(self.inverse.shape)

    def drawn(self, family: Any, statistics: Any, least: float, key: np.uint64) -> np.ndarray:
        """A vector where the shape, or one of the numbers, is drawn given the partition.

        `family` has the current prior. The choice is random, and both leave the posterior unchanged. If columns have
        their own numbers, the shapes of all columns are drawn, or one number of each.
        """
        rng, vector = np.random.default_rng(int(key)), statistics.hyperparameters
        powers, is_separated = self.powers_of(vector), vector.ndim == 2
        if self.draws_shape and rng.random() < _SHARE_OF_SHAPE:
            precisions = family.total_precision(statistics, subkey(key))
            shape = self._draw_shape(len(occupied(statistics)), vector, precisions, least, rng)
            numbers = vector.T[:_N_FIXED]
            is_possible = self._least_scale(shape, is_separated) < numbers[2]
            return self._vector(numbers, np.where(is_possible, shape, self._shape_of(vector)), powers)
        free, logs = self.numbers_of(vector, least)
        if not logs.size:
            return vector
        shape = self._shape_of(vector)
        found = free.drawn(family.log_marginal_of(statistics, shape), logs, self._least_scale(shape, is_separated), rng)
        return self._vector_of(free, found, shape, powers)

    def drawn_from_prior(self, prior: NormalPrior, powers: np.ndarray, least: float, key: np.uint64) -> np.ndarray:
        """A vector drawn from the hyperprior; numbers that are not free are those of a prior."""
        rng = np.random.default_rng(int(key))
        start = self.start(prior, powers, least)
        (free, logs), shape = self.numbers_of(start, least), prior.covariance
        if self.draws_shape:
            shape = self._draw_shape(0, start, np.zeros(self.inverse.shape), least, rng)
        powers = np.where(powers == 1.0, 1.0, rng.uniform(0.0, 2.0, len(powers)))
        return self._vector_of(free, free.drawn_from_prior(rng, logs.shape[1:]), shape, powers)

    def log_density(self, vector: np.ndarray, least: float) -> float:
        """Log density of a vector, up to a constant."""
        free, logs = self.numbers_of(vector, least)
        total = float(np.sum(free.log_prior(logs)))
        if not self.draws_shape:
            return total
        shape, n_0 = self._shape_of(vector), self._n_rows
        if shape.ndim == 1:
            return total + 0.5 * float(((n_0 - 2.0) * np.log(shape) - n_0 * shape * self.inverse).sum())
        _, log_det = np.linalg.slogdet(shape)
        return total + 0.5 * float((n_0 - len(shape) - 1.0) * log_det - n_0 * (self.inverse * shape).sum())

    @property
    def _n_rows(self) -> float:
        """Degrees of freedom of the prior of the shape."""
        return _MORE_ROWS + (len(self.inverse) if self.inverse.ndim == 2 else 1.0)

    def _least_scale(self, shape: np.ndarray, is_separated: bool) -> Any:
        """The smallest scale of a shape, or of that of each column, that is in the support of the prior.

        Columns must leave some of the variance of each one unexplained, compared with V. Without this limit rows that
        lie on a hyperplane would have no posterior.
        """
        if is_separated:
            return _LEAST_SHARE / (shape * self.inverse)
        if shape.ndim == 1:
            return _LEAST_SHARE / float((shape * self.inverse).min(initial=_LARGEST))
        unexplained = 1.0 / np.diagonal(np.linalg.inv(shape))  # by the other columns
        return _LEAST_SHARE / float((unexplained * np.diagonal(self.inverse)).min())

    def _vector_of(self, free: FreeNumbers, logs: np.ndarray, shape: np.ndarray, powers: np.ndarray) -> np.ndarray:
        _, degrees, mean_precision = free.numbers(logs)
        scale = (np.exp(logs[0]) if logs.ndim == 2 else math.exp(logs[0])) if self.draws_shape else 1.0
        return self._vector((mean_precision, degrees, scale), shape, powers)

    def _draw_shape(
        self, n_clusters: int, vector: np.ndarray, precisions: np.ndarray, least: float, rng: np.random.Generator
    ) -> np.ndarray:
        """The shape given the sum of the precisions of clusters."""
        _, degrees, scale = _numbers_in(vector)
        n_0, factor = self._n_rows, scale * np.maximum(degrees - least, 0.5)
        freedom = n_0 + n_clusters * degrees
        if self.inverse.ndim == 1:
            return rng.gamma(0.5 * freedom, 2.0 / (n_0 * self.inverse + factor * precisions))
        d = len(self.inverse)
        root = np.linalg.cholesky(n_0 * self.inverse + factor * precisions)
        triangle = np.tril(rng.standard_normal((d, d)), -1)  # Bartlett (1933)
        np.fill_diagonal(triangle, np.sqrt(rng.chisquare(freedom - np.arange(d))))
        drawn = solve_triangular(root, triangle, lower=True, trans="T")
        return drawn @ drawn.T


def _numbers_in(vector: np.ndarray) -> Any:
    """Mean precision, degrees and scale in a vector; arrays, (d,), if each column has its own."""
    return vector.T[:_N_FIXED] if vector.ndim == 2 else vector[:_N_FIXED].tolist()


def pooled(scatters: np.ndarray, n_rows: np.ndarray | float, n_clusters: int, whole: np.ndarray, weight: float):
    """Covariance within clusters, with `weight` rows that have the covariance of as many clusters in all rows.

    `whole` is the covariance of all rows, divided so that the clusters together have its volume.
    """
    return (scatters + weight * whole) / (np.maximum(n_rows - n_clusters, 0) + weight)


class MatrixMoments:
    """Log marginal densities of clusters with covariance matrices, as a function of the numbers of the prior.

    A basis in which `reference`, (d, d), is the identity and a cluster's scatter is diagonal makes evaluations cheap.
    `gaps`, (K, d), are means minus the prior's mean; `scatters`, (K, d, d), are about the means.
    """

    def __init__(self, sizes: np.ndarray, gaps: np.ndarray, scatters: np.ndarray, reference: np.ndarray) -> None:
        d = gaps.shape[1]
        whiten = solve_triangular(np.linalg.cholesky(reference), np.eye(d), lower=True)
        values, vectors = np.linalg.eigh(whiten @ scatters @ whiten.T)
        self.sizes, self.values = sizes.astype(float), np.maximum(values, 0.0)
        self.squares = ((gaps @ whiten.T)[:, np.newaxis] @ vectors)[:, 0] ** 2
        self.halves = 0.5 * np.arange(d)

    def _posterior_scatters(self, numbers: PriorNumbers) -> tuple[np.ndarray, ...]:
        """Eigenvalues, (K, d), and log determinants, (K,), and what the gaps of the means add to these."""
        sums, kappa = numbers.factor + self.values, numbers.mean_precision
        ratios = self.squares / sums
        shrunk, square = kappa * self.sizes / (kappa + self.sizes), ratios.sum(axis=1)
        return sums, np.log(sums).sum(axis=1) + np.log1p(shrunk * square), ratios, shrunk, square

    def slopes(self, numbers: PriorNumbers) -> tuple[float, float, float]:
        """Derivatives of the log marginal density with respect to the numbers."""
        n, d = self.sizes, len(self.halves)
        scatter, degrees, kappa = numbers
        sums, log_dets, ratios, shrunk, square = self._posterior_scatters(numbers)
        after = degrees + n
        of_scatter = (1.0 / sums).sum(axis=1) - shrunk * (ratios / sums).sum(axis=1) / (1.0 + shrunk * square)
        of_kappa = (n / (kappa + n)) ** 2 * square / (1.0 + shrunk * square)
        digammas = digamma(0.5 * after[:, np.newaxis] - self.halves) - digamma(0.5 * degrees - self.halves)
        return (
            0.5 * float((degrees * d / scatter - after * of_scatter).sum()),
            0.5 * float((digammas.sum(axis=1) + d * np.log(scatter) - log_dets).sum()),
            0.5 * float((d * n / (kappa * (kappa + n)) - after * of_kappa).sum()),
        )

    def __call__(self, numbers: PriorNumbers) -> float:
        """Log marginal density up to a constant."""
        n, d = self.sizes, len(self.halves)
        scatter, degrees, kappa = numbers
        log_dets = self._posterior_scatters(numbers)[1]
        log_gammas = gammaln(0.5 * (degrees + n)[:, np.newaxis] - self.halves) - gammaln(0.5 * degrees - self.halves)
        of_scatters = 0.5 * (degrees * d * np.log(scatter) - (degrees + n) * log_dets)
        return float((log_gammas.sum(axis=1) + of_scatters - 0.5 * d * np.log1p(n / kappa)).sum())
