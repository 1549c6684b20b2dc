"""Five directions in three dimensions, with the exact marginal likelihoods of their clusters by quadrature.

There the normaliser is elementary: c(kappa) = kappa / sinh(kappa), relative to the uniform distribution. Nothing here
is shared with the package's code.
"""

import numpy as np
import scipy.sparse as sp
from scipy.integrate import quad

from skmanifold.emissions import VonMisesFisher

from ._cell_rows import Rows

_GRID = np.exp(np.linspace(np.log(1e-6), np.log(5e3), 20_001))  # of concentrations, for draws


def log_normalizer(kappa):
    """log(kappa / sinh(kappa))."""
    kappa = np.maximum(kappa, 1e-200)
    return np.log(2 * kappa / -np.expm1(-2 * kappa)) - kappa


class DirectionRows(Rows):
    """Hyperparameters `concentration` ("shared", "per_component" or a number), `cosine` and `strength` of the prior;
    components are mean directions (n, 3) and concentrations (n,).
    """

    @property
    def emission(self):
        return VonMisesFisher(self.hyper["concentration"], self.hyper["cosine"], self.hyper["strength"])

    def log_prior(self, kappa):
        """Of concentrations, up to a constant."""
        strength = self.hyper["strength"]
        return strength * (log_normalizer(kappa) + self.hyper["cosine"] * kappa)

    def log_of_cluster(self, rows, kappa):
        """Log density of rows that share a component with this concentration, over its directions."""
        length = np.linalg.norm(self.X[sorted(rows)].sum(axis=0))
        return len(rows) * log_normalizer(kappa) - log_normalizer(kappa * length)

    def log_integral(self, log_density):
        """Log of the mean of exp(log_density(kappa)) over the prior."""
        kind = self.hyper["concentration"]
        if not isinstance(kind, str):
            return float(log_density(np.array(kind)))
        highest = (self.log_prior(_GRID[::10]) + log_density(_GRID[::10])).max()

        def whole(kappa, log_more):
            return np.exp(self.log_prior(kappa) + log_more(kappa))

        points = {"points": (0.1, 1.0, 3.0, 10.0, 30.0), "limit": 400}
        top = quad(lambda k: whole(k, lambda k: log_density(k) - highest), 0, 1000, **points)[0]
        return float(np.log(top / quad(lambda k: whole(k, lambda k: 0.0), 0, 1000, **points)[0]) + highest)

    def log_marginal(self, rows):
        return self.log_integral(lambda kappa: self.log_of_cluster(rows, kappa))

    def log_likelihood(self, clusters):
        if self.hyper["concentration"] != "shared":
            return super().log_likelihood(clusters)
        key = frozenset(map(frozenset, clusters))
        if key not in self._known:
            self._known[key] = self.log_integral(
                lambda kappa: sum(self.log_of_cluster(rows, kappa) for rows in clusters)
            )
        return self._known[key]

    def draw_components(self, n, rng):
        kind = self.hyper["concentration"]
        if isinstance(kind, str):
            logs = self.log_prior(_GRID) + np.log(_GRID)
            levels = np.cumsum(np.exp(logs - logs.max()))
            drawn = np.interp(rng.random(1 if kind == "shared" else n) * levels[-1], levels, _GRID)
            concentrations = np.broadcast_to(drawn, n)
        else:
            concentrations = np.full(n, kind)
        directions = rng.standard_normal((n, 3))
        return directions / np.linalg.norm(directions, axis=1, keepdims=True), concentrations

    def draw_rows(self, components, labels, rng):
        directions, kappa = components[0][labels], components[1][labels]
        u = rng.random(len(labels))
        cosine = np.clip(1 + np.log(u + (1 - u) * np.exp(-2 * kappa)) / kappa, -1, 1)
        noise = rng.standard_normal((len(labels), 3))
        noise -= (noise * directions).sum(axis=1, keepdims=True) * directions
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        return cosine[:, None] * directions + np.sqrt(1 - cosine**2)[:, None] * noise


class SparseDirectionRows(DirectionRows):
    @property
    def as_read(self):
        return sp.csr_array(self.X)
