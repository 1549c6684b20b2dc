"""The posterior of a spherical admixture's topics: what documents say, and what the prior does."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...distributions import log_vmf_normalizer
from ...manifolds import Sphere
from ...random._keys import Purpose, subkey
from ...sparse.directions import Directions
from ...topics.spherical_kernels import (
    add_pulls,
    collapsed_mean_prior,
    combine_columns,
    fill_word_major,
    finish_gradient,
    gather_products,
    multiply_columns,
    whole_gram,
)
from ...utils._conditions import Real
from ...utils._declared import holds
from ...utils._threads import Workers, split_range
from .initial_topics import start_topics

_DOCUMENTS, _TASKS = 32, 32  # in a task, at least; at most
_WORDS = 8192  # in a task


MOST_CONCENTRATED = 1e18  # what directions that are all but equal suggest, of a million features


@holds(
    document=Real(low=0, high=MOST_CONCENTRATED),
    topic=Real(low=0, high=MOST_CONCENTRATED),
    mean=Real(low=0, high=MOST_CONCENTRATED),
)
class Concentrations(NamedTuple):
    """Of documents about the mixture of their topics, of topics about their mean, of that about its prior direction."""

    document: float
    topic: float
    mean: float


class ProportionChains(NamedTuple):
    """Where the chains of all documents' proportions stand."""

    points: np.ndarray  # (n_rows, K): x with theta = x^2, or y with theta ~ exp(y) where a Dirichlet parameter is small
    log_steps: np.ndarray  # (n_rows,): of their transitions
    reference: np.ndarray  # (n_rows, K): proportions at an anchor; without rows where there are no anchors


class DocumentTerms(NamedTuple):
    """What some documents say to the topics."""

    pull: np.ndarray  # (n, K)
    drag: np.ndarray  # (K, K)
    cosine: np.ndarray  # (n,)


class Prior(NamedTuple):
    """The prior of the topics with their mean integrated out, at one point."""

    gradient: np.ndarray  # (V,): of its log, the same for every topic
    length: float  # of kappa_0 m + sigma sum_k beta_k
    spread: np.ndarray  # cosines: mean over topics of beta_k'E(mu), and E(mu)'m

    @property
    def log_density(self) -> float:
        """But for a constant."""
        return -float(log_vmf_normalizer(len(self.gradient), self.length))


class SphericalModel:
    r"""Topics :math:`\beta_k` of a spherical admixture, given documents as unit vectors :math:`v_d`.

    .. math:: \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad v_d \sim \mathrm{vMF}(\beta \theta_d / |\beta \theta_d|, \kappa).

    :math:`\mu` is integrated out. The position of topic k is :math:`R_k \beta_k`, on a sphere of radius :math:`R_k`:
    the radii are a constant metric, under which one step size suits all topics (and all data).

    Parameters
    ----------
    rows : Directions
    alpha : ndarray of shape (K,)
    mean_direction : ndarray of shape (V,)
        m.
    concentrations : Concentrations
    radii : ndarray of shape (K,)
    noise : ndarray of shape (K,)
        Variance of the minibatches' gradient in unit topics, its mean over a topic's coordinates.
    workers : Workers
    total_samples : int
        Documents that the posterior is about.
    """

    def __init__(
        self,
        rows: Directions,
        alpha: np.ndarray,
        mean_direction: np.ndarray,
        concentrations: Concentrations,
        radii: np.ndarray,
        noise: np.ndarray,
        workers: Workers,
        total_samples: int,
    ):
        self.rows = rows
        self.directed = rows.directed  # zero rows say nothing
        self.alpha = alpha
        self.mean_direction = mean_direction
        self.concentrations = concentrations
        self.workers = workers
        self.total_samples = total_samples
        self._set_metric(radii, noise)

    def _set_metric(self, radii: np.ndarray, noise: np.ndarray) -> None:
        self.radii, self.noise = radii, noise
        self.manifold = Sphere(self.rows.n_features, len(self.alpha), radii)

    @cached_property
    def _word_power(self) -> np.ndarray:
        return _relative_variance(self.rows)

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.alpha)

    def tuned(self, concentrations: Concentrations, radii: np.ndarray, noise: np.ndarray) -> SphericalModel:
        """The same with other concentrations, radii and noise."""
        other = copy.copy(self)
        other.concentrations = concentrations
        other._set_metric(radii, noise)
        return other

    def noise_covariance(self) -> np.ndarray:
        """Variances of the minibatches' gradient in the position, (K V,): the more, the more a word is in documents."""
        return np.multiply.outer(self.noise / self.radii**2, self._word_power).ravel()

    def start(self, key: np.uint64) -> np.ndarray:
        """Topics to begin with: centres of clusters, (K, V)."""
        return start_topics(self.rows, self.n_components, subkey(key, Purpose.START)).topics

    def topics(self, position: np.ndarray) -> np.ndarray:
        """Unit vectors (K, V) of one chain's position."""
        return position / self.radii[:, None]

    def place(self, topics: np.ndarray) -> np.ndarray:
        """The position of topics (K, V)."""
        return topics * self.radii[:, None]

    def stiffness(self, drag: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Curvature of the log posterior in unit topics plus the noise, for each radius; `drag` is a document's.

        The likelihood's curvature is bounded by its drag: scaled by its own row sums, that matrix has no eigenvalue
        above one.
        """
        kappa, sigma, _ = self.concentrations
        return kappa * self.total_samples * drag.sum(axis=1) + sigma + noise

    def init_chains(self, n_references: int) -> ProportionChains:
        """Chains of all documents at equal proportions."""
        n_rows, K = self.rows.n_rows, self.n_components
        start = 1.0 / math.sqrt(K) if self.on_sphere else 0.0
        scale = math.sqrt(1.0 + self.concentrations.document)
        return ProportionChains(
            np.full((n_rows, K), start), np.full(n_rows, math.log(0.3 / scale)), np.full((n_references, K), 1.0 / K)
        )

    @property
    def on_sphere(self) -> bool:
        """Whether proportions move on a sphere, where their prior has no singularity."""
        return bool(self.alpha.min() >= 0.5)

    # Parts of the log posterior

    def to_word_major(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unit topics with words as rows, (V, K), and beta'beta."""
        K, V = position.shape
        word_topic, tasks = np.empty((V, K)), split_range(V, _WORDS)
        gram = np.empty((len(tasks), K, K))

        def turn_words(task: int, start: int, stop: int) -> None:
            fill_word_major(position, self.radii, start, stop, word_topic)
            multiply_columns(start, stop, word_topic, gram[task])

        self.workers.run(turn_words, [(task, *words) for task, words in enumerate(tasks)])
        return word_topic, whole_gram(gram)

    def accumulate_terms(self, rows: np.ndarray, word_topic: np.ndarray, hear) -> DocumentTerms:
        """What documents say; ``hear(start, stop, products, pull, drag, cosine)`` fills in a task's documents'."""
        K, tasks = self.n_components, split_range(len(rows), max(_DOCUMENTS, -(-len(rows) // _TASKS)))
        products, pull, cosine = np.empty((len(rows), K)), np.empty((len(rows), K)), np.empty(len(rows))
        drag = np.empty((len(tasks), K, K))

        def hear_task(task: int, start: int, stop: int) -> None:
            gather_products(*self.rows[:3], rows, start, stop, word_topic, products)
            hear(start, stop, products, pull, drag[task], cosine)

        self.workers.run(hear_task, [(task, *some) for task, some in enumerate(tasks)])
        return DocumentTerms(pull, drag.sum(axis=0), cosine)

    def prior(self, word_topic: np.ndarray) -> Prior:
        """The topics' prior; `word_topic` is (V, K)."""
        _, sigma, kappa_0 = self.concentrations
        gradient = np.empty(len(word_topic))
        length, *spread = collapsed_mean_prior(word_topic, self.mean_direction, kappa_0, sigma, gradient)
        return Prior(gradient, length, np.array(spread))

    def fill_gradient(
        self,
        rows: np.ndarray,
        terms: DocumentTerms,
        word_topic: np.ndarray,
        prior: Prior,
        out: np.ndarray,
    ) -> None:
        """Gradient in the position, (K, V), of the log posterior as documents `rows` let estimate it."""
        scale = self.concentrations.document * self.total_samples / len(rows)
        gradient, tasks = np.empty_like(word_topic), split_range(len(word_topic), _WORDS)
        self.workers.run(combine_columns, [(*words, word_topic, -scale * terms.drag, gradient) for words in tasks])
        add_pulls(*self.rows[:3], rows, terms.pull, scale, gradient)
        self.workers.run(finish_gradient, [(gradient, prior.gradient, self.radii, *words, out) for words in tasks])

    def document_gradients(self, rows: np.ndarray, draws: np.ndarray, turned: tuple[np.ndarray, ...]) -> np.ndarray:
        """Gradients of each document's log likelihood in the position, (n, K, V), as means over draws of proportions.

        `draws` is (n, n_draws, K), and `turned` what `turn` returned. Sums are not left to BLAS, which rounds
        differently with other numbers of threads.
        """
        word_topic, gram = turned
        documents = self._dense(rows)
        shares = draws / np.sqrt(np.einsum("nsk,kj,nsj->ns", draws, gram, draws))[:, :, None]
        cosines = np.einsum("nsk,nk->ns", shares, np.einsum("nv,vk->nk", documents, word_topic))
        drag = np.einsum("nsk,nsj->nkj", cosines[:, :, None] * shares, shares)
        across = np.einsum("nsk,nv->nkv", shares, documents) - np.einsum("nkj,vj->nkv", drag, word_topic)
        return across * (self.concentrations.document / (draws.shape[1] * self.radii[:, None]))

    def _dense(self, rows: np.ndarray) -> np.ndarray:
        indptr, indices, data, V = self.rows
        return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, V))[rows].toarray()


def _relative_variance(rows: Directions) -> np.ndarray:
    """Variances of the features over documents, with a mean of 1: minibatches are noisy where documents differ."""
    n, V = max(len(rows.directed), 1), rows.n_features
    mean = np.bincount(rows.indices, rows.data, minlength=V) / n
    variance = np.bincount(rows.indices, rows.data**2, minlength=V) / n - mean * mean
    total = variance.sum()
    return variance * (V / total) if total > 0 else np.ones(V)
