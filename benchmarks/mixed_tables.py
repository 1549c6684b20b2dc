"""Tables with columns of several sorts: held-out log density and agreement with known classes.

Five random 80/20 splits of each table, the same for all methods. Heart has numbers, categories and binary columns; in
"heart, zeros apart" its column with 31 % zeros is a binary column, and a number that is missing for the zeros. The
passengers of the Titanic, which scikit-learn ships with its tests, have counts in addition, and ages are missing; the
planted table has 5 clusters in 5,000 rows and 10 % missing cells. Real numbers are rounded down to their resolution, to
which a uniform variate is added: otherwise narrow components of repeated values could have any density. Numbers are
standardised by the training part. Classes are not used in fits.

All densities are comparable: those of numbers, and probabilities of categories, events and counts. "By BIC" is the
smallest BIC among 1 to 8 components. `ExponentialFamilyMixture` with variances ("diag") is the model of StepMix, with a
prior, but for counts. StepMix has no counts; they are categories there, and those of held-out rows
above the largest of the training part are set to it, which is an advantage. Its probabilities are at least 1e-15.
k-prototypes has no density; it receives the true number of clusters, counts as numbers, and means and the most frequent
categories in missing cells. All other settings are the defaults.

    python -m benchmarks.mixed_tables --write
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn.datasets
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks._planted_tables import PlantedTables
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks.imputation import blocks_with, heart, is_number, read_frame
from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Columns, Gaussian, NegativeBinomial

SIZES = range(1, 9)
HEART_RESOLUTION = {"oldpeak": 0.1}
TITANIC = "tests/data/openml/id_40945/data-v1-dl-16826755.arff.gz"
_UNUSED = ("name", "ticket", "cabin", "boat", "body", "home.dest", "survived")


def smeared(values, resolution, rng):
    """Numbers of this resolution with a uniform variate."""
    return resolution * (np.floor(values / resolution + 1e-6) + rng.random(len(values)))


def load_heart():
    table, target = heart(), read_frame("heart_statlog.csv.gz")[1]
    rng = np.random.default_rng(0)
    for name in table:
        if is_number(table[name]):
            table[name] = smeared(table[name].to_numpy(), HEART_RESOLUTION.get(name, 1.0), rng)
    return table, [], target.to_numpy() == "present"


def load_heart_zeros_apart():
    table, counts, labels = load_heart()
    is_zero = table["oldpeak"] < HEART_RESOLUTION["oldpeak"]
    return table.assign(oldpeak=table["oldpeak"].mask(is_zero), none=is_zero.astype("boolean")), counts, labels


def read_titanic():
    """The passengers without names and places, and who survived."""
    with gzip.open(Path(sklearn.datasets.__file__).parent / TITANIC, "rt") as lines:
        heads = [line.split()[1].strip("'") for line in lines if line.startswith("@attribute")]
    with gzip.open(Path(sklearn.datasets.__file__).parent / TITANIC, "rt") as lines:
        while not next(lines).startswith("@data"):
            pass
        table = pd.read_csv(lines, names=heads, na_values="?", comment="%", escapechar="\\")
    return table.drop(columns=list(_UNUSED)), table["survived"].to_numpy()


def load_titanic():
    (table, target), rng = read_titanic(), np.random.default_rng(0)
    table["age"] = smeared(table["age"].to_numpy(), 1.0, rng)
    table["fare"] = np.log1p(smeared(table["fare"].to_numpy(), 1.0, rng))
    table["pclass"] = table["pclass"].astype(str)
    table = table.astype({"pclass": "category", "embarked": "category"})
    table["sex"] = (table["sex"] == "female").astype("boolean")
    counts = ["sibsp", "parch"]
    return table.astype(dict.fromkeys(counts, float)), counts, target


PLANTED = PlantedTables(5, 4, 4, 2, 2, n_categories=4)


def load_planted():
    X, labels = PLANTED.sample(5000, missing=0.1)
    return PLANTED.frame(X), PLANTED.count_columns, labels


TABLES = {
    "heart": load_heart,
    "heart, zeros apart": load_heart_zeros_apart,
    "titanic": load_titanic,
    "planted": load_planted,
}


def splits(table, counts, labels, seeds):
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(table))
        train, test = np.split(order, [int(0.8 * len(table))])
        parts = [table.iloc[rows].reset_index(drop=True) for rows in (train, test)]
        log_scale = 0.0
        for name in table:
            if is_number(table[name]) and name not in counts:
                mean, scale = parts[0][name].mean(), parts[0][name].std(ddof=0)
                for part in parts:
                    part[name] = (part[name] - mean) / scale
                log_scale = log_scale + np.log(scale) * parts[1][name].notna().mean()
        yield seed, *parts, labels[test], test, log_scale


# Methods: held-out nats per row, labels of the held-out rows, and the number of components


def emission_with(form, train, counts):
    if form is None:
        return Columns(count_columns=counts or None)
    blocks = blocks_with(Gaussian(form), train.drop(columns=counts))
    return Columns([*blocks, ("counts", NegativeBinomial(), counts)] if counts else blocks)


def dp(form, train, test, counts, n_classes, seed):
    mixture = DPMixture(emission_with(form, train, counts), random_state=seed).fit(train)
    return mixture.score(test), mixture.predict(test), len(mixture.component_clusters_)


def by_bic(form, train, test, counts, n_classes, seed):
    emission = emission_with(form, train, counts)
    models = (ExponentialFamilyMixture(K, emission=emission, random_state=seed).fit(train) for K in SIZES)
    best = min(models, key=lambda model: model.bic(train))
    return best.score(test), best.predict(test), best.n_components


def codes_of(table, counts):
    """Numbers, codes, and zeros and ones as float64, NaN where missing; the names of each sort."""
    out, sorts = {}, {"continuous": [], "categorical": [], "binary": []}
    for name in table:
        column = table[name]
        if name in counts:
            out[name], sort = column, "categorical"
        elif is_number(column):
            out[name], sort = column, "continuous"
        elif column.dtype == "boolean":
            out[name], sort = column.astype("Float64").to_numpy(float, na_value=np.nan), "binary"
        else:
            out[name], sort = column.cat.codes.astype(float).where(column.notna().to_numpy()), "categorical"
        sorts[sort].append(name)
    return pd.DataFrame(out), {sort: names for sort, names in sorts.items() if names}


def stepmix(train, test, counts, n_classes, seed):
    from stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    (train, sorts), (test, _) = codes_of(train, counts), codes_of(test, counts)
    test[counts] = test[counts].clip(upper=train[counts].max(), axis=1)
    missing = train.isna().any(axis=None) or test.isna().any(axis=None)
    kinds = {f"{sort}_nan" if missing else sort: names for sort, names in sorts.items()}
    train, descriptor = get_mixed_descriptor(train, **kinds)
    settings = {"measurement": descriptor, "random_state": seed, "verbose": 0, "progress_bar": 0}
    models = (StepMix(K, **settings).fit(train) for K in SIZES)
    best = min(models, key=lambda model: model.bic(train))
    test = test[train.columns]
    return best.score(test), best.predict(test), best.n_components


def k_prototypes(train, test, counts, n_classes, seed):
    from kmodes.kprototypes import KPrototypes

    (train, sorts), (test, _) = codes_of(train, counts), codes_of(test, counts)
    numbers = [*sorts["continuous"], *counts]
    filling = {name: train[name].mean() if name in numbers else train[name].mode()[0] for name in train}
    train, test = train.fillna(filling), test.fillna(filling)
    places = [j for j, name in enumerate(train) if name not in numbers]
    model = KPrototypes(n_classes, random_state=seed).fit(train.to_numpy(), categorical=places)
    return np.nan, model.predict(test.to_numpy(), categorical=places), n_classes


METHODS = {
    "DPMixture": partial(dp, None),
    "DPMixture, diag": partial(dp, "diag"),
    "ExponentialFamilyMixture by BIC": partial(by_bic, None),
    "ExponentialFamilyMixture, diag, by BIC": partial(by_bic, "diag"),
    "StepMix by BIC": stepmix,
    "k-prototypes": k_prototypes,
}


def spread(values, digits=3):
    if np.isnan(values).any():
        return ""
    return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    add_write(parser)
    options = parser.parse_args()
    found = {}
    with threadpool_limits(1):
        begin_table(("table", "method", "nats per row", "adjusted Rand index", "components", "fit and score, seconds"))
        for name in options.tables:
            table, counts, labels = TABLES[name]()
            n_classes = len(np.unique(labels))
            for method in options.methods:
                values = []
                if method.startswith(("DP", "Exp")):
                    METHODS[method](table[:100], table[:50], counts, n_classes, 0)  # compile the kernels
                for seed, train, test, true, _, _ in splits(table, counts, labels, options.seeds):
                    start = time.perf_counter()
                    score, predicted, size = METHODS[method](train, test, counts, n_classes, seed)
                    seconds = time.perf_counter() - start
                    values.append((score, adjusted_rand_score(true, predicted), size, seconds))
                scores, agreements, sizes, times = np.transpose(values)
                found[name, method] = scores, times
                row((name, method, spread(scores), spread(agreements), f"{np.median(sizes):.0f}", spread(times, 2)))
            if name == "planted":
                X, _ = PLANTED.sample(len(table), missing=0.1)
                of_truth = PLANTED.score_samples(X), PLANTED.predict(X)
                values = []
                for _, _, _, true, rows, log_scale in splits(table, counts, labels, options.seeds):
                    agreement = adjusted_rand_score(true, of_truth[1][rows])
                    values.append((of_truth[0][rows].mean() + log_scale, agreement))
                scores, agreements = np.transpose(values)
                row((name, "the true distribution", spread(scores), spread(agreements), len(PLANTED.weights), ""))
    others = [method for method in options.methods if method == "StepMix by BIC"]
    if others:
        title("Compared with StepMix: differences of the scores (mean ± standard error), and ratios of times")
        begin_table(("table", "method", "nats per row", "time of StepMix / own time"))
        for name in options.tables:
            for method in options.methods:
                (scores, times), (of_other, other_times) = found[name, method], found[name, others[0]]
                if method != others[0] and not np.isnan(scores).any():
                    gaps, ratios = scores - of_other, other_times / times
                    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
                    row((name, method, f"{gaps.mean():+.3f} ± {error:.3f}", spread(ratios, 1)))
    finish(options, "stepmix", "kmodes", notes="Medians (ranges) of five random 80/20 splits, one core.")
