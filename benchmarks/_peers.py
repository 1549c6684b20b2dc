"""Other LDA trainers with one small interface.

Each trainer is made from a CSR matrix of counts, the number of topics and the two priors; ``step()`` is one pass over
the data with one worker, ``topic_word()`` the current (K, V) matrix of word probabilities. A trainer whose package is
not installed is left out.
"""

from __future__ import annotations

import importlib.util

import numpy as np


class Tomotopy:
    """Collapsed Gibbs sampling in C++ with vector instructions."""

    name = "tomotopy"

    def __init__(self, X, n_components, alpha, beta, seed=1):
        import tomotopy

        self.shape = (n_components, X.shape[1])
        self.model = tomotopy.LDAModel(k=n_components, alpha=alpha, eta=beta, seed=seed)
        for row in range(X.shape[0]):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            words = np.repeat(X.indices[entries], X.data[entries])
            if len(words):
                self.model.add_doc([str(word) for word in words])
        self.model.optim_interval = 0  # the priors stay fixed, as for all methods
        self.model.train(0, workers=1)
        self.columns = np.array([int(word) for word in self.model.used_vocabs])

    def step(self):
        self.model.train(1, workers=1)

    def topic_word(self):
        out = np.full(self.shape, 1e-12)
        for topic in range(self.shape[0]):
            out[topic, self.columns] = self.model.get_topic_word_dist(topic)
        return out


class Gensim:
    """Online variational Bayes in numpy and Cython."""

    name = "gensim"

    def __init__(self, X, n_components, alpha, beta, seed=1):
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LdaModel

        self.corpus = Sparse2Corpus(X, documents_columns=False)
        names = {word: str(word) for word in range(X.shape[1])}
        self.model = LdaModel(
            id2word=names, num_topics=n_components, alpha=[alpha] * n_components, eta=beta, random_state=seed
        )

    def step(self):
        self.model.update(self.corpus)

    def topic_word(self):
        return self.model.get_topics()


class ScikitLearn:
    """Online variational Bayes of scikit-learn, minibatches of 128 documents."""

    name = "scikit-learn"

    def __init__(self, X, n_components, alpha, beta, seed=1):
        from sklearn.decomposition import LatentDirichletAllocation

        self.X = X
        self.model = LatentDirichletAllocation(
            n_components,
            doc_topic_prior=alpha,
            topic_word_prior=beta,
            learning_method="online",
            total_samples=X.shape[0],
            random_state=seed,
        )

    def step(self):
        self.model.partial_fit(self.X)

    def topic_word(self):
        return self.model.components_ / self.model.components_.sum(axis=1, keepdims=True)


def installed(names):
    """The trainers among `names` whose packages can be imported."""
    trainers = {"tomotopy": Tomotopy, "gensim": Gensim, "sklearn": ScikitLearn}
    return [trainers[name] for name in names if importlib.util.find_spec(name)]
