"""Fit every estimator of the installed package, use it, save it and load it again: a first look at a wheel.

Nothing but the package and its dependencies is needed, and no checkout may be on the path:

    python .ci/fit_each.py
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, clone

import skmanifold
from skmanifold import datasets

CHECKOUT = Path(__file__).resolve().parents[1]
RNG = np.random.default_rng(0)
COUNTS = datasets.make_lda_corpus(60, 40, 3, random_state=0).data
DIRECTIONS = RNG.normal(size=(60, 6)) + 3 * np.eye(6)[np.arange(60) % 3]
CODES = RNG.integers(0, 3, (60, 5)).astype(float)
POINTS = RNG.normal(size=(60, 4)) * [5, 5, 1, 1]
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
CASES = {
    "StochasticLDA": ({"n_components": 3}, COUNTS),
    "HDPAdmixture": ({"init": 5}, COUNTS),
    "SphericalAdmixture": ({"n_components": 3}, DIRECTIONS),
    "OrthogonalSphericalAdmixture": ({"n_components": 3}, DIRECTIONS),
    "ExponentialFamilyAdmixture": ({"n_components": 3}, COUNTS),
    "DPCategoricalMixture": ({"emission": "categorical"}, CODES),
    "DPMixture": ({}, POINTS),
    "CrossCat": ({}, POINTS),
    "ExponentialFamilyMixture": ({"n_components": 3}, POINTS),
    "ExponentialFamilyMixture of codes": ({"n_components": 3, "emission": "categorical"}, CODES),
    "VonMisesFisherMixture": ({"n_components": 3}, DIRECTIONS),
    "SubspaceMixture": ({"n_components": 2}, POINTS),
    "SubspaceMixture of any number": ({"n_components": None}, POINTS),
    "SubspaceClassifier": ({}, POINTS),
    "MixtureClassifier": ({"estimator": skmanifold.ExponentialFamilyMixture(2)}, POINTS),
    "MixtureRegressor": ({"estimator": skmanifold.ExponentialFamilyMixture(2)}, POINTS),
    "MixtureImputer": ({"mixture": skmanifold.ExponentialFamilyMixture(2)}, POINTS),
}
METHODS = ("transform", "predict", "predict_proba", "score")


def estimators() -> set[str]:
    """Names of the public estimators of the package."""
    public = {name: getattr(skmanifold, name) for name in skmanifold.__all__}
    return {name for name, value in public.items() if inspect.isclass(value) and issubclass(value, BaseEstimator)}


def call(estimator: BaseEstimator, method: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What a method returns for the data."""
    found = getattr(estimator, method)(X, y) if method == "score" else getattr(estimator, method)(X)
    return np.hstack(found) if isinstance(found, list) else np.asarray(found)


def try_estimator(name: str, folder: Path) -> list[str]:
    """Fit an estimator, call its methods before and after saving it, and return the names of these methods."""
    settings, X = CASES[name]
    y = np.arange(X.shape[0]) % 2
    estimator = clone(getattr(skmanifold, name.split()[0])(**settings, random_state=0))
    if "max_iter" in estimator.get_params():
        estimator.set_params(max_iter=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few passes need not converge
        estimator.fit(X, y)
    methods = [method for method in METHODS if hasattr(estimator, method)]
    results = {method: call(estimator, method, X, y) for method in methods}
    for method, result in results.items():
        if not np.isfinite(result).all():
            raise ValueError(f"{name}.{method} returned numbers that are not finite.")
    estimator.save(folder / f"{name}.npz")
    loaded = skmanifold.load(folder / f"{name}.npz")
    for method, result in results.items():
        if not np.array_equal(call(loaded, method, X, y), result):
            raise ValueError(f"{name}.{method} differs after saving and loading.")
    return methods


def main() -> None:
    """Try every estimator, or stop at the first that fails."""
    package = Path(skmanifold.__file__).resolve()
    if package.is_relative_to(CHECKOUT / "skmanifold"):
        sys.exit(f"{package} is the checkout: install a wheel in another environment, without PYTHONPATH.")
    if missing := estimators() ^ {name.split()[0] for name in CASES}:
        sys.exit(f"The list of estimators differs from the package's: {sorted(missing)}.")
    print(f"skmanifold {skmanifold.__version__} of {package.parent}")
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            print(f"{name}: fit, {', '.join(try_estimator(name, Path(folder)))}, save, load", flush=True)


if __name__ == "__main__":
    main()
