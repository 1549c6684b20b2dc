"""Tables with classes that no threshold of `merge_components` was chosen with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from benchmarks._corpora import data_folder
from benchmarks.imputation import read_frame

N_EMBEDDED = 50
N_FACES = 10


class Table(NamedTuple):
    """A function of the seed that returns rows and labels, the emission, and whether units of columns differ."""

    load: Callable
    emission: str = "gaussian"
    is_scaled: bool = True


def from_file(file, seed):
    table, classes = read_frame(file)
    return table.to_numpy(float), np.unique(classes, return_inverse=True)[1]


def digits(n_columns, seed):
    """Pixels that differ between rows, or their principal components."""
    X, labels = load_digits(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    return (PCA(n_columns, random_state=0).fit_transform(X) if n_columns else X), labels


def faces(seed):
    with np.load(data_folder() / "yaleb_32x32.npz") as file:
        X, labels = file["X"] / 255.0, file["y"].astype(int)
    is_first = labels < N_FACES
    return normalize(PCA(N_EMBEDDED, random_state=0).fit_transform(X[is_first])), labels[is_first]


def texts(counts, labels, seed):
    X = sp.csr_array(sp.load_npz(data_folder() / f"{counts}.npz"), dtype=float)
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    X = TruncatedSVD(N_EMBEDDED, random_state=0).fit_transform(tfidf)
    has_words = np.linalg.norm(X, axis=1) > 1e-9
    return normalize(X[has_words]), np.load(data_folder() / f"{labels}.npy")[has_words]


DIRECTIONS = {"emission": "von_mises_fisher", "is_scaled": False}
SCORED = {
    "digits": Table(partial(digits, None), is_scaled=False),
    "digits, 10 columns": Table(partial(digits, 10), is_scaled=False),
    "heart": Table(partial(from_file, "heart_statlog.csv.gz")),
    "faces": Table(faces, **DIRECTIONS),
    "BBC": Table(partial(texts, "bbc_counts", "bbc_labels"), **DIRECTIONS),
    "20 Newsgroups": Table(partial(texts, "ng20_test_counts", "ng20_test_labels"), **DIRECTIONS),
}
