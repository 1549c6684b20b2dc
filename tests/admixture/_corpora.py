"""Corpora and fits that several test files share."""

from functools import cache

import numpy as np

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus

SAMPLERS = ("esca", "collapsed_gibbs", "cvb0")


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


def learned(lda):
    """All that a fit leaves on an estimator, as bytes."""
    parts = {"components_": lda.components_.tobytes(), "counts": lda.topic_word_counts_.data.tobytes()}
    for name, draws in getattr(lda, "posterior_", {}).items():
        parts[name] = draws.tobytes()
    parts["trace"] = np.asarray(getattr(lda, "log_density_trace_", ())).tobytes()
    return parts
