"""Rows and fits of mixtures of subspaces that several test files share."""

from functools import cache

import numpy as np
import pytest

from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces

each_sampler = pytest.mark.parametrize("sampler", ["gibbs", "conway"])  # of a given number of subspaces
SHORT = {"max_iter": 10, "burn_in": 4, "thin": 2, "n_init": 2, "random_state": 0}
DRAWN = ("dimensions", "weights", "means", "noise_variance", "bases", "variances")


@cache
def planted(dimensions=(1, 2, 4), n_features=6):
    """Rows near a line, a plane and more."""
    truth = make_subspaces(400, n_features, dimensions, noise_precision=100.0, random_state=0)
    truth.data.flags.writeable = False
    return truth


@cache
def recovered():
    """Never change it."""
    return SubspaceMixture(3, max_iter=80, thin=1, n_chains=2, random_state=0).fit(planted().data)


@cache
def small_rows():
    """On a grid, and as many as a power of two: means are exact, so that nothing is rounded when rows are shifted."""
    return np.round(1024.0 * planted((0, 2, 1), 3).data[:64]) / 1024.0


def make(sampler="gibbs", n_components=3, **params):
    """An unfitted estimator with a short run."""
    return SubspaceMixture(n_components, sampler=sampler, **{**SHORT, **params})


@cache
def small_fit(sampler="gibbs"):
    """Never change it."""
    return make(sampler).fit(small_rows())


def learned(mixture):
    """All that a fit leaves on an estimator, as bytes."""
    parts = {name: draws.tobytes() for name, draws in mixture.posterior_.items()}
    for name in ("labels_", "means_", "weights_", "noise_variance_", "dimension_posterior_", "log_density_trace_"):
        parts[name] = getattr(mixture, name).tobytes()
    return {**parts, "bases_": np.concatenate(mixture.bases_).tobytes(), "best_chain_": mixture.best_chain_}


def is_sound(mixture, X):
    """Nothing is NaN or infinite, shapes are right, probabilities sum to 1."""
    K, m = mixture.n_components, X.shape[1]
    assert mixture.means_.shape == (K, m)
    assert [basis.shape for basis in mixture.bases_] == [(d, m) for d in mixture.dimensions_]
    coordinates, labels = mixture.project(X)
    told = [mixture.means_, mixture.weights_, mixture.noise_variance_, mixture.log_density_trace_, *mixture.bases_]
    told += [mixture.score_samples(X), mixture.transform(X), mixture.sample(20, random_state=0)[0]]
    told += [mixture.inverse_transform(coordinates, labels), *map(mixture.posterior_.get, DRAWN[:4])]
    assert all(np.isfinite(values).all() for values in told)
    missing = np.isnan(mixture.posterior_["variances"])
    capacity = missing.shape[-1]
    np.testing.assert_array_equal(missing, np.arange(capacity) >= mixture.posterior_["dimensions"][..., None])
    np.testing.assert_array_equal(missing, np.isnan(mixture.posterior_["bases"]).all(axis=-1))
    for shares in (mixture.predict_proba(X), mixture.dimension_posterior_, mixture.weights_):
        np.testing.assert_allclose(shares.sum(axis=-1), 1.0, rtol=1e-10)


def in_one_order(mixture):
    """Whether in each draw of each chain the component nearest to each of ``means_`` is the one of its number."""
    gaps = np.linalg.norm(mixture.posterior_["means"][:, :, None] - mixture.means_[:, None], axis=-1)
    return bool(np.all(gaps.argmin(axis=-1) == np.arange(mixture.n_components)))
