"""Counts whose variance is larger than that of a Poisson distribution: held-out log density, components and agreement.

Three tables: the 200 most frequent words of 2,225 news texts (`bbc_counts.npz` in SKMANIFOLD_DATA; classes are the
sections); 20,190 years of insured people with the number of visits to physicians, a score of diseases and four binary
columns (RAND health insurance experiment, from statsmodels); and 3,000 simulated rows of four columns in three
clusters. Random 80/20 splits, the same for all methods. "By BIC" is the smallest BIC among 1 to 12 components. All
other settings are the defaults.

    python -m benchmarks.overdispersed_counts --write
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row
from benchmarks.mixed_tables import smeared, spread
from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Columns, Gaussian, NegativeBinomial, Poisson

SIZES = range(1, 13)
N_WORDS = 200


def load_news():
    folder = Path(os.environ["SKMANIFOLD_DATA"])
    X, labels = sp.load_npz(folder / "bbc_counts.npz"), np.load(folder / "bbc_labels.npy")
    words = np.argsort(-np.asarray(X.sum(axis=0)).ravel(), kind="stable")[:N_WORDS]
    return X[:, words].toarray().astype(float), labels, lambda counts: counts


def load_insurance():
    import statsmodels.api as sm

    data, rng = sm.datasets.randhie.load_pandas().data, np.random.default_rng(0)
    diseases = smeared(data["disea"].to_numpy(), 0.1, rng)
    answers = data[["idp", "hlthg", "hlthf", "hlthp"]].to_numpy() > 0
    X = pd.DataFrame({"visits": data["mdvis"].astype(float), "diseases": diseases / diseases.std()})
    X[["idp", "good", "fair", "poor"]] = answers

    def emission(counts):
        others = ("diseases", Gaussian("diag"), ["diseases"]), ("answers", Bernoulli(), ["idp", "good", "fair", "poor"])
        return Columns([("visits", counts, ["visits"]), *others])

    return X, None, emission


def load_simulated():
    rng = np.random.default_rng(0)
    labels, inverses = rng.integers(3, size=3000), np.array([0.5, 1.0, 4.0, 50.0])
    means = np.array([[1.0, 5.0, 2.0, 3.0], [8.0, 1.0, 2.0, 9.0], [3.0, 20.0, 9.0, 3.0]])[labels]
    return rng.poisson(rng.gamma(inverses, means / inverses)).astype(float), labels, lambda counts: counts


TABLES = {"news": load_news, "insurance": load_insurance, "simulated": load_simulated}


def dp(counts, emission, train, test, seed):
    mixture = DPMixture(emission(counts()), random_state=seed).fit(train)
    return mixture.score(test), mixture.predict(test), mixture.n_components_


def by_bic(counts, emission, train, test, seed):
    fits = (ExponentialFamilyMixture(K, emission=emission(counts()), random_state=seed).fit(train) for K in SIZES)
    best = min(fits, key=lambda mixture: mixture.bic(train))
    return best.score(test), best.predict(test), best.n_components


COUNTS = {"Poisson": Poisson, "NegativeBinomial": NegativeBinomial}
METHODS = {"DPMixture": dp, "ExponentialFamilyMixture by BIC": by_bic}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        head = (
            "table",
            "method",
            "counts",
            "nats per row",
            "adjusted Rand index",
            "components",
            "fit and score, seconds",
        )
        begin_table(head)
        for name in options.tables:
            X, labels, emission = TABLES[name]()
            for method, run in METHODS.items():
                for kind, counts in COUNTS.items():
                    fit = partial(run, counts, emission)
                    some = X[:100] if isinstance(X, np.ndarray) else X.iloc[:100]
                    fit(some, some, 0)  # compile the kernels
                    values = []
                    for seed in options.seeds:
                        order = np.random.default_rng(seed).permutation(len(X))
                        parts = np.split(order, [int(0.8 * len(X))])
                        train, test = (X[rows] if isinstance(X, np.ndarray) else X.iloc[rows] for rows in parts)
                        start = time.perf_counter()
                        score, predicted, size = fit(train, test, seed)
                        seconds = time.perf_counter() - start
                        agreement = np.nan if labels is None else adjusted_rand_score(labels[parts[1]], predicted)
                        values.append((score, agreement, size, seconds))
                    scores, agreements, sizes, times = np.transpose(values)
                    cells = spread(scores), spread(agreements), f"{np.median(sizes):.0f}", spread(times, 2)
                    row((name, method, kind, *cells))
    finish(options, "statsmodels", notes="Medians (ranges) of random 80/20 splits, one core.")
