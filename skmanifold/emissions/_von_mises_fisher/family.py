"""Family of directions: von Mises-Fisher components with a conjugate prior."""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ...distributions import bessel_ratio, inverse_bessel_ratio
from ...distributions._bessel import log_peak
from ...numerics.block_sums import BlockSums
from ...numerics.slice_update import slice_update
from ...random._keys import fold_in_each, subkey
from ...random._variates import fill_direction
from ...utils._conditions import MOST_COUNTED, Array, Real, refuse
from ...utils._declared import Lacking, Saved
from ...utils._njit import njit
from ...utils._threads import ONE, Workers, split_range
from .._family import Family
from .._protocols import Arrays
from .._statistics import occupied, selected
from .kernels import (
    Concentration,
    ConcentrationPrior,
    DenseDirectionData,
    DirectionPosterior,
    SparseDirectionData,
    add_interpolated,
    coefficients_of,
    draw_concentration,
    log_marginals,
    tabulate,
)
from .rows import DenseUnitRows, DirectedRows, SparseRows, SphericalKMeans

_CELLS_OF_TASK = 200_000  # products of rows and directions: a millisecond
_LOGITS = -12.0, 14.0  # of the learned mean cosine
_SHARE_OF_COSINES = 0.2  # of the passes, in which it is drawn
_MAX_RATIO = 1.0 - 1e-12  # maximum mean resultant length, because of rounding
_OF_CONCENTRATIONS, _OF_DIRECTIONS, _OF_ROWS = 0, 1, 2  # uses of the key of a draw


class VonMisesFisherParameters(NamedTuple):
    """Mean directions of K components, (n_features, K), concentrations, and log densities there relative to uniform."""

    directions: Annotated[np.ndarray, Array("float64", "n_dimensions n_components", unit=0)]
    concentrations: Annotated[np.ndarray, Array("float64", "n_components", low=0, high=MOST_COUNTED)]
    log_peaks: Annotated[np.ndarray, Array("float64", "n_components")]

    @classmethod
    def of(cls, directions: np.ndarray, concentrations: np.ndarray) -> VonMisesFisherParameters:
        """Parameters with these directions, which are columns."""
        return cls(directions, concentrations, log_peak(len(directions), concentrations))


class DirectionSums(NamedTuple):
    """Sums of unit vectors by label."""

    # Numbers of rows, or sums of weights
    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]
    sums: Annotated[np.ndarray, Array("float64", "capacity n_dimensions")]
    # The mean cosine of the prior, if chains draw it
    hyperparameters: Annotated[np.ndarray, Array("float64", "_", low=0, high=1)] = np.empty(0)

    @property
    def label_axes(self) -> tuple[int | None, ...]:
        """Axis of the labels in each array."""
        return 0, 0, None

    def lengths(self) -> np.ndarray:
        """Lengths of the sums, at most the sizes."""
        return np.minimum(np.sqrt(np.square(self.sums).sum(axis=1)), self.sizes)

    def directions(self) -> np.ndarray:
        """Directions of the sums, (capacity, d); zeros have the direction of the first axis."""
        lengths = np.sqrt(np.square(self.sums).sum(axis=1))[:, np.newaxis]
        return np.where(lengths > 0.0, self.sums / np.where(lengths > 0.0, lengths, 1.0), np.eye(1, self.sums.shape[1]))


class VonMisesFisherFamily(Family):
    """Family of directions of d features, whose statistics are sums of unit vectors.

    `concentration` is "shared" or "per_component" if learned, with the `prior`, or a number.
    """

    prior: Saved[ConcentrationPrior]
    concentration: Saved[Literal["shared", "per_component"] | Annotated[float, Real(above=0, high=MOST_COUNTED)]]

    draws_cosine: Lacking[bool] = False  # whether chains draw the mean cosine of the prior

    parameters_type = VonMisesFisherParameters
    bytes_of_cell = 24.0

    def __init__(
        self, prior: ConcentrationPrior, concentration: Concentration, n_components: int, n_features: int
    ) -> None:
        self.prior = prior
        self.concentration = concentration
        self.n_components = n_components
        self.n_features = n_features

    @property
    def _given(self) -> float:
        """The concentration, or 0 if it is learned."""
        return 0.0 if isinstance(self.concentration, str) else float(self.concentration)

    @property
    def _is_shared(self) -> bool:
        return self.concentration == "shared"

    @property
    def _n_learned(self) -> int:
        """Number of concentrations that are learned."""
        return {"shared": 1, "per_component": self.n_components}.get(str(self.concentration), 0)

    @property
    def _of_prior(self) -> tuple[float, float, float]:
        """The prior of a concentration as the kernels read it."""
        return self.prior.rows, self.prior.gap, self.prior.log_normalizer(self.n_features)

    # Statistics

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of components."""
        return (self.n_components,), (self.n_components, self.n_features)

    def sum_labels(self, rows: DirectedRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their labels."""
        return self._sum_each_block(first, stop, first_block, labels, rows.add_labelled)

    def sum_shares(self, rows: DirectedRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of the rows `first` to `stop`, given their membership probabilities."""
        return self._sum_each_block(first, stop, first_block, shares, rows.add_shares)

    def expect_rows(
        self, rows, first, stop, first_block, parameters, log_weights, row_weights, log_density
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, which are read once."""
        scores = parameters._replace(log_peaks=parameters.log_peaks + log_weights)
        labels = np.empty(len(log_density), np.int64)

        def add(start: int, end: int, _: np.ndarray, sizes: np.ndarray, sums: np.ndarray) -> None:
            of_block = np.zeros(parameters.directions.shape)
            rows.expect(start, end, row_weights, scores, False, of_block, sizes, log_density, labels)
            sums += of_block.T

        return self._sum_each_block(first, stop, first_block, log_density[first:stop], add)

    def seed_weighted_labels(self, rows: DirectedRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by spherical k-means from seeds."""
        weights = np.ones(rows.n_rows) if row_weights is None else row_weights
        return SphericalKMeans(rows, weights, self.n_components, ONE).labels_from_rows(key)  # chains may be in parallel

    # Posterior and parameters

    def mode(self, statistics: Arrays) -> VonMisesFisherParameters:
        """The posterior mode of directions and concentrations."""
        own = DirectionSums(*statistics)
        return self.mode_of(own.sizes, own.lengths(), np.ascontiguousarray(own.directions().T))

    def mode_of(self, sizes: np.ndarray, lengths: np.ndarray, directions: np.ndarray) -> VonMisesFisherParameters:
        """The posterior mode given sizes, and lengths and directions, (n_features, K), of the sums of rows."""
        concentrations, prior = np.full(len(sizes), self._given), self.prior
        if self._given == 0.0:
            if self._is_shared:
                lengths, sizes = np.full(len(sizes), lengths.sum()), np.full(len(sizes), sizes.sum())
            ratios = np.minimum((lengths + prior.rows * prior.cosine) / (sizes + prior.rows), _MAX_RATIO)
            concentrations = inverse_bessel_ratio(self.n_features, ratios)
        return VonMisesFisherParameters.of(directions, concentrations)

    def draw(self, statistics: Arrays, key: np.uint64) -> VonMisesFisherParameters:
        """Draw concentrations with the directions integrated out, and then directions."""
        own = DirectionSums(*statistics)
        return self._draw(own, own, key)

    def draw_components(
        self, statistics: DirectionSums, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> VonMisesFisherParameters:
        """Draw parameters in the order of memory and the precision that scores of these rows need."""
        own = selected(statistics, labels)
        drawn = self._draw(own, statistics if self._is_shared else own, key)
        if isinstance(self.data, SparseDirectionData):
            return drawn
        return drawn._replace(directions=np.asfortranarray(drawn.directions, self.data.values.dtype))

    def _draw(self, own: DirectionSums, every: DirectionSums, key: np.uint64) -> VonMisesFisherParameters:
        """Draw parameters of components; concentrations depend on the statistics `every`."""
        concentrations = np.full(len(own.sizes), self._given)
        if self._given == 0.0:
            concentrations[:] = self._draw_concentrations(every, subkey(key, _OF_CONCENTRATIONS))
        directions = _draw_means(subkey(key, _OF_DIRECTIONS), own, concentrations)
        return VonMisesFisherParameters.of(np.ascontiguousarray(directions.T), concentrations)

    def _draw_concentrations(self, statistics: DirectionSums, key: np.uint64) -> np.ndarray:
        """Learned concentrations of components, or the one that they share."""
        keys = [key] if self._is_shared else fold_in_each(key, np.arange(len(statistics.sizes)))
        pairs = zip(keys, self._posteriors(statistics), strict=True)
        return np.array([draw_concentration(own, *posterior) for own, posterior in pairs])

    def _posteriors(self, statistics: DirectionSums) -> list[tuple]:
        """Arguments of `tabulate` for each concentration, or for the one that all components share."""
        order, rows, gap = 0.5 * self.n_features - 1.0, self.prior.rows, self.prior.gap
        sizes, lengths = statistics.sizes, statistics.lengths()
        if self._is_shared:
            n = float(sizes.sum())
            return [(order, n + rows, n - lengths.sum() + gap, lengths[lengths > 0.0])]
        of_each = zip(sizes + rows, sizes - lengths + gap, lengths[:, np.newaxis], strict=True)
        return [(order, *posterior) for posterior in of_each]

    def _tables(self, statistics: DirectionSums) -> list[tuple[np.ndarray, np.ndarray]]:
        """Logarithms of the concentration of each component, and logs of their posterior probabilities."""
        if self._given > 0.0:
            tables = [(np.log([self._given]), np.zeros(1))]
        else:
            tables = [tabulate(*posterior)[:2] for posterior in self._posteriors(statistics)]
        return tables if self.concentration == "per_component" else tables * len(statistics.sizes)

    def log_prior(self, parameters: VonMisesFisherParameters) -> float:
        """Log prior density of the parameters, up to a constant."""
        concentrations, peaks = (array[: self._n_learned] for array in parameters[1:])
        return float((self.prior.rows * peaks - self.prior.gap * concentrations).sum())

    def penalty(self, parameters: VonMisesFisherParameters) -> float:
        """The maximum of `log_prior` minus its value, which is a sum of KL divergences times the rows of the prior."""
        concentrations, peaks = (array[: self._n_learned] for array in parameters[1:])
        rows, mode = self.prior.rows, inverse_bessel_ratio(self.n_features, self.prior.cosine)
        above = (concentrations - mode) * self.prior.gap + rows * log_peak(self.n_features, mode) - rows * peaks
        return float(np.sum(above))

    def log_likelihood(self, statistics: Arrays, parameters: VonMisesFisherParameters) -> float:
        """Log density of rows with these statistics given their components."""
        sizes, sums = statistics
        cosines = np.einsum("kj,jk->k", sums, parameters.directions)
        return float(sizes @ parameters.log_peaks + parameters.concentrations @ (cosines - sizes))

    def add_log_densities(
        self, rows: DirectedRows, first: int, stop: int, parameters: VonMisesFisherParameters, out: np.ndarray
    ) -> None:
        """Add the log densities of the rows `first` to `stop`, relative to the uniform distribution."""
        rows.add_log_densities(first, stop, parameters, out)

    def sample(self, parameters: VonMisesFisherParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components."""
        directions = np.ascontiguousarray(parameters.directions.T)
        return draw_directions(key, directions[labels], parameters.concentrations[labels])

    def attributes(self, parameters: VonMisesFisherParameters) -> dict[str, np.ndarray]:
        """Expected rows, which are mean directions times mean cosines, mean directions and concentrations."""
        cosines = bessel_ratio(self.n_features, parameters.concentrations)
        return _attributes(np.ascontiguousarray(parameters.directions.T), cosines, parameters.concentrations)

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        if not np.array_equal(parameters.log_peaks, log_peak(self.n_features, parameters.concentrations)):
            refuse("parameters", "has densities that are not those of its concentrations")

    def n_parameters(self) -> int:
        """Number of free parameters: directions, and the concentrations that are learned."""
        return self.n_components * (self.n_features - 1) + self._n_learned

    # Rows whose parameters are integrated out

    def prepare(self, rows: DirectedRows) -> DenseDirectionData | SparseDirectionData:
        """Rows and prior, as the kernels read them."""
        if isinstance(rows, SparseRows):
            return SparseDirectionData(*rows, self._of_prior)
        values, factors = rows.factors()
        return DenseDirectionData(np.ascontiguousarray(values), factors, self.n_features, self._of_prior)

    def _no_rows(self) -> DirectedRows:
        return DenseUnitRows(np.empty((0, self.n_features)))

    def with_learned_prior(self, statistics: DirectionSums, free: Any) -> VonMisesFisherFamily:
        """These rows with the mean cosine of the prior that maximises the marginal likelihood of a partition."""
        from scipy.optimize import minimize_scalar  # slow to import

        def cost(value: float) -> float:
            return -self._with_drawn(expit([value]), ()).log_marginal(statistics)

        found = minimize_scalar(cost, bounds=_LOGITS, method="bounded", options={"xatol": 0.01})
        return self._with_drawn(expit([found.x]), ())

    # The mean cosine of the prior, which chains draw

    def with_hyperprior(self, free: Any, before: VonMisesFisherFamily) -> VonMisesFisherFamily:
        """The family whose mean cosine is the start of a chain."""
        other = copy(self)
        other.draws_cosine = True
        return other

    @property
    def hyperparameters(self) -> np.ndarray:
        """The mean cosine of the prior; empty if it is fixed."""
        return np.full(int(self.draws_cosine), self.prior.cosine)

    def _with_drawn(self, cosines: np.ndarray, values: Any) -> VonMisesFisherFamily:
        other = copy(self)
        other.prior = ConcentrationPrior(self.prior.rows, float(cosines[0]))
        other.data = self.data._replace(prior=other._of_prior)
        return other

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Any, key: np.uint64, workers: Workers) -> Any:
        """In some passes statistics with another mean cosine, drawn given the partition; uniform in the prior."""
        if not self.draws_cosine:
            return statistics
        rng = np.random.default_rng(int(key))
        if rng.random() >= _SHARE_OF_COSINES:
            return statistics

        def log_density(value: float) -> float:
            of_prior = -np.logaddexp(0.0, value) - np.logaddexp(0.0, -value)
            return float(of_prior) + self._with_drawn(expit([value]), ()).log_marginal(statistics)

        drawn = slice_update(log_density, float(logit(statistics.hyperparameters[0])), *_LOGITS, rng)
        return statistics._replace(hyperparameters=expit([drawn]))

    def hyperparameters_of(self, statistics: DirectionSums) -> dict[str, np.ndarray]:
        """The drawn mean cosine."""
        return {"cosine_prior": statistics.hyperparameters[0]} if self.draws_cosine else {}

    def no_statistics(self, capacity: int) -> DirectionSums:
        """Sums of no rows."""
        return DirectionSums(np.zeros(capacity, np.int64), np.zeros((capacity, self.n_features)), self.hyperparameters)

    def new_posterior(self, capacity: int, statistics: DirectionSums, key: np.uint64) -> DirectionPosterior:
        """Space for the posteriors of labels, with a drawn concentration if all clusters share it."""
        concentration = self._given
        if self._is_shared:
            concentration = float(self._draw_concentrations(statistics, key)[0])
        return DirectionPosterior(np.zeros(capacity), concentration)

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch, sorted by their labels: pairs of rows then need scores of as many components."""
        return rows[np.argsort(labels[rows], kind="stable")]

    def log_marginals(self, statistics: DirectionSums) -> np.ndarray:
        """Log marginal densities of the rows of each label, (K,); a shared concentration has none."""
        return log_marginals(self.n_features, self._of_prior, self._given, statistics.sizes, statistics.lengths())

    def log_marginal(self, statistics: DirectionSums) -> float:
        """Log density of all rows given their labels, relative to the uniform distribution."""
        if not self._is_shared:
            return super().log_marginal(statistics)
        (posterior,) = self._posteriors(selected(statistics, occupied(statistics)))
        return tabulate(*posterior)[2] - self.prior.log_normalizer(self.n_features)

    def add_log_predictive(self, statistics: DirectionSums, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster, relative to the uniform distribution."""
        coefficients = coefficients_of(0.5 * self.n_features - 1.0, self._tables(statistics), statistics.lengths())
        alike = np.ones(len(coefficients))
        of_cosines = np.ascontiguousarray(statistics.directions().T), alike, alike

        def add(first: int, stop: int, scores: np.ndarray) -> None:
            cosines = np.zeros(scores.shape)
            self.rows.add_log_densities(first, stop, of_cosines, cosines)
            add_interpolated(cosines, coefficients, scores)

        self._add_by_ranges(add, out, workers)

    def add_log_density_of_new(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """The density of a row given a new component is that of the uniform distribution."""

    def add_log_broad(self, out: np.ndarray, workers: Workers) -> None:
        """The density of an outlier is that of the uniform distribution."""

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Expected rows, (K, d), and concentrations."""
        attributes = self.attributes(components)
        return {name: attributes[f"{name}_"] for name in ("components", "concentrations")}

    def expected(self, statistics: DirectionSums, shares: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Posterior means of expected rows and of concentrations, and directions of the sums of rows."""
        d, units, cosines, concentrations = self.n_features, statistics.directions(), [], []
        for (nodes, logs), length in zip(self._tables(statistics), statistics.lengths(), strict=True):
            values, masses = np.exp(nodes), np.exp(logs)
            cosines.append(masses @ (bessel_ratio(d, values) * bessel_ratio(d, values * length)))
            concentrations.append(masses @ values)
        attributes = _attributes(units, np.array(cosines), np.array(concentrations))
        if shares is None:
            return attributes
        means = shares @ attributes["components_"]  # of which the direction and the length determine a cluster
        lengths = np.linalg.norm(means, axis=1)
        concentrations = inverse_bessel_ratio(d, np.minimum(lengths, _MAX_RATIO))
        return _attributes(means / lengths[:, np.newaxis], lengths, concentrations)

    def new_rows(self, statistics: DirectionSums, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Rows drawn from the predictive distributions of clusters."""
        own, concentrations = selected(statistics, labels), np.full(len(labels), self._given)
        if self._given == 0.0:
            keys = fold_in_each(subkey(key, _OF_CONCENTRATIONS), np.arange(len(labels)))
            pairs, posteriors = zip(keys, labels * (not self._is_shared), strict=True), self._posteriors(statistics)
            concentrations = np.array([draw_concentration(own_key, *posteriors[place]) for own_key, place in pairs])
        means = _draw_means(subkey(key, _OF_DIRECTIONS), own, concentrations)
        return draw_directions(subkey(key, _OF_ROWS), means, concentrations)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 2000

    def _tasks(self, n_labels: int) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        size = max(256, _CELLS_OF_TASK // max(1, n_labels))
        return split_range(self.n_rows, 256 * -(-size // 256))


def _attributes(directions: np.ndarray, cosines: np.ndarray, concentrations: np.ndarray) -> dict[str, np.ndarray]:
    expected = cosines[:, np.newaxis] * directions
    return {"components_": expected, "mean_directions_": directions, "concentrations_": concentrations}


def _draw_means(key: np.uint64, statistics: DirectionSums, concentrations: np.ndarray) -> np.ndarray:
    """Draw mean directions of components, (K, n_features), given their concentrations."""
    return draw_directions(key, statistics.sums, concentrations * np.sqrt(np.square(statistics.sums).sum(axis=1)))


def draw_directions(key: np.uint64, means: np.ndarray, concentrations: np.ndarray) -> np.ndarray:
    """Draw unit vectors about `means`, (n, d), of any length, zeros for uniform; i depends on key, i and its mean."""
    out = np.empty(means.shape)
    _fill_directions(fold_in_each(key, np.arange(len(out))), np.ascontiguousarray(means), concentrations, out)
    return out


@njit(cache=True, nogil=True)
def _fill_directions(keys, means, concentrations, out):
    for i in range(len(out)):
        fill_direction(keys[i], means[i], concentrations[i], out[i])
