"""Corpora and fits that several test files share."""

from functools import cache

import numpy as np
import scipy.sparse as sp

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus


@cache
def small_corpus():
    """60 documents of about 30 tokens over 40 words, the third document and the sixth word empty."""
    counts = make_lda_corpus(60, 40, 4, mean_length=30, random_state=1).data.tolil()
    counts[2] = 0
    counts[:, 5] = 0
    counts = counts.tocsr()
    counts.data.flags.writeable = False
    return counts


@cache
def small_fit(sampler="esca"):
    """Four topics of the small corpus; never change it."""
    return StochasticLDA(4, sampler=sampler, max_iter=20, thin=2, random_state=0).fit(small_corpus())


@cache
def easy_corpus():
    """2,400 documents of about 60 tokens over 150 words from five well separated topics, with the truth."""
    return make_lda_corpus(2400, 150, 5, mean_length=60, topic_word_prior=0.05, zipf_exponent=0.0, random_state=3)


def easy_split():
    """The first 2,000 documents of the easy corpus, and the last 400."""
    counts = easy_corpus().data
    return counts[:2000], counts[2000:]


def learned(model):
    """All attributes of a fit that hold numbers or names, as bytes."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_") and hasattr(model, name)]
    return {name: as_bytes(getattr(model, name)) for name in names}


def as_bytes(value):
    if isinstance(value, dict):
        return {name: as_bytes(part) for name, part in value.items()}
    if sp.issparse(value):
        return [part.tobytes() for part in (value.data, value.indices, value.indptr)]
    array = np.asarray(value)
    return None if array.dtype == object else array.tobytes()


def spy_on_priors(monkeypatch, kind, names):
    """A list that gets the prior of the proportions before each call of these methods of a model."""
    seen = []
    for name in names:
        method = getattr(kind, name)

        def spy(self, *arguments, method=method):
            seen.append(self.doc_topic_prior.copy())
            return method(self, *arguments)

        monkeypatch.setattr(kind, name, spy)
    return seen
