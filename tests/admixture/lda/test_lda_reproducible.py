"""The same bytes for any number of threads, in any process, from any copy; and fractional counts rounded alike."""

import hashlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skmanifold import StochasticLDA
from skmanifold.samplers import ESCA

from .._corpora import easy_split, learned, small_corpus, small_fit

SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb", "svb")
ROUNDS = pytest.mark.filterwarnings("ignore:X has fractional counts, which fit rounds at random:UserWarning")


@pytest.mark.covering
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("n_chains", [1, 3])
def test_number_of_threads_changes_no_byte(sampler, n_chains):
    X = easy_split()[0][:700]
    fits = [
        StochasticLDA(6, sampler=sampler, max_iter=5, thin=2, n_chains=n_chains, random_state=4, n_jobs=n_jobs).fit(X)
        for n_jobs in (1, 2, 3, -1)
    ]
    for other in fits[1:]:
        assert learned(other) == learned(fits[0])
        np.testing.assert_array_equal(other.transform(X), fits[0].transform(X))
        assert other.score(X) == fits[0].score(X)


def test_number_of_threads_changes_no_byte_of_a_stream():
    X = easy_split()[0][:600]

    def stream(n_jobs):
        lda = StochasticLDA(6, total_samples=600, random_state=4, n_jobs=n_jobs)
        for start in range(0, 600, 200):
            lda.partial_fit(X[start : start + 200])
        return learned(lda)

    assert stream(1) == stream(2) == stream(3)


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


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_fit_again_with_an_integer_seed_changes_nothing(sampler):
    lda = StochasticLDA(4, sampler=sampler, max_iter=20, thin=2, random_state=0)
    assert learned(lda.fit(small_corpus())) == learned(small_fit(sampler))
    assert learned(lda.fit(small_corpus())) == learned(small_fit(sampler))


def test_seeds_differ_and_a_generator_moves_on():
    def fit(random_state):
        return learned(StochasticLDA(4, max_iter=5, random_state=random_state).fit(small_corpus()))

    generator = np.random.RandomState(0)
    assert fit(np.random.RandomState(0)) == fit(generator)
    assert fit(generator) != fit(np.random.RandomState(0))
    assert fit(0) != fit(1)
    assert fit(None) != fit(None)


def test_chains_are_independent_and_the_first_does_not_depend_on_how_many():
    one, three = (
        StochasticLDA(4, max_iter=6, n_chains=n, random_state=0).fit(small_corpus()).log_density_trace_ for n in (1, 3)
    )
    np.testing.assert_array_equal(three[0], one[0])
    assert len(np.unique(three)) == three.size


def test_clone_is_unfitted_with_equal_parameters():
    lda = StochasticLDA(4, sampler=ESCA(n_average=3), doc_topic_prior=[1, 2, 3, 4], max_iter=4).fit(small_corpus())
    copy = clone(lda)
    assert copy.get_params()["sampler__n_average"] == 3
    assert copy.sampler is not lda.sampler
    with pytest.raises(NotFittedError):
        copy.transform(small_corpus())


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_pickle_keeps_all_that_was_learned(sampler):
    lda = small_fit(sampler)
    copy = pickle.loads(pickle.dumps(lda))
    assert learned(copy) == learned(lda)
    np.testing.assert_array_equal(copy.transform(small_corpus()), lda.transform(small_corpus()))
    assert copy.score(small_corpus()) == lda.score(small_corpus())


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


def test_proportions_of_fractions_are_the_fixed_point():
    lda = small_fit()
    c, alpha, phi = np.random.default_rng(1).random(40), lda.doc_topic_prior_, lda.components_.astype(float)
    theta = lda.transform([c])[0]
    shares = theta[:, np.newaxis] * phi
    again = (c * shares / shares.sum(axis=0)).sum(axis=1) + alpha
    np.testing.assert_allclose(theta, again / again.sum(), atol=2e-6)
    heavy, light = lda.transform([1000 * c])[0], lda.transform([0.01 * c])[0]
    assert np.abs(heavy - light).max() > 0.01  # the prior weighs less


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


def test_whole_counts_are_not_rounded():
    lda = StochasticLDA(3, max_iter=3, random_state=1).fit(small_corpus())
    np.testing.assert_allclose(lda.topic_word_counts_.sum(axis=0), small_corpus().sum(axis=0))
