"""Real text: found through the environment variable SKMANIFOLD_DATA, skipped where it is not set."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import StochasticLDA
from skmanifold.metrics import document_completion

FOLDER = os.environ.get("SKMANIFOLD_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="SKMANIFOLD_DATA names no folder of real corpora")


@pytest.fixture(scope="module")
def bbc():
    """BBC news, 2,225 articles: a fifth held out, and the rest."""
    X = sp.csr_array(sp.load_npz(Path(FOLDER) / "bbc_counts.npz"))
    held_out = np.arange(X.shape[0]) % 5 == 0
    return X[held_out], X[~held_out]


def held_out_scores(lda, train, test):
    return document_completion(lda.fit(train).components_, test, lda.doc_topic_prior_).per_document


@pytest.mark.long
def test_esca_predicts_news_as_collapsed_gibbs_does(bbc):
    test, train = bbc
    settings = {"doc_topic_prior": 0.1, "topic_word_prior": 0.1, "max_iter": 200}
    scores = {}
    for sampler in ("esca", "collapsed_gibbs"):
        fits = [StochasticLDA(20, sampler=sampler, **settings, random_state=seed) for seed in (0, 1, 2)]
        sums = [held_out_scores(lda, train, test) for lda in fits]
        scores[sampler] = np.median([s.log_likelihood.sum() / s.n_tokens.sum() for s in sums])
    assert abs(scores["esca"] - scores["collapsed_gibbs"]) < 0.02


@pytest.mark.extended
def test_topics_predict_news_better_than_word_frequencies(bbc):
    test, train = bbc
    lda = StochasticLDA(20, max_iter=60, random_state=0).fit(train)
    topics = held_out_scores(lda, train, test)
    frequencies = document_completion(train.sum(axis=0)[np.newaxis] + 0.1, test, [1.0]).per_document
    gain = topics.log_likelihood - frequencies.log_likelihood
    assert gain.mean() > 10 * gain.std() / np.sqrt(len(gain))
