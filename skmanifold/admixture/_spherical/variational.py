"""Mean-field variational inference for the spherical admixture model: the factors, the objective and its updates."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ...distributions import bessel_ratio
from ...distributions._bessel import log_density_at_mode
from ...models._minibatch import random_batches
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import fill_normal
from ...samplers import MeanField
from ...topics.document_densities import OneConcentration
from ...topics.spherical_kernels import combine_columns, multiply_columns, whole_gram
from ...utils._conditions import Array, Real, Sizes
from ...utils._threads import Workers, split_by_task, split_range
from .concentrations import MOST_CONCENTRATED, Concentrations, ObservedShares, learning_rows
from .documents import SphericalDocuments, initialize_topics
from .variational_kernels import expectation_gains, fit_rows, score_rows, solve_topics

if TYPE_CHECKING:  # `setup` uses models, whose initial topics are from here
    from .setup import Setup

_ROWS_OF_TASK = 64  # a millisecond or more
_CELLS_OF_TASK = 1 << 19
_WORK_OF_TASK = 1 << 22
_MOST_FIRST_PASSES, _LEAST_GAIN = 100, 0.01  # before those of a sampler that draws topics; nats per document
_N_SWEEPS = 20
_SWEEP_TOL = 1e-4
_FIRST_WEIGHT = 10.0  # pseudo-tokens per topic in a document's initial factor, distributed by its projections
_NOISE = 0.05  # noise of the initial topics relative to their length, so that no two are equal


class SphereFactors(NamedTuple):
    """Von Mises-Fisher factors of the topics and their mean, as natural parameters (concentration times direction)."""

    topics: Annotated[
        np.ndarray, Array("float64", "n_features n_components", low=-MOST_CONCENTRATED, high=MOST_CONCENTRATED)
    ]
    # Lengths of the columns of `topics`
    concentrations: Annotated[np.ndarray, Array("float64", "n_components", low=0, high=MOST_CONCENTRATED)]
    mean: Annotated[np.ndarray, Array("float64", "n_features", low=-MOST_CONCENTRATED, high=MOST_CONCENTRATED)]
    mean_concentration: Annotated[float, Real(low=0, high=MOST_CONCENTRATED)]  # length of `mean`

    def _disagreement(self, sizes: Sizes) -> str | None:
        lengths = np.sqrt(np.square(self.topics).sum(axis=0))
        length = np.sqrt(np.square(self.mean).sum())
        same = np.allclose(lengths, self.concentrations, rtol=1e-6) and np.isclose(length, self.mean_concentration)
        return None if same else "has concentrations that differ from the lengths of its factors"

    def gains(self) -> np.ndarray:
        """Factors that turn the columns of `topics` into the topics' expectations, (K,)."""
        return expectation_gains(len(self.topics), self.concentrations)

    def directions(self) -> np.ndarray:
        """Mean directions of the topics, unit rows of shape (K, V)."""
        lengths = np.where(self.concentrations > 0.0, self.concentrations, 1.0)
        return np.ascontiguousarray((self.topics / lengths).T)

    def expected_mean(self) -> np.ndarray:
        """Expectation of the topics' mean direction, (V,)."""
        return expectation_gains(len(self.mean), np.array([self.mean_concentration])) * self.mean


class RowFactors(NamedTuple):
    """Dirichlet factors of documents, and the statistics of documents and current topics that they depend on."""

    shapes: np.ndarray  # (n, K): parameters of the factors
    projections: np.ndarray  # (n, K): E[beta_k]'v
    overlaps: np.ndarray  # (K, K): E[beta_j'beta_k]

    def take(self, chosen: np.ndarray) -> RowFactors:
        """The factors of some documents."""
        return RowFactors(self.shapes[chosen], self.projections[chosen], self.overlaps)

    def put(self, chosen: np.ndarray, some: RowFactors) -> RowFactors:
        """Replace the factors of some documents, in place."""
        self.shapes[chosen] = some.shapes
        return self


class DocumentSums(NamedTuple):
    """Sums over documents in the gradient with respect to the topics' expectations, and in the objective."""

    weighted: np.ndarray  # (V, K): sum of documents times their weights
    coupling: np.ndarray  # (K, K), with a zero diagonal; the gradient has minus coupling times topics
    objective: float  # terms of the documents in the objective


class Alignment(NamedTuple):
    """Mean cosines for the updates of the concentrations: each is the Bessel ratio of the new concentration."""

    document: float  # between documents and their expected directions
    topic: float  # between the expectations of topics and of the mean
    mean: float  # between the expectation of the mean and the given mean direction


class MeanFieldSAM(SphericalDocuments):
    r"""Mean-field approximation of the posterior of a spherical admixture.

    The model ([1]_), with unit vectors :math:`v_d` whose entries have either sign:

    .. math::
        \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad v_d \sim \mathrm{vMF}(\beta \theta_d / |\beta \theta_d|, \kappa).

    The factors are :math:`q(\mu) = \mathrm{vMF}`, :math:`q(\beta_k) = \mathrm{vMF}` with natural parameter
    :math:`\eta_k` (length :math:`\xi_k` times direction) and :math:`q(\theta_d) = \mathrm{Dir}(a_d)`. With
    :math:`e_k = \mathrm{E} \beta_k = A_V(\xi_k) \eta_k / \xi_k`, :math:`B_{jk} = e_j'e_k` and :math:`B_{kk} = 1`,
    :math:`b_d = e'v_d` and :math:`s_d = \sum_k a_{dk}`, the objective is

    .. math::
        L = \sum_d \left[ \log c_V(\kappa) + \kappa \rho_d
        - \mathrm{KL}(\mathrm{Dir}(a_d) | \mathrm{Dir}(\alpha)) \right]
        + \sum_k \left[ \log c_V(\sigma) + \sigma \, e_k' \mathrm{E} \mu + H(q(\beta_k)) \right]
        + \log c_V(\kappa_0) + \kappa_0 \, m' \mathrm{E} \mu + H(q(\mu)),

    .. math::
        \rho_d = \frac{\mathrm{E}[\beta \theta_d]' v_d}{\sqrt{\mathrm{E} |\beta \theta_d|^2}}
        = \sqrt{1 + 1 / s_d} \, \frac{a_d'b_d}{\sqrt{a_d'B a_d + s_d}} .

    The expectation of the cosine has no closed form. :math:`\rho_d` replaces the mean of a ratio by a ratio of means
    ([1]_). So L approximates a lower bound of the evidence but is not a bound itself.

    With a concentration for each topic, that of a document, :math:`\kappa(\theta_d)`, has the mean :math:`m_d` and the
    variance :math:`v_d` under its factor. Then :math:`m_d` replaces :math:`\kappa`, also in the sums over documents
    below, and :math:`\log c_V(m_d) - \psi(m_d) v_d / 2` replaces :math:`\log c_V(\kappa)`. This expansion of
    :math:`\mathrm{E} \log c_V(\kappa(\theta_d))` to second order is needed: since :math:`\log c_V` is concave, its
    value at the mean is too large, and wide factors of documents would seem better than they are. :math:`\psi` is the
    leading term of :math:`A_V'` for a large V or :math:`\kappa`. The covariance of :math:`\kappa(\theta_d)` and the
    cosine is small at the optimum, and is neglected.

    Each document's factor maximises L by Newton's method in the logarithms of :math:`a_d`; the cost does not depend on
    V. For topics, the gradient of L without the entropies with respect to :math:`e_k` is

    .. math::
        F_k = \kappa \sum_d \frac{\sqrt{1 + 1 / s_d} \, a_{dk}}{\sqrt{q_d}}
        \Big[ v_d - \frac{a_d'b_d}{q_d} \sum_{j \ne k} a_{dj} e_j \Big] + \sigma \, \mathrm{E} \mu,
        \qquad q_d = a_d'B a_d + s_d,

    and the gradient of the entropy is :math:`-\eta_k`. Therefore :math:`\eta_k = F_k` at every stationary point, and
    :math:`\eta_k \leftarrow (1 - \rho) \eta_k + \rho F_k` is a natural-gradient step of length :math:`\rho`. It needs
    two sums over the documents, of shapes (V, K) and (K, K) (`DocumentSums`). With these fixed, topics are updated one
    after the other, each with the new values of the topics before it; otherwise topics that share documents would
    overshoot. The mean is updated last, to its optimum for given topics, :math:`\kappa_0 m + \sigma \sum_k e_k`.

    Documents without entries have no factor. `batch_size` None uses all documents, and `total_samples` is their number
    in the objective.

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney, "Spherical topic models", ICML 2010.
    .. [2] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic variational inference", JMLR 14, 2013.
    """

    def __init__(
        self, setup: Setup, workers: Workers, *, batch_size: int | None = None, total_samples: int | None = None
    ):
        super().__init__(setup, workers, total_samples)
        self.batch_size = batch_size

    @property
    def n_samples(self) -> int:
        """Number of documents that are not zero."""
        return len(self.directed)

    @property
    def scale(self) -> float:
        """Number of documents that each of these represents."""
        return self.total_samples / max(self.n_samples, 1)

    def tuned(self, concentrations: Concentrations) -> MeanFieldSAM:
        """A copy with other concentrations."""
        other = copy.copy(self)
        other.concentrations = concentrations
        return other

    # MeanFieldModel

    def init_factors(self, key: np.uint64) -> tuple[SphereFactors, RowFactors]:
        """Initial factors: topics between the mean direction and the centres of clusters, and factors of documents."""
        n_components = self.n_components
        start = initialize_topics(self.rows, n_components, key)
        share = bessel_ratio(len(self.mean_direction), start.concentration) / n_components
        topics = (self.document_density.reference * self.total_samples * share) * start.topics.T
        topics += (self.concentrations.topic * self.mean_direction)[:, np.newaxis]
        noise = np.empty((n_components, len(topics)))
        fill_normal(fold_in_each(subkey(key, Purpose.NOISE), np.arange(n_components)), Purpose.NOISE, noise)
        topics += noise.T * (_NOISE / np.sqrt(len(topics)) * _lengths(topics))
        mean = self.concentrations.mean * self.mean_direction
        factors = self._update_mean(SphereFactors(topics, _lengths(topics), mean, self.concentrations.mean))
        return factors, self.init_rows(factors)

    def init_rows(self, factors: SphereFactors) -> RowFactors:
        """Initial factors of documents, given the topics."""
        projections, overlaps = self._project_and_overlap(factors)
        n_components = self.n_components
        positive = np.maximum(projections, 1e-3 / n_components)
        shares = positive / np.add.reduce(positive, axis=1)[:, np.newaxis]
        return RowFactors(self.alpha + _FIRST_WEIGHT * n_components * shares, projections, overlaps)

    def refresh_rows(self, factors: SphereFactors, rows: RowFactors) -> RowFactors:
        """The same factors of documents, with projections and overlaps of other topics."""
        return RowFactors(rows.shapes, *self._project_and_overlap(factors))

    def fit_rows(self, rows: RowFactors, n_steps: int, tol: float) -> tuple[RowFactors, DocumentSums]:
        """Maximise the documents' factors by at most `n_steps` steps, and sum their terms in the topics' gradient."""
        n_components = rows.shapes.shape[1]
        shapes, weights = rows.shapes.copy(), np.empty_like(rows.shapes)
        ranges = split_range(self.n_samples, _ROWS_OF_TASK)
        couplings = np.empty((len(ranges), n_components, n_components))
        shared = rows.projections, rows.overlaps, self.alpha, self.document_density, n_steps, tol
        parts = self.workers.run(
            fit_rows,
            [(*part, *shared, shapes, weights, coupling) for part, coupling in zip(ranges, couplings, strict=True)],
        )
        objective = sum(parts) + self.n_samples * self._log_peak
        sums = DocumentSums(self._sums(weights, self.workers), np.add.reduce(couplings, axis=0), objective)
        return rows._replace(shapes=shapes), sums

    def move_topics(self, factors: SphereFactors, sums: DocumentSums, rate: float, scale: float) -> SphereFactors:
        """Natural-gradient step of length `rate` for each topic in turn; the documents' sums have weight `scale`."""
        n_features, n_components = factors.topics.shape
        basis = np.concatenate((factors.topics, sums.weighted, factors.expected_mean()[:, np.newaxis]), axis=1)
        strengths = rate * scale * self.document_density.reference, rate * self.concentrations.topic
        coefficients = np.empty((n_components, basis.shape[1]))
        products = self._multiply_columns(basis)
        solve_topics(products, sums.coupling, *strengths, rate, n_features, _N_SWEEPS, _SWEEP_TOL, coefficients)
        topics = np.empty_like(factors.topics)
        ranges = self._ranges(n_features, basis.shape[1] * n_components)
        shared = basis, np.ascontiguousarray(coefficients.T), topics
        squares = self.workers.run(combine_columns, [(*part, *shared) for part in ranges])
        concentrations = np.sqrt(np.add.reduce(squares, axis=0))
        return self._update_mean(factors._replace(topics=topics, concentrations=concentrations))

    def objective(self, factors: SphereFactors, rows: RowFactors, scale: float) -> float:
        """The objective L of the factors; `rows` must be refreshed for these topics, and have weight `scale`."""
        return scale * self._score(rows)[0] + self.topic_objective(factors)

    def topic_objective(self, factors: SphereFactors) -> float:
        """Terms of the topics' factors and their mean's factor in the objective."""
        n_features, n_components = factors.topics.shape
        topic, mean = self._mean_cosines(factors)
        value = n_components * log_density_at_mode(n_features, self.concentrations.topic)
        value += n_components * self.concentrations.topic * (topic - 1.0)
        value += log_density_at_mode(n_features, self.concentrations.mean)
        value += self.concentrations.mean * (mean - 1.0)
        concentrations = np.append(factors.concentrations, factors.mean_concentration)
        entropies = concentrations * (1.0 - bessel_ratio(n_features, concentrations))
        return float(value + np.sum(entropies - log_density_at_mode(n_features, concentrations)))

    def observe(self, rows: RowFactors) -> ObservedShares:
        """Mean proportions and cosines of some documents, from which concentrations of topics are learned."""
        shapes, projections = (each[learning_rows(self.n_samples)] for each in (rows.shapes, rows.projections))
        totals = np.add.reduce(shapes, axis=1)
        shares, inverse = shapes / totals[:, np.newaxis], 1.0 / (totals + 1.0)
        squares = np.einsum("nk,kj,nj->n", shares, rows.overlaps, shares)
        cosines = np.einsum("nk,nk->n", shares, projections) / np.sqrt(squares + inverse * (1.0 - squares))
        return ObservedShares(shares, cosines, inverse)

    def alignment(self, factors: SphereFactors, rows: RowFactors) -> Alignment:
        """Mean cosines for the updates of the three concentrations."""
        return Alignment(self._score(rows)[1] / self.n_samples, *self._mean_cosines(factors))

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Split all documents at random into minibatches; documents are indices into `rows`."""
        return random_batches(self.n_samples, self.batch_size, key)

    def batch(self, chosen: np.ndarray) -> MeanFieldSAM:
        """The model of some of the documents."""
        if len(chosen) == self.n_samples:
            return self
        some = self.setup._replace(rows=self.rows.take(self.directed[chosen]), concentrations=self.concentrations)
        return MeanFieldSAM(some, self.workers, total_samples=self.total_samples)

    # Parts

    @property
    def _log_peak(self) -> float:
        """The constant in a document's term of the objective."""
        density, V = self.document_density, self.rows.n_features
        return float(log_density_at_mode(V, density.reference if isinstance(density, OneConcentration) else 0.0))

    @cached_property
    def _sums(self) -> Any:
        """A function that sums documents times their weights."""
        return self.rows.weighted_sums(self.directed)

    def _mean_cosines(self, factors: SphereFactors) -> tuple[float, float]:
        """Mean cosine of the expectations of topics and mean, and cosine of the mean's and the given direction."""
        mean = factors.expected_mean()
        # einsum, because the rounding of a matrix product depends on the number of threads
        toward_topics = factors.gains() * np.einsum("v,vk->k", mean, factors.topics)
        return float(np.mean(toward_topics)), float(np.einsum("v,v", mean, self.mean_direction))

    def _update_mean(self, factors: SphereFactors) -> SphereFactors:
        """The best factor of the mean, given those of the topics."""
        toward = np.einsum("vk,k->v", factors.topics, factors.gains())
        mean = self.concentrations.mean * self.mean_direction + self.concentrations.topic * toward
        return factors._replace(mean=mean, mean_concentration=float(np.sqrt(np.einsum("v,v", mean, mean))))

    def _project_and_overlap(self, factors: SphereFactors) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of documents and topics' expectations, (n, K), and those of two topics, (K, K)."""
        gains, topics = factors.gains(), factors.topics
        overlaps = self._multiply_columns(topics) * np.outer(gains, gains)
        np.fill_diagonal(overlaps, 1.0)
        return self._project(topics, gains), overlaps

    def _multiply_columns(self, columns: np.ndarray) -> np.ndarray:
        """Gram matrix of the columns."""
        n_rows, n_columns = columns.shape
        ranges = self._ranges(n_rows, n_columns**2)
        partials = np.empty((len(ranges), n_columns, n_columns))
        tasks = [(*part, columns, partial) for part, partial in zip(ranges, partials, strict=True)]
        self.workers.run(multiply_columns, tasks)
        return whole_gram(partials)

    @staticmethod
    def _ranges(n_rows: int, work: int) -> list[tuple[int, int]]:
        return split_range(n_rows, max(_WORK_OF_TASK // work, 1))

    def _project(self, topics: np.ndarray, gains: np.ndarray) -> np.ndarray:
        out = np.empty((self.n_samples, topics.shape[1]))
        tasks = split_by_task(self.rows.work_before(self.directed) * topics.shape[1] // _CELLS_OF_TASK)
        self.workers.run(self.rows.fill_products, [(self.directed, *part, topics, out) for part in tasks])
        return out * gains

    def _score(self, rows: RowFactors) -> tuple[float, float]:
        """Terms of the documents in the objective, and the sum of their expected cosines."""
        shared = rows.projections, rows.overlaps, self.alpha, self.document_density, rows.shapes
        tasks = [(*part, *shared) for part in split_range(self.n_samples, 8 * _ROWS_OF_TASK)]
        parts = self.workers.run(score_rows, tasks)
        return sum(part[0] for part in parts) + self.n_samples * self._log_peak, sum(part[1] for part in parts)


def initial_topics(setup: Setup, workers: Workers, total_samples: int, key: np.uint64) -> np.ndarray:
    """Directions of topics after mean-field inference, nearly converged, from the centres of clusters, (K, V)."""
    model, passes = MeanFieldSAM(setup, workers, total_samples=total_samples), MeanField()
    state = passes.init(model, key)
    for _ in range(_MOST_FIRST_PASSES):
        before, state = state.log_density, passes.step(model, state)
        if state.log_density - before < _LEAST_GAIN * model.total_samples:
            break
    return state.statistics


def _lengths(columns: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("vk,vk->k", columns, columns))
