"""Conjugate posteriors: targets with data whose exact distribution is known, with minibatch gradients and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from ..manifolds import PositiveOrthant, Simplex
from ..utils._typing import ArrayLike
from ._minibatch import MinibatchTarget


class DirichletPosterior(MinibatchTarget):
    r"""Posterior of the probabilities of d categories: Dirichlet prior, categorical observations.

    The posterior is :math:`x \mid z \sim \mathrm{Dir}(\alpha + n)`, where :math:`n_j` is the number of observations j.
    The density with respect to the first d - 1 coordinates is :math:`\prod_j x_j^{\alpha_j + n_j - 1}`. With a the
    vector `concentrations` and A its sum, the mean is a / A and the covariance is
    :math:`(\mathrm{diag}(a) / A - a a^\top / A^2) / (A + 1)`.

    The gradient is :math:`(\alpha + \hat n - 1) / x` in all d coordinates, and the expected counts are
    :math:`\alpha + \hat n`, where :math:`\hat n` is n, or N / n_rows times the counts of a minibatch.

    Parameters
    ----------
    prior : array-like of shape (d,)
        Concentrations alpha, positive.
    observations : array-like of int of shape (N,)
        Category of each observation, from 0 to d - 1.

    Attributes
    ----------
    manifold : Simplex
        The simplex of d entries.
    concentrations : ndarray of shape (d,)
        Concentrations of the posterior.

    References
    ----------
    Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2018). Large-scale stochastic sampling from the probability
    simplex, section 2.3.
    """

    def __init__(self, prior: ArrayLike, observations: ArrayLike) -> None:
        self.prior = np.array(prior, np.float64)
        self.observations = np.array(observations)
        if self.prior.ndim != 1 or not (np.isfinite(self.prior).all() and (self.prior > 0).all()):
            raise ValueError("prior must be a vector of positive, finite concentrations.")
        d = len(self.prior)
        if self.observations.ndim != 1 or self.observations.dtype.kind not in "iu" or not len(self.observations):
            raise ValueError("observations must be a nonempty vector of integers, which are categories.")
        if self.observations.min() < 0 or self.observations.max() >= d:
            raise ValueError(f"observations must be categories from 0 to {d - 1}, because the prior has {d} entries.")
        self.manifold = Simplex(d)
        self.n_samples = len(self.observations)
        self.concentrations = self.prior + np.bincount(self.observations, minlength=d)

    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Prior + N / n * counts of all rows or of a minibatch, written to `out`."""
        out[...] = self._estimate(self._chosen_rows(keys))

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient of the log density, from all rows or from a minibatch, written to `out`."""
        out[...] = (self._estimate(self._chosen_rows(keys)) - 1) / position

    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Gradient estimate of a minibatch, and the deviations of its samples, which estimate its covariance."""
        rows = self._chosen_rows(keys)
        out[...] = (self._estimate(rows) - 1) / position
        if rows is None:
            return np.zeros((len(position), self.n_samples, len(self.prior)))
        indicators = np.equal(self.observations[rows][..., np.newaxis], np.arange(len(self.prior))).astype(np.float64)
        return self._centre(indicators) / position[:, np.newaxis]

    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density, from all rows."""
        return xlogy(self.concentrations - 1, position).sum(axis=1)

    def _estimate(self, rows: np.ndarray | None) -> np.ndarray:
        """Prior + N / n * counts of minibatches, ``(n_chains, d)``, or of all rows, ``(d,)``."""
        if rows is None:
            return self.concentrations
        (n_chains, n), d = rows.shape, len(self.prior)
        cells = self.observations[rows] + d * np.arange(n_chains)[:, np.newaxis]
        counts = np.bincount(cells.ravel(), minlength=n_chains * d).reshape(n_chains, d)
        return self.prior + self.n_samples / n * counts

    def __repr__(self) -> str:
        return f"DirichletPosterior({self.manifold!r}, n_samples={self.n_samples})"


def sparse_dirichlet() -> DirichletPosterior:
    """The sparse Dirichlet posterior of Baker et al. (2018): 10 categories and 1000 observations.

    It is Dir(800.1, 100.1, 100.1, 0.1, ..., 0.1). The means are 0.79930, twice 0.1, and seven times 9.99e-5; the
    standard deviation of the first coordinate is 0.01265.

    Returns
    -------
    DirichletPosterior
        The target.

    References
    ----------
    Baker et al. (2018). Large-scale stochastic sampling from the probability simplex, section 2.3 and appendix E.
    """
    return DirichletPosterior(np.full(10, 0.1), np.repeat(np.arange(3), [800, 100, 100]))


def dense_dirichlet() -> DirichletPosterior:
    """The dense Dirichlet posterior of Baker et al. (2018): 10 categories and 1000 observations.

    It is Dir(112.1, 119.1, 92.1, 98.1, 95.1, 96.1, 102.1, 92.1, 91.1, 103.1).

    Returns
    -------
    DirichletPosterior
        The target.

    References
    ----------
    Baker et al. (2018). Large-scale stochastic sampling from the probability simplex, section 3.2 and appendix E.
    """
    counts = [112, 119, 92, 98, 95, 96, 102, 92, 91, 103]
    return DirichletPosterior(np.full(10, 0.1), np.repeat(np.arange(10), counts))


class LogNormalMean(MinibatchTarget):
    r"""Posterior of positive numbers with normal priors and normal observations of their logarithms.

    :math:`\log\theta \sim \mathcal{N}(m_0, s_0^2)` and :math:`z_i \mid \theta \sim \mathcal{N}(\log\theta, s^2)`, for
    each coordinate. A posteriori :math:`\log\theta \sim \mathcal{N}(m, v)` with :math:`1/v = 1/s_0^2 + N/s^2` and
    :math:`m = v (m_0 / s_0^2 + \sum_i z_i / s^2)`, so that :math:`E\theta = e^{m + v/2}` and
    :math:`\mathrm{Var}\,\theta = (e^v - 1) e^{2m + v}`. The density with respect to Lebesgue measure is
    :math:`\theta^{-1} \exp(-(\log\theta - m)^2 / 2v)`. The estimate of m from N / n times the sum over a minibatch is
    unbiased.

    Parameters
    ----------
    prior_mean, prior_variance : float or array of the shape of `observations` without the first axis
        Mean m_0 and variance s_0^2 of the prior.
    observations : array-like of shape (N,) or (N, *shape)
        Noisy logarithms z; an array of shape (N,) has a single coordinate.
    noise_variance : float or array of the shape of `observations` without the first axis
        Variance s^2 of the observations.

    Attributes
    ----------
    manifold : PositiveOrthant
        The positive orthant of shape ``shape``, or (1,).
    log_mean, log_variance : ndarray of ``manifold.shape``
        Mean m and variance v of the logarithm.
    """

    def __init__(
        self, prior_mean: ArrayLike, prior_variance: ArrayLike, observations: ArrayLike, noise_variance: ArrayLike
    ) -> None:
        z = np.array(observations, np.float64)
        if z.ndim == 1:
            z = z[:, np.newaxis]
        if z.ndim == 0 or not z.size or not np.isfinite(z).all():
            raise ValueError("observations must be a nonempty array of finite numbers of shape (N,) or (N, *shape).")
        self.observations = z
        self.n_samples = len(z)
        self.manifold = PositiveOrthant(z.shape[1:])
        self.prior_mean = _finite("prior_mean", prior_mean, z.shape[1:])
        self.prior_variance = _finite("prior_variance", prior_variance, z.shape[1:], positive=True)
        self.noise_variance = _finite("noise_variance", noise_variance, z.shape[1:], positive=True)
        self.log_variance = 1 / (1 / self.prior_variance + self.n_samples / self.noise_variance)
        self.log_mean = self._mean(z.mean(axis=0))

    def expected_log(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Mean of the logarithms, from all rows or estimated from a minibatch, written to `out`."""
        rows = self._chosen_rows(keys)
        out[...] = self.log_mean if rows is None else self._mean(self.observations[rows].mean(axis=1))

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient of the log density, from all rows or from a minibatch, written to `out`."""
        self.expected_log(position, keys, out)
        out -= np.log(position)
        out /= self.log_variance
        out -= 1
        out /= position

    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Gradient estimate of a minibatch, and the deviations of its samples, which estimate its covariance."""
        self.grad_log_density(position, keys, out)
        rows = self._chosen_rows(keys)
        if rows is None:
            return np.zeros((len(position), *self.observations.shape))
        return self._centre(self.observations[rows]) / (self.noise_variance * position)[:, np.newaxis]

    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density, from all rows."""
        logs = np.log(position)
        terms = -0.5 * (logs - self.log_mean) ** 2 / self.log_variance - logs
        return terms.reshape(len(position), -1).sum(axis=1)

    def _mean(self, observed_mean: np.ndarray) -> np.ndarray:
        """Posterior mean of the logarithm, given the mean of the observations."""
        weighted = self.prior_mean / self.prior_variance + self.n_samples / self.noise_variance * observed_mean
        return self.log_variance * weighted

    def __repr__(self) -> str:
        return f"LogNormalMean({self.manifold!r}, n_samples={self.n_samples})"


def _finite(name: str, value: Any, shape: tuple[int, ...], positive: bool = False) -> np.ndarray:
    """`value` as an array of `shape`."""
    value = np.array(value, np.float64)
    if value.shape not in ((), shape):
        raise ValueError(f"{name} must be a number or of shape {shape}; got shape {value.shape}.")
    if not np.isfinite(value).all() or (positive and value.min() <= 0):
        raise ValueError(f"{name} must be {'positive and ' if positive else ''}finite.")
    return np.broadcast_to(value, shape).copy()
