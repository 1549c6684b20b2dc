"""Small fits that compile the kernels: each estimator with its defaults, each sampler and each emission."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from . import _data

_FEW = {"n_components": 3, "n_init": 2, "random_state": 0}  # called if the estimator has them
_SHORT = {"max_iter": 12, "burn_in": 6}  # for other settings than the defaults; priors are learned from pass 10 on
_DATA: dict[str, Callable[[], Any]] = {
    "StochasticLDA": _data.counts,
    "HDPAdmixture": _data.counts,
    "SphericalAdmixture": _data.directions,
    "OrthogonalSphericalAdmixture": _data.directions,
    "ExponentialFamilyAdmixture": _data.counts,
    "DPCategoricalMixture": _data.counts,
    "DPMixture": _data.points,
    "ExponentialFamilyMixture": _data.points,
    "VonMisesFisherMixture": _data.directions,
    "SubspaceMixture": _data.points,
    "SubspaceClassifier": _data.points,
    "MixtureImputer": _data.table,
}
_OTHER_ROWS: dict[str, tuple[Callable[[], Any], ...]] = {  # types of X that need other kernels with the same settings
    "VonMisesFisherMixture": (_data.directions_of_32_bits, _data.sparse_directions),
}
_OF_ROWS = ("transform", "predict", "predict_proba", "score", "score_samples", "perplexity", "project", "co_clustering")
ESTIMATORS = tuple(_DATA)


class Case(NamedTuple):
    """A small fit and the methods to call after it.

    Parameters
    ----------
    estimator : str
        Name of the class.
    settings : dict
        Parameters that are not defaults.
    data : callable
        Returns X.
    """

    estimator: str
    settings: dict[str, Any]
    data: Callable[[], Any]

    def __str__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.settings.items() if not isinstance(value, np.ndarray))
        return f"{self.estimator}({', '.join(shown)})"

    def run(self) -> None:
        """Fit the estimator and call its methods."""
        from ..models import IncompatibleError

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings due to the small numbers of rows and passes
            for data in (self.data, *_OTHER_ROWS.get(self.estimator, ())):
                X = data()
                try:
                    self._fit_and_infer(X, *([np.arange(len(X)) % 2] if self.estimator == "SubspaceClassifier" else []))
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
    """The fits of an estimator, first with its defaults.

    Parameters
    ----------
    name : str
        Name of the class.
    only_defaults : bool, default=False
        Whether to omit samplers and emissions that are not the default.

    Yields
    ------
    case : Case
        A small fit.
    """
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
            yield Case(name, settings | {"word_vectors": _data.word_vectors()}, _data.counts)
        elif settings:
            yield Case(name, settings, _DATA[name] if emission is None else _data.OF_EMISSIONS[emission])
    yield from _others(name)


def _others(name: str) -> Iterator[Case]:
    """Fits with separate kernels, other than those of samplers and emissions with names."""
    if name == "ExponentialFamilyMixture":
        from ..emissions import Gaussian

        emissions = Gaussian("full"), Gaussian("tied"), Gaussian("diag")
        for kind, sampler in product(emissions, ("esca", "em", "gibbs")):
            yield Case(name, {"emission": kind, "sampler": sampler}, _data.points_with_missing_cells)
    if name == "SubspaceMixture":
        yield Case(name, {"noise": "per_cluster"}, _DATA[name])
    if name == "VonMisesFisherMixture":
        yield Case(name, {"assignment": "hard"}, _DATA[name])
        yield Case(name, {"concentration": "shared"}, _DATA[name])
