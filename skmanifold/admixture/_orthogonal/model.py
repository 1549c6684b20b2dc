"""Posterior of orthonormal topics: a spherical admixture whose topics are uniform on a Stiefel manifold."""

from __future__ import annotations

import copy

import numpy as np

from ...manifolds import Stiefel
from ...random._keys import Purpose, subkey
from ...sparse.dense_directions import AnyDirections
from ...topics.document_densities import relative_concentrations
from ...utils._threads import Workers
from .._spherical.initial_topics import initialize_topics
from .._spherical.model import Concentrations, DocumentTerms, Prior, SphericalModel


class OrthogonalModel(SphericalModel):
    r"""Topics of an orthogonal spherical admixture, given documents as unit vectors :math:`v_d`.

    .. math:: \phi \sim \mathrm{Uniform}(\phi' \phi = I), \quad
        \theta_d \sim \mathrm{Dir}(\alpha, \ldots, \alpha), \quad
        v_d \sim \mathrm{vMF}(\phi \theta_d / |\theta_d|, \kappa(\theta_d)).

    As :math:`|\phi \theta| = |\theta|`, the log likelihood is linear in the topics, :math:`\mathrm{tr}(F' \phi)` with
    :math:`F = \sum_d \kappa(\theta_d) v_d \theta_d' / |\theta_d|`. The position is :math:`R \phi`, (V, K), with words
    as rows. All topics have the same radius: a constant metric, under which the same step size works for all data.

    Parameters
    ----------
    rows : Directions or DenseDirections
        Documents as unit vectors.
    alpha : ndarray of shape (K,)
        Dirichlet parameters of the proportions; the same number for each topic.
    concentration : float or ndarray of shape (K,)
        :math:`\kappa`, or a concentration for each topic: :math:`\kappa(\theta) = \sum_k \theta_k \kappa_k`.
    radii : ndarray of shape (1,)
        :math:`R`.
    noise : ndarray of shape (K,)
        Variance of the minibatch gradient with respect to unit topics: the mean over a topic's coordinates.
    workers : Workers
        Threads for the kernels.
    """

    def __init__(
        self,
        rows: AnyDirections,
        alpha: np.ndarray,
        concentration: float | np.ndarray,
        radii: np.ndarray,
        noise: np.ndarray,
        workers: Workers,
    ):
        no_mean = np.zeros(rows.n_features)
        concentrations = Concentrations(concentration, 0.0, 0.0)  # topics are uniform
        super().__init__(rows, alpha, no_mean, concentrations, radii, noise, workers, len(rows.directed))

    def _set_metric(self, radii: np.ndarray, noise: np.ndarray) -> None:
        self.radii, self.noise = radii, noise
        self.manifold = Stiefel(self.rows.n_features, self.n_components, float(radii[0]))

    def sized(self, n_components: int) -> OrthogonalModel:
        """A copy with another number of topics."""
        if n_components == self.n_components:
            return self
        other = copy.copy(self)
        other.alpha = np.full(n_components, self.alpha[0])
        other._set_metric(self.radii, np.zeros(n_components))
        return other

    def initial_topics(self, key: np.uint64) -> np.ndarray:
        """Initial topics: the orthonormal rows nearest to the centres of clusters, (K, V)."""
        return nearest_frame(initialize_topics(self.rows, self.n_components, subkey(key, Purpose.START)).topics)

    def topics(self, position: np.ndarray) -> np.ndarray:
        """Topics as unit vectors, (K, V), of one chain's position."""
        return np.ascontiguousarray(position.T) / self.radii

    def to_position(self, topics: np.ndarray) -> np.ndarray:
        """Position of the given orthonormal topics, (K, V)."""
        return np.ascontiguousarray(topics.T) * self.radii

    def noise_covariance(self) -> np.ndarray:
        """Variances of the coordinates of the minibatch gradient at the position, (V K,); larger for frequent words."""
        return np.multiply.outer(self._word_power, self.noise / self.radii**2).ravel()

    def curvature_plus_noise(self, coupling: np.ndarray, noise: np.ndarray) -> np.ndarray:
        r"""Largest curvature of the log posterior with respect to unit topics, plus the gradient's variance, (1,)."""
        largest = self.document_density.reference * self.total_samples * np.linalg.eigvalsh(coupling)[-1]
        return np.array([largest + self.rows.n_features + noise.max()])

    # Parts of the log posterior

    def to_word_major(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unit topics with words as rows, (V, K), and their Gram matrix, which is the identity."""
        return position / self.radii, np.eye(self.n_components)

    def prior(self, word_topic: np.ndarray) -> Prior:
        """The uniform prior, whose gradient is zero."""
        return Prior(self.mean_direction, 0.0, np.zeros(2))

    def fill_gradient(
        self, rows: np.ndarray, terms: DocumentTerms, word_topic: np.ndarray, prior: Prior, out: np.ndarray
    ) -> None:
        """Write the gradient of the log posterior at the position, (V, K), as estimated from documents `rows`."""
        out[:] = 0.0
        self.add_parameter(rows, terms.weights, out)

    def document_gradients(self, rows: np.ndarray, draws: np.ndarray, word_major: tuple[np.ndarray, ...]) -> np.ndarray:
        """Gradients of each document's log likelihood at the position, (n, V, K): means over draws of proportions."""
        scale = self.document_density.reference / float(self.radii[0])
        return scale * np.einsum("nv,nk->nvk", self.rows.dense(rows), self.weights(draws))

    def weights(self, draws: np.ndarray) -> np.ndarray:
        """Weights of documents in the topics, (n, K): means over draws of their proportions, (n, n_draws, K)."""
        shares = draws / np.sqrt(np.einsum("nsk,nsk->ns", draws, draws))[:, :, None]
        return np.mean(relative_concentrations(self.document_density, draws)[:, :, None] * shares, axis=1)

    def add_parameter(self, rows: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
        """Add F / R, estimated from the weights, (n, K), of documents `rows`."""
        scale = self.document_density.reference * self.total_samples / (len(rows) * float(self.radii[0]))
        self.rows.add_pulls(rows, weights, scale, out)


def nearest_frame(topics: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to `topics`, (K, V): the factor of its polar decomposition."""
    left, _, right = np.linalg.svd(topics, full_matrices=False)
    return left @ right
