"""From components of a mixture to clusters: agreement with planted shapes and with classes of tables.

Several components may describe one cluster that is not Gaussian. Methods that find clusters are compared by the
adjusted Rand index of their labels and the known ones, and by the number of clusters. The first five begin with the
components of one fit of `DPMixture` with default settings, which they share: they merge components, and a row belongs
to the cluster of its component in `component_labels_`.

- components: the components of this fit, none merged.
- merged: the clusters of `DPMixture`, with default settings.
- entropy (Baudry et al., 2010): each step merges the two clusters for which the entropy of the memberships decreases
  most. The number of clusters is at the elbow of the entropies as a function of the number of rows that were merged
  until then: two straight lines, fitted to the points before and after it by least squares, have the smallest error.
  In "entropy, by number" they are a function of the number of clusters. With three components or fewer none are merged.
- ridgeline (Hennig, 2010): each step merges the two clusters with the largest ratio of the density at the lowest point
  of their ridge line between two modes to that at the lower of the two modes (1 if there is one mode), while it is at
  least 0.2. The density is that of the two clusters alone, each of which is a Gaussian: merged clusters have the
  mean and the covariance matrix of their mixture, and their ratios are computed again.
- misclassification (Hennig, 2010): each step merges the two clusters for which the share of the rows of one that would
  be assigned to the other, if there were these two alone, is largest, while it is at least 0.025. It is estimated from
  the memberships, which are added for merged clusters.
- coarsened (Miller and Dunson, 2019): the likelihood of n rows has the power alpha / (alpha + n), which gives them the
  weight of fewer rows. This is approximated by another fit, to a random subset of 120 rows, whose components label all
  rows.
- GaussianMixture by BIC: of scikit-learn, full covariances, the smallest BIC among 1 to 15 components.
- HDBSCAN: of scikit-learn, clusters of at least 15 rows, or of 5% of the rows if these are fewer. Noise has a label of
  its own, which is not counted as a cluster.
- KMeans: of scikit-learn, with the true number of classes and ten initialisations.
- overlapping priors (Malsiner-Walli, Fruehwirth-Schnatter and Gruen, 2017): at most ten clusters, each a mixture of
  five Gaussians whose prior draws their means together (`_mixtures_of_mixtures.py`); 1,000 draws after 1,000 others.
- mclust: of R (mclust 6.0.0), the largest BIC among all forms of the covariances and 1 to 15 components. Tables, which
  are the same for all seeds, have one run.
- mclust, merged: its components, merged by `clustCombi` with the number of clusters at the elbow of the entropies.

All from "GaussianMixture by BIC" on receive standardised columns. All other settings are the defaults, and the
thresholds 0.2 and 0.025 are those of the R package fpc. Each seed has another planted data set. The tables are the same
for all seeds, which are values of `random_state`. The uniform background rows of "noisy" are fitted but not scored.
Classes of tables need not be clusters.

With `--scored` there are tables that were not used in the choice of thresholds: pixels of digits without constant ones
(and 10 principal components of these), heart, images of ten faces as 50 principal components, and tf-idf (sublinear) of
texts as 50 columns of `TruncatedSVD`. Rows of the last two have unit length, and `DPMixture` has the emission
"von_mises_fisher". Except for heart, all methods receive columns that are not standardised, and numbers of components
are up to 1.5 times the number of classes if this is more than 15.

The figures of the last three methods, whose seconds are of the processor, are in `clusters.jsonl`; `--peers` measures
what this file does not have.

    python -m benchmarks.clusters --scored --write
    python -m benchmarks.clusters --scored --peers
    python -m benchmarks.clusters --tables rings iris --methods components ridgeline --seeds 0
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import cache, partial
from itertools import chain, combinations, pairwise, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import xlogy
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks import _stored
from benchmarks._held_out_tables import SCORED, Table, from_file
from benchmarks._mclust import mclust
from benchmarks._mixtures_of_mixtures import overlapping_priors
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import DPMixture

LEAST_RATIO = 0.2
LEAST_MISCLASSIFIED = 0.025
N_ON_RIDGE = 201
N_COARSENED = 120
MOST_COMPONENTS = 15
N_WITHIN = 5  # Gaussians per cluster with overlapping priors
BACKGROUND = -1  # the label of rows that are not scored
STORED = Path(__file__).with_suffix(".jsonl")
SHARED = "DPMixture"
SCORES = {"rand": "Adjusted Rand index", "information": "adjusted mutual information"}
LIMIT = 1800  # seconds of a fit of mclust

# Data: rows and their labels


def gaussians(seed, sizes=(400, 150, 60, 40), n_columns=4, distance=4.0):
    """Gaussians of different sizes and covariances."""
    rng, parts = np.random.default_rng(seed), []
    for size in sizes:
        factor = 0.5 * rng.normal(size=(n_columns, n_columns)) + 0.7 * np.eye(n_columns)
        parts.append(rng.normal(size=(size, n_columns)) @ factor + distance * rng.normal(size=n_columns))
    return joined(parts)


def close_gaussians(seed):
    """Two Gaussians at a distance of 3.2 standard deviations, and one far from them."""
    rng, centres, sizes = np.random.default_rng(seed), ((0.0, 0.0), (3.2, 0.0), (0.0, 8.0)), (300, 300, 150)
    return joined([rng.normal(size=(size, 2)) + centre for centre, size in zip(centres, sizes, strict=True)])


def skewed(seed):
    """Two clusters with log-normal columns, and rows along a parabola."""
    rng = np.random.default_rng(seed)
    right = np.exp(0.8 * rng.normal(size=(400, 2)))
    left = np.array([8.0, 6.0]) - np.exp(0.6 * rng.normal(size=(250, 2)))
    along = rng.uniform(-3.0, 3.0, 300)
    curve = np.column_stack((along, 0.7 * along**2 - 9.0 + 0.5 * rng.normal(size=300)))
    return joined([right, left, curve])


def rings(seed):
    """A ring around a Gaussian, and another Gaussian."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0.0, 2.0 * np.pi, 500)
    ring = 5.0 * np.column_stack((np.cos(angles), np.sin(angles))) + 0.4 * rng.normal(size=(500, 2))
    return joined([ring, 0.8 * rng.normal(size=(200, 2)), np.array([10.0, 0.0]) + rng.normal(size=(150, 2))])


def noisy(seed):
    """Four Gaussians and a uniform background."""
    rng, centres = np.random.default_rng(seed), ((0.0, 0.0), (4.0, 3.0), (-3.0, 4.0), (3.0, -4.0))
    parts = [0.6 * rng.normal(size=(200, 2)) + centre for centre in centres]
    X, labels = joined([*parts, rng.uniform(-8.0, 9.0, (100, 2))])
    return X, np.where(labels == len(centres), BACKGROUND, labels)


def heavy_tails(seed):
    """Three clusters with t-distributions of four degrees of freedom, in ten dimensions."""
    rng, sizes, n_columns = np.random.default_rng(seed), (300, 200, 100), 10
    parts = []
    for size in sizes:
        tails = rng.standard_t(4, size=(size, n_columns))
        factor = np.eye(n_columns) + 0.3 * rng.normal(size=(n_columns, n_columns))
        parts.append(tails @ factor + 3.0 * rng.normal(size=n_columns))
    return joined(parts)


def joined(parts):
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def iris(seed):
    return load_iris(return_X_y=True)


def wine(seed):
    return load_wine(return_X_y=True)


def breast_cancer(seed):
    return load_breast_cancer(return_X_y=True)


PLANTED = {
    "gaussians": gaussians,
    "close gaussians": close_gaussians,
    "skewed": skewed,
    "rings": rings,
    "noisy": noisy,
    "heavy tails": heavy_tails,
}
REAL = {
    "iris": iris,
    "wine": wine,
    "breast cancer": breast_cancer,
    "vehicle": partial(from_file, "vehicle_silhouettes.csv.gz"),
}
TABLES = {**PLANTED, **REAL}
ALL = {name: Table(load) for name, load in TABLES.items()} | SCORED


# Methods: each returns labels of the rows


class Fitted(NamedTuple):
    """Rows, columns for other libraries, the fit that several methods share, the number of classes, and the seed."""

    X: np.ndarray
    columns: np.ndarray
    merged: DPMixture
    mixture: DPMixture  # the same fit with a cluster for each component
    n_classes: int
    seed: int


def components(fitted):
    return fitted.mixture.labels_


def merged(fitted):
    return fitted.merged.labels_


def merges(n_components, value):
    """Groups of components and the largest value of a pair of them, until there is one group.

    The pair with the largest value is merged in each step, and the merged group is the last.
    """
    groups = [(component,) for component in range(n_components)]
    while len(groups) > 1:
        pairs = list(combinations(groups, 2))
        values = [value(*pair) for pair in pairs]
        best = int(np.argmax(values))
        yield groups, values[best]
        groups = [*(group for group in groups if group not in pairs[best]), sum(pairs[best], ())]
    yield groups, -np.inf


def merged_while(mixture, value, least):
    """Labels after the merges of pairs with at least this value."""
    path = merges(mixture.n_components_, value)
    return labels_of(mixture, next(groups for groups, largest in path if largest < least))


def labels_of(mixture, groups):
    cluster_of = np.empty(mixture.n_components_, int)
    for cluster, group in enumerate(groups):
        cluster_of[list(group)] = cluster
    return cluster_of[mixture.labels_]


def memberships_of(fitted):
    """A function that returns the memberships of the rows in a group of components."""
    of_components = fitted.mixture.predict_proba(fitted.X).T.copy()
    return lambda group: of_components[list(group)].sum(axis=0)  # not cached: pairs of 300 components need gigabytes


def by_entropy(axis, fitted):
    memberships = memberships_of(fitted)

    @cache
    def entropy(group):
        return -xlogy(memberships(group), memberships(group)).sum()

    @cache
    def decrease(first, second):
        return entropy(first) + entropy(second) - entropy(first + second)

    path = [groups for groups, _ in merges(fitted.mixture.n_components_, decrease)]
    if len(path) < 4:
        return components(fitted)
    steps = np.arange(len(path))
    if axis == "merged rows":
        n_merged = [0]
        for before, after in pairwise(path):
            assigned = np.argmax([memberships(group) for group in before], axis=0)
            n_merged.append(sum(np.count_nonzero(assigned == k) for k in range(len(before)) if before[k] not in after))
        steps = np.cumsum(n_merged)
    entropies = np.array([sum(map(entropy, groups)) for groups in path])
    return labels_of(fitted.mixture, path[elbow(steps, entropies)])


def elbow(x, y):
    """Index of the point, belonging to both, between two straight lines with the smallest squared error."""
    errors = [error_of_line(x[: i + 1], y[: i + 1]) + error_of_line(x[i:], y[i:]) for i in range(1, len(x) - 1)]
    return 1 + int(np.argmin(errors))


def error_of_line(x, y):
    return ((np.polyval(np.polyfit(x, y, 1), x) - y) ** 2).sum()


def by_misclassification(fitted):
    memberships = memberships_of(fitted)

    @cache
    def share(first, second):
        of_first, of_second = memberships(first), memberships(second)
        is_first = of_first >= of_second
        return max(of_first[~is_first].sum() / of_first.sum(), of_second[is_first].sum() / of_second.sum())

    return merged_while(fitted.mixture, share, LEAST_MISCLASSIFIED)


def by_ridgeline(fitted):
    mixture = fitted.mixture
    if mixture.emission != "gaussian":
        return None

    @cache
    def moments(group):
        k = list(group)
        weights, means = mixture.weights_[k], mixture.components_[k]
        weight = weights.sum()
        mean = weights @ means / weight
        gaps = means - mean
        squares = mixture.covariances_[k] + gaps[:, :, np.newaxis] * gaps[:, np.newaxis]
        return weight, mean, np.tensordot(weights, squares, 1) / weight

    @cache
    def ratio(first, second):
        return ridge_ratio(moments(first), moments(second))

    return merged_while(mixture, ratio, LEAST_RATIO)


def ridge_ratio(first, second):
    """Density at the lowest point of the ridge line of two Gaussians between modes, divided by that of the lower mode.

    Each Gaussian is its weight, mean and covariance. In the coordinates used the covariances are diagonal, and the
    second one is the identity.
    """
    variances, directions = eigh(first[2], second[2])
    from_mean, to_mean = first[1] @ directions, second[1] @ directions
    shares = np.linspace(0.0, 1.0, N_ON_RIDGE)[:, np.newaxis]
    precisions = (1.0 - shares) / variances
    line = (precisions * from_mean + shares * to_mean) / (precisions + shares)
    of_first = np.log(first[0]) - 0.5 * (np.log(variances) + (line - from_mean) ** 2 / variances).sum(axis=1)
    of_second = np.log(second[0]) - 0.5 * ((line - to_mean) ** 2).sum(axis=1)
    density = np.logaddexp(of_first, of_second)
    before, after = np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1]
    return np.exp((density - np.minimum(before, after)).min())


def coarsened(fitted):
    rows = np.random.default_rng(fitted.seed).permutation(len(fitted.X))[:N_COARSENED]
    mixture = DPMixture(fitted.mixture.emission, clusters="components", random_state=fitted.seed)
    return mixture.fit(fitted.X[rows]).predict(fitted.X)


def gaussians_by_bic(fitted):
    X = fitted.columns
    sizes = range(1, most_components(fitted.n_classes) + 1)
    models = (GaussianMixture(K, random_state=fitted.seed).fit(X) for K in sizes)
    return min(models, key=lambda model: model.bic(X)).predict(X)


def most_components(n_classes):
    return max(MOST_COMPONENTS, 3 * n_classes // 2)


def hdbscan(fitted):
    X = fitted.columns
    return HDBSCAN(min_cluster_size=min(15, int(0.05 * len(X))), copy=True).fit_predict(X)


def k_means(fitted):
    return KMeans(fitted.n_classes, n_init=10, random_state=fitted.seed).fit_predict(fitted.columns)


METHODS = {
    "components": components,
    "merged": merged,
    "entropy": partial(by_entropy, "merged rows"),
    "entropy, by number": partial(by_entropy, "number of clusters"),
    "ridgeline": by_ridgeline,
    "misclassification": by_misclassification,
    "coarsened": coarsened,
    "GaussianMixture by BIC": gaussians_by_bic,
    "HDBSCAN": hdbscan,
    "KMeans": k_means,
}
# Functions of columns, the largest number of components and the seed, and the names of what they return
PEERS = {
    partial(overlapping_priors, N_WITHIN): ("overlapping priors",),
    partial(mclust, seconds=LIMIT): ("mclust", "mclust, merged"),
}
NAMES_OF_PEERS = sum(PEERS.values(), ())


def read(table, seed):
    """Rows, columns for other libraries, labels, and the number of classes."""
    X, known = table.load(seed)
    columns = StandardScaler().fit_transform(X) if table.is_scaled else X
    return X, columns, known, len(np.unique(known[known != BACKGROUND]))


def figures(known, labels, seconds):
    """What is shown of a method; None if it did not end or does not suit the emission."""
    if labels is None:
        return dict.fromkeys(("rand", "information", "clusters", "seconds"))
    scored = known != BACKGROUND
    return {
        "rand": round(adjusted_rand_score(known[scored], labels[scored]), 4),
        "information": round(adjusted_mutual_info_score(known[scored], labels[scored]), 4),
        "clusters": len(np.unique(labels[labels >= 0])),
        "seconds": round(seconds, 2),
    }


def measure(name, methods, seeds):
    """Runs of `DPMixture`, of which only the seconds are known, and of the methods."""
    runs = []
    for seed in seeds:
        X, columns, known, n_classes = read(ALL[name], seed)
        start = time.perf_counter()
        mixture = DPMixture(ALL[name].emission, random_state=seed).fit(X)
        runs.append({"data": name, "method": SHARED, "seed": seed, "seconds": time.perf_counter() - start})
        fitted = Fitted(X, columns, mixture, mixture.merge_components("components"), n_classes, seed)
        for method in methods:
            start = time.perf_counter()
            labels = METHODS[method](fitted)
            found = figures(known, labels, time.perf_counter() - start)
            runs.append({"data": name, "method": method, "seed": seed, **found})
    return runs


def measure_peers(names, methods, seeds):
    """Measure what the file does not have yet; mclust has one run on tables, which are the same for all seeds."""
    done = {(run["data"], run["method"], run["seed"]) for run in _stored.read(STORED)[1]}
    for seed, (peer, own), name in product(seeds, PEERS.items(), names):
        is_repeated = "mclust" in own and name not in PLANTED and seed != seeds[0]
        if is_repeated or not any(method in methods and (name, method, seed) not in done for method in own):
            continue
        _, columns, known, n_classes = read(ALL[name], seed)
        for method, of_method in peer(columns, most_components(n_classes), seed).items():
            run = {"data": name, "method": method, "seed": seed, **figures(known, *of_method)}
            print(run, flush=True)
            _stored.append(STORED, run)


def of_seeds(runs, name, method, key):
    """Values of the runs that have this figure."""
    own = [run for run in runs if (run["data"], run["method"]) == (name, method)]
    return [run[key] for run in own if run.get(key) is not None]


def show_scores(key, groups, methods, runs):
    """Means of the seeds and numbers of clusters of each table, and means of each group of tables."""
    begin_table(("data", *methods))
    means = {}
    for name in chain.from_iterable(groups.values()):
        cells = []
        for method in methods:
            scores, numbers = (of_seeds(runs, name, method, figure) for figure in (key, "clusters"))
            means[name, method] = np.mean(scores) if scores else np.nan
            cells.append(f"{means[name, method]:.2f} ({', '.join(map(str, numbers))})" if scores else "-")
        row((name, *cells))
    for text, names in groups.items():
        of_group = [np.mean([means[name, method] for name in names]) for method in methods]
        row((f"mean of {text}", *("-" if np.isnan(mean) else f"{mean:.3f}" for mean in of_group)))


def show_seconds(names, methods, runs):
    begin_table(("data", SHARED, *methods))
    for name in names:
        seconds = [of_seeds(runs, name, method, "seconds") for method in (SHARED, *methods)]
        row((name, *(f"{np.median(values):.2f}" if values else "-" for values in seconds)))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    every_method = [*METHODS, *NAMES_OF_PEERS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=ALL)
    parser.add_argument("--scored", action="store_true", help="also the tables that no threshold was chosen with")
    parser.add_argument("--methods", nargs="+", default=every_method, choices=every_method)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--peers", action="store_true", help="measure what the file of stored figures lacks, and end")
    add_write(parser)
    options = parser.parse_args()
    names = list(dict.fromkeys([*options.tables, *(SCORED if options.scored else ())]))
    with threadpool_limits(1):
        if options.peers:
            measure_peers(names, options.methods, options.seeds)
            parser.exit()
        ours = [method for method in options.methods if method in METHODS]
        measure("iris", ours, [0])  # compile the kernels
        source, stored = _stored.read(STORED, "The last three methods")
        runs = [run for run in stored if run["seed"] in options.seeds]
        for name in names:
            runs += measure(name, ours, options.seeds)
    groups = {"planted shapes": PLANTED, "tables": REAL, "held-out tables": SCORED}
    groups = {text: chosen for text, group in groups.items() if (chosen := [name for name in group if name in names])}
    scored = {text: groups.pop(text) for text in ("held-out tables",) if text in groups}
    for of_title, of_groups in {"": groups, "Held-out tables: ": scored}.items():
        for key, text in SCORES.items():
            if of_groups and (key == "rand" or of_groups is scored):
                title(f"{of_title}{text}, mean of the seeds (numbers of clusters)")
                show_scores(key, of_groups, options.methods, runs)
    title("Seconds, median of the seeds: the shared fit, and what a method takes beyond it")
    show_seconds(names, options.methods, runs)
    finish(options, notes=f"{len(options.seeds)} seeds each; one core. {source}")
