"""Categorical tables: held-out log density and agreement with known classes, compared with latent class models.

Five random 80/20 splits of mushroom, soybean, votes and zoo; missing cells stay missing. The latent class model of
StepMix has the number of classes with the smallest BIC; independence is one component, smoothed by the same prior. The
agreement of clusters with classes is the adjusted Rand index of the held-out rows; classes are not used in fits. It is
compared with k-means of scikit-learn on indicators of the categories, with the true number of classes.

    python -m benchmarks.dp_tables
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from functools import partial

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import OneHotEncoder

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row
from skmanifold import DPCategoricalMixture
from skmanifold.samplers import Slice

TABLES = {  # file, column of the class, columns left out
    "mushroom": ("mushroom.csv.gz", -1, ()),
    "soybean": ("soybean_large.csv.gz", -1, ()),
    "votes": ("house_votes84.csv.gz", -1, ()),
    "zoo": ("zoo.csv.gz", -1, (0,)),
}
_PATIENCE = 3  # numbers of classes without a better BIC before the search ends


def load(name):
    """Codes (NaN where missing) and class of each row."""
    file, target, left_out = TABLES[name]
    with gzip.open(data_folder() / file, "rt") as lines:
        cells = np.array([line.rstrip("\n").split(",") for line in lines][1:])
    y = np.unique(cells[:, target], return_inverse=True)[1]
    keep = [j for j in range(cells.shape[1]) if j != target % cells.shape[1] and j not in left_out]
    codes = np.empty((len(cells), len(keep)))
    for column, j in enumerate(keep):
        missing = cells[:, j] == ""
        codes[~missing, column] = np.unique(cells[~missing, j], return_inverse=True)[1]
        codes[missing, column] = np.nan
    return codes, y


def fit_dp(train, n_categories, seed, **settings):
    mixture = DPCategoricalMixture("categorical", min_categories=n_categories, random_state=seed, **settings).fit(train)
    return mixture.score, mixture.predict, mixture.n_components_


def fit_independence(train, n_categories, seed):
    return fit_dp(train, n_categories, seed, sampler=Slice(n_split_merge=0), init=1, concentration=1e-12, max_iter=2)


def fit_latent_classes(train, n_categories, seed):
    from stepmix import StepMix

    best, least, since = None, np.inf, 0
    for k in range(1, 61):
        model = StepMix(k, measurement="categorical_nan", random_state=seed, verbose=0, progress_bar=0).fit(train)
        bic = model.bic(train)
        best, least, since = (model, bic, 0) if bic < least else (best, least, since + 1)
        if since == _PATIENCE:
            break
    return best.score, best.predict, best.n_components


def fit_kmeans(train, n_categories, seed, n_clusters):
    encoder = OneHotEncoder(categories=[np.arange(n, dtype=float) for n in n_categories], handle_unknown="ignore")
    means = KMeans(n_clusters, n_init=10, random_state=seed).fit(encoder.fit_transform(train))
    return None, lambda X: means.predict(encoder.transform(X)), n_clusters


METHODS = {
    "DPCategoricalMixture": fit_dp,
    "DPCategoricalMixture, 4 chains": partial(fit_dp, n_chains=4),
    "StepMix by BIC": fit_latent_classes,
    "independence": fit_independence,
}


def show(values):
    return f"{np.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    add_write(parser)
    options = parser.parse_args()
    warm_up = np.random.default_rng(0).integers(0, 3, (60, 4)).astype(float)
    DPCategoricalMixture("categorical", max_iter=6, random_state=0).fit(warm_up).predict(warm_up)
    scores_of = "held-out log density, nats per row", "adjusted Rand index"
    begin_table(("table", "method", *scores_of, "components", "fit, seconds"))
    for name in options.tables:
        codes, y = load(name)
        n_categories = (np.nanmax(codes, axis=0) + 1).astype(int)
        methods = {**METHODS, "k-means": partial(fit_kmeans, n_clusters=len(np.unique(y)))}
        for method, fit in methods.items():
            scores, agreements, sizes, seconds = [], [], [], []
            for seed in options.seeds:
                order = np.random.default_rng(seed).permutation(len(codes))
                train, test = np.split(order, [int(0.8 * len(codes))])
                start = time.perf_counter()
                score, predict, size = fit(codes[train], n_categories, seed)
                seconds.append(time.perf_counter() - start)
                scores.append(score(codes[test]) if score else np.nan)
                agreements.append(adjusted_rand_score(y[test], predict(codes[test])))
                sizes.append(size)
            cells = show(scores), show(agreements), f"{np.median(sizes):.0f}", show(seconds)
            row((name, method, *cells))
    finish(options, "stepmix", notes="Random 80/20 splits, medians (ranges).")
