"""The corpora of the benchmarks: real counts from the folder named by SKMANIFOLD_DATA, docstrings, or synthetic."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from skmanifold.datasets import load_docstrings, make_lda_corpus

REAL = {"wiki": "wiki2018_counts.npz", "ng20": "ng20_train_counts.npz"}
LABELLED = {"BBC": ("bbc_counts", "bbc_labels"), "NSF": ("nsf_counts", "nsf_directorate")}
SPLIT = {"20 Newsgroups": "ng20", "three newsgroups": "ng20diff"}  # in two parts


def load_counts(name):
    """Counts as a CSR array of int32: "wiki", "ng20" (real) or "synthetic" (12M tokens, V = 50,000)."""
    if name == "synthetic":
        return make_lda_corpus(
            59_000, 50_000, 200, mean_length=200, topic_word_prior=0.01, dtype=np.float32, random_state=0
        ).data
    return sp.csr_array(sp.load_npz(data_folder() / REAL[name]))


def data_folder():
    """The folder of real data."""
    folder = os.environ.get("SKMANIFOLD_DATA")
    if not folder:
        raise SystemExit("Set the environment variable SKMANIFOLD_DATA to the folder with the data.")
    return Path(folder)


def split_documents(X, seed=0):
    """A random tenth of the documents for testing, the rest for training; words that only the former have are left out.

    Libraries give such words different probabilities, from none to that of the prior, and a score would compare these.
    """
    order = np.random.default_rng(seed).permutation(X.shape[0])
    n_test = X.shape[0] // 10
    train, test = X[order[n_test:]], X[order[:n_test]]
    seen = np.flatnonzero(np.asarray(train.sum(axis=0)).ravel())
    return train[:, seen], test[:, seen]


def read_given(name, what="counts"):
    """Training rows and held-out rows of a given split, "ng20" or "ng20diff", and their labels."""
    folder, parts = data_folder(), ("train", "test")
    rows = (sp.csr_array(sp.load_npz(folder / f"{name}_{part}_{what}.npz"), dtype=np.float64) for part in parts)
    return *rows, *(np.load(folder / f"{name}_{part}_labels.npy") for part in parts)


def read_labelled(corpus, seed):
    """Counts of training rows and held-out rows, and their labels; the split is given or a random one, 2/3 and 1/3."""
    if corpus in SPLIT:
        return read_given(SPLIT[corpus])
    if corpus == "docstrings":
        texts, y = load_docstrings(return_X_y=True)
        words = CountVectorizer(stop_words="english", token_pattern=r"\b[a-z]{3,}\b")
        X = sp.csr_array(words.fit_transform(texts), dtype=np.float64)
    else:
        counts, labels = LABELLED[corpus]
        X = sp.csr_array(sp.load_npz(data_folder() / f"{counts}.npz"), dtype=np.float64)
        y = np.load(data_folder() / f"{labels}.npy")
    train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [2 * len(y) // 3])
    return X[train], X[test], y[train], y[test]
