"""Rounded numbers in a Dirichlet process mixture: number of clusters and density, compared with those of exact numbers.

Rows are from two groups of normal distributions, at a distance of five standard deviations. Each column is rounded to
multiples of a width in units of the standard deviation of a group. Each data set is fitted with default settings; the
table has medians over data sets of the number of clusters, and of the mean log density of new exact rows minus that of
the fit to exact numbers. Without `--before` the column of an earlier version is left out.

    python -m benchmarks.rounded_numbers --save before.json --most-rows 600
    python -m benchmarks.rounded_numbers --before before.json --write
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

from benchmarks._results import add_write, begin_table, finish, row
from skmanifold import DPMixture

WIDTHS = (0.05, 0.1, 0.25, 0.5)
N_ROWS = (150, 600, 5000)
N_COLUMNS = (1, 2, 6)


def two_groups(rng, n_rows, n_columns):
    """Rows and new rows of the same distribution."""
    sides = rng.choice([-1.0, 1.0], n_rows + 4000)[:, np.newaxis]
    X = 2.5 * sides / np.sqrt(n_columns) + rng.normal(size=(len(sides), n_columns)) * np.where(sides > 0, 1.0, 1.4)
    return X[:n_rows], X[n_rows:]


def fit(X, new, seed):
    """Number of clusters and mean log density of new rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture = DPMixture(random_state=seed).fit(X)
    return len(mixture.component_clusters_), mixture.score(new)


def measure(n_rows, n_columns, n_sets):
    """Numbers of clusters, (n_sets, 1 + n_widths), first of exact numbers, and densities of new rows."""
    found = []
    for seed in range(n_sets):
        X, new = two_groups(np.random.default_rng([seed, n_rows, n_columns]), n_rows, n_columns)
        found.append([fit(X, new, seed), *(fit(np.round(X / h) * h, new, seed) for h in WIDTHS)])
    clusters, scores = np.moveaxis(np.array(found), 2, 0)
    return clusters.tolist(), (scores - scores[:, :1]).tolist()


def cell(results, width):
    """Medians for one width, the first of which is 0 for exact numbers, as text."""
    clusters, losses = (np.median(array, axis=0)[width] for array in results)
    return f"{clusters:g}" if width == 0 else f"{clusters:g}; {losses:+.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10, help="number of data sets of each size")
    parser.add_argument("--most-rows", type=int, default=N_ROWS[-1], help="leave out larger tables")
    parser.add_argument("--save", type=Path, help="write the measurements to this file")
    parser.add_argument("--before", type=Path, help="measurements of an earlier version")
    add_write(parser)
    options = parser.parse_args()
    before = json.loads(options.before.read_text()) if options.before else {}
    begin_table(["rows", "columns", "exact", *(f"rounded to {h}" for h in WIDTHS)])
    found = {}
    for n_rows in [n for n in N_ROWS if n <= options.most_rows]:
        for n_columns in N_COLUMNS:
            name = f"{n_rows}, {n_columns}"
            found[name] = measure(n_rows, n_columns, options.sets)
            row([n_rows, n_columns, *(cell(found[name], h) for h in range(1 + len(WIDTHS)))])
            if name in before:
                row(["", "earlier version", *(cell(before[name], h) for h in range(1 + len(WIDTHS)))])
    if options.save:
        options.save.write_text(json.dumps(found))
    finish(options, notes=f"Medians of {options.sets} data sets.")


if __name__ == "__main__":
    main()
