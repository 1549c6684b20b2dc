"""Estimators and draws that several tests look at, each fitted once."""

from functools import cache

import numpy as np
import pandas as pd

from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.datasets import make_categorical_mixture, make_lda_corpus, make_subspaces
from skmanifold.inference import Draws


@cache
def counts():
    return make_lda_corpus(n_samples=60, n_features=20, n_components=3, random_state=0).data


@cache
def lda(sampler="gibbs", n_chains=2, max_iter=40):
    model = StochasticLDA(3, sampler=sampler, n_chains=n_chains, max_iter=max_iter, thin=1, random_state=0)
    return model.fit(counts())


@cache
def directions(n_features):
    rng = np.random.default_rng(0)
    centres = 4.0 * np.eye(n_features)[:2]
    return rng.standard_normal((80, n_features)) + np.repeat(centres, 40, axis=0)


@cache
def spherical(n_features, sampler="gsgnht"):
    model = SphericalAdmixture(2, sampler=sampler, max_iter=40, thin=1, random_state=0)
    return model.fit(directions(n_features))


@cache
def orthogonal():
    return OrthogonalSphericalAdmixture(None, max_iter=20, max_components=4, random_state=0).fit(directions(6))


@cache
def von_mises_fisher(n_features):
    return VonMisesFisherMixture(2, random_state=0).fit(directions(n_features))


@cache
def family_admixture(emission):
    X = (counts().toarray() > 0).astype(float) if emission == "bernoulli" else counts()
    word_vectors = np.random.default_rng(0).standard_normal((20, 2)) if emission == "gaussian" else None
    model = ExponentialFamilyAdmixture(2, emission=emission, word_vectors=word_vectors, max_iter=10, random_state=0)
    return model.fit(X)


@cache
def family_mixture(emission):
    X = directions(3) if emission == "gaussian" else counts()
    return ExponentialFamilyMixture(2, emission=emission, max_iter=10, random_state=0).fit(X)


@cache
def table():
    return make_categorical_mixture(120, 8, 3, weights=[0.5, 0.3, 0.2], random_state=0).data


@cache
def frame_of_views():
    """Columns a and c depend on each other, b on none; some cells are missing."""
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=100)
    frame = pd.DataFrame(
        {
            "a": rng.normal(6.0 * groups, 1.0),
            "b": rng.normal(size=100),
            "c": np.where(rng.random(100) < 0.05, 1 - groups, groups).astype(str),
        },
        index=[f"row {i}" for i in range(100)],
    )
    return frame.mask(rng.random(frame.shape) < 0.03)


@cache
def views():
    return CrossCat(max_iter=40, n_chains=2, random_state=0).fit(frame_of_views())


@cache
def dirichlet_process(emission="categorical"):
    X = table() if emission == "categorical" else counts()
    return DPCategoricalMixture(emission, max_iter=30, n_chains=2, random_state=0).fit(X)


@cache
def subspaces():
    data = make_subspaces(120, 4, (1, 2), noise_precision=50.0, random_state=0)
    return SubspaceMixture(2, max_iter=20, n_init=1, random_state=0).fit(data.data)


@cache
def subspace_classifier(n_components=1):
    data = make_subspaces(120, 4, (1, 2), noise_precision=50.0, random_state=0)
    mixture = SubspaceMixture(n_components, max_iter=20, n_init=1)
    return SubspaceClassifier(mixture, random_state=0).fit(data.data, np.array(["line", "plane"])[data.labels])


def draws_on_spheres(*shape, radius=1.0, n_draws=50):
    """Uniform draws of two chains, with a log density that is white noise."""
    rng = np.random.default_rng(0)
    position = rng.standard_normal((2, n_draws, *shape))
    position *= radius / np.linalg.norm(position, axis=-1, keepdims=True)
    return Draws(position, {"log_density": rng.standard_normal((2, n_draws))})
