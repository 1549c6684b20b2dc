"""How long a stream must be: held-out perplexity of streams of docstrings, and planted topics after a few epochs.

Minibatches of 100 docstrings with hashed words through ``partial_fit``, compared with the word frequencies of the
training documents. Then the mean cosine of ten planted topics with those found in 2,000 documents, three epochs of
minibatches of 50.

    python benchmarks/lda_short_streams.py
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import train_test_split

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings, make_lda_corpus
from skmanifold.metrics import document_completion, match_topics

SAMPLERS = ("scir", "esca")


def stream_docstrings(n_test):
    train, test = train_test_split(load_docstrings().data, random_state=0)
    hasher = HashingVectorizer(n_features=2**16, alternate_sign=False, norm=None)
    X, X_test = hasher.transform(train), hasher.transform(test[:n_test])
    frequencies = np.asarray(X.sum(axis=0)).reshape(1, -1) + 0.1
    print(f"word frequencies: {document_completion(frequencies, X_test, [1.0]).perplexity:.0f}")
    for sampler in SAMPLERS:
        lda = StochasticLDA(10, sampler=sampler, total_samples=X.shape[0], random_state=0)
        for start in range(0, X.shape[0], 100):
            lda.partial_fit(X[start : start + 100])
            if (start + 100) % 1000 == 0:
                print(f"{sampler}, {start + 100} documents: {lda.perplexity(X_test):.0f}", flush=True)


def stream_planted(seed):
    corpus = make_lda_corpus(n_samples=2000, n_features=1000, n_components=10, random_state=seed)
    found = []
    for sampler in SAMPLERS:
        lda = StochasticLDA(10, sampler=sampler, total_samples=2000, random_state=seed)
        rng = np.random.default_rng(seed)
        for _ in range(3):
            rows = rng.permutation(2000)
            for start in range(0, 2000, 50):
                lda.partial_fit(corpus.data[rows[start : start + 50]])
        cosine = match_topics(lda.components_, corpus.components).similarity.mean()
        found.append(f"{sampler} {cosine:.3f}")
    print(f"planted, seed {seed}: {', '.join(found)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-test", type=int, default=200, help="documents that are scored")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="of the planted corpora")
    options = parser.parse_args()
    stream_docstrings(options.n_test)
    for seed in options.seeds:
        stream_planted(seed)


if __name__ == "__main__":
    main()
