"""The corpora of the benchmarks: real counts from the folder named by SKMANIFOLD_DATA, or synthetic ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from skmanifold.datasets import make_lda_corpus

REAL = {"wiki": "wiki2018_counts.npz", "ng20": "ng20_train_counts.npz"}


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
