"""Users' X: every estimator and metric with sparse matrices of every format, whole and altered.

What is no matrix must be refused; what is one must give what the same numbers give as a plain CSR array.
"""

from __future__ import annotations

import warnings
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from fuzz._cases import one_sentence
from fuzz._sparse_matrices import BrokenError, alter_form, alter_structure, alter_values, make, read
from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    HeldOutMonitor,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.distributions import VonMisesFisher
from skmanifold.emissions import EMISSIONS
from skmanifold.metrics import document_completion, left_to_right, spherical_document_likelihood, topic_coherence

_SHAPE = (10, 8)
_SHORT = {"max_iter": 3, "burn_in": 1, "thin": 1, "random_state": 0}
_CLASSES = np.arange(_SHAPE[0]) % 2
_METHODS = ("transform", "predict", "predict_proba", "score", "score_samples", "perplexity", "predict_log_proba")
ESTIMATORS = [
    StochasticLDA(3, **_SHORT),
    StochasticLDA(3, sampler="scir", batch_size=5, n_local_sweeps=3, n_local_burn_in=1, **_SHORT),
    *(ExponentialFamilyAdmixture(2, emission=kind, **_SHORT) for kind in ("multinomial", "poisson", "bernoulli")),
    ExponentialFamilyAdmixture(2, emission="gaussian", word_vectors=np.eye(_SHAPE[1])[:, :2] + 0.1, **_SHORT),
    *(ExponentialFamilyMixture(2, emission=k, **_SHORT) for k in EMISSIONS),
    *(DPCategoricalMixture(emission, init=2, **_SHORT) for emission in ("multinomial", "categorical")),
    # EMISSIONS OF DPMixture: all of EMISSIONS, once they have clusters
    DPMixture("categorical", init=2, **_SHORT),
    HDPAdmixture(init=2, **_SHORT),
    SphericalAdmixture(2, **_SHORT),
    OrthogonalSphericalAdmixture(2, **_SHORT),
    VonMisesFisherMixture(2, max_iter=5, tol=0, n_init=1, random_state=0),
    *(SubspaceMixture(number, n_init=1, **_SHORT) for number in (2, None)),
    SubspaceClassifier(SubspaceMixture(1, **_SHORT)),
]
# scikit-learn's own, of several lines
_KNOWN = ("contains NaN", "Expected 2D", "Complex data not supported")


def prepare(folder) -> list[tuple[str, Any, np.ndarray]]:
    """What takes X: a name, a function of X, and a dense X that it likes."""
    rng = np.random.default_rng(0)
    has_callbacks = find_spec("sklearn.callback") is not None
    monitor = HeldOutMonitor(fraction=0.3) if has_callbacks else None  # one: each has a thread of scikit-learn's
    counts = rng.poisson(1.0, _SHAPE) + np.eye(*_SHAPE)
    targets: list = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator in ESTIMATORS:
            liked = np.minimum(counts, 1) if getattr(estimator, "emission", "") == "bernoulli" else counts
            fitted = _fit(clone(estimator), liked)
            name = f"{estimator!r}"
            targets += [
                (f"{name}.{method}", getattr(fitted, method), liked) for method in _METHODS if hasattr(fitted, method)
            ]
            targets += [(f"{name}.fit", partial(_fit_and_look, estimator, liked), liked)] * 3
            targets.append((f"{name}.fit held out", partial(_fit_and_look, estimator, liked, monitor=monitor), liked))
            if hasattr(estimator, "partial_fit"):
                targets.append((f"{name}.partial_fit", partial(_partial_fit_and_look, estimator, liked), liked))
    topics = rng.dirichlet(np.ones(_SHAPE[1]), 3)
    unit = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    law = VonMisesFisher.fit(unit)
    targets += [
        ("document_completion", lambda X: document_completion(topics, X, np.ones(3)).per_document[0], counts),
        (
            "left_to_right",
            lambda X: left_to_right(topics, X, np.ones(3), n_particles=2, n_runs=2).document_errors,
            counts,
        ),
        ("topic_coherence", partial(topic_coherence, topics, n_top_words=3), counts),
        (
            "spherical",
            lambda X: spherical_document_likelihood(topics, X, np.ones(3), 9.0, n_draws=9).log_density,
            counts,
        ),
        ("VonMisesFisher.fit", lambda X: VonMisesFisher.fit(X).mean_direction, unit),
        ("VonMisesFisher.log_density", law.log_density, unit),
    ]
    for _, call, liked in targets:  # no case has to wait for a compiler
        _outcome(call, sp.csr_array(liked))
    return targets


def check(prepared, seed: int) -> str | None:
    """One target with one matrix."""
    rng = np.random.default_rng(seed)
    name, call, liked = prepared[rng.integers(len(prepared))]
    alter = (_broken_or_other, alter_form, alter_values, _odd)[rng.choice(4, p=[0.5, 0.25, 0.15, 0.1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = alter(rng, make(rng, liked))
        told = judge(call, X)
    return None if told is None else f"{name} with {_describe(X)}: {told}"


def judge(call, X) -> str | None:
    """What is wrong with how `call` takes X, a sentence or None."""
    try:
        expected = _outcome(call, sp.csr_array(read(X))) if _is_small(X) else None
    except (BrokenError, TypeError, ValueError) as error:
        expected = error
    found = _outcome(call, X)
    if isinstance(found, Exception):
        if not isinstance(found, ValueError | TypeError):
            return f"{found!r} is neither a ValueError nor a TypeError."
        if not (one_sentence(found) or any(known in str(found) for known in _KNOWN)):
            return f"{found!r} is not one sentence."
        if isinstance(expected, np.ndarray) and not _may_refuse(X):
            return f"refused ({found}) though it is a matrix."
    elif isinstance(expected, BrokenError):
        return f"accepted though it is no matrix ({expected})."
    elif isinstance(expected, Exception):
        return f"accepted though the same numbers are not ({expected})."
    elif expected is not None and not np.array_equal(expected, found, equal_nan=True):
        return "another result than from the same numbers."
    return None


def _outcome(call, X):
    """The answer as an array, or the exception."""
    try:
        return np.asarray(call(X), dtype=np.float64)
    except Exception as error:
        return error


def _is_small(X) -> bool:
    return sp.issparse(X) and X.ndim == 2 and max(X.shape) < 1000


def _may_refuse(X) -> bool:
    """Entries that add up to a count, but are none; types that scipy does not convert."""
    if X.dtype.kind not in "biuf" or X.dtype == np.float16:
        return True
    if X.format in ("lil", "dok"):
        return False
    return not np.all(np.isfinite(X.data)) or bool((X.data < 0).any())


def _fit(estimator, X):
    return estimator.fit(X, _CLASSES) if isinstance(estimator, SubspaceClassifier) else estimator.fit(X)


def _fit_and_look(estimator, liked, X, monitor=None):
    estimator = clone(estimator)
    if monitor is not None:
        estimator.set_callbacks(monitor)
    return _look(_fit(estimator, X), liked)


def _partial_fit_and_look(estimator, liked, X):
    return _look(clone(estimator).partial_fit(X), liked)


def _look(fitted, liked):
    """What was learned, by what it says of rows that it likes."""
    liked = np.resize(liked, (len(liked), fitted.n_features_in_))
    for method in ("transform", "predict_proba", "score_samples"):
        if hasattr(fitted, method):
            return getattr(fitted, method)(liked)
    return fitted.predict(liked)


def _broken_or_other(rng, X):
    alter_structure(rng, X)
    return X


def _odd(rng, X):
    """What is no table of a few rows and columns."""
    choice = rng.integers(12)
    row, empty = np.array([0, 1]), np.zeros(0, np.int64)
    if choice == 0:
        return sp.coo_array((np.ones(2), (row,)), shape=(4,))
    if choice == 1:
        return sp.coo_array((np.ones(2), (row, row, row)), shape=(4, 4, 4))
    if choice == 2:
        return type(X)((0, X.shape[1]))
    if choice == 3:
        return type(X)((X.shape[0], 0))
    if choice == 4:
        return sp.coo_array((np.ones(2), (row, row + 2**40)), shape=(2, 2**41))
    if choice == 5:
        return sp.csr_array((np.ones(2), row + 2**31 - 2, row.cumsum().repeat(2)[:3]), shape=(2, 2**31))
    if choice == 6:
        return sp.coo_array((np.ones(2), (row + 2**40, row)), shape=(2**41, X.shape[1]))
    if choice == 7:
        return sp.csc_array((np.ones(0), empty, np.zeros(X.shape[1] + 1, np.int64)), shape=(2**33, X.shape[1]))
    dense = X.toarray()
    if choice == 8:
        return np.matrix(dense)
    if choice == 9:
        return [sp.csr_array(dense), sp.csr_array(dense)]
    if choice == 10:
        return dense.astype(rng.choice([np.float16, np.longdouble, np.complex128, object, bool, np.uint64, ">f8", "U"]))
    dense[rng.integers(len(dense)), 0] = rng.choice([np.nan, np.inf, -1.0, 2.0**31 - 1, 1e300])
    return np.asfortranarray(dense)


def _describe(X) -> str:
    parts = ("shape", "dtype", "data", "indices", "indptr", "coords", "offsets", "rows")
    return f"{type(X).__name__} " + ", ".join(f"{p}={getattr(X, p)!r}" for p in parts if hasattr(X, p))[:1500]
