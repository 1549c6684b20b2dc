"""Documents, priors and concentrations of a spherical admixture, and the clusters at whose centres topics start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...mixture._von_mises_fisher import VonMisesFisherMixture
from ...random._keys import Purpose
from ...random._variates import some_rows
from ...sparse.directions import AnyDirections
from ...topics.document_densities import DocumentDensity, density_of
from ...utils._threads import Workers

if TYPE_CHECKING:  # `setup` uses models, which have documents
    from .setup import Setup

_N_ITERATIONS, _ROWS_OF_TOPIC = 10, 200  # of the clusters


class SphericalDocuments:
    """Documents, priors and concentrations of the model of topics; `total_samples` is the number they stand for."""

    def __init__(self, setup: Setup, workers: Workers, total_samples: int | None):
        self.setup = setup
        self.rows, self.alpha, self.mean_direction, self.concentrations = setup[:4]
        self.directed = self.rows.directed  # rows of zeros carry no information
        self.workers = workers
        self.total_samples = len(self.directed) if total_samples is None else total_samples

    @property
    def n_components(self) -> int:
        """Number of topics K."""
        return len(self.alpha)

    @property
    def document_density(self) -> DocumentDensity:
        """The distribution of a document given its proportions."""
        return density_of(self.concentrations.document, self.rows.n_features)


class InitialTopics(NamedTuple):
    """Centres of clusters of documents and their concentration."""

    topics: np.ndarray  # (K, V), unit rows
    concentration: float  # concentration of the documents about their cluster's centre


def initialize_topics(rows: AnyDirections, n_components: int, key: np.uint64) -> InitialTopics:
    """Cluster a random sample of at most 200 documents per topic by hard von Mises-Fisher EM."""
    directed = rows.directed
    chosen = some_rows(key, Purpose.START, len(directed), min(len(directed), _ROWS_OF_TOPIC * n_components))
    mixture = VonMisesFisherMixture(
        n_components,
        assignment="hard",
        concentration="shared",
        max_iter=_N_ITERATIONS,
        tol=0.0,  # always all iterations: initial topics need not converge
        random_state=int(key >> np.uint64(32)),
    ).fit(rows.matrix(directed[chosen]))
    return InitialTopics(mixture.mean_directions_, float(mixture.concentrations_[0]))
