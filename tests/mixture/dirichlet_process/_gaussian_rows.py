"""Five rows of numbers, with the exact marginal likelihoods of clusters with Gaussian components.

With variances, missing cells are left out; with covariance matrices, the marginal likelihood of completed rows is
integrated over the missing cells by quadrature. Nothing here is shared with the package's code.
"""

from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp, multigammaln

from skmanifold.emissions import Gaussian

from . import _tiny_partitions as tiny
from ._cell_rows import Rows

_REACH, _STEP, _FINE_STEP = 9.0, 0.14, 0.03  # of the nodes t, where a missing cell is x = centre + spread * sinh(t)


class _GaussianRows(Rows):
    """Hyperparameters `mean`, `kappa`, `psi` and `degrees`; components are means and covariances (n, d, d)."""

    covariance_type: ClassVar[str]

    @property
    def emission(self):
        psi = self.hyper["psi"]
        psi = psi if np.ndim(psi) == 0 else np.asarray(psi)
        return Gaussian(self.covariance_type, self.hyper["mean"], self.hyper["kappa"], psi, self.hyper["degrees"])

    def draw_covariances(self, n, rng):
        """(n, d, d)."""
        raise NotImplementedError

    def draw_components(self, n, rng):
        covariances = self.draw_covariances(n, rng)
        noise = np.linalg.cholesky(covariances) @ rng.standard_normal((n, self.n_features, 1))
        return self.hyper["mean"] + noise[..., 0] / np.sqrt(self.hyper["kappa"]), covariances

    def draw_rows(self, components, labels, rng):
        means, covariances = components
        noise = np.linalg.cholesky(covariances[labels]) @ rng.standard_normal((len(labels), self.n_features, 1))
        return means[labels] + noise[..., 0]


class _VarianceRows(_GaussianRows):
    """Features with variances, that may be shared."""

    def log_marginal_of_features(self, rows, features, psi) -> float:
        """Of features that share a variance, IG(degrees / 2, psi / 2)."""
        kappa, half = self.hyper["kappa"], self.hyper["degrees"] / 2
        n_cells, scatter, ratio = 0, psi, 0.0
        for j in features:
            cells = self.X[rows, j]
            cells = cells[~np.isnan(cells)]
            if n := len(cells):
                gap = cells.mean() - self.hyper["mean"][j]
                scatter += ((cells - cells.mean()) ** 2).sum() + kappa * n / (kappa + n) * gap**2
                ratio += np.log(kappa / (kappa + n))
                n_cells += n
        after = half + n_cells / 2
        log_variance = half * np.log(psi / 2) - after * np.log(scatter / 2) + gammaln(after) - gammaln(half)
        return float(log_variance + 0.5 * ratio - 0.5 * n_cells * np.log(2 * np.pi))


class DiagRows(_VarianceRows):
    covariance_type = "diag"

    def log_marginal(self, rows):
        return sum(self.log_marginal_of_features(rows, [j], psi) for j, psi in enumerate(self.hyper["psi"]))

    def draw_covariances(self, n, rng):
        variances = np.asarray(self.hyper["psi"]) / 2 / rng.gamma(self.hyper["degrees"] / 2, 1, (n, self.n_features))
        return variances[:, :, None] * np.eye(self.n_features)


class SphericalRows(_VarianceRows):
    covariance_type = "spherical"

    def log_marginal(self, rows):
        return self.log_marginal_of_features(rows, range(self.n_features), self.hyper["psi"])

    def draw_covariances(self, n, rng):
        variances = self.hyper["psi"] / 2 / rng.gamma(self.hyper["degrees"] / 2, 1, n)
        return variances[:, None, None] * np.eye(self.n_features)


class _WishartRows(_GaussianRows):
    """Covariances with an inverse Wishart prior; missing cells are integrated out by quadrature."""

    has_missing_draws = True

    def __init__(self, X, **hyper):
        super().__init__(X, **hyper)
        self._known_levels: dict[frozenset, tuple[np.ndarray, np.ndarray]] = {}  # of the first missing cell

    def log_marginal_of_completed(self, clusters, X):
        """Of clusters that share a covariance, for completed rows (..., 5, d)."""
        d, kappa, degrees = self.n_features, self.hyper["kappa"], self.hyper["degrees"]
        psi, ratio, n_rows = np.asarray(self.hyper["psi"]), 0.0, 0
        after = psi
        for rows in map(sorted, clusters):
            n, values = len(rows), X[..., rows, :]
            gaps = values - values.mean(axis=-2, keepdims=True)
            from_mean = values.mean(axis=-2) - self.hyper["mean"]
            after = after + np.einsum("...ia,...ib->...ab", gaps, gaps)
            after = after + kappa * n / (kappa + n) * from_mean[..., :, None] * from_mean[..., None, :]
            ratio += np.log(kappa / (kappa + n))
            n_rows += n
        half = degrees / 2
        logs = multigammaln(half + n_rows / 2, d) - multigammaln(half, d) + half * np.linalg.slogdet(psi)[1]
        logs += 0.5 * d * ratio - 0.5 * n_rows * d * np.log(np.pi)
        return logs - (half + n_rows / 2) * np.linalg.slogdet(after)[1]

    def nodes(self, step=_STEP):
        """Values of a missing cell and log weights of the quadrature, for each column."""
        t = np.arange(-_REACH, _REACH, step)
        centre = (np.nanmean(self.X, axis=0) + self.hyper["mean"]) / 2
        spread = np.sqrt(np.diag(self.hyper["psi"]))
        return centre[:, None] + spread[:, None] * np.sinh(t), np.log(spread)[:, None] + np.log(
            np.cosh(t) * (t[1] - t[0])
        )

    def missing_cells(self, clusters):
        rows = frozenset().union(*clusters)
        return [(i, j) for i, j in np.argwhere(self.missing).tolist() if i in rows]

    def completed(self, cells, values):
        """Rows (..., 5, d) with these values (..., ) of the missing cells; others stay NaN."""
        values = np.broadcast_arrays(*values)
        X = np.broadcast_to(self.X, (*values[0].shape, *self.X.shape)).copy()
        for (i, j), value in zip(cells, values, strict=True):
            X[..., i, j] = value
        return X

    def log_marginal_of_clusters(self, clusters) -> float:
        """Of the observed cells of clusters that share a covariance."""
        cells = self.missing_cells(clusters)
        if not cells:
            return float(self.log_marginal_of_completed(clusters, self.X))
        nodes, log_weights = self.nodes()
        axes = np.ix_(*(nodes[j] for _, j in cells))
        logs = self.log_marginal_of_completed(clusters, self.completed(cells, axes))
        return float(logsumexp(logs + sum(np.ix_(*(log_weights[j] for _, j in cells)))))

    def _levels(self, clusters, cells, values):
        """Values of the first cell after those with `values`, and its distribution function there, given these."""
        (_, j), *later = cells[len(values) :]
        nodes, log_weights = self.nodes(_FINE_STEP)
        coarse, coarse_weights = self.nodes()
        axes = np.ix_(nodes[j], *(coarse[k] for _, k in later))
        logs = self.log_marginal_of_completed(clusters, self.completed(cells, (*values, *axes)))
        logs = logs + sum(np.ix_(log_weights[j], *(coarse_weights[k] for _, k in later)))
        density = np.exp(logs - logs.max()).reshape(len(nodes[j]), -1).sum(axis=1)
        return nodes[j], (np.cumsum(density) - density / 2) / density.sum()

    def _draw_cells(self, clusters, rng):
        """Missing cells of clusters that share a covariance, by their distribution functions one after the other."""
        cells, values = self.missing_cells(clusters), []
        for _ in cells:
            known = self._known_levels.get(frozenset(clusters)) if not values else None
            nodes, levels = known or self._levels(clusters, cells, values)
            if not values:
                self._known_levels[frozenset(clusters)] = nodes, levels
            values.append(float(np.interp(rng.random(), levels, nodes)))
        return dict(zip(cells, values, strict=True))

    def groups(self, clusters):
        """Clusters by the covariance that they share."""
        raise NotImplementedError

    def draw_missing(self, labels, rng):
        X = self.X.copy()
        for clusters in self.groups(tiny.clusters_of(labels)):
            for cell, value in self._draw_cells(clusters, rng).items():
                X[cell] = value
        return X


class FullRows(_WishartRows):
    covariance_type = "full"

    def log_marginal(self, rows):
        return self.log_marginal_of_clusters([frozenset(rows)])

    def groups(self, clusters):
        return [[rows] for rows in clusters]

    def draw_covariances(self, n, rng):
        covariances = stats.invwishart.rvs(self.hyper["degrees"], self.hyper["psi"], n, random_state=rng)
        return np.reshape(covariances, (n, self.n_features, self.n_features))


class TiedRows(_WishartRows):
    """One covariance for all components, so that clusters are not independent."""

    covariance_type = "tied"

    def log_marginal(self, rows):
        return self.log_marginal_of_clusters([frozenset(rows)])

    def log_likelihood(self, clusters):
        return self.log_marginal_of_clusters(clusters)

    def groups(self, clusters):
        return [clusters]

    def draw_covariances(self, n, rng):
        covariance = stats.invwishart.rvs(self.hyper["degrees"], self.hyper["psi"], random_state=rng)
        return np.broadcast_to(np.reshape(covariance, (self.n_features, self.n_features)), (n, *2 * [self.n_features]))
