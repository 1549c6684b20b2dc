"""SHA-256 of the results of every estimator with every sampler, streams included, to compare two versions.

Each line has a case and a digest of its fitted attributes, draws, `transform`, `predict_proba`, `predict`,
`score_samples`, `score` and, where there is one, `sample`; then those of `sample` for densities with each sampler.

    python -m benchmarks.seeded_results > before.txt
    python -m benchmarks.seeded_results --compare before.txt
    python -m benchmarks.seeded_results --only SphericalAdmixture
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor

from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    MixtureClassifier,
    MixtureRegressor,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
    sample,
)
from skmanifold.datasets import make_lda_corpus
from skmanifold.emissions import Categorical, Columns, Gaussian, Spikes, VonMisesFisher
from skmanifold.manifolds import Euclidean, PositiveOrthant, Sphere, Stiefel
from skmanifold.models import Density, ExpandedMean, Log, Softmax, dirichlet
from skmanifold.samplers import (
    CVB0,
    EM,
    ESCA,
    GMC,
    GSGNHT,
    HMC,
    SCIR,
    SGGMC,
    SGHMC,
    SGLD,
    SGNHT,
    SGRHMC,
    SGRLD,
    SVRG,
)

RNG = np.random.default_rng(0)
COUNTS = make_lda_corpus(120, 60, 5, random_state=0).data
LARGE = np.asarray(COUNTS.toarray() if sp.issparse(COUNTS) else COUNTS).astype(np.int64) * 400
ROWS = RNG.normal(size=(150, 6)) + 3.0 * RNG.integers(0, 3, (150, 1))
HOLES = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.2, np.nan, ROWS)
BITS = (ROWS > 2.0).astype(float)
CODES = RNG.integers(0, 4, (150, 7)).astype(float)
CODES[3, 2] = np.nan
VECTORS = RNG.normal(size=(60, 3))
POINTS = RNG.normal(1.0, 1.0, (60, 3))
CLASSES = np.arange(150) % 3
TABLE = pd.DataFrame(np.where(RNG.random((150, 4)) < 0.1, np.nan, ROWS[:, :4].round(1)), columns=list("abcd"))
TABLE["kind"] = np.array(["x", "y", None, "z"])[CODES[:, 0].astype(int)]
TABLE["is"] = BITS[:, 5] > 0
SHORT = {"max_iter": 10, "burn_in": 4, "thin": 1, "random_state": 0}
SETTINGS: dict[type, tuple[dict[str, Any], Any]] = {
    StochasticLDA: ({"n_components": 7}, COUNTS),
    SphericalAdmixture: ({"n_components": 4}, COUNTS),
    OrthogonalSphericalAdmixture: ({"n_components": 4}, COUNTS),
    DPCategoricalMixture: ({"init": 4}, COUNTS),
    SubspaceMixture: ({"n_components": 3}, ROWS),
    ExponentialFamilyMixture: ({"n_components": 3}, ROWS),
    ExponentialFamilyAdmixture: ({"n_components": 4}, COUNTS),
    CrossCat: ({}, TABLE),
}
Case = tuple[str, Any, Any, tuple[str, ...]]


def _in_line(emission: Any) -> str:
    return " ".join(str(emission).split())


def estimators() -> Iterator[Case]:
    """Name, estimator, data, and the methods by which it learns."""
    for kind, (small, X) in SETTINGS.items():
        for name, sampler in kind._samplers.items():
            if (kind, name) == (SubspaceMixture, "slice"):
                continue  # its cases are below
            for n_jobs in (1, 2):
                estimator = kind(sampler=name, n_chains=2, n_jobs=n_jobs, **small, **SHORT)
                yield f"{kind.__name__}, {name}, n_jobs={n_jobs}", estimator, X, ("fit",)
            if sampler.batching != "full" and hasattr(kind, "partial_fit"):
                estimator = kind(sampler=name, n_chains=2, **small, **SHORT)
                yield f"{kind.__name__}, {name}, stream", estimator, X, ("partial_fit", "partial_fit")
                yield f"{kind.__name__}, {name}, fit and stream", estimator, X, ("fit", "partial_fit")
    many = {"n_components": 40, **SHORT}
    for sampler in (ESCA(), ESCA(counter="approximate"), CVB0(), "gibbs", "collapsed_gibbs"):
        yield f"StochasticLDA, {sampler}, many topics", StochasticLDA(sampler=sampler, **many), COUNTS, ("fit",)
    for sampler in ("esca", "cvb0"):
        auto = StochasticLDA(7, sampler=sampler, doc_topic_prior="auto", topic_word_prior="auto", **SHORT)
        yield f"StochasticLDA, {sampler}, learned priors", auto, COUNTS, ("fit",)
    yield "StochasticLDA, large cells", StochasticLDA(7, **SHORT), LARGE, ("fit",)
    for weights_sampler in ("scir", "sgrld"):
        codes = DPCategoricalMixture("categorical", sampler="sgrld", weights_sampler=weights_sampler, init=4, **SHORT)
        yield f"DPCategoricalMixture, categorical, {weights_sampler}", codes, CODES, ("fit", "partial_fit")
    yield "DPCategoricalMixture, categorical", DPCategoricalMixture("categorical", **SHORT), CODES, ("fit",)
    yield "OrthogonalSphericalAdmixture, number", OrthogonalSphericalAdmixture(**SHORT), COUNTS, ("fit",)
    for options in ({"noise_covariance": "fisher"}, {"control_variate": SVRG(5), "noise_covariance": None}):
        for kind in (SGGMC, GSGNHT):
            sampler = kind(0.25, **options)
            estimator = SphericalAdmixture(4, sampler=sampler, batch_size=30, **SHORT)
            yield f"SphericalAdmixture, {sampler}", estimator, COUNTS, ("fit",)
    for noise in ("shared", "per_cluster"):
        yield f"SubspaceMixture, {noise}", SubspaceMixture(3, noise=noise, **SHORT), ROWS, ("fit",)
        inferred = SubspaceMixture(None, noise=noise, n_chains=2, n_jobs=2, **SHORT)
        yield f"SubspaceMixture, number, {noise}", inferred, ROWS, ("fit",)
    yield "SubspaceMixture, missing cells", SubspaceMixture(3, **SHORT), HOLES, ("fit",)
    yield "SubspaceMixture, number, missing cells", SubspaceMixture(None, **SHORT), HOLES, ("fit",)
    for options in ({}, {"shrinkage": None, "temperature": 1.0}):
        classifier = SubspaceClassifier(SubspaceMixture(1, **SHORT), random_state=0, **options)
        yield f"SubspaceClassifier, {options}", classifier, ROWS, ("fit",)
    yield "SubspaceClassifier, missing cells", SubspaceClassifier(random_state=0), HOLES, ("fit",)
    mixture = ExponentialFamilyMixture(3, emission="auto", **SHORT)
    yield "MixtureClassifier", MixtureClassifier(mixture), TABLE, ("fit",)
    yield "MixtureRegressor", MixtureRegressor(mixture), TABLE, ("fit",)
    for assignment in ("soft", "hard"):
        directions = VonMisesFisherMixture(4, assignment=assignment, tol=0.0, max_iter=20, random_state=0)
        yield f"VonMisesFisherMixture, {assignment}", directions, COUNTS, ("fit",)
    families = (
        ("bernoulli", BITS),
        ("categorical", CODES),
        ("multinomial", COUNTS),
        ("negative_binomial", COUNTS),
        ("poisson", COUNTS),
        (Gaussian("diag"), ROWS),
        (Gaussian(transform=[0.5] * ROWS.shape[1]), ROWS.round(1)),
        (Gaussian("diag", transform="auto"), np.exp(ROWS)),
        (Gaussian(resolution=0.5), (2.0 * ROWS).round() / 2.0),
        (VonMisesFisher("per_component"), ROWS),
        (Spikes(), ROWS.round(1).clip(0.0)),
        (Columns([("numbers", Gaussian(), [0, 1]), ("codes", Categorical(), [2, 3])]), ROWS[:, :4].round()),
    )
    for emission, X in families:
        for n_jobs in (1, 2):
            mixture = DPMixture(emission, init=4, n_chains=2, n_jobs=n_jobs, **SHORT)
            yield f"DPMixture, {_in_line(emission)}, n_jobs={n_jobs}", mixture, X, ("fit",)
    for emission, X in (families[1], (Gaussian(resolution=0.5), (2.0 * ROWS).round() / 2.0)):
        mixture = DPMixture(emission, outliers=True, n_chains=2, **SHORT)
        yield f"DPMixture, {_in_line(emission)}, outliers", mixture, X, ("fit",)
    for sampler in ("esca", "gibbs", EM(tol=0.0)):
        for emission, X in families:
            for n_polish in (0, 2):
                mixture = ExponentialFamilyMixture(3, emission=emission, sampler=sampler, n_polish=n_polish, **SHORT)
                name = f"ExponentialFamilyMixture, {_in_line(emission)}, {sampler}, polish {n_polish}"
                yield name, mixture, X, ("fit",)
    for sampler in ("esca", EM(tol=0.0)):
        mixture = ExponentialFamilyMixture(3, emission=Gaussian("proportional"), sampler=sampler, **SHORT)
        yield f"ExponentialFamilyMixture, {_in_line(mixture.emission)}, {sampler}", mixture, ROWS, ("fit",)
    mixture = ExponentialFamilyMixture(3, init="hierarchical", n_init=2, **SHORT)
    yield "ExponentialFamilyMixture, hierarchical", mixture, ROWS, ("fit",)
    for sampler in ("esca", "gibbs"):
        for emission, X, vectors in (
            ("bernoulli", BITS, None),
            ("poisson", COUNTS, None),
            ("gaussian", COUNTS, VECTORS),
        ):
            admixture = ExponentialFamilyAdmixture(4, emission=emission, sampler=sampler, word_vectors=vectors, **SHORT)
            yield f"ExponentialFamilyAdmixture, {emission}, {sampler}", admixture, X, ("fit",)


def densities() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Name, target, sampler and options of `sample`."""
    flat = Density(
        Euclidean(3),
        grad_log_density=lambda x, rows: POINTS[rows] - x,
        log_density=lambda x, rows: -0.5 * ((POINTS[rows] - x) ** 2).sum(axis=1),
        n_samples=60,
    )
    for sampler in (HMC(0.05, 5), SGLD(1e-3), SGHMC(0.02), SGNHT(0.02)):
        yield f"flat, {sampler}", flat, sampler, {}
        if not isinstance(sampler, HMC):
            yield f"flat, {sampler}, minibatches", flat, sampler, {"batch_size": 10}
    simplex = dirichlet(np.array([1.0, 2.0, 5.0]))
    yield "simplex", simplex, SCIR(0.5), {}
    yield "softmax", Softmax(simplex), HMC(0.2, 5), {}
    for sampler in (SGRLD(0.01), SGRHMC(0.01)):
        yield f"expanded mean, {sampler}", ExpandedMean(simplex), sampler, {}
    gamma = Density(PositiveOrthant(2), lambda x: 2.0 / x - 1.0, log_density=lambda x: (2.0 * np.log(x) - x).sum())
    yield "log", Log(gamma), HMC(0.2, 5), {}
    pole = np.array([0.0, 0.0, 5.0])
    sphere = Density(Sphere(3), grad_log_density=lambda x: pole, log_density=lambda x: x @ pole)
    frame = Density(Stiefel(4, 2), grad_log_density=lambda x: np.eye(4, 2), log_density=lambda x: np.trace(x[:2]))
    for sampler in (GMC(0.2, 5), SGGMC(0.1), SGGMC(0.1, scheme="ou"), GSGNHT(0.1)):
        yield f"sphere, {sampler}", sphere, sampler, {}
        yield f"frame, {sampler}", frame, sampler, {}


def add(digest: Any, value: Any) -> None:
    """Feed a value to a hash: arrays by type, shape and bytes, containers entry by entry, other objects by type."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif sp.issparse(value):
        for part in (value.data, value.indices, value.indptr):
            add(digest, part)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            add(digest, value[key])
    elif isinstance(value, (list, tuple, np.ndarray)):
        for entry in value:
            add(digest, entry)
    elif isinstance(value, (str, int, float, np.generic, type(None))):
        digest.update(repr(value).encode())
    else:
        digest.update(type(value).__name__.encode())


def fitted(estimator: Any) -> dict[str, Any]:
    """The public fitted attributes."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


def results(estimator: Any, X: Any, y: Any, learn: tuple[str, ...]) -> str:
    """The digest of an estimator after learning from X."""
    digest = hashlib.sha256()
    for method in learn:
        getattr(estimator, method)(X, y)
    add(digest, fitted(estimator))
    for method in ("transform", "predict_proba", "predict", "score_samples"):
        if hasattr(estimator, method):
            add(digest, getattr(estimator, method)(X))
    add(digest, estimator.score(X, y))
    if hasattr(estimator, "sample"):
        add(digest, estimator.sample(5, random_state=0))
    return digest.hexdigest()


def lines(only: str) -> Iterator[str]:
    """Cases and digests."""
    for name, estimator, X, learn in estimators():
        if name.startswith(only):
            y = CLASSES if is_classifier(estimator) else ROWS[:, 4] if is_regressor(estimator) else None
            yield f"{name}: {results(clone(estimator), X, y, learn)}"
    for name, target, sampler, options in densities():
        if name.startswith(only):
            draws = sample(target, sampler, n_draws=30, n_chains=3, random_state=0, **options)
            digest = hashlib.sha256()
            add(digest, [draws.position, draws.stats])
            yield f"{name}: {digest.hexdigest()}"


def main(arguments: list[str] | None = None) -> int:
    """Print cases with digests, or those that differ from an earlier run; the number of the latter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names begin with this")
    parser.add_argument("--compare", type=Path, help="what an earlier run printed; exits 1 where a digest differs")
    options = parser.parse_args(arguments)
    before = set(options.compare.read_text().splitlines()) if options.compare else set()
    n_cases, changed = 0, 0
    for line in lines(options.only):
        n_cases += 1
        if not options.compare:
            print(line, flush=True)
        elif line not in before:
            changed += 1
            print("differs:", line, flush=True)
    if options.compare:
        print(f"{n_cases} cases, {changed} differ")
    return changed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main() > 0)
