"""Mean-field factors of the spherical admixture model, and what moves them: what a sampler asks of the data."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...distributions import bessel_ratio
from ...distributions._bessel import log_density_at_mode
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import fill_normal
from ...sparse.counts import index_columns
from ...sparse.directions import Directions
from ...topics.spherical_kernels import combine_columns, gather_products, multiply_columns, whole_gram
from ...utils._conditions import Array, Real, Sizes
from ...utils._declared import holds
from ...utils._threads import Workers, split_by_task, split_range
from .initial_topics import start_topics
from .model import MOST_CONCENTRATED, Concentrations
from .variational_kernels import fill_gains, fit_rows, score_rows, solve_topics, sum_rows

_ROWS_OF_TASK = 64  # a millisecond or more
_CELLS_OF_TASK = 1 << 19
_WORK_OF_TASK = 1 << 22
_N_SWEEPS = 20
_SWEEP_TOL = 1e-4
_FIRST_WEIGHT = 10.0  # of what the documents' projections say, for each topic
_NOISE = 0.05  # of a topic's length to begin with, so that no two are the same


def _factors_agree(factors: SphereFactors, sizes: Sizes) -> str | None:
    lengths = np.sqrt(np.square(factors.topics).sum(axis=0))
    length = np.sqrt(np.square(factors.mean).sum())
    same = np.allclose(lengths, factors.concentrations, rtol=1e-6) and np.isclose(length, factors.mean_concentration)
    return None if same else "has concentrations that are not the lengths of its factors"


@holds(
    _factors_agree,
    topics=Array("float64", ("n_features", "n_components"), low=-MOST_CONCENTRATED, high=MOST_CONCENTRATED),
    concentrations=Array("float64", ("n_components",), low=0, high=MOST_CONCENTRATED),
    mean=Array("float64", ("n_features",), low=-MOST_CONCENTRATED, high=MOST_CONCENTRATED),
    mean_concentration=Real(low=0, high=MOST_CONCENTRATED),
)
class SphereFactors(NamedTuple):
    """Von Mises-Fisher factors of the topics and their mean, by natural parameters: concentration times direction."""

    topics: np.ndarray  # (V, K)
    concentrations: np.ndarray  # (K,): lengths of the columns of `topics`
    mean: np.ndarray  # (V,)
    mean_concentration: float  # length of `mean`

    def gains(self) -> np.ndarray:
        """What the columns of `topics` are multiplied with to give the topics' expectations."""
        return _gains(len(self.topics), self.concentrations)

    def directions(self) -> np.ndarray:
        """Mean directions of the topics, unit rows, (K, V)."""
        lengths = np.where(self.concentrations > 0.0, self.concentrations, 1.0)
        return np.ascontiguousarray((self.topics / lengths).T)

    def expected_mean(self) -> np.ndarray:
        """Expectation of the topics' mean direction, (V,)."""
        return _gains(len(self.mean), np.array([self.mean_concentration])) * self.mean


class RowFactors(NamedTuple):
    """Dirichlet factors of documents, and the documents as the topics of the moment see them."""

    shapes: np.ndarray  # (n, K): the factors' parameters
    projections: np.ndarray  # (n, K): E[beta_k]'v
    overlaps: np.ndarray  # (K, K): E[beta_j'beta_k]

    def take(self, chosen: np.ndarray) -> RowFactors:
        """The factors of some documents."""
        return RowFactors(self.shapes[chosen], self.projections[chosen], self.overlaps)

    def put(self, chosen: np.ndarray, some: RowFactors) -> RowFactors:
        """The same but for the factors of some documents, in place."""
        self.shapes[chosen] = some.shapes
        return self


class Pull(NamedTuple):
    """What documents add to the gradient in the topics' expectations: ``weights`` less coupling times topics."""

    weighted: np.ndarray  # (V, K): sum of documents times their weights
    coupling: np.ndarray  # (K, K), with a diagonal of zeros
    objective: float  # what the documents add to the objective


@holds(document=Real(), topic=Real(), mean=Real())
class Alignment(NamedTuple):
    """Means of cosines, for a maximum-likelihood step in the concentrations: each is the Bessel ratio of the new."""

    document: float  # of documents and their expected directions: for the documents' concentration
    topic: float  # of the topics' expectations and the mean's: for the topics' concentration
    mean: float  # of the mean's expectation and the given direction: for the mean's concentration


class MeanFieldSAM:
    r"""Directions of documents as the spherical admixture sees them, by factors that are independent.

    The model ([1]_), with unit vectors :math:`v_d` of either sign:

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

    Here :math:`\rho_d` stands in for the expectation of the cosine, which has no closed form: a ratio of means for the
    mean of a ratio ([1]_). So L approximates a lower bound of the evidence and is none itself.

    Documents climb L in the logarithms of :math:`a_d` by Newton's method, each by itself, in time free of V. Topics:
    the gradient of L but for the entropies, with respect to :math:`e_k`, is

    .. math::
        F_k = \kappa \sum_d \frac{\sqrt{1 + 1 / s_d} \, a_{dk}}{\sqrt{q_d}}
        \Big[ v_d - \frac{a_d'b_d}{q_d} \sum_{j \ne k} a_{dj} e_j \Big] + \sigma \, \mathrm{E} \mu,
        \qquad q_d = a_d'B a_d + s_d,

    and that of the entropy is :math:`-\eta_k`. Therefore :math:`\eta_k = F_k` at every stationary point, direction and
    concentration at once, and :math:`\eta_k \leftarrow (1 - \rho) \eta_k + \rho F_k` is a natural-gradient step of
    length :math:`\rho`. Of the documents it needs two sums, one of V by K and one of K by K (`Pull`), which are kept
    while one topic after the other moves: each sees those before it moved, without which topics that share documents
    would overshoot. Last comes the mean, :math:`\kappa_0 m + \sigma \sum_k e_k`, which is the best for given topics.

    Documents without entries say nothing and have no factor.

    Parameters
    ----------
    directions : Directions
    doc_topic_prior : ndarray of shape (n_components,)
        :math:`\alpha`.
    mean_direction : ndarray of shape (n_features,)
        :math:`m`, a unit vector.
    document_concentration, topic_concentration, mean_concentration : float
        :math:`\kappa`, :math:`\sigma` and :math:`\kappa_0`.
    workers : Workers
    batch_size : int or None
        Documents of a minibatch; None is all.
    total_samples : int or None
        Documents that the factors of the topics are about; None is those at hand.

    Attributes
    ----------
    rows : ndarray of int64
        The documents that have a direction; their factors stand in this order.

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney, "Spherical topic models", ICML 2010.
    .. [2] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic variational inference", JMLR 14, 2013.
    """

    def __init__(
        self,
        directions: Directions,
        doc_topic_prior: np.ndarray,
        mean_direction: np.ndarray,
        document_concentration: float,
        topic_concentration: float,
        mean_concentration: float,
        workers: Workers,
        *,
        batch_size: int | None = None,
        total_samples: int | None = None,
    ):
        self.directions = directions
        self.doc_topic_prior = doc_topic_prior
        self.mean_direction = mean_direction
        self.document_concentration = float(document_concentration)
        self.topic_concentration = float(topic_concentration)
        self.mean_concentration = float(mean_concentration)
        self.workers = workers
        self.batch_size = batch_size
        self.rows = directions.directed
        self.total_samples = len(self.rows) if total_samples is None else total_samples
        self._indptr = np.concatenate(([0], directions.indptr[self.rows + 1]))

    @property
    def n_samples(self) -> int:
        """Number of documents that have a direction."""
        return len(self.rows)

    @property
    def scale(self) -> float:
        """Documents that each one at hand stands for."""
        return self.total_samples / max(self.n_samples, 1)

    @property
    def alpha(self) -> np.ndarray:
        """The documents' prior."""
        return self.doc_topic_prior

    @property
    def concentrations(self) -> Concentrations:
        """All three."""
        return Concentrations(self.document_concentration, self.topic_concentration, self.mean_concentration)

    def tuned(self, concentrations: Concentrations) -> MeanFieldSAM:
        """The same with other concentrations."""
        other = copy.copy(self)
        other.__dict__.pop("_log_peak", None)
        other.document_concentration, other.topic_concentration, other.mean_concentration = concentrations
        return other

    # MeanFieldModel

    def init_factors(self, key: np.uint64) -> tuple[SphereFactors, RowFactors]:
        """Topics that lean from the mean to clusters of documents, and documents' factors to climb from."""
        n_components = len(self.doc_topic_prior)
        start = start_topics(self.directions, n_components, key)
        share = bessel_ratio(len(self.mean_direction), start.concentration) / n_components
        topics = (self.document_concentration * self.total_samples * share) * start.topics.T
        topics += (self.topic_concentration * self.mean_direction)[:, np.newaxis]
        noise = np.empty((n_components, len(topics)))
        fill_normal(fold_in_each(subkey(key, Purpose.NOISE), np.arange(n_components)), Purpose.NOISE, noise)
        topics += noise.T * (_NOISE / np.sqrt(len(topics)) * _lengths(topics))
        mean = self.mean_concentration * self.mean_direction
        factors = self._with_mean(SphereFactors(topics, _lengths(topics), mean, self.mean_concentration))
        return factors, self.init_rows(factors)

    def init_rows(self, factors: SphereFactors) -> RowFactors:
        """Factors of documents that are seen for the first time."""
        projections, overlaps = self._see(factors)
        n_components = len(self.doc_topic_prior)
        likely = np.maximum(projections, 1e-3 / n_components)
        shares = likely / np.add.reduce(likely, axis=1)[:, np.newaxis]
        return RowFactors(self.doc_topic_prior + _FIRST_WEIGHT * n_components * shares, projections, overlaps)

    def refresh_rows(self, factors: SphereFactors, rows: RowFactors) -> RowFactors:
        """The same factors of documents before other topics."""
        return RowFactors(rows.shapes, *self._see(factors))

    def fit_rows(self, rows: RowFactors, n_steps: int, tol: float) -> tuple[RowFactors, Pull]:
        """Climb the documents' factors, at most `n_steps` steps, and sum what they ask of the topics."""
        n_components = rows.shapes.shape[1]
        shapes, weights = rows.shapes.copy(), np.empty_like(rows.shapes)
        pieces = split_range(self.n_samples, _ROWS_OF_TASK)
        couplings = np.empty((len(pieces), n_components, n_components))
        shared = rows.projections, rows.overlaps, self.doc_topic_prior, self.document_concentration, n_steps, tol
        parts = self.workers.run(
            fit_rows,
            [(*piece, *shared, shapes, weights, coupling) for piece, coupling in zip(pieces, couplings, strict=True)],
        )
        objective = sum(parts) + self.n_samples * self._log_peak
        pull = Pull(self._sum_rows(weights), np.add.reduce(couplings, axis=0), objective)
        return rows._replace(shapes=shapes), pull

    def move_topics(self, factors: SphereFactors, pull: Pull, rate: float, scale: float) -> SphereFactors:
        """Natural-gradient step of length `rate`, one topic after the other, `scale` times the documents' pull."""
        n_features, n_components = factors.topics.shape
        basis = np.concatenate((factors.topics, pull.weighted, factors.expected_mean()[:, np.newaxis]), axis=1)
        strengths = rate * scale * self.document_concentration, rate * self.topic_concentration
        coefficients = np.empty((n_components, basis.shape[1]))
        products = self._multiply_columns(basis)
        solve_topics(products, pull.coupling, *strengths, rate, n_features, _N_SWEEPS, _SWEEP_TOL, coefficients)
        topics = np.empty_like(factors.topics)
        pieces = self._pieces(n_features, basis.shape[1] * n_components)
        shared = basis, np.ascontiguousarray(coefficients.T), topics
        squares = self.workers.run(combine_columns, [(*piece, *shared) for piece in pieces])
        concentrations = np.sqrt(np.add.reduce(squares, axis=0))
        return self._with_mean(factors._replace(topics=topics, concentrations=concentrations))

    def objective(self, factors: SphereFactors, rows: RowFactors, scale: float) -> float:
        """The objective L of the factors, `rows` being as seen at these topics, and their part `scale` times."""
        return scale * self._score(rows)[0] + self.topic_objective(factors)

    def topic_objective(self, factors: SphereFactors) -> float:
        """What the factors of the topics and of their mean add to the objective."""
        n_features, n_components = factors.topics.shape
        topic, mean = self._mean_cosines(factors)
        value = n_components * log_density_at_mode(n_features, self.topic_concentration)
        value += n_components * self.topic_concentration * (topic - 1.0)
        value += log_density_at_mode(n_features, self.mean_concentration)
        value += self.mean_concentration * (mean - 1.0)
        concentrations = np.append(factors.concentrations, factors.mean_concentration)
        lost = concentrations * (1.0 - bessel_ratio(n_features, concentrations))
        return float(value + np.sum(lost - log_density_at_mode(n_features, concentrations)))

    def alignment(self, factors: SphereFactors, rows: RowFactors) -> Alignment:
        """How well documents, topics and mean agree: what updates of the three concentrations need."""
        return Alignment(self._score(rows)[1] / self.n_samples, *self._mean_cosines(factors))

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Every document once, in minibatches at random; documents by their places in `rows`."""
        if self.batch_size is None or self.batch_size >= self.n_samples:
            return [np.arange(self.n_samples)]
        order = np.argsort(fold_in_each(key, np.arange(self.n_samples)), kind="stable")
        return [np.sort(order[start:stop]) for start, stop in split_range(self.n_samples, self.batch_size)]

    def batch(self, chosen: np.ndarray) -> MeanFieldSAM:
        """The same model of some of the documents."""
        if len(chosen) == self.n_samples:
            return self
        starts, lengths = self._indptr[chosen], np.diff(self._indptr)[chosen]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        whole = self.directions
        some = Directions(indptr, whole.indices[entries], whole.data[entries], whole.n_features)
        concentrations = self.document_concentration, self.topic_concentration, self.mean_concentration
        return MeanFieldSAM(
            some,
            self.doc_topic_prior,
            self.mean_direction,
            *concentrations,
            self.workers,
            total_samples=self.total_samples,
        )

    # Parts

    @cached_property
    def _log_peak(self) -> float:
        return float(log_density_at_mode(self.directions.n_features, self.document_concentration))

    @cached_property
    def _by_word(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The documents from their words: where each word's begin, their places, their entries."""
        indptr = np.empty(self.directions.n_features + 1, np.int64)
        entries = np.empty(self._indptr[-1], np.int64)
        index_columns(self.directions.indices, indptr, entries)
        rows = np.repeat(np.arange(self.n_samples), np.diff(self._indptr))
        return indptr, rows[entries], self.directions.data[entries]

    def _mean_cosines(self, factors: SphereFactors) -> tuple[float, float]:
        """Of the topics' expectations and the mean's, on average, and of that and the given direction."""
        mean = factors.expected_mean()
        # einsum, since the sums of a matrix product depend on the machine's threads
        toward_topics = factors.gains() * np.einsum("v,vk->k", mean, factors.topics)
        return float(np.mean(toward_topics)), float(np.einsum("v,v", mean, self.mean_direction))

    def _with_mean(self, factors: SphereFactors) -> SphereFactors:
        """The best factor of the mean, given those of the topics."""
        toward = np.einsum("vk,k->v", factors.topics, factors.gains())
        mean = self.mean_concentration * self.mean_direction + self.topic_concentration * toward
        return factors._replace(mean=mean, mean_concentration=float(np.sqrt(np.einsum("v,v", mean, mean))))

    def _see(self, factors: SphereFactors) -> tuple[np.ndarray, np.ndarray]:
        """The documents' projections on the topics' expectations, and these topics' overlaps."""
        gains, topics = factors.gains(), factors.topics
        overlaps = self._multiply_columns(topics) * np.outer(gains, gains)
        np.fill_diagonal(overlaps, 1.0)
        return self._project(topics, gains), overlaps

    def _multiply_columns(self, columns: np.ndarray) -> np.ndarray:
        """Inner products of the columns."""
        n_rows, n_columns = columns.shape
        pieces = self._pieces(n_rows, n_columns**2)
        partials = np.empty((len(pieces), n_columns, n_columns))
        tasks = [(*piece, columns, partial) for piece, partial in zip(pieces, partials, strict=True)]
        self.workers.run(multiply_columns, tasks)
        return whole_gram(partials)

    @staticmethod
    def _pieces(n_rows: int, work: int) -> list[tuple[int, int]]:
        return split_range(n_rows, max(_WORK_OF_TASK // work, 1))

    def _project(self, topics: np.ndarray, gains: np.ndarray) -> np.ndarray:
        out = np.empty((self.n_samples, topics.shape[1]))
        tasks = split_by_task(self._indptr[:-1] * topics.shape[1] // _CELLS_OF_TASK)
        shared = topics, out
        self.workers.run(gather_products, [(*self.directions[:3], self.rows, *piece, *shared) for piece in tasks])
        return out * gains

    def _sum_rows(self, weights: np.ndarray) -> np.ndarray:
        """Sum of documents times their weights, (V, K)."""
        indptr = self._by_word[0]
        out = np.empty((len(indptr) - 1, weights.shape[1]))
        work = (indptr[:-1] + np.arange(len(out))) * weights.shape[1]
        tasks = split_by_task(work // _CELLS_OF_TASK)
        self.workers.run(sum_rows, [(*piece, *self._by_word, weights, out) for piece in tasks])
        return out

    def _score(self, rows: RowFactors) -> tuple[float, float]:
        """What the documents add to the objective, and the sum of their expected cosines."""
        shared = rows.projections, rows.overlaps, self.doc_topic_prior, self.document_concentration, rows.shapes
        tasks = [(*piece, *shared) for piece in split_range(self.n_samples, 8 * _ROWS_OF_TASK)]
        parts = self.workers.run(score_rows, tasks)
        return sum(part[0] for part in parts) + self.n_samples * self._log_peak, sum(part[1] for part in parts)


def _gains(n_features: int, concentrations) -> np.ndarray:
    out = np.empty(len(concentrations))
    fill_gains(n_features, concentrations, out)
    return out


def _lengths(columns: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("vk,vk->k", columns, columns))
