"""Tables whose columns form views: `CrossCat` compared with lace, one mixture of all columns, and regressions.

- noise, wide: wine with 50 further columns and breast cancer with 100, each a random column of the table whose rows are
  permuted independently of the others. Figures are the adjusted Rand index of the classes and the clusters of the
  training rows in the view that has most of the informative columns, the held-out density of the informative block, the
  mean dependence probability of two informative columns and of an informative column and noise, and seconds.
- density: held-out log probability of the cells of eight tables.
- prediction: each column of seven tables given the other columns, with the held-out rows as they are, and with 30% of
  their cells removed at random, the same for all methods. Errors are root mean squares of numbers, in units of the
  standard deviation of the training part, and log losses of categories, whose probabilities are at least 0.001 for all
  methods. Both are means over columns.
- size: seconds of a chain for 100,000 rows of two planted views with 7 and 6 columns (7 of numbers, 4 of categories and
  2 of events, 20% of the cells missing), and the mean adjusted Rand index of the planted clusters of the two views.

Tables, splits and densities are those of `tables_density`; the columns that are noise are missing in held-out rows, so
that the density is that of the informative block. Lace (package `pylace`) has sixteen states and 2,500 updates; its
figures are means over the states. It predicts numbers by the mean of 1,000 draws. Histogram gradient boosting has a
model for each column, fitted to the training part with its missing cells. Iterative imputation is `IterativeImputer` of
scikit-learn with ten rounds of Bayesian ridge regressions of each number or indicator of a category on the other
columns; categories are predicted by logistic regression on the imputed other columns. All other settings are the
defaults. "DPMixture, informative" has the informative columns alone.

The figures of all methods but `CrossCat` are in `tables_crosscat.jsonl`; `--peers` measures what this file lacks.

    python -m benchmarks.tables_crosscat --write
    python -m benchmarks.tables_crosscat --sections noise density --tables wine heart --seeds 0
    python -m benchmarks.tables_crosscat --peers
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import skmanifold
from benchmarks import _stored
from benchmarks._planted_tables import PlantedTables
from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.imputation import OfOtherColumns, indicators_of, is_number, removed
from benchmarks.mixed_tables import spread
from benchmarks.tables_density import TABLES, Lace, coded, mean_over_points, of_numbers, split_rows, splits
from skmanifold import DPMixture

STORED = Path(__file__).with_suffix(".jsonl")
OURS = "CrossCat"
INFORMATIVE = "DPMixture, informative"
LEAST_PROBABILITY = 0.001
SHARE_REMOVED = 0.3
WITHIN = 1.03  # of the best figure
N_ROWS = 100_000

# Methods: fitted to the training part


def view_labels(mixture, columns):
    """Labels of the fitted rows in the view that has most of these columns; one clustering if there are no views."""
    if not hasattr(mixture, "column_dependence"):
        return mixture.labels_
    views = np.asarray(mixture.column_labels_)[np.isin(mixture.feature_names_in_, columns)]
    return np.asarray(mixture.labels_)[:, np.bincount(views).argmax()]


class OfMixture:
    """An estimator of this library."""

    def __init__(self, estimator, train, seed):
        self.mixture = estimator(random_state=seed).fit(train)
        self.score_samples = self.mixture.score_samples

    def labels(self, columns):
        return [view_labels(self.mixture, columns)]

    def dependence(self):
        return self.mixture.column_dependence() if hasattr(self.mixture, "column_dependence") else None

    def predict(self, table, name):
        found = self.mixture.conditional(table, [name])
        if is_number(table[name]):
            return found.mean()[:, 0]
        places = pd.Index(found.categories[0]).get_indexer(table[name].cat.categories)
        return found.predict_proba()[0][:, places]


class OfLace(Lace):
    n_draws = 1000

    def __init__(self, train, seed):
        super().__init__(train, seed, n_updates=2500)
        self.columns = pd.Index(self.engine.columns)
        self.views = np.array([self.engine.column_assignment(state) for state in range(self.engine.n_states)])

    def labels(self, columns):
        of_columns = self.views[:, self.columns.get_indexer(columns)]
        largest = [np.bincount(views).argmax() for views in of_columns]
        return [self.engine.row_assignments(state)[view] for state, view in enumerate(largest)]

    def dependence(self):
        together = (self.views[:, :, np.newaxis] == self.views[:, np.newaxis]).mean(axis=0)
        return pd.DataFrame(together, self.columns, self.columns)

    def predict(self, table, name):
        others, found = self.plain(table.drop(columns=name)), []
        for _, cells in others.iterrows():
            given = cells.dropna().to_dict() or None
            if is_number(table[name]):
                found.append(self.engine.simulate([name], given=given, n=self.n_draws)[name].mean())
            else:
                values = pd.DataFrame({name: list(map(str, table[name].cat.categories))})
                found.append(np.exp(np.asarray(self.engine.logp(values, given=given))))
        return np.array(found)


class Boosting:
    def __init__(self, train, seed):
        self.train, self.seed = train, seed

    def predict(self, table, name):
        train, others = self.train[self.train[name].notna()], table.columns.drop(name)
        of_numbers = is_number(table[name])
        settings = {"random_state": self.seed, "categorical_features": [not is_number(train[each]) for each in others]}
        model = (HistGradientBoostingRegressor if of_numbers else HistGradientBoostingClassifier)(**settings)
        model.fit(coded(train[others]).to_numpy(), coded(train[[name]]).to_numpy()[:, 0])
        cells = coded(table[others]).to_numpy()
        return model.predict(cells) if of_numbers else model.predict_proba(cells)


class Imputing:
    def __init__(self, train, seed):
        self.train, cells = train, self.cells(train)
        self.groups = np.repeat(np.arange(train.shape[1]), [self.cells(train[[name]]).shape[1] for name in train])
        least, most = np.nanmin(cells, axis=0), np.nanmax(cells, axis=0)
        bounds = {"min_value": least, "max_value": np.maximum(most, least + 1e-6)}
        # tol=0: otherwise a training part without missing cells ends the fit, and each later table has one round
        self.imputer = OfOtherColumns(self.groups, tol=0.0, random_state=seed, **bounds).fit(cells)

    @staticmethod
    def cells(table):
        """Numbers and indicators."""
        parts = [
            table[name].to_numpy()[:, np.newaxis] if is_number(table[name]) else indicators_of(table[name])
            for name in table
        ]
        return np.concatenate(parts, axis=1)

    def imputed(self, table, own):
        cells = self.cells(table)
        cells[:, own] = np.nan
        return self.imputer.transform(cells)

    def predict(self, table, name):
        own = self.groups == table.columns.get_loc(name)
        if is_number(table[name]):
            return self.imputed(table, own)[:, own][:, 0]
        train = self.train[self.train[name].notna()]
        model = LogisticRegression(max_iter=1000)
        model.fit(self.imputed(train, own)[:, ~own], train[name].cat.codes)
        return model.predict_proba(self.imputed(table, own)[:, ~own])


MIXTURES = {name: partial(DPMixture, "auto") for name in ("DPMixture", INFORMATIVE)}
if hasattr(skmanifold, OURS):
    MIXTURES[OURS] = getattr(skmanifold, OURS)
MODELS = {name: partial(OfMixture, estimator) for name, estimator in MIXTURES.items()} | {
    "lace": OfLace,
    "gradient boosting": Boosting,
    "iterative imputation": Imputing,
}

# Sections: figures of a method, a table and a seed


def fitted(method, train, seed):
    """The fitted method and the processor seconds of its fit."""
    if method in MIXTURES:
        MODELS[method](train[:100], seed)  # compile the kernels
    start = time.process_time()
    model = MODELS[method](train, seed)
    return model, time.process_time() - start


@cache
def fitted_to_table(method, name, seed):
    """The held-out part, the method fitted to the training part, and the seconds of the fit."""
    ((_, train, held_out),) = splits(TABLES[name](), [seed])
    return held_out, *fitted(method, train, seed)


def with_noise(table, n_columns, seed):
    """The table with permuted columns, and the names of these."""
    rng = np.random.default_rng((seed, n_columns))
    chosen = [table.iloc[:, column].to_numpy() for column in rng.integers(table.shape[1], size=n_columns)]
    noise = {f"noise {j}": rng.permutation(column) for j, column in enumerate(chosen)}
    return table.assign(**noise), list(noise)


def of_noise(load, n_columns, method, name, seed):
    loaded = load()
    table, noise = with_noise(of_numbers(loaded), n_columns, seed)
    informative = list(table.columns.drop(noise))
    ((_, train, held_out),) = splits(table, [seed])
    known = loaded.target[split_rows(len(table), np.random.default_rng(seed))[0]]
    points = [point.assign(**dict.fromkeys(noise, np.nan)) for point in held_out.points]
    if method == INFORMATIVE:
        train, points = train[informative], [point[informative] for point in points]
    model, seconds = fitted(method, train, seed)
    nats = mean_over_points(model.score_samples)(held_out._replace(points=points))
    found = {
        "rand": np.mean([adjusted_rand_score(known, labels) for labels in model.labels(informative)]),
        "nats": nats.mean(),
        "seconds": seconds,
    }
    dependence = model.dependence()
    if dependence is not None:
        of_pairs = dependence.loc[informative, informative].to_numpy()
        found["together"] = of_pairs[np.triu_indices(len(informative), 1)].mean()
        found["with noise"] = dependence.loc[informative, noise].to_numpy().mean()
    return found


def of_density(method, name, seed):
    held_out, model, seconds = fitted_to_table(method, name, seed)
    return {"nats": mean_over_points(model.score_samples)(held_out).mean(), "seconds": seconds}


def of_prediction(method, name, seed):
    (held_out, model, _), found = fitted_to_table(method, name, seed), {}
    for share in (0.0, SHARE_REMOVED):
        incomplete, _ = removed(held_out.table, share, seed)
        figures = {"numbers": [], "categories": []}
        for column in held_out.table:
            known, predicted = held_out.table[column], model.predict(incomplete, column)
            seen = known.notna().to_numpy()
            if is_number(known):
                figures["numbers"].append(np.sqrt(np.mean((predicted - known.to_numpy())[seen] ** 2)))
            else:
                codes = known.cat.codes.to_numpy()[seen]
                p = np.maximum(predicted[seen], LEAST_PROBABILITY)
                figures["categories"].append(-np.log(p[np.arange(len(p)), codes] / p.sum(axis=1)).mean())
        found |= {f"{kind}, {share:.0%}": np.mean(values) for kind, values in figures.items() if values}
    return found


def of_size(method, name, seed):
    tables, known = [], []
    for view, n_numbers in enumerate((4, 3)):
        planted = PlantedTables(10, n_numbers, 2, 1, 0, n_categories=5, separation=3.0, seed=view)
        X, labels = planted.sample(N_ROWS, missing=0.2, seed=(seed, view))
        tables.append(planted.frame(X).add_prefix(f"view {view}, "))
        known.append(labels)
    table = pd.concat(tables, axis=1)
    estimator = partial(MIXTURES[method], n_chains=1, random_state=seed)
    estimator().fit(table[:1000])  # compile the kernels
    start = time.process_time()
    mixture = estimator().fit(table)
    seconds = time.process_time() - start
    rand = [
        adjusted_rand_score(labels, view_labels(mixture, list(own))) for labels, own in zip(known, tables, strict=True)
    ]
    return {"seconds": seconds, "rand": np.mean(rand)}


class Section(NamedTuple):
    measure: object
    data: tuple
    methods: tuple


PREDICTED = "heart", "pbc", "survey", "wine", "airquality", "titanic", "anes96"
OF_NOISE = OURS, "lace", "DPMixture", INFORMATIVE
SECTIONS = {
    "noise": Section(partial(of_noise, load_wine, 50), ("wine",), OF_NOISE),
    "wide": Section(partial(of_noise, load_breast_cancer, 100), ("breast cancer",), OF_NOISE),
    "density": Section(of_density, tuple(TABLES), (OURS, "DPMixture", "lace")),
    "prediction": Section(
        of_prediction, PREDICTED, (OURS, "DPMixture", "lace", "gradient boosting", "iterative imputation")
    ),
    "size": Section(of_size, ("planted",), (OURS, "DPMixture")),
}


def measured(name, data, method, seed):
    found = SECTIONS[name].measure(method, data, seed)
    rounded = {key: round(float(value), 5) for key, value in found.items()}
    return {"section": name, "data": data, "method": method, "seed": seed, **rounded}


def cases(options):
    """The chosen sections, tables, methods and seeds."""
    for name in options.sections:
        for data in SECTIONS[name].data:
            for method in SECTIONS[name].methods:
                if method in options.methods and data in (*options.tables, "planted"):
                    yield from ((name, data, method, seed) for seed in options.seeds)


def key_of(run):
    return run["section"], run["data"], run["method"], run["seed"]


# Tables of results


class Runs:
    """Figures of the runs, by section, table, method and seed."""

    def __init__(self, runs):
        self.runs = runs

    def of(self, section, data, method, key):
        """Values of the seeds that have this figure."""
        own = (run for run in self.runs if key_of(run)[:3] == (section, data, method))
        return [run[key] for run in own if key in run]

    def mean(self, *chosen):
        values = self.of(*chosen)
        return np.mean(values) if values else np.nan

    def spread(self, *chosen, digits=3):
        values = self.of(*chosen)
        return spread(values, digits) if values else "-"


def show_noise(name, tables, runs):
    figures = {
        "rand": "adjusted Rand index",
        "nats": "nats per held-out row",
        "together": "dependence of two informative columns",
        "with noise": "dependence on noise",
        "seconds": "fit, seconds",
    }
    for data in tables:
        title(f"{data.capitalize()} and {SECTIONS[name].measure.args[1]} columns of noise")
        begin_table(("method", *figures.values()))
        for method in SECTIONS[name].methods:
            row((method, *(runs.spread(name, data, method, key, digits=2) for key in figures)))


def show_density(name, tables, runs):
    methods = SECTIONS[name].methods
    for key, text, digits in (("nats", "Nats per held-out row", 3), ("seconds", "Seconds of the fit", 1)):
        title(text)
        begin_table(("table", *methods))
        for data in tables:
            row((data, *(runs.spread(name, data, method, key, digits=digits) for method in methods)))
    if OURS not in MIXTURES:
        return
    means = [[runs.mean(name, data, method, "nats") for method in methods] for data in tables]
    n_best = sum(ours >= np.nanmax(others) for ours, *others in means)
    show(f"\nThe mean of {methods[0]} is the largest in {n_best} of {len(tables)} tables.")


def show_prediction(name, tables, runs):
    methods, kinds = SECTIONS[name].methods, ("numbers", "categories")
    title("Error of numbers / log loss of categories, means of the splits and columns")
    begin_table(("table", "removed", *methods, *(f"best, {kind}" for kind in kinds)))
    near = []
    for data in tables:
        for share in (0.0, SHARE_REMOVED):
            found = np.array(
                [[runs.mean(name, data, method, f"{kind}, {share:.0%}") for kind in kinds] for method in methods]
            )
            cells = (" / ".join("-" if np.isnan(value) else f"{value:.3f}" for value in own) for own in found)
            best = np.nanmin(np.where(np.isnan(found), np.inf, found), axis=0)
            names = [methods[np.nanargmin(own)] if np.isfinite(own).any() else "-" for own in found.T]
            row((data, f"{share:.0%}", *cells, *names))
            # Squared errors of numbers, and log losses, compared with other libraries
            losses = found[[method != "DPMixture" for method in methods]] ** np.array([2, 1])
            near.append(np.where(np.isfinite(best), losses[0] <= WITHIN * np.nanmin(losses, axis=0), np.nan))
    if OURS not in MIXTURES:
        return
    near = np.array(near)
    counts = [
        f"{np.nansum(own):.0f} of {np.isfinite(own).sum()} rows by {kind}"
        for own, kind in zip(near.T, ("squared errors of numbers", "log losses"), strict=True)
    ]
    n_all = (np.nan_to_num(near, nan=1.0) == 1.0).all(axis=1).sum()
    show(
        f"\nWithout DPMixture, {methods[0]} is the best or within {WITHIN - 1:.0%} of the best in {counts[0]}, in "
        f"{counts[1]}, and in {n_all} of {len(near)} rows by all figures of the row."
    )


def show_size(name, tables, runs):
    title(f"{N_ROWS:,} rows and 13 columns")
    begin_table(("method", "seconds per chain", "adjusted Rand index"))
    for method in SECTIONS[name].methods:
        row((method, *(runs.spread(name, "planted", method, key, digits=2) for key in ("seconds", "rand"))))


SHOWN = {
    "noise": show_noise,
    "wide": show_noise,
    "density": show_density,
    "prediction": show_prediction,
    "size": show_size,
}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    every_method = list(dict.fromkeys(method for section in SECTIONS.values() for method in section.methods))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--methods", nargs="+", default=every_method, choices=every_method)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--peers", action="store_true", help="measure what the file of stored figures lacks, and end")
    add_write(parser)
    options = parser.parse_args()
    source, stored = _stored.read(STORED, f"All methods but {OURS}")
    done = set(map(key_of, stored))
    with threadpool_limits(1):
        if options.peers:
            for case in cases(options):
                if case[2] != OURS and case not in done:
                    run = measured(*case)
                    print(run, flush=True)
                    _stored.append(STORED, run, "pylace", "pandas")
            parser.exit()
        ours = [measured(*case) for case in cases(options) if case[2] == OURS and OURS in MIXTURES]
    chosen = set(cases(options))
    runs = Runs([run for run in (*ours, *stored) if key_of(run) in chosen])
    for name in options.sections:
        SHOWN[name](name, [data for data in SECTIONS[name].data if data in (*options.tables, "planted")], runs)
    notes = f"Medians (ranges) of {len(options.seeds)} random 80/20 splits; seconds are of the processor. {source}"
    finish(options, "pandas", notes=notes)
