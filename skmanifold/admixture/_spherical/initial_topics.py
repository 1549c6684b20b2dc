"""Where a spherical admixture begins: the centres of clusters of documents, and concentrations that go with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...mixture._von_mises_fisher.estimator import VonMisesFisherMixture
from ...random._keys import Purpose
from ...random._variates import sample_rows
from ...sparse.directions import Directions

_N_ITERATIONS = 10
_ROWS_OF_TOPIC = 200


class Start(NamedTuple):
    """Clusters of documents."""

    topics: np.ndarray  # (K, V), unit rows
    concentration: float  # of documents about the nearest topic


def start_topics(rows: Directions, n_components: int, key: np.uint64) -> Start:
    """Centres of hard clusters of at most 200 documents for each."""
    directed = rows.directed
    chosen = np.empty((1, min(len(directed), _ROWS_OF_TOPIC * n_components)), np.int64)
    sample_rows(np.array([key], np.uint64), Purpose.START, len(directed), chosen)
    whole = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_features))
    mixture = VonMisesFisherMixture(
        n_components,
        assignment="hard",
        concentration="shared",
        max_iter=_N_ITERATIONS,
        tol=0.0,  # a start need not converge
        random_state=int(key >> np.uint64(32)),
    ).fit(whole[directed[np.sort(chosen[0])]])
    return Start(mixture.mean_directions_, float(mixture.concentrations_[0]))
