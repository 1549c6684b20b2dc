"""Clusters of embeddings of texts, alone and in the pipelines of BERTopic and Turftopic.

Embeddings are rows of `TruncatedSVD` of tf-idf (sublinear), scaled to unit length, in float32. Rows of zeros are left
out. They are clustered as they are, after `PCA` to ten and to five columns, and after `UMAP` to five columns with the
settings of BERTopic. `DPMixture` receives embeddings as directions (`"von_mises_fisher"`), and few columns as numbers
(the default, `"gaussian"`). HDBSCAN is that of scikit-learn, with `min_cluster_size=10`, the default of BERTopic. These
two infer the number of clusters. `KMeans` receives the number of labels, and so does `merge_components` of the same
`DPMixture`. All other settings are the defaults.

Each method runs three times: twice with `random_state=0` and once with `random_state=1`. UMAP has no seed, as in
BERTopic, and t-SNE has none, as in Turftopic. Figures are those of the first run. Labels are used for these figures
only: adjusted mutual information, in which rows without a cluster count as one cluster, and that of the other rows.

If they are installed, BERTopic and Turftopic then receive the embeddings, and texts in which each word is repeated as
often as it is counted, with their default steps, and with `PCA` and `DPMixture` in place of these. In two runs all
topics, and the weights of words in them, are the same bytes or not.

    python -m benchmarks.embeddings --write
    python -m benchmarks.embeddings --corpora NSF --rows 2000 --columns 50
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import FunctionTransformer, normalize
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import DPMixture

CORPORA = {  # counts, labels and words
    "BBC": ("bbc_counts", "bbc_labels", "bbc_vocabulary"),
    "20 Newsgroups": ("ng20_test_counts", "ng20_test_labels", "ng20_vocabulary"),
    "NSF": ("nsf_counts", "nsf_directorate", "nsf_vocabulary"),
    "three newsgroups": ("ng20diff_train_counts", "ng20diff_train_labels", "ng20diff_vocabulary"),
}
SCORED = ["BBC", "20 Newsgroups", "NSF"]  # no setting was chosen by a look at the first two
SEEDS = 0, 0, 1
LEAST_CLUSTER = 10
MORE, FEW = 10, 5  # columns
DIRECTIONS, NUMBERS = "von_mises_fisher", "gaussian"  # emissions of embeddings, and of a few columns
OPTIONAL = "umap-learn", "bertopic", "turftopic"
NONE, TO_MORE, TO_FEW, UMAP_TO_FEW = "embeddings", *(f"{name} columns" for name in ("PCA, 10", "PCA, 5", "UMAP, 5"))


class Texts(NamedTuple):
    """Counts, labels, embeddings, and the words of the columns of the counts."""

    counts: sp.csr_array
    labels: np.ndarray
    embeddings: np.ndarray
    words: np.ndarray

    def documents(self):
        """Texts with each word as often as it is counted."""
        rows = (self.counts[[i]] for i in range(self.counts.shape[0]))
        return [" ".join(np.repeat(self.words[row.indices], row.data)) for row in rows]


def read_texts(corpus, n_columns, n_rows):
    """At most `n_rows` random texts."""
    counts, labels, words = (data_folder() / name for name in CORPORA[corpus])
    counts, labels = sp.csr_array(sp.load_npz(f"{counts}.npz")), np.load(f"{labels}.npy")
    words = np.array((data_folder() / f"{words.name}.txt").read_text(encoding="utf-8").split())
    kept = np.sort(np.random.default_rng(0).permutation(len(labels))[:n_rows])
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(counts[kept].astype(np.float64))
    vectors = TruncatedSVD(n_columns, random_state=0).fit_transform(tfidf)
    has_direction = np.linalg.norm(vectors, axis=1) > 1e-9
    kept = kept[has_direction]
    return Texts(counts[kept], labels[kept], normalize(vectors[has_direction]).astype(np.float32), words)


# Steps: each returns an estimator for a seed


def as_they_are(seed):
    return FunctionTransformer()


def pca(n_columns, seed):
    return PCA(n_columns, random_state=seed)


def umap(seed):
    from umap import UMAP

    return UMAP(n_neighbors=15, n_components=FEW, min_dist=0.0, metric="cosine")


def dp(emission, seed):
    return DPMixture(emission, random_state=seed)


def hdbscan(seed):
    return HDBSCAN(min_cluster_size=LEAST_CLUSTER, copy=True)


def k_means(n_clusters, seed):
    return KMeans(n_clusters, n_init=10, random_state=seed)


def methods_of(n_labels):
    """For each reduction, its step and the methods."""
    others = hdbscan, partial(k_means, n_labels)
    methods = {NONE: (as_they_are, (partial(dp, DIRECTIONS), *others))}
    steps = {TO_MORE: partial(pca, MORE), TO_FEW: partial(pca, FEW)}
    if importlib.util.find_spec("umap"):
        steps[UMAP_TO_FEW] = umap
    return methods | {name: (step, (partial(dp, NUMBERS), *others)) for name, step in steps.items()}


def answers(model, n_labels):
    """Names and labels of a fitted method."""
    name, given = type(model).__name__, f", {n_labels} clusters"
    yield (name + given if name == "KMeans" else name), model.labels_
    if name == "DPMixture":
        yield name + given, model.merge_components(min(n_labels, len(model.component_clusters_))).labels_


def timed(call, *args):
    start = time.perf_counter()
    result = call(*args)
    return result, time.perf_counter() - start


def cluster(texts, n_labels):
    """Labels and seconds of all runs, {(reduction, method): [(labels, seconds), ...]}."""
    found = {}
    for reduction, (reduce, methods) in methods_of(n_labels).items():
        for seed in SEEDS:
            columns, before = timed(reduce(seed).fit_transform, texts.embeddings)
            for method in methods:
                model, seconds = timed(method(seed).fit, columns)
                for name, labels in answers(model, n_labels):
                    found.setdefault((reduction, name), []).append((labels, before + seconds))
    return found


def agreement(first, second):
    return f"{adjusted_mutual_info_score(first, second):.3f}"


def cells_of(labels, known):
    """Number of clusters, share of rows without one, and agreement with known labels, of all rows and of the others."""
    has_cluster = labels >= 0
    n_clusters = len(np.unique(labels[has_cluster]))
    return (
        n_clusters,
        f"{1.0 - has_cluster.mean():.0%}",
        agreement(known, labels),
        agreement(known[has_cluster], labels[has_cluster]),
    )


MEASURES = "clusters", "rows without a cluster", "AMI", "AMI of rows with a cluster"


def show_clusters(corpora, options):
    title("Clusters of embeddings")
    seeds = "same labels with the same seed", "AMI of two seeds"
    begin_table(("texts", "rows", "labels", "columns", "method", *MEASURES, "seconds", *seeds))
    for corpus in corpora:
        texts = read_texts(corpus, options.columns, options.rows)
        n_labels = len(np.unique(texts.labels))
        for (reduction, name), runs in cluster(texts, n_labels).items():
            (first, seconds), (again, _), (other, _) = runs
            cells = *cells_of(first, texts.labels), f"{seconds:.1f}"
            same = "yes" if np.array_equal(first, again) else f"no, AMI {agreement(first, again)}"
            row((corpus, f"{len(first):,}", n_labels, reduction, name, *cells, same, agreement(first, other)))


# Pipelines


def bertopic(documents, embeddings, **steps):
    """The topics of the texts, and what two runs should have in common."""
    from bertopic import BERTopic

    model = BERTopic(**steps)
    topics, _ = model.fit_transform(documents, embeddings)
    return np.array(topics), model.c_tf_idf_.toarray()


class Precomputed:
    """An encoder for texts whose embeddings are known."""

    def encode(self, sentences, **_):
        raise NotImplementedError


def turftopic(documents, embeddings, **steps):
    from turftopic import ClusteringTopicModel

    model = ClusteringTopicModel(Precomputed(), **steps)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its steps
        return model.fit_predict(documents, embeddings=embeddings), model.components_


def ours(of_columns, of_clusters):
    return {
        "its own": {},
        "PCA, DPMixture": {of_columns: pca(FEW, 0), of_clusters: dp(NUMBERS, 0)},
    }


PIPELINES = {
    "bertopic": ("BERTopic", bertopic, ours("umap_model", "hdbscan_model")),
    "turftopic": ("Turftopic", turftopic, ours("dimensionality_reduction", "clustering")),
}


def show_pipelines(corpora, options):
    installed = [name for name in PIPELINES if importlib.util.find_spec(name)]
    if not installed:
        return
    title("Topics of BERTopic and Turftopic")
    begin_table(("texts", "library", "steps", *MEASURES, "seconds", "same bytes in two runs"))
    for corpus in corpora:
        texts = read_texts(corpus, options.columns, options.rows)
        documents = texts.documents()
        for library, topics_of, each in map(PIPELINES.get, installed):
            for name, steps in each.items():
                run = partial(topics_of, documents, texts.embeddings)
                try:
                    (found, seconds), (again, _) = (
                        timed(partial(run, **{key: clone(step) for key, step in steps.items()})) for _ in range(2)
                    )
                except ValueError:  # of Turftopic
                    row((corpus, library, name, "one cluster, which the library refuses", *("-" for _ in range(5))))
                    continue
                is_same = all(map(np.array_equal, found, again))
                cells = *cells_of(found[0], texts.labels), f"{seconds:.1f}", "yes" if is_same else "no"
                row((corpus, library, name, *cells))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", default=SCORED, choices=CORPORA)
    parser.add_argument("--columns", type=int, default=50, help="of the embeddings")
    parser.add_argument("--rows", type=int, default=None, help="the largest number of texts")
    parser.add_argument("--parts", nargs="+", default=["clusters", "pipelines"], choices=("clusters", "pipelines"))
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        # Compile the kernels.
        cluster(Texts(None, None, np.random.default_rng(0).normal(size=(300, 10)).astype(np.float32), None), 3)
        if "clusters" in options.parts:
            show_clusters(options.corpora, options)
        if "pipelines" in options.parts:
            show_pipelines(options.corpora, options)
    finish(options, *OPTIONAL)
