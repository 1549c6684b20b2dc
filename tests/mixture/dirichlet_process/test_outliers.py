"""Outliers of Dirichlet process mixtures: the exact posterior of few rows, planted background rows, and files.

Wrong variants go through the same checks, and fail.
"""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from benchmarks.clusters import BACKGROUND, noisy
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import betaln, gammaln, softmax

import skmanifold
from skmanifold import DPCategoricalMixture, DPMixture
from skmanifold.emissions import Columns, Gaussian, VonMisesFisher
from skmanifold.emissions._bound_rows import BoundRows
from skmanifold.emissions._gaussian.matrices import MatrixFamily
from skmanifold.emissions._gaussian.rounded import RoundsColumns
from skmanifold.mixture._dirichlet_process import outliers
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.outliers import OUTLIER, SliceWithOutliers
from skmanifold.models import IncompatibleError
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._direction_rows import DirectionRows
from ._emission_partitions import CASES, N_ROWS, TableRows
from ._gaussian_rows import _GaussianRows
from .test_hyperparameters import ROUNDED, log_marginal_of_cells
from .test_hyperparameters import PRIOR as OF_ROUNDED

PRIOR = 1.0, 2.0  # so that there are outliers among five rows
PAIRS = np.triu_indices(N_ROWS, 1)


@pytest.fixture(autouse=True)
def many_outliers(request, monkeypatch):
    if "default_prior" not in request.keywords:
        monkeypatch.setattr(outliers, "_PRIOR", PRIOR)


# --- the exact posterior of five rows --------------------------------------------------------------------


def expected_broad(rows):
    """Log density of each row if it is an outlier."""
    if isinstance(rows, TableRows):
        return sum(expected_broad(block) for block in rows.blocks)
    if isinstance(rows, DirectionRows):
        return np.zeros(N_ROWS)
    if isinstance(rows, _GaussianRows):
        return -(~np.isnan(rows.X) @ np.log(np.nanmax(rows.X, axis=0) - np.nanmin(rows.X, axis=0)))
    return np.array([rows.log_likelihood([frozenset([i])]) for i in range(N_ROWS)])


def functions(labels):
    """Which rows are outliers, and which pairs are together in a cluster; (..., n_rows) labels."""
    together = (labels[..., PAIRS[0]] == labels[..., PAIRS[1]]) & (labels[..., PAIRS[0]] != OUTLIER)
    return np.concatenate([labels == OUTLIER, together], axis=-1)


def exact_expectations(log_likelihood, broad, alpha=1.0):
    """Of `functions`, by enumeration of outliers and of the partitions of the other rows."""
    logs, found = [], []
    for n in range(1, N_ROWS + 1):
        for others in combinations(range(N_ROWS), n):
            for partition in tiny.partitions(n):
                labels = np.full(N_ROWS, OUTLIER)
                labels[list(others)] = partition
                clusters = tiny.clusters_of(labels[labels != OUTLIER])
                clusters = [frozenset(others[i] for i in rows) for rows in clusters]
                logs.append(len(clusters) * np.log(alpha) + sum(gammaln(len(rows)) for rows in clusters))
                logs[-1] += gammaln(alpha) - gammaln(alpha + n) + log_likelihood(clusters)
                logs[-1] += betaln(PRIOR[0] + N_ROWS - n, PRIOR[1] + n) + broad[labels == OUTLIER].sum()
                found.append(functions(labels))
    return softmax(logs) @ np.array(found, float)


@cache
def expectations(name):
    rows = CASES[name]
    return exact_expectations(rows.log_likelihood, expected_broad(rows))


def family_of(rows):
    emission = rows.emission
    if "widths" in rows.hyper:
        emission = emission.set_params(min_categories=list(rows.hyper["widths"]))
    return emission, emission.read(DPMixture(), rows.as_read, reset=True)


def along_chains(emission, rows, sampler=None, n_chains=24, n_steps=120):
    """Means of `functions`."""
    clusters = emission.bind(rows, 1).with_ranges(rows).clusters(rows)
    model, sampler = DPModel(clusters, 1.0, (1.0, 1.0), 2, None, Workers(1)), SliceWithOutliers(sampler or Slice(1))
    means = []
    for chain in range(n_chains):
        state, found = sampler.init(model, subkey(root_key(0), chain)), []
        for _ in range(n_steps):
            state = sampler.step(model, state)
            found.append(functions(state.latents))
        means.append(np.mean(found[20:], axis=0))
    return summarize(means)


NAMES = ["full", "full, missing", "tied, missing", "diag, missing", "categorical, missing", "negative binomial"]
NAMES += ["full and categorical, missing", "diag, bernoulli and poisson", "directions, shared", "multinomial"]


@pytest.mark.extended
@pytest.mark.short_cases("full, missing", "categorical, missing", "diag, bernoulli and poisson")
@pytest.mark.parametrize("name", NAMES)
def test_outliers_and_partitions_have_their_posterior(name):
    expected = expectations(name)
    assert 0.05 < expected[:N_ROWS].max()
    assert_agrees(along_chains(*family_of(CASES[name])), expected)
