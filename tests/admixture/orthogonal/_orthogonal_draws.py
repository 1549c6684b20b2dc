"""Draws of the orthogonal spherical admixture, that several test files share."""

import numpy as np
import scipy.sparse as sp

from skmanifold.admixture._orthogonal.passes import OrthogonalModel, unit_setup
from skmanifold.sparse.directions import as_directions

from ..spherical._spherical_draws import ONE, draw_documents


class WithoutLength(OrthogonalModel):
    """Proportions, not their directions, pull the topics."""

    def add_parameter(self, rows, pull, out):
        super().add_parameter(rows, pull / pull.sum(axis=1, keepdims=True), out)


def draw_frames(n, n_components, n_features, rng):
    """Uniform topics (n, K, V)."""
    frames, triangles = np.linalg.qr(rng.standard_normal((n, n_features, n_components)))
    return np.swapaxes(frames * np.sign(np.einsum("nkk->nk", triangles))[:, None, :], 1, 2)


def draw_prior(n, n_components, n_features, n_documents, alpha, kappa, rng):
    """Topics (n, K, V), proportions (n, D, K) and documents (n, D, V)."""
    topics = draw_frames(n, n_components, n_features, rng)
    theta = rng.dirichlet(np.full(n_components, alpha), (n, n_documents))
    return topics, theta, draw_documents(topics, theta, kappa, rng)


def make_model(documents, n_components, *, alpha=0.5, kappa=10.0, radius=1.0, kind=OrthogonalModel, workers=ONE):
    rows = as_directions(sp.csr_array(documents))
    setup = unit_setup(rows, n_components, alpha, kappa, False)._replace(radii=np.array([radius]))
    return kind(setup, workers)


def planted(n=300, V=40, K=3, seed=0, alpha=0.5, kappa=200.0):
    """Documents about mixtures of K orthonormal topics, and the topics."""
    topics, _, documents = draw_prior(1, K, V, n, alpha, kappa, np.random.default_rng(seed))
    return documents[0], topics[0]
