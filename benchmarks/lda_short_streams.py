"""Necessary length of a stream: held-out perplexity of streams of docstrings, and true topics after a few epochs.

Minibatches of 100 docstrings with hashed words through ``partial_fit``, compared with the word frequencies of the
training documents. Then the mean cosine of ten true topics with those estimated from 2,000 documents, three epochs of
minibatches of 50.

    python -m benchmarks.lda_short_streams
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import train_test_split

from benchmarks._results import add_write, begin_table, finish, row, show, title
from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings, make_lda_corpus
from skmanifold.metrics import document_completion, match_topics

SAMPLERS = ("scir", "esca")


def stream_docstrings(n_test):
    train, test = train_test_split(load_docstrings().data, random_state=0)
    hasher = HashingVectorizer(n_features=2**16, alternate_sign=False, norm=None)
    X, X_test = hasher.transform(train), hasher.transform(test[:n_test])
    frequencies = np.asarray(X.sum(axis=0)).reshape(1, -1) + 0.1
    title("Perplexity of held-out docstrings, by documents seen")
    shown = range(1000, X.shape[0], 1000)
    begin_table(("sampler", *(f"{n:,}" for n in shown)))
    for sampler in SAMPLERS:
        lda, cells = StochasticLDA(10, sampler=sampler, total_samples=X.shape[0], random_state=0), []
        for start in range(0, X.shape[0], 100):
            lda.partial_fit(X[start : start + 100])
            if start + 100 in shown:
                cells.append(f"{lda.perplexity(X_test):.0f}")
        row((f'`"{sampler}"`', *cells))
    show(f"\nWord frequencies alone: {document_completion(frequencies, X_test, [1.0]).perplexity:.0f}.")


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
        found.append(f"{cosine:.3f}")
    row((seed, *found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-test", type=int, default=200, help="number of held-out documents")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="seeds of the synthetic corpora")
    add_write(parser)
    options = parser.parse_args()
    stream_docstrings(options.n_test)
    title("Mean cosine with ten true topics")
    begin_table(("seed", *(f'`"{sampler}"`' for sampler in SAMPLERS)))
    for seed in options.seeds:
        stream_planted(seed)
    finish(options)


if __name__ == "__main__":
    main()
