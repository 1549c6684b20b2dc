"""Every kind of fitted estimator, small, and what two of them have to have in common to be the same."""

from functools import cache

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier, is_regressor

import skmanifold
from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    MixtureClassifier,
    MixtureImputer,
    MixtureRegressor,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
    emissions,
    samplers,
)
from skmanifold.emissions import Categorical, Gaussian
from skmanifold.persistence._registry import _PRIVATE
from skmanifold.samplers import ESCA, SCIR, PolynomialDecay

# Names of classes in files
PUBLIC = [
    name
    for package in (skmanifold, emissions, samplers)
    for name in package.__all__
    if isinstance(getattr(package, name), type) and issubclass(getattr(package, name), BaseEstimator)
]
NAMES = [*PUBLIC, *(name for names in _PRIVATE.values() for name in names.split())]

_RNG = np.random.default_rng(0)
COUNTS = _RNG.poisson(1.0, (40, 6))
COUNTS[:, 0] += 1
ROWS = _RNG.normal(size=(40, 4)) + 3 * (np.arange(40) % 2)[:, None]
CLASSES = np.array(["odd", "even"])[np.arange(40) % 2]
BITS = (COUNTS > 1).astype(float)
CODES = _RNG.integers(0, 3, (40, 5)).astype(float)
CODES[3, 2] = np.nan
VECTORS = _RNG.normal(size=(6, 2))
TARGET = ROWS[:, 0] + _RNG.normal(size=40)
TABLE = pd.DataFrame(
    {
        "a": ROWS[:, 0],
        "b": np.where(np.arange(40) % 7, ROWS[:, 1], np.nan),
        "kind": np.array(["x", "y", "z"])[COUNTS[:, 1].clip(max=2)],
        "seen": COUNTS[:, 2] > 1,
    }
)

SHORT = {"max_iter": 4, "burn_in": 2, "thin": 1, "random_state": 0}
_SMALL = {
    StochasticLDA: ({"n_components": 3}, COUNTS),
    SphericalAdmixture: ({"n_components": 3}, COUNTS),
    OrthogonalSphericalAdmixture: ({"n_components": 2}, COUNTS),
    HDPAdmixture: ({"init": 3}, COUNTS),
    DPCategoricalMixture: ({"init": 3}, COUNTS),
    SubspaceMixture: ({"n_components": 2, "n_init": 1}, ROWS),
    ExponentialFamilyMixture: ({"n_components": 2}, ROWS),
    ExponentialFamilyAdmixture: ({"n_components": 3}, COUNTS),
    CrossCat: ({}, TABLE),
}


def _cases():
    """By name: the estimator, its data, and whether it learns from all rows, a stream, or one after the other."""
    cases = {}
    for kind, (small, X) in _SMALL.items():
        for name, sampler in kind._samplers.items():
            of_any_number = {"n_components": None} if kind is SubspaceMixture and name == "slice" else {}
            estimator = kind(sampler=name, n_chains=2, **(small | of_any_number), **SHORT)
            cases[f"{kind.__name__}-{name}"] = (estimator, X, ("fit",))
            if sampler.batching != "full" and hasattr(kind, "partial_fit"):
                cases[f"{kind.__name__}-{name}-stream"] = (estimator, X, ("partial_fit", "partial_fit"))
                cases[f"{kind.__name__}-{name}-then-stream"] = (estimator, X, ("fit", "partial_fit"))
    for name in ("esca", "cvb0"):
        auto = StochasticLDA(3, sampler=name, doc_topic_prior="auto", topic_word_prior="auto", **SHORT)
        cases[f"auto-priors-{name}"] = (auto, COUNTS, ("fit",))
    cases |= {
        "never-fitted": (StochasticLDA(3, sampler=SCIR(step_size=PolynomialDecay(0.1))), COUNTS, ()),
        "seeded-topics": (StochasticLDA(3, topic_word_prior=np.eye(3, 6) + 0.1, **SHORT), COUNTS, ("fit",)),
        "seed-words": (StochasticLDA(3, seed_words={"first": [0, 1], "second": [4]}, **SHORT), COUNTS, ("fit",)),
        "data-frame": (StochasticLDA(3, **SHORT), pd.DataFrame(COUNTS, columns=list("abcdef")), ("fit",)),
        "sparse": (StochasticLDA(3, **SHORT), sp.csr_array(COUNTS), ("fit",)),
        "approximate": (StochasticLDA(3, sampler=ESCA(counter="approximate"), **SHORT), COUNTS, ("fit",)),
        "codes": (DPCategoricalMixture("categorical", init=3, **SHORT), CODES, ("fit",)),
        "unknown-priors": (DPMixture(Categorical(None), init=3, **SHORT), CODES, ("fit",)),
        "other-weights": (
            DPCategoricalMixture("categorical", sampler="sgrld", weights_sampler="scir", init=3, **SHORT),
            CODES,
            ("partial_fit",),
        ),
        "unknown-size": (OrthogonalSphericalAdmixture(None, **SHORT), COUNTS, ("fit",)),
        "noise-per-cluster": (SubspaceMixture(2, noise="per_cluster", n_chains=2, **SHORT), ROWS, ("fit",)),
        "directions": (VonMisesFisherMixture(2, random_state=0), ROWS, ("fit",)),
        "classes": (SubspaceClassifier(SubspaceMixture(1, **SHORT)), ROWS, ("fit",)),
        "word-vectors": (
            ExponentialFamilyAdmixture(2, emission="gaussian", word_vectors=VECTORS, **SHORT),
            COUNTS,
            ("fit",),
        ),
        "rates": (ExponentialFamilyAdmixture(2, emission="poisson", sampler="gibbs", **SHORT), COUNTS, ("fit",)),
    }
    of_emission = {
        "bernoulli": BITS,
        "categorical": CODES,
        "gaussian": ROWS,
        "multinomial": COUNTS,
        "negative_binomial": COUNTS,
        "poisson": COUNTS,
        "von_mises_fisher": ROWS,
    }
    for emission, X in of_emission.items():
        mixture = ExponentialFamilyMixture(2, emission=emission, n_polish=2, **SHORT)
        cases[f"rows-{emission}"] = (mixture, X, ("fit",))
        cases[f"rows-{emission}-stream"] = (mixture, X, ("partial_fit",))
    for emission, X in of_emission.items():
        mixture = DPMixture(emission, init=3, n_chains=2, **SHORT)
        cases[f"dp-rows-{emission}"] = (mixture, X, ("fit",))
    cases["dp-outliers"] = (DPMixture(outliers=True, init=3, **SHORT), ROWS, ("fit",))
    for kind in (DPMixture(init=3, **SHORT), ExponentialFamilyMixture(2, sampler="gibbs", **SHORT)):
        mixture = kind.set_params(emission="auto")
        cases[f"table-{type(kind).__name__}"] = (mixture, TABLE, ("fit",))
    cases["imputer"] = (MixtureImputer(ExponentialFamilyMixture(2, **SHORT)), ROWS, ("fit",))
    of_table = ExponentialFamilyMixture(2, emission="auto", sampler="gibbs", **SHORT)
    cases["table-classifier"] = (MixtureClassifier(of_table), TABLE, ("fit",))
    cases["table-regressor"] = (MixtureRegressor(of_table), TABLE, ("fit",))
    for sampler in ("gsgnht", "svb"):
        topics = SphericalAdmixture(2, sampler=sampler, document_concentration="per_topic", **SHORT)
        cases[f"topic-concentrations-{sampler}"] = (topics, COUNTS, ("fit", "partial_fit"))
    for covariance_type in ("diag", "spherical"):
        mixture = ExponentialFamilyMixture(2, emission=Gaussian(covariance_type), **SHORT)
        cases[f"rows-{covariance_type}"] = (mixture, ROWS, ("fit",))
    return cases


CASES = _cases()


def targets_of(estimator):
    """A list of the target that the estimator is fitted to; empty if it needs none."""
    return [CLASSES] if is_classifier(estimator) else [TARGET] if is_regressor(estimator) else []


@cache
def fitted(name):
    """The estimator of a case; to be left as it is."""
    estimator, X, steps = CASES[name]
    for step in steps:
        getattr(estimator, step)(X, *targets_of(estimator))
    return estimator


def assert_same(one, other, path="estimator"):
    """Of one type and of the same content all the way down, arrays byte by byte."""
    assert type(one) is type(other), path
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), path
        if one.dtype == object:
            assert_same(one.tolist(), other.tolist(), path)
        else:
            assert one.tobytes() == other.tobytes(), path
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_same(one[key], other[key], f"{path}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for i, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{path}[{i}]")
    elif isinstance(one, np.generic):
        assert one.dtype == other.dtype, path
        assert one.tobytes() == other.tobytes(), path
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(legacy=False), other.get_state(legacy=False), path)
    elif isinstance(one, np.random.Generator):
        assert_same(one.bit_generator.state, other.bit_generator.state, path)
    elif isinstance(one, type) or not hasattr(one, "__dict__"):
        assert one == other or repr(one) == repr(other) == "nan", path
        assert repr(one) == repr(other), path  # -0.0
    else:
        assert_same(vars(one), vars(other), path)


def answers(estimator, X):
    """All that a fitted estimator says of X."""
    methods = ("transform", "predict", "predict_proba", "score_samples", "score", "perplexity")
    of_rows = {}
    for name in methods:
        if hasattr(estimator, name):
            arguments = (X, *targets_of(estimator)) if name == "score" else (X,)
            of_rows[name] = getattr(estimator, name)(*arguments)
    return of_rows
