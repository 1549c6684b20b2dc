"""Parameters that are numpy's numbers, of any width, are as good as Python's."""

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.datasets import make_categorical_mixture, make_lda_corpus, make_spherical_admixture
from skmanifold.emissions import Poisson
from skmanifold.manifolds import Sphere
from skmanifold.samplers import ESCA, HMC, SCIR, SVRG, PolynomialDecay

SHORT = {"max_iter": 4, "burn_in": 2, "thin": 1, "random_state": 0}
ESTIMATORS = [
    *(StochasticLDA(5, sampler=name, topic_word_prior=0.5, **SHORT) for name in ("esca", "gibbs", "scir")),
    SphericalAdmixture(5, **SHORT),
    OrthogonalSphericalAdmixture(2, **SHORT),
    HDPAdmixture(init=5, **SHORT),
    ExponentialFamilyAdmixture(5, **SHORT),
    ExponentialFamilyAdmixture(5, emission="poisson", **SHORT),
    ExponentialFamilyMixture(5, **SHORT),
    DPCategoricalMixture(init=5, **SHORT),
    DPMixture("categorical", init=5, batch_size=50, **SHORT),
    *(SubspaceMixture(number, n_init=1, **SHORT) for number in (2, None)),
    SubspaceClassifier(SubspaceMixture(1, **SHORT), random_state=0),
    VonMisesFisherMixture(5, max_iter=5, tol=0.0, random_state=0),
]
X = np.random.default_rng(0).poisson(2, (300, 20)).astype(float)
Y = np.arange(300) % 2


def narrow(params):
    """The whole numbers among the parameters as numpy's of the least width."""
    whole = {name: value for name, value in params.items() if type(value) is int}
    return {name: np.min_scalar_type(value).type(value) for name, value in whole.items()}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{type(e).__name__}-{getattr(e, 'sampler', '')}")
def test_narrow_numbers_give_the_same_fit(estimator):
    scores = [
        clone(estimator).set_params(**params).fit(X, Y).score(X, Y)
        for params in (estimator.get_params(), narrow(estimator.get_params()))
    ]
    assert scores[1] == scores[0]


def test_narrow_numbers_of_a_constructor_survive_a_clone():
    lda = StochasticLDA(np.int16(5), sampler=ESCA(n_average=np.int8(100)), doc_topic_prior=np.float16(0.5))
    assert type(lda.n_components) is int
    assert type(clone(lda).sampler.n_average) is int
    assert type(clone(lda).doc_topic_prior) is float


@pytest.mark.parametrize(
    "value",
    [
        HMC(n_steps=np.int8(100), step_size=np.float32(0.1)),
        SCIR(step_size=np.float32(0.1)),
        SVRG(np.int8(100)),
        PolynomialDecay(np.float32(1), np.int8(100)),
        Poisson(rate_prior=np.float32(2)),
        Sphere(np.int8(100), n_points=np.int8(100)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_samplers_schedules_emissions_and_manifolds_keep_plain_numbers(value):
    given = value.get_params(deep=False).values()
    assert not any(isinstance(number, np.number) for number in given)
    assert not any(isinstance(number, np.number) for number in clone(value).get_params(deep=False).values())


@pytest.mark.parametrize("make", [make_categorical_mixture, make_lda_corpus, make_spherical_admixture])
def test_narrow_numbers_make_the_same_data(make):
    sizes = {"n_samples": 300, "n_features": 120, "n_components": 100}
    narrow_sizes = {"n_samples": np.int16(300), "n_features": np.int8(120), "n_components": np.int8(100)}
    data, same = (make(**given, random_state=0).data for given in (sizes, narrow_sizes))
    assert abs(data - same).sum() == 0
