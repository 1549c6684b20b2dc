"""The Dirichlet process: prior of partitions, and draws from the posterior, which are partitions or parameters."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...emissions._family import Family
from ...emissions._statistics import by_size, held_statistics, selected
from ...inference._draw_store import DrawStore
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import log_gamma_variate
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...utils._conditions import Array, Real, Sizes
from ...utils._threads import Workers
from .._densities import Memberships, to_shares

_TOLERANCE = 1e-6  # of sums to one
_EXPECTED_COMPONENTS = 50  # to estimate the memory of a draw


class PartitionDraw(NamedTuple):
    """A drawn partition of the rows, represented by the statistics of its clusters; the rest is integrated out."""

    statistics: Annotated[Any, held_statistics]  # of K clusters with rows
    concentration: Annotated[float, Real(above=0, high=MOST_CONCENTRATED)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        return None if np.min(self.statistics.sizes) > 0 else "has a cluster without rows"

    @property
    def weights(self) -> np.ndarray:
        """Sizes of the clusters, and the concentration as that of a new one, (K + 1,)."""
        return np.append(self.statistics.sizes, self.concentration)

    def log_terms(self, clusters: Family, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K + 1); the last column is for a new component without rows."""
        weights = self.weights
        terms = _begin(clusters, np.log(weights) - np.log(weights.sum()))
        clusters.add_log_predictive(with_new(self.statistics), terms, workers)
        return terms

    def cell_attributes(self, family: Any) -> dict[str, Any]:
        """Expected parameters of the components as attributes for `cell_distribution`."""
        return family.clusters().cell_attributes(self.statistics)

    def expected(self, clusters: Family, workers: Workers) -> Memberships:
        """Memberships of the rows, and expected parameters of the components and of a new one."""
        shares = self.log_terms(clusters, workers)
        to_shares(shares, workers)
        return shares, clusters.cell_attributes(with_new(self.statistics))

    def drawn(self, clusters: Family, key: np.uint64, workers: Workers) -> Memberships:
        """Memberships of the rows, and drawn parameters of the components and of a new one."""
        labels = np.arange(len(self.statistics.sizes) + 1)
        log_weights = draw_log_weights(self.statistics, labels[:-1], self.concentration, key)
        components = clusters.draw_components(self.statistics, labels, subkey(key, Purpose.COMPONENTS), workers)
        shares = _begin(clusters, log_weights)
        clusters.add_densities_of_rows(components, shares, workers)
        shares[:, -1:] = _terms_of_new(clusters, log_weights, components, workers)
        to_shares(shares, workers)
        return shares, clusters.drawn_attributes(components)

    def new_rows(self, family: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows from the predictive distributions of the clusters with these labels, or of a new one."""
        return family.clusters().new_rows(with_new(self.statistics), labels, key)


def log_partition_prior(sizes: np.ndarray, concentration: float) -> float:
    """Log prior probability of a partition with clusters of these sizes, all positive."""
    of_partition = len(sizes) * math.log(concentration) + gammaln(sizes).sum()
    return float(of_partition + (gammaln(concentration) - gammaln(concentration + sizes.sum())))


def with_new(statistics: Any) -> Any:
    """Statistics of all K clusters of a drawn partition, and of a new one without rows."""
    return selected(statistics, np.arange(len(statistics.sizes) + 1))


def partition_draw(statistics: Any, concentration: float) -> PartitionDraw:
    """The partition with these statistics, the largest component first."""
    return PartitionDraw(selected(statistics, by_size(statistics)), concentration)


class ParameterDraw(NamedTuple):
    """Drawn weights and components; those of chains are log probabilities of categories."""

    # Of the components, and the sum of all others
    log_weights: Annotated[np.ndarray, Array("float64", "n_clusters+1", high=_TOLERANCE, infinite=True)]
    # Parameters of K components
    components: Annotated[np.ndarray, Array("float64", "n_categories n_clusters", high=_TOLERANCE, infinite=True)]
    concentration: Annotated[float, Real(above=0, high=MOST_CONCENTRATED)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        sums = np.exp(self.log_weights).sum()
        return None if abs(sums - 1.0) <= _TOLERANCE else "has weights that do not sum to one"

    def log_terms(self, clusters: Family, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K + 1); the last column is for a new component without rows."""
        terms = _begin(clusters, self.log_weights[:-1])
        clusters.add_densities_of_rows(self.components, terms, workers)
        of_new = _terms_of_new(clusters, self.log_weights, self.components, workers)
        return np.concatenate((terms, of_new), axis=1)

    def expected(self, clusters: Family, workers: Workers) -> Memberships:
        """Memberships of the rows, and the parameters of the components and expected ones of a new component."""
        means = clusters.cell_attributes(clusters.no_statistics(1))["components_"]
        return self._memberships(clusters, np.log(np.hstack(means)).reshape(-1, 1), workers)

    def drawn(self, clusters: Family, key: np.uint64, workers: Workers) -> Memberships:
        """Memberships of the rows, and the parameters of the components and drawn ones of a new component."""
        labels = np.zeros(1, np.int64)
        new = clusters.draw_components(clusters.no_statistics(1), labels, subkey(key, Purpose.COMPONENTS), workers)
        return self._memberships(clusters, new, workers)

    def _memberships(self, clusters: Family, new: np.ndarray, workers: Workers) -> Memberships:
        shares = self.log_terms(clusters, workers)
        to_shares(shares, workers)
        return shares, clusters.drawn_attributes(np.append(self.components, new, axis=1))


def draw_log_weights(statistics: Any, labels: np.ndarray, concentration: float, key: np.uint64) -> np.ndarray:
    """Draw the logs of the weights of clusters with rows, and of all others together, (K + 1,)."""
    shapes = np.append(statistics.sizes[labels], concentration)
    keys = fold_in_each(subkey(key, Purpose.WEIGHTS), np.append(labels, len(statistics.sizes)))
    log_weights = np.array([log_gamma_variate(*cell) for cell in zip(keys, shapes, strict=True)])
    return log_weights - np.logaddexp.reduce(log_weights)


def arrays_of(draw: ParameterDraw, clusters: Any) -> dict[str, np.ndarray]:
    """Weights of the components, (K,), and their parameters as arrays."""
    return {"weights": np.exp(draw.log_weights[:-1]), **clusters.arrays_of(draw.components)}


def _begin(clusters: Family, log_weights: np.ndarray) -> np.ndarray:
    return np.repeat(log_weights[None], clusters.n_rows, axis=0)


def _terms_of_new(clusters: Family, log_weights: np.ndarray, components: Any, workers: Workers) -> np.ndarray:
    """Log of weight times density of a new component whose own parameters are integrated out, (n_rows, 1)."""
    terms = _begin(clusters, log_weights[-1:])
    clusters.add_log_density_of_new(components, terms, workers)
    return terms


def draw_store(mixture: Any, clusters: Family) -> DrawStore:
    """A store whose number of complete draws per chain takes about `max_draws_bytes` for all chains."""
    draw_bytes = 4 * clusters.n_rows + clusters.draw_bytes(_EXPECTED_COMPONENTS)
    return DrawStore.within(mixture.max_draws_bytes, draw_bytes * mixture.n_chains, mixture.thin)
