"""Missing cells of wide tables: `SubspaceMixture` compared with regressions and Gaussian mixtures.

Cells are removed at random from tables of numbers, standardised beforehand; the error is the root mean square of the
filled cells in these units. The motion sequences are five of Hopkins 155 (`subspaces_motion`), with the mean error. The
simulation has the shape of gene expression: 200 rows of four classes, 5,000 columns, ten factors, and noise that
differs between columns. `IterativeImputer` of scikit-learn has ten rounds of Bayesian ridge regressions, of each column
on all others; for the simulation it has two rounds, on the 20 nearest columns. `DPMixture` has covariance matrices, and
is left out for the simulation. "SubspaceMixture, 3" has three subspaces, and "inferred" has `n_components=None` and 100
sweeps. Settings are otherwise the defaults. A fit that takes too long is stopped.

    python -m benchmarks.subspaces_missing --measure
    python -m benchmarks.subspaces_missing --write

The first command adds the runs that are missing to `subspaces_missing.jsonl`; the second one writes the page from this
file.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from threadpoolctl import threadpool_limits

from benchmarks import _stored
from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.dp_held_out import time_limit
from benchmarks.imputation import vehicle
from benchmarks.mixed_tables import spread
from benchmarks.subspaces_motion import load_motions
from skmanifold import DPMixture, SubspaceMixture

MANY_COLUMNS, N_SEQUENCES = 500, 5
STORED = Path(__file__).with_suffix(".jsonl")
LITTLE_NOISE = "SubspaceMixture, 1, noise_prior=(1, 1e-12)"  # for `EXACT`


def gene_expression(n_rows=200, n_columns=5000):
    rng = np.random.default_rng(0)
    classes, factors = rng.integers(4, size=n_rows), rng.normal(size=(n_rows, 10))
    loadings = 0.5 * rng.normal(size=(10, n_columns)) * rng.gamma(1.0, 1.0, size=n_columns)
    noise = rng.normal(size=(n_rows, n_columns)) * rng.gamma(2.0, 0.5, size=n_columns)
    return factors @ loadings + rng.normal(size=(4, n_columns))[classes] + noise


def motions():
    sequences = list(load_motions().values())
    return [X for X, _ in sequences[:: len(sequences) // N_SEQUENCES][:N_SEQUENCES]]


EXACT = "motion sequences"  # rows lie nearly exactly in subspaces
TABLES = {
    "vehicle": lambda: [vehicle().to_numpy()],
    "wine": lambda: [load_wine().data],
    "breast cancer": lambda: [load_breast_cancer().data],
    EXACT: motions,
    "digits": lambda: [load_digits().data],
    "gene expression, simulated": lambda: [gene_expression()],
}
SMALL = "vehicle", "wine", "breast cancer"  # others have one set of removed cells, of seed 0


def by_subspaces(n_components, X, seed, **settings):
    return SubspaceMixture(n_components, **settings, random_state=seed).fit(X).impute(X)


def by_covariances(X, seed):
    return DPMixture("gaussian", random_state=seed).fit(X).impute(X)


def by_regressions(X, seed):
    fewer = {"n_nearest_features": 20, "max_iter": 2} if X.shape[1] > MANY_COLUMNS else {}
    return IterativeImputer(**fewer, random_state=seed).fit_transform(X)


OURS = "SubspaceMixture, 1", "SubspaceMixture, 3", "SubspaceMixture, inferred"
PEERS = "IterativeImputer", "DPMixture"
METHODS = {
    OURS[0]: partial(by_subspaces, 1),
    OURS[1]: partial(by_subspaces, 3),
    OURS[2]: partial(by_subspaces, None, max_iter=100),
    "DPMixture": by_covariances,
    "IterativeImputer": by_regressions,
    "means": lambda X, seed: SimpleImputer().fit_transform(X),
    LITTLE_NOISE: partial(by_subspaces, 1, noise_prior=(1.0, 1e-12)),
}


def is_wanted(table, method, seed):
    """Whether a run belongs to the page."""
    if (method == LITTLE_NOISE and table != EXACT) or (method == "DPMixture" and table.startswith("gene")):
        return False
    return table in SMALL or seed == 0


def measure(method, tables, share, seed, limit):
    """The error, or None if the fits take more than `limit` processor seconds, and processor seconds."""
    errors, start = [], time.process_time()
    with time_limit(limit):
        for X in tables:
            X = X[:, X.std(axis=0) > 0.0]
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            holes = np.random.default_rng(seed).random(X.shape) < share
            filled = METHODS[method](np.where(holes, np.nan, X), seed)
            errors.append(np.sqrt(np.mean(np.square(filled - X)[holes])))
    error = round(float(np.mean(errors)), 6) if len(errors) == len(tables) else None
    return {"error": error, "seconds": round(time.process_time() - start, 2)}


def measure_missing(options):
    """Measure the wanted runs that the file does not have yet."""
    names = "seed", "table", "share", "method"
    done = {tuple(run[name] for name in names) for run in _stored.read(STORED)[1]}
    tables = {name: TABLES[name]() for name in options.tables}
    compiled = set()
    for seed, table, share, method in product(options.seeds, options.tables, options.shares, options.methods):
        of_run = seed, table, share, method
        if of_run in done or not is_wanted(table, method, seed):
            continue
        if method not in compiled:
            measure(method, [np.random.default_rng(0).normal(size=(40, 4))], share, seed, options.limit)
            compiled.add(method)
        run = dict(zip(names, of_run, strict=True)) | measure(method, tables[table], share, seed, options.limit)
        print(run, flush=True)
        _stored.append(STORED, run | {"limit": options.limit})


def cell(runs):
    """Median and range of the errors."""
    errors = [run["error"] for run in runs]
    if not errors:
        return "-"
    if None in errors:
        return f"not finished in {runs[0]['limit']:g} s"
    digits = 3 if min(errors) > 0.05 else 5
    return spread(errors, digits) if len(errors) > 1 else f"{errors[0]:.{digits}f}"


def is_smaller(own, one, other):
    """Whether the mean error is smaller, over the sets of removed cells that both methods have."""
    pairs = [
        (of_one["error"] or np.inf, of_other["error"] or np.inf)
        for of_one, of_other in product(own[one], own[other])
        if of_one["seed"] == of_other["seed"]
    ]
    return bool(np.less(*np.mean(pairs, axis=0)))


def show_tables(runs):
    """The tables, and how often each mixture of subspaces is better than other methods."""
    found = {}
    for run in runs:
        found.setdefault((run["table"], run["share"]), {}).setdefault(run["method"], []).append(run)
    found = {key: found[key] for key in product(TABLES, sorted({run["share"] for run in runs})) if key in found}
    methods = [name for name in METHODS if name != LITTLE_NOISE]
    begin_table(("table", "removed", *methods, "seconds of each"))
    for (table, share), own in found.items():
        seconds = [
            f"{np.median([run['seconds'] for run in own[name]]):.1f}" if name in own else "-" for name in methods
        ]
        row((table, f"{share:.0%}", *(cell(own.get(name, ())) for name in methods), " / ".join(seconds)))
    show()
    for ours in OURS:
        counts = []
        for peer in PEERS:
            smaller = [is_smaller(own, ours, peer) for own in found.values() if ours in own and peer in own]
            counts.append(f"{peer} in {sum(smaller)} of {len(smaller)} rows")
        show(f"- {ours}: a smaller mean error than {' and '.join(counts)}.")
    title("Motion sequences, with a prior that allows less noise")
    columns = OURS[0], LITTLE_NOISE, *PEERS
    begin_table(("removed", *columns))
    for (table, share), own in found.items():
        if table == EXACT:
            row((f"{share:.0%}", *(cell(own.get(name, ())) for name in columns)))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.3, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--limit", type=float, default=300.0, help="processor seconds, after which a fit is stopped")
    parser.add_argument("--measure", action="store_true", help="measure what the file does not have yet")
    add_write(parser)
    options = parser.parse_args()
    if options.measure:
        with threadpool_limits(1):
            measure_missing(options)
    source, runs = _stored.read(STORED, "All methods")
    show_tables(runs)
    finish(options, notes=f"Medians (ranges) of three sets of removed cells, or one set; one core. {source}")
