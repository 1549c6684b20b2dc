"""Clusters of vectors of texts: agreement with labels, held-out density and number of clusters.

Vectors are rows of `TruncatedSVD` of tf-idf (sublinear), both fitted on the training rows, scaled to unit length, in
float32. Rows of zeros are left out. 20 Newsgroups has a given split; its seeds are those of the methods. BBC news and
NSF abstracts are split at random into 2/3 training rows and 1/3 held-out rows, and the seed is also that of the split.
Each method receives the number of labels, except HDBSCAN and `DPMixture`. Labels are not used in fits, with one
exception: HDBSCAN is fitted with three values of `min_cluster_size`, and the one whose clusters agree best with the
labels is reported. All other settings are the defaults, except the ones named in the tables.

Then Dirichlet process mixtures infer the number of clusters, of the same rows and of rows drawn from a mixture fitted
to them.

    python -m benchmarks.direction_quality --write
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from benchmarks._corpora import SPLIT, read_labelled
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import DPMixture, ExponentialFamilyMixture, VonMisesFisherMixture
from skmanifold.emissions import VonMisesFisher

CORPORA = "BBC", "NSF", "20 Newsgroups"
LEAST_CLUSTERS = (5, 15, 50)  # values of `min_cluster_size`
GIVEN = 0.25  # the given concentration of a Dirichlet process mixture, relative to the number of columns
VMF = "von_mises_fisher"


# Data


def read_vectors(corpus, n_columns, seed):
    """Unit vectors of the training rows and the held-out rows, and their labels."""
    train, test, *labels = read_labelled(corpus, seed)
    tfidf = TfidfTransformer(sublinear_tf=True).fit(train)
    svd = TruncatedSVD(n_columns, random_state=0).fit(tfidf.transform(train))
    vectors = [svd.transform(tfidf.transform(X)) for X in (train, test)]
    kept = [np.linalg.norm(X, axis=1) > 1e-9 for X in vectors]
    vectors = [normalize(X[keep]).astype(np.float32) for X, keep in zip(vectors, kept, strict=True)]
    return *vectors, *(y[keep] for y, keep in zip(labels, kept, strict=True))


class Vectors:
    """Vectors for each seed; those of 20 Newsgroups are the same for all seeds."""

    def __init__(self, corpus, n_columns, seeds):
        self.corpus, self.n_columns = corpus, n_columns
        self.is_one_split = corpus in SPLIT
        of_split = seeds[:1] if self.is_one_split else seeds
        self._splits = {seed: read_vectors(corpus, n_columns, seed) for seed in of_split}
        self.first = self._splits[seeds[0]]

    def of(self, seed):
        return self._splits.get(seed, self.first)

    @property
    def n_labels(self):
        return len(np.unique(self.first[2]))

    @property
    def n_rows(self):
        return len(self.first[0])


# Methods

OURS = {
    "VonMisesFisherMixture": VonMisesFisherMixture,
    "VonMisesFisherMixture, shared": partial(VonMisesFisherMixture, concentration="shared"),
    "ExponentialFamilyMixture": partial(ExponentialFamilyMixture, emission=VMF),
    "ExponentialFamilyMixture, gibbs": partial(ExponentialFamilyMixture, emission=VMF, sampler="gibbs"),
}
PEERS = {
    "KMeans": partial(KMeans, n_init=10),
    "MiniBatchKMeans": partial(MiniBatchKMeans, n_init=10),
    "GaussianMixture, diag": partial(GaussianMixture, covariance_type="diag"),
}
FIXED = {**OURS, **PEERS}
ONE = "ExponentialFamilyMixture"  # the mixture that Dirichlet process mixtures are compared with


def timed(model, X):
    start = time.process_time()
    model.fit(X)
    return model, time.process_time() - start


def agreement(labels, clusters):
    return normalized_mutual_info_score(labels, clusters)


def fit_fixed(name, data, seed, K):
    train, test, _, labels = data
    model, seconds = timed(FIXED[name](K, random_state=seed), train)
    found = {"nmi": agreement(labels, model.predict(test)), "seconds": seconds}
    return {**found, "nats": model.score(test)} if name in OURS else found, model


def fit_hdbscan(data):
    """The fit whose clusters agree best with the labels of the fitted rows, where dropped rows are a class."""
    train, _, labels, _ = data
    fits = []
    for size in LEAST_CLUSTERS:
        model, seconds = timed(HDBSCAN(min_cluster_size=size, algorithm="brute", copy=True), train)
        dropped = float(np.mean(model.labels_ < 0))
        found = {"nmi": agreement(labels, model.labels_), "seconds": seconds, "dropped": dropped}
        fits.append({**found, **cluster_numbers(model.labels_[model.labels_ >= 0], len(train)), "size": size})
    return max(fits, key=lambda found: found["nmi"])


def cluster_numbers(clusters, n):
    """The number of clusters, and of those with at least 1% of the n rows."""
    sizes = np.unique(clusters, return_counts=True)[1]
    return {"all": len(sizes), "large": int(np.sum(sizes >= 0.01 * n))}


def fit_dp(emission, train, test, labels, seed):
    model, seconds = timed(DPMixture(emission, clusters="components", random_state=seed), train)
    found = {"nmi": agreement(labels, model.predict(test)), "nats": model.score(test), "seconds": seconds}
    return {**found, **cluster_numbers(model.labels_, len(train))}


def draw_rows(mixture, n_train, n_test, seed):
    """Training rows and test rows drawn from a mixture, and the components of the test rows."""
    X, components = mixture.sample(n_train + n_test)
    order = np.random.default_rng(seed).permutation(len(X))
    X, components = X[order].astype(np.float32), components[order]
    return X[:n_train], X[n_train:], components[n_train:]


def compile_kernels(data, K):
    """Fit small parts of the rows, so that no compilation is timed."""
    train, test, *_ = data
    for name in OURS:
        OURS[name](K, random_state=0).fit(train[:300]).score(test[:50])
    for emission in (VMF, VonMisesFisher(GIVEN * train.shape[1])):
        DPMixture(emission, max_iter=4, random_state=0).fit(train[:300]).score(test[:50])


# Tables


def mean(values, digits):
    """The mean and its standard error over seeds, unless all values are the same."""
    error = f" ± {error_of(values):.{digits}f}" if len(set(values)) > 1 else ""
    return f"{np.mean(values):.{digits}f}{error}"


def error_of(values):
    return np.std(values, ddof=1) / np.sqrt(len(values))


def marked(values, digits):
    """Cells of methods, {name: values}: the best in bold, a dagger if the gap to it is within its standard error."""
    best = max(values, key=lambda name: np.mean(values[name]))
    least = np.mean(values[best]) - error_of(values[best])
    cells = {}
    for name, own in values.items():
        cell = mean(own, digits)
        cells[name] = f"**{cell}**" if name == best else f"{cell} †" if np.mean(own) >= least else cell
    return cells


def of(fits, key):
    return [found[key] for found in fits]


def cell_of(fits, key, digits):
    return mean(of(fits, key), digits) if key in fits[0] else ""


def show_fixed(found, sets):
    names = [*FIXED, "HDBSCAN"]
    title("Normalised mutual information with the labels of held-out rows (HDBSCAN: of fitted rows)")
    begin_table(("texts", "columns", "labels", *(f"`{name}`" for name in names)))
    for key, vectors in sets.items():
        cells = marked({name: of(found[key][name], "nmi") for name in names}, 3)
        row((*key, vectors.n_labels, *(cells[name] for name in names)))
    title("Log density of held-out rows relative to the uniform distribution, nats per row")
    begin_table(("texts", "columns", *(f"`{name}`" for name in OURS)))
    for key in sets:
        cells = marked({name: of(found[key][name], "nats") for name in OURS}, 2)
        row((*key, *(cells[name] for name in OURS)))
    title("Fit, seconds")
    begin_table(("texts", "columns", "training rows", *(f"`{name}`" for name in names)))
    for key, vectors in sets.items():
        seconds = (f"{np.median(of(found[key][name], 'seconds')):.2f}" for name in names)
        row((*key, f"{vectors.n_rows:,}", *seconds))


def show_numbers(found, sets):
    title("Number of clusters")
    measures = "normalised mutual information", "nats per held-out row", "fit, seconds"
    begin_table(("texts", "columns", "method", "clusters", "with at least 1% of the rows", "dropped rows", *measures))
    for key in sets:
        fits = found[key]
        names = [ONE, "DPMixture", "DPMixture, given", "HDBSCAN"]
        nmi = marked({name: of(fits[name], "nmi") for name in names}, 3)
        nats = marked({name: of(fits[name], "nats") for name in names[:-1]}, 2)
        sizes = sorted(set(of(fits["HDBSCAN"], "size")))
        shown = {
            ONE: f"`{ONE}`, number of labels",
            "DPMixture": "`DPMixture`",
            "DPMixture, given": f"`DPMixture`, concentration {GIVEN * key[1]:g}",
            "HDBSCAN": f"`HDBSCAN({' or '.join(map(str, sizes))})`, fitted rows",
        }
        for name in names:
            own = fits[name]
            numbers = [cell_of(own, number, 1) for number in ("all", "large")]
            dropped = f"{100 * np.mean(of(own, 'dropped')):.0f}%" if "dropped" in own[0] else ""
            seconds = f"{np.median(of(own, 'seconds')):.2f}"
            row((*key, shown[name], *numbers, dropped, nmi[name], nats.get(name, ""), seconds))
        own = fits["drawn"]
        numbers = [cell_of(own, number, 1) for number in ("all", "large")]
        seconds = f"{np.median(of(own, 'seconds')):.2f}"
        row((*key, "`DPMixture`, rows drawn from the mixture", *numbers, "", cell_of(own, "nmi", 3), "", seconds))


def measure(vectors, seeds):
    """All fits of one set of vectors: {method: [results of each seed]}."""
    found = {name: [] for name in (*FIXED, "HDBSCAN", "DPMixture", "DPMixture, given", "drawn")}
    K = vectors.n_labels
    compile_kernels(vectors.of(seeds[0]), K)
    given = VonMisesFisher(GIVEN * vectors.n_columns)
    for seed in seeds:
        data = train, test, _, labels = vectors.of(seed)
        for name in FIXED:
            fit, model = fit_fixed(name, data, seed, K)
            if name == ONE:
                fit |= cluster_numbers(model.predict(train), len(train))
                drawn = draw_rows(model, len(train), len(test), seed)
            found[name].append(fit)
        is_repeated = vectors.is_one_split and found["HDBSCAN"]
        found["HDBSCAN"].append(found["HDBSCAN"][0] if is_repeated else fit_hdbscan(data))
        found["DPMixture"].append(fit_dp(VMF, train, test, labels, seed))
        found["DPMixture, given"].append(fit_dp(given, train, test, labels, seed))
        found["drawn"].append(fit_dp(VMF, *drawn, seed))
        print(vectors.corpus, vectors.n_columns, seed, flush=True)
        for name, fits in found.items():
            print("   ", name, {key: round(float(value), 3) for key, value in fits[-1].items()}, flush=True)
    return found


NOTES = f"""Means ± standard errors over three seeds; processor times are medians, one core. The best method of each
comparison is in bold. A dagger (†) marks methods that are within one standard error of the best, namely that of the
best. HDBSCAN cannot predict: its clusters are those of the fitted rows, and its dropped rows count as one class. Its
`min_cluster_size`, in brackets, is the best of {", ".join(map(str, LEAST_CLUSTERS))} for the labels. "Shared" is
`concentration="shared"`, and `ExponentialFamilyMixture` has the emission `"von_mises_fisher"`, also with a shared
concentration. The given concentration of `DPMixture` is a quarter of the number of columns; this rule was chosen after
a look at three multiples with one seed. For "rows drawn from the mixture" the labels are the components of the mixture
with the number of labels."""


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # estimators warn when they reach the largest number of iterations
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", default=CORPORA, choices=CORPORA)
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        keys = [(corpus, n_columns) for corpus in options.corpora for n_columns in options.columns]
        sets = {key: Vectors(*key, options.seeds) for key in keys}
        found = {key: measure(vectors, options.seeds) for key, vectors in sets.items()}
        show_fixed(found, sets)
        show_numbers(found, sets)
    finish(options, notes=NOTES.replace("\n", " "))
