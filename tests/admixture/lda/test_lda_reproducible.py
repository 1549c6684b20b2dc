"""The same bytes for any number of threads, in any process, from any copy; and fractional counts rounded alike."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from skmanifold import StochasticLDA

from .._corpora import learned, small_corpus, small_fit

ROUNDS = pytest.mark.filterwarnings("ignore:X has fractional counts, which fit rounds at random:UserWarning")


_FIT_AND_PRINT = """
import hashlib
from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
X = make_lda_corpus(80, 50, 4, random_state=2).data * 0.7
digest = hashlib.sha256()
for sampler in ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb", "svb", "scir", "sgld", "sghmc"):
    lda = StochasticLDA(4, sampler=sampler, max_iter=6, thin=1, random_state=3).fit(X)
    digest.update(lda.components_.tobytes())
    digest.update(lda.posterior_["components"].tobytes())
    digest.update(lda.transform(X).tobytes())
for sampler in ("esca", "svb", "scir", "sghmc"):
    lda = StochasticLDA(4, sampler=sampler, random_state=3).partial_fit(X).partial_fit(X)
    digest.update(lda.components_.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.extended  # another process imports the package
@ROUNDS
def test_two_processes_agree_to_the_byte(capsys):
    other = subprocess.run(
        [sys.executable, "-c", _FIT_AND_PRINT],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    exec(_FIT_AND_PRINT, {})
    assert other == capsys.readouterr().out
    assert len(other.strip()) == hashlib.sha256().digest_size * 2


def test_seeds_differ_and_a_generator_moves_on():
    def fit(random_state):
        return learned(StochasticLDA(4, max_iter=5, random_state=random_state).fit(small_corpus()))

    generator = np.random.RandomState(0)
    assert fit(np.random.RandomState(0)) == fit(generator)
    assert fit(generator) != fit(np.random.RandomState(0))
    assert fit(0) != fit(1)
    assert fit(None) != fit(None)


# Fractional counts


def test_fractional_counts_are_taken_as_they_are_in_any_batch_and_position():
    lda = small_fit()
    X = np.random.default_rng(0).random((50, 40)) * 2
    whole = lda.transform(X)
    np.testing.assert_array_equal(whole[::-1], lda.transform(X[::-1]))
    np.testing.assert_array_equal(whole[[7]], lda.transform(X[[7]]))
    assert lda.score(X) == lda.score(X)
    assert learned(lda) == learned(small_fit())
    np.testing.assert_allclose(lda.transform(X), lda.transform(X * (1 + 1e-9)), atol=1e-6)
    X[0] = np.floor(X[0])
    np.testing.assert_array_equal(lda.transform(X)[0], lda.transform(X[:1])[0])  # there whole numbers alone
    assert lda.perplexity(X / 9) == pytest.approx(np.exp(-lda.score(X / 9)))


@ROUNDS
def test_equal_fractional_documents_are_rounded_apart_in_fit_and_alike_in_transform():
    X = np.tile([0.5, 0.5, 2.0, 0.5], (400, 1))
    lda = StochasticLDA(1, max_iter=2, random_state=0).fit(X)
    assert len(np.unique(lda.transform(X), axis=0)) == 1
    totals = lda.topic_word_counts_.toarray()[0]
    assert totals[2] == 800
    # Binomial(400, 1/2): mean 200, standard deviation 10.
    assert np.all(np.abs(totals[[0, 1, 3]] - 200) < 4 * 10)
    assert len(np.unique(totals[[0, 1, 3]])) > 1


@ROUNDS
@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.9])
def test_rounding_is_right_on_average(fraction):
    lda = StochasticLDA(1, max_iter=1, burn_in=0, random_state=1).fit(np.full((300, 20), 3 + fraction))
    means = lda.topic_word_counts_.toarray()[0] / 300
    spread = np.sqrt(fraction * (1 - fraction) / 300)
    assert abs(means.mean() - 3 - fraction) < 4 * spread / np.sqrt(20)
    # Columns are independent: the sum of squares over their variance is chi-square with 20 degrees of freedom.
    assert stats.chi2.ppf(1e-4, 20) < np.sum(((means - 3 - fraction) / spread) ** 2) < stats.chi2.ppf(1 - 1e-4, 20)
