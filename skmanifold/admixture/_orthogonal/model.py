"""Posterior of orthonormal topics: a spherical admixture whose topics are uniform on a Stiefel manifold."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...manifolds import Stiefel
from ...sparse.dense_directions import AnyDirections
from ...topics.document_densities import relative_concentrations
from .._spherical.model import Concentrations, DocumentTerms, Prior, SphericalModel
from .._spherical.setup import Setup


class OrthogonalModel(SphericalModel):
    r"""Topics of an orthogonal spherical admixture, given documents as unit vectors :math:`v_d`.

    .. math:: \phi \sim \mathrm{Uniform}(\phi' \phi = I), \quad
        \theta_d \sim \mathrm{Dir}(\alpha, \ldots, \alpha), \quad
        v_d \sim \mathrm{vMF}(\phi \theta_d / |\theta_d|, \kappa(\theta_d)).

    As :math:`|\phi \theta| = |\theta|`, the log likelihood is linear in the topics, :math:`\mathrm{tr}(F' \phi)` with
    :math:`F = \sum_d \kappa(\theta_d) v_d \theta_d' / |\theta_d|`. The position is :math:`R \phi`, (V, K), with words
    as rows. All topics have the same radius: a constant metric, under which the same step size works for all data.

    The parameters are those of `SphericalModel`, with equal numbers in `alpha` and one radius; see `unit_setup`.
    """

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

    def nearest(self, topics: np.ndarray) -> np.ndarray:
        """The orthonormal topics nearest to these unit vectors."""
        return nearest_frame(topics)

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


def unit_setup(
    rows: AnyDirections, n_components: int, alpha: float, concentration: Any, is_learned: bool, scaled: bool = False
) -> Setup:
    """Documents and priors of an `OrthogonalModel` of uniform topics, on the unit sphere and without noise.

    `concentration` is a number, or an array with one for each topic; `scaled` says whether the radius is learned.
    """
    alphas, no_mean, concentrations = np.full(n_components, alpha), np.zeros(rows.n_features), (concentration, 0.0, 0.0)
    metric, learned = (np.ones(1), np.zeros(n_components)), (is_learned, False, False)
    return Setup(rows, alphas, no_mean, Concentrations(*concentrations), learned, *metric, scaled)
