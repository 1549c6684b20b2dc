"""Clustering of motions by trajectories of points, and of persons by images of faces: errors.

Hopkins 155, part A: 80 sequences of tracked points, whose 2F coordinates lie near an affine subspace of at most three
dimensions for each rigid motion. `SubspaceMixture` is fitted to principal components with the true number of motions
and the same settings for all sequences, and with an inferred number. The first persons of Extended Yale B, images of
32 x 32 pixels under light from all sides, near nine-dimensional subspaces: after principal components and, with
`--wide`, in all 1,024 dimensions. `SubspaceMixture` is compared with its initial partition, k-means and Gaussian
mixtures. One core; seconds are processor times.

    python -m benchmarks.subspaces_motion --wide 12 -1 --csv motion.csv
"""

from __future__ import annotations

import argparse
import csv
import time

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._partitions import agreement
from benchmarks._results import add_write, begin_table, finish, row, show, title
from skmanifold import SubspaceMixture
from skmanifold.mixture._subspace.starts import spectral_labels
from skmanifold.random._keys import root_key


class SpectralStart(ClusterMixin, BaseEstimator):
    """The initial partition of a mixture, by spectral clusters and nearest affine subspaces."""

    def __init__(self, n_components, random_state, max_dimension=None):
        self.n_components = n_components
        self.random_state = random_state
        self.max_dimension = max_dimension

    def fit(self, X, y=None):
        key = root_key(self.random_state)
        self.labels_ = spectral_labels(X, self.n_components, key, max_dimension=self.max_dimension)
        return self


def load_motions():
    """Trajectories (points, 2 frames) and motions of each sequence."""
    with np.load(data_folder() / "hopkins155_part_a.npz") as file:
        return {
            name: (np.ascontiguousarray(file[f"{name}__W"].T, float), file[f"{name}__s"].astype(int) - 1)
            for name in file["names"].tolist()
        }


def load_faces(n_persons):
    with np.load(data_folder() / "yaleb_32x32.npz") as file:
        X, y = file["X"] / 255.0, file["y"].astype(int)
    return X[y < n_persons], y[y < n_persons]


def segment(sequences, make):
    """Labels of each sequence; processor time for all."""
    busy = time.process_time()
    labels = [make(1 + y.max()).fit_predict(X) for X, y in sequences.values()]
    return labels, time.process_time() - busy


def compare_motions(options, save):
    sequences = load_motions()
    true = [y for _, y in sequences.values()]
    two = np.array([y.max() == 1 for y in true])
    ours = {"n_init": options.n_init, "init": options.init, "max_dimension": options.max_dimension}

    def mixture(K, seed, max_iter=options.max_iter):
        return make_pipeline(PCA(options.n_pca), SubspaceMixture(K, max_iter=max_iter, random_state=seed, **ours))

    methods = {
        "SubspaceMixture": mixture,
        "its spectral initialisation alone": lambda K, seed: make_pipeline(
            PCA(options.n_pca), SpectralStart(K, seed, options.max_dimension)
        ),
        "k-means": lambda K, seed: KMeans(K, n_init=10, random_state=seed),
        "Gaussian mixture after PCA(5)": lambda K, seed: make_pipeline(
            PCA(5), GaussianMixture(K, n_init=5, random_state=seed)
        ),
    }
    for K in (2, None):  # compiles
        mixture(K, 0).fit_predict(np.random.default_rng(0).standard_normal((60, 12)))
    title("Motions: mean (median) error in %")
    begin_table(("method", "seed", "two motions", "three motions", "all", "seconds of processor time"))
    for name, make in methods.items():
        for seed in options.seeds:
            labels, busy = segment(sequences, lambda K, make=make, seed=seed: make(K, seed))
            errors = np.array([1 - agreement(found, y) for found, y in zip(labels, true, strict=True)])
            parts = errors[two], errors[~two], errors
            shown = [f"{100 * part.mean():.2f} ({100 * np.median(part):.2f})" for part in parts]
            row((name, seed, *shown, f"{busy:.1f}"))
            for sequence, error in zip(sequences, errors, strict=True):
                save(name, seed, sequence, error)
    seed = options.seeds[0]
    title("Motions: number of clusters given and inferred")
    show(
        "Tracked points are clumps within the subspace of their motion, one for each object or part of one. Rows of a "
        "component are normal within its subspace, so that an inferred number counts clumps and exceeds the number of "
        "motions. Clusters that are matched with no motion count as errors. The inferred number is that of "
        f"`SubspaceMixture(None, max_iter={options.inferred_iter})`.\n"
    )
    begin_table(("number", "motions", "clusters (range)", "right in %", "mean error in %", "adjusted Rand", "seconds"))
    for name, make in {
        "given": lambda K: mixture(K, seed),
        "inferred": lambda K: mixture(None, seed, options.inferred_iter),
    }.items():
        labels, busy = segment(sequences, make)
        for motions, chosen in (("two", two), ("three", ~two)):
            of = [(found, y) for found, y, use in zip(labels, true, chosen, strict=True) if use]
            numbers = np.array([len(np.unique(found)) for found, _ in of])
            right = np.mean(numbers == [1 + y.max() for _, y in of])
            error = np.mean([1 - agreement(found, y) for found, y in of])
            rand = np.mean([adjusted_rand_score(y, found) for found, y in of])
            shown = f"{numbers.mean():.1f} ({numbers.min()} to {numbers.max()})", f"{100 * right:.0f}"
            row((name, motions, *shown, f"{100 * error:.1f}", f"{rand:.2f}", f"{busy:.0f} (all)"))


def compare_faces(options, save):
    X, y = load_faces(options.persons)
    title("Faces: error in %, median (range) over seeds")
    begin_table(("principal components", "method", "error", "dimensions", "seconds of processor time"))
    for n_pca in options.face_pca:
        reduced = PCA(n_pca, random_state=0).fit_transform(X)
        for name, make in {
            "SubspaceMixture": lambda K, seed: SubspaceMixture(K, random_state=seed),
            "its spectral initialisation alone": SpectralStart,
            "k-means": lambda K, seed: KMeans(K, n_init=10, random_state=seed),
            "Gaussian mixture": lambda K, seed: GaussianMixture(K, n_init=5, reg_covar=1e-3, random_state=seed),
        }.items():
            fitted = [make(options.persons, seed) for seed in options.seeds]
            busy = time.process_time()
            errors = [1 - agreement(model.fit_predict(reduced), y) for model in fitted]
            busy = (time.process_time() - busy) / len(errors)
            error = f"{100 * np.median(errors):.1f} ({100 * min(errors):.1f} to {100 * max(errors):.1f})"
            dimensions = ""
            if name == "SubspaceMixture":
                found = np.concatenate([model.dimensions_ for model in fitted])
                dimensions = f"{found.min()} to {found.max()}"
            row((n_pca, name, error, dimensions, f"{busy:.1f}"))
            for seed, error in zip(options.seeds, errors, strict=True):
                save(f"faces, {name}", seed, f"PCA({n_pca})", error)


def wide_faces(options):
    """All 1,024 dimensions, without principal components."""
    X, y = load_faces(options.persons)
    title(f"Faces in {X.shape[1]:,} dimensions, {options.wide_iter} passes")
    begin_table(("max_dimension", "error in %", "dimensions", "seconds per pass", "seconds of processor time"))
    for max_dimension in options.wide:
        most = None if max_dimension < 0 else max_dimension
        seconds = []
        for max_iter in (options.wide_iter // 2, options.wide_iter):  # the difference excludes initialisation
            model = SubspaceMixture(
                options.persons, max_dimension=most, max_iter=max_iter, init=options.init, n_init=1, random_state=0
            )
            busy = time.process_time()
            labels = model.fit_predict(X)
            seconds.append(time.process_time() - busy)
        sweep = (seconds[1] - seconds[0]) / (options.wide_iter - options.wide_iter // 2)
        dimensions = f"{min(model.dimensions_)} to {max(model.dimensions_)}"
        row((most, f"{100 * (1 - agreement(labels, y)):.1f}", dimensions, f"{sweep:.3f}", f"{seconds[1]:.1f}"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-pca", type=int, default=10)
    parser.add_argument("--max-dimension", type=int, default=None)
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--inferred-iter", type=int, default=60, help="passes with an inferred number")
    parser.add_argument("--n-init", type=int, default=1)
    parser.add_argument("--init", default="spectral")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--persons", type=int, default=5)
    parser.add_argument("--face-pca", type=int, nargs="*", default=[30, 50])
    parser.add_argument("--wide", type=int, nargs="*", default=[], help="largest dimensions; -1 for none")
    parser.add_argument("--wide-iter", type=int, default=40)
    parser.add_argument("--csv", help="file for all errors")
    add_write(parser)
    options = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        compare_motions(options, lambda *row: rows.append(row))
        compare_faces(options, lambda *row: rows.append(row))
        if options.wide:
            wide_faces(options)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("method", "seed", "data", "error"))
            writer.writerows(rows)
    finish(options)
