"""Other LDA trainers with one small interface.

Each trainer is made from a CSR matrix of counts, the number of topics and the two priors; ``step()`` is one pass over
the data with one worker, ``topic_word()`` the current (K, V) matrix of word probabilities. Trainers whose library fits
a model in one call, which cannot be continued, have ``train(n_passes)`` before ``topic_word()``. A trainer whose
package is not installed is left out.
"""

from __future__ import annotations

import importlib.util
from threading import Semaphore, Thread

import numpy as np


class Tomotopy:
    """Collapsed Gibbs sampling in C++ with vector instructions."""

    name = "tomotopy"

    def __init__(self, X, n_components, alpha, beta, seed=1):
        import tomotopy

        self.shape = (n_components, X.shape[1])
        self.model = tomotopy.LDAModel(k=n_components, alpha=alpha, eta=beta, seed=seed)
        for words in documents_of(X):
            if words:
                self.model.add_doc(words)
        self.model.optim_interval = 0  # the priors stay fixed, as for all methods
        self.model.train(0, workers=1)

    def step(self):
        self.model.train(1, workers=1)

    def topic_word(self):
        topics = [self.model.get_topic_word_dist(topic) for topic in range(self.shape[0])]
        return in_columns(topics, self.model.used_vocabs, self.shape)


class InOneCall:
    """A trainer in Rust that makes all passes in one call, with a callback after every `n_passes_of_step` passes.

    A step lets a thread train until the callback, which waits for the next step. ``train`` is a separate fit.
    """

    n_passes_of_step = 8  # for each callback the libraries compute the log likelihood, which is a third of a pass
    _thread = None

    def __init__(self, X, n_components, alpha, beta, seed=1):
        self.shape = (n_components, X.shape[1])
        self.settings = {"alpha_sum": alpha * n_components, "beta": beta, "seed": seed}
        self.corpus = self.read(documents_of(X))

    def step(self):
        if self._thread is None:
            self._resume, self._waits = Semaphore(0), Semaphore(0)
            self._thread = Thread(target=self._train_in_steps, daemon=True)
            self._thread.start()
        else:
            self._resume.release()
        self._waits.acquire()

    def _train_in_steps(self):
        def wait(*progress):
            self._waits.release()
            self._resume.acquire()

        self.train(100_000, wait)

    def topic_word(self):
        return in_columns(self.topics(), self.model.vocabulary, self.shape)

    def passes(self, with_defaults):
        """Settings of passes: priors are fixed and the topics are those of the last pass, if not the defaults."""
        return {} if with_defaults else {"optimize_interval": 0, "num_samples": 1, "sample_interval": 1}


class Topica(InOneCall):
    """Mallet's sparse collapsed Gibbs sampling in Rust."""

    name = "topica"

    def read(self, documents):
        from topica import Corpus

        return Corpus.from_documents(list(documents))

    def train(self, n_passes, callback=None, with_defaults=False):
        from topica import LDA

        settings = self.settings | self.passes(with_defaults)
        of_fit = {name: settings.pop(name) for name in ("num_samples", "sample_interval") if name in settings}
        self.model = LDA(self.shape[0], **settings)
        if of_fit:
            of_fit["check_every"] = 0  # the log likelihood is not computed in other passes
        if callback:
            of_fit.update(progress=callback, progress_interval=self.n_passes_of_step)
        self.model.fit(self.corpus, iters=n_passes, **of_fit)

    def topics(self):
        return self.model.topic_word


class RustMallet(InOneCall):
    """The same in RustMallet, the program of Mallet's authors; its class reads texts and trains in one call."""

    name = "pyrmallet"

    def read(self, documents):
        from pyrmallet._rust_mallet import Corpus

        return Corpus.from_strings([" ".join(words) for words in documents], token_regex=r"\S+")

    def train(self, n_passes, callback=None, with_defaults=False):
        from pyrmallet._rust_mallet import train

        settings = self.settings | self.passes(with_defaults)
        if callback:
            settings.update(callback=callback, callback_interval=self.n_passes_of_step)
        self.model = train(self.corpus, num_topics=self.shape[0], iterations=n_passes, **settings)

    def topics(self):
        return self.model.topic_word_matrix()


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


def documents_of(X):
    """The words of each document, which are the numbers of the columns as text."""
    for row in range(X.shape[0]):
        entries = slice(X.indptr[row], X.indptr[row + 1])
        yield [str(word) for word in np.repeat(X.indices[entries], X.data[entries])]


def in_columns(topics, vocabulary, shape):
    """The (K, V) matrix of topics whose words are such texts; words that do not occur have a tiny probability."""
    out = np.full(shape, 1e-12)
    out[:, [int(word) for word in vocabulary]] = topics
    return out


def installed(names):
    """The trainers among `names` whose packages can be imported."""
    trainers = {"tomotopy": Tomotopy, "gensim": Gensim, "sklearn": ScikitLearn}
    return [trainers[name] for name in names if importlib.util.find_spec(name)]
