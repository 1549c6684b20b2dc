"""Small tables with known classes: one subspace per class compared with other classifiers, and clusters with classes.

Wisconsin breast cancer, Statlog heart, vehicle silhouettes; columns are standardised by the training rows; random
splits with a tenth held out. "PPCA per class" is a normal distribution whose smallest variances are equal, fitted by
maximum likelihood, with the dimension by the Bayesian information criterion. Differences are paired by split; because
splits share most of their rows, the standard error is that of Nadeau and Bengio (2003), which is larger than for
independent splits. Then, with all rows, the posterior of the dimension of each class is compared with Kaiser's rule
(eigenvalues above 1), and clusters with the classes. One core.

    python -m benchmarks.subspaces_uci --splits 50
"""

from __future__ import annotations

import argparse
import csv
import time

import numpy as np
from scipy.linalg import eigvalsh
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._partitions import agreement
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import SubspaceClassifier, SubspaceMixture

FILES = {"heart": "heart_statlog.csv.gz", "vehicle": "vehicle_silhouettes.csv.gz"}
TEST_SIZE = 0.1


class PPCAPerClass(ClassifierMixin, BaseEstimator):
    """Bayes' rule with probabilistic PCA for each class, with the dimension of the smallest BIC."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_prior_ = np.log(counts / counts.sum())
        self.models_ = [self._fit_class(X[y == label]) for label in self.classes_]
        return self

    @staticmethod
    def _fit_class(X):
        n, m = X.shape
        tried = []
        for d in range(min(m, n - 1)):
            model = PCA(d, svd_solver="full").fit(X)
            n_parameters = m + 1 + d + d * m - d * (d + 1) / 2
            tried.append((np.log(n) * n_parameters - 2 * n * model.score(X), d, model))
        return min(tried)[2]

    def predict_log_proba(self, X):
        logs = [log + model.score_samples(X) for log, model in zip(self.log_prior_, self.models_, strict=True)]
        return log_softmax(np.transpose(logs), axis=1)

    def predict(self, X):
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]


def load(name):
    """Columns and classes of a table."""
    if name == "breast":
        return load_breast_cancer(return_X_y=True)
    cells = np.genfromtxt(data_folder() / FILES[name], delimiter=",", dtype=str, skip_header=1)
    return cells[:, :-1].astype(float), np.unique(cells[:, -1], return_inverse=True)[1]


def classifiers(m):
    """Methods by name; those of skmanifold first."""
    half = (m - 1) // 2
    return {
        "SubspaceClassifier": SubspaceClassifier(random_state=0),
        "SubspaceClassifier, d < m/2": SubspaceClassifier(SubspaceMixture(1, max_dimension=half), random_state=0),
        "PPCA per class": PPCAPerClass(),
        "LDA": LinearDiscriminantAnalysis(),
        "QDA, reg. 0.01": QuadraticDiscriminantAnalysis(reg_param=0.01),
        "logistic regression": LogisticRegression(max_iter=1000),
    }


def classify(name, X, y, n_splits, save):
    splits = StratifiedShuffleSplit(n_splits, test_size=TEST_SIZE, random_state=0)
    ours = None
    title(f"{name}: accuracy, {n_splits} splits")
    own = "`SubspaceClassifier` minus this, mean ± standard error"
    begin_table(("method", "first ten splits", "all splits (range)", own, "seconds per split"))
    for method, classifier in classifiers(X.shape[1]).items():
        start = time.perf_counter()
        scores = cross_val_score(make_pipeline(StandardScaler(), classifier), X, y, cv=splits)
        seconds = (time.perf_counter() - start) / n_splits
        cells = f"{scores[:10].mean():.3f}", f"{scores.mean():.3f} ({scores.min():.3f} to {scores.max():.3f})"
        difference = ""
        if ours is None:
            ours = scores
        else:
            less = ours - scores
            error = less.std(ddof=1) * np.sqrt(1 / n_splits + TEST_SIZE / (1 - TEST_SIZE))
            difference = f"{less.mean():+.3f} ± {error:.3f}"
        row((method, *cells, difference, f"{seconds:.2f}"))
        save(name, method, scores)


def show_dimensions(name, X, y):
    X = StandardScaler().fit_transform(X)
    title(f"{name}: dimensions of the classes")
    begin_table(("method", "dimension: probability, by class"))
    for method, classifier in classifiers(X.shape[1]).items():
        if not isinstance(classifier, SubspaceClassifier):
            continue
        fitted = classifier.set_params(shrinkage=None).fit(X, y)
        of_classes = []
        for mixture in fitted.mixtures_:
            posterior = mixture.dimension_posterior_[0]
            of_classes.append(", ".join(f"{d}: {posterior[d]:.2f}" for d in np.flatnonzero(posterior >= 0.01)))
        row((method, "; ".join(of_classes)))
    by_bic = [model.n_components_ for model in PPCAPerClass().fit(X, y).models_]
    kaiser = [int((eigvalsh(np.cov(X[y == label].T)) > 1).sum()) for label in np.unique(y)]
    row(("BIC", "; ".join(map(str, by_bic))))
    row(("Kaiser's rule", "; ".join(map(str, kaiser))))


def cluster(name, X, y, seeds):
    X, n_classes = StandardScaler().fit_transform(X), len(np.unique(y))
    half = (X.shape[1] - 1) // 2
    title(f"{name}: share of rows in the right cluster, {len(seeds)} seeds")
    begin_table(("method", "median (range)"))
    for method, make in {
        "SubspaceMixture": lambda seed: SubspaceMixture(n_classes, random_state=seed),
        "SubspaceMixture, d < m/2": lambda seed: SubspaceMixture(n_classes, max_dimension=half, random_state=seed),
        "k-means": lambda seed: KMeans(n_classes, n_init=10, random_state=seed),
        "Gaussian mixture": lambda seed: GaussianMixture(n_classes, n_init=5, random_state=seed),
    }.items():
        found = [agreement(make(seed).fit_predict(X), y) for seed in seeds]
        row((method, f"{np.median(found):.3f} ({min(found):.3f} to {max(found):.3f})"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["heart", "vehicle", "breast"])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="seeds of clusters")
    parser.add_argument("--csv", help="file for the accuracy of each split")
    add_write(parser)
    options = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        for name in options.tables:
            X, y = load(name)
            classify(
                name, X, y, options.splits, lambda *run: rows.extend((*run[:2], i, a) for i, a in enumerate(run[2]))
            )
            show_dimensions(name, X, y)
            cluster(name, X, y, options.seeds)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("table", "method", "split", "accuracy"))
            writer.writerows(rows)
    finish(options)
