"""Initial topics of a spherical admixture: the centres of clusters of documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...mixture._von_mises_fisher.estimator import VonMisesFisherMixture
from ...random._keys import Purpose
from ...random._variates import some_rows
from ...sparse.dense_directions import AnyDirections

_N_ITERATIONS = 10
_ROWS_OF_TOPIC = 200


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
