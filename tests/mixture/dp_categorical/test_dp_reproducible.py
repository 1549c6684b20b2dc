"""The same bytes for any number of threads, in any process, from any copy; and fractional counts rounded alike."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture
from skmanifold.samplers import SCIR, Slice

from ..exponential_family._mixtures import (
    EMISSIONS,
    SAMPLERS,
    data_of,
    learned,
    make,
    predicted,
    small_counts,
    small_fit,
    small_table,
)

each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
each_emission = pytest.mark.parametrize("emission", EMISSIONS)


@pytest.mark.covering
@each_sampler
@pytest.mark.parametrize("n_chains", [1, 2])
def test_number_of_threads_changes_no_byte(sampler, n_chains, monkeypatch):
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._LEAST_ROWS", 20)
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._MOST_ROWS", 100)
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.model._LEAST_SLICES", 50)
    monkeypatch.setattr("skmanifold.emissions._categories._ROWS_MOVED", 100)
    monkeypatch.setattr("skmanifold.emissions._categories._CELLS_DRAWN", 100)
    X = make_categorical_mixture(700, 12, 4, missing=0.1, random_state=0).data
    fits = [
        make("categorical", sampler, max_iter=4, burn_in=1, thin=1, n_chains=n_chains, n_jobs=n_jobs, init=9).fit(X)
        for n_jobs in (1, 2, 3, -1)
    ]
    assert fits[0].posterior_["n_components"].max() > 1
    for other in fits[1:]:
        assert learned(other) == learned(fits[0])
        assert predicted(other, X) == predicted(fits[0], X)


@pytest.mark.parametrize("batch_size", [None, 7, 10_000, "auto"])
def test_number_of_threads_changes_no_byte_of_counts_for_any_batch_size(batch_size):
    fits = [make("multinomial", batch_size=batch_size, n_jobs=n_jobs).fit(small_counts()) for n_jobs in (1, 3)]
    assert learned(fits[0]) == learned(fits[1])


def test_the_batch_size_is_used_and_all_rows_are_one_batch():
    fits = {size: learned(make("multinomial", batch_size=size).fit(small_counts())) for size in (None, 7, 50, 999)}
    assert fits[None] == fits[50] == fits[999]
    assert fits[7] != fits[None]


_FIT_AND_PRINT = """
import hashlib
from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture, make_lda_corpus
X = make_categorical_mixture(60, 5, 3, missing=0.1, random_state=1).data
counts = make_lda_corpus(40, 20, 3, random_state=2).data * 0.7
digest = hashlib.sha256()
for emission, data in (("categorical", X), ("multinomial", counts)):
    for sampler in ("slice", "scir", "sgrld", "sgrhmc"):
        mixture = DPCategoricalMixture(emission, sampler=sampler, max_iter=6, thin=1, random_state=3).fit(data)
        for draws in mixture.posterior_.values():
            digest.update(draws.tobytes())
        digest.update(mixture.labels_.tobytes())
        digest.update(mixture.score_samples(data).tobytes())
    stream = DPCategoricalMixture(emission, sampler="scir", random_state=3).partial_fit(data).partial_fit(data)
    digest.update(stream.weights_.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.long
def test_two_processes_agree_to_the_byte(capsys):
    other = subprocess.run(
        [sys.executable, "-c", _FIT_AND_PRINT], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    exec(_FIT_AND_PRINT, {})
    assert other == capsys.readouterr().out
    assert len(other.strip()) == hashlib.sha256().digest_size * 2


@each_emission
@each_sampler
def test_fit_again_with_an_integer_seed_changes_nothing(emission, sampler):
    mixture = make(emission, sampler)
    for _ in range(2):
        assert learned(mixture.fit(data_of(emission))) == learned(small_fit(emission, sampler))


def test_seeds_differ_and_a_generator_moves_on():
    def fit(random_state):
        return learned(make("categorical", random_state=random_state).fit(small_table()))

    generator = np.random.RandomState(0)
    assert fit(np.random.RandomState(0)) == fit(generator)
    assert fit(generator) != fit(np.random.RandomState(0))
    assert fit(0) != fit(1)
    assert fit(None) != fit(None)


@each_sampler
def test_chains_are_independent_and_the_first_does_not_depend_on_how_many(sampler):
    one, three = (make("categorical", sampler, n_chains=n).fit(small_table()) for n in (1, 3))
    np.testing.assert_array_equal(three.posterior_["labels"][0], one.posterior_["labels"][0])
    np.testing.assert_array_equal(three.log_density_trace_[0], one.log_density_trace_[0])
    assert len(np.unique(three.posterior_["labels"], axis=0)) == 3


def test_fewer_draws_of_labels_change_no_other_draw():
    whole = make("categorical", max_iter=14, thin=1).fit(small_table()).posterior_
    one = 4 * 60 + 24 * 15 * 50  # labels, and room for fifty components
    for max_draws_bytes, kept in (
        (10 * one, range(10)),
        (5 * one, range(1, 10, 2)),
        (4 * one - 1, (1, 5, 9)),
        (2 * one, (4, 9)),
        (one, (9,)),
    ):
        thinned = make("categorical", max_iter=14, thin=1, max_draws_bytes=max_draws_bytes).fit(small_table())
        np.testing.assert_array_equal(thinned.posterior_["labels"], whole["labels"][:, [*kept]])
        width = thinned.posterior_["weights"].shape[2]
        np.testing.assert_array_equal(thinned.posterior_["weights"], whole["weights"][:, [*kept], :width])
        for name in ("log_joint", "n_components", "concentration"):
            np.testing.assert_array_equal(thinned.posterior_[name], whole[name])


@pytest.mark.parametrize("sampler", [Slice(n_split_merge=2), SCIR(0.1)], ids=str)
def test_clone_is_unfitted_with_equal_parameters(sampler):
    labels = np.arange(60) % 3
    mixture = make("categorical", sampler, init=labels, concentration_prior=[2, 3]).fit(small_table())
    copy = clone(mixture)
    assert copy.get_params()["sampler"].get_params() == sampler.get_params()
    assert copy.sampler is not mixture.sampler
    np.testing.assert_array_equal(copy.init, labels)
    with pytest.raises(NotFittedError):
        copy.predict(small_table())
    assert learned(copy.fit(small_table())) == learned(mixture)


@each_emission
@each_sampler
def test_pickle_keeps_all_that_was_learned(emission, sampler):
    mixture, X = small_fit(emission, sampler), data_of(emission)
    copy = pickle.loads(pickle.dumps(mixture))
    assert learned(copy) == learned(mixture)
    assert predicted(copy, X) == predicted(mixture, X)
    np.testing.assert_array_equal(copy.co_clustering(), mixture.co_clustering())


# Where chains begin


@pytest.mark.parametrize(
    "init", [np.arange(60) % 4, (7 * (np.arange(60) % 4)).tolist(), np.arange(60).astype(np.uint8) % 4]
)
def test_labels_to_begin_with_are_names(init):
    expected = make("categorical", init=np.arange(60) % 4).fit(small_table())
    assert learned(make("categorical", init=init).fit(small_table())) == learned(expected)


def test_chains_begin_where_they_are_told():
    """With so large a concentration that they would never meet, without a split, merge or move in one pass."""
    X = make_categorical_mixture(90, 30, 3, category_prior=0.05, random_state=0)
    frozen = {"sampler": Slice(0), "max_iter": 1, "burn_in": 0, "thin": 1, "concentration": 1e-9, "random_state": 0}
    told = DPCategoricalMixture("categorical", init=X.labels + 5, **frozen).fit(X.data)
    assert len(np.unique(np.c_[told.labels_, X.labels], axis=0)) == told.n_components_ == 3
    assert DPCategoricalMixture("categorical", init=1, **frozen).fit(X.data).n_components_ == 1
    assert (
        DPCategoricalMixture("categorical", init=10**6, **{**frozen, "concentration": 5.0}).fit(X.data).n_components_
        > 9
    )


def test_auto_is_a_hundred_clusters_and_not_more_than_rows():
    expected = make("categorical", init=60).fit(small_table())
    assert learned(make("categorical", init="auto").fit(small_table())) == learned(expected)
    many = make_categorical_mixture(150, 3, random_state=0).data
    assert learned(make("categorical", init="auto").fit(many)) == learned(make("categorical", init=100).fit(many))


@pytest.mark.parametrize(("n_rows", "n_moves"), [(10_000, 20), (10_001, 3)])
def test_auto_is_fewer_split_merge_moves_of_many_rows(n_rows, n_moves):
    codes = np.arange(n_rows)[:, np.newaxis] % 3
    mixture = DPCategoricalMixture("categorical", init=3, max_iter=2, random_state=0)
    auto, given = (clone(mixture).set_params(sampler=Slice(moves)).fit(codes) for moves in ("auto", n_moves))
    assert learned(mixture.fit(codes)) == learned(auto) == learned(given)


# Fractional counts

ROUNDS = pytest.mark.filterwarnings("ignore:X has fractional counts, which fit rounds at random:UserWarning")


@ROUNDS
def test_fractional_counts_are_rounded_by_place_in_fit_and_weights_elsewhere():
    X = np.tile([0.5, 0.5, 2.0, 0.5], (400, 1))
    mixture = make("multinomial", concentration=1e-6, init=1, max_iter=6).fit(X)
    assert mixture.n_components_ == 1
    totals = mixture._estimate.statistics.categories[:, 0]
    assert totals[2] == 800
    # Binomial(400, 1/2): mean 200, standard deviation 10.
    assert np.all(np.abs(totals[[0, 1, 3]] - 200) < 4 * 10)
    assert len(np.unique(totals[[0, 1, 3]])) > 1
    assert len(np.unique(mixture.score_samples(X))) == 1
    whole = mixture.score_samples(np.random.default_rng(0).random((50, 4)) * 2)
    assert len(np.unique(whole)) > 10
    assert mixture.score_samples(sp.csr_matrix(X))[0] == mixture.score_samples(X)[0]
    near = mixture.score_samples([[0.4] * 4, [0.4 + 1e-7] * 4, [1.0] * 4])
    assert near[0] == pytest.approx(near[1], abs=1e-6)
    assert mixture.score_samples([[1.0] * 4])[0] == near[2]  # whatever the other rows hold
    cells, prior = totals + 0.5, np.array([0.4] * 4)
    expected = (gammaln(cells + prior) - gammaln(cells)).sum() + gammaln(cells.sum()) - gammaln(cells.sum() + 1.6)
    assert mixture.score_samples([[0.4] * 4])[0] == pytest.approx(expected, rel=1e-5)  # but for another component


@ROUNDS
def test_rounding_is_right_on_average():
    mixture = make("multinomial", concentration=1e-6, init=1, max_iter=6).fit(np.full((300, 20), 3.3))
    means = mixture._estimate.statistics.categories[:, 0] / 300
    assert abs(means.mean() - 3.3) < 4 * np.sqrt(0.3 * 0.7 / 6000)
