"""How rows choose their components: a fixed number with a Dirichlet prior, or a Dirichlet process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.special import gammaln

from ..emissions._cells import distribution_of_columns
from ..emissions._family import Family, cell_parameters
from ..emissions._statistics import by_size, held_statistics, selected
from ..inference._draw_store import DrawStore
from ..random._keys import Purpose, fold_in_each, subkey
from ..random._variates import fill_log_gammas, log_gamma_variate
from ..samplers._latent.stick_breaking import MOST_CONCENTRATED
from ..utils._conditions import Array, Real, Sizes
from ..utils._threads import Workers
from ._scores import FamilyRows, Memberships, refuse_far_rows, to_shares


def read_labels(labels: Any, n_rows: int, n_labels: int | None, name: str) -> np.ndarray:
    """Check a user's labels, (n_rows,), or raise a ValueError that begins with `name`; returns them as int64.

    They are whole numbers from 0, below `n_labels` if that is given, of any numeric type: pandas stores a column of
    integers with missing values as floats.
    """
    given = np.asarray(labels)
    limit = 2**63 if n_labels is None else n_labels
    to_last = "" if n_labels is None else f" to {n_labels - 1}"
    wanted = f"{name} {n_rows} whole numbers from 0{to_last}, one for each row"
    if given.shape != (n_rows,) or given.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}; got shape {given.shape} and type {given.dtype}.")
    wrong = ~((given >= 0) & (given < limit)) | (given % 1 != 0)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{wanted}; got {given[row]} for row {row}.")
    return given.astype(np.int64)


def random_labels(key: np.uint64, n_rows: int, n_labels: int) -> np.ndarray:
    """Draw a label from 0 to `n_labels` - 1 for each row, (n_rows,) int32, nearly uniform.

    The label of a row depends only on the key and the index of the row.
    """
    return (fold_in_each(key, np.arange(n_rows)) % np.uint64(n_labels)).astype(np.int32)


_TO_UNIT = 2.0**-64


class DirichletWeights(NamedTuple):
    r"""The prior of the weights of K components, :math:`w \sim \mathrm{Dir}(\alpha, \dots, \alpha)`."""

    prior: float

    @classmethod
    def of_parameter(cls, weight_prior: float | None, n_components: int) -> DirichletWeights:
        """The prior with this parameter of an estimator; None is one row for all components together."""
        return cls(1.0 / n_components if weight_prior is None else float(weight_prior))

    def mode(self, sizes: np.ndarray) -> np.ndarray:
        """The mode of the weights in the natural parametrisation, given the sizes of the components, (K,)."""
        weights = sizes + self.prior
        return weights / weights.sum()

    def draw(self, sizes: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw the weights given the sizes of the components, (K,); sizes of zero give the prior."""
        logs = np.empty(len(sizes))
        fill_log_gammas(subkey(key, Purpose.WEIGHTS), sizes + self.prior, logs)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def log_prior(self, weights: np.ndarray) -> float:
        """Log prior density in the natural parametrisation, up to a constant."""
        return self.prior * float(np.log(weights).sum())


Parameters = TypeVar("Parameters")


class Position(NamedTuple, Generic[Parameters]):
    """Parameters of a finite mixture: an estimate, or a draw from the posterior."""

    weights: Annotated[np.ndarray, Array("float64", "n_components", low=0, sums_to_one=0)]
    parameters: Parameters  # of the family, which checks them

    def log_weights(self) -> np.ndarray:
        """Logarithms of the weights, (K,)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    def log_terms(self, rows: FamilyRows, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K)."""
        terms = np.repeat(self.log_weights()[None], rows.n_rows, axis=0)
        rows.add_densities_of_rows(self.parameters, terms, workers)
        return terms

    def columns(self, family: Any) -> Any:
        """The distributions of single columns given the component, or None."""
        return distribution_of_columns(family, cell_parameters(family, self.parameters))

    def expected(self, rows: FamilyRows, workers: Workers) -> Memberships:
        """Memberships of the rows, and the distributions of their cells given the component."""
        shares = self.log_terms(rows, workers)
        refuse_far_rows(to_shares(shares, workers))
        return shares, rows.family.cell_distribution(cell_parameters(rows.family, self.parameters))

    def drawn(self, rows: FamilyRows, key: np.uint64, workers: Workers) -> Memberships:
        """The same: there is nothing left to draw."""
        return self.expected(rows, workers)

    def new_rows(self, family: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of the components with these labels."""
        return family.sample(self.parameters, labels, key)


class PositionDraws(NamedTuple):
    """Draws from the posterior with matched components, as an estimate: densities are means over the draws."""

    draws: Sequence[Position]

    @property
    def weights(self) -> np.ndarray:
        """Mean weights of the components, (K,)."""
        return np.mean([draw.weights for draw in self.draws], axis=0)

    def log_terms(self, rows: FamilyRows, workers: Workers) -> np.ndarray:
        """Log of weight times density, averaged over the draws, (n_rows, K)."""
        total = self.draws[0].log_terms(rows, workers)
        for draw in self.draws[1:]:
            np.logaddexp(total, draw.log_terms(rows, workers), out=total)
        return total - np.log(len(self.draws))

    def new_rows(self, family: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of the components with these labels, each of a draw that is chosen by its weight of the label."""
        chosen, X = np.empty(len(labels), np.int32), np.empty((len(labels), family.n_features))
        for k, weights in enumerate(np.transpose([draw.weights for draw in self.draws])):
            rows = np.flatnonzero(labels == k)
            chosen[rows] = draw_labels(weights, len(rows), subkey(key, Purpose.LABELS, k))
        for i, draw in enumerate(self.draws):
            rows = np.flatnonzero(chosen == i)
            X[rows] = family.sample(draw.parameters, labels[rows], subkey(key, Purpose.ROWS, i))
        return X


def draw_labels(weights: np.ndarray, n_rows: int, key: np.uint64) -> np.ndarray:
    """Components of rows, drawn with these weights, (n_rows,) int32."""
    levels = np.cumsum(weights)
    places = fold_in_each(key, np.arange(n_rows)) * _TO_UNIT * levels[-1]
    return np.searchsorted(levels[:-1], places, side="right").astype(np.int32)


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
        clusters.given(self.statistics).add_log_predictive(with_new(self.statistics), terms, workers)
        return terms

    def columns(self, family: Any) -> Any:
        """The distributions of single columns given the component, or None."""
        clusters = self.clusters(family)
        return distribution_of_columns(clusters, clusters.cell_attributes(self.statistics))

    def expected(self, clusters: Any, workers: Workers) -> Memberships:
        """Memberships of the rows, and distributions of cells by expected parameters; the last is a new component."""
        shares, clusters = self.log_terms(clusters, workers), clusters.given(self.statistics)
        to_shares(shares, workers)
        return shares, clusters.cell_distribution(clusters.cell_attributes(with_new(self.statistics)))

    def drawn(self, clusters: Any, key: np.uint64, workers: Workers) -> Memberships:
        """Memberships of the rows, and distributions of cells by drawn parameters; the last is a new component."""
        labels, clusters = np.arange(len(self.statistics.sizes) + 1), clusters.given(self.statistics)
        log_weights = draw_log_weights(self.statistics, labels[:-1], self.concentration, key)
        components = clusters.draw_components(self.statistics, labels, subkey(key, Purpose.COMPONENTS), workers)
        shares = _begin(clusters, log_weights)
        clusters.add_densities_of_rows(components, shares, workers)
        shares[:, -1:] = _terms_of_new(clusters, log_weights, components, workers)
        to_shares(shares, workers)
        return shares, clusters.cell_distribution(clusters.drawn_attributes(components))

    def new_rows(self, family: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows from the predictive distributions of the clusters with these labels, or of a new one."""
        return self.clusters(family).new_rows(with_new(self.statistics), labels, key)

    def clusters(self, family: Any) -> Any:
        """The family, without rows, with the hyperparameters of the draw."""
        return family.clusters().given(self.statistics)


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

    def expected(self, clusters: Any, workers: Workers) -> Memberships:
        """Memberships of the rows, and distributions of cells, by expected parameters of a new component."""
        means = clusters.cell_attributes(clusters.no_statistics(1))["components_"]
        return self._memberships(clusters, np.log(np.hstack(means)).reshape(-1, 1), workers)

    def drawn(self, clusters: Any, key: np.uint64, workers: Workers) -> Memberships:
        """Memberships of the rows, and distributions of cells, by drawn parameters of a new component."""
        labels = np.zeros(1, np.int64)
        new = clusters.draw_components(clusters.no_statistics(1), labels, subkey(key, Purpose.COMPONENTS), workers)
        return self._memberships(clusters, new, workers)

    def _memberships(self, clusters: Any, new: np.ndarray, workers: Workers) -> Memberships:
        shares = self.log_terms(clusters, workers)
        to_shares(shares, workers)
        return shares, clusters.cell_distribution(clusters.drawn_attributes(np.append(self.components, new, axis=1)))


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
