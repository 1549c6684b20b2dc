"""Posterior of the topics of a spherical admixture: the likelihood terms of documents, the prior, the gradient."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...distributions import log_vmf_normalizer
from ...manifolds import Sphere
from ...random._keys import Purpose, subkey
from ...sparse.directions import AnyDirections
from ...topics.document_densities import relative_concentrations
from ...topics.spherical_kernels import (
    collapsed_mean_prior,
    combine_columns,
    fill_document_gradients,
    fill_word_major,
    finish_gradient,
    multiply_columns,
    whole_gram,
)
from ...utils._threads import Workers, split_range
from .concentrations import Concentrations
from .documents import SphericalDocuments
from .variational import initial_topics

if TYPE_CHECKING:  # `setup` uses these models
    from .setup import Setup

_DOCUMENTS, _TASKS = 32, 32  # least documents of a task; largest number of tasks
_WORDS = 8192  # words of a task


class ProportionChains(NamedTuple):
    """States of the Markov chains of all documents' proportions."""

    points: np.ndarray  # (n_rows, K): x with theta = x^2, or y with theta ~ exp(y) if a Dirichlet parameter is small
    log_steps: np.ndarray  # (n_rows,): logarithms of the step sizes
    reference: np.ndarray  # (n_rows, K): proportions at an anchor; (0, K) for samplers without anchors


class DocumentTerms(NamedTuple):
    """Terms of some documents in the gradient of the log likelihood; `targets` has the formula."""

    weights: np.ndarray  # (n, K): weight of each document in each topic
    coupling: np.ndarray  # (K, K): sum over the documents of the coupling between topics
    cosine: np.ndarray  # (n,): mean cosine between document and mixture of topics, times the relative concentration
    beyond: np.ndarray  # (n,): mean log normaliser minus that at the reference concentration


class WordMajor(NamedTuple):
    """Unit topics with words as rows."""

    topics: np.ndarray  # (V, K)
    gram: np.ndarray  # (K, K): beta'beta


class Prior(NamedTuple):
    """Prior of the topics with their mean integrated out, at one point."""

    gradient: np.ndarray  # (V,): gradient of the log prior, the same for every topic
    length: float  # length of kappa_0 m + sigma sum_k beta_k
    spread: np.ndarray  # two cosines: the mean over topics of beta_k'E(mu), and E(mu)'m

    @property
    def log_density(self) -> float:
        """Log prior density up to a constant."""
        return -float(log_vmf_normalizer(len(self.gradient), self.length))


class SphericalModel(SphericalDocuments):
    r"""Topics :math:`\beta_k` of a spherical admixture, given documents as unit vectors :math:`v_d`.

    .. math:: \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad v_d \sim \mathrm{vMF}(\beta \theta_d / |\beta \theta_d|, \kappa).

    :math:`\mu` is integrated out. The position of topic k is :math:`R_k \beta_k`, on a sphere of radius :math:`R_k`:
    the radii are a constant metric, under which the same step size works for all topics and all data. `noise`, (K,), is
    the variance of the minibatch gradient with respect to unit topics, the mean over a topic's coordinates. If
    `total_samples` exceeds the number of rows, each row stands for several documents.
    """

    def __init__(self, setup: Setup, workers: Workers, total_samples: int | None = None):
        super().__init__(setup, workers, total_samples)
        self._set_metric(setup.radii, setup.noise)

    def _set_metric(self, radii: np.ndarray, noise: np.ndarray) -> None:
        self.radii, self.noise = radii, noise
        self.manifold = Sphere(self.rows.n_features, len(self.alpha), radii)

    @cached_property
    def _word_power(self) -> np.ndarray:
        return _relative_variance(self.rows)

    def tuned(self, concentrations: Concentrations, radii: np.ndarray, noise: np.ndarray) -> SphericalModel:
        """A copy with other concentrations, radii and noise."""
        other = copy.copy(self)
        other.concentrations = concentrations
        other._set_metric(radii, noise)
        return other

    def noise_covariance(self) -> np.ndarray:
        """Variances of the coordinates of the minibatch gradient at the position, (K V,); larger for frequent words."""
        return np.multiply.outer(self.noise / self.radii**2, self._word_power).ravel()

    def nearest(self, topics: np.ndarray) -> np.ndarray:
        """The topics nearest to these unit vectors: themselves."""
        return topics

    def initial_topics(self, key: np.uint64) -> np.ndarray:
        """Initial topics, (K, V). From centres of clusters, samplers find negative entries slowly."""
        setup = self.setup._replace(concentrations=self.concentrations)
        return initial_topics(setup, self.workers, self.total_samples, subkey(key, Purpose.START))

    def topics(self, position: np.ndarray) -> np.ndarray:
        """Topics as unit vectors, (K, V), of one chain's position."""
        return position / self.radii[:, None]

    def to_position(self, topics: np.ndarray) -> np.ndarray:
        """Position of the given unit topics, (K, V): topic k scaled to radius k."""
        return topics * self.radii[:, None]

    def curvature_plus_noise(self, coupling: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Curvature of the log posterior with respect to unit topics, plus the gradient's variance, for each radius.

        `coupling`, the mean over documents, bounds the likelihood's: divided by its row sums, no eigenvalue is above
        one.
        """
        sigma = self.concentrations.topic
        return self.document_density.reference * self.total_samples * coupling.sum(axis=1) + sigma + noise

    def init_chains(self, n_references: int) -> ProportionChains:
        """Initial chains of all documents, at equal proportions."""
        n_rows, K = self.rows.n_rows, self.n_components
        start = 1.0 / math.sqrt(K) if self.on_sphere else 0.0
        scale = math.sqrt(1.0 + self.document_density.reference)
        return ProportionChains(
            np.full((n_rows, K), start), np.full(n_rows, math.log(0.3 / scale)), np.full((n_references, K), 1.0 / K)
        )

    @property
    def on_sphere(self) -> bool:
        """Whether proportions move on the sphere of their square roots; only if the prior has no singularity there."""
        return bool(self.alpha.min() >= 0.5)

    # Parts of the log posterior

    def to_word_major(self, position: np.ndarray) -> WordMajor:
        """The topics of one chain's position, with words as rows."""
        K, V = position.shape
        word_topic, tasks = np.empty((V, K)), split_range(V, _WORDS)
        gram = np.empty((len(tasks), K, K))

        def transpose_words(task: int, start: int, stop: int) -> None:
            fill_word_major(position, self.radii, start, stop, word_topic)
            multiply_columns(start, stop, word_topic, gram[task])

        self.workers.run(transpose_words, [(task, *words) for task, words in enumerate(tasks)])
        return WordMajor(word_topic, whole_gram(gram))

    def accumulate_terms(self, rows: np.ndarray, word_topic: np.ndarray, fill_terms: Any, *given: Any) -> DocumentTerms:
        """Likelihood terms of documents `rows`.

        ``fill_terms(start, stop, products, terms, *given)`` writes those of ``start:stop``.
        """
        n, K = len(rows), self.n_components
        tasks = split_range(n, max(_DOCUMENTS, -(-n // _TASKS)))
        terms = DocumentTerms(np.empty((n, K)), np.empty((len(tasks), K, K)), np.empty(n), np.empty(n))
        products = np.empty((n, K))

        def run_task(start: int, stop: int, coupling: np.ndarray) -> None:
            self.rows.fill_products(rows, start, stop, word_topic, products)
            fill_terms(start, stop, products, terms._replace(coupling=coupling), *given)

        self.workers.run(run_task, [(*task, each) for task, each in zip(tasks, terms.coupling, strict=True)])
        return terms._replace(coupling=terms.coupling.sum(axis=0))

    def prior(self, word_topic: np.ndarray) -> Prior:
        """Prior of the topics at `word_topic`, (V, K)."""
        _, sigma, kappa_0 = self.concentrations
        gradient = np.empty(len(word_topic))
        length, *spread = collapsed_mean_prior(word_topic, self.mean_direction, kappa_0, sigma, gradient)
        return Prior(gradient, length, np.array(spread))

    def fill_gradient(self, rows: np.ndarray, terms: DocumentTerms, word_topic: np.ndarray, out: np.ndarray) -> Prior:
        """Write the gradient of the log posterior at the position, (K, V), as estimated from documents `rows`."""
        prior, scale = self.prior(word_topic), self.document_density.reference * self.total_samples / len(rows)
        gradient, tasks = np.empty_like(word_topic), split_range(len(word_topic), _WORDS)
        self.workers.run(combine_columns, [(*words, word_topic, -scale * terms.coupling, gradient) for words in tasks])
        self.rows.add_pulls(rows, terms.weights, scale, gradient)
        self.workers.run(finish_gradient, [(gradient, prior.gradient, self.radii, *words, out) for words in tasks])
        return prior

    def document_gradients(self, rows: np.ndarray, draws: np.ndarray, turned: WordMajor) -> np.ndarray:
        """Gradients of each document's log likelihood, (n, K, V): means over draws of proportions, (n, n_draws, K).

        Sums do not use BLAS, whose rounding depends on the number of threads.
        """
        word_topic, gram = turned
        documents, topics = self.rows.dense(rows), np.ascontiguousarray(word_topic.T)
        shares = draws / np.sqrt(np.einsum("nsk,kj,nsj->ns", draws, gram, draws))[:, :, None]
        products = np.empty((len(rows), self.n_components))
        self.rows.fill_products(rows, 0, len(rows), word_topic, products)
        cosines = np.einsum("nsk,nk->ns", shares, products)
        density = self.document_density
        weights = relative_concentrations(density, draws)[:, :, None] * shares
        weights *= density.reference / (draws.shape[1] * self.radii)
        coupling = np.einsum("nsk,nsj->nkj", cosines[:, :, None] * weights, shares)
        weights, out = weights.sum(axis=1), np.empty((len(rows), *topics.shape))
        tasks = [(*some, documents, weights, coupling, topics, out) for some in split_range(len(rows), 1)]
        self.workers.run(fill_document_gradients, tasks)
        return out


def _relative_variance(rows: AnyDirections) -> np.ndarray:
    """Variances of the features over documents, scaled to a mean of 1; they determine the noise of minibatches."""
    n, V = max(len(rows.directed), 1), rows.n_features
    sums, squares = rows.moments()
    mean = sums / n
    variance = squares / n - mean * mean
    total = variance.sum()
    return variance * (V / total) if total > 0 else np.ones(V)
