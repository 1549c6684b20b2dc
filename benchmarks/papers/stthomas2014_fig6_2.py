"""Fig. 6.2 and 6.3 of St. Thomas et al. (2014): coherence of the positive and the negative words of orthogonal topics.

9,364 abstracts of NSF awards with 11,181 words as tf-idf, of which 500 are held out; 20 topics. Coherence is the mean
normalised pointwise mutual information (NPMI) of the ten most positive or the ten most negative words of a topic over
the training documents. The words at random places of the vocabulary, weighted by their document frequency, are the
lower reference. The paper has 13,092 abstracts with 78,343 words and bigrams, which are not available, and shows word
clouds without a figure of coherence.

The claims: the positive and the negative words of a topic are each thematically coherent; orthogonal topics are less
redundant.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.orthogonal_nsf import HELD_OUT, TOP_WORDS, load, repeated
from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture, StochasticLDA
from skmanifold.metrics import topic_coherence

NEEDS_DATA = True
N_TOPICS, N_SEEDS = 20, 3
METHODS = {
    "orthogonal": OrthogonalSphericalAdmixture,
    "spherical": SphericalAdmixture,
    "LDA": StochasticLDA,
}
RANDOM = "random words"


def cases(quick):
    """Settings of the runs."""
    passes, n_seeds = (5, 1) if quick else (200, N_SEEDS)
    return [
        {"method": method, "seed": seed, "passes": passes} for seed in range(n_seeds) for method in (*METHODS, RANDOM)
    ]


def coherence(weights, tfidf):
    """NPMI of the words of largest weight of each topic."""
    return topic_coherence(weights - weights.min(), tfidf[:-HELD_OUT], n_top_words=TOP_WORDS)


def run(method, seed, passes):
    """Coherence of positive and of negative words, and the share of words that another topic also has."""
    counts, tfidf, _ = load()
    if method == RANDOM:
        rng = np.random.default_rng(seed)
        frequency = np.asarray((counts > 0).sum(axis=0)).ravel()
        weights = -rng.exponential(size=(N_TOPICS, len(frequency))) / frequency  # the largest are drawn by frequency
    else:
        settings = {} if method == "LDA" else {"max_iter": passes}
        with threadpool_limits(1):
            model = METHODS[method](N_TOPICS, random_state=seed, n_jobs=1, **settings)
            model.fit((counts if method == "LDA" else tfidf)[:-HELD_OUT])
        weights = model.components_
    positive = coherence(weights, tfidf)
    signed = (weights < 0).any() and method != RANDOM
    negative = coherence(-weights, tfidf) if signed else np.array([np.nan])
    return {
        "positive": float(positive.mean()),
        "least_positive": float(positive.min()),
        "negative": float(negative.mean()),
        "least_negative": float(negative.min()),
        "repeated": float(repeated(weights)),
        "repeated_negative": float(repeated(-weights)) if signed else np.nan,
    }


def show(rows):
    """Medians and ranges over seeds."""
    names = ("positive", "least_positive", "negative", "least_negative", "repeated", "repeated_negative")
    title(f"NPMI of the top ten words of {N_TOPICS} topics: median (range) over seeds")
    head = ("positive words", "least of a topic", "negative words", "least of a topic")
    begin_table(("method", *head, "positive words that repeat", "negative words that repeat"))
    for method in (*METHODS, RANDOM):
        own = [each for each in rows if each["method"] == method]
        cells = []
        for name in names:
            values = [each[name] for each in own]
            cells.append("" if np.isnan(values).any() else spread(values, ".3f"))
        row((method, *cells))
