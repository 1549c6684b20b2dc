"""Imputation of cells removed at random: mixtures compared with the imputers of scikit-learn.

Cells of all columns are removed with the same probability, with fixed seeds; cells that are missing in the original
table stay missing and are not scored. Every method is fitted to the incomplete table and fills it. Errors of numbers
are root mean squares in units of the standard deviation of the column of the complete table. Categories and binary
columns are scored by the log loss of the probability of the true category, and by the share of wrong categories.

The other imputers receive standardised numbers and one indicator for each category (one for a binary column); the
values that they fill in for the indicators, clipped and normalised, are their probabilities. They are clipped at that
one of five levels which gives the smallest log loss for the removed cells, which is an advantage for these methods.
`SimpleImputer` stands for means, and for frequencies with one added to each count. A regression of an indicator on the
other indicators of its own column is useless, because they are missing in the same rows; "IterativeImputer, other
columns" leaves them out, which needs a private method of scikit-learn. Values of `IterativeImputer` are bounded by the
observed ones: otherwise it diverges with some of the tables. All other settings are the defaults.

    python -m benchmarks.imputation --write
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row, show, title
from skmanifold import DPMixture
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian

CLIPS = 0.001, 0.003, 0.01, 0.03, 0.1
N_MUSHROOMS = 2000

# Tables: data frames whose types are float64, boolean and categories

HEART_CATEGORIES = ("chest", "resting_electrocardiographic_results", "slope", "thal")
HEART_BINARY = ("sex", "fasting_blood_sugar", "exercise_induced_angina")


def read_frame(file):
    """The columns of a file as texts (NaN where missing) without the last, and the last, the class."""
    with gzip.open(data_folder() / file, "rt") as lines:
        table = pd.read_csv(lines, dtype=str)
    return table.iloc[:, :-1], table.iloc[:, -1]


def heart():
    table, _ = read_frame("heart_statlog.csv.gz")
    for name in table:
        if name in HEART_CATEGORIES:
            table[name] = table[name].astype("category")
        elif name in HEART_BINARY:
            table[name] = (table[name] == "1").astype("boolean")
        else:
            table[name] = table[name].astype(float)
    return table


def vehicle():
    return read_frame("vehicle_silhouettes.csv.gz")[0].astype(float)


def wine():
    return load_wine(as_frame=True).data


def votes():
    table, _ = read_frame("house_votes84.csv.gz")
    return table.apply(lambda column: column.map({"y": True, "n": False}).astype("boolean"))


def mushroom():
    table, _ = read_frame("mushroom.csv.gz")
    rows = np.random.default_rng(0).permutation(len(table))[:N_MUSHROOMS]
    return table.iloc[np.sort(rows)].reset_index(drop=True).astype("category")


TABLES = {"heart": heart, "vehicle": vehicle, "wine": wine, "votes": votes, "mushroom": mushroom}


def is_number(column):
    return column.dtype == float


def codes_of(column):
    """Codes of the categories, -1 where missing, and their number."""
    if column.dtype == "boolean":
        return column.astype("Int64").fillna(-1).to_numpy(int), 2
    return column.cat.codes.to_numpy(int), len(column.cat.categories)


def indicators_of(column):
    """One indicator for each category, one for a binary column; NaN where missing."""
    codes, n = codes_of(column)
    indicators = (codes[:, np.newaxis] == np.arange(n)).astype(float)
    indicators[codes < 0] = np.nan
    return indicators[:, 1:] if n == 2 else indicators


def removed(table, share, seed):
    """The table without some cells, and which were removed of those that were there."""
    holes = np.random.default_rng(seed).random(table.shape) < share
    return table.mask(holes), holes & table.notna().to_numpy()


# Methods: for each column the numbers, or the probabilities of the categories


def by_mixture(form, incomplete, seed):
    numeric = [is_number(incomplete[name]) for name in incomplete]
    emission = Columns() if form is None else Columns(blocks_with(Gaussian(form), incomplete))
    mixture = DPMixture(emission, random_state=seed).fit(incomplete)
    filled = mixture.impute(incomplete) if any(numeric) else None
    found = []
    for j, of_numbers in enumerate(numeric):
        if of_numbers:
            found.append(filled.iloc[:, j].to_numpy(float))
        else:
            found.append(mixture.conditional(incomplete, [j]).predict_proba()[0])
    return found


def blocks_with(gaussian, table):
    """Blocks as `Columns` chooses them, with another emission of numbers."""
    numbers = [name for name in table if is_number(table[name])]
    binary = [name for name in table if table[name].dtype == "boolean"]
    categories = [name for name in table if name not in numbers and name not in binary]
    blocks = [("numbers", gaussian, numbers), ("binary", Bernoulli(), binary)]
    return [block for block in (*blocks, ("categories", Categorical(), categories)) if block[2]]


def by_means(incomplete, seed):
    found = []
    for name in incomplete:
        column = incomplete[name]
        if is_number(column):
            found.append(np.full(len(column), column.mean()))
        else:
            codes, n = codes_of(column)
            counts = np.bincount(codes[codes >= 0], minlength=n) + 1.0
            found.append(np.tile(counts / counts.sum(), (len(column), 1)))
    return found


class OfOtherColumns(IterativeImputer):
    """Regressions on columns of other groups only."""

    def __init__(self, groups=None, **settings):
        super().__init__(**settings)
        self.groups = groups

    def _get_neighbor_feat_idx(self, n_features, feat_idx, abs_corr_mat):
        return np.flatnonzero(self.groups != self.groups[feat_idx])


def by_indicators(make, incomplete, seed):
    """An imputer of scikit-learn for standardised numbers and indicators."""
    parts, groups = [], []
    for name in incomplete:
        column = incomplete[name]
        if is_number(column):
            parts.append(((column - column.mean()) / column.std(ddof=0)).to_numpy()[:, np.newaxis])
        else:
            parts.append(indicators_of(column))
        groups += [len(parts)] * parts[-1].shape[1]
    cells = np.concatenate(parts, axis=1)
    least, most = np.nanmin(cells, axis=0), np.nanmax(cells, axis=0)
    bounds = {"min_value": least, "max_value": np.maximum(most, least + 1e-6)}
    imputer = make(bounds, np.array(groups), seed)
    try:
        filled = imputer.fit_transform(cells)
    except np.linalg.LinAlgError:  # a singular value decomposition may fail for a matrix without full rank
        filled = imputer.fit_transform(cells + 1e-6 * np.random.default_rng(seed).normal(size=cells.shape))
    found = []
    stops = np.cumsum([part.shape[1] for part in parts])[:-1]
    for part, name in zip(np.split(filled, stops, axis=1), incomplete, strict=True):
        column = incomplete[name]
        if is_number(column):
            found.append(part[:, 0] * column.std(ddof=0) + column.mean())
        else:
            found.append(np.column_stack((1.0 - part, part)) if codes_of(column)[1] == 2 else part)
    return found


def iterative(bounds, groups, seed):
    return IterativeImputer(random_state=seed, **bounds)


def of_other_columns(bounds, groups, seed):
    return OfOtherColumns(groups, random_state=seed, **bounds)


FORMS = ("diag",)  # the default has a covariance matrix
OURS = {"DPMixture": partial(by_mixture, None), **{f"DPMixture, {form}": partial(by_mixture, form) for form in FORMS}}
PEERS = {
    "SimpleImputer": by_means,
    "KNNImputer": partial(by_indicators, lambda bounds, groups, seed: KNNImputer()),
    "IterativeImputer": partial(by_indicators, iterative),
    "IterativeImputer, other columns": partial(by_indicators, of_other_columns),
}
MEASURES = ("error of numbers", "log loss of categories", "wrong categories, %")


def scores(table, holes, found, clips):
    """The measures of the removed cells; NaN if there are no such columns."""
    squares, chosen, wrong = [], [], []
    for j, name in enumerate(table):
        column, rows = table[name], holes[:, j]
        if is_number(column):
            errors = (found[j][rows] - column.to_numpy()[rows]) / column.std(ddof=0)
            squares.append(errors**2)
        else:
            codes = codes_of(column)[0][rows]
            wrong.append(found[j][rows].argmax(axis=1) != codes)
            levels = []
            for clip in clips:
                p = np.clip(found[j][rows], clip, None)
                levels.append(-np.log(p[np.arange(len(p)), codes] / p.sum(axis=1)))
            chosen.append(levels)
    rmse = np.sqrt(np.concatenate(squares).mean()) if squares else np.nan
    losses = np.concatenate(chosen, axis=1).mean(axis=1).min() if chosen else np.nan
    return rmse, losses, 100 * np.concatenate(wrong).mean() if wrong else np.nan


def measure(fit, table, share, seeds, clips):
    """Scores (n_seeds, n_measures) and seconds."""
    values, seconds = [], []
    for seed in seeds:
        incomplete, holes = removed(table, share, seed)
        start = time.perf_counter()
        found = fit(incomplete, seed)
        seconds.append(time.perf_counter() - start)
        values.append(scores(table, holes, found, clips))
    return np.array(values), np.median(seconds)


def spread(values, digits):
    if np.isnan(values).any():
        return ""
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


def show_ranks(found, share):
    """The rank of the default mixture among the methods of scikit-learn, for each table and measure."""
    title(f"Means at {share:.0%} removed cells")
    names = list(PEERS)
    begin_table(("table", "measure", next(iter(OURS)), *names, "rank of the mixture"))
    n_cells = n_first = 0
    for table, own in found.items():
        for i, measure_name in enumerate(MEASURES):
            ours = own[next(iter(OURS))][:, i].mean()
            if np.isnan(ours):
                continue
            others = [own[name][:, i].mean() for name in names]
            n_cells, n_first = n_cells + 1, n_first + (ours < min(others))
            digits = 1 if measure_name.endswith("%") else 3
            cells = (f"{value:.{digits}f}" for value in (ours, *others))
            n_better = sum(value <= ours for value in others)
            row((table, measure_name, *cells, 1 + n_better))
    show(f"\nThe mixture with default settings is better than all others in {n_first} of {n_cells} rows.")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.3, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add_write(parser)
    options = parser.parse_args()
    kept = {}
    with threadpool_limits(1):
        title("Errors, means (ranges)")
        begin_table(("removed", "table", "method", *MEASURES, "fit and imputation, seconds"))
        for share in options.shares:
            kept[share] = {}
            for name in options.tables:
                table, own = TABLES[name](), {}
                for method, fit in {**OURS, **PEERS}.items():
                    if method.endswith(FORMS) and not any(is_number(table[column]) for column in table):
                        continue
                    if method in OURS:
                        fit(removed(table, share, 0)[0], 0)  # compile the kernels
                    clips = CLIPS if method in PEERS and method != "SimpleImputer" else (1e-12,)
                    values, seconds = measure(fit, table, share, options.seeds, clips)
                    own[method] = values
                    cells = (spread(values[:, i], 1 if i == 2 else 3) for i in range(len(MEASURES)))
                    row((f"{share:.0%}", name, method, *cells, f"{seconds:.2f}"))
                kept[share][name] = own
    for share, found in kept.items():
        show_ranks(found, share)
    notes = f"Three sets of removed cells each; a random {N_MUSHROOMS:,} rows of mushroom; one core."
    finish(options, "pandas", notes=notes)
