"""Missing cells of wide tables: `SubspaceMixture` compared with regressions and Gaussian mixtures.

Cells are removed at random from tables of numbers, standardised beforehand; the error is the root mean square of the
filled cells in these units. The motion sequences are five of Hopkins 155 (`subspaces_motion`), with the mean error. The
simulation has the shape of gene expression: 200 rows of four classes, 5,000 columns, ten factors, and noise that
differs between columns. `IterativeImputer` of scikit-learn has ten rounds of Bayesian ridge regressions, of each column
on all others, or on its 20 nearest if there are more than 500. `DPMixture` has covariance matrices, and is left out
with more than 500 columns. Settings are otherwise the defaults; "SubspaceMixture, 3" has three subspaces.

    python -m benchmarks.subspaces_missing --write
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row, show
from benchmarks.imputation import vehicle
from benchmarks.mixed_tables import spread
from benchmarks.subspaces_motion import load_motions
from skmanifold import DPMixture, SubspaceMixture

MANY_COLUMNS, N_NEAREST, N_SEQUENCES = 500, 20, 5


def gene_expression(n_rows=200, n_columns=5000):
    rng = np.random.default_rng(0)
    classes, factors = rng.integers(4, size=n_rows), rng.normal(size=(n_rows, 10))
    loadings = 0.5 * rng.normal(size=(10, n_columns)) * rng.gamma(1.0, 1.0, size=n_columns)
    noise = rng.normal(size=(n_rows, n_columns)) * rng.gamma(2.0, 0.5, size=n_columns)
    return factors @ loadings + rng.normal(size=(4, n_columns))[classes] + noise


def motions():
    sequences = list(load_motions().values())
    return [X for X, _ in sequences[:: len(sequences) // N_SEQUENCES][:N_SEQUENCES]]


TABLES = {
    "vehicle": lambda: [vehicle().to_numpy()],
    "digits": lambda: [load_digits().data],
    "wine": lambda: [load_wine().data],
    "breast cancer": lambda: [load_breast_cancer().data],
    "motion sequences": motions,
    "gene expression, simulated": lambda: [gene_expression()],
}


def by_subspaces(n_components, X, seed):
    return SubspaceMixture(n_components, random_state=seed).fit(X).impute(X)


def by_covariances(X, seed):
    return DPMixture("gaussian", random_state=seed).fit(X).impute(X) if X.shape[1] <= MANY_COLUMNS else None


def by_regressions(X, seed):
    nearest = N_NEAREST if X.shape[1] > MANY_COLUMNS else None
    return IterativeImputer(n_nearest_features=nearest, random_state=seed).fit_transform(X)


METHODS = {
    "SubspaceMixture, 1": partial(by_subspaces, 1),
    "SubspaceMixture, 3": partial(by_subspaces, 3),
    "DPMixture": by_covariances,
    "IterativeImputer": by_regressions,
    "means": lambda X, seed: SimpleImputer().fit_transform(X),
}


def measure(method, tables, share, seed):
    """The error, or NaN if the method is left out, and processor seconds."""
    errors, start = [], time.process_time()
    for X in tables:
        X = X[:, X.std(axis=0) > 0.0]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        holes = np.random.default_rng(seed).random(X.shape) < share
        filled = METHODS[method](np.where(holes, np.nan, X), seed)
        errors.append(np.nan if filled is None else np.sqrt(np.mean(np.square(filled - X)[holes])))
    return np.mean(errors), time.process_time() - start


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.3, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add_write(parser)
    options = parser.parse_args()
    n_best = n_rows = 0
    with threadpool_limits(1):
        begin_table(("table", "removed", *options.methods, "seconds of each"))
        for name in options.tables:
            tables = TABLES[name]()
            for share in options.shares:
                found = np.array(
                    [[measure(each, tables, share, seed) for seed in options.seeds] for each in options.methods]
                )
                errors, seconds = np.moveaxis(found, -1, 0)
                cells = ("-" if np.isnan(own).any() else spread(own, 3) for own in errors)
                row((name, f"{share:.0%}", *cells, " / ".join(f"{np.median(own):.1f}" for own in seconds)))
                best = options.methods[np.nanargmin(errors.mean(axis=1))]
                n_best, n_rows = n_best + best.startswith("SubspaceMixture"), n_rows + 1
    show(f"\nA mixture of subspaces has the smallest mean error in {n_best} of {n_rows} rows.")
    finish(options, notes=f"Medians (ranges) of {len(options.seeds)} sets of removed cells; one core.")
