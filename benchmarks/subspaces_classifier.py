"""Held-out log loss of `SubspaceClassifier` on eight tables, compared with other probabilistic classifiers.

Random splits with a held-out fifth of the rows. Columns are standardised by the training rows, except pixels and
indicators, which have the same unit. Mushrooms are 2,000 random rows. "Bayes' rule alone" is `SubspaceClassifier`
without whitening and with temperature 1. "PPCA per class" is that of `subspaces_uci`. Probabilities are clipped at
1e-15. Differences are paired by split, with the standard error of Nadeau and Bengio (2003). "Level" means that the mean
difference from the best other method is at most 0.01 nats.

    python -m benchmarks.subspaces_classifier --write
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.imputation import read_frame
from benchmarks.subspaces_uci import PPCAPerClass, load
from skmanifold import SubspaceClassifier

TEST_SIZE, N_MUSHROOMS, LEAST = 0.2, 2000, np.log(1e-15)
LEVEL = 0.01  # nats per row


def zoo():
    columns, classes = read_frame("zoo.csv.gz")
    X = columns.iloc[:, 1:].replace({"true": "1", "false": "0"}).to_numpy(float)  # the first has names
    return X, np.unique(classes, return_inverse=True)[1]


def mushrooms():
    columns, classes = read_frame("mushroom.csv.gz")
    chosen = np.random.default_rng(0).permutation(len(columns))[:N_MUSHROOMS]
    indicators = pd.get_dummies(columns, dummy_na=True).to_numpy(float)
    return indicators[chosen], np.unique(classes, return_inverse=True)[1][chosen]


TABLES = {
    "heart": lambda: load("heart"),
    "vehicle": lambda: load("vehicle"),
    "breast cancer": lambda: load("breast"),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "mushrooms": mushrooms,
    "zoo": zoo,
    "iris": lambda: load_iris(return_X_y=True),
}
SAME_UNIT = "digits", "mushrooms"
METHODS = {
    "SubspaceClassifier": lambda seed: SubspaceClassifier(random_state=seed),
    "Bayes' rule alone": lambda seed: SubspaceClassifier(shrinkage=None, temperature=1.0, random_state=seed),
    "PPCA per class": lambda seed: PPCAPerClass(),
    "QDA, reg. 0.01": lambda seed: QuadraticDiscriminantAnalysis(reg_param=0.01),
    "QDA, reg. 0.1": lambda seed: QuadraticDiscriminantAnalysis(reg_param=0.1),
    "LDA": lambda seed: LinearDiscriminantAnalysis(),
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
}
PEERS = slice(2, None)


def measure(method, train, of_train, test, of_test, seed):
    """Log loss, accuracy and processor seconds of the fit; NaN if the method refuses the table."""
    start = time.process_time()
    try:
        fitted = METHODS[method](seed).fit(train, of_train)
    except (ValueError, np.linalg.LinAlgError):
        return np.nan, np.nan, np.nan
    seconds = time.process_time() - start
    logs = np.maximum(fitted.predict_log_proba(test), LEAST)
    return -logs[np.arange(len(test)), of_test].mean(), np.mean(logs.argmax(axis=1) == of_test), seconds


def compare(name, n_splits):
    """Log losses, accuracies and seconds, (3, n_methods, n_splits)."""
    X, y = TABLES[name]()
    found = np.empty((3, len(METHODS), n_splits))
    for i, (train, test) in enumerate(
        StratifiedShuffleSplit(n_splits, test_size=TEST_SIZE, random_state=0).split(X, y)
    ):
        rows = X[train], X[test]
        if name not in SAME_UNIT:
            scaler = StandardScaler().fit(X[train])
            rows = tuple(map(scaler.transform, rows))
        for j, method in enumerate(METHODS):
            if i == 0:
                measure(method, rows[0], y[train], rows[1], y[test], i)  # load the machine code
            found[:, j, i] = measure(method, rows[0], y[train], rows[1], y[test], i)
    return found


def show_means(heading, by_table, digits):
    title(heading)
    begin_table(("table", *METHODS))
    for name, values in by_table.items():
        row((name, *("-" if np.isnan(mean) else f"{mean:.{digits}f}" for mean in values.mean(axis=1))))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--splits", type=int, default=10)
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        found = {name: compare(name, options.splits) for name in options.tables}
    show_means("Held-out log loss", {name: of[0] for name, of in found.items()}, 3)
    title("`SubspaceClassifier` minus the best other method, by mean log loss")
    begin_table(("table", "best other method", "difference ± standard error", "result"))
    n_level = 0
    for name, (losses, *_) in found.items():
        means = losses.mean(axis=1)[PEERS]
        best = int(np.nanargmin(means))
        less = losses[0] - losses[PEERS][best]
        error = less.std(ddof=1) * np.sqrt(1 / len(less) + TEST_SIZE / (1 - TEST_SIZE))
        verdict = "better" if less.mean() < -LEVEL else "level" if less.mean() <= LEVEL else "worse"
        n_level += verdict != "worse"
        row((name, list(METHODS)[PEERS][best], f"{less.mean():+.3f} ± {error:.3f}", verdict))
    count = f"{n_level} of {len(found)} tables"
    show(f"\nThe log loss is at most {LEVEL} nats larger than that of the best other method for {count}.")
    show_means("Accuracy", {name: of[1] for name, of in found.items()}, 3)
    title("Fit")
    begin_table(("table", "`SubspaceClassifier`, milliseconds", "Bayes' rule alone", "LDA", "ratio to LDA"))
    for name, (*_, seconds) in found.items():
        ours, alone, lda = (
            1e3 * np.median(seconds[list(METHODS).index(each)])
            for each in ("SubspaceClassifier", "Bayes' rule alone", "LDA")
        )
        row((name, f"{ours:.0f}", f"{alone:.0f}", f"{lda:.1f}", f"{ours / lda:.0f}"))
    notes = (
        f"{options.splits} random splits for each table; means over splits, and medians of processor time; one core."
    )
    finish(options, notes=notes)
