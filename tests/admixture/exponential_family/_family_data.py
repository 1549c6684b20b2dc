"""Rows of each family with the truth, and fits that several tests share."""

from functools import cache

import numpy as np

from skmanifold import ExponentialFamilyAdmixture
from skmanifold.metrics import match_topics

EMISSIONS = ("bernoulli", "multinomial", "gaussian", "poisson")


@cache
def grades_of_membership():
    """Types (3, 20), grades (1500, 3) and answers."""
    rng = np.random.default_rng(0)
    types, grades = rng.beta(0.3, 0.3, (3, 20)), rng.dirichlet([0.3] * 3, 1500)
    return types, grades, (rng.random((1500, 20)) < grades @ types).astype(float)


@cache
def words_with_vectors():
    """200 words around five centres in ten dimensions, their clusters, and counts of 400 documents of 60 words."""
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 5, 200)
    vectors = rng.normal(0, 3, (5, 10))[clusters] + rng.normal(0, 1, (200, 10)) * [1, 1, 1, 1, 1, 0.5, 0.5, 2, 2, 2]
    topics = (clusters == np.arange(5)[:, None]) * rng.gamma(1, 1, 200)
    topics /= topics.sum(axis=1, keepdims=True)
    proportions = rng.dirichlet([0.2] * 5, 400)
    return vectors, clusters, np.array([rng.multinomial(60, p) for p in proportions @ topics])


@cache
def gamma_poisson():
    """Factors (4, 60), intensities (800, 4) of mean 10, and counts."""
    rng = np.random.default_rng(0)
    factors, intensities = rng.dirichlet([0.1] * 60, 4), rng.gamma(0.5, 1 / 0.05, (800, 4))
    return factors, intensities, rng.poisson(intensities @ factors)


def small_rows(emission, n_rows=60):
    """Rows of few columns that the emission can make."""
    rng = np.random.default_rng(4)
    if emission == "bernoulli":
        answers = grades_of_membership()[2][:n_rows, :7].copy()
        answers[rng.random(answers.shape) < 0.15] = np.nan
        return answers
    return rng.poisson(1.3, (n_rows, 7)).astype(float)


def make(emission, n_components=3, **settings):
    vectors = np.random.default_rng(5).normal(size=(7, 2)) if emission == "gaussian" else None
    settings = {"word_vectors": vectors, "max_iter": 12, "thin": 2, "random_state": 0, **settings}
    return ExponentialFamilyAdmixture(n_components, emission=emission, **settings)


def in_order(truth, estimate):
    """Which component of the estimate is which of the truth."""
    return match_topics(truth, estimate).other
