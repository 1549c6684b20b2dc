"""Small fits that compile the kernels: each estimator with its defaults, each sampler and each emission.

Most estimators convert X before kernels see it. So dense and sparse X, whole and real numbers of 32 and 64 bits, and
read-only X need the same kernels. Missing cells among real numbers need other kernels, and so do dense and sparse
directions of both precisions in `VonMisesFisherMixture`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

_N_ROWS = 60


def _counts() -> Any:
    """Counts of words, sparse."""
    random = np.random.default_rng(0)
    rates = random.gamma(0.3, 10.0, (3, 40))[np.arange(_N_ROWS) % 3]
    return scipy.sparse.csr_array((random.poisson(rates) + (np.arange(40) == 0)).astype(float))


def _word_vectors() -> np.ndarray:
    """A vector for each word of `_counts`."""
    return np.random.default_rng(0).normal(size=(40, 3))


def _directions() -> np.ndarray:
    """Vectors of length 1 in four clusters."""
    rows = np.random.default_rng(0).normal(size=(_N_ROWS, 20)) + 3 * np.eye(20)[np.arange(_N_ROWS) % 4]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _codes() -> np.ndarray:
    """Codes of categories; the first is missing."""
    rows = np.random.default_rng(0).integers(0, 3, (_N_ROWS, 8)).astype(float)
    rows[0, 0] = np.nan
    return rows


def _events() -> np.ndarray:
    """Zeros and ones."""
    return (np.random.default_rng(0).random((_N_ROWS, 10)) < 0.4).astype(float)


def _points() -> np.ndarray:
    """Points near a plane."""
    return np.random.default_rng(0).normal(size=(_N_ROWS, 5)) * [5, 5, 1, 1, 1]


def _points_with_missing_cells() -> np.ndarray:
    """Points near a plane; some rows have missing cells."""
    rows = _points()
    rows[::3, 0] = np.nan
    rows[::4, 2] = np.nan
    return rows


def _rounded_points() -> np.ndarray:
    return _points().round(1)


def _table() -> np.ndarray:
    """Numbers, texts and truth values; some cells are missing."""
    random = np.random.default_rng(0)
    rows = np.empty((_N_ROWS, 5), dtype=object)
    rows[:, :2] = _points_with_missing_cells()[:, :2].round(1)
    rows[:, 2] = np.array(["blue", "brown", "green"])[random.integers(0, 3, _N_ROWS)]
    rows[:, 3] = np.array(["no", "yes"])[random.integers(0, 2, _N_ROWS)]
    rows[:, 4] = random.random(_N_ROWS) < 0.4
    rows[::5, 2] = None
    return rows


_FEW = {"n_components": 3, "n_init": 2, "random_state": 0}  # called if the estimator has them
_SHORT = {"max_iter": 12, "burn_in": 6}  # for other settings than the defaults; priors are learned from pass 10 on
_DATA: dict[str, Callable[[], Any]] = {
    "StochasticLDA": _counts,
    "HDPAdmixture": _counts,
    "SphericalAdmixture": _directions,
    "OrthogonalSphericalAdmixture": _directions,
    "ExponentialFamilyAdmixture": _counts,
    "DPCategoricalMixture": _counts,
    "DPMixture": _rounded_points,
    "ExponentialFamilyMixture": _points,
    "VonMisesFisherMixture": _directions,
    "SubspaceMixture": _points,
    "SubspaceClassifier": _points,
    "MixtureImputer": _table,
    "MixtureClassifier": _table,
    "MixtureRegressor": _table,
    "CrossCat": _table,
}
_OF_EMISSIONS: dict[str, Callable[[], Any]] = {
    "auto": _table,
    "bernoulli": _events,
    "categorical": _codes,
    "gaussian": _rounded_points,
    "multinomial": _counts,
    "negative_binomial": _counts,
    "poisson": _counts,
    "von_mises_fisher": _points,
}
_OTHER_TYPES: dict[str, tuple[Callable[[Any], Any], ...]] = {  # of X that need other kernels with the same settings
    "VonMisesFisherMixture": (lambda X: X.astype(np.float32), scipy.sparse.csr_array),
}
_WITH_TARGETS = "SubspaceClassifier", "MixtureClassifier", "MixtureRegressor"
_OF_ROWS = ("transform", "predict", "predict_proba", "score", "score_samples", "perplexity", "project", "co_clustering")
ESTIMATORS = tuple(_DATA)


class Case(NamedTuple):
    """A small fit and the methods to call after it."""

    estimator: str
    settings: dict[str, Any]  # parameters that are not defaults
    data: Callable[[], Any]  # returns X

    def __str__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.settings.items() if not isinstance(value, np.ndarray))
        return f"{self.estimator}({', '.join(shown)})"

    def run(self) -> None:
        """Fit the estimator and call its methods."""
        from ..models import IncompatibleError

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings due to the small numbers of rows and passes
            for convert in (lambda X: X, *_OTHER_TYPES.get(self.estimator, ())):
                X = convert(self.data())
                try:
                    self._fit_and_infer(X, *([np.arange(len(X)) % 2] if self.estimator in _WITH_TARGETS else []))
                except IncompatibleError:  # an emission that this sampler cannot use
                    return

    def _fit_and_infer(self, X: Any, *y: Any) -> None:
        estimator = self._new_estimator().fit(X, *y)
        for method in _OF_ROWS:
            if hasattr(estimator, method):
                getattr(estimator, method)(X, *(y if method == "score" else ()))
        if hasattr(estimator, "sample"):
            estimator.sample(5)
        stream = self._new_estimator()
        if hasattr(stream, "partial_fit"):
            stream.partial_fit(X).partial_fit(X).predict(X)

    def _new_estimator(self) -> Any:
        estimator = getattr(importlib.import_module("skmanifold"), self.estimator)(**self.settings)
        wanted = _FEW | _SHORT if self.settings else _FEW
        known = estimator.get_params(deep=False).keys() - self.settings.keys()
        return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})


def cases_of(name: str, only_defaults: bool = False) -> Iterator[Case]:
    """The fits of an estimator, first with its defaults; the others have other samplers and emissions."""
    yield Case(name, {}, _DATA[name])
    if only_defaults:
        return
    estimator = getattr(importlib.import_module("skmanifold"), name)
    defaults = estimator().get_params(deep=False)
    samplers, emissions = (
        list(getattr(estimator, f"_{block}s", {})) or [defaults.get(block)] for block in ("sampler", "emission")
    )
    for emission, sampler in product(emissions, samplers):
        chosen = {"emission": emission, "sampler": sampler}
        settings = {block: value for block, value in chosen.items() if value != defaults.get(block)}
        if settings.get("emission") == "gaussian":  # in an admixture, words have vectors
            yield Case(name, settings | {"word_vectors": _word_vectors()}, _counts)
        elif settings:
            yield Case(name, settings, _DATA[name] if emission is None else _OF_EMISSIONS[emission])
    yield from _others(name)


def _others(name: str) -> Iterator[Case]:
    """Fits with separate kernels, other than those of samplers and emissions with names."""
    from ..emissions import Gaussian

    if name == "DPMixture":
        yield Case(name, {"emission": Gaussian()}, _points_with_missing_cells)
    if name == "ExponentialFamilyMixture":
        emissions = Gaussian("full"), Gaussian("tied"), Gaussian("diag")
        for kind, sampler in product(emissions, ("esca", "em", "gibbs")):
            yield Case(name, {"emission": kind, "sampler": sampler}, _points_with_missing_cells)
    if name == "SubspaceMixture":
        yield Case(name, {"noise": "per_cluster"}, _DATA[name])
        yield Case(name, {"sampler": "gibbs"}, _points_with_missing_cells)
        yield Case(name, {"n_components": None}, _DATA[name])
        yield Case(name, {"n_components": None, "sampler": "slice"}, _points_with_missing_cells)
    if name == "VonMisesFisherMixture":
        yield Case(name, {"assignment": "hard"}, _DATA[name])
        yield Case(name, {"concentration": "shared"}, _DATA[name])
