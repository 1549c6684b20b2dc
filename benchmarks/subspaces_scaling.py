"""What scaling and principal components do before `SubspaceMixture`, and why digits have many dimensions.

The first table has all digits with ten clusters, and simulated normal rows with the means and covariances of the
digits, changed as stated.

The second table has the adjusted Rand index of the clusters and the classes of all rows, for mixtures with the true
number of clusters fitted to three quarters of the rows. Rows are used as they are, with standardised columns, as
principal components of either, or whitened. The score is the mean log density of the other rows in units of X: the log
determinant of the linear map is added. The motion sequences are every fourth of Hopkins 155 (`subspaces_motion`).

    python -m benchmarks.subspaces_scaling --write
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._held_out_tables import from_file
from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.subspaces_motion import load_faces, load_motions
from skmanifold import SubspaceMixture

SETTINGS = {"max_iter": 60, "n_init": 3}  # each way to initialise once
# Tables, each with a list of rows and classes, and numbers of principal components
TABLES = {
    "vehicle": (lambda: [from_file("vehicle_silhouettes.csv.gz", 0)], 6),
    "wine": (lambda: [load_wine(return_X_y=True)], 6),
    "iris": (lambda: [load_iris(return_X_y=True)], 2),
    "breast cancer": (lambda: [load_breast_cancer(return_X_y=True)], 6),
    "motion sequences": (lambda: list(load_motions().values())[::4], 10),
    "faces, 50 components": (lambda: [(PCA(50, random_state=0).fit_transform(X), y) for X, y in [load_faces(5)]], 30),
    "digits": (lambda: [load_digits(return_X_y=True)], 20),
}
WAYS = ("as they are", "standardised", "principal components", "standardised, components", "whitened")
SCORED = WAYS[0], WAYS[1], WAYS[4]  # the map is invertible


def linear_map(way, n_pca, X):
    """The function that transforms rows, and the log determinant per row."""
    scales = X.std(axis=0) if "standardised" in way else np.ones(X.shape[1])
    scales = np.where(scales > 0.0, scales, 1.0)
    if "components" not in way and way != "whitened":
        return (lambda rows: rows / scales), -np.log(scales).sum()
    of_rows = PCA(n_pca if "components" in way else None, svd_solver="full", whiten=way == "whitened")
    of_rows.fit(X / scales)
    variances = of_rows.explained_variance_
    if way == "whitened":  # without directions of no variance
        of_rows = PCA(int(np.sum(variances > 1e-12 * variances[0])), svd_solver="full", whiten=True).fit(X)
    log_det = -0.5 * np.log(of_rows.explained_variance_).sum()
    return (lambda rows: of_rows.transform(rows / scales)), log_det


def measure(X, y, way, n_pca, seed):
    """Adjusted Rand index, held-out score, mean dimension relative to the number of columns."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[: len(X) // 4], order[len(X) // 4 :]
    X = X[:, X[train].std(axis=0) > 0.0]
    transform, log_det = linear_map(way, n_pca, X[train])
    model = SubspaceMixture(len(np.unique(y)), random_state=seed, **SETTINGS).fit(transform(X[train]))
    rows = transform(X)
    share = model.weights_ @ model.dimensions_ / rows.shape[1]
    return adjusted_rand_score(y, model.predict(rows)), model.score(rows[test]) + log_det, share


def compare_scalings(options):
    title("Adjusted Rand index, held-out score in brackets, and mean dimension in % of the columns")
    begin_table(("table", *WAYS, "the better score of the first two"))
    agreements = []
    for name in options.tables:
        load, n_pca = TABLES[name]
        found = np.array(
            [[[measure(X, y, way, n_pca, seed) for way in WAYS] for X, y in load()] for seed in options.seeds]
        ).reshape(-1, len(WAYS), 3)
        agreement, scores, shares = np.moveaxis(found.mean(axis=0), -1, 0)
        chosen = np.take_along_axis(found[:, :2, 0], found[:, :2, 1].argmax(axis=1)[:, None], axis=1).mean()
        of_way = zip(WAYS, agreement, scores, shares, strict=True)
        cells = (f"{a:.2f} {f'({s:.1f}) ' if way in SCORED else ''}{share:.0%}" for way, a, s, share in of_way)
        row((name, *cells, f"{chosen:.2f}"))
        agreements.append((*agreement, chosen))
    if len(agreements) > 1:
        row(("mean", *(f"{value:.2f}" for value in np.mean(agreements, axis=0))))


def simulated(X, y, n_dimensions, noise):
    """Normal rows with the covariances of the classes, whose directions after the first have the noise stated."""
    rng, parts = np.random.default_rng(0), np.empty_like(X)
    spectra = {c: np.linalg.eigh(np.cov(X[y == c].T)) for c in np.unique(y)}
    common = np.mean([values[:-n_dimensions].mean() for values, _ in spectra.values()])
    for c, (values, vectors) in spectra.items():
        along = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, -n_dimensions:]
        rest = np.cov(X[y == c].T) - along @ along.T
        if noise == "one":
            rest = common * np.eye(len(rest))
        elif noise == "per pixel":
            rest = np.diag(np.diag(rest))
        parts[y == c] = rng.multivariate_normal(X[y == c].mean(axis=0), along @ along.T + rest, np.sum(y == c))
    return parts


def explain_digits(options):
    X, y = load_digits(return_X_y=True)
    variances = X.var(axis=0)
    cases = {
        "all pixels": (X, {}),
        "pixels that vary": (X[:, variances > 0.0], {}),
        "pixels with a variance of at least 4": (X[:, variances >= 4.0], {}),
        "the same, `max_dimension=12`": (X[:, variances >= 4.0], {"max_dimension": 12}),
        "`max_dimension=12`": (X, {"max_dimension": 12}),
        "`max_dimension=20`": (X, {"max_dimension": 20}),
        "noise fixed at 2": (X, {"noise_prior": (1e6, 4e6)}),
        "`dimension_prior=20`": (X, {"dimension_prior": 20.0}),
        "`dimension_prior=90` (n / 20)": (X, {"dimension_prior": 90.0}),
        '`noise="per_cluster"`': (X, {"noise": "per_cluster"}),
        "standardised": (StandardScaler().fit_transform(X), {}),
        "20 principal components": (PCA(20, random_state=0).fit_transform(X), {}),
        "simulated: the covariances of digits": (simulated(X, y, 12, "all"), {}),
        "simulated: 12 dimensions, noise per pixel": (simulated(X, y, 12, "per pixel"), {}),
        "simulated: 12 dimensions, one noise variance": (simulated(X, y, 12, "one"), {}),
    }
    title("Digits: ten clusters")
    begin_table(("rows", "columns", "adjusted Rand index", "dimensions", "standard deviation of the noise", "seconds"))
    for name, (rows, params) in cases.items():
        start = time.process_time()
        fits = [SubspaceMixture(10, random_state=seed, **SETTINGS, **params).fit(rows) for seed in options.seeds]
        seconds = (time.process_time() - start) / len(fits)
        dimensions = np.concatenate([model.dimensions_ for model in fits])
        agreement = ", ".join(f"{adjusted_rand_score(y, model.labels_):.2f}" for model in fits)
        noise = np.mean([model.noise_variance_.mean() for model in fits]) ** 0.5
        found = f"{dimensions.min()} to {dimensions.max()}"
        row((name, rows.shape[1], agreement, found, f"{noise:.2f}", f"{seconds:.1f}"))
    values = np.mean([np.linalg.eigvalsh(np.cov(X[y == c].T))[::-1] for c in range(10)], axis=0)
    listed = ", ".join(f"{values[place - 1]:.2g}" for place in (1, 5, 10, 20, 30, 40, 50))
    show(
        f"\nVariances along the principal axes 1, 5, 10, 20, 30, 40 and 50 of a digit: {listed}. "
        f"{np.sum(variances < 4.0)} pixels have a variance below 4; the mean is {variances.mean():.0f}."
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        explain_digits(options)
        compare_scalings(options)
    settings = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
    finish(
        options, notes=f"Means over {len(options.seeds)} seeds; `{settings}`; one core; seconds are processor times."
    )
