"""Proportions of new documents: documents per second and quality, of our `transform` and of other libraries.

The topics are those of one fit of `StochasticLDA` with default settings to nine tenths of the documents, and the prior
of the proportions is 1/K. scikit-learn and gensim get the pseudo-counts of words in these topics as their variational
parameters. tomotopy gets them as priors of words and no documents but one, with each word once, because it cannot infer
without a trained model. All other settings are defaults.

Documents are held-out documents, resampled with replacement. Each round processes other documents with all methods in
turn; times are processor time in one thread. Documents are converted to the format of gensim and tomotopy before the
clock starts. scikit-learn and gensim get one document of ten, and tomotopy one of a hundred.

Quality is the perplexity of document completion: each method infers proportions from a random half of the tokens of
1,000 held-out documents, and the other half is scored with these proportions and the same topics for all methods.

    python -m benchmarks.lda_transform --write
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks._corpora import load_counts, split_documents
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import StochasticLDA

SCORED = 1000


class Ours:
    """`StochasticLDA.transform`, from counts in a CSR array."""

    name = "StochasticLDA"
    package = "skmanifold"
    share = 1

    def __init__(self, lda, pseudo_counts):
        self.lda = lda

    def read(self, X):
        return X

    def infer(self, documents):
        return self.lda.transform(documents)


class ScikitLearn(Ours):
    """Variational Bayes: at most 100 passes over a document, until the mean change of a parameter is below 0.001."""

    name = "scikit-learn"
    package = "sklearn"
    share = 10

    def __init__(self, lda, pseudo_counts):
        from sklearn.decomposition import LatentDirichletAllocation
        from sklearn.decomposition._online_lda_fast import _dirichlet_expectation_2d

        K, V = pseudo_counts.shape
        self.lda = LatentDirichletAllocation(K, doc_topic_prior=lda.doc_topic_prior_[0])
        self.lda.fit(sp.csr_array(np.ones((1, V))))  # the topics are replaced
        self.lda.components_ = pseudo_counts
        self.lda.exp_dirichlet_component_ = np.exp(_dirichlet_expectation_2d(pseudo_counts))


class Gensim:
    """Variational Bayes: at most 50 passes over a document, until the mean change of a parameter is below 0.001."""

    name = package = "gensim"
    share = 10

    def __init__(self, lda, pseudo_counts):
        from gensim.models import LdaModel

        K, V = pseudo_counts.shape
        names = {word: str(word) for word in range(V)}
        self.model = LdaModel(
            id2word=names, num_topics=K, alpha=list(lda.doc_topic_prior_), eta=lda.topic_word_prior_, random_state=0
        )
        self.model.state.sstats = (pseudo_counts - lda.topic_word_prior_).astype(self.model.dtype)
        self.model.sync_state()

    def read(self, X):
        from gensim.matutils import Sparse2Corpus

        return list(Sparse2Corpus(X, documents_columns=False))

    def infer(self, documents):
        gamma, _ = self.model.inference(documents)
        return gamma / gamma.sum(axis=1, keepdims=True)


class Tomotopy:
    """Collapsed Gibbs sampling, 100 passes over a document; proportions are those of the last pass."""

    name = package = "tomotopy"
    share = 100

    def __init__(self, lda, pseudo_counts):
        import tomotopy

        K, V = pseudo_counts.shape
        self.model = tomotopy.LDAModel(k=K, alpha=lda.doc_topic_prior_[0], eta=lda.topic_word_prior_, seed=1)
        for word in range(V):
            self.model.set_word_prior(str(word), pseudo_counts[:, word].tolist())
        self.model.add_doc([str(word) for word in range(V)])
        self.model.optim_interval = 0
        self.model.train(0, workers=1)

    def read(self, X):
        rows = [np.repeat(X.indices[entries], X.data[entries]) for entries in rows_of(X)]
        return [self.model.make_doc([str(word) for word in words]) for words in rows]

    def infer(self, documents):
        return np.array(self.model.infer(documents, workers=1)[0])


def rows_of(X):
    return [slice(start, stop) for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True)]


def halves(X, seed=0):
    """Counts of a random half of the tokens of each document, and of the others."""
    first = X.copy()
    first.data = np.random.default_rng(seed).binomial(X.data, 0.5).astype(X.data.dtype)
    second = X - first
    for half in (first, second):
        half.eliminate_zeros()
    return sp.csr_array(first), sp.csr_array(second)


def perplexity(proportions, topics, X):
    """Of the tokens of documents with these proportions."""
    total = sum(
        float(X.data[entries] @ np.log(theta @ topics[:, X.indices[entries]]))
        for theta, entries in zip(proportions, rows_of(X), strict=True)
    )
    return np.exp(-total / X.sum())


def measure(options):
    X = load_counts(options.corpus)
    train, test = map(sp.csr_array, split_documents(X))
    observed, held_out = halves(test[:SCORED])
    chosen = np.random.default_rng(0).integers(0, test.shape[0], options.n_documents)
    parts = np.array_split(chosen, options.rounds)
    found_packages = [each for each in (Ours, ScikitLearn, Gensim, Tomotopy) if importlib.util.find_spec(each.package)]
    for K in options.n_components:
        lda = StochasticLDA(K, random_state=0).fit(train)
        pseudo_counts = lda.topic_word_counts_.toarray() + lda.topic_word_prior_
        topics = pseudo_counts / pseudo_counts.sum(axis=1, keepdims=True)
        methods = [each(lda, pseudo_counts) for each in found_packages]
        rates = {method.name: [] for method in methods}
        scores = {}
        for method in methods:  # this also loads machine code
            scores[method.name] = perplexity(method.infer(method.read(observed)), topics, held_out)
        for rows in parts:
            for method in methods:
                own_rows = rows[: max(1, len(rows) // method.share)]
                documents = method.read(test[own_rows])
                start = time.process_time()
                method.infer(documents)
                rates[method.name].append(len(own_rows) / (time.process_time() - start))
        title(f"{options.corpus}, K={K}")
        columns = "documents per second", "ratio of times", "perplexity of the other half"
        begin_table(("method", *columns))
        ours = np.array(rates[Ours.name])
        for name, of_rounds in rates.items():
            ratio = ours / of_rounds
            spread = f"{np.median(of_rounds):,.0f} ({min(of_rounds):,.0f} to {max(of_rounds):,.0f})"
            row((name, spread, f"{np.median(ratio):.2g}", f"{scores[name]:.1f}"))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--n-documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        measure(options)
    finish(
        options,
        "gensim",
        "tomotopy",
        notes=f"{options.n_documents:,} documents in {options.rounds} rounds; scikit-learn and gensim get one in ten, "
        "tomotopy one in a hundred. Medians (ranges) of processor time in one thread; the ratio is to the time of "
        "`StochasticLDA` in the same round.",
    )
